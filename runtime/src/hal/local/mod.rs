//! Devices that run on the host's processors, and the executable loaders that they share.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(in crate::hal) mod cost;
mod driver;
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
pub mod task;

pub use super::storage::BindingPointer;
pub(super) use driver::default_drivers;
pub use executable::{
    DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, LocalExecutable, MAXIMUM_BINDINGS, Worker,
};
pub(crate) use execution::dispatch_inline;
pub(crate) use library::has_feature;
pub use loading::{find_loader, load_executable};
pub use plugin::ExecutablePlugin;

/// Every loader of this build, in the order in which they are asked. The one list of them.
#[must_use]
pub fn default_loaders() -> Vec<Arc<dyn ExecutableLoader>> {
    vec![
        Arc::new(loaders::EmbeddedElfLoader),
        Arc::new(loaders::SystemLibraryLoader::default()),
        Arc::new(loaders::VmvxLoader::default()),
    ]
}
