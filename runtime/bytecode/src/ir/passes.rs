//! Simplifications of functions that do not change their behaviour.

use alloc::vec;
use alloc::vec::Vec;

use super::function::{BlockData, Definition, Function, Inst};
use super::graph::Graph;
use super::op::{Callee, Edge, Op, Operand, Terminator};
use super::uses::UseMut;
use super::value::{Block, Type, Value};
use crate::isa::Opcode;

/// Computes an instruction whose meaning is a function of [`semantics`](crate::semantics), on the bits of its operands; None where it does
/// not succeed or is no such instruction.
pub type Evaluate = fn(Opcode, &[u64]) -> Option<u64>;

/// The most iterations of a simplification, each of which goes through the whole function. What is left is correct, too.
const MAX_ROUNDS: usize = 256;

impl Function {
    /// Removes what is superfluous: parameters that always get the same value, values that nothing uses, branches that are
    /// decided, blocks that nothing reaches or that one could write in one piece. Reinterpretations of constants are
    /// computed, and with `evaluate` arithmetic on constants.
    ///
    /// Takes [`ownership`](super::ownership) away, which must be found anew.
    pub fn simplify(&mut self, evaluate: Option<Evaluate>) {
        super::ownership::forget(self);
        for _ in 0..MAX_ROUNDS {
            let mut changed = self.fold(evaluate);
            changed |= self.decide_branches();
            self.remove_unreachable();
            changed |= self.merge_blocks();
            changed |= self.propagate_parameters();
            self.remove_unused();
            if !changed {
                return;
            }
        }
    }

