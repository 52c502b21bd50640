//! What does not depend on where a nest's elements are: trip counts, strides, and how iterations share strips.

use alloc::vec::Vec;

use super::super::super::buffer::Reach;
use super::copies::{Shape, TILED};
use super::scalars::Values;
use super::{Check, Form, MAX_LOOPS, Nest, OnStrips, Strided, Work};
use incarnate_bytecode::trip_count::is_injective;
use smallvec::SmallVec;

/// Elements of a strip: few enough that strips stay in the first-level cache, and enough that the choice of an operation
/// costs little.
pub(super) const STRIP: usize = 256;

/// A loop: its trip count, and the loop of the nest by which an iteration moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dimension {
    pub(super) count: usize,
    pub(super) at: usize,
}

/// Iterations that run at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Tile {
    /// The positions of each stream.
    pub(super) shapes: Vec<Shape>,
    /// The number of elements.
    pub(super) elements: usize,
}

/// The loops of a nest on strips.
#[derive(Clone, Debug, Default)]
pub(super) struct Tiling {
    /// Around those of the strips, the outermost first.
    pub(super) outer: Vec<Dimension>,
    /// The loop whose iterations are adjacent in strips.
    pub(super) lanes: Dimension,
    /// Within it, the outermost first.
    pub(super) reductions: Vec<Dimension>,
    /// The loop that is cut into chunks, and how many of its iterations are one.
    pub(super) cut: Dimension,
    pub(super) chunk: usize,
    pub(super) tile: Tile,
    /// The last one, if it is smaller.
    pub(super) rest: Tile,
    pub(super) deep: Deep,
    /// A single iteration, for elements that others are folded into.
    pub(super) one: Tile,
}

/// Innermost reductions whose iterations share a strip, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Deep {
    /// Their number; none where tiles fill strips by themselves.
    pub(super) reductions: usize,
    /// The iterations of the outermost of them that are in a strip.
    pub(super) chunk: usize,
    pub(super) tile: Tile,
    /// The last one, if it is smaller.
    pub(super) rest: Tile,
}

/// What is known of a nest once trip counts and strides are.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) counts: [usize; MAX_LOOPS],
    /// Iterations of the outermost loop.
    pub(super) iterations: usize,
    /// Iterations of all loops.
    pub(super) steps: usize,
    /// The number of streams: the views, then the sequences.
    pub(super) streams: usize,
    /// For each loop, the strides of all streams.
    strides: Vec<i64>,
    /// The elements of each view, relative to that of the first iteration.
    pub(super) views: Vec<Reach>,
    /// The values of each condition, relative to that in the first iteration.
    pub(super) conditions: Vec<Reach>,
    /// The checks that depend on trip counts and strides alone hold.
    pub(super) holds: bool,
    pub(super) tiling: Tiling,
}

impl Known {
    /// Whether all of it is known before the nest runs, as nothing depends on scalars.
    pub(super) fn is_constant(nest: &Nest) -> bool {
        let is_constant = |form: &Form| form.iter().all(|(_, factors)| factors.is_empty());
        let is_counted = nest.loops.iter().all(|counted| {
            is_constant(&counted.first) && is_constant(&counted.bound) && counted.divisor.iter().all(is_constant)
        });
        let mut forms = nest.views.iter().map(|view| &view.index).chain(nest.conditions.iter().map(|row| &row.0));
        let is_strided = |form: &Strided| form.strides.iter().all(|(_, stride)| is_constant(stride));
        is_counted && forms.all(is_strided) && sequences(nest).all(is_strided)
    }

