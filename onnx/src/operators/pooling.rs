//! Pools: windows of a tensor, and all of its spatial dimensions, become one element.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::contraction::{SHAPE_ONLY, accumulator, tap_position};
use super::products::settled;
use super::window::{Geometry, kernel_shape, spatial};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{converted, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::{maximum, wrong_type};
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("MaxPool", 1, max_pool),
    onnx("AveragePool", 1, |cx, node| {
        let x = node.input(0)?;
        if !x.ty.is_float() {
            return wrong_type(x.ty);
        }
        one(average_pool(cx, node, x)?)
    }),
    onnx("LpPool", 1, |cx, node| {
        let x = node.input(0)?;
        if !x.ty.is_float() {
            return wrong_type(x.ty);
        }
        let (geometry, p) = (geometry(node, x)?, norm(node));
        let zero = cx.scalar(&Scalar::Float(0.0), x.ty)?;
        let padded = geometry.pad(cx, x, zero)?;
        let sum = accumulator(x.ty);
        let sums = pool(cx, &padded, &geometry, sum, &Scalar::Float(0.0), |b, x, sum| {
            let power = power(b, x, p);
            b.addf(sum, power)
        })?;
        one(cx.map(&[&sums], x.ty, |b, x| root(b, x[0], p))?)
    }),
    onnx("GlobalMaxPool", 1, |cx, node| {
        let x = node.input(0)?;
        let (lowest, kind) = (lowest(x.ty)?, x.ty.kind());
        one(global(cx, x, x.ty.computed(), lowest, |b, x, most| maximum(b, most, x, kind))?)
    }),
    onnx("GlobalAveragePool", 1, |cx, node| {
        let x = node.input(0)?;
        let sums = float_sums(cx, x, |_, x| x)?;
        let count = Dim::product(spatial(x)?);
        one(divided(cx, &sums, &count, x.ty)?)
    }),
    onnx("GlobalLpPool", 1, |cx, node| {
        let (x, p) = (node.input(0)?, norm(node));
        let sums = float_sums(cx, x, |b, x| power(b, x, p))?;
        one(cx.map(&[&sums], x.ty, |b, x| root(b, x[0], p))?)
    }),
];

/// Returns where the windows of a pool lie.
fn geometry(node: &Node<'_>, x: &Tensor) -> Result<Geometry> {
    let extents = spatial(x)?;
    Geometry::of(node, extents, kernel_shape(node, extents.len())?, node.flag("ceil_mode"))
}

/// Returns the exponent of a norm, which is a float in the first form.
fn norm(node: &Node<'_>) -> f64 {
    match node.attribute("p") {
        Some(attribute) if attribute.f != 0.0 => f64::from(attribute.f),
        Some(attribute) => attribute.i as f64,
        None => 2.0,
    }
}

/// `|x|^p`.
fn power(b: &mut Builder, x: Value, p: f64) -> Value {
    match p {
        1.0 => b.absf(x),
        2.0 => b.mulf(x, x),
        _ => {
            let (magnitude, p) = (b.absf(x), b.float(p, b.element_of(x)));
            b.powf(magnitude, p)
        }
    }
}

/// `x^(1/p)`.
fn root(b: &mut Builder, x: Value, p: f64) -> Value {
    match p {
        1.0 => x,
        2.0 => b.sqrt(x),
        _ => {
            let inverse = b.float(1.0 / p, b.element_of(x));
            b.powf(x, inverse)
        }
    }
}

/// Returns the least element of a type.
fn lowest(ty: DataType) -> Result<Scalar> {
    match (ty.kind(), ty.range()) {
        (Kind::Float, _) => Ok(Scalar::Float(f64::NEG_INFINITY)),
        (Kind::Signed | Kind::Unsigned, Some((least, _))) => {
            Ok(Scalar::Int(Dim::constant(i64::try_from(least).unwrap_or(i64::MIN))))
        }
        _ => wrong_type(ty),
    }
}

