//! Operators that write elements at positions that are data.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, IntPredicate, Iterator, Map, Value};

use super::gather::{bounded, covered, depth, of_indices};
use super::positions::{clamped, index_of, within};
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::{maximum, minimum};
use crate::node::{Node, Outputs, axis, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("Scatter", 9, scatter_elements),
    onnx("ScatterElements", 11, scatter_elements),
    onnx("ScatterND", 11, scatter_nd),
    onnx("TensorScatter", 24, tensor_scatter),
];

/// How an update and the element before combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    None,
    Add,
    Mul,
    Max,
    Min,
}

impl Reduction {
    fn of(node: &Node<'_>) -> Result<Reduction> {
        match node.text_or("reduction", "none")? {
            "none" => Ok(Reduction::None),
            "add" => Ok(Reduction::Add),
            "mul" => Ok(Reduction::Mul),
            "max" => Ok(Reduction::Max),
            "min" => Ok(Reduction::Min),
            other => unsupported(format!("the reduction `{other}` is not known")),
        }
    }

    fn combine(self, b: &mut Builder, update: Value, before: Value, kind: Kind) -> Value {
        match (self, kind) {
            (Reduction::None, _) => update,
            (Reduction::Add, Kind::Float) => b.addf(before, update),
            (Reduction::Mul, Kind::Float) => b.mulf(before, update),
            (Reduction::Add | Reduction::Max, Kind::Bool) => b.ori(before, update),
            (Reduction::Mul | Reduction::Min, Kind::Bool) => b.andi(before, update),
            (Reduction::Add, _) => b.addi(before, update),
            (Reduction::Mul, _) => b.muli(before, update),
            (Reduction::Max, kind) => maximum(b, before, update, kind),
            (Reduction::Min, kind) => minimum(b, before, update, kind),
        }
    }
}

/// Writes slices of `updates`, of shape `[N, C]`, to rows of `x`, of shape `[M, C]`, one behind the other. `positions` has shape `[N]`.
fn scatter_rows(
    cx: &mut Context,
    x: &Tensor,
    positions: &Tensor,
    updates: &Tensor,
    reduction: Reduction,
) -> Result<Tensor> {
    let ty = x.ty;
    // Sums of narrow floats are rounded once.
    let wide = if reduction == Reduction::None { ty } else { ty.computed() };
    let (into, updates) = (cx.cast(x, wide)?, cx.cast(updates, wide)?);
    let columns = x.shape.get(1).cloned().unwrap_or_else(|| Dim::constant(1));
    let flat = |shape: &[Dim]| if columns.is(1) { shape[..1].to_vec() } else { shape.to_vec() };
    let (into, updates) = (cx.reshape(&into, &flat(&x.shape))?, cx.reshape(&updates, &flat(&updates.shape))?);
    let positions = cx.unsqueeze(positions, &[1])?;
    let (target, source, positions) = (cx.value(&into)?, cx.value(&updates)?, cx.value(&positions)?);
    let kind = ty.kind();
    let scattered =
        cx.b.scatter(source, positions, target, |b, update, before| reduction.combine(b, update, before, kind));
    let scattered = cx.tensor(scattered, wide, into.shape)?;
    let scattered = cx.reshape(&scattered, &x.shape)?;
    cx.cast(&scattered, ty)
}

fn scatter_elements(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let reduction = Reduction::of(node)?;
    let axis = node.axis("axis", 0, x.rank())?;
    if indices.rank() != x.rank() || updates.rank() != x.rank() || updates.ty != x.ty {
        return invalid("the tensor, the positions and the updates have several ranks or types");
    }
    for (own, other) in indices.shape.iter().zip(&updates.shape) {
        cx.require_equal(own, other, "an extent of the updates, and of the positions")?;
    }
    if indices.count().is(0) {
        return one(x.clone());
    }
    let Some(extent) = x.shape.get(axis).cloned() else { return invalid("a tensor without dimensions") };
    cx.require_positions(indices, &extent, Accepted::BothEnds, "`indices`")?;
    let limits = covered(cx, &x.shape, &indices.shape, axis)?;
    cx.require_elements(&x.count(), &indices.count(), "the tensor of a scatter")?;
    let extents: Vec<Value> = x.shape.iter().map(|dim| cx.index(dim)).collect();
    let extent = cx.index(&extent);
    let dimensions: Vec<usize> = (0..x.rank()).collect();
    let is_unsigned = indices.ty.is_unsigned();
    let positions =
        of_indices(cx, indices, &dimensions, (DataType::I64, &indices.shape.clone()), |b, element, own| {
            let mut at = bounded(b, own, &limits);
            let position = index_of(b, element, is_unsigned);
            let position = within(b, position, extent);
            if let Some(slot) = at.get_mut(axis) {
                *slot = position;
            }
            let flat = linear(b, &at, &extents);
            b.index_cast(flat, Element::I64)
        })?;
    let one_column = |count: Dim| [count, Dim::constant(1)];
    let positions = cx.reshape(&positions, &[indices.count()])?;
    let (into, rows) = (cx.reshape(x, &one_column(x.count()))?, cx.reshape(updates, &one_column(indices.count()))?);
    let scattered = scatter_rows(cx, &into, &positions, &rows, reduction)?;
    one(cx.reshape(&scattered, &x.shape)?)
}

/// Returns the number of elements before a position, by rows.
fn linear(b: &mut Builder, at: &[Value], extents: &[Value]) -> Value {
    let mut flat = None;
    for (position, extent) in at.iter().zip(extents) {
        flat = Some(match flat {
            None => *position,
            Some(flat) => {
                let rows = b.muli(flat, *extent);
                b.addi(rows, *position)
            }
        });
    }
    flat.unwrap_or_else(|| b.index(0))
}

