//! Loops that compilers have collapsed into one: one integer counts the iterations of all, and division recovers those of each.
//!
//! Of `for i in 0..n { for j in 0..m { .. } }` comes `for c in 0..n * m { let (i, j) = (c / m, c % m); .. }`, with further
//! instructions for numbers below zero. Such a loop is split again, into one loop for each digit of the integer. The divisors must
//! be positive, and each must divide the one before it without remainder: otherwise the trip counts do not exist.

use alloc::vec::Vec;

use super::form::number;
use super::{Recovery, Shape};
use crate::index_map::IndexMap;
use crate::ir::function::Definition;
use crate::ir::nest::{Affine, Item, Relation, Test};
use crate::ir::op::Op;
use crate::ir::value::{Block, Type, Value};
use crate::isa::Opcode;

/// More digits than this are given up.
const MAX_DIGITS: usize = 6;

/// A loop that is several.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// The integer that counts.
    pub(super) parameter: Value,
    /// What it is divided by, the greatest first.
    divisors: Vec<Value>,
    /// The loops of its digits, the first being the loop itself.
    digits: Vec<usize>,
}

/// A result of divisions of the integer of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    /// Its rest by a divisor; by None it is the integer itself.
    Rest(Option<Value>),
    /// The quotient of a rest by a divisor.
    Quotient(Option<Value>, Value),
}

