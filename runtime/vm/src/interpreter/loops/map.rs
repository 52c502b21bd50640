//! Loops that compute elements from elements, a block of turns at a time.
//!
//! A turn of such a loop loads elements, computes 32-bit values, and stores elements, and nothing goes from one turn to the
//! next but the counters. So each operation is run for all turns of a block before the next one is, over arrays, which
//! costs one decision for many values and lets the processor compute several at once.
//!
//! Before a block runs, all elements that it touches are found to be in range and writable, and what it stores to be apart
//! from everything else that it touches, unless a turn stores just where it has loaded. Otherwise the ordinary code goes on.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::super::buffer::{Buffer, Scalar};
use super::super::super::reference::Ref;
use super::super::code::{Inst, Operation};
use super::{CountedLoop, Elements, Fixed, Progress, Stream, fixed};
use incarnate_bytecode::isa::for_each_instruction;
use incarnate_bytecode::semantics;

/// Turns of a block.
const LANES: usize = 64;
/// Turns that must follow each other for a loop to be run here.
const WORTHWHILE_TURNS: u64 = 8;

/// The values of one register or instruction in all turns of a block.
type Lane = [u32; LANES];

/// What a turn does.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// How many lanes there are.
    pub(super) lanes: usize,
    /// Values that all turns share, and their lanes.
    pub(super) shared: Box<[(Fixed, usize)]>,
    pub(super) loads: Box<[Access]>,
    pub(super) steps: Box<[Step]>,
    pub(super) stores: Box<[Access]>,
}

/// An element that each turn loads into a lane, or stores from one.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) operation: Operation,
    pub(super) stream: Stream,
    pub(super) lane: usize,
}

/// An operation on lanes, which all are below the target.
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

/// The functions of the instruction table whose operands and results all have 32 bits: a rule for each format, with the types
/// of operands and of the result.
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

/// How many operands a function has.
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

/// Applies a function to lanes.
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

macro_rules! lane_operations {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*) => {
        /// How many operands an operation on lanes has; None for those that are none.
        fn operands_of(operation: Operation) -> Option<usize> {
            match operation {
                $(Operation::$name => each_format!(operand_count!() $format $($semantics)*),)*
                _ => None,
            }
        }

        /// Runs an operation for all turns of a block.
        fn run_step(operation: Operation, target: &mut Lane, [x, y, z]: [&Lane; 3]) {
            match operation {
                $(Operation::$name => { each_format!(apply!(target x y z) $format $($semantics)*); })*
                _ => {}
            }
        }
    };
}
for_each_instruction!(lane_operations);

/// Registers of the operands, as many as there are, and of the result of an operation on lanes.
pub(super) fn step_registers(inst: &Inst) -> Option<([u16; 3], usize, u16)> {
    let count = operands_of(inst.operation)?;
    let target = if count == 3 { inst.part(0) } else { inst.c };
    Some(([inst.a, inst.b, inst.c], count, target))
}

/// Elements that a block touches.
struct Touched<'a> {
    elements: Elements<'a>,
    size: u64,
    /// Addresses of the first turn's element, of the first byte, and of the one behind the last.
    first: i128,
    bytes: (i128, i128),
}

impl<'a> Touched<'a> {
    /// None where an element is out of range.
    fn new(elements: Elements<'a>, size: u64, turns: u64) -> Option<Touched<'a>> {
        let (index, stride) = (i128::from(elements.index), i128::from(elements.stride as i64));
        let last = index + stride * i128::from(turns - 1);
        let (low, high) = (index.min(last), index.max(last));
        if low < 0 || high >= i128::from(elements.buffer.length() / size) {
            return None;
        }
        let at = |index: i128| elements.buffer.as_ptr().addr() as i128 + index * i128::from(size);
        Some(Touched { size, first: at(index), bytes: (at(low), at(high + 1)), elements })
    }

    fn is_apart(&self, other: &Touched<'_>) -> bool {
        self.bytes.1 <= other.bytes.0 || other.bytes.1 <= self.bytes.0
    }

    /// True where both are the same element in each turn, and another one in each.
    fn is_same(&self, other: &Touched<'_>) -> bool {
        let key = |touched: &Touched<'_>| (touched.first, touched.size, touched.elements.stride);
        self.elements.stride != 0 && key(self) == key(other)
    }
}

impl CountedLoop {
    /// Runs blocks of turns as long as they are plain ones.
    pub(super) fn map(&self, map: &Map, registers: &[u32], references: &[Ref], progress: &mut Progress) -> Option<()> {
        let later = progress.step.wrapping_mul(progress.times).wrapping_mul(WORTHWHILE_TURNS - 1);
        if !self.goes_on(&Progress { value: progress.value.wrapping_add(later), ..*progress }) {
            return Some(());
        }
        let mut lanes: Vec<Lane> = alloc::vec![[0; LANES]; map.lanes];
        for (value, lane) in &map.shared {
            *lanes.get_mut(*lane)? = [fixed(registers, *value, false)? as u32; LANES];
        }
        loop {
            let before = *progress;
            while progress.turns - before.turns < LANES as u64 && self.turn(progress) {}
            let turns = progress.turns - before.turns;
            if turns == 0 || self.map_block(map, registers, references, (&before, turns), &mut lanes).is_none() {
                *progress = before;
                return Some(());
            }
        }
    }