/// Loops over windows of a tensor that is padded. The body has the element, which has the type of arithmetic, and the accumulators.
fn windows(
    cx: &mut Context,
    x: &Tensor,
    geometry: &Geometry,
    accumulators: &[(DataType, Scalar)],
    body: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
) -> Result<Vec<Tensor>> {
    // The batch and the channels are one loop, so that few loops are left that are not divided into tiles.
    let count = geometry.outputs.len();
    let planes = Dim::product(&x.shape[..2]);
    let joined = cx.reshape(x, &[core::slice::from_ref(&planes), &x.shape[2..]].concat())?;
    let shape = [&[planes], &*geometry.outputs].concat();
    let loops = 1 + 2 * count;
    let value = cx.value(&joined)?;
    let kernel = cx.extents(&geometry.kernel);
    let shaped = cx.b.empty(&kernel, SHAPE_ONLY);
    let extents = cx.extents(&shape);
    let mut outputs = Vec::new();
    for (ty, initial) in accumulators {
        cx.check_shape(*ty, &shape)?;
        let initial = cx.scalar(initial, *ty)?;
        outputs.push(cx.b.fill(initial, &extents));
    }
    let mut input = vec![Expression::dimension(0)];
    input.extend((0..count).map(|axis| tap_position(&geometry.window, axis, 1 + axis, 1 + count + axis)));
    let taps: Vec<usize> = (1 + count..loops).collect();
    let mut maps = vec![Map::new(loops, input), Map::of(loops, &taps)];
    maps.extend(vec![Map::of(loops, &(0..1 + count).collect::<Vec<_>>()); outputs.len()]);
    let iterators: Vec<Iterator> =
        (0..loops).map(|index| if index < 1 + count { Iterator::Parallel } else { Iterator::Reduction }).collect();
    let from = x.ty;
    let results = cx.b.generic(&[value, shaped], &outputs, &maps, &iterators, |b, x| {
        let element = widened(b, x[0], from);
        body(b, element, x.get(2..).unwrap_or_default())
    });
    let full = [&x.shape[..2], &*geometry.outputs].concat();
    let split = |(result, (ty, _)): (Value, &(DataType, Scalar))| {
        let result = cx.separated(result, &shape);
        let result = cx.tensor(result, *ty, shape.clone())?;
        cx.reshape(&result, &full)
    };
    results.into_iter().zip(accumulators).map(split).collect()
}

/// [`windows`] with one accumulator.
pub(super) fn pool(
    cx: &mut Context,
    x: &Tensor,
    geometry: &Geometry,
    ty: DataType,
    initial: &Scalar,
    body: impl FnOnce(&mut Builder, Value, Value) -> Value,
) -> Result<Tensor> {
    let results = windows(cx, x, geometry, &[(ty, initial.clone())], |b, x, sums| {
        sums.first().map(|sum| body(b, x, *sum)).into_iter().collect()
    })?;
    match results.into_iter().next() {
        Some(result) => Ok(result),
        None => invalid("a pool without a result"),
    }
}

fn max_pool(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let geometry = geometry(node, x)?;
    let (least, kind) = (lowest(x.ty)?, x.ty.kind());
    let initial = cx.scalar(&least, x.ty)?;
    let padded = geometry.pad(cx, x, initial)?;
    let wide = x.ty.computed();
    if !node.has_output(1) {
        let y = pool(cx, &padded, &geometry, wide, &least, |b, x, most| maximum(b, most, x, kind))?;
        return one(settled(cx, &y, x.ty)?);
    }
    // Positions within one channel of the input: by rows, or by columns.
    let extents = spatial(x)?;
    let count = extents.len();
    let mut factors = vec![Dim::constant(1); count];
    let is_by_columns = node.flag("storage_order");
    for axis in 0..count {
        let faster = if is_by_columns { &extents[..axis] } else { &extents[axis + 1..] };
        factors[axis] = Dim::product(faster);
    }
    let factors: Vec<Value> = factors.iter().map(|factor| cx.index(factor)).collect();
    let low: Vec<Value> = geometry.low.iter().map(|low| cx.index(low)).collect();
    let window = geometry.window.clone();
    let accumulators = [(wide, least), (DataType::I64, Scalar::Int(Dim::constant(0)))];
    let mut results = windows(cx, &padded, &geometry, &accumulators, |b, x, most| {
        let mut position = b.index(0);
        for axis in 0..count {
            let (output, tap) = (b.iteration(1 + axis), b.iteration(1 + count + axis));
            let (stride, dilation) = (b.index(window.strides[axis]), b.index(window.dilations[axis]));
            let (start, ahead) = (b.muli(output, stride), b.muli(tap, dilation));
            let padded = b.addi(start, ahead);
            let along = b.subi(padded, low[axis]);
            let offset = b.muli(along, factors[axis]);
            position = b.addi(position, offset);
        }
        let position = b.index_cast(position, Element::I64);
        let is_greater = match kind {
            Kind::Float => b.cmpf(FloatPredicate::OrderedGreater, x, most[0]),
            Kind::Signed => b.cmpi(IntPredicate::SignedGreater, x, most[0]),
            _ => b.cmpi(IntPredicate::UnsignedGreater, x, most[0]),
        };
        vec![b.select(is_greater, x, most[0]), b.select(is_greater, position, most[1])]
    })?;
    let (Some(indices), Some(y)) = (results.pop(), results.pop()) else { return invalid("a pool without a result") };
    let (channels, size) = (cx.index(&x.shape[1]), cx.index(&Dim::product(extents)));
    let indices = cx.map(&[&indices], DataType::I64, |b, x| {
        let (batch, channel) = (b.iteration(0), b.iteration(1));
        let outer = b.muli(batch, channels);
        let plane = b.addi(outer, channel);
        let start = b.muli(plane, size);
        let start = b.index_cast(start, Element::I64);
        b.addi(x[0], start)
    })?;
    Ok(vec![Item::Tensor(settled(cx, &y, x.ty)?), Item::Tensor(indices)])
}

