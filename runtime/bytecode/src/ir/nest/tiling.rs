//! Tiling of reductions: accumulators stay in registers.
//!
//! Compilers write `c[i, j] += a[i, k] * b[k, j]` with the reduction innermost and `c` in memory. Iterations that store
//! different elements of `c` are independent if `c` aliases no other view of the nest. So the loops that select the element can
//! move outside and the reductions inside, in order: each element sees the same operations in the same order as before. One of
//! the outer loops is split into strips, whose elements are in vector registers, and another into blocks of rows, which share
//! the loads that do not depend on the row.

use alloc::vec::Vec;
use core::fmt;

use super::{Counted, Item, Needed, Nest, Test};
use crate::ir::function::Function;
use crate::ir::value::Type;
use crate::trip_count::{outer_trip_count, trip_count};

/// The least trip count of the innermost reduction for which shared views are packed.
const LEAST_PACKED: u64 = 16;
/// The least number of rows for which shared views are packed.
const LEAST_SHARED: u64 = 8;
/// The most views that are packed; packed chunks are on the stack.
const MAX_PANELS: usize = 2;
/// The most views that are stored; their elements are in registers.
const MAX_STORES: usize = 3;

/// The schedule of a nest that stores elements of some views repeatedly. For each iteration of the `outer` loops, each strip of
/// the loop `lanes` and each block of the loop `rows`, the elements are loaded, all iterations of the `reductions` run, and the
/// elements are stored.
///
/// With `panels`, the last reduction is split into chunks, and the loop `rows` runs inside of the chunks: the elements of the
/// panels in a chunk are packed once for all rows.
///
/// The schedule is valid if no loop is empty, if iterations of `outer`, `rows` and `lanes` store distinct elements of each of
/// `stores`, and if `stores` alias neither each other nor the views of `non_aliasing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The views that are stored. All depend on the same loops.
    pub stores: Vec<usize>,
    /// The loops that select the stored element, except `lanes` and `rows`, in order.
    pub outer: Vec<usize>,
    /// The loop that is split into strips.
    pub lanes: usize,
    /// The loop that is split into blocks.
    pub rows: Option<usize>,
    /// The other loops, in order.
    pub reductions: Vec<usize>,
    /// The other views that are loaded.
    pub non_aliasing: Vec<usize>,
    /// The views of `non_aliasing` that are packed; their elements do not depend on the row.
    pub panels: Vec<usize>,
    /// The loop that contains the instructions.
    pub innermost: usize,
}

/// The bail-out reason for a nest that is not tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TilingBailOut {
    /// It contains instructions outside of its innermost loop.
    Imperfect,
    /// Iterations carry values other than memory.
    Carried,
    /// An iteration stores to a view twice, or to views that depend on different loops, or to too many views.
    Stores,
    /// Every iteration stores a different element, or all store the same.
    NoReduction,
    /// The stored view has unit stride in no loop.
    Strides,
}

impl fmt::Display for TilingBailOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TilingBailOut::Imperfect => "there are instructions outside of the innermost loop",
            TilingBailOut::Carried => "iterations carry values",
            TilingBailOut::Stores => "an iteration stores to a view twice, or to views that depend on different loops",
            TilingBailOut::NoReduction => "nothing is reduced, or everything to one element",
            TilingBailOut::Strides => "the stored view has unit stride in no loop",
        })
    }
}

impl Tiling {
    /// The number of iterations of `rows` in a block.
    pub const ROWS: usize = 4;
    /// The number of iterations of the last reduction in a packed chunk.
    pub const CHUNK: usize = 256;

