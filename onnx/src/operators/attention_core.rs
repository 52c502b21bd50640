//! Scaled dot-product attention, which the operators of attention have in common.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use crate::context::Context;
use crate::convert::{Rounding, narrowed, narrowed_to, widened};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{invalid, unsupported};
use crate::tensor::{Scalar, Tensor};

/// Queries, keys or values as heads: a tensor of four dimensions.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    /// `[batch, heads, sequence, size]`, or `[batch, sequence, heads, size]` if `is_packed`.
    pub(super) tensor: Tensor,
    pub(super) is_packed: bool,
}

impl Heads {
    /// Takes `[batch, heads, sequence, size]`.
    pub(super) fn separate(tensor: &Tensor) -> Result<Heads> {
        Heads { tensor: tensor.clone(), is_packed: false }.checked()
    }

    /// Splits the last dimension of `[batch, sequence, heads * size]`.
    pub(super) fn of_packed(cx: &mut Context, tensor: &Tensor, heads: i64) -> Result<Heads> {
        let [batch, sequence, hidden] = &*tensor.shape else {
            return invalid(format!("a tensor of rank {} holds packed heads, which has 3 dimensions", tensor.rank()));
        };
        let count = Dim::constant(heads);
        let size = match hidden.exact_quotient(&count) {
            Some(size) if heads > 0 => size,
            _ => return invalid(format!("{} elements are not {heads} heads", cx.text(hidden))),
        };
        let shape = [batch.clone(), sequence.clone(), count, size];
        Heads { tensor: cx.reshape(tensor, &shape)?, is_packed: true }.checked()
    }

    fn checked(self) -> Result<Heads> {
        if self.tensor.rank() != 4 || !self.tensor.ty.is_float() {
            return invalid(format!(
                "heads are {} of rank {}, not floats of rank 4",
                self.tensor.ty.name(),
                self.tensor.rank()
            ));
        }
        Ok(self)
    }

    fn dim(&self, index: usize) -> Dim {
        self.tensor.shape.get(index).cloned().unwrap_or_else(|| Dim::constant(1))
    }

    pub(super) fn batch(&self) -> Dim {
        self.dim(0)
    }

    pub(super) fn heads(&self) -> Dim {
        self.dim(if self.is_packed { 2 } else { 1 })
    }

    pub(super) fn sequence(&self) -> Dim {
        self.dim(if self.is_packed { 1 } else { 2 })
    }

    pub(super) fn size(&self) -> Dim {
        self.dim(3)
    }

    /// Returns `[batch, heads, sequence, size]`.
    pub(super) fn transposed(&self, cx: &mut Context) -> Result<Tensor> {
        if self.is_packed { cx.transpose(&self.tensor, &[0, 2, 1, 3]) } else { Ok(self.tensor.clone()) }
    }
}

/// Which keys a query sees, by their positions: the query `i` of a batch stands at `i + offset`.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// The keys behind the position of the query that it sees; `None` for all.
    pub(super) right: Option<i64>,
    /// The keys before the position of the query that it sees; `None` for all.
    pub(super) left: Option<i64>,
    /// The position of the first query; `None` for 0.
    pub(super) offset: Option<Dim>,
    /// What is added to the position of the first query for each batch: `[batch]` of `i64`.
    pub(super) offsets: Option<Tensor>,
    /// The number of keys for each batch: `[batch]` of `i64`.
    pub(super) lengths: Option<Tensor>,
}

/// What attention computes.
#[derive(Debug)]
pub(super) struct Attention {
    pub(super) query: Heads,
    pub(super) key: Heads,
    pub(super) value: Heads,
    pub(super) scale: f64,
    /// 0 for none.
    pub(super) softcap: f64,
    /// What is added to the scores; it broadcasts to `[batch, heads, queries, keys]`. Keys with negative infinity take no part.
    pub(super) bias: Option<Tensor>,
    pub(super) limits: Limits,
    /// The type of the softmax.
    pub(super) precision: DataType,
    /// A further logit for each head, which takes probability and has no value: `[heads]`.
    pub(super) sink: Option<Tensor>,
}

