//! Counted loops whose values are kept in machine registers.
//!
//! A value that a loop carries from one iteration to the next otherwise goes through the frame's memory once for each
//! instruction that uses it, and small loops are bound by that latency. A block that branches to itself is run here instead
//! if it only steps its counters and does one of these: combine elements of a buffer into a register (sums, minima, maxima),
//! add the product of two elements to a register or to an element (the loops of contractions), or compute elements from
//! elements ([`map`]).
//!
//! The trip count is computed before the first iteration. Only iterations that another one follows are run, and before an
//! iteration that would fail or run out of fuel, the carried values are put back and the ordinary code continues with that
//! iteration. So the ordinary code writes whatever else the block writes, and reports errors. Elements are read through the
//! buffer's checked accesses.

mod comparison;
mod follow;
mod map;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::buffer::{Buffer, Scalar};
use super::super::reference::Ref;
use super::operation::Operation;
pub(super) use follow::recognize;
use incarnate_bytecode::semantics;
use incarnate_bytecode::trip_count::{Relation, trip_count};

/// Blocks with more instructions are not recognised, so that recognition takes a time that is linear in the code.
pub(super) const MAX_INSTRUCTIONS: usize = 64;

/// Loops of fewer iterations are left to the ordinary code, where they cost no more.
const MIN_ITERATIONS: u64 = 2;

/// A value that does not change in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invariant {
    Register(u16),
    Constant(u64),
}

/// A register to which each iteration adds the same.
#[derive(Clone, Copy, Debug)]
struct Counter {
    register: u16,
    /// 64-bit.
    wide: bool,
    step: Invariant,
    /// How many times an iteration adds the step.
    times: u32,
}

/// The comparison that ends an iteration: of the first counter, after `times` steps of the iteration, with the limit. The
/// loop continues where it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    relation: Relation,
    signed: bool,
    times: u32,
    limit: Invariant,
}

/// The elements that an iteration combines into a register.
#[derive(Clone, Debug)]
struct Reduction {
    operation: Operation,
    load: Operation,
    register: u16,
    buffer: u16,
    /// For each element, the steps from the first counter's value at the start of the iteration to the element's index.
    elements: Box<[u32]>,
}

/// A product of values that do not change in the loop.
type Term = [Invariant; 2];

/// The neutral factor.
const ONE: Invariant = Invariant::Constant(1);

/// A multiple of a register, plus terms that do not change in the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Affine {
    /// The register at the start of the iteration, and its factor; none where the value does not change in the loop.
    scaled: Option<(u16, Term)>,
    /// The terms that are added.
    terms: Vec<Term>,
}

/// The location of the element of a buffer that each iteration accesses.
#[derive(Clone, Debug)]
struct Stream {
    buffer: u16,
    /// The factor of the first counter's value at the start of the iteration in the index; none where the index does not
    /// depend on it.
    scale: Option<Term>,
    /// The terms that are added.
    terms: Box<[Term]>,
}

/// The target that an iteration adds a product to.
#[derive(Clone, Debug)]
enum Sum {
    Register(u16),
    Element(Stream),
}

/// The product of two elements that an iteration adds.
#[derive(Clone, Debug)]
struct Product {
    operation: Operation,
    load: Operation,
    left: Stream,
    right: Stream,
    sum: Sum,
}

/// What an iteration does besides counting.
#[derive(Clone, Debug)]
enum Work {
    None,
    Reduce(Reduction),
    Multiply(Product),
    Map(map::Map),
}

/// A loop that runs separately from the other instructions.
#[derive(Clone, Debug)]
pub(super) struct CountedLoop {
    /// The first is the one that is compared and that indexes the buffer.
    counters: Box<[Counter]>,
    test: Test,
    work: Work,
    /// Fuel that an iteration takes.
    pub(super) fuel: u64,
}

/// An accumulator's type: its representation in registers.
trait Word: Copy {
    const WIDE: bool;
    fn of_register(bits: u64) -> Self;
    fn into_register(self) -> u64;
}

