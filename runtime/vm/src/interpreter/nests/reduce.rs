//! Reductions along adjacent elements.
#![allow(unsafe_code, reason = "elements at addresses that were checked")]

use core::mem::MaybeUninit;

use incarnate_bytecode::ir::nest::Reduce;
use incarnate_kernels::reduction::PARTIAL;

use super::kernels::{Partial, ReductionKernel, Strips, reduced};
use super::strips::{Run, STRIP, Store};

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
    /// Runs all iterations of a reduction; false, and nothing done, without memory for the strips.
    ///
    /// # Safety
    /// As for [`Run::all`], and the output's elements are `f32`.
    pub(super) unsafe fn reduce_all(&mut self, reducing: &Reducing) -> bool {
        let Some(mut store) = self.store() else { return false };
        // SAFETY: promised by the caller.
        unsafe { self.reduce_elements(0, reducing, &mut store) };
        true
    }

    /// # Safety
    /// As for `reduce_all`.
    unsafe fn reduce_elements(&mut self, at: usize, reducing: &Reducing, store: &mut Store) {
        let Some(dimension) = self.outer.get(at) else {
            let mut partial = [reducing.operation.identity(); PARTIAL];
            // SAFETY: promised by the caller.
            unsafe { self.reduce_runs(0, reducing, &mut partial, store) };
            let element = self.element(reducing.output).0.cast::<MaybeUninit<f32>>();
            // SAFETY: promised by the caller. Another thread may write the element meanwhile: then it is any number.
            let number = unsafe { element.read().assume_init() };
            let number = reduced(reducing.operation, reducing.is_swapped, number, partial);
            // SAFETY: as above.
            return unsafe { element.write(MaybeUninit::new(number)) };
        };
        let count = dimension.count;
        for _ in 0..count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce_elements(at + 1, reducing, store) };
            Run::advance(&mut self.positions, &self.outer[at], 1);
        }
        Run::advance(&mut self.positions, &self.outer[at], (count as i64).wrapping_neg());
    }

    /// # Safety
    /// As for `reduce_all`.
    unsafe fn reduce_runs(&mut self, at: usize, reducing: &Reducing, partial: &mut Partial, store: &mut Store) {
        let Some(dimension) = self.reductions.get(at) else {
            let all = self.lanes.count;
            for first in (0..all).step_by(STRIP) {
                let count = (all - first).min(STRIP);
                // SAFETY: promised by the caller; the iterations exist. The strips of the terms are computed then.
                unsafe {
                    self.steps(count, store);
                    let [first, second] = reducing.terms.map(|strip| store.address(strip));
                    (reducing.kernel)(Strips {
                        into: (&raw mut *partial).cast(),
                        from: [first, second, core::ptr::null()],
                        count,
                    });
                }
                Run::advance(&mut self.positions, &self.lanes, count as i64);
            }
            Run::advance(&mut self.positions, &self.lanes, (all as i64).wrapping_neg());
            return;
        };
        let count = dimension.count;
        for _ in 0..count {
            // SAFETY: promised by the caller; the iteration exists.
            unsafe { self.reduce_runs(at + 1, reducing, partial, store) };
            Run::advance(&mut self.positions, &self.reductions[at], 1);
        }
        Run::advance(&mut self.positions, &self.reductions[at], (count as i64).wrapping_neg());
    }
}
