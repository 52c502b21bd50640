//! Constants, and operators that change shapes.

use std::rc::Rc;

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, IntPredicate};

use super::slices::is_axis;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axes, invalid, one, unsupported};
use crate::tensor::{Constant, Data, Scalar, Source, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Constant", 1, constant),
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
    onnx("Reshape", 1, |cx, node| {
        let Some(shape) = node.ints("shape") else { return invalid("there is no attribute `shape`") };
        let requested: Vec<Dim> = shape.iter().copied().map(Dim::constant).collect();
        reshape(cx, node.input(0)?, &requested, false)
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
        let x = node.input(0)?;
        let axes = cx.integers(node.input(1)?)?;
        match constants(&axes) {
            Some(axes) => unsqueeze(cx, x, &axes),
            None => unsqueeze_by_data(cx, x, &axes),
        }
    }),
    Row {
        domain: "com.microsoft",
        ..onnx("ExpandDims", 1, |cx, node| {
            let axis = cx.constant_integers(node.input(1)?, "axis")?;
            unsqueeze(cx, node.input(0)?, &axis)
        })
    },
    onnx("Squeeze", 1, |cx, node| squeeze(cx, node.input(0)?, node.ints("axes"))),
    onnx("Squeeze", 13, |cx, node| {
        let x = node.input(0)?;
        let axes = node.optional(1)?.map(|axes| cx.integers(axes)).transpose()?;
        match axes.as_deref().map(|axes| (axes, constants(axes))) {
            None => squeeze(cx, x, None),
            Some((_, Some(axes))) => squeeze(cx, x, Some(&axes)),
            Some((axes, None)) => squeeze_by_data(cx, x, axes),
        }
    }),
    onnx("Concat", 1, |cx, node| {
        let inputs = node.all_inputs()?;
        let rank = inputs.first().map_or(0, |first| first.rank());
        let axis = node.axis("axis", 1, rank)?;
        one(cx.concat(&inputs, axis)?)
    }),
    onnx("Expand", 8, |cx, node| {
        let x = node.input(0)?;
        let mut requested = Vec::new();
        for dim in cx.integers(node.input(1)?)? {
            requested.push(cx.nonnegative(&dim, "an extent")?);
        }
        let shape = cx.broadcast(&[&x.shape, &requested])?;
        one(cx.broadcast_to(x, &shape)?)
    }),
    onnx("DepthToSpace", 1, depth_to_space),
    onnx("SpaceToDepth", 1, space_to_depth),
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

fn constant(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
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
    if let Some(sparse) = node.attribute("sparse_value").and_then(|value| value.sparse_tensor.as_ref()) {
        return sparse_constant(cx, sparse, &node.name);
    }
    unsupported("a constant of strings")
}

/// Writes the elements of a sparse tensor among zeros.
fn sparse_constant(cx: &Context, sparse: &crate::proto::SparseTensor, name: &str) -> Result<Outputs> {
    /// The most bytes of a tensor that is written out.
    const LARGEST: usize = 1 << 28;
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        return invalid("a sparse tensor without values, or without positions");
    };
    let (values, indices) = (crate::model::embedded(values, name)?, crate::model::embedded(indices, name)?);
    let positions = cx.constant_integers(&indices, "indices")?;
    let depth = if indices.rank() == 2 { sparse.dims.len() } else { 1 };
    let count = sparse.dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(usize::try_from(*dim).ok()?));
    let width = usize::try_from(values.ty.bits().div_ceil(8)).unwrap_or(8);
    let Some(size) = count.and_then(|count| count.checked_mul(width)).filter(|size| *size <= LARGEST) else {
        return invalid(format!("the shape {:?} of a sparse tensor is not possible", sparse.dims));
    };
    let Data::Constant(constant) = &values.data else { return invalid("the values are no constants") };
    if values.ty.bits() == 4 || depth == 0 {
        return unsupported("a sparse tensor of this type or rank");
    }
    let bytes = constant.bytes()?;
    let mut dense = vec![0; size];
    for (tuple, element) in positions.chunks(depth).zip(bytes.chunks(width)) {
        let flat = if depth == 1 {
            tuple.first().copied()
        } else {
            let pairs = tuple.iter().zip(&sparse.dims);
            pairs.into_iter().try_fold(0_i64, |flat, (at, extent)| flat.checked_mul(*extent)?.checked_add(*at))
        };
        let first = flat.and_then(|flat| usize::try_from(flat).ok()?.checked_mul(width));
        let slot = first.and_then(|first| dense.get_mut(first..first.checked_add(width)?));
        match slot {
            Some(slot) if slot.len() == element.len() => slot.copy_from_slice(element),
            _ => return invalid("a position of a sparse tensor is beyond its shape"),
        }
    }
    let source = Source::Bytes(dense.into());
    let data = Data::Constant(Rc::new(Constant { name: name.to_owned(), source }));
    one(Tensor { ty: values.ty, shape: sparse.dims.iter().copied().map(Dim::constant).collect(), data })
}

