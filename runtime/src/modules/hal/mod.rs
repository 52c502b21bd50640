//! The `hal` module: devices and everything on them, as programs import it.
//!
//! Each import is a method of [`HalState`], in the file of the object that it belongs to. A version of the module is a
//! table of names and methods ([`v0_7`]); older ones ([`v0_6`], [`v0_5`]) are tables of what differs from the next one,
//! and the methods that lead to its own.

mod buffer;
mod channel;
mod command_buffer;
mod device;
mod executable;
mod fence;
pub mod v0_5;
pub mod v0_6;
pub mod v0_7;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

pub use super::TraceSink;
use super::bytes::{constant_words, message_text, with_bytes};
pub(in crate::modules) use device::{OptionalFence, fences};

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
#[derive(Clone)]
pub struct HalState {
    pub(super) options: Arc<HalOptions>,
    /// Where executables of the program come from that imports the module.
    pub(super) loaders: Arc<Loaders>,
}

impl ModuleState for HalState {}

impl fmt::Debug for HalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HalState").field(&self.options.devices).finish()
    }
}

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

/// The module in all its versions, for the given devices.
#[must_use]
pub fn module(options: HalOptions) -> NativeModule<HalState> {
    with_functions(options, [v0_7::functions(), v0_6::functions(), v0_5::functions()])
}

/// The same for translated modules alone, which call its methods.
#[must_use]
pub fn direct_module(options: HalOptions) -> NativeModule<HalState> {
    with_functions(options, [v0_7::direct_functions(), v0_6::direct_functions(), v0_5::direct_functions()])
}

/// The module of the functions of its versions, newest first.
fn with_functions(options: HalOptions, versions: [Vec<NativeFunction<HalState>>; 3]) -> NativeModule<HalState> {
    let mut options = options;
    let loaders = Arc::new(core::mem::take(&mut options.loaders));
    let state = HalState { options: Arc::new(options), loaders };
    let make_state = move || Ok(state.clone());
    let functions = versions.into_iter().flatten().collect();
    NativeModule::new(NAME, v0_7::VERSION, make_state, functions)
        .with_versions("versions 0.5 to 0.7, for modules of compilers 3.0 to 3.13")
        .with_fork(HalState::fork)
        .with_notify(HalState::notify)
}

#[cfg(test)]
mod tests;
