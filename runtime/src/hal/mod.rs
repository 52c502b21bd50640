//! Devices, buffers, command buffers, semaphores, executables.
//!
//! Without `std` there are buffers, buffer views and the allocator: what programs need that run inline.

mod allocator;
mod buffer;
mod buffer_view;
#[cfg(feature = "std")]
mod channel;
#[cfg(feature = "std")]
mod command_buffer;
#[cfg(feature = "std")]
mod commands;
#[cfg(feature = "std")]
mod device;
#[cfg(feature = "std")]
mod driver;
mod element_type;
#[cfg(feature = "std")]
mod executable;
pub mod executable_format;
#[cfg(feature = "std")]
mod fence;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
pub mod format;
#[cfg(feature = "std")]
mod kernel;
mod late;
mod loan;
#[cfg(feature = "std")]
pub mod local;
mod memory;
#[cfg(feature = "std")]
mod moves;
#[cfg(feature = "std")]
mod narrow_float;
mod pin;
mod pool;
#[cfg(feature = "std")]
mod queue;
#[cfg(feature = "std")]
mod semaphore;
mod storage;
#[cfg(all(test, feature = "std"))]
mod tests;
#[cfg(feature = "std")]
mod transfers;
#[cfg(feature = "std")]
mod wait;

pub use allocator::{Allocator, AllocatorStatistics, COPIED_CONSTANTS};
pub use buffer::Buffer;
pub use buffer_view::BufferView;
#[cfg(feature = "std")]
pub use channel::Channel;
#[cfg(feature = "std")]
pub use command_buffer::{BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, DispatchFlags, Workgroups};
#[cfg(feature = "std")]
pub use commands::{BufferBinding, ExecutionStage};
#[cfg(feature = "std")]
pub use device::{Device, DeviceOptions, Fences};
#[cfg(feature = "std")]
pub use driver::{DeviceInfo, DeviceUri, Driver, DriverRegistry};
pub use element_type::{ElementType, EncodingType, NumericalType};
#[cfg(feature = "std")]
pub use executable::Executable;
#[cfg(feature = "std")]
pub use fence::Fence;
#[cfg(feature = "std")]
pub use file::File;
#[cfg(feature = "std")]
pub(crate) use loan::BorrowScope;
pub use loan::InputsOnlyRead;
#[cfg(feature = "std")]
pub(crate) use local::default_device;
pub use memory::{BufferParameters, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
#[cfg(feature = "std")]
pub use narrow_float::NarrowFloat;
pub use pool::MINIMUM_ALIGNMENT;
#[cfg(feature = "std")]
pub use queue::SignalFence;
#[cfg(feature = "std")]
pub use semaphore::{MAXIMUM_PAYLOAD, Semaphore};
pub use storage::BindingPointer;
#[cfg(feature = "std")]
pub use transfers::Transfers;
#[cfg(feature = "std")]
pub use wait::{Deadline, Reached};
