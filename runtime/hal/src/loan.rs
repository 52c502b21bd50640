//! Loans: buffers over memory of a caller, for the length of a call and in place.
//!
//! A program may keep what it is called with: in a global, a list, a command buffer, an operation that still runs when the
//! call has failed. So what a buffer holds is not the caller's address but a [`Loan`], which can be *moved* to memory of its
//! own at any time. Whoever looks at the bytes takes a [`Lease`], for a copy or for some workgroups and never while it waits
//! for something. A lease on a loan that was moved is one on its copy; else the loan counts it. Lent memory is only ever
//! read: whoever might write moves the loan first. So a lease on lent memory and one on the copy may coexist, and the copy
//! can be made while the bytes are read.
//!
//! [`Loans`] ends those of a call. A loan of whose buffer nobody else has a share is over. Any other one is moved, and the
//! leases on lent memory are waited for, which takes as long as the workgroups that run; from then on nobody knows the
//! caller's address. Where there is no memory for a copy, the bytes are gone and accesses fail.
//!
//! Memory of an owner, of which the loan has a share, is lent for as long as the loan lives: it is moved if it is written to,
//! and never ended.
//!
//! # Why no lease is missed
//!
//! A lease is counted before it is looked whether the loan was moved, and a loan is moved before the leases are counted, all
//! by read-modify-writes of one counter. Their order is that of the counter: a lease that comes before the look at the counter
//! is seen by it, and waited for; one that comes after it sees what was done before it, which is that the loan was moved.
#![allow(unsafe_code, reason = "memory that callers lend; see above")]
#![cfg_attr(not(feature = "std"), allow(dead_code, reason = "what lends memory is a session"))]

#[cfg(all(test, loom))]
mod model;

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::allocator::Allocator;
use super::buffer::Buffer;
use super::memory::BufferParameters;
use super::pool::{MINIMUM_ALIGNMENT, Pool};
use super::storage::Storage;
use crate::atomic::{AtomicUsize, Ordering};
use crate::vm::Once;
use crate::{Error, Result};

/// A program's promise that the machine code of its modules only reads what functions are called with, so that slices can be
/// lent to it in place.
///
/// Machine code does not say which of its bindings it writes, and the compiler makes programs that update arguments in place
/// unless something else needs them afterwards: those that sort, scatter or insert into an argument, or accumulate on one.
/// The names of arguments, their attributes and the program's instructions do not tell them from others. What does is the
/// compiler's output of `iree-compile --compile-to=stream`: a promise can be given where no argument of an exported function
/// is bound as `rw` or `wo`, and no command fills or copies to one.
#[derive(Clone, Copy, Debug)]
pub struct InputsOnlyRead(());

impl InputsOnlyRead {
    /// Gives the promise.
    ///
    /// # Safety
    /// No kernel of machine code that the session runs writes to a buffer that is an argument of an exported function, or to
    /// a part of one, but to those that the function's declaration marks by `iree.abi.output`.
    #[must_use]
    pub const unsafe fn promise() -> InputsOnlyRead {
        InputsOnlyRead(())
    }
}

/// Counts those who use memory that is about to be taken from them.
#[derive(Debug, Default)]
struct Users(AtomicUsize);

impl Users {
    /// Counts a user, unless the memory has been given up; false then.
    fn enter(&self, is_given_up: impl FnOnce() -> bool) -> bool {
        self.0.fetch_add(1, Ordering::AcqRel);
        if is_given_up() {
            self.leave();
            return false;
        }
        true
    }

    /// Counts a user who entered as one that is done.
    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Waits for all who entered. What makes `is_given_up` true must have been done before, so that nobody enters any more.
    fn wait(&self) {
        // This first look has a place in the order of all users, see above; those that follow only wait for these to leave.
        let mut users = self.0.fetch_add(0, Ordering::AcqRel);
        let mut looks = 0;
        while users != 0 {
            looks += 1;
            pause(looks);
            users = self.0.load(Ordering::Acquire);
        }
    }
}

