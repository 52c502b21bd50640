//! Operators that take ranges out of tensors.

use incarnate_bytecode::Result;
use incarnate_mlir::{IntPredicate, Value};

use super::positions::counted;
use super::{Row, onnx};
use crate::context::Context;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axes, axis, invalid, one, unsupported};
use crate::tensor::{Item, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Slice", 1, |cx, node| {
        let (Some(starts), Some(ends)) = (node.ints("starts"), node.ints("ends")) else {
            return invalid("there are no attributes `starts` and `ends`");
        };
        let axes = match node.ints("axes") {
            Some(axes) => axes.to_vec(),
            None => (0..).take(starts.len()).collect(),
        };
        one(slice(cx, node.input(0)?, &dims(starts), &dims(ends), &axes, &vec![1; starts.len()])?)
    }),
    onnx("Slice", 10, |cx, node| {
        let x = node.input(0)?;
        let (starts, ends) = (cx.integers(node.input(1)?)?, cx.integers(node.input(2)?)?);
        let axes = match node.optional(3)? {
            Some(axes) => cx.integers(axes)?,
            None => dims(&(0..).take(starts.len()).collect::<Vec<_>>()),
        };
        let steps = match node.optional(4)? {
            Some(steps) => cx.integers(steps)?,
            None => vec![Dim::constant(1); starts.len()],
        };
        match (constants(&axes), constants(&steps)) {
            (Some(axes), Some(steps)) => one(slice(cx, x, &starts, &ends, &axes, &steps)?),
            _ => one(slice_by_data(cx, x, [&starts, &ends, &axes, &steps])?),
        }
    }),
    onnx("Split", 1, |cx, node| {
        let lengths = match node.optional(1)? {
            Some(split) => Some(cx.integers(split)?),
            None => node.ints("split").map(dims),
        };
        split(cx, node, lengths)
    }),
    onnx("Split", 2, |cx, node| split(cx, node, node.ints("split").map(dims))),
    onnx("Split", 13, |cx, node| {
        let lengths = node.optional(1)?.map(|split| cx.integers(split)).transpose()?;
        split(cx, node, lengths)
    }),
];

/// Positions from this on are the end of a dimension, whatever its extent.
const END: i64 = i32::MAX as i64;

fn dims(list: &[i64]) -> Vec<Dim> {
    list.iter().copied().map(Dim::constant).collect()
}

fn constants(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(Dim::as_constant).collect()
}

/// Returns a position of a slice, counted from the end if it is negative; `None` for the end.
fn position_in(cx: &mut Context, position: &Dim, extent: &Dim) -> Option<Dim> {
    match position.as_constant() {
        Some(value) if value >= END => None,
        Some(value) if value < 0 => Some(position.plus(extent)),
        Some(_) => Some(position.clone()),
        None if position.is_nonnegative() => Some(position.clone()),
        None => {
            let (position, extent) = (cx.index(position), cx.index(extent));
            let counted = counted(&mut cx.b, position, extent);
            Some(cx.integer("?", counted))
        }
    }
}

/// Where the elements of a slice are along a dimension.
struct Cut {
    first: Dim,
    count: Dim,
    step: i64,
}

/// Clamps a slice to a dimension, as NumPy does.
fn cut(cx: &mut Context, start: &Dim, end: &Dim, extent: &Dim, step: i64) -> Result<Cut> {
    let (zero, unit) = (Dim::constant(0), Dim::constant(1));
    let last = extent.minus(&unit);
    let stride = Dim::constant(step.saturating_abs());
    if step == 0 {
        return invalid("a step is 0");
    }
    if step > 0 {
        let (from, to) = (position_in(cx, start, extent), position_in(cx, end, extent));
        let first = from.as_ref().map_or(extent.clone(), |from| from.at_least(&zero).at_most(extent));
        // The two forms of what is left behind the start are equal; this one is equal to the length of other slices.
        let length = match (&from, to) {
            (Some(from), None) => extent.minus(&from.at_least(&zero)).at_least(&zero),
            (_, to) => to.map_or(extent.clone(), |to| to.at_least(&zero).at_most(extent)).minus(&first).at_least(&zero),
        };
        let count = length.ceil_div(&stride);
        let first = if count.is(0) { zero } else { first };
        return Ok(Cut { first, count, step });
    }
    let first = position_in(cx, start, extent).map_or(last.clone(), |from| from.at_least(&zero).at_most(&last));
    let minus = Dim::constant(-1);
    let end = match end.as_constant() {
        Some(value) if value <= -END => minus,
        _ => position_in(cx, end, extent).map_or(last.clone(), |to| to.at_least(&minus).at_most(&last)),
    };
    let count = first.minus(&end).at_least(&zero).ceil_div(&stride);
    let first = if count.is(0) { zero } else { first };
    Ok(Cut { first, count, step })
}

