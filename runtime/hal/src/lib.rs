//! The hardware abstraction layer: buffers, command buffers, queues, semaphores, fences, executables.
//!
//! The crate names no backend: a device is implemented by a type with the trait [`backend::Backend`]. Code for the host's
//! processors has the trait [`kernel::LocalExecutable`]; a device with memory and code of its own implements
//! [`backend::DeviceAllocator`] and [`backend::ExecutableCache`].
//!
//! Without the default feature `std`, on `core` and `alloc`, the crate consists of buffers, buffer views and the allocator:
//! what programs need that run inline.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "modules choose lengths; see `vm::array`"))]

extern crate alloc;

#[doc(hidden)]
pub mod atomic;
pub mod backend;
#[cfg(feature = "std")]
mod commands;
mod flags;
#[cfg(feature = "std")]
pub mod format;
mod memory;
mod narrow_float;
#[cfg(feature = "std")]
mod queue;
#[cfg(feature = "std")]
mod sync;

#[cfg(feature = "std")]
pub use commands::channel::Channel;
#[cfg(feature = "std")]
pub use commands::command_buffer::{CommandBuffer, CommandBufferMode, CommandCategory, DispatchFlags, Workgroups};
#[cfg(feature = "std")]
pub use commands::executable::Executable;
#[cfg(feature = "std")]
pub use commands::kernel;
#[cfg(feature = "std")]
pub use commands::recorded::{BufferBinding, BufferRef, ExecutionStage};
pub use incarnate_bytecode::{ElementType, EncodingType, NumericalType};
pub use memory::address::BindingPointer;
pub use memory::allocator::{Allocator, AllocatorStatistics, COPIED_CONSTANTS};
pub use memory::borrow::BorrowScope;
pub use memory::buffer::Buffer;
pub use memory::buffer_view::BufferView;
pub use memory::exclusive::ExclusiveBytes;
#[cfg(feature = "std")]
pub use memory::mapping;
pub use memory::parameters::{BufferParameters, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
pub use memory::pool::MINIMUM_ALIGNMENT;
pub use memory::promise::InputsOnlyRead;
pub use narrow_float::NarrowFloat;
#[cfg(feature = "std")]
pub use queue::completion::{QueueAffinity, SignalFence};
#[cfg(feature = "std")]
pub use queue::file::File;
#[cfg(feature = "std")]
pub use queue::pending::PendingOperations;
#[cfg(feature = "std")]
pub use queue::transfers::Transfers;
#[cfg(feature = "std")]
pub use queue::{CallLimits, Fences};
#[cfg(feature = "std")]
pub use sync::fence::Fence;
#[cfg(feature = "std")]
pub use sync::reached::Reached;
#[cfg(feature = "std")]
pub use sync::semaphore::{MAXIMUM_PAYLOAD, Semaphore};
#[cfg(feature = "std")]
pub use sync::wait::Deadline;

use incarnate_bytecode as bytecode;
use incarnate_vm as vm;
#[cfg(test)]
use incarnate_vm::StatusCode;
use incarnate_vm::{Error, Result, ref_object};
#[cfg(feature = "std")]
use incarnate_vm::{ResultExt, profile};
