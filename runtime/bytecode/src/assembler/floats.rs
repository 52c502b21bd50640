//! Floating-point constants: decimal, hexadecimal, infinities and NaNs with their payloads.

/// The bits of a 32-bit float's text.
pub(super) fn parse_f32(text: &str) -> Option<u32> {
    special(text, 8, 23).map(|bits| bits as u32).or_else(|| match hexadecimal(text) {
        Some(value) => Some((value as f32).to_bits()),
        None => decimal(text)?.parse::<f32>().ok().filter(|value| value.is_finite()).map(f32::to_bits),
    })
}

/// The bits of a 64-bit float's text.
pub(super) fn parse_f64(text: &str) -> Option<u64> {
    special(text, 11, 52).or_else(|| match hexadecimal(text) {
        Some(value) => Some(value.to_bits()),
        None => decimal(text)?.parse::<f64>().ok().filter(|value| value.is_finite()).map(f64::to_bits),
    })
}

/// Only digits, signs, points and exponents: no word that Rust knows and assembly text does not.
fn decimal(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')).then_some(text)
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// `inf`, `nan`, `nan(0x1)` (quiet, with a payload) and `snan(0x1)` (signalling).
fn special(text: &str, exponent_bits: u32, fraction_bits: u32) -> Option<u64> {
    let (negative, text) = signed(text);
    let exponent = ((1u64 << exponent_bits) - 1) << fraction_bits;
    let quiet = 1u64 << (fraction_bits - 1);
    let payload = |text: &str| {
        let digits = text.strip_prefix("(0x")?.strip_suffix(')')?;
        u64::from_str_radix(digits, 16).ok().filter(|&payload| payload < quiet)
    };
    let fraction = match text {
        "inf" | "infinity" | "INF" | "Infinity" => 0,
        "nan" | "NaN" | "NAN" => quiet,
        _ => match text.strip_prefix("snan") {
            Some(rest) => payload(rest).filter(|&payload| payload != 0)?,
            None => payload(text.strip_prefix("nan")?)? | quiet,
        },
    };
    Some(u64::from(negative) << (exponent_bits + fraction_bits) | exponent | fraction)
}

/// `0x1.8p-3`: hexadecimal digits times a power of two; of those that 64 bits can hold.
fn hexadecimal(text: &str) -> Option<f64> {
    let (negative, text) = signed(text);
    let (digits, exponent) = text.strip_prefix("0x")?.split_once(['p', 'P'])?;
    let mut exponent: i32 = exponent.parse().ok().filter(|exponent| (-4096..4096).contains(exponent))?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut mantissa = 0u64;
    let mut count = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        mantissa = mantissa.checked_mul(16)?.checked_add(u64::from(digit.to_digit(16)?))?;
        count += 1;
    }
    if count == 0 {
        return None;
    }
    exponent -= 4 * i32::try_from(fraction.len()).ok()?;
    let value = libm::ldexp(mantissa as f64, exponent);
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_bits() {
        for (text, bits) in [
            ("1.5", 0x3FC0_0000),
            ("-0", 0x8000_0000),
            ("2.14748365e+09", 0x4F00_0000),
            ("inf", 0x7F80_0000),
            ("-inf", 0xFF80_0000),
            ("nan", 0x7FC0_0000),
            ("-nan(0x1)", 0xFFC0_0001),
            ("snan(0x7)", 0x7F80_0007),
            ("0x1p-149", 1),
            ("-0x7fffffp-149", 0x807F_FFFF),
            ("0x1.8p1", 0x4040_0000),
        ] {
            assert_eq!(parse_f32(text), Some(bits), "{text}");
        }
        assert_eq!(parse_f64("0x1p-1074"), Some(1));
        assert_eq!(parse_f64("1e300"), Some(1e300f64.to_bits()));
        for text in ["", "x", "1e999", "nan(1)", "nan(0x800000)", "snan(0x0)", "infinite", "0xp1", "0x1", "1_0"] {
            assert_eq!(parse_f32(text), None, "{text}");
        }
    }
}
