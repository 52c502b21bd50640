//! Element types and encodings of buffer views.
//!
//! The numbers and names are those of IREE's `iree/hal/buffer_view.h` and `iree/hal/string_util.c`: a 32-bit value
//! whose high byte is the numerical type and whose low byte is the number of bits.

use alloc::format;
use core::fmt;
use core::str::FromStr;

use crate::{Error, Result};

/// The notation of a numerical type.
#[derive(Clone, Copy)]
enum Spelling {
    /// A prefix of the number of bits, such as `si` of `si8`.
    Prefix(&'static str),
    /// A complete name, and its only number of bits.
    Name(&'static str, u8),
}

macro_rules! numerical_types {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $spelling:expr;)*) => {
        /// The interpretation of an element's bits: the high byte of an [`ElementType`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum NumericalType {
            $($(#[$doc])* $name = $value,)*
        }

        impl NumericalType {
            /// Every numerical type.
            pub const ALL: &'static [NumericalType] = &[$(NumericalType::$name),*];

            const fn spelling(self) -> Spelling {
                match self {
                    $(NumericalType::$name => $spelling,)*
                }
            }
        }
    };
}

numerical_types! {
    /// Opaque bytes.
    Opaque = 0x00, Spelling::Prefix("*");
    /// An integer whose operations determine the signedness; printed as signed.
    Integer = 0x10, Spelling::Prefix("i");
    /// A signed integer.
    SignedInteger = 0x11, Spelling::Prefix("si");
    /// An unsigned integer.
    UnsignedInteger = 0x12, Spelling::Prefix("ui");
    /// A Boolean; stored in a byte of which one bit counts.
    Boolean = 0x13, Spelling::Name("i1", 8);
    /// An IEEE 754 float.
    Float = 0x21, Spelling::Prefix("f");
    /// A float with the exponent of `f32` and fewer bits of mantissa.
    BrainFloat = 0x22, Spelling::Prefix("bf");
    /// A pair of IEEE 754 floats: real part, imaginary part; the bits count both.
    Complex = 0x23, Spelling::Prefix("cf");
    /// 5 bits of exponent, 2 of mantissa, with infinities and NaNs as IEEE 754 has them.
    Float8E5M2 = 0x24, Spelling::Name("f8E5M2", 8);
    /// 4 bits of exponent, 3 of mantissa, no infinities.
    Float8E4M3Fn = 0x25, Spelling::Name("f8E4M3FN", 8);
    /// 5 bits of exponent, 2 of mantissa, no infinities, no negative zero.
    Float8E5M2Fnuz = 0x26, Spelling::Name("f8E5M2FNUZ", 8);
    /// 4 bits of exponent, 3 of mantissa, no infinities, no negative zero.
    Float8E4M3Fnuz = 0x27, Spelling::Name("f8E4M3FNUZ", 8);
    /// 8 bits of exponent: a power of two, or NaN.
    Float8E8M0Fnu = 0x28, Spelling::Name("f8E8M0FNU", 8);
}

impl NumericalType {
    /// Decodes the high byte of an element type; `None` if it is unknown.
    #[must_use]
    pub fn from_raw(raw: u8) -> Option<NumericalType> {
        Self::ALL.iter().copied().find(|numerical| *numerical as u8 == raw)
    }

    /// Returns true for integers of any signedness and booleans.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        self as u8 & 0xF0 == 0x10
    }

    /// Returns true for floats of any kind and complex numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        self as u8 & 0xF0 == 0x20
    }
}

/// The element type of a buffer view, encoded as `iree_hal_element_type_t`. Any value is representable;
/// [`ElementType::numerical_type`] returns `None` for unknown ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct ElementType(u32);

macro_rules! element_types {
    ($($constant:ident = $numerical:ident, $bits:literal;)*) => {
        impl ElementType {
            $(#[doc = concat!("[`NumericalType::", stringify!($numerical), "`] of ", stringify!($bits), " bits.")]
            pub const $constant: ElementType = ElementType::new(NumericalType::$numerical, $bits);)*

            /// The types that IREE's header names, with their constants' names.
            pub const NAMED: &'static [(ElementType, &'static str)] =
                &[$((ElementType::$constant, stringify!($constant))),*];
        }
    };
}

