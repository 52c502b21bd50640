//! The `hal_inline` module: buffers and buffer views of programs that run on the calling thread, without a device.
//!
//! Modules compiled with `--iree-execution-model=inline-static` or `inline-dynamic` import it. Their buffers are host
//! memory, which the program accesses through each buffer's storage, a `!vm.buffer`. The module works without `std`.

mod functions;

use alloc::sync::Arc;

use super::TraceSink;
use crate::Result;
use crate::bytecode::for_each_hal_inline_function;
use crate::hal::Allocator;
use crate::vm::{DirectModule, ModuleState, NativeModule, Signal, direct_table, native_table};

/// The name that programs import the module by.
pub const NAME: &str = "hal_inline";

/// The newest version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// Options of the module.
#[derive(Clone, Debug, Default)]
pub struct HalInlineOptions {
    /// The allocator of buffers.
    pub allocator: Arc<Allocator>,
    /// The sink of traced buffer views.
    pub trace_sink: TraceSink,
}

/// The module's state within a context.
#[derive(Clone, Debug)]
pub struct HalInlineState {
    pub(super) options: Arc<HalInlineOptions>,
}

impl ModuleState for HalInlineState {}

impl HalInlineState {
    fn new(options: HalInlineOptions) -> HalInlineState {
        HalInlineState { options: Arc::new(options) }
    }

    fn notify(&self, signal: Signal) -> Result<()> {
        if matches!(signal, Signal::Suspend | Signal::LowMemory) {
            self.options.allocator.trim();
        }
        Ok(())
    }
}

/// Creates the newest version of the module.
#[must_use]
pub fn module(options: HalInlineOptions) -> NativeModule<HalInlineState> {
    NativeModule::of_state(
        NAME,
        VERSION,
        HalInlineState::new(options),
        for_each_hal_inline_function!(native_table HalInlineState),
    )
    .with_notify(HalInlineState::notify)
}

/// Creates the module without packed calls, for sessions that contain only translated modules.
#[must_use]
pub fn direct_module(options: HalInlineOptions) -> DirectModule<HalInlineState> {
    DirectModule::new(NAME, VERSION, HalInlineState::new(options), for_each_hal_inline_function!(direct_table))
        .with_notify(HalInlineState::notify)
}

#[cfg(test)]
mod tests;
