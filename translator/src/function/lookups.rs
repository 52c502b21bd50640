//! Which results of calls are looked at where something else keeps them, instead of being shared: what an argument keeps that is
//! itself borrowed, and what the first result of a call keeps as long as that is not moved.
//!
//! The code borrows them, so that the compiler checks what is found here.

use incarnate_runtime::ir::{Block, Inst, Loops, Op, Value};

use super::imports::Imports;
use super::scope::{Binding, Scopes};
use super::tree::{Access, Body, Node, Sequence};

/// Finds them, in a body that was not cut into parts.
pub(super) fn find(body: &mut Body<'_>, imports: &Imports, loops: &Loops, sequence: &Sequence) {
    let variables = body.has_selectors;
    let scopes = Scopes::new(body, loops, sequence, body.function.arguments(), &[], variables);
    // What is looked up lives as long as the sequence that it is in: all uses have to be there.
    let is_in_sight = |value: Value| matches!(scopes.binding(value), Binding::Let { mutable: false, .. });
    // Definitions come before uses: blocks are in reverse postorder, and dominate those that use what they define.
    for (block, data) in body.function.iter() {
        for (position, inst) in data.instructions.iter().enumerate() {
            let Op::Call(call) = &inst.op else { continue };
            let Some(lender) = imports.lender(call) else { continue };
            let found = match (&call.operands[..], &inst.results[..]) {
                ([keeper], [result]) if lender.alone.is_none() => {
                    (body.is_borrowed(keeper.value) && is_in_sight(*result)).then_some(*result)
                }
                // Variables that are assigned cannot be borrowed from.
                (_, [keeper, part]) if lender.alone.is_some() && !variables => {
                    let at = (block, position as u32);
                    let stays = || stays(body, sequence, at, *keeper, *part) == Some(true);
                    (is_in_sight(*keeper) && is_in_sight(*part) && stays()).then_some(*part)
                }
                _ => None,
            };
            found.into_iter().for_each(|value| body.look_up(value));
        }
    }
}

/// Whether the keeper, defined by an instruction, is moved only behind all that looks at a part of it; None where the sequence
/// does not have the instruction.
fn stays(body: &Body<'_>, sequence: &Sequence, at: (Block, u32), keeper: Value, part: Value) -> Option<bool> {
    let Some(index) =
        sequence.iter().position(|node| matches!(node, Node::Inst(block, position) if (*block, *position) == at))
    else {
        let children = sequence.iter().flat_map(Node::children);
        return children.into_iter().find_map(|child| stays(body, child, at, keeper, part));
    };
    let mut is_moved = false;
    for node in &sequence[index + 1..] {
        is_moved |= accesses(body, node, &mut |value, access| value == keeper && access == Access::Move);
        if is_moved && !drops(body, node, part) && accesses(body, node, &mut |value, _| value == part) {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether a statement is nothing but the drop of a value, of which nothing is left where it is borrowed.
fn drops(body: &Body<'_>, node: &Node, dropped: Value) -> bool {
    let Node::Inst(block, position) = node else { return false };
    let Inst { op, .. } = body.inst(*block, *position);
    matches!(op, Op::Drop { value } if *value == dropped)
}

/// Whether a statement, or one within it, has such an access.
fn accesses(body: &Body<'_>, node: &Node, is_such: &mut dyn FnMut(Value, Access) -> bool) -> bool {
    let mut found = false;
    body.visit(node, &mut |value, access| found |= is_such(value, access));
    found || node.children().into_iter().flatten().any(|child| accesses(body, child, is_such))
}
