//! Counted loops whose values are kept in machine registers.
//!
//! A value that a loop carries from turn to turn otherwise goes through the frame's memory once for each instruction that
//! touches it, and that is what small loops wait for. A block that branches to itself is run here instead, turn by turn,
//! if it does nothing but step its counters and one of these: combine elements of a buffer into a register (sums, least
//! and greatest ones), add the product of two elements to a register or to an element (the loops of contractions), or
//! compute elements from elements ([`map`]).
//!
//! Only whole turns are run, and never the last one: before a turn that would leave the loop, fail or run out of fuel,
//! the carried values are put back and the ordinary code goes on with that turn. So whatever else the block writes is
//! written by the ordinary code, and errors are its own. Elements are read through the buffer's checked accesses.

mod follow;
mod map;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::buffer::{Buffer, Scalar};
use super::super::reference::Ref;
use super::code::Operation;
pub(super) use follow::recognize;
use incarnate_bytecode::semantics;

/// Blocks with more instructions are not looked at, so that looking takes a time that is linear in the code.
pub(super) const MAX_INSTRUCTIONS: usize = 64;

/// Turns that must follow each other for a loop to be run here: those that are left to the ordinary code cost no more.
const WORTHWHILE_TURNS: u64 = 2;

/// A value that does not change in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixed {
    Register(u16),
    Constant(u64),
}

/// A register that each turn adds the same to.
#[derive(Clone, Copy, Debug)]
struct Counter {
    register: u16,
    /// 64-bit.
    wide: bool,
    step: Fixed,
    /// How often a turn adds the step.
    times: u32,
}

/// The comparison that ends a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    SignedLess,
    UnsignedLess,
    NotEqual,
}

/// What decides about another turn: the first counter, after `times` steps of this turn, compared with a fixed value.
#[derive(Clone, Copy, Debug)]
struct Test {
    relation: Relation,
    times: u32,
    limit: Fixed,
    /// The fixed value stands on the left.
    swapped: bool,
    /// What the comparison gives where the loop goes on.
    expected: bool,
}

/// The elements that a turn combines into a register.
#[derive(Clone, Debug)]
struct Reduction {
    operation: Operation,
    load: Operation,
    register: u16,
    buffer: u16,
    /// For each element, the steps from the first counter's value at the start of the turn to the element's index.
    elements: Box<[u32]>,
}

/// A product of values that do not change in the loop.
type Term = [Fixed; 2];

/// The factor that changes nothing.
const ONE: Fixed = Fixed::Constant(1);

/// A value that is a multiple of a register, and more.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Affine {
    /// The register, as it was when the turn began, and its factor; none where the value does not change in the loop.
    scaled: Option<(u16, Term)>,
    /// What is added.
    terms: Vec<Term>,
}

/// Where each turn finds one element of a buffer.
#[derive(Clone, Debug)]
struct Stream {
    buffer: u16,
    /// The factor of the first counter's value at the start of the turn, in the index; none where it does not matter.
    scale: Option<Term>,
    /// What is added.
    terms: Box<[Term]>,
}

/// What a turn adds a product to.
#[derive(Clone, Debug)]
enum Sum {
    Register(u16),
    Element(Stream),
}

/// The product of two elements that a turn adds.
#[derive(Clone, Debug)]
struct Product {
    operation: Operation,
    load: Operation,
    left: Stream,
    right: Stream,
    sum: Sum,
}

/// What a turn does besides counting.
#[derive(Clone, Debug)]
enum Work {
    None,
    Reduce(Reduction),
    Multiply(Product),
    Map(map::Map),
}

/// A loop that [`CountedLoop::run`] can run.
#[derive(Clone, Debug)]
pub(super) struct CountedLoop {
    /// The first is the one that is compared and that indexes the buffer.
    counters: Box<[Counter]>,
    test: Test,
    work: Work,
    /// Fuel that a turn takes.
    fuel: u64,
}

/// The accumulators' types: how they lie in registers.
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

/// What can be combined: the operation, its type, whether its operands may change places, the load, the scalar that it
/// reads and how that becomes an operand.
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

