//! Reductions along adjacent elements.
#![allow(unsafe_code, reason = "elements at addresses that were checked")]

use core::mem::MaybeUninit;

use incarnate_bytecode::ir::nest::Reduce;
use incarnate_kernels::reduction::PARTIAL;

use super::kernels::{Partial, ReductionKernel, Strips, reduced};
use super::plan::{STRIP, Tiling};
use super::strips::{Memory, Run, State};

// The first number of each strip is that of the first partial result.
const _: () = assert!(STRIP.is_multiple_of(PARTIAL));

/// How the numbers of a nest are combined: see [`Reduction`](incarnate_bytecode::ir::nest::Reduction).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reducing {
    pub(super) operation: Reduce,
    pub(super) is_swapped: bool,
    pub(super) kernel: ReductionKernel,
    pub(super) terms: [u16; 2],
    /// The view of the elements.
    pub(super) output: usize,
}

impl Run<'_> {
    /// Runs all iterations of a reduction, from the positions of the first; false, and nothing done, without memory for the strips.
    ///
    /// # Safety
    /// As for [`Run::all`], and the output's elements are `f32`.
    pub(super) unsafe fn reduce_all(
        &self,
        reducing: &Reducing,
        positions: impl Iterator<Item = i64>,
        memory: &mut Memory,
    ) -> bool {
        let Some(mut state) = self.state(positions, memory) else { return false };
        // SAFETY: promised by the caller.
        unsafe { self.reduce_elements(0, reducing, &mut state) };
        true
    }

    /// # Safety
    /// As for `reduce_all`.
    unsafe fn reduce_elements(&self, at: usize, reducing: &Reducing, state: &mut State) {
        let Some(dimension) = self.known.tiling.outer.get(at) else {
            let mut partial = [reducing.operation.identity(); PARTIAL];
            // SAFETY: promised by the caller.
            unsafe { self.reduce_runs(0, reducing, &mut partial, state) };
            let element = self.element(reducing.output, state).cast::<MaybeUninit<f32>>();
            // SAFETY: promised by the caller. Another thread may write the element meanwhile: then it is any number.
            let number = unsafe { element.read().assume_init() };
            let number = reduced(reducing.operation, reducing.is_swapped, number, partial);
            // SAFETY: as above.
            return unsafe { element.write(MaybeUninit::new(number)) };
        };
        let strides = self.known.strides(dimension.at);
        for _ in 0..dimension.count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce_elements(at + 1, reducing, state) };
            state.advance(strides, 1);
        }
        state.advance(strides, (dimension.count as i64).wrapping_neg());
    }

    /// # Safety
    /// As for `reduce_all`.
    unsafe fn reduce_runs(&self, at: usize, reducing: &Reducing, partial: &mut Partial, state: &mut State) {
        let Tiling { reductions, lanes, tile, rest, .. } = &self.known.tiling;
        let Some(dimension) = reductions.get(at) else {
            let (all, strides) = (lanes.count, self.known.strides(lanes.at));
            for first in (0..all).step_by(STRIP) {
                let count = (all - first).min(STRIP);
                // SAFETY: promised by the caller; the iterations exist. The strips of the terms are computed then.
                unsafe {
                    self.iteration(if count == tile.elements { tile } else { rest }, state);
                    let [first, second] = reducing.terms.map(|strip| state.address(strip));
                    (reducing.kernel)(Strips {
                        into: (&raw mut *partial).cast(),
                        from: [first, second, core::ptr::null()],
                        count,
                    });
                }
                state.advance(strides, count as i64);
            }
            return state.advance(strides, (all as i64).wrapping_neg());
        };
        let strides = self.known.strides(dimension.at);
        for _ in 0..dimension.count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce_runs(at + 1, reducing, partial, state) };
            state.advance(strides, 1);
        }
        state.advance(strides, (dimension.count as i64).wrapping_neg());
    }
}
