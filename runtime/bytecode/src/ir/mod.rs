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

mod build;
mod display;
mod function;
mod graph;
mod liveness;
pub mod nest;
mod op;
mod ownership;
mod passes;
mod semantics;
mod structure;
mod uses;
mod validate;
mod value;

pub use function::{BlockData, Definition, Function, Inst, ValueInfo};
pub use graph::{Dominators, Graph, Loop, Loops, NONE, ReversePostorder};
pub use liveness::Liveness;
pub use op::{Call, Callee, Edge, Global, Op, Operand, Terminator};
pub use ownership::ownership;
pub use passes::Evaluate;
pub use semantics::{Semantics, semantics};
pub use structure::{Label, MAX_NESTING, Statement, Structure};
pub use uses::{Use, UseMut};
pub use value::{Block, Type, Value};

use crate::Result;
use crate::VerifiedModule;

impl Function {
    /// Builds the IR of a function of a module, simplifies it ([`Function::simplify`], without arithmetic) and finds who owns
    /// references ([`ownership`]).
    ///
    /// # Errors
    /// OUT_OF_RANGE where the module has no such function; INTERNAL where it is not what its verification proves.
    pub fn new(module: &VerifiedModule, ordinal: u32) -> Result<Function> {
        let mut function = Function::unsimplified(module, ordinal)?;
        function.simplify(None);
        ownership(&mut function);
        Ok(function)
    }

    /// Builds the IR of a function as it stands in the bytecode, with references shared at each use.
    ///
    /// # Errors
    /// As [`Function::new`].
    pub fn unsimplified(module: &VerifiedModule, ordinal: u32) -> Result<Function> {
        build::build(module, ordinal)
    }
}
