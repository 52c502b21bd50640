//! Devices that run on the host's processors, and the executable loaders that they share.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "modules choose lengths; see `vm::array`"))]

extern crate alloc;

#[cfg(feature = "local-task")]
mod cost;
mod dispatch;
#[cfg(feature = "local-task")]
pub mod engine;
mod executable;
mod execution;
mod grid;
#[allow(unsafe_code, reason = "calls kernels through the executable library ABI; see the module's documentation")]
pub mod library;
#[allow(unsafe_code, reason = "maps machine code into memory and runs its initialisers")]
pub mod loaders;
mod loading;
#[allow(unsafe_code, reason = "loads and calls executable plugins; see the module's documentation")]
pub mod plugin;
mod sync;
mod unwinding;
pub mod vmvx;
mod worker_number;

pub use dispatch::dispatch_inline;
pub use executable::{ExecutableLoader, ExecutableParameters};
pub use incarnate_hal::BindingPointer;
pub use incarnate_hal::kernel::{
    Coarsening, DispatchArguments, FunctionInfo, LocalExecutable, MAXIMUM_BINDINGS, Worker,
};
pub use library::has_feature;
pub use loading::Loaders;
pub use plugin::ExecutablePlugin;
pub use sync::SyncBackend;

use incarnate_bytecode as bytecode;
use incarnate_hal as hal;
use incarnate_vm as vm;
use incarnate_vm::{Error, Result, ResultExt, StatusCode, profile};
