//! The runtime interface of generated code. Generated code uses nothing else; programs do not use it directly.
//!
//! Generated code begins with `const _: () = support::expect_version(N);`, so code of a translator for another version of
//! this interface does not compile.
//!
//! # A module
//!
//! A module is one static [`Description`]: names, calling conventions, tables, and the two functions that call and resume
//! exports. [`TranslatedModule`] implements [`vm::Module`](crate::vm::Module) for it, and [`State`] is its state in a
//! context. `call` and `resume` match on the export's ordinal, with arms such as
//!
//! ```ignore
//! 3 => {
//!     let (v0, v1): (i32, Ref) = support::arguments(buffer)?;          // by the calling convention, as a tuple
//!     Ok(support::results(buffer, f(state, stack, v0, v1)?))            // ()  |  one value  |  a tuple
//! }
//! 4 => Ok(support::step(buffer, g(state, stack, None)?)),              // a function that may yield: Step
//! other => Err(support::no_export(&MODULE, other)),
//! ```
//!
//! and in `resume`: `4 => Ok(support::step(buffer, g(state, stack, Some(stack.take_suspended()?))?))`.
//! Tuples go to 16 values; more of them are tuples of tuples.
//!
//! # Values
//!
//! `i32`, `i64`, `f32`, `f64`, and [`Ref`]. Arithmetic is in [`semantics`]. An operation on references is a function with the
//! instruction's name, with `_` for `.`: [`buffer_load_i8_u`], [`list_get_ref`], [`cmp_eq_ref`]. These functions take
//! references as `&Ref`, operands of dispatches also as `&Memory`, numbers as VM values, and types as [`ValueType`]; those that allocate memory take the stack.
//! Globals, constants and imports belong to [`State`]: [`State::load_i32`], [`State::store_ref`], [`State::rodata`].
//!
//! Counted loops over buffers are checked before their first iteration: [`trip_count`] counts, [`elements_of`] checks the
//! bounds and borrows the elements ([`Memory::grid`] and [`Memory::grid_mut`]), [`is_within`] checks that indices do not wrap, and
//! [`is_injective`] that iterations access different elements. After the last one, [`settled`] and [`settle_memory`] make
//! numbers of what raced. [`contract`] runs sums of products in place of their loops, with all checks of its own. [`strips`] calls
//! a function for vectors of a loop's iterations.
//! [`keep_iteration_order`] keeps LLVM from vectorising over iterations.
//!
//! # Errors
//!
//! Each fallible operation and each call ends in [`.at(HERE, offset)?`](At::at), with
//! `const HERE: Here = Here::new(&MODULE, ordinal);` (a static in long modules), which adds the location to an error. The
//! `fail` instruction is [`fail`]; a function whose last `fail` has status zero ends in [`fell_through`].
//!
//! # Calls
//!
//! - An import that [`imports::find`](crate::modules::imports::find) knows: `state.hal().call("buffer.length",
//!   HalState::buffer_length, stack, (&v1,))`. Arguments are a tuple of VM values: `&Ref` for borrowed and `Ref` for moved
//!   references, arrays (of tuples) for spans, [`NoElements`] for an empty span. The call returns a VM value or a tuple; a
//!   method that may yield returns a [`Step`], which [`Step::done`] unwraps if the instruction is not a yieldable call.
//!   `state.hal().resume("fence.await", HalState::fence_await_resume, stack)` resumes such a call. Some have another
//!   form ([`DirectImport::form`](crate::modules::imports::DirectImport::form)): by `call_inline`, or by a function such as
//!   [`buffer_view_assert`] that takes the native module as its first argument. In untrusted code, the module is that of a
//!   charged call: `state.hal().charged::<(cost::Whole<2>,)>()`.
//! - Any other import: `state.import(3).call::<(i32, Ref)>(stack, (v0, &v1))`, with [`Import::call_yieldable`] and
//!   [`Import::resume`]. Arguments as above; a span is an array, or [`Elements`] where its elements differ in type.
//! - The body of a recursive function, direct or mutual, is the closure of [`guarded`].
//! - A function that yields saves its values: `stack.suspend(Box::new(values)); Ok(Step::Yielded)`, the innermost first. To
//!   resume, the outermost takes its values first, `stack.take_suspended::<T>()`, and then resumes its callee.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "modules choose lengths; see `vm::array`"))]

