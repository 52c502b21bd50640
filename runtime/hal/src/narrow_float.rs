//! Floats of less than 32 bits: a table of formats, and conversions that interpret it.
//!
//! The formats are those of IEEE 754 (`F16`), of arXiv:2209.05433 (`F8E5M2`, `F8E4M3FN`), of arXiv:2206.02915 (the `FNUZ`
//! pair) and of the OCP Microscaling specification 1.0 (`F8E8M0FNU`, the 6- and 4-bit formats).

use crate::bytecode::semantics::round_f64_even;
use crate::{ElementType, NumericalType};

/// The codes of a format that are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// The highest exponent: infinities where the mantissa is 0, else NaN.
    Ieee,
    /// All ones below the sign are NaN; the format has no infinities.
    AllOnesNan,
    /// The code of negative zero is NaN; the format has no infinities and one zero.
    NegativeZeroNan,
    /// Every code is a finite number.
    None,
    /// No sign, zero or mantissa: a power of two, or NaN if all bits are ones.
    Scale,
}

/// A binary float format of at most 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $exponent:literal, $mantissa:literal, $bias:literal, $specials:ident;)*) => {
        impl NarrowFloat {
            $($(#[$doc])*
            pub const $name: NarrowFloat = NarrowFloat {
                exponent_bits: $exponent,
                mantissa_bits: $mantissa,
                bias: $bias,
                specials: Specials::$specials,
            };)*

            /// Every format with its name.
            pub const ALL: &'static [(NarrowFloat, &'static str)] = &[$((NarrowFloat::$name, stringify!($name))),*];
        }
    };
}

formats! {
    /// IEEE 754 binary16.
    F16 = 5, 10, 15, Ieee;
    /// The upper half of a binary32.
    BF16 = 8, 7, 127, Ieee;
    /// 8 bits with the special values of IEEE 754.
    F8E5M2 = 5, 2, 15, Ieee;
    /// 8 bits, finite, one NaN of each sign.
    F8E4M3FN = 4, 3, 7, AllOnesNan;
    /// 8 bits, finite, one zero, one NaN.
    F8E5M2FNUZ = 5, 2, 16, NegativeZeroNan;
    /// 8 bits, finite, one zero, one NaN.
    F8E4M3FNUZ = 4, 3, 8, NegativeZeroNan;
    /// A scale: a power of two of 8 bits.
    F8E8M0FNU = 8, 0, 127, Scale;
    /// 6 bits, all finite.
    F6E3M2FN = 3, 2, 3, None;
    /// 6 bits, all finite.
    F6E2M3FN = 2, 3, 1, None;
    /// 4 bits, all finite.
    F4E2M1FN = 2, 1, 1, None;
}

/// `2^exponent`, for exponents of normal doubles.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

impl NarrowFloat {
    /// Returns the format of an element type, if it is a float of less than 32 bits.
    #[must_use]
    pub fn of(element: ElementType) -> Option<NarrowFloat> {
        match (element.numerical_type()?, element.bit_count()) {
            (NumericalType::Float, 16) => Some(Self::F16),
            (NumericalType::BrainFloat, 16) => Some(Self::BF16),
            (NumericalType::Float8E5M2, 8) => Some(Self::F8E5M2),
            (NumericalType::Float8E4M3Fn, 8) => Some(Self::F8E4M3FN),
            (NumericalType::Float8E5M2Fnuz, 8) => Some(Self::F8E5M2FNUZ),
            (NumericalType::Float8E4M3Fnuz, 8) => Some(Self::F8E4M3FNUZ),
            (NumericalType::Float8E8M0Fnu, 8) => Some(Self::F8E8M0FNU),
            _ => None,
        }
    }

    /// Returns the number of bits of a code, including the sign if the format has one.
    #[must_use]
    pub const fn bit_count(self) -> u32 {
        self.exponent_bits + self.mantissa_bits + if matches!(self.specials, Specials::Scale) { 0 } else { 1 }
    }

    const fn sign_mask(self) -> u16 {
        if matches!(self.specials, Specials::Scale) { 0 } else { 1 << (self.exponent_bits + self.mantissa_bits) }
    }

    const fn mantissa_mask(self) -> u16 {
        (1 << self.mantissa_bits) - 1
    }

