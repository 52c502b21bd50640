//! Rust types of tensor elements.
#![allow(unsafe_code, reason = "types of one integer are declared to be plain data")]

use core::fmt;

use bytemuck::{NoUninit, Pod, Zeroable};

use crate::Result;
use crate::hal::{Buffer, ElementType, NarrowFloat};

/// The element type of a tensor: `bool`, the integers of 8 to 64 bits, `f32`, `f64`, the narrow floats [`F16`], [`BF16`], [`F8E5M2`] and
/// so on, complex numbers as `[f32; 2]` and `[f64; 2]`; with the features `half` and `num-complex` also the types of these crates.
///
/// Zero bytes are an element of each type, and its bytes are all initialised.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of tensors",
    label = "not an element of tensors",
    note = "elements are bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, F16, BF16 and the other narrow floats of \
            `runtime::session`, `[f32; 2]` and `[f64; 2]` as complex numbers",
    note = "the features `half` and `num-complex` of `incarnate` add f16, bf16 and Complex of these crates"
)]
pub trait Element: NoUninit + Zeroable + fmt::Debug {
    /// The element type of views created from it.
    const TYPE: ElementType;

    /// Returns true for element types of views that can be read as this type: the same type, integers that differ only in
    /// signedness, and opaque elements of the same width. Numbers are no `bool`, and a `bool` is no number.
    #[must_use]
    fn accepts(found: ElementType) -> bool {
        let is_opaque = found.is_opaque() && found.bit_count() == Self::TYPE.bit_count();
        found == Self::TYPE || is_opaque || found.has_integers_of(Self::TYPE)
    }

    /// Returns the elements that have the given bytes, without a copy. Returns None for bytes at an address that is not aligned, and
    /// for `bool`, of which not every byte is a value.
    #[must_use]
    fn in_place(bytes: &[u8]) -> Option<&[Self]>;

    /// Returns the elements that have the given bytes, without a copy; None at an address that is not aligned. Bytes of `bool` are
    /// changed to 0 and 1.
    #[must_use]
    fn in_place_mut(bytes: &mut [u8]) -> Option<&mut [Self]>;

    /// Copies the elements from the beginning of a buffer.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the buffer is shorter.
    fn read(buffer: &Buffer, target: &mut [Self]) -> Result<()>;
}

/// The methods of [`Element`] for types of which every bit pattern is a value.
macro_rules! plain_elements {
    () => {
        fn in_place(bytes: &[u8]) -> Option<&[Self]> {
            bytemuck::try_cast_slice(bytes).ok()
        }

        fn in_place_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
            bytemuck::try_cast_slice_mut(bytes).ok()
        }

        fn read(buffer: &$crate::hal::Buffer, target: &mut [Self]) -> $crate::Result<()> {
            buffer.read(0, bytemuck::cast_slice_mut(target))
        }
    };
}
#[cfg(any(feature = "half", feature = "num-complex"))]
pub(super) use plain_elements;

/// An element that is no array, so that nested arrays of it have one meaning. Complex numbers as arrays are other elements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of tensors",
    label = "neither an element of tensors, nor values of elements",
    note = "tensors are created from slices, vectors, arrays and nested arrays of bool, i8 to i64, u8 to u64, f32, f64 and other types that \
            are an `Element`, and from one such value"
)]
pub trait ScalarElement: Element {}

macro_rules! elements {
    ($($type:ty => $constant:ident;)*) => {
        $(impl Element for $type {
            const TYPE: ElementType = ElementType::$constant;
            plain_elements!();
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
}

/// A byte of a device, of which only the lowest bit counts.
impl Element for bool {
    const TYPE: ElementType = ElementType::BOOL_8;

    fn in_place(_: &[u8]) -> Option<&[bool]> {
        None
    }

    fn in_place_mut(bytes: &mut [u8]) -> Option<&mut [bool]> {
        bytes.iter_mut().for_each(|byte| *byte &= 1);
        bytemuck::checked::try_cast_slice_mut(bytes).ok()
    }

    fn read(buffer: &Buffer, target: &mut [bool]) -> Result<()> {
        /// Bytes that are on the stack at a time.
        const CHUNK: usize = 4096;
        let mut bytes = [0; CHUNK];
        for (index, target) in target.chunks_mut(CHUNK).enumerate() {
            let bytes = &mut bytes[..target.len()];
            buffer.read((index * CHUNK) as u64, bytes)?;
            target.iter_mut().zip(bytes).for_each(|(element, byte)| *element = *byte & 1 != 0);
        }
        Ok(())
    }
}

impl ScalarElement for bool {}

impl Element for [f32; 2] {
    const TYPE: ElementType = ElementType::COMPLEX_FLOAT_64;
    plain_elements!();
}

impl Element for [f64; 2] {
    const TYPE: ElementType = ElementType::COMPLEX_FLOAT_128;
    plain_elements!();
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
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::hal::{Allocator, BufferParameters};

    #[test]
    fn narrow_elements_hold_their_numbers() {
        assert_eq!(F16::from_f32(1.5).to_bits(), 0x3E00);
        assert_eq!(f32::from(BF16::from_bits(0x4049)), 3.140625);
        assert_eq!(F8E4M3FN::from_f32(448.0).to_f32(), 448.0);
        assert_eq!(F8E8M0FNU::from_f32(4.0).to_f32(), 4.0);
        assert_eq!(format!("{:?}", F8E5M2::from_f32(-2.0)), "-2.0");
        assert!(F16::from_f32(f32::NAN) != F16::from_f32(f32::NAN));
    }

    #[test]
    fn the_lowest_bit_of_a_byte_is_a_bool() {
        let stored: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let expected: Vec<bool> = stored.iter().map(|byte| byte % 2 == 1).collect();
        let buffer = Allocator::new().allocate(BufferParameters::DEVICE, stored.len() as u64).unwrap();
        buffer.write(0, &stored).unwrap();
        let mut read = vec![false; stored.len()];
        bool::read(&buffer, &mut read).unwrap();
        assert_eq!(read, expected);
        assert!(bool::read(&buffer, &mut vec![false; stored.len() + 1]).is_err());
        let mut bytes = stored.clone();
        assert_eq!(bool::in_place_mut(&mut bytes).unwrap(), expected);
        assert_eq!(bool::in_place(&stored), None);
    }

    #[test]
    fn elements_have_the_sizes_of_their_types() {
        fn check<T: Element>() {
            assert_eq!(T::TYPE.bit_count(), size_of::<T>() * 8, "{}", T::TYPE);
            assert!(T::accepts(T::TYPE));
        }
        check::<bool>();
        check::<F16>();
        check::<BF16>();
        check::<F8E8M0FNU>();
        check::<[f32; 2]>();
        check::<[f64; 2]>();
        assert!(!F16::accepts(ElementType::BFLOAT_16));
        assert!(u8::accepts(ElementType::SINT_8) && !u8::accepts(ElementType::INT_16));
        assert!(bool::accepts(ElementType::OPAQUE_8) && !bool::accepts(ElementType::OPAQUE_16));
        for number in [ElementType::INT_8, ElementType::SINT_8, ElementType::UINT_8] {
            assert!(!bool::accepts(number), "{number}");
        }
        assert!(!i8::accepts(ElementType::BOOL_8) && !u8::accepts(ElementType::BOOL_8));
    }
}
