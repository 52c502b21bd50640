//! Nested arrays of Rust as tensors, and tensors as nested arrays.

use alloc::format;
use alloc::vec::Vec;

use bytemuck::Zeroable;

use super::aligned::AlignedVec;
use super::element::{Element, ScalarElement};
use super::input::{Input, IntoInput};
use super::tensor::Tensor;
use crate::{Error, Result};

/// Implements [`ToTensor`] for types that are [`IntoInput`].
macro_rules! to_tensor {
    ($({$($generics:tt)*} $type:ty => $element:ty;)*) => {
        $(impl<'a, $($generics)*> $crate::session::ToTensor<'a> for $type {
            type Element = $element;
        })*
    };
}
#[cfg(feature = "ndarray")]
pub(super) use to_tensor;

to_tensor! {
    {T: Element} &'a [T] => T;
    {T: Element} &'a Vec<T> => T;
    {T: Element} &'a AlignedVec<T> => T;
    {T: Element} Vec<T> => T;
    {T: ScalarElement} T => T;
    {T: ScalarElement, const A: usize} &'a [T; A] => T;
    {T: ScalarElement, const A: usize} [T; A] => T;
}

fn flattened<T, const N: usize>(nested: &[[T; N]]) -> &[T] {
    nested.as_flattened()
}

fn flattened_mut<T, const N: usize>(nested: &mut [[T; N]]) -> &mut [T] {
    nested.as_flattened_mut()
}

/// Conversions to tensors, of one rank above 1: the constants of the dimensions, outermost first, and the type.
macro_rules! nested {
    ($($dimension:ident)*: $type:ty) => {
        impl<'a, T: Element, $(const $dimension: usize),*> IntoInput<'a, T> for &'a $type {
            fn into_input(self) -> Input<'a, T> {
                let elements = core::slice::from_ref(self);
                $(let elements = flattened::<_, $dimension>(elements);)*
                Input::nested(elements, const { &[$($dimension as u64),*] })
            }
        }

        impl<'a, T: Element, $(const $dimension: usize),*> IntoInput<'a, T> for $type {
            fn into_input(self) -> Input<'a, T> {
                let elements = core::slice::from_ref(&self);
                $(let elements = flattened::<_, $dimension>(elements);)*
                Input::from_vec(&[$($dimension as u64),*], elements.to_vec())
            }
        }

        to_tensor! {
            {T: ScalarElement, $(const $dimension: usize),*} &'a $type => T;
            {T: ScalarElement, $(const $dimension: usize),*} $type => T;
        }
    };
}

/// The conversions from tensors.
macro_rules! to_nested {
    ($($dimension:ident)*: $type:ty) => {
        /// Copies the elements of a tensor of that shape.
        impl<T: Element, $(const $dimension: usize),*> TryFrom<&Tensor<T>> for $type {
            type Error = Error;

            fn try_from(tensor: &Tensor<T>) -> Result<$type> {
                check(tensor.shape(), &[$($dimension as u64),*])?;
                let mut elements = <$type as Zeroable>::zeroed();
                let target = core::slice::from_mut(&mut elements);
                $(let target = flattened_mut::<_, $dimension>(target);)*
                tensor.read(target)?;
                Ok(elements)
            }
        }

        /// Copies the elements of a tensor of that shape.
        impl<T: Element, $(const $dimension: usize),*> TryFrom<Tensor<T>> for $type {
            type Error = Error;

            fn try_from(tensor: Tensor<T>) -> Result<$type> {
                <$type>::try_from(&tensor)
            }
        }
    };
}

macro_rules! both_ways {
    ($($($dimension:ident)*: $type:ty;)*) => {
        $(
        nested!($($dimension)*: $type);
        to_nested!($($dimension)*: $type);
        )*
    };
}
to_nested!(A: [T; A]);
both_ways! {
    A B: [[T; B]; A];
    A B C: [[[T; C]; B]; A];
    A B C D: [[[[T; D]; C]; B]; A];
    A B C D E: [[[[[T; E]; D]; C]; B]; A];
    A B C D E F: [[[[[[T; F]; E]; D]; C]; B]; A];
    A B C D E F G: [[[[[[[T; G]; F]; E]; D]; C]; B]; A];
    A B C D E F G H: [[[[[[[[T; H]; G]; F]; E]; D]; C]; B]; A];
}

fn check(shape: &[u64], wanted: &[u64]) -> Result<()> {
    if shape == wanted {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("a tensor of shape {shape:?} is not an array of shape {wanted:?}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::hal::Device;

    #[test]
    fn nested_arrays_of_all_ranks_are_tensors_and_back() {
        let device = Device::create("local-sync").unwrap();
        fn same<T, A>(tensor: Tensor<T>, array: &A)
        where
            A: TryFrom<Tensor<T>, Error = Error> + for<'t> TryFrom<&'t Tensor<T>, Error = Error> + PartialEq,
        {
            assert!(A::try_from(&tensor).unwrap() == *array && A::try_from(tensor).unwrap() == *array);
        }
        macro_rules! check {
            ($($array:expr => $shape:expr;)*) => {
                $({
                    let array = $array;
                    let tensor = Tensor::from_values(&device, &array).unwrap();
                    assert_eq!(tensor.shape(), $shape);
                    same(tensor, &array);
                    same(Tensor::from_values(&device, array).unwrap(), &array);
                })*
            };
        }
        check! {
            [1.5f32, 2.5] => [2];
            [[1i32, 2, 3], [4, 5, 6]] => [2, 3];
            [[[1u8, 2], [3, 4]]; 3] => [3, 2, 2];
            [[[[7i64; 2]; 1]; 3]; 4] => [4, 3, 1, 2];
            [[[[[7i16; 2]; 1]; 3]; 4]; 1] => [1, 4, 3, 1, 2];
            [[[[[[7i8; 2]; 1]; 3]; 4]; 1]; 2] => [2, 1, 4, 3, 1, 2];
            [[[[[[[7f64; 2]; 1]; 3]; 4]; 1]; 2]; 1] => [1, 2, 1, 4, 3, 1, 2];
            [[[[[[[[7u32; 2]; 1]; 3]; 4]; 1]; 2]; 1]; 2] => [2, 1, 2, 1, 4, 3, 1, 2];
        }
        let tensor = Tensor::from_values(&device, [[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
        let error = <[[f32; 4]; 1]>::try_from(&tensor).unwrap_err();
        assert!(error.to_string().contains("shape [2, 2] is not an array of shape [1, 4]"), "{error}");
    }
}
