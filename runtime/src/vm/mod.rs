//! Values, references, lists, buffers, contexts, the interpreter.
//!
//! Four lifetimes, each of which pays its decisions once: a [`Module`] (verified, immutable, shared), a [`Program`] (modules
//! linked: imports found and compared), a [`Context`] (the state of a program's modules), and an [`Invocation`] (the storage
//! of a call, reused). A warm call looks nothing up and allocates nothing.

mod budget;
mod buffer;
mod call;
mod context;
mod interpreter;
mod invocation;
mod list;
mod module;
mod native;
mod program;
mod reference;
pub mod semantics;
mod stack;
mod sync;
mod turns;
mod value;

pub use budget::MemoryBudget;
pub use buffer::{Buffer, Element, Grid, GridMut, Scalar};
pub use call::{CallBuffer, CallReader, CallValues};
pub use context::{Context, Function};
pub use interpreter::BytecodeModule;
pub use invocation::{CallFuture, Invocation};
pub use list::List;
pub use module::{BoundFunction, Completion, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal};
pub use native::{Argument, Caller, NativeFunction, NativeMethod, NativeModule, Outcome, Results, Span};
pub use program::Program;
pub use reference::{Ref, RefObject, RefType, TypedRefObject};
pub use stack::{Limits, Stack, WaitSource};
pub use turns::{Counter, Relation, is_within, turns};
pub use value::{Value, ValueType};

/// What the macros of this crate name.
#[doc(hidden)]
pub mod reexport {
    pub use alloc::sync::Arc;
    pub use alloc::vec;
}
