//! The `hal` module: devices, queues, buffers and executables, as programs import them.
//!
//! Each import is a method of [`HalState`], in the file of its object. The names and calling conventions stand in
//! [`imports`]. Functions of older versions are forms of the newest functions ([`imports::older`]).

mod buffer;
mod channel;
mod command_buffer;
mod device;
mod executable;
mod fence;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

pub use super::TraceSink;
use super::bytes::{constant_words, message_text, with_bytes};
pub(in crate::modules) use device::{OptionalFence, fences, limits_of};

use crate::Result;
use crate::bytecode::{for_each_hal_function, imports};
use crate::hal::local::loaders::Loader;
use crate::hal::local::{ExecutableLoader, Loaders};
use crate::hal::{Device, PendingOperations};
use crate::vm::{DirectModule, ModuleState, NativeModule, Signal, direct_table, native_table};

/// The name that programs import the module by.
pub const NAME: &str = "hal";

/// The versions that are there, for messages.
const VERSIONS: &str = "versions 0.5 to 0.7, for modules of compilers 3.0 to 3.13";

/// The newest version, which modules declare as their minimum.
pub const VERSION: u32 = 7;

/// Options of the module.
#[derive(Clone, Debug)]
pub struct HalOptions {
    /// The devices, by ordinal; the first is the default.
    pub devices: Vec<Arc<Device>>,
    /// The sink of traced buffer views.
    pub trace_sink: TraceSink,
    /// The executable loaders for devices without their own.
    pub loaders: Loaders,
    /// The pending operations of the session, which fail when the last module that submits them is dropped.
    pub pending: Arc<PendingOperations>,
}

impl Default for HalOptions {
    /// No devices, and every loader of this build.
    fn default() -> HalOptions {
        HalOptions {
            devices: Vec::new(),
            trace_sink: TraceSink::default(),
            loaders: Loaders::all(),
            pending: Arc::default(),
        }
    }
}

/// The module's state within a context.
#[derive(Clone)]
pub struct HalState {
    pub(super) options: Arc<HalOptions>,
    /// The executable loaders of the importing program.
    pub(super) loaders: Arc<Loaders>,
}

impl ModuleState for HalState {}

impl fmt::Debug for HalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HalState").field(&self.options.devices).finish()
    }
}

impl HalState {
    fn new(options: HalOptions) -> HalState {
        let mut options = options;
        let loaders = Arc::new(core::mem::take(&mut options.loaders));
        HalState { options: Arc::new(options), loaders }
    }

    /// Returns the state for a program with its own loaders; see [`Loaders::of_program`].
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

/// Creates the module in all its versions, for the given devices.
#[must_use]
pub fn module(options: HalOptions) -> NativeModule<HalState> {
    NativeModule::of_state(NAME, VERSION, HalState::new(options), for_each_hal_function!(native_table HalState))
        .with_older_forms(imports::older::HAL)
        .with_versions(VERSIONS)
        .with_notify(HalState::notify)
}

/// Creates the module without packed calls, for sessions that contain only translated modules.
#[must_use]
pub fn direct_module(options: HalOptions) -> DirectModule<HalState> {
    DirectModule::new(NAME, VERSION, HalState::new(options), for_each_hal_function!(direct_table))
        .with_versions(VERSIONS)
        .with_notify(HalState::notify)
}

#[cfg(test)]
mod tests;
