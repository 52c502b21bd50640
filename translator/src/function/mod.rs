//! One function of a module as Rust: its body, its outlined parts, what it needs to be called.
//!
//! [`Analysis`] holds what is known of all functions before any is emitted; [`emit`] makes the items of one. The items stand
//! in a module (`mod functions { use super::*; .. }`, or several of them, with [`attributes`]) whose parent has in scope
//! [`prelude`], the static `MODULE`, the items of [`Analysis::type_items`], and the items of the other such modules.
//!
//! The way of a function: `facts` makes its IR, `fences` takes fences away that need not be created, `tree` makes its structured
//! form with instructions in place, `outline` cuts what is too long, `kept` moves what too many parts would take and give to one place, `lookups` finds what is borrowed of what calls
//! give, `scope` where names are declared, `body` writes control flow, `versions` what comes in versions, `operations` and
//! `calls` what is within.

mod bindings;
mod body;
mod calls;
mod facts;
mod fences;
mod imports;
mod kept;
mod lookups;
mod loops;
mod operations;
mod outline;
mod scope;
mod suspend;
mod tree;
mod types;
mod values;
mod versions;

use std::collections::HashSet;

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::ir::{Function, Graph, Loops, Op, Type};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use crate::executables::Creations;
use imports::Imports;
pub use loops::{LoopFate, LoopReport};
use types::Types;
pub(crate) use values::type_of;

/// What the functions of a module are called in Rust, by ordinal.
#[derive(Clone, Debug)]
pub(crate) struct FunctionName {
    /// The Rust function: snake case, none of [`RESERVED`].
    pub(crate) ident: Ident,
    /// The lines of its doc comment.
    pub(crate) docs: Vec<String>,
}

/// Identifiers that bodies use and that no function may have.
pub(crate) const RESERVED: &[&str] = &["state", "stack", "resumed", "saved", "kept", "step", "results", "drop"];

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
    /// Its arguments; references are passed by value, but for those that are lent.
    pub(crate) arguments: Vec<Type>,
    /// By argument, whether it is a reference that the function looks at and the caller keeps.
    lent: Vec<bool>,
    /// Its results.
    pub(crate) results: Vec<Type>,
    /// It takes `state: &State`.
    pub(crate) needs_state: bool,
    /// It takes `stack: &mut Stack`.
    pub(crate) needs_stack: bool,
    /// It bounds the depth of calls.
    is_guarded: bool,
    /// It is part of the code that calls it, which comes in versions for processors.
    pub(crate) is_inlined: bool,
}

impl FunctionFacts {
    /// Whether it may yield.
    pub(crate) fn yields(&self) -> bool {
        self.resume.is_some()
    }

    /// Whether an argument is a reference that the caller keeps: it is passed as `&Ref`.
    pub(crate) fn is_lent(&self, argument: usize) -> bool {
        self.lent.get(argument).is_some_and(|lent| *lent)
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
    imports: Imports,
    types: Types,
    /// The names of functions.
    taken: HashSet<String>,
    /// See [`Options::untrusted`](crate::Options::untrusted).
    untrusted: bool,
    /// Levels of processors that functions with long loops over buffers come in versions for.
    pub(crate) versions: u8,
    /// Places are statics: the module's tables are too long for constants that refer to them.
    has_static_places: bool,
}

/// From so many rows of a module's tables on its places are statics. rustc reads whatever a constant refers to each time it
/// evaluates one, which is once for each function and part; it does not look at what a static refers to.
const STATIC_PLACES: usize = 512;

impl<'m> Analysis<'m> {
    /// Makes the IR of all functions, and finds what each needs. `names` has one for each function.
    ///
    /// # Errors
    /// INTERNAL where the module is not what its verification proves.
    pub(crate) fn new(module: &'m VerifiedModule, names: Vec<FunctionName>, untrusted: bool) -> Result<Analysis<'m>> {
        facts::analyze(module, names, untrusted)
    }

    /// The bindings that a kernel only reads, by bits; `list` is the number of the argument that has them.
    pub(crate) fn only_read(&self, function: u32, list: usize) -> u64 {
        let body = self.bodies.get(function as usize);
        let list = body.and_then(|body| Some((body, *body.arguments().get(list)?)));
        list.map_or(0, |(body, list)| bindings::only_read(body, list))
    }

    /// Constants of the types that functions check references against; they stand beside the functions, once.
    pub(crate) fn type_items(&self) -> TokenStream {
        self.types.items()
    }

    /// Whether an import is called directly, as a method of a native module's state.
    pub(crate) fn is_direct(&self, import: u32) -> bool {
        self.imports.direct(import).is_some()
    }

    /// Whether a function has loops.
    pub(crate) fn has_loops(&self, ordinal: u32) -> bool {
        self.bodies.get(ordinal as usize).is_some_and(|body| {
            let graph = Graph::of(body);
            !Loops::new(&graph, &graph.dominators()).all().is_empty()
        })
    }

    /// The calls that create executables.
    pub(crate) fn creations(&self) -> Creations {
        Creations::find(self.module, &self.bodies)
    }

    /// What became of the loops of all functions.
    pub(crate) fn loops(&self) -> Vec<LoopReport> {
        loops::report(self.module, &self.bodies, self.untrusted)
    }

    /// Ordinals of the read-only segments that functions use, ascending.
    pub(crate) fn used_rodata(&self) -> Vec<u32> {
        let blocks = self.bodies.iter().flat_map(|body| &body.blocks);
        let mut used: Vec<u32> = blocks
            .flat_map(|block| &block.instructions)
            .filter_map(|inst| match inst.op {
                Op::Rodata { rodata } => Some(rodata),
                _ => None,
            })
            .collect();
        used.sort_unstable();
        used.dedup();
        used
    }
}

/// A function's items.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    /// The function, `pub` in a module that is not, its outlined parts, and what it saves when it yields.
    /// Each is bounded in size; all stand in the same module.
    pub(crate) items: Vec<TokenStream>,
}

/// Emits a function.
///
/// # Errors
/// OUT_OF_RANGE where there is no such function; INTERNAL where the module is not what its verification proves.
pub(crate) fn emit(analysis: &Analysis<'_>, ordinal: u32) -> Result<Emitted> {
    body::emit(analysis, ordinal)
}

/// What the parent of the functions' modules imports; `runtime` is the path of `incarnate_runtime`.
pub(crate) fn prelude(runtime: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unused_imports, reason = "not every module needs all of them")]
        use #runtime::support::{self, At, Here, LANES, Ref, Result, Stack, State, Step, ValueType, semantics};
    }
}

/// The attributes of a module of functions: lints that the bytecode's author cannot heed.
pub(crate) fn attributes() -> TokenStream {
    quote! {
        #[allow(
            unused_mut,
            unused_assignments,
            unused_variables,
            clippy::too_many_arguments,
            clippy::type_complexity,
            clippy::approx_constant,
            clippy::needless_late_init,
            clippy::if_same_then_else,
            clippy::collapsible_if,
            clippy::while_immutable_condition,
            reason = "signatures, constants and branches are those of the bytecode"
        )]
    }
}

/// What names of a function's further items begin with; names that are made of keywords end in an underscore.
fn stem(ident: &Ident) -> String {
    ident.to_string().trim_end_matches('_').into()
}

/// A name like `base` that none of the taken ones equals.
fn fresh(taken: &HashSet<String>, base: &str) -> Ident {
    let mut name = String::from(base);
    while taken.contains(&name) {
        name.push('_');
    }
    Ident::new(&name, Span::call_site())
}

#[cfg(test)]
mod tests;
