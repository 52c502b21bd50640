//! `Attention` of ONNX, and `FlexAttention`.

use incarnate_bytecode::Result;

use super::attention_core::{Attention, Heads, Limits, Softmax};
use super::{Lowering, Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::import::Import;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Attention", 23, attention),
    Row { domain: "ai.onnx.preview", name: "FlexAttention", since: 1, lower: Lowering::WithGraphs(flex_attention) },
];

/// Returns the factor of the scores: the attribute `scale`, or one by the root of the size of heads.
pub(super) fn scale(cx: &Context, node: &Node<'_>, size: &Dim) -> Result<f64> {
    match (node.float("scale"), size.as_constant()) {
        (Some(scale), _) => Ok(scale),
        (None, Some(size)) => Ok(1.0 / (size as f64).sqrt()),
        (None, None) => {
            unsupported(format!("the size of heads, {}, is not a constant, and there is no `scale`", cx.text(size)))
        }
    }
}

/// Takes a tensor of four dimensions, or of three with packed heads.
fn heads(cx: &mut Context, node: &Node<'_>, index: usize, attribute: &str) -> Result<Heads> {
    let tensor = node.input(index)?;
    match (tensor.rank(), node.int(attribute)) {
        (4, _) => Heads::separate(tensor),
        (_, Some(count)) => Heads::of_packed(cx, tensor, count),
        (_, None) => invalid(format!("there is no attribute `{attribute}`, which tensors of three dimensions need")),
    }
}

/// Joins keys or values of earlier calls with those of this one, as `[batch, heads, sequence, size]`.
pub(super) fn joined(cx: &mut Context, past: Option<&Tensor>, new: Heads) -> Result<Heads> {
    let Some(past) = past else { return Ok(new) };
    let new = new.transposed(cx)?;
    let past = cx.cast(past, new.ty)?;
    Heads::separate(&cx.concat(&[&past, &new], 2)?)
}

fn attention(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let query = heads(cx, node, 0, "q_num_heads")?;
    let (key, value) = (heads(cx, node, 1, "kv_num_heads")?, heads(cx, node, 2, "kv_num_heads")?);
    let (past_key, past_value) = (node.optional(4)?, node.optional(5)?);
    let past = past_key.and_then(|past| past.shape.get(2).cloned());
    let key = joined(cx, past_key, key)?;
    let value = joined(cx, past_value, value)?;
    let scale = scale(cx, node, &query.size())?;
    let mut attention = Attention::new(query, key, value, scale);
    attention.softcap = node.float_or("softcap", 0.0);
    if let Some(precision) = node.float_type("softmax_precision")? {
        attention.precision = precision;
    }
    let keys = attention.key.sequence();
    attention.bias = node.optional(3)?.map(|mask| bias(cx, mask, &keys)).transpose()?;
    attention.limits = limits(cx, node, past, &attention.query.sequence())?;
    let attended = attention.lower(cx)?;
    let mut outputs = vec![Item::Tensor(flattened(cx, &attended.output, attention.query.is_packed)?)];
    for (index, heads) in [(1, &attention.key), (2, &attention.value)] {
        let present = node.has_output(index).then(|| heads.transposed(cx)).transpose()?;
        outputs.push(present.map_or(Item::Nothing, Item::Tensor));
    }
    if node.has_output(3) {
        let scores = match node.int_or("qk_matmul_output_mode", 0) {
            0 => attention.scaled(cx, &attended.products, false)?,
            1 => attention.scaled(cx, &attended.products, true)?,
            2 => attended.scores,
            3 => attended.probabilities,
            mode => return invalid(format!("the attribute `qk_matmul_output_mode` is {mode}")),
        };
        outputs.push(Item::Tensor(cx.cast(&scores, attention.query.tensor.ty)?));
    }
    Ok(outputs)
}

/// Returns `[batch, queries, heads * size]` if heads are packed.
pub(super) fn flattened(cx: &mut Context, output: &Tensor, is_packed: bool) -> Result<Tensor> {
    match (&*output.shape, is_packed) {
        ([batch, queries, heads, size], true) => {
            let shape = [batch.clone(), queries.clone(), heads.times(size)];
            cx.reshape(output, &shape)
        }
        _ => Ok(output.clone()),
    }
}

