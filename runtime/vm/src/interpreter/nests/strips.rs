//! Vector operations over strips of elements.
#![allow(unsafe_code, reason = "elements at addresses that were checked")]

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use super::super::super::array;
use super::super::super::buffer::{Compute, Region};
use super::copies::{Shape, sequence};
use super::gather::Elements;
use super::kernels::{Strips, register_width, width};
use super::plan::{Dimension, Known, STRIP, Tile, Tiling};
use super::{Body, Computed, Step, View};
use incarnate_bytecode::ir::nest::{Element, Factor};
use incarnate_kernels::contraction::{Narrow, Piece};
use smallvec::SmallVec;

/// Elements of the strips of a contraction's factor, and their greatest number: they are on the stack.
const FACTOR_STRIP: usize = 64;
pub(super) const FACTOR_STRIPS: usize = Factor::MOST_VALUES;

/// Numbers of up to 64 bits.
pub(super) type Storage<const N: usize> = [MaybeUninit<u64>; N];

/// What nests that run one after the other share, so that they allocate nothing.
#[derive(Default)]
pub(in super::super::super) struct Scratch {
    pub(super) scalars: Vec<u64>,
    pub(super) known: Known,
    pub(super) memory: Memory,
}

impl core::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Scratch").field("strips", &self.memory.strips.len()).finish_non_exhaustive()
    }
}

/// The memory of strips.
#[derive(Default)]
pub(super) struct Memory {
    strips: Vec<Storage<STRIP>>,
}

/// The iterations of a nest over strips.
pub(super) struct Run<'a> {
    pub(super) known: &'a Known,
    pub(super) body: &'a Body,
    pub(super) views: &'a [View],
    pub(super) regions: &'a [Region],
    /// The elements that are loaded at computed indices.
    pub(super) gathered: &'a [Elements],
    pub(super) scalars: &'a [u64],
}

/// What iterations change.
struct State {
    /// The memory of each strip.
    own: SmallVec<[*mut u8; 16]>,
    /// The address of each strip's elements.
    addresses: SmallVec<[*const u8; 16]>,
    /// The position in each stream: elements from the first iteration's, or the number.
    positions: SmallVec<[i64; 16]>,
    /// No computed index was out of range.
    are_within: bool,
}

impl State {
    fn own(&self, strip: u16) -> *mut u8 {
        self.own[usize::from(strip)]
    }

    /// The address of an operand's elements; null where an operation has fewer operands.
    #[inline(always)]
    fn address(&self, strip: u16) -> *const u8 {
        match self.addresses.get(usize::from(strip)) {
            Some(address) => *address,
            None => core::ptr::null(),
        }
    }

    fn advance(&mut self, strides: &[i64], iterations: i64) {
        for (position, stride) in self.positions.iter_mut().zip(strides) {
            *position = position.wrapping_add(stride.wrapping_mul(iterations));
        }
    }
}

/// Reads the first number of a strip, in a register's form.
///
/// # Safety
/// The number is there, and aligned.
unsafe fn number(strip: *const u8, is_wide: bool) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { if is_wide { strip.cast::<u64>().read() } else { u64::from(strip.cast::<u32>().read()) } }
}

