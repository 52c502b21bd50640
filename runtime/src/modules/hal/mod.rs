//! The `hal` module: devices and everything on them, as programs import it.
//!
//! Each import is a method of [`HalState`], in the file of the object that it belongs to. A version of the module is a
//! table of names and methods ([`v0_7`]); versions share the methods, so that another one is another table and whatever
//! differs.

mod buffer;
mod channel;
mod command_buffer;
mod device;
mod executable;
mod fence;
pub mod v0_7;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use super::TraceSink;
use super::bytes::{constant_words, message_text, with_bytes};

use crate::Result;
use crate::hal::Device;
use crate::hal::local::loaders::Loader;
use crate::hal::local::{ExecutableLoader, Loaders};
use crate::vm::{ModuleState, NativeFunction, NativeModule, Signal};

/// The name that programs import the module by.
pub const NAME: &str = "hal";

/// What the module gives to the programs that import it.
#[derive(Clone, Debug)]
pub struct HalOptions {
    /// The devices, by ordinal; the first is the default.
    pub devices: Vec<Arc<Device>>,
    /// Where buffer views go that a program traces.
    pub trace_sink: TraceSink,
    /// Where executables come from on devices that have no loaders of their own.
    pub loaders: Loaders,
}

impl Default for HalOptions {
    /// No devices, and every loader of this build.
    fn default() -> HalOptions {
        HalOptions { devices: Vec::new(), trace_sink: TraceSink::default(), loaders: Loaders::all() }
    }
}

/// The module's state within a context.
#[derive(Clone, Debug)]
pub struct HalState {
    pub(super) options: Arc<HalOptions>,
    /// Where executables of the program come from that imports the module.
    pub(super) loaders: Arc<Loaders>,
}

impl ModuleState for HalState {}

impl HalState {
    fn fork(&self) -> Result<HalState> {
        Ok(self.clone())
    }

    /// The same state for a program that brings along its loaders; see [`Loaders::of_program`].
    pub(crate) fn for_program(&self, program: Option<Arc<dyn ExecutableLoader>>, loaders: &[Loader]) -> HalState {
        HalState { options: self.options.clone(), loaders: Arc::new(self.loaders.of_program(program, loaders)) }
    }

    fn notify(&self, signal: Signal) -> Result<()> {
        if matches!(signal, Signal::Suspend | Signal::LowMemory) {
            self.options.devices.iter().for_each(|device| device.trim());
        }
        Ok(())
    }
}

/// The module in its newest version, for the given devices.
#[must_use]
pub fn module(options: HalOptions) -> NativeModule<HalState> {
    with_functions(options, v0_7::VERSION, v0_7::functions())
}

/// The same for translated modules alone, which call its methods.
#[must_use]
pub fn direct_module(options: HalOptions) -> NativeModule<HalState> {
    with_functions(options, v0_7::VERSION, v0_7::direct_functions())
}

/// The module in the version of a table of functions.
fn with_functions(
    options: HalOptions,
    version: u32,
    functions: Vec<NativeFunction<HalState>>,
) -> NativeModule<HalState> {
    let mut options = options;
    let loaders = Arc::new(core::mem::take(&mut options.loaders));
    let state = HalState { options: Arc::new(options), loaders };
    let make_state = move || Ok(state.clone());
    NativeModule::new(NAME, version, make_state, functions).with_fork(HalState::fork).with_notify(HalState::notify)
}

#[cfg(test)]
mod tests;
