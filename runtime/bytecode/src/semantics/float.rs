//! Floats: IEEE 754 arithmetic in the register's own precision.
//!
//! Conversions to integers round half away from zero and saturate; NaN becomes zero. `fma` rounds once on
//! every processor, as in IREE: by a library call where the instruction is not known to exist.

/// Functions that `core` lacks, from `std` or else from `libm`.
#[cfg(feature = "std")]
macro_rules! math {
    (f32: $std:ident, $libm32:ident, $libm64:ident) => {
        f32::$std
    };
    (f64: $std:ident, $libm32:ident, $libm64:ident) => {
        f64::$std
    };
}
#[cfg(not(feature = "std"))]
macro_rules! math {
    (f32: $std:ident, $libm32:ident, $libm64:ident) => {
        libm::$libm32
    };
    (f64: $std:ident, $libm32:ident, $libm64:ident) => {
        libm::$libm64
    };
}
/// Functions of `f32` that loops are to vectorise with.
macro_rules! vectorised {
    (f32: $std:ident, $libm32:ident, $libm64:ident) => {
        super::transcendental::$std
    };
    (f64: $std:ident, $libm32:ident, $libm64:ident) => {
        math!(f64: $std, $libm32, $libm64)
    };
}
/// As [`vectorised`], for a function that `std` lacks.
macro_rules! error_function {
    (f32) => {
        super::transcendental::erf
    };
    (f64) => {
        libm::erf
    };
}
/// Products plus sums, rounded once: by an instruction, or by the platform's library. Those of musl and Windows, and `libm`, which
/// WebAssembly has, round some results in `f32` twice.
#[cfg(all(
    feature = "std",
    any(
        target_arch = "aarch64",
        target_feature = "fma",
        not(any(target_family = "wasm", target_env = "musl", windows))
    )
))]
macro_rules! fused {
    ($float:ident) => {
        $float::mul_add
    };
}
#[cfg(not(all(
    feature = "std",
    any(
        target_arch = "aarch64",
        target_feature = "fma",
        not(any(target_family = "wasm", target_env = "musl", windows))
    )
)))]
macro_rules! fused {
    (f32) => {
        fma_by_f64
    };
    (f64) => {
        math!(f64: mul_add, fmaf, fma)
    };
}
macro_rules! libm_only {
    (f32: $libm32:ident, $libm64:ident) => {
        libm::$libm32
    };
    (f64: $libm32:ident, $libm64:ident) => {
        libm::$libm64
    };
}

