//! Operators that read elements at positions that are data.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Iterator, Map, Value};

use super::positions::{clamped, index_of, known_position, replaced, within};
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axis, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Gather", 1, |cx, node| {
        let x = node.input(0)?;
        let axis = node.axis("axis", 0, x.rank())?;
        one(gather(cx, x, node.input(1)?, axis)?)
    }),
    onnx("GatherElements", 11, |cx, node| {
        let x = node.input(0)?;
        let axis = node.axis("axis", 0, x.rank())?;
        one(gather_elements(cx, x, node.input(1)?, axis)?)
    }),
    onnx("GatherND", 11, gather_nd_node),
    Row { domain: "com.microsoft", ..onnx("GatherND", 1, gather_nd_node) },
    onnx("ReverseSequence", 10, reverse_sequence),
];

/// Computes each element of a tensor of the element of `indices` at some of its dimensions, and of its position. The body returns an
/// element of type `ty` as it is stored.
pub(super) fn of_indices(
    cx: &mut Context,
    indices: &Tensor,
    dimensions: &[usize],
    (ty, shape): (DataType, &[Dim]),
    body: impl FnOnce(&mut Builder, Value, &[Value]) -> Value,
) -> Result<Tensor> {
    cx.check_shape(ty, shape)?;
    let operand = cx.value(indices)?;
    let extents = cx.extents(shape);
    let empty = cx.b.empty(&extents, ty.element());
    let rank = shape.len();
    let maps = [Map::of(rank, dimensions), Map::identity(rank)];
    let iterators = vec![Iterator::Parallel; rank];
    let result = cx.b.generic_single(&[operand], empty, &maps, &iterators, |b, elements| {
        let positions: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        body(b, elements[0], &positions)
    });
    cx.tensor(result, ty, shape.to_vec())
}

/// Returns an extent of a tensor as the position of an axis wants it.
fn extent_of(x: &Tensor, axis: usize) -> Result<Dim> {
    match x.shape.get(axis) {
        Some(extent) => Ok(extent.clone()),
        None => invalid(format!("the axis {axis} is not one of a tensor of rank {}", x.rank())),
    }
}

/// Reads slices along an axis, which `indices` stands in for.
pub(super) fn gather(cx: &mut Context, x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    let extent = extent_of(x, axis)?;
    cx.require_positions(indices, &extent, Accepted::BothEnds, "`indices`")?;
    gather_valid(cx, x, indices, axis)
}

/// [`gather`] with indices that are within the extent.
pub(super) fn gather_valid(cx: &mut Context, x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    let extent = extent_of(x, axis)?;
    let shape = replaced(&x.shape, axis, &indices.shape);
    if let Some(known) = gather_known(cx, x, indices, axis, &shape)? {
        return Ok(known);
    }
    cx.require_elements(&extent, &indices.count(), "the dimension of a gather")?;
    let value = cx.value(x)?;
    let extent = cx.index(&extent);
    let rank = indices.rank();
    let dimensions: Vec<usize> = (axis..axis + rank).collect();
    let is_unsigned = indices.ty.is_unsigned();
    of_indices(cx, indices, &dimensions, (x.ty, &shape), |b, element, positions| {
        let position = index_of(b, element, is_unsigned);
        let position = within(b, position, extent);
        let mut at: Vec<Value> = positions.iter().take(axis).copied().collect();
        at.push(position);
        at.extend(positions.iter().skip(axis + rank));
        b.extract(value, &at)
    })
}

/// Reads at known positions: known elements, or slices if the positions are evenly spaced.
fn gather_known(cx: &mut Context, x: &Tensor, indices: &Tensor, axis: usize, shape: &[Dim]) -> Result<Option<Tensor>> {
    let Some(elements) = cx.elements(indices)? else { return Ok(None) };
    let rank = indices.rank();
    if let (Some(extent), Some(own)) = (x.shape.get(axis).and_then(Dim::as_constant), indices.static_shape()) {
        let source = |position: &[i64]| {
            let chosen = position.get(axis..axis + rank)?;
            let flat = chosen.iter().zip(&own).fold(0, |flat, (index, extent)| flat * extent + index);
            let chosen = known_position(elements.get(usize::try_from(flat).ok()?)?, extent)?;
            let before = position.iter().take(axis).copied();
            let behind = position.iter().skip(axis + rank).copied();
            Some(before.chain([chosen]).chain(behind).collect())
        };
        if let Some(known) = cx.rearranged(x, shape, source)? {
            return Ok(Some(known));
        }
    }
    let Some(extent) = x.shape.get(axis).cloned() else { return Ok(None) };
    let Some(length) = extent.as_constant() else { return gather_one(cx, x, &elements, axis, shape) };
    let positions: Option<Vec<i64>> = elements.iter().map(|element| known_position(element, length)).collect();
    let Some(positions) = positions else { return Ok(None) };
    let [first, rest @ ..] = &*positions else { return Ok(None) };
    let step = rest.first().map_or(1, |second| second - first);
    let is_even = step > 0 && positions.windows(2).all(|pair| pair[1] - pair[0] == step);
    if !is_even {
        return Ok(None);
    }
    let mut offsets = vec![Dim::constant(0); x.rank()];
    let mut counts = x.shape.clone();
    let mut steps = vec![1; x.rank()];
    let length = i64::try_from(positions.len()).unwrap_or(i64::MAX);
    if let (Some(offset), Some(count), Some(slot)) = (offsets.get_mut(axis), counts.get_mut(axis), steps.get_mut(axis))
    {
        (*offset, *count, *slot) = (Dim::constant(*first), Dim::constant(length), step);
    }
    let sliced = cx.slice(x, &offsets, &counts, &steps)?;
    cx.reshape(&sliced, shape).map(Some)
}

