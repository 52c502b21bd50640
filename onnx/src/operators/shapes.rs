//! Operators that change shapes and choose elements.

use incarnate_bytecode::Result;

use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axes, axis, invalid, one, unsupported};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Constant", 1, constant),
    onnx("ConstantOfShape", 9, constant_of_shape),
    onnx("Identity", 1, |_, node| match node.inputs.first() {
        Some(Some(item)) => Ok(vec![item.clone()]),
        _ => invalid("there is no input 0"),
    }),
    onnx("Shape", 1, |_, node| {
        let shape = &node.input(0)?.shape;
        one(Tensor::of_integers(range(shape, node.int_or("start", 0), node.int_or("end", i64::MAX))))
    }),
    onnx("Size", 1, |_, node| {
        let count = node.input(0)?.count();
        one(Tensor::of_elements(DataType::I64, Vec::new(), vec![Scalar::Int(count)]))
    }),
    onnx("Reshape", 5, |cx, node| {
        let requested = cx.integers(node.input(1)?)?;
        reshape(cx, node.input(0)?, &requested, node.flag("allowzero"))
    }),
    onnx("Flatten", 1, |cx, node| {
        let x = node.input(0)?;
        let axis = node.int_or("axis", 1);
        let signed = i64::try_from(x.rank()).unwrap_or(i64::MAX);
        let axis = usize::try_from(if axis < 0 { axis + signed } else { axis }).unwrap_or(usize::MAX);
        let (Some(outer), Some(inner)) = (x.shape.get(..axis), x.shape.get(axis..)) else {
            return invalid(format!("the axis {axis} is not one of a tensor of rank {}", x.rank()));
        };
        let shape = [Dim::product(outer), Dim::product(inner)];
        one(cx.reshape(x, &shape)?)
    }),
    onnx("Transpose", 1, |cx, node| {
        let x = node.input(0)?;
        let permutation = match node.ints("perm") {
            Some(permutation) => axes(permutation, x.rank())?,
            None => (0..x.rank()).rev().collect(),
        };
        one(cx.transpose(x, &permutation)?)
    }),
    onnx("Unsqueeze", 1, |cx, node| unsqueeze(cx, node.input(0)?, node.ints("axes").unwrap_or_default())),
    onnx("Unsqueeze", 13, |cx, node| {
        let axes = cx.constant_integers(node.input(1)?, "axes")?;
        unsqueeze(cx, node.input(0)?, &axes)
    }),
    onnx("Squeeze", 1, |cx, node| squeeze(cx, node.input(0)?, node.ints("axes"))),
    onnx("Squeeze", 13, |cx, node| {
        let axes = node.optional(1)?.map(|axes| cx.constant_integers(axes, "axes")).transpose()?;
        squeeze(cx, node.input(0)?, axes.as_deref())
    }),
    onnx("Concat", 1, |cx, node| {
        let inputs = node.all_inputs()?;
        let rank = inputs.first().map_or(0, |first| first.rank());
        let axis = node.axis("axis", 1, rank)?;
        one(cx.concat(&inputs, axis)?)
    }),
    onnx("Expand", 8, |cx, node| {
        let x = node.input(0)?;
        let requested = cx.integers(node.input(1)?)?;
        let shape = cx.broadcast(&[&x.shape, &requested])?;
        one(cx.broadcast_to(x, &shape)?)
    }),
    onnx("Slice", 1, |cx, node| {
        let (Some(starts), Some(ends)) = (node.ints("starts"), node.ints("ends")) else {
            return invalid("there are no attributes `starts` and `ends`");
        };
        let dims = |list: &[i64]| list.iter().copied().map(Dim::constant).collect::<Vec<_>>();
        let x = node.input(0)?;
        let axes = match node.ints("axes") {
            Some(axes) => axes.to_vec(),
            None => (0..).take(starts.len()).collect(),
        };
        one(slice(cx, x, &dims(starts), &dims(ends), &axes, &vec![1; starts.len()])?)
    }),
    onnx("Slice", 10, |cx, node| {
        let x = node.input(0)?;
        let (starts, ends) = (cx.integers(node.input(1)?)?, cx.integers(node.input(2)?)?);
        let axes = match node.optional(3)? {
            Some(axes) => cx.constant_integers(axes, "axes")?,
            None => (0..).take(starts.len()).collect(),
        };
        let steps = match node.optional(4)? {
            Some(steps) => cx.constant_integers(steps, "steps")?,
            None => vec![1; starts.len()],
        };
        one(slice(cx, x, &starts, &ends, &axes, &steps)?)
    }),
    onnx("Split", 2, |cx, node| {
        let lengths = node.ints("split").map(|split| split.iter().copied().map(Dim::constant).collect());
        split(cx, node, lengths)
    }),
    onnx("Split", 13, |cx, node| {
        let lengths = node.optional(1)?.map(|split| cx.integers(split)).transpose()?;
        split(cx, node, lengths)
    }),
];

