//! Vectors that are rounded before they are multiplied with quantised weights.

use incarnate_mlir::{Builder, Element, Extent, FloatPredicate, Iterator, Map, Value};

use super::activations::Activations;
use super::blocks::{INTEGER_LANES, LANES};
use super::dispatch::Dispatch;
use super::weight::{Weight, constants};

/// Elements of blocks whose greatest absolute value is less are rounded to 0: their scales have no inverse in `f32`.
const LEAST_MAXIMUM: f64 = 1e-30;

/// A vector of integers with scales.
pub(super) struct Quantized {
    /// The integers, as `i8` or `i16`: blocks of a weight, and their elements.
    quanta: Value,
    /// The scales of blocks.
    scales: Value,
    /// The sums, if the weight has minima.
    pub(super) sums: Option<Sums>,
}

/// The sums of a lane's elements for all products that have a scale in common. Where groups have scales of their own, as `i16`: blocks, half of
/// the scales, lanes, and two scales; otherwise as `f32`, times the scale: blocks and lanes.
#[derive(Clone, Copy)]
pub(super) struct Sums(Value);

impl Quantized {
    /// Reads the integer of an element of a block, as `i32`.
    pub(super) fn quantum(&self, b: &mut Builder, block: Value, element: Value) -> Value {
        quantum_at(b, self.quanta, block, element)
    }

    /// Reads the scale of a block.
    pub(super) fn scale(&self, b: &mut Builder, block: Value) -> Value {
        b.extract(self.scales, &[block])
    }
}

impl Sums {
    /// Reads the sum of a lane of a block.
    pub(super) fn of_block(self, b: &mut Builder, block: Value, lane: Value) -> Value {
        b.extract(self.0, &[block, lane])
    }

    /// Reads the sums of a lane for two scales of a block, as `i32`.
    pub(super) fn of_groups(self, b: &mut Builder, [block, scales, lane]: [Value; 3]) -> [Value; 2] {
        [0, 1].map(|index| {
            let index = b.index(index);
            let sum = b.extract(self.0, &[block, scales, lane, index]);
            b.extsi(sum, Element::I32)
        })
    }
}

fn quantum_at(b: &mut Builder, quanta: Value, block: Value, element: Value) -> Value {
    let quantum = b.extract(quanta, &[block, element]);
    b.extsi(quantum, Element::I32)
}

/// How many adjacent elements a lane of integers multiplies: four bytes, or two integers of 16 bits. Processors have an instruction for each.
///
/// Four are those of rows of 32 elements, whose quanta must be in as many adjacent bytes. The minima of such a row must be the same.
pub(super) fn elements_of_lane(weight: &Weight) -> i64 {
    let format = weight.format;
    let has_rows = format.has_scales_of_groups() && (format.groups_of_scale() > 1 || !format.has_minima());
    if weight.activations == Activations::I8 && has_rows { 4 } else { 2 }
}

/// The first element of a lane in a group.
pub(super) fn first_of_lane(b: &mut Builder, weight: &Weight, lane: Value) -> Value {
    let count = b.index(elements_of_lane(weight));
    b.muli(lane, count)
}

/// The largest integer of vectors for a weight, if they are rounded.
fn largest_for(weight: &Weight) -> Option<i64> {
    weight.activations.largest().filter(|_| weight.format.is_quantized())
}

/// Rounds vectors `[rows, columns]` for a product with a weight, if they are.
pub(super) fn rounded(b: &mut Builder, rows: Extent, x: Value, weight: &Weight) -> Value {
    let Some(largest) = largest_for(weight) else { return x };
    let [blocks, length] = weight.split_columns().map(Extent::Constant);
    let extents = [rows, blocks, length];
    let x = b.expand_shape(x, &[vec![0], vec![1, 2]], &extents);
    let zero = b.float(0.0, Element::F32);
    let initial = b.fill(zero, &extents[..2]);
    let maps = [Map::identity(3), Map::of(3, &[0, 1])];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let maxima = b.generic_single(&[x], initial, &maps, &iterators, greatest);
    let empty = b.empty(&extents, Element::F32);
    let maps = [Map::identity(3), Map::of(3, &[0, 1]), Map::identity(3)];
    let rounded = b.generic_single(&[x, maxima], empty, &maps, &[Iterator::Parallel; 3], |b, x| {
        let quantum = quantum(b, x[0], x[1], largest);
        let scale = scale(b, x[1], largest);
        let quantum = b.sitofp(quantum, Element::F32);
        b.mulf(quantum, scale)
    });
    b.collapse_shape(rounded, &[vec![0], vec![1, 2]])
}