pub mod abi;
mod call;
#[cfg(feature = "std")]
mod commands;
mod constants;
mod description;
mod division;
mod elements;
#[cfg(feature = "std")]
mod executables;
#[cfg(feature = "std")]
mod fences;
mod import;
mod instance;
mod location;
mod module;
mod operations;
mod recursion;
mod state;
mod views;

pub use alloc::boxed::Box;
pub use alloc::sync::Arc;

pub use crate::bytecode::trip_count::{Relation, is_injective, is_within, outer_trip_count, trip_count};
pub use crate::bytecode::{Contents, Dependency, ExecutableTarget};
pub use crate::hal::BufferView;
#[cfg(feature = "std")]
pub use crate::hal::Device;
#[cfg(feature = "std")]
pub use crate::hal::local::Coarsening;
#[cfg(feature = "std")]
pub use crate::hal::local::library::abi::{Environment as LibraryEnvironment, LibraryHeader};
#[cfg(feature = "std")]
pub use crate::hal::local::loaders::{StaticLibrary, StaticLibraryLoader, UnusedLoader, Workgroups};
#[cfg(feature = "std")]
pub use crate::modules::check::CheckState;
#[cfg(feature = "std")]
pub use crate::modules::hal::HalState;
pub use crate::modules::hal_inline::HalInlineState;
#[cfg(feature = "std")]
pub use crate::modules::hal_loader::HalLoaderState;
#[cfg(feature = "std")]
pub use crate::modules::io_parameters::IoParametersState;
#[cfg(feature = "std")]
pub use crate::modules::vmvx::VmvxState;
pub use crate::session::{
    BF16, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, InlineNative, Input, IntoInput, PassedRef, Session,
    Tensor,
};
#[cfg(feature = "std")]
pub use crate::session::{SessionBuilder, natives};
pub use crate::vm::{
    BorrowedRef, BoundFunction, Buffer, CallBuffer, Completion, Gather, Grid, GridMut, Limits, List, Memory, Misses,
    Module, Native, NoElements, Ref, RefType, Stack, Step, Traced, Value, ValueType, cost, semantics,
};
pub use crate::vm::{keep_iteration_order, settle_memory, settled};
pub use crate::{Error, Result, StatusCode};

pub use crate::processor::{IntegerProducts, LANES, Multiversion, multiversioned, of_program};
pub use crate::{accumulator, contract, elements_of, gather_of, include_constants, strips};
pub use call::{Elements, Pack, PassedNumbers, arguments, no_export, results, step};
#[cfg(feature = "std")]
pub use commands::{
    BindingTable, DispatchBindings, command_buffer_copy_buffer, command_buffer_dispatch, queue_execute_indirect,
};
pub use constants::{Aligned, Constants};
pub use description::{Description, Executables, Export, Function, ImportedFunction, Loader};
#[cfg(feature = "std")]
pub use description::{Executable, ExportedKernel, Kernel};
pub use division::Division;
pub use elements::divide;
#[cfg(feature = "std")]
pub use executables::{MultiversionedKernel, binding, multiversioned_kernel};
#[cfg(feature = "std")]
pub use fences::{DeferredFence, PassedFences, fence_await, fence_join, modes_of_recording, signalled, signalled_with};
pub use import::Import;
#[cfg(feature = "std")]
pub use instance::next_result;
pub use instance::{BorrowedInputs, Instance, MIN_BORROWED_BYTES};
pub use location::{At, Here};
pub use module::TranslatedModule;
pub use operations::*;
pub use recursion::guarded;
pub use state::State;
pub use views::{buffer_storage, buffer_view_assert, buffer_view_create, view_buffer};

/// The version of this interface.
pub const VERSION: u32 = 27;

/// Fails to compile, in a constant, if the code was generated for another version of this interface.
pub const fn expect_version(version: u32) {
    assert!(
        version == VERSION,
        "this code was generated by another version of incarnate-translator than the runtime's: generate it again"
    );
}
