//! NumPy's `.npy` format, which NumPy's module `numpy.lib.format` documents.
#![expect(clippy::disallowed_methods, reason = "arrays are files of the host program")]

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use std::io::{Read, Write};

use super::{HostTensor, TensorType};
use crate::memory::buffer_view::BufferView;
use crate::{ElementType, NumericalType};
use crate::{Error, Result, ResultExt};

/// The first bytes of a file.
pub const NPY_MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Alignment of headers and of elements in bytes.
const ALIGNMENT: usize = 64;
/// Largest accepted header in bytes; those of plain arrays take about a hundred.
const HEADER_LIMIT: u64 = 1 << 20;
/// Most characters of a header in a message.
const SHOWN_CHARACTERS: usize = 200;

/// NumPy's letter for each numerical type. If types share a letter, reading yields the first.
const KINDS: &[(u8, NumericalType)] = &[
    (b'b', NumericalType::Boolean),
    (b'i', NumericalType::SignedInteger),
    (b'i', NumericalType::Integer),
    (b'u', NumericalType::UnsignedInteger),
    (b'f', NumericalType::Float),
    (b'c', NumericalType::Complex),
    // Opaque bytes: NumPy has no names for these floats.
    (b'V', NumericalType::Opaque),
    (b'V', NumericalType::BrainFloat),
    (b'V', NumericalType::Float8E5M2),
    (b'V', NumericalType::Float8E4M3Fn),
    (b'V', NumericalType::Float8E5M2Fnuz),
    (b'V', NumericalType::Float8E4M3Fnuz),
    (b'V', NumericalType::Float8E8M0Fnu),
];

/// The header of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// Shape and element type.
    pub tensor: TensorType,
    /// True if elements are big-endian.
    pub big_endian: bool,
    /// True if the first dimension is the fastest instead of the last.
    pub fortran_order: bool,
}

impl NpyHeader {
    /// Reads a header. The reader's position is then that of the elements.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed header; UNIMPLEMENTED for element types without a counterpart; OUT_OF_RANGE if
    /// the file ends early.
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
                return Err(Error::unimplemented(format!(
                    "unknown version {major}.{} of .npy; known are 1.0 to 3.0",
                    prefix[7]
                )));
            }
        };
        if length > HEADER_LIMIT {
            return Err(Error::resource_exhausted(format!(
                ".npy header of {length} bytes exceeds the limit of {HEADER_LIMIT}"
            )));
        }
        let mut header = vec![0; length as usize];
        read_exact(reader, &mut header)?;
        let header = String::from_utf8_lossy(&header);
        let shown = || header.trim().chars().take(SHOWN_CHARACTERS).collect::<String>();
        parse_header(header.trim()).context(|| format!("in the .npy header {}", shown()))
    }

    /// Returns the header of an array in row-major order, byte for byte as NumPy writes it.
    ///
    /// # Errors
    /// UNIMPLEMENTED for elements without a NumPy name, such as integers of 4 bits.
    pub fn bytes(tensor: &TensorType) -> Result<Vec<u8>> {
        let element = tensor.element;
        let kind = element.numerical_type().and_then(|numerical| KINDS.iter().find(|(_, known)| *known == numerical));
        let Some((letter, _)) = kind.filter(|_| element.is_byte_aligned() && element.bit_count() > 0) else {
            return Err(Error::unimplemented(format!("elements of {element} have no counterpart in .npy files")));
        };
        let size = element.dense_byte_count();
        let order = if size == 1 { '|' } else { '<' };
        let dims: Vec<String> = tensor.shape.iter().map(alloc::string::ToString::to_string).collect();
        // Python writes a tuple of one element with a trailing comma.
        let comma = if dims.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{order}{}{size}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            char::from(*letter),
            dims.join(", ")
        );
        // The length takes two bytes in version 1.0 and four in version 2.0.
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

impl HostTensor {
    /// Reads one array. The reader's position is then after it. Big-endian elements and Fortran order are converted.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed header; UNIMPLEMENTED for element types without a counterpart; OUT_OF_RANGE if
    /// the file ends early.
    pub fn read_npy(reader: &mut impl Read) -> Result<HostTensor> {
        let header = NpyHeader::read(reader)?;
        let length = header.tensor.byte_length()?;
        let mut bytes = Vec::new();
        // The length is untrusted: memory is allocated only as bytes arrive.
        reader.take(length).read_to_end(&mut bytes).context(|| "reading the elements")?;
        if bytes.len() as u64 != length {
            return Err(Error::out_of_range(format!(
                "{} is {length} bytes, but only {} are present",
                header.tensor,
                bytes.len()
            )));
        }
        if header.big_endian {
            let parts = if header.tensor.element.is_complex() { 2 } else { 1 };
            bytes.chunks_exact_mut(header.tensor.element.dense_byte_count() / parts).for_each(<[u8]>::reverse);
        }
        if header.fortran_order {
            bytes = row_major(&header.tensor, &bytes);
        }
        Ok(HostTensor { tensor: header.tensor, bytes })
    }

    /// Appends the array to the writer.
    ///
    /// # Errors
    /// UNIMPLEMENTED for elements without a NumPy name, such as integers of 4 bits; errors of writing.
    pub fn write_npy(&self, writer: &mut impl Write) -> Result<()> {
        let header = NpyHeader::bytes(&self.tensor)?;
        writer.write_all(&header).and_then(|()| writer.write_all(&self.bytes)).context(|| "writing an array")
    }
}

