//! `.safetensors`: the length of a header, the header as JSON, data.
//!
//! Facts: the format's description at <https://github.com/huggingface/safetensors>.

use std::sync::Arc;

use super::json::Reader;
use crate::bytecode::read::array_at;
use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, TensorFacts};
use crate::parameters::shown;
use crate::{Error, Result, ResultExt};

/// Largest header that is read, in bytes, as the format's own reader has it.
const HEADER_LIMIT: u64 = 100_000_000;
/// Bytes before the header.
const LENGTH_BYTES: usize = 8;
/// The member that is no tensor: texts under names.
const METADATA: &str = "__metadata__";

/// Element types and their bits.
const ELEMENT_TYPES: &[(&str, u64)] = &[
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

/// A tensor as the header describes it.
struct Tensor {
    key: String,
    facts: TensorFacts,
    begin: u64,
    end: u64,
}

impl Tensor {
    fn read(reader: &mut Reader<'_>, key: String) -> Result<Tensor> {
        let (mut element_type, mut shape, mut offsets) = (None, None, None);
        reader.object(|reader, member| {
            match member.as_str() {
                "dtype" => element_type = Some(reader.string()?),
                "shape" => shape = Some(reader.numbers()?),
                "data_offsets" => offsets = Some(reader.numbers()?),
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        let missing = |what: &str| Error::invalid_argument(format!("it has no {what}"));
        let element_type = element_type.ok_or_else(|| missing("dtype"))?;
        let shape = shape.ok_or_else(|| missing("shape"))?;
        let offsets = offsets.ok_or_else(|| missing("data_offsets"))?;
        let [begin, end] = offsets[..] else {
            return Err(Error::invalid_argument(format!("its data_offsets are {} numbers, not 2", offsets.len())));
        };
        if end < begin {
            return Err(Error::invalid_argument(format!(
                "it ends at byte {end} of the data, before its begin at {begin}"
            )));
        }
        // Types that are newer than this reader are taken at the file's word.
        if let Some((_, bits)) = ELEMENT_TYPES.iter().find(|row| row.0 == element_type) {
            let bits = shape.iter().try_fold(*bits, |bits, dim| bits.checked_mul(*dim));
            if bits.map(|bits| bits.div_ceil(8)) != Some(end - begin) {
                return Err(Error::invalid_argument(format!(
                    "it has {} bytes, which is not what {element_type} of shape {shape:?} has",
                    end - begin
                )));
            }
        }
        Ok(Tensor { key, facts: TensorFacts { element_type, shape }, begin, end })
    }
}

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    let bytes = file.bytes();
    let truncated = || Error::out_of_range(format!("the file of {} bytes ends before its header does", bytes.len()));
    let length = array_at(bytes, 0).map(u64::from_le_bytes).ok_or_else(truncated)?;
    if length > HEADER_LIMIT {
        return Err(Error::resource_exhausted(format!("a header of {length} bytes is above {HEADER_LIMIT}")));
    }
    let header = bytes.get(LENGTH_BYTES..).and_then(|rest| rest.get(..length as usize)).ok_or_else(truncated)?;
    let text = core::str::from_utf8(header).map_err(|error| {
        Error::invalid_argument(format!("the header is not UTF-8 at byte {}", LENGTH_BYTES + error.valid_up_to()))
    })?;
    let mut reader = Reader::new(text);
    let mut tensors = Vec::new();
    reader.object(|reader, key| {
        if key == METADATA {
            return reader.skip();
        }
        let name = format!("tensor '{}'", shown(&key));
        tensors.push(Tensor::read(reader, key).context(|| name)?);
        Ok(())
    })?;
    if !reader.at_end() {
        return Err(reader.error("more than one value"));
    }
    super::check_apart(
        tensors.iter().map(|tensor| (tensor.begin, tensor.end - tensor.begin, tensor.key.as_str())).collect(),
    )?;
    let data = LENGTH_BYTES as u64 + length;
    for tensor in tensors {
        let offset = data.saturating_add(tensor.begin);
        let entry = ParameterEntry::in_file(tensor.key, file, offset, tensor.end - tensor.begin)?;
        index.add(entry.with_tensor(tensor.facts))?;
    }
    Ok(())
}
