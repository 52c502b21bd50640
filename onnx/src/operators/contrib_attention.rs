//! `Attention`, `MultiHeadAttention` and `QAttention` of com.microsoft.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, IntPredicate, Iterator, Map, Value};

use super::attention::{flattened, joined};
use super::attention_core::{Attention, Heads, contraction, converted_float};
use super::{Lowering, Row};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, unsupported};
use crate::tensor::{Item, Tensor};

const fn contrib(name: &'static str, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "com.microsoft", name, since: 1, lower: Lowering::Plain(lower) }
}

pub(super) const ROWS: &[Row] = &[
    contrib("Attention", attention),
    contrib("MultiHeadAttention", multi_head_attention),
    contrib("QAttention", quantized_attention),
];

/// Returns the attribute `scale`, or one by the root of the size of heads if it is 0 or absent.
pub(super) fn scale_or_default(cx: &Context, node: &Node<'_>, size: &Dim) -> Result<f64> {
    match node.float("scale").filter(|scale| *scale != 0.0) {
        Some(scale) => Ok(scale),
        None => match size.as_constant() {
            Some(size) => Ok(1.0 / (size as f64).sqrt()),
            None => unsupported(format!("the size of heads, {}, is not a constant", cx.text(size))),
        },
    }
}

/// Returns a positive attribute.
pub(super) fn heads_of(node: &Node<'_>, name: &str) -> Result<i64> {
    match node.int(name) {
        Some(count) if count > 0 => Ok(count),
        _ => invalid(format!("the attribute `{name}` is not there, or not positive")),
    }
}

/// Returns a range of the last dimension.
pub(super) fn columns(cx: &mut Context, x: &Tensor, offset: &Dim, count: &Dim) -> Result<Tensor> {
    match x.rank().checked_sub(1) {
        Some(last) => cx.slice_axis(x, last, offset, count),
        None => invalid("a scalar has no columns"),
    }
}

fn attention(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, weights) = (node.input(0)?, node.input(1)?);
    let ([batch, sequence, _], [_, width]) = (&*x.shape, &*weights.shape) else {
        return invalid("the input has not 3 dimensions, or the weights not 2");
    };
    // Loops: batch, position, column, row of the weights.
    let maps = [Map::of(4, &[0, 1, 3]), Map::of(4, &[3, 2]), Map::of(4, &[0, 1, 2])];
    let shape = [batch.clone(), sequence.clone(), width.clone()];
    let ty = x.ty;
    let mut projected = contraction(cx, x, weights, &maps, &shape, ty.computed())?;
    if let Some(bias) = node.optional(2)? {
        projected = cx.map(&[&projected, bias], ty.computed(), |b, x| b.addf(x[0], x[1]))?;
    }
    let projected = cx.cast(&projected, ty)?;
    let sizes: Vec<Dim> = match node.ints("qkv_hidden_sizes") {
        Some(sizes) if sizes.len() == 3 => sizes.iter().copied().map(Dim::constant).collect(),
        Some(_) => return invalid("the attribute `qkv_hidden_sizes` has not 3 elements"),
        None => vec![width.floor_div(&Dim::constant(3)); 3],
    };
    let inputs = Inputs { mask: node.optional(3)?, past: node.optional(4)?, bias: node.optional(5)? };
    packed_attention(cx, node, &projected, &sizes, &inputs)
}

/// What operators with packed projections have besides them.
struct Inputs<'a> {
    mask: Option<&'a Tensor>,
    past: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
}

