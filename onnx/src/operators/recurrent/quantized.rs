//! The `LSTM` of ONNX Runtime whose weights are integers, and whose other factors are rounded to 8 bits when it runs.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, Iterator, Map, Value};

use super::{Kind, Recurrence, check_rank};
use crate::context::Context;
use crate::convert::converted;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid};
use crate::tensor::Tensor;

/// `DynamicQuantizeLSTM`.
pub(super) fn lstm(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?.clone();
    if !x.ty.is_float() {
        return crate::kit::wrong_type(x.ty);
    }
    check_rank(&x, 3, "X")?;
    let w = weights(cx, node.input(1)?, node.input(8)?, node.optional(9)?)?;
    let r = weights(cx, node.input(2)?, node.input(10)?, node.optional(11)?)?;
    let ty = x.ty;
    let recurrence = Recurrence {
        kind: Kind::Lstm,
        x,
        w,
        r,
        bias: node.optional(3)?.cloned(),
        lengths: node.optional(4)?.cloned(),
        initial: vec![node.optional(5)?.cloned(), node.optional(6)?.cloned()],
        peepholes: node.optional(7)?.cloned(),
        is_quantized: true,
    };
    recurrence.run(cx, node, ty)
}

/// The weights as floats: [D,K,N] of integers with scales and zeros of the shape [D] or [D,N].
fn weights(cx: &mut Context, weights: &Tensor, scale: &Tensor, zero: Option<&Tensor>) -> Result<Tensor> {
    check_rank(weights, 3, "a tensor of weights")?;
    let (scale, zero) = (spread(cx, scale)?, zero.map(|zero| spread(cx, zero)).transpose()?);
    let (from, to) = (weights.ty, scale.ty);
    let operands = match &zero {
        Some(zero) => vec![weights, &scale, zero],
        None => vec![weights, &scale],
    };
    cx.map(&operands, to, |b, x| {
        let mut weight = converted(b, x[0], from, to);
        if let Some(zero) = x.get(2) {
            let zero = converted(b, *zero, from, to);
            weight = b.subf(weight, zero);
        }
        b.mulf(weight, x[1])
    })
}

/// [D] as [D,1,1], and [D,N] as [D,1,N].
fn spread(cx: &mut Context, tensor: &Tensor) -> Result<Tensor> {
    match tensor.rank() {
        1 => cx.unsqueeze(tensor, &[1, 2]),
        2 => cx.unsqueeze(tensor, &[1]),
        rank => invalid(format!("a scale or a zero of weights has the rank {rank}, and 1 or 2 is expected")),
    }
}

/// Rounds the elements of a matrix, or of each row, to 256 steps between the least and the greatest, of which one is 0.
pub(super) fn rounded(cx: &mut Context, x: &Tensor, is_by_rows: bool) -> Result<Tensor> {
    let value = cx.value(x)?;
    let element = x.ty.element();
    let zero = cx.b.float(0.0, element);
    let (kept, shape): (&[usize], Vec<Dim>) =
        if is_by_rows { (&[0], x.shape.iter().take(1).cloned().collect()) } else { (&[], Vec::new()) };
    let extents = cx.extents(&shape);
    let ends: Vec<Value> = (0..2).map(|_| cx.b.fill(zero, &extents)).collect();
    let maps = [Map::identity(2), Map::of(2, kept), Map::of(2, kept)];
    let row = if is_by_rows { Iterator::Parallel } else { Iterator::Reduction };
    let found = cx.b.generic(&[value], &ends, &maps, &[row, Iterator::Reduction], |b, x| {
        vec![b.minimumf(x[0], x[1]), b.maximumf(x[0], x[2])]
    });
    let (Some(least), Some(greatest)) = (found.first(), found.get(1)) else {
        return invalid("a matrix has no elements");
    };
    let mut ends = Vec::new();
    for value in [*least, *greatest] {
        let end = cx.tensor(value, x.ty, shape.clone())?;
        ends.push(if is_by_rows { cx.unsqueeze(&end, &[1])? } else { end });
    }
    let operands: Vec<&Tensor> = core::iter::once(x).chain(&ends).collect();
    cx.map(&operands, x.ty, |b, x| steps(b, x[0], x[1], x[2]))
}

fn steps(b: &mut Builder, x: Value, least: Value, greatest: Value) -> Value {
    let element = b.element_of(x);
    let (zero, one, last) = (b.float(0.0, element), b.float(1.0, element), b.float(255.0, element));
    let range = b.subf(greatest, least);
    let scale = b.divf(range, last);
    let is_empty = b.cmpf(FloatPredicate::OrderedEqual, range, zero);
    let scale = b.select(is_empty, one, scale);
    let within = |b: &mut Builder, x: Value| {
        let low = b.maximumf(x, zero);
        let bounded = b.minimumf(low, last);
        b.roundeven(bounded)
    };
    let quotient = b.divf(least, scale);
    let offset = b.negf(quotient);
    let offset = within(b, offset);
    let quotient = b.divf(x, scale);
    let rounded = b.roundeven(quotient);
    let shifted = b.addf(rounded, offset);
    let step = within(b, shifted);
    let difference = b.subf(step, offset);
    b.mulf(difference, scale)
}
