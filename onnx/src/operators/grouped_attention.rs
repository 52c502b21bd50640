//! `GroupQueryAttention` of com.microsoft.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Value};

use super::attention::{bias, flattened};
use super::attention_core::{Attention, Heads};
use super::contrib_attention::{columns, heads_of, scale_or_default};
use super::positions::clamped;
use super::rotary::{Angles, consecutive};
use super::{Lowering, Row};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::read;
use crate::node::{Node, Outputs, invalid, unsupported};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[Row {
    domain: "com.microsoft",
    name: "GroupQueryAttention",
    since: 1,
    lower: Lowering::Plain(group_query_attention),
}];

/// The inputs behind the tensors of queries, keys and values, by their positions.
const SEQLENS: usize = 5;
const TOTAL: usize = 6;
const CACHES: [usize; 2] = [7, 8];
const POSITIONS: usize = 9;
const BIAS: usize = 10;
const SINK: usize = 11;
const NORMS: [usize; 2] = [14, 15];
const QUERY_SEQLENS: usize = 16;

/// Numbers of keys for each batch: tensors of `[batch]` of `i64`.
struct Lengths {
    /// Before this call.
    past: Tensor,
    /// With those of this call.
    total: Tensor,
}

fn check(node: &Node<'_>) -> Result<()> {
    for name in ["k_quant_type", "v_quant_type"] {
        if node.text_or(name, "NONE")? != "NONE" {
            return unsupported(format!("a quantised cache (`{name}`)"));
        }
    }
    if node.flag("sliding_window_cache") {
        return unsupported("the attribute `sliding_window_cache`");
    }
    Ok(())
}

fn group_query_attention(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    check(node)?;
    let (queries, keys) = (heads_of(node, "num_heads")?, heads_of(node, "kv_num_heads")?);
    let [mut query, mut key, value] = split(cx, node, queries, keys)?;
    for (heads, index) in [(&mut query, NORMS[0]), (&mut key, NORMS[1])] {
        if let Some(weight) = node.optional(index)? {
            let name = if index == NORMS[0] { "q_norm_epsilon" } else { "k_norm_epsilon" };
            let epsilon = node.float(name).unwrap_or(node.float_or("qk_norm_epsilon", 1e-6));
            heads.tensor = normalised(cx, &heads.tensor, weight, epsilon)?;
        }
    }
    let sequence = query.sequence();
    let lengths = lengths(cx, node, &sequence)?;
    if node.flag("do_rotary") {
        let positions = match node.optional(POSITIONS)? {
            Some(positions) => positions.clone(),
            None => consecutive(cx, &lengths.past, &sequence)?,
        };
        let caches = [node.input(CACHES[0])?, node.input(CACHES[1])?];
        let angles = Angles::at(cx, caches, &positions, node.flag("rotary_interleaved"))?;
        (query, key) = (angles.rotate(cx, &query)?, angles.rotate(cx, &key)?);
    }
    let total = match &*cx.integers(node.input(TOTAL)?)? {
        [total] => total.clone(),
        _ => return invalid("`total_sequence_length` is not one number"),
    };
    let key = present(cx, node.optional(3)?, &key, &lengths, &total)?;
    let value = present(cx, node.optional(4)?, &value, &lengths, &total)?;
    let scale = scale_or_default(cx, node, &query.size())?;
    let count = key.sequence();
    let mut attention = Attention::new(query, key, value, scale);
    attention.softcap = node.float_or("softcap", 0.0);
    attention.bias = node.optional(BIAS)?.map(|mask| bias(cx, mask, &count)).transpose()?;
    attention.sink = sink(node, queries)?;
    attention.limits.right = (node.int_or("causal", 1) != 0).then_some(0);
    attention.limits.left = Some(node.int_or("local_window_size", -1)).filter(|size| *size > 0).map(|size| size - 1);
    attention.limits.offsets = Some(lengths.past);
    attention.limits.lengths = Some(lengths.total);
    let attended = attention.lower(cx)?;
    let mut outputs = vec![Item::Tensor(flattened(cx, &attended.output, true)?)];
    outputs.extend([&attention.key, &attention.value].map(|heads| Item::Tensor(heads.tensor.clone())));
    if node.has_output(3) {
        let ty = attention.query.tensor.ty;
        let scores = match node.int_or("qk_output", 0) {
            1 => visible(cx, &attended.scores)?,
            _ => attended.probabilities,
        };
        outputs.push(Item::Tensor(cx.cast(&scores, ty)?));
    }
    Ok(outputs)
}

