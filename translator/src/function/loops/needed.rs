//! What of a nest must be computed: what is stored, and what the outermost loop carries.

use std::collections::HashSet;

use incarnate_runtime::ir::nest::{Item, Nest};
use incarnate_runtime::ir::{Block, Function, Value};

/// Values that what a nest does depends on; indices are not among them, as grids take turns.
#[derive(Debug, Default)]
pub(super) struct Needed {
    values: HashSet<Value>,
}

/// The instructions of a nest but for those taken out.
pub(super) fn instructions(nest: &Nest) -> impl Iterator<Item = (Block, usize)> {
    nest.loops.iter().flat_map(|counted| &counted.items).filter_map(|item| match item {
        Item::Instruction(block, position) => Some((*block, *position)),
        Item::Loop(_) => None,
    })
}

impl Needed {
    pub(super) fn of(function: &Function, nest: &Nest) -> Needed {
        let mut needed = Needed::default();
        let mut pending: Vec<Value> = nest.accesses.iter().filter_map(|access| access.stored).collect();
        pending.extend(nest.loops[0].carried.iter().map(|carried| carried.next));
        for form in
            nest.views.iter().map(|view| &view.index).chain(nest.conditions.iter().map(|condition| &condition.form))
        {
            pending.extend(super::factors(form));
        }
        pending.extend(nest.views.iter().map(|view| view.buffer));
        for counted in &nest.loops {
            pending.extend(super::factors(&counted.test.first).chain(super::factors(&counted.test.bound)));
        }
        while let Some(value) = pending.pop() {
            if !needed.values.insert(value) {
                continue;
            }
            let made = instructions(nest).chain(nest.hoisted.iter().copied());
            for (block, position) in made {
                let inst = nest.instruction(function, block, position);
                if inst.results.contains(&value) && nest.access(block, position).is_none() {
                    inst.op.visit(|operand| pending.push(operand.value()));
                }
            }
            for (index, counted) in nest.loops.iter().enumerate() {
                for carried in &counted.carried {
                    if carried.parameter == value || (index != 0 && counted.escaping(carried) == value) {
                        pending.extend([carried.parameter, carried.next]);
                        pending.extend(Some(carried.initial).filter(|_| index != 0));
                    }
                }
                for induction in counted.inductions.iter().filter(|induction| induction.parameter == value) {
                    pending.extend(super::factors(&induction.step).chain(induction.initial));
                }
            }
        }
        needed
    }

    /// Whether a value is needed.
    pub(super) fn has(&self, value: Value) -> bool {
        self.values.contains(&value)
    }

    /// All of them, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        self.values.iter().copied()
    }
}
