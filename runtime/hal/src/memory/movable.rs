//! Memory whose address may change while it is not pinned.
//!
//! - *Borrowed memory* is external memory that is only read. A write copies it to memory of the pool first. Memory that is borrowed
//!   for a call is copied at the end of the call, too, if a program has kept it; then the end of the call waits for the pins.
//!   Readers and the copy do not wait for each other.
//! - *Exchangeable memory* is memory of the pool that may take another block, which holds the same bytes: what
//!   [copy elision](crate::commands::elision) does to the target of a copy. It may have no block before its first pin, so that a
//!   program that runs ahead of a queue takes memory in the order in which the queue needs it.
//!
//! Both become fixed once a program gets a byte buffer of them.

use alloc::format;
use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "std")]
use core::ops::Range;

use super::address::BindingPointer;
use super::pin::{Pin, Pinnable};
use super::pool::Pool;
use super::storage::Storage;
use crate::vm::Ledger;
use crate::{Error, Result};

/// What a pin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The bytes are read.
    Read,
    /// The bytes are read and written.
    Write,
    /// The bytes are accessed by a kernel that does not declare what it writes. A program may promise for all of them that
    /// they only read borrowed memory.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    Kernel,
}

/// Keeps memory where it is until it is dropped.
#[derive(Debug)]
pub struct PinGuard<'a> {
    address: BindingPointer,
    /// `None` if the address never changes.
    pin: Option<Pin<'a, Storage>>,
}

impl PinGuard<'_> {
    /// Returns a guard of memory whose address never changes.
    #[inline(always)]
    pub(super) fn fixed(address: BindingPointer) -> Self {
        PinGuard { address, pin: None }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    #[must_use]
    pub fn address(&self) -> BindingPointer {
        self.address
    }

    /// Returns true if the address is valid for as long as the memory lives.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    #[inline(always)]
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.pin.is_none()
    }

    /// Returns true if the memory is borrowed, so that it must not be written.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for devices"))]
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.pin.as_ref().is_some_and(Pin::is_empty)
    }

    /// Adds an offset to the address.
    pub(super) fn at_offset(mut self, offset: usize) -> Self {
        self.address = BindingPointer(self.address.0.wrapping_add(offset));
        self
    }
}

/// External memory that is only read.
pub(super) struct Borrowed {
    /// Is kept by an owner; or else by the caller of [`Movable::end_borrow`], until that returns.
    pub(super) memory: Storage,
    /// The program promises that no kernel writes to it.
    pub(super) is_only_read: bool,
}

/// Memory whose address may change.
pub(super) struct Movable {
    memory: Pinnable<Storage>,
    length: usize,
    borrowed: Option<Borrowed>,
    pool: Arc<Pool>,
}

impl Movable {
    /// Borrows memory; copies of it come from the pool.
    pub(super) fn borrow(borrowed: Borrowed, pool: Arc<Pool>) -> Movable {
        Movable { memory: Pinnable::empty(), length: borrowed.memory.length(), borrowed: Some(borrowed), pool }
    }

    /// Makes a block of the pool exchangeable.
    #[cfg(feature = "std")]
    pub(super) fn exchangeable(memory: Storage, pool: Arc<Pool>) -> Movable {
        let length = memory.length();
        Movable { memory: Pinnable::owned(memory), length, borrowed: None, pool }
    }

    /// Stands for `length` bytes of the pool, which become a block at the first pin.
    #[cfg(feature = "std")]
    pub(super) fn reserved(length: usize, pool: Arc<Pool>) -> Movable {
        Movable { memory: Pinnable::empty(), length, borrowed: None, pool }
    }

