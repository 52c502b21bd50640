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
    /// It contains instructions outside of its innermost loop.
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
            BailOut::Imperfect => "there are instructions outside of the innermost loop",
            BailOut::Carried => "iterations carry values",
            BailOut::Stores => "nothing is stored, or to a view twice, or to views that depend on different loops",
            BailOut::OneElement => "everything is reduced to one element",
            BailOut::Strides => "no access has unit stride in a loop that moves the stored element",
            BailOut::Scalar => "the target is scalar",
        })
    }
}

/// A nest whose work is all in its innermost loop, which carries nothing but memory.
pub(super) struct Perfect {
    pub(super) innermost: usize,
    /// The loops, the outermost first.
    pub(super) path: Vec<usize>,
}

impl Perfect {
    pub(super) fn of(function: &Function, nest: &Nest, needed: &Needed) -> Result<Perfect, BailOut> {
        let innermost = innermost(function, nest, needed)?;
        let carries = |(index, counted): (usize, &super::Counted)| {
            counted.carried.iter().any(|carried| index == 0 || needed.has(carried.parameter))
        };
        if nest.loops.iter().enumerate().any(carries) {
            return Err(BailOut::Carried);
        }
        Ok(Perfect { innermost, path: nest.path(innermost) })
    }
}

/// The loop that holds all work, with nothing but it in those around it.
fn innermost(function: &Function, nest: &Nest, needed: &Needed) -> Result<usize, BailOut> {
    let mut at = 0;
    loop {
        let mut inner = None;
        let mut works = false;
        for item in &nest.loops[at].items {
            match item {
                Item::Loop(index) if inner.is_none() => inner = Some(*index),
                Item::Loop(_) => return Err(BailOut::Imperfect),
                Item::Instruction(block, position) => {
                    works |= needed.includes(function, nest, *block, *position);
                }
            }
        }
        match inner {
            None => return Ok(at),
            Some(_) if works => return Err(BailOut::Imperfect),
            Some(inner) => at = inner,
        }
    }
}
