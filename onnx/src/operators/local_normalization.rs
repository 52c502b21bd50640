//! Normalisations by norms, of neighbouring channels, and by the deviation alone.

use incarnate_bytecode::Result;
use incarnate_mlir::{FloatPredicate, IntPredicate, Iterator, Map};

use super::nests::{Loops, Reduction, map_nest};
use super::normalization::{Statistics, floats, statistics};
use super::{Row, onnx};
use crate::context::Context;
use crate::dim::Dim;
use crate::kit::read;
use crate::node::{Node, Outputs, axes, invalid, one};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("LRN", 1, local_response),
    onnx("LpNormalization", 1, by_norm),
    onnx("MeanVarianceNormalization", 1, |cx, node| {
        let list: &[i64] = if node.flag("across_channels") { &[0, 1, 2, 3] } else { &[0, 2, 3] };
        mean_variance(cx, floats(node, 0)?, list, node.int_or("normalize_variance", 1) != 0)
    }),
    onnx("MeanVarianceNormalization", 9, |cx, node| {
        mean_variance(cx, floats(node, 0)?, node.ints("axes").unwrap_or(&[0, 2, 3]), true)
    }),
];

/// Divides by a power of the sum of squares of channels around that of the element.
fn local_response(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = floats(node, 0)?;
    let size = node.int_or("size", 0);
    let rank = x.rank();
    if size < 1 || rank < 2 {
        return invalid(format!("a window of {size} channels of a tensor of rank {rank}"));
    }
    let (alpha, beta, bias) = (node.float_or("alpha", 1e-4), node.float_or("beta", 0.75), node.float_or("bias", 1.0));
    let ty = x.ty.computed();
    let mut iterators = vec![Iterator::Parallel; rank];
    iterators.push(Iterator::Reduction);
    let reduction = Reduction {
        loops: Loops { iterators, window: Some((vec![Dim::constant(size)], Map::of(rank + 1, &[rank]))) },
        output: Map::of(rank + 1, &(0..rank).collect::<Vec<_>>()),
        shape: x.shape.clone(),
        count: Dim::constant(size),
    };
    let Some(channels) = x.shape.get(1).cloned() else { return invalid("there are no channels") };
    let (value, channels, last) = (cx.value(x)?, cx.index(&channels), cx.index(&channels.minus(&Dim::constant(1))));
    // Channels beyond the tensor, which are large numbers without a sign, are read at its end and do not count. A padded tensor in
    // their place does not compile for VMVX where extents are dynamic.
    let sum = reduction.sum(cx, &[], ty, |b, _| {
        let (channel, step, below) = (b.iteration(1), b.iteration(rank), b.index((size - 1) / 2));
        let channel = b.addi(channel, step);
        let channel = b.subi(channel, below);
        let is_within = b.cmpi(IntPredicate::UnsignedLess, channel, channels);
        let channel = b.minui(channel, last);
        let at: Vec<_> = (0..rank).map(|index| if index == 1 { channel } else { b.iteration(index) }).collect();
        let element = read(b, value, &at, x.ty);
        let (square, zero) = (b.mulf(element, element), b.float(0.0, ty.element()));
        b.select(is_within, square, zero)
    })?;
    let identity = Map::identity(rank);
    one(map_nest(cx, &[(x, identity.clone()), (&sum, identity)], &x.shape, x.ty, |b, x| {
        let element = ty.element();
        let factor = b.float(alpha / size as f64, element);
        let scaled = b.mulf(x[1], factor);
        let bias = b.float(bias, element);
        let base = b.addf(scaled, bias);
        let exponent = b.float(beta, element);
        let power = b.powf(base, exponent);
        b.divf(x[0], power)
    })?)
}

/// Divides by the norm along an axis; elements whose norm is 0 are 0.
fn by_norm(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = floats(node, 0)?;
    let axis = node.axis("axis", -1, x.rank())?;
    let order = node.int_or("p", 2);
    if order != 1 && order != 2 {
        return invalid(format!("the norm of order {order} is not one of 1 and 2"));
    }
    let ty = x.ty.computed();
    let reduction = Reduction::along(&x.shape, &[axis]);
    let identity = Map::identity(x.rank());
    let sum = reduction.sum(cx, &[(x, identity.clone())], ty, |b, x| match order {
        1 => b.absf(x[0]),
        _ => b.mulf(x[0], x[0]),
    })?;
    let norm = match order {
        1 => sum,
        _ => map_nest(cx, &[(&sum, Map::identity(sum.rank()))], &sum.shape, ty, |b, x| b.sqrt(x[0]))?,
    };
    one(map_nest(cx, &[(x, identity), (&norm, reduction.output)], &x.shape, x.ty, |b, x| {
        let zero = b.float(0.0, ty.element());
        let is_zero = b.cmpf(FloatPredicate::OrderedEqual, x[1], zero);
        let quotient = b.divf(x[0], x[1]);
        b.select(is_zero, zero, quotient)
    })?)
}

/// Subtracts the mean and divides by the deviation.
fn mean_variance(cx: &mut Context, x: &Tensor, list: &[i64], divides: bool) -> Result<Outputs> {
    /// What ONNX's definition adds to the deviation.
    const EPSILON: f64 = 1e-9;
    let axes = axes(list, x.rank())?;
    let Statistics { mean, variance, map } = statistics(cx, x, &axes, true)?;
    let Some(mean) = mean else { return invalid("there is no mean") };
    let ty = x.ty.computed();
    let deviation = map_nest(cx, &[(&variance, Map::identity(variance.rank()))], &variance.shape, ty, |b, x| {
        let epsilon = b.float(EPSILON, ty.element());
        let root = b.sqrt(x[0]);
        b.addf(root, epsilon)
    })?;
    let operands = [(x, Map::identity(x.rank())), (&mean, map.clone()), (&deviation, map)];
    one(map_nest(cx, &operands, &x.shape, x.ty, |b, x| {
        let difference = b.subf(x[0], x[1]);
        if divides { b.divf(difference, x[2]) } else { difference }
    })?)
}