    /// Computes all of it; None where the plain code must run.
    pub(super) fn find(&mut self, nest: &Nest, values: &Values<'_>) -> Option<()> {
        self.counts = [1; MAX_LOOPS];
        self.iterations = values.trip_counts(nest, &mut self.counts)?;
        if self.instructions(nest) < nest.least {
            return None;
        }
        self.steps = self.steps_of(nest, 0);
        let streams = || nest.views.iter().map(|view| &view.index).chain(sequences(nest));
        self.streams = streams().count();
        self.strides.clear();
        self.strides.extend(core::iter::repeat_n(0, self.streams * nest.loops.len()));
        for (stream, form) in streams().enumerate() {
            for (at, stride) in &form.strides {
                self.strides[at * self.streams + stream] = values.form(stride);
            }
        }
        self.views.clear();
        for (stream, view) in nest.views.iter().enumerate() {
            let loops = view.index.strides.iter().map(|(at, _)| (self.counts[*at], self.stride(*at, stream)));
            self.views.push(Reach::of(loops));
        }
        self.conditions.clear();
        for (form, ..) in &nest.conditions {
            let loops = form.strides.iter().map(|(at, stride)| (self.counts[*at], values.form(stride)));
            self.conditions.push(Reach::of(loops));
        }
        self.holds = self.holds(nest);
        match &nest.work {
            Work::Contraction { .. } | Work::Nothing => {}
            Work::Strips(strips) => self.tile(nest, strips),
        }
        Some(())
    }

    /// The trip count of a loop and of those whose iterations it runs, too.
    fn merged_count(&self, nest: &Nest, at: usize) -> usize {
        nest.loops[at].merged.unwrap_or(self.counts[at])
    }

    /// Whether the checks hold that depend on trip counts and strides alone.
    fn holds(&self, nest: &Nest) -> bool {
        nest.checks.iter().all(|check| match *check {
            Check::Distinct(view) => self.is_injective(nest, view),
            Check::NotEmpty(at) => self.merged_count(nest, at) != 0,
            _ => true,
        })
    }

    /// The stride of a stream in a loop.
    pub(super) fn stride(&self, at: usize, stream: usize) -> i64 {
        self.strides[at * self.streams + stream]
    }

    /// The strides of all streams in a loop.
    pub(super) fn strides(&self, at: usize) -> &[i64] {
        &self.strides[at * self.streams..][..self.streams]
    }

    /// The iterations of a loop, in all those of the loops around it.
    pub(super) fn iterations_of(&self, nest: &Nest, at: usize) -> u64 {
        let with_those_around = core::iter::successors(Some(at), |at| nest.loops[*at].parent);
        with_those_around.fold(1u64, |all, at| all.saturating_mul(self.counts[at] as u64))
    }

    /// The instructions of all iterations.
    fn instructions(&self, nest: &Nest) -> u64 {
        let loops = nest.loops.iter().enumerate();
        let of_loops = loops.map(|(at, counted)| self.iterations_of(nest, at).saturating_mul(counted.instructions));
        of_loops.fold(0, u64::saturating_add)
    }

    /// The iterations of a loop and of those in it.
    fn steps_of(&self, nest: &Nest, at: usize) -> usize {
        let inner = nest.loops.iter().enumerate().filter(|(_, counted)| counted.parent == Some(at));
        let inner = inner.map(|(inner, _)| self.steps_of(nest, inner)).fold(0, usize::saturating_add);
        self.counts[at].saturating_mul(inner.saturating_add(1))
    }

    /// Lists the loops of a nest on strips.
    fn begin(&self, tiling: &mut Tiling, nest: &Nest, strips: &OnStrips) {
        let dimension = |at: &usize| Dimension { count: self.merged_count(nest, *at), at: *at };
        tiling.outer.clear();
        tiling.outer.extend(strips.outer.iter().map(dimension).filter(|dimension| dimension.count != 1));
        tiling.reductions.clear();
        tiling.reductions.extend(strips.reductions.iter().map(dimension));
        tiling.lanes = dimension(&strips.lanes);
    }

