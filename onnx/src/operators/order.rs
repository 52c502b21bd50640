//! Positions of extreme elements.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, IntPredicate, Value};

use super::nests::{Reduction, first};
use super::reductions::working_type;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] =
    &[onnx("ArgMax", 1, |cx, node| arg(cx, node, true)), onnx("ArgMin", 1, |cx, node| arg(cx, node, false))];

fn arg(cx: &mut Context, node: &Node<'_>, is_greatest: bool) -> Result<Outputs> {
    let x = node.input(0)?;
    let axis = node.axis("axis", 0, x.rank())?;
    let position = extreme_position(cx, x, axis, is_greatest, node.flag("select_last_index"))?;
    if node.int_or("keepdims", 1) == 0 {
        return one(position);
    }
    one(cx.unsqueeze(&position, &[axis])?)
}

/// Returns the position of the first or the last of the extreme elements along an axis, which the result does not have. The first
/// element is left only for one that compares as more extreme, which none does with NaN.
pub(super) fn extreme_position(
    cx: &mut Context,
    x: &Tensor,
    axis: usize,
    is_greatest: bool,
    is_last: bool,
) -> Result<Tensor> {
    if x.shape.get(axis).is_some_and(|dim| dim.is(0)) {
        return invalid("no element of none is the greatest or the least");
    }
    let (from, work) = (x.ty, working_type(x.ty));
    let zero = if work.is_float() { Scalar::Float(0.0) } else { Scalar::Int(Dim::constant(0)) };
    let reduction = Reduction::along(&x.shape, &[axis]);
    let position = Scalar::Int(Dim::constant(0));
    let operand = (x, incarnate_mlir::Map::identity(x.rank()));
    let accumulators = [(DataType::I64, position), (work, zero)];
    first(reduction.reduce(cx, &[operand], &accumulators, |b, x, best| {
        let x = converted(b, x[0], from, work);
        let (index, start) = (b.iteration(axis), b.index(0));
        let is_first = b.cmpi(IntPredicate::Equal, index, start);
        let is_better = is_more_extreme(b, x, best[1], work, is_greatest, is_last);
        let is_taken = b.ori(is_first, is_better);
        let position = b.index_cast(index, DataType::I64.element());
        vec![b.select(is_taken, position, best[0]), b.select(is_taken, x, best[1])]
    })?)
}

fn is_more_extreme(
    b: &mut Builder,
    x: Value,
    best: Value,
    ty: DataType,
    is_greatest: bool,
    takes_equal: bool,
) -> Value {
    let (x, best) = if is_greatest { (x, best) } else { (best, x) };
    match (ty.kind(), takes_equal) {
        (Kind::Float, false) => b.cmpf(FloatPredicate::OrderedGreater, x, best),
        // VMVX has no ordered comparison by `oge`: it is true for NaN there.
        (Kind::Float, true) => b.cmpf(FloatPredicate::OrderedLessEqual, best, x),
        (Kind::Signed, false) => b.cmpi(IntPredicate::SignedGreater, x, best),
        (Kind::Signed, true) => b.cmpi(IntPredicate::SignedGreaterEqual, x, best),
        (_, false) => b.cmpi(IntPredicate::UnsignedGreater, x, best),
        (_, true) => b.cmpi(IntPredicate::UnsignedGreaterEqual, x, best),
    }
}
