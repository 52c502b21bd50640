//! Arguments of typed functions: tensors, and host elements that become tensors.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::aligned::AlignedVec;
use super::element::Element;
use super::tensor::Tensor;
use crate::hal::{Allocator, Buffer, BufferParameters, BufferView, EncodingType};
use crate::vm::{BorrowedRef, Ledger, Ref};
use crate::{Error, Result};

/// Dimensions of up to this rank need no allocation.
type Shape = SmallVec<[u64; 6]>;

/// A tensor argument: a tensor on the device, or elements on the host.
///
/// Functions take everything that is [`IntoInput`]: tensors, vectors, arrays, nested arrays of up to 8 dimensions, and (for tensors of
/// rank 0) numbers, by value or by reference, and slices; with the feature `ndarray` that crate's arrays and views.
/// Slices, vectors and arrays of one dimension take the shape that the function declares. If more than one dimension of it is
/// dynamic, [`Input::new`] states the shape.
///
/// Elements are borrowed, without a copy, if
/// - they take 4 KiB or more ([`MIN_BORROWED_BYTES`](crate::support::MIN_BORROWED_BYTES)),
/// - they begin at a multiple of 64 bytes, as those of an [`AlignedVec`](super::AlignedVec) do,
/// - the function is synchronous (not `async`) and runs on a device, and
/// - its kernels are bytecode, or [the program promises](super::SessionBuilder::borrow_inputs) that they only read
///   arguments.
///
/// Borrowed elements are copied before the program writes to them, and at the end of the call if the program keeps
/// them. All other elements are copied into device memory before the call. A [`Tensor`] is always used in place.
#[derive(Clone, Debug)]
pub struct Input<'a, T> {
    source: Source<'a, T>,
}

/// A small enum, because it is moved before it is matched.
#[derive(Clone, Debug)]
enum Source<'a, T> {
    /// A borrowed device view.
    Borrowed(&'a Arc<BufferView>),
    /// A device view of its own.
    View(Arc<BufferView>),
    /// Elements in row-major order, of the declared shape.
    Flat(&'a [T]),
    /// Elements of nested arrays, and the dimensions.
    Nested(&'a [T], &'static [u64]),
    /// Elements of its own, of the declared shape.
    Owned(Vec<T>),
    /// Elements of its own, and their shape.
    OwnedShaped(Vec<T>, Box<[u64]>),
    /// Elements and their shape.
    Shaped(&'a [T], Box<[u64]>),
}

/// A value that is passed where a function takes a tensor of `T`: see [`Input`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor of `{T}`",
    label = "expected a tensor of `{T}`",
    note = "a tensor of `{T}` is a `Tensor<{T}>`, elements of the type `{T}` in a slice, a vector, an array or nested arrays, or for rank 0 \
            a number; each by value or by reference",
    note = "with the feature `ndarray` of `incarnate` it is also an array or a view of that crate"
)]
pub trait IntoInput<'a, T> {
    /// Returns the tensor, or the elements with their shape.
    fn into_input(self) -> Input<'a, T>;
}

/// A value on the host that a tensor can be created from: nested arrays of up to 8 dimensions, a slice, a vector, a number, or with
/// the feature `ndarray` an array or a view of that crate. A slice or a vector has rank 1.
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be created from `{Self}`",
    label = "not a value of tensor elements",
    note = "tensors are created from slices, vectors, arrays, nested arrays of up to 8 dimensions and numbers, whose elements are bool, \
            i8 to i64, u8 to u64, f32, f64 or another `Element`",
    note = "with the feature `ndarray` of `incarnate` they are also created from arrays and views of that crate"
)]
pub trait ToTensor<'a>: IntoInput<'a, <Self as ToTensor<'a>>::Element> {
    /// The type of the elements.
    type Element: Element;
}

