//! Vectors that are rounded before they are multiplied with quantised weights.

use core::fmt;
use core::str::FromStr;

use incarnate_mlir::{Builder, Element, Extent, FloatPredicate, Iterator, Map, Value};

use super::blocks::{LANES, PAIRS};
use super::dispatch::Dispatch;
use super::weight::Weight;

/// How vectors are rounded before they are multiplied with weights that are stored as blocks of quanta. With other weights they are not.
///
/// Each 32 elements of a rounded vector are integers times a scale, which is their greatest absolute value divided by the largest integer.
/// Products of one vector multiply these integers with the quanta, which is faster than products of floats. All functions of a module round
/// alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// They are not: products are those of the stored weights and `f32` vectors.
    #[default]
    F32,
    /// To integers of 16 bits. The products are exact sums of integers.
    I16,
    /// To integers of 8 bits, as llama.cpp does.
    I8,
}

/// Elements that have a scale in common.
const BLOCK: i64 = 32;

/// Elements of blocks whose greatest absolute value is less are rounded to 0: their scales have no inverse in `f32`.
const LEAST_MAXIMUM: f64 = 1e-30;

/// A vector of integers with scales.
pub(super) struct Quantized {
    /// The integers, as `i16`: blocks, groups and lanes of a weight.
    quanta: Value,
    /// The scales: blocks and all groups of a weight but the last ones.
    scales: Value,
    /// The sums of pairs of adjacent elements as `f32`: blocks, groups and pairs of a weight. Those of the last groups are added where they
    /// share a scale.
    sums: Value,
    /// The dimensions of the scales.
    outer: usize,
}

impl Quantized {
    /// Reads an integer, as `i32`.
    pub(super) fn quantum(&self, b: &mut Builder, block: Value, groups: &[Value], lane: Value) -> Value {
        let quantum = b.extract(self.quanta, &[&[block], groups, &[lane]].concat());
        b.extsi(quantum, Element::I32)
    }

    /// Reads the scale of a group.
    pub(super) fn scale(&self, b: &mut Builder, block: Value, groups: &[Value]) -> Value {
        let mut position = [&[block], groups].concat();
        position.truncate(self.outer);
        b.extract(self.scales, &position)
    }

    /// Reads the sum of a pair of lanes.
    pub(super) fn sum(&self, b: &mut Builder, block: Value, groups: &[Value], pair: Value) -> Value {
        b.extract(self.sums, &[&[block], groups, &[pair]].concat())
    }
}

/// The lanes of a pair.
pub(super) fn lanes_of_pair(b: &mut Builder, pair: Value) -> [Value; 2] {
    let (one, two) = (b.index(1), b.index(2));
    let first = b.muli(pair, two);
    [first, b.addi(first, one)]
}

impl Activations {
    const ALL: [Activations; 3] = [Activations::F32, Activations::I16, Activations::I8];

