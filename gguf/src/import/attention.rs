//! Attention with a cache of keys and values.

use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Iterator, Map, Type, Value};

use super::config::Config;
use super::norm::soft_capped;
use super::product::multiply_add;

/// The loops of the products of attention, the last of which sums.
const LOOPS: [Iterator; 5] =
    [Iterator::Parallel, Iterator::Parallel, Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
/// The dimensions of the cache that a layer's rows do not have.
const UNIT: [usize; 3] = [0, 2, 3];
/// The name of the cache.
const NAME: &str = "cache";

/// The keys and values of all layers: `[slots, positions, layers, 2, heads, size]`, so that the memory that
/// is touched is that of the positions that are used. They are one global: IREE's compiler, up to 3.13, stores one buffer in all globals
/// whose first values are equal.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    ty: Type,
    heads: i64,
    size: i64,
}

/// A part of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Keys,
    Values,
}

impl Part {
    /// Its index in the cache.
    fn index(self) -> Extent {
        Extent::Constant(match self {
            Part::Keys => 0,
            Part::Values => 1,
        })
    }
}

/// Where the rows of a call are in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) slot: Value,
    /// The position of the first row.
    pub(super) first: Value,
    /// The position behind the last row.
    pub(super) end: Value,
    /// The positions that layers with a sliding window attend to, unless they attend to all.
    pub(super) local: Option<Local>,
}

/// The positions that rows of a call attend to in layers with a sliding window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    window: i64,
    /// The first of them.
    start: Value,
    /// How many there are, up to those of the call.
    count: Value,
}

impl Local {
    /// Computes the positions from those of the call.
    pub(super) fn new(b: &mut Builder, window: i64, [first, end]: [Value; 2]) -> Local {
        let (zero, before) = (b.index(0), b.index(window - 1));
        let start = b.subi(first, before);
        let start = b.maxsi(start, zero);
        Local { window, start, count: b.subi(end, start) }
    }
}

impl Place {
    /// The first position that a layer attends to, and how many it attends to, up to those of the call.
    pub(super) fn attended(&self, local: Option<Local>) -> [Extent; 2] {
        match local {
            None => [Extent::Constant(0), self.end.into()],
            Some(local) => [local.start.into(), local.count.into()],
        }
    }
}

/// A layer's part of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attended<'a> {
    pub(super) cache: &'a Cache,
    /// The index of the layer, of type `index`.
    pub(super) layer: Value,
    /// Whether the layer has a sliding window.
    pub(super) is_local: bool,
}

impl Attended<'_> {
    /// The positions that it attends to, where those are not all.
    fn local(&self, place: &Place) -> Option<Local> {
        place.local.filter(|_| self.is_local)
    }

    /// Reads the cache.
    pub(super) fn load(&self, b: &mut Builder) -> Value {
        b.load_global(NAME, &self.cache.ty)
    }

    /// Stores the cache.
    pub(super) fn store(&self, b: &mut Builder, cached: Value) {
        b.store_global(NAME, cached);
    }

    /// Returns the cache with other rows `[rows, heads, size]`.
    pub(super) fn with(&self, b: &mut Builder, place: &Place, (part, rows): (Part, Value), cached: Value) -> Value {
        let count = b.extents(rows)[0];
        let (offsets, sizes, ones) = self.cache.slice(place.slot, (self.layer, part), (place.first.into(), count));
        b.insert_slice(rows, cached, &offsets, &sizes, &ones, &UNIT)
    }

    /// Positions of a slot: `[positions, heads, size]`, or without the dimension of heads, of which there is one.
    pub(super) fn slice(
        &self,
        b: &mut Builder,
        (cached, part): (Value, Part),
        slot: Value,
        range: (Extent, Extent),
        is_without_heads: bool,
    ) -> Value {
        let (offsets, sizes, ones) = self.cache.slice(slot, (self.layer, part), range);
        let mut dropped = UNIT.to_vec();
        dropped.extend(is_without_heads.then_some(4));
        b.extract_slice(cached, &offsets, &sizes, &ones, &dropped)
    }

    /// The rows of a slot up to those of the call: `[positions, heads, size]`.
    fn rows(&self, b: &mut Builder, place: &Place, of: (Value, Part)) -> Value {
        let [first, count] = place.attended(self.local(place));
        self.slice(b, of, place.slot, (first, count), false)
    }
}

