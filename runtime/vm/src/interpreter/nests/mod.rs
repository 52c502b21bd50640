//! Loop nests that run separately from the other instructions: `incarnate_bytecode::ir::nest`'s back end of the interpreter.
//!
//! [`find`] turns the nests of a function into [`Nest`]s, at the instruction where the outermost loop begins. There, [`run`]
//! computes trip counts and checks what the accesses need. Contractions are then run by their kernels, and other nests as
//! vector operations over strips of elements that stay in the processor's cache. What one iteration after the other computes
//! is the same, bit for bit. Where a check fails, nothing is done, and the plain code reports the failure at its place.
//!
//! Only nests whose every step is done for a whole strip at once are found: operations on elements, and folds of a strip into a
//! number. All others are left to the interpreter's own instructions.

mod body;
mod copies;
mod folding;
mod gather;
mod kernels;
mod lower;
mod plan;
mod run;
mod scalars;
mod strips;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use incarnate_bytecode::ir::nest::{Check, Element, Order, Product};
use incarnate_bytecode::isa::Opcode;
use incarnate_bytecode::trip_count::Relation;
use incarnate_kernels::contraction::Narrow;

use copies::Copy;
use kernels::{FoldKernel, Kernel};
pub(super) use lower::find;
use plan::Known;
pub(super) use run::{Frame, run};
pub(in super::super) use strips::Scratch;

/// How functions are lowered.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Optimization {
    /// The order of float reductions.
    pub(in super::super) order: Order,
    /// The fewest instructions of loops that run as a nest.
    pub(in super::super) least: u64,
}

impl Optimization {
    /// Leaves loops to the interpreter's instructions where these are expected to take less. Checks and strips of a nest take the processor
    /// 1,500 instructions or, with trip counts that are not constants, 3,000; an instruction of the interpreter takes 8 to 12
    /// (`.ci/instructions`: "vm: buffer_reduce of 16", "vm: multiply_add_modulo").
    pub(in super::super) const WORTHWHILE: Optimization = Optimization { order: Order::Bytecode, least: 200 };
}

/// The most loops of a nest.
pub(super) const MAX_LOOPS: usize = 16;
/// The most scalars of a nest, and the most strips.
const MAX_SLOTS: usize = 512;

/// How a number that no iteration changes is obtained. Narrow ones are the lower half, the upper half being zero.
#[derive(Clone, Debug)]
enum Scalar {
    Constant(u64),
    /// A register of 32 bits.
    Narrow(u16),
    /// The pair of a register.
    Wide(u16),
    /// Computed from scalars before it.
    Eval(Opcode, Vec<u16>),
    /// The same bits as a scalar before it.
    Copy(u16),
    Low(u16),
    High(u16),
    Pair(u16, u16),
}

/// Products of a number and of scalars, which are added; `true` for scalars of 32 bits, which are sign-extended.
type Form = Vec<(i64, Vec<(u16, bool)>)>;

/// A form of iterations: what it is in the first iteration of all loops, and what an iteration of a loop adds.
#[derive(Clone, Debug)]
struct Strided {
    base: Form,
    strides: Vec<(usize, Form)>,
}

/// A counted loop.
#[derive(Clone, Debug)]
struct Counted {
    first: Form,
    bound: Form,
    step: i64,
    relation: Relation,
    is_wide: bool,
    is_signed: bool,
    tested_last: bool,
    divisor: Option<Form>,
    parent: Option<usize>,
    /// The trip count with those of the loops around it whose iterations it runs, too, if there are such.
    merged: Option<usize>,
    /// Operations of arithmetic in an iteration, without those of inner loops.
    operations: u64,
    /// Instructions of an iteration, without those of inner loops.
    instructions: u64,
}

/// Where a buffer is.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// In a register.
    Register(u16),
    /// Among the read-only segments of the module.
    Rodata(u32),
}

/// Elements that accesses load or store.
#[derive(Clone, Debug)]
struct View {
    source: Source,
    element: Element,
    index: Strided,
    is_written: bool,
    /// The buffer has only zeros before the nest.
    is_of_zeros: bool,
}

/// A register that the outermost loop steps.
#[derive(Clone, Debug)]
struct Induction {
    register: u16,
    is_wide: bool,
    step: Form,
}

