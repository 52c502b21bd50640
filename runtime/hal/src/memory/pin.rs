//! Values that are exchanged only while no thread has pinned them.
//!
//! A [`Pinnable`] is an atomic word and a cell. The two low bits of the word are the phase, the others count pins.
//!
//! | phase | the cell | pins |
//! | --- | --- | --- |
//! | EMPTY | empty: the value is borrowed from elsewhere, for reading, or there is none yet | are counted |
//! | OWNED | the value, which may be exchanged | are counted |
//! | CLAIMED | belongs to one thread, which fills or exchanges it | wait for the next phase |
//! | FIXED | the value for good, or nothing | cost nothing |
//!
//! 1. *Pin*: compare-and-exchange (EMPTY, n) to (EMPTY, n + 1), or (OWNED, n) to (OWNED, n + 1), acquire.
//! 2. *Unpin*: subtract a pin, release.
//! 3. *Claim*: compare-and-exchange (EMPTY, n) or (OWNED, 0) to CLAIMED, acquire.
//! 4. *Settle*: add the difference between CLAIMED and the next phase, release.
//! 5. *Fix*: compare-and-exchange (OWNED, n) to (FIXED, n).
//!
//! **Who may read the cell.** A thread that has a pin of the phase OWNED, as nothing but a claim ends that phase with another
//! value, and a claim needs n = 0; and every thread in the phase FIXED, which never ends.
//!
//! **Who may write the cell.** The thread whose operation 3 succeeded, until its operation 4. A claim of (OWNED, 0) reads
//! from the release sequence of every unpin before it, so that all reads under pins happen before the writes. A pin of the
//! phase EMPTY does not read the cell, so such pins do not hinder a claim.
//!
//! **No pin of a borrowed value is missed.** The phase EMPTY does not come back after FIXED, and FIXED counts no pins, so
//! the count only falls then: once it is zero, all that was read under pins happened before.
//!
//! **Waiting ends.** A thread that has claimed waits for no other thread; all others may wait for it.
#![allow(unsafe_code, reason = "references to the contents of a cell; see above")]

#[cfg(all(test, loom))]
mod model;

use core::fmt;

use crate::Result;
use crate::atomic::{AtomicUsize, Ordering, SharedCell};

const EMPTY: usize = 0;
const OWNED: usize = 1;
const CLAIMED: usize = 2;
const FIXED: usize = 3;
/// The bits of the phase.
const PHASE: usize = 3;
/// One pin.
const PIN: usize = 4;

/// A value that can be pinned.
pub(super) struct Pinnable<T> {
    word: AtomicUsize,
    value: SharedCell<Option<T>>,
}

// SAFETY: the cell is read and written as the module's documentation proves; threads share the value, and one may drop what
// another has stored.
unsafe impl<T: Send + Sync> Sync for Pinnable<T> {}

/// Keeps a value until it is dropped.
pub(super) struct Pin<'a, T> {
    of: &'a Pinnable<T>,
    /// EMPTY, OWNED or FIXED.
    phase: usize,
}

impl<T> Pin<'_, T> {
    /// Returns true if the cell is empty: the value is the borrowed one, or there is none yet.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.phase == EMPTY
    }

    /// Returns true if the value never changes any more: the pin keeps nothing.
    #[inline]
    pub(super) fn is_fixed(&self) -> bool {
        self.phase == FIXED
    }

    /// Returns the value; `None` if the cell is empty, or no value could be stored.
    #[inline]
    pub(super) fn value(&self) -> Option<&T> {
        match self.phase {
            EMPTY => None,
            // SAFETY: the pin is one of the phase OWNED or FIXED, so no thread writes the cell while it exists.
            _ => self.of.value.with(|value| unsafe { &*value }.as_ref()),
        }
    }
}

impl<T> Drop for Pin<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.phase != FIXED {
            self.of.word.fetch_sub(PIN, Ordering::Release);
        }
    }
}

impl<T> Pinnable<T> {
    /// Stands for a borrowed value, or for one that comes later.
    pub(super) fn empty() -> Pinnable<T> {
        Pinnable { word: AtomicUsize::new(EMPTY), value: SharedCell::new(None) }
    }

