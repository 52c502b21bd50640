//! Loads at indices that iterations compute: of resized images, of the rows of a table.
//!
//! Whether such an index is in range is known when its iteration runs, and not before the nest. So back ends stop there, and let the loops of
//! the bytecode follow from their beginning, which fail at the same access as by themselves. They find what the nest found: it carries nothing
//! out, and nothing that it loads is stored by it. Iterations run in the order of the bytecode, and none that follows has stored anything:
//! memory is as those loops leave it.

use alloc::vec::Vec;

use super::{Element, Nest};
use crate::index_map::{IndexMap, IndexSet};
use crate::ir::function::{Function, Inst};
use crate::ir::value::{Block, Value};

/// A load of an element whose index is no [`Affine`](super::Affine) form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Block of the instruction.
    pub block: Block,
    /// Its position there.
    pub position: usize,
    /// The buffer, which is loop-invariant.
    pub buffer: Value,
    /// Type of the elements.
    pub element: Element,
    /// The index, in elements: an `i64`, which is an unsigned number. Where the nest stores to that element, it counts as out of range.
    pub index: Value,
}

impl Nest {
    /// Returns the gather of an instruction, as an index into [`Nest::gathers`].
    #[must_use]
    pub fn gather(&self, block: Block, position: usize) -> Option<usize> {
        self.gathers.iter().position(|gather| (gather.block, gather.position) == (block, position))
    }

    /// The values that indices of gathers are computed from. Numbers among them that the nest loads must be settled, as each is compared
    /// with the number of elements before it is used.
    #[must_use]
    pub fn index_values(&self, function: &Function) -> IndexSet<Value> {
        let (mut found, mut pending) = (IndexSet::default(), Vec::new());
        pending.extend(self.gathers.iter().map(|gather| gather.index));
        let mut computed: IndexMap<Value, &Inst> = IndexMap::default();
        for (block, position) in self.instructions() {
            let inst = self.instruction(function, block, position);
            inst.results.iter().for_each(|result| _ = computed.insert(*result, inst));
        }
        while let Some(value) = pending.pop() {
            if !found.insert(value, ()) {
                continue;
            }
            if let Some(inst) = computed.get(value) {
                inst.op.visit(|operand| pending.push(operand.value()));
            }
            let carried = self.loops.iter().flat_map(|counted| &counted.carried);
            pending.extend(carried.filter(|each| each.parameter == value).flat_map(|each| [each.initial, each.next]));
        }
        found
    }