/// Fills a strip with one number.
///
/// # Safety
/// There is space for `count` numbers.
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
    /// Runs all iterations, from the positions of the first; false where a computed index is out of range, and, with nothing done, without
    /// memory for the strips. `results` receives what is carried out of the last iteration.
    ///
    /// # Safety
    /// In each iteration, the views' elements are in memory and aligned, and written ones can be written to. Unless the nest
    /// is sequential, the iterations of all loops but the reductions may run in any order.
    pub(super) unsafe fn all(
        &self,
        positions: impl Iterator<Item = i64>,
        memory: &mut Memory,
        results: &mut SmallVec<[u64; 4]>,
    ) -> bool {
        let Some(mut state) = self.state(positions, memory) else { return false };
        // SAFETY: promised by the caller.
        unsafe { self.outer(0, &mut state) };
        for carried in &self.body.carried {
            // SAFETY: the strip holds a number since before the first iteration.
            results.push(unsafe { number(state.own(carried.strip), carried.is_wide) });
        }
        state.are_within
    }

    /// The strips and positions before the first iteration, with what is the same in all iterations; None without memory for strips.
    fn state(&self, positions: impl Iterator<Item = i64>, memory: &mut Memory) -> Option<State> {
        let strips = usize::from(self.body.strips);
        if memory.strips.len() < strips {
            let Ok(new) = array::filled(strips, [MaybeUninit::uninit(); STRIP]) else { return None };
            memory.strips = new;
        }
        let mut state =
            State { own: SmallVec::new(), addresses: SmallVec::new(), positions: SmallVec::new(), are_within: true };
        for strip in memory.strips.iter_mut().take(strips) {
            let own = strip.as_mut_ptr().cast::<u8>();
            state.own.push(own);
            state.addresses.push(own);
        }
        for position in positions {
            state.positions.push(position);
        }
        let Tiling { tile, deep, .. } = &self.known.tiling;
        let elements = if deep.reductions > 0 { deep.tile.elements.max(tile.elements) } else { tile.elements };
        for (strip, scalar, is_wide) in &self.body.broadcasts {
            let own = state.own(*strip);
            // SAFETY: a strip has space for the elements of a tile.
            unsafe { broadcast(*is_wide, self.scalars[usize::from(*scalar)], own, elements) };
        }
        Some(state)
    }

    /// # Safety
    /// As for `all`.
    unsafe fn outer(&self, at: usize, state: &mut State) {
        let Tiling { outer, cut, chunk, tile, rest, .. } = &self.known.tiling;
        let dimension = outer.get(at).unwrap_or(cut);
        let strides = self.known.strides(dimension.at);
        if at < outer.len() {
            for _ in 0..dimension.count {
                // SAFETY: promised by the caller; the iteration exists.
                unsafe { self.outer(at + 1, state) };
                state.advance(strides, 1);
            }
        } else {
            let mut first = 0;
            while first < cut.count {
                let count = (cut.count - first).min(*chunk);
                // SAFETY: promised by the caller; the iterations exist.
                unsafe { self.tile(if count < *chunk { rest } else { tile }, state) };
                first += count;
                if first < cut.count || !outer.is_empty() {
                    state.advance(strides, count as i64);
                }
            }
        }
        if at > 0 {
            state.advance(strides, (dimension.count as i64).wrapping_neg());
        }
    }

    /// Runs all reductions of a tile.
    ///
    /// # Safety
    /// As for `all`; the iterations of the tile exist.
    unsafe fn tile(&self, tile: &Tile, state: &mut State) {
        if self.body.accumulators.is_empty() {
            // SAFETY: promised by the caller.
            return unsafe { self.reduce(0, tile, state) };
        }
        // SAFETY: promised by the caller; accumulators are stored after they are loaded. No reduction is empty: `Check::NotEmpty`.
        unsafe {
            self.body.before.iter().for_each(|step| self.step(step, tile, tile.elements, state));
            self.reduce(0, tile, state);
            self.body.after.iter().for_each(|step| self.step(step, tile, tile.elements, state));
        }
    }

    /// # Safety
    /// As for `tile`.
    unsafe fn reduce(&self, at: usize, tile: &Tile, state: &mut State) {
        let Tiling { reductions, deep, .. } = &self.known.tiling;
        let shared = if self.body.accumulators.is_empty() { 0 } else { deep.reductions };
        let Some(dimension) = reductions[..reductions.len() - shared].get(at) else {
            if shared > 0 {
                // SAFETY: promised by the caller. Tiles that share strips with reductions are of equal size.
                return unsafe { self.deep(&reductions[reductions.len() - shared], tile.elements, state) };
            }
            // SAFETY: promised by the caller.
            return unsafe { self.iteration(tile, state) };
        };
        let strides = self.known.strides(dimension.at);
        for _ in 0..dimension.count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce(at + 1, tile, state) };
            state.advance(strides, 1);
        }
        state.advance(strides, (dimension.count as i64).wrapping_neg());
    }

    /// Runs the body for a tile of so many elements and the reductions that share its strips, `cut` being the outermost of them.
    ///
    /// # Safety
    /// As for `tile`.
    unsafe fn deep(&self, cut: &Dimension, elements: usize, state: &mut State) {
        let (deep, strides) = (&self.known.tiling.deep, self.known.strides(cut.at));
        let mut first = 0;
        while first < cut.count {
            let count = (cut.count - first).min(deep.chunk);
            let tile = if count < deep.chunk { &deep.rest } else { &deep.tile };
            // SAFETY: promised by the caller; the iterations exist. Operands were computed before.
            unsafe {
                self.body.steps.iter().for_each(|step| self.step(step, tile, tile.elements, state));
                for _ in 0..tile.elements / elements.max(1) {
                    self.body.accumulating.iter().for_each(|step| self.step(step, tile, elements, state));
                    self.accumulate(state);
                    for (strip, advance) in &self.body.accumulating_operands {
                        let address = &mut state.addresses[usize::from(*strip)];
                        *address = address.wrapping_add(advance * elements);
                    }
                }
            }
            state.advance(strides, count as i64);
            first += count;
        }
        state.advance(strides, (cut.count as i64).wrapping_neg());
    }

    /// Makes sums the accumulators of the next iteration.
    fn accumulate(&self, state: &mut State) {
        for (accumulator, sum) in &self.body.accumulators {
            let (accumulator, sum) = (usize::from(*accumulator), usize::from(*sum));
            state.own.swap(accumulator, sum);
            state.addresses[accumulator] = state.addresses[sum];
        }
    }

    /// Runs the body for a tile.
    ///
    /// # Safety
    /// As for `tile`.
    unsafe fn iteration(&self, tile: &Tile, state: &mut State) {
        let body = self.body;
        // SAFETY: promised by the caller; operands were computed before.
        unsafe {
            for steps in [&body.steps, &body.accumulating] {
                steps.iter().for_each(|step| self.step(step, tile, tile.elements, state));
            }
            self.accumulate(state);
            let one = &self.known.tiling.one;
            body.scalar_steps.iter().for_each(|step| self.step(step, one, tile.elements, state));
        }
    }

    /// The address of the element of a view in the first iteration of a tile.
    #[inline(always)]
    fn element(&self, view: usize, state: &State) -> *mut u8 {
        let offset = (state.positions[view] as isize).wrapping_mul(width(self.views[view].element) as isize);
        self.regions[view].origin.wrapping_offset(offset)
    }

    /// Runs a step for the iterations of a tile: an operation for `count` elements, which are all of them but for steps that follow
    /// others.
    ///
    /// # Safety
    /// As for `tile`; the strips of operands have as many elements.
    #[inline(always)]
    unsafe fn step(&self, step: &Step, tile: &Tile, count: usize, state: &mut State) {
        match step {
            Step::Load { view, into, copy, is_borrowed, .. } => {
                let element = self.element(*view, state);
                let shape = &tile.shapes[*view];
                let mut address = element.cast_const();
                if !*is_borrowed || !shape.is_adjacent() {
                    let own = state.own(*into);
                    // SAFETY: promised by the caller; a strip has space for the elements of a tile.
                    unsafe { copy(element, shape, own) };
                    address = own;
                }
                state.addresses[usize::from(*into)] = address;
            }
            // What follows an index that is out of range is not stored.
            Step::Store { .. } if !state.are_within => {}
            Step::Store { view, from, copy } => {
                let (element, strip) = (self.element(*view, state), state.addresses[usize::from(*from)]);
                // SAFETY: promised by the caller; the strip was computed before, and is only read.
                unsafe { copy(element, &tile.shapes[*view], strip.cast_mut()) };
            }
            Step::Sequence { sequence: index, into } => {
                let (stream, own) = (self.views.len() + index, state.own(*into));
                let shape = &tile.shapes[stream];
                // SAFETY: a strip has space for the elements of a tile.
                unsafe { sequence(self.body.sequences[*index].1, state.positions[stream], shape, own) };
                state.addresses[usize::from(*into)] = own;
            }
            Step::Gather { gather, load, index, into } => {
                let (own, indices) = (state.own(*into), state.address(*index));
                // SAFETY: the indices were computed before, and are of 64 bits; the result is another strip, with space for the elements
                // of a tile.
                state.are_within &= unsafe { load(&self.gathered[*gather], indices.cast(), own, count) };
                state.addresses[usize::from(*into)] = own;
            }
            Step::Eval { kernel, operands: [first, second, third], into } => {
                let from = [state.address(*first), state.address(*second), state.address(*third)];
                let own = state.own(*into);
                // SAFETY: the operands were computed before, and are of the instruction's types; the result is no operand.
                unsafe { kernel(Strips { into: own, from, count }) };
                state.addresses[usize::from(*into)] = own;
            }
            Step::Fold { kernel, operands: [first, second], into } => {
                let from = [state.address(*first), state.address(*second), core::ptr::null()];
                // SAFETY: as above. The first number of `into` was written before: by the load in front of this step, or before the first
                // iteration.
                unsafe { kernel(Strips { into: state.own(*into), from, count }) };
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

/// The strips of a factor, one of which is elsewhere.
struct Factors {
    strips: [Storage<FACTOR_STRIP>; FACTOR_STRIPS],
    result: (u16, *mut u8),
}

impl Factors {
    fn address(&mut self, strip: u16) -> *mut u8 {
        match self.strips.get_mut(usize::from(strip)) {
            _ if strip == self.result.0 => self.result.1,
            Some(strip) => strip.as_mut_ptr().cast(),
            None => core::ptr::null_mut(),
        }
    }
}

impl<N: Copy> Compute<N> for Computation<'_> {
    fn narrow(&self) -> Option<Narrow> {
        self.computed.narrow
    }

    unsafe fn compute(&self, first: *const u8, stride: i64, pieces: &[Piece], into: &mut [N]) {
        let Computed { body, load, loaded, result, .. } = self.computed;
        let mut strips = Factors {
            strips: [[MaybeUninit::uninit(); FACTOR_STRIP]; FACTOR_STRIPS],
            result: (*result, core::ptr::null_mut()),
        };
        let longest = into.len().min(FACTOR_STRIP);
        for (strip, scalar, is_wide) in &body.broadcasts {
            // SAFETY: the strip is that long. The result is computed from an element, so that it is another one.
            unsafe { broadcast(*is_wide, self.scalars[usize::from(*scalar)], strips.address(*strip), longest) };
        }
        let element = |distance: i64| {
            first.wrapping_offset(distance.wrapping_mul(width(self.element) as i64) as isize).cast_mut()
        };
        let (mut pieces, mut done_of_piece) = (pieces.iter(), 0);
        let mut piece = pieces.next();
        for numbers in into.chunks_mut(FACTOR_STRIP) {
            strips.result.1 = numbers.as_mut_ptr().cast();
            let (count, mut filled) = (numbers.len(), 0);
            while let Some(present) = piece.filter(|_| filled < count) {
                let length = (present.length - done_of_piece).min(count - filled);
                let from = (present.from as i64).wrapping_add(stride.wrapping_mul(done_of_piece as i64));
                let to = strips.address(*loaded).wrapping_add(filled * register_width(self.element));
                // SAFETY: the elements are within a buffer, as the caller promises; the strip has space for `count` numbers.
                unsafe { load(element(from), &Shape::line(length, stride), to) };
                (filled, done_of_piece) = (filled + length, done_of_piece + length);
                if done_of_piece == present.length {
                    (piece, done_of_piece) = (pieces.next(), 0);
                }
            }
            for step in &body.steps {
                if let Step::Eval { kernel, operands: [first, second, third], into } = step {
                    let from = [strips.address(*first).cast_const(), strips.address(*second), strips.address(*third)];
                    // SAFETY: the caller promises as many elements as numbers; strips are that long, and computed in order. The
                    // result of a step is no operand of it, and that of the last one has the type of the numbers.
                    unsafe { kernel(Strips { into: strips.address(*into), from, count }) };
                }
            }
        }
    }
}
