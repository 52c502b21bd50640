//! Files: a header, metadata, a list of tensors, data. Versions 2 and 3; source: ggml's `docs/gguf.md`.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use incarnate_bytecode::{Contents, Error, FileKind, Result, ResultExt as _};

use crate::element_type::ElementType;
use crate::value::{Array, Kind, Value};
use crate::{explained, shown};

/// Default alignment of tensors, in bytes.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The metadata key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";
/// The metadata key of a model's architecture.
pub(crate) const ARCHITECTURE_KEY: &str = "general.architecture";
/// Most dimensions of a tensor; ggml has four.
const MAXIMUM_RANK: u32 = 16;
/// Most levels of arrays within arrays.
const MAXIMUM_DEPTH: u32 = 8;

/// A GGUF file. Reading takes time and memory in proportion to its length.
#[derive(Debug)]
pub struct GgufFile {
    contents: Arc<Contents>,
    metadata: HashMap<String, Value>,
    tensors: Vec<Tensor>,
    /// The first tensor of each name.
    names: HashMap<String, usize>,
    /// The end of the list of tensors.
    end: usize,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub element_type: ElementType,
    /// Extents, rows last: the elements of the last dimension are adjacent.
    pub shape: Vec<u64>,
    /// The first byte, from the start of the file; it may be beyond the end.
    pub offset: u64,
    /// Bytes; `None` for an unknown element type.
    pub length: Option<u64>,
}

impl GgufFile {
    /// Reads the metadata and the list of tensors.
    ///
    /// # Errors
    /// INVALID_ARGUMENT and OUT_OF_RANGE for damaged files, UNIMPLEMENTED for other versions.
    pub fn read(contents: Arc<Contents>) -> Result<GgufFile> {
        let (mut reader, [tensor_count, value_count]) = Reader::begin(&contents)?;
        let mut metadata = HashMap::new();
        for number in 0..value_count {
            let (key, value) = reader.entry(number)?;
            metadata.insert(key, value);
        }
        let mut tensors = Vec::new();
        for number in 0..tensor_count {
            tensors.push(reader.tensor().context(|| format!("tensor {number}"))?);
        }
        let end = reader.position;
        let mut names = HashMap::new();
        for (index, tensor) in tensors.iter().enumerate() {
            names.entry(tensor.name.clone()).or_insert(index);
        }
        let mut file = GgufFile { contents, metadata, tensors, names, end };
        if !file.tensors.is_empty() {
            let data = (end as u64).next_multiple_of(file.alignment()?);
            file.tensors.iter_mut().for_each(|tensor| tensor.offset = tensor.offset.saturating_add(data));
        }
        Ok(file)
    }

    fn alignment(&self) -> Result<u64> {
        let alignment = match self.metadata.get(ALIGNMENT_KEY) {
            None => DEFAULT_ALIGNMENT,
            Some(value) => self
                .integer(value)
                .ok_or_else(|| Error::invalid_argument(format!("'{ALIGNMENT_KEY}' is not a number of 32 bits")))?,
        };
        match alignment.is_power_of_two() && alignment <= u64::from(u32::MAX) {
            true => Ok(alignment),
            false => Err(Error::invalid_argument(format!("'{ALIGNMENT_KEY}' is {alignment}, not a power of two"))),
        }
    }

    fn integer(&self, value: &Value) -> Option<u64> {
        match value {
            Value::Integer(integer) => u64::try_from(*integer).ok(),
            _ => None,
        }
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// Returns the bytes before the data: the metadata and the list of tensors.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED without memory.
    pub fn header(&self) -> Result<Cow<'_, [u8]>> {
        self.contents.bytes(0..self.end)
    }

    /// Returns the tensors, in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns the first tensor of a name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.names.get(name).and_then(|index| self.tensors.get(*index))
    }

    /// Returns a value of the metadata.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Returns the keys of the metadata, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// Returns a text of the metadata.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a number of the metadata that is neither negative nor a float.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        self.value(key).and_then(|value| self.integer(value))
    }

    /// Returns a number of the metadata.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.value(key) {
            Some(Value::Integer(integer)) => Some(*integer as f64),
            Some(Value::Float(float)) => Some(*float),
            _ => None,
        }
    }

    /// Returns a Boolean of the metadata.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the elements of an array of the metadata.
    ///
    /// # Errors
    /// NOT_FOUND if there is no such array; RESOURCE_EXHAUSTED without memory.
    pub fn elements(&self, key: &str) -> Result<Vec<Value>> {
        let Some(Value::Array(array)) = self.value(key) else {
            return Err(Error::not_found(format!("the metadata has no array '{}'", shown(key))));
        };
        let mut reader = Reader { contents: &self.contents, position: array.bytes.start };
        let read = |_| reader.value_of(array.kind, 1);
        (0..array.count).map(read).collect::<Result<_>>().context(|| format!("metadata '{}'", shown(key)))
    }
}

