//! Folds: loop-carried values that each iteration updates by one operation, as in a sum of all elements.

use alloc::vec::Vec;

use super::{Needed, Nest};
use crate::index_map::IndexSet;
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::ir::value::{Block, Value};
use crate::isa::Opcode;

/// How each iteration obtains a number from that of the iteration before. Nothing else uses the number or depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The operation: of the number and a term, or of the two factors of a product and the number.
    pub opcode: Opcode,
    /// What an iteration combines with the number: one term for each execution of an operation of two operands, or two factors. Several
    /// terms may be combined with each other first, as the operation is [associative](is_associative).
    pub terms: Vec<Value>,
    /// The term is the first operand, and the number the second one.
    pub is_swapped: bool,
    /// The number after each instruction. The last one is that of the next iteration.
    pub numbers: Vec<Value>,
}

/// Whether operands of the operation may be combined in any order, and results are the same bits.
#[must_use]
pub const fn is_associative(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::AddI32
            | Opcode::MulI32
            | Opcode::AndI32
            | Opcode::OrI32
            | Opcode::XorI32
            | Opcode::MinI32S
            | Opcode::MinI32U
            | Opcode::MaxI32S
            | Opcode::MaxI32U
            | Opcode::AddI64
            | Opcode::MulI64
            | Opcode::AndI64
            | Opcode::OrI64
            | Opcode::XorI64
            | Opcode::MinI64S
            | Opcode::MinI64U
            | Opcode::MaxI64S
            | Opcode::MaxI64U
    )
}

impl Fold {
    /// Returns the fold by which iterations of a nest get from the number `first` to the number `last`; None where they do anything else with
    /// these numbers. `store` is the instruction that stores the last one, if that is how the next iteration gets it.
    #[must_use]
    pub fn of(
        function: &Function,
        nest: &Nest,
        needed: &Needed,
        (first, last): (Value, Value),
        store: Option<(Block, usize)>,
    ) -> Option<Fold> {
        let mut depending: IndexSet<Value> = IndexSet::default();
        depending.insert(first, ());
        let (mut fold, mut numbers, mut at): (Option<Fold>, Vec<Value>, Value) = (None, Vec::new(), first);
        for (block, position) in nest.instructions() {
            if store == Some((block, position)) || !needed.includes(function, nest, block, position) {
                continue;
            }
            let inst = nest.instruction(function, block, position);
            let mut uses = 0;
            inst.op.visit(|operand| uses += usize::from(depending.contains(operand.value())));
            if uses == 0 {
                continue;
            }
            let [result] = inst.results[..] else { return None };
            match &inst.op {
                Op::Bitcast { operand } if *operand == at => {}
                Op::Eval { opcode, operands } if uses == 1 => {
                    fold = Some(Fold::after(fold, *opcode, operands.iter().position(|value| *value == at)?, operands)?);
                }
                _ => return None,
            }
            depending.insert(result, ());
            numbers.push(result);
            at = result;
        }
        let carried = nest.loops.iter().flat_map(|counted| &counted.carried);
        let is_carried_elsewhere =
            carried.filter(|carried| carried.parameter != first).any(|carried| depending.contains(carried.next));
        fold.filter(|_| at == last && !is_carried_elsewhere).map(|fold| Fold { numbers, ..fold })
    }

    /// Returns the fold extended by one operation, whose operand at `number` is the number.
    fn after(before: Option<Fold>, opcode: Opcode, number: usize, operands: &[Value]) -> Option<Fold> {
        let first = |terms| Some(Fold { opcode, terms, is_swapped: number == 1, numbers: Vec::new() });
        match (before, operands) {
            (None, [_, _]) => first(alloc::vec![operands[1 - number]]),
            (None, [left, right, _]) if number == 2 => first(alloc::vec![*left, *right]),
            (Some(mut fold), [_, _]) if fold.opcode == opcode && is_associative(opcode) => {
                fold.terms.push(operands[1 - number]);
                Some(fold)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{function, one};
    use super::*;
    use alloc::format;

    /// The fold of the number in `%i14`, in a loop with the given instructions, which load `%i18` and `%i19`.
    fn fold(body: &str) -> Option<Fold> {
        let body = format!(
            "  %i14 = vm.const.i32.zero\n  vm.br ^bb1(%i6->%i12, %i7->%i13)\n\
            ^bb1:\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i10:11\n  vm.cond_br %i5, ^bb2(), ^bb3()\n\
            ^bb2:\n  %i18 = vm.buffer.load.i32 %r0, %i12:13\n  %i19 = vm.buffer.load.i32 %r1, %i12:13\n{body}  \
            %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb1()\n\
            ^bb3:\n  %i12:13 = vm.ext.i32.i64.s %i14\n  vm.return %i12:13\n"
        );
        let (function, nest) = (function(&body), one(&body));
        let [carried] = nest.loops[0].carried[..] else { return None };
        let needed = Needed::of(&function, &nest);
        Fold::of(&function, &nest, &needed, (carried.parameter, carried.next), None)
    }

    #[test]
    fn sums_and_products_are_folds() {
        let found =
            fold("  %i14 = vm.add.i32 %i14, %i18\n").map(|fold| (fold.opcode, fold.terms.len(), fold.is_swapped));
        assert_eq!(found, Some((Opcode::AddI32, 1, false)));
        let found =
            fold("  %i14 = vm.max.f32 %i18, %i14\n").map(|fold| (fold.opcode, fold.terms.len(), fold.is_swapped));
        assert_eq!(found, Some((Opcode::MaxF32, 1, true)));
        let found = fold("  %i14 = vm.fma.f32 %i18, %i19, %i14\n").map(|fold| (fold.opcode, fold.terms.len()));
        assert_eq!(found, Some((Opcode::FmaF32, 2)));
        let several =
            "  %i14 = vm.add.i32 %i14, %i18\n  %i14 = vm.add.i32 %i19, %i14\n  %i14 = vm.add.i32 %i18, %i14\n";
        assert_eq!(fold(several).map(|fold| fold.terms.len()), Some(3));
    }

    #[test]
    fn numbers_that_something_else_depends_on_are_no_folds() {
        for body in [
            // Floats are added one after the other.
            "  %i14 = vm.add.f32 %i14, %i18\n  %i14 = vm.add.f32 %i14, %i19\n",
            "  %i14 = vm.add.i32 %i14, %i18\n  %i14 = vm.xor.i32 %i14, %i19\n",
            "  %i14 = vm.add.i32 %i14, %i14\n",
            "  %i14 = vm.fma.i32 %i14, %i18, %i19\n",
            "  vm.buffer.store.i32 %i14, %r2, %i12:13\n  %i14 = vm.add.i32 %i14, %i18\n",
            "  %i15 = vm.mul.i32 %i14, %i18\n  %i14 = vm.add.i32 %i15, %i14\n",
            "  %i14 = vm.add.i32 %i18, %i19\n",
        ] {
            assert_eq!(fold(body), None, "{body}");
        }
    }
}