fn slice(cx: &mut Context, x: &Tensor, starts: &[Dim], ends: &[Dim], list: &[i64], steps: &[i64]) -> Result<Tensor> {
    let axes = axes(list, x.rank())?;
    if starts.len() != axes.len() || ends.len() != axes.len() || steps.len() != axes.len() {
        return invalid("starts, ends, axes and steps are not equally long");
    }
    let mut cuts: Vec<Cut> =
        x.shape.iter().map(|extent| Cut { first: Dim::constant(0), count: extent.clone(), step: 1 }).collect();
    for ((index, step), (start, end)) in axes.iter().zip(steps).zip(starts.iter().zip(ends)) {
        let (Some(extent), Some(slot)) = (x.shape.get(*index), cuts.get_mut(*index)) else { continue };
        *slot = cut(cx, start, end, extent, *step)?;
    }
    let counts: Vec<Dim> = cuts.iter().map(|cut| cut.count.clone()).collect();
    let is_whole = cuts.iter().all(|cut| cut.first.is(0) && (cut.step == 1 || cut.count.is(1)));
    if is_whole && counts == x.shape {
        return Ok(x.clone());
    }
    if cuts.iter().all(|cut| cut.step > 0) {
        let offsets: Vec<Dim> = cuts.iter().map(|cut| cut.first.clone()).collect();
        let steps: Vec<i64> = cuts.iter().map(|cut| cut.step).collect();
        return cx.slice(x, &offsets, &counts, &steps);
    }
    let source = |position: &[i64]| {
        let pairs = position.iter().zip(&cuts);
        pairs.map(|(index, cut)| Some(cut.first.as_constant()? + index.checked_mul(cut.step)?)).collect()
    };
    if let Some(known) = cx.rearranged(x, &counts, source)? {
        return Ok(known);
    }
    let mut values = Vec::new();
    for cut in &cuts {
        let is_plain = cut.first.is(0) && cut.step == 1;
        values.push(if is_plain { None } else { Some((cx.index(&cut.first), cx.b.index(cut.step))) });
    }
    strided(cx, x, &counts, &values)
}

/// Reads elements from first positions on, at distances of any sign; `None` for whole dimensions.
fn strided(cx: &mut Context, x: &Tensor, counts: &[Dim], cuts: &[Option<(Value, Value)>]) -> Result<Tensor> {
    let value = cx.value(x)?;
    cx.generate(counts, x.ty, |b, positions| {
        let mut at = Vec::new();
        for (position, cut) in positions.iter().zip(cuts) {
            at.push(match cut {
                None => *position,
                Some((first, step)) => {
                    let distance = b.muli(*position, *step);
                    b.addi(*first, distance)
                }
            });
        }
        b.extract(value, &at)
    })
}

