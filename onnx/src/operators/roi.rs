//! Pooling of regions: `RoiAlign` and `MaxRoiPool`.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::positions::clamped_integer;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("MaxRoiPool", 1, max_roi_pool),
    onnx("RoiAlign", 10, |cx, node| roi_align(cx, node, "output_half_pixel")),
    onnx("RoiAlign", 16, |cx, node| roi_align(cx, node, "half_pixel")),
];

/// What the samples of a region depend on. All tensors are values of the module.
#[derive(Clone, Copy)]
struct Regions {
    rois: Value,
    ty: DataType,
    /// The type of positions.
    element: Element,
    scale: f64,
    is_half_pixel: bool,
    /// The number of samples along either dimension of a bin; 0 where it depends on the region.
    ratio: i64,
}

/// A region along one dimension.
#[derive(Clone, Copy)]
struct Side {
    start: Value,
    /// The length of a bin.
    bin: Value,
    /// The number of samples of a bin.
    samples: Value,
}

impl Regions {
    /// Reads a region along a dimension: 0 for that of columns, 1 for that of rows.
    fn side(&self, b: &mut Builder, region: Value, dimension: i64, bins: i64) -> Side {
        let (low, high) = (b.index(dimension), b.index(dimension + 2));
        let offset = b.float(if self.is_half_pixel { 0.5 } else { 0.0 }, self.element);
        let scale = b.float(self.scale, self.element);
        let [start, end] = [low, high].map(|column| {
            let position = read(b, self.rois, &[region, column], self.ty);
            let scaled = b.mulf(position, scale);
            b.subf(scaled, offset)
        });
        let mut length = b.subf(end, start);
        if !self.is_half_pixel {
            let one = b.float(1.0, self.element);
            length = b.maximumf(length, one);
        }
        let bins = b.float(bins as f64, self.element);
        let bin = b.divf(length, bins);
        let samples = if self.ratio > 0 {
            b.int(self.ratio, Element::I64)
        } else {
            let up = b.ceil(bin);
            let (low, high) = (b.float(0.0, self.element), b.float(MOST_SAMPLES, self.element));
            let raised = b.maximumf(up, low);
            let bounded = b.minimumf(raised, high);
            integer(b, bounded)
        };
        Side { start, bin, samples }
    }
}

/// The most samples along a dimension of a bin.
const MOST_SAMPLES: f64 = 65_536.0;

/// The type of a float of `f32` or `f64`.
fn float_type(element: Element) -> DataType {
    if element == Element::F64 { DataType::F64 } else { DataType::F32 }
}

/// Converts a whole number.
fn integer(b: &mut Builder, number: Value) -> Value {
    let from = float_type(b.element_of(number));
    converted(b, number, from, DataType::I64)
}

/// Where a sample lies between two elements of a dimension.
struct Between {
    low: Value,
    high: Value,
    /// The weights of both.
    weights: [Value; 2],
    is_inside: Value,
}

/// Finds the elements around sample number `sample` of bin number `bin`.
fn between(b: &mut Builder, side: &Side, bin: Value, sample: Value, length: Value, element: Element) -> Between {
    let (bin, sample) = (b.index_cast(bin, Element::I64), b.index_cast(sample, Element::I64));
    let length = b.index_cast(length, Element::I64);
    let is_sample = b.cmpi(IntPredicate::SignedLess, sample, side.samples);
    let (bin, sample, count) = (b.sitofp(bin, element), b.sitofp(sample, element), b.sitofp(side.samples, element));
    let (zero, one, half) = (b.float(0.0, element), b.float(1.0, element), b.float(0.5, element));
    let offset = b.mulf(bin, side.bin);
    let first = b.addf(side.start, offset);
    let centre = b.addf(sample, half);
    let part = b.mulf(centre, side.bin);
    let part = b.divf(part, count);
    let x = b.addf(first, part);
    let extent = b.sitofp(length, element);
    let minus_one = b.float(-1.0, element);
    let is_low = b.cmpf(FloatPredicate::OrderedGreaterEqual, x, minus_one);
    let is_high = b.cmpf(FloatPredicate::OrderedLessEqual, x, extent);
    let is_inside = b.andi(is_low, is_high);
    let is_inside = b.andi(is_inside, is_sample);
    // Outside, any position within does.
    let x = b.select(is_inside, x, zero);
    let x = b.maximumf(x, zero);
    let last = b.subf(extent, one);
    let x = b.minimumf(x, last);
    let floor = b.floor(x);
    let upper = b.subf(x, floor);
    let lower = b.subf(one, upper);
    let index = integer(b, floor);
    let (zero, one) = (b.int(0, Element::I64), b.int(1, Element::I64));
    let last = b.subi(length, one);
    let clamp = |b: &mut Builder, index: Value| {
        let lesser = b.minsi(index, last);
        let within = b.maxsi(lesser, zero);
        b.index_cast(within, Element::Index)
    };
    let next = b.addi(index, one);
    Between { low: clamp(b, index), high: clamp(b, next), weights: [lower, upper], is_inside }
}

