//! The state of a bytecode module in a context, interpreted or translated: globals and resolved imports.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

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
}

impl ModuleState for State {}

impl State {
    /// Globals that are zero and null, imports that are not resolved.
    pub fn new(global_bytes: u32, references: u32, imports: u32) -> State {
        State {
            words: (0..global_bytes.div_ceil(4)).map(|_| AtomicU32::new(0)).collect(),
            references: (0..references).map(|_| Lock::new(Ref::Null)).collect(),
            imports: (0..imports).map(|_| None).collect(),
        }
    }

    /// The same globals, with imports that are not resolved.
    pub fn fork(&self) -> State {
        State {
            words: self.words.iter().map(|word| AtomicU32::new(word.load(Ordering::Relaxed))).collect(),
            references: self.references.iter().map(|slot| Lock::new(slot.lock().clone())).collect(),
            imports: self.imports.iter().map(|_| None).collect(),
        }
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