fn scatter_nd(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let reduction = Reduction::of(node)?;
    if !indices.ty.is_int() || updates.ty != x.ty || indices.rank() == 0 {
        return invalid("the positions are no integers, or the updates have another type");
    }
    let depth = depth(indices, x.rank())?;
    let outer = indices.rank() - 1;
    let (named, rest) = x.shape.split_at(depth);
    let expected: Vec<Dim> = indices.shape.iter().take(outer).chain(rest).cloned().collect();
    if updates.rank() != expected.len() {
        return invalid(format!(
            "the updates have the shape {}, and {} is expected",
            cx.shape_text(&updates.shape),
            cx.shape_text(&expected)
        ));
    }
    for (own, other) in updates.shape.iter().zip(&expected) {
        cx.require_equal(own, other, "an extent of the updates")?;
    }
    let (count, rows, columns) =
        (Dim::product(indices.shape.iter().take(outer)), Dim::product(named), Dim::product(rest));
    if count.is(0) || columns.is(0) {
        return one(x.clone());
    }
    cx.require_tuples(indices, named, Accepted::BothEnds, "`indices`")?;
    cx.require_elements(&rows, &count, "the tensor of a scatter")?;
    let extents: Vec<Value> = named.iter().map(|dim| cx.index(dim)).collect();
    let tuples = cx.reshape(indices, &[count.clone(), Dim::constant(i64::try_from(depth).unwrap_or(0))])?;
    let operand = cx.value(&tuples)?;
    let is_unsigned = indices.ty.is_unsigned();
    let positions = cx.generate(std::slice::from_ref(&count), DataType::I64, |b, own| {
        let mut at = Vec::new();
        for (dimension, extent) in (0_i64..).zip(&extents) {
            let dimension = b.index(dimension);
            let element = b.extract(operand, &[own[0], dimension]);
            let position = index_of(b, element, is_unsigned);
            at.push(within(b, position, *extent));
        }
        let flat = linear(b, &at, &extents);
        b.index_cast(flat, Element::I64)
    })?;
    let into = cx.reshape(x, &[rows, columns.clone()])?;
    let updates = cx.reshape(updates, &[count, columns])?;
    let scattered = scatter_rows(cx, &into, &positions, &updates, reduction)?;
    one(cx.reshape(&scattered, &x.shape)?)
}

/// Writes the steps of an update into a cache, at the position of each sequence of the batch.
fn tensor_scatter(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (cache, update) = (node.input(0)?, node.input(1)?);
    let rank = cache.rank();
    let axis = axis(node.int_or("axis", -2), rank)?;
    let is_circular = match node.text_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return unsupported(format!("the mode `{other}` is not known")),
    };
    if update.rank() != rank || update.ty != cache.ty || axis == 0 {
        return invalid("the cache and the update have several ranks or types, or the axis is that of the batch");
    }
    for (index, (own, other)) in cache.shape.iter().zip(&update.shape).enumerate() {
        if index != axis {
            cx.require_equal(own, other, "an extent of the update")?;
        }
    }
    let (Some(length), Some(steps)) = (cache.shape.get(axis).cloned(), update.shape.get(axis).cloned()) else {
        return invalid("there is no such axis");
    };
    if steps.is(0) {
        return one(cache.clone());
    }
    cx.require_elements(&steps, &cache.count(), "the update")?;
    if let (Some(firsts), false) = (node.optional(2)?, is_circular) {
        let ends = length.minus(&steps).plus(&Dim::constant(1));
        cx.require_positions(firsts, &ends, Accepted::Start, "`write_indices`")?;
    }
    let firsts = match node.optional(2)? {
        Some(firsts) => Some((cx.value(firsts)?, firsts.ty.is_unsigned())),
        None => None,
    };
    let (old, new) = (cx.value(cache)?, cx.value(update)?);
    let (length, steps) = (cx.index(&length), cx.index(&steps));
    let extents = cx.extents(&cache.shape);
    let empty = cx.b.empty(&extents, cache.ty.element());
    let (mut operands, mut maps) = (vec![old], vec![Map::identity(rank)]);
    if let Some((firsts, _)) = firsts {
        operands.push(firsts);
        maps.push(Map::of(rank, &[0]));
    }
    maps.push(Map::identity(rank));
    let iterators = vec![Iterator::Parallel; rank];
    let result = cx.b.generic_single(&operands, empty, &maps, &iterators, |b, elements| {
        let mut at: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        let first = match firsts {
            Some((_, is_unsigned)) => index_of(b, elements[1], is_unsigned),
            None => b.index(0),
        };
        let mut step = b.subi(at[axis], first);
        let zero = b.index(0);
        if is_circular {
            let rest = b.remsi(step, length);
            let raised = b.addi(rest, length);
            let is_negative = b.cmpi(IntPredicate::SignedLess, rest, zero);
            step = b.select(is_negative, raised, rest);
        }
        let is_behind = b.cmpi(IntPredicate::SignedGreaterEqual, step, zero);
        let is_before = b.cmpi(IntPredicate::SignedLess, step, steps);
        let is_new = b.andi(is_behind, is_before);
        at[axis] = clamped(b, step, steps);
        let update = b.extract(new, &at);
        b.select(is_new, update, elements[0])
    });
    one(cx.tensor(result, cache.ty, cache.shape.clone())?)
}
