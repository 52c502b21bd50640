//! The `vmvx` module: built-in kernels that bytecode executables call, over byte buffers of the VM.
//!
//! It depends on `vm` only, because the loader of such executables needs it. Every function copies some
//! hundred elements at a time between its buffers and local memory, where its loops run. It never borrows slices of a
//! buffer, because another worker may write to the same bytes concurrently.

mod elementwise;
mod product;
mod region;
mod tiles;
pub mod v0_0;

use crate::Result;
use crate::vm::{ModuleState, NativeModule};

/// The name that programs import the module by.
pub const NAME: &str = "vmvx";

/// The module's state within a context: none.
#[derive(Clone, Copy, Debug)]
pub struct VmvxState;

impl ModuleState for VmvxState {}

impl VmvxState {
    fn fork(&self) -> Result<VmvxState> {
        Ok(*self)
    }
}

/// Creates the newest version of the module.
#[must_use]
pub fn module() -> NativeModule<VmvxState> {
    NativeModule::new(NAME, v0_0::VERSION, || Ok(VmvxState), v0_0::functions()).with_fork(VmvxState::fork)
}

/// Creates the module without packed calls, for sessions that contain only translated modules.
#[must_use]
pub fn direct_module() -> NativeModule<VmvxState> {
    NativeModule::new(NAME, v0_0::VERSION, || Ok(VmvxState), v0_0::direct_functions()).with_fork(VmvxState::fork)
}

#[cfg(test)]
mod tests;
