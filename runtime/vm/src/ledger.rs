//! The memory and the objects that programs may hold: what passes a bound is an error, and not the end of the process.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::sync::atomic::Ordering;

use super::sync::{AtomicU64, Lock};
use crate::{Error, Result};

/// Counts the bytes and the objects that programs hold against limits. Clones share the counts, so that several sessions
/// can share one ledger: the bounds are then those of all of them together.
///
/// Whatever a program can create is charged before it is created: VM buffers and lists, device memory, command buffers,
/// fences and other objects of a device. The [`Charge`] is returned when the object is dropped.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    bounds: Option<Arc<Bounds>>,
    /// What the program of a context has created; `None` for a ledger that is not a context's.
    remembered: Option<Arc<Lock<Remembered>>>,
}

#[derive(Debug)]
struct Bounds {
    /// Each charge has a reference: there are as many objects as references other than this one.
    account: Arc<Account>,
}

/// Objects of one kind that may refer to each other in cycles.
#[derive(Default)]
struct Remembered {
    objects: Vec<Weak<dyn Any + Send + Sync>>,
    /// Set with the first object. The pointer is the only reference to the code that breaks cycles, so that the linker drops it from
    /// programs that create no such objects.
    break_cycles: Option<BreakCycles>,
}

/// Breaks the cycles of objects.
pub(crate) type BreakCycles = fn(Vec<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remembered({})", self.objects.len())
    }
}

/// The bytes in use.
#[derive(Debug)]
struct Account {
    used: AtomicU64,
    limit: u64,
    /// The most objects.
    objects: u64,
}

/// The number of charges of an account.
fn objects(account: &Arc<Account>) -> u64 {
    (Arc::strong_count(account) - 1) as u64
}

impl Account {
    fn add(&self, bytes: u64) -> Result<()> {
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(used) => Err(exhausted(bytes, used, self.limit, "bytes")),
        }
    }

    fn subtract(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cold]
fn exhausted(amount: u64, used: u64, limit: u64, unit: &str) -> Error {
    Error::resource_exhausted(alloc::format!("{amount} more {unit} exceed the limit of {limit}; {used} are in use"))
}

impl Ledger {
    /// The ledger of host programs, without limits.
    pub const HOST: &'static Ledger = &Ledger { bounds: None, remembered: None };

    /// A ledger without limits, which counts nothing.
    #[must_use]
    pub const fn unlimited() -> Ledger {
        Ledger { bounds: None, remembered: None }
    }

    /// A ledger of at most `bytes` bytes and `objects` objects at a time.
    #[must_use]
    pub fn new(bytes: u64, objects: u64) -> Ledger {
        let account = Arc::new(Account { used: AtomicU64::new(0), limit: bytes, objects });
        Ledger { bounds: Some(Arc::new(Bounds { account })), remembered: None }
    }

    /// True if the ledger has limits.
    #[inline]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.bounds.is_some()
    }

    /// Returns the bytes that may be in use at a time; `u64::MAX` without limits.
    #[must_use]
    pub fn byte_limit(&self) -> u64 {
        self.bounds.as_ref().map_or(u64::MAX, |bounds| bounds.account.limit)
    }

    /// Returns the number of bytes in use; 0 without limits.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bounds.as_ref().map_or(0, |bounds| bounds.account.used.load(Ordering::Relaxed))
    }

    /// Returns the number of objects in use; 0 without limits.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.bounds.as_ref().map_or(0, |bounds| objects(&bounds.account))
    }

    /// Returns a ledger with the same counts for a context, which remembers what its program creates.
    pub(crate) fn of_context(&self) -> Ledger {
        let remembered = self.bounds.is_some().then(Arc::default);
        Ledger { bounds: self.bounds.clone(), remembered }
    }

    /// Remembers an object that may refer to others of its kind, for as long as it lives, and what breaks their cycles.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no memory.
    pub(crate) fn remember(
        &self,
        object: impl FnOnce() -> Weak<dyn Any + Send + Sync>,
        break_cycles: BreakCycles,
    ) -> Result<()> {
        let Some(remembered) = &self.remembered else { return Ok(()) };
        let mut remembered = remembered.lock();
        let known = *remembered.break_cycles.get_or_insert(break_cycles);
        debug_assert!(core::ptr::fn_addr_eq(known, break_cycles), "objects of two kinds");
        let objects = &mut remembered.objects;
        if objects.len() == objects.capacity() {
            objects.retain(|object| object.strong_count() > 0);
            // At least half are free then, so that the next search for dead ones is far.
            let more = objects.len().max(16);
            objects.try_reserve(more).map_err(|_| Error::resource_exhausted("no memory to remember an object"))?;
        }
        objects.push(object());
        Ok(())
    }

    /// Breaks the cycles of the remembered objects, and forgets them.
    pub(crate) fn break_cycles(&self) {
        let Some(remembered) = &self.remembered else { return };
        let Remembered { objects, break_cycles } = core::mem::take(&mut *remembered.lock());
        if let Some(break_cycles) = break_cycles {
            break_cycles(objects.iter().filter_map(Weak::upgrade).collect());
        }
    }

    /// Charges one object that holds `bytes` bytes, before it is created.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if a limit would be exceeded.
    #[inline]
    pub fn charge(&self, bytes: u64) -> Result<Charge> {
        match &self.bounds {
            None => Ok(Charge::none()),
            Some(bounds) => charge(&bounds.account, bytes),
        }
    }
}

