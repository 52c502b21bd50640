//! Products of narrow integers, by instructions that add several of them to a number of 32 bits.
//!
//! Several iterations of a loop that sums become one, whose operands are groups of integers: a contraction of numbers of 32 bits as all
//! others, with an operation of its own. Where the integers of groups are adjacent, aligned and as wide as in a group, numbers are in memory
//! as they are. Sums modulo 2^32 are the same in any order, and so are the results.

use core::any::TypeId;
use core::marker::PhantomData;

use super::arithmetic::{Dot, MulAddI32};
use super::level::Level;
use super::loops::{Loop, MAX_LOOPS};
use super::operand::{Gather, Narrow, Operand, load};
use super::operation::Operation;
use super::partial::Sums;
use super::{Initial, contract_on};

/// An operation on groups of integers.
pub(super) trait Grouped: Operation<Number = i32> {
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
    /// All integers of the groups are valid, and the processor has the features of [`Grouped::level`].
    unsafe fn gather(narrow: Narrow, first: *const u8, distance: isize, stride: isize, into: &mut [i32]);
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
impl Grouped for Dot {
    const COUNT: usize = 4;
    const STORED: Narrow = Narrow::I8;

    fn level(best: Level) -> Option<Level> {
        #[cfg(feature = "std")]
        let has_instruction = std::arch::is_aarch64_feature_detected!("dotprod");
        #[cfg(not(feature = "std"))]
        let has_instruction = cfg!(target_feature = "dotprod");
        (best == Level::Neon && has_instruction).then_some(best)
    }

    fn takes(narrow: Narrow) -> bool {
        narrow == Narrow::I8
    }

    unsafe fn gather(_: Narrow, first: *const u8, distance: isize, stride: isize, into: &mut [i32]) {
        let group = |first: *const u8| {
            // SAFETY: promised by the caller.
            let byte = |of: isize| unsafe { load(first.wrapping_offset(distance.wrapping_mul(of))) };
            i32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)])
        };
        fill(first, stride, into, group);
    }
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
impl Grouped for Dot {
    const COUNT: usize = 2;
    const STORED: Narrow = Narrow::I16;

    fn level(best: Level) -> Option<Level> {
        (best != Level::Portable).then_some(Level::X86_64V3)
    }

    fn takes(_: Narrow) -> bool {
        true
    }

