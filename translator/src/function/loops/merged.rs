//! Loops of a nest whose iterations access adjacent elements where the loop within them ends: both become one loop, which runs the
//! same iterations in the same order.

use incarnate_bytecode::ir::nest::{Item, Schedule};

use super::emit::Writer;

/// The loops that are merged with others.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// By loop: the loop within it runs its iterations.
    outer: Vec<bool>,
    /// By loop: the trip count, if it runs the iterations of others.
    counts: Vec<Option<u64>>,
}

impl Merged {
    /// Whether the loop within a loop runs its iterations.
    pub(super) fn is_outer(&self, at: usize) -> bool {
        self.outer.get(at).is_some_and(|is_outer| *is_outer)
    }

    /// The trip count of a loop that runs the iterations of others.
    pub(super) fn count(&self, at: usize) -> Option<u64> {
        self.counts.get(at).copied().flatten()
    }
}

impl Writer<'_, '_, '_> {
    /// Finds the loops that can be merged.
    pub(super) fn merge(&self, schedule: &Schedule) -> Merged {
        let is_plain = match schedule {
            Schedule::Contraction(_) => false,
            Schedule::Strips(strips) => !self.is_reduction(strips),
            Schedule::InOrder(_) | Schedule::Zeros => true,
        };
        let loops = &self.nest.loops;
        let mut merged = Merged { outer: vec![false; loops.len()], counts: vec![None; loops.len()] };
        // Steps of untrusted code, and conditions, count the iterations of each loop.
        if !is_plain || self.emitter.analysis.untrusted || !self.nest.conditions.is_empty() {
            return merged;
        }
        let is_unused = |at: usize| {
            let counted = &loops[at];
            counted.divisor.is_none()
                && counted.carried.is_empty()
                && !counted.inductions.iter().any(|induction| self.is_read(induction.parameter))
        };
        // From the innermost loop outwards: the loop that takes further ones in, and its trip count so far.
        let Some(mut inner) = loops.len().checked_sub(1) else { return merged };
        let mut count = loops[inner].constant_trip_count();
        for outer in (0..inner).rev() {
            let works = |item: &Item| match item {
                Item::Instruction(block, position) => self.is_emitted(*block, *position),
                Item::Loop(at) => *at != outer + 1,
            };
            let is_around = !loops[outer].items.iter().any(works) && loops[outer + 1].parent == Some(outer);
            let own = loops[outer].constant_trip_count();
            let all = count.zip(own).and_then(|(count, own)| {
                let goes_on = self.nest.views.iter().all(|view| {
                    let strides = view.index.constant_stride(outer).zip(view.index.constant_stride(inner));
                    strides.is_some_and(|(outer, inner)| i128::from(outer) == i128::from(inner) * i128::from(count))
                });
                (is_around && goes_on && is_unused(outer) && is_unused(inner)).then(|| count.checked_mul(own)).flatten()
            });
            match all {
                Some(all) => {
                    merged.outer[outer] = true;
                    merged.counts[inner] = Some(all);
                    count = Some(all);
                }
                None => (inner, count) = (outer, own),
            }
        }
        merged
    }
}
