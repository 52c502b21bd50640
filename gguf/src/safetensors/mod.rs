//! `.safetensors`: the length of a header, the header as JSON, data.
//!
//! The crate `safetensors` has the element types. Its readers are not used: they keep values of any form until they know that a header
//! has none, refuse types that they do not know, and overflow on hostile offsets.

mod index;

use std::fmt;

use incarnate_bytecode::{Contents, Error, FileKind, Result};
use safetensors::Dtype;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::{explained, shown};

pub use index::SafetensorsIndex;

/// Largest header in bytes, enough for 100,000 tensors: parsing takes up to 16 times as much memory, most of it for the index.
const HEADER_LIMIT: u64 = 16 << 20;
/// Bytes before the header.
const LENGTH_BYTES: usize = 8;
/// The key of facts about the file, which are no tensor.
const METADATA: &str = "__metadata__";

/// The header of a `.safetensors` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsFile {
    tensors: Vec<SafetensorsTensor>,
}

/// A tensor of a `.safetensors` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsTensor {
    /// Its name.
    pub name: String,
    /// The name of its element type, such as `BF16`.
    pub element_type: String,
    /// Extents, rows last: the elements of the last dimension are adjacent.
    pub shape: Vec<u64>,
    /// The first byte, from the start of the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl SafetensorsFile {
    /// Reads the header of a file. The data is not read.
    ///
    /// # Errors
    /// OUT_OF_RANGE and INVALID_ARGUMENT for damaged files, RESOURCE_EXHAUSTED for a header that exceeds the limit.
    pub fn read(contents: &Contents) -> Result<SafetensorsFile> {
        let truncated =
            || Error::out_of_range(format!("the file of {} bytes ends before its header does", contents.length()));
        let length = contents.array_at(0).map(u64::from_le_bytes).ok_or_else(truncated)?;
        if length > HEADER_LIMIT {
            let error = Error::resource_exhausted(format!("a header of {length} bytes is above {HEADER_LIMIT}"));
            return Err(explained(contents, FileKind::SAFETENSORS, "safetensors", error));
        }
        let data = LENGTH_BYTES + length as usize;
        let header = contents.bytes(LENGTH_BYTES..data).map_err(|_| truncated())?;
        let Header(mut tensors) = serde_json::from_slice(&header)
            .map_err(|error| Error::invalid_argument(format!("the header: {}", shown(&error.to_string()))))?;
        tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
        let described = check_adjacent(&tensors)?;
        let present = (contents.length() - data) as u64;
        if described != present {
            return Err(Error::out_of_range(format!(
                "the tensors have {described} bytes, and {present} follow the header"
            )));
        }
        let tensor = |(name, tensor): (String, Tensor)| {
            let (begin, end) = tensor.data_offsets;
            let (element_type, shape) = (tensor.dtype, tensor.shape);
            SafetensorsTensor { name, element_type, shape, offset: data as u64 + begin, length: end - begin }
        };
        Ok(SafetensorsFile { tensors: tensors.into_iter().map(tensor).collect() })
    }

    /// Returns the tensors, in the order of their data.
    #[must_use]
    pub fn tensors(&self) -> &[SafetensorsTensor] {
        &self.tensors
    }
}

/// Checks that tensors follow each other without gaps and have the lengths of their shapes, as far as their element types are known.
/// Returns the number of bytes.
fn check_adjacent(tensors: &[(String, Tensor)]) -> Result<u64> {
    let mut previous = 0;
    for (key, tensor) in tensors {
        let (begin, end) = tensor.data_offsets;
        let length = end.checked_sub(begin).filter(|_| begin == previous).ok_or_else(|| {
            let key = shown(key);
            Error::invalid_argument(format!(
                "tensor '{key}' has the bytes from {begin} to {end}, but the tensor before it ends at {previous}"
            ))
        })?;
        if element_type(&tensor.dtype).is_some_and(|element| tensor.byte_length(element) != Some(length)) {
            let (key, dtype) = (shown(key), &tensor.dtype);
            let why = format!("tensor '{key}' has {length} bytes, which is not the length of its shape in {dtype}");
            return Err(Error::invalid_argument(why));
        }
        previous = end;
    }
    Ok(previous)
}

/// Returns the element type of a name; `None` for one that the crate `safetensors` does not know.
fn element_type(name: &str) -> Option<Dtype> {
    serde_json::from_value(Value::from(name)).ok()
}

/// A tensor as the header describes it.
#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Tensor {
    /// Returns the number of bytes of the shape; `None` if it exceeds 64 bits or is no whole number.
    fn byte_length(&self, element: Dtype) -> Option<u64> {
        let bits = self.shape.iter().try_fold(element.bitsize() as u64, |bits, extent| bits.checked_mul(*extent))?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }
}

/// Tensors by key, in the order of the header.
struct Header(Vec<(String, Tensor)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> core::result::Result<Header, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the description of each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> core::result::Result<Header, A::Error> {
        let mut tensors = Vec::new();
        while let Some(key) = object.next_key::<String>()? {
            if key == METADATA {
                object.next_value::<IgnoredAny>()?;
            } else {
                tensors.push((key, object.next_value()?));
            }
        }
        Ok(Header(tensors))
    }
}