/// Returns the extents from `start` to `end`, negative ones counted from the end.
fn range(shape: &[Dim], start: i64, end: i64) -> &[Dim] {
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let bound = |value: i64| {
        let counted = if value < 0 { value.saturating_add(rank) } else { value };
        usize::try_from(counted.clamp(0, rank)).unwrap_or(0)
    };
    shape.get(bound(start)..bound(end)).unwrap_or_default()
}

fn constant(_: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let ints = |values: &[i64], shape: Vec<Dim>| {
        let elements = values.iter().map(|value| Scalar::Int(Dim::constant(*value))).collect();
        one(Tensor::of_elements(DataType::I64, shape, elements))
    };
    let floats = |values: &[f32], shape: Vec<Dim>| {
        let elements = values.iter().map(|value| Scalar::Float(f64::from(*value))).collect();
        one(Tensor::of_elements(DataType::F32, shape, elements))
    };
    let length = |count: usize| vec![Dim::constant(i64::try_from(count).unwrap_or(i64::MAX))];
    if let Some(proto) = node.attribute("value").and_then(|value| value.t.as_ref()) {
        return one(crate::model::embedded(proto, &node.name)?);
    }
    if let Some(value) = node.int("value_int") {
        return ints(&[value], Vec::new());
    }
    if let Some(values) = node.ints("value_ints") {
        return ints(values, length(values.len()));
    }
    if let Some(value) = node.attribute("value_float") {
        return floats(&[value.f], Vec::new());
    }
    if let Some(values) = node.floats("value_floats") {
        return floats(values, length(values.len()));
    }
    unsupported("a constant of strings, or a sparse one")
}

fn constant_of_shape(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let shape = cx.integers(node.input(0)?)?;
    let (ty, scalar) = match node.attribute("value").and_then(|value| value.t.as_ref()) {
        None => (DataType::F32, Scalar::Float(0.0)),
        Some(proto) => {
            let tensor = crate::model::embedded(proto, &node.name)?;
            match cx.elements(&tensor)?.as_deref().map(Vec::as_slice) {
                Some([only]) => (tensor.ty, only.clone()),
                _ => return invalid("the attribute `value` has not one element"),
            }
        }
    };
    one(cx.splat(&scalar, ty, &shape)?)
}

/// Resolves the requested shape: 0 copies an extent, and one -1 takes what is left.
fn reshape(cx: &mut Context, x: &Tensor, requested: &[Dim], keeps_zero: bool) -> Result<Outputs> {
    let mut shape = Vec::new();
    let mut inferred = None;
    for (index, dim) in requested.iter().enumerate() {
        match dim.as_constant() {
            Some(0) if !keeps_zero => match x.shape.get(index) {
                Some(copied) => shape.push(copied.clone()),
                None => return invalid(format!("the extent {index} is copied from a tensor of rank {}", x.rank())),
            },
            Some(-1) if inferred.replace(index).is_some() => return invalid("two extents are -1"),
            Some(-1) => shape.push(Dim::constant(1)),
            _ => shape.push(dim.clone()),
        }
    }
    if let Some(slot) = inferred.and_then(|index| shape.get_mut(index).map(|_| index)) {
        let known = Dim::product(&shape);
        let rest = if known.is(0) { Dim::constant(0) } else { x.count().floor_div(&known) };
        if let Some(extent) = shape.get_mut(slot) {
            *extent = rest;
        }
    }
    one(cx.reshape(x, &shape)?)
}

fn unsqueeze(cx: &mut Context, x: &Tensor, list: &[i64]) -> Result<Outputs> {
    let axes = axes(list, x.rank() + list.len())?;
    one(cx.unsqueeze(x, &axes)?)
}

