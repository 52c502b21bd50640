//! The memory that a program may hold, so that a hostile one ends in an error and not in the end of the process.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// Counts the bytes of guest buffers and lists against a limit. Clones share the count.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    used: AtomicU64,
    limit: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget(Arc::new(Counters { used: AtomicU64::new(0), limit }))
    }

    /// Bytes held now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` until the charge is dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the limit would be passed.
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }
}

/// A part of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: MemoryBudget,
    bytes: u64,
}

impl Charge {
    /// Adds to the charge.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        let counters = &self.budget.0;
        let before = counters.used.fetch_add(bytes, Ordering::Relaxed);
        if before.checked_add(bytes).is_none_or(|after| after > counters.limit) {
            counters.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::resource_exhausted(alloc::format!(
                "{bytes} bytes asked for, {before} of the program's {} in use",
                counters.limit
            )));
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
