//! ONNX Runtime's operators on quantised tensors that compute each element of few.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Value};

use super::Row;
use super::activation::{Activation, sigmoid};
use super::pooling::{average_pool, integer_sums};
use super::products::contrib;
use super::quantization::{Parameters, centred, dequantise, quantise, saturated};
use super::quantized::mean;
use super::window::spatial;
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, axis, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    contrib("QLinearAdd", |cx, node| {
        binary(cx, node, |b, x| {
            let [a, b_, a_scale, b_scale, y_scale] = x;
            let (a_ratio, b_ratio) = (b.divf(a_scale, y_scale), b.divf(b_scale, y_scale));
            let (left, right) = (b.mulf(a, a_ratio), b.mulf(b_, b_ratio));
            b.addf(left, right)
        })
    }),
    contrib("QLinearMul", |cx, node| {
        binary(cx, node, |b, x| {
            let [a, b_, a_scale, b_scale, y_scale] = x;
            let (left, right) = (b.mulf(a, a_scale), b.mulf(b_, b_scale));
            let product = b.mulf(left, right);
            b.divf(product, y_scale)
        })
    }),
    contrib("QLinearSigmoid", |cx, node| unary(cx, node, sigmoid)),
    contrib("QLinearLeakyRelu", |cx, node| {
        let slope = node.float_or("alpha", 0.01);
        unary(cx, node, move |b, x| Activation::LeakyRelu(slope).apply(b, x))
    }),
    contrib("QLinearConcat", concat),
    contrib("QLinearSoftmax", softmax),
    contrib("QLinearAveragePool", |cx, node| {
        let (x, from, to) = (node.input(0)?, Parameters::of(node, 1, 2)?, Parameters::of(node, 3, 4)?);
        let first = channels_first(cx, node, x)?;
        let floats = dequantise(cx, &first, from)?;
        let pooled = average_pool(cx, node, &floats)?;
        let y = quantise(cx, &pooled, to, x.ty)?;
        one(channels_back(cx, node, &y)?)
    }),
    contrib("QLinearGlobalAveragePool", |cx, node| {
        let (x, from, to) = (node.input(0)?, Parameters::of(node, 1, 2)?, Parameters::of(node, 3, 4)?);
        let first = channels_first(cx, node, x)?;
        let sums = integer_sums(cx, &first)?;
        let y = mean(cx, &sums, &Dim::product(spatial(&first)?), from, to, x.ty)?;
        one(channels_back(cx, node, &y)?)
    }),
];

/// Moves the channels of `[N, .., C]` in front, if the node has them behind.
fn channels_first(cx: &mut Context, node: &Node<'_>, x: &Tensor) -> Result<Tensor> {
    if !x.ty.is_int() || x.ty.bits() != 8 {
        return wrong_type(x.ty);
    }
    let rank = x.rank();
    if !node.flag("channels_last") || rank < 3 {
        return Ok(x.clone());
    }
    let permutation: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    cx.transpose(x, &permutation)
}

/// Moves the channels of `[N, C, ..]` behind, if the node has them there.
fn channels_back(cx: &mut Context, node: &Node<'_>, x: &Tensor) -> Result<Tensor> {
    let rank = x.rank();
    if !node.flag("channels_last") || rank < 3 {
        return Ok(x.clone());
    }
    let permutation: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    cx.transpose(x, &permutation)
}

/// Returns a parameter without dimensions.
fn scalar(cx: &mut Context, x: Option<&Tensor>, ty: DataType) -> Result<Tensor> {
    match x {
        Some(x) => cx.reshape(x, &[]),
        None => Ok(Tensor::of_elements(ty, Vec::new(), vec![Scalar::Int(Dim::constant(0))])),
    }
}

