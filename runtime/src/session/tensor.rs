//! Tensors: typed, shaped arrays in a device's memory.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use super::Session;
use super::element::Element;
use super::input::{Input, ToTensor, check_count};
use crate::hal::{Allocator, BufferParameters, BufferView, ElementType, EncodingType};
#[cfg(feature = "std")]
use crate::hal::{Buffer, Device, InputsOnlyRead};
use crate::vm::{Ledger, array};
use crate::{Error, Result};

/// An array of elements in row-major order, in a device's memory. Clones share the memory.
pub struct Tensor<T> {
    view: Arc<BufferView>,
    element: PhantomData<T>,
}

impl<T: Element> Tensor<T> {
    /// Copies elements into the memory of a session's device. The shape is in elements, outermost dimension first; an
    /// empty shape is a scalar's.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the shape has another number of elements; RESOURCE_EXHAUSTED if memory is short.
    pub fn new(session: &Session, shape: &[u64], elements: &[T]) -> Result<Tensor<T>> {
        Tensor::allocated(session.allocator(), shape, elements)
    }

    fn of_input<'a>(allocator: &Arc<Allocator>, values: Input<'a, T>) -> Result<Tensor<T>> {
        let declared: Vec<Option<u64>> = values.own_shape().iter().copied().map(Some).collect();
        Tensor::from_view(values.into_owned_view(&**allocator, &declared)?)
    }

    /// Returns the same tensor with elements of another type for the same element type of the device, such as `half::f16` for
    /// [`F16`](super::F16).
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the element types differ.
    pub fn cast<U: Element>(self) -> Result<Tensor<U>> {
        Tensor::from_view(self.view)
    }

    pub(super) fn into_view(self) -> Arc<BufferView> {
        self.view
    }

    pub(super) fn allocated(allocator: &Arc<Allocator>, shape: &[u64], elements: &[T]) -> Result<Tensor<T>> {
        check_count(elements.len(), shape)?;
        let buffer = allocator.allocate(BufferParameters::DEVICE, size_of_val(elements) as u64)?;
        buffer.write(0, bytemuck::cast_slice(elements))?;
        let view = BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR, Ledger::HOST)?;
        Ok(Tensor { view, element: PhantomData })
    }

    /// Wraps a buffer view.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the view has another element type, or is not dense.
    #[inline]
    pub fn from_view(view: Arc<BufferView>) -> Result<Tensor<T>> {
        if !T::accepts(view.element_type()) {
            return Err(other_element(view.element_type(), T::TYPE));
        }
        if view.encoding_type() != EncodingType::DENSE_ROW_MAJOR && view.encoding_type() != EncodingType::OPAQUE {
            return Err(other_encoding());
        }
        Ok(Tensor { view, element: PhantomData })
    }

    /// Returns the buffer view.
    #[must_use]
    pub fn view(&self) -> &Arc<BufferView> {
        &self.view
    }

    /// Returns the dimensions in elements, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.view.shape()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.element_count() as usize
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.element_count() == 0
    }

    /// Copies the elements into a slice.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the target has another length.
    pub fn read(&self, target: &mut [T]) -> Result<()> {
        if target.len() != self.len() {
            return Err(Error::invalid_argument(format!(
                "a tensor of {} elements does not fit a slice of {}",
                self.len(),
                target.len()
            )));
        }
        T::read(self.view.buffer(), target)
    }

    /// Copies the elements into a vector.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the view is longer than its buffer; RESOURCE_EXHAUSTED if the host has no memory for the copy.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        // A view of opaque encoding may be longer than its buffer.
        if self.view.byte_length() > self.view.buffer().byte_length() {
            return Err(Error::out_of_range("the view is longer than its buffer"));
        }
        let mut elements = array::filled(self.len(), T::zeroed())?;
        self.read(&mut elements)?;
        Ok(elements)
    }

    /// Returns the elements in place if this tensor is the only reference to its memory. Returns None while another
    /// tensor, the program or a pending operation refers to it, and for a tensor that is a part of an allocation.
    /// Results of functions are unshared unless the program keeps them. [`Tensor::to_vec`] always copies.
    #[must_use]
    pub fn as_slice(&mut self) -> Option<&[T]> {
        self.as_mut_slice().map(|elements| &*elements)
    }

    /// Returns the elements for writing, under the conditions of [`Tensor::as_slice`]. An argument that is written in
    /// place is not copied.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let length = self.len();
        let bytes = Arc::get_mut(&mut self.view)?.exclusive_bytes()?;
        // The buffer may be longer than the view.
        let bytes = bytes.get_mut(..length.checked_mul(size_of::<T>())?)?;
        // An empty slice may have any address.
        if bytes.is_empty() { Some(&mut []) } else { T::in_place_mut(bytes) }
    }

    /// Returns the elements as an `ndarray` view, under the conditions of [`Tensor::as_slice`].
    #[cfg(feature = "ndarray")]
    #[must_use]
    pub fn as_array(&mut self) -> Option<ndarray::ArrayViewD<'_, T>> {
        let shape = self.dimensions()?;
        ndarray::ArrayViewD::from_shape(shape, self.as_slice()?).ok()
    }

    /// Returns the elements as a mutable `ndarray` view, under the conditions of [`Tensor::as_mut_slice`].
    #[cfg(feature = "ndarray")]
    #[must_use]
    pub fn as_array_mut(&mut self) -> Option<ndarray::ArrayViewMutD<'_, T>> {
        let shape = self.dimensions()?;
        ndarray::ArrayViewMutD::from_shape(shape, self.as_mut_slice()?).ok()
    }

    /// Copies the elements into an `ndarray` array.
    ///
    /// ```
    /// # fn main() -> incarnate_runtime::Result<()> {
    /// # use incarnate_runtime::{hal::Device, ndarray, session::Tensor};
    /// # let device = Device::create("local-sync")?;
    /// let pixels = ndarray::arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// // A view of another layout is copied into row-major order.
    /// let turned = Tensor::from_values(&device, pixels.t())?;
    /// assert_eq!(turned.to_array()?, pixels.t().into_dyn());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::to_vec`]; OUT_OF_RANGE if the host cannot address so large an array.
    #[cfg(feature = "ndarray")]
    pub fn to_array(&self) -> Result<ndarray::ArrayD<T>> {
        let too_large = || Error::out_of_range(format!("an array of shape {:?}", self.shape()));
        let shape = self.dimensions().ok_or_else(too_large)?;
        ndarray::ArrayD::from_shape_vec(shape, self.to_vec()?).map_err(|_| too_large())
    }

    #[cfg(feature = "ndarray")]
    fn dimensions(&self) -> Option<Vec<usize>> {
        self.shape().iter().map(|dimension| usize::try_from(*dimension).ok()).collect()
    }

    /// Replaces the elements. All tensors that share the memory see the new ones, and so does the program if it kept
    /// the memory.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the source has another length; PERMISSION_DENIED if the memory is read-only.
    pub fn write(&self, elements: &[T]) -> Result<()> {
        if elements.len() != self.len() {
            return Err(Error::invalid_argument(format!(
                "a tensor of {} elements cannot take {}",
                self.len(),
                elements.len()
            )));
        }
        self.view.buffer().write(0, bytemuck::cast_slice(elements))
    }
}

