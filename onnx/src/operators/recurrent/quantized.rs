//! The `LSTM` of ONNX Runtime whose weights are integers, and whose other factors are rounded to 8 bits when it runs.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Iterator, Map, Value};

use super::{Kind, Recurrence, check_rank, multiplied, start};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid};
use crate::operators::quantization::{range, scale_of};
use crate::tensor::Tensor;

/// `DynamicQuantizeLSTM`.
pub(super) fn lstm(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?.clone();
    if !x.ty.is_float() {
        return crate::kit::wrong_type(x.ty);
    }
    check_rank(&x, 3, "X")?;
    let ty = x.ty;
    let w = weights(cx, node.input(1)?, node.optional(9)?, ty)?;
    let r = weights(cx, node.input(2)?, node.optional(11)?, ty)?;
    let scales = [spread(cx, node.input(8)?)?, spread(cx, node.input(10)?)?];
    let recurrence = Recurrence {
        kind: Kind::Lstm,
        x,
        w,
        r,
        bias: node.optional(3)?.cloned(),
        lengths: node.optional(4)?.cloned(),
        initial: vec![node.optional(5)?.cloned(), node.optional(6)?.cloned()],
        peepholes: node.optional(7)?.cloned(),
        scales: Some(scales),
    };
    recurrence.run(cx, node, ty)
}

/// The weights without their zeros, as floats: [D,K,N] of integers with zeros of the shape [D] or [D,N].
fn weights(cx: &mut Context, weights: &Tensor, zero: Option<&Tensor>, to: DataType) -> Result<Tensor> {
    check_rank(weights, 3, "a tensor of weights")?;
    let zero = zero.map(|zero| spread(cx, zero)).transpose()?;
    let from = weights.ty;
    let operands: Vec<&Tensor> = core::iter::once(weights).chain(&zero).collect();
    cx.when_loaded(&operands, |cx, operands| {
        cx.map(operands, to, |b, x| {
            let weight = converted(b, x[0], from, to);
            match x.get(1) {
                Some(zero) => {
                    let zero = converted(b, *zero, from, to);
                    b.subf(weight, zero)
                }
                None => weight,
            }
        })
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

/// A matrix of integers, and the scale of all or of each row.
struct Steps {
    numbers: Tensor,
    scale: Tensor,
}

/// The product of a matrix that is rounded, as a whole or by rows, with weights [K,N] and their scale [1,1] or [1,N], added to a tensor that
/// broadcasts. Sums of products of integers are exact in floats while they are below 2^24, as in 32 bits of ONNX Runtime.
pub(super) fn product(
    cx: &mut Context,
    x: &Tensor,
    (weights, scale): (&Tensor, &Tensor),
    sum: Option<&Tensor>,
    is_by_rows: bool,
) -> Result<Tensor> {
    let steps = Steps::of(cx, x, is_by_rows)?;
    let (Some(rows), Some(width)) = (x.shape.first(), weights.shape.last()) else {
        return invalid("a product of tensors that are no matrices");
    };
    let zeros = start(cx, None, &[rows.clone(), width.clone()], x.ty)?;
    let product = multiplied(cx, &steps.numbers, weights, &zeros)?;
    let operands: Vec<&Tensor> = [&product, &steps.scale, scale].into_iter().chain(sum).collect();
    cx.map(&operands, x.ty, |b, x| {
        let scale = b.mulf(x[1], x[2]);
        let scaled = b.mulf(x[0], scale);
        x.get(3).map_or(scaled, |sum| b.addf(*sum, scaled))
    })
}

impl Steps {
    /// Rounds the elements of a matrix, or of each row, to 256 steps between the least and the greatest, of which one is 0.
    fn of(cx: &mut Context, x: &Tensor, is_by_rows: bool) -> Result<Steps> {
        let [least, greatest] = &if is_by_rows { ranges_of_rows(cx, x)? } else { range(cx, x)? };
        let numbers = cx.map(&[x, least, greatest], x.ty, |b, x| {
            let scale = scale_of(b, x[1], x[2]);
            step(b, x[0], x[1], scale)
        })?;
        let scale = cx.map(&[least, greatest], x.ty, |b, x| scale_of(b, x[0], x[1]))?;
        Ok(Steps { numbers, scale })
    }
}

/// The least and the greatest of 0 and the elements of each row of a matrix: [M,1].
fn ranges_of_rows(cx: &mut Context, x: &Tensor) -> Result<[Tensor; 2]> {
    let value = cx.value(x)?;
    let zero = cx.b.float(0.0, x.ty.element());
    let shape: Vec<Dim> = x.shape.iter().take(1).cloned().collect();
    let extents = cx.extents(&shape);
    let ends: Vec<Value> = (0..2).map(|_| cx.b.fill(zero, &extents)).collect();
    let maps = [Map::identity(2), Map::of(2, &[0]), Map::of(2, &[0])];
    let found = cx.b.generic(&[value], &ends, &maps, &[Iterator::Parallel, Iterator::Reduction], |b, x| {
        vec![b.minimumf(x[0], x[1]), b.maximumf(x[0], x[2])]
    });
    let [least, greatest] = found[..] else { return invalid("a matrix has no elements") };
    let mut column = |value: Value| {
        let ends = cx.tensor(value, x.ty, shape.clone())?;
        cx.unsqueeze(&ends, &[1])
    };
    Ok([column(least)?, column(greatest)?])
}

/// The step of an element, counted from that of 0.
fn step(b: &mut Builder, x: Value, least: Value, scale: Value) -> Value {
    let element = b.element_of(x);
    let (zero, last) = (b.float(0.0, element), b.float(255.0, element));
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
    b.subf(step, offset)
}
