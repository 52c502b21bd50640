//! Results printed to the console or written to files.
//!
//! The notation is that of IREE's `iree/tooling/function_io.c` and `process_results.c`.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use incarnate_runtime::hal::ElementType;
use incarnate_runtime::hal::format::{General, NpyHeader, TensorType, format_tensor, format_view};
use incarnate_runtime::{Error, Result, ResultExt};

use super::atomic_file::AtomicFile;
use super::destination::Destination;
use super::results::{ResultValue, type_of, type_of_bytes, write_buffer, write_bytes, write_view};
use super::{HostTensor, Primitive};

/// Bytes of text of a call's results, besides those for the elements that were asked for.
const TEXT_BYTES: u64 = 16 << 20;
/// Bytes of text for each element that was asked for; the longest number takes 24 with its separator.
const ELEMENT_TEXT_BYTES: u64 = 32;

/// A writer of a bounded number of bytes. The limit is one on all that is written: a list may contain a tensor a million
/// times.
pub(crate) struct Bounded<W> {
    out: W,
    left: u64,
    exhausted: bool,
}

impl<W: Write> Bounded<W> {
    /// Creates a writer of at most `limit` bytes.
    pub(crate) fn new(out: W, limit: u64) -> Bounded<W> {
        Bounded { out, left: limit, exhausted: false }
    }

    /// Returns the number of bytes that may still be written.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Ends a line that an error interrupts, beyond the limit, so that the error's message begins a line.
    pub(crate) fn interrupt(&mut self) {
        // A stream that cannot be written has no line to end.
        let _ = self.out.write_all(b"\n").and_then(|()| self.out.flush());
    }

    /// Replaces the result of writing by an error if the limit was reached.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the text if the limit was reached; else that of the result.
    pub(crate) fn finish(&self, result: Result<()>, why: impl FnOnce() -> String) -> Result<()> {
        if self.exhausted { Err(Error::resource_exhausted(why())) } else { result }
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        match self.left.checked_sub(length) {
            Some(left) if !self.exhausted => {
                self.out.write_all(bytes)?;
                self.left = left;
                Ok(bytes.len())
            }
            _ => {
                self.exhausted = true;
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Adapts a byte writer to text.
pub(crate) struct TextTo<'a>(pub(crate) &'a mut dyn Write);

impl fmt::Write for TextTo<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Primitive::I32(value) => write!(f, "i32={value}"),
            Primitive::I64(value) => write!(f, "i64={value}"),
            Primitive::F32(value) => write!(f, "f32={}", General(f64::from(*value))),
            Primitive::F64(value) => write!(f, "f64={}", General(*value)),
        }
    }
}

/// Prints a value as IREE does: numbers with their type, tensors on a line after their type's name.
fn print_value(out: &mut dyn Write, value: &ResultValue, limit: usize) -> Result<()> {
    let written = |result: io::Result<()>| result.context(|| "printing a result");
    match value {
        ResultValue::Null => written(writeln!(out, "(null)")),
        ResultValue::Primitive(primitive) => written(writeln!(out, "{primitive}")),
        ResultValue::View(view) => {
            written(writeln!(out, "hal.buffer_view"))?;
            format_view(&mut TextTo(out), view, limit)?;
            written(writeln!(out))
        }
        ResultValue::Storage(_) => written(writeln!(out, "hal.buffer\n(no printer)")),
        ResultValue::Bytes(_) => written(writeln!(out, "vm.buffer\n(no printer)")),
        ResultValue::List(items) => {
            written(writeln!(out, "vm.list"))?;
            print_list(out, "child_list", items, limit)?;
            written(writeln!(out))
        }
        ResultValue::Other(name) => written(writeln!(out, "{name}\n(no printer)")),
    }
}

/// Prints type and contents of a tensor, without a newline.
///
/// # Errors
/// Errors of writing, and of formatting a tensor.
pub(crate) fn print_tensor(out: &mut dyn Write, array: &HostTensor, limit: usize) -> Result<()> {
    format_tensor(&mut TextTo(out), &array.tensor.shape, array.tensor.element, &array.bytes, limit)
}