/// The mean of windows of floats.
pub(super) fn average_pool(cx: &mut Context, node: &Node<'_>, x: &Tensor) -> Result<Tensor> {
    let geometry = geometry(node, x)?;
    let zero = cx.scalar(&Scalar::Float(0.0), x.ty)?;
    let padded = geometry.pad(cx, x, zero)?;
    let sum = accumulator(x.ty);
    let sums = pool(cx, &padded, &geometry, sum, &Scalar::Float(0.0), |b, x, sum| b.addf(sum, x))?;
    let counted = Counted::of(&geometry, spatial(x)?, node.flag("count_include_pad"));
    if geometry.is_unpadded() {
        return divided(cx, &sums, &Dim::product(&geometry.kernel), x.ty);
    }
    if let Some(counts) = counted.known(sum) {
        return cx.map(&[&sums, &counts], x.ty, |b, x| b.divf(x[0], x[1]));
    }
    let bounds: Vec<[Value; 3]> =
        counted.axes.iter().map(|axis| [&axis.low, &axis.high, &axis.kernel].map(|dim| cx.index(dim))).collect();
    let steps: Vec<(i64, i64)> = counted.axes.iter().map(|axis| (axis.stride, axis.dilation)).collect();
    cx.map(&[&sums], x.ty, |b, x| {
        let mut count = b.index(1);
        for (axis, (bounds, (stride, dilation))) in bounds.iter().zip(steps).enumerate() {
            let along = count_along(b, axis, *bounds, stride, dilation);
            count = b.muli(count, along);
        }
        let one = b.index(1);
        let count = b.maxsi(count, one);
        let count = index_to_float(b, count, sum);
        b.divf(x[0], count)
    })
}

/// The positions along an axis whose elements a mean counts.
struct CountedAxis {
    /// The first position among those of the padded input, and the one behind the last.
    low: Dim,
    high: Dim,
    kernel: Dim,
    output: Dim,
    stride: i64,
    dilation: i64,
}

struct Counted {
    axes: Vec<CountedAxis>,
}

impl Counted {
    fn of(geometry: &Geometry, extents: &[Dim], includes_pads: bool) -> Counted {
        let axis = |index: usize| {
            let (low, inner) = (&geometry.low[index], &extents[index]);
            let end = low.plus(inner);
            CountedAxis {
                low: if includes_pads { Dim::constant(0) } else { low.clone() },
                high: if includes_pads { end.plus(&geometry.high[index]) } else { end },
                kernel: geometry.kernel[index].clone(),
                output: geometry.outputs[index].clone(),
                stride: geometry.window.strides[index],
                dilation: geometry.window.dilations[index],
            }
        };
        Counted { axes: (0..extents.len()).map(axis).collect() }
    }

    /// Returns how many elements each window counts, as a tensor of the extents of the result, if there are few.
    fn known(&self, ty: DataType) -> Option<Tensor> {
        let extents: Option<Vec<i64>> = self.axes.iter().map(|axis| axis.output.as_constant()).collect();
        let extents = extents?;
        let total = extents.iter().try_fold(1_i64, |total, extent| total.checked_mul(*extent))?;
        if !(1..=4096).contains(&total) {
            return None;
        }
        let mut counts = vec![1_i64];
        for axis in &self.axes {
            let along = axis.counts()?;
            counts = counts.iter().flat_map(|outer| along.iter().map(move |inner| outer * inner)).collect();
        }
        let scalar = |count: &i64| Scalar::Float((*count).max(1) as f64);
        if counts.windows(2).all(|pair| pair.first() == pair.last()) {
            return Some(Tensor::of_elements(ty, Vec::new(), counts.first().map(scalar).into_iter().collect()));
        }
        let shape = extents.iter().copied().map(Dim::constant).collect();
        Some(Tensor::of_elements(ty, shape, counts.iter().map(scalar).collect()))
    }
}

