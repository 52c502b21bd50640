//! The elements of a tensor for reading.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use super::element::Element;
use super::tensor::Tensor;
use crate::Result;
use crate::hal::{BufferView, ExclusiveBytes};

/// The elements of a tensor, in row-major order: a slice. They are read in place if the tensor was the only reference to its memory,
/// as results of functions are unless the program keeps them; a copy otherwise, and of `bool`.
///
/// A guard owns the tensor. A reference to one would not do: clones of the tensor, which programs write to, share its memory.
///
/// ```
/// # fn main() -> incarnate_runtime::Result<()> {
/// # use incarnate_runtime::{hal::Device, session::Tensor};
/// # let device = Device::create("local-sync")?;
/// let result = Tensor::from_values(&device, [[1.0f32, 2.0], [3.0, 4.0]])?;
/// let elements = result.into_elements()?;
/// assert_eq!(elements[3], 4.0);
/// assert_eq!(elements.iter().sum::<f32>(), 10.0);
/// assert_eq!(elements.shape(), [2, 2]);
/// # Ok(())
/// # }
/// ```
pub struct Elements<T> {
    source: Source<T>,
    shape: Box<[u64]>,
}

enum Source<T> {
    /// The first bytes are the elements.
    InPlace(ExclusiveBytes, usize),
    Copied(Vec<T>),
}

impl<T: Element> Tensor<T> {
    /// Returns the elements for reading, in place if no other tensor, no program and no pending operation refers to them.
    ///
    /// # Errors
    /// Those of [`Tensor::to_vec`].
    pub fn into_elements(self) -> Result<Elements<T>> {
        let shape: Box<[u64]> = self.shape().into();
        let length = self.len();
        let view = match Arc::try_unwrap(self.into_view()) {
            Ok(view) => view,
            Err(shared) => return Elements::copied(shared, shape),
        };
        let (element_type, encoding) = (view.element_type(), view.encoding_type());
        let buffer = match ExclusiveBytes::new(view.into_buffer()) {
            Ok(bytes) => {
                let end = length.checked_mul(size_of::<T>());
                if let Some(end) = end.filter(|end| in_place::<T>(&bytes, *end).is_some()) {
                    return Ok(Elements { source: Source::InPlace(bytes, end), shape });
                }
                bytes.into_buffer()
            }
            Err(shared) => shared,
        };
        Elements::copied(Arc::new(BufferView::new(buffer, &shape, element_type, encoding)?), shape)
    }
}

/// Returns the elements in the first bytes.
fn in_place<T: Element>(bytes: &[u8], end: usize) -> Option<&[T]> {
    let bytes = bytes.get(..end)?;
    // An empty slice may have any address.
    if bytes.is_empty() { Some(&[]) } else { T::in_place(bytes) }
}

impl<T: Element> Elements<T> {
    fn copied(view: Arc<BufferView>, shape: Box<[u64]>) -> Result<Elements<T>> {
        Ok(Elements { source: Source::Copied(Tensor::from_view(view)?.to_vec()?), shape })
    }

    /// Returns the dimensions in elements, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }
}

impl<T: Element> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.source {
            // `into_elements` found the bytes to be elements.
            Source::InPlace(bytes, end) => in_place(bytes, *end).unwrap_or_default(),
            Source::Copied(elements) => elements,
        }
    }
}

impl<T: Element> AsRef<[T]> for Elements<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Element> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::hal::Device;

    #[test]
    fn elements_are_in_place_without_another_reference() {
        let device = Device::create("local-sync").unwrap();
        let tensor = || Tensor::from_values(&device, [[1i32, 2], [3, 4]]).unwrap();
        let is_in_place = |elements: &Elements<i32>| matches!(elements.source, Source::InPlace(..));
        let elements = tensor().into_elements().unwrap();
        assert!(is_in_place(&elements) && *elements == [1, 2, 3, 4]);
        let (first, second) = (tensor(), tensor());
        let (clone, buffer) = (first.clone(), second.view().buffer().clone());
        let copies = [first.into_elements().unwrap(), second.into_elements().unwrap()];
        clone.write(&[9; 4]).unwrap();
        buffer.fill(0, 16, 9, 1).unwrap();
        assert!(copies.iter().all(|elements| !is_in_place(elements) && **elements == [1, 2, 3, 4]));
        assert!(is_in_place(&clone.into_elements().unwrap()));
        let none = Tensor::<i32>::on_device(&device, &[0, 4], &[]).unwrap().into_elements().unwrap();
        assert_eq!((none.len(), none.shape()), (0, &[0, 4][..]));
        let used = std::thread::spawn(move || elements.iter().sum::<i32>()).join().unwrap();
        assert_eq!(used, 10);
    }
}