/// Tensors in the memory of a device.
#[cfg(feature = "std")]
impl<T: Element> Tensor<T> {
    /// Copies elements into the memory of a device. Sessions can share the tensor.
    ///
    /// # Errors
    /// Those of [`Tensor::new`].
    pub fn on_device(device: &Device, shape: &[u64], elements: &[T]) -> Result<Tensor<T>> {
        Tensor::allocated(device.allocator(), shape, elements)
    }

    /// Creates a tensor on a device from nested arrays of up to 8 dimensions, a slice, a vector, a number, or with the feature
    /// `ndarray` an array of that crate. A slice or a vector becomes a tensor of rank 1. In a session, [`Session::tensor`] does the
    /// same.
    ///
    /// ```
    /// # fn main() -> incarnate_runtime::Result<()> {
    /// # use incarnate_runtime::{hal::Device, session::Tensor};
    /// # let device = Device::create("local-sync")?;
    /// let tensor = Tensor::from_values(&device, [[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(tensor.shape(), [2, 3]);
    /// let array: [[f32; 3]; 2] = tensor.try_into()?;
    /// assert_eq!(array[1], [4.0, 5.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if memory is short.
    pub fn from_values<'a>(device: &Device, values: impl ToTensor<'a, Element = T>) -> Result<Tensor<T>> {
        Tensor::of_input(device.allocator(), values.into_input())
    }

    /// Creates a tensor from elements with shared ownership, such as an `Arc<Vec<T>>` or a mapped file. Elements that
    /// begin at a multiple of 64 bytes are used in place; others are copied. The owner lives as long as the tensor, the
    /// program or a pending operation needs it.
    ///
    /// Copy on write: the elements are copied before [`Tensor::write`] or the program writes to the tensor, and before
    /// a machine-code kernel takes it, because such a kernel does not declare whether it writes. See
    /// [`Tensor::of_owner_read_only`].
    ///
    /// # Errors
    /// Those of [`Tensor::new`].
    pub fn of_owner<O>(device: &Device, shape: &[u64], owner: Arc<O>) -> Result<Tensor<T>>
    where
        O: AsRef<[T]> + Send + Sync + 'static,
    {
        Tensor::of_bytes(shape, owner, |bytes| device.allocator().import_or_copy(bytes, BufferParameters::DEVICE))
    }

    /// Creates a tensor that uses an owner's elements in place and is read-only. The caller promises that the machine
    /// code of the program's modules only reads its arguments. Writing to the tensor is an error.
    ///
    /// # Errors
    /// Those of [`Tensor::new`]; OUT_OF_RANGE if the elements do not begin at a multiple of 64 bytes.
    pub fn of_owner_read_only<O>(
        device: &Device,
        shape: &[u64],
        owner: Arc<O>,
        promise: InputsOnlyRead,
    ) -> Result<Tensor<T>>
    where
        O: AsRef<[T]> + Send + Sync + 'static,
    {
        let allocator = device.allocator();
        Tensor::of_bytes(shape, owner, |bytes| allocator.import_read_only(bytes, BufferParameters::DEVICE, promise))
    }

    fn of_bytes<O: AsRef<[T]>>(
        shape: &[u64],
        owner: Arc<O>,
        import: impl FnOnce(Arc<Bytes<T, O>>) -> Result<Arc<Buffer>>,
    ) -> Result<Tensor<T>> {
        let elements: &[T] = (*owner).as_ref();
        check_count(elements.len(), shape)?;
        let buffer = import(Arc::new(Bytes { owner, element: PhantomData }))?;
        let view = BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR, Ledger::HOST)?;
        Ok(Tensor { view, element: PhantomData })
    }
}

