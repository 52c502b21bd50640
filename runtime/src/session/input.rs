//! Arguments of typed functions: tensors, or elements that become tensors.

use std::sync::Arc;

use smallvec::SmallVec;

use super::element::Element;
use super::tensor::Tensor;
use crate::hal::{Allocator, Buffer, BufferParameters, BufferView, EncodingType};
use crate::vm::{BorrowedRef, Ref};
use crate::{Error, Result};

/// Dimensions of up to this rank need no allocation.
type Shape = SmallVec<[u64; 6]>;

/// A tensor that a function is called with: one on the device already, or elements of the host's.
///
/// It is made of references to tensors, slices, vectors, arrays, arrays of arrays, and (for tensors without dimensions)
/// numbers. Slices and vectors take the shape that the function declares; where that leaves more than one dimension open,
/// [`Input::new`] says it.
///
/// Elements are used where they are, without a copy, where
/// - there are 4 KiB of them or more ([`MIN_BORROWED_BYTES`](crate::support::MIN_BORROWED_BYTES)),
/// - they begin at a multiple of 64 bytes, as those of an [`AlignedVec`](super::AlignedVec) do,
/// - the function returns when it is done (it is not `async`) and runs on a device, and
/// - its kernels are bytecode, or [the program promises](super::SessionBuilder::lend_inputs) that they only read arguments.
///
/// What the program keeps of them, it is given a copy of when the call ends, and what it writes to, before. Others are copied
/// into the memory of the device. A [`Tensor`] is in any case used where it is.
#[derive(Clone, Debug)]
pub struct Input<'a, T> {
    source: Source<'a, T>,
}