fn roi_align(cx: &mut Context, node: &Node<'_>, default: &'static str) -> Result<Outputs> {
    let (x, rois, batches) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let is_half_pixel = match node.text_or("coordinate_transformation_mode", default)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return unsupported(format!("the coordinate transformation `{other}` is not known")),
    };
    let is_max = match node.text_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => return unsupported(format!("the mode `{other}` is not known")),
    };
    if !x.ty.is_float() || !rois.ty.is_float() {
        return wrong_type(x.ty);
    }
    let ([_, channels, height, width], [regions, columns], [indices]) = (&*x.shape, &*rois.shape, &*batches.shape)
    else {
        return invalid("the input, the regions and their batches have not the ranks 4, 2 and 1");
    };
    cx.require_equal(columns, &Dim::constant(4), "the number of coordinates of a region")?;
    cx.require_equal(indices, regions, "the number of batch indices")?;
    let bins = [node.int_or("output_height", 1), node.int_or("output_width", 1)];
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let settings = Regions {
        rois: cx.value(rois)?,
        ty: rois.ty,
        element: rois.ty.computed().element(),
        scale: node.float_or("spatial_scale", 1.0),
        is_half_pixel,
        ratio: node.int_or("sampling_ratio", 0),
    };
    let samples = samples(cx, &settings, regions, bins)?;
    let shape = [regions.clone(), channels.clone(), Dim::constant(bins[0]), Dim::constant(bins[1])];
    cx.check_shape(work, &shape)?;
    let extents = [cx.index(height), cx.index(width)];
    cx.require_positions(batches, &x.shape[0], Accepted::Start, "`batch_indices`")?;
    let (image, batches) = (cx.value(x)?, cx.value(batches)?);
    let batch_count = x.shape.first().cloned().unwrap_or_else(|| Dim::constant(1));
    let batch_count = cx.index(&batch_count);
    // The loops over samples have their extents from a tensor whose elements are not read.
    let sample_extents = cx.extents(&samples);
    let sample_space = cx.b.empty(&sample_extents, Element::I8);
    let initial = cx.b.float(if is_max { f64::NEG_INFINITY } else { 0.0 }, work.element());
    let result_extents = cx.extents(&shape);
    let filled = cx.b.fill(initial, &result_extents);
    let mut iterators = vec![Iterator::Parallel; 4];
    iterators.extend([Iterator::Reduction; 2]);
    let maps = [Map::of(6, &[4, 5]), Map::of(6, &[0, 1, 2, 3])];
    let sampled = Sampled { image, ty: x.ty, work, batches, batch_count, extents, is_max };
    let result = cx.b.generic_single(&[sample_space], filled, &maps, &iterators, |b, arguments| {
        sampled.next(b, &settings, bins, arguments[1])
    });
    let sums = cx.tensor(result, work, shape.to_vec())?;
    if is_max {
        return one(without_lowest(cx, &sums, x.ty)?);
    }
    one(averaged(cx, &sums, &settings, bins, x.ty)?)
}

/// What the loop over samples reads.
struct Sampled {
    image: Value,
    ty: DataType,
    work: DataType,
    batches: Value,
    batch_count: Value,
    extents: [Value; 2],
    is_max: bool,
}