impl Cache {
    /// Declares the cache, whose elements have no value until they are written.
    pub(super) fn declare(b: &mut Builder, config: &Config) -> Cache {
        let (heads, size) = (config.key_heads, config.head_size);
        let extents = [config.slots, config.context, config.layers, 2, heads, size];
        let ty = Type::tensor(&extents.map(|extent| u64::try_from(extent).ok()), Element::F32);
        b.mutable_global(NAME, &ty);
        Cache { ty, heads, size }
    }

    /// The offsets, sizes and strides of positions of a slot.
    fn slice(
        &self,
        slot: Value,
        (layer, part): (Value, Part),
        (first, count): (Extent, Extent),
    ) -> ([Extent; 6], [Extent; 6], [Extent; 6]) {
        let [zero, one, heads, size] = [0, 1, self.heads, self.size].map(Extent::Constant);
        ([slot.into(), first, layer.into(), part.index(), zero, zero], [one, count, one, one, heads, size], [one; 6])
    }
}

/// Attends: queries, keys and values are `[rows, heads, size]`, the result `[rows, heads * size]`. Keys and values are written to the cache
/// first.
pub(super) fn attend(
    b: &mut Builder,
    config: &Config,
    place: &Place,
    [queries, own_keys, own_values]: [Value; 3],
    keys: &Attended<'_>,
) -> Value {
    let mut cached = keys.load(b);
    for written in [(Part::Keys, own_keys), (Part::Values, own_values)] {
        cached = keys.with(b, place, written, cached);
    }
    keys.store(b, cached);
    let shared = config.heads / config.key_heads;
    let (groups, shared) = (Extent::Constant(config.key_heads), Extent::Constant(shared));
    let (rows, size) = (b.extents(queries)[0], Extent::Constant(config.head_size));
    let queries = b.expand_shape(queries, &[vec![0], vec![1, 2], vec![3]], &[rows, groups, shared, size]);
    let [_, count] = place.attended(keys.local(place));
    let layout = Layout::of(rows);
    let extents = [groups, shared, rows, count];
    let scores = scores(b, config, place, (queries, cached), (keys, layout), extents);
    let weights = layout.softmax(b, scores, extents);
    let sums = [rows, groups, shared, Extent::Constant(config.head_size)];
    let zero = b.float(0.0, Element::F32);
    let attended = b.dispatch(&sums, |b| {
        let values = keys.rows(b, place, (cached, Part::Values));
        let initial = b.fill(zero, &sums);
        // Loops: rows, groups, heads of a group, elements; positions.
        let maps = [Map::of(5, &layout.place([1, 2, 0, 4])), Map::of(5, &[4, 1, 3]), Map::of(5, &[0, 1, 2, 3])];
        b.generic_single(&[weights, values], initial, &maps, &LOOPS, multiply_add)
    });
    b.collapse_shape(attended, &[vec![0], vec![1, 2, 3]])
}

/// The order of the dimensions of scores. Sums over positions are in order, so that vectors are those of another dimension, which is the
/// last one.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// Positions, and the heads of one row.
    Heads,
    /// Groups of heads, heads of a group, positions, rows.
    Rows,
}

impl Layout {
    fn of(rows: Extent) -> Layout {
        match rows {
            Extent::Constant(_) => Layout::Heads,
            Extent::Value(_) => Layout::Rows,
        }
    }

    /// Brings values for groups, heads of a group, rows and positions into the order of the dimensions.
    fn place<T>(self, [groups, shared, rows, positions]: [T; 4]) -> [T; 4] {
        match self {
            Layout::Heads => [positions, groups, shared, rows],
            Layout::Rows => [groups, shared, positions, rows],
        }
    }

