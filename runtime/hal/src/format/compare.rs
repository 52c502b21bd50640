//! Comparison of a tensor with the expected one.

use alloc::format;
use alloc::string::String;

use super::element::format_element;
use crate::narrow_float::NarrowFloat;
use crate::{ElementType, NumericalType};
use crate::{Error, Result};

/// The condition under which two elements are equal. NaN equals NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Equality {
    /// All bits are equal.
    Exact,
    /// A float `a` equals an expected `e` if `|a - e| <= absolute + relative * |e|`; other types are compared exactly.
    Approximate {
        /// Absolute tolerance of `f16`.
        f16: f64,
        /// Absolute tolerance of `bf16`.
        bf16: f64,
        /// Absolute tolerance of `f32`.
        f32: f64,
        /// Absolute tolerance of `f64`.
        f64: f64,
        /// Relative tolerance of all float types.
        relative: f64,
    },
}

impl Default for Equality {
    /// The default tolerances of IREE's tools, which store all but that of `f64` in single precision.
    fn default() -> Equality {
        Equality::Approximate {
            f16: f64::from(0.001f32),
            bf16: f64::from(0.01f32),
            f32: f64::from(0.0001f32),
            f64: 0.0001,
            relative: 1e-5,
        }
    }
}

/// The first element that differs from the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The element's index in row-major order.
    pub index: usize,
    /// The element as text.
    pub actual: String,
    /// The expected element as text.
    pub expected: String,
}

/// Returns true if elements of the two types are interchangeable. A signless integer matches the signed and the
/// unsigned one of its width, because array files have no signless integers.
#[must_use]
pub fn element_types_match(expected: ElementType, actual: ElementType) -> bool {
    let signless = |one: ElementType, other: ElementType| {
        one.numerical_type() == Some(NumericalType::Integer)
            && matches!(other.numerical_type(), Some(NumericalType::SignedInteger | NumericalType::UnsignedInteger))
            && one.bit_count() == other.bit_count()
    };
    expected == actual || signless(expected, actual) || signless(actual, expected)
}

/// Compares two dense tensors of `element`; returns the first mismatch.
///
/// # Errors
/// OUT_OF_RANGE if their lengths differ.
pub fn compare_elements(
    equality: Equality,
    element: ElementType,
    expected: &[u8],
    actual: &[u8],
) -> Result<Option<Mismatch>> {
    if expected.len() != actual.len() {
        return Err(Error::out_of_range(format!(
            "{} bytes of {element} cannot be compared with {} bytes",
            actual.len(),
            expected.len()
        )));
    }
    // Fast path: most comparisons succeed bit by bit.
    if expected == actual {
        return Ok(None);
    }
    let size = element.dense_byte_count().max(1);
    let pairs = expected.chunks(size).zip(actual.chunks(size));
    let differs =
        |expected: &[u8], actual: &[u8]| expected != actual && !nearly_equal(equality, element, expected, actual);
    let Some((index, (expected, actual))) = pairs.enumerate().find(|(_, (e, a))| differs(e, a)) else {
        return Ok(None);
    };
    let text = |bytes: &[u8]| {
        let mut text = String::new();
        format_element(&mut text, element, bytes).map(|()| text)
    };
    Ok(Some(Mismatch { index, actual: text(actual)?, expected: text(expected)? }))
}

fn nearly_equal(equality: Equality, element: ElementType, expected: &[u8], actual: &[u8]) -> bool {
    let Equality::Approximate { f16, bf16, f32, f64, relative } = equality else { return false };
    let absolute = match element {
        ElementType::FLOAT_16 => f16,
        ElementType::BFLOAT_16 => bf16,
        ElementType::FLOAT_32 => f32,
        ElementType::FLOAT_64 => f64,
        _ => return false,
    };
    match (float_value(element, expected), float_value(element, actual)) {
        (Some(expected), Some(actual)) => floats_nearly_equal(actual, expected, absolute, relative),
        _ => false,
    }
}

