//! Loops that compute elements from elements, a block of iterations at a time.
//!
//! An iteration of such a loop loads elements, computes 32-bit values, and stores elements, and only the counters are carried
//! to the next one. So each operation is run for all iterations of a block before the next operation, over arrays. That
//! costs one decision for many values and lets the compiler vectorise it.
//!
//! Before a block runs, the accesses of all its iterations are checked to be in range and to mutable memory. The stored
//! elements must be disjoint from all others that the block accesses, unless an iteration stores exactly the element that it
//! loaded. Otherwise the ordinary code continues.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::super::array;
use super::super::super::buffer::{Buffer, Scalar};
use super::super::super::reference::Ref;
use super::super::operation::{Inst, Operation};
use super::{Elements, Invariant, Progress, Stream, invariant};
use incarnate_bytecode::isa::for_each_instruction;
use incarnate_bytecode::semantics;

/// Iterations of a block.
const BLOCK: usize = 64;
/// Loops of fewer iterations are left to the ordinary code.
const MIN_ITERATIONS: u64 = 8;

/// The values of one register or instruction in all iterations of a block.
type Strip = [u32; BLOCK];

/// The operations of an iteration.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// Number of strips.
    pub(super) strips: usize,
    /// Values that all iterations share, and their strips.
    pub(super) shared: Box<[(Invariant, usize)]>,
    pub(super) loads: Box<[Access]>,
    pub(super) steps: Box<[Step]>,
    pub(super) stores: Box<[Access]>,
}

/// An element that each iteration loads into a strip, or stores from one.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) operation: Operation,
    pub(super) stream: Stream,
    pub(super) strip: usize,
}

/// An operation on strips, which all precede the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) operation: Operation,
    pub(super) operands: [usize; 3],
    pub(super) target: usize,
}

/// Bytes of the elements that a load or a store moves; None for other operations, and for elements of more than 32 bits.
pub(super) fn element_size(operation: Operation) -> Option<u64> {
    Some(match operation {
        Operation::BufferLoadI8U | Operation::BufferLoadI8S | Operation::BufferStoreI8 => 1,
        Operation::BufferLoadI16U | Operation::BufferLoadI16S | Operation::BufferStoreI16 => 2,
        Operation::BufferLoadI32 | Operation::BufferStoreI32 => 4,
        _ => return None,
    })
}

/// True for stores.
pub(super) fn is_store(operation: Operation) -> bool {
    matches!(operation, Operation::BufferStoreI8 | Operation::BufferStoreI16 | Operation::BufferStoreI32)
}

