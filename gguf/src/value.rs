//! Values of metadata.

use core::ops::Range;

/// A value of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer of any width.
    Integer(i128),
    /// A float of 32 or 64 bits.
    Float(f64),
    /// A Boolean.
    Bool(bool),
    /// A text.
    String(String),
    /// Values of one kind, which stay in the file.
    Array(Array),
}

/// The position of an array in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    pub(crate) kind: u32,
    pub(crate) count: u64,
    pub(crate) bytes: Range<usize>,
}

impl Array {
    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number of so many bytes, with a sign or without.
    Integer {
        bytes: u8,
        is_signed: bool,
    },
    /// A float of so many bytes.
    Float {
        bytes: u8,
    },
    Bool,
    String,
    Array,
}

impl Kind {
    /// The kind that a file has a number for. Source: `gguf_type` of ggml's `gguf.h`.
    pub(crate) fn of_number(number: u32) -> Option<Kind> {
        let integer = |bytes, is_signed| Kind::Integer { bytes, is_signed };
        Some(match number {
            0 => integer(1, false),
            1 => integer(1, true),
            2 => integer(2, false),
            3 => integer(2, true),
            4 => integer(4, false),
            5 => integer(4, true),
            6 => Kind::Float { bytes: 4 },
            7 => Kind::Bool,
            8 => Kind::String,
            9 => Kind::Array,
            10 => integer(8, false),
            11 => integer(8, true),
            12 => Kind::Float { bytes: 8 },
            _ => return None,
        })
    }

    /// The bytes of a value, where all have as many.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Kind::Integer { bytes, .. } | Kind::Float { bytes } => Some(u64::from(bytes)),
            Kind::Bool => Some(1),
            Kind::String | Kind::Array => None,
        }
    }

    /// Reads a number from its little-endian bytes.
    pub(crate) fn number(self, bytes: [u8; 8]) -> Option<Value> {
        let unsigned = u64::from_le_bytes(bytes);
        Some(match self {
            Kind::Integer { bytes, is_signed: true } => {
                let unused = 64 - 8 * u32::from(bytes);
                Value::Integer(i128::from((unsigned << unused).cast_signed() >> unused))
            }
            Kind::Integer { .. } => Value::Integer(i128::from(unsigned)),
            Kind::Float { bytes: 4 } => Value::Float(f64::from(f32::from_bits(unsigned as u32))),
            Kind::Float { .. } => Value::Float(f64::from_bits(unsigned)),
            Kind::Bool => Value::Bool(unsigned != 0),
            Kind::String | Kind::Array => return None,
        })
    }
}