    const fn name(self) -> &'static str {
        match self {
            Activations::F32 => "f32",
            Activations::I16 => "i16",
            Activations::I8 => "i8",
        }
    }

    /// The largest integer; `None` where vectors are not rounded.
    fn largest(self) -> Option<i64> {
        match self {
            Activations::F32 => None,
            Activations::I16 => Some(0x7fff),
            Activations::I8 => Some(0x7f),
        }
    }

    /// The largest integer of vectors for a weight, if they are rounded.
    fn largest_for(self, weight: &Weight) -> Option<i64> {
        self.largest().filter(|_| weight.format.is_quantized())
    }

    /// Rounds vectors `[rows, columns]` for a product with a weight, if they are.
    pub(super) fn rounded(self, b: &mut Builder, rows: Extent, x: Value, weight: &Weight) -> Value {
        let Some(largest) = self.largest_for(weight) else { return x };
        let extents = [rows, Extent::Constant(weight.columns / BLOCK), Extent::Constant(BLOCK)];
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
    pub(super) fn quantized(self, b: &mut Builder, x: Value, weight: &Weight) -> Option<Quantized> {
        let largest = self.largest_for(weight)?;
        let format = weight.format;
        let mut outer = vec![weight.columns / format.elements()];
        outer.extend(format.groups.split_last().map(|(_, outer)| outer).unwrap_or_default());
        let dimensions = outer.len();
        let of_group = [if format.shares_scales() { vec![] } else { vec![2] }, vec![PAIRS]].concat();
        let elements = constants(&[&outer[..], &[2, LANES]].concat());
        let sums = constants(&[&outer[..], &of_group].concat());
        let outer = constants(&outer);
        let rank = elements.len();
        let x = b.expand_shape(x, &[(0..rank).collect()], &elements);
        let mut dispatch = Dispatch::begin(b, weight.is_portable);
        let zero = b.float(0.0, Element::F32);
        let initial = b.fill(zero, &outer);
        let blocks = Map::of(rank, &(0..dimensions).collect::<Vec<_>>());
        let mut iterators = vec![Iterator::Parallel; rank];
        iterators[dimensions..].fill(Iterator::Reduction);
        let maps = [Map::identity(rank), blocks.clone()];
        let maxima = dispatch.generic(b, (&[x], initial), &maps, &iterators, greatest);
        let empty = b.empty(&elements, Element::I16);
        let maps = [Map::identity(rank), blocks, Map::identity(rank)];
        let iterators = vec![Iterator::Parallel; rank];
        let quanta = dispatch.generic(b, (&[x, maxima], empty), &maps, &iterators, |b, x| {
            let quantum = quantum(b, x[0], x[1], largest);
            b.trunci(quantum, Element::I16)
        });
        let empty = b.empty(&outer, Element::F32);
        let maps = [Map::identity(dimensions), Map::identity(dimensions)];
        let iterators = vec![Iterator::Parallel; dimensions];
        let scales = dispatch.generic(b, (&[maxima], empty), &maps, &iterators, |b, x| scale(b, x[0], largest));
        let sum = sums_of_pairs(b, &mut dispatch, (quanta, scales), &sums);
        let [quanta, scales, sums] = dispatch.end(b, [(quanta, &elements), (scales, &outer), (sum, &sums)]);
        Some(Quantized { quanta, scales, sums, outer: dimensions })
    }
}

impl fmt::Display for Activations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Activations {
    type Err = String;

    /// Parses a name: `f32`, `i16` or `i8`.
    fn from_str(name: &str) -> Result<Activations, String> {
        let found = Activations::ALL.into_iter().find(|activations| activations.name() == name);
        found.ok_or_else(|| format!("'{name}' is none of {}", Activations::ALL.map(Activations::name).join(", ")))
    }
}

/// Adds the elements of each pair of lanes, as `f32`. Elements of the last groups are added, too, where these have no dimension of the sums.
fn sums_of_pairs(
    b: &mut Builder,
    dispatch: &mut Dispatch,
    (quanta, scales): (Value, Value),
    extents: &[Extent],
) -> Value {
    let empty = b.empty(extents, Element::F32);
    let (rank, outer) = (extents.len(), b.rank(scales));
    let maps = [Map::of(rank, &(0..outer).collect::<Vec<_>>()), Map::identity(rank)];
    dispatch.generic(b, (&[scales], empty), &maps, &vec![Iterator::Parallel; rank], |b, x| {
        let at: Vec<Value> = (0..rank).map(|dimension| b.iteration(dimension)).collect();
        let (blocks, inner) = at.split_at(outer);
        let (groups, pair) = match inner {
            [group, pair] => (vec![*group], *pair),
            inner => ([0, 1].map(|index| b.index(index)).to_vec(), inner.first().copied().unwrap_or(x[0])),
        };
        let lanes = lanes_of_pair(b, pair);
        let mut sum = b.int(0, Element::I32);
        for (group, lane) in groups.into_iter().flat_map(|group| lanes.map(|lane| (group, lane))) {
            let quantum = b.extract(quanta, &[blocks, &[group, lane]].concat());
            let quantum = b.extsi(quantum, Element::I32);
            sum = b.addi(sum, quantum);
        }
        let sum = b.sitofp(sum, Element::F32);
        b.mulf(sum, x[0])
    })
}

fn constants(extents: &[i64]) -> Vec<Extent> {
    extents.iter().copied().map(Extent::Constant).collect()
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