macro_rules! floats {
    ($($float:ident [$($name:ident)*];)*) => { $(floats!(@one $float $($name)*);)* };
    (@one $float:ident
        $add:ident $sub:ident $mul:ident $div:ident $rem:ident $fma:ident $abs:ident $neg:ident $ceil:ident $floor:ident
        $round:ident $round_even:ident $min:ident $max:ident $select:ident
        $atan:ident $atan2:ident $cos:ident $sin:ident $exp:ident $exp2:ident $expm1:ident $log:ident $log10:ident
        $log1p:ident $log2:ident $pow:ident $rsqrt:ident $sqrt:ident $tanh:ident $erf:ident
        $eq_o:ident $eq_u:ident $ne_o:ident $ne_u:ident $lt_o:ident $lt_u:ident $lte_o:ident $lte_u:ident $nan:ident
        $fpowi:ident) => {
        floats! { @binary $float
            $add "Sum." |left, right| left + right;
            $sub "Difference." |left, right| left - right;
            $mul "Product." |left, right| left * right;
            $div "Quotient." |left, right| left / right;
            $rem "IEEE remainder: the quotient is rounded to nearest, ties to even." libm_only!($float: remainderf, remainder);
            $min "The lesser; the left one where they do not compare." |left, right| if right < left { right } else { left };
            $max "The greater; the left one where they do not compare." |left, right| if left < right { right } else { left };
            $atan2 "Angle of the point (right, left)." vectorised!($float: atan2, atan2f, atan2);
            $pow "Power." vectorised!($float: powf, powf, pow);
        }
        floats! { @unary $float
            $abs "Absolute value." math!($float: abs, fabsf, fabs);
            $neg "Negation." |operand: $float| -operand;
            $ceil "Least integer not below." math!($float: ceil, ceilf, ceil);
            $floor "Greatest integer not above." math!($float: floor, floorf, floor);
            $round "Nearest integer, ties away from zero." math!($float: round, roundf, round);
            $round_even "Nearest integer, ties to even." math!($float: round_ties_even, rintf, rint);
            $atan "Arc tangent." vectorised!($float: atan, atanf, atan);
            $cos "Cosine." vectorised!($float: cos, cosf, cos);
            $sin "Sine." vectorised!($float: sin, sinf, sin);
            $exp "Power of e." vectorised!($float: exp, expf, exp);
            $exp2 "Power of two." vectorised!($float: exp2, exp2f, exp2);
            $expm1 "Power of e, less one." vectorised!($float: exp_m1, expm1f, expm1);
            $log "Natural logarithm." vectorised!($float: ln, logf, log);
            $log10 "Logarithm to the base 10." vectorised!($float: log10, log10f, log10);
            $log1p "Natural logarithm of one more." vectorised!($float: ln_1p, log1pf, log1p);
            $log2 "Logarithm to the base 2." vectorised!($float: log2, log2f, log2);
            $sqrt "Square root." math!($float: sqrt, sqrtf, sqrt);
            $rsqrt "Reciprocal of the square root." |operand| 1.0 / $sqrt(operand);
            $tanh "Hyperbolic tangent." vectorised!($float: tanh, tanhf, tanh);
            $erf "Error function." error_function!($float);
        }
        floats! { @compare $float
            $eq_o "Equal, and ordered." |left, right| left == right;
            $eq_u "Equal or unordered." |left: $float, right: $float| left == right || left.is_nan() || right.is_nan();
            $ne_o "Not equal; true for unordered operands, as the reference interpreter has it." |left, right| left != right;
            $ne_u "Not equal or unordered." |left, right| left != right;
            $lt_o "Less, and ordered." |left, right| left < right;
            $lt_u "Less or unordered." |left, right| !(left >= right);
            $lte_o "Not greater, and ordered." |left, right| left <= right;
            $lte_u "Not greater or unordered." |left, right| !(left > right);
        }
        /// `first * second + third`, rounded once.
        #[inline(always)]
        #[must_use]
        pub fn $fma(first: $float, second: $float, third: $float) -> $float {
            let fused: fn($float, $float, $float) -> $float = fused!($float);
            fused(first, second, third)
        }
        /// The first value where the condition is not zero, else the second.
        #[inline(always)]
        #[must_use]
        pub const fn $select(condition: i32, true_value: $float, false_value: $float) -> $float {
            if condition != 0 { true_value } else { false_value }
        }
        /// An integral power, by squaring: each product is rounded, and a negative power is the reciprocal of the positive one.
        #[inline(always)]
        #[must_use]
        pub fn $fpowi(base: $float, exponent: i64) -> $float {
            let (mut square, mut rest, mut power) = (base, exponent.unsigned_abs(), 1.0);
            while rest != 0 {
                if rest & 1 != 0 {
                    power *= square;
                }
                rest >>= 1;
                square *= square;
            }
            if exponent < 0 { 1.0 / power } else { power }
        }
        /// Not a number.
        #[inline(always)]
        #[must_use]
        pub const fn $nan(operand: $float) -> i32 {
            operand.is_nan() as i32
        }
    };
    (@binary $float:ident $($name:ident $doc:literal $function:expr;)*) => {
        $(#[doc = $doc]
        #[inline(always)]
        #[must_use]
        pub fn $name(left: $float, right: $float) -> $float {
            let function: fn($float, $float) -> $float = $function;
            function(left, right)
        })*
    };
    (@unary $float:ident $($name:ident $doc:literal $function:expr;)*) => {
        $(#[doc = $doc]
        #[inline(always)]
        #[must_use]
        pub fn $name(operand: $float) -> $float {
            let function: fn($float) -> $float = $function;
            function(operand)
        })*
    };
    (@compare $float:ident $($name:ident $doc:literal $function:expr;)*) => {
        $(#[doc = $doc]
        #[inline(always)]
        #[must_use]
        #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "unordered operands compare true")]
        pub fn $name(left: $float, right: $float) -> i32 {
            let function: fn($float, $float) -> bool = $function;
            i32::from(function(left, right))
        })*
    };
}