/// 32-bit values as registers hold them.
trait Bits: Copy {
    fn of(bits: u32) -> Self;
    fn bits(self) -> u32;
}
impl Bits for i32 {
    fn of(bits: u32) -> i32 {
        bits as i32
    }
    fn bits(self) -> u32 {
        self as u32
    }
}
impl Bits for f32 {
    fn of(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

/// Hands the functions of the instruction table whose operands and results all have 32 bits to a macro, with the types of
/// their operands: one rule for each format.
macro_rules! each_format {
    ($do:ident!($($with:tt)*) [unary i32] eval $f:ident) => { $do!($($with)* $f (i32)) };
    ($do:ident!($($with:tt)*) [unary f32] eval $f:ident) => { $do!($($with)* $f (f32)) };
    ($do:ident!($($with:tt)*) [conversion i32 f32] eval $f:ident) => { $do!($($with)* $f (i32)) };
    ($do:ident!($($with:tt)*) [conversion f32 i32] eval $f:ident) => { $do!($($with)* $f (f32)) };
    ($do:ident!($($with:tt)*) [unary_comparison i32] eval $f:ident) => { $do!($($with)* $f (i32)) };
    ($do:ident!($($with:tt)*) [unary_comparison f32] eval $f:ident) => { $do!($($with)* $f (f32)) };
    ($do:ident!($($with:tt)*) [binary i32] eval $f:ident) => { $do!($($with)* $f (i32, i32)) };
    ($do:ident!($($with:tt)*) [binary f32] eval $f:ident) => { $do!($($with)* $f (f32, f32)) };
    ($do:ident!($($with:tt)*) [shift i32] eval $f:ident) => { $do!($($with)* $f (i32, i32)) };
    ($do:ident!($($with:tt)*) [binary_comparison i32] eval $f:ident) => { $do!($($with)* $f (i32, i32)) };
    ($do:ident!($($with:tt)*) [binary_comparison f32] eval $f:ident) => { $do!($($with)* $f (f32, f32)) };
    ($do:ident!($($with:tt)*) [ternary i32] eval $f:ident) => { $do!($($with)* $f (i32, i32, i32)) };
    ($do:ident!($($with:tt)*) [ternary f32] eval $f:ident) => { $do!($($with)* $f (f32, f32, f32)) };
    ($do:ident!($($with:tt)*) [select i32] eval $f:ident) => { $do!($($with)* $f (i32, i32, i32)) };
    ($do:ident!($($with:tt)*) [select f32] eval $f:ident) => { $do!($($with)* $f (i32, f32, f32)) };
    ($do:ident!($($with:tt)*) $other:tt $($semantics:ident)*) => { $do!($($with)*) };
}

/// The number of operands of a function.
macro_rules! operand_count {
    () => {
        None
    };
    ($f:ident ($a:ty)) => {
        Some(1)
    };
    ($f:ident ($a:ty, $b:ty)) => {
        Some(2)
    };
    ($f:ident ($a:ty, $b:ty, $c:ty)) => {
        Some(3)
    };
}

/// Applies a function to strips.
macro_rules! apply {
    ($target:ident $x:ident $y:ident $z:ident) => {};
    ($target:ident $x:ident $y:ident $z:ident $f:ident ($a:ty)) => {
        for (target, x) in $target.iter_mut().zip($x) {
            *target = semantics::$f(<$a>::of(*x)).bits();
        }
    };
    ($target:ident $x:ident $y:ident $z:ident $f:ident ($a:ty, $b:ty)) => {
        for (target, (x, y)) in $target.iter_mut().zip($x.iter().zip($y)) {
            *target = semantics::$f(<$a>::of(*x), <$b>::of(*y)).bits();
        }
    };
    ($target:ident $x:ident $y:ident $z:ident $f:ident ($a:ty, $b:ty, $c:ty)) => {
        for (target, (x, (y, z))) in $target.iter_mut().zip($x.iter().zip($y.iter().zip($z))) {
            *target = semantics::$f(<$a>::of(*x), <$b>::of(*y), <$c>::of(*z)).bits();
        }
    };
}

macro_rules! strip_operations {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*) => {
        /// The number of operands of an operation on strips; None for other operations.
        fn operands_of(operation: Operation) -> Option<usize> {
            match operation {
                $(Operation::$name => each_format!(operand_count!() $format $($semantics)*),)*
                _ => None,
            }
        }

        /// Runs an operation for all iterations of a block.
        fn run_step(operation: Operation, target: &mut Strip, [x, y, z]: [&Strip; 3]) {
            match operation {
                $(Operation::$name => { each_format!(apply!(target x y z) $format $($semantics)*); })*
                _ => {}
            }
        }
    };
}
for_each_instruction!(strip_operations);

/// The registers of the operands, their number, and the register of the result of an operation on strips.
pub(super) fn step_registers(inst: &Inst) -> Option<([u16; 3], usize, u16)> {
    let count = operands_of(inst.operation)?;
    let target = if count == 3 { inst.part(0) } else { inst.c };
    Some(([inst.a, inst.b, inst.c], count, target))
}

/// Elements that a block accesses.
struct Accessed<'a> {
    elements: Elements<'a>,
    size: u64,
    /// Addresses of the first iteration's element, of the first byte, and of the end.
    first: i128,
    bytes: (i128, i128),
}

impl<'a> Accessed<'a> {
    /// None where an element is out of range.
    fn new(elements: Elements<'a>, size: u64, iterations: u64) -> Option<Accessed<'a>> {
        let (index, stride) = (i128::from(elements.index), i128::from(elements.stride as i64));
        let last = index + stride * i128::from(iterations - 1);
        let (low, high) = (index.min(last), index.max(last));
        if low < 0 || high >= i128::from(elements.buffer.length() / size) {
            return None;
        }
        let at = |index: i128| elements.buffer.as_ptr().addr() as i128 + index * i128::from(size);
        Some(Accessed { size, first: at(index), bytes: (at(low), at(high + 1)), elements })
    }

    fn is_disjoint(&self, other: &Accessed<'_>) -> bool {
        self.bytes.1 <= other.bytes.0 || other.bytes.1 <= self.bytes.0
    }

    /// True where both are the same element in each iteration, and a different one in different iterations.
    fn is_same(&self, other: &Accessed<'_>) -> bool {
        let key = |accessed: &Accessed<'_>| (accessed.first, accessed.size, accessed.elements.stride);
        self.elements.stride != 0 && key(self) == key(other)
    }
}

impl Map {
    /// Runs blocks of iterations, until one does not pass the checks.
    pub(super) fn run(&self, registers: &[u32], references: &[Ref], progress: &mut Progress) -> Option<()> {
        if progress.remaining < MIN_ITERATIONS {
            return Some(());
        }
        let mut strips: Vec<Strip> = array::filled(self.strips, [0; BLOCK]).ok()?;
        for (value, strip) in &self.shared {
            *strips.get_mut(*strip)? = [invariant(registers, *value, false)? as u32; BLOCK];
        }
        while progress.remaining > 0 {
            let iterations = progress.remaining.min(BLOCK as u64);
            if self.run_block(registers, references, (progress, iterations), &mut strips).is_none() {
                break;
            }
            progress.advance(iterations);
        }
        Some(())
    }

