//! Convolutions at positions from data, and sums of blocks into an image.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::contraction::{SHAPE_ONLY, accumulator, zero};
use super::convolutions::{groups, kernel_of, per_channel};
use super::products::settled;
use super::window::{Geometry, covered, explicit_pads, kernel_shape, spatial, strides_and_dilations};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] =
    &[onnx("DeformConv", 19, deform_conv), onnx("Col2Im", 18, col_to_im), onnx("MaxUnpool", 9, max_unpool)];

/// What the samples of a deformed convolution are read from.
struct Samples {
    x: Value,
    offset: Value,
    mask: Option<Value>,
    ty: DataType,
    /// The channels of one group of offsets, and the height and width of the window and of the input.
    channels: Value,
    window: [Value; 2],
    extents: [Value; 2],
    strides: [i64; 2],
    dilations: [i64; 2],
    low: [Value; 2],
}

fn deform_conv(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, w, offset) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if !x.ty.is_float() || x.ty != w.ty || x.ty != offset.ty {
        return wrong_type(offset.ty);
    }
    if x.rank() != 4 || offset.rank() != 4 {
        return unsupported(format!("a deformed convolution of a tensor of rank {}", x.rank()));
    }
    let geometry = Geometry::of(node, spatial(x)?, kernel_of(w, x)?, false)?;
    let group = Dim::constant(groups(node)?);
    let offset_group = Dim::constant(node.int_or("offset_group", 1).max(1));
    let x = &cx.refined(x, 1, &w.shape[1].times(&group), "the channels of a convolution")?;
    let samples = samples(cx, node, x, &geometry, &offset_group)?;
    let [batch, channels] = [x.shape[0].clone(), x.shape[1].clone()];
    let columns = [&[batch.clone(), channels], &*geometry.kernel, &*geometry.outputs].concat();
    let columns = cx.generate(&columns, x.ty, |b, at| samples.sample(b, at))?;
    let depth = w.shape[1].times(&Dim::product(&geometry.kernel));
    let (length, per_group) = (Dim::product(&geometry.outputs), w.shape[0].floor_div(&group));
    let columns = cx.reshape(&columns, &[batch.clone(), group.clone(), depth.clone(), length.clone()])?;
    let weights = cx.reshape(w, &[group.clone(), per_group.clone(), depth])?;
    let shape = [batch.clone(), group, per_group, length];
    let y = cx.contract((&weights, &[1, 2, 4]), (&columns, &[0, 1, 4, 3]), 5, &shape, accumulator(x.ty))?;
    let y = cx.reshape(&y, &[&[batch, w.shape[0].clone()], &*geometry.outputs].concat())?;
    one(match node.optional(3)? {
        Some(bias) => {
            let bias = per_channel(cx, bias, 2)?;
            cx.map(&[&y, &bias], x.ty, |b, x| b.addf(x[0], x[1]))?
        }
        None => settled(cx, &y, x.ty)?,
    })
}

fn samples(cx: &mut Context, node: &Node<'_>, x: &Tensor, geometry: &Geometry, groups: &Dim) -> Result<Samples> {
    let Some(channels) = x.shape[1].exact_quotient(groups) else {
        return invalid("the channels are not a multiple of the groups of offsets");
    };
    let taps = groups.times(&Dim::product(&geometry.kernel));
    let offset = cx.refined(node.input(2)?, 1, &taps.times(&Dim::constant(2)), "the channels of the offsets")?;
    let mut shapes = vec![offset.clone()];
    if let Some(mask) = node.optional(4)? {
        shapes.push(cx.refined(mask, 1, &taps, "the channels of the mask")?);
    }
    for tensor in &shapes {
        for (axis, extent) in [&x.shape[0], &geometry.outputs[0], &geometry.outputs[1]].into_iter().enumerate() {
            let axis = if axis == 0 { 0 } else { axis + 1 };
            let Some(own) = tensor.shape.get(axis).cloned() else { return invalid("offsets and masks have rank 4") };
            cx.require_equal(&own, extent, "an extent of the offsets or of the mask")?;
        }
    }
    let pair = |cx: &mut Context, dims: &[Dim]| [cx.index(&dims[0]), cx.index(&dims[1])];
    Ok(Samples {
        x: cx.value(x)?,
        offset: cx.value(&offset)?,
        mask: shapes.get(1).map(|mask| cx.value(mask)).transpose()?,
        ty: x.ty,
        channels: cx.index(&channels),
        window: pair(cx, &geometry.kernel),
        extents: pair(cx, &x.shape[2..]),
        strides: [geometry.window.strides[0], geometry.window.strides[1]],
        dilations: [geometry.window.dilations[0], geometry.window.dilations[1]],
        low: pair(cx, &geometry.low),
    })
}