    /// The weights of positions: the shares of their exponentials in the sum of all. `extents` are those of groups, heads of a group, rows and
    /// positions.
    fn softmax(self, b: &mut Builder, scores: Value, extents: [Extent; 4]) -> Value {
        let all = self.place(extents);
        match self {
            Layout::Heads => {
                let heads = [vec![0], vec![1, 2, 3]];
                let scores = b.collapse_shape(scores, &heads);
                let extents = b.extents(scores);
                let weights = b.softmax(scores, 0, &extents);
                b.expand_shape(weights, &heads, &all)
            }
            Layout::Rows => b.softmax(scores, 2, &all),
        }
    }
}

/// The products of queries and keys, scaled; keys behind a row's position, or before its window, have none. `extents` are those of groups,
/// heads of a group, rows and positions.
fn scores(
    b: &mut Builder,
    config: &Config,
    place: &Place,
    (queries, cached): (Value, Value),
    (keys, layout): (&Attended<'_>, Layout),
    extents: [Extent; 4],
) -> Value {
    let zero = b.float(0.0, Element::F32);
    let local = keys.local(place);
    // The positions are tensors, as a loop over several dimensions of tensors may become one, whose index only addresses elements.
    let own = positions(b, place.first.into(), extents[2]);
    let attended = positions(b, place.attended(local)[0], extents[3]);
    let results = layout.place(extents);
    b.dispatch(&results, |b| {
        let keys = keys.rows(b, place, (cached, Part::Keys));
        // Loops: groups, heads of a group, rows, positions; elements. The columns of the product are positions where there is one row.
        let placed = layout.place([0, 1, 2, 3]);
        let (sizes, dimensions) = match layout {
            Layout::Heads => (extents, [0, 1, 2, 3]),
            Layout::Rows => (results, placed),
        };
        let initial = b.fill(zero, &sizes);
        let maps = [Map::of(5, &[2, 0, 1, 4]), Map::of(5, &[3, 0, 4]), Map::of(5, &dimensions)];
        let scores = b.generic_single(&[queries, keys], initial, &maps, &LOOPS, multiply_add);
        let empty = b.empty(&results, Element::F32);
        let maps = [Map::of(4, &dimensions), Map::of(4, &[2]), Map::of(4, &[3]), Map::of(4, &placed)];
        let inputs = [scores, own, attended];
        b.generic_single(&inputs, empty, &maps, &[Iterator::Parallel; 4], |b, x| {
            masked(b, config, local, x[0], [x[1], x[2]])
        })
    })
}

/// Positions from the first one on: `[count] i32`.
fn positions(b: &mut Builder, first: Extent, count: Extent) -> Value {
    let first = b.index_of(first);
    let empty = b.empty(&[count], Element::I32);
    b.generic_single(&[], empty, &[Map::identity(1)], &[Iterator::Parallel], |b, _| {
        let index = b.iteration(0);
        let position = b.addi(first, index);
        b.index_cast(position, Element::I32)
    })
}

/// A score, scaled; none where a row with a position of its own does not attend to another one.
fn masked(b: &mut Builder, config: &Config, local: Option<Local>, score: Value, [own, position]: [Value; 2]) -> Value {
    let scale = b.float(config.attention_scale, Element::F32);
    let least = b.float(f64::NEG_INFINITY, Element::F32);
    let is_visible = match local {
        None => b.cmpi(IntPredicate::SignedLessEqual, position, own),
        Some(local) => {
            let (before, window) = (b.subi(own, position), b.int(local.window, Element::I32));
            // Positions behind the row's are before it by less than nothing.
            b.cmpi(IntPredicate::UnsignedLess, before, window)
        }
    };
    let scaled = b.mulf(score, scale);
    let scaled = soft_capped(b, scaled, config.score_cap);
    b.select(is_visible, scaled, least)
}
