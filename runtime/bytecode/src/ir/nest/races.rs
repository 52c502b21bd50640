//! What a nest does with numbers that another thread may change while the nest loads them.

use super::Nest;
use crate::index_map::IndexSet;
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::ir::value::Value;

impl Nest {
    /// True if a loaded number divides or selects. Otherwise a number that another thread changes during the nest, and that
    /// differs from one use of it to the next, changes numbers in memory, numbers that the nest carries out and indices of gathers,
    /// and nothing else. Back ends settle what such an index is computed from.
    #[must_use]
    pub fn decides_by_loaded_numbers(&self, function: &Function) -> bool {
        let loaded = self.loaded_numbers(function);
        self.instructions().any(|(block, position)| match &self.instruction(function, block, position).op {
            Op::Eval { opcode, operands } if opcode.info().effects.fails => {
                operands.get(1).is_some_and(|divisor| loaded.contains(*divisor))
            }
            Op::Switch { index, .. } => loaded.contains(*index),
            _ => false,
        })
    }

    /// The values that depend on a load of the nest.
    fn loaded_numbers(&self, function: &Function) -> IndexSet<Value> {
        let mut loaded = IndexSet::default();
        loop {
            let before = loaded.len();
            for (block, position) in self.instructions() {
                let inst = self.instruction(function, block, position);
                let mut depends = self.access(block, position).is_some() || self.gather(block, position).is_some();
                inst.op.visit(|operand| depends |= loaded.contains(operand.value()));
                if depends {
                    loaded.extend(inst.results.iter().copied());
                }
            }
            for carried in self.loops.iter().flat_map(|counted| &counted.carried) {
                if loaded.contains(carried.next) || loaded.contains(carried.initial) {
                    loaded.insert(carried.parameter, ());
                }
            }
            if loaded.len() == before {
                return loaded;
            }
        }
    }
}