/// Results of attention, and what they are computed of: tensors of `[batch, heads, queries, keys]`.
#[derive(Debug)]
pub(super) struct Attended {
    /// As the queries are laid out.
    pub(super) output: Tensor,
    /// Products of queries and keys, before they are scaled.
    pub(super) products: Tensor,
    /// The scores that the softmax gets.
    pub(super) scores: Tensor,
    pub(super) probabilities: Tensor,
}

impl Attention {
    pub(super) fn new(query: Heads, key: Heads, value: Heads, scale: f64) -> Attention {
        let precision = query.tensor.ty.computed();
        let limits = Limits::default();
        Attention { query, key, value, scale, softcap: 0.0, bias: None, limits, precision, sink: None }
    }

    /// Returns the number of queries that share a head of keys.
    fn group(&self, cx: &Context) -> Result<i64> {
        let (queries, keys) = (self.query.heads(), self.key.heads());
        if queries == keys {
            return Ok(1);
        }
        match (queries.as_constant(), keys.as_constant()) {
            (Some(queries), Some(keys)) if keys > 0 && queries % keys == 0 => Ok(queries / keys),
            _ => invalid(format!("{} heads of queries share {} of keys", cx.text(&queries), cx.text(&keys))),
        }
    }

    fn check(&self, cx: &mut Context) -> Result<()> {
        let (query, key, value) = (&self.query, &self.key, &self.value);
        cx.require_equal(&query.batch(), &key.batch(), "the batch of queries and keys")?;
        cx.require_equal(&query.batch(), &value.batch(), "the batch of queries and values")?;
        cx.require_equal(&query.size(), &key.size(), "the size of heads of queries and keys")?;
        cx.require_equal(&key.heads(), &value.heads(), "the number of heads of keys and values")?;
        cx.require_equal(&key.sequence(), &value.sequence(), "the number of keys and values")
    }

    /// Computes the products of queries and keys, not scaled.
    pub(super) fn products(&self, cx: &mut Context) -> Result<Tensor> {
        self.check(cx)?;
        let group = self.group(cx)?;
        let query = grouped(cx, &self.query, group)?;
        let ty = self.query.tensor.ty.computed();
        // Loops: batch, head of keys, query head of the group, query, key, element.
        let (batch, heads, queries) = (self.query.batch(), self.key.heads(), self.query.sequence());
        let shape = [batch.clone(), heads, Dim::constant(group), queries.clone(), self.key.sequence()];
        let maps = [
            Map::of(6, if self.query.is_packed { &[0, 3, 1, 2, 5] } else { &[0, 1, 2, 3, 5] }),
            Map::of(6, if self.key.is_packed { &[0, 4, 1, 5] } else { &[0, 1, 4, 5] }),
            Map::of(6, &[0, 1, 2, 3, 4]),
        ];
        let products = contraction(cx, &query, &self.key.tensor, &maps, &shape, ty)?;
        let shape = [batch, self.query.heads(), queries, self.key.sequence()];
        cx.reshape(&products, &shape)
    }

    /// Computes probabilities times values, as the queries are laid out.
    pub(super) fn outputs(&self, cx: &mut Context, probabilities: &Tensor) -> Result<Tensor> {
        let group = self.group(cx)?;
        let (batch, heads, queries) = (self.query.batch(), self.key.heads(), self.query.sequence());
        let count = Dim::constant(group);
        let shape = [batch.clone(), heads.clone(), count.clone(), queries.clone(), self.key.sequence()];
        let probabilities = cx.reshape(probabilities, &shape)?;
        // Loops: batch, head of values, query head of the group, query, element, key.
        let size = self.value.size();
        let is_packed = self.query.is_packed;
        let shape = if is_packed {
            [batch.clone(), queries.clone(), heads, count, size.clone()]
        } else {
            [batch.clone(), heads, count, queries.clone(), size.clone()]
        };
        let maps = [
            Map::of(6, &[0, 1, 2, 3, 5]),
            Map::of(6, if self.value.is_packed { &[0, 5, 1, 4] } else { &[0, 1, 5, 4] }),
            Map::of(6, if is_packed { &[0, 3, 1, 2, 4] } else { &[0, 1, 2, 3, 4] }),
        ];
        let ty = self.query.tensor.ty;
        let sum = contraction(cx, &probabilities, &self.value.tensor, &maps, &shape, ty.computed())?;
        let heads = self.query.heads();
        let shape = if is_packed { [batch, queries, heads, size] } else { [batch, heads, queries, size] };
        let output = cx.reshape(&sum, &shape)?;
        cx.cast(&output, ty)
    }