    /// Whether the loops of the bytecode find what the nest found if they run after it, provided that what it stores is disjoint from
    /// everything else that it accesses.
    pub(super) fn can_run_again(&self) -> bool {
        let carries = self.loops[0].carried.iter().any(|carried| carried.next != carried.parameter);
        let is_loaded = |view: usize| self.accesses.iter().any(|access| access.view == view && access.stored.is_none());
        !carries && !(0..self.views.len()).any(|view| self.views[view].written && is_loaded(view))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{function, one, rejected, single};
    use crate::ir::nest::{Access, BailOut, Needed, Order, Schedule};
    use alloc::format;

    const TEST: &str = "vm.cmp.lt.i64.s %i12:13, %i10:11";
    const LOAD: &str = "  %i18 = vm.buffer.load.i32 %r1, %i16:17\n";
    const STORE: &str = "  vm.buffer.store.i32 %i18, %r0, %i12:13\n";

    #[test]
    fn loads_at_computed_indices_are_gathers() {
        // The number of gathers, of views, and of loads that indices are computed from.
        let gathers = |index: &str| {
            let body = single(0, 1, TEST, &format!("{index}{LOAD}{STORE}"));
            let (function, nest) = (function(&body), one(&body));
            let values = nest.index_values(&function);
            let is_index = |access: &&Access| {
                let results = &nest.instruction(&function, access.block, access.position).results;
                access.stored.is_none() && results.iter().all(|result| values.contains(*result))
            };
            (nest.gathers.len(), nest.views.len(), nest.accesses.iter().filter(is_index).count())
        };
        assert_eq!(gathers("  %i16:17 = vm.and.i64 %i12:13, %i0:1\n"), (1, 1, 0));
        assert_eq!(gathers("  %i16:17 = vm.mul.i64 %i12:13, %i12:13\n"), (1, 1, 0));
        assert_eq!(gathers("  %i16:17 = vm.buffer.load.i64 %r1, %i12:13\n"), (1, 2, 1));
        assert_eq!(gathers("  %i16:17 = vm.add.i64 %i12:13, %i0:1\n"), (0, 2, 0));
    }

    #[test]
    fn nests_that_could_not_run_again_are_refused() {
        let index = "  %i16:17 = vm.and.i64 %i12:13, %i0:1\n";
        let adds = "  %i5 = vm.buffer.load.i32 %r0, %i12:13\n  %i18 = vm.add.i32 %i18, %i5\n";
        let body = single(0, 1, TEST, &format!("{index}{LOAD}{adds}{STORE}"));
        assert!(matches!(rejected(&body), BailOut::Again(_)));
        let sum = "  %i4 = vm.add.i32 %i4, %i18\n";
        let body = single(0, 1, TEST, &format!("{index}{LOAD}{sum}{STORE}"));
        let body = body.replace("vm.return %i6:7", "%i6:7 = vm.ext.i32.i64.s %i4\n  vm.return %i6:7");
        assert!(matches!(rejected(&body), BailOut::Again(_)));
        // A store is none.
        let body = single(0, 1, TEST, &format!("{index}{LOAD}{}", STORE.replace("%i12:13", "%i16:17")));
        assert!(matches!(rejected(&body), BailOut::Index(_)));
    }

    /// Whether all indices are in range is not known before the nest runs.
    #[test]
    fn nests_of_zeros_that_gather_run() {
        let body = single(
            0,
            1,
            TEST,
            &format!("  %i16:17 = vm.and.i64 %i12:13, %i0:1\n{LOAD}  vm.buffer.store.i32 %i20, %r3, %i12:13\n"),
        );
        let body = format!("  %i20 = vm.const.i32.zero\n  %r3 = vm.buffer.alloc %i0:1, %i4\n{body}");
        let (function, nest) = (function(&body), one(&body));
        assert!(nest.views[0].zeros && nest.gathers.len() == 1);
        let schedule = Schedule::of(&function, &nest, &Needed::of(&function, &nest), Order::Bytecode);
        assert!(matches!(schedule, Schedule::Strips(_)), "{schedule:?}");
    }

    /// An index that a loop around computes is an invariant of the inner loop, which is a nest with views.
    #[test]
    fn rows_at_computed_indices_are_views() {
        let inner = "  %i16:17 = vm.add.i64 %i14:15, %i20:21\n  %i18 = vm.buffer.load.i32 %r1, %i16:17\n  \
            vm.buffer.store.i32 %i18, %r0, %i20:21\n  %i20:21 = vm.add.i64 %i20:21, %i8:9\n";
        let body = format!(
            "  vm.br ^bb1(%i6->%i12, %i7->%i13)\n^bb1:\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i10:11\n  \
             vm.cond_br %i5, ^bb2(), ^bb5()\n^bb2:\n  %i14:15 = vm.buffer.load.i64 %r2, %i12:13\n  \
             vm.br ^bb3(%i6->%i20, %i7->%i21)\n^bb3:\n  %i5 = vm.cmp.lt.i64.s %i20:21, %i10:11\n  \
             vm.cond_br %i5, ^bb4(), ^bb6()\n^bb4:\n{inner}  vm.br ^bb3()\n^bb6:\n  \
             %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb1()\n^bb5:\n  vm.return %i6:7\n"
        );
        let nests = crate::ir::nest::Nests::of(&function(&body));
        assert!(matches!(nests.rejected[..], [(_, BailOut::Index(_))]), "{nests:#?}");
        assert!(nests.found.iter().all(|nest| nest.gathers.is_empty() && nest.views.len() == 2), "{nests:#?}");
        assert_eq!(nests.found.len(), 1);
    }
}
