//! Nests that schedules are for: all of their work is in the innermost loop.

use alloc::vec::Vec;
use core::fmt;

use super::{Item, Needed, Nest};
use crate::ir::function::Function;

/// The order of the float operations that reduce numbers to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the bytecode.
    #[default]
    Bytecode,
    /// Any, the same in every back end and on every processor.
    Any,
}

/// The bail-out reason for a nest whose iterations run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BailOut {
    /// It contains accesses outside of its innermost loop.
    Imperfect,
    /// Iterations carry values other than memory.
    Carried,
    /// It stores nothing, or an iteration stores to a view twice, to views that depend on different loops, or to too many views.
    Stores,
    /// All iterations store the same element.
    OneElement,
    /// No access has unit stride in a loop that moves the stored element.
    Strides,
    /// The target has neither vectors nor the memory for kernels.
    Scalar,
}

impl fmt::Display for BailOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BailOut::Imperfect => "there are accesses outside of the innermost loop",
            BailOut::Carried => "iterations carry values",
            BailOut::Stores => "nothing is stored, or to a view twice, or to views that depend on different loops",
            BailOut::OneElement => "everything is reduced to one element",
            BailOut::Strides => "no access has unit stride in a loop that moves the stored element",
            BailOut::Scalar => "the target is scalar",
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
    pub(super) fn of(function: &Function, nest: &Nest, needed: &Needed) -> Result<Perfect, BailOut> {
        let (innermost, computes_around) = innermost(function, nest, needed)?;
        let carries = |(index, counted): (usize, &super::Counted)| {
            counted.carried.iter().any(|carried| index == 0 || needed.has(carried.parameter))
        };
        if nest.loops.iter().enumerate().any(carries) {
            return Err(BailOut::Carried);
        }
        Ok(Perfect { innermost, computes_around, path: nest.path(innermost) })
    }
}

/// The loop that holds all accesses, with nothing but it and arithmetic in those around it, and whether there is any.
fn innermost(function: &Function, nest: &Nest, needed: &Needed) -> Result<(usize, bool), BailOut> {
    let (mut at, mut computes_around) = (0, false);
    loop {
        let (mut inner, mut computes, mut accesses) = (None, false, false);
        for item in &nest.loops[at].items {
            match item {
                Item::Loop(index) if inner.is_none() => inner = Some(*index),
                Item::Loop(_) => return Err(BailOut::Imperfect),
                Item::Instruction(block, position) if needed.includes(function, nest, *block, *position) => {
                    computes = true;
                    accesses |= nest.access(*block, *position).is_some() || nest.gather(*block, *position).is_some();
                }
                Item::Instruction(..) => {}
            }
        }
        match inner {
            None => return Ok((at, computes_around)),
            Some(_) if accesses => return Err(BailOut::Imperfect),
            Some(inner) => (at, computes_around) = (inner, computes_around || computes),
        }
    }
}
