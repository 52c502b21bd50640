//! The budget of the front ends: what they may spend on one module.

use alloc::format;

use crate::{Error, Module, Result};

/// What an analysis of a function may spend, in entries: one element of a set, one step of an iteration. An entry takes at
/// most 64 bytes of memory, in all sets that exist at the same time.
///
/// Some results are the product of two sizes of a function: the values that are alive in its blocks, the arguments of its
/// edges, its dominance frontiers. The budget is linear in the size of the module instead, and always on. Modules of
/// compilers need at most 19 entries for each byte of bytecode, and 6 % of their budget (IREE's suites, 1213 modules).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    limit: u64,
    left: u64,
}

impl Budget {
    /// The entries that a module may spend, however small it is. Each function has a part of them in proportion to its size.
    pub const MODULE_ENTRIES: u64 = 1 << 22;
    /// The further entries for each byte of bytecode.
    pub const ENTRIES_PER_BYTE: u64 = 32;

    /// The budget of a function of a module; that of functions which do not exist is 0.
    #[must_use]
    pub fn of_function(module: &Module, ordinal: u32) -> Budget {
        let own = module.function(ordinal).map_or(0, |function| function.bytecode.len() as u64);
        let all = module.bytecode_length().max(1);
        let part = u128::from(Budget::MODULE_ENTRIES) * u128::from(own) / u128::from(all);
        // A part is at most the whole, which is a 64-bit number.
        Budget::of_entries((part as u64).saturating_add(own.saturating_mul(Budget::ENTRIES_PER_BYTE)))
    }

    /// A budget of a number of entries.
    #[must_use]
    pub const fn of_entries(limit: u64) -> Budget {
        Budget { limit, left: limit }
    }

    /// The number of entries that were spent.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.limit - self.left
    }

    /// Takes entries away; `what` names them in the error.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where there are fewer left.
    #[inline]
    pub fn spend(&mut self, entries: usize, what: &'static str) -> Result<()> {
        match self.left.checked_sub(entries as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exceeded(what)),
        }
    }

    #[cold]
    fn exceeded(&self, what: &'static str) -> Error {
        Error::resource_exhausted(format!(
            "{what} pass the limit of {} entries on the analysis of the function ({} for a module and {} for each byte)",
            self.limit,
            Budget::MODULE_ENTRIES,
            Budget::ENTRIES_PER_BYTE
        ))
    }
}
