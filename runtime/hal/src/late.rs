//! Memory that is obtained when it is first used.
//!
//! What a program allocates for what it is about to compute holds nothing yet. Until somebody touches it, it need not be
//! anywhere, and a copy of all that another buffer holds can hand that buffer's memory over instead
//! ([`moves`](super::moves)). Who wants to do that *claims* the memory first: everybody else who touches it waits until the
//! claim is settled or given up, so that nobody is at a place which it is not going to have.
#![cfg_attr(not(feature = "std"), allow(dead_code, reason = "who claims it is a device"))]

use alloc::sync::Arc;
use core::fmt;

use super::loan::pause;
use super::pool::Pool;
use super::storage::Storage;
use crate::Result;
use crate::atomic::{AtomicUsize, Ordering};
use crate::vm::Once;

/// Memory of a pool, once it is needed.
pub(super) struct Late {
    length: usize,
    pool: Arc<Pool>,
    memory: Once<Storage>,
    /// Who alone may say what the memory is, as a number of the thread; zero is nobody.
    claimed_by: AtomicUsize,
}

impl Late {
    /// Of so many bytes, of which the pool must be able to have any number.
    pub(super) fn new(length: usize, pool: Arc<Pool>) -> Late {
        Late { length, pool, memory: Once::default(), claimed_by: AtomicUsize::new(0) }
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Where more memory like this comes from.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The memory, if there is any yet.
    #[inline]
    pub(super) fn get(&self) -> Option<&Storage> {
        self.memory.get()
    }

    /// The same, to the only holder.
    pub(super) fn get_mut(&mut self) -> Option<&mut Storage> {
        self.memory.get_mut()
    }

    /// The memory. Where another thread has claimed it, it is waited for.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where there is none to be had.
    #[inline]
    pub(super) fn memory(&self) -> Result<&Storage> {
        match self.memory.get() {
            Some(memory) => Ok(memory),
            None => self.obtain(),
        }
    }

    #[cold]
    fn obtain(&self) -> Result<&Storage> {
        let thread = this_thread();
        let mut looks = 0;
        while let Err(owner) = self.claimed_by.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed) {
            // A thread that waited for its own claim would wait for ever.
            if owner == thread {
                return self.memory.get_or_try_init(|| self.pool.allocate(self.length as u64));
            }
            looks += 1;
            pause(looks);
        }
        let memory = match self.memory.get() {
            Some(memory) => Ok(memory),
            None => {
                self.pool.allocate(self.length as u64).and_then(|memory| self.memory.get_or_try_init(|| Ok(memory)))
            }
        };
        self.give_up();
        memory
    }

    /// Makes the calling thread the one that says what the memory is, until it calls [`Late::settle`] or
    /// [`Late::give_up`]; false where there is some already, or another thread is at it.
    pub(super) fn claim(&self) -> bool {
        let is_free =
            || self.claimed_by.compare_exchange(0, this_thread(), Ordering::Acquire, Ordering::Relaxed).is_ok();
        if self.memory.get().is_some() || !is_free() {
            return false;
        }
        // It may have been settled since the first look.
        let claimed = self.memory.get().is_none();
        if !claimed {
            self.give_up();
        }
        claimed
    }

    /// Says what the claimed memory is: a storage that is as long. False where it was touched in spite of the thread's own
    /// claim, which has settled it before.
    pub(super) fn settle(&self, memory: Storage) -> bool {
        debug_assert_eq!(memory.length(), self.length, "memory of another length");
        let is_open = self.memory.get().is_none();
        let _ = self.memory.get_or_try_init(|| Ok(memory));
        self.give_up();
        is_open
    }

    /// Ends the claim.
    pub(super) fn give_up(&self) {
        self.claimed_by.store(0, Ordering::Release);
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.memory.get() {
            Some(memory) => write!(f, "late {memory:?}"),
            None => write!(f, "{} bytes to come", self.length),
        }
    }
}

/// A number of the calling thread that no other living one has.
#[cfg(feature = "std")]
fn this_thread() -> usize {
    std::thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.try_with(|place| core::ptr::from_ref(place).addr()).unwrap_or(1)
}

/// Without threads to tell apart nobody claims memory but to obtain it, which waits for nothing.
#[cfg(not(feature = "std"))]
fn this_thread() -> usize {
    1
}

#[cfg(all(test, feature = "std", not(loom)))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use crate::{Allocator, BufferParameters};

    const LENGTH: u64 = 48 << 10;

    #[test]
    fn who_touches_claimed_memory_waits_until_it_is_settled() {
        let allocator = Allocator::new();
        let untouched = || allocator.allocate_deferred(BufferParameters::DEVICE, LENGTH).unwrap();
        let (next, other) = (untouched(), untouched());
        other.write(0, &(0..LENGTH).map(|index| index as u8).collect::<Vec<u8>>()).unwrap();
        let late = next.late().unwrap();
        assert!(late.claim());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| next.to_vec().unwrap());
            std::thread::sleep(Duration::from_millis(5));
            assert!(!reader.is_finished());
            late.settle(other.storage().unwrap().share_block().unwrap());
            assert_eq!(reader.join().unwrap(), other.to_vec().unwrap());
        });
        assert!(!late.claim());
        // The thread itself does not wait; what it finds stays.
        let own = untouched();
        assert!(own.late().unwrap().claim());
        own.fill(0, LENGTH, 4, 1).unwrap();
        own.late().unwrap().settle(other.storage().unwrap().share_block().unwrap());
        assert_eq!(own.to_vec().unwrap(), alloc::vec![4; LENGTH as usize]);
    }
}