    /// Returns the length in bytes, which never changes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Pins the memory for an access. Borrowed memory that may be written is copied first, and reserved memory allocated.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no memory, FAILED_PRECONDITION if the bytes are gone.
    pub(super) fn pin(&self, access: Access) -> Result<PinGuard<'_>> {
        let copies = |borrowed: &Borrowed| match access {
            Access::Read => false,
            Access::Write => true,
            Access::Kernel => !borrowed.is_only_read,
        };
        if self.borrowed.as_ref().is_some_and(copies) {
            return Ok(PinGuard::fixed(self.fix()?.base()));
        }
        let mut pin = self.memory.pin();
        if pin.is_empty() && self.borrowed.is_none() {
            self.memory.fill(|| self.allocate())?;
            pin = self.memory.pin();
        }
        let borrowed = self.borrowed.as_ref().filter(|_| pin.is_empty());
        let memory = pin.value().or_else(|| borrowed.map(|borrowed| &borrowed.memory));
        let address = memory.ok_or_else(|| self.gone())?.base();
        Ok(PinGuard { address, pin: Some(pin).filter(|pin| !pin.is_fixed()) })
    }

    /// Returns memory that never moves again. Borrowed memory is copied first, and reserved memory allocated.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no memory, FAILED_PRECONDITION if the bytes are gone.
    pub(super) fn fix(&self) -> Result<&Storage> {
        self.memory.fix(|| self.own().map(Some))?.ok_or_else(|| self.gone())
    }

    /// Allocates memory for an empty cell: a copy of borrowed memory.
    fn own(&self) -> Result<Storage> {
        let owned = self.allocate()?;
        if let Some(Borrowed { memory, .. }) = &self.borrowed {
            owned.copy(0, memory, 0, self.length)?;
        }
        Ok(owned)
    }

    fn allocate(&self) -> Result<Storage> {
        // The host chose the length of borrowed memory; memory is reserved for programs without limits alone.
        Storage::allocate(&self.pool, self.length as u64, Ledger::HOST)
    }

    #[cold]
    fn gone(&self) -> Error {
        Error::failed_precondition(format!(
            "the {} bytes that a call borrowed are gone: at its end there was no memory for a copy",
            self.length
        ))
    }

    /// Ends the borrow: copies the memory unless that was done, and waits for all pins of the borrowed memory. Without memory
    /// for a copy, the bytes are gone and later accesses fail.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "sessions borrow memory for calls"))]
    pub(super) fn end_borrow(&self) {
        // The closure returns no error.
        let _ = self.memory.fix(|| Ok(self.own().ok()));
        self.memory.wait_for_pins();
    }

    /// Takes over `memory`, which keeps its bytes in `range`; all others are copied to it, where this memory was pinned before.
    /// Returns false if this memory is pinned, borrowed or fixed.
    #[cfg(feature = "std")]
    pub(super) fn take_over(&self, memory: Storage, range: Range<usize>) -> bool {
        // Every access relies on the length.
        if memory.length() != self.length || self.borrowed.is_some() {
            return false;
        }
        let mut memory = Some(memory);
        let gone = || Error::internal("memory was taken over before");
        if self.memory.fill(|| memory.take().ok_or_else(gone)).is_ok() && memory.is_none() {
            return true;
        }
        self.memory.try_exchange(|previous| {
            let memory = memory.take().ok_or_else(gone)?;
            memory.copy(0, previous, 0, range.start)?;
            memory.copy(range.end, previous, range.end, self.length.saturating_sub(range.end))?;
            Ok(memory)
        })
    }

    /// Calls `read` with the memory of the pool, if it is there.
    #[cfg(feature = "std")]
    pub(super) fn with_memory<R>(&self, read: impl FnOnce(&Storage) -> Option<R>) -> Option<R> {
        read(self.memory.pin().value()?)
    }

    /// Returns the memory of the pool to the only holder, if it is there.
    pub(super) fn get_mut(&mut self) -> Option<&mut Storage> {
        self.memory.get_mut()
    }
}

impl fmt::Debug for Movable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.borrowed.is_some() { "borrowed" } else { "exchangeable" })
    }
}
