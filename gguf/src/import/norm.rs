//! Norms by the root of the mean square, sums and soft caps.

use incarnate_mlir::{Builder, Element, Extent, Iterator, Map, Value};

use super::config::Config;
use super::dispatch::Dispatch;
use super::weight::Vector;

/// Divides the elements of the last dimension, of `length` elements, by the root of their mean square, and multiplies them by weights.
pub(super) fn rms_norm(b: &mut Builder, config: &Config, x: Value, weight: &Vector, length: i64) -> Value {
    let weight = weight.load(b);
    let extents = b.extents(x);
    let rank = extents.len();
    let last = rank.saturating_sub(1);
    let outer: Vec<usize> = (0..last).collect();
    let sums: Vec<Extent> = extents.iter().take(last).copied().collect();
    let epsilon = config.norm_epsilon;
    // One vector takes less time than a second dispatch.
    let is_one = sums.iter().all(|extent| *extent == Extent::Constant(1));
    let mut dispatch = Dispatch::begin(b, is_one && config.is_portable);
    let zero = b.float(0.0, Element::F32);
    let sums = b.fill(zero, &sums);
    let mut iterators = vec![Iterator::Parallel; rank];
    if let Some(iterator) = iterators.last_mut() {
        *iterator = Iterator::Reduction;
    }
    let maps = [Map::identity(rank), Map::of(rank, &outer)];
    let sums = dispatch.generic(b, (&[x], sums), &maps, &iterators, |b, x| {
        let square = b.mulf(x[0], x[0]);
        b.addf(x[1], square)
    });
    let empty = b.empty(&extents, Element::F32);
    let maps = [Map::identity(rank), Map::of(rank, &outer), Map::of(rank, &[last]), Map::identity(rank)];
    let iterators = vec![Iterator::Parallel; rank];
    let normalised = dispatch.generic(b, (&[x, sums, weight], empty), &maps, &iterators, |b, x| {
        let (length, epsilon) = (b.float(length as f64, Element::F32), b.float(epsilon, Element::F32));
        let (one, mean) = (b.float(1.0, Element::F32), b.divf(x[1], length));
        let sum = b.addf(mean, epsilon);
        let root = b.sqrt(sum);
        let scale = b.divf(one, root);
        let scaled = b.mulf(x[0], scale);
        b.mulf(scaled, x[2])
    });
    let [normalised] = dispatch.end(b, [(normalised, &extents)]);
    normalised
}

/// Adds the rows of `[rows, width]`: `[width]`.
pub(super) fn sum_of_rows(b: &mut Builder, x: Value, width: i64) -> Value {
    let zero = b.float(0.0, Element::F32);
    let sums = b.fill(zero, &[Extent::Constant(width)]);
    // The rows are the inner loop, which is a reduction.
    let maps = [Map::of(2, &[1, 0]), Map::of(2, &[0])];
    b.generic_single(&[x], sums, &maps, &[Iterator::Parallel, Iterator::Reduction], |b, x| b.addf(x[1], x[0]))
}

/// Adds a vector to each row.
pub(super) fn add_to_rows(b: &mut Builder, x: Value, vector: Value) -> Value {
    let extents = b.extents(x);
    let empty = b.empty(&extents, Element::F32);
    let maps = [Map::identity(2), Map::of(2, &[1]), Map::identity(2)];
    b.generic_single(&[x, vector], empty, &maps, &[Iterator::Parallel; 2], |b, x| b.addf(x[0], x[1]))
}

/// Multiplies elements by a factor.
pub(super) fn scaled(b: &mut Builder, x: Value, factor: f64) -> Value {
    if factor == 1.0 {
        return x;
    }
    b.elementwise(&[x], Element::F32, |b, x| {
        let factor = b.float(factor, Element::F32);
        b.mulf(x[0], factor)
    })
}

/// Adds elements, times a factor, to others of the same shape.
pub(super) fn add_scaled(b: &mut Builder, x: Value, added: Value, factor: f64) -> Value {
    b.elementwise(&[x, added], Element::F32, |b, x| {
        let factor = b.float(factor, Element::F32);
        let scaled = b.mulf(x[1], factor);
        b.addf(x[0], scaled)
    })
}

/// Keeps a number within a bound: `cap * tanh(x / cap)`; all numbers where that is 0.
pub(super) fn soft_capped(b: &mut Builder, x: Value, cap: f64) -> Value {
    if cap == 0.0 {
        return x;
    }
    let (inverse, cap) = (b.float(1.0 / cap, Element::F32), b.float(cap, Element::F32));
    let inner = b.mulf(x, inverse);
    let tangent = b.tanh(inner);
    b.mulf(tangent, cap)
}
