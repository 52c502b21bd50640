//! Products of bytes, by an instruction that adds four of them to a number of 32 bits.
//!
//! Four iterations of a loop that sums become one, whose operands are groups of four bytes: a contraction of numbers of 32 bits as all
//! others, with an operation of its own. Where the bytes of groups are adjacent and aligned, numbers are in memory as they are. Sums
//! modulo 2^32 are the same in any order, and so are the results.

use core::any::TypeId;

use super::arithmetic::{DotI8, MulAddI32};
use super::level::Level;
use super::loops::{Loop, MAX_LOOPS};
use super::operand::{Gather, Operand, load};
use super::operation::Operation;
use super::partial::Sums;
use super::{Initial, contract_on};

/// The bytes of a group.
const GROUP: usize = 4;

/// Whether the processor has the instruction.
pub(super) fn is_available() -> bool {
    #[cfg(feature = "std")]
    let is_detected = std::arch::is_aarch64_feature_detected!("dotprod");
    #[cfg(not(feature = "std"))]
    let is_detected = cfg!(target_feature = "dotprod");
    is_detected
}

/// Groups of bytes that are `distance` apart: group `n` begins with the byte at `n`.
struct Groups {
    bytes: *const u8,
    distance: isize,
}

// SAFETY: an address through which nothing is written. The caller of `contract` promises that the bytes are valid, and that the output
// overlaps no operand.
unsafe impl Sync for Groups {}

impl Gather<i32> for Groups {
    fn zero(&self) -> i32 {
        0
    }

    unsafe fn gather(&self, first: i64, stride: i64, into: &mut [i32]) {
        let (first, stride) = (self.bytes.wrapping_offset(first as isize), stride as isize);
        // SAFETY: promised by the caller: the bytes of a group are those of four iterations.
        unsafe {
            match (self.distance, stride) {
                (1, _) => gather(first, 1, stride, into),
                (distance, 1) => gather(first, distance, 1, into),
                (distance, _) => gather(first, distance, stride, into),
            }
        }
    }
}

/// Writes the groups that begin with the first byte and with those at a stride; compiled for each of the constants it is called with.
///
/// # Safety
/// All bytes of the groups are valid.
#[inline(always)]
unsafe fn gather(first: *const u8, distance: isize, stride: isize, into: &mut [i32]) {
    for (at, group) in into.iter_mut().enumerate() {
        let first = first.wrapping_offset(stride.wrapping_mul(at as isize));
        // SAFETY: promised by the caller.
        let byte = |of: isize| unsafe { load(first.wrapping_offset(distance.wrapping_mul(of))) };
        *group = i32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)]);
    }
}

/// Whether the groups along a loop are numbers in memory: their bytes are adjacent, and all of them are aligned.
fn are_numbers(bytes: *const u8, loops: &[Loop], along: usize, stride: fn(&Loop) -> i64) -> bool {
    let mut others = loops.iter().enumerate().filter(|(at, _)| *at != along);
    stride(&loops[along]) == 1
        && bytes.cast::<i32>().is_aligned()
        && others.all(|(_, each)| stride(each) % GROUP as i64 == 0)
}

/// The stride of groups, in elements of their operand: numbers, or bytes.
const fn stride_of_groups(stride: i64, is_along: bool, are_numbers: bool) -> i64 {
    match (is_along, are_numbers) {
        // Adjacent.
        (true, true) => stride,
        (true, false) => stride.wrapping_mul(GROUP as i64),
        (false, true) => stride / GROUP as i64,
        (false, false) => stride,
    }
}

/// Runs a contraction by groups of bytes. Returns false, and does nothing, where the operation or an operand is another one, where no
/// loop that sums has as many iterations as a group has bytes, and where the processor has no instruction for them.
///
/// # Safety
/// As for [`contract`](super::contract).
pub(super) unsafe fn contract<O: Operation>(
    (output, initial): (*mut O::Number, Initial),
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) -> bool {
    if TypeId::of::<O>() != TypeId::of::<MulAddI32>() || loops.len() > MAX_LOOPS {
        return false;
    }
    let (Some(left_bytes), Some(right_bytes)) = (left.bytes(), right.bytes()) else { return false };
    let summing = (0..loops.len()).filter(|at| loops[*at].output == 0 && loops[*at].count >= GROUP);
    let Some(along) = summing.max_by_key(|at| loops[*at].count) else { return false };
    if !is_available() {
        return false;
    }
    let in_memory = [
        are_numbers(left_bytes, loops, along, |each| each.left),
        are_numbers(right_bytes, loops, along, |each| each.right),
    ];
    let mut changed = [Loop::default(); MAX_LOOPS];
    let changed = &mut changed[..loops.len()];
    for (at, (grouped, each)) in changed.iter_mut().zip(loops).enumerate() {
        let stride = |stride: i64, are_numbers: bool| stride_of_groups(stride, at == along, are_numbers);
        let count = if at == along { each.count / GROUP } else { each.count };
        let (left, right) = (stride(each.left, in_memory[0]), stride(each.right, in_memory[1]));
        *grouped = Loop { count, output: each.output, left, right };
    }
    let each = loops[along];
    let groups = [
        Groups { bytes: left_bytes, distance: each.left as isize },
        Groups { bytes: right_bytes, distance: each.right as isize },
    ];
    let operand = |at: usize| match in_memory[at] {
        true => Operand::Memory(groups[at].bytes.cast()),
        false => Operand::Computed(&groups[at], 0),
    };
    // SAFETY: promised by the caller: groups consist of elements of iterations. `O` has numbers of this type, as it is `MulAddI32`;
    // the processor has the instruction.
    unsafe {
        let sums = Sums::of::<DotI8>(changed);
        contract_on::<DotI8>(Level::Neon, sums, (output.cast(), initial), operand(0), operand(1), changed);
    }
    let done = each.count / GROUP * GROUP;
    if done < each.count {
        let moved = |stride: i64| stride.wrapping_mul(done as i64);
        changed.copy_from_slice(loops);
        changed[along].count -= done;
        let (left, right) = (left.moved(moved(each.left)), right.moved(moved(each.right)));
        // SAFETY: promised by the caller: these are the iterations that are left.
        unsafe {
            contract_on::<O>(Level::Neon, Sums::of::<O>(changed), (output, Initial::Stored), left, right, changed);
        };
    }
    true
}
