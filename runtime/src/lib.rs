//! The runtime of Incarnate: reads, verifies and runs modules that the IREE compiler made.
//!
//! The rooms, each of which uses only those below it:
//!
//! | module | what it holds |
//! |---|---|
//! | [`support`] | what translated modules are made with |
//! | [`session`] | the friendly face: instances, sessions, functions, tensors |
//! | [`modules`] | native modules that programs import: `hal` and its kin |
//! | [`parameters`] | named bytes that programs load from archives beside their modules |
//! | [`hal`] | devices, buffers, command buffers, semaphores, executables |
//! | [`vm`] | values, references, lists, buffers, contexts, the interpreter |
//! | [`ir`] | functions as typed values and basic blocks; analyses of them |
//! | [`bytecode`] | archive framing, the ISA table, decoder, verifier, text form |
//!
//! Without the default feature `std`, on `core` and `alloc`, there are [`bytecode`], [`ir`] and [`vm`], the buffers of [`hal`],
//! and [`modules::hal_inline`].
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod atomic;
pub mod hal;
#[cfg(feature = "std")]
pub mod mapping;
pub mod modules;
#[cfg(feature = "std")]
pub mod parameters;
#[allow(unsafe_code, reason = "calls versions of code for processors that were found to have what they need")]
pub mod processor;
#[cfg(feature = "std")]
pub mod session;
pub mod support;

pub use incarnate_bytecode as bytecode;
#[cfg(feature = "ir")]
pub use incarnate_bytecode::ir;
pub use incarnate_vm as vm;
#[cfg(feature = "std")]
pub use incarnate_vm::profile;
pub use incarnate_vm::{Error, Place, Result, ResultExt, StatusCode, native_functions, ref_object};
