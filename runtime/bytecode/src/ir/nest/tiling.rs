//! Nests that reduce: how to run them with what they add up in registers.
//!
//! Compilers write `c[i, j] += a[i, k] * b[k, j]` with the reduction innermost and `c` in memory. Turns that store different
//! elements of `c` have nothing to do with each other, if `c` overlaps nothing else that the nest takes. So the loops that choose
//! the element can go outside, those that do not, inside, in their order: each element sees the same operations in the same
//! order as before. One of the former is cut into strips, whose elements are held in registers side by side, and another into
//! blocks of some rows, which share what does not differ between them.

use alloc::vec::Vec;
use core::fmt;

use super::{Counted, Item, Needed, Nest, Test};
use crate::ir::function::{Function, Type};
use crate::trip_count::{outer_trip_count, trip_count};

/// Turns of the innermost reduction that are worth a copy of what the rows share.
const LEAST_PACKED: u64 = 16;
/// Rows that are worth it.
const LEAST_SHARED: u64 = 8;
/// Views of which a copy is made; copies take room on the stack.
const MAX_PANELS: usize = 2;
/// Views that are stored; their elements are in registers.
const MAX_STORES: usize = 3;

/// How to run a nest that stores elements of some views again and again: for each turn of the `outer` loops, each strip of turns
/// of the loop `lanes` and each block of turns of the loop `rows`, the elements of strip and block are loaded, all turns of the
/// `reductions` are made for them, and the elements are stored.
///
/// Where there are `panels`, a chunk of turns of the last of the reductions is cut off, and the loops `rows` go between that
/// and those before: then what the panels take in the chunk is copied once for all rows, to lie side by side.
///
/// It may be run so if all loops make turns, no turns of the `outer` loops, of `rows` and of `lanes` take the same element of
/// one of `stores`, and those share no byte with each other and with the views of `apart`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The views that are stored. All are chosen by the same loops.
    pub stores: Vec<usize>,
    /// The loops that choose the element, but for `lanes` and `rows`; in their order.
    pub outer: Vec<usize>,
    /// The loop that is cut into strips.
    pub lanes: usize,
    /// The loop that is cut into blocks.
    pub rows: Option<usize>,
    /// The other loops, in their order.
    pub reductions: Vec<usize>,
    /// The other views that loads use.
    pub apart: Vec<usize>,
    /// Those of `apart` that are copied; their elements are the same for all rows.
    pub panels: Vec<usize>,
    /// The loop that holds the work.
    pub innermost: usize,
}

/// Why a nest is run in its own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// There is work in it beside its inner loops.
    Imperfect,
    /// Something other than memory is carried from turn to turn.
    Carried,
    /// A view is stored more than once a turn, or views that different loops choose, or too many.
    Stores,
    /// Every turn stores another element, or all turns store one.
    NoReduction,
    /// No loop goes from one stored element to the next.
    Strides,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hindrance::Imperfect => "there is work beside the inner loops",
            Hindrance::Carried => "values are carried from turn to turn",
            Hindrance::Stores => "a turn stores elements twice, or several that different loops choose",
            Hindrance::NoReduction => "nothing is reduced, or everything to one element",
            Hindrance::Strides => "no loop goes from one stored element to the next",
        })
    }
}

impl Tiling {
    /// Turns of `rows` that go together.
    pub const ROWS: usize = 4;
    /// Turns of the last reduction that a copy holds.
    pub const CHUNK: usize = 256;

    /// How a nest can be run with what it reduces in registers.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn of(function: &Function, nest: &Nest, needed: &Needed) -> Result<Tiling, Hindrance> {
        let innermost = innermost(function, nest, needed)?;
        let carries = |index: usize| {
            let counted = &nest.loops[index];
            counted.tested_last || counted.carried.iter().any(|carried| index == 0 || needed.has(carried.parameter))
        };
        if (0..nest.loops.len()).any(carries) {
            return Err(Hindrance::Carried);
        }
        let stores: Vec<usize> =
            nest.accesses.iter().filter(|access| access.stored.is_some()).map(|access| access.view).collect();
        let Some(store) = stores.first() else { return Err(Hindrance::Stores) };
        let stored = &nest.views[*store].index;
        let is_alike =
            |at: usize| !stores[..at].contains(&stores[at]) && nest.views[stores[at]].index.turns() == stored.turns();
        if stores.len() > MAX_STORES || !(1..stores.len()).all(is_alike) {
            return Err(Hindrance::Stores);
        }
        let (chosen, reductions): (Vec<usize>, Vec<usize>) =
            nest.path(innermost).into_iter().partition(|turn| stored.stride(*turn).next().is_some());
        if chosen.is_empty() || reductions.is_empty() {
            return Err(Hindrance::NoReduction);
        }
        let mut apart: Vec<usize> = nest
            .accesses
            .iter()
            .filter(|access| !stores.contains(&access.view) && needed.keeps(function, nest, access))
            .map(|access| access.view)
            .collect();
        apart.sort_unstable();
        apart.dedup();
        let strides = |lanes: usize| {
            let steps = |view: &usize| matches!(nest.views[*view].index.constant_stride(lanes), Some(0 | 1));
            apart.iter().filter(|view| !steps(view)).count()
        };
        // The last of the best: loops further inside go over what lies closer together.
        let candidates = chosen.iter().copied().filter(|turn| stored.constant_stride(*turn) == Some(1));
        let lanes = candidates.rev().min_by_key(|turn| strides(*turn)).ok_or(Hindrance::Strides)?;
        let changes = |view: usize, turn: usize| nest.views[view].index.stride(turn).next().is_some();
        // What goes along the lanes costs the most, unless it is the same for all rows.
        let shared = |rows: usize| apart.iter().filter(|view| changes(**view, lanes) && !changes(**view, rows)).count();
        let rows = chosen.iter().copied().filter(|turn| *turn != lanes).max_by_key(|turn| shared(*turn));
        let panels = match (rows, reductions.last()) {
            (Some(rows), Some(last)) if nest.may_have(rows, LEAST_SHARED) && nest.may_have(*last, LEAST_PACKED) => {
                let panels = apart.iter().copied().filter(|view| changes(*view, lanes) && !changes(*view, rows));
                panels.take(MAX_PANELS).collect()
            }
            _ => Vec::new(),
        };
        let outer = chosen.into_iter().filter(|turn| *turn != lanes && Some(*turn) != rows).collect();
        Ok(Tiling { stores, outer, lanes, rows, reductions, apart, panels, innermost })
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
fn innermost(function: &Function, nest: &Nest, needed: &Needed) -> Result<usize, Hindrance> {
    let mut at = 0;
    loop {
        let mut inner = None;
        let mut works = false;
        for item in &nest.loops[at].items {
            match item {
                Item::Loop(index) if inner.is_none() => inner = Some(*index),
                Item::Loop(_) => return Err(Hindrance::Imperfect),
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
            Some(_) if works => return Err(Hindrance::Imperfect),
            Some(inner) => at = inner,
        }
    }
}
