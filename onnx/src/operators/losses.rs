//! Losses of classes.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, IntPredicate, Map, Value};

use super::nests::{Reduction, along, map_nest};
use super::normalization::floats;
use super::reductions::{Form, reduce};
use super::softmax::log_softmax;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{others, read, wrong_type};
use crate::node::{Node, invalid, one};
use crate::ranges::Accepted;
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("NegativeLogLikelihoodLoss", 12, |cx, node| one(loss(cx, node, floats(node, 0)?)?)),
    onnx("SoftmaxCrossEntropyLoss", 12, |cx, node| {
        let scores = floats(node, 0)?;
        if scores.rank() < 2 {
            return invalid(format!("the scores have rank {}, and no classes", scores.rank()));
        }
        // The loss is of the logarithms as they are before they are rounded.
        let wide = cx.cast(scores, scores.ty.computed())?;
        let logs = log_softmax(cx, &wide, &[1])?;
        let loss = loss(cx, node, &logs)?;
        Ok(vec![Item::Tensor(cx.cast(&loss, scores.ty)?), Item::Tensor(cx.cast(&logs, scores.ty)?)])
    }),
];

/// How the class of each sample is found.
struct Classes<'t> {
    target: &'t Tensor,
    ignored: Option<i64>,
    last: Value,
    /// The factors of the classes.
    weights: Option<(Value, DataType)>,
}

impl Classes<'_> {
    /// Returns the class, which is one of those that there are, and whether the sample counts.
    fn class(&self, b: &mut Builder, target: Value) -> (Value, Option<Value>) {
        let counts = self.ignored.map(|ignored| {
            let ignored = b.int(ignored, self.target.ty.element());
            b.cmpi(IntPredicate::NotEqual, target, ignored)
        });
        let index = b.index_cast(target, Element::Index);
        (b.minui(index, self.last), counts)
    }

    /// Returns the weight of a sample in a type.
    fn weight(&self, b: &mut Builder, class: Value, ty: DataType) -> Value {
        match self.weights {
            Some((weights, from)) => {
                let weight = read(b, weights, &[class], from);
                converted(b, weight, from, ty)
            }
            None => b.float(1.0, ty.element()),
        }
    }
}

/// Returns the value, or 0 for samples that do not count.
fn counted(b: &mut Builder, value: Value, counts: Option<Value>, ty: DataType) -> Value {
    let Some(counts) = counts else { return value };
    let zero = b.float(0.0, ty.element());
    b.select(counts, value, zero)
}

/// The negative of the logarithm that belongs to the class of each sample, reduced as the attribute `reduction` says.
fn loss(cx: &mut Context, node: &Node<'_>, logs: &Tensor) -> Result<Tensor> {
    let target = node.input(1)?;
    if !target.ty.is_int() {
        return wrong_type(target.ty);
    }
    let Some(classes) = logs.shape.get(1).cloned() else {
        return invalid(format!("the input has rank {}, and no classes", logs.rank()));
    };
    let samples: Vec<Dim> =
        others(&[1], logs.rank()).iter().filter_map(|index| logs.shape.get(*index).cloned()).collect();
    let map = along(cx, target, &samples, &(0..samples.len()).collect::<Vec<_>>(), "the target")?;
    let weights = match node.optional(2)? {
        Some(weights) if weights.rank() != 1 || !weights.ty.is_float() => return wrong_type(weights.ty),
        Some(weights) => {
            let extent = weights.shape.first().cloned().unwrap_or_else(|| Dim::constant(0));
            cx.require_equal(&extent, &classes, "the number of weights")?;
            Some((cx.value(weights)?, weights.ty))
        }
        None => None,
    };
    let ignored = node.int("ignore_index");
    let accepted = ignored.map_or(Accepted::Start, Accepted::StartOr);
    cx.require_positions(target, &classes, accepted, "`target`")?;
    let last = cx.index(&classes.minus(&Dim::constant(1)));
    let of = Classes { target, ignored, last, weights };
    let (value, ty, from) = (cx.value(logs)?, logs.ty.computed(), logs.ty);
    let operand = [(target, map)];
    let losses = map_nest(cx, &operand, &samples, ty, |b, target| {
        let (class, counts) = of.class(b, target[0]);
        let mut position: Vec<Value> = (0..samples.len()).map(|dimension| b.iteration(dimension)).collect();
        position.insert(1.min(position.len()), class);
        let log = read(b, value, &position, from);
        let mut loss = b.negf(log);
        if of.weights.is_some() {
            let weight = of.weight(b, class, ty);
            loss = b.mulf(loss, weight);
        }
        counted(b, loss, counts, ty)
    })?;
    let all: Vec<usize> = (0..samples.len()).collect();
    let result = match node.text_or("reduction", "mean")? {
        "none" => losses,
        "sum" => reduce(cx, &losses, &all, false, Form::Sum)?,
        "mean" if of.weights.is_none() && ignored.is_none() => reduce(cx, &losses, &all, false, Form::Mean)?,
        "mean" => {
            let sum = reduce(cx, &losses, &all, false, Form::Sum)?;
            let reduction = Reduction::along(&samples, &all);
            let total = reduction.sum(cx, &operand, ty, |b, target| {
                let (class, counts) = of.class(b, target[0]);
                let weight = of.weight(b, class, ty);
                counted(b, weight, counts, ty)
            })?;
            map_nest(cx, &[(&sum, Map::identity(0)), (&total, Map::identity(0))], &[], ty, |b, x| b.divf(x[0], x[1]))?
        }
        other => return invalid(format!("the reduction `{other}` is not one of none, sum and mean")),
    };
    cx.cast(&result, from)
}
