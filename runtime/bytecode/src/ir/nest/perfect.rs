//! Nests that schedules are for: all of their accesses are in the innermost loop.

use alloc::vec::Vec;
use core::fmt;

use super::{Item, Needed, Nest};
use crate::index_map::IndexSet;
use crate::ir::function::Function;
use crate::ir::value::Value;

/// The order of the float operations that reduce numbers to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the bytecode.
    #[default]
    Bytecode,
    /// Any, the same in every back end and on every processor.
    Any,
}

/// The reason why the iterations of a nest run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InOrder {
    /// It contains accesses outside of its innermost loop.
    Imperfect,
    /// An inner loop counts from a number that a loop around it computes.
    Counters,
    /// Iterations carry values other than memory.
    Carried,
    /// It stores nothing, or an iteration stores to a view twice, to views that depend on different loops, or to too many views.
    Stores,
    /// All iterations store the same element.
    OneElement,
    /// No access has unit stride in a loop that moves the stored element.
    Strides,
    /// Elements at computed indices are reduced, or loaded in another order than they are stored in.
    Gathers,
    /// An iteration takes a reference that is not that of an access.
    References,
    /// The target has neither vectors nor the memory for kernels.
    Scalar,
}

impl fmt::Display for InOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InOrder::Imperfect => "there are accesses outside of the innermost loop",
            InOrder::Counters => "an inner loop counts from a number that a loop around it computes",
            InOrder::Carried => "iterations carry values",
            InOrder::Stores => "nothing is stored, or to a view twice, or to views that depend on different loops",
            InOrder::OneElement => "everything is reduced to one element",
            InOrder::Strides => "no access has unit stride in a loop that moves the stored element",
            InOrder::Gathers => "elements at computed indices are reduced, or loaded in another order than stored ones",
            InOrder::References => "an iteration takes a reference",
            InOrder::Scalar => "the target is scalar",
        })
    }
}

/// A nest whose accesses are all in its innermost loop, which carries nothing but memory.
pub(super) struct Perfect {
    pub(super) innermost: usize,
    /// Loops around that one compute numbers for it.
    pub(super) computes_around: bool,
    /// The loops, the outermost first.
    pub(super) path: Vec<usize>,
}

impl Perfect {
    pub(super) fn of(function: &Function, nest: &Nest, needed: &Needed) -> Result<Perfect, InOrder> {
        let (innermost, computes_around) = innermost(function, nest, needed)?;
        let carries = |(index, counted): (usize, &super::Counted)| {
            counted.carried.iter().any(|carried| index == 0 || needed.has(carried.parameter))
        };
        if nest.loops.iter().enumerate().any(carries) {
            return Err(InOrder::Carried);
        }
        if computes_around && counts_from_computed(nest, needed, function) {
            return Err(InOrder::Counters);
        }
        Ok(Perfect { innermost, computes_around, path: nest.path(innermost) })
    }
}

/// Whether an inner loop counts from a number that an iteration of a loop around it computes. Back ends compute what counts before all else.
fn counts_from_computed(nest: &Nest, needed: &Needed, function: &Function) -> bool {
    let mut computed: IndexSet<Value> = IndexSet::default();
    for (block, position) in nest.instructions() {
        computed.extend(nest.instruction(function, block, position).results.iter().copied());
    }
    let mut inductions = nest.loops[1..].iter().flat_map(|counted| &counted.inductions);
    inductions.any(|each| needed.has(each.parameter) && each.initial.is_some_and(|initial| computed.contains(initial)))
}

/// The loop that holds all accesses, with nothing but it and arithmetic in those around it, and whether there is any.
fn innermost(function: &Function, nest: &Nest, needed: &Needed) -> Result<(usize, bool), InOrder> {
    let (mut at, mut computes_around) = (0, false);
    loop {
        let (mut inner, mut computes, mut accesses) = (None, false, false);
        for item in &nest.loops[at].items {
            match item {
                Item::Loop(index) if inner.is_none() => inner = Some(*index),
                Item::Loop(_) => return Err(InOrder::Imperfect),
                Item::Instruction(block, position) if needed.includes(function, nest, *block, *position) => {
                    computes = true;
                    accesses |= nest.access(*block, *position).is_some() || nest.gather(*block, *position).is_some();
                }
                Item::Instruction(..) => {}
            }
        }
        match inner {
            None => return Ok((at, computes_around)),
            Some(_) if accesses => return Err(InOrder::Imperfect),
            Some(inner) => (at, computes_around) = (inner, computes_around || computes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{function, nested, one};
    use super::super::{Schedule, schedule::InOrder};
    use super::*;

    #[test]
    fn arithmetic_around_the_innermost_loop_is_computed_on_strips() {
        let of = |body: &str| {
            let (function, nest) = (function(body), one(body));
            Schedule::of(&function, &nest, &Needed::of(&function, &nest), Order::Bytecode)
        };
        let around = nested("  %i5 = vm.trunc.i64.i32 %i18:19\n  vm.buffer.store.i32 %i5, %r0, %i16:17\n", "");
        let around = around.replace("%r0, %i16:17", "%r0, %i12:13");
        assert!(matches!(of(&around), Schedule::Strips(_)), "{:?}", of(&around));
        // But not what an inner loop counts from.
        let inner = "  %i5 = vm.trunc.i64.i32 %i22:23\n  vm.buffer.store.i32 %i5, %r0, %i12:13\n  \
            %i22:23 = vm.add.i64 %i22:23, %i8:9\n";
        let counts = nested(inner, "").replace("%i7->%i17)", "%i7->%i17, %i18->%i22, %i19->%i23)");
        assert_eq!(of(&counts), Schedule::InOrder(InOrder::Counters));
    }
}