/// Slices where axes or steps are data: each dimension has a start, an end and a step.
fn slice_by_data(cx: &mut Context, x: &Tensor, lists: [&[Dim]; 4]) -> Result<Tensor> {
    let [starts, ends, axes, steps] = lists;
    if lists.iter().any(|list| list.len() != starts.len()) {
        return invalid("starts, ends, axes and steps are not equally long");
    }
    let rank = i64::try_from(x.rank()).unwrap_or(i64::MAX);
    let (mut counts, mut cuts) = (Vec::new(), Vec::new());
    for (dimension, extent) in (0_i64..).zip(&x.shape) {
        let length = cx.index(extent);
        let (zero, one) = (cx.b.index(0), cx.b.index(1));
        let (mut start, mut end, mut step) = (zero, length, one);
        for (index, axis) in axes.iter().enumerate() {
            let (Some(new_start), Some(new_end), Some(new_step)) =
                (starts.get(index), ends.get(index), steps.get(index))
            else {
                continue;
            };
            let is_here = is_axis(cx, axis, dimension, rank);
            let new = [new_start, new_end, new_step].map(|dim| cx.index(dim));
            start = cx.b.select(is_here, new[0], start);
            end = cx.b.select(is_here, new[1], end);
            step = cx.b.select(is_here, new[2], step);
        }
        let (first, count) = cut_by_data(cx, start, end, step, length);
        counts.push(cx.symbol("?", count));
        cuts.push(Some((first, step)));
    }
    strided(cx, x, &counts, &cuts)
}

/// Compares an axis, which is negative if it counts from the end, with a dimension.
pub(super) fn is_axis(cx: &mut Context, axis: &Dim, dimension: i64, rank: i64) -> Value {
    let axis = cx.index(axis);
    let (here, from_end) = (cx.b.index(dimension), cx.b.index(dimension - rank));
    let is_here = cx.b.cmpi(IntPredicate::Equal, axis, here);
    let is_from_end = cx.b.cmpi(IntPredicate::Equal, axis, from_end);
    cx.b.ori(is_here, is_from_end)
}

/// Returns the first position and the number of elements of a slice whose bounds and step are values.
fn cut_by_data(cx: &mut Context, start: Value, end: Value, step: Value, extent: Value) -> (Value, Value) {
    let zero = cx.b.index(0);
    let is_step = cx.b.cmpi(IntPredicate::NotEqual, step, zero);
    cx.assert(is_step, "a step of a slice is 0");
    let b = &mut cx.b;
    let (one, minus) = (b.index(1), b.index(-1));
    let is_forward = b.cmpi(IntPredicate::SignedGreater, step, zero);
    let last = b.subi(extent, one);
    let high = b.select(is_forward, extent, last);
    let low = b.select(is_forward, zero, minus);
    let (start, end) = (counted(b, start, extent), counted(b, end, extent));
    let start = b.maxsi(start, zero);
    let start = b.minsi(start, high);
    let end = b.maxsi(end, low);
    let end = b.minsi(end, high);
    let (up, down) = (b.subi(end, start), b.subi(start, end));
    let length = b.select(is_forward, up, down);
    let negated = b.subi(zero, step);
    let stride = b.maxsi(step, negated);
    let stride = b.maxsi(stride, one);
    let before = b.subi(length, one);
    let before = b.maxsi(before, zero);
    let steps = b.divsi(before, stride);
    let count = b.addi(steps, one);
    let is_empty = b.cmpi(IntPredicate::SignedLessEqual, length, zero);
    let count = b.select(is_empty, zero, count);
    (start, count)
}

/// Returns the lengths of parts that are equal, but for the last, which may be shorter.
pub(super) fn equal_lengths(extent: &Dim, parts: i64) -> Vec<Dim> {
    /// More parts than a model has.
    const PARTS: i64 = 1 << 16;
    let parts = parts.clamp(1, PARTS);
    if let Some(exact) = extent.exact_quotient(&Dim::constant(parts)) {
        return (0..parts).map(|_| exact.clone()).collect();
    }
    let length = extent.ceil_div(&Dim::constant(parts));
    let zero = Dim::constant(0);
    let left = |part: i64| extent.minus(&length.times(&Dim::constant(part))).at_least(&zero);
    (0..parts).map(|part| if part == 0 { length.clone() } else { left(part).at_most(&length) }).collect()
}