fn charge(account: &Arc<Account>, bytes: u64) -> Result<Charge> {
    // The reference is the object's, before it is counted: threads that pass the limit together all see that.
    let mut charge = Charge { account: Some(Arc::clone(account)), bytes: 0 };
    let objects = objects(account);
    if objects > account.objects {
        return Err(exhausted(1, objects - 1, account.objects, "objects"));
    }
    charge.grow(bytes)?;
    Ok(charge)
}

/// What one object takes from a [`Ledger`]; returned when dropped.
#[derive(Debug, Default)]
pub struct Charge {
    account: Option<Arc<Account>>,
    bytes: u64,
}

/// A charge that several objects share; the last of them returns it.
pub type SharedCharge = Option<Arc<Charge>>;

impl Charge {
    /// The charge of an object that no ledger counts, such as one of the host program.
    #[inline]
    #[must_use]
    pub const fn none() -> Charge {
        Charge { account: None, bytes: 0 }
    }

    /// Charges another object of as many bytes to the same ledger.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if a limit would be exceeded.
    pub(crate) fn duplicate(&self) -> Result<Charge> {
        self.account.as_ref().map_or(Ok(Charge::none()), |account| charge(account, self.bytes))
    }

    /// True if no ledger counts the object.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.account.is_none()
    }

    /// Shares the charge of objects that are created together, which the last of them returns. None needs no memory.
    #[inline]
    #[must_use]
    pub fn share(self) -> SharedCharge {
        if self.is_none() { None } else { Some(Arc::new(self)) }
    }

    /// Charges more bytes of the object, before it grows.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the limit would be exceeded.
    #[inline]
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        if let Some(account) = self.account.as_ref().filter(|_| bytes > 0) {
            account.add(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Returns bytes that the object no longer holds; at most as many as it was charged.
    #[inline]
    pub fn shrink(&mut self, bytes: u64) {
        if let Some(account) = &self.account {
            let bytes = bytes.min(self.bytes);
            account.subtract(bytes);
            self.bytes -= bytes;
        }
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        if let Some(account) = self.account.as_ref().filter(|_| self.bytes > 0) {
            account.subtract(self.bytes);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn clones_share_the_counts_and_charges_return_them() {
        let ledger = Ledger::new(100, 2);
        let tenant = ledger.clone();
        let mut first = ledger.charge(60).unwrap();
        assert_eq!(tenant.charge(60).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!((ledger.bytes(), ledger.objects()), (60, 1));
        let second = tenant.charge(30).unwrap();
        assert_eq!(ledger.charge(0).unwrap_err().message(), "1 more objects exceed the limit of 2; 2 are in use");
        assert!(first.grow(11).is_err());
        first.grow(10).unwrap();
        first.shrink(50);
        first.shrink(u64::MAX);
        assert_eq!(ledger.bytes(), 30);
        drop((first, second));
        assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
        assert!(ledger.charge(u64::MAX).is_err());
    }

    #[test]
    fn an_unlimited_ledger_counts_nothing() {
        let ledger = Ledger::unlimited();
        let _charge = ledger.charge(u64::MAX).unwrap();
        assert_eq!((ledger.bytes(), ledger.objects(), ledger.is_limited()), (0, 0, false));
    }
}