    /// Scales products and applies the cap, the bias and the limits. Scores of keys that take no part are negative infinity.
    fn scores(&self, cx: &mut Context, products: &Tensor) -> Result<Tensor> {
        let mut inputs = vec![products.clone()];
        let bias = self.bias.as_ref().map(|bias| push(&mut inputs, bias.clone()));
        let per_batch =
            |cx: &mut Context, tensor: &Option<Tensor>, inputs: &mut Vec<Tensor>| -> Result<Option<usize>> {
                let Some(tensor) = tensor else { return Ok(None) };
                let spread =
                    cx.reshape(tensor, &[tensor.count(), Dim::constant(1), Dim::constant(1), Dim::constant(1)])?;
                Ok(Some(push(inputs, spread)))
            };
        let offsets = per_batch(cx, &self.limits.offsets, &mut inputs)?;
        let lengths = per_batch(cx, &self.limits.lengths, &mut inputs)?;
        let offset = self.limits.offset.as_ref().map(|offset| cx.index(offset));
        let (right, left) = (self.limits.right, self.limits.left);
        let (scale, softcap) = (self.scale, self.softcap);
        let computed = products.ty;
        let precision = self.precision;
        let shape = products.shape.clone();
        let references: Vec<&Tensor> = inputs.iter().collect();
        cx.map_to(&references, precision.computed(), &shape, |b, x| {
            let mut score = scaled(b, x[0], scale, softcap);
            let least = b.float(f64::NEG_INFINITY, computed.element());
            if let Some(bias) = bias.and_then(|index| x.get(index)) {
                let bias = converted_float(b, *bias, computed.element());
                let sum = b.addf(score, bias);
                let is_masked = b.cmpf(FloatPredicate::OrderedEqual, bias, least);
                score = b.select(is_masked, least, sum);
            }
            let argument = |index: Option<usize>| index.and_then(|index| x.get(index).copied());
            let limits = Bounds { right, left, offset, offsets: argument(offsets), length: argument(lengths) };
            if let Some(is_seen) = limits.condition(b) {
                score = b.select(is_seen, score, least);
            }
            let score = converted_float(b, score, precision.computed().element());
            rounded(b, score, precision)
        })
    }

    /// Returns true if a query may see no key.
    fn may_see_nothing(&self) -> bool {
        let limits = &self.limits;
        self.bias.is_some() || limits.right.is_some() || limits.left.is_some() || limits.lengths.is_some()
    }

    /// Computes attention.
    pub(super) fn lower(&self, cx: &mut Context) -> Result<Attended> {
        let products = self.products(cx)?;
        let scores = self.scores(cx, &products)?;
        let sink = match &self.sink {
            None => None,
            Some(sink) => {
                let shape = [Dim::constant(1), sink.count(), Dim::constant(1), Dim::constant(1)];
                Some(cx.reshape(sink, &shape)?)
            }
        };
        let softmax = Softmax { may_be_empty: self.may_see_nothing(), precision: self.precision, sink };
        let probabilities = softmax.lower(cx, &scores)?;
        let probabilities = cx.cast(&probabilities, self.query.tensor.ty.computed())?;
        let output = self.outputs(cx, &probabilities)?;
        Ok(Attended { output, products, scores, probabilities })
    }