/// Computes attention of queries, keys and values that stand behind each other in the last dimension.
fn packed_attention(
    cx: &mut Context,
    node: &Node<'_>,
    projected: &Tensor,
    sizes: &[Dim],
    inputs: &Inputs<'_>,
) -> Result<Outputs> {
    for name in ["do_rotary", "past_present_share_buffer"] {
        if node.flag(name) {
            return unsupported(format!("the attribute `{name}`"));
        }
    }
    let count = heads_of(node, "num_heads")?;
    let mut offset = Dim::constant(0);
    let mut parts = Vec::new();
    for size in sizes {
        let part = columns(cx, projected, &offset, size)?;
        parts.push(Heads::of_packed(cx, &part, count)?);
        offset = offset.plus(size);
    }
    let Ok([query, key, value]) = <[Heads; 3]>::try_from(parts) else { return invalid("three sizes are expected") };
    let mut past = [None, None];
    if let Some(both) = inputs.past {
        for (index, slot) in (0..).zip(&mut past) {
            let one = cx.slice_axis(both, 0, &Dim::constant(index), &Dim::constant(1))?;
            *slot = Some(cx.squeeze(&one, &[0])?);
        }
    }
    let length = past[0].as_ref().and_then(|past| past.shape.get(2).cloned());
    let key = joined(cx, past[0].as_ref(), key)?;
    let value = joined(cx, past[1].as_ref(), value)?;
    let scale = scale_or_default(cx, node, &query.size())?;
    let mut attention = Attention::new(query, key, value, scale);
    attention.limits.offset = length;
    attention.limits.right = node.flag("unidirectional").then_some(0);
    attention.bias = bias(cx, node, &attention, inputs.mask, inputs.bias)?;
    let attended = attention.lower(cx)?;
    let mut outputs = vec![Item::Tensor(flattened(cx, &attended.output, true)?)];
    if node.has_output(1) {
        let (key, value) = (attention.key.transposed(cx)?, attention.value.transposed(cx)?);
        let (key, value) = (cx.unsqueeze(&key, &[0])?, cx.unsqueeze(&value, &[0])?);
        outputs.push(Item::Tensor(cx.concat(&[&key, &value], 0)?));
    }
    Ok(outputs)
}

/// Adds what a mask of 0 and 1 (or of positions) adds to the scores and what a bias does.
fn bias(
    cx: &mut Context,
    node: &Node<'_>,
    attention: &Attention,
    mask: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    let mask = mask.map(|mask| masked(cx, node, attention, mask)).transpose()?;
    match (mask, bias) {
        (None, None) => Ok(None),
        (Some(mask), None) => Ok(Some(mask)),
        (None, Some(bias)) => Ok(Some(bias.clone())),
        (Some(mask), Some(bias)) => Ok(Some(cx.map(&[&mask, bias], DataType::F32, |b, x| {
            let bias = converted_float(b, x[1], Element::F32);
            b.addf(x[0], bias)
        })?)),
    }
}

/// Converts a mask: 0 where a key takes part, the attribute `mask_filter_value` elsewhere.
fn masked(cx: &mut Context, node: &Node<'_>, attention: &Attention, mask: &Tensor) -> Result<Tensor> {
    let filter = node.float_or("mask_filter_value", -10000.0);
    let one = Dim::constant(1);
    let (queries, keys) = (attention.query.sequence(), attention.key.sequence());
    let mask = cx.cast(mask, DataType::I32)?;
    let spread = match &*mask.shape {
        [_] => return by_length(cx, attention, &mask, filter),
        [batch, keys] => cx.reshape(&mask, &[batch.clone(), one.clone(), one, keys.clone()])?,
        [batch, queries, keys] => cx.reshape(&mask, &[batch.clone(), one, queries.clone(), keys.clone()])?,
        [batch, one, _, _] => {
            let past = attention.limits.offset.clone().unwrap_or_else(|| Dim::constant(0));
            let offsets = [Dim::constant(0), Dim::constant(0), past, Dim::constant(0)];
            cx.slice(&mask, &offsets, &[batch.clone(), one.clone(), queries, keys], &[1; 4])?
        }
        _ => return invalid(format!("a mask of rank {}", mask.rank())),
    };
    cx.map(&[&spread], DataType::F32, |b, x| {
        let zero = b.int(0, Element::I32);
        let is_part = b.cmpi(IntPredicate::SignedGreater, x[0], zero);
        filtered(b, is_part, filter)
    })
}

