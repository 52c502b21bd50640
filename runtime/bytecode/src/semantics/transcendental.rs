//! Exponentials, logarithms, powers, the hyperbolic tangent, the error function and functions of angles of `f32`, named as in
//! `std`.
//!
//! They neither branch nor look up tables, and use what every vector unit has (no conversion between `f64` and `i64`, which SSE2
//! and AVX2 lack), so that loops over elements vectorise with them. Products and sums are rounded each, hence the bits are the same on
//! all processors.
//!
//! Powers of e and the hyperbolic tangent, in which models spend most of their time here, are computed in `f32`, with an error of less
//! than 1.1 ULP (2.6 ULP for the tangent). The others are computed in `f64`, to ten digits, and rounded once: the result is the nearest
//! `f32` but where the exact one lies within a hundredth of an ULP from the middle between two (a twentieth for powers).

use core::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, LOG10_2, LOG10_E, PI, SQRT_2};

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

/// The exponent of 1 in an `f32`.
const BIAS: u32 = 127;

/// Two to a power, whose sum with the bias is in the lowest nine bits. Those above are lost.
#[inline(always)]
const fn power_of_two(biased: u32) -> f32 {
    f32::from_bits(biased << (f32::MANTISSA_DIGITS - 1))
}

/// `r`, and the exponent of a power of two, where `e^x` is `1 + r` times that power, for x between -104 and 89. `r` is between `-0.3` and
/// `0.42`. The exponent is in the lowest nine bits of the number, with twice the bias.
#[inline(always)]
fn exp_f32(x: f32) -> (f32, u32) {
    use core::f32::consts::LOG2_E;

    /// Where the distance of neighbouring `f32` is one, and the lowest bits are twice the bias.
    const INTEGERS: f32 = 12_582_912.0 + 2.0 * BIAS as f32;
    /// `ln(2)` to nine bits, whose products with integers below 2^15 are exact, and what is left.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let biased = x * LOG2_E + INTEGERS;
    let power = biased - INTEGERS;
    let x = (x - power * LN_2[0]) - power * LN_2[1];
    // Interpolated in the zeros of a Chebyshev polynomial, with an error of 3e-8 of the result, and of 1e-8 of `1 + r`.
    let square = x * x;
    let high = (0.041_666_556 + 0.008_363_203 * x) + 0.001_392_621_3 * square;
    let near_zero = x + ((0.5 + 0.166_665_76 * x) + high * square) * square;
    (near_zero, biased.to_bits())
}