/// Computes quotients by the result's scale of two tensors. The body has the elements without their zero points, and the three scales.
fn binary(cx: &mut Context, node: &Node<'_>, body: impl FnOnce(&mut Builder, [Value; 5]) -> Value) -> Result<Outputs> {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let ty = a.ty;
    if b.ty != ty || !ty.is_int() || ty.bits() > 16 {
        return wrong_type(b.ty);
    }
    let scales = [1, 4, 6].map(|index| node.input(index));
    let [Ok(a_scale), Ok(b_scale), Ok(y_scale)] = scales else { return invalid("there is a scale missing") };
    let [a_scale, b_scale, y_scale] =
        [scalar(cx, Some(a_scale), ty)?, scalar(cx, Some(b_scale), ty)?, scalar(cx, Some(y_scale), ty)?];
    let [a_zero, b_zero, y_zero] =
        [scalar(cx, node.optional(2)?, ty)?, scalar(cx, node.optional(5)?, ty)?, scalar(cx, node.optional(7)?, ty)?];
    let operands = [a, b, &a_zero, &b_zero, &y_zero, &a_scale, &b_scale, &y_scale];
    one(cx.map(&operands, ty, |b, x| {
        let left = centred(b, x[0], Some(x[2]), ty, DataType::F32);
        let right = centred(b, x[1], Some(x[3]), ty, DataType::F32);
        let y = body(b, [left, right, x[5], x[6], x[7]]);
        let zero = converted(b, x[4], ty, DataType::F32);
        saturated(b, y, Some(zero), ty)
    })?)
}

/// Computes a function of dequantised elements.
fn unary(cx: &mut Context, node: &Node<'_>, function: impl FnOnce(&mut Builder, Value) -> Value) -> Result<Outputs> {
    let (x, from, to) = (node.input(0)?, Parameters::of(node, 1, 2)?, Parameters::of(node, 3, 4)?);
    if !x.ty.is_int() || x.ty.bits() > 16 {
        return wrong_type(x.ty);
    }
    let floats = dequantise(cx, x, from)?;
    let y = cx.map(&[&floats], DataType::F32, |b, x| function(b, x[0]))?;
    one(quantise(cx, &y, to, x.ty)?)
}

/// Joins tensors, each with its parameters, along an axis.
fn concat(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let to = Parameters::of(node, 0, 1)?;
    let mut parts = Vec::new();
    for index in (2..node.inputs.len()).step_by(3) {
        let x = node.input(index)?;
        let from = Parameters::of(node, index + 1, index + 2)?;
        let floats = dequantise(cx, x, from)?;
        parts.push(quantise(cx, &floats, to, x.ty)?);
    }
    let parts: Vec<&Tensor> = parts.iter().collect();
    let rank = parts.first().map_or(0, |first| first.rank());
    one(cx.concat(&parts, node.axis("axis", 0, rank)?)?)
}

/// The softmax of dequantised elements, along one axis; before version 13, along all from it on.
fn softmax(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, from, to) = (node.input(0)?, Parameters::of(node, 1, 2)?, Parameters::of(node, 3, 4)?);
    let at = axis(node.int_or("axis", -1), x.rank())?;
    let last = if node.int_or("opset", 13) < 13 { x.rank() } else { at + 1 };
    let axes: Vec<usize> = (at..last).collect();
    let floats = dequantise(cx, x, from)?;
    let most =
        cx.reduce(&floats, &axes, DataType::F32, Scalar::Float(f64::NEG_INFINITY), |b, x, most| b.maximumf(x, most))?;
    let most = cx.unsqueeze(&most, &axes)?;
    let powers = cx.map(&[&floats, &most], DataType::F32, |b, x| {
        let distance = b.subf(x[0], x[1]);
        b.exp(distance)
    })?;
    let sums = cx.reduce(&powers, &axes, DataType::F32, Scalar::Float(0.0), |b, x, sum| b.addf(sum, x))?;
    let sums = cx.unsqueeze(&sums, &axes)?;
    let y = cx.map(&[&powers, &sums], DataType::F32, |b, x| b.divf(x[0], x[1]))?;
    one(quantise(cx, &y, to, x.ty)?)
}