fn filtered(b: &mut Builder, is_part: Value, filter: f64) -> Value {
    let (none, filter) = (b.float(0.0, Element::F32), b.float(filter, Element::F32));
    b.select(is_part, none, filter)
}

/// The mask of the position behind the last key of each batch, and of the first one if there are twice as many.
fn by_length(cx: &mut Context, attention: &Attention, mask: &Tensor, filter: f64) -> Result<Tensor> {
    let (batch, one, keys) = (attention.query.batch(), Dim::constant(1), attention.key.sequence());
    let shape = [batch.clone(), one.clone(), one.clone(), one.clone()];
    let parts = match mask.count().minus(&batch) {
        rest if rest.is(0) => 1,
        rest if rest == batch => 2,
        _ => {
            return unsupported(format!(
                "a mask of {} positions for a batch of {}",
                cx.text(&mask.count()),
                cx.text(&batch)
            ));
        }
    };
    let mut bounds = Vec::new();
    for index in 0..parts {
        let part = cx.slice_axis(mask, 0, &batch.times(&Dim::constant(index)), &batch)?;
        bounds.push(cx.reshape(&part, &shape)?);
    }
    let references: Vec<&Tensor> = bounds.iter().collect();
    cx.map_to(&references, DataType::F32, &[batch, one.clone(), one, keys], |b, x| {
        let key = b.iteration(3);
        let key = b.index_cast(key, Element::I32);
        let mut is_part = b.cmpi(IntPredicate::SignedLess, key, x[0]);
        if let Some(first) = x.get(1) {
            let is_behind = b.cmpi(IntPredicate::SignedGreaterEqual, key, *first);
            is_part = b.andi(is_part, is_behind);
        }
        filtered(b, is_part, filter)
    })
}

/// Returns one of several tensors that are packed in the dimension before the last: `[batch, sequence, heads, parts, size]`.
fn part(cx: &mut Context, packed: &Tensor, index: i64) -> Result<Tensor> {
    let [batch, sequence, heads, _, size] = &*packed.shape else {
        return invalid(format!("a packed tensor of rank {}", packed.rank()));
    };
    let shape = [batch.clone(), sequence.clone(), heads.times(size)];
    let part = cx.slice_axis(packed, 3, &Dim::constant(index), &Dim::constant(1))?;
    cx.reshape(&part, &shape)
}

/// Returns queries, keys and values as `[batch, sequence, hidden]`, or keys and values as `[batch, heads, sequence, size]`.
fn split(cx: &mut Context, node: &Node<'_>) -> Result<[Tensor; 3]> {
    let query = node.input(0)?;
    match (query.rank(), node.optional(1)?, node.optional(2)?) {
        (5, None, None) => Ok([part(cx, query, 0)?, part(cx, query, 1)?, part(cx, query, 2)?]),
        (3, Some(key), None) if key.rank() == 5 => Ok([query.clone(), part(cx, key, 0)?, part(cx, key, 1)?]),
        (3, Some(key), Some(value)) => Ok([query.clone(), key.clone(), value.clone()]),
        _ => unsupported("queries, keys and values in this combination of ranks"),
    }
}