    /// Scales products, and caps them if asked to.
    pub(super) fn scaled(&self, cx: &mut Context, products: &Tensor, is_capped: bool) -> Result<Tensor> {
        let (scale, softcap) = (self.scale, if is_capped { self.softcap } else { 0.0 });
        cx.map(&[products], products.ty, |b, x| scaled(b, x[0], scale, softcap))
    }
}

fn push(list: &mut Vec<Tensor>, tensor: Tensor) -> usize {
    list.push(tensor);
    list.len() - 1
}

/// Splits the heads of queries by the head of keys that they share.
fn grouped(cx: &mut Context, query: &Heads, group: i64) -> Result<Tensor> {
    let at = if query.is_packed { 2 } else { 1 };
    let mut shape = query.tensor.shape.clone();
    let count = Dim::constant(group);
    let keys = query.heads().exact_quotient(&count).unwrap_or_else(|| Dim::constant(1));
    if let Some(slot) = shape.get_mut(at) {
        *slot = keys;
    }
    shape.insert(at + 1, count);
    cx.reshape(&query.tensor, &shape)
}

/// Sums products over the last loop. Maps are those of both operands and of the result, whose shape is `shape`.
pub(super) fn contraction(
    cx: &mut Context,
    left: &Tensor,
    right: &Tensor,
    maps: &[Map; 3],
    shape: &[Dim],
    ty: DataType,
) -> Result<Tensor> {
    cx.check_shape(ty, shape)?;
    let operands = [cx.value(left)?, cx.value(right)?];
    let zero = cx.b.float(0.0, ty.element());
    let extents = cx.extents(shape);
    let filled = cx.b.fill(zero, &extents);
    let loops = maps[0].dimensions();
    let iterators: Vec<Iterator> =
        (0..loops).map(|index| if index + 1 == loops { Iterator::Reduction } else { Iterator::Parallel }).collect();
    let types = (left.ty, right.ty);
    let mut sum = cx.b.generic_single(&operands, filled, maps, &iterators, |b, x| {
        let (x0, x1) = (widened(b, x[0], types.0), widened(b, x[1], types.1));
        let (x0, x1) = (converted_float(b, x0, ty.element()), converted_float(b, x1, ty.element()));
        let product = b.mulf(x0, x1);
        b.addf(x[2], product)
    });
    // With loop nests behind it in one dispatch, a product of extents that are not known gets a buffer of a size that is not known, which
    // VMVX lacks.
    if shape.iter().any(|dim| dim.as_constant().is_none()) {
        sum = cx.b.barrier(sum);
    }
    cx.tensor(sum, ty, shape.to_vec())
}

/// Converts a float of 32 or 64 bits to another of them.
pub(super) fn converted_float(b: &mut Builder, x: Value, to: Element) -> Value {
    let from = b.element_of(x);
    match (from.bits(), to.bits()) {
        _ if from == to => x,
        (from, to_bits) if from < to_bits => b.extf(x, to),
        _ => narrowed_to(b, x, DataType::F32, Rounding::default()),
    }
}

/// Rounds a value to a narrow type of float, and widens it again.
fn rounded(b: &mut Builder, x: Value, ty: DataType) -> Value {
    if ty.computed() == ty {
        return x;
    }
    let narrow = narrowed(b, x, ty);
    widened(b, narrow, ty)
}

fn scaled(b: &mut Builder, x: Value, scale: f64, softcap: f64) -> Value {
    let element = b.element_of(x);
    let mut score = x;
    if scale.to_bits() != 1.0_f64.to_bits() {
        let factor = b.float(scale, element);
        score = b.mulf(score, factor);
    }
    if softcap > 0.0 {
        let cap = b.float(softcap, element);
        let ratio = b.divf(score, cap);
        let tanh = b.tanh(ratio);
        score = b.mulf(tanh, cap);
    }
    score
}

/// [`Limits`] in the body of a loop nest over `[batch, heads, queries, keys]`.
struct Bounds {
    right: Option<i64>,
    left: Option<i64>,
    offset: Option<Value>,
    offsets: Option<Value>,
    length: Option<Value>,
}

