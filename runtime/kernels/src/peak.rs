//! The greatest rate of arithmetic of a thread, to compare kernels with.
#![allow(unsafe_code, reason = "calls of functions for features that were detected")]

use core::hint::black_box;

/// Fused multiplications and additions that do not depend on each other: as many as hide the latency of one, within the registers.
const CHAINS: usize = 12;

/// Multiplies and adds numbers of `f32` in vectors as wide as the processor's, `rounds` times twelve vectors, without accesses to
/// memory. Returns the number of operations: two for each multiplication and addition of an element.
#[must_use]
pub fn multiply_and_add(rounds: u64) -> u64 {
    let lanes = run(rounds);
    rounds.saturating_mul(2 * (CHAINS * lanes) as u64)
}

/// Returns the number of elements in a vector.
fn run(rounds: u64) -> usize {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    {
        use crate::proof::{V3, V4};

        if let Some(_v4) = V4::detected() {
            // SAFETY: `V4` proves that the processor has AVX-512.
            black_box(unsafe { x86_64::avx512(rounds) });
            return 16;
        }
        if let Some(_v3) = V3::detected() {
            // SAFETY: `V3` proves that the processor has AVX and FMA.
            black_box(unsafe { x86_64::avx_fma(rounds) });
            return 8;
        }
    }
    portable(rounds)
}

fn portable(rounds: u64) -> usize {
    const LANES: usize = 4;
    let (factor, summand) = (black_box(0.999f32), black_box(0.001f32));
    let mut chains = [[1f32; LANES]; CHAINS];
    for _ in 0..rounds {
        for number in chains.iter_mut().flatten() {
            // Where there is no instruction for both, two are the fastest way.
            *number = match cfg!(target_arch = "aarch64") {
                true => incarnate_bytecode::semantics::fma_f32(*number, factor, summand),
                false => *number * factor + summand,
            };
        }
    }
    black_box(chains);
    LANES
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod x86_64 {
    use core::arch::x86_64::{__m256, __m512};
    use core::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};

    use super::{CHAINS, black_box};

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(rounds: u64) -> [__m512; CHAINS] {
        let (factor, summand) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut chains = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm512_fmadd_ps(*chain, factor, summand);
            }
        }
        chains
    }

    #[target_feature(enable = "avx,fma")]
    pub(super) fn avx_fma(rounds: u64) -> [__m256; CHAINS] {
        let (factor, summand) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut chains = [_mm256_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm256_fmadd_ps(*chain, factor, summand);
            }
        }
        chains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted() {
        let lanes = run(1) as u64;
        assert!(lanes >= 4 && multiply_and_add(10) == 10 * 2 * 12 * lanes && multiply_and_add(0) == 0);
    }
}
