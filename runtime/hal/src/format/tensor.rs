//! Text of shapes, types and contents of whole tensors.
#![expect(clippy::disallowed_methods, reason = "a view has at most 128 dimensions, an element 32 bytes")]

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::element::{format_element, is_packed, parse_element, read_packed, write_packed};
use crate::ElementType;
use crate::memory::buffer_view::BufferView;
use crate::{Error, Result, ResultExt};

/// Most bytes of brackets and dots of rows that show no element.
const ABBREVIATION_LIMIT: usize = 1 << 17;

/// The shape and element type of a tensor, written `2x2xf32`, or `f32` for a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The type of the elements.
    pub element: ElementType,
}

/// A tensor in host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTensor {
    /// Shape and element type.
    pub tensor: TensorType,
    /// The elements in dense row-major order, little-endian; [`TensorType::byte_length`] of them.
    pub bytes: Vec<u8>,
}

impl TensorType {
    /// Splits the text of a type into dimensions, if any, and element type: `2x2` and `f32`.
    #[must_use]
    pub fn split(text: &str) -> (Option<&str>, &str) {
        crate::bytecode::split_tensor_type(text)
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// OUT_OF_RANGE if it exceeds 64 bits.
    pub fn element_count(&self) -> Result<u64> {
        let product = |count: u64, dim: &u64| count.checked_mul(*dim);
        // A dimension of zero makes the count zero, even if the product of the others overflows.
        if self.shape.contains(&0) {
            return Ok(0);
        }
        self.shape
            .iter()
            .try_fold(1, product)
            .ok_or_else(|| Error::out_of_range(format!("the number of elements of {self} exceeds 64 bits")))
    }

    /// Returns the number of bytes of the contents in dense row-major order.
    ///
    /// # Errors
    /// OUT_OF_RANGE if it exceeds 64 bits; INVALID_ARGUMENT for elements of zero bits.
    pub fn byte_length(&self) -> Result<u64> {
        if self.element.bit_count() == 0 {
            return Err(no_size(&self.shape, self.element));
        }
        self.element
            .packed_byte_count(self.element_count()?)
            .ok_or_else(|| Error::out_of_range(format!("the number of bytes of {self} exceeds 64 bits")))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, &self.shape, self.element)
    }
}

fn write_type(out: &mut dyn fmt::Write, shape: &[u64], element: ElementType) -> fmt::Result {
    for dim in shape {
        write!(out, "{dim}x")?;
    }
    write!(out, "{element}")
}

impl FromStr for TensorType {
    type Err = Error;

    /// Parses `2x2xf32`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for dimensions that are not decimal numbers of 63 bits, more than 128 dimensions, and unknown
    /// element types.
    fn from_str(text: &str) -> Result<TensorType> {
        let (dims, name) = TensorType::split(text);
        let mut shape = Vec::new();
        for dim in dims.iter().flat_map(|dims| dims.split('x')) {
            let value = dim.parse::<u64>().ok().filter(|value| *value <= i64::MAX as u64 && !dim.starts_with('+'));
            let value = value.ok_or_else(|| {
                Error::invalid_argument(format!("dimension {} of '{text}' is '{dim}', not a number", shape.len()))
            })?;
            if shape.len() == BufferView::RANK_LIMIT {
                return Err(Error::invalid_argument(format!(
                    "shape exceeds the limit of {} dimensions",
                    BufferView::RANK_LIMIT
                )));
            }
            shape.push(value);
        }
        let element = name.parse().context(|| format!("in '{text}'"))?;
        Ok(TensorType { shape, element })
    }
}

/// Parses the contents of a tensor into `bytes`, which has the tensor's dense row-major length.
///
/// Spaces, commas and brackets separate elements; a comma stands behind one element, or a bracket around elements, and before
/// another. Brackets around nothing stand beside commas only in a text without elements. An empty text fills the tensor with zeros; a
/// single element is repeated.
///
/// # Errors
/// INVALID_ARGUMENT for a text that is not a value of the type, and for a comma without an element before and behind it;
/// OUT_OF_RANGE for another number of elements.
pub fn parse_elements(text: &str, element: ElementType, bytes: &mut [u8]) -> Result<()> {
    let tokens = tokens(text)?;
    if tokens.is_empty() && (bytes.is_empty() || text.trim().is_empty()) {
        bytes.fill(0);
        return Ok(());
    }
    let (width, size) = (element.bit_count(), element.dense_byte_count());
    if size == 0 {
        return Err(Error::invalid_argument(format!("elements of {element} have no size")));
    }
    let packed = is_packed(element);
    let capacity = if packed { bytes.len() * (8 / width) } else { bytes.len() / size };
    let mut scratch = alloc::vec![0; size];
    let splat = tokens.len() == 1 && capacity > 0;
    // The last byte of packed integers may hold more of them than the shape asks for.
    let fits = if packed { tokens.len().div_ceil(8 / width) == bytes.len() } else { tokens.len() == capacity };
    if !splat && !fits {
        return Err(Error::out_of_range(format!("{} elements were given for {capacity} of {element}", tokens.len())));
    }
    for index in 0..if splat { capacity } else { tokens.len() } {
        if !splat || index == 0 {
            let token = tokens.get(index).copied().unwrap_or_default();
            parse_element(token, element, &mut scratch).context(|| format!("element {index}"))?;
        }
        if packed {
            write_packed(bytes, index, width, scratch.first().copied().unwrap_or(0));
        } else if let Some(slot) = bytes.get_mut(index * size..(index + 1) * size) {
            slot.copy_from_slice(&scratch);
        }
    }
    Ok(())
}

