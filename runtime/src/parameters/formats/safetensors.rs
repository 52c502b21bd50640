//! `.safetensors`: the length of a header, the header as JSON, data.
//!
//! The crate `safetensors` parses the header and checks that tensors follow each other without gaps and have the
//! lengths of their shapes. Its reader of whole files is not used: the sum of the last offset and the header's length
//! overflows on hostile offsets.

use std::sync::Arc;

use safetensors::tensor::Metadata;

use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, TensorFacts};
use crate::{Error, Result};

/// Largest header in bytes, enough for 100,000 tensors: parsing takes up to 32 times as much memory.
const HEADER_LIMIT: u64 = 16 << 20;
/// Bytes before the header.
const LENGTH_BYTES: usize = 8;

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    let contents = file.contents();
    let truncated =
        || Error::out_of_range(format!("the file of {} bytes ends before its header does", contents.length()));
    let length = super::u64_at(contents, 0).ok_or_else(truncated)?;
    if length > HEADER_LIMIT {
        return Err(Error::resource_exhausted(format!("a header of {length} bytes is above {HEADER_LIMIT}")));
    }
    let data = LENGTH_BYTES + length as usize;
    let header = contents.bytes(LENGTH_BYTES..data).map_err(|_| truncated())?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| Error::invalid_argument(format!("the header: {}", error.to_string().escape_debug())))?;
    let present = contents.length() - data;
    if metadata.data_len() != present {
        return Err(Error::out_of_range(format!(
            "the tensors have {} bytes, and {present} follow the header",
            metadata.data_len()
        )));
    }
    for key in metadata.offset_keys() {
        let Some(tensor) = metadata.info(&key) else { continue };
        let (begin, end) = tensor.data_offsets;
        let facts = TensorFacts {
            element_type: tensor.dtype.to_string(),
            shape: tensor.shape.iter().map(|dim| *dim as u64).collect(),
        };
        let entry = ParameterEntry::in_file(key, file, (data + begin) as u64, (end - begin) as u64)?;
        index.add(entry.with_tensor(facts))?;
    }
    Ok(())
}
