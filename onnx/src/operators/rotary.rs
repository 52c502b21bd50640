//! Rotary embeddings.

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, Expression, IntPredicate, Iterator, Map};

use super::attention_core::Heads;
use super::{Lowering, Row, onnx};
use crate::context::Context;
use crate::convert::{narrowed, widened};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("RotaryEmbedding", 23, rotary_embedding),
    Row {
        domain: "com.microsoft",
        name: "RotaryEmbedding",
        since: 1,
        lower: Lowering::Plain(contrib_rotary_embedding),
    },
];

/// Cosines and sines for each position of a sequence.
#[derive(Debug)]
pub(super) struct Angles {
    /// `[batch or 1, sequence, half]`.
    pub(super) cosines: Tensor,
    pub(super) sines: Tensor,
    /// Whether the pairs that rotate are neighbours, not halves.
    pub(super) is_interleaved: bool,
}

impl Angles {
    /// Takes the rows at positions, a tensor of `[batch, sequence]`, of caches of `[positions, half]`. Positions beyond the cache are
    /// those of its ends.
    pub(super) fn at(
        cx: &mut Context,
        caches: [&Tensor; 2],
        positions: &Tensor,
        is_interleaved: bool,
    ) -> Result<Angles> {
        let [cosines, sines] = caches.map(|cache| rows(cx, cache, positions));
        Ok(Angles { cosines: cosines?, sines: sines?, is_interleaved })
    }

    /// Returns the number of pairs.
    fn half(&self) -> Dim {
        self.cosines.shape.get(2).cloned().unwrap_or_else(|| Dim::constant(0))
    }

    /// Rotates the first elements of heads, twice as many as there are angles.
    pub(super) fn rotate(&self, cx: &mut Context, heads: &Heads) -> Result<Heads> {
        let x = &heads.tensor;
        let half = self.half();
        let rotated = half.times(&Dim::constant(2));
        let rest = heads.size().minus(&rotated);
        let (front, back) = match rest.as_constant() {
            Some(0) => (x.clone(), None),
            Some(1..) => {
                let front = cx.slice_axis(x, 3, &Dim::constant(0), &rotated)?;
                (front, Some(cx.slice_axis(x, 3, &rotated, &rest)?))
            }
            _ => {
                let (size, half) = (cx.text(&heads.size()), cx.text(&half));
                return invalid(format!("{half} angles for heads of {size} elements"));
            }
        };
        let mut result = self.rotated(cx, &front, heads.is_packed)?;
        if let Some(back) = back {
            result = cx.concat(&[&result, &back], 3)?;
        }
        Ok(Heads { tensor: result, is_packed: heads.is_packed })
    }

    /// Rotates all elements: each pair is an index along a dimension of extent 2.
    fn rotated(&self, cx: &mut Context, x: &Tensor, is_packed: bool) -> Result<Tensor> {
        let (half, two) = (self.half(), Dim::constant(2));
        let mut shape: Vec<Dim> = x.shape.iter().take(3).cloned().collect();
        shape.extend(if self.is_interleaved { [half, two] } else { [two, half] });
        let pairs = cx.reshape(x, &shape)?;
        let value = cx.value(&pairs)?;
        let (cosines, sines) = (cx.value(&self.cosines)?, cx.value(&self.sines)?);
        let extents = cx.extents(&shape);
        let empty = cx.b.empty(&extents, x.ty.element());
        let (element, pair) = if self.is_interleaved { (3, 4) } else { (4, 3) };
        let part = |index: i64| {
            let results = (0..5).map(|dimension| {
                if dimension == pair { Expression::constant(index) } else { Expression::dimension(dimension) }
            });
            Map::new(5, results.collect())
        };
        let batch = match self.cosines.shape.first() {
            Some(dim) if dim.is(1) => Expression::constant(0),
            _ => Expression::dimension(0),
        };
        let sequence = Expression::dimension(if is_packed { 1 } else { 2 });
        let angles = Map::new(5, vec![batch, sequence, Expression::dimension(element)]);
        let maps = [part(0), part(1), angles.clone(), angles, Map::identity(5)];
        let iterators = [Iterator::Parallel; 5];
        let types = [x.ty, x.ty, self.cosines.ty, self.sines.ty];
        let ty = x.ty;
        let result = cx.b.generic_single(&[value, value, cosines, sines], empty, &maps, &iterators, |b, x| {
            let operands: Vec<_> = x.iter().zip(types).map(|(x, ty)| widened(b, *x, ty)).collect();
            let [first, second, cosine, sine] = operands[..] else { return b.index(0) };
            let (index, zero) = (b.iteration(pair), b.index(0));
            let is_first = b.cmpi(IntPredicate::Equal, index, zero);
            let (own, other) = (b.select(is_first, first, second), b.select(is_first, second, first));
            let (straight, crossed) = (b.mulf(own, cosine), b.mulf(other, sine));
            let (real, imaginary) = (b.subf(straight, crossed), b.addf(straight, crossed));
            let result = b.select(is_first, real, imaginary);
            narrowed(b, result, ty)
        });
        let result = cx.tensor(result, ty, shape)?;
        cx.reshape(&result, &x.shape)
    }
}