impl<'a, T: Element> Input<'a, T> {
    /// Creates an input from elements in row-major order and their shape.
    #[must_use]
    pub fn new(shape: &[u64], elements: &'a [T]) -> Input<'a, T> {
        Input { source: Source::Shaped(elements, shape.into()) }
    }

    /// Creates an input from a view of elements of the type.
    #[cfg(any(feature = "half", feature = "num-complex"))]
    pub(super) fn borrowed(view: &'a Arc<BufferView>) -> Input<'a, T> {
        Input { source: Source::Borrowed(view) }
    }

    /// Creates an input from elements of nested arrays.
    pub(super) fn nested(elements: &'a [T], shape: &'static [u64]) -> Input<'a, T> {
        Input { source: Source::Nested(elements, shape) }
    }

    /// Creates an input of rank 0.
    #[inline]
    pub(super) fn scalar(element: &'a T) -> Input<'a, T> {
        Input { source: Source::Nested(core::slice::from_ref(element), &[]) }
    }

    /// Creates an input from elements of its own in row-major order and their shape.
    #[must_use]
    pub fn from_vec(shape: &[u64], elements: Vec<T>) -> Input<'a, T> {
        Input { source: Source::OwnedShaped(elements, shape.into()) }
    }

    /// Returns the same tensor without copying elements.
    #[cfg(feature = "std")]
    pub(super) fn by_reference(&self) -> Input<'_, T> {
        let source = match &self.source {
            Source::Borrowed(view) => Source::Borrowed(view),
            Source::View(view) => Source::Borrowed(view),
            Source::Flat(elements) => Source::Flat(elements),
            Source::Nested(elements, shape) => Source::Nested(elements, shape),
            Source::Owned(elements) => Source::Flat(elements),
            Source::OwnedShaped(elements, shape) => Source::Shaped(elements, shape.clone()),
            Source::Shaped(elements, shape) => Source::Shaped(elements, shape.clone()),
        };
        Input { source }
    }

    /// Returns the shape; of a slice, a vector or an array of one dimension its length.
    pub(super) fn own_shape(&self) -> Shape {
        match &self.source {
            Source::Borrowed(view) => view.shape().into(),
            Source::View(view) => view.shape().into(),
            Source::Flat(elements) => [elements.len() as u64][..].into(),
            Source::Owned(elements) => [elements.len() as u64][..].into(),
            Source::Nested(_, shape) => (*shape).into(),
            Source::Shaped(_, shape) | Source::OwnedShaped(_, shape) => (**shape).into(),
        }
    }

    /// Returns the tensor as a device view of a shape that fits the declared one; `memory` converts host elements.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the shape does not fit; RESOURCE_EXHAUSTED if memory is short.
    #[inline(always)]
    pub(crate) fn into_view(self, memory: &impl Memory<'a>, declared: &[Option<u64>]) -> Result<PassedRef<'a>> {
        if let Source::Borrowed(view) = self.source {
            return match check(view.shape(), declared) {
                Ok(()) => Ok(PassedRef::Borrowed(BorrowedRef::object(view))),
                Err(error) => Err(error),
            };
        }
        match self.into_owned_view(memory, declared) {
            Ok(view) => Ok(PassedRef::Owned(Ref::from(view))),
            Err(error) => Err(error),
        }
    }

    pub(super) fn into_owned_view(self, memory: &impl Memory<'a>, declared: &[Option<u64>]) -> Result<Arc<BufferView>> {
        match self.source {
            Source::Borrowed(view) => {
                check(view.shape(), declared)?;
                Ok(Arc::clone(view))
            }
            Source::View(view) => {
                check(view.shape(), declared)?;
                Ok(view)
            }
            Source::Flat(elements) => of_elements(memory, elements, &filled(elements.len(), declared)?),
            Source::Nested(elements, shape) => {
                check(shape, declared)?;
                of_elements(memory, elements, shape)
            }
            Source::Owned(elements) => of_owned_elements(memory, &elements, &filled(elements.len(), declared)?),
            Source::OwnedShaped(elements, shape) => {
                check(&shape, declared)?;
                of_owned_elements(memory, &elements, &shape)
            }
            Source::Shaped(elements, shape) => {
                check(&shape, declared)?;
                of_elements(memory, elements, &shape)
            }
        }
    }
}

/// A reference argument: one that the callee owns, or one that the caller keeps during the call.
#[derive(Debug)]
pub enum PassedRef<'a> {
    /// The caller keeps the object.
    Borrowed(BorrowedRef<'a>),
    /// The reference was created for the call.
    Owned(Ref),
}

impl PassedRef<'_> {
    /// Converts to a reference that the callee may keep.
    #[inline]
    #[must_use]
    pub fn into_owned(self) -> Ref {
        match self {
            PassedRef::Borrowed(borrowed) => borrowed.clone(),
            PassedRef::Owned(owned) => owned,
        }
    }
}