/// Lets others run, the longer the more often it has been looked for them.
pub(super) fn pause(looks: u32) {
    #[cfg(all(feature = "std", not(loom)))]
    match looks {
        ..100 => core::hint::spin_loop(),
        // Who is waited for may be waiting for this core.
        100..200 => std::thread::yield_now(),
        // A kernel that takes long.
        _ => std::thread::sleep(core::time::Duration::from_micros(50)),
    }
    #[cfg(not(feature = "std"))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
    let _ = looks;
}

/// Memory of a caller, until it is moved.
pub(super) struct Loan {
    lent: NonNull<u8>,
    length: usize,
    is_only_read: bool,
    users: Users,
    /// Keeps the lent memory where it is, if there is one; else [`Loans`] ends the loan before the caller goes on.
    #[expect(dead_code, reason = "keeps the bytes alive")]
    owner: Option<Arc<dyn Any + Send + Sync>>,
    /// Memory of its own, since it was moved; None where there was none to be had.
    own: Once<Option<Storage>>,
    pool: Arc<Pool>,
}

// SAFETY: the lent memory is a shared slice of bytes, which any thread may read; all else is Send and Sync.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

/// The right to read a loan's bytes, at an address that holds until this is dropped.
#[derive(Debug)]
pub struct Lease<'a> {
    /// Who counts it, where it is one on the caller's memory.
    users: Option<&'a Users>,
    address: *mut u8,
}

impl Lease<'_> {
    /// Where the bytes are. They may be read until the lease is dropped, and never be written.
    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }

    /// True where the bytes are the caller's; those of a copy stay as long as the loan.
    pub(super) fn is_of_caller(&self) -> bool {
        self.users.is_some()
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(users) = self.users {
            users.leave();
        }
    }
}

impl Loan {
    /// Of the bytes of an owner, of which it keeps a share.
    pub(super) fn of_owner<T: AsRef<[u8]> + Send + Sync + 'static>(owner: Arc<T>, pool: Arc<Pool>) -> Loan {
        let bytes: &[u8] = (*owner).as_ref();
        // The owner is behind an `Arc` of which the loan holds a share, so it is neither moved nor mutably borrowed while the
        // loan lives, and a slice that a shared borrow of it gave stays valid for as long as one is possible.
        let (lent, length) = (NonNull::from(bytes).cast(), bytes.len());
        let (users, own) = (Users::default(), Once::default());
        Loan { lent, length, is_only_read: false, users, owner: Some(owner), own, pool }
    }

    /// Where the caller's memory is, or was: what buffers are told apart by, and nothing to follow.
    pub(super) fn lent_address(&self) -> NonNull<u8> {
        self.lent
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// No kernel writes to it, by the word of the program that lends it.
    pub(super) fn is_only_read(&self) -> bool {
        self.is_only_read
    }

    /// The right to read the bytes.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where they are gone.
    pub(super) fn lease(&self) -> Result<Lease<'_>> {
        if self.own.get().is_none() && self.users.enter(|| self.own.get().is_some()) {
            return Ok(Lease { users: Some(&self.users), address: self.lent.as_ptr() });
        }
        Ok(Lease { users: None, address: self.own_address()? })
    }

    fn own_address(&self) -> Result<*mut u8> {
        match self.own.get() {
            Some(Some(own)) => Ok(own.address().0),
            _ => Err(gone(self.length)),
        }
    }

    /// The memory of its own, to which the loan is moved if it was not.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where there is no memory for a copy; FAILED_PRECONDITION where the bytes are gone.
    pub(super) fn own(&self) -> Result<&Storage> {
        if self.own.get().is_none() {
            // Held until the copy is made: the call may end meanwhile.
            let lease = self.lease()?;
            if lease.is_of_caller() {
                let copy = self.copy()?;
                self.own.get_or_try_init(|| Ok(Some(copy)))?;
            }
        }
        self.own.get().and_then(Option::as_ref).ok_or_else(|| gone(self.length))
    }

    /// The same, to the only one who has a share of the loan: None where it was not moved.
    pub(super) fn own_mut(&mut self) -> Option<&mut Storage> {
        self.own.get_mut()?.as_mut()
    }

    /// A copy of the bytes, made while the caller's memory is there: while it is leased, or by who ends the loan.
    fn copy(&self) -> Result<Storage> {
        let copy = self.pool.allocate(self.length as u64)?;
        // SAFETY: the caller's slice is this long, and is there by what is said above; nobody writes to it.
        copy.write(0, unsafe { core::slice::from_raw_parts(self.lent.as_ptr(), self.length) })?;
        Ok(copy)
    }

    /// Takes the caller's memory from all who may still reach it.
    fn end(&self) {
        if self.own.get().is_none() {
            // Of a copy that another thread makes meanwhile, one stays; nobody has written to either yet.
            let _ = self.own.get_or_try_init(|| Ok(self.copy().ok()));
        }
        self.users.wait();
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan of {} bytes at {:p}", self.length, self.lent)
    }
}