impl CountedAxis {
    fn counts(&self) -> Option<Vec<i64>> {
        let (low, high) = (self.low.as_constant()?, self.high.as_constant()?);
        let (kernel, output) = (self.kernel.as_constant()?, self.output.as_constant()?);
        let count = |window: i64| {
            let start = window.saturating_mul(self.stride);
            // The number of taps in front of a position.
            let taps = |limit: i64| {
                let distance = limit.saturating_sub(start).max(0);
                (distance / self.dilation + i64::from(distance % self.dilation != 0)).min(kernel)
            };
            taps(high) - taps(low).min(taps(high))
        };
        Some((0..output).map(count).collect())
    }
}

/// Counts the elements of a window along an axis: those from `low` to `high` among the padded input.
fn count_along(b: &mut Builder, axis: usize, bounds: [Value; 3], stride: i64, dilation: i64) -> Value {
    let [low, high, kernel] = bounds;
    let (output, stride) = (b.iteration(2 + axis), b.index(stride));
    let (start, zero) = (b.muli(output, stride), b.index(0));
    let mut bound = |limit: Value| {
        let distance = b.subi(limit, start);
        let mut taps = b.maxsi(distance, zero);
        if dilation > 1 {
            let (step, rounded) = (b.index(dilation), b.index(dilation - 1));
            let raised = b.addi(taps, rounded);
            taps = b.divui(raised, step);
        }
        b.minsi(taps, kernel)
    };
    let (first, end) = (bound(low), bound(high));
    let count = b.subi(end, first);
    b.maxsi(count, zero)
}

/// Converts a position to a float.
pub(super) fn index_to_float(b: &mut Builder, value: Value, ty: DataType) -> Value {
    let wide = b.index_cast(value, Element::I64);
    b.sitofp(wide, ty.element())
}

/// Divides sums by a number of elements.
fn divided(cx: &mut Context, sums: &Tensor, count: &Dim, ty: DataType) -> Result<Tensor> {
    let (known, wide) = (count.as_constant(), sums.ty);
    let value = if known.is_some() { None } else { Some(cx.index(count)) };
    cx.map(&[sums], ty, |b, x| {
        let count = match value {
            Some(value) => index_to_float(b, value, wide),
            None => b.float(known.unwrap_or(1) as f64, wide.element()),
        };
        b.divf(x[0], count)
    })
}

/// Combines the elements of all spatial dimensions, which become extents of 1.
fn global(
    cx: &mut Context,
    x: &Tensor,
    ty: DataType,
    initial: Scalar,
    body: impl FnOnce(&mut Builder, Value, Value) -> Value,
) -> Result<Tensor> {
    spatial(x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let reduced = cx.reduce(x, &axes, ty, initial, body)?;
    let kept = cx.unsqueeze(&reduced, &axes)?;
    settled(cx, &kept, if ty == x.ty.computed() { x.ty } else { ty })
}

/// Sums a function of the floats of all spatial dimensions, in the type of arithmetic.
fn float_sums(cx: &mut Context, x: &Tensor, each: impl FnOnce(&mut Builder, Value) -> Value) -> Result<Tensor> {
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    spatial(x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let sums = cx.reduce(x, &axes, accumulator(x.ty), Scalar::Float(0.0), |b, x, sum| {
        let element = each(b, x);
        b.addf(sum, element)
    })?;
    cx.unsqueeze(&sums, &axes)
}

/// Sums integers of all spatial dimensions as `i32`.
pub(super) fn integer_sums(cx: &mut Context, x: &Tensor) -> Result<Tensor> {
    let from = x.ty;
    global(cx, x, DataType::I32, Scalar::Int(Dim::constant(0)), |b, x, sum| {
        let wide = converted(b, x, from, DataType::I32);
        b.addi(sum, wide)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(low: i64, high: i64, kernel: i64, output: i64, stride: i64, dilation: i64) -> Option<Vec<i64>> {
        let [low, high, kernel, output] = [low, high, kernel, output].map(Dim::constant);
        CountedAxis { low, high, kernel, output, stride, dilation }.counts()
    }

    #[test]
    fn means_count_the_elements_between_the_bounds() {
        // An input of 5 between one element on each side, in windows of 3.
        assert_eq!(counts(1, 6, 3, 5, 1, 1), Some(vec![2, 3, 3, 3, 2]));
        assert_eq!(counts(0, 7, 3, 5, 1, 1), Some(vec![3; 5]));
        // The last window goes beyond the padding.
        assert_eq!(counts(0, 6, 3, 3, 2, 1), Some(vec![3, 3, 2]));
        // Every second element of 5.
        assert_eq!(counts(1, 6, 3, 3, 1, 2), Some(vec![2, 3, 2]));
    }
}