/// Gathers rows of a cache of two dimensions.
fn rows(cx: &mut Context, cache: &Tensor, positions: &Tensor) -> Result<Tensor> {
    let [count, half] = &*cache.shape else { return invalid(format!("a cache of rank {}", cache.rank())) };
    let [batch, sequence] = &*positions.shape else {
        return invalid(format!("positions of rank {}", positions.rank()));
    };
    if !positions.ty.is_int() {
        return crate::kit::wrong_type(positions.ty);
    }
    let shape = [batch.clone(), sequence.clone(), half.clone()];
    let spread = cx.unsqueeze(positions, &[2])?;
    let table = cx.value(cache)?;
    let last = cx.index(&count.minus(&Dim::constant(1)));
    let ty = cache.ty;
    cx.map_to(&[&spread], ty, &shape, |b, x| {
        let (position, zero) = (b.index_cast(x[0], Element::Index), b.index(0));
        let position = b.maxsi(position, zero);
        let position = b.minsi(position, last);
        let column = b.iteration(2);
        crate::kit::read(b, table, &[position, column], ty)
    })
}

/// Requires that positions are those of rows of a cache.
fn require_rows(cx: &mut Context, cache: &Tensor, positions: &Tensor) -> Result<()> {
    match cache.shape.first() {
        Some(rows) => cx.require_positions(positions, rows, Accepted::Start, "`position_ids`"),
        None => invalid("a cache without rows"),
    }
}

/// Checks the attribute `rotary_embedding_dim`, if it is there, against the caches.
fn check_size(node: &Node<'_>, angles: &Angles) -> Result<()> {
    match (node.int_or("rotary_embedding_dim", 0), angles.half().as_constant()) {
        (0, _) | (_, None) => Ok(()),
        (size, Some(half)) if size == half.saturating_mul(2) => Ok(()),
        (size, Some(half)) => invalid(format!("{half} angles for a `rotary_embedding_dim` of {size}")),
    }
}

/// Rotates a tensor of three or four dimensions and keeps its shape.
fn apply(cx: &mut Context, node: &Node<'_>, angles: &Angles, heads: Option<i64>) -> Result<Outputs> {
    check_size(node, angles)?;
    let x = node.input(0)?;
    let split = match (x.rank(), heads) {
        (4, _) => Heads::separate(x)?,
        (_, Some(count)) => Heads::of_packed(cx, x, count)?,
        (_, None) => return invalid("there is no attribute `num_heads`, which tensors of three dimensions need"),
    };
    let rotated = angles.rotate(cx, &split)?;
    one(cx.reshape(&rotated.tensor, &x.shape)?)
}

fn rotary_embedding(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (cosines, sines) = (node.input(1)?, node.input(2)?);
    let is_interleaved = node.flag("interleaved");
    let angles = match node.optional(3)? {
        Some(positions) => {
            require_rows(cx, cosines, positions)?;
            Angles::at(cx, [cosines, sines], positions, is_interleaved)?
        }
        None => Angles { cosines: cosines.clone(), sines: sines.clone(), is_interleaved },
    };
    if angles.cosines.rank() != 3 || angles.sines.rank() != 3 {
        return invalid("caches without positions have not 3 dimensions");
    }
    apply(cx, node, &angles, node.int("num_heads").filter(|count| *count > 0))
}

fn contrib_rotary_embedding(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    if node.flag("is_packed_batching") {
        return unsupported("the attribute `is_packed_batching`");
    }
    let (x, positions) = (node.input(0)?, node.input(1)?);
    let caches = [node.input(2)?, node.input(3)?];
    let sequence_at = if x.rank() == 4 { 2 } else { 1 };
    let Some(sequence) = x.shape.get(sequence_at).cloned() else {
        return invalid(format!("a tensor of rank {} is rotated", x.rank()));
    };
    let positions = match positions.rank() {
        2 => positions.clone(),
        _ => consecutive(cx, positions, &sequence)?,
    };
    require_rows(cx, caches[0], &positions)?;
    let angles = Angles::at(cx, caches, &positions, node.flag("interleaved"))?;
    let heads = match (node.int_or("num_heads", 0), x.shape.get(2).and_then(Dim::as_constant)) {
        (0, Some(hidden)) => {
            let size = angles.half().as_constant().map(|half| half.saturating_mul(2)).filter(|size| *size > 0);
            size.map(|size| hidden / size)
        }
        (count, _) => Some(count),
    };
    apply(cx, node, &angles, heads)
}

/// Counts positions from those of the first elements, a tensor of one element for each batch, or for all.
pub(super) fn consecutive(cx: &mut Context, first: &Tensor, sequence: &Dim) -> Result<Tensor> {
    let wide = cx.cast(first, DataType::I64)?;
    let spread = cx.reshape(&wide, &[first.count(), Dim::constant(1)])?;
    let shape = [first.count(), sequence.clone()];
    cx.map_to(&[&spread], DataType::I64, &shape, |b, x| {
        let index = b.iteration(1);
        let index = b.index_cast(index, Element::I64);
        b.addi(x[0], index)
    })
}
