//! Tensors: typed, shaped arrays in a device's memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::builder::Session;
use super::element::Element;
use crate::hal::{Allocator, Buffer, BufferParameters, BufferView, Device, ElementType, EncodingType, InputsOnlyRead};
use crate::{Error, Result};

/// An array of elements in row-major order, in a device's memory. Clones share the memory.
pub struct Tensor<T> {
    view: Arc<BufferView>,
    element: PhantomData<T>,
}

impl<T: Element> Tensor<T> {
    /// Copies elements into the memory of a session's device. The shape is in elements, outermost dimension first; an
    /// empty one is a scalar.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the shape asks for another number of elements; RESOURCE_EXHAUSTED where memory is short.
    pub fn new(session: &Session, shape: &[u64], elements: &[T]) -> Result<Tensor<T>> {
        Tensor::allocated(session.allocator(), shape, elements)
    }

    /// The same in the memory of a device, which sessions may share.
    ///
    /// # Errors
    /// As above.
    pub fn on_device(device: &Device, shape: &[u64], elements: &[T]) -> Result<Tensor<T>> {
        Tensor::allocated(device.allocator(), shape, elements)
    }

    /// A tensor of elements that somebody owns, such as an `Arc<Vec<T>>` or a mapped file: they are used where they are if they
    /// begin at a multiple of 64 bytes, and copied otherwise. The owner lives as long as the tensor, the program and operations
    /// that still run need it.
    ///
    /// What is written to the tensor is written to a copy. It is made when [`Tensor::write`] or a program writes to it, and before
    /// a kernel of machine code gets it, which does not say whether it writes: see [`Tensor::of_owner_read_only`].
    ///
    /// # Errors
    /// As above.
    pub fn of_owner<O>(device: &Device, shape: &[u64], owner: Arc<O>) -> Result<Tensor<T>>
    where
        O: AsRef<[T]> + Send + Sync + 'static,
    {
        Tensor::of_bytes(shape, owner, |bytes| device.allocator().import_or_copy(bytes, BufferParameters::DEVICE))
    }