    /// Computes the tiling of a nest.
    ///
    /// # Errors
    /// The bail-out reason.
    pub fn of(function: &Function, nest: &Nest, needed: &Needed) -> Result<Tiling, TilingBailOut> {
        let innermost = innermost(function, nest, needed)?;
        let carries = |index: usize| {
            let counted = &nest.loops[index];
            counted.tested_last || counted.carried.iter().any(|carried| index == 0 || needed.has(carried.parameter))
        };
        if (0..nest.loops.len()).any(carries) {
            return Err(TilingBailOut::Carried);
        }
        let stores: Vec<usize> =
            nest.accesses.iter().filter(|access| access.stored.is_some()).map(|access| access.view).collect();
        let Some(store) = stores.first() else { return Err(TilingBailOut::Stores) };
        let stored = &nest.views[*store].index;
        let is_alike =
            |at: usize| !stores[..at].contains(&stores[at]) && nest.views[stores[at]].index.loops() == stored.loops();
        if stores.len() > MAX_STORES || !(1..stores.len()).all(is_alike) {
            return Err(TilingBailOut::Stores);
        }
        let (chosen, reductions): (Vec<usize>, Vec<usize>) =
            nest.path(innermost).into_iter().partition(|index| stored.stride(*index).next().is_some());
        if chosen.is_empty() || reductions.is_empty() {
            return Err(TilingBailOut::NoReduction);
        }
        let mut non_aliasing: Vec<usize> = nest
            .accesses
            .iter()
            .filter(|access| !stores.contains(&access.view) && needed.keeps(function, nest, access))
            .map(|access| access.view)
            .collect();
        non_aliasing.sort_unstable();
        non_aliasing.dedup();
        let strides = |lanes: usize| {
            let steps = |view: &usize| matches!(nest.views[*view].index.constant_stride(lanes), Some(0 | 1));
            non_aliasing.iter().filter(|view| !steps(view)).count()
        };
        // Of equal candidates the innermost: inner loops access memory that is closer together.
        let candidates = chosen.iter().copied().filter(|index| stored.constant_stride(*index) == Some(1));
        let lanes = candidates.rev().min_by_key(|index| strides(*index)).ok_or(TilingBailOut::Strides)?;
        let changes = |view: usize, index: usize| nest.views[view].index.stride(index).next().is_some();
        // Loads along the lanes cost the most, unless they are shared by all rows.
        let shared =
            |rows: usize| non_aliasing.iter().filter(|view| changes(**view, lanes) && !changes(**view, rows)).count();
        let rows = chosen.iter().copied().filter(|index| *index != lanes).max_by_key(|index| shared(*index));
        let panels = match (rows, reductions.last()) {
            (Some(rows), Some(last)) if nest.may_have(rows, LEAST_SHARED) && nest.may_have(*last, LEAST_PACKED) => {
                let panels = non_aliasing.iter().copied().filter(|view| changes(*view, lanes) && !changes(*view, rows));
                panels.take(MAX_PANELS).collect()
            }
            _ => Vec::new(),
        };
        let outer = chosen.into_iter().filter(|index| *index != lanes && Some(*index) != rows).collect();
        Ok(Tiling { stores, outer, lanes, rows, reductions, non_aliasing, panels, innermost })
    }
}

impl Nest {
    /// Whether a loop has at least that many iterations, or an unknown number.
    fn may_have(&self, at: usize, iterations: u64) -> bool {
        self.loops[at].constant_trip_count().is_none_or(|count| count >= iterations)
    }
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

/// The loop that holds all work, with nothing but it in those around it.
pub(super) fn innermost(function: &Function, nest: &Nest, needed: &Needed) -> Result<usize, TilingBailOut> {
    let mut at = 0;
    loop {
        let mut inner = None;
        let mut works = false;
        for item in &nest.loops[at].items {
            match item {
                Item::Loop(index) if inner.is_none() => inner = Some(*index),
                Item::Loop(_) => return Err(TilingBailOut::Imperfect),
                Item::Instruction(block, position) => {
                    let inst = nest.instruction(function, *block, *position);
                    works |= match nest.access(*block, *position) {
                        Some(access) => needed.keeps(function, nest, access),
                        None => inst.results.iter().any(|value| needed.has(*value)),
                    };
                }
            }
        }
        match inner {
            None => return Ok(at),
            Some(_) if works => return Err(TilingBailOut::Imperfect),
            Some(inner) => at = inner,
        }
    }
}
