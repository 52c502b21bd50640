//! Buffer views: a buffer with a shape and a type of element.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;

use super::buffer::Buffer;
use super::element_type::{ElementType, EncodingType};
use crate::{Error, Result, ref_object, vm};

/// Dimensions of up to this rank are stored in the view itself.
const INLINE_RANK: usize = 6;

/// A buffer and what it holds (`!hal.buffer_view`): a shape in elements, outermost dimension first, an element type and
/// an encoding. A rank of 0 is a scalar.
#[derive(Debug)]
pub struct BufferView {
    buffer: Arc<Buffer>,
    element_type: ElementType,
    encoding_type: EncodingType,
    shape: Dimensions,
}

ref_object!(BufferView, "hal.buffer_view");

/// A shape. All of it is written at once, as what is written in pieces is slow to copy to where the view is kept.
struct Dimensions {
    rank: usize,
    /// The dimensions, if there are no more; zeros behind them.
    few: [u64; INLINE_RANK],
    /// The dimensions, if there are more.
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
    /// A view of all of `buffer`, which may be longer than the shape needs.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the number of elements leaves 64 bits, or where a dense row-major shape needs more bytes
    /// than the buffer has.
    #[inline(always)]
    pub fn new(
        buffer: Arc<Buffer>,
        shape: &[u64],
        element_type: ElementType,
        encoding_type: EncodingType,
    ) -> Result<BufferView> {
        check_length(&buffer, shape, element_type, encoding_type)?;
        Ok(BufferView { buffer, element_type, encoding_type, shape: Dimensions::new(shape) })
    }

    /// The same as a shared object, which is cheaper than sharing it afterwards.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    pub fn shared(
        buffer: Arc<Buffer>,
        shape: &[u64],
        element_type: ElementType,
        encoding_type: EncodingType,
    ) -> Result<Arc<BufferView>> {
        check_length(&buffer, shape, element_type, encoding_type)?;
        Ok(vm::arc_of(|| BufferView { buffer, element_type, encoding_type, shape: Dimensions::new(shape) }))
    }

    /// The buffer.
    #[inline]
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// The bytes of the buffer, where this view alone holds it and it is a whole allocation: nobody else can reach them.
    #[must_use]
    pub fn exclusive_bytes(&mut self) -> Option<&mut [u8]> {
        self.buffer.exclusive_bytes()
    }

    /// Dimensions in elements, outermost first.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.shape.as_slice()
    }

    /// Number of dimensions, in the width that programs ask for it.
    ///
    /// # Errors
    /// OUT_OF_RANGE where it exceeds 32 bits.
    pub fn rank(&self) -> Result<u32> {
        u32::try_from(self.shape().len()).map_err(|_| Error::out_of_range("rank of a buffer view exceeds 32 bits"))
    }

    /// A dimension in elements, the outermost at index 0.
    ///
    /// # Errors
    /// OUT_OF_RANGE where the shape has no such dimension.
    #[inline]
    pub fn dimension(&self, index: u32) -> Result<u64> {
        self.shape().get(index as usize).copied().ok_or_else(|| {
            Error::out_of_range(format!("dimension {index} of a buffer view of rank {}", self.shape().len()))
        })
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        element_count(self.shape()).unwrap_or(u64::MAX)
    }

    /// Number of bytes that the shape takes in dense row-major order, elements of less than a byte packed.
    #[must_use]
    pub fn byte_length(&self) -> u64 {
        byte_length(self.shape(), self.element_type).unwrap_or(u64::MAX)
    }

    /// The type of the elements.
    #[inline]
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// How elements are laid out.
    #[inline]
    #[must_use]
    pub fn encoding_type(&self) -> EncodingType {
        self.encoding_type
    }

    /// True where the view is exactly of the type, the encoding and the shape.
    #[inline]
    #[must_use]
    pub fn is(&self, element_type: ElementType, encoding_type: EncodingType, shape: &[u64]) -> bool {
        // Shapes are short: as bytes they would be compared by a call.
        let (own, encoding) = (self.shape(), self.encoding_type);
        let alike = own.len() == shape.len() && own.iter().zip(shape).all(|(own, other)| own == other);
        alike && self.element_type == element_type && encoding == encoding_type
    }

    /// Checks the view against what a program expects, as `hal.buffer_view.assert` does: an opaque encoding or element
    /// type passes for any, integers pass for integers of the same width, everything else must be equal.
    ///
    /// # Errors
    /// INVALID_ARGUMENT that names what differs.
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
                "encoding is 0x{:08X} and 0x{:08X} is expected",
                encoding.raw(),
                encoding_type.raw()
            )));
        }
        let same_width = element.bit_count() == element_type.bit_count();
        let compatible = element == element_type
            || element.is_opaque()
            || element.is_integer() && element_type.is_integer() && same_width;
        if !compatible {
            return Err(Error::invalid_argument(format!("element type is {element} and {element_type} is expected")));
        }
        if *self.shape() != *shape {
            return Err(Error::invalid_argument(format!(
                "shape is {} and {} is expected",
                Shape(self.shape()),
                Shape(shape)
            )));
        }
        Ok(())
    }
}

/// Checks that a buffer has the elements of a dense shape.
#[inline(always)]
fn check_length(buffer: &Buffer, shape: &[u64], element_type: ElementType, encoding_type: EncodingType) -> Result<()> {
    let bytes = byte_length(shape, element_type);
    if encoding_type == EncodingType::DENSE_ROW_MAJOR && bytes.is_none_or(|bytes| bytes > buffer.byte_length()) {
        return Err(too_short(shape, element_type, buffer));
    }
    Ok(())
}

/// A shape as text: `2x3`, or `scalar`.
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
fn too_short(shape: &[u64], element_type: ElementType, buffer: &Buffer) -> Error {
    Error::invalid_argument(format!(
        "buffer of {} bytes cannot hold a view of shape {} of {element_type}",
        buffer.byte_length(),
        Shape(shape)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::allocator::Allocator;
    use super::super::memory::BufferParameters;
    use super::*;

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
    fn a_buffer_that_is_too_short_is_refused() {
        assert!(view(&[2, 3], ElementType::FLOAT_32, 23).is_err());
        assert!(view(&[u64::MAX, 2], ElementType::FLOAT_32, 64).is_err());
        assert!(view(&[u64::MAX], ElementType::FLOAT_32, 64).is_err());
    }

    #[test]
    fn checks_are_as_lenient_as_the_peer() {
        let signless = view(&[4], ElementType::INT_32, 16).unwrap();
        signless.check(ElementType::SINT_32, DENSE, &[4]).unwrap();
        assert!(signless.check(ElementType::INT_64, DENSE, &[4]).is_err());
        assert!(signless.check(ElementType::FLOAT_32, DENSE, &[4]).is_err());
        assert!(signless.check(ElementType::INT_32, EncodingType::OPAQUE, &[4]).is_err());
        let opaque = view(&[4], ElementType::OPAQUE_32, 16).unwrap();
        opaque.check(ElementType::FLOAT_32, DENSE, &[4]).unwrap();
        let error = opaque.check(ElementType::FLOAT_32, DENSE, &[2, 2]).unwrap_err();
        assert_eq!(error.message(), "shape is 4 and 2x2 is expected");
        let error = opaque.check(ElementType::FLOAT_32, DENSE, &[]).unwrap_err();
        assert_eq!(error.message(), "shape is 4 and scalar is expected");
    }
}