impl core::ops::Deref for PassedRef<'_> {
    type Target = Ref;
    #[inline]
    fn deref(&self) -> &Ref {
        match self {
            PassedRef::Borrowed(borrowed) => borrowed,
            PassedRef::Owned(owned) => owned,
        }
    }
}

/// Converts host elements into a buffer: by a copy into device memory, or in place.
pub(crate) trait Memory<'a> {
    /// Returns the bytes as a buffer.
    fn buffer(&self, bytes: &'a [u8]) -> Result<Arc<Buffer>>;
    /// Returns a copy of the bytes.
    fn copy(&self, bytes: &[u8]) -> Result<Arc<Buffer>>;
}

/// Copies the bytes.
impl Memory<'_> for Allocator {
    #[inline(always)]
    fn buffer(&self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        let buffer = self.allocate(BufferParameters::DEVICE, bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    fn copy(&self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        self.buffer(bytes)
    }
}

/// Creates a device tensor from host elements.
fn of_elements<'a, T: Element>(memory: &impl Memory<'a>, elements: &'a [T], shape: &[u64]) -> Result<Arc<BufferView>> {
    check_count(elements.len(), shape)?;
    let buffer = memory.buffer(bytemuck::cast_slice(elements))?;
    BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR, Ledger::HOST)
}

/// Creates a device tensor from a copy of host elements.
fn of_owned_elements<'a, T: Element>(
    memory: &impl Memory<'a>,
    elements: &[T],
    shape: &[u64],
) -> Result<Arc<BufferView>> {
    check_count(elements.len(), shape)?;
    let buffer = memory.copy(bytemuck::cast_slice(elements))?;
    BufferView::shared(buffer, shape, T::TYPE, EncodingType::DENSE_ROW_MAJOR, Ledger::HOST)
}

/// Checks that a shape has as many elements as are given.
#[inline(always)]
pub(super) fn check_count(elements: usize, shape: &[u64]) -> Result<()> {
    if count(shape.iter().copied()) == Some(elements as u64) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("a tensor of shape {shape:?} does not have {elements} elements")))
}

fn count(mut dims: impl Iterator<Item = u64>) -> Option<u64> {
    dims.try_fold(1u64, u64::checked_mul)
}

/// Returns true if a shape fits the declared one, whose dynamic dimensions match any size.
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
    Error::invalid_argument(format!("expected a tensor of shape {}, got one of shape {shape:?}", shape_text(declared)))
}

/// Formats a declared shape, such as `[?, 4]`.
pub(crate) fn shape_text(declared: &[Option<u64>]) -> String {
    let dims: Vec<String> = declared.iter().map(|dim| dim.map_or("?".to_owned(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}

/// Returns the declared shape with the dynamic dimension that the number of elements implies.
#[inline(always)]
fn filled(elements: usize, declared: &[Option<u64>]) -> Result<Shape> {
    let rest = open_dimension(elements as u64, declared)?;
    Ok(declared.iter().map(|dim| dim.unwrap_or(rest)).collect())
}

/// Returns the size of the dynamic dimension that the number of elements implies; any number if no dimension is
/// dynamic.
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
        1 => format!("{elements} elements do not fill a tensor of shape {shape}"),
        _ => format!("{elements} elements fit several shapes {shape}: state the shape with `Input::new`"),
    })
}

