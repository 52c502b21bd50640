//! Reductions along axes that are known when the module runs.

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, Expression, IntPredicate, Iterator, Map, Value};

use super::nests::{Loops, Reduction};
use super::reductions::{Form, compute};
use crate::context::Context;
use crate::dim::Dim;
use crate::node::invalid;
use crate::tensor::Tensor;

/// Reduces along axes, each of which is known when the module runs.
///
/// Each dimension has two loops: one of its extent and one of extent 1. An element is read at their sum, and the outer loop is that of
/// the result's dimension.
pub(super) fn reduce(cx: &mut Context, x: &Tensor, axes: &[Dim], keeps: bool, form: Form) -> Result<Tensor> {
    let rank = x.rank();
    if axes.len() > rank {
        return invalid(format!("{} axes of a tensor of rank {rank}", axes.len()));
    }
    let masks: Vec<Value> = (0..rank).map(|dimension| is_named(cx, axes, dimension, rank)).collect();
    check(cx, &masks, axes.len());
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    for (dim, mask) in x.shape.iter().zip(&masks) {
        let (extent, one) = (cx.index(dim), cx.b.index(1));
        let kept = cx.b.select(*mask, one, extent);
        let reduced = cx.b.select(*mask, extent, one);
        outer.push(cx.symbol("?", kept));
        inner.push(cx.symbol("?", reduced));
    }
    let position = |index: usize| Expression::dimension(index).plus(rank + index, 1);
    let mut iterators = vec![Iterator::Parallel; rank];
    iterators.extend(vec![Iterator::Reduction; rank]);
    let window = Map::of(2 * rank, &(rank..2 * rank).collect::<Vec<_>>());
    let reduction = Reduction {
        count: Dim::product(&inner),
        loops: Loops { iterators, window: Some((inner, window)) },
        output: Map::of(2 * rank, &(0..rank).collect::<Vec<_>>()),
        shape: outer,
    };
    let map = Map::new(2 * rank, (0..rank).map(position).collect());
    let reduced = compute(cx, x, &map, &reduction, form)?;
    if keeps {
        return Ok(reduced);
    }
    let shape = kept_shape(cx, &x.shape, &masks, rank - axes.len());
    cx.reshape(&reduced, &shape)
}

/// Returns whether one of the axes is a dimension.
fn is_named(cx: &mut Context, axes: &[Dim], dimension: usize, rank: usize) -> Value {
    let signed = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
    let mut named = cx.b.int(0, Element::I1);
    for axis in axes {
        let axis = cx.index(axis);
        for wanted in [signed(dimension), signed(dimension) - signed(rank)] {
            let wanted = cx.b.index(wanted);
            let is_equal = cx.b.cmpi(IntPredicate::Equal, axis, wanted);
            named = cx.b.ori(named, is_equal);
        }
    }
    named
}

/// Requires that as many dimensions are named as there are axes.
fn check(cx: &mut Context, masks: &[Value], count: usize) {
    let mut sum = cx.b.index(0);
    for mask in masks {
        let (zero, one) = (cx.b.index(0), cx.b.index(1));
        let term = cx.b.select(*mask, one, zero);
        sum = cx.b.addi(sum, term);
    }
    let wanted = cx.b.index(i64::try_from(count).unwrap_or(i64::MAX));
    let fits = cx.b.cmpi(IntPredicate::Equal, sum, wanted);
    cx.assert(fits, "an axis is not one of the tensor, or is named twice");
}

/// Returns the extents that are not reduced, in order.
fn kept_shape(cx: &mut Context, shape: &[Dim], masks: &[Value], count: usize) -> Vec<Dim> {
    let mut kept = Vec::new();
    for result in 0..count {
        let wanted = cx.b.index(i64::try_from(result).unwrap_or(i64::MAX));
        let (mut position, mut found) = (cx.b.index(0), cx.b.index(0));
        for (dim, mask) in shape.iter().zip(masks) {
            let (extent, one) = (cx.index(dim), cx.b.index(1));
            let is_here = cx.b.cmpi(IntPredicate::Equal, position, wanted);
            let chosen = cx.b.select(is_here, extent, found);
            found = cx.b.select(*mask, found, chosen);
            let next = cx.b.addi(position, one);
            position = cx.b.select(*mask, position, next);
        }
        kept.push(cx.symbol("?", found));
    }
    kept
}