macro_rules! words {
    ($($type:ty, $wide:literal, $from:expr, $to:expr;)*) => {
        $(impl Word for $type {
            const WIDE: bool = $wide;
            #[inline(always)]
            fn of_register(bits: u64) -> $type {
                ($from)(bits)
            }
            #[inline(always)]
            fn into_register(self) -> u64 {
                ($to)(self)
            }
        })*
    };
}
words! {
    i32, false, |bits| bits as i32, |value| u64::from(value as u32);
    i64, true, |bits| bits as i64, |value| value as u64;
    f32, false, |bits| f32::from_bits(bits as u32), |value: f32| u64::from(value.to_bits());
    f64, true, f64::from_bits, f64::to_bits;
}

/// The reductions: the operation, its type, whether it commutes, the load, the scalar that it reads and the conversion of
/// that to an operand.
macro_rules! for_each_reduction {
    ($callback:ident!($($prefix:tt)*)) => { $callback! { $($prefix)*
        AddI32, add_i32: i32, commutes true, BufferLoadI8U u8: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI8S i8: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI16U u16: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI16S i16: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI32 u32: |bits: u32| bits as i32;
        AddI64, add_i64: i64, commutes true, BufferLoadI64 u64: |bits: u64| bits as i64;
        AddF32, add_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
        AddF64, add_f64: f64, commutes false, BufferLoadI64 u64: f64::from_bits;
        MulF32, mul_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
        MinI32S, min_i32_s: i32, commutes true, BufferLoadI32 u32: |bits: u32| bits as i32;
        MaxI32S, max_i32_s: i32, commutes true, BufferLoadI32 u32: |bits: u32| bits as i32;
        MinF32, min_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
        MaxF32, max_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
    } };
}

/// The multiplications: the operation, its type, the load of the factors, the scalar that it reads and the conversion of
/// that to a factor. All have 32 bits.
macro_rules! for_each_product {
    ($callback:ident!($($prefix:tt)*)) => { $callback! { $($prefix)*
        FmaF32, fma_f32: f32, BufferLoadI32 u32: f32::from_bits;
        FmaI32, fma_i32: i32, BufferLoadI32 u32: |bits: u32| bits as i32;
        FmaI32, fma_i32: i32, BufferLoadI8S i8: i32::from;
        FmaI32, fma_i32: i32, BufferLoadI8U u8: i32::from;
    } };
}

/// Whether the operation is a multiplication of `for_each_product` with factors of the load.
fn is_product(operation: Operation, load: Operation) -> bool {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, $load:ident $scalar:ty: $convert:expr;)*) => {
            matches!((operation, load), $((Operation::$operation, Operation::$load))|*)
        };
    }
    for_each_product!(rows!())
}

/// The type of a reduction: whether its accumulator is wide, and whether it commutes.
fn reduction_type(operation: Operation, load: Operation) -> Option<(bool, bool)> {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, commutes $commutes:literal, $load:ident $scalar:ty: $convert:expr;)*) => {
            match (operation, load) {
                $((Operation::$operation, Operation::$load) => Some((<$type>::WIDE, $commutes)),)*
                _ => None,
            }
        };
    }
    for_each_reduction!(rows!())
}

/// The first counter while a loop runs, and the iterations that are to be run.
#[derive(Clone, Copy)]
struct Progress {
    /// The counter's value at the start of the iteration.
    value: u64,
    step: u64,
    /// By how much an iteration changes the counter.
    stride: u64,
    /// Iterations to run. Another one, run by the ordinary code, follows them.
    remaining: u64,
}

impl Progress {
    /// Passes over iterations, at most as many as remain.
    #[inline(always)]
    fn advance(&mut self, iterations: u64) {
        self.remaining -= iterations;
        self.value = self.value.wrapping_add(self.stride.wrapping_mul(iterations));
    }
}

