//! Types of elements of tensors. Source: `GGML_QUANT_SIZES` of ggml's Python package `gguf`.

use core::fmt;

macro_rules! element_types {
    ($($number:literal $variant:ident $name:literal $elements:literal $bytes:literal,)*) => {
        /// The type of a tensor's elements, which are stored in blocks of adjacent elements of a row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ElementType {
            $(#[doc = concat!("`", $name, "`: blocks of ", $elements, " elements in ", $bytes, " bytes.")] $variant,)*
            /// A type that has no row here, by its number.
            Unknown(u32),
        }

        impl ElementType {
            /// Returns the type that a file has a number for.
            #[must_use]
            pub fn of_number(number: u32) -> ElementType {
                match number {
                    $($number => ElementType::$variant,)*
                    _ => ElementType::Unknown(number),
                }
            }

            /// Returns the elements and the bytes of a block; `None` for an unknown type.
            #[must_use]
            pub fn block(self) -> Option<(u64, u64)> {
                match self {
                    $(ElementType::$variant => Some(($elements, $bytes)),)*
                    ElementType::Unknown(_) => None,
                }
            }
        }

        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(ElementType::$variant => f.write_str($name),)*
                    ElementType::Unknown(number) => write!(f, "type {number}"),
                }
            }
        }
    };
}

element_types! {
    0 F32 "F32" 1 4,
    1 F16 "F16" 1 2,
    2 Q4_0 "Q4_0" 32 18,
    3 Q4_1 "Q4_1" 32 20,
    6 Q5_0 "Q5_0" 32 22,
    7 Q5_1 "Q5_1" 32 24,
    8 Q8_0 "Q8_0" 32 34,
    9 Q8_1 "Q8_1" 32 36,
    10 Q2K "Q2_K" 256 84,
    11 Q3K "Q3_K" 256 110,
    12 Q4K "Q4_K" 256 144,
    13 Q5K "Q5_K" 256 176,
    14 Q6K "Q6_K" 256 210,
    15 Q8K "Q8_K" 256 292,
    16 Iq2Xxs "IQ2_XXS" 256 66,
    17 Iq2Xs "IQ2_XS" 256 74,
    18 Iq3Xxs "IQ3_XXS" 256 98,
    19 Iq1S "IQ1_S" 256 50,
    20 Iq4Nl "IQ4_NL" 32 18,
    21 Iq3S "IQ3_S" 256 110,
    22 Iq2S "IQ2_S" 256 82,
    23 Iq4Xs "IQ4_XS" 256 136,
    24 I8 "I8" 1 1,
    25 I16 "I16" 1 2,
    26 I32 "I32" 1 4,
    27 I64 "I64" 1 8,
    28 F64 "F64" 1 8,
    29 Iq1M "IQ1_M" 256 56,
    30 Bf16 "BF16" 1 2,
    34 Tq1_0 "TQ1_0" 256 54,
    35 Tq2_0 "TQ2_0" 256 66,
    39 Mxfp4 "MXFP4" 32 17,
    40 Nvfp4 "NVFP4" 64 36,
    41 Q1_0 "Q1_0" 128 18,
}
