//! Strips: loops that run on vectors of elements.
//!
//! Iterations that store different elements are independent if what is stored aliases no other view of the nest. So one of the
//! loops that select the stored element can run on vectors. Where iterations store an element again and again, as sums and maxima
//! in memory do, the loops that do not select it go inside, in order: each element sees the same operations in the same order as
//! before, and stays in a register.

use alloc::vec::Vec;

use super::perfect::{InOrder, Perfect};
use super::{Counted, Needed, Nest, Test};
use crate::ir::function::Function;
use crate::ir::value::{Block, Type};
use crate::trip_count::{outer_trip_count, trip_count};

/// The most views that are stored; their elements are in registers.
const MAX_STORES: usize = 3;

/// The most iterations of a loop that is jammed; each has a vector register for its sums.
const MAX_JAMMED: u64 = 8;

/// The schedule of a nest that runs on strips of elements. For each iteration of the `outer` loops and each strip of the loop
/// `lanes`, all iterations of the `reductions` run: the stored elements are loaded before and stored after them.
///
/// The schedule is valid if no loop of `reductions` is empty, if iterations of `outer` and `lanes` store distinct elements of each of
/// `stores`, and if `stores` alias neither each other nor the views of `non_aliasing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strips {
    /// The views that are stored. All depend on the same loops.
    pub stores: Vec<usize>,
    /// The loops that select the stored element, except `lanes`, in order.
    pub outer: Vec<usize>,
    /// The loop of `outer` whose iterations, a few, share loads: each iteration of the reductions may run for all of them (unroll and jam),
    /// so that what they share is computed once.
    pub jammed: Option<usize>,
    /// The loop that is split into strips: that in which the stored views have unit stride, or else the most loaded views.
    pub lanes: usize,
    /// The other loops, in order. Empty where every iteration stores an element of its own.
    pub reductions: Vec<usize>,
    /// The other views that are loaded.
    pub non_aliasing: Vec<usize>,
    /// The loop that contains the accesses.
    pub innermost: usize,
}

impl Strips {
    /// Returns the strips of a perfect nest, or the reason for none.
    pub(super) fn of(function: &Function, nest: &Nest, needed: &Needed, perfect: &Perfect) -> Result<Strips, InOrder> {
        let innermost = perfect.innermost;
        let stores: Vec<usize> =
            nest.accesses.iter().filter(|access| access.stored.is_some()).map(|access| access.view).collect();
        let Some(store) = stores.first() else { return Err(InOrder::Stores) };
        if takes_references(function, nest, needed) {
            return Err(InOrder::References);
        }
        let stored = &nest.views[*store].index;
        let is_alike =
            |at: usize| !stores[..at].contains(&stores[at]) && nest.views[stores[at]].index.loops() == stored.loops();
        if stores.len() > MAX_STORES || !(1..stores.len()).all(is_alike) {
            return Err(InOrder::Stores);
        }
        let (chosen, reductions): (Vec<usize>, Vec<usize>) =
            perfect.path.iter().partition(|index| stored.stride(**index).next().is_some());
        if chosen.is_empty() {
            return Err(InOrder::OneElement);
        }
        let mut non_aliasing: Vec<usize> = nest
            .accesses
            .iter()
            .filter(|access| !stores.contains(&access.view) && needed.keeps(function, nest, access))
            .map(|access| access.view)
            .collect();
        non_aliasing.sort_unstable();
        non_aliasing.dedup();
        // The loads that are neither contiguous nor the same along a loop, and the stores that are not contiguous.
        let strided = |views: &[usize], lanes: usize, contiguous: &[i64]| {
            let stride = |view: &usize| nest.views[*view].index.constant_stride(lanes);
            views.iter().filter(|view| stride(view).is_none_or(|stride| !contiguous.contains(&stride))).count()
        };
        let is_vector_axis = |lanes: &usize| {
            stored.constant_stride(*lanes) == Some(1)
                || reductions.is_empty()
                    && non_aliasing.iter().any(|view| nest.views[*view].index.constant_stride(*lanes) == Some(1))
        };
        // Loops of several iterations first. Of equal candidates the innermost: inner loops access memory that is closer together.
        let is_single = |lanes: usize| nest.loops[lanes].constant_trip_count() == Some(1);
        let strides = |lanes: usize| (strided(&stores, lanes, &[1]), strided(&non_aliasing, lanes, &[0, 1]));
        let candidates = chosen.iter().copied().rev().filter(is_vector_axis);
        let lanes = candidates.min_by_key(|lanes| (is_single(*lanes), strides(*lanes))).ok_or(InOrder::Strides)?;
        // A strip with an index that is out of range stores nothing, nor do those after it: the strips are in the order of the iterations.
        if !nest.gathers.is_empty() && (!reductions.is_empty() || lanes != innermost) {
            return Err(InOrder::Gathers);
        }
        let outer = chosen.into_iter().filter(|index| *index != lanes).collect();
        let mut strips = Strips { stores, outer, jammed: None, lanes, reductions, non_aliasing, innermost };
        strips.jammed = strips.jammed_of(nest);
        Ok(strips)
    }

    /// The loops of `outer` that run around strips: all but the jammed one.
    pub fn around(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.outer.iter().copied().filter(|at| Some(*at) != self.jammed)
    }

    /// Finds the loop that is jammed: reductions load elements that do not depend on it.
    fn jammed_of(&self, nest: &Nest) -> Option<usize> {
        if self.stores.len() != 1 || !nest.divisions.is_empty() || !nest.gathers.is_empty() {
            return None;
        }
        let depends = |view: usize, at: usize| nest.views[view].index.stride(at).next().is_some();
        let is_few =
            |at: usize| nest.loops[at].constant_trip_count().is_some_and(|count| (2..=MAX_JAMMED).contains(&count));
        let is_shared = |at: usize| {
            let mut views = self.non_aliasing.iter();
            views.any(|view| !depends(*view, at) && self.reductions.iter().any(|reduction| depends(*view, *reduction)))
        };
        self.outer.iter().copied().rfind(|at| is_few(*at) && is_shared(*at))
    }
}

/// Whether a needed instruction that is no access takes a reference. Functions of strips take numbers.
fn takes_references(function: &Function, nest: &Nest, needed: &Needed) -> bool {
    let is_access = |at: &(Block, usize)| nest.access(at.0, at.1).is_some() || nest.gather(at.0, at.1).is_some();
    let mut others = nest.instructions().filter(|at| !is_access(at) && needed.includes(function, nest, at.0, at.1));
    others.any(|(block, position)| {
        let mut found = false;
        let inst = nest.instruction(function, block, position);
        inst.op.visit(|operand| found |= function.ty(operand.value()) == Type::Ref);
        found
    })
}

impl Counted {
    /// Returns the trip count where the test and the divisor are constants.
    #[must_use]
    pub fn constant_trip_count(&self) -> Option<u64> {
        let Test { step, relation, .. } = self.test;
        let (first, bound) = (self.test.first.as_constant()?, self.test.bound.as_constant()?);
        let passed = match (self.test.ty, self.test.signed) {
            (Type::i64, true) => trip_count(first, step, relation, bound),
            (Type::i64, false) => trip_count(first as u64, step, relation, bound as u64),
            (_, true) => trip_count(first as i32, step, relation, bound as i32),
            (_, false) => trip_count(first as u32, step, relation, bound as u32),
        };
        let count = passed?.checked_add(self.tested_last.into())?;
        let count = match &self.divisor {
            None => count,
            Some(divisor) => outer_trip_count(count, divisor.as_constant()?)?,
        };
        Some(count as u64)
    }
}