impl CountedLoop {
    /// Runs iterations; the registers are then those at the start of the iteration that the ordinary code continues with.
    ///
    /// `registers` and `references` are the frame's.
    #[inline(never)]
    pub(super) fn run(&self, registers: &mut [u32], references: &[Ref], fuel: &mut u64) -> Option<()> {
        let mut progress = self.start(registers, *fuel)?;
        let iterations = progress.remaining;
        if iterations < MIN_ITERATIONS {
            return Some(());
        }
        match &self.work {
            Work::None => progress.advance(iterations),
            Work::Reduce(reduction) => {
                let buffer = references.get(usize::from(reduction.buffer))?.buffer().ok()?;
                reduce(reduction, registers, buffer, &mut progress)?;
            }
            Work::Multiply(product) => multiply(product, registers, references, &mut progress)?,
            Work::Map(map) => map.run(registers, references, &mut progress)?,
        }
        let iterations = iterations - progress.remaining;
        for counter in &self.counters {
            let step = invariant(registers, counter.step, counter.wide)?;
            let sum = step.wrapping_mul(counter.times.into()).wrapping_mul(iterations);
            let value = read(registers, counter.register, counter.wide)?.wrapping_add(sum);
            write(registers, counter.register, counter.wide, value)?;
        }
        *fuel -= iterations * self.fuel;
        Some(())
    }

    /// Counts the iterations that the test lets another one follow, as far as the fuel lasts. None where the tested value
    /// would wrap.
    fn start(&self, registers: &[u32], fuel: u64) -> Option<Progress> {
        let first = self.counters.first()?;
        let value = read(registers, first.register, first.wide)?;
        let step = invariant(registers, first.step, first.wide)?;
        let limit = invariant(registers, self.test.limit, first.wide)?;
        let tested = value.wrapping_add(step.wrapping_mul(self.test.times.into()));
        let signed_step = if first.wide { step as i64 } else { i64::from(step as i32) };
        let stride = signed_step.checked_mul(first.times.into())?;
        let relation = self.test.relation;
        let count = match (first.wide, self.test.signed) {
            (true, true) => trip_count(tested as i64, stride, relation, limit as i64),
            (true, false) => trip_count(tested, stride, relation, limit),
            (false, true) => trip_count(tested as i32, stride, relation, limit as i32),
            (false, false) => trip_count(tested as u32, stride, relation, limit as u32),
        }?;
        let affordable = fuel.checked_sub(1)? / self.fuel;
        Some(Progress { value, step, stride: stride as u64, remaining: affordable.min(count as u64) })
    }
}

fn reduce(reduction: &Reduction, registers: &mut [u32], buffer: &Buffer, progress: &mut Progress) -> Option<()> {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, commutes $commutes:literal, $load:ident $scalar:ty: $convert:expr;)*) => {
            match (reduction.operation, reduction.load) {
                $((Operation::$operation, Operation::$load) => {
                    let start = <$type>::of_register(read(registers, reduction.register, <$type>::WIDE)?);
                    let evaluate = |sum, scalar: $scalar| semantics::$function(sum, $convert(scalar));
                    let sum = combine(&reduction.elements, buffer, progress, start, evaluate);
                    write(registers, reduction.register, <$type>::WIDE, sum.into_register())
                })*
                _ => None,
            }
        };
    }
    for_each_reduction!(rows!())
}

#[inline(always)]
fn combine<S: Scalar, W: Word>(
    elements: &[u32],
    buffer: &Buffer,
    progress: &mut Progress,
    start: W,
    evaluate: impl Fn(W, S) -> W,
) -> W {
    let mut sum = start;
    while progress.remaining > 0 {
        let mut next = sum;
        let index = progress.value;
        for &times in elements {
            let Ok(scalar) = buffer.load::<S>(index.wrapping_add(progress.step.wrapping_mul(times.into()))) else {
                return sum;
            };
            next = evaluate(next, scalar);
        }
        progress.advance(1);
        sum = next;
    }
    sum
}

/// The elements that a [`Stream`] accesses while a loop runs.
#[derive(Clone, Copy)]
struct Elements<'a> {
    buffer: &'a Buffer,
    index: u64,
    stride: u64,
}