impl Sampled {
    /// Returns the accumulator behind the sample of the iteration (region, channel, row, column, sample row, sample column).
    fn next(&self, b: &mut Builder, settings: &Regions, bins: [i64; 2], accumulator: Value) -> Value {
        let at: Vec<Value> = (0..6).map(|dimension| b.iteration(dimension)).collect();
        let [region, channel, row, column, sample_row, sample_column] = at[..] else { return accumulator };
        let batch = b.extract(self.batches, &[region]);
        let batch = clamped(b, batch, self.batch_count);
        let vertical = settings.side(b, region, 1, bins[0]);
        let horizontal = settings.side(b, region, 0, bins[1]);
        let y = between(b, &vertical, row, sample_row, self.extents[0], settings.element);
        let x = between(b, &horizontal, column, sample_column, self.extents[1], settings.element);
        let mut terms = Vec::new();
        for (row, row_weight) in [(y.low, y.weights[0]), (y.high, y.weights[1])] {
            for (column, column_weight) in [(x.low, x.weights[0]), (x.high, x.weights[1])] {
                let element = read(b, self.image, &[batch, channel, row, column], self.ty);
                let weight = b.mulf(row_weight, column_weight);
                let weight = as_work(b, weight, self.work);
                terms.push(b.mulf(weight, element));
            }
        }
        let [first, second, third, fourth] = terms[..] else { return accumulator };
        let join = |b: &mut Builder, x: Value, y: Value| if self.is_max { b.maximumf(x, y) } else { b.addf(x, y) };
        let (upper, lower) = (join(b, first, second), join(b, third, fourth));
        let value = join(b, upper, lower);
        let is_inside = b.andi(y.is_inside, x.is_inside);
        if !self.is_max {
            let sum = b.addf(accumulator, value);
            return b.select(is_inside, sum, accumulator);
        }
        // A sample outside of the input is 0.
        let zero = b.float(0.0, self.work.element());
        let value = b.select(is_inside, value, zero);
        let greater = b.maximumf(accumulator, value);
        let (rows, columns) = (b.index_cast(sample_row, Element::I64), b.index_cast(sample_column, Element::I64));
        let is_row = b.cmpi(IntPredicate::SignedLess, rows, vertical.samples);
        let is_column = b.cmpi(IntPredicate::SignedLess, columns, horizontal.samples);
        let is_sample = b.andi(is_row, is_column);
        b.select(is_sample, greater, accumulator)
    }
}

fn as_work(b: &mut Builder, weight: Value, work: DataType) -> Value {
    let from = float_type(b.element_of(weight));
    converted(b, weight, from, work)
}

/// Converts an index from data to one within a tensor.
fn clamped(b: &mut Builder, index: Value, extent: Value) -> Value {
    let index = if b.element_of(index) == Element::I64 { index } else { b.extsi(index, Element::I64) };
    let within = clamped_integer(b, index, extent);
    b.index_cast(within, Element::Index)
}

/// The greatest numbers of samples of a bin along both dimensions.
fn samples(cx: &mut Context, settings: &Regions, regions: &Dim, bins: [i64; 2]) -> Result<[Dim; 2]> {
    if settings.ratio > 0 {
        return Ok([Dim::constant(settings.ratio), Dim::constant(settings.ratio)]);
    }
    let mut found = Vec::new();
    for (dimension, count) in [(1, bins[0]), (0, bins[1])] {
        let counts = cx.generate(std::slice::from_ref(regions), DataType::I64, |b, at| {
            settings.side(b, at[0], dimension, count).samples
        })?;
        let most =
            cx.reduce(&counts, &[0], DataType::I64, Scalar::Int(Dim::constant(1)), |b, x, most| b.maxsi(x, most))?;
        found.extend(cx.integers(&most)?);
    }
    match <[Dim; 2]>::try_from(found) {
        Ok(found) => Ok(found),
        Err(_) => invalid("the regions have no number of samples"),
    }
}

/// Divides the sums by the numbers of samples.
fn averaged(cx: &mut Context, sums: &Tensor, settings: &Regions, bins: [i64; 2], ty: DataType) -> Result<Tensor> {
    let value = cx.value(sums)?;
    cx.generate(&sums.shape, ty, |b, at| {
        let sum = read(b, value, at, sums.ty);
        let (vertical, horizontal) = (settings.side(b, at[0], 1, bins[0]), settings.side(b, at[0], 0, bins[1]));
        let product = b.muli(vertical.samples, horizontal.samples);
        let one = b.int(1, Element::I64);
        let count = b.maxsi(product, one);
        let count = b.sitofp(count, sums.ty.element());
        b.divf(sum, count)
    })
}

