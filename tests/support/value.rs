//! Arguments and results on the host: from text in the form of `--input`, and from NumPy files.

use std::fs;
use std::path::Path;

use half::{bf16, f16};
use incarnate_runtime::hal::format::HostTensor;
use incarnate_runtime::hal::{ElementType, NumericalType};

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number that is not a tensor; the function's calling convention determines its type.
    Scalar(Number),
    /// An array.
    Tensor(Tensor),
}

/// A number in a case. Integers stay exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub(crate) fn parse(text: &str) -> Number {
        text.parse().map(Number::Integer).unwrap_or_else(|_| Number::Float(text.parse().expect("a number")))
    }

    pub(crate) fn to_i64(self) -> i64 {
        match self {
            Number::Integer(value) => value,
            Number::Float(value) => panic!("{value} where an integer is wanted"),
        }
    }

    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

/// An array in dense row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<u64>,
    pub(crate) element: ElementType,
    /// Little-endian.
    pub(crate) bytes: Vec<u8>,
}

impl Value {
    /// Parses a value of a case whose files are in `folder`.
    pub(crate) fn parse(folder: &Path, text: &str) -> Value {
        if let Some(file) = text.strip_prefix('@') {
            return Value::Tensor(Tensor::read_npy(&folder.join(file)));
        }
        match text.split_once('=') {
            Some((ty, elements)) => Value::Tensor(Tensor::parse(ty, elements)),
            None => Value::Scalar(Number::parse(text)),
        }
    }
}

impl Tensor {
    /// Parses an array of `4xf32` and `1,2,3,4`; a single element is repeated.
    fn parse(ty: &str, elements: &str) -> Tensor {
        let (dimensions, name) = ty.rsplit_once('x').expect("a shape and a type");
        let shape: Vec<u64> = dimensions.split('x').map(|size| size.parse().expect("a size")).collect();
        let element = match name {
            "bf16" => ElementType::BFLOAT_16,
            "f32" => ElementType::FLOAT_32,
            "i32" => ElementType::INT_32,
            other => panic!("no case has text of type {other}"),
        };
        let encode = |text: &str| {
            let number = Number::parse(text);
            match element {
                ElementType::BFLOAT_16 => bf16::from_f64(number.to_f64()).to_le_bytes().to_vec(),
                ElementType::FLOAT_32 => (number.to_f64() as f32).to_le_bytes().to_vec(),
                _ => (number.to_i64() as i32).to_le_bytes().to_vec(),
            }
        };
        let encoded: Vec<Vec<u8>> = elements.split(',').map(encode).collect();
        let count = shape.iter().product::<u64>() as usize;
        let bytes = if encoded.len() == 1 { encoded[0].repeat(count) } else { encoded.concat() };
        assert_eq!(bytes.len(), count * element.dense_byte_count(), "{ty}={elements}");
        Tensor { shape, element, bytes }
    }

    /// Reads a NumPy file.
    pub(crate) fn read_npy(path: &Path) -> Tensor {
        let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut rest = file.as_slice();
        let HostTensor { tensor, bytes } =
            HostTensor::read_npy(&mut rest).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(rest.is_empty(), "{}: more than one array", path.display());
        // NumPy's integers are signed or unsigned; those of models are signless.
        let element = match tensor.element.numerical_type() {
            Some(NumericalType::SignedInteger) => {
                ElementType::new(NumericalType::Integer, tensor.element.bit_count() as u8)
            }
            _ => tensor.element,
        };
        Tensor { shape: tensor.shape, element, bytes }
    }

    /// Returns the elements as numbers, if they are floats.
    pub(crate) fn floats(&self) -> Option<Vec<f64>> {
        let bytes = &self.bytes;
        Some(match self.element {
            ElementType::FLOAT_16 => bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f64()).collect(),
            ElementType::BFLOAT_16 => bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f64()).collect(),
            ElementType::FLOAT_32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
            ElementType::FLOAT_64 => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            _ => return None,
        })
    }

    /// Returns the elements of an array of 32-bit integers.
    pub(crate) fn integers(&self) -> Vec<i32> {
        assert_eq!(self.element.dense_byte_count(), 4, "{:?}", self.element);
        self.bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
    }
}
