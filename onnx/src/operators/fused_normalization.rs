//! Normalisations that ONNX Runtime's optimiser and model builder fuse with other operators.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, IntPredicate, Map, Value};

use super::nests::{Reduction, aligned, along, first, map_nest};
use super::normalization::{Normalization, Normalized, epsilon, floats, stashed};
use super::{Lowering, Row};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, invalid, one};
use crate::ranges::Accepted;
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    microsoft("SkipLayerNormalization", |cx, node| skip(cx, node, true)),
    microsoft("SkipSimplifiedLayerNormalization", |cx, node| skip(cx, node, false)),
    microsoft("EmbedLayerNormalization", embed),
    microsoft("GroupNorm", group),
];

/// A row of ONNX Runtime's domain.
const fn microsoft(name: &'static str, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "com.microsoft", name, since: 1, lower: Lowering::Plain(lower) }
}

/// The epsilon of a fused node. Those of ONNX Runtime are 1e-12 unless they say otherwise.
fn small_epsilon(node: &Node<'_>) -> f64 {
    node.float_or("epsilon", 1e-12)
}

/// Adds tensors, and normalises the last dimension of the sum.
fn skip(cx: &mut Context, node: &Node<'_>, is_centred: bool) -> Result<Outputs> {
    let (x, skip, gamma) = (floats(node, 0)?, floats(node, 1)?, floats(node, 2)?);
    let (beta, bias) = if is_centred { (node.optional(3)?, node.optional(4)?) } else { (None, node.optional(3)?) };
    let Some(last) = x.rank().checked_sub(1) else { return invalid("the input has no dimensions") };
    // The sum is rounded only where it is an output.
    let ty = if node.has_output(3) { x.ty } else { x.ty.computed() };
    let mut terms = vec![x, skip];
    terms.extend(bias);
    if terms.iter().any(|term| term.ty != x.ty) {
        return wrong_type(skip.ty);
    }
    let sum = cx.map_to(&terms, ty, &x.shape, |b, x| {
        let rest = x.iter().skip(1);
        rest.fold(x[0], |sum, term| b.addf(sum, *term))
    })?;
    let scale = (gamma, aligned(cx, gamma, &x.shape, "gamma")?);
    let bias = match beta {
        Some(beta) => Some((beta, aligned(cx, beta, &x.shape, "beta")?)),
        None => None,
    };
    let normalization = Normalization {
        axes: vec![last],
        is_centred,
        epsilon: small_epsilon(node),
        scale: Some(scale),
        bias,
        ty: x.ty,
    };
    let Normalized { result, mean, inverse } = normalization.apply(cx, &sum)?;
    let mut outputs = vec![Item::Tensor(result), Item::Nothing, Item::Nothing, Item::Tensor(sum)];
    for (index, statistic) in [(1, mean), (2, Some(inverse))] {
        if let (Some(statistic), Some(slot), true) = (statistic, outputs.get_mut(index), node.has_output(index)) {
            *slot = Item::Tensor(stashed(cx, node, &statistic, &[last])?);
        }
    }
    Ok(outputs)
}

/// A table whose rows are chosen by positions.
struct Table {
    value: Value,
    ty: DataType,
    last: Value,
}

impl Table {
    fn new(cx: &mut Context, tensor: &Tensor) -> Result<Table> {
        let Some(rows) = tensor.shape.first().filter(|_| tensor.rank() == 2) else {
            return invalid(format!("a table of rank {}", tensor.rank()));
        };
        let last = cx.index(&rows.minus(&Dim::constant(1)));
        Ok(Table { value: cx.value(tensor)?, ty: tensor.ty, last })
    }

    /// Reads an element of a row; positions beyond the last row read that.
    fn read(&self, b: &mut Builder, row: Value, column: Value) -> Value {
        let row = b.minui(row, self.last);
        read(b, self.value, &[row, column], self.ty)
    }
}

