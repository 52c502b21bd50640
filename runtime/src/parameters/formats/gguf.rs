//! GGUF, the format of ggml's models, versions 2 and 3: a header, metadata, a list of tensors, data.
//!
//! Sources: ggml's `docs/gguf.md`; sizes of element types from `GGML_QUANT_SIZES` of its Python package `gguf`.

use std::ops::Range;
use std::sync::Arc;

use crate::bytecode::Contents;
use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, TensorFacts};
use crate::parameters::shown;
use crate::{Error, Result, ResultExt};

/// Default alignment of tensors.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The metadata key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";
/// Most dimensions of a tensor; ggml has four.
const MAXIMUM_RANK: u32 = 16;
/// Most levels of arrays within arrays.
const MAXIMUM_DEPTH: u32 = 8;

/// Element types: number, name, elements of a block, bytes of a block.
const ELEMENT_TYPES: &[(u32, &str, u64, u64)] = &[
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
];

/// Kinds of metadata values.
const UINT32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Returns the bytes of a value of a fixed-size kind.
fn value_bytes(kind: u32) -> Option<u64> {
    Some(match kind {
        // Integers of 8 bits, Booleans.
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        // Integers and floats of 32 bits.
        UINT32..=6 => 4,
        // Integers and floats of 64 bits.
        10..=12 => 8,
        _ => return None,
    })
}

struct Reader<'a> {
    contents: &'a Contents,
    position: usize,
}

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let array = self.contents.array_at(self.position).ok_or_else(|| self.ends())?;
        self.position += N;
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Passes over bytes and returns where they are.
    fn take(&mut self, length: u64) -> Result<Range<usize>> {
        let end = usize::try_from(length).ok().and_then(|length| self.position.checked_add(length));
        let end = end.filter(|end| *end <= self.contents.length()).ok_or_else(|| {
            Error::out_of_range(format!(
                "{length} bytes at byte {} exceed the file of {}",
                self.position,
                self.contents.length()
            ))
        })?;
        Ok(core::mem::replace(&mut self.position, end)..end)
    }

    fn text(&mut self) -> Result<Range<usize>> {
        let length = self.u64()?;
        self.take(length)
    }

    fn key(&mut self) -> Result<String> {
        let place = self.position;
        let text = self.text()?;
        super::key_text(self.contents.bytes(text)?, place)
    }

    /// Skips a value.
    fn skip(&mut self, kind: u32, depth: u32) -> Result<()> {
        if let Some(bytes) = value_bytes(kind) {
            return self.take(bytes).map(|_| ());
        }
        match kind {
            STRING => self.text().map(|_| ()),
            ARRAY if depth < MAXIMUM_DEPTH => {
                let (kind, count) = (self.u32()?, self.u64()?);
                if let Some(bytes) = value_bytes(kind) {
                    let length = count.checked_mul(bytes).ok_or_else(|| self.ends())?;
                    return self.take(length).map(|_| ());
                }
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))
            }
            ARRAY => Err(Error::invalid_argument(format!("arrays are nested in more than {MAXIMUM_DEPTH} levels"))),
            other => Err(Error::invalid_argument(format!("unknown kind {other} of a metadata value"))),
        }
    }

    fn ends(&self) -> Error {
        Error::out_of_range(format!(
            "the file ends at byte {}, before the data at byte {}",
            self.contents.length(),
            self.position
        ))
    }
}

/// A row of the list of tensors.
struct Tensor {
    key: String,
    facts: TensorFacts,
    offset: u64,
    /// The number of bytes, which is known of known element types only.
    length: Option<u64>,
}

impl Tensor {
    fn read(reader: &mut Reader<'_>) -> Result<Tensor> {
        let key = reader.key()?;
        let facts = || format!("tensor '{}'", shown(&key));
        let rank = reader.u32().context(facts)?;
        if rank > MAXIMUM_RANK {
            return Err(Error::invalid_argument(format!("{rank} dimensions exceed the limit of {MAXIMUM_RANK}")))
                .context(facts);
        }
        let mut shape = (0..rank).map(|_| reader.u64()).collect::<Result<Vec<u64>>>().context(facts)?;
        let (kind, offset) = (reader.u32().context(facts)?, reader.u64().context(facts)?);
        let Some((_, name, block, bytes)) = ELEMENT_TYPES.iter().find(|row| row.0 == kind).copied() else {
            shape.reverse();
            let facts = TensorFacts { element_type: format!("type {kind}"), shape };
            return Ok(Tensor { key, facts, offset, length: None });
        };
        let elements = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim));
        let length = elements.and_then(|elements| (elements / block).checked_mul(bytes));
        let length =
            length.ok_or_else(|| Error::out_of_range(format!("shape {shape:?} exceeds 64 bits"))).context(facts)?;
        // Blocks consist of adjacent elements of the first dimension.
        let row_length = shape.first().copied().unwrap_or(1);
        if !row_length.is_multiple_of(block) {
            let why = format!("rows of {row_length} elements are not a multiple of the {block} in a block of {name}");
            return Err(Error::invalid_argument(why)).context(facts);
        }
        // The file lists the fastest dimension first.
        shape.reverse();
        let facts = TensorFacts { element_type: name.to_owned(), shape };
        Ok(Tensor { key, facts, offset, length: Some(length) })
    }
}

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    let mut reader = Reader { contents: file.contents(), position: 0 };
    let magic: [u8; 4] = reader.array()?;
    if &magic != b"GGUF" {
        return Err(Error::invalid_argument(format!("file begins with '{}' instead of 'GGUF'", magic.escape_ascii())));
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(Error::unimplemented(format!("version {version} is not a little-endian 2 or 3")));
    }
    let (tensor_count, fact_count) = (reader.u64()?, reader.u64()?);
    let mut alignment = DEFAULT_ALIGNMENT;
    for number in 0..fact_count {
        let key = reader.key().context(|| format!("fact {number}"))?;
        let kind = reader.u32().context(|| format!("fact '{}'", shown(&key)))?;
        if key == ALIGNMENT_KEY {
            if kind != UINT32 {
                return Err(Error::invalid_argument(format!("'{key}' is not a 32-bit number")));
            }
            alignment = u64::from(reader.u32()?);
            continue;
        }
        reader.skip(kind, 0).context(|| format!("fact '{}'", shown(&key)))?;
    }
    let mut tensors = Vec::new();
    for number in 0..tensor_count {
        tensors.push(Tensor::read(&mut reader).context(|| format!("tensor {number}"))?);
    }
    if tensors.is_empty() {
        return Ok(());
    }
    if !alignment.is_power_of_two() {
        return Err(Error::invalid_argument(format!("'{ALIGNMENT_KEY}' is {alignment}, not a power of two")));
    }
    // Both are far below 2^64.
    let data = (reader.position as u64).next_multiple_of(alignment);
    let ranges = tensors.iter().filter_map(|tensor| Some((tensor.offset, tensor.length?, tensor.key.as_str())));
    super::check_disjoint(ranges.collect())?;
    for tensor in tensors {
        let offset = tensor.offset.saturating_add(data);
        let entry = match tensor.length {
            Some(length) => ParameterEntry::in_file(tensor.key, file, offset, length)?,
            None => {
                let why =
                    format!("GGUF file '{}' has it in the unknown element {}", file.name(), tensor.facts.element_type);
                ParameterEntry::unreadable(tensor.key, Error::unimplemented(why))
            }
        };
        index.add(entry.with_tensor(tensor.facts))?;
    }
    Ok(())
}