    const fn exponent_mask(self) -> u16 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// Decodes a number exactly; bits above [`NarrowFloat::bit_count`] are ignored.
    #[must_use]
    pub fn to_f32(self, code: u16) -> f32 {
        let mantissa = code & self.mantissa_mask();
        let exponent = i32::from((code & self.exponent_mask()) >> self.mantissa_bits);
        let negative = code & self.sign_mask() != 0;
        let top = code & self.exponent_mask() == self.exponent_mask();
        let magnitude = match self.specials {
            Specials::Ieee if top && mantissa == 0 => f32::INFINITY,
            Specials::Ieee if top => f32::NAN,
            Specials::AllOnesNan | Specials::Scale if top && mantissa == self.mantissa_mask() => f32::NAN,
            Specials::NegativeZeroNan if negative && exponent == 0 && mantissa == 0 => return f32::NAN,
            Specials::Scale => power_of_two(exponent - self.bias) as f32,
            _ => {
                let implied = if exponent == 0 { 0 } else { 1 << self.mantissa_bits };
                let unit = power_of_two(exponent.max(1) - self.bias - self.mantissa_bits as i32);
                (f64::from(mantissa + implied) * unit) as f32
            }
        };
        if negative { -magnitude } else { magnitude }
    }

    /// Rounds to the nearest code, ties to even. Overflow yields an infinity, else NaN, else the largest number,
    /// whichever the format has first; NaN becomes 0 if the format has no NaN.
    #[must_use]
    pub fn from_f32(self, value: f32) -> u16 {
        let sign = if value.is_sign_negative() { self.sign_mask() } else { 0 };
        let all_ones = self.exponent_mask() | self.mantissa_mask();
        if value.is_nan() {
            return match self.specials {
                Specials::Ieee | Specials::AllOnesNan | Specials::Scale => sign | all_ones,
                Specials::NegativeZeroNan => self.sign_mask(),
                Specials::None => 0,
            };
        }
        let (largest, overflow) = match self.specials {
            Specials::Ieee => (self.exponent_mask() - 1, sign | self.exponent_mask()),
            Specials::AllOnesNan => (all_ones - 1, sign | all_ones),
            Specials::NegativeZeroNan => (all_ones, self.sign_mask()),
            Specials::None => (all_ones, sign | all_ones),
            Specials::Scale => (all_ones - 1, all_ones),
        };
        if value.is_infinite() {
            return overflow;
        }
        match self.round(f64::from(value)) {
            code if code > i64::from(largest) => overflow,
            0 if self.specials == Specials::NegativeZeroNan => 0,
            code => sign | code as u16,
        }
    }

    /// Returns the code of a finite number's magnitude for an unlimited exponent.
    fn round(self, value: f64) -> i64 {
        if self.specials == Specials::Scale && value <= 0.0 {
            return 0;
        }
        let magnitude = value.abs();
        let exponent = ((magnitude.to_bits() >> 52) as i32) - 1023;
        let lowest = if self.specials == Specials::Scale { -self.bias } else { 1 - self.bias };
        let exponent = exponent.max(lowest);
        let units = round_f64_even(magnitude * power_of_two(self.mantissa_bits as i32 - exponent)) as i64;
        // Units count from the code of the exponent's first number; a carry increments the exponent.
        let first = i64::from(exponent - lowest) << self.mantissa_bits;
        if self.specials == Specials::Scale { (first + units - 1).max(0) } else { first + units }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a value by the definition of the format, as a sum of powers of two.
    fn value_by_definition(format: NarrowFloat, code: u16) -> f64 {
        let bit = |index: u32| f64::from(code >> index & 1);
        let mut exponent = 0;
        for index in 0..format.exponent_bits {
            exponent += i32::from(code >> (format.mantissa_bits + index) & 1) << index;
        }
        let mut value = if exponent > 0 || format.specials == Specials::Scale { 1.0 } else { 0.0 };
        for index in 0..format.mantissa_bits {
            value += bit(index) * 2f64.powi(index as i32 - format.mantissa_bits as i32);
        }
        let exponent = if format.specials == Specials::Scale { exponent } else { exponent.max(1) };
        let sign = if format.bit_count() > format.exponent_bits + format.mantissa_bits {
            1.0 - 2.0 * bit(format.bit_count() - 1)
        } else {
            1.0
        };
        sign * value * 2f64.powi(exponent - format.bias)
    }

    #[test]
    fn every_code_has_the_value_of_its_definition() {
        // Codes of NaN and of infinity of the formats of 8 bits, as their papers list them.
        let nans: [(NarrowFloat, &[u16]); 5] = [
            (NarrowFloat::F8E5M2, &[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]),
            (NarrowFloat::F8E4M3FN, &[0x7F, 0xFF]),
            (NarrowFloat::F8E5M2FNUZ, &[0x80]),
            (NarrowFloat::F8E4M3FNUZ, &[0x80]),
            (NarrowFloat::F8E8M0FNU, &[0xFF]),
        ];
        for &(format, name) in NarrowFloat::ALL {
            if format.bit_count() > 8 {
                continue;
            }
            let nans = nans.iter().find(|(of, _)| *of == format).map_or(&[][..], |(_, codes)| codes);
            for code in 0..1u16 << format.bit_count() {
                let value = format.to_f32(code);
                if nans.contains(&code) {
                    assert!(value.is_nan(), "{name} {code:#x} is {value}");
                } else if format == NarrowFloat::F8E5M2 && code & 0x7F == 0x7C {
                    assert!(value.is_infinite(), "{name} {code:#x} is {value}");
                    assert_eq!(value.is_sign_negative(), code == 0xFC);
                } else {
                    assert_eq!(f64::from(value), value_by_definition(format, code), "{name} {code:#x}");
                }
            }
        }
    }

    #[test]
    fn the_16_bit_formats_are_those_of_half() {
        for code in 0..=u16::MAX {
            let same = |ours: f32, theirs: f32| ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan();
            assert!(same(NarrowFloat::F16.to_f32(code), half::f16::from_bits(code).to_f32()), "{code:#x}");
            assert!(same(NarrowFloat::BF16.to_f32(code), half::bf16::from_bits(code).to_f32()), "{code:#x}");
        }
        // Steps of a prime reach all exponents, both signs, and mantissas of every rounding.
        for bits in (0..=u32::MAX).step_by(4093) {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(NarrowFloat::F16.from_f32(value), half::f16::from_f32(value).to_bits(), "{value}");
                assert_eq!(NarrowFloat::BF16.from_f32(value), half::bf16::from_f32(value).to_bits(), "{value}");
            }
        }
    }

