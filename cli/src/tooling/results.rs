//! Results of a function. Tensors stay on the device until they are printed, compared or written.

use std::io::Write;
use std::sync::Arc;

use incarnate_runtime::hal::format::TensorType;
use incarnate_runtime::hal::{Buffer, BufferView, ElementType};
use incarnate_runtime::vm::{self, Ref, TypedRefObject, Value};
use incarnate_runtime::{Error, Result, ResultExt};

use super::Primitive;

/// Most list elements of a function's results.
const LIST_ITEM_LIMIT: usize = 1 << 20;
/// Maximum depth of nested lists.
const LIST_DEPTH_LIMIT: usize = 32;
/// Bytes of a buffer that are copied to the host at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// A result of a function.
#[derive(Clone, Debug)]
pub(crate) enum ResultValue {
    /// No object.
    Null,
    /// A number.
    Primitive(Primitive),
    /// A `!hal.buffer_view`.
    View(Arc<BufferView>),
    /// A `!hal.buffer`: contents without shape and type.
    Storage(Arc<Buffer>),
    /// A `!vm.buffer`.
    Bytes(Arc<vm::Buffer>),
    /// A `!vm.list`.
    List(Vec<ResultValue>),
    /// An object without a text form, by the name of its type.
    Other(&'static str),
}

impl ResultValue {
    /// Collects results.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for lists of too many values or levels, which may contain themselves.
    pub(crate) fn all(values: &[Value]) -> Result<Vec<ResultValue>> {
        let mut collector = Collector { items_left: LIST_ITEM_LIMIT };
        let values = values.iter().enumerate();
        values.map(|(index, value)| collector.value(value, 0).context(|| format!("result {index}"))).collect()
    }
}

/// Collects values. The total is bounded, because lists can contain themselves.
struct Collector {
    items_left: usize,
}

impl Collector {
    fn value(&mut self, value: &Value, depth: usize) -> Result<ResultValue> {
        Ok(match value {
            Value::None => ResultValue::Null,
            Value::I32(value) => ResultValue::Primitive(Primitive::I32(*value)),
            Value::I64(value) => ResultValue::Primitive(Primitive::I64(*value)),
            Value::F32(value) => ResultValue::Primitive(Primitive::F32(*value)),
            Value::F64(value) => ResultValue::Primitive(Primitive::F64(*value)),
            Value::Ref(reference) => self.object(reference, depth)?,
        })
    }

