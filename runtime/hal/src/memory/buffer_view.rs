//! Buffer views: a buffer with a shape and an element type.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;

use super::buffer::Buffer;
use crate::bytecode::imports::BYTES_PER_STEP;
use crate::vm::{Charge, Ledger};
use crate::{ElementType, EncodingType};
use crate::{Error, Result, ref_object, vm};

/// Dimensions of up to this rank are stored in the view itself.
const INLINE_RANK: usize = 6;

/// A typed view of a buffer (`!hal.buffer_view`): a shape in elements, outermost dimension first, an element type and
/// an encoding. A scalar has rank 0.
#[derive(Debug)]
pub struct BufferView {
    buffer: Arc<Buffer>,
    element_type: ElementType,
    encoding_type: EncodingType,
    shape: Dimensions,
    #[expect(dead_code, reason = "returned when dropped")]
    charge: Charge,
}

ref_object!(BufferView, "hal.buffer_view", |view| view.buffer().byte_length().saturating_add(BYTES_PER_STEP));

/// A shape. It is written as a whole, because copying a value right after partial writes stalls store forwarding.
struct Dimensions {
    rank: usize,
    /// The dimensions up to the inline rank, padded with zeros.
    few: [u64; INLINE_RANK],
    /// The dimensions of higher ranks.
    many: Box<[u64]>,
}

impl Dimensions {
    #[inline(always)]
    fn new(shape: &[u64]) -> Dimensions {
        if shape.len() > INLINE_RANK {
            return Dimensions { rank: shape.len(), few: [0; INLINE_RANK], many: shape.into() };
        }
        let few = core::array::from_fn(|index| shape.get(index).copied().unwrap_or(0));
        Dimensions { rank: shape.len(), few, many: Box::default() }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u64] {
        self.few.get(..self.rank).unwrap_or(&self.many)
    }
}

impl fmt::Debug for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}

impl BufferView {
    /// The largest rank, which is that of IREE's `hal.buffer_view.create`. It bounds the brackets in a tensor's text.
    pub const RANK_LIMIT: usize = 128;

    /// Creates a view of a buffer, which may be longer than the shape.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the number of elements or of their bits exceeds 64 bits, if a dense row-major shape exceeds the
    /// buffer, and for elements of 0 bits, which would have a number but no bytes; OUT_OF_RANGE for a rank above
    /// [`BufferView::RANK_LIMIT`].
    #[inline(always)]
    pub fn new(
        buffer: Arc<Buffer>,
        shape: &[u64],
        element_type: ElementType,
        encoding_type: EncodingType,
    ) -> Result<BufferView> {
        check_shape(&buffer, shape, element_type, encoding_type)?;
        let charge = Charge::none();
        Ok(BufferView { buffer, element_type, encoding_type, shape: Dimensions::new(shape), charge })
    }

    /// Creates a shared view, which is cheaper than sharing one afterwards. It is charged to the ledger of the program that
    /// creates it, [`Ledger::HOST`] for a host program.
    ///
    /// # Errors
    /// Those of [`BufferView::new`]; RESOURCE_EXHAUSTED if the ledger is used up.
    #[inline(always)]
    pub fn shared(
        buffer: Arc<Buffer>,
        shape: &[u64],
        element_type: ElementType,
        encoding_type: EncodingType,
        ledger: &Ledger,
    ) -> Result<Arc<BufferView>> {
        check_shape(&buffer, shape, element_type, encoding_type)?;
        let charge = ledger.charge((size_of::<BufferView>() + size_of_val(shape)) as u64)?;
        Ok(vm::arc_of(|| BufferView { buffer, element_type, encoding_type, shape: Dimensions::new(shape), charge }))
    }

    /// Returns the buffer.
    #[inline]
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// Returns the buffer alone.
    #[must_use]
    pub fn into_buffer(self) -> Arc<Buffer> {
        self.buffer
    }

    /// Returns the bytes of the buffer if this view is its only reference and the buffer is a whole allocation.
    #[inline]
    #[must_use]
    pub fn exclusive_bytes(&mut self) -> Option<&mut [u8]> {
        self.buffer.exclusive_bytes()
    }

