//! What devices are implemented with.
//!
//! A device submits operations to its [`Backend`] by a [`Queue`]. The backend executes the [`Commands`] of a command buffer: it resolves each command's ranges ([`Commands::resolve`]), checks them, and runs it.

#[cfg(feature = "std")]
pub use super::commands::executable::{DeviceExecutable, ExecutableCache};
#[cfg(feature = "std")]
pub use super::commands::inline::{InlineDispatch, InlineExecution};
#[cfg(feature = "std")]
pub use super::commands::kernel::{KernelNeeds, too_many_bindings};
#[cfg(feature = "std")]
pub use super::commands::ranges::BufferRange;
#[cfg(feature = "std")]
pub use super::commands::recorded::{Binding, Command, Commands, Dispatch, WorkgroupCount};
pub use super::memory::buffer::resolve_range;
pub use super::memory::device_memory::{DeviceAllocator, DeviceMemory, HostMemory};
#[cfg(feature = "std")]
pub use super::memory::movable::{Access, PinGuard};
#[cfg(feature = "std")]
pub use super::memory::transients::Transients;
#[cfg(feature = "std")]
pub use super::queue::backend::{Backend, Submitted};
#[cfg(feature = "std")]
pub use super::queue::completion::Completion;
#[cfg(feature = "std")]
pub use super::queue::operation::Operation;
#[cfg(feature = "std")]
pub use super::queue::{Queue, is_reached};
#[cfg(feature = "std")]
pub use super::sync::semaphore::WaitParticipant;
