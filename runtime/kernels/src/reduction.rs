//! Partial results of reductions.

use incarnate_bytecode::semantics::{cmp_lt_f32_u, cmp_nan_f32, select_f32};

/// Partial results of an element, where the operation may be reassociated: as many as the longest vectors have elements, on every
/// processor.
pub const PARTIAL: usize = 16;

/// Returns the greater number, and the first one where the second is NaN.
#[inline(always)]
#[must_use]
pub fn max_num_f32(first: f32, second: f32) -> f32 {
    let greater = select_f32(cmp_lt_f32_u(first, second), second, first);
    select_f32(cmp_nan_f32(second), first, greater)
}

/// Returns the lesser number, and the first one where the second is NaN.
#[inline(always)]
#[must_use]
pub fn min_num_f32(first: f32, second: f32) -> f32 {
    let lesser = select_f32(cmp_lt_f32_u(second, first), second, first);
    select_f32(cmp_nan_f32(second), first, lesser)
}

/// Combines partial results: each of the lower half with that of the upper half, until one is left.
#[inline(always)]
pub fn combine<N: Copy>(partial: [N; PARTIAL], combine: impl Fn(N, N) -> N) -> N {
    let eight: [N; 8] = core::array::from_fn(|at| combine(partial[at], partial[at + 8]));
    let four: [N; 4] = core::array::from_fn(|at| combine(eight[at], eight[at + 4]));
    let two: [N; 2] = core::array::from_fn(|at| combine(four[at], four[at + 2]));
    combine(two[0], two[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_preferred() {
        assert_eq!((max_num_f32(1.0, 2.0), max_num_f32(2.0, 1.0)), (2.0, 2.0));
        assert_eq!((min_num_f32(1.0, 2.0), min_num_f32(2.0, 1.0)), (1.0, 1.0));
        for function in [max_num_f32, min_num_f32] {
            assert_eq!((function(f32::NAN, 1.0), function(1.0, f32::NAN)), (1.0, 1.0));
            assert!(function(f32::NAN, f32::NAN).is_nan());
        }
    }

    #[test]
    fn halves_are_combined() {
        let partial = core::array::from_fn(|at| 1u32 << at);
        assert_eq!(combine(partial, |lower, upper| lower | upper), 0xffff);
        // `lower - upper` four times: the sign of each is the parity of the bits of its position.
        let parity = |at: usize| if at.count_ones().is_multiple_of(2) { 1 } else { -1 };
        assert_eq!(combine(core::array::from_fn(parity), |lower, upper| lower - upper), 16);
    }
}