    /// Returns the dimensions in elements, outermost first.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.shape.as_slice()
    }

    /// Returns the number of dimensions in the width that programs use.
    ///
    /// # Errors
    /// OUT_OF_RANGE if it exceeds 32 bits.
    #[inline]
    pub fn rank(&self) -> Result<u32> {
        u32::try_from(self.shape().len()).map_err(|_| Error::out_of_range("rank of a buffer view exceeds 32 bits"))
    }

    /// Returns a dimension in elements; index 0 is the outermost.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the shape has fewer dimensions.
    #[inline]
    pub fn dimension(&self, index: u32) -> Result<u64> {
        self.shape().get(index as usize).copied().ok_or_else(|| {
            Error::out_of_range(format!("dimension {index} of a buffer view of rank {}", self.shape().len()))
        })
    }

    /// Returns the number of elements.
    #[inline]
    #[must_use]
    pub fn element_count(&self) -> u64 {
        element_count(self.shape()).unwrap_or(u64::MAX)
    }

    /// Returns the length in bytes in dense row-major order, with packed sub-byte elements.
    #[inline]
    #[must_use]
    pub fn byte_length(&self) -> u64 {
        byte_length(self.shape(), self.element_type).unwrap_or(u64::MAX)
    }

    /// Returns the element type.
    #[inline]
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Returns the layout of the elements.
    #[inline]
    #[must_use]
    pub fn encoding_type(&self) -> EncodingType {
        self.encoding_type
    }

    /// Returns true if type, encoding and shape are exactly the given ones.
    #[inline]
    #[must_use]
    pub fn is(&self, element_type: ElementType, encoding_type: EncodingType, shape: &[u64]) -> bool {
        // An elementwise loop: comparing short shapes as bytes would call a library function.
        let (own, encoding) = (self.shape(), self.encoding_type);
        let alike = own.len() == shape.len() && own.iter().zip(shape).all(|(own, other)| own == other);
        alike && self.element_type == element_type && encoding == encoding_type
    }

    /// Checks the view against a program's expectation, as `hal.buffer_view.assert` does. An opaque encoding or element
    /// type matches any; integers match integers of the same width; everything else must be equal.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the difference.
    #[inline]
    pub fn check(&self, element_type: ElementType, encoding_type: EncodingType, shape: &[u64]) -> Result<()> {
        if self.is(element_type, encoding_type, shape) {
            return Ok(());
        }
        self.check_lenient(element_type, encoding_type, shape)
    }

    #[cold]
    fn check_lenient(&self, element_type: ElementType, encoding_type: EncodingType, shape: &[u64]) -> Result<()> {
        let (encoding, element) = (self.encoding_type, self.element_type);
        if encoding != EncodingType::OPAQUE && encoding != encoding_type {
            return Err(Error::invalid_argument(format!(
                "encoding is 0x{:08X}, expected 0x{:08X}",
                encoding.raw(),
                encoding_type.raw()
            )));
        }
        let same_width = element.bit_count() == element_type.bit_count();
        let compatible = element == element_type
            || element.is_opaque()
            || element.is_integer() && element_type.is_integer() && same_width;
        if !compatible {
            return Err(Error::invalid_argument(format!("element type is {element}, expected {element_type}")));
        }
        if *self.shape() != *shape {
            return Err(Error::invalid_argument(format!(
                "shape is {}, expected {}",
                Shape(self.shape()),
                Shape(shape)
            )));
        }
        Ok(())
    }
}

/// Checks that all elements of a shape have bytes and that a buffer has the length of a dense shape.
#[inline(always)]
fn check_shape(buffer: &Buffer, shape: &[u64], element_type: ElementType, encoding_type: EncodingType) -> Result<()> {
    let is_dense = encoding_type == EncodingType::DENSE_ROW_MAJOR;
    let fits = |bytes: u64| !is_dense || bytes <= buffer.byte_length();
    let has_bits = element_type.bit_count() > 0;
    if has_bits && shape.len() <= BufferView::RANK_LIMIT && byte_length(shape, element_type).is_some_and(fits) {
        return Ok(());
    }
    Err(unsound_shape(shape, element_type, buffer))
}

/// Formats a shape: `2x3`, or `scalar`.
struct Shape<'a>(&'a [u64]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return f.write_str("scalar") };
        write!(f, "{first}")?;
        rest.iter().try_for_each(|dimension| write!(f, "x{dimension}"))
    }
}

#[inline]
fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |count, dimension| count.checked_mul(*dimension))
}

#[inline]
fn byte_length(shape: &[u64], element_type: ElementType) -> Option<u64> {
    element_type.packed_byte_count(element_count(shape)?)
}