element_types! {
    NONE = Opaque, 0;
    OPAQUE_8 = Opaque, 8;
    OPAQUE_16 = Opaque, 16;
    OPAQUE_32 = Opaque, 32;
    OPAQUE_64 = Opaque, 64;
    BOOL_8 = Boolean, 8;
    INT_1 = Integer, 1;
    INT_2 = Integer, 2;
    INT_4 = Integer, 4;
    SINT_4 = SignedInteger, 4;
    UINT_4 = UnsignedInteger, 4;
    INT_8 = Integer, 8;
    SINT_8 = SignedInteger, 8;
    UINT_8 = UnsignedInteger, 8;
    INT_16 = Integer, 16;
    SINT_16 = SignedInteger, 16;
    UINT_16 = UnsignedInteger, 16;
    INT_32 = Integer, 32;
    SINT_32 = SignedInteger, 32;
    UINT_32 = UnsignedInteger, 32;
    INT_64 = Integer, 64;
    SINT_64 = SignedInteger, 64;
    UINT_64 = UnsignedInteger, 64;
    INT_128 = Integer, 128;
    FLOAT_16 = Float, 16;
    FLOAT_32 = Float, 32;
    FLOAT_64 = Float, 64;
    BFLOAT_16 = BrainFloat, 16;
    COMPLEX_FLOAT_64 = Complex, 64;
    COMPLEX_FLOAT_128 = Complex, 128;
    FLOAT_8_E5M2 = Float8E5M2, 8;
    FLOAT_8_E4M3_FN = Float8E4M3Fn, 8;
    FLOAT_8_E5M2_FNUZ = Float8E5M2Fnuz, 8;
    FLOAT_8_E4M3_FNUZ = Float8E4M3Fnuz, 8;
    FLOAT_8_E8M0_FNU = Float8E8M0Fnu, 8;
}

impl ElementType {
    /// Combines a numerical type and a number of bits.
    #[must_use]
    pub const fn new(numerical: NumericalType, bits: u8) -> ElementType {
        ElementType((numerical as u32) << 24 | bits as u32)
    }

    /// Creates an element type from the value in modules.
    #[must_use]
    pub const fn from_raw(raw: u32) -> ElementType {
        ElementType(raw)
    }

    /// Returns the value in modules.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the interpretation of the bits if it is known.
    #[must_use]
    pub fn numerical_type(self) -> Option<NumericalType> {
        NumericalType::from_raw((self.0 >> 24) as u8)
    }

    /// Returns the number of bits of an element, at most 255; 0 for an unknown element.
    #[must_use]
    pub const fn bit_count(self) -> usize {
        (self.0 & 0xFF) as usize
    }

    /// Returns true if an element is a whole number of bytes.
    #[must_use]
    pub const fn is_byte_aligned(self) -> bool {
        self.bit_count() & 7 == 0
    }

    /// Returns the number of bytes of a single element: the bits, rounded up.
    #[must_use]
    pub const fn dense_byte_count(self) -> usize {
        self.bit_count().div_ceil(8)
    }

    /// Returns the number of bytes of `elements` elements in dense row-major order, with packed sub-byte elements;
    /// `None` if the number of bits exceeds 64 bits.
    #[must_use]
    pub const fn packed_byte_count(self, elements: u64) -> Option<u64> {
        match elements.checked_mul(self.bit_count() as u64) {
            Some(bits) => Some(bits.div_ceil(8)),
            None => None,
        }
    }

