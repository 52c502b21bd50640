//! Deferred fences: fences that the queue operation creates only if it is still pending when the call returns.
//!
//! A program creates a fence for each queue operation, and most operations complete during the call that submits them. Where
//! only the program's own operations wait for the fence, its creation is deferred to the operation. A completed operation
//! returns null, which counts as a signalled fence.

use incarnate_bytecode::imports::FenceUse;
use incarnate_bytecode::ir::{Block, Call, Function, Op, Terminator, Type, Value};

use super::imports::Imports;

/// The uses of a value.
#[derive(Clone, Debug, Default)]
struct Uses {
    /// A use distinguishes null from a signalled fence.
    is_observed: bool,
    /// The number of operations that signal it.
    signals: u32,
    /// Block and position of the first instruction that uses it; a terminator counts as the instruction after the last.
    first: Option<(Block, usize)>,
}

/// A deferred fence: its block, and the positions of the call that creates it and of the operation that signals it.
struct Deferred {
    fence: Value,
    block: Block,
    created: usize,
    signalled: usize,
}

/// Removes the calls that create such fences, and makes the operations that signal them return them.
pub(super) fn defer(body: &mut Function, imports: &Imports) {
    let found = find(body, imports);
    if found.is_empty() {
        return;
    }
    let null = body.constant(Type::Ref, 0);
    for deferred in &found {
        let inst = &mut body.blocks[deferred.block.index()].instructions[deferred.signalled];
        if let Op::Call(call) = &mut inst.op {
            call.operands[FenceUse::SIGNAL] = null.into();
            call.deferred = Some(FenceUse::SIGNAL as u8);
            inst.results.push(deferred.fence);
        }
    }
    // `found` is sorted by block and instruction.
    let mut created = found.iter().map(|deferred| (deferred.block.index(), deferred.created)).peekable();
    for (index, block) in body.blocks.iter_mut().enumerate() {
        let mut positions = 0..;
        block.instructions.retain(|_| {
            let position = positions.next().map(|position| (index, position));
            created.next_if(|next| Some(*next) == position).is_none()
        });
    }
}

fn find(body: &Function, imports: &Imports) -> Vec<Deferred> {
    let mut created = Vec::new();
    for (block, data) in body.iter() {
        for (position, inst) in data.instructions.iter().enumerate() {
            if let (Op::Call(call), [fence]) = (&inst.op, &inst.results[..])
                && fence_use(call, imports) == Some(FenceUse::Creating)
            {
                created.push((*fence, block, position));
            }
        }
    }
    if created.is_empty() {
        return Vec::new();
    }
    let uses = uses(body, imports);
    let deferred = created.into_iter().filter_map(|(fence, block, created)| {
        let Uses { is_observed: false, signals: 1, first: Some((first_block, signalled)) } = uses[fence.index()] else {
            return None;
        };
        // Other waits follow the operation: blocks are in reverse postorder, so the first use is in the block of the creation
        // if any use is.
        let Op::Call(call) = &body.block(block).instructions.get(signalled).filter(|_| first_block == block)?.op else {
            return None;
        };
        let is_signal = fence_use(call, imports) == Some(FenceUse::Queued)
            && call.operands.iter().position(|operand| operand.value == fence) == Some(FenceUse::SIGNAL);
        is_signal.then_some(Deferred { fence, block, created, signalled })
    });
    deferred.collect()
}

fn fence_use(call: &Call, imports: &Imports) -> Option<FenceUse> {
    imports.callee(call)?.fences
}

/// The uses of each value, by its index.
fn uses(body: &Function, imports: &Imports) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); body.value_count()];
    // By parameter: the values that edges pass to it.
    let mut arguments: Vec<Vec<usize>> = vec![Vec::new(); uses.len()];
    for (block, data) in body.iter() {
        for (position, inst) in data.instructions.iter().enumerate() {
            inst.op.visit(|operand| _ = uses[operand.value().index()].first.get_or_insert((block, position)));
            match &inst.op {
                Op::Call(call) => note_call(&mut uses, call, imports),
                // Null passes every type check.
                Op::CheckRef { .. } | Op::Drop { .. } => {}
                op => op.visit(|operand| uses[operand.value().index()].is_observed = true),
            }
        }
        let end = (block, data.instructions.len());
        data.terminator.visit(|operand| _ = uses[operand.value().index()].first.get_or_insert(end));
        match &data.terminator {
            Terminator::CallYieldable { call, .. } => note_call(&mut uses, call, imports),
            terminator => terminator.visit(|operand| uses[operand.value().index()].is_observed = true),
        }
        data.terminator.visit_edges(|edge| {
            for (operand, parameter) in edge.arguments.iter().zip(&body.block(edge.target).parameters) {
                arguments[parameter.index()].push(operand.value.index());
            }
        });
    }
    // A use of a parameter is a use of its arguments: propagate backwards from observed parameters.
    let is_parameter = |index: usize| !arguments[index].is_empty();
    let mut pending: Vec<usize> = (0..uses.len())
        .filter(|&index| uses[index].is_observed || (is_parameter(index) && uses[index].signals > 0))
        .collect();
    while let Some(index) = pending.pop() {
        for &argument in &arguments[index] {
            if !core::mem::replace(&mut uses[argument].is_observed, true) {
                pending.push(argument);
            }
        }
    }
    uses
}

fn note_call(uses: &mut [Uses], call: &Call, imports: &Imports) {
    let fence_use = fence_use(call, imports);
    for (position, operand) in call.operands.iter().enumerate() {
        let uses = &mut uses[operand.value.index()];
        match (fence_use, position) {
            (Some(FenceUse::Queued), FenceUse::SIGNAL) => uses.signals += 1,
            (Some(FenceUse::Queued), FenceUse::WAIT) | (Some(FenceUse::Waiting), _) => {}
            _ => uses.is_observed = true,
        }
    }
}
