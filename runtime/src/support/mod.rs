//! What translated modules are made with. Programs do not use it by itself, and generated code uses nothing else.
//!
//! Generated code begins with `const _: () = support::expect_version(N);`, so that code of another translator than this
//! runtime's does not compile.
//!
//! # A module
//!
//! A module is one static [`Description`]: names, calling conventions, tables, and the two functions that call and resume
//! exports. [`TranslatedModule`] makes it a [`vm::Module`](crate::vm::Module), to be linked with others, and [`State`] is
//! its state in a context. `call` and `resume` are matches over the export's ordinal, with arms such as
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
//! `i32`, `i64`, `f32`, `f64`, and [`Ref`]. Arithmetic is [`semantics`]. Operations on references are the functions that are
//! named as the instructions are, with `_` for `.`: [`buffer_load_i8_u`], [`list_get_ref`], [`cmp_eq_ref`]. They take
//! references as `&Ref`, numbers as the VM has them, and types as [`ValueType`]; those that use up memory take the stack.
//! Globals, constants and imports belong to [`State`]: [`State::load_i32`], [`State::store_ref`], [`State::rodata`].
//!
//! Counted loops over buffers are checked before their first iteration: [`trip_count`] counts, [`Ref::grid`] and
//! [`Ref::grid_mut`] borrow the elements, [`is_within`] tests that indices do not wrap, [`is_injective`] that iterations access
//! different elements. [`keep_iteration_order`] keeps the iterations of a loop from being interleaved.
//!
//! # Errors
//!
//! Whatever can fail is followed by [`.at(HERE, offset)?`](At::at), with `const HERE: Here = Here::new(&MODULE, ordinal);`
//! (a static in long modules): the place is looked up when an error occurs. Calls of other functions of the module are, too. The `fail` instruction is
//! [`fail`], a function that ends with one that did not fail ends with [`fell_through`].
//!
//! # Calls
//!
//! - An import that [`imports::find`](crate::modules::imports::find) knows: `state.hal().call("buffer.length",
//!   HalState::buffer_length, stack, (&v1,))`. Arguments are a tuple of VM values: references as `&Ref` where they are lent
//!   or as `Ref` where they are moved, spans as arrays (of tuples), [`NoElements`] for one without. It gives a VM value or a
//!   tuple, and for a method that may yield a [`Step`]; where the instruction is not a yieldable call, [`Step::done`]. Such a
//!   call goes on with `state.hal().resume("fence.await", HalState::fence_await_resume, stack)`. Some are called in another
//!   form ([`DirectImport::form`](crate::modules::imports::DirectImport::form)): by `call_inline`, or by a function such as
//!   [`buffer_view_assert`] that takes the native module first.
//! - Any other import: `state.import(3).call::<(i32, Ref)>(stack, (v0, &v1))`, with [`Import::call_yieldable`] and
//!   [`Import::resume`]. Arguments as above; a span is an array, or [`Elements`] where its elements differ in type.
//! - A function that calls itself, even by others: its body is the closure of [`guarded`].
//! - A function that yields: `stack.suspend(Box::new(state)); Ok(Step::Yielded)`, innermost first. The outermost takes its
//!   part first, `stack.take_suspended::<T>()`, then resumes its callee.

mod call;
mod constants;
mod description;
mod executables;
#[cfg(feature = "std")]
mod fences;
#[cfg(feature = "std")]
mod instance;
mod module;
mod operations;
mod place;
mod recursion;
mod state;
mod views;

pub use alloc::boxed::Box;
pub use alloc::sync::Arc;

pub use crate::bytecode::{Contents, Dependency};
#[cfg(feature = "std")]
pub use crate::hal::local::library::abi::{Environment as LibraryEnvironment, LibraryHeader};
#[cfg(feature = "std")]
pub use crate::hal::local::loaders::{StaticLibrary, StaticLibraryLoader, UnusedLoader};
#[cfg(feature = "std")]
pub use crate::hal::{BufferView, Device};
#[cfg(feature = "std")]
pub use crate::modules::check::CheckState;
#[cfg(feature = "std")]
pub use crate::modules::hal::HalState;
pub use crate::modules::hal_inline::HalInlineState;
#[cfg(feature = "std")]
pub use crate::modules::hal_loader::HalLoaderState;
#[cfg(feature = "std")]
pub use crate::modules::io_parameters::IoParametersState;
pub use crate::modules::vmvx::VmvxState;
#[cfg(feature = "std")]
pub use crate::session::{
    BF16, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, I1, Input, PassedRef, Session, SessionBuilder,
    Tensor, natives,
};
pub use crate::vm::{
    BorrowedRef, BoundFunction, Buffer, CallBuffer, Completion, Grid, GridMut, List, Module, Native, NoElements, Ref,
    RefType, Stack, Step, Traced, Value, ValueType, semantics,
};
pub use crate::vm::{Relation, is_injective, is_within, keep_iteration_order, outer_trip_count, trip_count};
pub use crate::{Error, Result, StatusCode};

pub use crate::include_constants;
pub use crate::processor::{Code, LANES, versions as in_versions};
pub use call::{Elements, Import, Pack, arguments, no_export, results, step};
pub use constants::{Aligned, Constants};
pub use description::{Description, Export, Function, ImportedFunction, Loader};
pub use executables::*;
#[cfg(feature = "std")]
pub use fences::{Later, signalled, signalled_with};
#[cfg(feature = "std")]
pub use instance::{Instance, LEAST_LENT, Lender, next_result};
pub use module::TranslatedModule;
pub use operations::*;
pub use place::{At, Here};
pub use recursion::guarded;
pub use state::State;
pub use views::{Dimensions, buffer_storage, buffer_view_assert, buffer_view_create, view_buffer};

/// The version of the interface between this room and generated code.
pub const VERSION: u32 = 5;

/// Fails to compile, in a constant, where the code was generated for another version of this room.
pub const fn expect_version(version: u32) {
    assert!(
        version == VERSION,
        "this code was generated by another version of incarnate-translator than the runtime's: generate it again"
    );
}