/// Returns the elements of a text.
fn tokens(text: &str) -> Result<Vec<&str>> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    let mut tokens = Vec::new();
    let (mut rest, mut previous) = (text.trim_start_matches(is_space), '[');
    // The number of elements before the last comma, and the first comma beside brackets around nothing.
    let (mut before_comma, mut beside_nothing) = (None, None);
    while let Some(first) = rest.chars().next() {
        let is_empty = before_comma.unwrap_or(0) == tokens.len();
        let missing = match first {
            ',' if is_empty => Some("before"),
            ']' if is_empty && before_comma.is_some() => Some("behind"),
            _ => None,
        };
        beside_nothing = beside_nothing.or_else(|| missing.map(|side| empty_element(tokens.len(), side)));
        if first == ',' {
            before_comma = Some(tokens.len());
        }
        let length = match first {
            ',' if matches!(previous, '[' | ',') => return Err(empty_element(tokens.len(), "before")),
            ']' if previous == ',' => return Err(empty_element(tokens.len(), "behind")),
            ',' | '[' | ']' => 1,
            _ => rest.find(|c: char| is_space(c) || matches!(c, ',' | '[' | ']')).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        previous = if matches!(first, ',' | '[' | ']') { first } else { 'x' };
        if previous == 'x' {
            tokens.push(token);
        }
        rest = behind.trim_start_matches(is_space);
    }
    let is_behind = previous == ',' || before_comma == Some(tokens.len()) && !tokens.is_empty();
    match beside_nothing.filter(|_| !tokens.is_empty()) {
        Some(error) => Err(error),
        None if is_behind => Err(empty_element(tokens.len(), "behind")),
        None => Ok(tokens),
    }
}

fn empty_element(index: usize, side: &str) -> Error {
    Error::invalid_argument(format!("element {index} is missing {side} a comma"))
}

/// Writes the contents of a tensor of the given shape: elements between spaces, each dimension but the last in
/// brackets. Beyond `limit` elements, the rest of each row is abbreviated to `...`; after 128 KiB of rows without elements
/// the text ends with `...`.
///
/// # Errors
/// OUT_OF_RANGE if `bytes` is shorter than the elements that are written; INVALID_ARGUMENT for elements of 0 bits;
/// INTERNAL if `out` fails.
pub fn format_elements(
    out: &mut dyn fmt::Write,
    shape: &[u64],
    element: ElementType,
    bytes: &[u8],
    limit: usize,
) -> Result<()> {
    let size = element.dense_byte_count();
    if size == 0 {
        return Err(no_size(shape, element));
    }
    let (row, outer) = match shape.split_last() {
        None => (1, shape),
        Some((row, outer)) => (*row, outer),
    };
    // A dimension of zero has no inner brackets.
    let depth = outer.iter().position(|dim| *dim == 0);
    let (outer, row) = depth.map_or((outer, row), |depth| (outer.get(..depth).unwrap_or_default(), 0));
    let periods = bracket_periods(outer).ok_or_else(|| Error::out_of_range("the number of rows exceeds 64 bits"))?;
    let rows = if depth == Some(0) { 0 } else { periods.first().map_or(1, |inner| inner.saturating_mul(outer[0])) };

    let mut text = String::new();
    let mut left = limit as u64;
    let mut abbreviation_left = ABBREVIATION_LIMIT;
    let mut index = 0usize;
    for number in 0..rows {
        text.clear();
        for _ in periods.iter().filter(|period| number % **period == 0) {
            text.push('[');
        }
        let shown = row.min(left);
        left -= shown;
        for column in 0..shown {
            if column > 0 {
                text.push(' ');
            }
            let packed = is_packed(element).then(|| read_packed(bytes, index, element.bit_count()));
            let found = match &packed {
                Some(value) => value.as_ref().map(core::slice::from_ref),
                None => index.checked_mul(size).and_then(|start| bytes.get(start..start.checked_add(size)?)),
            };
            let found = found.ok_or_else(|| {
                Error::out_of_range(format!("element {index} of {element} is not within {} bytes", bytes.len()))
            })?;
            format_element(&mut text, element, found)?;
            index += 1;
        }
        if shown < row {
            text.push_str("...");
        }
        for _ in periods.iter().filter(|period| (number + 1) % **period == 0) {
            text.push(']');
        }
        // Memory bounds the rows with elements; only the shape bounds the others.
        if shown == 0 {
            match abbreviation_left.checked_sub(text.len()) {
                Some(left) => abbreviation_left = left,
                None => return out.write_str("...").map_err(unwritten),
            }
        }
        out.write_str(&text).map_err(unwritten)?;
    }
    Ok(())
}

