//! Nests of counted loops over buffers, which need no checks of their own once the ranges of their accesses are checked.
//!
//! A loop is counted if a single edge leaves it, and the test there compares a loop-invariant integer with one that each
//! iteration changes by the same amount. Its trip count is known before the first iteration. A [`Nest`] is a counted loop whose
//! inner loops are counted, too, and which otherwise contains only arithmetic that cannot fail, divisions by invariants that are positive
//! where the nest runs, and accesses to loop-invariant buffers whose indices are [`Affine`] forms. It has no other branches, and loaded
//! values are neither bounds nor conditions. Loads may be [`Gather`]s, whose indices are any integers that an iteration computes.
//!
//! A back end runs the iterations of the outermost loop that pass the test, and then continues at the loop's header in the
//! original code: there the test fails as in the bytecode, after the instructions before it. So the test may be anywhere in the
//! outermost loop.

mod accumulators;
mod affine;
mod contraction;
mod division;
mod fold;
mod gather;
mod kept;
mod merged;
mod needed;
mod perfect;
mod races;
mod recover;
pub mod schedule;
mod scheduled;
mod strips;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;
mod work;
mod zeros;

use alloc::vec::Vec;
use core::fmt;

pub use accumulators::Accumulators;
pub use affine::{Affine, Term};
pub use contraction::{Contraction, Factor, Product};
pub use division::{Dividend, Division};
pub use fold::{Fold, is_associative};
pub use gather::Gather;
pub use merged::DIVIDED;
pub use needed::Needed;
pub use schedule::{Order, Schedule};
pub use scheduled::{Check, ScheduledNest};
pub use strips::Strips;

use crate::isa::Opcode;
use crate::trip_count::Relation;

use super::function::{Function, Inst};
use super::value::{Block, Type, Value};

/// A number type in memory.
#[allow(non_camel_case_types, reason = "spelled as Rust spells them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// 8 bits, zero-extended.
    u8,
    /// 8 bits, sign-extended; stored ones are truncated.
    i8,
    /// 16 bits, zero-extended.
    u16,
    /// 16 bits, sign-extended; stored ones are truncated.
    i16,
    /// 32 bits.
    i32,
    /// 64 bits.
    i64,
    /// Float of 32 bits.
    f32,
    /// Float of 64 bits.
    f64,
}

impl Element {
    /// What an instruction that loads or stores takes; None for others.
    #[must_use]
    pub const fn of(opcode: Opcode) -> Option<Element> {
        Some(match opcode {
            Opcode::BufferLoadI8U => Element::u8,
            Opcode::BufferLoadI8S | Opcode::BufferStoreI8 => Element::i8,
            Opcode::BufferLoadI16U => Element::u16,
            Opcode::BufferLoadI16S | Opcode::BufferStoreI16 => Element::i16,
            Opcode::BufferLoadI32 | Opcode::BufferStoreI32 => Element::i32,
            Opcode::BufferLoadI64 | Opcode::BufferStoreI64 => Element::i64,
            Opcode::BufferLoadF32 | Opcode::BufferStoreF32 => Element::f32,
            Opcode::BufferLoadF64 | Opcode::BufferStoreF64 => Element::f64,
            _ => return None,
        })
    }

    /// Its bytes.
    #[must_use]
    pub const fn width(self) -> u64 {
        match self {
            Element::u8 | Element::i8 => 1,
            Element::u16 | Element::i16 => 2,
            Element::i32 | Element::f32 => 4,
            Element::i64 | Element::f64 => 8,
        }
    }
}

/// The test that decides whether a loop continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The tested value in the first iteration: a loop-invariant form of the type `ty`.
    pub first: Affine,
    /// The amount by which each iteration changes it: not zero, and towards the bound.
    pub step: i64,
    /// The comparison.
    pub relation: Relation,
    /// The bound, a loop-invariant form.
    pub bound: Affine,
    /// The type of both: `i32` or `i64`.
    pub ty: Type,
    /// True for a signed comparison.
    pub signed: bool,
}

/// An induction variable: an integer that each iteration of a loop changes by the same amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Induction {
    /// The header's parameter.
    pub parameter: Value,
    /// The value in the first iteration; None for the outermost loop, where it is the parameter's value before the nest.
    pub initial: Option<Value>,
    /// The amount by which each iteration changes it, a loop-invariant form.
    pub step: Affine,
    /// The value in terms of the iteration indices of this loop and of outer loops.
    pub form: Affine,
}

