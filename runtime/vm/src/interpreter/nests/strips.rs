//! Vector operations over strips of elements.
#![allow(unsafe_code, reason = "elements at addresses that were checked")]

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use super::super::super::array;
use super::super::super::buffer::{Compute, Region};
use super::copies::{Shape, TILED, sequence};
use super::kernels::{Strips, width};
use super::{Body, Computed, Step, View};
use incarnate_bytecode::ir::nest::Element;
use smallvec::SmallVec;

/// Elements of a strip: few enough that strips stay in the first-level cache, and enough that the choice of an operation
/// costs little.
const STRIP: usize = 256;

/// Elements of the strips of a contraction's factor, and their greatest number: they are on the stack.
const FACTOR_STRIP: usize = 64;
pub(super) const FACTOR_STRIPS: usize = 8;

/// Numbers of up to 64 bits.
pub(super) type Storage<const N: usize> = [MaybeUninit<u64>; N];

/// The memory of strips, which nests that run one after the other share.
#[derive(Default)]
pub(in super::super::super) struct Scratch {
    strips: Vec<Storage<STRIP>>,
}

impl core::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Scratch").field("strips", &self.strips.len()).finish()
    }
}

/// A loop, and what an iteration adds to the position in each stream: the views, then the sequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dimension<'a> {
    pub(super) count: usize,
    pub(super) strides: &'a [i64],
}

/// The loops of a nest on strips.
pub(super) struct Loops<'a> {
    /// Around those of the strips, the outermost first.
    pub(super) outer: SmallVec<[Dimension<'a>; 8]>,
    /// The loop that is divided into strips.
    pub(super) lanes: Dimension<'a>,
    /// Within it, the outermost first.
    pub(super) reductions: SmallVec<[Dimension<'a>; 4]>,
    /// Iterations run in the order of the bytecode.
    pub(super) is_ordered: bool,
}

impl<'a> Loops<'a> {
    /// Joins loops: where an iteration of one goes as far as all of the strips' loop, both are one loop. In order, only the loop
    /// around that one can be joined with it.
    fn join(&mut self) {
        self.outer.retain(|dimension| dimension.count != 1);
        loop {
            let lanes = &self.lanes;
            let follows = |dimension: &Dimension<'_>| {
                let mut pairs = dimension.strides.iter().zip(lanes.strides);
                lanes.count == 1 || pairs.all(|(outer, inner)| *outer == inner.wrapping_mul(lanes.count as i64))
            };
            let last = self.outer.len().wrapping_sub(1);
            let found = self.outer.iter().rposition(follows).filter(|at| !self.is_ordered || *at == last);
            let Some(at) = found else { return };
            let Some(count) = self.outer[at].count.checked_mul(lanes.count) else { return };
            let joined = self.outer.remove(at);
            if self.lanes.count == 1 {
                self.lanes.strides = joined.strides;
            }
            self.lanes.count = count;
        }
    }

    /// Takes loops off those around the strips whose iterations fit in a strip: the innermost first. Only the last one may have
    /// more iterations than fit.
    fn tile(&mut self) -> SmallVec<[Dimension<'a>; TILED]> {
        let mut tiled = SmallVec::new();
        tiled.push(self.lanes);
        let mut elements = self.lanes.count;
        while !self.is_ordered && tiled.len() < TILED && elements.saturating_mul(2) <= STRIP {
            let Some(next) = self.outer.pop() else { break };
            elements = elements.saturating_mul(next.count);
            tiled.push(next);
        }
        tiled
    }
}

/// Iterations that run at once.
struct Tile {
    /// The positions of each stream.
    shapes: SmallVec<[Shape; 8]>,
    /// The number of elements.
    elements: usize,
}