/// Decodes a little-endian float; `None` if the type is not a float or the number of bytes differs.
#[must_use]
pub fn float_value(element: ElementType, bytes: &[u8]) -> Option<f64> {
    match NarrowFloat::of(element) {
        Some(format) => {
            let code = match bytes {
                [byte] => u16::from(*byte),
                [low, high] => u16::from_le_bytes([*low, *high]),
                _ => return None,
            };
            Some(f64::from(format.to_f32(code)))
        }
        None if element == ElementType::FLOAT_32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        None if element == ElementType::FLOAT_64 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        None => None,
    }
}

/// Returns true if two floats are equal, both NaN, or differ by at most `absolute + relative * |expected|`.
#[must_use]
pub fn floats_nearly_equal(actual: f64, expected: f64, absolute: f64, relative: f64) -> bool {
    actual == expected
        || actual.is_nan() && expected.is_nan()
        || expected.is_finite() && (actual - expected).abs() <= absolute + relative * expected.abs()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{TensorType, parse_elements};
    use super::*;

    fn compare(equality: Equality, expected: &str, actual: &str) -> Option<Mismatch> {
        let read = |text: &str| {
            let (tensor, contents) = text.split_once('=').unwrap();
            let tensor: TensorType = tensor.parse().unwrap();
            let mut bytes = vec![0; tensor.byte_length().unwrap() as usize];
            parse_elements(contents, tensor.element, &mut bytes).unwrap();
            (tensor.element, bytes)
        };
        let ((element, expected), (_, actual)) = (read(expected), read(actual));
        compare_elements(equality, element, &expected, &actual).unwrap()
    }

    #[test]
    fn the_first_difference_is_reported() {
        let found = compare(Equality::default(), "4xf32=1 2 3 5", "4xf32=1 2 4 4").unwrap();
        assert_eq!(found, Mismatch { index: 2, actual: "4".into(), expected: "3".into() });
    }

    #[test]
    fn floats_are_compared_within_their_tolerance() {
        let near = [
            ("2xf32=1 2", "2xf32=1.0001 2"),
            ("1xf32=1000", "1xf32=1000.01"),
            ("1xf64=1", "1xf64=1.0001"),
            ("1xf16=1", "1xf16=1.0009"),
            ("1xbf16=1", "1xbf16=1.0078125"),
            ("3xf32=nan inf -inf", "3xf32=-nan inf -inf"),
            ("1xf32=0", "1xf32=-0"),
        ];
        for (expected, actual) in near {
            assert_eq!(compare(Equality::default(), expected, actual), None, "{actual}");
            assert!(compare(Equality::Exact, expected, actual).is_some(), "{actual}");
        }
        let far = [
            ("1xf32=1", "1xf32=1.0002"),
            ("1xf32=1000", "1xf32=1000.02"),
            ("1xf16=1", "1xf16=1.002"),
            ("1xbf16=1", "1xbf16=1.0157"),
            ("1xf32=inf", "1xf32=1"),
            ("1xf32=1", "1xf32=nan"),
            ("1xf32=inf", "1xf32=-inf"),
            ("1xi32=1", "1xi32=2"),
            ("1xf8E5M2=1", "1xf8E5M2=1.25"),
        ];
        for (expected, actual) in far {
            assert!(compare(Equality::default(), expected, actual).is_some(), "{actual}");
        }
        assert!(compare_elements(Equality::Exact, ElementType::INT_8, &[1], &[1, 2]).is_err());
    }

    #[test]
    fn signless_integers_match_either_sign() {
        let matches = |a: &str, b: &str| element_types_match(a.parse().unwrap(), b.parse().unwrap());
        assert!(matches("si32", "i32") && matches("i32", "si32") && matches("ui8", "i8") && matches("f32", "f32"));
        assert!(!matches("si32", "ui32") && !matches("si32", "i64") && !matches("i1", "i8") && !matches("f32", "i32"));
    }
}