/// Prints all results with their numbers; of each tensor at most `limit` elements.
///
/// # Errors
/// Errors of writing, and of formatting a tensor; RESOURCE_EXHAUSTED beyond 16 MiB of text and 32 bytes for each element
/// of `limit`.
pub(crate) fn print_results(out: &mut dyn Write, results: &[ResultValue], limit: usize) -> Result<()> {
    bounded(out, limit, |out| print_list(out, "result", results, limit))
}

fn bounded(out: &mut dyn Write, limit: usize, print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let text_limit = (limit as u64).saturating_mul(ELEMENT_TEXT_BYTES).saturating_add(TEXT_BYTES);
    let mut out = Bounded::new(out, text_limit);
    let result = print(&mut out);
    out.finish(result, || {
        format!("the results take more than {text_limit} bytes of text: write them to files with --output=@FILE")
    })
}

fn print_list(out: &mut dyn Write, name: &str, values: &[ResultValue], limit: usize) -> Result<()> {
    for (index, value) in values.iter().enumerate() {
        write!(out, "{name}[{index}]: ").context(|| "printing a result")?;
        print_value(out, value, limit)?;
    }
    Ok(())
}

/// Ignores, prints or writes each result.
///
/// # Errors
/// OUT_OF_RANGE if the numbers of destinations and results differ; errors of writing; those of [`print_results`].
pub(crate) fn write_results(
    out: &mut dyn Write,
    results: &[ResultValue],
    destinations: &[Destination],
    limit: usize,
) -> Result<()> {
    if results.len() != destinations.len() {
        let (given, results) = (destinations.len(), results.len());
        return Err(Error::out_of_range(format!("{given} destinations for {results} results")));
    }
    bounded(out, limit, |out| {
        for (index, (value, destination)) in results.iter().zip(destinations).enumerate() {
            match destination {
                Destination::Nowhere => Ok(()),
                Destination::Console => print_value(out, value, limit),
                Destination::File { path, append } => write_file(value, path, *append),
            }
            .context(|| format!("result {index}"))?;
        }
        Ok(())
    })
}

fn write_file(value: &ResultValue, path: &Path, append: bool) -> Result<()> {
    let tensor = file_type(value)?;
    let mut file = AtomicFile::create(path, append)?;
    let is_array = path.as_os_str().as_encoded_bytes().ends_with(b".npy");
    let header = if is_array { NpyHeader::bytes(&tensor)? } else { Vec::new() };
    file.write_all(&header)
        .map_err(Error::from)
        .and_then(|()| write_contents(&mut file, value))
        .context(|| format!("writing '{}'", path.display()))?;
    file.commit()
}

/// Returns the type of the array in a file: numbers have rank 0, storage is bytes, null is empty.
fn file_type(value: &ResultValue) -> Result<TensorType> {
    let scalar = |element| TensorType { shape: Vec::new(), element };
    Ok(match value {
        ResultValue::Null => type_of_bytes(0),
        ResultValue::Primitive(Primitive::I32(_)) => scalar(ElementType::INT_32),
        ResultValue::Primitive(Primitive::I64(_)) => scalar(ElementType::INT_64),
        ResultValue::Primitive(Primitive::F32(_)) => scalar(ElementType::FLOAT_32),
        ResultValue::Primitive(Primitive::F64(_)) => scalar(ElementType::FLOAT_64),
        ResultValue::View(view) => type_of(view),
        ResultValue::Storage(buffer) => type_of_bytes(buffer.byte_length()),
        ResultValue::Bytes(buffer) => type_of_bytes(buffer.length()),
        ResultValue::List(_) => return Err(Error::unimplemented("a vm.list cannot be written to a file")),
        ResultValue::Other(name) => return Err(Error::unimplemented(format!("a {name} cannot be written to a file"))),
    })
}