/// Sums the embeddings of words, positions and segments, and normalises the sum.
fn embed(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let ids = node.input(0)?;
    let (words, positions) = (floats(node, 2)?, floats(node, 3)?);
    let (gamma, beta) = (floats(node, 5)?, floats(node, 6)?);
    let segments = match (node.optional(1)?, node.optional(4)?) {
        (Some(ids), Some(table)) => Some((ids, table)),
        _ => None,
    };
    let (Some(width), 2) = (words.shape.get(1).cloned(), ids.rank()) else {
        return invalid("the words are not a matrix, or their positions not one of instances");
    };
    let mut shape = ids.shape.clone();
    shape.push(width);
    require_rows(cx, ids, words, "`input_ids`")?;
    match node.optional(8)? {
        Some(positioned) => require_rows(cx, positioned, positions, "`position_ids`")?,
        None => {
            if let (Some(length), Some(rows)) = (ids.shape.get(1), positions.shape.first()) {
                cx.require_at_most(length, rows, "the length of the sequence, and the number of positions")?;
            }
        }
    }
    if let Some((ids, table)) = segments {
        require_rows(cx, ids, table, "`segment_ids`")?;
    }
    let mut tables = vec![Table::new(cx, words)?, Table::new(cx, positions)?];
    let mut operands = vec![(ids, aligned_rows(cx, ids, &shape)?)];
    let positioned = node.optional(8)?;
    if let Some(positioned) = positioned {
        operands.push((positioned, aligned_rows(cx, positioned, &shape)?));
    }
    if let Some((ids, table)) = segments {
        operands.push((ids, aligned_rows(cx, ids, &shape)?));
        tables.push(Table::new(cx, table)?);
    }
    let ty = if node.has_output(2) { words.ty } else { words.ty.computed() };
    let has_positions = positioned.is_some();
    let sum = map_nest(cx, &operands, &shape, ty, |b, ids| {
        let mut rows: Vec<Value> = ids.iter().map(|id| b.index_cast(*id, incarnate_mlir::Element::Index)).collect();
        if !has_positions {
            let position = b.iteration(1);
            rows.insert(1, position);
        }
        let column = b.iteration(2);
        let mut sum = None;
        for (table, row) in tables.iter().zip(rows) {
            let element = table.read(b, row, column);
            sum = Some(sum.map_or(element, |sum| b.addf(sum, element)));
        }
        sum.unwrap_or(column)
    })?;
    let normalization = Normalization {
        axes: vec![2],
        is_centred: true,
        epsilon: small_epsilon(node),
        scale: Some((gamma, aligned(cx, gamma, &shape, "gamma")?)),
        bias: Some((beta, aligned(cx, beta, &shape, "beta")?)),
        ty: words.ty,
    };
    let normalized = normalization.apply(cx, &sum)?;
    let lengths = lengths(cx, ids, node.optional(7)?)?;
    Ok(vec![Item::Tensor(normalized.result), Item::Tensor(lengths), Item::Tensor(sum)])
}

/// Requires that positions are those of rows of a table.
fn require_rows(cx: &mut Context, ids: &Tensor, table: &Tensor, what: &str) -> Result<()> {
    match table.shape.first() {
        Some(rows) => cx.require_positions(ids, rows, Accepted::Start, what),
        None => invalid("a table without rows"),
    }
}

/// Returns the map of a matrix to the first two dimensions of a shape.
fn aligned_rows(cx: &mut Context, ids: &Tensor, shape: &[Dim]) -> Result<Map> {
    if !ids.ty.is_int() {
        return wrong_type(ids.ty);
    }
    along(cx, ids, shape, &[0, 1], "positions")
}

/// Counts the elements of each row of a mask that are 1; 0 without a mask.
fn lengths(cx: &mut Context, ids: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    let ty = DataType::I32;
    let none = Scalar::Int(Dim::constant(0));
    let Some(mask) = mask else {
        let instances = ids.shape.get(..1).unwrap_or_default();
        return cx.splat(&none, ty, instances);
    };
    if mask.ty != ty || mask.rank() != 2 {
        return wrong_type(mask.ty);
    }
    let reduction = Reduction::along(&mask.shape, &[1]);
    first(reduction.reduce(cx, &[(mask, Map::identity(2))], &[(ty, none)], |b, x, sums| {
        let one = b.int(1, ty.element());
        let is_one = b.cmpi(IntPredicate::Equal, x[0], one);
        let term = converted(b, is_one, DataType::Bool, ty);
        vec![b.addi(sums[0], term)]
    })?)
}

/// Normalises groups of channels, which are the last dimension or the second.
fn group(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = floats(node, 0)?;
    let (gamma, beta) = (floats(node, 1)?, floats(node, 2)?);
    let groups = node.int_or("groups", 0);
    let channel = if node.int_or("channels_last", 1) != 0 { x.rank().saturating_sub(1) } else { 1 };
    let Some(channels) = x.shape.get(channel).cloned().filter(|_| groups > 0 && channel > 0) else {
        return invalid(format!("{groups} groups of the channels of a tensor of rank {}", x.rank()));
    };
    let groups = Dim::constant(groups);
    let parts = [groups.clone(), channels.floor_div(&groups)];
    let mut shape = x.shape.clone();
    shape.splice(channel..=channel, parts.clone());
    let split = cx.reshape(x, &shape)?;
    let (gamma, beta) = (cx.reshape(gamma, &parts)?, cx.reshape(beta, &parts)?);
    let dimensions = [channel, channel + 1];
    let scale = along(cx, &gamma, &shape, &dimensions, "gamma")?;
    let bias = along(cx, &beta, &shape, &dimensions, "beta")?;
    let normalization = Normalization {
        axes: (1..shape.len()).filter(|index| *index != channel).collect(),
        is_centred: true,
        epsilon: epsilon(node),
        scale: Some((&gamma, scale)),
        bias: Some((&beta, bias)),
        ty: x.ty,
    };
    let normalized = normalization.apply(cx, &split)?.result;
    let activated = match node.int_or("activation", 0) {
        0 => normalized,
        1 => cx.map(&[&normalized], x.ty, |b, x| {
            let (one, negative) = (b.float(1.0, b.element_of(x[0])), b.negf(x[0]));
            let exponential = b.exp(negative);
            let divisor = b.addf(one, exponential);
            b.divf(x[0], divisor)
        })?,
        other => return invalid(format!("the activation {other} is not one of 0 and 1")),
    };
    one(cx.reshape(&activated, &x.shape)?)
}
