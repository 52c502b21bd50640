//! Sums of products: `output[..] = output[..] + left[..] * right[..]`.
#![allow(unsafe_code, reason = "elements at addresses that callers have checked, and instructions of detected levels")]

mod ablation;
mod across;
mod arithmetic;
mod blocking;
mod copy;
mod costs;
mod division;
mod drive;
#[cfg(any(all(target_arch = "aarch64", target_feature = "neon"), all(feature = "std", target_arch = "x86_64")))]
mod groups;
#[cfg(not(any(all(target_arch = "aarch64", target_feature = "neon"), all(feature = "std", target_arch = "x86_64"))))]
#[path = "contraction/no_groups.rs"]
mod groups;
mod kept;
mod layout;
pub(crate) mod level;
mod lists;
mod loops;
mod machine;
mod operand;
mod operation;
mod partial;
mod plan;
mod prepared;
mod scratch;
#[cfg(test)]
mod tests;
mod tile;
mod vector;

pub use arithmetic::{AnyOrder, Arithmetic, FmaF32, FmaF32AnyOrder, MulAddF32, MulAddF32AnyOrder, MulAddI32};
pub use division::MAX_DIVIDED;
pub use layout::{Axis, Layout, Side};
pub use loops::Loop;
pub use machine::Machine;
pub use operand::{Gather, Narrow, Operand, OperandKind, Piece};
pub use operation::Operation;
pub use partial::{Partial, Sums};
pub use plan::{Packing, Plan};
pub use prepared::{Prepared, contract_part, prepare};

use level::Level;
use operand::load;
use operation::sealed::Tiled;

/// What the elements of the output are before the first product is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Any numbers, which are loaded.
    Stored,
    /// Taken for zeros, whatever is in memory. All are written, if there are iterations.
    Zeros,
}

/// Runs all iterations of the loops, the outermost first; in another order where the operation allows that: see [`Sums`].
///
/// # Safety
/// - Elements of all iterations are valid and aligned at the addresses; so are those between them for reads, of the operands and of
///   the output. So are those that [`Gather::narrow`] names. What is read between the output's elements is not used.
/// - Iterations that differ in a loop that moves the output have different elements of it, and the output overlaps no operand.
/// - Loads and stores are plain. Where another thread accesses the elements meanwhile, what is stored is unspecified.
pub unsafe fn contract<O: Operation>(
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    // SAFETY: promised by the caller.
    unsafe { contract_on::<O>(Level::best(usize::MAX), None, (output, Initial::Stored), left, right, loops) }
}

/// As [`contract`], by a level that is no better than the machine's: to compare the levels of one processor. Returns the name of the
/// level.
///
/// # Safety
/// As for [`contract`].
pub unsafe fn contract_at_most<O: Operation>(
    machine: &Machine,
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) -> &'static str {
    let level = Level::at_most(machine);
    // SAFETY: promised by the caller.
    unsafe { contract_on::<O>(level, None, (output, Initial::Stored), left, right, loops) };
    <O as Tiled>::tiles(level).machine.name
}

/// As [`contract`], by the tiles of a level, with sums in an order.
///
/// # Safety
/// As for [`contract`].
unsafe fn contract_on<O: Operation>(
    level: Level,
    sums: Option<Sums>,
    output: (*mut O::Number, Initial),
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
) {
    let decided = prepared::decided::<O>(level, sums, loops, [left.kind(), right.kind()], [false; 2]);
    // SAFETY: promised by the caller, for operands of the kinds that this is decided for.
    unsafe { prepared::run::<O>(&decided, output, left, right) }
}

/// Writes the zeros that the output is to be taken for, for kernels that load it.
///
/// # Safety
/// The output's elements are valid for writes, for all iterations.
#[inline(never)]
unsafe fn clear<N: Copy>(output: *mut N, zero: N, loops: &[Loop]) {
    // Loops that sum do not move the output.
    let Some(at) = loops.iter().position(|each| each.output != 0) else {
        // SAFETY: no loop moves the output, so that this is the element of all iterations, which the caller promises.
        return unsafe { output.write(zero) };
    };
    for iteration in 0..loops[at].count as i64 {
        let output = output.wrapping_offset(loops[at].output.wrapping_mul(iteration) as isize);
        // SAFETY: the elements of an iteration of this loop are among those that the caller promises.
        unsafe { clear(output, zero, &loops[at + 1..]) };
    }
}

/// Runs the loops as they stand, from the elements at the given offsets of output, left and right.
///
/// # Safety
/// As for [`contract`], for the iterations from the offsets on.
unsafe fn in_order<O: Operation>(
    output: *mut O::Number,
    left: Operand<'_, O::Number>,
    right: Operand<'_, O::Number>,
    loops: &[Loop],
    offsets: [i64; 3],
) {
    let Some((outermost, inner)) = loops.split_first() else {
        // SAFETY: one iteration without loops is that which the caller promises.
        return unsafe { in_order::<O>(output, left, right, &[Loop { count: 1, ..Loop::default() }], offsets) };
    };
    let mut offsets = offsets;
    for _ in 0..outermost.count {
        // SAFETY: the offsets are those of an iteration of the outermost loop, which the caller promises. Without loops within these are
        // the offsets of its elements.
        unsafe {
            if inner.is_empty() {
                let element = output.offset(offsets[0] as isize);
                element.write(O::apply(load(element), left.number(offsets[1]), right.number(offsets[2])));
            } else {
                in_order::<O>(output, left, right, inner, offsets);
            }
        }
        for (offset, stride) in offsets.iter_mut().zip([outermost.output, outermost.left, outermost.right]) {
            *offset = offset.wrapping_add(stride);
        }
    }
}
