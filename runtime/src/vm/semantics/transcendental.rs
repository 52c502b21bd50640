//! Exponentials, logarithms and the hyperbolic tangent of `f32`, named as in `std`.
//!
//! They are computed in `f64`, to ten digits, and rounded once: the result is the nearest `f32` but where the exact one lies
//! within a hundredth of the distance of two neighbours from the middle between them. They neither branch nor look up tables,
//! and use what every vector unit has (no conversion between `f64` and `i64`, which SSE2 and AVX2 lack), so that loops over
//! elements vectorise with them. Products and sums are rounded each, hence the bits are the same on all processors.

use core::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E, SQRT_2};

/// Where the distance of neighbouring `f64` is one: adding it rounds to an integer, which then is in the lowest bits.
const INTEGERS: f64 = 6_755_399_441_055_744.0;
const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
const EXPONENT_BIAS: f64 = 1023.0;
/// Adding it rounds to an integer, whose biased exponent then is in the lowest bits.
const EXPONENTS: f64 = INTEGERS + EXPONENT_BIAS;

/// The integer that is nearest, and two to its power. Below 1022 in magnitude.
#[inline(always)]
fn nearest_power(exponent: f64) -> (f64, f64) {
    let biased = exponent + EXPONENTS;
    (biased - EXPONENTS, f64::from_bits(biased.to_bits() << MANTISSA_BITS))
}

/// `e^x - 1` for x between `-ln(2)/2` and `ln(2)/2`: interpolated in the zeros of a Chebyshev polynomial, which leaves an error of
/// 2.7e-10 of the result.
#[inline(always)]
fn exp_m1_near_zero(x: f64) -> f64 {
    let square = x * x;
    let high = (0.00833329846980059 + 0.0013941118895837 * x) + 0.00019899285575896282 * square;
    let low = (1.0 + 0.5000000047146057 * x) + (0.16666666719028936 + 0.04166635277111221 * x) * square;
    x * (low + high * (square * square))
}

/// `e^x - 1`, for x whose result is an `f64` with a normal exponent. Loses the sign of zero.
#[inline(always)]
fn exp_m1_f64(x: f64) -> f64 {
    let (power, scale) = nearest_power(x * LOG2_E);
    scale * exp_m1_near_zero(x - power * LN_2) + (scale - 1.0)
}

/// The operand, or the limit that it is beyond. NaN stays.
#[inline(always)]
fn clamp(operand: f32, least: f32, greatest: f32) -> f64 {
    let below = if operand > greatest { greatest } else { operand };
    f64::from(if below < least { least } else { below })
}

#[inline(always)]
pub(super) fn exp(operand: f32) -> f32 {
    // Beyond are infinity and zero.
    let x = clamp(operand, -104.0, 89.0);
    let (power, scale) = nearest_power(x * LOG2_E);
    (scale + scale * exp_m1_near_zero(x - power * LN_2)) as f32
}

#[inline(always)]
pub(super) fn exp2(operand: f32) -> f32 {
    let x = clamp(operand, -151.0, 129.0);
    let (power, scale) = nearest_power(x);
    (scale + scale * exp_m1_near_zero((x - power) * LN_2)) as f32
}

#[inline(always)]
pub(super) fn exp_m1(operand: f32) -> f32 {
    // Below is -1.
    (exp_m1_f64(clamp(operand, -20.0, 89.0)) as f32).copysign(operand)
}

#[inline(always)]
pub(super) fn tanh(operand: f32) -> f32 {
    let magnitude = operand.abs();
    // Beyond is 1.
    let less_one = exp_m1_f64(f64::from(if magnitude > 10.0 { 10.0 } else { magnitude }) * 2.0);
    ((less_one / (less_one + 2.0)) as f32).copysign(operand)
}

/// A positive number as a power of two and the logarithm of what that is to be multiplied by, which is between `-ln(2)/2` and
/// `ln(2)/2`.
#[inline(always)]
fn logarithm(x: f64) -> (f64, f64) {
    const LEAST: u64 = (SQRT_2 / 2.0).to_bits();
    const ONE: u64 = 1f64.to_bits();
    let biased = x.to_bits().wrapping_add(ONE - LEAST) >> MANTISSA_BITS;
    let power = f64::from_bits(biased | INTEGERS.to_bits()) - EXPONENTS;
    let factor = f64::from_bits(x.to_bits().wrapping_sub(biased << MANTISSA_BITS).wrapping_add(ONE));
    // ln(f) = 2 artanh((f - 1) / (f + 1)), interpolated as above in the square, with an error of 2e-11 of the result.
    let tangent = (factor - 1.0) / (factor + 1.0);
    let square = tangent * tangent;
    let series = (0.6666666655445165 + 0.40000121876972 * square)
        + (0.2855081659971155 + 0.23330581938241893 * square) * (square * square);
    (power, tangent * (2.0 + square * series))
}

