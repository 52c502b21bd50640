//! Merged loops: where an iteration of a loop goes on at the elements behind those of the loop within it, both are one loop, which runs the
//! same iterations in the same order. A loop of a single iteration is none.

use alloc::vec::Vec;

use super::{Counted, Item, Needed, Nest, Schedule};
use crate::ir::function::Function;
use crate::ir::value::Value;

/// The least number of iterations that threads divide: dividers expect them to take 10 us, the shortest work that the engine shares
/// (`SHARE`).
pub const DIVIDED: u64 = 100_000;

/// The loops of a nest that are merged with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    /// By loop: a loop within it runs its iterations, or it has a single one.
    outer: Vec<bool>,
    /// By loop: the trip count, if it runs the iterations of others.
    counts: Vec<Option<u64>>,
}

impl Merged {
    /// Finds the loops that can be merged, and those of a single iteration. Kernels merge those of contractions themselves. Loops around
    /// reductions that threads divide stay apart.
    pub(super) fn of(function: &Function, nest: &Nest, needed: &Needed, schedule: &Schedule) -> Merged {
        let loops = &nest.loops;
        let mut merged = Merged { outer: alloc::vec![false; loops.len()], counts: alloc::vec![None; loops.len()] };
        let lanes = match schedule {
            Schedule::Contraction(_) => return merged,
            Schedule::Strips(strips) if !strips.reductions.is_empty() && nest.iterations() >= DIVIDED => return merged,
            Schedule::Strips(strips) => strips.lanes,
            Schedule::InOrder(_) | Schedule::Zeros => loops.len() - 1,
        };
        let is_unused = |at: usize| {
            let counted = &loops[at];
            counted.divisor.is_none()
                && counted.carried.is_empty()
                && !nest.divisions.iter().any(|division| division.within == at)
                && !counted.inductions.iter().any(|each| nest.reads(function, needed, each.parameter))
        };
        let is_around = |at: usize| {
            let works = |item: &Item| match item {
                Item::Instruction(block, position) => needed.includes(function, nest, *block, *position),
                Item::Loop(inner) => *inner != at + 1,
            };
            at + 1 < loops.len() && loops[at + 1].parent == Some(at) && !loops[at].items.iter().any(works)
        };
        let goes_on = |outer: usize, (inner, count): (usize, u64)| {
            nest.forms().all(|form| {
                let strides = form.constant_stride(outer).zip(form.constant_stride(inner));
                strides.is_some_and(|(outer, inner)| i128::from(outer) == i128::from(inner) * i128::from(count))
            })
        };
        // From the innermost loop outwards: the loop that takes further ones in, and its trip count so far.
        let mut inner: Option<(usize, u64)> = None;
        for at in (0..loops.len()).rev() {
            let count = loops[at].constant_trip_count();
            let is_free = is_unused(at);
            if at + 1 < loops.len() && !is_around(at) {
                inner = None;
            }
            if count == Some(1) && is_free && at != lanes {
                merged.outer[at] = true;
                continue;
            }
            let all = match (inner, count) {
                (Some(inner), Some(count)) if is_free && goes_on(at, inner) => {
                    inner.1.checked_mul(count).filter(|all| u32::try_from(*all).is_ok())
                }
                _ => None,
            };
            match (all, &mut inner) {
                (Some(all), Some((inner, count))) => {
                    merged.outer[at] = true;
                    merged.counts[*inner] = Some(all);
                    *count = all;
                }
                _ => inner = count.filter(|_| is_free).map(|count| (at, count)),
            }
        }
        merged
    }

    /// Whether a loop within a loop runs its iterations, or it has a single one.
    pub(super) fn is_outer(&self, at: usize) -> bool {
        self.outer.get(at).is_some_and(|is_outer| *is_outer)
    }

    /// The trip count of a loop that runs the iterations of others.
    pub(super) fn count(&self, at: usize) -> Option<u64> {
        self.counts.get(at).copied().flatten()
    }
}

impl Nest {
    /// The iterations of all loops whose trip counts are constants.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.loops.iter().filter_map(Counted::constant_trip_count).fold(1, u64::saturating_mul)
    }

    /// The forms that iterations evaluate: indices of views, and conditions.
    fn forms(&self) -> impl Iterator<Item = &super::Affine> {
        self.views.iter().map(|view| &view.index).chain(self.conditions.iter().map(|condition| &condition.form))
    }

    /// Whether a needed instruction or a carried value reads a value.
    pub(super) fn reads(&self, function: &Function, needed: &Needed, value: Value) -> bool {
        let mut found = false;
        for (block, position) in self.instructions() {
            let inst = self.instruction(function, block, position);
            match self.access(block, position) {
                Some(access) => found |= access.stored == Some(value),
                None if needed.includes(function, self, block, position) => {
                    inst.op.visit(|operand| found |= operand.value() == value);
                }
                None => {}
            }
        }
        found
            || self.loops.iter().enumerate().any(|(at, counted)| {
                let carried = counted.carried.iter().filter(|carried| at == 0 || needed.has(carried.parameter));
                let mut initials = counted.inductions.iter().filter(|induction| needed.has(induction.parameter));
                carried.into_iter().any(|carried| carried.next == value || (at != 0 && carried.initial == value))
                    || initials.any(|induction| induction.initial == Some(value) && induction.parameter != value)
            })
    }
}
