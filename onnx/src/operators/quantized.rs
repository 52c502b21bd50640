//! Products and convolutions of quantised tensors, which sum exactly in 32 bits.

use incarnate_bytecode::Result;

use super::convolutions::{groups, kernel_of, per_channel};
use super::pooling::index_to_float;
use super::products::contrib;
use super::quantization::{Parameters, dynamically_quantized, is_zero, saturated};
use super::window::{Geometry, spatial};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("MatMulInteger", 10, |cx, node| {
        let (a, b) = (Integers::of(node, 0, 2)?, Integers::of(node, 1, 3)?);
        one(product(cx, a, b)?)
    }),
    onnx("ConvInteger", 10, |cx, node| {
        let (x, w) = (Integers::of(node, 0, 2)?, Integers::of(node, 1, 3)?);
        one(convolution(cx, node, x, w)?)
    }),
    onnx("QLinearMatMul", 10, |cx, node| {
        let (a, b) = (Integers::of(node, 0, 2)?, Integers::of(node, 3, 5)?);
        let sums = product(cx, a, b)?;
        let a_scale = per_row(cx, node.input(1)?)?;
        let multiplier = multiplier(cx, &a_scale, node.input(4)?, Some(node.input(6)?))?;
        one(requantised(cx, &sums, &multiplier, node.input(7)?)?)
    }),
    onnx("QLinearConv", 10, qlinear_conv),
    contrib("QLinearConv", |cx, node| {
        if node.flag("channels_last") {
            return crate::node::unsupported("`channels_last`");
        }
        qlinear_conv(cx, node)
    }),
    contrib("MatMulIntegerToFloat", |cx, node| {
        let (a, b) = (Integers::of(node, 0, 4)?, Integers::of(node, 1, 5)?);
        let sums = product(cx, a, b)?;
        let a_scale = per_row(cx, node.input(2)?)?;
        let multiplier = multiplier(cx, &a_scale, node.input(3)?, None)?;
        one(scaled(cx, &sums, &multiplier, node.optional(6)?)?)
    }),
    contrib("DynamicQuantizeMatMul", |cx, node| {
        let [a, scale, zero] = dynamically_quantized(cx, node.input(0)?)?;
        let sums = product(cx, Integers { x: &a, zero: Some(&zero) }, Integers::of(node, 1, 3)?)?;
        let multiplier = multiplier(cx, &scale, node.input(2)?, None)?;
        one(scaled(cx, &sums, &multiplier, node.optional(4)?)?)
    }),
    contrib("QGemm", qgemm),
];

/// A tensor of integers and its zero point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integers<'a> {
    pub(super) x: &'a Tensor,
    pub(super) zero: Option<&'a Tensor>,
}

impl<'a> Integers<'a> {
    fn of(node: &'a Node<'_>, x: usize, zero: usize) -> Result<Integers<'a>> {
        let integers = Integers { x: node.input(x)?, zero: node.optional(zero)? };
        let ty = integers.x.ty;
        if !ty.is_int() || ty.bits() > 16 {
            return wrong_type(ty);
        }
        match integers.zero {
            Some(zero) if zero.ty != ty => wrong_type(zero.ty),
            _ => Ok(integers),
        }
    }
}

/// Returns a parameter for each row, which is a vector or has the rank of the matrices, so that it broadcasts to a product.
fn per_row(cx: &mut Context, parameter: &Tensor) -> Result<Tensor> {
    match parameter.rank() {
        1 if parameter.count().is(1) => cx.reshape(parameter, &[]),
        1 => cx.unsqueeze(parameter, &[1]),
        _ => Ok(parameter.clone()),
    }
}

/// Subtracts a zero point that broadcasts, unless it is known to be 0.
fn without_zero(cx: &mut Context, x: &Tensor, zero: Option<&Tensor>) -> Result<Tensor> {
    let zero = match zero {
        Some(zero) if !is_zero(cx, zero)? => zero,
        _ => return Ok(x.clone()),
    };
    let (from, ty) = (x.ty, if x.ty.bits() > 8 { DataType::I32 } else { DataType::I16 });
    let zero = if zero.count().is(1) { cx.reshape(zero, &[])? } else { zero.clone() };
    let centred = cx.map(&[x, &zero], ty, |b, x| {
        let (x, zero) = (converted(b, x[0], from, ty), converted(b, x[1], from, ty));
        b.subi(x, zero)
    })?;
    if centred.static_shape().is_some() {
        return Ok(centred);
    }
    // IREE's compiler, up to 3.13, computes such operands within the kernel of a product, whose buffer for them has no known size then.
    let value = cx.value(&centred)?;
    let value = cx.b.barrier(value);
    cx.tensor(value, ty, centred.shape)
}

/// Sums integers along axes as `i32`.
fn sums(cx: &mut Context, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let from = x.ty;
    cx.reduce(x, axes, DataType::I32, Scalar::Int(Dim::constant(0)), |b, x, sum| {
        let wide = converted(b, x, from, DataType::I32);
        b.addi(sum, wide)
    })
}

