//! Sequential nests: their iterations run one after the other, as in the bytecode, and each step is done for a strip at once.
//!
//! Two kinds of steps allow that: computations from elements, whose results are stored to an element for each iteration, and [`Fold`]s,
//! which combine the numbers of a strip with one number. Where iterations depend on each other in any other way, the strips would have a single
//! element, for which the choice of a vector operation costs more than the interpreter's own instruction.

use alloc::boxed::Box;
use alloc::vec::Vec;

use incarnate_bytecode::index_map::IndexSet;
use incarnate_bytecode::ir::nest::{self, Check, Fold, is_associative};
use incarnate_bytecode::ir::{Block, Value};

use smallvec::SmallVec;

use super::kernels::{fold_kernel, kernel, register_width, width};
use super::lower::{BodyLowering, Lowering};
use super::{Body, Carried, OnStrips, Step, Work};

/// The most numbers that iterations fold others into, each of which is searched for among all instructions of the nest.
pub(super) const MOST_FOLDED: usize = 16;

/// A number that iterations fold others into.
struct Folded {
    fold: Fold,
    /// The number before an iteration and after it.
    first: Value,
    last: Value,
    /// The load and the store of the number, where it is an element in memory; else iterations carry it in registers.
    accesses: Option<[(Block, usize); 2]>,
}

impl Lowering<'_> {
    /// Returns the work of a sequential nest, and what must hold before; None where strips do not suit.
    pub(super) fn sequential(&mut self) -> Option<(Work, Vec<Check>)> {
        let nest = self.nest;
        let stores: Vec<usize> =
            nest.accesses.iter().filter(|access| access.stored.is_some()).map(|access| access.view).collect();
        let mut carried = nest.loops[0].carried.iter().filter(|carried| carried.next != carried.parameter);
        if stores.is_empty() && nest.gathers.is_empty() && carried.next().is_none() {
            return Some((Work::Nothing, Vec::new()));
        }
        let innermost = self.innermost()?;
        let folded = self.folded(innermost)?;
        let body = self.folding(innermost, &folded)?;
        let loads: Vec<usize> = (0..nest.views.len()).filter(|view| !stores.contains(view)).collect();
        // Each iteration stores the elements that others are folded into, but a strip stores them once.
        let checks = self.scheduled.independent(&stores, &loads, &[], body.scalar_steps.is_empty());
        let mut outer = nest.path(innermost);
        outer.retain(|at| *at != innermost && !self.scheduled.is_merged(*at));
        let (lanes, reductions) = (innermost, Vec::new());
        let work = Work::Strips(Box::new(OnStrips { is_sequential: true, outer, lanes, reductions, body }));
        Some((work, checks))
    }

    /// The numbers that iterations fold others into; None where iterations depend on each other in another way.
    fn folded(&self, innermost: usize) -> Option<Vec<Folded>> {
        let nest = self.nest;
        let carried = || nest.loops[0].carried.iter().filter(|carried| carried.next != carried.parameter);
        let is_element = |view: &nest::View| view.written && !view.index.moves_along(innermost);
        let elements = nest.views.iter().filter(|view| is_element(view));
        if carried().count() + elements.count() > MOST_FOLDED {
            return None;
        }
        let mut all = Vec::new();
        for carried in carried() {
            let (first, last) = (carried.parameter, carried.next);
            let fold = Fold::of(self.function, nest, &self.scheduled.needed, (first, last), None)?;
            all.push(Folded { fold, first, last, accesses: None });
        }
        for (at, view) in nest.views.iter().enumerate() {
            if !is_element(view) {
                continue;
            }
            let mut accesses = nest.accesses.iter().filter(|access| access.view == at);
            let (Some(load), Some(store), None) = (accesses.next(), accesses.next(), accesses.next()) else {
                return None;
            };
            let (None, Some(last)) = (load.stored, store.stored) else { return None };
            let positions = [load.instruction(), store.instruction()];
            let [first] = nest.instruction(self.function, load.block, load.position).results[..] else { return None };
            let fold = Fold::of(self.function, nest, &self.scheduled.needed, (first, last), Some(positions[1]))?;
            // Shorter elements are truncated by each iteration.
            (width(view.element) == register_width(view.element)).then_some(())?;
            all.push(Folded { fold, first, last, accesses: Some(positions) });
        }
        Some(all)
    }

    /// The steps of an iteration, with folds behind all others.
    fn folding(&mut self, innermost: usize, folded: &[Folded]) -> Option<Body> {
        let nest = self.nest;
        let mut lowering = BodyLowering::new(self);
        for each in folded.iter().filter(|each| each.accesses.is_none()) {
            lowering.operand(each.first)?;
        }
        let numbers: IndexSet<Value> = folded.iter().flat_map(|each| each.fold.numbers.iter().copied()).collect();
        for item in &nest.loops[innermost].items {
            let nest::Item::Instruction(block, position) = item else { continue };
            let results = &nest.instruction(lowering.lowering.function, *block, *position).results;
            let is_access =
                |each: &Folded| each.accesses.is_some_and(|accesses| accesses.contains(&(*block, *position)));
            if !folded.iter().any(is_access) && !results.iter().any(|result| numbers.contains(*result)) {
                lowering.instruction(*block, *position)?;
            }
        }
        for each in folded {
            lowering.fold(each)?;
        }
        let mut body = lowering.body;
        // An index that is out of range is found before anything of its strip is stored.
        if !nest.gathers.is_empty() && !body.stores_last() {
            return None;
        }
        body.borrow_loads();
        Some(body)
    }
}

impl BodyLowering<'_, '_> {
    /// Folds the numbers of strips into one.
    fn fold(&mut self, Folded { fold, first, last, accesses }: &Folded) -> Option<()> {
        let is_wide = self.lowering.is_wide(*first);
        let mut terms: SmallVec<[u16; 8]> = SmallVec::new();
        for term in &fold.terms {
            terms.push(self.operand(*term)?);
        }
        // Several terms of an associative operation are combined first.
        while is_associative(fold.opcode)
            && let [others @ .., left, right] = &terms[..]
        {
            let (kernel, into) = (kernel(fold.opcode, self.lowering.wide)?, self.strip(is_wide)?);
            self.body.steps.push(Step::Eval { kernel, operands: [*left, *right, u16::MAX], into });
            let others = others.len();
            terms.truncate(others);
            terms.push(into);
        }
        if let Some([load, _]) = accesses {
            self.element(*load)?;
        }
        let into = self.operand(*first)?;
        let kernel = fold_kernel(fold.opcode, fold.is_swapped, self.lowering.wide)?;
        let operands = [*terms.first()?, terms.get(1).copied().unwrap_or(u16::MAX)];
        self.body.scalar_steps.push(Step::Fold { kernel, operands, into });
        match accesses {
            Some([_, store]) => {
                self.strips.insert(*last, into);
                self.element(*store)
            }
            None => {
                let held = self.lowering.entry.registers.iter().filter(|(_, value)| value == first);
                let registers: Vec<u16> = held.map(|row| row.0).collect();
                (!registers.is_empty()).then_some(())?;
                self.body.carried.push(Carried { strip: into, is_wide, registers });
                Some(())
            }
        }
    }

    /// Loads or stores the element that others are folded into.
    fn element(&mut self, (block, position): (Block, usize)) -> Option<()> {
        self.instruction(block, position)?;
        let step = self.body.steps.pop()?;
        self.body.scalar_steps.push(step);
        Some(())
    }
}
