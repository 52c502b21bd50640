//! A typed control-flow IR of the functions of verified modules: what the translator emits from.
//!
//! A [`Function`] consists of basic blocks with parameters; each value is defined once and has one type. Registers are gone:
//! halves of 64-bit values are rejoined, what one register holds at different times are different values, registers that
//! nothing wrote are constants (zero, null). Where the bytecode reads bits as another type without an instruction for it,
//! there is an [`Op::Bitcast`]; where it splits 64-bit values, [`Op::Low`], [`Op::High`] and [`Op::Pair`].
//!
//! References are values like others; copies of them between registers and discards leave no trace. Instead,
//! [`ownership`] finds where each is used for the last time: there it is moved, or dropped; elsewhere it is shared. So a
//! reference is dropped at the latest where the bytecode drops it.
//!
//! [`Function::new`] builds the IR and simplifies it. The analyses are [`Graph`] (orders), [`Dominators`], [`Loops`],
//! [`Liveness`]; [`Structure`] is the control flow as nested blocks and loops. [`Function`] prints as text.

mod bindings;
mod build;
mod coarsening;
mod display;
mod dominators;
mod function;
mod graph;
mod liveness;
mod loops;
pub mod nest;
mod op;
mod ownership;
mod passes;
mod semantics;
mod structure;
mod unfuse;
mod uses;
mod validate;
mod value;

pub use bindings::read_only_bindings;
pub use coarsening::{Coarsened, KernelArguments};
pub use dominators::Dominators;
pub use function::{BlockData, Definition, Entry, Function, Inst, Positions, ValueInfo};
pub use graph::{Graph, NONE, ReversePostorder};
pub use liveness::Liveness;
pub use loops::{Loop, Loops};
pub use op::{Call, Callee, Edge, Global, Op, Operand, Terminator};
pub use ownership::ownership;
pub use passes::Evaluate;
pub use semantics::{Semantics, semantics};
pub use structure::{Label, MAX_NESTING, Statement, Structure};
pub use uses::{Use, UseMut};
pub use value::{Block, Type, Value};

use alloc::format;
use alloc::string::String;

use crate::{Budget, Result, ResultExt, VerifiedModule};

impl Function {
    /// Builds the IR of a function of a module, simplifies it ([`Function::simplify`], without arithmetic) and finds who owns
    /// references ([`ownership`]), within the function's [`Budget`].
    ///
    /// # Errors
    /// OUT_OF_RANGE where the module has no such function; RESOURCE_EXHAUSTED where the function needs more than its budget;
    /// INTERNAL where it is not what its verification proves.
    pub fn new(module: &VerifiedModule, ordinal: u32) -> Result<Function> {
        let mut budget = Budget::of_function(module, ordinal);
        let mut function = Function::unsimplified(module, ordinal, &mut budget)?;
        function.simplify(None);
        ownership(&mut function, &mut budget).context(|| function_name(module, ordinal))?;
        Ok(function)
    }

    /// Builds the IR of a function as it stands in the bytecode, with references shared at each use.
    ///
    /// # Errors
    /// As [`Function::new`].
    pub fn unsimplified(module: &VerifiedModule, ordinal: u32, budget: &mut Budget) -> Result<Function> {
        build::build(module, ordinal, false, budget).context(|| function_name(module, ordinal))
    }

    /// Builds the IR of a function and simplifies it, with what registers hold at the beginning of blocks ([`Entry`]) and
    /// without owners of references: for the interpreter, which continues in the bytecode.
    ///
    /// # Errors
    /// As [`Function::new`].
    pub fn with_registers(module: &VerifiedModule, ordinal: u32) -> Result<Function> {
        let mut budget = Budget::of_function(module, ordinal);
        let mut function = build::build(module, ordinal, true, &mut budget)?;
        // As the translator does, so that both find the same nests.
        function.simplify(Some(crate::semantics::fold));
        Ok(function)
    }
}

fn function_name(module: &VerifiedModule, ordinal: u32) -> String {
    format!("function @{}", module.function_name(ordinal))
}
