//! Headers of arrays in NumPy's `.npy` format, which is described in NumPy's `numpy.lib.format`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use std::io::Read;

use super::TensorType;
use crate::hal::{ElementType, NumericalType};
use crate::{Error, Result, ResultExt};

/// What files begin with.
pub const NPY_MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers start and arrays begin at multiples of this number of bytes.
const ALIGNMENT: usize = 64;
/// Largest header that is read, in bytes; those of plain arrays have some hundred.
const HEADER_LIMIT: u64 = 1 << 20;
/// Most characters of a header that a message shows.
const SHOWN_CHARACTERS: usize = 200;

/// NumPy's letter for the kind of an element type. Where two types share a letter, the first is what reading gives.
const KINDS: &[(u8, NumericalType)] = &[
    (b'b', NumericalType::Boolean),
    (b'i', NumericalType::SignedInteger),
    (b'i', NumericalType::Integer),
    (b'u', NumericalType::UnsignedInteger),
    (b'f', NumericalType::Float),
    (b'c', NumericalType::Complex),
    // Bytes without a meaning: NumPy has no names for these floats.
    (b'V', NumericalType::Opaque),
    (b'V', NumericalType::BrainFloat),
    (b'V', NumericalType::Float8E5M2),
    (b'V', NumericalType::Float8E4M3Fn),
    (b'V', NumericalType::Float8E5M2Fnuz),
    (b'V', NumericalType::Float8E4M3Fnuz),
    (b'V', NumericalType::Float8E8M0Fnu),
];

/// What the header of an array says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// Shape and element type.
    pub tensor: TensorType,
    /// Whether elements are big-endian.
    pub big_endian: bool,
    /// Whether the first dimension is the fastest, not the last.
    pub fortran_order: bool,
}

impl NpyHeader {
    /// Reads a header and leaves the reader behind it, where the elements begin.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed header, UNIMPLEMENTED for element types without a counterpart, OUT_OF_RANGE where the
    /// file ends early.
    pub fn read(reader: &mut impl Read) -> Result<NpyHeader> {
        let mut prefix = [0; 8];
        read_exact(reader, &mut prefix)?;
        if prefix[..6] != *NPY_MAGIC {
            return Err(Error::invalid_argument("not a .npy file: it does not begin with \\x93NUMPY"));
        }
        let length = match prefix[6] {
            1 => {
                let mut length = [0; 2];
                read_exact(reader, &mut length)?;
                u64::from(u16::from_le_bytes(length))
            }
            2 | 3 => {
                let mut length = [0; 4];
                read_exact(reader, &mut length)?;
                u64::from(u32::from_le_bytes(length))
            }
            major => {
                return Err(Error::unimplemented(format!("version {major}.{} of .npy is not 1.0 to 3.0", prefix[7])));
            }
        };
        if length > HEADER_LIMIT {
            return Err(Error::resource_exhausted(format!("a .npy header of {length} bytes is above {HEADER_LIMIT}")));
        }
        let mut header = vec![0; length as usize];
        read_exact(reader, &mut header)?;
        let header = String::from_utf8_lossy(&header);
        let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let shown = || header.trim().chars().take(SHOWN_CHARACTERS).map(printable).collect::<String>();
        parse_header(header.trim()).context(|| format!("in the .npy header {}", shown()))
    }

    /// The header of an array in row-major order: the bytes that NumPy writes.
    ///
    /// # Errors
    /// UNIMPLEMENTED for elements that NumPy cannot name, such as integers of 4 bits.
    pub fn bytes(tensor: &TensorType) -> Result<Vec<u8>> {
        let element = tensor.element;
        let kind = element.numerical_type().and_then(|numerical| KINDS.iter().find(|(_, known)| *known == numerical));
        let Some((letter, _)) = kind.filter(|_| element.is_byte_aligned() && element.bit_count() > 0) else {
            return Err(Error::unimplemented(format!("elements of {element} have no counterpart in .npy files")));
        };
        let size = element.dense_byte_count();
        let order = if size == 1 { '|' } else { '<' };
        let dims: Vec<String> = tensor.shape.iter().map(alloc::string::ToString::to_string).collect();
        // A tuple of one element has a comma behind it.
        let comma = if dims.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{order}{}{size}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            char::from(*letter),
            dims.join(", ")
        );
        // Version 1.0 has two bytes for the length, version 2.0 four.
        let prefix = |version: u8| NPY_MAGIC.len() + 2 + if version == 1 { 2 } else { 4 };
        let version = if header.len() + prefix(1) + ALIGNMENT > usize::from(u16::MAX) { 2 } else { 1 };
        let unpadded = prefix(version) + header.len() + 1;
        header.extend(core::iter::repeat_n(' ', unpadded.next_multiple_of(ALIGNMENT) - unpadded));
        header.push('\n');
        let mut bytes = NPY_MAGIC.to_vec();
        bytes.extend([version, 0]);
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes()[..prefix(version) - bytes.len()]);
        bytes.extend_from_slice(header.as_bytes());
        Ok(bytes)
    }
}

