//! Operators of ai.onnx.ml: models and encoders of classical machine learning.

mod ensemble;
mod features;
mod labels;
mod linear;
mod scores;
#[cfg(test)]
mod tests;
mod trees;
mod vectors;

use incarnate_bytecode::Result;

use super::{Lowering, Row};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid};
use crate::tensor::Tensor;

pub(super) const FAMILIES: [&[Row]; 5] = [features::ROWS, labels::ROWS, linear::ROWS, trees::ROWS, vectors::ROWS];

/// A row of the domain.
const fn ml(name: &'static str, since: i64, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "ai.onnx.ml", name, since, lower: Lowering::Plain(lower) }
}

/// Returns a tensor of rows of features: one of one dimension is one row.
fn rows(cx: &mut Context, x: &Tensor) -> Result<Tensor> {
    match &*x.shape {
        [features] => cx.reshape(x, &[Dim::constant(1), features.clone()]),
        [_, _] => Ok(x.clone()),
        _ => invalid(format!("the input has rank {}, not 2", x.rank())),
    }
}

/// Converts rows of features to `f32`, unless they are of `f64` and may stay so.
fn float_rows(cx: &mut Context, x: &Tensor, keeps_double: bool) -> Result<Tensor> {
    let x = rows(cx, x)?;
    if keeps_double && x.ty == DataType::F64 { Ok(x) } else { cx.cast(&x, DataType::F32) }
}

/// Returns the number of elements of a list.
fn length<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

/// Widens numbers.
fn doubles(list: &[f32]) -> Vec<f64> {
    list.iter().copied().map(f64::from).collect()
}