/// Which products can be added: the operation, its type, the load of the factors, the scalar that it reads and how that
/// becomes a factor. All have 32 bits.
macro_rules! for_each_product {
    ($callback:ident!($($prefix:tt)*)) => { $callback! { $($prefix)*
        FmaF32, fma_f32: f32, BufferLoadI32 u32: f32::from_bits;
        FmaI32, fma_i32: i32, BufferLoadI32 u32: |bits: u32| bits as i32;
        FmaI32, fma_i32: i32, BufferLoadI8S i8: i32::from;
        FmaI32, fma_i32: i32, BufferLoadI8U u8: i32::from;
    } };
}

/// True for what can be multiplied and added.
fn is_product(operation: Operation, load: Operation) -> bool {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, $load:ident $scalar:ty: $convert:expr;)*) => {
            matches!((operation, load), $((Operation::$operation, Operation::$load))|*)
        };
    }
    for_each_product!(rows!())
}

/// The type of a reduction: whether its accumulator is wide, and whether its operands may change places.
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

/// The counters while a loop runs. Narrow values lie in the upper half, where they wrap and compare as they should.
#[derive(Clone, Copy)]
struct Progress {
    value: u64,
    step: u64,
    times: u64,
    limit: u64,
    turns: u64,
    fuel: u64,
}

impl CountedLoop {
    /// Runs turns as long as they are plain ones; the registers are then those at the start of the turn to go on with.
    ///
    /// `registers` and `references` are the frame's.
    #[inline(never)]
    pub(super) fn run(&self, registers: &mut [u32], references: &[Ref], fuel: &mut u64) -> Option<()> {
        let first = self.counters.first()?;
        let shift = if first.wide { 0 } else { 32 };
        let mut progress = Progress {
            value: read(registers, first.register, first.wide)? << shift,
            step: fixed(registers, first.step, first.wide)? << shift,
            times: first.times.into(),
            limit: fixed(registers, self.test.limit, first.wide)? << shift,
            turns: 0,
            fuel: *fuel,
        };
        // Loops of few turns are frequent, and what comes now pays after some.
        let later = progress.step.wrapping_mul(progress.times).wrapping_mul(WORTHWHILE_TURNS - 1);
        if !self.goes_on(&Progress { value: progress.value.wrapping_add(later), ..progress }) {
            return Some(());
        }
        match &self.work {
            Work::None => while self.turn(&mut progress) {},
            Work::Reduce(reduction) => {
                let buffer = references.get(usize::from(reduction.buffer))?.buffer().ok()?;
                self.reduce(reduction, registers, buffer, &mut progress)?;
            }
            Work::Multiply(product) => self.multiply(product, registers, references, &mut progress)?,
            Work::Map(map) => self.map(map, registers, references, &mut progress)?,
        }
        for counter in &self.counters {
            let step = fixed(registers, counter.step, counter.wide)?;
            let sum = step.wrapping_mul(counter.times.into()).wrapping_mul(progress.turns);
            let value = read(registers, counter.register, counter.wide)?.wrapping_add(sum);
            write(registers, counter.register, counter.wide, value)?;
        }
        *fuel = progress.fuel;
        Some(())
    }

    /// True where another turn follows the one that is to be run.
    #[inline(always)]
    fn goes_on(&self, progress: &Progress) -> bool {
        let tested = progress.value.wrapping_add(progress.step.wrapping_mul(self.test.times.into()));
        let (left, right) = if self.test.swapped { (progress.limit, tested) } else { (tested, progress.limit) };
        let result = match self.test.relation {
            Relation::SignedLess => (left as i64) < (right as i64),
            Relation::UnsignedLess => left < right,
            Relation::NotEqual => left != right,
        };
        result == self.test.expected && progress.fuel > self.fuel
    }

    /// Steps the counters, if another turn follows the one that is to be run.
    #[inline(always)]
    fn turn(&self, progress: &mut Progress) -> bool {
        if !self.goes_on(progress) {
            return false;
        }
        progress.fuel -= self.fuel;
        progress.value = progress.value.wrapping_add(progress.step.wrapping_mul(progress.times));
        progress.turns += 1;
        true
    }