#[cold]
fn unwritten(_: fmt::Error) -> Error {
    Error::internal("writing the text of a tensor failed")
}

#[cold]
fn no_size(shape: &[u64], element: ElementType) -> Error {
    Error::invalid_argument(format!("elements of {} have no size", TensorType { shape: shape.to_vec(), element }))
}

/// Returns, for each of some non-zero dimensions, the number of rows between its closing brackets.
fn bracket_periods(outer: &[u64]) -> Option<Vec<u64>> {
    let mut periods = alloc::vec![1u64; outer.len()];
    let mut product = 1u64;
    for (period, dim) in periods.iter_mut().zip(outer).rev() {
        *period = product;
        product = product.checked_mul(*dim)?;
    }
    Some(periods)
}

/// Writes type and contents of a tensor: `2x2xf32=[1 2][3 4]`.
///
/// # Errors
/// Those of [`format_elements`].
pub fn format_tensor(
    out: &mut dyn fmt::Write,
    shape: &[u64],
    element: ElementType,
    bytes: &[u8],
    limit: usize,
) -> Result<()> {
    write_type(out, shape, element).and_then(|()| out.write_char('=')).map_err(unwritten)?;
    format_elements(out, shape, element, bytes, limit)
}

/// Writes type and contents of a buffer view as [`format_tensor`] does. Reads only the bytes of `limit` elements.
///
/// # Errors
/// Those of [`format_elements`]; OUT_OF_RANGE if the view is longer than its buffer; RESOURCE_EXHAUSTED without memory.
pub fn format_view(out: &mut dyn fmt::Write, view: &BufferView, limit: usize) -> Result<()> {
    let (element, length) = (view.element_type(), view.byte_length());
    if length > view.buffer().byte_length() {
        return Err(Error::out_of_range("the view is longer than its buffer"));
    }
    let shown = length.min((limit as u64).saturating_mul(element.dense_byte_count() as u64));
    let bytes = view.buffer().read_range(0, shown)?;
    format_tensor(out, view.shape(), element, &bytes, limit)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(TensorType, Vec<u8>)> {
        let (tensor, contents) = text.split_once('=').unwrap_or((text, ""));
        let tensor: TensorType = tensor.parse()?;
        let mut bytes = vec![0xAA; tensor.byte_length()? as usize];
        parse_elements(contents, tensor.element, &mut bytes)?;
        Ok((tensor, bytes))
    }

    fn print(text: &str, limit: usize) -> Result<String> {
        let (tensor, bytes) = parse(text)?;
        let mut printed = String::new();
        format_tensor(&mut printed, &tensor.shape, tensor.element, &bytes, limit)?;
        Ok(printed)
    }

    /// Golden texts: as in `element.rs`, with `--input=TEXT`, and `--output_max_element_count=` for the last ones.
    #[test]
    fn tensors_are_printed_like_iree_prints_them() {
        for (text, printed) in [
            ("4xf32=2 4 6 8", "4xf32=2 4 6 8"),
            ("4xf32=2,4,6,8", "4xf32=2 4 6 8"),
            ("2x2xi32=[1 2][3 4]", "2x2xi32=[1 2][3 4]"),
            ("2x2xi32=[[1 2][3 4]]", "2x2xi32=[1 2][3 4]"),
            ("2x2xi32=[[1, 2], [3, 4]]", "2x2xi32=[1 2][3 4]"),
            ("2x0xf32=[],[]", "2x0xf32=[][]"),
            ("f32=2", "f32=2"),
            ("i32=5", "i32=5"),
            ("4xf32=7", "4xf32=7 7 7 7"),
            ("2x3x2xf32=1", "2x3x2xf32=[[1 1][1 1][1 1]][[1 1][1 1][1 1]]"),
            ("4xi1=01 00 01 00", "4xi1=01 00 01 00"),
            ("2x*16=beef 1234", "2x*16=BEEF 1234"),
            ("0xf32", "0xf32="),
            ("2x0xf32", "2x0xf32=[][]"),
            ("0x3xf32", "0x3xf32="),
            ("2x0x3xf32", "2x0x3xf32=[][]"),
            ("4xf32", "4xf32=0 0 0 0"),
            ("4xf32=", "4xf32=0 0 0 0"),
            ("2x1xcomplex<f32>", "2x1xcf64=[0000000000000000][0000000000000000]"),
        ] {
            assert_eq!(print(text, 1024).unwrap(), printed, "{text}");
        }
        assert_eq!(print("2x2xi32=1 2 3 4", 3).unwrap(), "2x2xi32=[1 2][3...]");
        assert_eq!(print("2x2x2xi32=5", 2).unwrap(), "2x2x2xi32=[[5 5][...]][[...][...]]");
        assert_eq!(print("4xi32=5", 0).unwrap(), "4xi32=...");
        // IREE writes all of them. Each of the rows of the second shape has 127 pairs of brackets.
        assert_eq!(print("70000x1xi8", 1).unwrap().len(), "70000x1xi8=[0]...".len() + (1 << 17) / 5 * 5);
        assert!(print(&format!("3000x{}i8", "1x".repeat(127)), 2).unwrap().len() < (1 << 17) + 2048);
        assert_eq!(print("4000000000000x0xi32", 1).unwrap().len(), "4000000000000x0xi32=...".len() + (2 << 16));
    }

    #[test]
    fn packed_integers_share_bytes() {
        let (tensor, bytes) = parse("5xi4=1 2 -3 4 7").unwrap();
        assert_eq!((tensor.byte_length().unwrap(), bytes.as_slice()), (3, &[0x21, 0x4D, 0x07 | 0xA0][..]));
        assert_eq!(print("5xi4=1 2 -3 4 7", 9).unwrap(), "5xi4=1 2 -3 4 7");
        assert_eq!(print("3xui4=15", 9).unwrap(), "3xui4=15 15 15");
        assert!(print("5xi4=1 2 3", 9).is_err());
    }

    #[test]
    fn texts_of_no_tensor_are_errors() {
        for text in [
            "2xf32=1 2 3",
            "3xf32=1 2",
            "f32=abc",
            "q32=1",
            "2x2=1",
            "xf32=1",
            "-1xf32",
            "+1xf32",
            "1xxf32",
            "99999999999999999999xf32",
            "f0=1",
            "0xf32=1",
            "2xf32=,",
            "2xf32=1,",
            "2xf32=,1",
            "2xf32=1,,2",
            "2xf32= , ",
            "2x2xf32=[1,2],,[3,4]",
            "2x2xf32=[1,2,][3,4]",
            "2x2xf32=[,1,2][3,4]",
            "2xf32=[]",
            "2xf32=1,[]",
            "2xf32=1,[",
            "2xf32=[],1",
            "2xf32=[[],1]",
            "2x2xf32=[1,[]],[2,3,4]",
            "3xf32=1,[],2,3",
            "1xf32=1,[] 2",
            "0xf32=,",
            "",
        ] {
            assert!(print(text, 1024).is_err(), "{text}");
        }
        let huge: TensorType = "4294967296x4294967296xf32".parse().unwrap();
        assert!(huge.element_count().is_err() && huge.byte_length().is_err());
        assert!("9223372036854775807xf32".parse::<TensorType>().unwrap().byte_length().is_err());
        assert!(vec!["1"; 130].join("x").parse::<TensorType>().is_err());
        assert!(format_elements(&mut String::new(), &[3], ElementType::INT_16, &[0; 5], 9).is_err());
        for shape in [&[][..], &[1 << 61, 1], &[0]] {
            let error = format_elements(&mut String::new(), shape, ElementType::NONE, &[], usize::MAX).unwrap_err();
            assert!(error.message().ends_with("have no size"), "{error}");
        }
    }

    #[test]
    fn views_are_printed_from_their_first_bytes() {
        use crate::{Allocator, BufferParameters, EncodingType};
        let buffer = Allocator::new().allocate(BufferParameters::DEVICE, 6).unwrap();
        buffer.write(0, &[1, 2, 3, 4, 5, 6]).unwrap();
        let print = |shape: &[u64], element: &str, encoding, limit| {
            let view = BufferView::new(buffer.clone(), shape, element.parse().unwrap(), encoding)?;
            let mut text = String::new();
            format_view(&mut text, &view, limit).map(|()| text)
        };
        let dense = EncodingType::DENSE_ROW_MAJOR;
        assert_eq!(print(&[2, 3], "i8", dense, usize::MAX).unwrap(), "2x3xi8=[1 2 3][4 5 6]");
        assert_eq!(print(&[2, 3], "i8", dense, 4).unwrap(), "2x3xi8=[1 2 3][4...]");
        assert_eq!(print(&[11], "i4", dense, 3).unwrap(), "11xi4=1 0 2...");
        assert!(print(&[7], "i8", EncodingType::OPAQUE, 3).is_err());
    }
}