impl Samples {
    /// Interpolates at `[n, c, i, j, row, column]`, and multiplies by the mask.
    fn sample(&self, b: &mut Builder, at: &[Value]) -> Value {
        let group = b.divui(at[1], self.channels);
        let rows = b.muli(group, self.window[0]);
        let row = b.addi(rows, at[2]);
        let columns = b.muli(row, self.window[1]);
        let tap = b.addi(columns, at[3]);
        let (one, two) = (b.index(1), b.index(2));
        let even = b.muli(tap, two);
        let odd = b.addi(even, one);
        let offsets = [even, odd].map(|channel| read(b, self.offset, &[at[0], channel, at[4], at[5]], self.ty));
        let element = b.element_of(offsets[0]);
        // The two positions along each axis with their weights, which are 0 outside of the input.
        let mut axes = Vec::new();
        for axis in 0..2 {
            let (stride, dilation) = (b.index(self.strides[axis]), b.index(self.dilations[axis]));
            let (start, ahead) = (b.muli(at[4 + axis], stride), b.muli(at[2 + axis], dilation));
            let padded = b.addi(start, ahead);
            let regular = b.subi(padded, self.low[axis]);
            let regular = b.index_cast(regular, Element::I64);
            let regular = b.sitofp(regular, element);
            let position = b.addf(regular, offsets[axis]);
            axes.push(self.neighbours(b, position, axis));
        }
        let mut sum = b.float(0.0, element);
        for (row, row_weight) in axes[0] {
            for (column, column_weight) in axes[1] {
                let element = read(b, self.x, &[at[0], at[1], row, column], self.ty);
                let weight = b.mulf(row_weight, column_weight);
                let part = b.mulf(element, weight);
                sum = b.addf(sum, part);
            }
        }
        match self.mask {
            Some(mask) => {
                let factor = read(b, mask, &[at[0], tap, at[4], at[5]], self.ty);
                b.mulf(sum, factor)
            }
            None => sum,
        }
    }

    /// Returns the positions before and behind, within the input, and their weights.
    fn neighbours(&self, b: &mut Builder, position: Value, axis: usize) -> [(Value, Value); 2] {
        let element = b.element_of(position);
        let (zero, one, below) = (b.float(0.0, element), b.float(1.0, element), b.float(-2.0, element));
        let extent = b.index_cast(self.extents[axis], Element::I64);
        let limit = b.sitofp(extent, element);
        // Far outside, any position outside does; NaN is one.
        let is_known = b.cmpf(FloatPredicate::Ordered, position, position);
        let position = b.select(is_known, position, below);
        let raised = b.maximumf(position, below);
        let ahead = b.addf(limit, one);
        let position = b.minimumf(raised, ahead);
        let floor = b.floor(position);
        let behind = b.subf(position, floor);
        let before = b.subf(one, behind);
        let first =
            converted(b, floor, if element == Element::F64 { DataType::F64 } else { DataType::F32 }, DataType::I64);
        let step = b.int(1, Element::I64);
        let second = b.addi(first, step);
        let mut result = [(first, before), (second, behind)];
        for (index, weight) in &mut result {
            let none = b.int(0, Element::I64);
            let is_inside = b.cmpi(IntPredicate::UnsignedLess, *index, extent);
            *weight = b.select(is_inside, *weight, zero);
            let last = b.subi(extent, step);
            let raised = b.maxsi(*index, none);
            let clamped = b.minsi(raised, last);
            *index = b.index_cast(clamped, Element::Index);
        }
        result
    }
}

