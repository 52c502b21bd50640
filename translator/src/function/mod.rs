//! One function of a module as Rust: its body, its outlined parts, what it needs to be called.
//!
//! [`Analysis`] holds what is known of all functions before any is emitted; [`emit`] makes the items of one. The items stand
//! in a module (`mod functions { use super::*; .. }`, or several of them) whose parent has in scope everything of
//! `support::prelude`, the static `MODULE`, the items of [`Analysis::type_items`], and the items of the other such modules.

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::ir::{Function, Type};
use proc_macro2::{Ident, TokenStream};

/// What the functions of a module are called in Rust, by ordinal.
#[derive(Clone, Debug)]
pub(crate) struct FunctionName {
    /// The Rust function. Names that begin with it and go on with two underscores are the emission's own.
    pub(crate) ident: Ident,
    /// The lines of its doc comment.
    pub(crate) docs: Vec<String>,
}

/// What is known of a function without its body.
#[derive(Clone, Debug)]
pub(crate) struct FunctionFacts {
    /// Its name: `fn ident([state: &State,] [stack: &mut Stack,] arguments..) -> Result<R>`, or `Result<Step<R>>` where it
    /// yields. `R` is `()`, the one result, or a tuple.
    pub(crate) ident: Ident,
    /// Where it yields, the function that resumes it: `fn(state: &State, stack: &mut Stack) -> Result<Step<R>>`, which takes
    /// what the call left on the stack.
    pub(crate) resume: Option<Ident>,
    /// The lines of its doc comment.
    pub(crate) docs: Vec<String>,
    /// Its arguments; references are passed by value.
    pub(crate) arguments: Vec<Type>,
    /// Its results.
    pub(crate) results: Vec<Type>,
    /// It takes `state: &State`.
    pub(crate) needs_state: bool,
    /// It takes `stack: &mut Stack`.
    pub(crate) needs_stack: bool,
}

impl FunctionFacts {
    /// Whether it may yield.
    pub(crate) fn yields(&self) -> bool {
        self.resume.is_some()
    }
}

/// What is known of all functions of a module.
#[derive(Debug)]
pub(crate) struct Analysis<'m> {
    /// The module.
    pub(crate) module: &'m VerifiedModule,
    /// By ordinal.
    pub(crate) functions: Vec<FunctionFacts>,
    /// The IR, by ordinal.
    bodies: Vec<Function>,
}

impl<'m> Analysis<'m> {
    /// Makes the IR of all functions, and finds what each needs. `names` has one for each function.
    ///
    /// # Errors
    /// INTERNAL where the module is not what its verification proves.
    pub(crate) fn new(module: &'m VerifiedModule, names: Vec<FunctionName>) -> Result<Analysis<'m>> {
        facts::analyze(module, names)
    }

    /// Constants of the types that functions check references against; they stand beside the functions, once.
    pub(crate) fn type_items(&self) -> TokenStream {
        TokenStream::new()
    }

    /// Ordinals of the read-only segments that functions use, ascending.
    pub(crate) fn used_rodata(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// A function's items.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    /// The function, visible in the module around (`pub(super)`), its outlined parts, and what it saves when it yields.
    /// Each is bounded in size; all stand in the same module.
    pub(crate) items: Vec<TokenStream>,
}

/// Emits a function.
///
/// # Errors
/// INTERNAL where the module is not what its verification proves.
pub(crate) fn emit(analysis: &Analysis<'_>, ordinal: u32) -> Result<Emitted> {
    body::emit(analysis, ordinal)
}

mod body;
mod facts;
