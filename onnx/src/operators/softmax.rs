//! Softmax and its kind.

use incarnate_bytecode::Result;
use incarnate_mlir::{IntPredicate, Map};

use super::nests::{Reduction, map_nest};
use super::reductions::greatest;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{others, wrong_type};
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Softmax", 1, |cx, node| flattened(cx, node, softmax)),
    onnx("Softmax", 13, |cx, node| along_axis(cx, node, softmax)),
    onnx("LogSoftmax", 1, |cx, node| flattened(cx, node, log_softmax)),
    onnx("LogSoftmax", 13, |cx, node| along_axis(cx, node, log_softmax)),
    onnx("Hardmax", 1, |cx, node| flattened(cx, node, hardmax)),
    onnx("Hardmax", 13, |cx, node| along_axis(cx, node, hardmax)),
    Row {
        domain: "com.microsoft",
        name: "BiasSoftmax",
        since: 1,
        lower: super::Lowering::Plain(bias_softmax),
    },
];

/// A function of a tensor and axes.
type Along = fn(&mut Context, &Tensor, &[usize]) -> Result<Tensor>;

fn along_axis(cx: &mut Context, node: &Node<'_>, lower: Along) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let axis = node.axis("axis", -1, x.rank())?;
    one(lower(cx, x, &[axis])?)
}

/// The forms before opset 13 take the dimensions from `axis` on as one.
fn flattened(cx: &mut Context, node: &Node<'_>, lower: Along) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let axes = trailing(node, x.rank())?;
    one(lower(cx, x, &axes)?)
}

/// Returns the dimensions from the attribute `axis` on, which may be the rank.
fn trailing(node: &Node<'_>, rank: usize) -> Result<Vec<usize>> {
    let axis = node.int_or("axis", 1);
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    match usize::try_from(if axis < 0 { axis.saturating_add(signed) } else { axis }) {
        Ok(first) if first <= rank => Ok((first..rank).collect()),
        _ => invalid(format!("the axis {axis} is not one of a tensor of rank {rank}")),
    }
}

fn bias_softmax(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, bias) = (node.input(0)?, node.input(1)?);
    if !x.ty.is_float() || x.ty != bias.ty {
        return wrong_type(bias.ty);
    }
    let axes = trailing(node, x.rank())?;
    let sum = cx.map_to(&[x, bias], x.ty, &x.shape, |b, x| b.addf(x[0], x[1]))?;
    one(softmax(cx, &sum, &axes)?)
}

/// The exponentials, divided by their sum along axes.
pub(super) fn softmax(cx: &mut Context, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if x.count().is(0) {
        return Ok(x.clone());
    }
    let reduction = Reduction::along(&x.shape, axes);
    let (ty, identity) = (x.ty.computed(), Map::identity(x.rank()));
    let greatest = greatest(cx, x, &identity, &reduction, ty)?;
    let operands = [(x, identity.clone()), (&greatest, reduction.output.clone())];
    let exponentials = map_nest(cx, &operands, &x.shape, ty, |b, x| {
        let difference = b.subf(x[0], x[1]);
        b.exp(difference)
    })?;
    let sum = reduction.sum(cx, &[(&exponentials, identity.clone())], ty, |_, x| x[0])?;
    let operands = [(&exponentials, identity), (&sum, reduction.output)];
    map_nest(cx, &operands, &x.shape, x.ty, |b, x| b.divf(x[0], x[1]))
}

/// The logarithm of [`softmax`].
pub(super) fn log_softmax(cx: &mut Context, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if x.count().is(0) {
        return Ok(x.clone());
    }
    let reduction = Reduction::along(&x.shape, axes);
    let (ty, identity) = (x.ty.computed(), Map::identity(x.rank()));
    let greatest = greatest(cx, x, &identity, &reduction, ty)?;
    let operands = [(x, identity.clone()), (&greatest, reduction.output.clone())];
    let sum = reduction.sum(cx, &operands, ty, |b, x| {
        let difference = b.subf(x[0], x[1]);
        b.exp(difference)
    })?;
    let operands = [(x, identity), (&greatest, reduction.output.clone()), (&sum, reduction.output)];
    map_nest(cx, &operands, &x.shape, x.ty, |b, x| {
        let difference = b.subf(x[0], x[1]);
        let log = b.log(x[2]);
        b.subf(difference, log)
    })
}

/// 1 at the first of the greatest elements along axes, else 0. The axes are adjacent.
fn hardmax(cx: &mut Context, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if x.count().is(0) {
        return Ok(x.clone());
    }
    let joined = match axes {
        [_] => x.clone(),
        [] => return cx.splat(&Scalar::Float(1.0), x.ty, &x.shape),
        [first, ..] => {
            let mut shape = x.shape.get(..*first).unwrap_or_default().to_vec();
            shape.push(Dim::product(axes.iter().filter_map(|axis| x.shape.get(*axis))));
            cx.reshape(x, &shape)?
        }
    };
    let axis = axes.first().copied().unwrap_or(0);
    let position = super::order::extreme_position(cx, &joined, axis, true, false)?;
    let kept = others(&[axis], joined.rank());
    let operands = [(&position, Map::of(joined.rank(), &kept))];
    let (ty, shape) = (x.ty.computed(), joined.shape.clone());
    let result = map_nest(cx, &operands, &shape, x.ty, |b, position| {
        let index = b.iteration(axis);
        let index = b.index_cast(index, DataType::I64.element());
        let is_there = b.cmpi(IntPredicate::Equal, index, position[0]);
        let (one, zero) = (b.float(1.0, ty.element()), b.float(0.0, ty.element()));
        b.select(is_there, one, zero)
    })?;
    cx.reshape(&result, &x.shape)
}
