//! Numbers in the notation of C's `printf` and `strtol` families, which IREE's tools use.

use core::fmt;

/// Digits of a number in `%G`.
const SIGNIFICANT_DIGITS: usize = 6;

/// The case of letters in a number: upper (`%G`) or lower (`%g`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
}

/// Formats a number like C's `%G` or `%g`: six significant digits without trailing zeros, and scientific notation if
/// the exponent is below -4 or above 5.
pub(super) fn write_general(out: &mut dyn fmt::Write, value: f64, case: Case) -> fmt::Result {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (nan, infinity, mark) = if case == Case::Upper { ("NAN", "INF", 'E') } else { ("nan", "inf", 'e') };
    if value.is_nan() {
        return write!(out, "{sign}{nan}");
    }
    if value.is_infinite() {
        return write!(out, "{sign}{infinity}");
    }
    if value == 0.0 {
        return write!(out, "{sign}0");
    }
    let scientific = alloc::format!("{:.*e}", SIGNIFICANT_DIGITS - 1, value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= SIGNIFICANT_DIGITS as i32 {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        let mantissa = without_trailing_zeros(mantissa);
        return write!(out, "{sign}{mantissa}{mark}{exponent_sign}{:02}", exponent.abs());
    }
    // The digits are already rounded to six; decimals that end at the same digit round in the same way.
    let decimals = (SIGNIFICANT_DIGITS as i32 - 1 - exponent).max(0) as usize;
    let fixed = alloc::format!("{:.*}", decimals, value.abs());
    write!(out, "{sign}{}", without_trailing_zeros(&fixed))
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Parses an integer like C's `strtol` with base 0 (`12`, `-0x1F`, octal `017`), but rejects trailing text.
pub(super) fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = split_sign(text);
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    // `from_str_radix` accepts another sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Parses a float like C's `strtod` (`1.5`, `-1e-3`, `inf`, `nan`, `0x1p-2`), but rejects trailing text.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    parse_hexadecimal_float(text).or_else(|| text.parse().ok())
}

/// Parses a float like [`parse_float`], rounded once to single precision.
pub(super) fn parse_single(text: &str) -> Option<f32> {
    parse_hexadecimal_float(text).map(|value| value as f32).or_else(|| text.parse().ok())
}

/// Parses `0x1.8p3`. Rejects more than 52 bits of digits instead of rounding them.
fn parse_hexadecimal_float(text: &str) -> Option<f64> {
    let (negative, body) = split_sign(text);
    let body = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"))?;
    let (digits, exponent) = match body.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (body, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut mantissa = 0u64;
    for digit in whole.chars().chain(fraction.chars()) {
        mantissa = mantissa << 4 | u64::from(digit.to_digit(16)?);
        if mantissa >= 1 << 52 {
            return None;
        }
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = exponent.saturating_sub(i32::try_from(fraction.len()).ok()?.saturating_mul(4)).clamp(-4000, 4000);
    // Two steps: a power outside the range of doubles may still have a product inside it.
    let half = exponent / 2;
    let value = mantissa as f64 * 2f64.powi(half) * 2f64.powi(exponent - half);
    Some(if negative { -value } else { value })
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn general(value: f64) -> String {
        let mut text = String::new();
        write_general(&mut text, value, Case::Upper).unwrap();
        text
    }

    #[test]
    fn floats_are_printed_as_printf_prints_them() {
        // The right-hand sides are the output of `printf '%G'` (coreutils, long double) and of Python's `'%G' %`.
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1E-05"),
            (123456.0, "123456"),
            (1234567.0, "1.23457E+06"),
            (999999.5, "1E+06"),
            (999999.4, "999999"),
            (99999.95, "99999.9"),
            (1000005.0, "1E+06"),
            (1000015.0, "1.00002E+06"),
            (0.00009999995, "0.0001"),
            (2.71828999, "2.71829"),
            (1e300, "1E+300"),
            (5e-324, "4.94066E-324"),
            (f64::INFINITY, "INF"),
            (f64::NEG_INFINITY, "-INF"),
            (f64::NAN.copysign(1.0), "NAN"),
            (f64::NAN.copysign(-1.0), "-NAN"),
            (f64::from(f32::from_bits(1)), "1.4013E-45"),
            (2.5, "2.5"),
            (100.0, "100"),
            (-1536.25, "-1536.25"),
        ] {
            assert_eq!(general(value), text, "{value:e}");
        }
        let mut lower = String::new();
        write_general(&mut lower, 1e-7, Case::Lower).unwrap();
        assert_eq!(lower, "1e-07");
    }

    #[test]
    fn integers_are_read_as_c_reads_them() {
        for (text, value) in
            [("5", 5), ("-5", -5), ("+7", 7), ("0x10", 16), ("-0X1f", -31), ("010", 8), ("0", 0), ("00", 0)]
        {
            assert_eq!(parse_integer(text), Some(value), "{text}");
        }
        for text in ["", "-", "1.5", "1a", "0x", "--1", "08", "+-1", "0x-1", " 1"] {
            assert_eq!(parse_integer(text), None, "{text}");
        }
    }

    #[test]
    fn floats_are_read_as_c_reads_them() {
        for (text, value) in [
            ("1.5", 1.5),
            ("-1e3", -1000.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("0x1p3", 8.0),
            ("-0x1.8p-1", -0.75),
            ("0x1p-1074", f64::from_bits(1)),
        ] {
            assert_eq!(parse_float(text), Some(value), "{text}");
        }
        assert!(parse_float("nan").unwrap().is_nan() && parse_single("-NaN").unwrap().is_sign_negative());
        for text in ["", "1a", "e5", "0x", "0xp1", "0x1p", "1 2"] {
            assert_eq!(parse_float(text), None, "{text}");
        }
        // 2^24 + 1 lies between two singles; reading it as double first would round the same, 2^25 + 3 ulp would not.
        assert_eq!(parse_single("16777217"), Some(16_777_216.0));
    }
}