/// Converts an array from Fortran order, first dimension fastest, to row-major order.
fn row_major(tensor: &TensorType, bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let size = tensor.element.dense_byte_count();
    let mut strides = Vec::with_capacity(tensor.shape.len());
    let mut stride = size;
    for dim in &tensor.shape {
        strides.push(stride);
        stride *= *dim as usize;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0u64; tensor.shape.len()];
    while out.len() < bytes.len() {
        let start: usize = index.iter().zip(&strides).map(|(i, stride)| *i as usize * stride).sum();
        out.extend_from_slice(&bytes[start..start + size]);
        for (i, dim) in index.iter_mut().zip(&tensor.shape).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    out
}

fn read_exact(reader: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    reader.read_exact(bytes).context(|| "reading a .npy header")
}

/// Splits text that begins with a bracketed Python literal into the literal's contents and the rest.
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
    // Python 2 wrote long integers with a suffix L.
    let dims = dims.map(|dim| {
        let digits = dim.strip_suffix('L').unwrap_or(dim);
        digits.parse().map_err(|_| Error::invalid_argument(format!("{dim:?} is not a dimension")))
    });
    let shape: Vec<u64> = dims.take(BufferView::RANK_LIMIT + 1).collect::<Result<_>>()?;
    if shape.len() > BufferView::RANK_LIMIT {
        return Err(Error::invalid_argument(format!(
            "shape exceeds the limit of {} dimensions",
            BufferView::RANK_LIMIT
        )));
    }
    Ok(shape)
}

/// Parses NumPy's name of an element type, such as `<f4`: byte order, kind, number of bytes.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn tensor(text: &str) -> HostTensor {
        let (tensor, contents) = text.split_once('=').unwrap();
        let tensor: TensorType = tensor.parse().unwrap();
        let mut bytes = vec![0; tensor.byte_length().unwrap() as usize];
        super::super::parse_elements(contents, tensor.element, &mut bytes).unwrap();
        HostTensor { tensor, bytes }
    }

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn written_files_equal_those_of_numpy() {
        // numpy.save of numpy.array([[1, 2], [3, 4]], dtype=numpy.int16), numpy 2.
        let mut golden = b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }".to_vec();
        golden.resize(127, b' ');
        golden.push(b'\n');
        golden.extend([1, 0, 2, 0, 3, 0, 4, 0]);
        let mut written = Vec::new();
        tensor("2x2xi16=1 2 3 4").write_npy(&mut written).unwrap();
        assert_eq!(written, golden);
    }

    #[test]
    fn arrays_follow_each_other() {
        let arrays = [
            "2x2xsi16=1 2 3 4",
            "f32=2.5",
            "3xui8=1 2 3",
            "2xi1=1 0",
            "2xf16=1 2",
            "0x3xf64=",
            "1xcf64=0000803f00000040",
        ];
        let mut file = Vec::new();
        for array in arrays {
            tensor(array).write_npy(&mut file).unwrap();
        }
        let mut reader = file.as_slice();
        for array in arrays {
            assert_eq!(HostTensor::read_npy(&mut reader).unwrap(), tensor(array));
        }
        assert!(reader.is_empty());
    }

    #[test]
    fn types_without_a_name_are_bytes() {
        let mut file = Vec::new();
        tensor("2xbf16=1 2").write_npy(&mut file).unwrap();
        let read = HostTensor::read_npy(&mut file.as_slice()).unwrap();
        assert_eq!((read.tensor.to_string().as_str(), read.bytes), ("2x*16", tensor("2xbf16=1 2").bytes));
        assert!(tensor("2xi4=1 2").write_npy(&mut Vec::new()).is_err());
    }

    #[test]
    fn other_orders_are_converted() {
        // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) of dtype '>u2'.
        let header = "{'shape': (2, 3), 'fortran_order': True, 'descr': '>u2'}\n";
        let read = HostTensor::read_npy(&mut file(header, &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]).as_slice()).unwrap();
        assert_eq!(read, tensor("2x3xui16=1 2 3 4 5 6"));
        let header = "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }\n";
        let read = HostTensor::read_npy(&mut file(header, &[0x3F, 0x80, 0, 0, 0x40, 0, 0, 0]).as_slice()).unwrap();
        assert_eq!(read, tensor("1xcf64=0000803f00000040"));
    }

    #[test]
    fn wrong_files_are_errors() {
        let good = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }";
        assert!(HostTensor::read_npy(&mut file(good, &[1, 0, 2, 0]).as_slice()).is_ok());
        assert!(HostTensor::read_npy(&mut file(good, &[1, 0, 2]).as_slice()).is_err());
        for header in [
            "",
            "{}",
            "{'descr': '<i2', 'fortran_order': False}",
            "{'descr': '<i3', 'fortran_order': False, 'shape': (), }",
            "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (), }",
            "{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (), }",
            "{'descr': '<i2', 'fortran_order': Maybe, 'shape': (), }",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (x,), }",
            "{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 2), }",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), 'what': 1}",
            "{'descr",
            "{'descr': ",
            "{'descr': '",
            "{'descr': ''",
        ] {
            assert!(HostTensor::read_npy(&mut file(header, &[1, 0, 2, 0]).as_slice()).is_err(), "{header}");
        }
        assert!(HostTensor::read_npy(&mut &b"\x93NUMPY\x09\x00"[..]).is_err());
        assert!(HostTensor::read_npy(&mut &b"PK\x03\x04aaaaaaaa"[..]).is_err());
        assert!(HostTensor::read_npy(&mut &b"\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF"[..]).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        let mut good = Vec::new();
        tensor("2x3xi16=1 2 3 4 5 6").write_npy(&mut good).unwrap();
        for position in 0..good.len() {
            for value in [0, 1, b'\'', b'(', b')', b',', b'9', b'T', b'{', b'}', b'>', 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[position] = value;
                let _ = HostTensor::read_npy(&mut bad.as_slice());
            }
            assert!(HostTensor::read_npy(&mut &good[..position]).is_err());
        }
    }
}
