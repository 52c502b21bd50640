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

mod allocator;
#[cfg(feature = "std")]
mod arguments;
#[doc(hidden)]
pub mod atomic;
pub mod backend;
#[cfg(feature = "std")]
mod backend_data;
mod borrow;
mod buffer;
mod buffer_view;
#[cfg(feature = "std")]
mod channel;
#[cfg(feature = "std")]
mod command_buffer;
#[cfg(feature = "std")]
mod commands;
mod constant;
mod device_memory;
#[cfg(feature = "std")]
mod elision;
mod exclusive;
#[cfg(feature = "std")]
mod executable;
#[cfg(feature = "std")]
mod fence;
#[cfg(feature = "std")]
mod file;
mod flags;
#[cfg(feature = "std")]
pub mod format;
#[cfg(feature = "std")]
mod growth;
#[cfg(feature = "std")]
pub mod kernel;
#[cfg(all(feature = "std", any(unix, windows)))]
pub mod mapping;
#[cfg(all(feature = "std", not(any(unix, windows))))]
#[path = "mapping/absent.rs"]
pub mod mapping;
mod memory;
mod movable;
mod narrow_float;
#[cfg(feature = "std")]
mod pending;
mod pin;
mod pool;
#[cfg(feature = "std")]
mod queue;
#[cfg(feature = "std")]
mod reached;
#[cfg(feature = "std")]
mod remote;
#[cfg(feature = "std")]
mod semaphore;
mod storage;
#[cfg(feature = "std")]
mod transfers;
#[cfg(feature = "std")]
mod wait;

pub use allocator::{Allocator, AllocatorStatistics, COPIED_CONSTANTS};
pub use borrow::{BorrowScope, InputsOnlyRead};
pub use buffer::Buffer;
pub use buffer_view::BufferView;
#[cfg(feature = "std")]
pub use channel::Channel;
#[cfg(feature = "std")]
pub use command_buffer::{BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, DispatchFlags, Workgroups};
#[cfg(feature = "std")]
pub use commands::{BufferBinding, ExecutionStage};
pub use exclusive::ExclusiveBytes;
#[cfg(feature = "std")]
pub use executable::Executable;
#[cfg(feature = "std")]
pub use fence::Fence;
#[cfg(feature = "std")]
pub use file::File;
pub use incarnate_bytecode::{ElementType, EncodingType, NumericalType};
pub use memory::{BufferParameters, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};
pub use narrow_float::NarrowFloat;
#[cfg(feature = "std")]
pub use pending::PendingOperations;
pub use pool::MINIMUM_ALIGNMENT;
#[cfg(feature = "std")]
pub use queue::{CallLimits, Fences, QueueAffinity, SignalFence};
#[cfg(feature = "std")]
pub use reached::Reached;
#[cfg(feature = "std")]
pub use semaphore::{MAXIMUM_PAYLOAD, Semaphore};
pub use storage::BindingPointer;
#[cfg(feature = "std")]
pub use transfers::Transfers;
#[cfg(feature = "std")]
pub use wait::Deadline;

use incarnate_bytecode as bytecode;
use incarnate_vm as vm;
#[cfg(test)]
use incarnate_vm::StatusCode;
use incarnate_vm::{Error, Result, ref_object};
#[cfg(feature = "std")]
use incarnate_vm::{ResultExt, profile};