/// Implements [`IntoInput`] by an expression of the value.
macro_rules! into_input {
    ($($(#[$doc:meta])* {$($generics:tt)*} $type:ty => $element:ty, $value:ident => $input:expr;)*) => {
        $($(#[$doc])*
        impl<'a, $($generics)*> $crate::session::IntoInput<'a, $element> for $type {
            #[inline]
            fn into_input(self) -> $crate::session::Input<'a, $element> {
                let $value = self;
                $input
            }
        })*
    };
}
#[cfg(any(feature = "half", feature = "ndarray", feature = "num-complex"))]
pub(super) use into_input;

into_input! {
    {T: Element} Input<'a, T> => T, input => input;
    {T: Element} &'a [T] => T, elements => Input { source: Source::Flat(elements) };
    {T: Element} &'a Vec<T> => T, elements => Input { source: Source::Flat(elements) };
    {T: Element} &'a AlignedVec<T> => T, elements => Input { source: Source::Flat(elements) };
    {T: Element, const N: usize} &'a [T; N] => T, elements => Input { source: Source::Flat(elements) };
    {T: Element} Vec<T> => T, elements => Input { source: Source::Owned(elements) };
    {T: Element, const N: usize} [T; N] => T, elements => Input { source: Source::Owned(elements.to_vec()) };
    /// A tensor of rank 0.
    {T: Element} &'a T => T, element => Input::scalar(element);
    /// A tensor of rank 0.
    {T: Element} T => T, element => Input::from_vec(&[], vec![element]);
    {T: Element} &'a Tensor<T> => T, tensor => Input { source: Source::Borrowed(tensor.shared_view()) };
    {T: Element} Tensor<T> => T, tensor => Input { source: Source::View(tensor.shared_view().clone()) };
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shape<'a>(input: impl IntoInput<'a, f32>, declared: &[Option<u64>]) -> Result<Vec<u64>, String> {
        let view = input.into_input().into_view(&Allocator::new(), declared);
        view.and_then(|view| Ok(view.get::<BufferView>()?.shape().to_vec())).map_err(|error| error.to_string())
    }

    #[test]
    fn elements_take_the_declared_shape() {
        let eight = vec![1.0; 8];
        assert_eq!(shape([1.0; 4], &[Some(4)]), Ok(vec![4]));
        assert_eq!(shape(&eight, &[Some(2), Some(4)]), Ok(vec![2, 4]));
        assert_eq!(shape([1.0; 8].as_slice(), &[None, Some(4)]), Ok(vec![2, 4]));
        assert_eq!(shape([[1.0; 4]; 3], &[None, None]), Ok(vec![3, 4]));
        assert_eq!(shape([[[1.0; 2]; 3]; 4], &[None, Some(3), None]), Ok(vec![4, 3, 2]));
        assert_eq!(shape(1.0, &[]), Ok(vec![]));
        assert_eq!(shape([1.0; 8], &[None, Some(4)]), Ok(vec![2, 4]));
        assert_eq!(shape(vec![1.0; 6], &[Some(2), None]), Ok(vec![2, 3]));
        assert_eq!(shape(Input::from_vec(&[2, 3], vec![0.0; 6]), &[None, None]), Ok(vec![2, 3]));
        assert_eq!(shape(Input::new(&[2, 3], &[0.0; 6]), &[None, None]), Ok(vec![2, 3]));
        assert_eq!(shape(Vec::new(), &[None, Some(4)]), Ok(vec![0, 4]));
    }

    #[test]
    fn wrong_numbers_of_elements_are_rejected() {
        for (result, message) in [
            (shape([1.0; 3], &[Some(4)]), "does not have 3 elements"),
            (shape([1.0; 3], &[None, Some(2)]), "do not fill a tensor of shape [?, 2]"),
            (shape([1.0; 3], &[None, Some(0)]), "do not fill"),
            (shape([1.0; 4], &[None, None]), "fit several shapes"),
            (shape([[1.0; 4]; 3], &[Some(4), Some(3)]), "expected a tensor of shape [4, 3], got one of shape [3, 4]"),
            (shape(Input::new(&[2, 2], &[0.0; 6]), &[None, None]), "does not have 6 elements"),
            (shape(1.0, &[Some(1)]), "expected a tensor of shape [1], got one of shape []"),
        ] {
            assert!(result.clone().unwrap_err().contains(message), "{result:?}");
        }
    }
}