#[cold]
fn gone(length: usize) -> Error {
    Error::failed_precondition(format!(
        "the {length} bytes that a call was lent are gone: when it ended there was no memory to keep them"
    ))
}

/// The loans of a call. They are ended before [`Loans::scope`] returns or unwinds.
pub struct Loans<'env> {
    buffers: Cell<Vec<Arc<Buffer>>>,
    /// Neither shortened nor lengthened: what is lent must outlive the scope, and not only a part of it.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> Loans<'env> {
    /// Calls the closure with an empty set of loans, and ends those that it has made. As they belong to this function, no
    /// caller can forget to.
    #[inline(always)]
    pub fn scope<R>(body: impl FnOnce(&Loans<'env>) -> R) -> R {
        let loans = Loans { buffers: Cell::new(Vec::new()), env: PhantomData };
        body(&loans)
    }

    /// True where bytes can be lent: those that kernels find aligned as they rely on.
    #[inline]
    pub fn can_lend(bytes: &[u8]) -> bool {
        !bytes.is_empty() && bytes.as_ptr().addr().is_multiple_of(MINIMUM_ALIGNMENT)
    }

    /// A buffer over bytes, in place until something might write to them or the scope ends. Without a promise
    /// machine code is taken to write to them.
    ///
    /// # Errors
    /// OUT_OF_RANGE where they are not aligned to [`MINIMUM_ALIGNMENT`] bytes.
    #[inline(never)]
    pub fn lend(
        &self,
        allocator: &Allocator,
        bytes: &'env [u8],
        promise: Option<InputsOnlyRead>,
    ) -> Result<Arc<Buffer>> {
        let loan = Loan {
            lent: NonNull::from(bytes).cast(),
            length: bytes.len(),
            is_only_read: promise.is_some(),
            users: Users::default(),
            owner: None,
            own: Once::default(),
            pool: Arc::clone(allocator.pool()),
        };
        // The borrow lasts as long as `'env`, which outlives the call of `scope` that made this: `Loans` are made there only,
        // and dropped there.
        let buffer = allocator.wrap_aligned(Storage::lent(Arc::new(loan)), BufferParameters::DEVICE)?;
        let mut buffers = self.buffers.take();
        buffers.push(Arc::clone(&buffer));
        self.buffers.set(buffers);
        Ok(buffer)
    }
}

impl Drop for Loans<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let buffers = self.buffers.get_mut();
        if !buffers.is_empty() {
            end_all(buffers);
        }
    }
}

#[inline(never)]
fn end_all(buffers: &mut Vec<Arc<Buffer>>) {
    for mut buffer in buffers.drain(..) {
        // Nobody else has a share of the buffer, and nobody gets one: it is over when it is dropped. A lease is one of a buffer
        // that somebody has a share of.
        if Arc::get_mut(&mut buffer).is_some() {
            continue;
        }
        if let Some(loan) = buffer.storage().ok().and_then(Storage::loan) {
            loan.end();
        }
    }
}

impl fmt::Debug for Loans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loans")
    }
}
