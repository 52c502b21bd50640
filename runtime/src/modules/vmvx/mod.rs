//! The `vmvx` module: kernels of the runtime's own that bytecode executables call, over byte buffers of the VM.
//!
//! It stands on [`vm`](crate::vm) alone, as the loader of such executables brings it along. Every function reads and writes
//! its buffers by copies of some hundred elements at a time: what runs on another worker meanwhile may write to the same
//! bytes, so that no slice of them is ever lent, and the loops between the copies run over memory of their own.

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

/// The module in its newest version.
#[must_use]
pub fn module() -> NativeModule<VmvxState> {
    NativeModule::new(NAME, v0_0::VERSION, || Ok(VmvxState), v0_0::functions()).with_fork(VmvxState::fork)
}

/// The same for translated modules alone, which call its methods.
#[must_use]
pub fn direct_module() -> NativeModule<VmvxState> {
    NativeModule::new(NAME, v0_0::VERSION, || Ok(VmvxState), v0_0::direct_functions()).with_fork(VmvxState::fork)
}

#[cfg(test)]
mod tests;
