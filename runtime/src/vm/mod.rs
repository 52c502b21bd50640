//! Values, references, lists, buffers, contexts, the interpreter.
//!
//! Four lifetimes, each of which pays its decisions once: a [`Module`] (verified, immutable, shared), a [`Program`] (modules
//! linked: imports found and compared), a [`Context`] (the state of a program's modules), and an [`Invocation`] (the storage
//! of a call, reused). A warm call looks nothing up and allocates nothing.

mod borrowed;
mod budget;
mod buffer;
mod call;
mod context;
mod direct;
pub(crate) mod failure;
mod interpreter;
mod invocation;
mod list;
mod module;
mod native;
mod program;
mod reference;
pub mod semantics;
mod shared;
mod stack;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod trace;
mod value;

pub use crate::ir::nest::{Counter, Relation, is_injective, is_within, outer_trip_count, trip_count};
pub use borrowed::{BorrowedRef, MaybeOwned};
pub use budget::MemoryBudget;
pub(crate) use buffer::{Block, BlockPool, Chunk, SoleBuffer};
pub use buffer::{Buffer, Element, Grid, GridMut, Scalar, keep_iteration_order};
pub use call::{CallBuffer, CallReader, CallValues};
#[cfg(feature = "std")]
pub(crate) use context::Lease;
pub use context::{Context, Function};
pub use direct::{DirectMethod, Native, NoElements, Pass, PassBorrowed};
pub use interpreter::BytecodeModule;
pub use invocation::{CallFuture, Invocation};
pub use list::List;
pub(crate) use list::check_ref;
pub use module::{
    BoundFunction, Completion, Entry, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal,
};
pub use native::{Argument, Caller, FromRef, NativeFunction, NativeMethod, NativeModule, Outcome, Results, Span, Step};
pub use program::Program;
pub use reference::{Ref, RefObject, RefType, TypedRefObject};
pub use shared::Identified;
pub(crate) use shared::arc_of;
pub use stack::{Limits, Stack, WaitSource};
pub(crate) use sync::{Lock, Once, TryLock};
pub use trace::Traced;
pub use value::{Value, ValueType};

/// What the macros of this crate name.
#[doc(hidden)]
pub mod reexport {
    pub use alloc::sync::Arc;
    pub use alloc::vec;
}