/// Reads a slice at one known position of a dimension whose extent is not known; `None` for several positions.
fn gather_one(cx: &mut Context, x: &Tensor, elements: &[Scalar], axis: usize, shape: &[Dim]) -> Result<Option<Tensor>> {
    let ([element], Some(extent)) = (elements, x.shape.get(axis)) else { return Ok(None) };
    let Some(position) = element.as_int().and_then(Dim::as_constant) else { return Ok(None) };
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    let position = Dim::constant(position);
    let offset = if position.is_nonnegative() {
        position.at_most(&extent.minus(&one)).at_least(&zero)
    } else {
        extent.plus(&position).at_least(&zero)
    };
    let sliced = cx.slice_axis(x, axis, &offset, &one)?;
    cx.reshape(&sliced, shape).map(Some)
}

/// Reads an element for each of `indices`, at the same position but along an axis.
fn gather_elements(cx: &mut Context, x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    let extent = extent_of(x, axis)?;
    cx.require_positions(indices, &extent, Accepted::BothEnds, "`indices`")?;
    if indices.rank() != x.rank() {
        return invalid("the positions have another rank than the tensor");
    }
    let limits = covered(cx, &x.shape, &indices.shape, axis)?;
    if let (Some(elements), Some(own), Some(extent)) =
        (cx.elements(indices)?, indices.static_shape(), extent.as_constant())
    {
        let source = |position: &[i64]| {
            let flat = position.iter().zip(&own).fold(0, |flat, (index, extent)| flat * extent + index);
            let mut at = position.to_vec();
            *at.get_mut(axis)? = known_position(elements.get(usize::try_from(flat).ok()?)?, extent)?;
            Some(at)
        };
        if let Some(known) = cx.rearranged(x, &indices.shape, source)? {
            return Ok(known);
        }
    }
    cx.require_elements(&x.count(), &indices.count(), "the tensor of a gather")?;
    let value = cx.value(x)?;
    let extent = cx.index(&extent);
    let dimensions: Vec<usize> = (0..x.rank()).collect();
    let is_unsigned = indices.ty.is_unsigned();
    of_indices(cx, indices, &dimensions, (x.ty, &indices.shape.clone()), |b, element, positions| {
        let mut at = bounded(b, positions, &limits);
        let position = index_of(b, element, is_unsigned);
        let position = within(b, position, extent);
        if let Some(slot) = at.get_mut(axis) {
            *slot = position;
        }
        b.extract(value, &at)
    })
}

/// Returns the extents that positions of `inner` may be beyond, but along an axis; an error if some are.
pub(super) fn covered(cx: &mut Context, outer: &[Dim], inner: &[Dim], axis: usize) -> Result<Vec<Option<Value>>> {
    let mut limits = Vec::new();
    for (index, (outer, inner)) in outer.iter().zip(inner).enumerate() {
        let difference = outer.minus(inner);
        limits.push(match difference.as_constant() {
            _ if index == axis || difference.is_nonnegative() => None,
            Some(value) if value < 0 => {
                return invalid(format!(
                    "the positions have the extent {} along the dimension {index}, and the tensor {}",
                    cx.text(inner),
                    cx.text(outer)
                ));
            }
            _ => Some(cx.index(outer)),
        });
    }
    Ok(limits)
}

/// Clamps positions to the extents that [`covered`] has returned.
pub(super) fn bounded(b: &mut Builder, positions: &[Value], limits: &[Option<Value>]) -> Vec<Value> {
    let pairs = positions.iter().zip(limits);
    pairs.map(|(position, limit)| limit.map_or(*position, |limit| clamped(b, *position, limit))).collect()
}

fn gather_nd_node(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let batches = match usize::try_from(node.int_or("batch_dims", 0)) {
        Ok(batches) if batches < indices.rank() && batches <= x.rank() => batches,
        _ => return invalid("`batch_dims` is not within the ranks"),
    };
    one(gather_nd(cx, x, indices, batches)?)
}

