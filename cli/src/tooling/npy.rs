//! Arrays in NumPy's `.npy` format, several of which may follow each other in one file.

use std::io::{Read, Write};

use incarnate_runtime::hal::format::{NpyHeader, TensorType};
use incarnate_runtime::{Error, Result, ResultExt};

use super::HostTensor;

/// Reads one array and leaves the reader behind it. Big-endian elements and arrays in Fortran's order are converted.
///
/// # Errors
/// INVALID_ARGUMENT for a malformed header, UNIMPLEMENTED for element types without a counterpart, OUT_OF_RANGE where the
/// file ends early.
pub(crate) fn read_array(reader: &mut impl Read) -> Result<HostTensor> {
    let header = NpyHeader::read(reader)?;
    let length = header.tensor.byte_length()?;
    let mut bytes = Vec::new();
    // The length is what the file claims, so memory is taken only as bytes arrive.
    reader.take(length).read_to_end(&mut bytes).context(|| "reading the elements")?;
    if bytes.len() as u64 != length {
        return Err(Error::out_of_range(format!(
            "{} is {length} bytes, of which {} are there",
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

/// The elements of an array in Fortran's order (first dimension fastest), the last dimension fastest.
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

/// Writes one array behind what the writer holds already.
///
/// # Errors
/// UNIMPLEMENTED for elements that NumPy cannot name, such as integers of 4 bits, and what writing gives.
pub(crate) fn write_array(writer: &mut impl Write, array: &HostTensor) -> Result<()> {
    let header = NpyHeader::bytes(&array.tensor)?;
    writer.write_all(&header).and_then(|()| writer.write_all(&array.bytes)).context(|| "writing an array")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn tensor(text: &str) -> HostTensor {
        let (tensor, contents) = text.split_once('=').unwrap();
        let tensor: TensorType = tensor.parse().unwrap();
        let mut bytes = vec![0; tensor.byte_length().unwrap() as usize];
        incarnate_runtime::hal::format::parse_elements(contents, tensor.element, &mut bytes).unwrap();
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
    fn written_files_are_those_of_numpy() {
        // numpy.save of numpy.array([[1, 2], [3, 4]], dtype=numpy.int16), numpy 2.
        let mut golden = b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }".to_vec();
        golden.resize(127, b' ');
        golden.push(b'\n');
        golden.extend([1, 0, 2, 0, 3, 0, 4, 0]);
        let mut written = Vec::new();
        write_array(&mut written, &tensor("2x2xi16=1 2 3 4")).unwrap();
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
            write_array(&mut file, &tensor(array)).unwrap();
        }
        let mut reader = file.as_slice();
        for array in arrays {
            assert_eq!(read_array(&mut reader).unwrap(), tensor(array));
        }
        assert!(reader.is_empty());
    }

    #[test]
    fn types_without_a_name_are_bytes() {
        let mut file = Vec::new();
        write_array(&mut file, &tensor("2xbf16=1 2")).unwrap();
        let read = read_array(&mut file.as_slice()).unwrap();
        assert_eq!((read.tensor.to_string().as_str(), read.bytes), ("2x*16", tensor("2xbf16=1 2").bytes));
        assert!(write_array(&mut Vec::new(), &tensor("2xi4=1 2")).is_err());
    }

    #[test]
    fn other_orders_are_converted() {
        // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]]) of dtype '>u2'.
        let header = "{'shape': (2, 3), 'fortran_order': True, 'descr': '>u2'}\n";
        let read = read_array(&mut file(header, &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]).as_slice()).unwrap();
        assert_eq!(read, tensor("2x3xui16=1 2 3 4 5 6"));
        let header = "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }\n";
        let read = read_array(&mut file(header, &[0x3F, 0x80, 0, 0, 0x40, 0, 0, 0]).as_slice()).unwrap();
        assert_eq!(read, tensor("1xcf64=0000803f00000040"));
    }

    #[test]
    fn wrong_files_are_errors() {
        let good = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }";
        assert!(read_array(&mut file(good, &[1, 0, 2, 0]).as_slice()).is_ok());
        assert!(read_array(&mut file(good, &[1, 0, 2]).as_slice()).is_err());
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
            assert!(read_array(&mut file(header, &[1, 0, 2, 0]).as_slice()).is_err(), "{header}");
        }
        assert!(read_array(&mut &b"\x93NUMPY\x09\x00"[..]).is_err());
        assert!(read_array(&mut &b"PK\x03\x04aaaaaaaa"[..]).is_err());
        assert!(read_array(&mut &b"\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF"[..]).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        let mut good = Vec::new();
        write_array(&mut good, &tensor("2x3xi16=1 2 3 4 5 6")).unwrap();
        for position in 0..good.len() {
            for value in [0, 1, b'\'', b'(', b')', b',', b'9', b'T', b'{', b'}', b'>', 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[position] = value;
                let _ = read_array(&mut bad.as_slice());
            }
            assert!(read_array(&mut &good[..position]).is_err());
        }
    }
}