/// Returns whether the metadata names an architecture, of contents that are read as far as that name.
pub(crate) fn names_architecture(contents: &Contents) -> Result<bool> {
    let (mut reader, [_, value_count]) = Reader::begin(contents)?;
    for number in 0..value_count {
        if reader.entry(number)?.0 == ARCHITECTURE_KEY {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Reader<'a> {
    contents: &'a Contents,
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads the header; returns the numbers of tensors and of metadata values, too.
    fn begin(contents: &'a Contents) -> Result<(Reader<'a>, [u64; 2])> {
        let mut reader = Reader { contents, position: 0 };
        let magic: [u8; 4] = reader.array()?;
        if &magic != b"GGUF" {
            let found = magic.escape_ascii();
            let error = Error::invalid_argument(format!("file begins with '{found}' instead of 'GGUF'"));
            return Err(explained(contents, FileKind::GGUF, "GGUF", error));
        }
        let version = reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(Error::unimplemented(format!("version {version} is not a little-endian 2 or 3")));
        }
        let counts = [reader.u64()?, reader.u64()?];
        Ok((reader, counts))
    }

    /// Reads a metadata value, with its key.
    fn entry(&mut self, number: u64) -> Result<(String, Value)> {
        let key = self.key().context(|| format!("metadata value {number}"))?;
        let value = self.value().context(|| format!("metadata '{}'", shown(&key)))?;
        Ok((key, value))
    }

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
        let position = self.position;
        let text = self.text()?;
        String::from_utf8(self.contents.bytes(text)?.into_owned()).map_err(|error| {
            let bytes = error.as_bytes().escape_ascii();
            Error::invalid_argument(format!("the key at byte {position} is not UTF-8: '{bytes}'"))
        })
    }

    fn value(&mut self) -> Result<Value> {
        let kind = self.u32()?;
        self.value_of(kind, 0)
    }

    /// Reads a value. Texts that are not UTF-8, such as tokens of a part of a character, have replacement characters.
    fn value_of(&mut self, number: u32, depth: u32) -> Result<Value> {
        let kind = kind(number)?;
        match kind {
            Kind::String => {
                let text = self.text()?;
                Ok(Value::String(String::from_utf8_lossy(&self.contents.bytes(text)?).into_owned()))
            }
            Kind::Array => {
                let (kind, count) = (self.u32()?, self.u64()?);
                let start = self.position;
                self.skip_elements(kind, count, depth)?;
                Ok(Value::Array(Array { kind, count, bytes: start..self.position }))
            }
            _ => {
                let range = self.take(kind.bytes().unwrap_or_default())?;
                let bytes = self.contents.bytes(range)?;
                let mut number = [0; 8];
                number.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
                kind.number(number).ok_or_else(|| Error::internal("a number of no width"))
            }
        }
    }

    /// Passes over the elements of an array.
    fn skip_elements(&mut self, number: u32, count: u64, depth: u32) -> Result<()> {
        if depth >= MAXIMUM_DEPTH {
            return Err(Error::invalid_argument(format!("arrays are nested in more than {MAXIMUM_DEPTH} levels")));
        }
        let kind = kind(number)?;
        if let Some(bytes) = kind.bytes() {
            let length = count.checked_mul(bytes).ok_or_else(|| self.ends())?;
            return self.take(length).map(|_| ());
        }
        (0..count).try_for_each(|_| match kind {
            Kind::Array => {
                let (number, count) = (self.u32()?, self.u64()?);
                self.skip_elements(number, count, depth + 1)
            }
            _ => self.text().map(|_| ()),
        })
    }

    /// Reads a row of the list of tensors, whose offset counts from the start of the data.
    fn tensor(&mut self) -> Result<Tensor> {
        let name = self.key()?;
        let tensor = || format!("tensor '{}'", shown(&name));
        let rank = self.u32().context(tensor)?;
        if rank > MAXIMUM_RANK {
            return Err(Error::invalid_argument(format!("{rank} dimensions exceed the limit of {MAXIMUM_RANK}")))
                .context(tensor);
        }
        let mut shape = (0..rank).map(|_| self.u64()).collect::<Result<Vec<u64>>>().context(tensor)?;
        let (element_type, offset) = (ElementType::of_number(self.u32().context(tensor)?), self.u64().context(tensor)?);
        let length = element_type.block().map(|block| length(&shape, element_type, block)).transpose();
        let length = length.context(tensor)?;
        // The file lists the fastest dimension first.
        shape.reverse();
        Ok(Tensor { name, element_type, shape, offset, length })
    }

    fn ends(&self) -> Error {
        Error::out_of_range(format!(
            "the file ends at byte {}, before the data at byte {}",
            self.contents.length(),
            self.position
        ))
    }
}

fn kind(number: u32) -> Result<Kind> {
    Kind::of_number(number).ok_or_else(|| Error::invalid_argument(format!("unknown kind {number} of a metadata value")))
}

/// Returns the bytes of a tensor, whose fastest dimension is the first.
fn length(shape: &[u64], element_type: ElementType, (elements, bytes): (u64, u64)) -> Result<u64> {
    let all = shape.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
    let length = all.and_then(|all| (all / elements).checked_mul(bytes));
    let length = length.ok_or_else(|| Error::out_of_range(format!("shape {shape:?} exceeds 64 bits")))?;
    // Blocks consist of adjacent elements of the first dimension.
    let row = shape.first().copied().unwrap_or(1);
    if !row.is_multiple_of(elements) {
        return Err(Error::invalid_argument(format!(
            "rows of {row} elements are not a multiple of the {elements} in a block of {element_type}"
        )));
    }
    Ok(length)
}
