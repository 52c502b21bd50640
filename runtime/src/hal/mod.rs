//! Devices, buffers, command buffers, semaphores, executables.

mod allocator;
mod buffer;
mod buffer_view;
mod channel;
mod command_buffer;
mod commands;
mod device;
mod driver;
mod element_type;
mod executable;
mod fence;
mod file;
pub mod format;
pub mod local;
mod memory;
mod narrow_float;
mod pool;
mod queue;
mod semaphore;
mod storage;
#[cfg(test)]
mod tests;
mod wait;

pub use allocator::{Allocator, AllocatorStatistics};
pub use buffer::Buffer;
pub use buffer_view::BufferView;
pub use channel::Channel;
pub use command_buffer::{BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, DispatchFlags, Workgroups};
pub use commands::{BufferBinding, ExecutionStage};
pub use device::{Device, DeviceOptions, Fences};
pub use driver::{DeviceInfo, DeviceUri, Driver, DriverRegistry};
pub use element_type::{ElementType, EncodingType, NumericalType};
pub use executable::Executable;
pub use fence::Fence;
pub use file::File;
pub use memory::{BufferParameters, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
pub use narrow_float::NarrowFloat;
pub use pool::MINIMUM_ALIGNMENT;
pub use semaphore::{MAXIMUM_PAYLOAD, Semaphore};
pub use wait::{Deadline, Reached};