impl<'a> Elements<'a> {
    fn new(stream: &Stream, registers: &[u32], references: &'a [Ref], progress: &Progress) -> Option<Elements<'a>> {
        let buffer = references.get(usize::from(stream.buffer))?.buffer().ok()?;
        let value = |[left, right]: Term| {
            Some(invariant(registers, left, true)?.wrapping_mul(invariant(registers, right, true)?))
        };
        let scale = stream.scale.map_or(Some(0), value)?;
        let offset = stream.terms.iter().try_fold(0u64, |sum, term| Some(sum.wrapping_add(value(*term)?)))?;
        Some(Elements {
            buffer,
            index: progress.value.wrapping_mul(scale).wrapping_add(offset),
            stride: progress.stride.wrapping_mul(scale),
        })
    }

    #[inline(always)]
    fn load<S: Scalar>(&self) -> Option<S> {
        self.buffer.load(self.index).ok()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.index = self.index.wrapping_add(self.stride);
    }
}

fn multiply(product: &Product, registers: &mut [u32], references: &[Ref], progress: &mut Progress) -> Option<()> {
    let elements = |stream: &Stream| Elements::new(stream, registers, references, progress);
    let factors = [elements(&product.left)?, elements(&product.right)?];
    match &product.sum {
        Sum::Element(stream) => {
            let target = elements(stream)?;
            if target.buffer.is_mutable() {
                multiply_into_buffer(product, factors, target, progress);
            }
            Some(())
        }
        Sum::Register(register) => multiply_into_register(product, factors, *register, registers, progress),
    }
}

fn multiply_into_buffer(
    product: &Product,
    [mut left, mut right]: [Elements<'_>; 2],
    mut target: Elements<'_>,
    progress: &mut Progress,
) {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, $load:ident $scalar:ty: $convert:expr;)*) => {
            match (product.operation, product.load) {
                $((Operation::$operation, Operation::$load) => {
                    while progress.remaining > 0
                        && let (Some(a), Some(b), Some(sum)) =
                            (left.load::<$scalar>(), right.load::<$scalar>(), target.load::<u32>())
                    {
                        let sum = <$type>::of_register(sum.into());
                        let sum = semantics::$function($convert(a), $convert(b), sum).into_register();
                        // The buffer is mutable, and the element was in range when it was loaded.
                        let _ = target.buffer.store(target.index, sum as u32);
                        progress.advance(1);
                        left.advance();
                        right.advance();
                        target.advance();
                    }
                })*
                _ => {}
            }
        };
    }
    for_each_product!(rows!());
}

fn multiply_into_register(
    product: &Product,
    [mut left, mut right]: [Elements<'_>; 2],
    register: u16,
    registers: &mut [u32],
    progress: &mut Progress,
) -> Option<()> {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, $load:ident $scalar:ty: $convert:expr;)*) => {
            match (product.operation, product.load) {
                $((Operation::$operation, Operation::$load) => {
                    let mut sum = <$type>::of_register(read(registers, register, false)?);
                    while progress.remaining > 0
                        && let (Some(a), Some(b)) = (left.load::<$scalar>(), right.load::<$scalar>())
                    {
                        sum = semantics::$function($convert(a), $convert(b), sum);
                        progress.advance(1);
                        left.advance();
                        right.advance();
                    }
                    write(registers, register, false, sum.into_register())
                })*
                _ => None,
            }
        };
    }
    for_each_product!(rows!())
}

fn read(registers: &[u32], register: u16, wide: bool) -> Option<u64> {
    let low = u64::from(*registers.get(usize::from(register))?);
    Some(if wide { low | u64::from(*registers.get(usize::from(register) + 1)?) << 32 } else { low })
}

fn write(registers: &mut [u32], register: u16, wide: bool, value: u64) -> Option<()> {
    if wide {
        *registers.get_mut(usize::from(register) + 1)? = (value >> 32) as u32;
    }
    *registers.get_mut(usize::from(register))? = value as u32;
    Some(())
}

fn invariant(registers: &[u32], value: Invariant, wide: bool) -> Option<u64> {
    match value {
        Invariant::Register(register) => read(registers, register, wide),
        Invariant::Constant(value) => Some(value),
    }
}
