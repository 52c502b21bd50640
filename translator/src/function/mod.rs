//! Translation of functions to Rust.
//!
//! [`Analysis`] holds the facts about all functions, which are computed before any is emitted; [`emit`] returns the items of
//! one function. The items stand in a module with [`attributes`], whose scope holds [`prelude`], the static `MODULE`, the
//! items of [`Analysis::type_items`], and the other functions.
//!
//! The pipeline of a function: `facts` builds its IR, `deferred_fences` removes fences, `tree` builds structured control flow
//! with the instructions in place, `outline` splits long bodies, `spills` assigns shared slots to references, `borrows` finds
//! results that need no reference count, and `scope` decides where names are declared. `items` emits the function with its
//! outlined functions: `emitter` writes sequences, `control` branches, `resumable` suspensions, `operations` and `calls` the
//! instructions, `loops` nests, `multiversion` the variants for target features.

mod abi;
mod borrows;
mod calls;
mod control;
mod deferred_fences;
mod emitter;
mod facts;
mod imports;
mod items;
mod loops;
mod metering;
mod multiversion;
mod operations;
mod outline;
mod recordings;
mod resumable;
mod scope;
mod shared;
mod spills;
mod suspend;
mod transients;
mod tree;
mod types;
mod values;

use std::collections::HashSet;

use incarnate_bytecode::Result;
use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::index_map::IndexMap;
use incarnate_bytecode::ir::nest::Order;
use incarnate_bytecode::ir::{Function, Graph, Loops, Op, Type};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use crate::executables::Creations;
use crate::kernels::Kernel;
use crate::names::FunctionName;
use crate::options::Options;
use imports::Imports;
pub use loops::{LoopOutcome, LoopRemark};
pub(crate) use shared::{NestFunction, Nests};
use types::Types;
pub(crate) use values::type_of;

/// The facts about a function that its callers need.
#[derive(Clone, Debug)]
pub(crate) struct FunctionFacts {
    /// Its name: `fn ident([state: &State,] [stack: &mut Stack,] arguments..) -> Result<R>`, or `Result<Step<R>>` where it
    /// yields. `R` is `()`, the one result, or a tuple.
    pub(crate) ident: Ident,
    /// The function that resumes it, if it may yield: `fn(state: &State, stack: &mut Stack) -> Result<Step<R>>`. It takes the
    /// values that the suspended call saved on the stack.
    pub(crate) resume: Option<Ident>,
    /// The lines of its doc comment.
    pub(crate) docs: Vec<String>,
    /// Its arguments; references are passed by value unless they are borrowed.
    pub(crate) arguments: Vec<Type>,
    /// By argument: whether it is a reference that the function borrows.
    borrowed: Vec<bool>,
    /// Its results.
    pub(crate) results: Vec<Type>,
    /// It takes `state: &State`.
    pub(crate) needs_state: bool,
    /// It takes `stack: &mut Stack`.
    pub(crate) needs_stack: bool,
    /// It checks the depth of the host's stack.
    is_guarded: bool,
    /// It is inlined into a multiversioned caller.
    pub(crate) is_inlined: bool,
    /// How it is called where it is a kernel.
    pub(crate) kernel: Option<Kernel>,
}

impl FunctionFacts {
    /// Whether it may yield.
    pub(crate) fn yields(&self) -> bool {
        self.resume.is_some()
    }

    /// Whether an argument is a borrowed reference, which is passed as `&Ref`.
    pub(crate) fn is_borrowed(&self, argument: usize) -> bool {
        self.borrowed.get(argument).is_some_and(|borrowed| *borrowed)
    }
}

/// The facts about all functions of a module.
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
    /// The order of float operations in nests; none for targets without vectors and without memory for kernels.
    order: Option<Order>,
    /// The target features for which functions with long loops over buffers are multiversioned.
    pub(crate) target_features: u8,
    /// The number of instructions, operands and arguments of edges, and those that functions and exports count for.
    pub(crate) size: usize,
    /// The module is a translated executable, whose exports are kernels.
    pub(crate) is_executable: bool,
    /// The declarations of exported functions that have none, by the functions' ordinals; of kernels they are not needed.
    pub(crate) recovered: IndexMap<u32, String>,
    /// Locations are statics: the module's tables are too long for constants that refer to them.
    has_static_locations: bool,
}

