//! Cumulative sums and products.

use incarnate_bytecode::Result;
use incarnate_mlir::{IntPredicate, Iterator, Map, Value};

use super::nests::{Loops, Output, first, nest, only_integer};
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{others, wrong_type};
use crate::node::{Node, Outputs, axis, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("CumSum", 11, |cx, node| lower(cx, node, Form::Sum)),
    onnx("CumProd", 26, |cx, node| lower(cx, node, Form::Product)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Sum,
    Product,
}

/// How elements accumulate.
#[derive(Clone, Copy)]
struct Scan {
    form: Form,
    /// Without the element at the position itself.
    is_exclusive: bool,
    is_reversed: bool,
}

fn lower(cx: &mut Context, node: &Node<'_>, form: Form) -> Result<Outputs> {
    let x = node.input(0)?;
    if x.ty == DataType::Bool {
        return wrong_type(x.ty);
    }
    if x.rank() == 0 {
        return invalid("a scalar has no axis");
    }
    if x.count().is(0) {
        return one(x.clone());
    }
    let scan = Scan { form, is_exclusive: node.flag("exclusive"), is_reversed: node.flag("reverse") };
    let listed = only_integer(cx, node.input(1)?, "the axis")?;
    match listed.as_constant() {
        Some(listed) => one(scanned(cx, x, axis(listed, x.rank())?, scan)?),
        None => one(along_dynamic(cx, x, &listed, scan)?),
    }
}

/// Accumulates along an axis that is known when the module runs: one of the branches is executed.
fn along_dynamic(cx: &mut Context, x: &Tensor, listed: &Dim, scan: Scan) -> Result<Tensor> {
    let index = cx.index(listed);
    let (zero, rank) = (cx.b.index(0), cx.b.index(i64::try_from(x.rank()).unwrap_or(i64::MAX)));
    let is_negative = cx.b.cmpi(IntPredicate::SignedLess, index, zero);
    let raised = cx.b.addi(index, rank);
    let chosen = cx.b.select(is_negative, raised, index);
    let is_within = cx.b.cmpi(IntPredicate::UnsignedLess, chosen, rank);
    cx.assert(is_within, &format!("the axis is not one of a tensor of rank {}", x.rank()));
    // Values that all branches use stand before them.
    let _ = cx.value(x)?;
    let _ = cx.extents(&x.shape);
    let value = branch(cx, x, chosen, 0, scan)?;
    cx.tensor(value, x.ty, x.shape.clone())
}

/// Accumulates along the axis `chosen`, which is not less than `first`.
fn branch(cx: &mut Context, x: &Tensor, chosen: Value, first: usize, scan: Scan) -> Result<Value> {
    if first + 1 >= x.rank() {
        let last = scanned(cx, x, first, scan)?;
        return cx.value(&last);
    }
    let index = cx.b.index(i64::try_from(first).unwrap_or(i64::MAX));
    let is_here = cx.b.cmpi(IntPredicate::Equal, chosen, index);
    cx.open_region();
    let here = scanned(cx, x, first, scan)?;
    let here = cx.value(&here)?;
    let then = cx.close_region();
    cx.open_region();
    let other = branch(cx, x, chosen, first + 1, scan)?;
    let otherwise = cx.close_region();
    let results = cx.b.scf_if(is_here, &[x.mlir_type()], (then, vec![here]), (otherwise, vec![other]));
    match results.first() {
        Some(result) => Ok(*result),
        None => invalid("a branch has no result"),
    }
}

/// Accumulates along an axis: a loop nest whose second result is the accumulator, one for each row along the axis.
fn scanned(cx: &mut Context, x: &Tensor, axis: usize, scan: Scan) -> Result<Tensor> {
    let source = if scan.is_reversed { cx.reverse(x, &[axis])? } else { x.clone() };
    let rank = x.rank();
    let (ty, kept) = (x.ty.computed(), others(&[axis], rank));
    let initial = match (scan.form, ty.is_float()) {
        (Form::Sum, true) => Scalar::Float(0.0),
        (Form::Product, true) => Scalar::Float(1.0),
        (Form::Sum, false) => Scalar::Int(Dim::constant(0)),
        (Form::Product, false) => Scalar::Int(Dim::constant(1)),
    };
    // The rows are the outer loops, so that the accumulator is next to the loop that it is carried through.
    let loop_of = |dimension: usize| kept.iter().position(|other| *other == dimension).unwrap_or(rank - 1);
    let whole = Map::of(rank, &(0..rank).map(loop_of).collect::<Vec<_>>());
    let mut iterators = vec![Iterator::Parallel; rank - 1];
    iterators.push(Iterator::Reduction);
    let rows = kept.iter().filter_map(|index| x.shape.get(*index).cloned()).collect();
    let outputs = [
        Output { ty: x.ty, shape: x.shape.clone(), map: whole.clone(), initial: None },
        Output { ty, shape: rows, map: Map::of(rank, &(0..rank - 1).collect::<Vec<_>>()), initial: Some(initial) },
    ];
    let loops = Loops { iterators, window: None };
    let results = nest(cx, &[(&source, whole)], &loops, &outputs, |b, x, outputs| {
        let before = outputs[1];
        let after = match (scan.form, ty.is_float()) {
            (Form::Sum, true) => b.addf(before, x[0]),
            (Form::Sum, false) => b.addi(before, x[0]),
            (Form::Product, true) => b.mulf(before, x[0]),
            (Form::Product, false) => b.muli(before, x[0]),
        };
        vec![if scan.is_exclusive { before } else { after }, after]
    })?;
    let result = first(results)?;
    if scan.is_reversed { cx.reverse(&result, &[axis]) } else { Ok(result) }
}
