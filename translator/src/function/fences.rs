//! Which fences are not created. A program creates a fence for each operation of a queue, and most operations are done when the
//! call returns that submits them. Where nobody but the program's own operations waits for such a fence, the operation makes
//! one if there is something to wait for, and leaves null, which is reached, if not.

use incarnate_runtime::ir::{Block, Call, Callee, Function, Op, Terminator, Type, Value};
use incarnate_runtime::modules::imports::FenceUse;

use super::imports::Imports;

/// What becomes of a value.
#[derive(Clone, Debug, Default)]
struct Uses {
    /// Something is done with it that could tell null from a fence that is reached.
    is_observed: bool,
    /// How many operations signal it.
    signals: u32,
    /// Block and position of the first instruction, or terminator behind them, that has it as an operand.
    first: Option<(Block, usize)>,
}

/// A fence that is not created: its block, the positions of the call that creates it and of the one that leaves it.
struct Left {
    fence: Value,
    block: Block,
    created: usize,
    signalled: usize,
}

/// Takes the calls away that create such fences, and has the operations leave them.
pub(super) fn leave(body: &mut Function, imports: &Imports) {
    let found = find(body, imports);
    if found.is_empty() {
        return;
    }
    let null = body.constant(Type::Ref, 0);
    for left in &found {
        let inst = &mut body.blocks[left.block.index()].instructions[left.signalled];
        if let Op::Call(call) = &mut inst.op {
            call.operands[FenceUse::SIGNAL] = null.into();
            call.left = Some(FenceUse::SIGNAL as u8);
            inst.results.push(left.fence);
        }
    }
    // They are found in the order of blocks and instructions.
    let mut created = found.iter().map(|left| (left.block.index(), left.created)).peekable();
    for (index, block) in body.blocks.iter_mut().enumerate() {
        let mut positions = 0..;
        block.instructions.retain(|_| {
            let place = positions.next().map(|position| (index, position));
            created.next_if(|left| Some(*left) == place).is_none()
        });
    }
}

fn find(body: &Function, imports: &Imports) -> Vec<Left> {
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
    let left = created.into_iter().filter_map(|(fence, block, created)| {
        let Uses { is_observed: false, signals: 1, first: Some((home, signalled)) } = uses[fence.index()] else {
            return None;
        };
        // What else waits for it does so behind the operation: blocks are in reverse postorder, so the first use is in the block
        // that creates it if any is.
        let Op::Call(call) = &body.block(block).instructions.get(signalled).filter(|_| home == block)?.op else {
            return None;
        };
        let is_signal = fence_use(call, imports) == Some(FenceUse::Queued)
            && call.operands.iter().position(|operand| operand.value == fence) == Some(FenceUse::SIGNAL);
        is_signal.then_some(Left { fence, block, created, signalled })
    });
    left.collect()
}

fn fence_use(call: &Call, imports: &Imports) -> Option<FenceUse> {
    match call.callee {
        Callee::Import(import) => imports.direct(import)?.fences,
        Callee::Internal(_) => None,
    }
}

/// What becomes of each value, by its index.
fn uses(body: &Function, imports: &Imports) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); body.value_count()];
    // By parameter, what becomes it.
    let mut arguments: Vec<Vec<usize>> = vec![Vec::new(); uses.len()];
    for (block, data) in body.iter() {
        for (position, inst) in data.instructions.iter().enumerate() {
            inst.op.visit(|operand| _ = uses[operand.value().index()].first.get_or_insert((block, position)));
            match &inst.op {
                Op::Call(call) => note_call(&mut uses, call, imports),
                // Null is of every type.
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
    // What a parameter is used for, its arguments are used for: backwards from those that are observed.
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
