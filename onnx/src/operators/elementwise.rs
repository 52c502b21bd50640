//! Operators that compute each element of those at its position.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Value};

use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Add", 7, |cx, node| arithmetic(cx, node, Arithmetic::Add)),
    onnx("Sub", 7, |cx, node| arithmetic(cx, node, Arithmetic::Sub)),
    onnx("Mul", 7, |cx, node| arithmetic(cx, node, Arithmetic::Mul)),
    onnx("Div", 7, |cx, node| arithmetic(cx, node, Arithmetic::Div)),
    onnx("Cast", 1, |cx, node| {
        let Some(ty) = node.data_type("to")? else { return invalid("there is no attribute `to`") };
        one(cx.cast(node.input(0)?, ty)?)
    }),
    onnx("Relu", 1, |cx, node| {
        let x = node.input(0)?;
        match x.ty.kind() {
            Kind::Float => one(cx.map(&[x], x.ty, |b, x| {
                let zero = b.float(0.0, b.element_of(x[0]));
                b.maximumf(x[0], zero)
            })?),
            Kind::Signed => one(cx.map(&[x], x.ty, |b, x| {
                let zero = b.int(0, b.element_of(x[0]));
                b.maxsi(x[0], zero)
            })?),
            _ => wrong_type(x.ty),
        }
    }),
];

/// An operation of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

fn arithmetic(cx: &mut Context, node: &Node<'_>, operation: Arithmetic) -> Result<Outputs> {
    one(apply(cx, node.input(0)?, node.input(1)?, operation)?)
}

/// Computes an operation of two tensors, which broadcast.
pub(super) fn apply(cx: &mut Context, x: &Tensor, y: &Tensor, operation: Arithmetic) -> Result<Tensor> {
    if x.ty != y.ty || x.ty == DataType::Bool {
        return wrong_type(y.ty);
    }
    if let Some(folded) = cx.fold(&[x, y], x.ty, |elements| match elements {
        [x, y] => folded(x, y, operation),
        _ => None,
    })? {
        return Ok(folded);
    }
    let kind = x.ty.kind();
    cx.map(&[x, y], x.ty, |b, elements| computed(b, elements[0], elements[1], operation, kind))
}

/// Computes an operation of two elements.
fn computed(b: &mut Builder, x: Value, y: Value, operation: Arithmetic, kind: Kind) -> Value {
    match (operation, kind) {
        (Arithmetic::Add, Kind::Float) => b.addf(x, y),
        (Arithmetic::Sub, Kind::Float) => b.subf(x, y),
        (Arithmetic::Mul, Kind::Float) => b.mulf(x, y),
        (Arithmetic::Div, Kind::Float) => b.divf(x, y),
        (Arithmetic::Add, _) => b.addi(x, y),
        (Arithmetic::Sub, _) => b.subi(x, y),
        (Arithmetic::Mul, _) => b.muli(x, y),
        (Arithmetic::Div, Kind::Signed) => b.divsi(x, y),
        (Arithmetic::Div, _) => b.divui(x, y),
    }
}

/// Computes an operation of known elements.
fn folded(x: &Scalar, y: &Scalar, operation: Arithmetic) -> Option<Scalar> {
    match (x, y) {
        (Scalar::Int(x), Scalar::Int(y)) => Some(Scalar::Int(match operation {
            Arithmetic::Add => x.plus(y),
            Arithmetic::Sub => x.minus(y),
            Arithmetic::Mul => x.times(y),
            // Towards zero, as integers are divided; extents are not negative.
            Arithmetic::Div => match (x.as_constant(), y.as_constant()) {
                (Some(x), Some(y)) => Dim::constant(x.checked_div(y)?),
                (_, Some(y)) if y <= 0 => return None,
                _ => x.floor_div(y),
            },
        })),
        (Scalar::Float(x), Scalar::Float(y)) => Some(Scalar::Float(match operation {
            Arithmetic::Add => x + y,
            Arithmetic::Sub => x - y,
            Arithmetic::Mul => x * y,
            Arithmetic::Div => x / y,
        })),
        _ => None,
    }
}
