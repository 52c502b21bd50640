//! Partial results of reductions.

/// Partial results of an element, where the operation may be reassociated: as many as the longest vectors have elements, on every
/// processor.
pub const PARTIAL: usize = 16;

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
    fn halves_are_combined() {
        let partial = core::array::from_fn(|at| 1u32 << at);
        assert_eq!(combine(partial, |lower, upper| lower | upper), 0xffff);
        // `lower - upper` four times: the sign of each is the parity of the bits of its position.
        let parity = |at: usize| if at.count_ones() % 2 == 0 { 1 } else { -1 };
        assert_eq!(combine(core::array::from_fn(parity), |lower, upper| lower - upper), 16);
    }
}