/// What the logarithm of an operand is: that which was computed, where the operand is positive and finite.
#[inline(always)]
fn logarithm_of(operand: f32, computed: f64) -> f32 {
    let positive = if operand < f32::INFINITY { computed as f32 } else { operand };
    let known = if operand == 0.0 { f32::NEG_INFINITY } else { positive };
    if operand < 0.0 { f32::NAN } else { known }
}

#[inline(always)]
pub(super) fn ln(operand: f32) -> f32 {
    let (power, rest) = logarithm(f64::from(operand));
    logarithm_of(operand, power * LN_2 + rest)
}

#[inline(always)]
pub(super) fn log2(operand: f32) -> f32 {
    let (power, rest) = logarithm(f64::from(operand));
    logarithm_of(operand, power + rest * LOG2_E)
}

#[inline(always)]
pub(super) fn log10(operand: f32) -> f32 {
    let (power, rest) = logarithm(f64::from(operand));
    logarithm_of(operand, power * LOG10_2 + rest * LOG10_E)
}

#[inline(always)]
pub(super) fn ln_1p(operand: f32) -> f32 {
    let x = f64::from(operand);
    let sum = x + 1.0;
    let (power, rest) = logarithm(sum);
    // The second term is what rounding took from the sum.
    let computed = (power * LN_2 + rest) + (x - (sum - 1.0)) / sum;
    let positive = if operand < f32::INFINITY { computed as f32 } else { operand };
    let known = if operand == -1.0 { f32::NEG_INFINITY } else { positive };
    if operand < -1.0 { f32::NAN } else { known.copysign(operand) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a result, in units of the distance of its neighbours.
    fn error(result: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if result.is_nan() || nearest.is_nan() || nearest.is_infinite() || nearest == 0.0 {
            let same = result.to_bits() == nearest.to_bits() || result.is_nan() && nearest.is_nan();
            return if same { 0.0 } else { f64::INFINITY };
        }
        let exponent = (exact.abs().to_bits() >> MANTISSA_BITS) as i32 - 1023;
        (f64::from(result) - exact).abs() / 2f64.powi(exponent.max(f32::MIN_EXP - 1) - 23)
    }

    #[test]
    fn results_are_nearly_always_the_nearest() {
        type Functions = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
        let functions: [Functions; 8] = [
            ("exp", exp, libm::exp),
            ("exp2", exp2, libm::exp2),
            ("exp_m1", exp_m1, libm::expm1),
            ("tanh", tanh, libm::tanh),
            ("ln", ln, libm::log),
            ("log2", log2, libm::log2),
            ("log10", log10, libm::log10),
            ("ln_1p", ln_1p, libm::log1p),
        ];
        for (name, function, exact) in functions {
            // All signs and exponents; the step is odd, hence all low bits.
            for bits in (0..=u32::MAX).step_by(if cfg!(miri) { 99_999_989 } else { 99_991 }) {
                let operand = f32::from_bits(bits);
                let result = function(operand);
                let error = error(result, exact(f64::from(operand)));
                assert!(error < 0.51, "{name}({operand:e}) = {result:e}: {error}");
            }
        }
    }

    #[test]
    fn what_has_an_exact_result_has_it() {
        let infinity = f32::INFINITY;
        let cases: [(f32, [f32; 8]); 6] = [
            (0.0, [1.0, 1.0, 0.0, 0.0, -infinity, -infinity, -infinity, 0.0]),
            (-0.0, [1.0, 1.0, -0.0, -0.0, -infinity, -infinity, -infinity, -0.0]),
            (infinity, [infinity, infinity, infinity, 1.0, infinity, infinity, infinity, infinity]),
            (-infinity, [0.0, 0.0, -1.0, -1.0, f32::NAN, f32::NAN, f32::NAN, f32::NAN]),
            (f32::NAN, [f32::NAN; 8]),
            // The least positive number.
            (1e-45, [1.0, 1.0, 1e-45, 1e-45, -103.27893, -149.0, -44.85347, 1e-45]),
        ];
        for (operand, wanted) in cases {
            let results = [exp, exp2, exp_m1, tanh, ln, log2, log10, ln_1p].map(|function| function(operand));
            for (result, wanted) in results.into_iter().zip(wanted) {
                let same = result.to_bits() == wanted.to_bits() || result.is_nan() && wanted.is_nan();
                assert!(same, "of {operand:e}: {results:?}");
            }
        }
        for power in -149..=127i16 {
            let number = libm::ldexp(1.0, power.into()) as f32;
            assert_eq!((exp2(power.into()), log2(number)), (number, power.into()));
        }
        for power in 0..=10u8 {
            assert_eq!(log10(libm::pow(10.0, power.into()) as f32), power.into());
        }
        assert_eq!((exp(88.8), exp(-104.0), tanh(9.1), exp_m1(-18.0)), (infinity, 0.0, 1.0, -1.0));
        // Subnormal.
        assert_eq!(exp(-100.0), 3.8e-44);
    }
}
