//! Rust types of tensor elements.
#![allow(unsafe_code, reason = "types of one integer are declared to be plain data")]

use core::fmt;

use bytemuck::{Pod, Zeroable};

use crate::hal::{ElementType, NarrowFloat};

/// The element type of a tensor.
pub trait Element: Pod + fmt::Debug {
    /// The element type of views created from it.
    const TYPE: ElementType;

    /// Returns true for element types of views that can be read as this type: the same type, and integers that differ
    /// only in signedness.
    #[must_use]
    fn accepts(found: ElementType) -> bool {
        found == Self::TYPE
            || found.bit_count() == Self::TYPE.bit_count()
                && (found.is_integer() && Self::TYPE.is_integer() || found.is_opaque())
    }
}

/// An element that is no array, so that nested arrays of it have one meaning. Complex numbers as arrays are other elements.
pub trait ScalarElement: Element {}

macro_rules! elements {
    ($($type:ty => $constant:ident;)*) => {
        $(impl Element for $type {
            const TYPE: ElementType = ElementType::$constant;
        }

        impl ScalarElement for $type {})*
    };
}
elements! {
    i8 => INT_8;
    i16 => INT_16;
    i32 => INT_32;
    i64 => INT_64;
    u8 => UINT_8;
    u16 => UINT_16;
    u32 => UINT_32;
    u64 => UINT_64;
    f32 => FLOAT_32;
    f64 => FLOAT_64;
    I1 => BOOL_8;
}

impl Element for [f32; 2] {
    const TYPE: ElementType = ElementType::COMPLEX_FLOAT_64;
}

impl Element for [f64; 2] {
    const TYPE: ElementType = ElementType::COMPLEX_FLOAT_128;
}

/// Declares a type of one integer as plain data.
macro_rules! plain_data {
    ($type:ty) => {
        // SAFETY: the type is transparent over an integer, of which every bit pattern, zero too, is valid.
        unsafe impl Zeroable for $type {}
        // SAFETY: the type is transparent over an integer, which has no padding and no invalid bit pattern.
        unsafe impl Pod for $type {}
    };
}

/// A Boolean element: a byte of which only the lowest bit counts.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct I1(u8);
plain_data!(I1);

impl I1 {
    /// The value.
    #[must_use]
    pub const fn get(self) -> bool {
        self.0 & 1 != 0
    }
}

impl From<bool> for I1 {
    fn from(value: bool) -> I1 {
        I1(value.into())
    }
}

impl From<I1> for bool {
    fn from(value: I1) -> bool {
        value.get()
    }
}

impl PartialEq for I1 {
    fn eq(&self, other: &I1) -> bool {
        self.get() == other.get()
    }
}

impl Eq for I1 {}

impl fmt::Debug for I1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

macro_rules! narrow_floats {
    ($($(#[$doc:meta])* $name:ident($bits:ty) => $constant:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name($bits);
        plain_data!($name);

        impl $name {
            /// Rounds to the nearest number of this type, ties to even.
            #[must_use]
            pub fn from_f32(value: f32) -> $name {
                $name::from_bits(NarrowFloat::$name.from_f32(value) as $bits)
            }

            /// Converts the number exactly.
            #[must_use]
            pub fn to_f32(self) -> f32 {
                NarrowFloat::$name.to_f32(self.0.into())
            }

            /// Creates a number from its bits.
            #[must_use]
            pub const fn from_bits(bits: $bits) -> $name {
                $name(bits)
            }

            /// Returns the bits.
            #[must_use]
            pub const fn to_bits(self) -> $bits {
                self.0
            }
        }

        impl From<$name> for f32 {
            fn from(value: $name) -> f32 {
                value.to_f32()
            }
        }

        /// Compares numbers, not bits.
        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }

        elements! {
            $name => $constant;
        })*
    };
}
narrow_floats! {
    /// The 16-bit float of IEEE 754 (binary16).
    F16(u16) => FLOAT_16;
    /// The upper half of an `f32`.
    BF16(u16) => BFLOAT_16;
    /// An 8-bit float with 2 bits of mantissa.
    F8E5M2(u8) => FLOAT_8_E5M2;
    /// An 8-bit float with 3 bits of mantissa, without infinities.
    F8E4M3FN(u8) => FLOAT_8_E4M3_FN;
    /// An 8-bit float with 2 bits of mantissa, without infinities and negative zero.
    F8E5M2FNUZ(u8) => FLOAT_8_E5M2_FNUZ;
    /// An 8-bit float with 3 bits of mantissa, without infinities and negative zero.
    F8E4M3FNUZ(u8) => FLOAT_8_E4M3_FNUZ;
    /// An 8-bit power of two, without sign and mantissa.
    F8E8M0FNU(u8) => FLOAT_8_E8M0_FNU;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_elements_hold_their_numbers() {
        assert_eq!(F16::from_f32(1.5).to_bits(), 0x3E00);
        assert_eq!(f32::from(BF16::from_bits(0x4049)), 3.140625);
        assert_eq!(F8E4M3FN::from_f32(448.0).to_f32(), 448.0);
        assert_eq!(F8E8M0FNU::from_f32(4.0).to_f32(), 4.0);
        assert_eq!(format!("{:?} {:?}", F8E5M2::from_f32(-2.0), I1::from(true)), "-2.0 true");
        assert!(F16::from_f32(f32::NAN) != F16::from_f32(f32::NAN));
        assert!(bool::from(bytemuck::cast::<u8, I1>(3)) && I1::from(true) == bytemuck::cast::<u8, I1>(3));
    }

    #[test]
    fn elements_have_the_sizes_of_their_types() {
        fn check<T: Element>() {
            assert_eq!(T::TYPE.bit_count(), size_of::<T>() * 8, "{}", T::TYPE);
            assert!(T::accepts(T::TYPE));
        }
        check::<I1>();
        check::<F16>();
        check::<BF16>();
        check::<F8E8M0FNU>();
        check::<[f32; 2]>();
        check::<[f64; 2]>();
        assert!(!F16::accepts(ElementType::BFLOAT_16));
    }
}