    /// Contains a value.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    pub(super) fn owned(value: T) -> Pinnable<T> {
        Pinnable { word: AtomicUsize::new(OWNED), value: SharedCell::new(Some(value)) }
    }

    /// Exchanges the word; returns true if it was still the same.
    #[inline]
    fn exchange(&self, word: usize, next: usize) -> bool {
        self.word.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends the claim of the calling thread.
    fn settle(&self, phase: usize) {
        // Pins of an empty cell are dropped meanwhile.
        self.word.fetch_add(phase.wrapping_sub(CLAIMED), Ordering::Release);
    }

    /// Pins the value. Waits for a thread that has claimed it.
    #[inline]
    pub(super) fn pin(&self) -> Pin<'_, T> {
        let mut polls = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            match word & PHASE {
                FIXED => return Pin { of: self, phase: FIXED },
                CLAIMED => pause(&mut polls),
                phase if self.exchange(word, word + PIN) => return Pin { of: self, phase },
                _ => {}
            }
        }
    }

    /// Fixes the value, which `own` returns if the cell is empty: `None` if there is none from now on.
    ///
    /// # Errors
    /// Those of `own`. The cell is empty as before.
    #[inline]
    pub(super) fn fix(&self, own: impl FnOnce() -> Result<Option<T>>) -> Result<Option<&T>> {
        let mut polls = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            match word & PHASE {
                FIXED => break,
                CLAIMED => pause(&mut polls),
                OWNED if self.exchange(word, word - OWNED + FIXED) => break,
                EMPTY if self.exchange(word, word - EMPTY + CLAIMED) => {
                    self.fill_claimed(own, FIXED)?;
                    break;
                }
                _ => {}
            }
        }
        // SAFETY: the value is fixed, so no thread writes the cell any more.
        Ok(self.value.with(|value| unsafe { &*value }.as_ref()))
    }

    /// Stores the value that `own` returns if the cell is empty. It may be exchanged later.
    ///
    /// # Errors
    /// Those of `own`. The cell is empty as before.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    pub(super) fn fill(&self, own: impl FnOnce() -> Result<T>) -> Result<()> {
        let mut polls = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            match word & PHASE {
                CLAIMED => pause(&mut polls),
                EMPTY if self.exchange(word, word - EMPTY + CLAIMED) => {
                    return self.fill_claimed(|| own().map(Some), OWNED);
                }
                EMPTY => {}
                _ => return Ok(()),
            }
        }
    }

    /// Stores what `own` returns in the empty cell that the calling thread has claimed, and ends the claim with `phase`; with
    /// EMPTY where `own` fails.
    fn fill_claimed(&self, own: impl FnOnce() -> Result<Option<T>>, phase: usize) -> Result<()> {
        let owned = own().inspect_err(|_| self.settle(EMPTY))?;
        // SAFETY: this thread has claimed the cell and does not settle before it has written.
        self.value.with_mut(|value| unsafe { *value = owned });
        self.settle(phase);
        Ok(())
    }

    /// Exchanges an owned value that is not pinned for what `next` returns; returns false where it is pinned, or not owned, or
    /// where `next` fails.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    pub(super) fn try_exchange(&self, next: impl FnOnce(&T) -> Result<T>) -> bool {
        if !self.exchange(OWNED, CLAIMED) {
            return false;
        }
        let previous = self.value.with_mut(|value| {
            // SAFETY: this thread has claimed the value in the lines above and settles after this closure.
            let value = unsafe { &mut *value };
            value.as_ref().and_then(|value| next(value).ok()).and_then(|next| value.replace(next))
        });
        self.settle(OWNED);
        previous.is_some()
    }

    /// Waits until no pin of the empty cell is left after the value was fixed.
    pub(super) fn wait_for_pins(&self) {
        let mut polls = 0;
        while self.word.load(Ordering::Acquire) >= PIN {
            pause(&mut polls);
        }
    }

    /// Returns the value to its only holder; `None` if the cell is empty, or no value could be stored.
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the borrow is exclusive, so no other thread has a claim and there is no pin.
        self.value.with_mut(|value| unsafe { &mut *value }.as_mut())
    }
}

/// Lets other threads run: at first those of other cores, then those that wait for this one.
fn pause(polls: &mut u32) {
    *polls = polls.saturating_add(1);
    #[cfg(loom)]
    crate::atomic::yield_now();
    #[cfg(not(loom))]
    match *polls {
        #[cfg(feature = "std")]
        100..200 => std::thread::yield_now(),
        // A kernel that takes long.
        #[cfg(feature = "std")]
        200.. => std::thread::sleep(core::time::Duration::from_micros(50)),
        _ => core::hint::spin_loop(),
    }
}

impl<T> fmt::Debug for Pin<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin of phase {}", self.phase)
    }
}
