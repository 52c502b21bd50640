//! The suspension points of a function and the values that it saves there.

use std::collections::HashSet;

use incarnate_bytecode::ir::{Block, Definition, Function, Liveness, Op, Terminator, Value};
use incarnate_bytecode::{Budget, Result};

/// A point where a function may be suspended.
#[derive(Clone, Debug)]
pub(super) struct Suspension {
    /// The block whose terminator it is.
    pub(super) block: Block,
    /// It is a call; otherwise a `yield`.
    pub(super) is_call: bool,
    /// The block where it resumes.
    pub(super) resume: Block,
    /// The values that are live when it resumes, ascending. At a call, the results and the parameters of its edge do not exist
    /// yet; at a `yield`, the edge has been passed.
    pub(super) saved: Vec<Value>,
    /// The results of the call.
    pub(super) results: Vec<Value>,
}

/// The suspensions of a function, in the order of its blocks.
///
/// # Errors
/// RESOURCE_EXHAUSTED where the values that they save are more than the budget has.
pub(super) fn suspensions(function: &Function, budget: &mut Budget) -> Result<Vec<Suspension>> {
    let suspends =
        |terminator: &Terminator| matches!(terminator, Terminator::Yield(_) | Terminator::CallYieldable { .. });
    if !function.blocks.iter().any(|block| suspends(&block.terminator)) {
        return Ok(Vec::new());
    }
    let liveness = Liveness::new(function, budget)?;
    // The state provides them at each use.
    let segments: HashSet<Value> = segments(function).map(|segment| segment.0).collect();
    let mut found = Vec::new();
    for (block, data) in function.iter() {
        let (edge, results, is_call) = match &data.terminator {
            Terminator::Yield(edge) => (edge, Vec::new(), false),
            Terminator::CallYieldable { resume, results, .. } => (resume, results.to_vec(), true),
            _ => continue,
        };
        let mut saved: Vec<Value> = liveness.entering(edge.target).to_vec();
        if is_call {
            saved.extend(edge.arguments.iter().map(|operand| operand.value));
            saved.extend_from_slice(&edge.drops);
        } else {
            saved.extend_from_slice(&function.block(edge.target).parameters);
        }
        let is_constant = |value: Value| matches!(function.definition(value), Definition::Constant(_));
        budget.spend(saved.len(), "the values that suspensions save")?;
        let own: HashSet<Value> = results.iter().copied().collect();
        saved.retain(|value| !own.contains(value) && !is_constant(*value) && !segments.contains(value));
        saved.sort_unstable();
        saved.dedup();
        found.push(Suspension { block, is_call, resume: edge.target, saved, results });
    }
    Ok(found)
}

/// The read-only segments among the values, with their ordinals.
pub(super) fn segments(function: &Function) -> impl Iterator<Item = (Value, u32)> {
    let instructions = function.blocks.iter().flat_map(|block| &block.instructions);
    instructions.filter_map(|inst| match inst.op {
        Op::Rodata { rodata } => inst.results.first().map(|value| (*value, rodata)),
        _ => None,
    })
}