fn multi_head_attention(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    if node.optional(8)?.is_some() || node.optional(9)?.is_some() {
        return unsupported("a cache that past and present keys share (`past_sequence_length`, `cache_indirection`)");
    }
    let count = heads_of(node, "num_heads")?;
    let parts = split(cx, node)?;
    let mut offset = Dim::constant(0);
    let mut heads = Vec::new();
    for part in parts {
        if part.rank() == 4 {
            heads.push(Heads::separate(&part)?);
            continue;
        }
        let mut part = part;
        let width = part.shape.get(2).cloned().unwrap_or_else(|| Dim::constant(0));
        if let Some(bias) = node.optional(3)? {
            let bias = cx.slice_axis(bias, 0, &offset, &width)?;
            part = cx.map(&[&part, &bias], part.ty, |b, x| b.addf(x[0], x[1]))?;
            offset = offset.plus(&width);
        }
        heads.push(Heads::of_packed(cx, &part, count)?);
    }
    let Ok([query, key, value]) = <[Heads; 3]>::try_from(heads) else { return invalid("three tensors are expected") };
    let (past_key, past_value) = (node.optional(6)?, node.optional(7)?);
    let length = past_key.and_then(|past| past.shape.get(2).cloned());
    let key = joined(cx, past_key, key)?;
    let value = joined(cx, past_value, value)?;
    let scale = scale_or_default(cx, node, &query.size())?;
    let mut attention = Attention::new(query, key, value, scale);
    attention.limits.offset = length;
    attention.limits.right = node.flag("unidirectional").then_some(0);
    attention.bias = bias(cx, node, &attention, node.optional(4)?, node.optional(5)?)?;
    let attended = attention.lower(cx)?;
    let mut outputs = vec![Item::Tensor(flattened(cx, &attended.output, true)?)];
    for (index, heads) in [(1, &attention.key), (2, &attention.value)] {
        let present = node.has_output(index).then(|| heads.transposed(cx)).transpose()?;
        outputs.push(present.map_or(Item::Nothing, Item::Tensor));
    }
    if node.has_output(3) {
        outputs.push(Item::Tensor(cx.cast(&attended.scores, attention.query.tensor.ty)?));
    }
    Ok(outputs)
}

fn quantized_attention(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, weights, bias) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (x_scale, weight_scale) = (node.input(3)?, node.input(4)?);
    let (x_zero, weight_zero) = (node.optional(6)?, node.optional(7)?);
    let ([batch, sequence, _], [_, width]) = (&*x.shape, &*weights.shape) else {
        return invalid("the input has not 3 dimensions, or the weights not 2");
    };
    if !x.ty.is_int() || !weights.ty.is_int() {
        return crate::kit::wrong_type(x.ty);
    }
    let shape = [batch.clone(), sequence.clone(), width.clone()];
    let x = centred(cx, x, x_zero)?;
    let weights = centred(cx, weights, weight_zero)?;
    let sums = integer_product(cx, &x, &weights, &shape)?;
    let ty = bias.ty;
    let projected = cx.map(&[&sums, x_scale, weight_scale, bias], ty, |b, x| {
        let sum = b.sitofp(x[0], b.element_of(x[3]));
        let scale = b.mulf(x[1], x[2]);
        let product = b.mulf(sum, scale);
        b.addf(product, x[3])
    })?;
    let sizes = vec![width.floor_div(&Dim::constant(3)); 3];
    let inputs = Inputs { mask: node.optional(5)?, past: node.optional(8)?, bias: None };
    packed_attention(cx, node, &projected, &sizes, &inputs)
}

/// Subtracts a zero point.
fn centred(cx: &mut Context, x: &Tensor, zero: Option<&Tensor>) -> Result<Tensor> {
    let wide = cx.cast(x, DataType::I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = cx.cast(zero, DataType::I32)?;
    cx.map(&[&wide, &zero], DataType::I32, |b, x| b.subi(x[0], x[1]))
}

/// Multiplies `[batch, rows, k]` by `[k, columns]`, of `i32`.
fn integer_product(cx: &mut Context, x: &Tensor, weights: &Tensor, shape: &[Dim; 3]) -> Result<Tensor> {
    let operands = [cx.value(x)?, cx.value(weights)?];
    let zero = cx.b.int(0, Element::I32);
    let extents = cx.extents(shape);
    let filled = cx.b.fill(zero, &extents);
    let maps = [Map::of(4, &[0, 1, 3]), Map::of(4, &[3, 2]), Map::of(4, &[0, 1, 2])];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let sums = cx.b.generic(&operands, &[filled], &maps, &iterators, |b, x| {
        let product = b.muli(x[0], x[1]);
        vec![b.addi(x[2], product)]
    });
    cx.tensor(sums.first().copied().unwrap_or(filled), DataType::I32, shape.to_vec())
}
