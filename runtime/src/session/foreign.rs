//! Elements and arrays of other crates.

use super::input::Input;

#[cfg(feature = "ndarray")]
mod arrays {
    use ndarray::{Array, ArrayBase, ArrayView, Data, Dimension};

    use super::Input;
    use crate::session::Element;
    use crate::session::arrays::to_tensor;
    use crate::session::input::into_input;

    into_input! {
        /// Elements in row-major order are passed as a slice, others are copied.
        {T: Element, S: Data<Elem = T>, D: Dimension} &'a ArrayBase<S, D> => T, array => array.view().into_input();
        /// Elements in row-major order are passed as a slice, others are copied.
        {T: Element, D: Dimension} ArrayView<'a, T, D> => T, view => {
            let shape = shape(view.shape());
            match view.to_slice() {
                Some(elements) => Input::new(&shape, elements),
                None => Input::from_vec(&shape, view.iter().copied().collect()),
            }
        };
        {T: Element, D: Dimension} Array<T, D> => T, array => {
            Input::from_vec(&shape(array.shape()), array.iter().copied().collect())
        };
    }

    to_tensor! {
        {T: Element, S: Data<Elem = T>, D: Dimension} &'a ArrayBase<S, D> => T;
        {T: Element, D: Dimension} ArrayView<'a, T, D> => T;
        {T: Element, D: Dimension} Array<T, D> => T;
    }

    #[cfg(feature = "std")]
    crate::session::convert::elements! {
        {T: Element, S: Data<Elem = T>, D: Dimension} ArrayBase<S, D>;
    }

    fn shape(shape: &[usize]) -> Vec<u64> {
        shape.iter().map(|dimension| *dimension as u64).collect()
    }

    #[cfg(test)]
    #[allow(clippy::unwrap_used, reason = "tests")]
    mod tests {
        use ndarray::{Array, Ix2, arr0, arr2};

        use crate::hal::Device;
        use crate::session::Tensor;

        #[test]
        fn arrays_of_any_layout_become_tensors_of_their_shape() {
            let device = Device::create("local-sync").unwrap();
            let array = arr2(&[[1i32, 2, 3], [4, 5, 6]]);
            let made = [
                Tensor::from_values(&device, &array).unwrap(),
                Tensor::from_values(&device, array.view()).unwrap(),
                Tensor::from_values(&device, array.clone().into_dyn()).unwrap(),
                Tensor::from_values(&device, &array.to_shared()).unwrap(),
            ];
            for tensor in &made {
                assert_eq!(tensor.to_array().unwrap().into_dimensionality::<Ix2>().unwrap(), array);
            }
            let turned = Tensor::from_values(&device, array.t()).unwrap();
            assert_eq!((turned.shape(), turned.to_vec().unwrap()), (&[3, 2][..], vec![1, 4, 2, 5, 3, 6]));
            let turned: Array<i32, _> = array.reversed_axes();
            assert_eq!(Tensor::from_values(&device, turned).unwrap().to_vec().unwrap(), [1, 4, 2, 5, 3, 6]);
            assert!(Tensor::from_values(&device, &arr0(7u8)).unwrap().shape().is_empty());
        }
    }
}

/// Element types of other crates that have the bits of this crate's.
#[cfg(any(feature = "half", feature = "num-complex"))]
macro_rules! same_bits {
    ($($foreign:ty => $own:ty, $constant:ident;)*) => {
        $(impl crate::session::Element for $foreign {
            const TYPE: crate::hal::ElementType = crate::hal::ElementType::$constant;
            crate::session::element::plain_elements!();
        }

        impl crate::session::ScalarElement for $foreign {}

        #[cfg(feature = "std")]
        crate::session::convert::tensors_of_rank_0!($foreign);

        crate::session::input::into_input! {
            {} &'a [$foreign] => $own, elements => bytemuck::cast_slice::<$foreign, $own>(elements).into_input();
            {} &'a Vec<$foreign> => $own, elements => elements.as_slice().into_input();
            {} &'a crate::session::Tensor<$foreign> => $own, tensor => Input::borrowed(tensor.view());
        }
        )*
    };
}

#[cfg(feature = "half")]
same_bits! {
    half::f16 => crate::session::F16, FLOAT_16;
    half::bf16 => crate::session::BF16, BFLOAT_16;
}

#[cfg(feature = "num-complex")]
same_bits! {
    num_complex::Complex<f32> => [f32; 2], COMPLEX_FLOAT_64;
    num_complex::Complex<f64> => [f64; 2], COMPLEX_FLOAT_128;
}

#[cfg(all(test, feature = "half", feature = "num-complex"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use half::{bf16, f16};
    use num_complex::Complex;

    use crate::hal::{Allocator, BufferView, Device, ElementType};
    use crate::session::{BF16, Element, F16, IntoInput, Tensor};

    fn bytes<'a, T: Element>(input: impl IntoInput<'a, T>) -> (ElementType, Vec<u8>) {
        let view = input.into_input().into_view(&Allocator::new(), &[None]).unwrap();
        let view = view.get::<BufferView>().unwrap();
        (view.element_type(), view.buffer().to_vec().unwrap())
    }

    #[test]
    fn elements_of_other_crates_have_the_same_bits() {
        let halves = [f16::from_f32(1.5), f16::from_f32(-2.0)];
        let expected = (ElementType::FLOAT_16, vec![0x00, 0x3E, 0x00, 0xC0]);
        assert_eq!(bytes::<F16>(&halves[..]), expected);
        assert_eq!(bytes::<f16>(&halves[..]), expected);
        assert_eq!(bytes::<F16>(&halves.to_vec()), expected);
        let numbers = [bf16::from_f32(1.5)];
        assert_eq!(bytes::<BF16>(&numbers[..]), (ElementType::BFLOAT_16, vec![0xC0, 0x3F]));
        let device = Device::create("local-sync").unwrap();
        let tensor = Tensor::from_values(&device, halves).unwrap();
        assert_eq!(bytes::<F16>(&tensor), expected);
        assert_eq!(tensor.cast::<F16>().unwrap().to_vec().unwrap()[0].to_f32(), 1.5);
        let complex = [Complex::new(1.0f32, -1.0)];
        let pairs = [[1.0f32, -1.0]];
        assert_eq!(bytes::<[f32; 2]>(&complex[..]), bytes::<[f32; 2]>(&pairs[..]));
        assert!(Tensor::from_values(&device, complex).unwrap().cast::<f64>().is_err());
    }
}
