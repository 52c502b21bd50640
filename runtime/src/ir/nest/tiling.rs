//! Nests that reduce: how to run them with what they add up in registers.
//!
//! Compilers write `c[i, j] += a[i, k] * b[k, j]` with the reduction innermost and `c` in memory. Turns that store different
//! elements of `c` have nothing to do with each other, if `c` overlaps nothing else that the nest takes. So the loops that choose
//! the element can go outside, those that do not, inside, in their order: each element sees the same operations in the same
//! order as before. One of the former is cut into strips, whose elements are held in registers side by side.

use alloc::vec::Vec;
use core::fmt;

use super::{Access, Counted, Item, Needed, Nest, Relation};
use crate::ir::function::Function;

/// Elements held at once where all accesses go from one to the next, or stay: as many as compilers unroll and keep in
/// registers of 128 bits. Of more they make a loop over memory.
const WIDE: usize = 16;
/// Where some access goes in larger strides, as each touches another cache line.
const NARROW: usize = 8;
/// The least that is worth it.
const LEAST: usize = 4;

/// How to run a nest that stores elements of one view again and again: for each turn of the `outer` loops, and each strip of
/// turns of the loop `lanes`, the elements of the strip are loaded, all turns of the `reductions` are made for the strip, and the
/// elements are stored.
///
/// It may be run so if all loops make turns, no turns of the `outer` loops and of `lanes` take the same element of `store`, and
/// each view of `apart` shares no byte with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The view that is stored.
    pub store: usize,
    /// The loops that choose the element, but for `lanes`; in their order.
    pub outer: Vec<usize>,
    /// The loop that is cut into strips.
    pub lanes: usize,
    /// The length of a strip; what is left goes one by one.
    pub width: usize,
    /// The other loops, in their order.
    pub reductions: Vec<usize>,
    /// The other views that loads use.
    pub apart: Vec<usize>,
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
    /// Not one view alone is stored, or not once a turn.
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
            Hindrance::Stores => "a turn stores not one element",
            Hindrance::NoReduction => "nothing is reduced, or everything to one element",
            Hindrance::Strides => "no loop goes from one stored element to the next",
        })
    }
}

impl Tiling {
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
        let stores: Vec<&Access> = nest.accesses.iter().filter(|access| access.stored.is_some()).collect();
        let [store] = stores[..] else { return Err(Hindrance::Stores) };
        let stored = &nest.views[store.view].index;
        let (chosen, reductions): (Vec<usize>, Vec<usize>) =
            (0..nest.loops.len()).partition(|turn| stored.stride(*turn).next().is_some());
        if chosen.is_empty() || reductions.is_empty() {
            return Err(Hindrance::NoReduction);
        }
        let mut apart: Vec<usize> = nest
            .accesses
            .iter()
            .filter(|access| access.view != store.view && needed.keeps(function, nest, access))
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
        let mut width = if strides(lanes) == 0 { WIDE } else { NARROW };
        while width > LEAST && nest.loops[lanes].constant_turns().is_some_and(|turns| turns < width as u64) {
            width /= 2;
        }
        let outer = chosen.into_iter().filter(|turn| *turn != lanes).collect();
        Ok(Tiling { store: store.view, outer, lanes, width, reductions, apart, innermost })
    }
}

impl Counted {
    /// The number of turns, where the test says it: a number less than another.
    fn constant_turns(&self) -> Option<u64> {
        let (first, bound) = (self.test.first.as_constant()?, self.test.bound.as_constant()?);
        let counts = self.test.relation == Relation::Less && self.test.signed && self.test.step > 0;
        let distance = bound.checked_sub(first).filter(|_| counts)?;
        Some((distance.max(0) as u64).div_ceil(self.test.step as u64))
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
