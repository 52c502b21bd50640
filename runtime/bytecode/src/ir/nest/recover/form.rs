//! The affine forms of integers.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::Recovery;
use crate::index_map::IndexSet;
use crate::ir::function::{Definition, Function};
use crate::ir::nest::{Affine, Bounded, Dividend, Division, Induction, Nest};
use crate::ir::op::Op;
use crate::ir::value::{Block, Type, Value};
use crate::isa::Opcode;

/// Instructions between an integer and what it is computed of.
const MAX_DEPTH: usize = 100;

/// A form, and the conditions (indices into `Recovery::conditions`) that it holds under.
pub(super) type Form = (Affine, SmallVec<[usize; 2]>);

impl Recovery<'_> {
    /// Returns the induction variable of a parameter, if each iteration changes it by the same amount.
    pub(super) fn induction(
        &mut self,
        index: usize,
        parameter: Value,
        initial: Option<Value>,
        next: Value,
    ) -> Option<Induction> {
        let entry = self.entry(index, parameter);
        self.open = Some(parameter);
        self.forms.clear();
        let next = self.form(next);
        self.open = None;
        self.forms.clear();
        let (next, conditions) = next?;
        let step = next.without(parameter).filter(|step| step.is_invariant() && conditions.is_empty())?;
        let first = match initial {
            Some(initial) => self.form(initial).filter(|(_, conditions)| conditions.is_empty())?.0,
            None => entry,
        };
        let form = first.add(&step.mul(&Affine::iteration(index))?)?;
        Some(Induction { parameter, initial, step, form })
    }

    /// Returns the value of the outermost loop's parameter at its entry: a constant if the only entering edge passes one, otherwise
    /// the parameter itself.
    pub(super) fn entry(&self, index: usize, parameter: Value) -> Affine {
        let whatever = Affine::invariant(parameter);
        let Definition::Parameter(header, position) = self.function.definition(parameter) else { return whatever };
        let mut passed = Vec::new();
        let mut before = None;
        for &block in self.graph.predecessors(header.0) {
            // Parallel edges stand one after the other.
            if index == 0 && !self.loops.contains(self.root, block) && before.replace(block) != Some(block) {
                self.function.block(Block(block)).terminator.visit_edges(|edge| {
                    let argument = edge.arguments.get(position as usize).filter(|_| edge.target == header);
                    passed.extend(argument.map(|operand| operand.value));
                });
            }
        }
        match passed[..] {
            [value] => number(self.function, value).map_or(whatever, Affine::constant),
            _ => whatever,
        }
    }

    /// The affine form of an integer; None where it has none.
    pub(super) fn form(&mut self, value: Value) -> Option<Form> {
        if let Some(known) = self.forms.get(value) {
            return known.clone();
        }
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let form = self.new_form(value);
        self.depth -= 1;
        self.forms.insert(value, form.clone());
        form
    }

    fn new_form(&mut self, value: Value) -> Option<Form> {
        let free = |form: Affine| Some((form, SmallVec::new()));
        if !matches!(self.function.ty(value), Type::i32 | Type::i64) {
            return None;
        }
        if let Some(number) = number(self.function, value) {
            return free(Affine::constant(number));
        }
        if self.open == Some(value) || self.is_invariant(value) {
            return free(Affine::invariant(value));
        }
        if let Some(form) = self.inductions.get(value) {
            return free(form.clone());
        }
        if let Some((index, digits)) = self.digits.get(value).copied() {
            return free(self.digit_form(index, digits)?);
        }
        let Op::Eval { opcode, operands } = &self.inst(self.positions.get(value)?).op else { return None };
        let two = |this: &mut Self, combine: fn(&Affine, &Affine) -> Option<Affine>| {
            let (left, mut conditions) = this.form(*operands.first()?)?;
            let (right, more) = this.form(*operands.get(1)?)?;
            conditions.extend(more);
            Some((combine(&left, &right)?, conditions))
        };
        match opcode {
            Opcode::AddI32 | Opcode::AddI64 => two(self, Affine::add),
            Opcode::SubI32 | Opcode::SubI64 => two(self, Affine::sub),
            Opcode::MulI32 | Opcode::MulI64 => two(self, Affine::mul),
            Opcode::FmaI32 | Opcode::FmaI64 => {
                let (product, mut conditions) = two(self, Affine::mul)?;
                let (third, more) = self.form(*operands.get(2)?)?;
                conditions.extend(more);
                Some((product.add(&third)?, conditions))
            }
            Opcode::ShlI32 | Opcode::ShlI64 => {
                let (form, conditions) = self.form(*operands.first()?)?;
                let amount = number(self.function, *operands.get(1)?)?;
                let bits = if *opcode == Opcode::ShlI32 { 31 } else { 63 };
                Some((form.scale(1i64 << (amount & bits))?, conditions))
            }
            // The lower half of a sum is the sum of the lower halves.
            Opcode::TruncI64I32 => self.form(*operands.first()?),
            Opcode::ExtI32I64S => self.extended(*operands.first()?, i64::from(i32::MIN), i64::from(i32::MAX)),
            Opcode::ExtI32I64U => self.extended(*operands.first()?, 0, i64::from(u32::MAX)),
            _ => None,
        }
    }

    /// Whether it is an iteration of this loop that computes an integer without a form. Otherwise one of a loop around it does: then the
    /// integer is an invariant of this loop, whose indices are affine forms if it is a nest by itself.
    pub(super) fn is_computed_in(&mut self, index: usize, integer: Value) -> bool {
        let (mut pending, mut seen) = (alloc::vec![integer], IndexSet::default());
        while let Some(value) = pending.pop() {
            let home = |(block, _): (Block, usize)| self.homes.get(block).copied();
            let position = self.positions.get(value).filter(|position| home(*position) == Some(index));
            let Some(position) = position.filter(|_| seen.insert(value, ())) else { continue };
            let Op::Eval { opcode, operands } = &self.inst(position).op else { return true };
            let before = pending.len();
            if is_affine(*opcode) {
                pending.extend(operands.iter().copied().filter(|operand| self.form(*operand).is_none()));
            }
            if pending.len() == before {
                return true;
            }
        }
        false
    }

    /// The division that an instruction is, if it divides what the loop counts.
    pub(super) fn division(
        &mut self,
        index: usize,
        (block, position): (Block, usize),
        nest: &Nest,
    ) -> Option<Division> {
        let Op::Eval { opcode, operands } = &self.inst((block, position)).op else { return None };
        let is_rest = match opcode {
            Opcode::DivI64S | Opcode::DivI64U => false,
            Opcode::RemI64S | Opcode::RemI64U => true,
            _ => return None,
        };
        let (value, divisor) = (*operands.first()?, number(self.function, *operands.get(1)?)?);
        if divisor <= 0 {
            return None;
        }
        let result = |division: &Division| self.inst((division.block, division.position)).results.first().copied();
        let (dividend, most) = match nest.quotient(index, value, result) {
            Some(at) => {
                let of = &nest.divisions[at];
                (Dividend::Quotient(at), of.most / of.divisor + 1)
            }
            None => {
                let (form, conditions) = self.form(value)?;
                // What the outermost loop counts has the name of its first number, which no iteration but the first finds there.
                let is_named = form.factors().all(|factor| self.is_invariant(factor));
                let counts = conditions.is_empty() && is_named && form.constant_stride(index) == Some(1);
                (counts.then_some(Dividend::Form(form))?, self.shapes[index].counted.added()?)
            }
        };
        let is_small = most.checked_add(divisor).is_some_and(|sum| i32::try_from(sum).is_ok());
        is_small.then_some(Division { block, position, within: index, dividend, divisor, most, is_rest })
    }

    /// The condition under which a division by a loop-invariant value cannot fail: that this is positive, as extents of tensors are, by which
    /// compilers divide where they collapse loops. `None` for other instructions.
    pub(super) fn divides(&mut self, op: &Op) -> Option<usize> {
        let Op::Eval { opcode: Opcode::DivI64S | Opcode::DivI64U | Opcode::RemI64S | Opcode::RemI64U, operands } = op
        else {
            return None;
        };
        let divisor = operands.get(1).copied().filter(|divisor| self.is_invariant(*divisor))?;
        Some(self.condition(Bounded { form: Affine::invariant(divisor), least: 1, greatest: i64::MAX }))
    }

    /// The form of a value that is extended: the same, if it does not wrap.
    fn extended(&mut self, operand: Value, least: i64, greatest: i64) -> Option<Form> {
        let (form, mut conditions) = self.form(operand)?;
        conditions.push(self.condition(Bounded { form: form.clone(), least, greatest }));
        Some((form, conditions))
    }

    /// The index of a condition.
    fn condition(&mut self, condition: Bounded) -> usize {
        let known = self.conditions.iter().position(|known| *known == condition);
        known.unwrap_or_else(|| {
            self.conditions.push(condition);
            self.conditions.len() - 1
        })
    }
}

/// Whether a result may have a form where the operands have.
const fn is_affine(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::AddI32
            | Opcode::AddI64
            | Opcode::SubI32
            | Opcode::SubI64
            | Opcode::MulI32
            | Opcode::MulI64
            | Opcode::FmaI32
            | Opcode::FmaI64
            | Opcode::ShlI32
            | Opcode::ShlI64
            | Opcode::TruncI64I32
            | Opcode::ExtI32I64S
            | Opcode::ExtI32I64U
    )
}

/// The number that an integer constant is, signed.
pub(super) fn number(function: &Function, value: Value) -> Option<i64> {
    let bits = function.constant_bits(value)?;
    match function.ty(value) {
        Type::i32 => Some(i64::from(bits as u32 as i32)),
        Type::i64 => Some(bits as i64),
        _ => None,
    }
}