fn constants(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(Dim::as_constant).collect()
}

/// Resolves the requested shape: 0 copies an extent, and one -1 takes what is left.
fn reshape(cx: &mut Context, x: &Tensor, requested: &[Dim], keeps_zero: bool) -> Result<Outputs> {
    if requested.iter().any(|dim| dim.as_constant().is_none() && !dim.is_nonnegative()) {
        return reshape_by_data(cx, x, requested, keeps_zero);
    }
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
    if let Some(slot) = inferred.and_then(|index| shape.get_mut(index)) {
        *slot = Dim::constant(1);
        let known = Dim::product(&shape);
        let rest = if known.is(0) { Dim::constant(0) } else { x.count().floor_div(&known) };
        if let Some(extent) = inferred.and_then(|index| shape.get_mut(index)) {
            *extent = rest;
        }
    }
    one(cx.reshape(x, &shape)?)
}

/// Resolves a requested shape whose extents may be 0 or -1 when the module runs.
fn reshape_by_data(cx: &mut Context, x: &Tensor, requested: &[Dim], keeps_zero: bool) -> Result<Outputs> {
    let (zero, one_element, minus) = (cx.b.index(0), cx.b.index(1), cx.b.index(-1));
    let mut extents = Vec::new();
    let mut known = one_element;
    for (index, dim) in requested.iter().enumerate() {
        let mut extent = cx.index(dim);
        if !keeps_zero {
            let copied = x.shape.get(index).map_or(zero, |dim| cx.index(dim));
            let is_copied = cx.b.cmpi(IntPredicate::Equal, extent, zero);
            extent = cx.b.select(is_copied, copied, extent);
        }
        let is_inferred = cx.b.cmpi(IntPredicate::Equal, extent, minus);
        let factor = cx.b.select(is_inferred, one_element, extent);
        known = cx.b.muli(known, factor);
        extents.push((extent, is_inferred));
    }
    let count = cx.index(&x.count());
    let divisor = cx.b.maxsi(known, one_element);
    let rest = cx.b.divsi(count, divisor);
    let mut shape = Vec::new();
    for (dim, (extent, is_inferred)) in requested.iter().zip(extents) {
        if dim.as_constant().is_some_and(|value| value > 0) || dim.as_constant().is_none() && dim.is_nonnegative() {
            shape.push(dim.clone());
            continue;
        }
        let resolved = cx.b.select(is_inferred, rest, extent);
        let resolved = cx.integer("?", resolved);
        shape.push(cx.nonnegative(&resolved, "an extent of a reshaped tensor")?);
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
        None => {
            // The rank is known when the model is imported: extents that are not known then are not 1.
            for extent in x.shape.iter().filter(|extent| extent.as_constant().is_none()) {
                require_kept(cx, extent);
            }
            (0..x.rank()).filter(|index| x.shape.get(*index).is_some_and(|dim| dim.is(1))).collect()
        }
    };
    one(cx.squeeze(x, &axes)?)
}

/// Lets the call fail if an extent is 1.
fn require_kept(cx: &mut Context, extent: &Dim) {
    if extent.minus(&Dim::constant(2)).is_nonnegative() {
        return;
    }
    let (value, unit) = (cx.index(extent), cx.b.index(1));
    let is_kept = cx.b.cmpi(IntPredicate::NotEqual, value, unit);
    let text = cx.text(extent);
    let message = format!("the extent {text} is 1, and without axes it would be removed: --dim= and --shape= fix it");
    cx.assert(is_kept, &message);
}

/// Inserts dimensions where data say: their number is known.
fn unsqueeze_by_data(cx: &mut Context, x: &Tensor, list: &[Dim]) -> Result<Outputs> {
    let rank = i64::try_from(x.rank() + list.len()).unwrap_or(i64::MAX);
    let unit = cx.b.index(1);
    let mut taken = cx.b.index(0);
    let mut shape = Vec::new();
    for dimension in 0..rank {
        let mut is_new = cx.b.int(0, Element::I1);
        for axis in list {
            let is_here = is_axis(cx, axis, dimension, rank);
            is_new = cx.b.ori(is_new, is_here);
        }
        let mut extent = unit;
        for (index, dim) in (0_i64..).zip(&x.shape) {
            let (index, dim) = (cx.b.index(index), cx.index(dim));
            let is_next = cx.b.cmpi(IntPredicate::Equal, taken, index);
            extent = cx.b.select(is_next, dim, extent);
        }
        let extent = cx.b.select(is_new, unit, extent);
        let next = cx.b.addi(taken, unit);
        taken = cx.b.select(is_new, taken, next);
        shape.push(cx.symbol("?", extent));
    }
    one(cx.reshape(x, &shape)?)
}