#[inline(always)]
pub(super) fn exp(operand: f32) -> f32 {
    // Beyond are infinity and zero.
    let below = if operand > 89.0 { 89.0 } else { operand };
    let (near_zero, power) = exp_f32(if below < -104.0 { -104.0 } else { below });
    // By two factors, since a subnormal result is less than the least power that is normal. Each has half of the exponent, and a bias.
    let half = power >> 1;
    (1.0 + near_zero) * power_of_two(half) * power_of_two(power - half)
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
    let x = operand.abs();
    // Beyond is 1.
    let (near_zero, power) = exp_f32(if x > 10.0 { 10.0 } else { x } * 2.0);
    let scale = power_of_two(power - BIAS);
    // e^(2x) - 1
    let exp_m1 = scale * near_zero + (scale - 1.0);
    (exp_m1 / (exp_m1 + 2.0)).copysign(operand)
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

/// An integer that is nearest. Below 2^51 in magnitude.
#[inline(always)]
fn nearest(x: f64) -> f64 {
    (x + INTEGERS) - INTEGERS
}

#[inline(always)]
pub(super) fn powf(base: f32, exponent: f32) -> f32 {
    let magnitude = f64::from(base.abs());
    let (power, rest) = logarithm(magnitude);
    // The operand itself where it is infinite or NaN.
    let positive = if magnitude < f64::INFINITY { power + rest * LOG2_E } else { magnitude };
    let logarithm = if magnitude == 0.0 { f64::NEG_INFINITY } else { positive };
    let product = f64::from(exponent) * logarithm;
    // Beyond are infinity and zero.
    let below = if product > 129.0 { 129.0 } else { product };
    let product = if below < -151.0 { -151.0 } else { below };
    let (power, scale) = nearest_power(product);
    let raised = (scale + scale * exp_m1_near_zero((product - power) * LN_2)) as f32;
    let raised = if magnitude == 1.0 && !exponent.is_nan() { 1.0 } else { raised };
    // Greater exponents are even.
    let size = f64::from(exponent.abs());
    let size = if size > 33_554_432.0 { 33_554_432.0 } else { size };
    let integer = size + INTEGERS;
    let is_integer = integer - INTEGERS == size;
    let is_odd = is_integer & (integer.to_bits() & 1 != 0);
    let signed = if is_odd { raised.copysign(base) } else { raised };
    let is_real = is_integer | (base >= 0.0) | base.is_nan() | (base == f32::NEG_INFINITY);
    let real = if is_real { signed } else { f32::NAN };
    if (exponent == 0.0) | (base == 1.0) { 1.0 } else { real }
}

/// The turns of an angle of one, in parts of 26 bits, whose products with an `f32` are exact, and what is left.
const TURNS: [f64; 6] = [
    0.15915494039654732,
    2.6953480003477637e-09,
    1.791623658671166e-17,
    6.913260073140178e-25,
    2.5454160182835583e-33,
    7.859136888729011e-41,
];

/// Sine and cosine of a magnitude, which is finite, and the quarters of a turn that are to be added: an integer in the
/// lowest bits.
#[inline(always)]
fn angle(magnitude: f64) -> (f64, f64, u64) {
    // Whole turns are left out of each part, before they are added.
    let mut turns = 0.0;
    for (index, part) in TURNS.into_iter().enumerate() {
        let product = magnitude * part;
        // Whole turns, as products have 50 bits.
        let rest = if index < 3 && product >= 1_125_899_906_842_624.0 { 0.0 } else { product };
        turns += if index < 5 { rest - nearest(rest) } else { rest };
    }
    let quarters = turns * 4.0;
    let biased = quarters + INTEGERS;
    let x = (quarters - (biased - INTEGERS)) * FRAC_PI_2;
    let square = x * x;
    // Interpolated as above, with errors of 5e-12 and 7e-11 of the results.
    let sine = (0.9999999999956709 - 0.16666666631577168 * square)
        + (0.008333328781097757 - 0.00019839201800436314 * square + 2.717341870116158e-6 * (square * square))
            * (square * square);
    let cosine = (0.9999999999524657 - 0.49999999614703977 * square)
        + (0.04166661667759459 - 0.001388661754772064 * square + 2.4379789395383755e-5 * (square * square))
            * (square * square);
    (x * sine, cosine, biased.to_bits())
}

#[inline(always)]
pub(super) fn sin(operand: f32) -> f32 {
    let (sine, cosine, quarters) = angle(f64::from(operand.abs()));
    let result = if quarters & 1 != 0 { cosine } else { sine };
    let sign = (quarters & 2) << 62 ^ u64::from(operand.to_bits() >> 31) << 63;
    let result = f64::from_bits(result.to_bits() ^ sign) as f32;
    if operand.abs() < f32::INFINITY { result } else { f32::NAN }
}

#[inline(always)]
pub(super) fn cos(operand: f32) -> f32 {
    let (sine, cosine, quarters) = angle(f64::from(operand.abs()));
    let result = if quarters & 1 != 0 { sine } else { cosine };
    let sign = (quarters.wrapping_add(1) & 2) << 62;
    let result = f64::from_bits(result.to_bits() ^ sign) as f32;
    if operand.abs() < f32::INFINITY { result } else { f32::NAN }
}

#[inline(always)]
pub(super) fn atan2(ordinate: f32, abscissa: f32) -> f32 {
    // Where both are infinite they are equal.
    let finite = |x: f64| if x > 1e300 { 1e300 } else { x };
    let (high, wide) = (finite(f64::from(ordinate.abs())), finite(f64::from(abscissa.abs())));
    let is_steep = high > wide;
    let (less, greater) = if is_steep { (wide, high) } else { (high, wide) };
    // Above an eighth of a half turn as its difference to a quarter of one.
    let is_above = less > greater * (SQRT_2 - 1.0);
    let (dividend, divisor) = if is_above { (less - greater, less + greater) } else { (less, greater) };
    let tangent = dividend / if divisor == 0.0 { 1.0 } else { divisor };
    let square = tangent * tangent;
    let fourth = square * square;
    // Interpolated as above, with an error of 2e-11 of the result.
    let low = (0.9999999999783846 - 0.33333332096926027 * square)
        + (0.19999883803853233 - 0.1428158730709012 * square) * fourth;
    let high = (0.11040471009581072 - 0.0845608946699897 * square) + 0.047071296552574506 * fourth;
    let angle = tangent * (low + high * (fourth * fourth));
    let angle = if is_above { FRAC_PI_4 + angle } else { angle };
    let angle = if is_steep { FRAC_PI_2 - angle } else { angle };
    let angle = if abscissa.is_sign_negative() { PI - angle } else { angle };
    let angle = if ordinate.is_nan() | abscissa.is_nan() { f64::NAN } else { angle };
    (angle as f32).copysign(ordinate)
}

#[inline(always)]
pub(super) fn atan(operand: f32) -> f32 {
    atan2(operand, 1.0)
}

/// The sum of powers of x times the numbers, the least power first: even and odd powers side by side.
#[inline(always)]
fn polynomial<const N: usize>(factors: &[f64; N], x: f64) -> f64 {
    let (square, mut sums) = (x * x, [0.0; 2]);
    let mut power = N;
    while power > 0 {
        power -= 1;
        sums[power % 2] = sums[power % 2] * square + factors[power];
    }
    sums[0] + sums[1] * x
}

#[inline(always)]
pub(super) fn erf(operand: f32) -> f32 {
    /// erf(x) / x for x between 0 and 1, by the square of x, with an error of 4e-11.
    const NEAR_ZERO: [f64; 8] = [
        1.1283791670615435,
        -0.3761263846802871,
        0.11283782495236845,
        -0.026865430727670243,
        0.005221031807858023,
        -0.0008484080405535107,
        0.00011265959025606609,
        -9.667044571486996e-6,
    ];
    /// erf(x) for x between 1 and 4, by x - 5/2, with an error of 2e-10.
    const BEYOND: [f64; 18] = [
        0.9995930478513905,
        0.002178284230102943,
        -0.005445701119222516,
        0.008350089564336456,
        -0.008622487928327666,
        0.006117348240709793,
        -0.002797968482814732,
        0.0005424081646991613,
        0.00025945266908571307,
        -0.0002502743287885237,
        8.041534432093938e-5,
        5.108798022442378e-6,
        -1.5359386286426237e-5,
        4.730107063912276e-6,
        7.9170270535196e-7,
        -6.732363791577049e-7,
        1.0937593684177202e-8,
        3.3670660638149515e-8,
    ];
    let magnitude = operand.abs();
    // Beyond is 1.
    let x = f64::from(if magnitude > 4.0 { 4.0 } else { magnitude });
    let near = x * polynomial(&NEAR_ZERO, x * x);
    let result = if x < 1.0 { near } else { polynomial(&BEYOND, x - 2.5) };
    (result as f32).copysign(operand)
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
        type Functions = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);
        let functions: [Functions; 12] = [
            ("exp", exp, libm::exp, 1.1),
            ("exp2", exp2, libm::exp2, 0.51),
            ("exp_m1", exp_m1, libm::expm1, 0.51),
            ("tanh", tanh, libm::tanh, 2.6),
            ("erf", erf, libm::erf, 0.51),
            ("ln", ln, libm::log, 0.51),
            ("log2", log2, libm::log2, 0.51),
            ("log10", log10, libm::log10, 0.51),
            ("ln_1p", ln_1p, libm::log1p, 0.51),
            ("sin", sin, libm::sin, 0.51),
            ("cos", cos, libm::cos, 0.51),
            ("atan", atan, libm::atan, 0.51),
        ];
        for (name, function, exact, greatest) in functions {
            // All signs and exponents; the step is odd, hence all low bits.
            let bits = (0..=u32::MAX).step_by(if cfg!(miri) { 99_999_989 } else { 99_991 });
            // The greatest errors of `exp` and `tanh` that are known.
            for operand in bits.map(f32::from_bits).chain([-27.379_202, 0.062_187_92]) {
                let result = function(operand);
                let error = error(result, exact(f64::from(operand)));
                assert!(error < greatest, "{name}({operand:e}) = {result:e}: {error}");
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
            assert_eq!(log10(libm::pow(10.0, power.into()) as f32), f32::from(power));
        }
        assert_eq!((exp(88.8), exp(-104.0), tanh(9.1), exp_m1(-18.0)), (infinity, 0.0, 1.0, -1.0));
        assert_eq!([erf(0.0), erf(infinity), erf(-infinity), erf(1e-45)], [0.0, 1.0, -1.0, 1e-45]);
        assert!(erf(-0.0).is_sign_negative() && erf(f32::NAN).is_nan());
        // Subnormal.
        assert_eq!(exp(-100.0), 3.8e-44);
    }

    /// Operands of all signs and exponents, and what is special.
    fn operands() -> impl Iterator<Item = f32> {
        let special =
            [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 16_777_215.0, 16_777_216.0, f32::MAX, 1e-45, f32::INFINITY, f32::NAN];
        let step = if cfg!(miri) { 499_999_993 } else { 4_999_999 };
        special.into_iter().flat_map(|x| [x, -x]).chain((0..=u32::MAX).step_by(step).map(f32::from_bits))
    }

    #[test]
    fn results_of_two_operands_are_nearly_always_the_nearest() {
        for left in operands() {
            for right in operands() {
                let (result, exact) = (powf(left, right), libm::pow(left.into(), right.into()));
                assert!(error(result, exact) < 0.55, "{left:e} to the {right:e}: {result:e}, not {exact:e}");
                let (result, exact) = (atan2(left, right), libm::atan2(left.into(), right.into()));
                assert!(error(result, exact) < 0.51, "angle of {right:e}, {left:e}: {result:e}, not {exact:e}");
            }
        }
        // Bases near one, with exponents that lead to the greatest powers.
        for step in 1..2000u16 {
            let base = 1.0 + f32::from(step) / 4096.0;
            let exponent = 88.0 / base.ln();
            for (base, exponent) in [(base, exponent), (base, -exponent), (1.0 / base, exponent)] {
                let (result, exact) = (powf(base, exponent), libm::pow(base.into(), exponent.into()));
                assert!(error(result, exact) < 0.55, "{base:e} to the {exponent:e}: {result:e}, not {exact:e}");
            }
        }
    }
}