floats! {
    f32 [add_f32 sub_f32 mul_f32 div_f32 rem_f32 fma_f32 abs_f32 neg_f32 ceil_f32 floor_f32 round_f32 round_f32_even
        min_f32 max_f32 select_f32 atan_f32 atan2_f32 cos_f32 sin_f32 exp_f32 exp2_f32 expm1_f32 log_f32 log10_f32
        log1p_f32 log2_f32 pow_f32 rsqrt_f32 sqrt_f32 tanh_f32 erf_f32 cmp_eq_f32_o cmp_eq_f32_u cmp_ne_f32_o
        cmp_ne_f32_u cmp_lt_f32_o cmp_lt_f32_u cmp_lte_f32_o cmp_lte_f32_u cmp_nan_f32 fpowi_f32];
    f64 [add_f64 sub_f64 mul_f64 div_f64 rem_f64 fma_f64 abs_f64 neg_f64 ceil_f64 floor_f64 round_f64 round_f64_even
        min_f64 max_f64 select_f64 atan_f64 atan2_f64 cos_f64 sin_f64 exp_f64 exp2_f64 expm1_f64 log_f64 log10_f64
        log1p_f64 log2_f64 pow_f64 rsqrt_f64 sqrt_f64 tanh_f64 erf_f64 cmp_eq_f64_o cmp_eq_f64_u cmp_ne_f64_o
        cmp_ne_f64_u cmp_lt_f64_o cmp_lt_f64_u cmp_lte_f64_o cmp_lte_f64_u cmp_nan_f64 fpowi_f64];
}

macro_rules! conversions {
    ($($name:ident: $from:ident => $to:ident, |$operand:ident| $convert:expr;)*) => {
        $(/// The conversion that the name says.
        #[inline(always)]
        #[must_use]
        pub fn $name($operand: $from) -> $to {
            $convert
        })*
    };
}
conversions! {
    cast_si32_f32: i32 => f32, |v| v as f32;
    cast_ui32_f32: i32 => f32, |v| v as u32 as f32;
    cast_si64_f32: i64 => f32, |v| v as f32;
    cast_ui64_f32: i64 => f32, |v| v as u64 as f32;
    cast_f32_si32: f32 => i32, |v| round_f32(v) as i32;
    cast_f32_ui32: f32 => i32, |v| round_f32(v) as i64 as u32 as i32;
    cast_f32_si64: f32 => i64, |v| i64_of_integral(round_f32(v));
    cast_f32_ui64: f32 => i64, |v| round_f32(v) as u64 as i64;
    bitcast_i32_f32: i32 => f32, |v| f32::from_bits(v as u32);
    bitcast_f32_i32: f32 => i32, |v| v.to_bits() as i32;
    trunc_f64_f32: f64 => f32, |v| v as f32;
    ext_f32_f64: f32 => f64, |v| f64::from(v);
    cast_si32_f64: i32 => f64, |v| f64::from(v);
    cast_ui32_f64: i32 => f64, |v| f64::from(v as u32);
    cast_f64_si32: f64 => i32, |v| round_f64(v) as i32;
    cast_f64_ui32: f64 => i32, |v| round_f64(v) as i64 as u32 as i32;
    cast_si64_f64: i64 => f64, |v| v as f64;
    cast_ui64_f64: i64 => f64, |v| v as u64 as f64;
    cast_f64_si64: f64 => i64, |v| round_f64(v) as i64;
    cast_f64_ui64: f64 => i64, |v| round_f64(v) as u64 as i64;
    bitcast_i64_f64: i64 => f64, |v| f64::from_bits(v as u64);
    bitcast_f64_i64: f64 => i64, |v| v.to_bits() as i64;
}

/// The cast of a number without a fraction by `as`, in operations that all vectors have: LLVM 22 casts to 64 bits one by one. A number is
/// added to one whose unit in the last place is one. What is too large for that is a multiple of 2^28: it is scaled, and its integer
/// shifted back.
#[inline(always)]
fn i64_of_integral(v: f32) -> i64 {
    const LARGE: f32 = 2_251_799_813_685_248.0;
    /// 3 * 2^51: the sum with what is less than 2^51 has the bits of the integer in its last ones.
    const UNITS: f64 = 6_755_399_441_055_744.0;
    const SCALE: u32 = 24;
    const END: f32 = 9_223_372_036_854_775_808.0;
    let is_small = v.abs() < LARGE;
    let bounded = if v < -END { -END } else { v };
    let scaled = if is_small { bounded } else { bounded * (1.0 / (1u32 << SCALE) as f32) };
    let bits = (f64::from(scaled) + UNITS).to_bits().wrapping_sub(UNITS.to_bits()) as i64;
    let bits = if is_small { bits } else { bits << SCALE };
    let bits = if v >= END { i64::MAX } else { bits };
    if v.is_nan() { 0 } else { bits }
}

