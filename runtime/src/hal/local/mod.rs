//! Devices that run on the host's processors, and the executable loaders that they share.

use alloc::sync::Arc;
use alloc::vec::Vec;

mod driver;
mod executable;
pub(super) mod execution;
mod sync;

pub(super) use driver::default_drivers;
pub use executable::{
    BindingPointer, DispatchArguments, ExecutableLoader, ExecutableParameters, FunctionInfo, LocalExecutable,
    MAXIMUM_BINDINGS, Worker,
};

/// Every loader of this build, in the order in which they are asked. The one list of them.
#[must_use]
pub fn default_loaders() -> Vec<Arc<dyn ExecutableLoader>> {
    Vec::new()
}

/// Whether the host's processor has a feature, by the name that LLVM gives it; `None` for names that are not known.
pub(super) fn cpu_feature(_name: &str) -> Option<bool> {
    None
}
