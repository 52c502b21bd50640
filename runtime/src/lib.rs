//! Runs modules of the IREE compiler: sessions, tensors, native modules, devices, parameters, and support for translated code.
//!
//! Each module uses only those below it in this table. Those from [`hal`] on are crates of their own; this one adds devices by
//! name to [`hal`].
//!
//! | module | contains |
//! |---|---|
//! | [`support`] | everything that generated code uses |
//! | [`session`] | sessions, functions, tensors |
//! | [`modules`] | native modules that programs import, such as `hal` |
//! | [`parameters`] | named bytes that programs load from archives |
//! | [`hal`] | devices, buffers, command buffers, semaphores, executables |
//! | [`vm`] | values, references, lists, buffers, contexts, the interpreter |
//! | [`ir`] | functions in SSA form, and analyses of them |
//! | [`bytecode`] | archives, the ISA table, decoder, verifier, text form |
//!
//! Without the default feature `std`, on `core` and `alloc`, the crate consists of [`bytecode`], [`ir`], [`vm`], the buffers of
//! [`hal`], [`modules::hal_inline`], [`support`], and sessions without a device: [`session::Session::inline`].
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(feature = "std")]
mod devices;
pub mod modules;
#[cfg(feature = "std")]
pub mod parameters;
#[allow(unsafe_code, reason = "calls versions of code for processors that were found to have what they need")]
pub mod processor;
pub mod session;
pub mod support;
#[cfg(all(feature = "web", target_family = "wasm"))]
pub mod web;

/// Devices, buffers, command buffers, semaphores, executables.
///
/// Without `std` there are buffers, buffer views and the allocator: what programs need that run inline.
pub mod hal {
    #[cfg(feature = "std")]
    pub use crate::devices::{
        Device, DeviceInfo, DeviceOptions, DeviceUri, Driver, DriverRegistry, wait_for_program, wait_for_results,
    };
    pub use incarnate_bytecode::executable_format;
    pub use incarnate_hal::*;
    #[cfg(feature = "std")]
    pub use incarnate_local as local;
    #[cfg(feature = "vulkan")]
    pub use incarnate_vulkan as vulkan;
}

#[cfg(feature = "half")]
pub use half;
pub use incarnate_bytecode as bytecode;
#[cfg(feature = "ir")]
pub use incarnate_bytecode::ir;
#[cfg(feature = "std")]
pub use incarnate_hal::mapping;
pub use incarnate_vm as vm;
/// Recordings of where the time of calls goes, with the feature `profiling`.
///
/// ```
/// use incarnate_runtime::profile::{self, EventKind};
/// use incarnate_runtime::session::{Session, Tensor};
/// # fn main() -> incarnate_runtime::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/simple_mul/vmvx.vmfb");
/// let session = Session::load("local-sync", path)?;
/// let multiply = session.function("simple_mul")?;
/// let x = session.tensor([1.0f32, 2.0, 3.0, 4.0])?;
/// // The first call takes longer than the following ones.
/// let _: Tensor<f32> = multiply.call((&x, &x))?;
///
/// profile::start();
/// let _: Tensor<f32> = multiply.call((&x, &x))?;
/// let recording = profile::stop();
///
/// let events = recording.tracks.iter().flat_map(|track| &track.events);
/// for event in events.filter(|event| event.kind == EventKind::Dispatch) {
///     println!("{}: {:?}", event.name, event.duration);
/// }
/// # #[cfg(feature = "profiling")]
/// # assert!(recording.tracks.iter().flat_map(|track| &track.events).any(|event| event.kind == EventKind::Dispatch));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "std")]
#[doc(inline)]
pub use incarnate_vm::profile;
pub use incarnate_vm::{Error, Location, Result, ResultExt, StatusCode, native_functions, ref_object};
#[cfg(feature = "ndarray")]
pub use ndarray;
#[cfg(feature = "num-complex")]
pub use num_complex;