/// Subtracts the zero point of one operand times the sums of the other one.
fn corrected(cx: &mut Context, y: &Tensor, zero: &Tensor, sums: &Tensor) -> Result<Tensor> {
    let ty = zero.ty;
    cx.map(&[y, zero, sums], DataType::I32, |b, x| {
        let zero = converted(b, x[1], ty, DataType::I32);
        let part = b.muli(zero, x[2]);
        b.subi(x[0], part)
    })
}

/// Multiplies matrices of integers: `A` may have a zero point for each row, and `B` one for each column.
fn product(cx: &mut Context, a: Integers<'_>, b: Integers<'_>) -> Result<Tensor> {
    let (left, right) = (a.x, b.x);
    if left.rank() == 0 || right.rank() == 0 {
        return invalid("an operand of a matrix product is a scalar");
    }
    let mut dropped = Vec::new();
    let rank = left.rank().max(right.rank()).max(2);
    let left = if left.rank() == 1 {
        dropped.push(rank - 2);
        cx.unsqueeze(left, &[0])?
    } else {
        left.clone()
    };
    let right = if right.rank() == 1 {
        dropped.push(rank - 1);
        cx.unsqueeze(right, &[1])?
    } else {
        right.clone()
    };
    let right = without_zero(cx, &right, b.zero)?;
    let mut y = cx.matmul(&left, &right, DataType::I32)?;
    if let Some(zero) = a.zero.filter(|zero| !matches!(is_zero(cx, zero), Ok(true))) {
        let axis = right.rank() - 2;
        let columns = sums(cx, &right, &[axis])?;
        let columns = cx.unsqueeze(&columns, &[axis])?;
        let zero = per_row(cx, zero)?;
        y = corrected(cx, &y, &zero, &columns)?;
    }
    cx.squeeze(&y, &dropped)
}

/// Convolves integers: `X` has one zero point, and `W` may have one for each output channel.
fn convolution(cx: &mut Context, node: &Node<'_>, x: Integers<'_>, w: Integers<'_>) -> Result<Tensor> {
    let geometry = Geometry::of(node, spatial(x.x)?, kernel_of(w.x, x.x)?, false)?;
    let pad = match x.zero {
        None => cx.scalar(&Scalar::Int(Dim::constant(0)), x.x.ty)?,
        Some(zero) => match cx.elements(zero)?.as_deref().map(Vec::as_slice) {
            Some([only]) => cx.scalar(only, x.x.ty)?,
            _ => {
                let scalar = cx.reshape(zero, &[])?;
                let value = cx.value(&scalar)?;
                cx.b.extract(value, &[])
            }
        },
    };
    let padded = geometry.pad(cx, x.x, pad)?;
    let zero = w.zero.map(|zero| per_channel(cx, zero, geometry.outputs.len() + 1)).transpose()?;
    let weights = without_zero(cx, w.x, zero.as_ref())?;
    let y = cx.convolve(&padded, &weights, &geometry.window, groups(node)?, &geometry.outputs, DataType::I32)?;
    match x.zero {
        Some(zero) if !is_zero(cx, zero)? => {
            let channels = sums(cx, &weights, &(1..weights.rank()).collect::<Vec<_>>())?;
            let channels = per_channel(cx, &channels, geometry.outputs.len())?;
            let zero = cx.reshape(zero, &[])?;
            corrected(cx, &y, &zero, &channels)
        }
        _ => Ok(y),
    }
}

/// Computes `a * b / y` of scales, in `f32` as ONNX Runtime does.
fn multiplier(cx: &mut Context, a: &Tensor, b: &Tensor, y: Option<&Tensor>) -> Result<Tensor> {
    let [a, b] = [scale_of(cx, a)?, scale_of(cx, b)?];
    let y = y.map(|y| scale_of(cx, y)).transpose()?;
    let operands: Vec<&Tensor> = [&a, &b].into_iter().chain(&y).collect();
    let folded = cx.fold(&operands, DataType::F32, |scales| {
        let mut numbers = scales.iter().map(|scale| match scale {
            Scalar::Float(value) => Some(*value as f32),
            Scalar::Int(_) => None,
        });
        let product = numbers.next()?? * numbers.next()??;
        Some(Scalar::Float(f64::from(numbers.next().map_or(Some(product), |y| Some(product / y?))?)))
    })?;
    match folded {
        Some(folded) => Ok(folded),
        None => cx.map(&operands, DataType::F32, |b, x| {
            let product = b.mulf(x[0], x[1]);
            x.get(2).map_or(product, |y| b.divf(product, *y))
        }),
    }
}

/// Returns a scale as `f32`, without dimensions if it is one.
fn scale_of(cx: &mut Context, scale: &Tensor) -> Result<Tensor> {
    let scale = cx.cast(scale, DataType::F32)?;
    if scale.count().is(1) { cx.reshape(&scale, &[]) } else { Ok(scale) }
}