/// A loop-carried value that is no induction variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The header's parameter.
    pub parameter: Value,
    /// The value in the first iteration.
    pub initial: Value,
    /// The value in the next iteration.
    pub next: Value,
}

/// A step of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// An instruction, by block and position.
    Instruction(Block, usize),
    /// An inner loop, as an index into [`Nest::loops`].
    Loop(usize),
}

/// A counted loop of a nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The only entry. Loops whose iterations one integer counts share a header.
    pub header: Block,
    /// The loop around it, as an index into [`Nest::loops`]; None for the first.
    pub parent: Option<usize>,
    /// The test that decides whether it continues.
    pub test: Test,
    /// The test is at the end, so that the trip count is one more than the number of tests that pass. Never set for the first loop.
    pub tested_last: bool,
    /// For one of several loops whose iterations one integer counts: the number that the counted iterations are divided by. The nest
    /// can only run on its own if it is positive and divides them without remainder.
    pub divisor: Option<Affine>,
    /// The induction variables.
    pub inductions: Vec<Induction>,
    /// The other loop-carried values.
    pub carried: Vec<Carried>,
    /// The steps of an iteration, in order, without the instructions of [`Nest::hoisted`].
    pub items: Vec<Item>,
}

impl Counted {
    /// The value of the program that a carried one is when the loop is done.
    #[must_use]
    pub fn escaping(&self, carried: &Carried) -> Value {
        if self.tested_last { carried.next } else { carried.parameter }
    }
}

/// The elements that accesses of a nest load or store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The buffer, which is loop-invariant.
    pub buffer: Value,
    /// Type of the elements.
    pub element: Element,
    /// Index of the element, in elements; an `i64`, which is an unsigned number and so must not be negative.
    pub index: Affine,
    /// True if elements are stored.
    pub written: bool,
    /// True if the buffer has only zeros before the nest.
    pub zeros: bool,
}

/// A load or store of a nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Block of the instruction.
    pub block: Block,
    /// Its position there.
    pub position: usize,
    /// The innermost loop that it is in.
    pub within: usize,
    /// Its elements, as an index into [`Nest::views`].
    pub view: usize,
    /// The stored value; None for loads.
    pub stored: Option<Value>,
}

impl Access {
    /// Returns the block of the instruction and its position there.
    #[must_use]
    pub const fn instruction(&self) -> (Block, usize) {
        (self.block, self.position)
    }
}

/// A form that must be within a range in all iterations, so that it does not wrap, or that the division by it cannot fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// The form.
    pub form: Affine,
    /// The least value.
    pub least: i64,
    /// The greatest.
    pub greatest: i64,
}

/// Counted loops within each other, and what they access. All iterations' accesses are in range where the index of each of the
/// [`views`](Nest::views) is less than the number of elements, and each of the [`conditions`](Nest::conditions) holds, for all
/// iterations. Whether those of the [`gathers`](Nest::gathers) are is known when the iterations run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nest {
    /// The loops, the outermost first.
    pub loops: Vec<Counted>,
    /// Loop-invariant instructions that cannot fail, in an order in which they can be computed before the nest.
    pub hoisted: Vec<(Block, usize)>,
    /// The views, without duplicates.
    pub views: Vec<View>,
    /// The accesses, in the order in which they stand.
    pub accesses: Vec<Access>,
    /// Their indices, sorted by block and position.
    accesses_by_position: Vec<usize>,
    /// The loads at computed indices, in the order in which they stand.
    pub gathers: Vec<Gather>,
    /// The divisions of what loops count, in the order in which they stand.
    pub divisions: Vec<Division>,
    /// The forms that must not wrap or be zero.
    pub conditions: Vec<Bounded>,
}

/// The bail-out reason for a loop that is not a nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BailOut {
    /// Several edges leave it, or none.
    Exits,
    /// A branch in it belongs to no loop, or a function ends in it.
    Branches(Block),
    /// No test compares an integer that each iteration changes by the same amount with a bound.
    Uncounted(Block),
    /// An inner loop has work both before and after its test.
    TestInTheMiddle(Block),
    /// Iterations carry references.
    References(Block),
    /// The instruction at a bytecode offset may fail or is not arithmetic.
    Effect(u32),
    /// The index of the access at a bytecode offset is not an affine form.
    Index(u32),
    /// The load at a bytecode offset may be out of range, and the loops could not run from their beginning then: the nest carries numbers, or
    /// loads what it stores.
    Again(u32),
    /// The buffer of the access at a bytecode offset is not loop-invariant.
    Buffer(u32),
    /// A value of an inner loop is used after it without being carried.
    Escapes(Value),
    /// Its iterations run one after the other: loops within it are nests of their own.
    Sequential,
    /// It exceeds the limits on loops, instructions or views.
    Size,
}

