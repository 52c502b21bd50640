//! Linear models.

use incarnate_bytecode::Result;
use incarnate_mlir::Map;

use super::super::Row;
use super::super::attention_core::contraction;
use super::super::tables::table;
use super::scores::{Labels, Transform, class_above, greatest_class};
use super::{doubles, float_rows, length, ml};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] =
    &[ml("LinearClassifier", 1, classifier), ml("LinearRegressor", 1, regressor)];

/// Multiplies rows of features by coefficients of `[targets, features]` and adds a number for each target, or one for all.
pub(super) fn products(
    cx: &mut Context,
    name: &str,
    x: &Tensor,
    coefficients: &[f32],
    added: &[f32],
    targets: i64,
) -> Result<Tensor> {
    let [rows, features] = &*x.shape else { return invalid("rows of features are expected") };
    let width = if targets > 0 { length(coefficients) / targets } else { 0 };
    if width.saturating_mul(targets) != length(coefficients) {
        return invalid(format!("{} coefficients for {targets} targets", coefficients.len()));
    }
    cx.require_equal(features, &Dim::constant(width), "the number of features")?;
    let weights = table(&format!("{name}.coefficients"), &doubles(coefficients), &[targets, width], DataType::F32);
    // Loops: row, target, feature.
    let maps = [Map::of(3, &[0, 2]), Map::of(3, &[1, 2]), Map::of(3, &[0, 1])];
    let shape = [rows.clone(), Dim::constant(targets)];
    let scores = contraction(cx, x, &weights, &maps, &shape, DataType::F32)?;
    if added.is_empty() {
        return Ok(scores);
    }
    if added.len() != 1 && length(added) != targets {
        return invalid(format!("{} intercepts for {targets} targets", added.len()));
    }
    let added = table(&format!("{name}.intercepts"), &doubles(added), &[length(added)], DataType::F32);
    cx.map(&[&scores, &added], DataType::F32, |b, x| b.addf(x[0], x[1]))
}

fn coefficients<'m>(node: &Node<'m>) -> Result<&'m [f32]> {
    match node.floats("coefficients") {
        Some(list) if !list.is_empty() => Ok(list),
        _ => invalid("there are no `coefficients`"),
    }
}

fn regressor(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = float_rows(cx, node.input(0)?, false)?;
    let intercepts = node.floats("intercepts").unwrap_or_default();
    let scores = products(cx, &node.name, &x, coefficients(node)?, intercepts, node.int_or("targets", 1))?;
    one(Transform::of(node)?.apply_to_targets(cx, &scores)?)
}

fn classifier(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let transform = Transform::of(node)?;
    let labels = Labels::of(node, "classlabels_ints");
    let x = float_rows(cx, node.input(0)?, false)?;
    let intercepts = node.floats("intercepts").unwrap_or_default();
    let targets = match (intercepts.len(), x.shape.get(1).and_then(Dim::as_constant)) {
        (0, Some(width)) if width > 0 => length(coefficients(node)?) / width,
        (0, _) => labels.count(),
        _ => length(intercepts),
    };
    let scores = products(cx, &node.name, &x, coefficients(node)?, intercepts, targets)?;
    if targets != 1 {
        let winner = greatest_class(cx, &scores)?;
        return Ok(vec![labels.at(cx, &winner)?, Item::Tensor(transform.apply(cx, &scores)?)]);
    }
    let winner = class_above(cx, &scores, 0.0)?;
    if labels.count() == 2 {
        return Ok(vec![labels.at(cx, &winner)?, Item::Tensor(transform.both(cx, &scores, true)?)]);
    }
    let winner = cx.cast(&winner, DataType::I64)?;
    Ok(vec![Item::Tensor(winner), Item::Tensor(transform.apply_to_targets(cx, &scores)?)])
}
