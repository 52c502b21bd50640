//! Buffers that have only zeros before a nest: compilers allocate the memory of an accumulator, clear it, and then add products to it.

use alloc::vec::Vec;

use super::Nest;
use crate::index_map::IndexMap;
use crate::ir::dominators::{Common, Dominators};
use crate::ir::function::Function;
use crate::ir::graph::Graph;
use crate::ir::loops::Loops;
use crate::ir::op::Op;
use crate::ir::value::{Block, Value};

/// What may change the buffers that a function allocates.
struct Changes<'a> {
    loops: &'a Loops,
    dominators: &'a Dominators,
    /// For each buffer, an index into the allocations.
    allocated: IndexMap<Value, usize>,
    allocations: Vec<Allocation>,
}

struct Allocation {
    block: Block,
    /// The blocks that may change the buffer, or give it another name.
    changing: Option<Common>,
}

/// Says which views of nests have only zeros before.
pub(super) fn mark(nests: &mut [Nest], function: &Function, graph: &Graph, loops: &Loops, dominators: &Dominators) {
    // Without cycles of several entries, those through a block lead through the header of the innermost loop around it.
    if nests.is_empty() || !dominators.is_reducible(graph) {
        return;
    }
    let changes = Changes::of(function, loops, dominators);
    for nest in nests {
        let header = nest.loops[0].header;
        nest.views.iter_mut().for_each(|view| view.zeros = changes.none_before(header, view.buffer));
    }
}

/// The buffers that a function allocates, and where.
pub(super) fn allocations(function: &Function) -> impl Iterator<Item = (Block, Value)> {
    function.iter().flat_map(|(block, data)| {
        let allocations = data.instructions.iter().filter(|inst| matches!(inst.op, Op::BufferAlloc { .. }));
        allocations.flat_map(move |inst| inst.results.iter().map(move |buffer| (block, *buffer)))
    })
}

impl<'a> Changes<'a> {
    fn of(function: &Function, loops: &'a Loops, dominators: &'a Dominators) -> Changes<'a> {
        let mut changes = Changes { loops, dominators, allocated: IndexMap::default(), allocations: Vec::new() };
        for (block, buffer) in allocations(function) {
            changes.allocated.insert(buffer, changes.allocations.len());
            changes.allocations.push(Allocation { block, changing: None });
        }
        for (block, data) in function.iter() {
            for inst in &data.instructions {
                match &inst.op {
                    Op::BufferLoad { .. } | Op::BufferLength { .. } => {}
                    Op::BufferStore { value, .. } if function.constant_bits(*value) == Some(0) => {}
                    op => op.visit(|operand| changes.add(operand.value(), block)),
                }
            }
            data.terminator.visit_values(|value| changes.add(value, block));
        }
        changes
    }

    fn add(&mut self, buffer: Value, block: Block) {
        let Some(at) = self.allocated.get(buffer) else { return };
        let changing = &mut self.allocations[*at].changing;
        *changing = Some(self.dominators.common(*changing, block.0));
    }

    /// Whether nothing has changed a buffer of the function when the loop with a header begins.
    fn none_before(&self, header: Block, buffer: Value) -> bool {
        let Some(at) = self.allocated.get(buffer) else { return false };
        let Some(root) = self.loops.innermost_index(header.0) else { return false };
        let Allocation { block, changing } = &self.allocations[*at];
        // Then what follows the loop leads to it again only by the allocation, of another buffer.
        let is_within_the_same =
            self.loops.all()[root].parent.is_none_or(|around| self.loops.contains(around, block.0));
        // Within the loop, or later.
        is_within_the_same && changing.is_none_or(|changing| self.dominators.dominates_all(header.0, changing))
    }
}

impl Nest {
    /// Whether the nest stores nothing but zeros, to buffers that have only zeros.
    pub(super) fn stores_zeros_to_zeros(&self, function: &Function) -> bool {
        let is_zero = |value: Value| function.constant_bits(value) == Some(0);
        !self.accesses.is_empty()
            && self.gathers.is_empty()
            && self.accesses.iter().all(|access| access.stored.is_some_and(is_zero) && self.views[access.view].zeros)
            && self.loops.iter().all(|counted| counted.carried.is_empty())
    }
}