fn max_roi_pool(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, rois) = (node.input(0)?, node.input(1)?);
    if !x.ty.is_float() || !rois.ty.is_float() {
        return wrong_type(x.ty);
    }
    let ([batches, channels, height, width], [regions, columns], Some([rows_out, columns_out])) =
        (&*x.shape, &*rois.shape, node.ints("pooled_shape"))
    else {
        return invalid("the ranks are not 4 and 2, or `pooled_shape` has not 2 extents");
    };
    cx.require_equal(columns, &Dim::constant(5), "the number of coordinates of a region")?;
    let scale = node.float_or("spatial_scale", 1.0);
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let shape = [regions.clone(), channels.clone(), Dim::constant(*rows_out), Dim::constant(*columns_out)];
    cx.check_shape(work, &shape)?;
    let (image, boxes) = (cx.value(x)?, cx.value(rois)?);
    let (image_ty, boxes_ty) = (x.ty, rois.ty);
    let [batch_count, rows, row_length] = [batches, height, width].map(|dim| cx.index(dim));
    let space = cx.extents(&[height.clone(), width.clone()]);
    let space = cx.b.empty(&space, Element::I8);
    let lowest = cx.b.float(f64::NEG_INFINITY, work.element());
    let extents = cx.extents(&shape);
    let filled = cx.b.fill(lowest, &extents);
    let mut iterators = vec![Iterator::Parallel; 4];
    iterators.extend([Iterator::Reduction; 2]);
    let maps = [Map::of(6, &[4, 5]), Map::of(6, &[0, 1, 2, 3])];
    let most = cx.b.generic_single(&[space], filled, &maps, &iterators, |b, arguments| {
        let at: Vec<Value> = (0..6).map(|dimension| b.iteration(dimension)).collect();
        let [region, channel, row, column, y, x] = at[..] else { return arguments[1] };
        let zero = b.index(0);
        let batch = read(b, boxes, &[region, zero], boxes_ty);
        let batch = integer(b, batch);
        let batch = clamped(b, batch, batch_count);
        let read_box = |b: &mut Builder, column: i64| {
            let column = b.index(column);
            let position = read(b, boxes, &[region, column], boxes_ty);
            let factor = b.float(scale, boxes_ty.computed().element());
            b.mulf(position, factor)
        };
        let (top, bottom) = (read_box(b, 2), read_box(b, 4));
        let is_row = is_within(b, [top, bottom], row, y, *rows_out, rows);
        let (left, right) = (read_box(b, 1), read_box(b, 3));
        let is_column = is_within(b, [left, right], column, x, *columns_out, row_length);
        let is_inside = b.andi(is_row, is_column);
        let element = read(b, image, &[batch, channel, y, x], image_ty);
        let greater = b.maximumf(arguments[1], element);
        b.select(is_inside, greater, arguments[1])
    });
    let most = cx.tensor(most, work, shape.to_vec())?;
    one(without_lowest(cx, &most, x.ty)?)
}

/// Replaces the greatest of no elements by 0.
fn without_lowest(cx: &mut Context, most: &Tensor, ty: DataType) -> Result<Tensor> {
    cx.map(&[most], ty, |b, elements| {
        let element = b.element_of(elements[0]);
        let (zero, lowest) = (b.float(0.0, element), b.float(f64::NEG_INFINITY, element));
        let is_empty = b.cmpf(FloatPredicate::OrderedEqual, elements[0], lowest);
        b.select(is_empty, zero, elements[0])
    })
}

/// Returns whether an element of a dimension is in a bin of a region that begins and ends at given positions.
fn is_within(b: &mut Builder, bounds: [Value; 2], bin: Value, index: Value, bins: i64, extent: Value) -> Value {
    let element = b.element_of(bounds[0]);
    let (half, one) = (b.float(0.5, element), b.float(1.0, element));
    // Halves are rounded away from zero.
    let [start, end] = bounds.map(|bound| {
        let zero = b.float(0.0, element);
        let magnitude = b.absf(bound);
        let raised = b.addf(magnitude, half);
        let whole = b.floor(raised);
        let negated = b.negf(whole);
        let is_negative = b.cmpf(FloatPredicate::OrderedLess, bound, zero);
        b.select(is_negative, negated, whole)
    });
    let difference = b.subf(end, start);
    let length = b.addf(difference, one);
    let length = b.maximumf(length, one);
    let count = b.float(bins as f64, element);
    let size = b.divf(length, count);
    let bin = b.index_cast(bin, Element::I64);
    let bin = b.sitofp(bin, element);
    let next = b.addf(bin, one);
    let (low, high) = (b.mulf(bin, size), b.mulf(next, size));
    let (low, high) = (b.floor(low), b.ceil(high));
    let (low, high) = (b.addf(low, start), b.addf(high, start));
    let extent = b.index_cast(extent, Element::I64);
    let extent = b.sitofp(extent, element);
    let high = b.minimumf(high, extent);
    let index = b.index_cast(index, Element::I64);
    let index = b.sitofp(index, element);
    let is_behind = b.cmpf(FloatPredicate::OrderedGreaterEqual, index, low);
    let is_before = b.cmpf(FloatPredicate::OrderedLess, index, high);
    b.andi(is_behind, is_before)
}
