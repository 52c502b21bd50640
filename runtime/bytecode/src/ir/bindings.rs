//! The bindings of kernels: buffers in a list.

use alloc::vec::Vec;

use super::function::Definition;
use super::value::{Block, Type};
use super::{Function, Op, Terminator, Value};
use crate::TypeId;
use crate::index_map::IndexMap;

impl Function {
    /// Makes arguments of the bindings that a kernel takes from its list, in the list's place, and returns their ordinals, ascending.
    /// `at` is the index of the argument that holds all `count` bindings, all of them buffers.
    ///
    /// Returns None, and changes nothing, where the kernel uses the list in any other way.
    pub fn pass_bindings(&mut self, at: usize, count: usize, is_buffer: impl Fn(TypeId) -> bool) -> Option<Vec<u32>> {
        let list = *self.arguments().get(at)?;
        let mut taken: Vec<(u32, Value)> = Vec::new();
        let mut is_passed = true;
        for block in &self.blocks {
            for inst in &block.instructions {
                match &inst.op {
                    Op::ListGetRef { list: from, index, type_def, take: false } if *from == list => {
                        let ordinal = self.constant_bits(*index).filter(|ordinal| *ordinal < count as u64)?;
                        is_passed &= is_buffer(*type_def);
                        taken.extend(inst.results.iter().map(|result| (ordinal as u32, *result)));
                    }
                    op => op.visit(|operand| is_passed &= operand.value() != list),
                }
            }
            block.terminator.visit_values(|value| is_passed &= value != list);
        }
        if !is_passed {
            return None;
        }
        let mut replacements = self.identity();
        let mut arguments = self.arguments().to_vec();
        arguments.truncate(at);
        taken.sort_unstable();
        let mut bindings: Vec<u32> = Vec::new();
        for (ordinal, result) in taken {
            if bindings.last() != Some(&ordinal) {
                bindings.push(ordinal);
                let argument = self.value(Type::Ref, Definition::Parameter(Block::ENTRY, 0));
                arguments.push(argument);
                replacements.push(argument);
            }
            replacements[result.index()] = arguments[arguments.len() - 1];
        }
        arguments.extend(&self.arguments()[at + 1..]);
        for (position, argument) in arguments.iter().enumerate() {
            self.redefine(*argument, Definition::Parameter(Block::ENTRY, position as u32));
        }
        self.blocks[Block::ENTRY.index()].parameters = arguments;
        let is_of_list = |op: &Op| matches!(op, Op::ListGetRef { list: from, .. } if *from == list);
        self.blocks.iter_mut().for_each(|block| block.instructions.retain(|inst| !is_of_list(&inst.op)));
        self.replace(&replacements);
        Some(bindings)
    }

    /// Whether references among the arguments are used for nothing but to access memory, and none is kept while the function is suspended.
    #[must_use]
    pub fn only_accesses_memory_of_arguments(&self) -> bool {
        let is_reference = |value: Value| self.ty(value) == Type::Ref && self.arguments().contains(&value);
        let mut is_accessed = true;
        for block in &self.blocks {
            for inst in &block.instructions {
                if !inst.op.accesses_memory() {
                    inst.op.visit(|operand| is_accessed &= !is_reference(operand.value()));
                }
            }
            block.terminator.visit_values(|value| is_accessed &= !is_reference(value));
            is_accessed &= !matches!(block.terminator, Terminator::Yield(_) | Terminator::CallYieldable { .. });
        }
        is_accessed
    }
}

/// Returns a bit set of the bindings whose elements a kernel reads and does not write; `list` is the index of the argument that holds
/// all bindings. Operations that the analysis does not know count as writes: calls, changes of lists, references passed to blocks.
#[must_use]
pub fn read_only_bindings(body: &Function, list: usize) -> u64 {
    body.arguments().get(list).map_or(0, |list| of_list(body, *list))
}

fn of_list(body: &Function, list: Value) -> u64 {
    let mut bindings: IndexMap<Value, u64> = IndexMap::default();
    for inst in body.blocks.iter().flat_map(|block| &block.instructions) {
        let Op::ListGetRef { list: from, index, take: false, .. } = &inst.op else { continue };
        let ordinal = body.constant_bits(*index).filter(|ordinal| *from == list && *ordinal < 64);
        if let (Some(ordinal), Some(result)) = (ordinal, inst.results.first()) {
            bindings.insert(*result, 1u64 << ordinal);
        }
    }
    let mut written = 0;
    // A use of a value other than reading its elements.
    let mut mark_written = |value: Value| match bindings.get(value) {
        Some(binding) => written |= binding,
        None if value == list => written = u64::MAX,
        None => {}
    };
    for block in &body.blocks {
        for inst in &block.instructions {
            match &inst.op {
                Op::ListGetRef { list: from, .. } if inst.results.first().is_some_and(|v| bindings.contains(*v)) => {
                    debug_assert_eq!(*from, list);
                }
                Op::BufferLoad { .. }
                | Op::BufferLength { .. }
                | Op::BufferCompare { .. }
                | Op::BufferHash { .. }
                | Op::BufferClone { .. }
                | Op::ListSize { .. }
                | Op::CheckRef { .. }
                | Op::CompareRef { .. }
                | Op::IsNonNull { .. }
                | Op::Drop { .. } => {}
                Op::BufferCopy { target, .. } => mark_written(*target),
                op => op.visit(|operand| mark_written(operand.value())),
            }
        }
        block.terminator.visit_values(&mut mark_written);
    }
    bindings.values().iter().fold(0, |all, binding| all | binding) & !written
}