impl Bounds {
    /// Computes whether the query sees the key; `None` if it sees all.
    fn condition(&self, b: &mut Builder) -> Option<Value> {
        let mut conditions = Vec::new();
        let key = b.iteration(3);
        if self.right.is_some() || self.left.is_some() {
            let mut position = b.iteration(2);
            if let Some(offset) = self.offset {
                position = b.addi(position, offset);
            }
            if let Some(offset) = self.offsets {
                let offset = b.index_cast(offset, Element::Index);
                position = b.addi(position, offset);
            }
            if let Some(right) = self.right {
                let right = b.index(right);
                let last = b.addi(position, right);
                conditions.push(b.cmpi(IntPredicate::SignedLessEqual, key, last));
            }
            if let Some(left) = self.left {
                let left = b.index(left);
                let first = b.subi(position, left);
                conditions.push(b.cmpi(IntPredicate::SignedGreaterEqual, key, first));
            }
        }
        if let Some(length) = self.length {
            let length = b.index_cast(length, Element::Index);
            conditions.push(b.cmpi(IntPredicate::SignedLess, key, length));
        }
        conditions.into_iter().reduce(|all, next| b.andi(all, next))
    }
}

/// A softmax along the last dimension.
#[derive(Debug)]
pub(super) struct Softmax {
    /// Whether all elements of a row may be negative infinity: such rows become zeros.
    pub(super) may_be_empty: bool,
    /// The type that results are rounded to.
    pub(super) precision: DataType,
    /// A further logit, which broadcasts to the rows.
    pub(super) sink: Option<Tensor>,
}

impl Softmax {
    pub(super) fn lower(&self, cx: &mut Context, x: &Tensor) -> Result<Tensor> {
        let ty = x.ty;
        let Some(last) = x.rank().checked_sub(1) else { return unsupported("a softmax of a scalar") };
        let least = Scalar::Float(f64::NEG_INFINITY);
        let mut greatest = cx.reduce(x, &[last], ty, least, |b, x, most| b.maximumf(most, x))?;
        greatest = cx.unsqueeze(&greatest, &[last])?;
        if let Some(sink) = &self.sink {
            greatest = cx.map(&[&greatest, sink], ty, |b, x| {
                let sink = converted_float(b, x[1], ty.element());
                b.maximumf(x[0], sink)
            })?;
        }
        let may_be_empty = self.may_be_empty && self.sink.is_none();
        let powers = cx.map(&[x, &greatest], ty, |b, x| {
            let mut greatest = x[1];
            if may_be_empty {
                let (least, zero) = (b.float(f64::NEG_INFINITY, ty.element()), b.float(0.0, ty.element()));
                let is_empty = b.cmpf(FloatPredicate::OrderedEqual, greatest, least);
                greatest = b.select(is_empty, zero, greatest);
            }
            let difference = b.subf(x[0], greatest);
            b.exp(difference)
        })?;
        let sum = cx.reduce(&powers, &[last], ty, Scalar::Float(0.0), |b, x, sum| b.addf(sum, x))?;
        let mut sum = cx.unsqueeze(&sum, &[last])?;
        if let Some(sink) = &self.sink {
            sum = cx.map(&[&sum, sink, &greatest], ty, |b, x| {
                let sink = converted_float(b, x[1], ty.element());
                let difference = b.subf(sink, x[2]);
                let power = b.exp(difference);
                b.addf(x[0], power)
            })?;
        }
        let precision = self.precision;
        cx.map(&[&powers, &sum], ty, |b, x| {
            let mut sum = x[1];
            if may_be_empty {
                let (zero, one) = (b.float(0.0, ty.element()), b.float(1.0, ty.element()));
                let is_empty = b.cmpf(FloatPredicate::OrderedEqual, sum, zero);
                sum = b.select(is_empty, one, sum);
            }
            let ratio = b.divf(x[0], sum);
            rounded(b, ratio, precision)
        })
    }
}