impl fmt::Display for BailOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BailOut::Exits => f.write_str("not exactly one edge leaves it"),
            BailOut::Branches(block) => write!(f, "{block} branches within it"),
            BailOut::Uncounted(block) => write!(f, "the trip count of the loop at {block} is not known before it"),
            BailOut::TestInTheMiddle(block) => write!(f, "the inner loop at {block} is tested in its middle"),
            BailOut::References(block) => write!(f, "the loop at {block} carries references"),
            BailOut::Effect(offset) => write!(f, "the instruction at {offset:#x} is not arithmetic, or may fail"),
            BailOut::Index(offset) => write!(f, "the index of the access at {offset:#x} is not affine"),
            BailOut::Again(offset) => {
                write!(f, "the load at {offset:#x} may be out of range, and what is loaded or carried has changed then")
            }
            BailOut::Buffer(offset) => {
                write!(f, "the buffer of the access at {offset:#x} is not loop-invariant")
            }
            BailOut::Escapes(value) => write!(f, "v{} is used after the inner loop that defines it", value.0),
            BailOut::Sequential => {
                f.write_str("its iterations run one after the other; loops within it are nests of their own")
            }
            BailOut::Size => f.write_str("it is too large"),
        }
    }
}

/// The nests of a function: its outermost loops, or the loops in those that are not nests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nests {
    /// The nests; none contains another.
    pub found: Vec<Nest>,
    /// The headers of other loops outside of nests, with the reasons.
    pub rejected: Vec<(Block, BailOut)>,
}

impl Nests {
    /// Finds the nests of a function.
    #[must_use]
    pub fn of(function: &Function) -> Nests {
        recover::nests(function)
    }

    /// Returns the index of the nest whose outermost loop has the given header.
    #[must_use]
    pub fn position(&self, header: Block) -> Option<usize> {
        // They are in the order of their headers.
        self.found.binary_search_by_key(&header, |nest| nest.loops[0].header).ok()
    }

    /// Returns the nest whose outermost loop has the given header.
    #[must_use]
    pub fn at(&self, header: Block) -> Option<&Nest> {
        self.found.get(self.position(header)?)
    }
}

impl Nest {
    /// Returns the access of an instruction.
    #[must_use]
    pub fn access(&self, block: Block, position: usize) -> Option<&Access> {
        let by_position = self.accesses_by_position.as_slice();
        let found = by_position.binary_search_by_key(&(block, position), |at| self.accesses[*at].instruction()).ok()?;
        Some(&self.accesses[by_position[found]])
    }

    /// Lets [`Nest::access`] find the accesses, which are complete.
    fn sort_accesses(&mut self) {
        self.accesses_by_position = (0..self.accesses.len()).collect();
        self.accesses_by_position.sort_unstable_by_key(|at| self.accesses[*at].instruction());
    }

    /// Returns the loops from the outermost one to `to`.
    #[must_use]
    pub fn path(&self, to: usize) -> Vec<usize> {
        let mut path = alloc::vec![to];
        while let Some(parent) = path.last().and_then(|last| self.loops[*last].parent) {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// The instructions of the loops from the outermost one to `to`, those of outer loops first. What stands behind an inner loop is not used
    /// in it.
    #[must_use]
    pub fn instructions_to(&self, to: usize) -> Vec<(Block, usize)> {
        let path = self.path(to);
        let items = path.iter().flat_map(|at| &self.loops[*at].items);
        let instructions = items.filter_map(|item| match item {
            Item::Instruction(block, position) => Some((*block, *position)),
            Item::Loop(_) => None,
        });
        instructions.collect()
    }

    /// Returns an instruction of the nest.
    #[must_use]
    pub fn instruction<'f>(&self, function: &'f Function, block: Block, position: usize) -> &'f Inst {
        &function.block(block).instructions[position]
    }
}
