//! What devices are implemented with.
//!
//! A device submits operations to its [`Backend`] by a [`Queue`]. The backend executes the [`Commands`] of a command buffer: it resolves each command's ranges ([`Commands::resolve`]), checks them, and runs it.

pub use super::buffer::resolve_range;
#[cfg(feature = "std")]
pub use super::command_buffer::InlineExecution;
#[cfg(feature = "std")]
pub use super::commands::{Binding, Command, Commands, Dispatch, WorkgroupCount};
pub use super::device_memory::{DeviceAllocator, DeviceMemory, HostMemory};
#[cfg(feature = "std")]
pub use super::executable::{DeviceExecutable, ExecutableCache};
#[cfg(feature = "std")]
pub use super::kernel::too_many_bindings;
#[cfg(feature = "std")]
pub use super::movable::{Access, PinGuard};
#[cfg(feature = "std")]
pub use super::pending::{Queue, is_reached};
#[cfg(feature = "std")]
pub use super::queue::{Backend, Completion, Operation, Submitted};
#[cfg(feature = "std")]
pub use super::semaphore::WaitParticipant;