fn read_exact(reader: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    reader.read_exact(bytes).context(|| "reading a .npy header")
}

/// Splits the text of a Python literal, which must begin with `open` and has `close` after it, into what is within and what
/// follows.
fn enclosed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix(open)?.split_once(close)
}

fn parse_header(text: &str) -> Result<NpyHeader> {
    let malformed = || Error::invalid_argument("malformed dictionary");
    let mut rest = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(malformed)?;
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if rest.is_empty() {
            break;
        }
        let quote = if rest.starts_with('"') { '"' } else { '\'' };
        let (key, after) = enclosed(rest, quote, quote).ok_or_else(malformed)?;
        let after = after.trim_start().strip_prefix(':').ok_or_else(malformed)?.trim_start();
        rest = match key {
            "descr" if after.starts_with('[') => {
                return Err(Error::unimplemented("arrays of records have no counterpart"));
            }
            "descr" => {
                let quote = if after.starts_with('"') { '"' } else { '\'' };
                let (value, after) = enclosed(after, quote, quote).ok_or_else(malformed)?;
                descr = Some(parse_descr(value)?);
                after
            }
            "fortran_order" => {
                let flag = after.strip_prefix("True").map(|after| (true, after));
                let (value, after) =
                    flag.or_else(|| after.strip_prefix("False").map(|after| (false, after))).ok_or_else(malformed)?;
                fortran_order = Some(value);
                after
            }
            "shape" => {
                let (value, after) = enclosed(after, '(', ')').ok_or_else(malformed)?;
                shape = Some(parse_shape(value)?);
                after
            }
            other => return Err(Error::invalid_argument(format!("unknown key {other:?}"))),
        };
    }
    let (element, big_endian) = descr.ok_or_else(|| Error::invalid_argument("no descr"))?;
    Ok(NpyHeader {
        tensor: TensorType { shape: shape.ok_or_else(|| Error::invalid_argument("no shape"))?, element },
        big_endian,
        fortran_order: fortran_order.ok_or_else(|| Error::invalid_argument("no fortran_order"))?,
    })
}

fn parse_shape(text: &str) -> Result<Vec<u64>> {
    let dims = text.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    // Python 2 wrote long integers with an L.
    dims.map(|dim| {
        let digits = dim.strip_suffix('L').unwrap_or(dim);
        digits.parse().map_err(|_| Error::invalid_argument(format!("{dim:?} is not a dimension")))
    })
    .collect()
}

/// Reads NumPy's name of an element type, such as `<f4`: the order of bytes, the kind, the number of bytes.
fn parse_descr(text: &str) -> Result<(ElementType, bool)> {
    let unknown = || Error::unimplemented(format!("element type {text:?} has no counterpart"));
    let (order, name) = match text.as_bytes() {
        [order @ (b'<' | b'>' | b'=' | b'|'), name @ ..] => (*order, name),
        name => (b'=', name),
    };
    let (kind, digits) = name.split_first().ok_or_else(unknown)?;
    let numerical = KINDS.iter().find(|(letter, _)| letter == kind).ok_or_else(unknown)?.1;
    let bytes: u8 = core::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(unknown)?;
    let known: &[u8] = match numerical {
        NumericalType::Boolean => &[1],
        NumericalType::Float => &[2, 4, 8],
        NumericalType::Complex => &[8, 16],
        NumericalType::Opaque => &[1, 2, 4, 8, 16],
        _ => &[1, 2, 4, 8],
    };
    if !known.contains(&bytes) {
        return Err(unknown());
    }
    let native_is_big = cfg!(target_endian = "big") && order == b'=';
    Ok((
        ElementType::new(numerical, bytes * 8),
        (order == b'>' || native_is_big) && bytes > 1 && numerical != NumericalType::Opaque,
    ))
}