/// Returns how many dimensions the tuples of the last dimension of `indices` name.
pub(super) fn depth(indices: &Tensor, rank: usize) -> Result<usize> {
    let last = indices.shape.last().and_then(Dim::as_constant).and_then(|depth| usize::try_from(depth).ok());
    match last {
        Some(depth) if depth <= rank => Ok(depth),
        Some(depth) => invalid(format!("positions of {depth} dimensions in {rank}")),
        None => unsupported("it is not known how many dimensions a position has"),
    }
}

/// Reads slices at tuples of positions.
fn gather_nd(cx: &mut Context, x: &Tensor, indices: &Tensor, batches: usize) -> Result<Tensor> {
    let depth = depth(indices, x.rank() - batches)?;
    let outer = indices.rank() - 1;
    for (own, other) in x.shape.iter().zip(&indices.shape).take(batches) {
        cx.require_equal(own, other, "a batch dimension of the positions")?;
    }
    let mut shape: Vec<Dim> = indices.shape.iter().take(outer).cloned().collect();
    shape.extend(x.shape.iter().skip(batches + depth).cloned());
    let named: Vec<Dim> = x.shape.iter().skip(batches).take(depth).cloned().collect();
    cx.require_tuples(indices, &named, Accepted::BothEnds, "`indices`")?;
    if let (Some(elements), Some(own)) = (cx.elements(indices)?, indices.static_shape()) {
        let extents: Option<Vec<i64>> = named.iter().map(Dim::as_constant).collect();
        if let Some(extents) = extents {
            let source = |position: &[i64]| {
                let flat =
                    position.iter().zip(own.iter().take(outer)).fold(0, |flat, (index, extent)| flat * extent + index);
                let first = usize::try_from(flat).ok()? * depth;
                let mut at: Vec<i64> = position.iter().take(batches).copied().collect();
                for (element, extent) in elements.get(first..first + depth)?.iter().zip(&extents) {
                    at.push(known_position(element, *extent)?);
                }
                at.extend(position.iter().skip(outer));
                Some(at)
            };
            if let Some(known) = cx.rearranged(x, &shape, source)? {
                return Ok(known);
            }
        }
    }
    cx.require_elements(&Dim::product(&named), &indices.count(), "the tensor of a gather")?;
    let (value, operand) = (cx.value(x)?, cx.value(indices)?);
    let extents: Vec<Value> = named.iter().map(|dim| cx.index(dim)).collect();
    let is_unsigned = indices.ty.is_unsigned();
    let empty_extents = cx.extents(&shape);
    cx.check_shape(x.ty, &shape)?;
    let empty = cx.b.empty(&empty_extents, x.ty.element());
    let rank = shape.len();
    let iterators = vec![Iterator::Parallel; rank];
    let result = cx.b.generic_single(&[], empty, &[Map::identity(rank)], &iterators, |b, _| {
        let positions: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        let mut at: Vec<Value> = positions.iter().take(batches).copied().collect();
        for (dimension, extent) in extents.iter().enumerate() {
            let mut tuple: Vec<Value> = positions.iter().take(outer).copied().collect();
            tuple.push(b.index(i64::try_from(dimension).unwrap_or(0)));
            let element = b.extract(operand, &tuple);
            let position = index_of(b, element, is_unsigned);
            at.push(within(b, position, *extent));
        }
        at.extend(positions.iter().skip(outer));
        b.extract(value, &at)
    });
    cx.tensor(result, x.ty, shape)
}

/// Reverses the first elements of each sequence of a batch.
fn reverse_sequence(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, lengths) = (node.input(0)?, node.input(1)?);
    let batch = axis(node.int_or("batch_axis", 1), x.rank())?;
    let time = axis(node.int_or("time_axis", 0), x.rank())?;
    if lengths.rank() != 1 || batch == time {
        return invalid("the lengths are no vector for an axis of their own");
    }
    if let (Some(extent), Some(length)) = (x.shape.get(batch), lengths.shape.first()) {
        cx.require_equal(extent, length, "the number of lengths")?;
    }
    let extent = extent_of(x, time)?;
    cx.require_positions(lengths, &extent.plus(&Dim::constant(1)), Accepted::Start, "`sequence_lens`")?;
    let value = cx.value(x)?;
    let extent = cx.index(&extent);
    let is_unsigned = lengths.ty.is_unsigned();
    one(of_indices(cx, lengths, &[batch], (x.ty, &x.shape.clone()), |b, length, positions| {
        let mut at = positions.to_vec();
        let length = index_of(b, length, is_unsigned);
        let length = b.minsi(length, extent);
        if let Some(slot) = at.get_mut(time) {
            let one = b.index(1);
            let last = b.subi(length, one);
            let reversed = b.subi(last, *slot);
            let is_within = b.cmpi(incarnate_mlir::IntPredicate::SignedLess, *slot, length);
            *slot = b.select(is_within, reversed, *slot);
        }
        b.extract(value, &at)
    })?)
}
