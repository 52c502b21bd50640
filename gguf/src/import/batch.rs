//! Attention of a batch: each row is of another conversation, and attends to positions of its own.
//!
//! The loops over rows run in the kernels, which read where a row's keys and values are.

use incarnate_mlir::{Builder, Element, Extent, Iterator, Map, Value};

use super::attention::{Attended, Part, Place};
use super::config::Config;
use super::norm::soft_capped;
use super::product::multiply_add;

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
        let mut column = |at: usize| -> Vec<Value> { rows.iter().map(|row| b.index_of(row[at])).collect() };
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
        let (heads, ranges) = (Heads::of(config), *self.ranges(keys));
        let (rows, size) = (self.count(), Extent::Constant(config.head_size));
        let queries = b.collapse_shape(queries, &[vec![0], vec![1, 2]]);
        let queries = heads.expand(b, queries, &[rows], &[size]);
        let scores = self.scores(b, (config, &heads, &ranges), (queries, cached), keys);
        let weights = self.weights(b, &heads, scores, ranges.greatest.into());
        let body = |b: &mut Builder, row: Value| {
            let (values, count) = self.rows(b, (keys, &heads, &ranges), (cached, Part::Values), row);
            let weights = slice(b, weights, (1, row), &heads.with(&[count], &[]));
            // Loops: those of heads, elements; positions.
            let (element, position) = (heads.count(), heads.count() + 1);
            let maps = [heads.map(&[position], &[]), heads.map_of_keys(position, element), heads.map(&[], &[element])];
            ([weights, values], maps, heads.with(&[], &[size]))
        };
        let attended = self.of_rows(b, (&heads, size), 0.0, body, |_, sums| sums);
        b.collapse_shape(attended, &[vec![0], (1..heads.count() + 2).collect()])
    }

    /// The number of rows.
    fn count(&self) -> Extent {
        Extent::Constant(i64::try_from(self.places.len()).unwrap_or(i64::MAX))
    }

    /// The products of queries and keys `[rows, heads, positions]`, scaled; positions behind those of a row have none.
    fn scores(
        &self,
        b: &mut Builder,
        (config, heads, ranges): (&Config, &Heads, &Ranges),
        (queries, cached): (Value, Value),
        keys: &Attended<'_>,
    ) -> Value {
        let size = Extent::Constant(config.head_size);
        let body = |b: &mut Builder, row: Value| {
            let (keys, count) = self.rows(b, (keys, heads, ranges), (cached, Part::Keys), row);
            let queries = slice(b, queries, (0, row), &heads.with(&[], &[size]));
            // Loops: those of heads, positions; elements.
            let (position, element) = (heads.count(), heads.count() + 1);
            let maps = [heads.map(&[], &[element]), heads.map_of_keys(position, element), heads.map(&[], &[position])];
            ([queries, keys], maps, heads.with(&[], &[count]))
        };
        self.of_rows(b, (heads, ranges.greatest.into()), f64::NEG_INFINITY, body, |b, sums| {
            let scale = b.float(config.attention_scale, Element::F32);
            let rank = b.rank(sums);
            b.whole_generic((&[], sums), &[Map::identity(rank)], &vec![Iterator::Parallel; rank], false, |b, x| {
                let scaled = b.mulf(x[0], scale);
                soft_capped(b, scaled, config.score_cap)
            })
        })
    }

    /// The weights of positions `[positions, rows, heads]`: the shares of the exponentials of scores in the sum of all.
    fn weights(&self, b: &mut Builder, heads: &Heads, scores: Value, positions: Extent) -> Value {
        let scores = b.collapse_shape(scores, &[(0..=heads.count()).collect(), vec![heads.count() + 1]]);
        let columns = b.extents(scores)[0];
        let empty = b.empty(&[positions, columns], Element::F32);
        let maps = [Map::of(2, &[1, 0]), Map::identity(2)];
        let transposed = b.generic_single(&[scores], empty, &maps, &[Iterator::Parallel; 2], |_, x| x[0]);
        let weights = b.softmax(transposed, 0, &[positions, columns]);
        heads.expand(b, weights, &[positions, self.count()], &[])
    }

    /// A part of a row's slot: `[positions, heads of keys, size]`, and the number of positions.
    fn rows(
        &self,
        b: &mut Builder,
        (keys, heads, ranges): (&Attended<'_>, &Heads, &Ranges),
        (cached, part): (Value, Part),
        row: Value,
    ) -> (Value, Extent) {
        let [slot, first, count] = [self.slots, ranges.starts, ranges.counts].map(|numbers| {
            let number = b.extract(numbers, &[row]);
            b.index_cast(number, Element::Index)
        });
        let rows = keys.slice(b, (cached, part), slot, (first.into(), count.into()), heads.groups.is_none());
        (rows, count.into())
    }

    /// Computes sums of products for each row, in a dispatch: `[rows, heads, last]`. `body` returns factors of a row, their maps and that of
    /// the sums, and the extents of the sums; `finish` what becomes of the sums. Other elements of a row are `padding`.
    fn of_rows(
        &self,
        b: &mut Builder,
        (heads, last): (&Heads, Extent),
        padding: f64,
        body: impl FnOnce(&mut Builder, Value) -> ([Value; 2], [Map; 3], Vec<Extent>),
        finish: impl FnOnce(&mut Builder, Value) -> Value,
    ) -> Value {
        let (extents, whole) = (heads.with(&[self.count()], &[last]), heads.with(&[], &[last]));
        b.dispatch(&extents, |b| {
            b.set_in_dispatch(true);
            let initial = b.empty(&extents, Element::F32);
            let count = b.index(i64::try_from(self.places.len()).unwrap_or(i64::MAX));
            let [nothing, padding] = [0.0, padding].map(|number| b.float(number, Element::F32));
            let results = b.fold(count, initial, |b, row, carried| {
                let (factors, maps, own) = body(b, row);
                let all = slice(b, carried, (0, row), &whole);
                let all = b.fill_into(padding, all);
                let (zeros, ones) = (vec![Extent::Constant(0); own.len()], vec![Extent::Constant(1); own.len()]);
                let sums = b.extract_slice(all, &zeros, &own, &ones, &[]);
                let sums = b.fill_into(nothing, sums);
                let mut iterators = vec![Iterator::Parallel; own.len()];
                iterators.push(Iterator::Reduction);
                let sums = b.whole_generic((&factors, sums), &maps, &iterators, true, multiply_add);
                let sums = finish(b, sums);
                let all = b.insert_slice(sums, all, &zeros, &own, &ones, &[]);
                let (offsets, sizes, ones) = place(0, row, &whole);
                b.insert_slice(all, carried, &offsets, &sizes, &ones, &[0])
            });
            b.set_in_dispatch(false);
            results
        })
    }
}

