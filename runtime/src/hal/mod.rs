//! Devices, buffers, command buffers, semaphores, executables.

mod allocator;
mod buffer;
mod buffer_view;
mod element_type;
mod fence;
pub mod local;
mod memory;
mod pool;
mod semaphore;
mod storage;
mod wait;

pub use allocator::{Allocator, AllocatorStatistics};
pub use buffer::Buffer;
pub use buffer_view::BufferView;
pub use element_type::{ElementType, EncodingType, NumericalType};
pub use fence::Fence;
pub use memory::{BufferParameters, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
pub use pool::MINIMUM_ALIGNMENT;
pub use semaphore::{MAXIMUM_PAYLOAD, Semaphore};
pub use wait::{Deadline, Reached};
