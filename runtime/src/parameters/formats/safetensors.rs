//! `.safetensors`: the length of a header, the header as JSON, data.
//!
//! The crate `safetensors` parses the header and checks that tensors follow each other without gaps and have the
//! lengths of their shapes. Its reader of whole files is not used: the sum of the last offset and the header's length
//! overflows on hostile offsets.

use std::collections::HashMap;
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Value, json};

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
    let wrong =
        |error: serde_json::Error| Error::invalid_argument(format!("the header: {}", error.to_string().escape_debug()));
    let (metadata, foreign) = match serde_json::from_slice::<Metadata>(&header) {
        Ok(metadata) => (metadata, HashMap::new()),
        Err(error) => match without_foreign_types(&header) {
            Some((header, foreign)) => (serde_json::from_value(header).map_err(wrong)?, foreign),
            None => return Err(wrong(error)),
        },
    };
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
        let facts = foreign.get(&key).cloned().unwrap_or_else(|| TensorFacts {
            element_type: tensor.dtype.to_string(),
            shape: tensor.shape.iter().map(|dim| *dim as u64).collect(),
        });
        let entry = ParameterEntry::in_file(key, file, (data + begin) as u64, (end - begin) as u64)?;
        index.add(entry.with_tensor(facts))?;
    }
    Ok(())
}

/// Replaces the tensors whose element types the crate `safetensors` does not know by bytes, as the header has where they are.
/// Returns what the header says of them; `None` if there are none.
fn without_foreign_types(header: &[u8]) -> Option<(Value, HashMap<String, TensorFacts>)> {
    let mut header: Value = serde_json::from_slice(header).ok()?;
    let mut foreign = HashMap::new();
    for (key, tensor) in header.as_object_mut()? {
        let Some(element_type) = tensor.get("dtype").and_then(Value::as_str).map(str::to_owned) else { continue };
        if serde_json::from_value::<Dtype>(Value::from(element_type.as_str())).is_ok() {
            continue;
        }
        let numbers =
            |name: &str| -> Option<Vec<u64>> { tensor.get(name)?.as_array()?.iter().map(Value::as_u64).collect() };
        let (shape, offsets) = (numbers("shape")?, numbers("data_offsets")?);
        let [begin, end] = offsets[..] else { return None };
        *tensor = json!({ "dtype": "U8", "shape": [end.checked_sub(begin)?], "data_offsets": offsets });
        foreign.insert(key.clone(), TensorFacts { element_type, shape });
    }
    Some((header, foreign)).filter(|(_, foreign)| !foreign.is_empty())
}
