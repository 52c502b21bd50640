//! Vector operations over strips of elements.
#![allow(unsafe_code, reason = "elements at addresses that were checked")]

use alloc::vec::Vec;

use super::super::super::array;
use super::super::super::buffer::{Compute, Region};
use super::kernels::{Strips, gather, scatter, sequence, width};
use super::{Body, Carried, Step, View};
use incarnate_bytecode::ir::nest::{Element, Factor};
use smallvec::SmallVec;

/// Elements of a strip: few enough that strips stay in the first-level cache, and enough that the choice of an operation
/// costs little.
pub(super) const STRIP: usize = 256;

/// Elements of the strips of a contraction's factor, and their greatest number: they are on the stack.
const FACTOR_STRIP: usize = 64;
pub(super) const FACTOR_STRIPS: usize = Factor::MOST_VALUES;

/// Numbers of up to 64 bits.
type Storage<const N: usize> = [core::mem::MaybeUninit<u64>; N];

/// A loop, and what an iteration adds to the position in each stream: the views, then the sequences.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    pub(super) count: usize,
    pub(super) strides: Vec<i64>,
}

/// The iterations of a nest over strips.
pub(super) struct Run<'a> {
    pub(super) body: &'a Body,
    pub(super) views: &'a [View],
    pub(super) regions: &'a [Region],
    pub(super) scalars: &'a [u64],
    /// The loops around that of the strips.
    pub(super) outer: Vec<Dimension>,
    pub(super) lanes: Dimension,
    /// The loops within that of the strips.
    pub(super) reductions: Vec<Dimension>,
    /// The position in each stream: elements from the first iteration's, or the number.
    pub(super) positions: Vec<i64>,
    /// What is carried out of the last iteration.
    pub(super) results: Vec<u64>,
}

/// The strips of a nest.
pub(super) struct Store {
    numbers: Vec<Storage<STRIP>>,
    /// The address of each strip's elements.
    addresses: Vec<*const u8>,
}

impl Store {
    /// The address of the elements of a strip that was computed.
    pub(super) fn address(&self, strip: u16) -> *const u8 {
        self.addresses[usize::from(strip)]
    }

    fn own(&mut self, strip: u16) -> *mut u8 {
        self.numbers[usize::from(strip)].as_mut_ptr().cast()
    }
}