/// Removes dimensions that data name: their number is known.
fn squeeze_by_data(cx: &mut Context, x: &Tensor, list: &[Dim]) -> Result<Outputs> {
    let Some(left) = x.rank().checked_sub(list.len()) else {
        return invalid(format!("{} axes of a tensor of rank {}", list.len(), x.rank()));
    };
    let rank = i64::try_from(x.rank()).unwrap_or(i64::MAX);
    let (mut kept, unit) = (cx.b.index(0), cx.b.index(1));
    let mut extents = vec![unit; left];
    for (dimension, dim) in (0_i64..).zip(&x.shape) {
        let mut is_removed = cx.b.int(0, Element::I1);
        for axis in list {
            let is_here = is_axis(cx, axis, dimension, rank);
            is_removed = cx.b.ori(is_removed, is_here);
        }
        let extent = cx.index(dim);
        let none = cx.b.index(-1);
        let slot = cx.b.select(is_removed, none, kept);
        for (index, current) in (0_i64..).zip(&mut extents) {
            let index = cx.b.index(index);
            let is_here = cx.b.cmpi(IntPredicate::Equal, slot, index);
            *current = cx.b.select(is_here, extent, *current);
        }
        let next = cx.b.addi(kept, unit);
        kept = cx.b.select(is_removed, kept, next);
    }
    let shape: Vec<Dim> = extents.into_iter().map(|extent| cx.symbol("?", extent)).collect();
    one(cx.reshape(x, &shape)?)
}

/// Returns a tensor of rank 4 and the size of its blocks.
fn blocks<'n>(node: &'n Node<'_>) -> Result<(&'n Tensor, Dim)> {
    let (x, size) = (node.input(0)?, node.int_or("blocksize", 0));
    if x.rank() != 4 || size < 1 {
        return invalid(format!("blocks of {size} in a tensor of rank {}, and 4 is expected", x.rank()));
    }
    Ok((x, Dim::constant(size)))
}

/// Returns true if channels vary fastest within a block.
fn is_channel_first(node: &Node<'_>) -> Result<bool> {
    match node.text_or("mode", "DCR")? {
        "DCR" => Ok(false),
        "CRD" => Ok(true),
        other => unsupported(format!("the mode `{other}` is not known")),
    }
}

/// Requires that an extent is a multiple of another, and returns the quotient.
fn quotient(cx: &mut Context, dim: &Dim, divisor: &Dim) -> Result<Dim> {
    let quotient = dim.floor_div(divisor);
    cx.require_equal(&quotient.times(divisor), dim, "an extent that blocks divide")?;
    Ok(quotient)
}

fn depth_to_space(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, size) = blocks(node)?;
    let [n, c, h, w] = &*x.shape else { return invalid("a tensor of rank 4 is expected") };
    let depth = quotient(cx, c, &size.times(&size))?;
    let (split, permutation) = if is_channel_first(node)? {
        ([n.clone(), depth.clone(), size.clone(), size.clone(), h.clone(), w.clone()], [0, 1, 4, 2, 5, 3])
    } else {
        ([n.clone(), size.clone(), size.clone(), depth.clone(), h.clone(), w.clone()], [0, 3, 4, 1, 5, 2])
    };
    let split = cx.reshape(x, &split)?;
    let moved = cx.transpose(&split, &permutation)?;
    one(cx.reshape(&moved, &[n.clone(), depth, h.times(&size), w.times(&size)])?)
}

fn space_to_depth(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, size) = blocks(node)?;
    let [n, c, h, w] = &*x.shape else { return invalid("a tensor of rank 4 is expected") };
    let (height, width) = (quotient(cx, h, &size)?, quotient(cx, w, &size)?);
    let split = [n.clone(), c.clone(), height.clone(), size.clone(), width.clone(), size.clone()];
    let split = cx.reshape(x, &split)?;
    let permutation = if is_channel_first(node)? { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
    let moved = cx.transpose(&split, &permutation)?;
    one(cx.reshape(&moved, &[n.clone(), c.times(&size).times(&size), height, width])?)
}
