//! Element types of ONNX.

use incarnate_mlir::Element;

macro_rules! data_types {
    ($($name:ident $code:literal $text:literal $element:expr, $kind:ident;)*) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DataType {
            $(#[doc = concat!("`", $text, "`.")] $name,)*
        }

        impl DataType {
            /// All types.
            pub const ALL: &[DataType] = &[$(DataType::$name,)*];

            /// Finds a type by its number in `TensorProto.DataType`.
            #[must_use]
            pub fn of_code(code: i32) -> Option<DataType> {
                match code {
                    $($code => Some(DataType::$name),)*
                    _ => None,
                }
            }

            /// The number in `TensorProto.DataType`.
            #[must_use]
            pub fn code(self) -> i32 {
                match self {
                    $(DataType::$name => $code,)*
                }
            }

            /// The name in signatures and messages.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(DataType::$name => $text,)*
                }
            }

            /// The type in MLIR, where integers have no sign. Elements of fewer than 8 bits are bytes, and so are exponents.
            #[must_use]
            pub fn element(self) -> Element {
                match self {
                    $(DataType::$name => $element,)*
                }
            }

            pub(crate) fn kind(self) -> Kind {
                match self {
                    $(DataType::$name => Kind::$kind,)*
                }
            }
        }
    };
}

/// What arithmetic a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Float,
    Signed,
    Unsigned,
    Bool,
}

data_types! {
    F32 1 "f32" Element::F32, Float;
    U8 2 "ui8" Element::I8, Unsigned;
    I8 3 "i8" Element::I8, Signed;
    U16 4 "ui16" Element::I16, Unsigned;
    I16 5 "i16" Element::I16, Signed;
    I32 6 "i32" Element::I32, Signed;
    I64 7 "i64" Element::I64, Signed;
    Bool 9 "i1" Element::I1, Bool;
    F16 10 "f16" Element::F16, Float;
    F64 11 "f64" Element::F64, Float;
    U32 12 "ui32" Element::I32, Unsigned;
    U64 13 "ui64" Element::I64, Unsigned;
    Bf16 16 "bf16" Element::Bf16, Float;
    F8E4M3FN 17 "f8E4M3FN" Element::F8E4M3FN, Float;
    F8E4M3FNUZ 18 "f8E4M3FNUZ" Element::F8E4M3FNUZ, Float;
    F8E5M2 19 "f8E5M2" Element::F8E5M2, Float;
    F8E5M2FNUZ 20 "f8E5M2FNUZ" Element::F8E5M2FNUZ, Float;
    U4 21 "ui4" Element::I8, Unsigned;
    I4 22 "i4" Element::I8, Signed;
    F4E2M1 23 "f4E2M1FN" Element::I8, Float;
    F8E8M0 24 "f8E8M0FNU" Element::I8, Float;
    U2 25 "ui2" Element::I8, Unsigned;
    I2 26 "i2" Element::I8, Signed;
}

impl DataType {
    /// Returns true for floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        self.kind() == Kind::Float
    }

    /// Returns true for integers, with or without a sign, and not for Booleans.
    #[must_use]
    pub fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// Returns true for integers without a sign, and for Booleans.
    #[must_use]
    pub fn is_unsigned(self) -> bool {
        matches!(self.kind(), Kind::Unsigned | Kind::Bool)
    }

    /// Returns the number of bits of an element; 1 for Booleans, which are stored in a byte.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            DataType::U4 | DataType::I4 | DataType::F4E2M1 => 4,
            DataType::U2 | DataType::I2 => 2,
            _ => self.element().bits(),
        }
    }

    /// Returns true for types of which several elements are one byte of a file. In MLIR each is a byte.
    #[must_use]
    pub fn is_packed(self) -> bool {
        matches!(self.bits(), 2 | 4)
    }

    /// Returns the number of bytes of stored elements.
    #[must_use]
    pub fn stored_bytes(self, count: u64) -> u64 {
        match self.bits() {
            1 => count,
            bits => count.saturating_mul(u64::from(bits)).div_ceil(8),
        }
    }

    /// Returns the type that arithmetic is done with: `f32` for narrower floats.
    #[must_use]
    pub fn computed(self) -> DataType {
        if self.is_float() && self.bits() < 32 { DataType::F32 } else { self }
    }

    /// Returns the least and the greatest value of an integer type.
    #[must_use]
    pub fn range(self) -> Option<(i128, i128)> {
        let bits = self.bits();
        match self.kind() {
            Kind::Float => None,
            Kind::Signed => Some((-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)),
            Kind::Unsigned | Kind::Bool => Some((0, (1_i128 << bits) - 1)),
        }
    }
}