impl Recovery<'_> {
    /// Takes loops that are several as such.
    pub(super) fn split_loops(&mut self) {
        for index in 0..self.shapes.len() {
            let Some(split) = self.split(index) else { continue };
            let header = self.shapes[index].counted.header;
            let items = core::mem::take(&mut self.shapes[index].counted.items);
            let (mut digits, mut around) = (alloc::vec![index], index);
            for _ in &split.divisors {
                let digit = self.shapes.len();
                self.shapes.push(Shape::new(header, Some(around), Some(Vec::new())));
                self.shapes[around].counted.items = alloc::vec![Item::Loop(digit)];
                self.shapes[digit].is_digit = true;
                digits.push(digit);
                around = digit;
            }
            for item in &items {
                if let Item::Loop(inner) = item {
                    self.shapes[*inner].counted.parent = Some(around);
                }
            }
            self.shapes[around].counted.items = items;
            self.shapes[index].tested_at = 0;
            self.homes.values_mut().iter_mut().filter(|home| **home == index).for_each(|home| *home = around);
            self.splits.push((index, Split { digits, ..split }));
        }
    }

    /// What the integer of a loop is divided by, if it counts from zero by ones, and the loop carries nothing else.
    fn split(&mut self, index: usize) -> Option<Split> {
        let shape = &self.shapes[index];
        let header = shape.counted.header;
        let [parameter] = self.function.block(header).parameters[..] else { return None };
        if self.function.ty(parameter) != Type::i64 || self.first(index, parameter) != Some(0) {
            return None;
        }
        let next = self.inst(self.positions.get(shape.next[0])?);
        let counts = match &next.op {
            Op::Eval { opcode: Opcode::AddI64, operands } => {
                operands[0] == parameter && number(self.function, operands[1]) == Some(1)
            }
            _ => false,
        };
        // The instructions before the test would run once more than the trip count.
        let before = &shape.counted.items[..shape.tested_at];
        let works = before.iter().any(|item| match item {
            Item::Instruction(block, position) => {
                !self.function.is_arithmetic(&self.inst((*block, *position)).op, self.positions)
            }
            Item::Loop(_) => true,
        });
        if !counts || (works && index != 0) {
            return None;
        }
        let mut order = Vec::new();
        self.program_order(index, &mut order);
        let mut found: IndexMap<Value, Digits> = IndexMap::default();
        found.insert(parameter, Digits::Rest(None));
        // Which divisor divides which.
        let mut divisors: Vec<Value> = Vec::new();
        let mut divides: Vec<(Value, Value)> = Vec::new();
        for position in order {
            let inst = self.inst(position);
            let Op::Eval { opcode, operands } = &inst.op else { continue };
            let [result] = inst.results[..] else { continue };
            match opcode {
                Opcode::DivI64S | Opcode::RemI64S => {
                    let (dividend, divisor) = (operands[0], operands[1]);
                    let Some(Digits::Rest(rest)) = found.get(dividend).copied() else { continue };
                    if !self.is_invariant(divisor) || number(self.function, divisor).is_some_and(|number| number <= 0) {
                        continue;
                    }
                    let is_quotient = *opcode == Opcode::DivI64S;
                    found.insert(
                        result,
                        if is_quotient { Digits::Quotient(rest, divisor) } else { Digits::Rest(Some(divisor)) },
                    );
                    if !divisors.contains(&divisor) {
                        divisors.push(divisor);
                    }
                    divides.extend(rest.filter(|rest| *rest != divisor).map(|rest| (divisor, rest)));
                }
                Opcode::SelectI64 => {
                    let chosen = match self.truth(operands[0], &found, &divisors, 0) {
                        Some(true) => operands[1],
                        Some(false) => operands[2],
                        None => continue,
                    };
                    if let Some(digits) = found.get(chosen).copied() {
                        found.insert(result, digits);
                    }
                }
                _ => {}
            }
        }
        if divisors.is_empty() || divisors.len() > MAX_DIGITS {
            return None;
        }
        let divisors = self.ordered(divisors, divides)?;
        for (value, digits) in found.iter().filter(|(value, _)| *value != parameter) {
            self.digits.insert(value, (index, *digits));
        }
        Some(Split { parameter, divisors, digits: Vec::new() })
    }

    /// The value of a loop's parameter in the first iteration, if that is a constant.
    fn first(&self, index: usize, parameter: Value) -> Option<i64> {
        match &self.shapes[index].initial {
            Some(initial) => number(self.function, initial[0]),
            None => self.entry(index, parameter).as_constant(),
        }
    }

    /// Divisors, each of which divides the one before it.
    fn ordered(&self, divisors: Vec<Value>, mut divides: Vec<(Value, Value)>) -> Option<Vec<Value>> {
        for (at, left) in divisors.iter().enumerate() {
            for right in &divisors[at + 1..] {
                if let (Some(one), Some(other)) = (number(self.function, *left), number(self.function, *right)) {
                    divides.push(if one < other { (*left, *right) } else { (*right, *left) });
                }
            }
        }
        let mut ordered: Vec<Value> = Vec::new();
        let mut left = divisors;
        while !left.is_empty() {
            let is_greatest = |value: &Value| {
                !divides.iter().any(|(less, greater)| less == value && greater != value && left.contains(greater))
            };
            let mut greatest = left.iter().copied().filter(is_greatest);
            // Only where one is known to come next.
            let (Some(next), None) = (greatest.next(), greatest.next()) else { return None };
            left.retain(|value| *value != next);
            ordered.push(next);
        }
        Some(ordered)
    }

    /// Whether a condition holds, where divisors are positive and the results of divisions of the integer are not negative.
    fn truth(
        &self,
        condition: Value,
        found: &IndexMap<Value, Digits>,
        divisors: &[Value],
        depth: usize,
    ) -> Option<bool> {
        if let Some(number) = number(self.function, condition) {
            // Comparisons have no other results, so that those with equal truths are equal.
            return match number {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            };
        }
        if !matches!(self.function.definition(condition), Definition::Result(_)) || depth > 8 {
            return None;
        }
        let Op::Eval { opcode, operands } = &self.inst(self.positions.get(condition)?).op else { return None };
        let truth = |at: usize| self.truth(operands[at], found, divisors, depth + 1);
        match opcode {
            Opcode::CmpLTI64S if number(self.function, operands[1]) == Some(0) => {
                (found.contains(operands[0]) || divisors.contains(&operands[0])).then_some(false)
            }
            Opcode::CmpNZI32 => truth(0),
            Opcode::CmpNEI32 => Some(truth(0)? != truth(1)?),
            Opcode::CmpEQI32 => Some(truth(0)? == truth(1)?),
            Opcode::AndI32 => match (truth(0), truth(1)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                // Both are one: comparisons have no other results.
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns how a loop is split, if it is.
    fn split_of(&self, index: usize) -> Option<&Split> {
        self.splits.iter().find_map(|(loop_index, split)| (*loop_index == index).then_some(split))
    }

    /// Returns the form of a result of divisions of a loop's integer; None if it is no sum of digits.
    pub(super) fn digit_form(&mut self, index: usize, digits: Digits) -> Option<Affine> {
        let split = self.split_of(index)?.clone();
        let position = |of: Option<Value>| match of {
            None => Some(0),
            Some(divisor) => Some(split.divisors.iter().position(|other| *other == divisor)? + 1),
        };
        match digits {
            Digits::Quotient(rest, divisor) => {
                let first = position(rest)?;
                (position(Some(divisor))? == first + 1).then(|| Affine::iteration(split.digits[first]))
            }
            Digits::Rest(divisor) => {
                let mut sum = Affine::default();
                for digit in position(divisor)?..split.digits.len() {
                    let iteration = Affine::iteration(split.digits[digit]);
                    sum = sum.add(&match split.divisors.get(digit) {
                        Some(weight) => iteration.mul(&self.form(*weight)?.0)?,
                        None => iteration,
                    })?;
                }
                Some(sum)
            }
        }
    }

    /// Derives the tests of the digits' loops from that of the loop, and the form of the integer.
    pub(super) fn count_digits(&mut self, index: usize) -> Option<()> {
        let Some(split) = self.split_of(index).cloned() else { return Some(()) };
        let test = &self.shapes[index].counted.test;
        // From zero, as long as it is less: otherwise the integer does not count the iterations.
        if (test.relation, test.step, test.ty, test.signed, test.first.as_constant())
            != (Relation::Less, 1, Type::i64, true, Some(0))
        {
            return None;
        }
        let forms = split.divisors.iter().map(|divisor| Some(self.form(*divisor)?.0)).collect::<Option<Vec<_>>>()?;
        for (at, digit) in split.digits.iter().enumerate() {
            let counted = &mut self.shapes[*digit].counted;
            counted.divisor = forms.get(at).cloned();
            if let Some(bound) = at.checked_sub(1).map(|before| forms[before].clone()) {
                let first = Affine::default();
                counted.test = Test { first, step: 1, relation: Relation::Less, bound, ty: Type::i64, signed: true };
            }
        }
        self.forms.clear();
        let form = self.digit_form(index, Digits::Rest(None))?;
        self.inductions.insert(split.parameter, form.clone());
        for induction in &mut self.shapes[index].counted.inductions {
            induction.form = form.clone();
        }
        let inductions = self.shapes[index].counted.inductions.clone();
        let last = split.digits.last().copied().unwrap_or(index);
        self.shapes[last].counted.inductions = inductions;
        Some(())
    }

    /// Whether an instruction divides an integer that counts a loop, by what is positive where the nest runs.
    pub(super) fn is_division(&self, position: (Block, usize)) -> bool {
        let inst = self.inst(position);
        inst.results.iter().any(|result| self.digits.contains(*result))
    }
}