fn split(cx: &mut Context, node: &Node<'_>, lengths: Option<Vec<Dim>>) -> Result<Outputs> {
    let x = node.input(0)?;
    let axis = axis(node.int_or("axis", 0), x.rank())?;
    let parts = i64::try_from(node.output_count()).unwrap_or(1);
    let parts = node.int_or("num_outputs", parts);
    Ok(split_tensor(cx, x, axis, lengths, parts)?.into_iter().map(Item::Tensor).collect())
}

/// Splits a tensor along an axis, into parts of given lengths or into a number of equal ones.
pub(super) fn split_tensor(
    cx: &mut Context,
    x: &Tensor,
    axis: usize,
    lengths: Option<Vec<Dim>>,
    parts: i64,
) -> Result<Vec<Tensor>> {
    let Some(extent) = x.shape.get(axis).cloned() else { return unsupported("a scalar cannot be split") };
    let is_given = lengths.is_some();
    let lengths = match lengths {
        Some(lengths) => {
            lengths.iter().map(|length| cx.nonnegative(length, "a length of a split")).collect::<Result<Vec<_>>>()?
        }
        None => equal_lengths(&extent, parts),
    };
    if is_given {
        cx.require_equal(&Dim::sum(&lengths), &extent, "the sum of the split's lengths")?;
    }
    let mut offset = Dim::constant(0);
    let mut tensors = Vec::new();
    for length in &lengths {
        let start = if is_given { offset.clone() } else { offset.at_most(&extent) };
        let start = if length.is(0) { Dim::constant(0) } else { start };
        tensors.push(cx.slice_axis(x, axis, &start, length)?);
        offset = offset.plus(length);
    }
    Ok(tensors)
}

#[cfg(test)]
#[allow(clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn lengths(extent: i64, parts: i64) -> Vec<i64> {
        equal_lengths(&Dim::constant(extent), parts).iter().filter_map(Dim::as_constant).collect()
    }

    #[test]
    fn equal_parts_cover_the_extent() {
        assert_eq!(lengths(7, 4), [2, 2, 2, 1]);
        assert_eq!(lengths(5, 4), [2, 2, 1, 0]);
        assert_eq!(lengths(6, 3), [2, 2, 2]);
        let n = Dim::symbol(0);
        assert_eq!(equal_lengths(&n.times(&Dim::constant(2)), 2), [n.clone(), n]);
    }

    #[test]
    fn slices_are_clamped_as_numpy_does() {
        let mut cx = Context::new();
        let mut cut = |start, end, extent, step| {
            let dim = Dim::constant;
            let cut =
                cut(&mut cx, &dim(start), &dim(end), &dim(extent), step).unwrap_or_else(|error| panic!("{error}"));
            (cut.first.as_constant(), cut.count.as_constant())
        };
        assert_eq!(cut(1, 3, 5, 1), (Some(1), Some(2)));
        assert_eq!(cut(-3, i64::MAX, 5, 2), (Some(2), Some(2)));
        assert_eq!(cut(0, -1, 5, 1), (Some(0), Some(4)));
        assert_eq!(cut(1000, 1000, 5, 1), (Some(0), Some(0)));
        assert_eq!(cut(-1, i64::MIN, 5, -1), (Some(4), Some(5)));
        assert_eq!(cut(20, 0, 10, -3), (Some(9), Some(3)));
        assert_eq!(cut(-1, -1, 5, -1), (Some(0), Some(0)));
        assert_eq!(cut(-100, -200, 5, -1), (Some(0), Some(1)));
        assert_eq!(cut(i64::MIN, i64::MAX, 5, 1), (Some(0), Some(5)));
    }

    #[test]
    fn lengths_of_shifted_slices_are_equal() {
        let mut cx = Context::new();
        let n = Dim::symbol(0);
        let dim = Dim::constant;
        let tail = cut(&mut cx, &dim(1), &dim(i64::MAX), &n, 1).unwrap_or_else(|error| panic!("{error}"));
        let head = cut(&mut cx, &dim(0), &dim(-1), &n, 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(tail.count, head.count);
    }
}
