//! Results printed to the console or written to files.
//!
//! The notation is that of IREE's `iree/tooling/function_io.c` and `process_results.c`.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use incarnate_runtime::hal::ElementType;
use incarnate_runtime::hal::format::{General, TensorType, format_tensor};
use incarnate_runtime::{Error, Result, ResultExt};

use super::atomic_file::AtomicFile;
use super::{HostTensor, HostValue, Primitive};

/// Adapts a byte writer to text.
struct TextTo<'a>(&'a mut dyn Write);

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
///
/// # Errors
/// Errors of writing, and of formatting a tensor.
pub(crate) fn print_value(out: &mut dyn Write, value: &HostValue, limit: usize) -> Result<()> {
    let written = |result: io::Result<()>| result.context(|| "printing a result");
    match value {
        HostValue::Null => written(writeln!(out, "(null)")),
        HostValue::Primitive(primitive) => written(writeln!(out, "{primitive}")),
        HostValue::Tensor(array) => {
            written(writeln!(out, "hal.buffer_view"))?;
            print_tensor(out, array, limit)?;
            written(writeln!(out))
        }
        HostValue::Storage(_) => written(writeln!(out, "hal.buffer\n(no printer)")),
        HostValue::Bytes(_) => written(writeln!(out, "vm.buffer\n(no printer)")),
        HostValue::List(items) => {
            written(writeln!(out, "vm.list"))?;
            print_list(out, "child_list", items, limit)?;
            written(writeln!(out))
        }
        HostValue::Other(name) => written(writeln!(out, "{name}\n(no printer)")),
    }
}

/// Prints type and contents of a tensor, without a newline.
///
/// # Errors
/// Those of [`print_value`].
pub(crate) fn print_tensor(out: &mut dyn Write, array: &HostTensor, limit: usize) -> Result<()> {
    format_tensor(&mut TextTo(out), &array.tensor.shape, array.tensor.element, &array.bytes, limit)
}

/// Prints all results with their numbers.
///
/// # Errors
/// Those of [`print_value`].
pub(crate) fn print_results(out: &mut dyn Write, results: &[HostValue], limit: usize) -> Result<()> {
    print_list(out, "result", results, limit)
}

fn print_list(out: &mut dyn Write, name: &str, values: &[HostValue], limit: usize) -> Result<()> {
    for (index, value) in values.iter().enumerate() {
        write!(out, "{name}[{index}]: ").context(|| "printing a result")?;
        print_value(out, value, limit)?;
    }
    Ok(())
}

/// Processes each result by its spec: ignore (empty), print (`-`), write (`@file`) or append (`+file`). Files named
/// `.npy` are arrays, others raw bytes.
///
/// # Errors
/// OUT_OF_RANGE if the numbers of specs and results differ; errors of writing.
pub(crate) fn write_results(out: &mut dyn Write, results: &[HostValue], specs: &[String], limit: usize) -> Result<()> {
    if results.len() != specs.len() {
        return Err(Error::out_of_range(format!(
            "{} --output flags were given for {} results",
            specs.len(),
            results.len()
        )));
    }
    for (index, (value, spec)) in results.iter().zip(specs).enumerate() {
        match spec.as_str() {
            "" => Ok(()),
            "-" => print_value(out, value, limit),
            _ => write_file(value, spec),
        }
        .context(|| format!("result {index}"))?;
    }
    Ok(())
}

fn write_file(value: &HostValue, spec: &str) -> Result<()> {
    let append = spec.starts_with('+');
    let Some(path) = spec.strip_prefix(['@', '+']) else {
        return Err(Error::invalid_argument(format!("--output={spec} is none of '', '-', '@FILE', '+FILE'")));
    };
    let array = as_array(value)?;
    let mut file = AtomicFile::create(Path::new(path), append)?;
    if path.ends_with(".npy") {
        array.write_npy(&mut file).context(|| format!("writing '{path}'"))?;
    } else {
        file.write_all(&array.bytes).context(|| format!("writing '{path}'"))?;
    }
    file.commit()
}