    /// Returns true for integers of any signedness, and booleans.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        self.0 >> 28 == 0x1
    }

    /// Returns true for integers of one width, whatever their signedness: their elements have the same bits. A boolean has those of no
    /// integer, because only the lowest bit of its byte counts.
    #[must_use]
    pub fn has_integers_of(self, other: ElementType) -> bool {
        let is_number = |element: ElementType| element.is_integer() && !element.is_boolean();
        is_number(self) && is_number(other) && self.bit_count() == other.bit_count()
    }

    /// Returns true for floats of any kind, and complex numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        self.0 >> 28 == 0x2
    }

    /// Returns true for booleans of any width.
    #[must_use]
    pub fn is_boolean(self) -> bool {
        self.numerical_type() == Some(NumericalType::Boolean)
    }

    /// Returns true for complex numbers.
    #[must_use]
    pub fn is_complex(self) -> bool {
        self.numerical_type() == Some(NumericalType::Complex)
    }

    /// Returns true if the bits are opaque.
    #[must_use]
    pub fn is_opaque(self) -> bool {
        matches!(self.numerical_type(), None | Some(NumericalType::Opaque))
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bit_count();
        match self.numerical_type() {
            // IREE prints booleans of any width as `i1`.
            Some(NumericalType::Boolean) => f.write_str("i1"),
            Some(numerical) => match numerical.spelling() {
                Spelling::Prefix(prefix) => write!(f, "{prefix}{bits}"),
                Spelling::Name(name, named) if usize::from(named) == bits => f.write_str(name),
                Spelling::Name(..) => write!(f, "*{bits}"),
            },
            None => write!(f, "*{bits}"),
        }
    }
}

impl fmt::Debug for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({:#010x})", self.0)
    }
}

impl FromStr for ElementType {
    type Err = Error;

    /// Parses the displayed name of an [`ElementType`]. Also accepts IREE's alternative `x` for `*`, and `complex<f32>`
    /// as in declarations.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an unknown prefix, and for a number of bits above 255.
    fn from_str(text: &str) -> Result<ElementType> {
        match text {
            "complex<f32>" => return Ok(ElementType::COMPLEX_FLOAT_64),
            "complex<f64>" => return Ok(ElementType::COMPLEX_FLOAT_128),
            _ => {}
        }
        let mut prefixed = text.strip_prefix('x').map(|bits| (NumericalType::Opaque, bits));
        for &numerical in NumericalType::ALL {
            match numerical.spelling() {
                Spelling::Name(name, bits) if name == text => return Ok(ElementType::new(numerical, bits)),
                Spelling::Prefix(prefix) => {
                    // A digit must follow: one prefix may begin with another.
                    let bits = text.strip_prefix(prefix).filter(|bits| bits.starts_with(|c: char| c.is_ascii_digit()));
                    prefixed = prefixed.or(bits.map(|bits| (numerical, bits)));
                }
                Spelling::Name(..) => {}
            }
        }
        let Some((numerical, bits)) = prefixed else {
            return Err(Error::invalid_argument(format!("'{text}' is not an element type such as f32, i8 or bf16")));
        };
        match bits.parse() {
            Ok(bits) => Ok(ElementType::new(numerical, bits)),
            Err(_) => {
                Err(Error::invalid_argument(format!("element type '{text}' has '{bits}' bits, outside of 0 to 255")))
            }
        }
    }
}

/// The layout of elements in a buffer, encoded as `iree_hal_encoding_type_t`. Any value is representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct EncodingType(u32);

impl EncodingType {
    /// Unknown: the contents cannot be indexed.
    pub const OPAQUE: EncodingType = EncodingType(0);
    /// Contiguous elements, the last dimension fastest.
    pub const DENSE_ROW_MAJOR: EncodingType = EncodingType(1);

    /// Creates an encoding from the value in modules.
    #[must_use]
    pub const fn from_raw(raw: u32) -> EncodingType {
        EncodingType(raw)
    }

