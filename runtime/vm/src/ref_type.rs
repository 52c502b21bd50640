//! The types of references.

use alloc::collections::BTreeSet;

use super::sync::Lock;
use crate::{Error, Result};

/// The type of a referenced object: its name as modules spell it, without the leading `!`, such as `hal.buffer`.
#[derive(Clone, Copy, Debug)]
pub struct RefType {
    name: &'static str,
}

impl RefType {
    /// The type of VM buffers.
    pub(crate) const BUFFER: RefType = RefType::new("vm.buffer");
    /// The type of VM lists.
    pub(crate) const LIST: RefType = RefType::new("vm.list");

    /// A type of the given name; two with the same name are the same type.
    #[must_use]
    pub const fn new(name: &'static str) -> RefType {
        RefType { name }
    }

    /// The name, such as `hal.buffer`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Names that modules brought and that are not among the program's own static ones.
static INTERNED: Lock<BTreeSet<&'static str>> = Lock::new(BTreeSet::new());

/// Names that a process interns at most: a bound for what modules of unknown origin can make it keep.
const INTERNED_LIMIT: usize = 1 << 16;

impl RefType {
    /// The type of a name that is not static. The name is kept for the rest of the process.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where 65536 names have been kept.
    pub fn intern(name: &str) -> Result<RefType> {
        for known in [RefType::BUFFER, RefType::LIST] {
            if known.name == name {
                return Ok(known);
            }
        }
        let mut interned = INTERNED.lock();
        if let Some(name) = interned.get(name) {
            return Ok(RefType { name });
        }
        if interned.len() >= INTERNED_LIMIT {
            return Err(Error::resource_exhausted(alloc::format!("more than {INTERNED_LIMIT} names of types")));
        }
        let name: &'static str = alloc::boxed::Box::leak(name.into());
        interned.insert(name);
        Ok(RefType { name })
    }
}

impl PartialEq for RefType {
    #[inline]
    fn eq(&self, other: &RefType) -> bool {
        // The names of one type are nearly always the same static string.
        core::ptr::eq(self.name, other.name) || self.name == other.name
    }
}

impl Eq for RefType {}
