//! Values, references, lists, buffers, contexts, the interpreter.
//!
//! Four lifetimes, each of which pays its decisions once: a [`Module`] (verified, immutable, shared), a [`Program`] (modules
//! linked: imports found and compared), a [`Context`] (the state of a program's modules), and an [`Invocation`] (the storage
//! of a call, reused). A warm call looks nothing up and allocates nothing.
//!
//! The crate works on `core` and `alloc`; the default feature `std` adds the locks of the standard library, and the feature
//! `profiling` recordings of where the time goes.
//!
//! ```
//! use std::sync::Arc;
//! use incarnate_bytecode::{Contents, VerifiedModule, assemble};
//! use incarnate_vm::{BytecodeModule, Context, Limits, Module, Program, Value};
//!
//! let bytes = assemble(
//!     "vm.module @example
//!      vm.type i32
//!      vm.export @double
//!      vm.func @double(%i0: i32) -> (i32) {
//!      ^bb0:
//!        %i0 = vm.add.i32 %i0, %i0
//!        vm.return %i0
//!      }",
//! )?;
//! let module = VerifiedModule::load(Arc::new(Contents::from_vec(bytes)))?;
//! let module: Arc<dyn Module> = BytecodeModule::new(module)?;
//! let context = Context::new(Program::link(vec![module])?, Limits::default())?;
//! let results = context.function("double")?.call(&[Value::I32(21)])?;
//! assert!(matches!(results[..], [Value::I32(42)]));
//! # Ok::<(), incarnate_bytecode::Error>(())
//! ```
#![no_std]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "modules choose lengths; see `array`"))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
mod alarm;
pub mod array;
mod borrowed;
mod buffer;
mod byte_size;
mod call;
#[cfg(feature = "std")]
pub mod clock;
mod context;
pub mod cost;
mod cycles;
mod direct;
#[doc(hidden)]
pub mod failure;
#[doc(hidden)]
pub mod guest;
mod interpreter;
mod invocation;
mod ledger;
mod limits;
mod list;
mod mapped;
mod meter;
mod module;
mod native;
pub mod parallel;
#[cfg(feature = "std")]
pub mod profile;
mod program;
mod ref_type;
mod reference;
mod shared;
mod stack;
#[doc(hidden)]
pub mod state;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod testing;
#[doc(hidden)]
pub mod trace;
mod value_type;

pub use borrowed::{BorrowedRef, MaybeOwned};
#[doc(hidden)]
pub use buffer::{Block, BlockPool, Chunk, SoleBuffer};
pub use buffer::{
    Buffer, Computed, ConstantBytes, Contract, Element, Extended, Gather, Grid, GridMut, HasMemory, Memory, Misses,
    Number, One, Scalar, View, keep_iteration_order, settle_memory, settled,
};
pub use byte_size::parse_byte_size;
pub use call::{CallBuffer, CallReader, CallValues};
#[doc(hidden)]
pub use context::InvocationGuard;
pub use context::{Context, Function};
pub use cost::CallCost;
pub use direct::{DirectMethod, DirectModule, Native, NoElements, Pass, PassBorrowed};
pub use interpreter::BytecodeModule;
pub use invocation::{CallFuture, Invocation};
pub use ledger::{Charge, Ledger, SharedCharge};
pub use limits::{GivenLimits, Limits};
pub use list::List;
#[doc(hidden)]
pub use list::check_ref;
#[doc(hidden)]
pub use mapped::MappedBytes;
#[cfg(feature = "std")]
pub use meter::Interrupt;
pub use meter::{Fuel, Meter};
pub use module::{
    BoundFunction, Completion, Entry, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal,
};
pub use native::{Argument, Caller, FromRef, NativeFunction, NativeMethod, NativeModule, Outcome, Results, Span, Step};
pub use program::Program;
pub use ref_type::RefType;
pub use reference::{Ref, TypedRefObject, Value};
#[doc(hidden)]
pub use shared::arc_of;
pub use shared::{Identified, RefObject};
pub use stack::{Iterations, Stack, WaitSource};
#[doc(hidden)]
pub use sync::{AtomicU64, Lock, Once, TryLock};
pub use trace::Traced;
pub use value_type::ValueType;

pub use incarnate_kernels as kernels;

pub use incarnate_bytecode::{Error, Location, Result, ResultExt, StatusCode, semantics};

/// What the macros of this crate name.
#[doc(hidden)]
pub mod reexport {
    pub use alloc::sync::Arc;
    pub use alloc::vec;
    pub use incarnate_bytecode::imports::{Cost, Term};
}