/// Returns a mask as what is added to the scores, for all keys: those beyond the mask take no part.
pub(super) fn bias(cx: &mut Context, mask: &Tensor, keys: &Dim) -> Result<Tensor> {
    if mask.rank() > 4 {
        return invalid(format!("a mask of rank {}", mask.rank()));
    }
    let mask = match mask.ty {
        DataType::Bool => additive(cx, mask)?,
        ty if ty.is_float() => mask.clone(),
        _ => cx.cast(mask, DataType::F32)?,
    };
    let Some(last) = mask.shape.last() else { return Ok(mask) };
    if last == keys {
        return Ok(mask);
    }
    let zeros = vec![Dim::constant(0); mask.rank()];
    let mut added = zeros.clone();
    if let Some(slot) = added.last_mut() {
        *slot = keys.minus(last);
    }
    let least = cx.b.float(f64::NEG_INFINITY, mask.ty.element());
    cx.pad(&mask, &zeros, &added, least)
}

/// Converts a mask of Booleans: 0 where it is true, negative infinity elsewhere.
pub(super) fn additive(cx: &mut Context, mask: &Tensor) -> Result<Tensor> {
    let ty = DataType::F32;
    cx.map(&[mask], ty, |b, x| {
        let (zero, least) = (b.float(0.0, ty.element()), b.float(f64::NEG_INFINITY, ty.element()));
        b.select(x[0], zero, least)
    })
}

fn limits(cx: &mut Context, node: &Node<'_>, past: Option<Dim>, queries: &Dim) -> Result<Limits> {
    let lengths = node.optional(6)?.map(|lengths| cx.cast(lengths, DataType::I64)).transpose()?;
    let window = |name: &str| match node.int_or(name, -1) {
        -1 => Ok(None),
        size if size >= 0 => Ok(Some(size)),
        size => invalid(format!("the attribute `{name}` is {size}")),
    };
    let (left, mut right) = (window("left_window_size")?, window("right_window_size")?);
    if node.flag("is_causal") {
        right = Some(right.unwrap_or(0).min(0));
    }
    let offsets = lengths.clone().filter(|_| past.is_none());
    let offset = match &offsets {
        Some(_) => Some(Dim::constant(0).minus(queries)),
        None => past,
    };
    Ok(Limits { right, left, offset, offsets, lengths })
}

/// `FlexAttention`: graphs change the scores and the probabilities.
fn flex_attention<'m>(import: &mut Import<'m>, node: &Node<'m>) -> Result<Outputs> {
    let (query, key, value) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let cx = &mut import.cx;
    let scale = scale(cx, node, query.shape.get(3).unwrap_or(&Dim::constant(0)))?;
    let attention = Attention::new(Heads::separate(query)?, Heads::separate(key)?, Heads::separate(value)?, scale);
    let products = attention.products(cx)?;
    let scores = attention.scaled(cx, &products, false)?;
    let precision = node.float_type("softmax_precision")?.unwrap_or(query.ty.computed());
    let mut scores = cx.cast(&scores, precision)?;
    if node.attribute("score_mod").is_some() {
        scores = modified(import, node, "score_mod", scores)?;
    }
    let cx = &mut import.cx;
    let wide = cx.cast(&scores, precision.computed())?;
    let softmax = Softmax { may_be_empty: false, precision, sink: None };
    let probabilities = softmax.lower(cx, &wide)?;
    let mut probabilities = cx.cast(&probabilities, precision)?;
    if node.attribute("prob_mod").is_some() {
        probabilities = modified(import, node, "prob_mod", probabilities)?;
    }
    let cx = &mut import.cx;
    let probabilities = cx.cast(&probabilities, query.ty.computed())?;
    one(attention.outputs(cx, &probabilities)?)
}

fn modified<'m>(import: &mut Import<'m>, node: &Node<'m>, name: &str, input: Tensor) -> Result<Tensor> {
    let (ty, shape) = (input.ty, input.shape.clone());
    match &*import.graph(node.graph(name)?, vec![Item::Tensor(input)])? {
        [Item::Tensor(output)] if output.ty == ty && output.rank() == shape.len() => {
            import.cx.broadcast_to(output, &shape)
        }
        _ => invalid(format!("the graph `{name}` has not one output of its input's type and rank")),
    }
}
