//! Tensors: typed, shaped arrays in a device's memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::builder::Session;
use super::element::Element;
use crate::hal::{BufferParameters, BufferView, EncodingType};
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
        let count = shape.iter().try_fold(1u64, |count, dimension| count.checked_mul(*dimension));
        if count != Some(elements.len() as u64) {
            return Err(Error::invalid_argument(format!(
                "a tensor of shape {shape:?} does not have {} elements",
                elements.len()
            )));
        }
        let buffer = session.allocator().allocate(BufferParameters::DEVICE, size_of_val(elements) as u64)?;
        buffer.write(0, bytemuck::cast_slice(elements))?;
        let view = BufferView::new(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR)?;
        Ok(Tensor { view: Arc::new(view), element: PhantomData })
    }

    /// A tensor of a view.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the view has elements of another type, or is not dense.
    pub fn from_view(view: Arc<BufferView>) -> Result<Tensor<T>> {
        if !T::accepts(view.element_type()) {
            return Err(Error::invalid_argument(format!(
                "a tensor of {} is not one of {}",
                view.element_type(),
                T::TYPE
            )));
        }
        if view.encoding_type() != EncodingType::DENSE_ROW_MAJOR && view.encoding_type() != EncodingType::OPAQUE {
            return Err(Error::unimplemented("the tensor's encoding is not dense row-major"));
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

impl<T> Tensor<T> {
    pub(super) fn shared_view(&self) -> Arc<BufferView> {
        self.view.clone()
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