/// Reads a number of a strip, in a register's form.
///
/// # Safety
/// The number is there, and aligned.
unsafe fn number(address: *const u8, is_wide: bool) -> core::mem::MaybeUninit<u64> {
    // SAFETY: promised by the caller.
    unsafe {
        match is_wide {
            true => address.cast::<core::mem::MaybeUninit<u64>>().read(),
            false => {
                let mut number = core::mem::MaybeUninit::new(0u64);
                number
                    .as_mut_ptr()
                    .cast::<core::mem::MaybeUninit<u32>>()
                    .write(address.cast::<core::mem::MaybeUninit<u32>>().read());
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
            true => core::slice::from_raw_parts_mut(into.cast(), count).fill(core::mem::MaybeUninit::new(number)),
            false => {
                core::slice::from_raw_parts_mut(into.cast(), count).fill(core::mem::MaybeUninit::new(number as u32))
            }
        }
    }
}

impl Run<'_> {
    /// Joins loops: where an iteration of one goes as far as all of the strips' loop, both are one loop. In order, only the loop
    /// around that one can be joined with it.
    pub(super) fn join(&mut self, is_ordered: bool) {
        self.outer.retain(|dimension| dimension.count != 1);
        loop {
            let lanes = &self.lanes;
            let follows = |dimension: &Dimension| {
                let mut pairs = dimension.strides.iter().zip(&lanes.strides);
                lanes.count == 1 || pairs.all(|(outer, inner)| *outer == inner.wrapping_mul(lanes.count as i64))
            };
            let last = self.outer.len().wrapping_sub(1);
            let Some(at) = self.outer.iter().rposition(follows).filter(|at| !is_ordered || *at == last) else { return };
            let Some(count) = self.outer[at].count.checked_mul(lanes.count) else { return };
            let joined = self.outer.remove(at);
            if self.lanes.count == 1 {
                self.lanes.strides = joined.strides;
            }
            self.lanes.count = count;
        }
    }

    /// Runs all iterations; false, and nothing done, without memory for the strips.
    ///
    /// # Safety
    /// In each iteration, the views' elements are in memory and aligned, and written ones can be written to. The iterations of
    /// `outer` and `lanes` may run in any order.
    pub(super) unsafe fn all(&mut self) -> bool {
        let Some(mut store) = self.store() else { return false };
        // SAFETY: promised by the caller.
        unsafe { self.outer(0, &mut store) };
        for carried in &self.body.carried {
            // SAFETY: the strip holds a number since before the first iteration.
            unsafe { self.results.push(number(store.own(carried.strip), true).assume_init()) };
        }
        true
    }

    /// The strips, with what is the same in all iterations; None without memory for them.
    pub(super) fn store(&self) -> Option<Store> {
        let strips = usize::from(self.body.strips);
        let (Ok(mut numbers), Ok(addresses)) = (array::with_capacity(strips), array::filled(strips, core::ptr::null()))
        else {
            return None;
        };
        // SAFETY: the memory is reserved, and storage needs no values.
        unsafe { numbers.set_len(strips) };
        let mut store = Store { numbers, addresses };
        for (strip, scalar, is_wide) in &self.body.broadcasts {
            let own = store.own(*strip);
            // SAFETY: a strip has room for `STRIP` numbers.
            unsafe { broadcast(*is_wide, self.scalars[usize::from(*scalar)], own, self.lanes.count.min(STRIP)) };
            store.addresses[usize::from(*strip)] = own;
        }
        Some(store)
    }

    pub(super) fn advance(positions: &mut [i64], dimension: &Dimension, iterations: i64) {
        for (position, stride) in positions.iter_mut().zip(&dimension.strides) {
            *position = position.wrapping_add(stride.wrapping_mul(iterations));
        }
    }

    /// # Safety
    /// As for `all`.
    unsafe fn outer(&mut self, at: usize, store: &mut Store) {
        let Some(dimension) = self.outer.get(at) else {
            let mut first = 0;
            while first < self.lanes.count {
                let count = (self.lanes.count - first).min(STRIP);
                // SAFETY: promised by the caller; the iterations exist.
                unsafe { self.reduce(0, count, store) };
                Run::advance(&mut self.positions, &self.lanes, count as i64);
                first += count;
            }
            Run::advance(&mut self.positions, &self.lanes, (self.lanes.count as i64).wrapping_neg());
            return;
        };
        let count = dimension.count;
        for _ in 0..count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.outer(at + 1, store) };
            Run::advance(&mut self.positions, &self.outer[at], 1);
        }
        Run::advance(&mut self.positions, &self.outer[at], (count as i64).wrapping_neg());
    }

    /// # Safety
    /// As for `all`; the loop of the strips has `lanes` more iterations.
    unsafe fn reduce(&mut self, at: usize, lanes: usize, store: &mut Store) {
        let Some(dimension) = self.reductions.get(at) else {
            // SAFETY: promised by the caller.
            return unsafe { self.steps(lanes, store) };
        };
        let count = dimension.count;
        for _ in 0..count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce(at + 1, lanes, store) };
            Run::advance(&mut self.positions, &self.reductions[at], 1);
        }
        Run::advance(&mut self.positions, &self.reductions[at], (count as i64).wrapping_neg());
    }

    /// The address of the element of a view in the first iteration of a strip, and the stride.
    pub(super) fn element(&self, view: usize) -> (*mut u8, i64, Element) {
        let element = self.views[view].element;
        let offset = (self.positions[view] as isize).wrapping_mul(width(element) as isize);
        (self.regions[view].origin.wrapping_offset(offset), self.lanes.strides[view], element)
    }

    /// Runs the body for `count` iterations.
    ///
    /// # Safety
    /// As for `all`; these iterations exist.
    pub(super) unsafe fn steps(&mut self, count: usize, store: &mut Store) {
        for step in &self.body.steps {
            // SAFETY: promised by the caller; operands were computed before.
            unsafe { self.step(step, count, store) };
        }
        if !self.body.serial.is_empty() || !self.body.carried.is_empty() {
            // SAFETY: promised by the caller.
            unsafe { self.serial(count, store) };
        }
    }

    /// Runs the serial steps for `count` iterations.
    ///
    /// # Safety
    /// As for `steps`.
    unsafe fn serial(&mut self, count: usize, store: &mut Store) {
        let serial = &self.body.serial;
        // An element that all iterations load and store stays in its strip.
        let kept = match (serial.first(), serial.last()) {
            (Some(Step::Load { view, into, extension: None, .. }), Some(Step::Store { view: stored, from }))
                if view == stored && self.lanes.strides[*view] == 0 && self.body.serial_strips.contains(from) =>
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
                self.step(&serial[0], 1, store);
            }
            for index in 0..count {
                for step in steps {
                    self.step(step, 1, store);
                }
                let next = |carried: &Carried| store.addresses[usize::from(carried.next)];
                // All are read before the first is written.
                let numbers: SmallVec<[core::mem::MaybeUninit<u64>; 4]> =
                    self.body.carried.iter().map(|carried| number(next(carried), carried.is_wide)).collect();
                for (carried, number) in self.body.carried.iter().zip(numbers) {
                    store.own(carried.strip).cast::<core::mem::MaybeUninit<u64>>().write(number);
                }
                for (address, advance) in store.addresses.iter_mut().zip(&self.body.advances) {
                    *address = address.wrapping_add(*advance);
                }
                if let Some((into, from, _)) = kept {
                    let next = store.addresses[usize::from(from)].cast::<core::mem::MaybeUninit<u64>>();
                    // A strip has room for a number of 64 bits, whatever the numbers are.
                    if index + 1 < count {
                        store.own(into).cast::<core::mem::MaybeUninit<u64>>().write(next.read());
                    }
                } else {
                    Run::advance(&mut self.positions, &self.lanes, 1);
                }
            }
            if kept.is_some() {
                self.step(&serial[serial.len() - 1], 1, store);
            } else {
                Run::advance(&mut self.positions, &self.lanes, (count as i64).wrapping_neg());
            }
        }
    }

    /// Runs a step for `count` iterations.
    ///
    /// # Safety
    /// As for `all`; these iterations exist, and the strips of operands have as many elements.
    unsafe fn step(&self, step: &Step, count: usize, store: &mut Store) {
        match step {
            Step::Load { view, into, extension, is_borrowed } => {
                let (address, stride, element) = self.element(*view);
                let own = store.own(*into);
                let mut at = own.cast_const();
                // SAFETY: promised by the caller; a strip has room for `count` numbers.
                unsafe {
                    match extension {
                        None if stride == 1 && *is_borrowed => at = address,
                        None if stride == 1 => core::ptr::copy_nonoverlapping(address, own, count * width(element)),
                        Some(extend) if stride == 1 => {
                            extend(Strips { into: own, from: [address; 3], count });
                        }
                        _ => gather(element, address, stride, own, count),
                    }
                }
                store.addresses[usize::from(*into)] = at;
            }
            Step::Store { view, from } => {
                let (address, stride, element) = self.element(*view);
                // SAFETY: promised by the caller; the strip was computed before.
                unsafe { scatter(element, store.addresses[usize::from(*from)], address, stride, count) };
            }
            Step::Sequence { sequence: index, into } => {
                let stream = self.views.len() + index;
                let own = store.own(*into);
                let (first, step) = (self.positions[stream], self.lanes.strides[stream]);
                // SAFETY: a strip has room for `count` numbers.
                unsafe { sequence(self.body.sequences[*index].1, first, step, own, count) };
                store.addresses[usize::from(*into)] = own;
            }
            Step::Eval { kernel, operands, into } => {
                let from = operands.map(|strip| store.addresses.get(usize::from(strip)).copied().unwrap_or_default());
                let own = store.own(*into);
                // SAFETY: the operands were computed before, and are of the instruction's types; the result is no operand.
                unsafe { kernel(Strips { into: own, from, count }) };
                store.addresses[usize::from(*into)] = own;
            }
        }
    }
}

