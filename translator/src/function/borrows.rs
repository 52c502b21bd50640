//! Results of calls that are borrowed from their owner instead of shared by reference counting: from an argument that is itself
//! borrowed, or from the call's first result while that is not moved.
//!
//! The emitted code borrows them as Rust references, so rustc checks this analysis.

use incarnate_bytecode::ir::{Block, Inst, Loops, Op, Value};

use super::imports::Imports;
use super::scope::{Binding, Scopes};
use super::tree::{Access, Body, Node, Sequence};

/// Finds them, in a body without outlined functions.
pub(super) fn find(body: &mut Body<'_>, imports: &Imports, loops: &Loops, sequence: &Sequence) {
    let variables = body.has_selectors;
    let scopes = Scopes::new(body, loops, sequence, body.function.arguments(), &[], variables);
    // A borrow lives as long as its sequence, so all uses must be in it.
    let is_in_scope = |value: Value| matches!(scopes.binding(value), Binding::Let { mutable: false, .. });
    // Definitions come before uses: blocks are in reverse postorder, and dominate those that use what they define.
    for (block, data) in body.function.iter() {
        for (position, inst) in data.instructions.iter().enumerate() {
            let Op::Call(call) = &inst.op else { continue };
            let Some(borrow) = imports.borrowed_result(call) else { continue };
            let found = match (&call.operands[..], &inst.results[..]) {
                ([owner], [result]) if borrow.alone.is_none() => {
                    (body.is_borrowed(owner.value) && is_in_scope(*result)).then_some(*result)
                }
                // Variables that are assigned cannot be borrowed from.
                (_, [owner, borrowed]) if borrow.alone.is_some() && !variables => {
                    let at = (block, position as u32);
                    let outlives = || outlives(body, sequence, at, *owner, *borrowed) == Some(true);
                    (is_in_scope(*owner) && is_in_scope(*borrowed) && outlives()).then_some(*borrowed)
                }
                _ => None,
            };
            found.into_iter().for_each(|value| body.borrow_result(value));
        }
    }
}

/// Whether the owner, defined by the instruction `at`, is moved only after the last use of the borrowed value; None where the
/// sequence does not contain the instruction.
fn outlives(body: &Body<'_>, sequence: &Sequence, at: (Block, u32), owner: Value, borrowed: Value) -> Option<bool> {
    let Some(index) =
        sequence.iter().position(|node| matches!(node, Node::Inst(block, position) if (*block, *position) == at))
    else {
        let children = sequence.iter().flat_map(Node::children);
        return children.into_iter().find_map(|child| outlives(body, child, at, owner, borrowed));
    };
    let mut is_moved = false;
    for node in &sequence[index + 1..] {
        is_moved |= accesses(body, node, &mut |value, access| value == owner && access == Access::Move);
        if is_moved && !drops(body, node, borrowed) && accesses(body, node, &mut |value, _| value == borrowed) {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether a statement is the drop of a value; borrowed values need no drop, so none is emitted.
fn drops(body: &Body<'_>, node: &Node, dropped: Value) -> bool {
    let Node::Inst(block, position) = node else { return false };
    let Inst { op, .. } = body.inst(*block, *position);
    matches!(op, Op::Drop { value } if *value == dropped)
}

/// Whether a statement, or one nested in it, contains an access that matches.
fn accesses(body: &Body<'_>, node: &Node, matches: &mut dyn FnMut(Value, Access) -> bool) -> bool {
    let mut found = false;
    body.visit(node, &mut |value, access| found |= matches(value, access));
    found || node.children().into_iter().flatten().any(|child| accesses(body, child, matches))
}