    /// Runs a block of iterations; None where it does not pass the checks, and then nothing was stored.
    fn run_block(
        &self,
        registers: &[u32],
        references: &[Ref],
        (start, iterations): (&Progress, u64),
        strips: &mut [Strip],
    ) -> Option<()> {
        let accessed = |access: &Access| {
            let elements = Elements::new(&access.stream, registers, references, start)?;
            Accessed::new(elements, element_size(access.operation)?, iterations)
        };
        let stores = self.stores.iter().map(accessed).collect::<Option<Vec<_>>>()?;
        for access in &self.loads {
            let load = accessed(access)?;
            if !stores.iter().all(|store| store.is_disjoint(&load) || store.is_same(&load)) {
                return None;
            }
            let strip = strips.get_mut(access.strip)?.get_mut(..iterations as usize)?;
            load_strip(access.operation, &load.elements, strip)?;
        }
        for (index, store) in stores.iter().enumerate() {
            let disjoint = stores.iter().skip(index + 1).all(|other| store.is_disjoint(other));
            if !disjoint || !store.elements.buffer.is_mutable() || store.elements.stride == 0 {
                return None;
            }
        }
        for step in &self.steps {
            let (operands, targets) = strips.split_at_mut_checked(step.target)?;
            let [x, y, z] = step.operands.map(|operand| operands.get(operand));
            run_step(step.operation, targets.first_mut()?, [x?, y?, z?]);
        }
        for (access, store) in self.stores.iter().zip(&stores) {
            let strip = strips.get(access.strip)?.get(..iterations as usize)?;
            store_strip(access.operation, &store.elements, strip)?;
        }
        Some(())
    }
}

fn load_strip(operation: Operation, elements: &Elements<'_>, strip: &mut [u32]) -> Option<()> {
    match operation {
        Operation::BufferLoadI8U => load_scalars::<u8>(elements, strip, u32::from),
        Operation::BufferLoadI8S => load_scalars::<i8>(elements, strip, |scalar| i32::from(scalar) as u32),
        Operation::BufferLoadI16U => load_scalars::<u16>(elements, strip, u32::from),
        Operation::BufferLoadI16S => load_scalars::<i16>(elements, strip, |scalar| i32::from(scalar) as u32),
        Operation::BufferLoadI32 if elements.stride == 1 => elements.buffer.load_slice(elements.index, strip).ok(),
        Operation::BufferLoadI32 => load_scalars::<u32>(elements, strip, |scalar| scalar),
        _ => None,
    }
}

fn load_scalars<S: Scalar>(elements: &Elements<'_>, strip: &mut [u32], widen: impl Fn(S) -> u32) -> Option<()> {
    let Elements { buffer, mut index, stride } = *elements;
    if stride == 0 {
        strip.fill(widen(buffer.load(index).ok()?));
        return Some(());
    }
    for value in strip {
        *value = widen(buffer.load(index).ok()?);
        index = index.wrapping_add(stride);
    }
    Some(())
}

fn store_strip(operation: Operation, elements: &Elements<'_>, strip: &[u32]) -> Option<()> {
    match operation {
        Operation::BufferStoreI8 => store_scalars(elements, strip, |value| value as u8),
        Operation::BufferStoreI16 => store_scalars(elements, strip, |value| value as u16),
        Operation::BufferStoreI32 if elements.stride == 1 => elements.buffer.store_slice(elements.index, strip).ok(),
        Operation::BufferStoreI32 => store_scalars(elements, strip, |value| value),
        _ => None,
    }
}

fn store_scalars<S: Scalar>(elements: &Elements<'_>, strip: &[u32], narrow: impl Fn(u32) -> S) -> Option<()> {
    let Elements { buffer, mut index, stride } = *elements;
    for value in strip {
        Buffer::store(buffer, index, narrow(*value)).ok()?;
        index = index.wrapping_add(stride);
    }
    Some(())
}