/// Multiplies sums, rounds to even, adds the zero point and saturates.
fn requantised(cx: &mut Context, sums: &Tensor, multiplier: &Tensor, zero: &Tensor) -> Result<Tensor> {
    let ty = zero.ty;
    if !ty.is_int() || ty.bits() > 16 {
        return wrong_type(ty);
    }
    let zero = cx.reshape(zero, &[])?;
    cx.map_to(&[sums, multiplier, &zero], ty, &sums.shape, |b, x| {
        let float = converted(b, x[0], DataType::I32, DataType::F32);
        let scaled = b.mulf(float, x[1]);
        let zero = converted(b, x[2], ty, DataType::F32);
        saturated(b, scaled, Some(zero), ty)
    })
}

/// Multiplies sums as floats, and adds a bias.
fn scaled(cx: &mut Context, sums: &Tensor, multiplier: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let mut operands = vec![sums, multiplier];
    operands.extend(bias);
    cx.map(&operands, DataType::F32, |b, x| {
        let float = converted(b, x[0], DataType::I32, DataType::F32);
        let scaled = b.mulf(float, x[1]);
        x.get(2).map_or(scaled, |bias| b.addf(scaled, *bias))
    })
}

fn qlinear_conv(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, w) = (Integers::of(node, 0, 2)?, Integers::of(node, 3, 5)?);
    let mut y = convolution(cx, node, x, w)?;
    let count = y.rank() - 2;
    if let Some(bias) = node.optional(8)? {
        let bias = per_channel(cx, bias, count)?;
        y = cx.map(&[&y, &bias], DataType::I32, |b, x| b.addi(x[0], x[1]))?;
    }
    let multiplier = multiplier(cx, node.input(1)?, node.input(4)?, Some(node.input(6)?))?;
    let multiplier = if multiplier.rank() == 0 { multiplier } else { per_channel(cx, &multiplier, count)? };
    one(requantised(cx, &y, &multiplier, node.input(7)?)?)
}

/// `alpha * A' * B' + C` of quantised matrices; the result is a float if it has no scale.
fn qgemm(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (a, b) = (Integers::of(node, 0, 2)?, Integers::of(node, 3, 5)?);
    let left = if node.flag("transA") { cx.transpose(a.x, &[1, 0])? } else { a.x.clone() };
    let right = if node.flag("transB") { cx.transpose(b.x, &[1, 0])? } else { b.x.clone() };
    let mut y = product(cx, Integers { x: &left, zero: a.zero }, Integers { x: &right, zero: b.zero })?;
    if let Some(c) = node.optional(6)? {
        y = cx.map(&[&y, c], DataType::I32, |b, x| b.addi(x[0], x[1]))?;
    }
    let mut a_scale = scale_of(cx, node.input(1)?)?;
    let alpha = node.float_or("alpha", 1.0);
    if alpha != 1.0 {
        let alpha = Tensor::of_elements(DataType::F32, Vec::new(), vec![Scalar::Float(alpha)]);
        a_scale = multiplier(cx, &alpha, &a_scale, None)?;
    }
    let multiplier = multiplier(cx, &a_scale, node.input(4)?, node.optional(7)?)?;
    match node.optional(7)? {
        None => one(scaled(cx, &y, &multiplier, None)?),
        Some(_) => {
            let default = Tensor::of_elements(a.x.ty, Vec::new(), vec![Scalar::Int(Dim::constant(0))]);
            let zero = node.optional(8)?.unwrap_or(&default);
            one(requantised(cx, &y, &multiplier, zero)?)
        }
    }
}

/// Requantises sums of a number of elements, as their mean.
pub(super) fn mean(
    cx: &mut Context,
    sums: &Tensor,
    count: &Dim,
    from: Parameters<'_>,
    to: Parameters<'_>,
    ty: DataType,
) -> Result<Tensor> {
    let zero_of = |zero: Option<&Tensor>| match zero {
        Some(zero) => zero.clone(),
        None => Tensor::of_elements(ty, Vec::new(), vec![Scalar::Int(Dim::constant(0))]),
    };
    let (x_zero, y_zero) = (zero_of(from.zero), zero_of(to.zero));
    let [x_zero, y_zero] = [cx.reshape(&x_zero, &[])?, cx.reshape(&y_zero, &[])?];
    let [x_scale, y_scale] = [scale_of(cx, from.scale)?, scale_of(cx, to.scale)?];
    let count = cx.index(count);
    cx.map_to(&[sums, &x_scale, &x_zero, &y_scale, &y_zero], ty, &sums.shape, |b, x| {
        let wide = b.index_cast(count, incarnate_mlir::Element::I32);
        let zero = converted(b, x[2], ty, DataType::I32);
        let offset = b.muli(zero, wide);
        let sum = b.subi(x[0], offset);
        let sum = converted(b, sum, DataType::I32, DataType::F32);
        let number = index_to_float(b, count, DataType::F32);
        let divisor = b.mulf(x[3], number);
        let factor = b.divf(x[1], divisor);
        let scaled = b.mulf(sum, factor);
        let zero = converted(b, x[4], ty, DataType::F32);
        saturated(b, scaled, Some(zero), ty)
    })
}
