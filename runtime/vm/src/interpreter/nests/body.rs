//! The order of the steps of a body, and the strips of their results.

use alloc::vec::Vec;

use incarnate_bytecode::index_map::IndexMap;

use super::{Body, Step};

/// The steps that depend on accumulators: the strips of their results, and the strips that they read of other steps.
#[derive(Default)]
pub(super) struct Accumulating {
    pub(super) results: Vec<u16>,
    pub(super) operands: Vec<(u16, usize)>,
}

impl Step {
    pub(super) fn visit_strips(&mut self, mut visit: impl FnMut(&mut u16, bool)) {
        match self {
            Step::Load { into, .. } | Step::Sequence { into, .. } => visit(into, true),
            Step::Store { from, .. } => visit(from, false),
            Step::Gather { index, into, .. } => {
                visit(index, false);
                visit(into, true);
            }
            Step::Eval { operands, into, .. } => {
                operands.iter_mut().filter(|strip| **strip != u16::MAX).for_each(|strip| visit(strip, false));
                visit(into, true);
            }
            Step::Fold { operands, into, .. } => {
                operands.iter_mut().filter(|strip| **strip != u16::MAX).for_each(|strip| visit(strip, false));
                visit(into, false);
                visit(into, true);
            }
        }
    }
}

impl Body {
    /// Lets strips be elements in memory where nothing is stored before their last use.
    pub(super) fn borrow_loads(&mut self) {
        let first_store = self.steps.iter().position(|step| matches!(step, Step::Store { .. }));
        let mut last_uses = alloc::vec::Vec::new();
        for (at, step) in self.steps.iter_mut().chain(&mut self.scalar_steps).enumerate() {
            step.visit_strips(|strip, is_result| {
                if !is_result {
                    last_uses.push((*strip, at));
                }
            });
        }
        for step in &mut self.steps {
            if let Step::Load { into, is_extended: false, is_borrowed, .. } = step {
                let last = last_uses.iter().filter(|(strip, _)| strip == into).map(|(_, at)| *at).max();
                *is_borrowed = first_store.is_none() || last <= first_store;
            }
        }
    }

    /// Moves the loads of the elements that reductions store to the front and the stores to the end; false, and nothing done, where an
    /// iteration does anything else with these elements.
    pub(super) fn accumulate(&mut self, stores: &[usize]) -> bool {
        let is_load = |step: &Step| matches!(step, Step::Load { .. });
        let is_store = |step: &Step| matches!(step, Step::Store { .. });
        let first_store = self.first_store();
        if self.steps[first_store..].iter().any(is_load) {
            return false;
        }
        let mut accumulators: Vec<(u16, u16)> = Vec::new();
        for store in stores {
            let mut loads = self.steps.iter().filter_map(|step| match step {
                Step::Load { view, into, is_extended: false, .. } if view == store => Some(*into),
                _ => None,
            });
            let mut stored = self.steps.iter().filter_map(|step| match step {
                Step::Store { view, from, .. } if view == store => Some(*from),
                _ => None,
            });
            let (Some(load), None, Some(sum), None) = (loads.next(), loads.next(), stored.next(), stored.next()) else {
                return false;
            };
            let is_computed = |step: &Step| matches!(step, Step::Eval { into, .. } if *into == sum);
            if !self.steps.iter().any(is_computed) || accumulators.iter().any(|(_, other)| *other == sum) {
                return false;
            }
            accumulators.push((load, sum));
        }
        let is_accumulator = |step: &Step| match step {
            Step::Load { view, .. } => stores.contains(view),
            _ => false,
        };
        // A stable sort.
        self.steps.sort_by_key(|step| if is_accumulator(step) { 0 } else { 1 + u8::from(is_store(step)) });
        self.accumulators = accumulators;
        true
    }

    /// The position of the first store; the number of steps where there is none.
    fn first_store(&self) -> usize {
        self.steps.iter().position(|step| matches!(step, Step::Store { .. })).unwrap_or(self.steps.len())
    }

    /// Whether no step follows a store.
    pub(super) fn stores_last(&self) -> bool {
        self.steps[self.first_store()..].iter().all(|step| matches!(step, Step::Store { .. }))
    }

    /// Moves the steps that depend on accumulators behind the others, in front of the last `stores`.
    pub(super) fn take_accumulating(&mut self, stores: usize) -> Accumulating {
        let mut accumulating = Accumulating::default();
        let mut depending: Vec<u16> = self.accumulators.iter().map(|(loaded, _)| *loaded).collect();
        if depending.is_empty() {
            return accumulating;
        }
        let mut taken = Vec::new();
        let last = self.steps.len() - stores;
        for step in &mut self.steps[..last] {
            let (mut operands, mut result) = (Vec::new(), None);
            step.visit_strips(|strip, is_result| match is_result {
                true => result = Some(*strip),
                false => operands.push(*strip),
            });
            if operands.iter().any(|strip| depending.contains(strip)) {
                taken.extend(operands);
                depending.extend(result);
                accumulating.results.extend(result);
            }
        }
        if !self.accumulators.iter().all(|(_, sum)| accumulating.results.contains(sum)) {
            return Accumulating::default();
        }
        let is_fixed = |strip: &u16| depending.contains(strip) || self.broadcasts.iter().any(|row| row.0 == *strip);
        taken.retain(|strip| !is_fixed(strip));
        taken.sort_unstable();
        taken.dedup();
        accumulating.operands = taken.into_iter().map(|strip| (strip, self.advances[usize::from(strip)])).collect();
        // A stable sort.
        let is_accumulating =
            |step: &Step| matches!(step, Step::Eval { into, .. } if accumulating.results.contains(into));
        self.steps[..last].sort_by_key(is_accumulating);
        accumulating
    }

    /// Gives results the strips of values that nothing uses any more, and returns the new numbers. Broadcast strips and those
    /// of `kept` stay their own.
    pub(super) fn reuse_strips(&mut self, kept: &[u16]) -> IndexMap<u16, u16> {
        let mut last_use = IndexMap::default();
        for (at, step) in self.steps.iter_mut().enumerate() {
            step.visit_strips(|strip, _| _ = last_use.insert(*strip, Some(at)));
        }
        let mut names = IndexMap::default();
        let mut count = 0u16;
        let fixed = self.broadcasts.iter().map(|row| row.0).chain(kept.iter().copied());
        for strip in fixed {
            if !names.contains(strip) {
                names.insert(strip, count);
                count += 1;
            }
            last_use.insert(strip, None);
        }
        let mut free: Vec<u16> = Vec::new();
        for (at, step) in self.steps.iter_mut().enumerate() {
            let mut ended = Vec::new();
            step.visit_strips(|strip, _| {
                let name = names.get(*strip).copied().unwrap_or_else(|| {
                    let name = free.pop().unwrap_or_else(|| {
                        count += 1;
                        count - 1
                    });
                    names.insert(*strip, name);
                    name
                });
                if last_use.get(*strip) == Some(&Some(at)) && !ended.contains(&name) {
                    ended.push(name);
                }
                *strip = name;
            });
            free.extend(ended);
        }
        for (strip, ..) in &mut self.broadcasts {
            *strip = names[*strip];
        }
        self.strips = count;
        names
    }
}