/// Rounds a vector for a product with a weight; `None` if that takes it as it is.
pub(super) fn quantized(b: &mut Builder, x: Value, weight: &Weight) -> Option<Quantized> {
    let largest = largest_for(weight)?;
    let elements = weight.split_columns().map(Extent::Constant);
    let blocks = &elements[..1];
    let x = b.expand_shape(x, &[vec![0, 1]], &elements);
    let mut dispatch = Dispatch::begin(b, weight.is_portable);
    let zero = b.float(0.0, Element::F32);
    let initial = b.fill(zero, blocks);
    let maps = [Map::identity(2), Map::of(2, &[0])];
    let maxima = dispatch.generic(b, (&[x], initial), &maps, &[Iterator::Parallel, Iterator::Reduction], greatest);
    let element = if elements_of_lane(weight) == 4 { Element::I8 } else { Element::I16 };
    let empty = b.empty(&elements, element);
    let maps = [Map::identity(2), Map::of(2, &[0]), Map::identity(2)];
    let quanta = dispatch.generic(b, (&[x, maxima], empty), &maps, &[Iterator::Parallel; 2], |b, x| {
        let quantum = quantum(b, x[0], x[1], largest);
        b.trunci(quantum, element)
    });
    let empty = b.empty(blocks, Element::F32);
    let maps = [Map::identity(1), Map::identity(1)];
    let scales = dispatch.generic(b, (&[maxima], empty), &maps, &[Iterator::Parallel], |b, x| scale(b, x[0], largest));
    if !weight.format.has_minima() {
        let [quanta, scales] = dispatch.end(b, [(quanta, &elements), (scales, blocks)]);
        return Some(Quantized { quanta, scales, sums: None });
    }
    let (sums, of_sums) = sums_of_lanes(b, &mut dispatch, (quanta, scales), weight);
    let [quanta, scales, sums] = dispatch.end(b, [(quanta, &elements), (scales, blocks), (sums, &of_sums)]);
    Some(Quantized { quanta, scales, sums: Some(Sums(sums)) })
}

/// [`Sums`], with their extents.
fn sums_of_lanes(
    b: &mut Builder,
    dispatch: &mut Dispatch,
    (quanta, scales): (Value, Value),
    weight: &Weight,
) -> (Value, Vec<Extent>) {
    let [blocks, length] = weight.split_columns();
    let of_groups = weight.format.has_scales_of_groups();
    let of_lane = elements_of_lane(weight);
    let group = of_lane * INTEGER_LANES;
    let of_scale = group.max(weight.format.groups_of_scale() * LANES);
    let (extents, element) = match of_groups {
        true => (constants(&[blocks, length / of_scale / 2, INTEGER_LANES, 2]), Element::I16),
        false => (constants(&[blocks, INTEGER_LANES]), Element::F32),
    };
    let empty = b.empty(&extents, element);
    let rank = extents.len();
    let maps = [Map::of(rank, &[0]), Map::identity(rank)];
    let sums = dispatch.generic(b, (&[scales], empty), &maps, &vec![Iterator::Parallel; rank], |b, x| {
        let (block, lane) = (b.iteration(0), b.iteration(if of_groups { 2 } else { 1 }));
        let mut first = first_of_lane(b, weight, lane);
        // The first element of the scale's first group.
        for (dimension, distance) in [(1, 2 * of_scale), (3, of_scale)].into_iter().filter(|_| of_groups) {
            let (index, distance) = (b.iteration(dimension), b.index(distance));
            let start = b.muli(index, distance);
            first = b.addi(first, start);
        }
        let mut sum = b.int(0, Element::I32);
        for offset in (0..of_scale).step_by(group as usize).flat_map(|group| group..group + of_lane) {
            let offset = b.index(offset);
            let element = b.addi(first, offset);
            let quantum = quantum_at(b, quanta, block, element);
            sum = b.addi(sum, quantum);
        }
        if of_groups {
            return b.trunci(sum, Element::I16);
        }
        let sum = b.sitofp(sum, Element::F32);
        b.mulf(sum, x[0])
    });
    (sums, extents)
}

/// The body of a reduction to the greatest absolute value.
fn greatest(b: &mut Builder, x: &[Value]) -> Value {
    let absolute = b.absf(x[0]);
    b.maximumf(x[1], absolute)
}

/// The scale of elements of which the greatest absolute value is given.
fn scale(b: &mut Builder, maximum: Value, largest: i64) -> Value {
    let inverse = b.float(1.0 / largest as f64, Element::F32);
    b.mulf(maximum, inverse)
}

/// The integer of an element, as `i32`: the closest one to the element divided by the scale, of two the even one.
fn quantum(b: &mut Builder, x: Value, maximum: Value, largest: i64) -> Value {
    let [largest, zero, least] = [largest as f64, 0.0, LEAST_MAXIMUM].map(|number| b.float(number, Element::F32));
    let factor = b.divf(largest, maximum);
    let is_less = b.cmpf(FloatPredicate::OrderedLess, maximum, least);
    let factor = b.select(is_less, zero, factor);
    let scaled = b.mulf(x, factor);
    let rounded = b.roundeven(scaled);
    b.fptosi(rounded, Element::I32)
}