#[cold]
fn other_element(found: ElementType, wanted: ElementType) -> Error {
    Error::invalid_argument(format!("a tensor of {found} is not one of {wanted}"))
}

#[cold]
fn other_encoding() -> Error {
    Error::unimplemented("the tensor's encoding is not dense row-major")
}

/// The bytes of an owner's elements.
#[cfg(feature = "std")]
struct Bytes<T, O> {
    owner: Arc<O>,
    element: PhantomData<fn() -> T>,
}

#[cfg(feature = "std")]
impl<T: Element, O: AsRef<[T]>> AsRef<[u8]> for Bytes<T, O> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice((*self.owner).as_ref())
    }
}

impl Session {
    /// Creates a tensor in the memory of the session's device: see [`Tensor::from_values`].
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if memory is short.
    pub fn tensor<'a, V: ToTensor<'a>>(&self, values: V) -> Result<Tensor<V::Element>> {
        Tensor::of_input(self.allocator(), values.into_input())
    }
}

impl<T> Tensor<T> {
    pub(super) fn shared_view(&self) -> &Arc<BufferView> {
        &self.view
    }
}

impl<T> Clone for Tensor<T> {
    fn clone(&self) -> Tensor<T> {
        Tensor { view: self.view.clone(), element: PhantomData }
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<{}>{:?}", T::TYPE, self.shape())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn elements_are_borrowed_from_the_only_reference() {
        let device = Device::create("local-sync").unwrap();
        let mut tensor = Tensor::on_device(&device, &[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        tensor.as_mut_slice().unwrap()[3] = 5.0;
        assert_eq!(tensor.as_slice().unwrap(), [1.0, 2.0, 3.0, 5.0]);
        let other = tensor.clone();
        assert!(tensor.as_slice().is_none());
        drop(other);
        // A reference to the buffer shares the memory, too.
        let buffer = tensor.view().buffer().clone();
        assert!(tensor.as_slice().is_none());
        drop(buffer);
        assert!(tensor.as_slice().is_some());
        assert!(Tensor::on_device(&device, &[3], &[1.0f32]).is_err());
        assert_eq!(Tensor::<i64>::on_device(&device, &[0], &[]).unwrap().as_slice(), Some(&[][..]));
    }

    #[test]
    fn elements_of_an_owner_are_used_in_place_where_they_are_aligned() {
        #[repr(align(64))]
        struct Aligned([f32; 20]);
        impl AsRef<[f32]> for Aligned {
            fn as_ref(&self) -> &[f32] {
                &self.0
            }
        }
        struct Shifted(Aligned);
        impl AsRef<[f32]> for Shifted {
            fn as_ref(&self) -> &[f32] {
                &self.0.0[1..]
            }
        }
        let device = Device::create("local-sync").unwrap();
        let owner = Arc::new(Aligned([3.0; 20]));
        let tensor = Tensor::of_owner(&device, &[4, 5], owner.clone()).unwrap();
        assert_eq!(
            tensor.view().buffer().pin(crate::hal::backend::Access::Read).unwrap().address().0.cast_const().cast(),
            owner.0.as_ptr()
        );
        assert_eq!(tensor.to_vec().unwrap(), [3.0; 20]);
        assert_eq!(Arc::strong_count(&owner), 2);
        let before = device.allocator().statistics().allocated;
        tensor.write(&[5.0; 20]).unwrap();
        assert_eq!((tensor.to_vec().unwrap(), owner.0), (vec![5.0; 20], [3.0; 20]));
        assert_eq!(device.allocator().statistics().allocated - before, 80);
        drop(tensor);
        assert_eq!(Arc::strong_count(&owner), 1);
        let shifted = Arc::new(Shifted(Aligned([4.0; 20])));
        let copied = Tensor::of_owner(&device, &[19], shifted.clone()).unwrap();
        assert_eq!(copied.to_vec().unwrap(), [4.0; 19]);
        assert_eq!(Arc::strong_count(&shifted), 1);
        assert!(Tensor::of_owner(&device, &[20], shifted).is_err());
    }

    #[test]
    fn reads_are_bounded_by_the_view() {
        let buffer = Allocator::new().allocate(BufferParameters::DEVICE, 64).unwrap();
        buffer.fill(0, 64, 7, 4).unwrap();
        let view = BufferView::new(buffer, &[3], ElementType::INT_32, EncodingType::DENSE_ROW_MAJOR).unwrap();
        let mut tensor = Tensor::<i32>::from_view(Arc::new(view)).unwrap();
        assert_eq!(tensor.as_slice().unwrap(), [7, 7, 7]);
    }

    #[cfg(feature = "ndarray")]
    #[test]
    fn arrays_have_the_shape_of_the_tensor() {
        let device = Device::create("local-sync").unwrap();
        let mut tensor = Tensor::on_device(&device, &[2, 3], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        tensor.as_array_mut().unwrap()[[1, 0]] = 9;
        assert_eq!(tensor.as_array().unwrap().shape(), [2, 3]);
        assert_eq!(tensor.to_array().unwrap()[[1, 0]], 9);
    }
}
