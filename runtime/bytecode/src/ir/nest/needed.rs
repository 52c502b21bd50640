//! What of a nest must be computed: what is stored, and what the outermost loop carries.

use alloc::vec::Vec;

use super::{Access, Affine, Item, Nest};
use crate::index_map::{IndexMap, IndexSet};
use crate::ir::function::{Function, Inst};
use crate::ir::value::{Block, Value};

/// Values that what a nest does depends on; indices are not among them, as grids are indexed by iterations.
#[derive(Clone, Debug, Default)]
pub struct Needed {
    values: IndexSet<Value>,
}

impl Nest {
    /// The instructions of all loops, but for those taken out.
    pub fn instructions(&self) -> impl Iterator<Item = (Block, usize)> {
        self.loops.iter().flat_map(|counted| &counted.items).filter_map(|item| match item {
            Item::Instruction(block, position) => Some((*block, *position)),
            Item::Loop(_) => None,
        })
    }
}

impl Affine {
    /// The values in it.
    pub fn factors(&self) -> impl Iterator<Item = Value> {
        self.terms().iter().flat_map(|term| term.factors.iter().copied())
    }
}

impl Needed {
    /// What a nest of a function needs.
    #[must_use]
    pub fn of(function: &Function, nest: &Nest) -> Needed {
        let mut needed = Needed::default();
        let mut pending: Vec<Value> = nest.accesses.iter().filter_map(|access| access.stored).collect();
        pending.extend(nest.loops[0].carried.iter().map(|carried| carried.next));
        // What the outermost loop counts is there behind the nest, even if no iteration uses it.
        pending.extend(nest.loops[0].inductions.iter().flat_map(|induction| induction.step.factors()));
        for form in
            nest.views.iter().map(|view| &view.index).chain(nest.conditions.iter().map(|condition| &condition.form))
        {
            pending.extend(form.factors());
        }
        pending.extend(nest.views.iter().map(|view| view.buffer));
        pending.extend(nest.gathers.iter().flat_map(|gather| [gather.buffer, gather.index]));
        for counted in &nest.loops {
            pending.extend(counted.test.first.factors().chain(counted.test.bound.factors()));
            pending.extend(counted.divisor.iter().flat_map(Affine::factors));
        }
        // The instructions that compute values, but for loads.
        let mut computed: IndexMap<Value, &Inst> = IndexMap::default();
        for position in nest.instructions().chain(nest.hoisted.iter().copied()) {
            if nest.access(position.0, position.1).is_some() {
                continue;
            }
            let inst = nest.instruction(function, position.0, position.1);
            for result in &inst.results {
                computed.insert(*result, inst);
            }
        }
        while let Some(value) = pending.pop() {
            if !needed.values.insert(value, ()) {
                continue;
            }
            if let Some(inst) = computed.get(value) {
                inst.op.visit(|operand| pending.push(operand.value()));
            }
            for (index, counted) in nest.loops.iter().enumerate() {
                for carried in &counted.carried {
                    if carried.parameter == value || (index != 0 && counted.escaping(carried) == value) {
                        pending.extend([carried.parameter, carried.next]);
                        pending.extend(Some(carried.initial).filter(|_| index != 0));
                    }
                }
                for induction in counted.inductions.iter().filter(|induction| induction.parameter == value) {
                    pending.extend(induction.step.factors().chain(induction.initial));
                }
            }
        }
        needed
    }

    /// Whether a value is needed.
    #[must_use]
    pub fn has(&self, value: Value) -> bool {
        self.values.contains(value)
    }

    /// All of them, ascending.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        self.values.keys()
    }

    /// Returns true if an access is needed: unused loads are not.
    #[must_use]
    pub fn keeps(&self, function: &Function, nest: &Nest, access: &Access) -> bool {
        let inst = nest.instruction(function, access.block, access.position);
        access.stored.is_some() || inst.results.iter().any(|value| self.has(*value))
    }

    /// Returns true if an instruction or access is needed. So are all gathers, which may be out of range.
    #[must_use]
    pub fn includes(&self, function: &Function, nest: &Nest, block: Block, position: usize) -> bool {
        match nest.access(block, position) {
            _ if nest.gather(block, position).is_some() => true,
            Some(access) => self.keeps(function, nest, access),
            None => nest.instruction(function, block, position).results.iter().any(|value| self.has(*value)),
        }
    }
}