impl Tile {
    /// Returns the tile of loops, the innermost first, where the last one has `count` iterations.
    fn of(tiled: &[Dimension<'_>], streams: usize, count: usize) -> Tile {
        let counts = || {
            let within = tiled.len() - 1;
            tiled.iter().enumerate().map(move |(at, dimension)| if at == within { count } else { dimension.count })
        };
        let shape =
            |stream: usize| Shape::of(counts().zip(tiled).map(|(count, dimension)| (count, dimension.strides[stream])));
        Tile { shapes: (0..streams).map(shape).collect(), elements: counts().product() }
    }
}

/// The iterations of a nest over strips.
pub(super) struct Run<'a> {
    pub(super) body: &'a Body,
    pub(super) views: &'a [View],
    pub(super) regions: &'a [Region],
    pub(super) scalars: &'a [u64],
    /// Accumulators stay in strips.
    pub(super) is_accumulated: bool,
}

/// What iterations change.
struct State {
    /// The memory of each strip.
    own: SmallVec<[*mut u8; 16]>,
    /// The address of each strip's elements.
    addresses: SmallVec<[*const u8; 16]>,
    /// The position in each stream: elements from the first iteration's, or the number.
    positions: SmallVec<[i64; 16]>,
}

impl State {
    fn own(&self, strip: u16) -> *mut u8 {
        self.own[usize::from(strip)]
    }

    fn advance(&mut self, dimension: &Dimension<'_>, iterations: i64) {
        for (position, stride) in self.positions.iter_mut().zip(dimension.strides) {
            *position = position.wrapping_add(stride.wrapping_mul(iterations));
        }
    }
}