    /// Runs a block of turns; None where it cannot be, and then nothing was stored.
    fn map_block(
        &self,
        map: &Map,
        registers: &[u32],
        references: &[Ref],
        (start, turns): (&Progress, u64),
        lanes: &mut [Lane],
    ) -> Option<()> {
        let touch = |access: &Access| {
            let elements = Elements::new(&access.stream, registers, references, start)?;
            Touched::new(elements, element_size(access.operation)?, turns)
        };
        let stores = map.stores.iter().map(touch).collect::<Option<Vec<_>>>()?;
        for access in &map.loads {
            let load = touch(access)?;
            if !stores.iter().all(|store| store.is_apart(&load) || store.is_same(&load)) {
                return None;
            }
            load_lane(access.operation, &load.elements, lanes.get_mut(access.lane)?.get_mut(..turns as usize)?)?;
        }
        for (index, store) in stores.iter().enumerate() {
            let apart = stores.iter().skip(index + 1).all(|other| store.is_apart(other));
            if !apart || !store.elements.buffer.is_mutable() || store.elements.stride == 0 {
                return None;
            }
        }
        for step in &map.steps {
            let (operands, targets) = lanes.split_at_mut_checked(step.target)?;
            let [x, y, z] = step.operands.map(|operand| operands.get(operand));
            run_step(step.operation, targets.first_mut()?, [x?, y?, z?]);
        }
        for (access, store) in map.stores.iter().zip(&stores) {
            store_lane(access.operation, &store.elements, lanes.get(access.lane)?.get(..turns as usize)?)?;
        }
        Some(())
    }
}

fn load_lane(operation: Operation, elements: &Elements<'_>, lane: &mut [u32]) -> Option<()> {
    match operation {
        Operation::BufferLoadI8U => load_scalars::<u8>(elements, lane, u32::from),
        Operation::BufferLoadI8S => load_scalars::<i8>(elements, lane, |scalar| i32::from(scalar) as u32),
        Operation::BufferLoadI16U => load_scalars::<u16>(elements, lane, u32::from),
        Operation::BufferLoadI16S => load_scalars::<i16>(elements, lane, |scalar| i32::from(scalar) as u32),
        Operation::BufferLoadI32 if elements.stride == 1 => elements.buffer.load_slice(elements.index, lane).ok(),
        Operation::BufferLoadI32 => load_scalars::<u32>(elements, lane, |scalar| scalar),
        _ => None,
    }
}

fn load_scalars<S: Scalar>(elements: &Elements<'_>, lane: &mut [u32], widen: impl Fn(S) -> u32) -> Option<()> {
    let Elements { buffer, mut index, stride } = *elements;
    if stride == 0 {
        lane.fill(widen(buffer.load(index).ok()?));
        return Some(());
    }
    for value in lane {
        *value = widen(buffer.load(index).ok()?);
        index = index.wrapping_add(stride);
    }
    Some(())
}

fn store_lane(operation: Operation, elements: &Elements<'_>, lane: &[u32]) -> Option<()> {
    match operation {
        Operation::BufferStoreI8 => store_scalars(elements, lane, |value| value as u8),
        Operation::BufferStoreI16 => store_scalars(elements, lane, |value| value as u16),
        Operation::BufferStoreI32 if elements.stride == 1 => elements.buffer.store_slice(elements.index, lane).ok(),
        Operation::BufferStoreI32 => store_scalars(elements, lane, |value| value),
        _ => None,
    }
}

fn store_scalars<S: Scalar>(elements: &Elements<'_>, lane: &[u32], narrow: impl Fn(u32) -> S) -> Option<()> {
    let Elements { buffer, mut index, stride } = *elements;
    for value in lane {
        Buffer::store(buffer, index, narrow(*value)).ok()?;
        index = index.wrapping_add(stride);
    }
    Some(())
}