/// Sums blocks `[N, C * block, L]` into an image.
fn col_to_im(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let (image, block) = (cx.integers(node.input(1)?)?, cx.integers(node.input(2)?)?);
    let count = image.len();
    if x.rank() != 3 || block.len() != count || count == 0 {
        return invalid(format!("blocks of rank {} for an image of {count} and windows of {}", x.rank(), block.len()));
    }
    let window = strides_and_dilations(node, count)?;
    let (low, high) = explicit_pads(node, count)?;
    let one_dim = Dim::constant(1);
    let mut steps = Vec::new();
    for axis in 0..count {
        let covered = covered(&block[axis], window.dilations[axis]);
        let free = image[axis].plus(&low[axis]).plus(&high[axis]).minus(&covered);
        steps.push(free.floor_div(&Dim::constant(window.strides[axis])).plus(&one_dim));
    }
    let size = Dim::product(&block);
    let channels = x.shape[1].floor_div(&size);
    cx.require_equal(&channels.times(&size), &x.shape[1], "the size of all blocks")?;
    cx.require_equal(&Dim::product(&steps), &x.shape[2], "the number of blocks")?;
    let shape = [&[x.shape[0].clone(), channels.clone()], &*block, &*steps].concat();
    let blocks = cx.reshape(x, &shape)?;
    let source = cx.value(&blocks)?;
    let result = [&[x.shape[0].clone(), channels], &*image].concat();
    let sum = if x.ty.is_float() { accumulator(x.ty) } else { x.ty };
    cx.check_shape(sum, &result)?;
    let kernel = cx.extents(&block);
    let shaped = cx.b.empty(&kernel, SHAPE_ONLY);
    let initial = cx.scalar(&zero(sum), sum)?;
    let extents = cx.extents(&result);
    let filled = cx.b.fill(initial, &extents);
    let (loops, outer) = (2 + 2 * count, 2 + count);
    let maps = [Map::of(loops, &(outer..loops).collect::<Vec<_>>()), Map::of(loops, &(0..outer).collect::<Vec<_>>())];
    let iterators: Vec<Iterator> =
        (0..loops).map(|index| if index < outer { Iterator::Parallel } else { Iterator::Reduction }).collect();
    let bounds: Vec<[Value; 2]> = low.iter().zip(&steps).map(|(low, step)| [cx.index(low), cx.index(step)]).collect();
    let ty = x.ty;
    let sums = cx.b.generic_single(&[shaped], filled, &maps, &iterators, |b, x| {
        let mut at = vec![b.iteration(0), b.iteration(1)];
        at.extend((0..count).map(|axis| b.iteration(outer + axis)));
        let mut is_hit = b.int(1, Element::I1);
        for (axis, [low, step]) in bounds.into_iter().enumerate() {
            let (position, tap) = (b.iteration(2 + axis), b.iteration(outer + axis));
            let (stride, dilation) = (b.index(window.strides[axis]), b.index(window.dilations[axis]));
            let (padded, ahead) = (b.addi(position, low), b.muli(tap, dilation));
            let start = b.subi(padded, ahead);
            let (quotient, rest, zero) = (b.divsi(start, stride), b.remsi(start, stride), b.index(0));
            let is_start = b.cmpi(IntPredicate::Equal, rest, zero);
            let is_block = b.cmpi(IntPredicate::UnsignedLess, quotient, step);
            let both = b.andi(is_start, is_block);
            is_hit = b.andi(is_hit, both);
            let one = b.index(1);
            let (last, raised) = (b.subi(step, one), b.maxsi(quotient, zero));
            at.push(b.minsi(raised, last));
        }
        let element = read(b, source, &at, ty);
        let none = if ty.is_float() { b.float(0.0, b.element_of(element)) } else { b.int(0, ty.element()) };
        let added = b.select(is_hit, element, none);
        if ty.is_float() { b.addf(x[1], added) } else { b.addi(x[1], added) }
    });
    let y = cx.tensor(sums, sum, result)?;
    one(settled(cx, &y, ty)?)
}

/// Writes the elements of a pool to where they came from, among zeros. Positions beyond the result are moved to its bounds.
fn max_unpool(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let extents = spatial(x)?;
    if indices.ty != DataType::I64 || indices.rank() != x.rank() {
        return wrong_type(indices.ty);
    }
    cx.require_equal(&x.count(), &indices.count(), "the number of positions")?;
    let kernel = kernel_shape(node, extents.len())?;
    let strides = strides_and_dilations(node, extents.len())?.strides;
    let (low, high) = explicit_pads(node, extents.len())?;
    let mut inner = x.shape.get(..2).unwrap_or_default().to_vec();
    for (axis, extent) in extents.iter().enumerate() {
        let last = extent.minus(&Dim::constant(1)).times(&Dim::constant(strides[axis]));
        inner.push(last.plus(&kernel[axis]).minus(&low[axis]).minus(&high[axis]));
    }
    let shape = match node.optional(2)? {
        Some(shape) => cx.integers(shape)?,
        None => inner,
    };
    if shape.len() != x.rank() {
        return invalid(format!("`output_shape` has {} extents for a tensor of rank {}", shape.len(), x.rank()));
    }
    let count = Dim::product(&shape);
    cx.require_positions(indices, &count, Accepted::Start, "the positions")?;
    cx.require_elements(&count, &indices.count(), "the output")?;
    let zeros = cx.splat(&zero(x.ty), x.ty, core::slice::from_ref(&count))?;
    let (flat, positions) = (cx.reshape(x, &[x.count()])?, cx.reshape(indices, &[x.count(), Dim::constant(1)])?);
    let last = cx.index(&count.minus(&Dim::constant(1)));
    let positions = cx.map(&[&positions], DataType::I64, |b, x| {
        let (none, last) = (b.int(0, Element::I64), b.index_cast(last, Element::I64));
        let raised = b.maxsi(x[0], none);
        b.minsi(raised, last)
    })?;
    let (updates, positions, into) = (cx.value(&flat)?, cx.value(&positions)?, cx.value(&zeros)?);
    let scattered = cx.b.scatter(updates, positions, into, |_, update, _| update);
    let scattered = cx.tensor(scattered, x.ty, vec![count])?;
    one(cx.reshape(&scattered, &shape)?)
}
