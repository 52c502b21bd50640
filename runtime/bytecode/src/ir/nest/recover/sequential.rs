//! Loops whose iterations run one after the other, around loops that vectors are for.
//!
//! A step of a recurrence is a product, and functions of its elements: loops that stand behind one another within the loop over steps. As one
//! nest, all would run one iteration after the other. So the outer loop stays as it is, and the loops in it are nests of their own.

use super::nest;
use crate::ir::function::{Function, Positions};
use crate::ir::graph::Graph;
use crate::ir::loops::Loops;
use crate::ir::nest::schedule::InOrder;
use crate::ir::nest::{Needed, Nest, Order, Schedule};

/// Whether the nest of a loop gives way to those of the loops in it: it has accesses outside of its innermost loop, and one of the loops in
/// it has a schedule.
pub(super) fn divides(
    function: &Function,
    graph: (&Graph, &Loops),
    positions: &Positions,
    (index, found): (usize, &Nest),
) -> bool {
    schedule(function, found) == Schedule::InOrder(InOrder::Imperfect)
        && contains_schedule(function, graph, positions, index)
}

/// The schedule with the most freedom.
fn schedule(function: &Function, nest: &Nest) -> Schedule {
    Schedule::of(function, nest, &Needed::of(function, nest), Order::Any)
}

/// Whether a loop within another has a schedule. A nest has few loops, so that few are analysed again.
fn contains_schedule(function: &Function, graph: (&Graph, &Loops), positions: &Positions, around: usize) -> bool {
    let all = graph.1.all();
    // Loops stand behind those around them.
    let mut inner = (around + 1..all.len()).filter(|at| all[*at].parent == Some(around));
    inner.any(|at| match nest(function, graph, positions, at).map(|nest| schedule(function, &nest)) {
        Ok(Schedule::InOrder(InOrder::Imperfect)) => contains_schedule(function, graph, positions, at),
        Ok(Schedule::InOrder(_) | Schedule::Zeros) | Err(_) => false,
        Ok(Schedule::Contraction(_) | Schedule::Strips(_)) => true,
    })
}
