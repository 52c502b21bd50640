//! Devices that run on the host's processors, and the executable loaders that they share.

pub(in crate::hal) mod cost;
mod driver;
pub mod engine;
mod executable;
pub(super) mod execution;
mod grid;
#[allow(unsafe_code, reason = "calls kernels through the executable library ABI; see the module's documentation")]
pub mod library;
#[allow(unsafe_code, reason = "maps machine code into memory and runs its initialisers")]
pub mod loaders;
mod loading;
#[allow(unsafe_code, reason = "loads and calls executable plugins; see the module's documentation")]
pub mod plugin;
mod sync;

pub use super::kernel::{DispatchArguments, FunctionInfo, LocalExecutable, MAXIMUM_BINDINGS, Worker};
pub use super::storage::BindingPointer;
pub(crate) use driver::default_device;
pub(super) use driver::{DEFAULT_DRIVER, default_drivers};
pub use executable::{ExecutableLoader, ExecutableParameters};
pub(crate) use execution::dispatch_inline;
pub(crate) use library::has_feature;
pub use loading::Loaders;
pub use plugin::ExecutablePlugin;