/// Returns scores with 0 for keys that take no part.
fn visible(cx: &mut Context, scores: &Tensor) -> Result<Tensor> {
    cx.map(&[scores], scores.ty, |b, x| {
        let element = b.element_of(x[0]);
        let (least, zero) = (b.float(f64::NEG_INFINITY, element), b.float(0.0, element));
        let is_hidden = b.cmpf(FloatPredicate::OrderedEqual, x[0], least);
        b.select(is_hidden, zero, x[0])
    })
}

/// Returns queries, keys and values, which may be packed in one tensor.
fn split(cx: &mut Context, node: &Node<'_>, queries: i64, keys: i64) -> Result<[Heads; 3]> {
    let query = node.input(0)?;
    if let (Some(key), Some(value)) = (node.optional(1)?, node.optional(2)?) {
        let query = Heads::of_packed(cx, query, queries)?;
        return Ok([query, Heads::of_packed(cx, key, keys)?, Heads::of_packed(cx, value, keys)?]);
    }
    let Some(width) = query.shape.get(2) else { return invalid(format!("queries of rank {}", query.rank())) };
    let Some(size) = width.exact_quotient(&Dim::constant(queries + 2 * keys)) else {
        return invalid(format!("{} elements are not {queries} and twice {keys} heads", cx.text(width)));
    };
    let widths = [queries, keys, keys].map(|count| Dim::constant(count).times(&size));
    let starts = [Dim::constant(0), widths[0].clone(), widths[0].plus(&widths[1])];
    let mut part = |index: usize, count: i64| {
        let part = columns(cx, query, &starts[index], &widths[index])?;
        Heads::of_packed(cx, &part, count)
    };
    Ok([part(0, queries)?, part(1, keys)?, part(2, keys)?])
}

/// Divides the elements of heads by the root of their mean square, and multiplies them by weights.
fn normalised(cx: &mut Context, x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let Some(size) = x.shape.get(3).and_then(Dim::as_constant) else { return unsupported("heads of an unknown size") };
    let ty = x.ty.computed();
    let squares = cx.reduce(x, &[3], ty, Scalar::Float(0.0), |b, x, sum| {
        let square = b.mulf(x, x);
        b.addf(sum, square)
    })?;
    let squares = cx.unsqueeze(&squares, &[3])?;
    cx.map(&[x, &squares, weight], x.ty, |b, x| {
        let (count, epsilon) = (b.float(size as f64, ty.element()), b.float(epsilon, ty.element()));
        let mean = b.divf(x[1], count);
        let sum = b.addf(mean, epsilon);
        let root = b.sqrt(sum);
        let ratio = b.divf(x[0], root);
        b.mulf(ratio, x[2])
    })
}

fn lengths(cx: &mut Context, node: &Node<'_>, sequence: &Dim) -> Result<Lengths> {
    let last = node.input(SEQLENS)?;
    let last = cx.reshape(last, &[last.count()])?;
    let last = cx.cast(&last, DataType::I64)?;
    let total = cx.map(&[&last], DataType::I64, |b, x| {
        let one = b.int(1, Element::I64);
        b.addi(x[0], one)
    })?;
    let new = match node.optional(QUERY_SEQLENS)? {
        Some(counts) => {
            let counts = cx.reshape(counts, &[counts.count()])?;
            cx.cast(&counts, DataType::I64)?
        }
        None => Tensor::of_elements(DataType::I64, vec![Dim::constant(1)], vec![Scalar::Int(sequence.clone())]),
    };
    let past = cx.map(&[&total, &new], DataType::I64, |b, x| {
        let (past, zero) = (b.subi(x[0], x[1]), b.int(0, Element::I64));
        b.maxsi(past, zero)
    })?;
    Ok(Lengths { past, total })
}