/// The dimensions of heads: groups, and heads of a group, without those of one element, as IREE's compiler, up to 3.13, fails where slices in
/// loops of a dispatch have such.
#[derive(Clone, Debug)]
struct Heads {
    extents: Vec<Extent>,
    /// The dimension of groups, which keys and values have, too.
    groups: Option<usize>,
}

impl Heads {
    fn of(config: &Config) -> Heads {
        let all = [config.key_heads, config.heads / config.key_heads];
        let extents = all.into_iter().filter(|count| *count > 1).map(Extent::Constant).collect();
        Heads { extents, groups: (config.key_heads > 1).then_some(0) }
    }

    fn count(&self) -> usize {
        self.extents.len()
    }

    /// Extents before those of heads and behind.
    fn with(&self, before: &[Extent], behind: &[Extent]) -> Vec<Extent> {
        [before, &self.extents, behind].concat()
    }

    /// Divides the last dimension of a tensor: it is those of heads and of `behind`, and the last one of `before` where the tensor has fewer
    /// dimensions than `before` and one.
    fn expand(&self, b: &mut Builder, x: Value, before: &[Extent], behind: &[Extent]) -> Value {
        let extents = self.with(before, behind);
        let joined = b.rank(x) - 1;
        let mut dimensions: Vec<Vec<usize>> = (0..joined).map(|dimension| vec![dimension]).collect();
        dimensions.push((joined..extents.len()).collect());
        b.expand_shape(x, &dimensions, &extents)
    }

    /// A map of a tensor of heads, within loops of which the first ones are those of heads; `before` and `behind` are loops of other dimensions.
    fn map(&self, before: &[usize], behind: &[usize]) -> Map {
        let heads: Vec<usize> = (0..self.count()).collect();
        Map::of(self.count() + 2, &[before, &heads, behind].concat())
    }

    /// The map of keys or values, within such loops.
    fn map_of_keys(&self, position: usize, element: usize) -> Map {
        let all = [position].into_iter().chain(self.groups).chain([element]);
        Map::of(self.count() + 2, &all.collect::<Vec<_>>())
    }
}

/// The offsets, sizes and strides of the part of a tensor at an index of a dimension. `extents` are those of the part.
fn place(dimension: usize, index: Value, extents: &[Extent]) -> (Vec<Extent>, Vec<Extent>, Vec<Extent>) {
    let mut offsets = vec![Extent::Constant(0); extents.len()];
    offsets.insert(dimension, index.into());
    let mut sizes = extents.to_vec();
    sizes.insert(dimension, Extent::Constant(1));
    (offsets, sizes, vec![Extent::Constant(1); extents.len() + 1])
}

/// The part of a tensor at an index of a dimension, without that.
fn slice(b: &mut Builder, x: Value, (dimension, index): (usize, Value), extents: &[Extent]) -> Value {
    let (offsets, sizes, ones) = place(dimension, index, extents);
    b.extract_slice(x, &offsets, &sizes, &ones, &[dimension])
}

/// One of the rows `[rows, heads, size]`.
fn row_of(b: &mut Builder, row: Value, x: Value) -> Value {
    let [zero, one] = [0, 1].map(Extent::Constant);
    let (offsets, sizes) = ([row.into(), zero, zero], [&[one], &b.extents(x)[1..]].concat());
    b.extract_slice(x, &offsets, &sizes, &[one; 3], &[])
}
