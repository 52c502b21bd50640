//! Tables that lowerings compute when the model is imported.

use std::rc::Rc;

use bytes::Bytes;

use crate::data_type::DataType;
use crate::dim::Dim;
use crate::tensor::{Constant, Data, Source, Tensor};

/// A tensor of numbers that are known, of type `f32`, `f64`, `i32` or `bool`: a constant as those of the model.
pub(super) fn table(name: &str, numbers: &[f64], shape: &[i64], ty: DataType) -> Tensor {
    let mut bytes = Vec::new();
    for number in numbers {
        match ty {
            DataType::I32 => bytes.extend((*number as i32).to_le_bytes()),
            DataType::F64 => bytes.extend(number.to_le_bytes()),
            DataType::Bool => bytes.push(u8::from(*number != 0.0)),
            _ => bytes.extend((*number as f32).to_le_bytes()),
        }
    }
    let ty = if matches!(ty, DataType::I32 | DataType::F64 | DataType::Bool) { ty } else { DataType::F32 };
    let constant = Constant { name: name.to_owned(), source: Source::Bytes(Bytes::from(bytes)) };
    let shape = shape.iter().copied().map(Dim::constant).collect();
    Tensor { ty, shape, data: Data::Constant(Rc::new(constant)) }
}
