//! Products of narrow integers, by instructions that add several of them to a number of 32 bits.
//!
//! Several iterations of a loop that sums become one, whose operands are groups of integers: a contraction of numbers of 32 bits as all
//! others, with an operation of its own. Where the integers of groups are adjacent, aligned and as wide as in a group, numbers are in memory
//! as they are. Sums modulo 2^32 are the same in any order, and so are the results.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::TypeId;
use core::marker::PhantomData;

use super::ablation::Form;
use super::arithmetic::{Arithmetic, MulAddI32};
use super::level::Level;
use super::loops::Loop;
use super::operand::{Gather, Narrow, Operand, OperandKind, load};
use super::operation::Operation;
use super::operation::sealed::Tiled;
use super::prepared::{self, Decided};
use super::tile::{self, Tiles, partial};
use super::{Initial, contract_on};
#[cfg(target_arch = "aarch64")]
use crate::proof::DotProduct;
#[cfg(target_arch = "x86_64")]
use crate::proof::V3;
use incarnate_bytecode::semantics;

/// Adds the products of the integers of two groups, modulo 2^32: of four bytes, or of two integers of 16 bits, as the target's instruction
/// has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dot;

impl Arithmetic for Dot {
    type Number = i32;
    const ZERO: i32 = 0;
    const ANY_ORDER: bool = true;

    #[cfg(target_arch = "aarch64")]
    fn apply(mut sum: i32, left: i32, right: i32) -> i32 {
        for (left, right) in left.to_ne_bytes().into_iter().zip(right.to_ne_bytes()) {
            let [left, right] = [left, right].map(|byte| i32::from(byte.cast_signed()));
            sum = MulAddI32::apply(sum, left, right);
        }
        sum
    }

    #[cfg(target_arch = "x86_64")]
    fn apply(sum: i32, left: i32, right: i32) -> i32 {
        let low = |pair: i32| i32::from(pair as i16);
        let sum = MulAddI32::apply(sum, low(left), low(right));
        MulAddI32::apply(sum, left >> 16, right >> 16)
    }

    fn add(first: i32, second: i32) -> i32 {
        semantics::add_i32(first, second)
    }
}

/// Of the one level whose tiles have the instruction: [`Grouping::level`].
#[allow(private_interfaces, reason = "as the trait's")]
impl Tiled for Dot {
    type Numbers = i32;
    fn tiles(level: Level) -> &'static Tiles<i32> {
        #[cfg(target_arch = "aarch64")]
        return tile::aarch64::dot(proof(level));
        #[cfg(target_arch = "x86_64")]
        return tile::x86_64::dot_v3(proof(level));
    }
    fn partial(level: Level) -> &'static partial::Tiles<i32> {
        partial::dot(proof(level))
    }
}

/// The proof that the processor has the instruction.
#[cfg(target_arch = "aarch64")]
type Proof = DotProduct;
/// The proof that the processor has the instruction.
#[cfg(target_arch = "x86_64")]
type Proof = V3;

/// Returns the proof that the processor has the instruction, of the level that [`Grouping::level`] returns.
#[cfg(target_arch = "aarch64")]
fn proof(level: Level) -> Proof {
    match level {
        Level::DotProduct(proof) => proof,
        Level::Neon(_) | Level::Portable(_) => unreachable!("no instruction for groups"),
    }
}

/// Returns the proof that the processor has the instruction, of the level that [`Grouping::level`] returns.
#[cfg(target_arch = "x86_64")]
fn proof(level: Level) -> Proof {
    match level {
        Level::X86_64V3(v3) => v3,
        Level::X86_64V4(v4) => v4.v3(),
        Level::Portable(_) => unreachable!("no instruction for groups"),
    }
}

/// An operation on groups of integers.
pub(super) trait Grouping: Operation<Number = i32> {
    /// The integers of a group.
    const COUNT: usize;
    /// The integers that may be as they are in a group.
    const STORED: Narrow;

    /// The level whose tiles run where the level is the best, if its processors have the instruction.
    fn level(best: Level) -> Option<Level>;

    /// Whether groups of such integers exist.
    fn takes(narrow: Narrow) -> bool;

    /// Writes the groups that begin with the first integer and with those at a stride: their integers are at a distance from each other.
    /// Strides and distances are in integers.
    ///
    /// # Safety
    /// All integers of the groups are valid.
    unsafe fn gather(proof: Proof, narrow: Narrow, first: *const u8, distance: isize, stride: isize, into: &mut [i32]);
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
impl Grouping for Dot {
    const COUNT: usize = 4;
    const STORED: Narrow = Narrow::I8;