/// Joins keys or values of earlier calls with those of this one, for each batch at its length: `[batch, heads, sequence, size]`.
fn present(cx: &mut Context, past: Option<&Tensor>, new: &Heads, lengths: &Lengths, total: &Dim) -> Result<Heads> {
    let ty = new.tensor.ty;
    let capacity = past.and_then(|past| past.shape.get(2).cloned()).unwrap_or_else(|| Dim::constant(0));
    let shape = [new.batch(), new.heads(), capacity.at_least(total), new.size()];
    let source = match past.filter(|_| !capacity.is(0)) {
        Some(past) if past.ty != ty => return crate::kit::wrong_type(past.ty),
        // All rows behind one another, so that none is read of an empty tensor.
        Some(past) if capacity.as_constant().is_none() => {
            let new = new.transposed(cx)?;
            Source::Joined(cx.concat(&[past, &new], 2)?)
        }
        Some(past) => Source::Two(past.clone(), new.clone()),
        None => Source::New(new.clone()),
    };
    let source = source.values(cx)?;
    let spread = |cx: &mut Context, tensor: &Tensor| {
        cx.reshape(tensor, &[tensor.count(), Dim::constant(1), Dim::constant(1), Dim::constant(1)])
    };
    let (before, after) = (spread(cx, &lengths.past)?, spread(cx, &lengths.total)?);
    let bounds = Bounds { capacity: cx.index(&capacity), count: cx.index(&new.sequence()) };
    let tensor = cx.map_to(&[&before, &after], ty, &shape, |b, x| {
        let (before, after) = (b.index_cast(x[0], Element::Index), b.index_cast(x[1], Element::Index));
        source.read(b, before, after, &bounds, ty)
    })?;
    Heads::separate(&tensor)
}

/// Where rows of keys or values are.
enum Source {
    New(Heads),
    Two(Tensor, Heads),
    /// Of earlier calls, then of this one.
    Joined(Tensor),
}

/// [`Source`] as values of the module.
enum Rows {
    New(Value, bool),
    Two(Value, Value, bool),
    Joined(Value),
}

/// Numbers of rows.
struct Bounds {
    capacity: Value,
    count: Value,
}

impl Source {
    fn values(&self, cx: &mut Context) -> Result<Rows> {
        Ok(match self {
            Source::New(new) => Rows::New(cx.value(&new.tensor)?, new.is_packed),
            Source::Two(past, new) => Rows::Two(cx.value(past)?, cx.value(&new.tensor)?, new.is_packed),
            Source::Joined(both) => Rows::Joined(cx.value(both)?),
        })
    }
}

impl Rows {
    /// Reads the element of the iteration: of an earlier call before the row `before`, of this one before `after`, else 0.
    fn read(&self, b: &mut Builder, before: Value, after: Value, bounds: &Bounds, ty: DataType) -> Value {
        let at: Vec<Value> = (0..4).map(|dimension| b.iteration(dimension)).collect();
        let (batch, head, row, column) = (at[0], at[1], at[2], at[3]);
        let is_old = b.cmpi(IntPredicate::SignedLess, row, before);
        let is_within = b.cmpi(IntPredicate::SignedLess, row, after);
        let shifted = b.subi(row, before);
        let shifted = clamped(b, shifted, bounds.count);
        let nothing = b.float(0.0, ty.computed().element());
        let order = |row: Value, is_packed: bool| {
            if is_packed { [batch, row, head, column] } else { [batch, head, row, column] }
        };
        match self {
            Rows::New(new, is_packed) => {
                let element = read(b, *new, &order(shifted, *is_packed), ty);
                b.select(is_within, element, nothing)
            }
            Rows::Two(past, new, is_packed) => {
                let element = read(b, *new, &order(shifted, *is_packed), ty);
                let own = clamped(b, row, bounds.capacity);
                let old = read(b, *past, &order(own, false), ty);
                let either = b.select(is_old, old, element);
                b.select(is_within, either, nothing)
            }
            Rows::Joined(both) => {
                let fresh = b.addi(bounds.capacity, shifted);
                let index = b.select(is_old, row, fresh);
                let rows = b.addi(bounds.capacity, bounds.count);
                let index = clamped(b, index, rows);
                let element = read(b, *both, &order(index, false), ty);
                b.select(is_within, element, nothing)
            }
        }
    }
}

/// Returns the further logit of each head.
fn sink(node: &Node<'_>, heads: i64) -> Result<Option<Tensor>> {
    if let Some(sink) = node.optional(SINK)? {
        return Ok(Some(sink.clone()));
    }
    let count = usize::try_from(heads).unwrap_or(0);
    let zeros = vec![Scalar::Float(0.0); count];
    Ok(node.flag("smooth_softmax").then(|| Tensor::of_elements(DataType::F32, vec![Dim::constant(heads)], zeros)))
}
