//! The division of contractions among threads.

use core::ops::Range;

use crate::parallel;
use incarnate_kernels::contraction::{self, Initial, MAX_DIVIDED, Prepared};
use incarnate_kernels::{Loop, Operation};

/// What threads share.
struct Shared<T>(T);

// SAFETY: addresses, by which each thread accesses what `run` leaves to it, and operands, which are `Sync`.
unsafe impl<T> Sync for Shared<T> {}

/// Runs a contraction, on several threads where that pays.
///
/// # Safety
/// As for [`contraction::Prepared::run`].
pub(super) unsafe fn run<O: Operation>(
    prepared: &Prepared<O>,
    (output, initial): (*mut O::Number, Initial),
    left: contraction::Operand<'_, O::Number>,
    right: contraction::Operand<'_, O::Number>,
) {
    let (loops, sums) = (prepared.loops(), prepared.sums());
    let time = prepared.time();
    let Some(at) = prepared.divided().filter(|_| parallel::divides(time)) else {
        // SAFETY: promised by the caller.
        return unsafe { prepared.run((output, initial), left, right) };
    };
    let shared = Shared((output, initial, left, right));
    parallel::divide(loops[at].count, time, &|range: Range<usize>| {
        let Shared((output, initial, left, right)) = &shared;
        let (whole, first) = (loops[at], range.start as i64);
        let mut part = [Loop::default(); MAX_DIVIDED];
        let part = &mut part[..loops.len()];
        part.copy_from_slice(loops);
        part[at].count = range.len();
        // SAFETY: promised by the caller: the elements are those of iterations of the whole contraction. Iterations that differ in
        // this loop have different elements of the output, so no other thread accesses those of these.
        unsafe {
            contraction::contract_part::<O>(
                sums,
                (output.wrapping_offset(whole.output.wrapping_mul(first) as isize), *initial),
                left.moved(whole.left.wrapping_mul(first)),
                right.moved(whole.right.wrapping_mul(first)),
                part,
            );
        }
    });
}
