//! The weights, and their file.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::rc::Rc;

use incarnate_bytecode::{Error, Result, ResultExt as _};

use crate::data_type::DataType;
use crate::tensor::{Constant, Source};

/// Where the first weight starts is a multiple of this number of bytes, as for the runtime that maps the file.
const ALIGNMENT: usize = 64;

/// A weight that is a parameter of the module.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    /// The key in the parameter file.
    pub(crate) key: String,
    pub(crate) ty: DataType,
    pub(crate) shape: Vec<i64>,
    pub(crate) constant: Rc<Constant>,
}

/// What a weight holds: the bytes by address or by their range of a file, the type, and the shape. The weights keep the bytes, so that
/// no others have the address.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    path: Option<PathBuf>,
    start: u64,
    length: u64,
    ty: DataType,
    shape: Vec<i64>,
}

impl Held {
    pub(crate) fn of(constant: &Constant, ty: DataType, shape: Vec<i64>) -> Held {
        let (path, start) = match &constant.source {
            Source::Bytes(bytes) => (None, bytes.as_ptr() as u64),
            Source::File { path, offset, .. } => (Some(path.clone()), *offset),
        };
        Held { path, start, length: constant.source.length(), ty, shape }
    }
}

/// Writes weights as safetensors; see [`Imported::write_weights`](crate::Imported::write_weights).
///
/// # Errors
/// Errors of reading and writing files.
pub(crate) fn write(weights: &[Weight], file: impl Write) -> Result<()> {
    let mut header = String::from("{");
    let mut offset = 0;
    for weight in weights {
        let end = offset + weight.bytes();
        let shape: Vec<String> = weight.shape.iter().map(i64::to_string).collect();
        let comma = if offset == 0 && header.len() == 1 { "" } else { "," };
        header += &format!(
            "{comma}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{offset},{end}]}}",
            json(&weight.key),
            weight.stored_name(),
            shape.join(",")
        );
        offset = end;
    }
    header.push('}');
    while !(header.len() + size_of::<u64>()).is_multiple_of(ALIGNMENT) {
        header.push(' ');
    }
    let mut file = BufWriter::new(file);
    let write = |result: io::Result<()>| result.context(|| "writing the weights");
    write(file.write_all(&(header.len() as u64).to_le_bytes()))?;
    write(file.write_all(header.as_bytes()))?;
    for weight in weights {
        weight.write(&mut file).context(|| format!("writing the weight `{}`", weight.key))?;
    }
    write(file.flush())
}

impl Weight {
    /// Returns the number of bytes in the file, where each element has at least one.
    pub(crate) fn bytes(&self) -> u64 {
        let count: u64 = self.shape.iter().map(|extent| extent.unsigned_abs()).product();
        count * u64::from(self.ty.element().bits().max(8)) / 8
    }

    /// Returns the name of the type in safetensors whose bits the weight has.
    fn stored_name(&self) -> &'static str {
        match self.ty {
            DataType::F32 => "F32",
            DataType::F64 => "F64",
            _ => match self.ty.element().bits() {
                0..=8 => "I8",
                16 => "I16",
                32 => "I32",
                _ => "I64",
            },
        }
    }

    fn write(&self, file: &mut impl Write) -> Result<()> {
        let mut reader = self.constant.source.reader()?;
        if !self.ty.is_packed() {
            let copied = io::copy(&mut reader, file)?;
            return if copied == self.bytes() { Ok(()) } else { Err(Error::out_of_range("its file has changed")) };
        }
        // Elements of fewer than 8 bits become bytes.
        let count = usize::try_from(self.bytes()).unwrap_or(usize::MAX);
        let bytes = self.constant.bytes()?;
        let elements = crate::elements::decode(&bytes, self.ty, count)
            .ok_or_else(|| Error::out_of_range("there are too few bytes"))?;
        let values = elements.iter().map(|element| crate::elements::encode(element, self.ty).unwrap_or(0) as u8);
        file.write_all(&values.collect::<Vec<u8>>())?;
        Ok(())
    }
}

/// Writes a string of JSON.
fn json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if (c as u32) < 32 => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