fn squeeze(cx: &mut Context, x: &Tensor, list: Option<&[i64]>) -> Result<Outputs> {
    let axes = match list {
        Some(list) => axes(list, x.rank())?,
        None if x.static_shape().is_none() => return unsupported("all extents of 1 are removed, and not all are known"),
        None => (0..x.rank()).filter(|index| x.shape.get(*index).is_some_and(|dim| dim.is(1))).collect(),
    };
    one(cx.squeeze(x, &axes)?)
}

/// Clamps a position of a slice as NumPy does: negative ones count from the end.
fn clamped(position: &Dim, extent: &Dim, low: i64, high: &Dim) -> Result<Dim> {
    let counted = match position.as_constant() {
        Some(value) if value < 0 => position.plus(extent),
        Some(_) => position.clone(),
        // An expression of extents with a negative constant part alone, as in `n - 1`, is not negative.
        None => position.clone(),
    };
    Ok(counted.at_least(&Dim::constant(low)).at_most(high))
}

fn slice(
    cx: &mut Context,
    x: &Tensor,
    starts: &[Dim],
    ends: &[Dim],
    list: &[i64],
    steps: &[i64],
) -> Result<Tensor> {
    let axes = axes(list, x.rank())?;
    if starts.len() != axes.len() || ends.len() != axes.len() || steps.len() != axes.len() {
        return invalid("starts, ends, axes and steps are not equally long");
    }
    let mut offsets = vec![Dim::constant(0); x.rank()];
    let mut counts = x.shape.clone();
    let mut strides = vec![1; x.rank()];
    let mut reversed = Vec::new();
    for (position, index) in axes.iter().enumerate() {
        let (Some(start), Some(end), Some(step)) = (starts.get(position), ends.get(position), steps.get(position)) else {
            continue;
        };
        let Some(extent) = x.shape.get(*index).cloned() else { continue };
        let one = Dim::constant(1);
        let last = extent.minus(&one);
        let (offset, count) = match *step {
            0 => return invalid("a step is 0"),
            1.. => {
                let (start, end) = (clamped(start, &extent, 0, &extent)?, clamped(end, &extent, 0, &extent)?);
                let length = end.minus(&start).at_least(&Dim::constant(0));
                (start, length.ceil_div(&Dim::constant(*step)))
            }
            _ => {
                let start = clamped(start, &extent, 0, &last)?;
                let end = clamped(end, &extent, -1, &last)?;
                let step = Dim::constant(step.saturating_neg());
                let count = start.minus(&end).at_least(&Dim::constant(0)).ceil_div(&step);
                reversed.push(*index);
                // The elements in ascending order; they are reversed below.
                let first = start.minus(&count.minus(&one).times(&step));
                (first.at_least(&Dim::constant(0)), count)
            }
        };
        if let (Some(slot), Some(size), Some(stride)) =
            (offsets.get_mut(*index), counts.get_mut(*index), strides.get_mut(*index))
        {
            (*slot, *size, *stride) = (offset, count, step.saturating_abs());
        }
    }
    if offsets.iter().all(|offset| offset.is(0)) && counts == x.shape && reversed.is_empty() {
        return Ok(x.clone());
    }
    let sliced = cx.slice(x, &offsets, &counts, &strides)?;
    if reversed.is_empty() { Ok(sliced) } else { cx.reverse(&sliced, &reversed) }
}

fn split(cx: &mut Context, node: &Node<'_>, lengths: Option<Vec<Dim>>) -> Result<Outputs> {
    let x = node.input(0)?;
    let axis = axis(node.int_or("axis", 0), x.rank())?;
    let Some(extent) = x.shape.get(axis).cloned() else { return invalid("there is no such axis") };
    let lengths = match lengths {
        Some(lengths) => lengths,
        None => {
            let parts = i64::try_from(node.output_count()).unwrap_or(1);
            let parts = node.int_or("num_outputs", parts).max(1);
            let length = extent.ceil_div(&Dim::constant(parts));
            let last = extent.minus(&length.times(&Dim::constant(parts - 1)));
            let mut lengths = vec![length; usize::try_from(parts - 1).unwrap_or(0).min(1 << 16)];
            lengths.push(last);
            lengths
        }
    };
    cx.require_equal(&Dim::sum(&lengths), &extent, "the sum of the split's lengths")?;
    let mut offset = Dim::constant(0);
    let mut outputs = Vec::new();
    for length in &lengths {
        outputs.push(Item::Tensor(cx.slice_axis(x, axis, &offset, length)?));
        offset = offset.plus(length);
    }
    Ok(outputs)
}
