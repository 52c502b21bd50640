//! Attention of a batch: each row is of another conversation, and attends to positions of its own.
//!
//! The loops over rows run in the kernels, which read where a row's keys and values are.

use incarnate_mlir::{Builder, Element, Extent, Iterator, Map, Value};

use super::attention::{Attended, Part, Place};
use super::config::Config;
use super::norm::soft_capped;
use super::product::multiply_add;

/// The loops of the products of a row, the last of which sums.
const LOOPS: [Iterator; 4] = [Iterator::Parallel, Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];

/// Where the rows of a batch are in the cache.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    places: Vec<Place>,
    /// The indices of the rows, see [`opaque_indices`].
    rows: Vec<Value>,
    /// The slots, `[rows] i32`.
    slots: Value,
    all: Ranges,
    /// The positions that layers with a sliding window attend to, unless they attend to all.
    local: Option<Ranges>,
}

/// The positions that rows attend to.
#[derive(Clone, Copy, Debug)]
struct Ranges {
    /// The first position of each row, `[rows] i32`.
    starts: Value,
    /// Their numbers, `[rows] i32`.
    counts: Value,
    /// The greatest number, of type `index`.
    greatest: Value,
}

impl Ranges {
    fn new(b: &mut Builder, rows: &[[Extent; 2]]) -> Ranges {
        let mut column = |at: usize| -> Vec<Value> { rows.iter().map(|row| index_of(b, row[at])).collect() };
        let (starts, counts) = (column(0), column(1));
        let greatest = counts.iter().copied().reduce(|one, other| b.maxsi(one, other));
        let greatest = greatest.unwrap_or_else(|| b.index(0));
        Ranges { starts: tensor_of(b, &starts), counts: tensor_of(b, &counts), greatest }
    }
}

/// Indices from 0 on that are no constants for the compiler, so that code which they alone tell apart is shared. Barriers end command
/// buffers, so that their place is the beginning of a function.
pub(super) fn opaque_indices(b: &mut Builder, count: usize) -> Vec<Value> {
    let opaque = |index: usize| {
        let index = b.index(i64::try_from(index).unwrap_or(i64::MAX));
        b.opaque(index)
    };
    (0..count).map(opaque).collect()
}

fn index_of(b: &mut Builder, extent: Extent) -> Value {
    match extent {
        Extent::Constant(number) => b.index(number),
        Extent::Value(value) => value,
    }
}

/// Numbers of type `index` as a tensor `[rows] i32`.
fn tensor_of(b: &mut Builder, numbers: &[Value]) -> Value {
    let numbers: Vec<Value> = numbers.iter().map(|number| b.index_cast(*number, Element::I32)).collect();
    b.from_elements(&numbers, &[numbers.len() as u64])
}

impl Batch {
    pub(super) fn new(b: &mut Builder, places: Vec<Place>) -> Batch {
        let rows = opaque_indices(b, places.len());
        let slots: Vec<Value> = places.iter().map(|place| place.slot).collect();
        let all: Vec<[Extent; 2]> = places.iter().map(|place| place.attended(None)).collect();
        let local: Option<Vec<[Extent; 2]>> =
            places.iter().map(|place| place.local.map(|local| place.attended(Some(local)))).collect();
        let (slots, all) = (tensor_of(b, &slots), Ranges::new(b, &all));
        Batch { places, rows, slots, all, local: local.map(|local| Ranges::new(b, &local)) }
    }

    fn ranges(&self, keys: &Attended<'_>) -> &Ranges {
        self.local.as_ref().filter(|_| keys.is_local).unwrap_or(&self.all)
    }

    /// Attends: queries, keys and values are `[rows, heads, size]`, the result `[rows, heads * size]`. Keys and values are written to the
    /// cache first.
    pub(super) fn attend(
        &self,
        b: &mut Builder,
        config: &Config,
        [queries, own_keys, own_values]: [Value; 3],
        keys: &Attended<'_>,
    ) -> Value {
        let mut cached = keys.load(b);
        for (part, x) in [(Part::Keys, own_keys), (Part::Values, own_values)] {
            for (place, row) in self.places.iter().zip(&self.rows) {
                let own = row_of(b, *row, x);
                cached = keys.with(b, place, (part, own), cached);
            }
        }
        keys.store(b, cached);
        let rows = i64::try_from(self.places.len()).unwrap_or(i64::MAX);
        let [rows, groups, size] = [rows, config.key_heads, config.head_size].map(Extent::Constant);
        let shared = Extent::Constant(config.heads / config.key_heads);
        let queries = b.expand_shape(queries, &[vec![0], vec![1, 2], vec![3]], &[rows, groups, shared, size]);
        let ranges = *self.ranges(keys);
        let extents = [rows, groups, shared, ranges.greatest.into()];
        let scores = self.scores(b, (config, &ranges), (queries, cached), keys, &extents);
        let weights = b.softmax(scores, 3, &extents);
        let results = [rows, groups, shared, size];
        let body = |b: &mut Builder, row: Value| {
            let (values, count) = self.rows(b, (keys, &ranges), (cached, Part::Values), row);
            let weights = slice_of_row(b, weights, row, &[groups, shared, count]);
            // Loops: groups, heads of a group, elements; positions.
            let maps = [Map::of(4, &[0, 1, 3]), Map::of(4, &[3, 0, 2]), Map::of(4, &[0, 1, 2])];
            ([weights, values], maps, [groups, shared, size])
        };
        let attended = self.of_rows(b, &results, 0.0, body, |_, sums| sums);
        b.collapse_shape(attended, &[vec![0], vec![1, 2, 3]])
    }