    /// Replaces values everywhere.
    pub(super) fn replace(&mut self, replacements: &[Value]) {
        let replace = |mut operand: UseMut<'_>| {
            let value = operand.value_mut();
            *value = replacements[value.index()];
        };
        for block in &mut self.blocks {
            for (_, value) in block.entry.iter_mut().flat_map(|entry| &mut entry.registers) {
                *value = replacements[value.index()];
            }
            for inst in &mut block.instructions {
                inst.op.visit_mut(replace);
            }
            block.terminator.visit_mut(replace);
            block.terminator.visit_edges_mut(|edge| {
                for operand in &mut edge.arguments {
                    operand.value = replacements[operand.value.index()];
                }
            });
        }
    }

    pub(super) fn identity(&self) -> Vec<Value> {
        (0..self.value_count() as u32).map(Value).collect()
    }

    /// Parameters that have the same value on every path into the block become that value.
    ///
    /// Optimistic: parameters that only pass each other around are found, too. Each parameter is first unknown, then the one
    /// value that all known arguments are, then itself.
    fn propagate_parameters(&mut self) -> bool {
        const UNKNOWN: Value = Value(u32::MAX);
        let mut known = self.identity();
        for block in self.blocks.iter().skip(1) {
            block.parameters.iter().for_each(|parameter| known[parameter.index()] = UNKNOWN);
        }
        for round in 0.. {
            if round == MAX_ROUNDS {
                return false;
            }
            let mut changed = false;
            for block in &self.blocks {
                block.terminator.visit_edges(|edge| {
                    let parameters = &self.blocks[edge.target.index()].parameters;
                    for (parameter, operand) in parameters.iter().zip(&edge.arguments) {
                        let (now, argument) = (known[parameter.index()], known[operand.value.index()]);
                        let joined = match (now, argument) {
                            (now, UNKNOWN) => now,
                            (UNKNOWN, argument) => argument,
                            (now, argument) if now == argument => now,
                            _ => *parameter,
                        };
                        changed |= joined != now;
                        known[parameter.index()] = joined;
                    }
                });
            }
            if !changed {
                break;
            }
        }
        // An argument that became itself after others had copied it makes them themselves in the next round, or stays.
        let mut found = false;
        for block in self.blocks.iter().skip(1) {
            for &parameter in &block.parameters {
                found |= known[parameter.index()] != parameter && known[parameter.index()] != UNKNOWN;
            }
        }
        if !found {
            return false;
        }
        for (index, value) in known.iter_mut().enumerate() {
            if *value == UNKNOWN {
                *value = Value(index as u32);
            }
        }
        let keep: Vec<Vec<bool>> = self
            .blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                block.parameters.iter().map(|parameter| index == 0 || known[parameter.index()] == *parameter).collect()
            })
            .collect();
        self.replace(&known);
        self.retain_parameters(&keep);
        true
    }

    /// Takes parameters, and the arguments for them, away.
    fn retain_parameters(&mut self, keep: &[Vec<bool>]) {
        for (index, keep) in keep.iter().enumerate() {
            if keep.iter().all(|keep| *keep) {
                continue;
            }
            let mut kept = keep.iter();
            let mut parameters = core::mem::take(&mut self.blocks[index].parameters);
            parameters.retain(|_| kept.next().copied().unwrap_or(true));
            for (position, parameter) in parameters.iter().enumerate() {
                self.redefine(*parameter, Definition::Parameter(Block(index as u32), position as u32));
            }
            self.blocks[index].parameters = parameters;
        }
        for block in &mut self.blocks {
            block.terminator.visit_edges_mut(|edge| {
                let mut kept = keep[edge.target.index()].iter();
                edge.arguments.retain(|_| kept.next().copied().unwrap_or(true));
            });
        }
    }

    /// Removes pure instructions without used results, and unused parameters.
    fn remove_unused(&mut self) {
        let mut used = vec![false; self.value_count()];
        // Instructions with several results, by their first one.
        let mut visited = vec![false; self.value_count()];
        let mut pending: Vec<Value> = Vec::new();
        // Where each value's instruction stands.
        let mut positions = vec![(0u32, u32::MAX); self.value_count()];
        let mut incoming: Vec<Vec<&Edge>> = vec![Vec::new(); self.blocks.len()];
        for (index, block) in self.blocks.iter().enumerate() {
            for (position, inst) in block.instructions.iter().enumerate() {
                for result in &inst.results {
                    positions[result.index()] = (index as u32, position as u32);
                }
                if !inst.op.is_pure() {
                    inst.op.visit(|operand| pending.push(operand.value()));
                }
            }
            block.terminator.visit(|operand| pending.push(operand.value()));
            block.terminator.visit_edges(|edge| incoming[edge.target.index()].push(edge));
        }
        while let Some(value) = pending.pop() {
            if core::mem::replace(&mut used[value.index()], true) {
                continue;
            }
            match self.definition(value) {
                Definition::Constant(_) => {}
                Definition::Parameter(block, position) => {
                    let passed =
                        incoming[block.index()].iter().filter_map(|edge| edge.arguments.get(position as usize));
                    pending.extend(passed.map(|operand| operand.value));
                }
                Definition::Result(_) => {
                    let (block, position) = positions[value.index()];
                    if let Some(inst) = self.blocks[block as usize].instructions.get(position as usize) {
                        // The operands of several results count once.
                        if inst.results.len() < 2 || !core::mem::replace(&mut visited[inst.results[0].index()], true) {
                            inst.op.visit(|operand| pending.push(operand.value()));
                        }
                    }
                }
            }
        }
        let keep: Vec<Vec<bool>> = self
            .blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                block.parameters.iter().map(|parameter| index == 0 || used[parameter.index()]).collect()
            })
            .collect();
        self.retain_parameters(&keep);
        for block in &mut self.blocks {
            block
                .instructions
                .retain(|inst| !inst.op.is_pure() || inst.results.iter().any(|result| used[result.index()]));
        }
    }

    /// Computes reinterpretations and, with `evaluate`, arithmetic.
    fn fold(&mut self, evaluate: Option<Evaluate>) -> bool {
        let mut known = self.identity();
        let mut changed = false;
        // The defining operation of each value, to see through reinterpretations.
        let mut casts: Vec<Option<Value>> = vec![None; self.value_count()];
        let mut pairs: Vec<Option<(Value, Value)>> = vec![None; self.value_count()];
        for index in 0..self.blocks.len() {
            let instructions = core::mem::take(&mut self.blocks[index].instructions);
            for inst in &instructions {
                let [result] = inst.results[..] else { continue };
                let simpler = match &inst.op {
                    Op::Bitcast { operand } => {
                        let operand = known[operand.index()];
                        casts[result.index()] = Some(operand);
                        self.bitcast(operand, result, &casts)
                    }
                    Op::Low { operand } | Op::High { operand } => {
                        let operand = known[operand.index()];
                        let upper = matches!(inst.op, Op::High { .. });
                        let half = |bits: u64| if upper { bits >> 32 } else { bits };
                        let constant = self.constant_bits(operand).map(|bits| self.constant(Type::i32, half(bits)));
                        let pair = pairs.get(operand.index()).copied().flatten();
                        constant.or(pair.map(|(low, high)| if upper { high } else { low }))
                    }
                    Op::Pair { low, high } => {
                        let (low, high) = (known[low.index()], known[high.index()]);
                        pairs[result.index()] = Some((low, high));
                        match (self.constant_bits(low), self.constant_bits(high)) {
                            (Some(low), Some(high)) => Some(self.constant(Type::i64, low | high << 32)),
                            _ => None,
                        }
                    }
                    Op::Eval { opcode, operands } => evaluate.and_then(|evaluate| {
                        let bits: Option<Vec<u64>> =
                            operands.iter().map(|value| self.constant_bits(known[value.index()])).collect();
                        let value = evaluate(*opcode, &bits?)?;
                        Some(self.constant(self.ty(result), value))
                    }),
                    Op::CompareRef { negated, left, right } if known[left.index()] == known[right.index()] => {
                        Some(self.constant(Type::i32, u64::from(!negated)))
                    }
                    Op::IsNonNull { operand } if self.constant_bits(known[operand.index()]).is_some() => {
                        Some(self.constant(Type::i32, 0))
                    }
                    _ => None,
                };
                if let Some(value) = simpler {
                    // Constants may have been added; they are themselves.
                    known.extend((known.len() as u32..self.value_count() as u32).map(Value));
                    casts.resize(self.value_count(), None);
                    pairs.resize(self.value_count(), None);
                    known[result.index()] = value;
                    changed = true;
                }
            }
            self.blocks[index].instructions = instructions;
        }
        if changed {
            known.extend((known.len() as u32..self.value_count() as u32).map(Value));
            let folded = |inst: &Inst| matches!(inst.results[..], [result] if known[result.index()] != result);
            for block in &mut self.blocks {
                block.instructions.retain(|inst| !folded(inst));
            }
            self.replace(&known);
        }
        changed
    }

    /// A simpler value with the bits of `operand` and the type of `result`.
    fn bitcast(&mut self, operand: Value, result: Value, casts: &[Option<Value>]) -> Option<Value> {
        let ty = self.ty(result);
        if self.ty(operand) == ty {
            return Some(operand);
        }
        if let Some(bits) = self.constant_bits(operand) {
            return Some(self.constant(ty, bits));
        }
        let original = casts.get(operand.index()).copied().flatten()?;
        (self.ty(original) == ty).then_some(original)
    }

    /// The blocks whose failures have a status that is never zero: every path there has just found that it is not, or passes a
    /// constant. Compilers check statuses so, and share the failure; what stands behind it by chance is not meant to follow.
    fn certain_failures(&self) -> Vec<bool> {
        let mut certain = vec![true; self.blocks.len()];
        for block in &self.blocks {
            let is_nonzero = |edge: &super::op::Edge, value: Value| match &block.terminator {
                Terminator::CondBranch { condition, if_true, .. } => {
                    *condition == value && core::ptr::eq(if_true, edge)
                }
                _ => false,
            };
            block.terminator.visit_edges(|edge| {
                if let Terminator::Fail { status, next: Some(_), .. } = &self.block(edge.target).terminator {
                    let passed = match self.definition(*status) {
                        Definition::Parameter(home, position) if home == edge.target => {
                            edge.arguments.get(position as usize).map_or(*status, |operand| operand.value)
                        }
                        _ => *status,
                    };
                    let known = self.constant_bits(passed).is_some_and(|bits| bits != 0);
                    certain[edge.target.index()] &= known || is_nonzero(edge, passed);
                }
            });
        }
        certain[0] = false;
        certain
    }

    /// Replaces branches on constants by plain ones, and failures whose status is never zero by terminal ones.
    fn decide_branches(&mut self) -> bool {
        let certain = self.certain_failures();
        let mut changed = false;
        for (index, certain) in certain.into_iter().enumerate() {
            let decided = match &self.blocks[index].terminator {
                Terminator::CondBranch { condition, if_true, if_false } => match self.constant_bits(*condition) {
                    Some(0) => Some(Terminator::Branch(if_false.clone())),
                    Some(_) => Some(Terminator::Branch(if_true.clone())),
                    None if if_true == if_false => Some(Terminator::Branch(if_true.clone())),
                    None => None,
                },
                Terminator::BranchTable { index, cases, default } => {
                    let bits = self.constant_bits(*index).or(cases.is_empty().then_some(0));
                    bits.map(|bits| Terminator::Branch(cases.get(bits as usize).unwrap_or(default).clone()))
                }
                Terminator::CondBreak { condition, next } if self.constant_bits(*condition) == Some(0) => {
                    Some(Terminator::Branch(next.clone()))
                }
                Terminator::Fail { status, message, next: Some(next) } => match self.constant_bits(*status) {
                    Some(0) => Some(Terminator::Branch(next.clone())),
                    None if !certain => None,
                    _ => Some(Terminator::Fail { status: *status, message: message.clone(), next: None }),
                },
                _ => None,
            };
            if let Some(terminator) = decided {
                self.blocks[index].terminator = terminator;
                changed = true;
            }
        }
        changed
    }

    /// Drops blocks that nothing reaches, and brings the others into a reverse postorder.
    fn remove_unreachable(&mut self) {
        let order = Graph::of(self).reverse_postorder();
        if order.nodes().len() == self.blocks.len() && order.nodes().is_sorted() {
            return;
        }
        let mut old: Vec<Option<BlockData>> = core::mem::take(&mut self.blocks).into_iter().map(Some).collect();
        let reached = order.nodes().iter().filter_map(|node| old[*node as usize].take());
        self.blocks = reached.collect();
        for index in 0..self.blocks.len() {
            self.blocks[index].terminator.visit_edges_mut(|edge| edge.target = Block(order.position(edge.target.0)));
            self.name_definitions(index);
        }
    }

    /// Notes where the values of a block are defined now.
    fn name_definitions(&mut self, index: usize) {
        let block = Block(index as u32);
        let data = &self.blocks[index];
        let mut defined: Vec<(Value, Definition)> = Vec::new();
        for (position, parameter) in data.parameters.iter().enumerate() {
            defined.push((*parameter, Definition::Parameter(block, position as u32)));
        }
        let mut results: Vec<Value> = data.instructions.iter().flat_map(|inst| inst.results.iter().copied()).collect();
        if let Terminator::CallYieldable { results: defined, .. } = &data.terminator {
            results.extend_from_slice(defined);
        }
        defined.extend(results.into_iter().map(|result| (result, Definition::Result(block))));
        for (value, definition) in defined {
            self.redefine(value, definition);
        }
    }

    /// Converts calls that may suspend the function to terminators, and other calls to plain operations: what `suspends` says of
    /// their callees, told whether the instruction is a yieldable call. One that is none may call a function of the same
    /// module that yields, too.
    ///
    /// Takes [`ownership`](super::ownership) away, which must be found anew.
    pub fn place_suspensions(&mut self, suspends: impl Fn(Callee, bool) -> bool) {
        super::ownership::forget(self);
        let mut index = 0;
        while index < self.blocks.len() {
            let next = self.blocks.len() as u32;
            let block = &mut self.blocks[index];
            let is_suspension = |inst: &Inst| matches!(&inst.op, Op::Call(call) if suspends(call.callee, false));
            if block.instructions.iter().any(is_suspension) {
                self.split_block(index, next, is_suspension);
            } else if matches!(&block.terminator, Terminator::CallYieldable { call, .. } if !suspends(call.callee, true))
                && let Terminator::CallYieldable { call, results, resume } =
                    core::mem::replace(&mut block.terminator, Terminator::Return(Vec::new()))
            {
                let results = results.into_iter().collect();
                block.instructions.push(Inst { op: Op::Call(call), results, offset: block.offset });
                block.terminator = Terminator::Branch(resume);
            }
            index += 1;
        }
        self.remove_unreachable();
        (0..self.blocks.len()).for_each(|index| self.name_definitions(index));
    }

    /// Splits a block behind each of its calls that suspend; the new blocks are numbered from `next` on.
    fn split_block(&mut self, index: usize, mut next: u32, is_suspension: impl Fn(&Inst) -> bool) {
        let block = &mut self.blocks[index];
        let (last, last_offset) =
            (core::mem::replace(&mut block.terminator, Terminator::Return(Vec::new())), block.offset);
        let mut rest = core::mem::take(&mut block.instructions).into_iter();
        let mut at = index;
        loop {
            let block = &mut self.blocks[at];
            let suspension = rest.by_ref().find_map(|inst| match (is_suspension(&inst), inst) {
                (true, Inst { op: Op::Call(call), results, offset }) => Some((call, results, offset)),
                (_, inst) => {
                    block.instructions.push(inst);
                    None
                }
            });
            let Some((call, results, offset)) = suspension else {
                (block.terminator, block.offset) = (last, last_offset);
                return;
            };
            let (results, resume) = (results.into_iter().collect(), Edge::new(Block(next)));
            (block.terminator, block.offset) = (Terminator::CallYieldable { call, results, resume }, offset);
            let empty = Terminator::Return(Vec::new());
            let (parameters, instructions) = (Vec::new(), Vec::new());
            self.blocks.push(BlockData {
                parameters,
                instructions,
                terminator: empty,
                offset: last_offset,
                entry: None,
            });
            at = next as usize;
            next += 1;
        }
    }

    /// Joins blocks with the only block that goes on with them, and lets branches to blocks that only go on elsewhere go
    /// there at once.
    fn merge_blocks(&mut self) -> bool {
        let mut in_degrees = vec![0usize; self.blocks.len()];
        in_degrees[0] = 1;
        for block in &self.blocks {
            block.terminator.visit_edges(|edge| in_degrees[edge.target.index()] += 1);
        }
        let mut changed = false;
        let mut replacements = self.identity();
        // The first block of a chain comes first and takes all others, which are empty then.
        for index in 0..self.blocks.len() {
            while let Terminator::Branch(edge) = &self.blocks[index].terminator {
                let target = edge.target.index();
                if in_degrees[target] != 1 || target == index || target == 0 {
                    break;
                }
                let arguments: Vec<Operand> = edge.arguments.clone();
                let empty = Terminator::Return(Vec::new());
                let next = &mut self.blocks[target];
                let parameters = core::mem::take(&mut next.parameters);
                let mut instructions = core::mem::take(&mut next.instructions);
                let (terminator, offset) = (core::mem::replace(&mut next.terminator, empty), next.offset);
                in_degrees[target] = 0;
                for (parameter, argument) in parameters.iter().zip(&arguments) {
                    replacements[parameter.index()] = argument.value;
                }
                let block = &mut self.blocks[index];
                block.instructions.append(&mut instructions);
                block.terminator = terminator;
                block.offset = offset;
                changed = true;
            }
        }
        changed |= self.skip_blocks();
        if changed {
            // Parameters may stand for others that were replaced, too.
            let mut path = Vec::new();
            for index in 0..replacements.len() {
                let mut value = Value(index as u32);
                while replacements[value.index()] != value {
                    path.push(value);
                    value = replacements[value.index()];
                }
                path.drain(..).for_each(|other| replacements[other.index()] = value);
            }
            self.replace(&replacements);
            self.remove_unreachable();
            (0..self.blocks.len()).for_each(|index| self.name_definitions(index));
        }
        changed
    }

    /// Branches to a block without instructions and parameters that goes on elsewhere go there themselves.
    fn skip_blocks(&mut self) -> bool {
        let forward: Vec<Option<super::op::Edge>> = self
            .iter()
            .map(|(block, data)| match &data.terminator {
                Terminator::Branch(edge)
                    if data.instructions.is_empty()
                        && data.parameters.is_empty()
                        && edge.target != block
                        && block.0 != 0 =>
                {
                    Some(edge.clone())
                }
                _ => None,
            })
            .collect();
        // The block at the end of the chain that each begins, which goes on elsewhere itself; none where it is a cycle.
        let mut last: Vec<Option<Option<usize>>> = vec![None; self.blocks.len()];
        let mut path = Vec::new();
        for index in 0..self.blocks.len() {
            let mut at = index;
            let end = loop {
                if let Some(end) = last[at] {
                    break end;
                }
                let Some(next) = &forward[at] else { break None };
                // Until the end is known, the block is one of a cycle.
                last[at] = Some(None);
                path.push(at);
                at = next.target.index();
                if forward[at].is_none() {
                    break path.last().copied();
                }
            };
            path.drain(..).for_each(|at| last[at] = Some(end));
        }
        let mut changed = false;
        for block in &mut self.blocks {
            block.terminator.visit_edges_mut(|edge| {
                let end = last[edge.target.index()].flatten();
                if let Some(next) = end.and_then(|end| forward[end].as_ref()) {
                    *edge = next.clone();
                    changed = true;
                }
            });
        }
        changed
    }
}
