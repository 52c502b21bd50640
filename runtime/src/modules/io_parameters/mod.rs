//! The `io_parameters` module: parameters into buffers of a device and back.
//!
//! What a program asks for stands in three of its constants: a table of where keys begin and how long they are, the keys, and
//! a table of spans.

mod functions;
pub mod v0_0;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Result;
use crate::parameters::ParameterProvider;
use crate::vm::{ModuleState, NativeFunction, NativeModule, Signal};

/// The name that programs import the module by.
pub const NAME: &str = "io_parameters";

/// What the module gives to the programs that import it.
#[derive(Clone, Debug, Default)]
pub struct IoParametersOptions {
    /// Who has parameters; the first that has a scope serves it.
    pub providers: Vec<Arc<dyn ParameterProvider>>,
}

/// The module's state within a context.
#[derive(Clone, Debug)]
pub struct IoParametersState {
    options: Arc<IoParametersOptions>,
}

impl ModuleState for IoParametersState {}

impl IoParametersState {
    fn fork(&self) -> Result<IoParametersState> {
        Ok(self.clone())
    }

    fn notify(&self, signal: Signal) -> Result<()> {
        self.options.providers.iter().try_for_each(|provider| provider.notify(signal))
    }
}

/// The module in its newest version.
#[must_use]
pub fn module(options: IoParametersOptions) -> NativeModule<IoParametersState> {
    with_functions(options, v0_0::functions())
}

/// The same for translated modules alone, which call its methods.
#[must_use]
pub fn direct_module(options: IoParametersOptions) -> NativeModule<IoParametersState> {
    with_functions(options, v0_0::direct_functions())
}

fn with_functions(
    options: IoParametersOptions,
    functions: Vec<NativeFunction<IoParametersState>>,
) -> NativeModule<IoParametersState> {
    let options = Arc::new(options);
    let make_state = move || Ok(IoParametersState { options: Arc::clone(&options) });
    NativeModule::new(NAME, v0_0::VERSION, make_state, functions)
        .with_fork(IoParametersState::fork)
        .with_notify(IoParametersState::notify)
}

#[cfg(test)]
mod tests;
