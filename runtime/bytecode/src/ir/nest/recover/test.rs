//! What the test of a loop counts.

use super::Recovery;
use crate::ir::nest::{Affine, Relation, Test};
use crate::ir::op::Op;
use crate::ir::value::{Type, Value};
use crate::isa::Opcode;

impl Relation {
    /// The relation that holds where this one does not.
    const fn negated(self) -> Option<Relation> {
        Some(match self {
            Relation::Less => Relation::GreaterOrEqual,
            Relation::GreaterOrEqual => Relation::Less,
            Relation::Greater => Relation::LessOrEqual,
            Relation::LessOrEqual => Relation::Greater,
            // A loop that continues while equal has one iteration.
            Relation::NotEqual => return None,
        })
    }

    /// The relation of swapped sides.
    const fn swapped(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            Relation::NotEqual => Relation::NotEqual,
        }
    }
}

impl Test {
    /// In place of a test that is not known yet.
    pub(super) fn unknown() -> Test {
        let (first, bound) = (Affine::default(), Affine::default());
        Test { first, step: 0, relation: Relation::NotEqual, bound, ty: Type::i32, signed: true }
    }
}

/// A comparison: both sides (zero where there is no second), whether they are signed, how they are compared, and whether
/// the result is the other way round.
type Comparison = (Value, Option<Value>, bool, Relation, bool);

impl Recovery<'_> {
    /// The test of a loop whose inductions are known; None where it is no test that counts.
    pub(super) fn test(&mut self, index: usize) -> Option<Test> {
        let shape = &self.shapes[index];
        let (condition, on_zero) = (shape.condition, shape.on_zero);
        let (left, right, signed, relation, inverted) =
            self.comparison(condition).unwrap_or((condition, None, true, Relation::NotEqual, false));
        let ty = self.function.ty(left);
        let left = self.form(left).filter(|(_, conditions)| conditions.is_empty())?.0;
        let right = match right {
            Some(right) => self.form(right).filter(|(_, conditions)| conditions.is_empty())?.0,
            None => Affine::default(),
        };
        let relation = match (relation, inverted != on_zero) {
            (relation, false) => relation,
            (relation, true) => relation.negated()?,
        };
        let (tested, bound, relation) = match (left.is_invariant(), right.is_invariant()) {
            (false, true) => (left, right, relation),
            (true, false) => (right, left, relation.swapped()),
            _ => return None,
        };
        if tested.loops() != [index] {
            return None;
        }
        let step = tested.constant_stride(index)?;
        let towards = match relation {
            Relation::Less | Relation::LessOrEqual => step > 0,
            Relation::Greater | Relation::GreaterOrEqual => step < 0,
            Relation::NotEqual => step != 0,
        };
        let first = tested.sub(&Affine::iteration(index).scale(step)?)?;
        towards.then_some(Test { first, step, relation, bound, ty, signed })
    }

    fn comparison(&self, condition: Value) -> Option<Comparison> {
        let Op::Eval { opcode, operands } = &self.inst(self.positions.get(condition)?).op else { return None };
        let (relation, signed, inverted) = match opcode {
            Opcode::CmpLTI32S | Opcode::CmpLTI64S => (Relation::Less, true, false),
            Opcode::CmpLTI32U | Opcode::CmpLTI64U => (Relation::Less, false, false),
            Opcode::CmpNEI32 | Opcode::CmpNEI64 => (Relation::NotEqual, true, false),
            Opcode::CmpNZI32 | Opcode::CmpNZI64 => (Relation::NotEqual, true, false),
            Opcode::CmpEQI32 | Opcode::CmpEQI64 => (Relation::NotEqual, true, true),
            _ => return None,
        };
        Some((*operands.first()?, operands.get(1).copied(), signed, relation, inverted))
    }
}