    unsafe fn gather(narrow: Narrow, first: *const u8, distance: isize, stride: isize, into: &mut [i32]) {
        // SAFETY: promised by the caller.
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
/// All integers of the pairs are valid, and the processor has AVX2.
#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
unsafe fn pairs<T: Copy + Into<i16>>(first: *const T, distance: isize, stride: isize, into: &mut [i32]) {
    let pair = |first: *const T, distance: isize| {
        // SAFETY: promised by the caller.
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
    narrow: Narrow,
    first: *const u8,
    distance: isize,
    operation: PhantomData<G>,
}

// SAFETY: an address through which nothing is written. The caller of `contract` promises that the integers are valid, and that the
// output overlaps no operand.
unsafe impl<G> Sync for Groups<G> {}

impl<G: Grouped> Gather<i32> for Groups<G> {
    fn zero(&self) -> i32 {
        0
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [i32]) {
        let first = self.first.wrapping_offset(self.narrow.width().wrapping_mul(first as isize));
        // SAFETY: promised by the caller: the integers of a group are those of its iterations. `contract` found the level.
        unsafe { G::gather(self.narrow, first, self.distance, stride as isize, into) };
    }
}

/// Whether the groups along a loop are numbers in memory: their integers are adjacent, and all of them are aligned.
fn are_numbers<G: Grouped>(
    (narrow, first): (Narrow, *const u8),
    loops: &[Loop],
    along: usize,
    stride: fn(&Loop) -> i64,
) -> bool {
    let mut others = loops.iter().enumerate().filter(|(at, _)| *at != along);
    narrow == G::STORED
        && stride(&loops[along]) == 1
        && first.cast::<i32>().is_aligned()
        && others.all(|(_, each)| stride(each) % G::COUNT as i64 == 0)
}

/// The stride of groups, in elements of their operand: numbers, or integers.
const fn stride_of_groups<G: Grouped>(stride: i64, is_along: bool, are_numbers: bool) -> i64 {
    match (is_along, are_numbers) {
        // Adjacent.
        (true, true) => stride,
        (true, false) => stride.wrapping_mul(G::COUNT as i64),
        (false, true) => stride / G::COUNT as i64,
        (false, false) => stride,
    }
}

/// Whether an operation has groups.
pub(super) fn exist<O: Operation>() -> bool {
    TypeId::of::<O>() == TypeId::of::<MulAddI32>()
}

/// Runs a contraction by groups of integers. Returns false, and does nothing, where an operand is another one, where no
/// loop that sums has as many iterations as a group has integers, and where the processor has no instruction for them.
///
/// # Safety
/// As for [`contract`](super::contract); the processor is of the level, and groups [`exist`].
#[inline(never)]
pub(super) unsafe fn contract<O: Operation>(
    best: Level,
    (output, initial): (*mut O::Number, Initial),
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) -> bool {
    type G = Dot;
    if loops.len() > MAX_LOOPS {
        return false;
    }
    let is_taken = |narrow: &(Narrow, *const u8)| G::takes(narrow.0);
    let (Some(lefts), Some(rights)) = (left.narrow().filter(is_taken), right.narrow().filter(is_taken)) else {
        return false;
    };
    let summing = (0..loops.len()).filter(|at| loops[*at].output == 0 && loops[*at].count >= G::COUNT);
    let Some(along) = summing.max_by_key(|at| loops[*at].count) else { return false };
    let Some(level) = G::level(best) else { return false };
    let in_memory = [
        are_numbers::<G>(lefts, loops, along, |each| each.left),
        are_numbers::<G>(rights, loops, along, |each| each.right),
    ];
    let mut changed = [Loop::default(); MAX_LOOPS];
    let changed = &mut changed[..loops.len()];
    for (at, (grouped, each)) in changed.iter_mut().zip(loops).enumerate() {
        let stride = |stride: i64, are_numbers: bool| stride_of_groups::<G>(stride, at == along, are_numbers);
        let count = if at == along { each.count / G::COUNT } else { each.count };
        let (left, right) = (stride(each.left, in_memory[0]), stride(each.right, in_memory[1]));
        *grouped = Loop { count, output: each.output, left, right };
    }
    let each = loops[along];
    let groups = [(lefts, each.left), (rights, each.right)].map(|((narrow, first), distance)| Groups::<G> {
        narrow,
        first,
        distance: distance as isize,
        operation: PhantomData,
    });
    let operand = |at: usize| match in_memory[at] {
        true => Operand::Memory(groups[at].first.cast()),
        false => Operand::Computed(&groups[at], 0),
    };
    // SAFETY: promised by the caller: groups consist of elements of iterations. `O` has numbers of this type, as it is `MulAddI32`;
    // the processor has the instruction.
    unsafe {
        let sums = Sums::of::<G>(changed);
        contract_on::<G>(level, sums, (output.cast(), initial), operand(0), operand(1), changed);
    }
    let done = each.count / G::COUNT * G::COUNT;
    if done < each.count {
        let moved = |stride: i64| stride.wrapping_mul(done as i64);
        changed.copy_from_slice(loops);
        changed[along].count -= done;
        let (left, right) = (left.moved(moved(each.left)), right.moved(moved(each.right)));
        // SAFETY: promised by the caller: these are the iterations that are left.
        unsafe {
            contract_on::<O>(best, Sums::of::<O>(changed), (output, Initial::Stored), left, right, changed);
        };
    }
    true
}