/// A step of the body of a nest, which runs on strips.
#[derive(Clone, Debug)]
enum Step {
    /// Copies elements into a strip, or lets the strip be the elements themselves.
    Load { view: usize, into: u16, copy: Copy, is_extended: bool, is_borrowed: bool },
    /// Copies a strip to elements.
    Store { view: usize, from: u16, copy: Copy },
    /// Numbers that iterations step, by their index in [`Body::sequences`].
    Sequence { sequence: usize, into: u16 },
    /// Copies elements of [`Nest::gathers`] at the indices of a strip into another one.
    Gather { gather: usize, load: gather::Gather, index: u16, into: u16 },
    /// A vector operation.
    Eval { kernel: Kernel, operands: [u16; 3], into: u16 },
    /// Folds the numbers of strips into the first number of the strip `into`.
    Fold { kernel: FoldKernel, operands: [u16; 2], into: u16 },
}

/// A number that iterations carry in registers, and fold others into.
#[derive(Clone, Debug)]
struct Carried {
    /// The strip whose first number it is.
    strip: u16,
    is_wide: bool,
    registers: Vec<u16>,
}

/// The instructions of an iteration.
#[derive(Clone, Debug, Default)]
struct Body {
    /// The loads of accumulators.
    before: Vec<Step>,
    steps: Vec<Step>,
    /// The stores of accumulators.
    after: Vec<Step>,
    /// Elements that each iteration of a reduction loads and stores: the strip of the load and that of the stored number. Those
    /// strips hold nothing else.
    accumulators: Vec<(u16, u16)>,
    /// The steps that depend on accumulators, which follow `steps`.
    accumulating: Vec<Step>,
    /// The strips of results of `steps` that these read, and the bytes of a number.
    accumulating_operands: Vec<(u16, usize)>,
    /// Number of strips.
    strips: u16,
    /// Strips in which all elements are the same scalar; true for 64 bits.
    broadcasts: Vec<(u16, u16, bool)>,
    /// Numbers that iterations step; true for 64 bits.
    sequences: Vec<(Strided, bool)>,
    /// The steps behind `steps` that change one number each: folds of strips into numbers, and the loads and stores of the numbers that are
    /// elements.
    scalar_steps: Vec<Step>,
    /// What iterations carry.
    carried: Vec<Carried>,
    /// Bytes from one element of each strip to the next, zero where all are the same.
    advances: Vec<usize>,
}

/// An operand of a contraction.
#[derive(Clone, Debug)]
struct Factor {
    view: usize,
    /// None for elements as they are.
    computed: Option<Computed>,
}

/// What is computed from an element of a factor.
#[derive(Clone, Debug)]
struct Computed {
    body: Body,
    load: Copy,
    /// The strips of the element and of the result.
    loaded: u16,
    result: u16,
    /// The narrow integer that the result is, extended to 32 bits.
    narrow: Option<Narrow>,
}

/// What the iterations do.
#[derive(Clone, Debug)]
enum Work {
    Contraction {
        operation: Product,
        output: usize,
        /// The left one is none for sums of numbers.
        factors: Box<(Option<Factor>, Factor)>,
        loops: Vec<usize>,
        order: Order,
    },
    Strips(Box<OnStrips>),
    /// Nothing but counting: nothing is stored, or zeros to buffers that have only zeros.
    Nothing,
}

impl Work {
    /// The vector operations; None where there are none.
    fn on_strips(&self) -> Option<&OnStrips> {
        match self {
            Work::Contraction { .. } | Work::Nothing => None,
            Work::Strips(strips) => Some(strips),
        }
    }
}

/// Vector operations on strips.
#[derive(Clone, Debug)]
struct OnStrips {
    /// Iterations run one after the other, as in the bytecode.
    is_sequential: bool,
    /// The loops around that of the strips, the outermost first.
    outer: Vec<usize>,
    /// The loop that is divided into strips.
    lanes: usize,
    /// The loops within it, the outermost first.
    reductions: Vec<usize>,
    body: Body,
}

/// A nest of loops.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    scalars: Vec<Scalar>,
    loops: Vec<Counted>,
    views: Vec<View>,
    gathers: Vec<gather::Gathered>,
    /// Forms that must be within a range.
    conditions: Vec<(Strided, i64, i64)>,
    /// What must hold before it runs.
    checks: Vec<Check>,
    inductions: Vec<Induction>,
    work: Work,
    /// What is known before it runs, where trip counts and strides are constants.
    known: Option<Box<Known>>,
    /// The fewest instructions that it runs in place of.
    least: u64,
}