/// `first * second + third`, rounded once, where no function of the platform is known to do so. The product is exact in `f64`. The sum
/// is rounded so that the last bit of what is not exact is a one: it is then no middle between two numbers of `f32`, normal or not,
/// and on the right side of it, so that the second rounding is that of the exact sum.
#[allow(dead_code, reason = "where the platform does so, it is tested only")]
fn fma_by_f64(first: f32, second: f32, third: f32) -> f32 {
    let (product, third) = (f64::from(first) * f64::from(second), f64::from(third));
    let sum = product + third;
    // What the addition has rounded off, exactly (Knuth's two-sum); not a number if the sum is none.
    let of_third = sum - product;
    let rest = (product - (sum - of_third)) + (third - of_third);
    let bits = sum.to_bits();
    let odd = match bits & 1 == 0 && rest.abs() > 0.0 {
        true if (rest < 0.0) == (sum < 0.0) => bits + 1,
        true => bits - 1,
        false => bits,
    };
    f64::from_bits(odd) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_half_away_and_saturate() {
        assert_eq!(cast_f32_si32(2.5), 3);
        assert_eq!(cast_f32_si32(-2.5), -3);
        assert_eq!(cast_f32_si32(f32::NAN), 0);
        assert_eq!(cast_f32_si32(1e20), i32::MAX);
        assert_eq!(cast_f32_ui32(4e9) as u32, 4_000_000_000);
        assert_eq!(cast_f64_si32(16_777_217.0), 16_777_217);
    }

    #[test]
    fn rounding_and_remainder_follow_ieee() {
        assert_eq!(round_f32_even(2.5), 2.0);
        assert_eq!(round_f32(2.5), 3.0);
        assert_eq!(rem_f32(7.0, 4.0), -1.0);
        assert_eq!(min_f64(f64::NAN, 1.0).to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn casts_to_64_bits_saturate() {
        let mut bits = 88_172_645_463_325_252u64;
        for at in 0..100_000 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            for number in [f64::from_bits(bits).round(), (bits as i64 >> (at % 64)) as f64] {
                assert_eq!(cast_f64_si64(number), number as i64, "{number}");
            }
            let number = f32::from_bits(bits as u32).round();
            assert_eq!(cast_f32_si64(number), number as i64, "{number}");
        }
        let end = 2f64.powi(63);
        for number in [0.0, -0.0, 0.5, -2.5, end, -end, end * 1.5, -end * 1.5, 2f64.powi(52) + 1.0, 2f64.powi(53) - 1.0]
        {
            assert_eq!(cast_f64_si64(number), number.round() as i64, "{number}");
        }
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(cast_f64_si64), [0, i64::MAX, i64::MIN]);
    }

    #[test]
    fn casts_of_all_exponents_to_64_bits_are_those_of_the_language() {
        // Of each sign and exponent, the first numbers, the last ones and some between.
        for upper in 0..1u32 << 9 {
            for lower in (0..16).chain((1..64).map(|at| at * 0x1_F35B)).chain((1 << 23) - 16..1 << 23) {
                let number = f32::from_bits(upper << 23 | lower).round();
                assert_eq!(cast_f32_si64(number), number as i64, "{number}");
            }
        }
        assert_eq!([0.5, -2.5, -0.4].map(cast_f32_si64), [1, -3, 0]);
        assert_eq!([f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(cast_f32_si64), [0, i64::MAX, i64::MIN]);
    }

    /// As iree-run-module 3.13.0 has it.
    #[test]
    fn integral_powers_square() {
        let cases = [
            (1.0, 2, 1.0),
            (2.0, 3, 8.0),
            (-4.0, 3, -64.0),
            (0.0, 0, 1.0),
            (-0.5, -3, -8.0),
            (-0.0, -1, f32::NEG_INFINITY),
        ];
        for (base, exponent, power) in cases {
            assert_eq!(fpowi_f32(base, exponent), power, "{base} {exponent}");
        }
        // Rounded at each product, neither once nor by `powf`.
        assert_eq!((fpowi_f32(1.280_845_3, 6), fpowi_f32(-0.264_209_72, -7)), (4.415_502, -11_126.497));
        assert_eq!(
            (fpowi_f32(f32::NAN, 0), fpowi_f32(-1.0, (1 << 40) + 1), fpowi_f32(1.5, i64::MIN)),
            (1.0, -1.0, 0.0)
        );
        assert_eq!(fpowi_f64(1.5, 40), 11_057_332.320_940_012);
    }

    #[test]
    fn unordered_comparisons_hold_for_nan() {
        assert_eq!((cmp_lt_f32_o(f32::NAN, 1.0), cmp_lt_f32_u(f32::NAN, 1.0)), (0, 1));
        assert_eq!((cmp_eq_f64_o(1.0, f64::NAN), cmp_eq_f64_u(1.0, f64::NAN)), (0, 1));
        assert_eq!((cmp_lte_f32_o(1.0, 1.0), cmp_lte_f32_u(2.0, 1.0)), (1, 0));
        assert_eq!(cmp_nan_f64(f64::NAN), 1);
    }

    /// Factors, a sum and the result, by bits.
    #[test]
    fn fma_rounds_once() {
        const CASES: [[u32; 4]; 9] = [
            // (1 + 2^-23) (1 - 2^-23) 2^-150 + 2^-127 + 2^-149: just below the middle between two subnormal numbers.
            [0x1A00_0001, 0x19FF_FFFE, 0x0040_0001, 0x0040_0001],
            // (1 + 2^-23) (1 - 2^-23) 2^-24 + 1 + 2^-23: just below the middle between two normal numbers. And its negative.
            [0x3980_0001, 0x397F_FFFE, 0x3F80_0001, 0x3F80_0001],
            [0xB980_0001, 0x397F_FFFE, 0xBF80_0001, 0xBF80_0001],
            [0x3F80_0001, 0x3380_0001, 0x3F80_0001, 0x3F80_0002],
            [0x3F7F_FFFE, 0xB380_0001, 0xBF80_0000, 0xBF80_0000],
            [0x0000_0000, 0x3F80_0000, 0x0000_0000, 0x0000_0000],
            [0x8000_0000, 0x3F80_0000, 0x8000_0000, 0x8000_0000],
            [0x7F7F_FFFF, 0x4000_0000, 0x0000_0000, 0x7F80_0000],
            [0x7F7F_FFFF, 0x4000_0000, 0xFF80_0000, 0xFF80_0000],
        ];
        for [first, second, third, expected] in CASES {
            let [first, second, third] = [first, second, third].map(f32::from_bits);
            let found = [fma_f32(first, second, third), fma_by_f64(first, second, third)].map(f32::to_bits);
            assert_eq!(found, [expected; 2], "{first:e} * {second:e} + {third:e}");
        }
        assert!(fma_by_f64(f32::INFINITY, 0.0, 1.0).is_nan());
    }

    /// Random bits, of which many are subnormal numbers and sums that cancel.
    #[test]
    fn fma_by_f64_is_the_fused_operation() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for _ in 0..1_000_000 {
            // Exponents that meet, and mantissas with few bits, whose products are often near a middle.
            let exponent = random() % 150;
            let mantissa = |bits: u32| bits & [0x7F_FFFF, 0x40_0001, 0x7F_F000, 0x3][(bits >> 24) as usize % 4];
            let sign = |bits: u32| bits & 0x8000_0000;
            let (a, b, c) = (random(), random(), random());
            let first = sign(a) | (64 + exponent / 2) << 23 | mantissa(a);
            let second = sign(b) | (63 + exponent - exponent / 2 - 1 + b % 3) << 23 | mantissa(b);
            let third = sign(c) | ((exponent + 24).saturating_sub(c % 50)) << 23 | mantissa(c);
            let [first, second, third] = [first, second, third].map(f32::from_bits);
            let (found, expected) = (fma_by_f64(first, second, third), fma_f32(first, second, third));
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{first:e} * {second:e} + {third:e}: {found:e}, not {expected:e}"
            );
        }
    }
}
