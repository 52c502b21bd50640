//! The `io_parameters` module: copies parameters into device buffers and back.
//!
//! A request consists of three constants of the program: a table of the keys' offsets and lengths, the keys, and a
//! table of spans.

mod functions;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Result;
use crate::bytecode::for_each_io_parameters_function;
use crate::hal::PendingOperations;
use crate::parameters::ParameterProvider;
use crate::vm::{DirectModule, ModuleState, NativeModule, Signal, direct_table, native_table};

/// The name that programs import the module by.
pub const NAME: &str = "io_parameters";

/// The newest version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// Options of the module.
#[derive(Clone, Debug, Default)]
pub struct IoParametersOptions {
    /// The parameter providers. The first provider of a scope serves it.
    pub providers: Vec<Arc<dyn ParameterProvider>>,
    /// The pending operations of the session; see [`HalOptions::pending`](crate::modules::hal::HalOptions::pending).
    pub pending: Arc<PendingOperations>,
}

/// The module's state within a context.
#[derive(Clone, Debug)]
pub struct IoParametersState {
    options: Arc<IoParametersOptions>,
}

impl ModuleState for IoParametersState {}

impl IoParametersState {
    fn new(options: IoParametersOptions) -> IoParametersState {
        IoParametersState { options: Arc::new(options) }
    }

    fn notify(&self, signal: Signal) -> Result<()> {
        self.options.providers.iter().try_for_each(|provider| provider.notify(signal))
    }
}

/// Creates the newest version of the module.
#[must_use]
pub fn module(options: IoParametersOptions) -> NativeModule<IoParametersState> {
    NativeModule::of_state(
        NAME,
        VERSION,
        IoParametersState::new(options),
        for_each_io_parameters_function!(native_table IoParametersState),
    )
    .with_notify(IoParametersState::notify)
}

/// Creates the module without packed calls, for sessions that contain only translated modules.
#[must_use]
pub fn direct_module(options: IoParametersOptions) -> DirectModule<IoParametersState> {
    DirectModule::new(NAME, VERSION, IoParametersState::new(options), for_each_io_parameters_function!(direct_table))
        .with_notify(IoParametersState::notify)
}

#[cfg(test)]
mod tests;
