//! Dropout, which does nothing but where a model is trained.

use incarnate_bytecode::Result;

use super::random::draw_not_less;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    // Models of these versions that infer often do not say so.
    onnx("Dropout", 1, |cx, node| identity(cx, node, node.input(0)?.ty)),
    onnx("Dropout", 10, |cx, node| identity(cx, node, DataType::Bool)),
    onnx("Dropout", 12, dropout),
];

/// The ratio of nodes without one.
const DEFAULT_RATIO: f64 = 0.5;

/// The input, and a mask of a type that keeps all elements.
fn identity(cx: &mut Context, node: &Node<'_>, ty: DataType) -> Result<Outputs> {
    let x = node.input(0)?;
    let mut outputs = vec![Item::Tensor(x.clone())];
    if node.has_output(1) {
        let kept = if ty.is_float() { Scalar::Float(1.0) } else { Scalar::Int(Dim::constant(1)) };
        outputs.push(Item::Tensor(cx.splat(&kept, ty, &x.shape)?));
    }
    Ok(outputs)
}

/// Dropout whose mode is an input: that of training drops elements with the probability `ratio`, and scales the others.
fn dropout(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let training = match node.optional(2)? {
        Some(training) if !is_known(cx, training, 0.0)? => scalar(cx, training, "training_mode")?,
        _ => return identity(cx, node, DataType::Bool),
    };
    let ratio = match node.optional(1)? {
        Some(ratio) if is_known(cx, ratio, 0.0)? => return identity(cx, node, DataType::Bool),
        Some(ratio) => scalar(cx, ratio, "ratio")?,
        None => Tensor::of_elements(DataType::F32, Vec::new(), vec![Scalar::Float(DEFAULT_RATIO)]),
    };
    if training.ty != DataType::Bool || !ratio.ty.is_float() {
        return invalid("the mode of dropout is a Boolean, and the ratio a float");
    }
    if let Some([ratio]) = cx.floats(&ratio)?.as_deref()
        && !(0.0..1.0).contains(ratio)
    {
        return invalid(format!("the ratio {ratio} is not from 0 to below 1"));
    }
    // A ratio of 0 keeps all elements, as the mode without training does.
    let ty = ratio.ty;
    let ratio = cx.map(&[&ratio, &training], ty, |b, x| {
        let zero = b.float(0.0, ty.computed().element());
        b.select(x[1], x[0], zero)
    })?;
    let mask = draw_not_less(cx, node.int_or("seed", 0), &x.shape, &ratio)?;
    let (from, to) = (ty.computed(), x.ty.computed());
    let y = cx.map_to(&[x, &mask, &ratio], x.ty, &x.shape, |b, x| {
        let one = b.float(1.0, from.element());
        let kept = b.subf(one, x[2]);
        let scale = b.divf(one, kept);
        let scale = converted(b, scale, from, to);
        let scaled = b.mulf(x[0], scale);
        let zero = b.float(0.0, to.element());
        b.select(x[1], scaled, zero)
    })?;
    Ok(vec![Item::Tensor(y), Item::Tensor(mask)])
}

/// Returns whether the elements of a tensor are known to be a number.
fn is_known(cx: &Context, tensor: &Tensor, number: f64) -> Result<bool> {
    Ok(cx.floats(tensor)?.is_some_and(|values| values.iter().all(|value| *value == number)))
}

/// Returns the only element of a tensor as a scalar.
fn scalar(cx: &mut Context, tensor: &Tensor, name: &str) -> Result<Tensor> {
    if !tensor.shape.iter().all(|dim| dim.is(1)) {
        let shape = cx.shape_text(&tensor.shape);
        return invalid(format!("`{name}` has the shape {shape}, and one element is expected"));
    }
    cx.reshape(tensor, &[])
}