/// What is computed from each element of a factor of a contraction.
pub(super) struct Computation<'a> {
    pub(super) body: &'a Body,
    pub(super) scalars: &'a [u64],
    pub(super) element: Element,
    /// The strips of the element and of the result.
    pub(super) loaded: u16,
    pub(super) result: u16,
}

impl<N: Copy> Compute<N> for Computation<'_> {
    unsafe fn compute(&self, first: *const u8, stride: i64, into: &mut [N]) {
        let mut strips = [[core::mem::MaybeUninit::uninit(); FACTOR_STRIP]; FACTOR_STRIPS];
        let storage: &mut [Storage<FACTOR_STRIP>; FACTOR_STRIPS] = &mut strips;
        let longest = into.len().min(FACTOR_STRIP);
        for (strip, scalar, is_wide) in &self.body.broadcasts {
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
                gather(self.element, from, stride, storage[usize::from(self.loaded)].as_mut_ptr().cast(), count);
                for step in &self.body.steps {
                    if let Step::Eval { kernel, operands, into } = step {
                        let own = storage[usize::from(*into)].as_mut_ptr().cast();
                        let address = |strip: u16| {
                            storage.get(usize::from(strip)).map_or(core::ptr::null(), |strip| strip.as_ptr().cast())
                        };
                        kernel(Strips { into: own, from: operands.map(address), count });
                    }
                }
                let result = storage[usize::from(self.result)].as_ptr().cast::<N>();
                core::ptr::copy_nonoverlapping(result, numbers.as_mut_ptr(), count);
            }
            let bytes = (count as i64).wrapping_mul(stride).wrapping_mul(width(self.element) as i64);
            from = from.wrapping_offset(bytes as isize);
        }
    }
}