/// The loops of a run, and their tiles.
struct Plan<'a> {
    outer: SmallVec<[Dimension<'a>; 8]>,
    reductions: SmallVec<[Dimension<'a>; 4]>,
    lanes: Dimension<'a>,
    /// The loop that is cut into chunks.
    cut: Dimension<'a>,
    chunk: usize,
    tile: Tile,
    /// The last one, where it is smaller.
    rest: Option<Tile>,
}

impl<'a> Plan<'a> {
    fn of(mut loops: Loops<'a>, streams: usize) -> Option<Plan<'a>> {
        loops.join();
        let tiled = loops.tile();
        let cut = *tiled.last()?;
        let within: usize = tiled[..tiled.len() - 1].iter().map(|dimension| dimension.count).product();
        // As evenly as possible.
        let strips = cut.count.div_ceil((STRIP / within.max(1)).max(1)).max(1);
        let chunk = cut.count.div_ceil(strips).max(1);
        let rest = cut.count % chunk;
        Some(Plan {
            tile: Tile::of(&tiled, streams, chunk.min(cut.count)),
            rest: (rest != 0).then(|| Tile::of(&tiled, streams, rest)),
            outer: loops.outer,
            reductions: loops.reductions,
            lanes: loops.lanes,
            cut,
            chunk,
        })
    }
}

/// Reads a number of a strip, in a register's form.
///
/// # Safety
/// The number is there, and aligned.
unsafe fn number(address: *const u8, is_wide: bool) -> MaybeUninit<u64> {
    // SAFETY: promised by the caller.
    unsafe {
        match is_wide {
            true => address.cast::<MaybeUninit<u64>>().read(),
            false => {
                let mut number = MaybeUninit::new(0u64);
                number.as_mut_ptr().cast::<MaybeUninit<u32>>().write(address.cast::<MaybeUninit<u32>>().read());
                number
            }
        }
    }
}

/// Fills a strip with one number.
///
/// # Safety
/// There is room for `count` numbers.
unsafe fn broadcast(is_wide: bool, number: u64, into: *mut u8, count: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        match is_wide {
            true => core::slice::from_raw_parts_mut(into.cast(), count).fill(MaybeUninit::new(number)),
            false => core::slice::from_raw_parts_mut(into.cast(), count).fill(MaybeUninit::new(number as u32)),
        }
    }
}

impl Run<'_> {
    /// Runs all iterations, from the positions of the first; false, and nothing done, without memory for the strips. `results`
    /// receives what is carried out of the last iteration.
    ///
    /// # Safety
    /// In each iteration, the views' elements are in memory and aligned, and written ones can be written to. Unless loops are
    /// ordered, the iterations of `outer` and `lanes` may run in any order.
    pub(super) unsafe fn all(
        &self,
        loops: Loops<'_>,
        positions: SmallVec<[i64; 16]>,
        scratch: &mut Scratch,
        results: &mut SmallVec<[u64; 4]>,
    ) -> bool {
        let Some(plan) = Plan::of(loops, positions.len()) else { return false };
        let Some(mut state) = self.state(&plan, positions, scratch) else { return false };
        // SAFETY: promised by the caller.
        unsafe { self.outer(&plan, 0, &mut state) };
        for carried in &self.body.carried {
            // SAFETY: the strip holds a number since before the first iteration.
            results.push(unsafe { number(state.own(carried.strip), true).assume_init() });
        }
        true
    }

    fn state(&self, plan: &Plan<'_>, positions: SmallVec<[i64; 16]>, scratch: &mut Scratch) -> Option<State> {
        let strips = usize::from(self.body.strips);
        if scratch.strips.len() < strips {
            scratch.strips = array::filled(strips, [MaybeUninit::uninit(); STRIP]).ok()?;
        }
        let (mut own, mut addresses) = (SmallVec::new(), SmallVec::new());
        own.try_reserve(strips).ok()?;
        addresses.try_reserve(strips).ok()?;
        own.extend(scratch.strips.iter_mut().take(strips).map(|strip| strip.as_mut_ptr().cast::<u8>()));
        addresses.extend(core::iter::repeat_n(core::ptr::null(), strips));
        let mut state = State { own, addresses, positions };
        for (strip, scalar, is_wide) in &self.body.broadcasts {
            let own = state.own(*strip);
            // SAFETY: a strip has room for the elements of a tile.
            unsafe { broadcast(*is_wide, self.scalars[usize::from(*scalar)], own, plan.tile.elements) };
            state.addresses[usize::from(*strip)] = own;
        }
        Some(state)
    }

    /// # Safety
    /// As for `all`.
    unsafe fn outer(&self, plan: &Plan<'_>, at: usize, state: &mut State) {
        let Some(dimension) = plan.outer.get(at) else {
            let mut first = 0;
            while first < plan.cut.count {
                let count = (plan.cut.count - first).min(plan.chunk);
                let tile = plan.rest.as_ref().filter(|_| count < plan.chunk).unwrap_or(&plan.tile);
                // SAFETY: promised by the caller; the iterations exist.
                unsafe { self.tile(plan, tile, state) };
                state.advance(&plan.cut, count as i64);
                first += count;
            }
            state.advance(&plan.cut, (plan.cut.count as i64).wrapping_neg());
            return;
        };
        for _ in 0..dimension.count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.outer(plan, at + 1, state) };
            state.advance(dimension, 1);
        }
        state.advance(dimension, (dimension.count as i64).wrapping_neg());
    }

    /// Runs all reductions of a tile.
    ///
    /// # Safety
    /// As for `all`; the iterations of the tile exist.
    unsafe fn tile(&self, plan: &Plan<'_>, tile: &Tile, state: &mut State) {
        if !self.is_accumulated {
            // SAFETY: promised by the caller.
            return unsafe { self.reduce(plan, 0, tile, state) };
        }
        // An empty reduction neither loads nor stores.
        if plan.reductions.iter().any(|dimension| dimension.count == 0) {
            return;
        }
        // SAFETY: promised by the caller; accumulators are stored after they are loaded.
        unsafe {
            self.body.before.iter().for_each(|step| self.step(step, tile, state));
            self.reduce(plan, 0, tile, state);
            self.body.after.iter().for_each(|step| self.step(step, tile, state));
        }
    }

    /// # Safety
    /// As for `tile`.
    unsafe fn reduce(&self, plan: &Plan<'_>, at: usize, tile: &Tile, state: &mut State) {
        let Some(dimension) = plan.reductions.get(at) else {
            // SAFETY: promised by the caller.
            return unsafe { self.iteration(plan, tile, state) };
        };
        for _ in 0..dimension.count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce(plan, at + 1, tile, state) };
            state.advance(dimension, 1);
        }
        state.advance(dimension, (dimension.count as i64).wrapping_neg());
    }

    /// Runs the body for a tile.
    ///
    /// # Safety
    /// As for `tile`.
    unsafe fn iteration(&self, plan: &Plan<'_>, tile: &Tile, state: &mut State) {
        let body = self.body;
        // SAFETY: promised by the caller; operands were computed before.
        unsafe {
            if self.is_accumulated {
                body.steps.iter().for_each(|step| self.step(step, tile, state));
                for (accumulator, sum) in &body.accumulators {
                    let (accumulator, sum) = (usize::from(*accumulator), usize::from(*sum));
                    state.own.swap(accumulator, sum);
                    state.addresses[accumulator] = state.addresses[sum];
                }
                return;
            }
            for steps in [&body.before, &body.steps, &body.after] {
                steps.iter().for_each(|step| self.step(step, tile, state));
            }
            if !body.serial.is_empty() || !body.carried.is_empty() {
                self.serial(plan, tile.elements, state);
            }
        }
    }

    /// Runs the serial steps for `count` iterations.
    ///
    /// # Safety
    /// As for `tile`.
    unsafe fn serial(&self, plan: &Plan<'_>, count: usize, state: &mut State) {
        let (serial, lanes) = (&self.body.serial, &plan.lanes);
        let one = Tile { shapes: SmallVec::from_elem(Shape::ONE, state.positions.len()), elements: 1 };
        // An element that all iterations load and store stays in its strip.
        let kept = match (serial.first(), serial.last()) {
            (Some(Step::Load { view, into, is_extended: false, .. }), Some(Step::Store { view: stored, from, .. }))
                if view == stored && lanes.strides[*view] == 0 && self.body.serial_strips.contains(from) =>
            {
                let within = &serial[1..serial.len() - 1];
                within.iter().all(|step| matches!(step, Step::Eval { .. })).then_some((*into, *from, within))
            }
            _ => None,
        };
        let steps = kept.map_or(&serial[..], |(_, _, within)| within);
        // SAFETY: promised by the caller; operands were computed before.
        unsafe {
            if kept.is_some() {
                self.step(&serial[0], &one, state);
            }
            for index in 0..count {
                steps.iter().for_each(|step| self.step(step, &one, state));
                self.carry(state);
                for (address, advance) in state.addresses.iter_mut().zip(&self.body.advances) {
                    *address = address.wrapping_add(*advance);
                }
                if let Some((into, from, _)) = kept {
                    let next = state.addresses[usize::from(from)].cast::<MaybeUninit<u64>>();
                    // A strip has room for a number of 64 bits, whatever the numbers are.
                    if index + 1 < count {
                        let own = state.own(into).cast::<MaybeUninit<u64>>();
                        own.write(next.read());
                        state.addresses[usize::from(into)] = own.cast();
                    }
                } else {
                    state.advance(lanes, 1);
                }
            }
            if kept.is_some() {
                self.step(&serial[serial.len() - 1], &one, state);
            } else {
                state.advance(lanes, (count as i64).wrapping_neg());
            }
        }
    }

    /// Passes what iterations carry to the next one.
    ///
    /// # Safety
    /// As for `serial`.
    unsafe fn carry(&self, state: &mut State) {
        if self.body.carried.is_empty() {
            return;
        }
        // All are read before the first is written.
        let next = |carried: &super::Carried| {
            // SAFETY: promised by the caller: the number was computed.
            unsafe { number(state.addresses[usize::from(carried.next)], carried.is_wide) }
        };
        let numbers: SmallVec<[MaybeUninit<u64>; 4]> = self.body.carried.iter().map(next).collect();
        for (carried, number) in self.body.carried.iter().zip(numbers) {
            // SAFETY: a strip has room for a number of 64 bits.
            unsafe { state.own(carried.strip).cast::<MaybeUninit<u64>>().write(number) };
        }
    }

    /// The address of the element of a view in the first iteration of a tile.
    #[inline(always)]
    fn element(&self, view: usize, state: &State) -> *mut u8 {
        let offset = (state.positions[view] as isize).wrapping_mul(width(self.views[view].element) as isize);
        self.regions[view].origin.wrapping_offset(offset)
    }

    /// Runs a step for the iterations of a tile.
    ///
    /// # Safety
    /// As for `tile`; the strips of operands have as many elements.
    #[inline(always)]
    unsafe fn step(&self, step: &Step, tile: &Tile, state: &mut State) {
        match step {
            Step::Load { view, into, copy, is_borrowed, .. } => {
                let (element, shape) = (self.element(*view, state), &tile.shapes[*view]);
                let mut address = element.cast_const();
                if !*is_borrowed || !shape.is_adjacent() {
                    let own = state.own(*into);
                    // SAFETY: promised by the caller; a strip has room for the elements of a tile.
                    unsafe { copy(element, shape, own) };
                    address = own;
                }
                state.addresses[usize::from(*into)] = address;
            }
            Step::Store { view, from, copy } => {
                let (element, strip) = (self.element(*view, state), state.addresses[usize::from(*from)]);
                // SAFETY: promised by the caller; the strip was computed before, and is only read.
                unsafe { copy(element, &tile.shapes[*view], strip.cast_mut()) };
            }
            Step::Sequence { sequence: index, into } => {
                let (stream, own) = (self.views.len() + index, state.own(*into));
                // SAFETY: a strip has room for the elements of a tile.
                unsafe {
                    sequence(self.body.sequences[*index].1, state.positions[stream], &tile.shapes[stream], own);
                }
                state.addresses[usize::from(*into)] = own;
            }
            Step::Eval { kernel, operands, into } => {
                let from =
                    operands.map(|strip| state.addresses.get(usize::from(strip)).copied().unwrap_or(core::ptr::null()));
                let own = state.own(*into);
                // SAFETY: the operands were computed before, and are of the instruction's types; the result is no operand.
                unsafe { kernel(Strips { into: own, from, count: tile.elements }) };
                state.addresses[usize::from(*into)] = own;
            }
        }
    }
}