    #[test]
    fn numbers_round_to_the_nearest_code() {
        for &(format, name) in NarrowFloat::ALL {
            let mut finite: Vec<(f64, u16)> = (0..=u16::MAX >> (16 - format.bit_count()))
                .map(|code| (f64::from(format.to_f32(code)), code))
                .filter(|(value, _)| value.is_finite())
                .collect();
            finite.sort_by(|a, b| a.0.total_cmp(&b.0));
            for &(value, code) in &finite {
                assert_eq!(format.from_f32(value as f32), code, "{name} {value}");
            }
            for pair in finite.windows(2) {
                let [(low, low_code), (high, high_code)] = pair else { unreachable!() };
                let middle = ((low + high) / 2.0) as f32;
                if f64::from(middle) != (low + high) / 2.0 || middle == 0.0 {
                    continue;
                }
                let even = if low_code & 1 == 0 { low_code } else { high_code };
                // The scale format has no even code: 1.5 times a power is a tie and rounds up.
                let even = if format == NarrowFloat::F8E8M0FNU { high_code } else { even };
                assert_eq!(format.from_f32(middle), *even, "{name} {middle}");
                assert_eq!(format.from_f32(middle.next_up()), *high_code, "{name} above {middle}");
                assert_eq!(format.from_f32(middle.next_down()), *low_code, "{name} below {middle}");
            }
        }
    }

    #[test]
    fn numbers_out_of_range_saturate_by_format() {
        let large = [1e30f32, f32::INFINITY];
        for value in large {
            assert_eq!(NarrowFloat::F8E5M2.from_f32(value), 0x7C);
            assert_eq!(NarrowFloat::F8E5M2.from_f32(-value), 0xFC);
            assert_eq!(NarrowFloat::F8E4M3FN.from_f32(value), 0x7F);
            assert_eq!(NarrowFloat::F8E5M2FNUZ.from_f32(-value), 0x80);
            assert_eq!(NarrowFloat::F6E3M2FN.from_f32(value), 0x1F);
            assert_eq!(NarrowFloat::F4E2M1FN.from_f32(-value), 0xF);
        }
        // Between the largest number and its absent successor: 464 is a tie and rounds to the even 448; 465 does not.
        assert_eq!(NarrowFloat::F8E4M3FN.from_f32(464.0), 0x7E);
        assert_eq!(NarrowFloat::F8E4M3FN.from_f32(465.0), 0x7F);
        assert_eq!(NarrowFloat::F4E2M1FN.from_f32(7.5), 0x7);
        assert_eq!(NarrowFloat::F8E8M0FNU.from_f32(f32::MAX), 0xFF);
        assert_eq!(NarrowFloat::F8E8M0FNU.from_f32(-3.0), 0);
        assert_eq!(NarrowFloat::F8E8M0FNU.from_f32(0.0), 0);
        assert_eq!(NarrowFloat::F8E4M3FNUZ.from_f32(-0.0), 0);
        assert_eq!(NarrowFloat::F8E4M3FNUZ.from_f32(-1e-9), 0);
        for &(format, name) in NarrowFloat::ALL {
            let code = format.from_f32(f32::NAN);
            let has_nan = format.specials != Specials::None;
            assert_eq!(format.to_f32(code).is_nan(), has_nan, "{name}");
        }
    }
}