/// Writes the bytes of the array that [`file_type`] describes.
fn write_contents(file: &mut AtomicFile, value: &ResultValue) -> Result<()> {
    let mut numbers = |bytes: &[u8]| file.write_all(bytes).map_err(Error::from);
    match value {
        ResultValue::Primitive(Primitive::I32(value)) => numbers(&value.to_le_bytes()),
        ResultValue::Primitive(Primitive::I64(value)) => numbers(&value.to_le_bytes()),
        ResultValue::Primitive(Primitive::F32(value)) => numbers(&value.to_le_bytes()),
        ResultValue::Primitive(Primitive::F64(value)) => numbers(&value.to_le_bytes()),
        ResultValue::View(view) => write_view(file, view),
        ResultValue::Storage(buffer) => write_buffer(file, buffer, buffer.byte_length()),
        ResultValue::Bytes(buffer) => write_bytes(file, buffer),
        ResultValue::Null | ResultValue::List(_) | ResultValue::Other(_) => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use incarnate_runtime::vm;

    use super::super::HostValue;
    use super::super::results::tests::result;
    use super::*;

    fn tensor() -> ResultValue {
        result(&HostValue::Tensor(HostTensor { tensor: "2x2xi8".parse().unwrap(), bytes: vec![1, 2, 3, 4] }))
    }

    /// Golden text: iree-run-module of release 3.13 on functions that return their arguments, with the same values.
    #[test]
    fn results_are_printed_like_iree_prints_them() {
        let results = [
            ResultValue::Primitive(Primitive::I32(5)),
            ResultValue::Primitive(Primitive::I64(-16)),
            ResultValue::Primitive(Primitive::F32(f32::NAN)),
            ResultValue::Primitive(Primitive::F64(1e-7)),
            tensor(),
            ResultValue::Null,
            result(&HostValue::Storage(HostTensor { tensor: "2xi8".parse().unwrap(), bytes: vec![1, 2] })),
            ResultValue::List(vec![
                ResultValue::Primitive(Primitive::I32(1)),
                ResultValue::Bytes(vm::Buffer::copy_of(&[1]).unwrap()),
            ]),
        ];
        let mut out = Vec::new();
        print_results(&mut out, &results, 3).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "result[0]: i32=5\nresult[1]: i64=-16\nresult[2]: f32=nan\nresult[3]: f64=1e-07\n\
             result[4]: hal.buffer_view\n2x2xi8=[1 2][3...]\nresult[5]: (null)\nresult[6]: hal.buffer\n(no printer)\n\
             result[7]: vm.list\nchild_list[0]: i32=1\nchild_list[1]: vm.buffer\n(no printer)\n\n"
        );
    }

    #[test]
    fn the_text_of_all_results_is_bounded() {
        let array = HostTensor { tensor: "1024xi8".parse().unwrap(), bytes: vec![100; 1024] };
        let list = ResultValue::List(vec![result(&HostValue::Tensor(array)); 10_000]);
        let mut out = Vec::new();
        let error = print_results(&mut out, &[list], 1024).unwrap_err();
        assert!(error.message().contains("more than 16809984 bytes of text"), "{error}");
        assert!(out.len() <= 16_809_984);
    }

    #[test]
    fn results_go_to_their_destinations() {
        let directory = tempfile::tempdir().unwrap();
        let raw = directory.path().join("raw.bin");
        let array = directory.path().join("array.npy");
        let file = |path: &Path, append| Destination::File { path: path.to_owned(), append };
        let destinations =
            [file(&raw, false), file(&raw, true), file(&array, false), Destination::Console, Destination::Nowhere];
        let results = [tensor(), ResultValue::Primitive(Primitive::I32(7)), tensor(), tensor(), tensor()];
        let mut out = Vec::new();
        write_results(&mut out, &results, &destinations, 9).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "hal.buffer_view\n2x2xi8=[1 2][3 4]\n");
        assert_eq!(std::fs::read(&raw).unwrap(), [1, 2, 3, 4, 7, 0, 0, 0]);
        let read = HostTensor::read_npy(&mut std::fs::read(&array).unwrap().as_slice()).unwrap();
        assert_eq!((read.tensor.to_string().as_str(), read.bytes), ("2x2xsi8", vec![1, 2, 3, 4]));
        directory.close().unwrap();

        assert!(write_results(&mut Vec::new(), &results, &destinations[..2], 9).is_err());
        assert!(write_results(&mut Vec::new(), &[ResultValue::Other("vm.list")], &destinations[..1], 9).is_err());
    }
}