    fn level(best: Level) -> Option<Level> {
        let proof = DotProduct::detected().filter(|_| matches!(best, Level::Neon(_)))?;
        Some(Level::DotProduct(proof))
    }

    fn takes(narrow: Narrow) -> bool {
        narrow == Narrow::I8
    }

    unsafe fn gather(_: Proof, _: Narrow, first: *const u8, distance: isize, stride: isize, into: &mut [i32]) {
        let group = |first: *const u8| {
            // SAFETY: the caller promises the four bytes of each group.
            let byte = |of: isize| unsafe { load(first.wrapping_offset(distance.wrapping_mul(of))) };
            i32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)])
        };
        fill(first, stride, into, group);
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
impl Grouping for Dot {
    const COUNT: usize = 2;
    const STORED: Narrow = Narrow::I16;

    fn level(best: Level) -> Option<Level> {
        match best {
            Level::Portable(_) => None,
            Level::X86_64V3(_) => Some(best),
            Level::X86_64V4(v4) => Some(Level::X86_64V3(v4.v3())),
        }
    }

    fn takes(_: Narrow) -> bool {
        true
    }

    unsafe fn gather(_: Proof, narrow: Narrow, first: *const u8, distance: isize, stride: isize, into: &mut [i32]) {
        // SAFETY: the caller promises the integers; `V3` proves AVX2.
        unsafe {
            match narrow {
                Narrow::I8 => pairs::<i8>(first.cast(), distance, stride, into),
                Narrow::U8 => pairs::<u8>(first.cast(), distance, stride, into),
                Narrow::I16 => pairs::<i16>(first.cast(), distance, stride, into),
            }
        }
    }
}

/// Writes pairs of integers of 16 bits.
///
/// # Safety
/// All integers of the pairs are valid.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
unsafe fn pairs<T: Copy + Into<i16>>(first: *const T, distance: isize, stride: isize, into: &mut [i32]) {
    let pair = |first: *const T, distance: isize| {
        // SAFETY: the caller promises the two integers of each pair.
        let integer = |of: isize| unsafe { load(first.wrapping_offset(of)) }.into().cast_unsigned();
        (u32::from(integer(0)) | u32::from(integer(distance)) << 16).cast_signed()
    };
    // Constants let the compiler make vectors.
    match (distance, stride) {
        (1, 2) => fill(first, 2, into, |first| pair(first, 1)),
        (1, _) => fill(first, stride, into, |first| pair(first, 1)),
        (_, 1) => fill(first, 1, into, |first| pair(first, distance)),
        _ => fill(first, stride, into, |first| pair(first, distance)),
    }
}

/// Writes a group for each integer at a stride from the first.
#[inline(always)]
fn fill<T>(first: *const T, stride: isize, into: &mut [i32], group: impl Fn(*const T) -> i32) {
    for (at, number) in into.iter_mut().enumerate() {
        *number = group(first.wrapping_offset(stride.wrapping_mul(at as isize)));
    }
}

/// Groups of integers that are `distance` apart: group `n` begins with the integer `n`.
struct Groups<G> {
    proof: Proof,
    narrow: Narrow,
    first: *const u8,
    distance: isize,
    operation: PhantomData<G>,
}

// SAFETY: an address through which nothing is written. The contract of `contract` says that the integers are valid, and that the output
// overlaps no operand.
unsafe impl<G> Sync for Groups<G> {}

impl<G: Grouping> Gather<i32> for Groups<G> {
    fn zero(&self) -> i32 {
        0
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [i32]) {
        let first = self.first.wrapping_offset(self.narrow.width().wrapping_mul(first as isize));
        // SAFETY: `of` counts no group whose last integer is not that of an iteration, and the caller promises the groups.
        unsafe { G::gather(self.proof, self.narrow, first, self.distance, stride as isize, into) };
    }
}

/// A contraction of groups of integers, and the iterations that are left of the loop along which they are.
pub(super) struct Grouped {
    best: Level,
    proof: Proof,
    /// For each operand, whether groups are numbers in memory.
    in_memory: [bool; 2],
    /// For each operand, the distance of the integers of a group.
    distances: [isize; 2],
    groups: Rc<Decided>,
    /// The loops over the iterations that are left, and how far the first is in each operand, in integers.
    rest: Option<(Vec<Loop>, [i64; 2])>,
}

/// Whether the groups along a loop are numbers in memory: their integers are adjacent, and all of them are aligned.
fn are_numbers<G: Grouping>(operand: OperandKind, loops: &[Loop], along: usize, stride: fn(&Loop) -> i64) -> bool {
    let mut others = loops.iter().enumerate().filter(|(at, _)| *at != along);
    operand == OperandKind::Narrow { of: G::STORED, is_aligned: true }
        && stride(&loops[along]) == 1
        && others.all(|(_, each)| stride(each) % G::COUNT as i64 == 0)
}