    /// Returns the value in modules.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn raw_values_are_those_of_the_format() {
        // From the layout in buffer_view.h: numerical type << 24 | bits.
        for (element, raw) in [
            (ElementType::NONE, 0),
            (ElementType::OPAQUE_8, 0x0000_0008),
            (ElementType::BOOL_8, 0x1300_0008),
            (ElementType::INT_4, 0x1000_0004),
            (ElementType::INT_32, 0x1000_0020),
            (ElementType::SINT_64, 0x1100_0040),
            (ElementType::UINT_16, 0x1200_0010),
            (ElementType::FLOAT_32, 0x2100_0020),
            (ElementType::BFLOAT_16, 0x2200_0010),
            (ElementType::COMPLEX_FLOAT_128, 0x2300_0080),
            (ElementType::FLOAT_8_E5M2, 0x2400_0008),
            (ElementType::FLOAT_8_E4M3_FN, 0x2500_0008),
            (ElementType::FLOAT_8_E5M2_FNUZ, 0x2600_0008),
            (ElementType::FLOAT_8_E4M3_FNUZ, 0x2700_0008),
            (ElementType::FLOAT_8_E8M0_FNU, 0x2800_0008),
        ] {
            assert_eq!(element.raw(), raw, "{element}");
            assert_eq!(ElementType::from_raw(raw), element);
        }
    }

    #[test]
    fn every_named_type_is_parsed_from_its_text() {
        for &(element, constant) in ElementType::NAMED {
            // `i1` names the boolean, so the packed 1-bit integer has no name.
            if element != ElementType::INT_1 {
                assert_eq!(element.to_string().parse::<ElementType>().unwrap(), element, "{constant}");
            }
        }
        for bits in 2..=255u8 {
            for &numerical in NumericalType::ALL {
                if let Spelling::Prefix(_) = numerical.spelling() {
                    let element = ElementType::new(numerical, bits);
                    assert_eq!(element.to_string().parse::<ElementType>().unwrap(), element);
                }
            }
        }
    }

    #[test]
    fn names_are_the_peer_s() {
        for (name, element) in [
            ("f32", ElementType::FLOAT_32),
            ("si8", ElementType::SINT_8),
            ("ui16", ElementType::UINT_16),
            ("i1", ElementType::BOOL_8),
            ("*64", ElementType::OPAQUE_64),
            ("bf16", ElementType::BFLOAT_16),
            ("cf64", ElementType::COMPLEX_FLOAT_64),
            ("f8E4M3FNUZ", ElementType::FLOAT_8_E4M3_FNUZ),
        ] {
            assert_eq!(element.to_string(), name);
            assert_eq!(name.parse::<ElementType>().unwrap(), element);
        }
        assert_eq!("x32".parse::<ElementType>().unwrap(), ElementType::OPAQUE_32);
        assert_eq!("complex<f64>".parse::<ElementType>().unwrap(), ElementType::COMPLEX_FLOAT_128);
        // An unknown numerical type, and a known one with a wrong number of bits.
        assert_eq!(ElementType::from_raw(0x7F00_0010).to_string(), "*16");
        assert_eq!(ElementType::new(NumericalType::Float8E5M2, 16).to_string(), "*16");
    }

    #[test]
    fn wrong_names_are_errors() {
        for text in ["", "f", "i", "x", "*", "q8", "i256", "f8E9M9", "i-1", "i 8", "F32", "i+8", "u8"] {
            assert!(text.parse::<ElementType>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_round_bits_up() {
        assert_eq!(ElementType::INT_4.dense_byte_count(), 1);
        assert_eq!(ElementType::INT_4.packed_byte_count(5), Some(3));
        assert_eq!(ElementType::FLOAT_64.packed_byte_count(3), Some(24));
        assert_eq!(ElementType::FLOAT_64.packed_byte_count(u64::MAX), None);
        assert_eq!(ElementType::NONE.dense_byte_count(), 0);
        assert!(!ElementType::INT_4.is_byte_aligned() && ElementType::INT_8.is_byte_aligned());
    }

    #[test]
    fn integers_of_one_width_are_the_same_but_booleans_are_none() {
        assert!(ElementType::INT_8.has_integers_of(ElementType::UINT_8));
        assert!(ElementType::SINT_32.has_integers_of(ElementType::INT_32));
        assert!(!ElementType::INT_8.has_integers_of(ElementType::INT_16));
        assert!(!ElementType::INT_8.has_integers_of(ElementType::BOOL_8));
        assert!(!ElementType::BOOL_8.has_integers_of(ElementType::UINT_8));
        assert!(!ElementType::FLOAT_32.has_integers_of(ElementType::FLOAT_32));
    }

    #[test]
    fn categories_of_the_type_are_those_of_its_numerical_type() {
        for &numerical in NumericalType::ALL {
            let element = ElementType::new(numerical, 8);
            assert_eq!(element.is_integer(), numerical.is_integer());
            assert_eq!(element.is_float(), numerical.is_float());
            assert_eq!(element.is_opaque(), !numerical.is_integer() && !numerical.is_float());
        }
    }
}
