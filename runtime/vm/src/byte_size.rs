//! Sizes in bytes as users write them.

use alloc::format;
use alloc::string::String;

use crate::{Error, Result};

/// The units, each with the bytes that it stands for.
const UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses a size in bytes: a whole number, and a unit unless it counts bytes. KB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB
/// are powers of 1024. Letters may be of either case, and spaces may precede the unit.
///
/// ```
/// use incarnate_vm::parse_byte_size;
///
/// assert_eq!(parse_byte_size("10MB")?, 10_000_000);
/// assert_eq!(parse_byte_size("2 GiB")?, 2 << 30);
/// assert_eq!(parse_byte_size("4096")?, 4096);
/// # Ok::<(), incarnate_vm::Error>(())
/// ```
///
/// # Errors
/// INVALID_ARGUMENT for other text; OUT_OF_RANGE for a size of 2^64 bytes or more.
pub fn parse_byte_size(text: &str) -> Result<u64> {
    let malformed = || {
        let units: String = UNITS.iter().map(|(unit, _)| format!(", {unit}")).collect();
        Error::invalid_argument(format!(
            "`{text}` is not a size in bytes: write a whole number and a unit, such as 512MiB; the units are {}",
            units.trim_start_matches(", ")
        ))
    };
    let too_large = || Error::out_of_range(format!("`{text}` is 2^64 bytes or more"));
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    if number.is_empty() {
        return Err(malformed());
    }
    let unit = match unit.trim_start() {
        "" => 1,
        unit => UNITS.iter().find(|row| row.0.eq_ignore_ascii_case(unit)).ok_or_else(malformed)?.1,
    };
    // The text consists of digits: parsing fails only where the number is too large.
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(too_large)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn sizes_have_units_of_both_systems() {
        for (text, bytes) in [
            ("0", 0),
            ("64", 64),
            ("7B", 7),
            ("10MB", 10_000_000),
            ("10mb", 10_000_000),
            ("10 MiB", 10 << 20),
            (" 3kib ", 3072),
            ("3KB", 3000),
            ("2GB", 2_000_000_000),
            ("2GiB", 2 << 30),
            ("1TB", 1_000_000_000_000),
            ("16777215TiB", 16_777_215 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_byte_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn other_text_and_overflow_are_refused() {
        for text in ["", "MB", "10XB", "1.5GB", "-1", "+1", "10 M B", "0x10", "1e9", "\u{661}0"] {
            let error = parse_byte_size(text).unwrap_err();
            assert_eq!(error.code(), StatusCode::InvalidArgument, "{text}");
            assert!(error.message().contains("such as 512MiB"), "{error}");
        }
        for text in ["18446744073709551616", "16777216TiB", "99999999999999999999999GB"] {
            assert_eq!(parse_byte_size(text).unwrap_err().code(), StatusCode::OutOfRange, "{text}");
        }
    }
}
