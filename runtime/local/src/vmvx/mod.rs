//! The `vmvx` module: built-in kernels that bytecode executables call, over byte buffers of the VM.
//!
//! It depends on `vm` only, because the loader of such executables needs it. Every function copies some
//! hundred elements at a time between its buffers and local memory, where its loops run. It never borrows slices of a
//! buffer, because another worker may write to the same bytes concurrently.

mod elementwise;
mod product;
mod region;
mod tiles;

use crate::bytecode::for_each_vmvx_function;
use crate::vm::{DirectModule, ModuleState, NativeModule, direct_table, native_table};

/// The name that programs import the module by.
pub const NAME: &str = "vmvx";

/// The newest version, which modules declare as their minimum.
pub const VERSION: u32 = 0;

/// The module's state within a context: none.
#[derive(Clone, Copy, Debug)]
pub struct VmvxState;

impl ModuleState for VmvxState {}

/// Creates the newest version of the module.
#[must_use]
pub fn module() -> NativeModule<VmvxState> {
    NativeModule::of_state(NAME, VERSION, VmvxState, for_each_vmvx_function!(native_table VmvxState))
}

/// Creates the module without packed calls, for sessions that contain only translated modules.
#[must_use]
pub fn direct_module() -> DirectModule<VmvxState> {
    DirectModule::new(NAME, VERSION, VmvxState, for_each_vmvx_function!(direct_table))
}

#[cfg(test)]
mod tests;
