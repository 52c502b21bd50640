//! The table of operators: a row for each form of an operator, one file for each family.

mod activation;
mod activations;
mod attention;
mod attention_core;
mod batch_normalization;
mod casts;
mod choice;
mod comparisons;
mod contraction;
mod contrib;
mod contrib_attention;
mod control;
mod convolutions;
mod creation;
mod cumulative;
mod detection;
mod determinant;
mod dropout;
mod dynamic_axes;
mod einsum;
mod elementwise;
mod fourier;
mod fused_normalization;
mod gather;
mod grid_sample;
mod grouped_attention;
mod integer_reductions;
mod known;
mod linear_attention;
mod local_normalization;
mod losses;
mod math;
mod ml;
mod nests;
mod ngrams;
mod normalization;
mod order;
mod padding;
mod pooling;
mod positions;
mod products;
mod qlinear;
mod quantization;
mod quantized;
mod random;
mod recurrent;
mod reductions;
mod resize;
mod roi;
mod rotary;
mod sampling;
mod scatter;
mod sequences;
mod shapes;
mod slices;
mod softmax;
mod tables;
mod top_k;
mod training;
mod window;
mod windows;

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
    activations::ROWS,
    attention::ROWS,
    batch_normalization::ROWS,
    casts::ROWS,
    choice::ROWS,
    comparisons::ROWS,
    contrib::ROWS,
    contrib_attention::ROWS,
    control::ROWS,
    convolutions::ROWS,
    creation::ROWS,
    cumulative::ROWS,
    detection::ROWS,
    determinant::ROWS,
    dropout::ROWS,
    einsum::ROWS,
    elementwise::ROWS,
    fourier::ROWS,
    fused_normalization::ROWS,
    gather::ROWS,
    grid_sample::ROWS,
    grouped_attention::ROWS,
    linear_attention::ROWS,
    local_normalization::ROWS,
    losses::ROWS,
    math::ROWS,
    ngrams::ROWS,
    normalization::ROWS,
    order::ROWS,
    padding::ROWS,
    pooling::ROWS,
    products::ROWS,
    qlinear::ROWS,
    quantization::ROWS,
    quantized::ROWS,
    random::ROWS,
    recurrent::ROWS,
    reductions::ROWS,
    resize::ROWS,
    roi::ROWS,
    rotary::ROWS,
    sampling::ROWS,
    scatter::ROWS,
    sequences::ROWS,
    shapes::ROWS,
    slices::ROWS,
    softmax::ROWS,
    top_k::ROWS,
    training::ROWS,
    windows::ROWS,
    ml::FAMILIES[0],
    ml::FAMILIES[1],
    ml::FAMILIES[2],
    ml::FAMILIES[3],
    ml::FAMILIES[4],
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