    fn reduce(
        &self,
        reduction: &Reduction,
        registers: &mut [u32],
        buffer: &Buffer,
        progress: &mut Progress,
    ) -> Option<()> {
        macro_rules! rows {
            ($($operation:ident, $function:ident: $type:ty, commutes $commutes:literal, $load:ident $scalar:ty: $convert:expr;)*) => {
                match (reduction.operation, reduction.load) {
                    $((Operation::$operation, Operation::$load) => {
                        let start = <$type>::of_register(read(registers, reduction.register, <$type>::WIDE)?);
                        let combine = |sum, scalar: $scalar| semantics::$function(sum, $convert(scalar));
                        let sum = self.combine(&reduction.elements, buffer, progress, start, combine);
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
        &self,
        elements: &[u32],
        buffer: &Buffer,
        progress: &mut Progress,
        start: W,
        combine: impl Fn(W, S) -> W,
    ) -> W {
        let mut sum = start;
        loop {
            let mut next = sum;
            let index = progress.value;
            for &times in elements {
                let Ok(scalar) = buffer.load::<S>(index.wrapping_add(progress.step.wrapping_mul(times.into()))) else {
                    return sum;
                };
                next = combine(next, scalar);
            }
            if !self.turn(progress) {
                return sum;
            }
            sum = next;
        }
    }
}

/// The elements that a [`Stream`] finds while a loop runs.
#[derive(Clone, Copy)]
struct Elements<'a> {
    buffer: &'a Buffer,
    index: u64,
    stride: u64,
}

impl<'a> Elements<'a> {
    fn new(stream: &Stream, registers: &[u32], references: &'a [Ref], progress: &Progress) -> Option<Elements<'a>> {
        let buffer = references.get(usize::from(stream.buffer))?.buffer().ok()?;
        let value =
            |[left, right]: Term| Some(fixed(registers, left, true)?.wrapping_mul(fixed(registers, right, true)?));
        let scale = stream.scale.map_or(Some(0), value)?;
        let offset = stream.terms.iter().try_fold(0u64, |sum, term| Some(sum.wrapping_add(value(*term)?)))?;
        Some(Elements {
            buffer,
            index: progress.value.wrapping_mul(scale).wrapping_add(offset),
            stride: progress.step.wrapping_mul(progress.times).wrapping_mul(scale),
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

impl CountedLoop {
    fn multiply(
        &self,
        product: &Product,
        registers: &mut [u32],
        references: &[Ref],
        progress: &mut Progress,
    ) -> Option<()> {
        let elements = |stream: &Stream| Elements::new(stream, registers, references, progress);
        let factors = [elements(&product.left)?, elements(&product.right)?];
        match &product.sum {
            Sum::Element(stream) => {
                let target = elements(stream)?;
                if target.buffer.is_mutable() {
                    self.multiply_into_buffer(product, factors, target, progress);
                }
                Some(())
            }
            Sum::Register(register) => self.multiply_into_register(product, factors, *register, registers, progress),
        }
    }

    fn multiply_into_buffer(
        &self,
        product: &Product,
        [mut left, mut right]: [Elements<'_>; 2],
        mut target: Elements<'_>,
        progress: &mut Progress,
    ) {
        macro_rules! rows {
            ($($operation:ident, $function:ident: $type:ty, $load:ident $scalar:ty: $convert:expr;)*) => {
                match (product.operation, product.load) {
                    $((Operation::$operation, Operation::$load) => {
                        while let (Some(a), Some(b), Some(sum)) =
                            (left.load::<$scalar>(), right.load::<$scalar>(), target.load::<u32>())
                        {
                            if !self.turn(progress) {
                                return;
                            }
                            let sum = <$type>::of_register(sum.into());
                            let sum = semantics::$function($convert(a), $convert(b), sum).into_register();
                            // The buffer is mutable, and the element was in range when it was loaded.
                            let _ = target.buffer.store(target.index, sum as u32);
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
        &self,
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
                        while let (Some(a), Some(b)) = (left.load::<$scalar>(), right.load::<$scalar>())
                            && self.turn(progress)
                        {
                            sum = semantics::$function($convert(a), $convert(b), sum);
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

fn fixed(registers: &[u32], value: Fixed, wide: bool) -> Option<u64> {
    match value {
        Fixed::Register(register) => read(registers, register, wide),
        Fixed::Constant(value) => Some(value),
    }
}