/// The number of rows in a module's tables from which its locations are statics. rustc reads everything that a constant refers
/// to each time it evaluates one, which is once for each function; it does not read what a static refers to.
const STATIC_LOCATION_ROWS: usize = 512;

impl<'m> Analysis<'m> {
    /// Builds the IR of all functions and computes their facts. `names` has one name for each function. Exports of executables are
    /// kernels.
    ///
    /// # Errors
    /// INTERNAL if the module violates an invariant that its verification proves.
    pub(crate) fn new(
        module: &'m VerifiedModule,
        names: Vec<FunctionName>,
        options: &Options,
        is_executable: bool,
    ) -> Result<Analysis<'m>> {
        facts::analyze(module, names, options, is_executable)
    }

    /// The constants of the types that functions check references against.
    pub(crate) fn type_items(&self) -> TokenStream {
        self.types.items()
    }

    /// Whether an import is called directly, as a method of a native module's state.
    pub(crate) fn is_direct(&self, import: u32) -> bool {
        self.imports.direct(import).is_some()
    }

    /// The calling convention of an import that is called directly.
    pub(crate) fn import_convention(&self, import: u32) -> Option<&'static str> {
        Some(self.imports.direct(import)?.convention)
    }

    /// Whether a function has an innermost loop outside of nests: those have variants of their own.
    pub(crate) fn has_other_loops(&self, ordinal: u32) -> bool {
        self.bodies.get(ordinal as usize).is_some_and(|body| {
            let graph = Graph::of(body);
            let loops = Loops::new(&graph, &graph.dominators());
            let nests = loops::nests(body, self.untrusted);
            let headers: HashSet<u32> =
                nests.found.iter().flat_map(|nest| nest.loops.iter().map(|counted| counted.header.0)).collect();
            let all = loops.all().iter().enumerate();
            let mut others = all.filter(|(_, natural)| !headers.contains(&natural.header));
            others.any(|(at, _)| !loops.all().iter().any(|inner| inner.parent == Some(at)))
        })
    }

    /// The calls that create executables.
    pub(crate) fn creations(&self) -> Creations {
        Creations::find(self.module, &self.bodies)
    }

    /// The remarks about the loops of all functions.
    pub(crate) fn loops(&self) -> Vec<LoopRemark> {
        let coarsening = |facts: &FunctionFacts| facts.kernel.as_ref().map_or(1, |kernel| kernel.coarsening);
        let functions = self.bodies.iter().zip(self.functions.iter().map(coarsening));
        loops::remarks(self.module, functions, self.untrusted, self.order)
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
    /// The function, the functions outlined from it, and the type that it saves when it yields. Each item is bounded in size;
    /// all stand in the same module.
    pub(crate) items: Vec<TokenStream>,
    /// The functions of its nests, which other functions may share.
    pub(crate) nests: Vec<NestFunction>,
}

/// Emits a function.
///
/// # Errors
/// OUT_OF_RANGE if there is no such function; INTERNAL if the module violates an invariant that its verification proves.
pub(crate) fn emit(analysis: &Analysis<'_>, ordinal: u32) -> Result<Emitted> {
    items::emit(analysis, ordinal)
}

/// The imports of the module that holds the functions; `runtime` is the path of `incarnate_runtime`.
pub(crate) fn prelude(runtime: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unused_imports, reason = "not every module uses all of them")]
        use #runtime::support::{self, At, Here, LANES, Ref, Result, Stack, State, Step, ValueType, abi, semantics};
    }
}

/// The attributes of a module of functions: lints that translated bytecode triggers.
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

/// The common prefix of the names of a function's further items. Names derived from keywords end in an underscore.
fn stem(ident: &Ident) -> String {
    ident.to_string().trim_end_matches('_').into()
}

/// A name derived from `base` that is not taken.
fn fresh(taken: &HashSet<String>, base: &str) -> Ident {
    let mut name = String::from(base);
    while taken.contains(&name) {
        name.push('_');
    }
    Ident::new(&name, Span::call_site())
}

#[cfg(test)]
mod tests;
