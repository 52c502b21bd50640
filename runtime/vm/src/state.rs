//! The state of a bytecode module in a context, interpreted or translated: globals and resolved imports.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

use super::array;
use super::ledger::{Charge, Ledger};
use super::module::{BoundFunction, ModuleState};
use super::reference::Ref;
use super::sync::Lock;
use crate::{Error, Result};

/// Globals and imports. Primitive globals are relaxed atomics and reference globals are locked, each on its own, so that
/// several invocations may run in one context at once.
#[derive(Debug)]
pub struct State {
    /// The primitive globals, 4 bytes each.
    words: Box<[AtomicU32]>,
    references: Box<[Lock<Ref>]>,
    imports: Box<[Option<BoundFunction>]>,
    charge: Charge,
}

impl ModuleState for State {}

impl State {
    /// Creates globals that are zero and null, and imports that are not resolved.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory or the ledger is used up.
    pub fn new(global_bytes: u32, references: u32, imports: u32, ledger: &Ledger) -> Result<State> {
        let (words, references, imports) = (global_bytes.div_ceil(4) as usize, references as usize, imports as usize);
        let bytes = words * size_of::<AtomicU32>()
            + references * size_of::<Lock<Ref>>()
            + imports * size_of::<Option<BoundFunction>>();
        State::of_sizes(words, references, imports, ledger.charge(bytes as u64)?)
    }

    fn of_sizes(words: usize, references: usize, imports: usize, charge: Charge) -> Result<State> {
        Ok(State {
            words: array::filled_with(words, || AtomicU32::new(0))?.into_boxed_slice(),
            references: array::filled_with(references, || Lock::new(Ref::Null))?.into_boxed_slice(),
            imports: array::filled_with(imports, || None)?.into_boxed_slice(),
            charge,
        })
    }

    /// Copies the globals; the imports are not resolved.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where memory or the ledger is used up.
    pub fn fork(&self) -> Result<State> {
        let fork =
            State::of_sizes(self.words.len(), self.references.len(), self.imports.len(), self.charge.duplicate()?)?;
        for (copy, word) in fork.words.iter().zip(&self.words) {
            copy.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (copy, slot) in fork.references.iter().zip(&self.references) {
            *copy.lock() = slot.lock().clone();
        }
        Ok(fork)
    }

    pub fn resolve(&mut self, import: u32, target: BoundFunction) -> Result<()> {
        let slot = self.imports.get_mut(import as usize);
        *slot.ok_or_else(|| Error::out_of_range(alloc::format!("no import {import}")))? = Some(target);
        Ok(())
    }

    #[inline]
    pub fn import(&self, ordinal: u32) -> Option<&BoundFunction> {
        self.imports.get(ordinal as usize).and_then(Option::as_ref)
    }

    #[inline]
    pub fn reference(&self, ordinal: u32) -> Result<&Lock<Ref>> {
        self.references.get(ordinal as usize).ok_or_else(|| {
            Error::out_of_range(alloc::format!("reference global {ordinal} of {}", self.references.len()))
        })
    }

    /// Two words that a value at `offset` bytes touches, and the shift in bits of its start.
    #[inline]
    fn word(&self, offset: u32, index: u32) -> Result<&AtomicU32> {
        self.words.get((offset / 4 + index) as usize).ok_or_else(|| self.out_of_range(offset))
    }

    #[cold]
    fn out_of_range(&self, offset: u32) -> Error {
        Error::out_of_range(alloc::format!("global at byte {offset} of {} bytes", self.words.len() * 4))
    }

    /// Loads a 32-bit global.
    #[inline]
    pub fn load32(&self, offset: u32) -> Result<u32> {
        if !offset.is_multiple_of(4) {
            return Err(misaligned(offset));
        }
        Ok(self.word(offset, 0)?.load(Ordering::Relaxed))
    }

    /// Loads a 64-bit global.
    #[inline]
    pub fn load64(&self, offset: u32) -> Result<u64> {
        if !offset.is_multiple_of(4) {
            return Err(misaligned(offset));
        }
        let high = self.word(offset, 1)?.load(Ordering::Relaxed);
        Ok(u64::from(self.word(offset, 0)?.load(Ordering::Relaxed)) | u64::from(high) << 32)
    }

    /// Stores a 32-bit global.
    #[inline]
    pub fn store32(&self, offset: u32, value: u32) -> Result<()> {
        if !offset.is_multiple_of(4) {
            return Err(misaligned(offset));
        }
        self.word(offset, 0)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Stores a 64-bit global.
    #[inline]
    pub fn store64(&self, offset: u32, value: u64) -> Result<()> {
        if !offset.is_multiple_of(4) {
            return Err(misaligned(offset));
        }
        let high = self.word(offset, 1)?;
        self.word(offset, 0)?.store(value as u32, Ordering::Relaxed);
        high.store((value >> 32) as u32, Ordering::Relaxed);
        Ok(())
    }
}

#[cold]
fn misaligned(offset: u32) -> Error {
    Error::invalid_argument(alloc::format!("global at byte {offset}, which is not a multiple of 4"))
}