/// Small, as it is moved before it is looked at.
#[derive(Clone, Debug)]
enum Source<'a, T> {
    /// On the device, where a tensor keeps it.
    Lent(&'a Arc<BufferView>),
    /// On the device.
    View(Arc<BufferView>),
    /// Elements in row-major order, of the shape that is declared.
    Flat(&'a [T]),
    /// Elements of arrays within arrays: their dimensions, and how many there are of them.
    Nested(&'a [T], [u64; 3], usize),
    /// Elements and their shape.
    Shaped(&'a [T], Box<[u64]>),
}

impl<'a, T: Element> Input<'a, T> {
    /// Elements in row-major order, and their shape.
    #[must_use]
    pub fn new(shape: &[u64], elements: &'a [T]) -> Input<'a, T> {
        Input { source: Source::Shaped(elements, shape.into()) }
    }

    /// The tensor on a device, of a shape that fits the declared one; elements of the host's as `memory` has them.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it does not fit; RESOURCE_EXHAUSTED where memory is short.
    #[inline(always)]
    pub(crate) fn into_view(self, memory: &impl Memory<'a>, declared: &[Option<u64>]) -> Result<PassedRef<'a>> {
        if let Source::Lent(view) = self.source {
            return match check(view.shape(), declared) {
                Ok(()) => Ok(PassedRef::Lent(BorrowedRef::object(view))),
                Err(error) => Err(error),
            };
        }
        match self.into_own_view(memory, declared) {
            Ok(view) => Ok(PassedRef::Owned(Ref::from(view))),
            Err(error) => Err(error),
        }
    }

    fn into_own_view(self, memory: &impl Memory<'a>, declared: &[Option<u64>]) -> Result<Arc<BufferView>> {
        match self.source {
            Source::Lent(view) => Ok(Arc::clone(view)),
            Source::View(view) => {
                check(view.shape(), declared)?;
                Ok(view)
            }
            Source::Flat(elements) => {
                let rest = open_dimension(elements.len() as u64, declared)?;
                let shape: Shape = declared.iter().map(|dim| dim.unwrap_or(rest)).collect();
                of_elements(memory, elements, &shape)
            }
            Source::Nested(elements, shape, rank) => {
                let shape = shape.get(..rank).unwrap_or(&shape);
                check(shape, declared)?;
                of_elements(memory, elements, shape)
            }
            Source::Shaped(elements, shape) => {
                check(&shape, declared)?;
                of_elements(memory, elements, &shape)
            }
        }
    }
}

/// A reference that a function is called with: one of its own, or what the caller keeps for the length of the call.
#[derive(Debug)]
pub enum PassedRef<'a> {
    /// The caller keeps the object.
    Lent(BorrowedRef<'a>),
    /// It was made for the call.
    Owned(Ref),
}

impl PassedRef<'_> {
    /// A reference that the function may keep.
    #[inline]
    #[must_use]
    pub fn into_owned(self) -> Ref {
        match self {
            PassedRef::Lent(lent) => lent.clone(),
            PassedRef::Owned(owned) => owned,
        }
    }
}

impl std::ops::Deref for PassedRef<'_> {
    type Target = Ref;
    #[inline]
    fn deref(&self) -> &Ref {
        match self {
            PassedRef::Lent(lent) => lent,
            PassedRef::Owned(owned) => owned,
        }
    }
}

/// Where the host's elements become a buffer: in memory of a device, or where they are.
pub(crate) trait Memory<'a> {
    /// The bytes as a buffer.
    fn buffer(&self, bytes: &'a [u8]) -> Result<Arc<Buffer>>;
}

/// A copy.
impl Memory<'_> for Allocator {
    #[inline(always)]
    fn buffer(&self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        let buffer = self.allocate(BufferParameters::DEVICE, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }
}

/// Elements as a tensor of the device.
fn of_elements<'a, T: Element>(memory: &impl Memory<'a>, elements: &'a [T], shape: &[u64]) -> Result<Arc<BufferView>> {
    if count(shape.iter().copied()) != Some(elements.len() as u64) {
        let count = elements.len();
        return Err(Error::invalid_argument(format!("a tensor of shape {shape:?} does not have {count} elements")));
    }
    let buffer = memory.buffer(bytemuck::cast_slice(elements))?;
    BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR)
}

fn count(mut dims: impl Iterator<Item = u64>) -> Option<u64> {
    dims.try_fold(1u64, u64::checked_mul)
}

/// Whether a shape is the declared one, of which open dimensions may be anything.
#[inline(always)]
pub(crate) fn fits(shape: &[u64], declared: &[Option<u64>]) -> bool {
    shape.len() == declared.len()
        && shape.iter().zip(declared).all(|(dim, declared)| declared.is_none_or(|declared| declared == *dim))
}

#[inline(always)]
fn check(shape: &[u64], declared: &[Option<u64>]) -> Result<()> {
    if fits(shape, declared) { Ok(()) } else { Err(other_shape(shape, declared)) }
}

#[cold]
fn other_shape(shape: &[u64], declared: &[Option<u64>]) -> Error {
    Error::invalid_argument(format!("a tensor of shape {} is taken, one of {shape:?} is given", shape_text(declared)))
}

/// A declared shape as text, such as `[?, 4]`.
pub(crate) fn shape_text(declared: &[Option<u64>]) -> String {
    let dims: Vec<String> = declared.iter().map(|dim| dim.map_or("?".to_owned(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}

/// The dimension that is open in a shape of a number of elements; anything where none is.
fn open_dimension(elements: u64, declared: &[Option<u64>]) -> Result<u64> {
    let open = declared.iter().filter(|dim| dim.is_none()).count();
    if open == 0 {
        return Ok(0);
    }
    match count(declared.iter().copied().flatten()) {
        Some(fixed) if open == 1 && fixed > 0 && elements.is_multiple_of(fixed) => Ok(elements / fixed),
        _ => Err(ambiguous(elements, declared, open)),
    }
}

#[cold]
fn ambiguous(elements: u64, declared: &[Option<u64>], open: usize) -> Error {
    let shape = shape_text(declared);
    Error::invalid_argument(match open {
        1 => format!("{elements} elements do not make a tensor of shape {shape}"),
        _ => format!("{elements} elements make tensors of shape {shape} in several ways: say which with `Input::new`"),
    })
}

impl<'a, T> From<&'a [T]> for Input<'a, T> {
    fn from(elements: &'a [T]) -> Input<'a, T> {
        Input { source: Source::Flat(elements) }
    }
}

impl<'a, T> From<&'a Vec<T>> for Input<'a, T> {
    fn from(elements: &'a Vec<T>) -> Input<'a, T> {
        Input { source: Source::Flat(elements) }
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Input<'a, T> {
    fn from(elements: &'a [T; N]) -> Input<'a, T> {
        Input { source: Source::Flat(elements) }
    }
}

impl<'a, T, const M: usize, const N: usize> From<&'a [[T; N]; M]> for Input<'a, T> {
    fn from(elements: &'a [[T; N]; M]) -> Input<'a, T> {
        Input { source: Source::Nested(elements.as_flattened(), [M as u64, N as u64, 0], 2) }
    }
}

impl<'a, T, const L: usize, const M: usize, const N: usize> From<&'a [[[T; N]; M]; L]> for Input<'a, T> {
    fn from(elements: &'a [[[T; N]; M]; L]) -> Input<'a, T> {
        let shape = [L as u64, M as u64, N as u64];
        Input { source: Source::Nested(elements.as_flattened().as_flattened(), shape, 3) }
    }
}

/// A tensor without dimensions.
impl<'a, T: Element> From<&'a T> for Input<'a, T> {
    fn from(element: &'a T) -> Input<'a, T> {
        Input { source: Source::Nested(std::slice::from_ref(element), [0; 3], 0) }
    }
}

impl<'a, T> From<&'a Tensor<T>> for Input<'a, T> {
    #[inline]
    fn from(tensor: &'a Tensor<T>) -> Self {
        Input { source: Source::Lent(tensor.kept_view()) }
    }
}

impl<T> From<Tensor<T>> for Input<'_, T> {
    fn from(tensor: Tensor<T>) -> Self {
        Input { source: Source::View(tensor.kept_view().clone()) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shape<'a>(input: impl Into<Input<'a, f32>>, declared: &[Option<u64>]) -> Result<Vec<u64>, String> {
        let view = input.into().into_view(&Allocator::new(), declared);
        view.and_then(|view| Ok(view.get::<BufferView>()?.shape().to_vec())).map_err(|error| error.to_string())
    }

    #[test]
    fn elements_take_the_declared_shape() {
        assert_eq!(shape(&[1.0; 4], &[Some(4)]), Ok(vec![4]));
        assert_eq!(shape(&vec![1.0; 8], &[Some(2), Some(4)]), Ok(vec![2, 4]));
        assert_eq!(shape([1.0; 8].as_slice(), &[None, Some(4)]), Ok(vec![2, 4]));
        assert_eq!(shape(&[[1.0; 4]; 3], &[None, None]), Ok(vec![3, 4]));
        assert_eq!(shape(&[[[1.0; 2]; 3]; 4], &[None, Some(3), None]), Ok(vec![4, 3, 2]));
        assert_eq!(shape(&1.0, &[]), Ok(vec![]));
        assert_eq!(shape(Input::new(&[2, 3], &[0.0; 6]), &[None, None]), Ok(vec![2, 3]));
        assert_eq!(shape(&Vec::new(), &[None, Some(4)]), Ok(vec![0, 4]));
    }

    #[test]
    fn other_numbers_of_elements_are_refused() {
        for (result, message) in [
            (shape(&[1.0; 3], &[Some(4)]), "does not have 3 elements"),
            (shape(&[1.0; 3], &[None, Some(2)]), "do not make a tensor of shape [?, 2]"),
            (shape(&[1.0; 3], &[None, Some(0)]), "do not make"),
            (shape(&[1.0; 4], &[None, None]), "in several ways"),
            (shape(&[[1.0; 4]; 3], &[Some(4), Some(3)]), "of shape [4, 3] is taken, one of [3, 4] is given"),
            (shape(Input::new(&[2, 2], &[0.0; 6]), &[None, None]), "does not have 6 elements"),
            (shape(&1.0, &[Some(1)]), "of shape [1] is taken, one of [] is given"),
        ] {
            assert!(result.clone().unwrap_err().contains(message), "{result:?}");
        }
    }
}
