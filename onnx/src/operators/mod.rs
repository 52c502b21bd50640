//! The table of operators: a row for each form of an operator, one file for each family.

mod batch_normalization;
mod cumulative;
mod dropout;
mod dynamic_axes;
mod elementwise;
mod fused_normalization;
mod integer_reductions;
mod local_normalization;
mod losses;
mod nests;
mod normalization;
mod order;
mod reductions;
mod shapes;
mod softmax;
mod top_k;

use incarnate_bytecode::Result;

use crate::context::Context;
use crate::import::Import;
use crate::node::{Node, Outputs};

/// A function that imports a node.
#[derive(Clone, Copy)]
pub(crate) enum Lowering {
    /// Of the inputs and attributes.
    Plain(fn(&mut Context, &Node<'_>) -> Result<Outputs>),
    /// Of graphs, too.
    WithGraphs(for<'m> fn(&mut Import<'m>, &Node<'m>) -> Result<Outputs>),
}

/// A form of an operator.
pub(crate) struct Row {
    /// The domain; empty for that of ONNX.
    pub(crate) domain: &'static str,
    pub(crate) name: &'static str,
    /// The first version of the operator set that has this form.
    pub(crate) since: i64,
    pub(crate) lower: Lowering,
}

/// A row of ONNX's own domain.
const fn onnx(name: &'static str, since: i64, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "", name, since, lower: Lowering::Plain(lower) }
}

/// The rows of all families.
const FAMILIES: &[&[Row]] = &[
    batch_normalization::ROWS,
    cumulative::ROWS,
    dropout::ROWS,
    elementwise::ROWS,
    fused_normalization::ROWS,
    local_normalization::ROWS,
    losses::ROWS,
    normalization::ROWS,
    order::ROWS,
    reductions::ROWS,
    shapes::ROWS,
    softmax::ROWS,
    top_k::ROWS,
];

/// Finds the form of an operator in a version of its operator set: the newest that is not newer.
pub(crate) fn find(domain: &str, name: &str, version: i64) -> Option<&'static Row> {
    let rows = FAMILIES.iter().flat_map(|rows| rows.iter());
    rows.filter(|row| row.domain == domain && row.name == name && row.since <= version).max_by_key(|row| row.since)
}

/// Lists the operators: domain, name and the first version of each form.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str, i64)> {
    FAMILIES.iter().flat_map(|rows| rows.iter()).map(|row| (row.domain, row.name, row.since))
}