    fn object(&mut self, reference: &Ref, depth: usize) -> Result<ResultValue> {
        let Some(ty) = reference.ref_type() else { return Ok(ResultValue::Null) };
        if ty == BufferView::TYPE {
            return Ok(ResultValue::View(reference.to::<BufferView>()?));
        }
        if ty == Buffer::TYPE {
            return Ok(ResultValue::Storage(reference.to::<Buffer>()?));
        }
        if ty == vm::List::TYPE {
            let list = reference.list()?;
            let length = list.len();
            if depth >= LIST_DEPTH_LIMIT || length > self.items_left {
                return Err(Error::resource_exhausted(format!(
                    "lists with more than {LIST_ITEM_LIMIT} values or {LIST_DEPTH_LIMIT} levels are not printed"
                )));
            }
            self.items_left -= length;
            let indices = 0..u32::try_from(length).unwrap_or(u32::MAX);
            let items = indices.map(|index| self.value(&list.get(index)?, depth + 1));
            return items.collect::<Result<_>>().map(ResultValue::List);
        }
        if ty == vm::Buffer::TYPE {
            return Ok(ResultValue::Bytes(Arc::clone(reference.buffer()?)));
        }
        Ok(ResultValue::Other(ty.name()))
    }
}

/// Returns the type of a view.
pub(crate) fn type_of(view: &BufferView) -> TensorType {
    TensorType { shape: view.shape().to_vec(), element: view.element_type() }
}

/// Returns the type of bytes without shape and type.
pub(crate) fn type_of_bytes(length: u64) -> TensorType {
    TensorType { shape: vec![length], element: ElementType::INT_8 }
}

/// Copies all bytes of a view to the host.
///
/// # Errors
/// OUT_OF_RANGE if the view is longer than its buffer; RESOURCE_EXHAUSTED if the host has no memory.
pub(crate) fn read(view: &BufferView) -> Result<Vec<u8>> {
    view.buffer().read_range(0, checked_length(view)?)
}

/// Writes all bytes of a view.
///
/// # Errors
/// OUT_OF_RANGE if the view is longer than its buffer; errors of writing.
pub(crate) fn write_view(out: &mut dyn Write, view: &BufferView) -> Result<()> {
    write_buffer(out, view.buffer(), checked_length(view)?)
}

/// Writes the first bytes of a buffer.
///
/// # Errors
/// OUT_OF_RANGE if it is shorter; errors of writing.
pub(crate) fn write_buffer(out: &mut dyn Write, buffer: &Buffer, length: u64) -> Result<()> {
    for start in (0..length).step_by(CHUNK_BYTES as usize) {
        out.write_all(&buffer.read_range(start, CHUNK_BYTES.min(length - start))?)?;
    }
    Ok(())
}

/// Writes all bytes of a byte buffer.
///
/// # Errors
/// Errors of writing.
pub(crate) fn write_bytes(out: &mut dyn Write, buffer: &vm::Buffer) -> Result<()> {
    let length = buffer.length();
    for start in (0..length).step_by(CHUNK_BYTES as usize) {
        let mut chunk = vec![0; CHUNK_BYTES.min(length - start) as usize];
        buffer.read(start, &mut chunk)?;
        out.write_all(&chunk)?;
    }
    Ok(())
}

fn checked_length(view: &BufferView) -> Result<u64> {
    let length = view.byte_length();
    if length > view.buffer().byte_length() {
        return Err(Error::out_of_range("the view is longer than its buffer"));
    }
    Ok(length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use incarnate_runtime::hal::format::HostTensor;
    use incarnate_runtime::hal::{Allocator, BufferParameters, EncodingType};

    use super::super::HostValue;
    use super::*;

    /// Returns a value of the host as the result of a function.
    pub(in super::super) fn result(value: &HostValue) -> ResultValue {
        let buffer = |array: &HostTensor| {
            let buffer = Allocator::new().allocate(BufferParameters::DEVICE, array.bytes.len() as u64).unwrap();
            buffer.write(0, &array.bytes).unwrap();
            buffer
        };
        match value {
            HostValue::Null => ResultValue::Null,
            HostValue::Primitive(value) => ResultValue::Primitive(*value),
            HostValue::Tensor(array) => {
                let (shape, element) = (&array.tensor.shape, array.tensor.element);
                let view = BufferView::shared(
                    buffer(array),
                    shape,
                    element,
                    EncodingType::DENSE_ROW_MAJOR,
                    incarnate_runtime::vm::Ledger::HOST,
                );
                ResultValue::View(view.unwrap())
            }
            HostValue::Storage(array) => ResultValue::Storage(buffer(array)),
        }
    }

    #[test]
    fn opaque_views_are_not_read_beyond_their_buffer() {
        let buffer = Allocator::new().allocate(BufferParameters::DEVICE, 3).unwrap();
        buffer.write(0, &[1, 2, 3]).unwrap();
        let view = |count| BufferView::new(buffer.clone(), &[count], ElementType::INT_8, EncodingType::OPAQUE).unwrap();
        assert_eq!(read(&view(2)).unwrap(), [1, 2]);
        let mut out = Vec::new();
        write_view(&mut out, &view(3)).unwrap();
        assert_eq!(out, [1, 2, 3]);
        for count in [4, 1 << 60] {
            assert!(read(&view(count)).is_err() && write_view(&mut out, &view(count)).is_err());
        }
    }
}