    /// The same for a program that promises that the machine code of its modules only reads its arguments: elements are used
    /// where they are, and writing to them is an error.
    ///
    /// # Errors
    /// As above; OUT_OF_RANGE where they do not begin at a multiple of 64 bytes.
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
        check_count(shape, elements.len())?;
        let buffer = import(Arc::new(Bytes { owner, element: PhantomData }))?;
        let view = BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR)?;
        Ok(Tensor { view, element: PhantomData })
    }

    pub(super) fn allocated(allocator: &Arc<Allocator>, shape: &[u64], elements: &[T]) -> Result<Tensor<T>> {
        check_count(shape, elements.len())?;
        let buffer = allocator.allocate(BufferParameters::DEVICE, size_of_val(elements) as u64)?;
        buffer.write(0, bytemuck::cast_slice(elements))?;
        let view = BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR)?;
        Ok(Tensor { view, element: PhantomData })
    }

    /// A tensor of a view.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the view has elements of another type, or is not dense.
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

    /// The view.
    #[must_use]
    pub fn view(&self) -> &Arc<BufferView> {
        &self.view
    }

    /// Dimensions in elements, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.view.shape()
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.element_count() as usize
    }

    /// True where there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.element_count() == 0
    }

    /// Copies the elements out.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the target has another number of elements.
    pub fn read(&self, target: &mut [T]) -> Result<()> {
        if target.len() != self.len() {
            return Err(Error::invalid_argument(format!(
                "a tensor of {} elements does not fit a slice of {}",
                self.len(),
                target.len()
            )));
        }
        self.view.buffer().read(0, bytemuck::cast_slice_mut(target))
    }

    /// A copy of the elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the view is longer than its buffer.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        // A view's buffer holds all of its elements, which bounds the length.
        let mut elements = vec![T::zeroed(); self.len()];
        self.read(&mut elements)?;
        Ok(elements)
    }

    /// The elements where they lie, if nobody else holds the memory: neither another tensor, nor the program, nor an operation
    /// that still runs. Results of functions are held so by their caller alone, unless the program keeps them; None also
    /// where a tensor is a part of an allocation. [`Tensor::to_vec`] copies in any case.
    #[must_use]
    pub fn as_slice(&mut self) -> Option<&[T]> {
        self.as_mut_slice().map(|elements| &*elements)
    }

    /// As [`Tensor::as_slice`], to be changed: an argument that is written in place is not copied.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let length = self.len();
        let bytes = Arc::get_mut(&mut self.view)?.exclusive_bytes()?;
        // The buffer may be longer than the view.
        let bytes = bytes.get_mut(..length.checked_mul(size_of::<T>())?)?;
        // No bytes have any address.
        if bytes.is_empty() { Some(&mut []) } else { bytemuck::try_cast_slice_mut(bytes).ok() }
    }

    /// The elements as an `ndarray` view, where [`Tensor::as_slice`] gives them.
    #[cfg(feature = "ndarray")]
    #[must_use]
    pub fn as_array(&mut self) -> Option<ndarray::ArrayViewD<'_, T>> {
        let shape = self.dimensions()?;
        ndarray::ArrayViewD::from_shape(shape, self.as_slice()?).ok()
    }

    /// The elements as an `ndarray` view to be changed, where [`Tensor::as_mut_slice`] gives them.
    #[cfg(feature = "ndarray")]
    #[must_use]
    pub fn as_array_mut(&mut self) -> Option<ndarray::ArrayViewMutD<'_, T>> {
        let shape = self.dimensions()?;
        ndarray::ArrayViewMutD::from_shape(shape, self.as_mut_slice()?).ok()
    }

    /// A copy of the elements as an array of `ndarray`.
    ///
    /// # Errors
    /// Those of [`Tensor::to_vec`]; OUT_OF_RANGE where the host cannot address so large an array.
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

    /// Replaces the elements. Tensors that share the memory, and the program where it kept it, see the new ones.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the source has another number of elements; PERMISSION_DENIED where the memory is read-only.
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

#[cold]
fn other_element(found: ElementType, wanted: ElementType) -> Error {
    Error::invalid_argument(format!("a tensor of {found} is not one of {wanted}"))
}

#[cold]
fn other_encoding() -> Error {
    Error::unimplemented("the tensor's encoding is not dense row-major")
}

fn check_count(shape: &[u64], elements: usize) -> Result<()> {
    let count = shape.iter().try_fold(1u64, |count, dimension| count.checked_mul(*dimension));
    if count == Some(elements as u64) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("a tensor of shape {shape:?} does not have {elements} elements")))
}

/// The elements of an owner as bytes.
struct Bytes<T, O> {
    owner: Arc<O>,
    element: PhantomData<fn() -> T>,
}

impl<T: Element, O: AsRef<[T]>> AsRef<[u8]> for Bytes<T, O> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice((*self.owner).as_ref())
    }
}

impl<T> Tensor<T> {
    pub(super) fn kept_view(&self) -> &Arc<BufferView> {
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
    use super::*;

    #[test]
    fn elements_are_lent_to_the_only_holder() {
        let device = Device::create("local-sync").unwrap();
        let mut tensor = Tensor::on_device(&device, &[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        tensor.as_mut_slice().unwrap()[3] = 5.0;
        assert_eq!(tensor.as_slice().unwrap(), [1.0, 2.0, 3.0, 5.0]);
        let other = tensor.clone();
        assert!(tensor.as_slice().is_none());
        drop(other);
        // A share of the buffer is one of the memory, too.
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
        assert_eq!(tensor.view().buffer().address().0.cast_const().cast(), owner.0.as_ptr());
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
    fn parts_of_a_buffer_are_read_as_far_as_the_view_goes() {
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