    /// The products of queries and keys `[rows, groups, heads of a group, positions]`, scaled; positions behind those of a row have none.
    fn scores(
        &self,
        b: &mut Builder,
        (config, ranges): (&Config, &Ranges),
        (queries, cached): (Value, Value),
        keys: &Attended<'_>,
        extents: &[Extent; 4],
    ) -> Value {
        let [_, groups, shared, _] = *extents;
        let size = Extent::Constant(config.head_size);
        let body = |b: &mut Builder, row: Value| {
            let (keys, count) = self.rows(b, (keys, ranges), (cached, Part::Keys), row);
            let queries = slice_of_row(b, queries, row, &[groups, shared, size]);
            // Loops: groups, heads of a group, positions; elements.
            let maps = [Map::of(4, &[0, 1, 3]), Map::of(4, &[2, 0, 3]), Map::of(4, &[0, 1, 2])];
            ([queries, keys], maps, [groups, shared, count])
        };
        self.of_rows(b, extents, f64::NEG_INFINITY, body, |b, sums| {
            let scale = b.float(config.attention_scale, Element::F32);
            b.whole_generic((&[], sums), &[Map::identity(3)], &[Iterator::Parallel; 3], false, |b, x| {
                let scaled = b.mulf(x[0], scale);
                soft_capped(b, scaled, config.score_cap)
            })
        })
    }

    /// A part of a row's slot: `[positions, heads, size]`, and the number of positions.
    fn rows(
        &self,
        b: &mut Builder,
        (keys, ranges): (&Attended<'_>, &Ranges),
        (cached, part): (Value, Part),
        row: Value,
    ) -> (Value, Extent) {
        let [slot, first, count] = [self.slots, ranges.starts, ranges.counts].map(|numbers| {
            let number = b.extract(numbers, &[row]);
            b.index_cast(number, Element::Index)
        });
        (keys.slice(b, (cached, part), slot, (first.into(), count.into())), count.into())
    }

    /// Computes sums of products for each row, in a dispatch: a tensor of the extents, the first of which is the number of rows. `body` returns
    /// factors of a row, their maps and that of the sums, and the extents of the sums; `finish` what becomes of the sums. Other elements
    /// of a row are `padding`.
    fn of_rows(
        &self,
        b: &mut Builder,
        extents: &[Extent; 4],
        padding: f64,
        body: impl FnOnce(&mut Builder, Value) -> ([Value; 2], [Map; 3], [Extent; 3]),
        finish: impl FnOnce(&mut Builder, Value) -> Value,
    ) -> Value {
        let [_, whole @ ..] = *extents;
        b.dispatch(extents, |b| {
            b.set_in_dispatch(true);
            let initial = b.empty(extents, Element::F32);
            let count = b.index(i64::try_from(self.places.len()).unwrap_or(i64::MAX));
            let [nothing, padding] = [0.0, padding].map(|number| b.float(number, Element::F32));
            let results = b.fold(count, initial, |b, row, carried| {
                let (factors, maps, own) = body(b, row);
                let all = slice_of_row(b, carried, row, &whole);
                let all = b.fill_into(padding, all);
                let ([zeros, ones], sizes) = ([0, 1].map(|number| [Extent::Constant(number); 3]), own);
                let sums = b.extract_slice(all, &zeros, &sizes, &ones, &[]);
                let sums = b.fill_into(nothing, sums);
                let sums = b.whole_generic((&factors, sums), &maps, &LOOPS, true, multiply_add);
                let sums = finish(b, sums);
                let all = b.insert_slice(sums, all, &zeros, &sizes, &ones, &[]);
                let (offsets, sizes) = of_row(row, &whole);
                b.insert_slice(all, carried, &offsets, &sizes, &[Extent::Constant(1); 4], &[0])
            });
            b.set_in_dispatch(false);
            results
        })
    }
}

/// The offsets and sizes of a row's part of a tensor.
fn of_row(row: Value, extents: &[Extent; 3]) -> ([Extent; 4], [Extent; 4]) {
    let [zero, one] = [0, 1].map(Extent::Constant);
    let [first, second, third] = *extents;
    ([row.into(), zero, zero, zero], [one, first, second, third])
}

/// A row's part of a tensor, without the first dimension.
fn slice_of_row(b: &mut Builder, x: Value, row: Value, extents: &[Extent; 3]) -> Value {
    let (offsets, sizes) = of_row(row, extents);
    b.extract_slice(x, &offsets, &sizes, &[Extent::Constant(1); 4], &[0])
}

/// One of the rows `[rows, heads, size]`.
fn row_of(b: &mut Builder, row: Value, x: Value) -> Value {
    let [zero, one] = [0, 1].map(Extent::Constant);
    let (offsets, sizes) = ([row.into(), zero, zero], [&[one], &b.extents(x)[1..]].concat());
    b.extract_slice(x, &offsets, &sizes, &[one; 3], &[])
}
