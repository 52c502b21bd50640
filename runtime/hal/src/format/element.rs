//! Text of one element: a number if the element type is known, otherwise its bytes in hexadecimal.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use super::number::{Case, parse_float, parse_integer, parse_single, write_general};
use crate::narrow_float::NarrowFloat;
use crate::{ElementType, NumericalType};
use crate::{Error, Result};

/// The notation of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// A decimal number; `signed` tells how to read the bits. [`bounds`] has the range for parsing.
    Integer {
        signed: bool,
    },
    /// A narrow float.
    Narrow(NarrowFloat),
    Single,
    Double,
    /// Two digits for each byte, in memory order.
    Bytes,
}

impl Notation {
    fn of(element: ElementType) -> Notation {
        let integer = matches!(element.bit_count(), 1 | 2 | 4 | 8 | 16 | 32 | 64);
        match (element.numerical_type(), element.bit_count()) {
            (Some(NumericalType::Integer | NumericalType::SignedInteger), _) if integer => {
                Notation::Integer { signed: true }
            }
            (Some(NumericalType::UnsignedInteger), _) if integer => Notation::Integer { signed: false },
            (Some(NumericalType::Float), 32) => Notation::Single,
            (Some(NumericalType::Float), 64) => Notation::Double,
            _ => NarrowFloat::of(element).map_or(Notation::Bytes, Notation::Narrow),
        }
    }
}

/// Returns the range of an integer element's text. Signless integers accept both signed and unsigned values.
fn bounds(element: ElementType) -> (i128, i128) {
    let bits = element.bit_count();
    let signed_limit = 1i128 << bits.saturating_sub(1);
    let unsigned_limit = 1i128 << bits;
    match element.numerical_type() {
        Some(NumericalType::SignedInteger) => (-signed_limit, signed_limit - 1),
        Some(NumericalType::UnsignedInteger) => (0, unsigned_limit - 1),
        _ => (-signed_limit, unsigned_limit - 1),
    }
}

/// Reads a little-endian number of at most 8 bytes.
fn read_bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn cut<const N: usize>(bits: u64) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(bits.to_le_bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// Reads integer `index` of packed integers of `width` bits (1, 2 or 4), lowest bits first.
pub(super) fn read_packed(bytes: &[u8], index: usize, width: usize) -> Option<u8> {
    let per_byte = 8 / width;
    let byte = bytes.get(index / per_byte)?;
    Some(byte >> (index % per_byte * width) & ((1u16 << width) - 1) as u8)
}

/// Writes the bits that [`read_packed`] reads.
pub(super) fn write_packed(bytes: &mut [u8], index: usize, width: usize, value: u8) -> Option<()> {
    let per_byte = 8 / width;
    let shift = index % per_byte * width;
    let mask = ((1u16 << width) - 1) as u8;
    let byte = bytes.get_mut(index / per_byte)?;
    *byte = *byte & !(mask << shift) | (value & mask) << shift;
    Some(())
}

/// Returns true if elements are packed integers, several to a byte.
pub(super) fn is_packed(element: ElementType) -> bool {
    element.bit_count() < 8 && matches!(Notation::of(element), Notation::Integer { .. })
}

/// Writes one little-endian element of [`ElementType::dense_byte_count`] bytes.
///
/// Floats are formatted like C's `%G`; booleans, complex numbers and unknown types as hexadecimal bytes.
///
/// # Errors
/// OUT_OF_RANGE if `bytes` has another length; INTERNAL if `out` fails.
pub fn format_element(out: &mut dyn fmt::Write, element: ElementType, bytes: &[u8]) -> Result<()> {
    if bytes.len() != element.dense_byte_count() {
        return Err(Error::out_of_range(format!(
            "an element of {element} has {} bytes, not {}",
            element.dense_byte_count(),
            bytes.len()
        )));
    }
    let written = match Notation::of(element) {
        Notation::Integer { signed } => {
            let bits = read_bits(bytes);
            let unused = 64 - element.bit_count() as u32;
            if signed {
                write!(out, "{}", ((bits << unused) as i64) >> unused)
            } else {
                write!(out, "{}", (bits << unused) >> unused)
            }
        }
        Notation::Narrow(format) => {
            let value = format.to_f32(read_bits(bytes) as u16);
            // IREE prints NaNs of these types without their sign.
            let value = if value.is_nan() { f64::NAN.copysign(1.0) } else { f64::from(value) };
            write_general(out, value, Case::Upper)
        }
        Notation::Single => write_general(out, widen(f32::from_bits(read_bits(bytes) as u32)), Case::Upper),
        Notation::Double => write_general(out, f64::from_bits(read_bits(bytes)), Case::Upper),
        Notation::Bytes => bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}")),
    };
    written.map_err(|_| Error::internal("writing the text of an element failed"))
}

/// Converts exactly, including the sign of NaN, which `f64::from` does not guarantee.
fn widen(value: f32) -> f64 {
    if value.is_nan() { f64::NAN.copysign(if value.is_sign_negative() { -1.0 } else { 1.0 }) } else { f64::from(value) }
}