/// What is computed from each element of a factor of a contraction.
pub(super) struct Computation<'a> {
    pub(super) computed: &'a Computed,
    pub(super) scalars: &'a [u64],
    pub(super) element: Element,
}

impl<N: Copy> Compute<N> for Computation<'_> {
    unsafe fn compute(&self, first: *const u8, stride: i64, into: &mut [N]) {
        let Computed { body, load, loaded, result } = self.computed;
        let mut strips = [[MaybeUninit::uninit(); FACTOR_STRIP]; FACTOR_STRIPS];
        let storage: &mut [Storage<FACTOR_STRIP>; FACTOR_STRIPS] = &mut strips;
        let longest = into.len().min(FACTOR_STRIP);
        for (strip, scalar, is_wide) in &body.broadcasts {
            let own = storage[usize::from(*strip)].as_mut_ptr().cast();
            // SAFETY: the strip is that long.
            unsafe { broadcast(*is_wide, self.scalars[usize::from(*scalar)], own, longest) };
        }
        let mut from = first;
        for numbers in into.chunks_mut(FACTOR_STRIP) {
            let count = numbers.len();
            // SAFETY: the elements are within a buffer, as the caller promises; strips are that long, and computed in order. The
            // result has the type of the numbers.
            unsafe {
                let loaded = storage[usize::from(*loaded)].as_mut_ptr().cast();
                load(from.cast_mut(), &Shape::line(count, stride), loaded);
                for step in &body.steps {
                    if let Step::Eval { kernel, operands, into } = step {
                        let own = storage[usize::from(*into)].as_mut_ptr().cast();
                        let address = |strip: u16| {
                            storage.get(usize::from(strip)).map_or(core::ptr::null(), |strip| strip.as_ptr().cast())
                        };
                        kernel(Strips { into: own, from: operands.map(address), count });
                    }
                }
                let result = storage[usize::from(*result)].as_ptr().cast::<N>();
                core::ptr::copy_nonoverlapping(result, numbers.as_mut_ptr(), count);
            }
            let bytes = (count as i64).wrapping_mul(stride).wrapping_mul(width(self.element) as i64);
            from = from.wrapping_offset(bytes as isize);
        }
    }
}