#[cold]
fn unsound_shape(shape: &[u64], element_type: ElementType, buffer: &Buffer) -> Error {
    if shape.len() > BufferView::RANK_LIMIT {
        return Error::out_of_range(format!(
            "rank {} of a buffer view exceeds the limit of {}",
            shape.len(),
            BufferView::RANK_LIMIT
        ));
    }
    if element_type.bit_count() == 0 {
        return Error::invalid_argument(format!(
            "elements of {element_type} have no bits, so that a view of shape {} has no bytes",
            Shape(shape)
        ));
    }
    Error::invalid_argument(format!(
        "buffer of {} bytes cannot hold a view of shape {} of {element_type}",
        buffer.byte_length(),
        Shape(shape)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::memory::allocator::Allocator;
    use crate::memory::parameters::BufferParameters;

    const DENSE: EncodingType = EncodingType::DENSE_ROW_MAJOR;

    fn view(shape: &[u64], element_type: ElementType, bytes: u64) -> Result<BufferView> {
        BufferView::new(Allocator::new().allocate(BufferParameters::DEVICE, bytes).unwrap(), shape, element_type, DENSE)
    }

    #[test]
    fn lengths_are_of_packed_elements() {
        assert_eq!(view(&[2, 3], ElementType::FLOAT_32, 24).unwrap().byte_length(), 24);
        assert_eq!(view(&[3], ElementType::INT_4, 2).unwrap().byte_length(), 2);
        assert_eq!(view(&[], ElementType::INT_64, 8).unwrap().element_count(), 1);
        assert_eq!(view(&[0, u64::MAX, 2], ElementType::INT_64, 0).unwrap().element_count(), 0);
    }

    #[test]
    fn short_buffers_are_rejected() {
        assert!(view(&[2, 3], ElementType::FLOAT_32, 23).is_err());
        assert!(view(&[u64::MAX, 2], ElementType::FLOAT_32, 64).is_err());
        assert!(view(&[u64::MAX], ElementType::FLOAT_32, 64).is_err());
    }

    #[test]
    fn shapes_without_bytes_are_rejected_in_every_encoding() {
        let buffer = Allocator::new().allocate(BufferParameters::DEVICE, 64).unwrap();
        for encoding in [DENSE, EncodingType::OPAQUE, EncodingType::from_raw(77)] {
            let refused = |shape: &[u64], element: ElementType| {
                BufferView::new(Arc::clone(&buffer), shape, element, encoding).unwrap_err().message().to_owned()
            };
            for element in [ElementType::NONE, ElementType::from_raw(0x2100_0000), ElementType::from_raw(0x7F00_0000)] {
                for shape in [&[1 << 61, 1][..], &[], &[0], &[u64::MAX, u64::MAX]] {
                    assert!(refused(shape, element).contains("have no bits"));
                }
            }
            assert!(refused(&[1 << 32, 1 << 32], ElementType::INT_8).contains("cannot hold"));
            assert!(refused(&[1; BufferView::RANK_LIMIT + 1], ElementType::INT_8).contains("rank 129"));
            assert!(
                BufferView::new(Arc::clone(&buffer), &[1; BufferView::RANK_LIMIT], ElementType::INT_8, encoding)
                    .is_ok()
            );
        }
        // Only the program knows how many bytes an opaque encoding takes.
        assert!(BufferView::new(buffer, &[1 << 40], ElementType::INT_8, EncodingType::OPAQUE).is_ok());
    }

    #[test]
    fn checks_are_as_lenient_as_iree() {
        let signless = view(&[4], ElementType::INT_32, 16).unwrap();
        signless.check(ElementType::SINT_32, DENSE, &[4]).unwrap();
        assert!(signless.check(ElementType::INT_64, DENSE, &[4]).is_err());
        assert!(signless.check(ElementType::FLOAT_32, DENSE, &[4]).is_err());
        assert!(signless.check(ElementType::INT_32, EncodingType::OPAQUE, &[4]).is_err());
        let opaque = view(&[4], ElementType::OPAQUE_32, 16).unwrap();
        opaque.check(ElementType::FLOAT_32, DENSE, &[4]).unwrap();
        let error = opaque.check(ElementType::FLOAT_32, DENSE, &[2, 2]).unwrap_err();
        assert_eq!(error.message(), "shape is 4, expected 2x2");
        let error = opaque.check(ElementType::FLOAT_32, DENSE, &[]).unwrap_err();
        assert_eq!(error.message(), "shape is 4, expected scalar");
    }
}