/// Parses one element as [`format_element`] writes it, into [`ElementType::dense_byte_count`] bytes. Booleans may also
/// be `0`, `1`, `false`, `true`.
///
/// # Errors
/// INVALID_ARGUMENT if the text is not a number of the type, or outside its range.
pub fn parse_element(text: &str, element: ElementType, bytes: &mut [u8]) -> Result<()> {
    let bits = match Notation::of(element) {
        Notation::Integer { .. } => parse_bounded(text, element)?,
        Notation::Narrow(format) => u64::from(format.from_f32(parse_single(text).ok_or_else(|| wrong(text, element))?)),
        Notation::Single => u64::from(parse_single(text).ok_or_else(|| wrong(text, element))?.to_bits()),
        Notation::Double => parse_float(text).ok_or_else(|| wrong(text, element))?.to_bits(),
        Notation::Bytes => match text {
            "0" | "false" if element.is_boolean() => 0,
            "1" | "true" if element.is_boolean() => 1,
            _ => return parse_bytes(text, element, bytes),
        },
    };
    if bytes.len() != element.dense_byte_count() {
        return Err(Error::out_of_range(format!("an element of {element} does not fit {} bytes", bytes.len())));
    }
    bytes.copy_from_slice(cut::<8>(bits).get(..bytes.len()).unwrap_or_default());
    Ok(())
}

fn parse_bounded(text: &str, element: ElementType) -> Result<u64> {
    let value = parse_integer(text).ok_or_else(|| wrong(text, element))?;
    let (smallest, largest) = bounds(element);
    if value < smallest || value > largest {
        return Err(Error::invalid_argument(format!("{text} is outside {element}'s range of {smallest} to {largest}")));
    }
    Ok(value as u64)
}

fn wrong(text: &str, element: ElementType) -> Error {
    Error::invalid_argument(format!("'{text}' is not a value of {element}"))
}

fn parse_bytes(text: &str, element: ElementType, bytes: &mut [u8]) -> Result<()> {
    let nibbles: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    match nibbles {
        Some(nibbles) if nibbles.len() == 2 * bytes.len() => {
            for (byte, pair) in bytes.iter_mut().zip(nibbles.chunks_exact(2)) {
                *byte = pair.iter().fold(0, |byte, nibble| byte << 4 | nibble);
            }
            Ok(())
        }
        _ => Err(Error::invalid_argument(format!(
            "'{text}' is not a value of {element}, which is {} hexadecimal digits",
            2 * bytes.len()
        ))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn round_trip(element: &str, text: &str) -> Result<String> {
        let element: ElementType = element.parse().unwrap();
        let mut bytes = vec![0; element.dense_byte_count()];
        parse_element(text, element, &mut bytes)?;
        let mut printed = String::new();
        format_element(&mut printed, element, &bytes)?;
        Ok(printed)
    }

    /// Golden texts: `iree-run-module --module=view.vmfb --function=view --input=NxTYPE=TEXT...` of release 3.13, where
    /// `view.mlir` is `func.func @view(%a: !hal.buffer_view) -> !hal.buffer_view { return %a : !hal.buffer_view }`.
    #[test]
    fn elements_are_printed_like_iree_prints_them() {
        for (element, text, printed) in [
            ("f32", "2", "2"),
            ("f32", "nan", "NAN"),
            ("f32", "-inf", "-INF"),
            ("f32", "-nan", "-NAN"),
            ("f32", "1e-5", "1E-05"),
            ("f32", "0.0001", "0.0001"),
            ("f32", "1234567", "1.23457E+06"),
            ("f32", "1000005", "1E+06"),
            ("f32", "1000015", "1.00002E+06"),
            ("f32", "1e-45", "1.4013E-45"),
            ("f32", "0x1p3", "8"),
            ("f64", "1000005", "1E+06"),
            ("f64", "1e300", "1E+300"),
            ("f16", "65504", "65504"),
            ("f16", "70000", "INF"),
            ("bf16", "1.1", "1.10156"),
            ("bf16", "-nan", "NAN"),
            ("bf16", "3e38", "3.00406E+38"),
            ("i8", "255", "-1"),
            ("i8", "0x10", "16"),
            ("i8", "010", "8"),
            ("ui8", "255", "255"),
            ("si8", "-5", "-5"),
            ("i16", "65535", "-1"),
            ("i64", "-9223372036854775808", "-9223372036854775808"),
            ("ui64", "18446744073709551615", "18446744073709551615"),
            ("i1", "01", "01"),
            ("cf64", "0000803f00000040", "0000803F00000040"),
            ("*16", "beef", "BEEF"),
            ("f8E5M2", "1.1", "1"),
            ("f8E5M2", "57344", "57344"),
            ("f8E4M3FN", "1.1", "1.125"),
            ("f8E4M3FNUZ", "240", "240"),
            ("f8E5M2FNUZ", "-0", "0"),
            ("f8E8M0FNU", "1.5", "2"),
            ("f8E8M0FNU", "0", "5.87747E-39"),
        ] {
            assert_eq!(round_trip(element, text).unwrap(), printed, "{element}={text}");
        }
    }

    #[test]
    fn booleans_take_words_and_packed_integers_numbers() {
        assert_eq!(round_trip("i1", "true").unwrap(), "01");
        assert_eq!(round_trip("i1", "0").unwrap(), "00");
        assert_eq!(round_trip("i4", "-8").unwrap(), "-8");
        assert_eq!(round_trip("i4", "15").unwrap(), "-1");
        assert_eq!(round_trip("ui4", "15").unwrap(), "15");
    }

    #[test]
    fn texts_of_no_value_are_errors() {
        for (element, text) in [
            ("f32", "1a"),
            ("f32", ""),
            ("i32", "1.5"),
            ("i8", "256"),
            ("i8", "-129"),
            ("si8", "128"),
            ("ui8", "-1"),
            ("i32", "4294967296"),
            ("i4", "16"),
            ("i1", "2"),
            ("i1", "0x01"),
            ("cf64", "00"),
            ("*16", "bee"),
            ("*16", "beeg"),
            ("*16", "béf"),
        ] {
            assert!(round_trip(element, text).is_err(), "{element}={text}");
        }
        assert!(format_element(&mut String::new(), ElementType::FLOAT_32, &[0; 3]).is_err());
    }
}