/// The stride of groups, in elements of their operand: numbers, or integers.
const fn stride_of_groups<G: Grouping>(stride: i64, is_along: bool, are_numbers: bool) -> i64 {
    match (is_along, are_numbers) {
        // Adjacent.
        (true, true) => stride,
        (true, false) => stride.wrapping_mul(G::COUNT as i64),
        (false, true) => stride / G::COUNT as i64,
        (false, false) => stride,
    }
}

/// Whether an operation has groups. The compiler knows, and leaves their code out of programs with other operations.
fn exist<O: Operation>() -> bool {
    TypeId::of::<O>() == TypeId::of::<MulAddI32>()
}

/// Decides how a contraction runs by groups of integers, and returns the cycles that it is expected to take. None where an operand is
/// another one, where no loop that sums has as many iterations as a group has integers, and where the processor has no instruction for
/// them.
pub(super) fn of<O: Operation>(best: Level, loops: &[Loop], operands: [OperandKind; 2]) -> Option<(Grouped, usize)> {
    type G = Dot;
    let is_taken = |kind: OperandKind| matches!(kind, OperandKind::Narrow { of, .. } if G::takes(of));
    if !Form::NarrowGroups.is_used() || !exist::<O>() || !operands.into_iter().all(is_taken) {
        return None;
    }
    let summing = (0..loops.len()).filter(|at| loops[*at].output == 0 && loops[*at].count >= G::COUNT);
    let along = summing.max_by_key(|at| loops[*at].count)?;
    let level = G::level(best)?;
    let in_memory = [
        are_numbers::<G>(operands[0], loops, along, |each| each.left),
        are_numbers::<G>(operands[1], loops, along, |each| each.right),
    ];
    let grouped: Vec<Loop> = loops
        .iter()
        .enumerate()
        .map(|(at, each)| {
            let stride = |stride: i64, are_numbers: bool| stride_of_groups::<G>(stride, at == along, are_numbers);
            let count = if at == along { each.count / G::COUNT } else { each.count };
            let (left, right) = (stride(each.left, in_memory[0]), stride(each.right, in_memory[1]));
            Loop { count, output: each.output, left, right }
        })
        .collect();
    let kinds = in_memory.map(|in_memory| if in_memory { OperandKind::Memory } else { OperandKind::Computed });
    let groups = prepared::decided::<G>(level, None, &grouped, kinds, [false; 2]);
    let each = loops[along];
    let done = each.count / G::COUNT * G::COUNT;
    let rest = (done < each.count).then(|| {
        let mut rest: Vec<Loop> = loops.into();
        rest[along].count -= done;
        (rest, [each.left, each.right].map(|stride| stride.wrapping_mul(done as i64)))
    });
    let cycles = groups.cycles;
    let proof = proof(level);
    let grouped =
        Grouped { best, proof, in_memory, distances: [each.left as isize, each.right as isize], groups, rest };
    Some((grouped, cycles))
}

/// Runs a contraction by groups of integers.
///
/// # Safety
/// As for [`contract`](super::contract); the operands are of the kinds that it was decided for.
#[inline(never)]
pub(super) unsafe fn run<O: Operation>(
    grouped: &Grouped,
    (output, initial): (*mut O::Number, Initial),
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
) {
    type G = Dot;
    if !exist::<O>() {
        return;
    }
    let Grouped { best, proof, in_memory, distances, groups: decided, rest } = grouped;
    let (Some(lefts), Some(rights)) = (left.narrow(), right.narrow()) else { return };
    let groups = [(lefts, distances[0]), (rights, distances[1])].map(|((narrow, first), distance)| Groups::<G> {
        proof: *proof,
        narrow,
        first,
        distance,
        operation: PhantomData,
    });
    let operand = |at: usize| match in_memory[at] {
        true => Operand::Memory(groups[at].first.cast()),
        false => Operand::Computed(&groups[at], 0),
    };
    // SAFETY: the caller promises the elements of all iterations: `of` found that groups consist of such, in memory only where
    // `are_numbers` found them adjacent and aligned, and that the rest are iterations. `exist` found that `O` is `MulAddI32`, whose
    // numbers are of this type.
    unsafe {
        prepared::run::<G>(decided, (output.cast(), initial), operand(0), operand(1));
        if let Some((loops, [of_left, of_right])) = rest {
            let (left, right) = (left.moved(*of_left), right.moved(*of_right));
            contract_on::<O>(*best, None, (output, Initial::Stored), left, right, loops);
        }
    }
}
