//! The `hal_loader` module: executables of programs that dispatch their own workgroups, on the calling thread.
//!
//! Modules compiled with `--iree-execution-model=inline-dynamic` import it beside `hal_inline`, which gives them buffers.

mod functions;
pub mod v0_0;
pub mod v0_1;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Result;
use crate::hal::local::{ExecutableLoader, default_loaders};
use crate::vm::{ModuleState, NativeModule};

/// The name that programs import the module by.
pub const NAME: &str = "hal_loader";

/// What the module gives to the programs that import it.
#[derive(Clone, Debug)]
pub struct HalLoaderOptions {
    /// Loaders of executables, asked in this order.
    pub loaders: Vec<Arc<dyn ExecutableLoader>>,
}

impl Default for HalLoaderOptions {
    /// Every loader of this build.
    fn default() -> HalLoaderOptions {
        HalLoaderOptions { loaders: default_loaders() }
    }
}

/// The module's state within a context.
#[derive(Clone, Debug)]
pub struct HalLoaderState {
    options: Arc<HalLoaderOptions>,
}

impl ModuleState for HalLoaderState {}

impl HalLoaderState {
    fn fork(&self) -> Result<HalLoaderState> {
        Ok(self.clone())
    }
}

/// The module in all its versions.
#[must_use]
pub fn module(options: HalLoaderOptions) -> NativeModule<HalLoaderState> {
    let options = Arc::new(options);
    let make_state = move || Ok(HalLoaderState { options: Arc::clone(&options) });
    let functions = [v0_1::functions(), v0_0::functions()].into_iter().flatten().collect();
    NativeModule::new(NAME, v0_1::VERSION, make_state, functions)
        .with_versions("versions 0.0 and 0.1, for modules of compilers 3.0 to 3.13")
        .with_fork(HalLoaderState::fork)
}