/// Converts a value to the array in a file: numbers have rank 0, storage is bytes, null is empty.
fn as_array(value: &HostValue) -> Result<HostTensor> {
    let scalar =
        |element, bytes: &[u8]| HostTensor { tensor: TensorType { shape: Vec::new(), element }, bytes: bytes.to_vec() };
    let bytes = |bytes: &[u8]| HostTensor {
        tensor: TensorType { shape: vec![bytes.len() as u64], element: ElementType::INT_8 },
        bytes: bytes.to_vec(),
    };
    Ok(match value {
        HostValue::Null => bytes(&[]),
        HostValue::Primitive(Primitive::I32(value)) => scalar(ElementType::INT_32, &value.to_le_bytes()),
        HostValue::Primitive(Primitive::I64(value)) => scalar(ElementType::INT_64, &value.to_le_bytes()),
        HostValue::Primitive(Primitive::F32(value)) => scalar(ElementType::FLOAT_32, &value.to_le_bytes()),
        HostValue::Primitive(Primitive::F64(value)) => scalar(ElementType::FLOAT_64, &value.to_le_bytes()),
        HostValue::Tensor(array) => array.clone(),
        HostValue::Storage(array) => bytes(&array.bytes),
        HostValue::Bytes(contents) => bytes(contents),
        HostValue::List(_) => return Err(Error::unimplemented("a vm.list cannot be written to a file")),
        HostValue::Other(name) => return Err(Error::unimplemented(format!("a {name} cannot be written to a file"))),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn tensor() -> HostValue {
        HostValue::Tensor(HostTensor { tensor: "2x2xi8".parse().unwrap(), bytes: vec![1, 2, 3, 4] })
    }

    /// Golden text: iree-run-module of release 3.13 on functions that return their arguments, with the same values.
    #[test]
    fn results_are_printed_like_iree_prints_them() {
        let results = [
            HostValue::Primitive(Primitive::I32(5)),
            HostValue::Primitive(Primitive::I64(-16)),
            HostValue::Primitive(Primitive::F32(f32::NAN)),
            HostValue::Primitive(Primitive::F64(1e-7)),
            tensor(),
            HostValue::Null,
            HostValue::Storage(HostTensor { tensor: "2xi8".parse().unwrap(), bytes: vec![1, 2] }),
            HostValue::List(vec![HostValue::Primitive(Primitive::I32(1)), HostValue::Bytes(vec![1])]),
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
    fn results_go_to_their_destinations() {
        let directory = tempfile::tempdir().unwrap();
        let raw = directory.path().join("raw.bin").display().to_string();
        let array = directory.path().join("array.npy").display().to_string();
        let specs = [format!("@{raw}"), format!("+{raw}"), format!("@{array}"), "-".to_owned(), String::new()];
        let results = [tensor(), HostValue::Primitive(Primitive::I32(7)), tensor(), tensor(), tensor()];
        let mut out = Vec::new();
        write_results(&mut out, &results, &specs, 9).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "hal.buffer_view\n2x2xi8=[1 2][3 4]\n");
        assert_eq!(std::fs::read(&raw).unwrap(), [1, 2, 3, 4, 7, 0, 0, 0]);
        let read = HostTensor::read_npy(&mut std::fs::read(&array).unwrap().as_slice()).unwrap();
        assert_eq!((read.tensor.to_string().as_str(), read.bytes), ("2x2xsi8", vec![1, 2, 3, 4]));
        directory.close().unwrap();

        assert!(write_results(&mut Vec::new(), &results, &specs[..2], 9).is_err());
        assert!(write_results(&mut Vec::new(), &results[..1], &["x.bin".to_owned()], 9).is_err());
        assert!(write_results(&mut Vec::new(), &results[..1], &[format!("@{raw}")], 9).is_err());
        assert!(write_results(&mut Vec::new(), &[HostValue::Other("vm.list")], &[format!("@{raw}")], 9).is_err());
    }
}