    /// Divides the iterations into tiles.
    fn tile(&mut self, nest: &Nest, strips: &OnStrips) {
        let mut tiling = core::mem::take(&mut self.tiling);
        self.begin(&mut tiling, nest, strips);
        // Loops around the strips whose iterations fit in a strip, the innermost first. Only the last one may have more.
        let mut tiled: SmallVec<[Dimension; TILED]> = SmallVec::new();
        tiled.push(tiling.lanes);
        let mut elements = tiling.lanes.count;
        while !strips.is_sequential && tiled.len() < TILED && elements.saturating_mul(2) <= STRIP {
            let Some(next) = tiling.outer.pop() else { break };
            elements = elements.saturating_mul(next.count);
            tiled.push(next);
        }
        tiling.cut = tiled[tiled.len() - 1];
        let within: usize = tiled[..tiled.len() - 1].iter().map(|dimension| dimension.count).product();
        // As evenly as possible.
        let chunks = tiling.cut.count.div_ceil((STRIP / within.max(1)).max(1)).max(1);
        tiling.chunk = tiling.cut.count.div_ceil(chunks).max(1);
        self.shape(&tiled, tiling.chunk.min(tiling.cut.count), &mut tiling.tile);
        self.shape(&tiled, tiling.cut.count % tiling.chunk, &mut tiling.rest);
        tiling.one.shapes.clear();
        if !strips.body.scalar_steps.is_empty() {
            tiling.one.shapes.extend(core::iter::repeat_n(Shape::ONE, self.streams));
            tiling.one.elements = 1;
        }
        tiling.deep.reductions = 0;
        if !strips.body.accumulating.is_empty() && tiling.rest.elements == 0 {
            self.deepen(&mut tiling, tiled);
        }
        self.tiling = tiling;
    }

    /// Lets iterations of reductions share the strips of small tiles.
    fn deepen(&self, tiling: &mut Tiling, mut tiled: SmallVec<[Dimension; TILED]>) {
        let last = tiled.len() - 1;
        tiled[last].count = tiling.chunk.min(tiling.cut.count);
        let (mut elements, mut within) = (tiling.tile.elements, 1);
        for reduction in tiling.reductions.iter().rev() {
            if tiled.len() == TILED || elements == 0 || elements.saturating_mul(2) > STRIP {
                break;
            }
            within = elements;
            elements = elements.saturating_mul(reduction.count);
            tiled.push(*reduction);
            tiling.deep.reductions += 1;
        }
        if tiling.deep.reductions > 0 {
            let cut = tiled[tiled.len() - 1];
            let chunk = (STRIP / within).clamp(1, cut.count.max(1));
            tiling.deep.chunk = chunk;
            self.shape(&tiled, chunk.min(cut.count), &mut tiling.deep.tile);
            self.shape(&tiled, cut.count % chunk, &mut tiling.deep.rest);
        }
    }

    /// Describes the tile of loops, the innermost first, where the last one has `count` iterations.
    fn shape(&self, tiled: &[Dimension], count: usize, tile: &mut Tile) {
        let last = tiled.len() - 1;
        let counts =
            || tiled.iter().enumerate().map(|(at, each)| (if at == last { count } else { each.count }, each.at));
        tile.elements = counts().map(|(count, _)| count).product();
        tile.shapes.clear();
        if count != 0 {
            let shape = |stream: usize| Shape::of(counts().map(|(count, at)| (count, self.stride(at, stream))));
            tile.shapes.extend((0..self.streams).map(shape));
        }
    }

    /// Whether iterations that differ in loops that move a view have different elements of it.
    fn is_injective(&self, nest: &Nest, view: usize) -> bool {
        let mut all = [(1, 0); MAX_LOOPS];
        let strides = &nest.views[view].index.strides;
        let loops = strides.iter().map(|(at, _)| (self.counts[*at], self.stride(*at, view)));
        all.iter_mut().zip(loops).for_each(|(slot, each)| *slot = each);
        is_injective(&all[..strides.len()])
    }

    /// Whether two views go as far in each loop.
    pub(super) fn is_alike(&self, nest: &Nest, one: usize, other: usize) -> bool {
        (0..nest.loops.len()).all(|at| self.stride(at, one) == self.stride(at, other))
    }
}

/// The numbers that iterations step.
fn sequences(nest: &Nest) -> impl Iterator<Item = &Strided> {
    let rows = nest.work.on_strips().map_or(&[][..], |strips| &strips.body.sequences);
    rows.iter().map(|(form, _)| form)
}
