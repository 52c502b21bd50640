//! The storage that an invocation works in: registers, suspended calls, limits.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use super::budget::MemoryBudget;
use super::call::CallBuffer;
use super::failure;
use super::interpreter::frames::FrameStore;
use crate::{Error, Result};

/// What a program may use up. The defaults trust the program with the machine; see [`Limits::portable`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls that may be open at once.
    pub call_depth: usize,
    /// Bytes of registers that all open calls together may have.
    pub stack_bytes: usize,
    /// Bytes that guest buffers and lists may hold, in all calls of a context.
    pub memory: MemoryBudget,
    /// Branches and calls that one invocation may make; none is unlimited. Instructions that fill, copy, compare, hash or
    /// obtain memory count as one for each 64 bytes.
    pub fuel: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { call_depth: 1 << 14, stack_bytes: 16 << 20, memory: MemoryBudget::new(u64::MAX / 2), fuel: None }
    }
}

impl Limits {
    /// Limits for a module of unknown origin: 1 GiB of memory, 2^30 branches and calls.
    #[must_use]
    pub fn portable() -> Limits {
        Limits { memory: MemoryBudget::new(1 << 30), fuel: Some(1 << 30), ..Limits::default() }
    }
}

/// What a suspended invocation waits for.
pub trait WaitSource: Send + Sync + fmt::Debug {
    /// True where the wait is over; else wakes the waker when it is.
    fn poll_ready(&self, waker: &Waker) -> bool;

    /// Blocks until the wait is over, or the time has passed.
    fn block(&self, timeout: Option<Duration>);
}

/// The storage of one invocation at a time; reused, so that a warm call allocates nothing.
#[derive(Debug)]
pub struct Stack {
    pub(super) frames: FrameStore,
    /// What suspended calls need to go on: innermost first, so that the outermost takes its part first.
    suspended: Vec<Box<dyn Any + Send>>,
    wait: Option<Arc<dyn WaitSource>>,
    #[expect(clippy::vec_box, reason = "moving a box reads none of the fields, which were just written")]
    buffers: Vec<Box<CallBuffer>>,
    /// Module calls that are nested on the host's own stack.
    nesting: usize,
    /// Calls of translated functions that may call themselves.
    descents: usize,
    /// Address of the host's stack at the outermost of them.
    host_base: usize,
    pub(super) fuel: u64,
    limits: Limits,
}

/// Bytes that one instruction may fill, copy, compare, hash or obtain for the price of a branch.
pub(super) const BYTES_PER_FUEL: u64 = 64;
/// Elements that native functions may work on for the price of a branch.
const ELEMENTS_PER_FUEL: u64 = 64;
/// What an element of a list counts as, in bytes.
pub(super) const LIST_ELEMENT_BYTES: u64 = 16;

/// Module calls that may nest on the host's stack; calls within one module do not nest there.
const MAX_NESTING: usize = 128;

/// Bytes of the host's stack that translated functions may use which call themselves: half of what Rust's threads have.
const MAX_HOST_STACK: usize = 1 << 20;

impl Stack {
    /// An empty stack.
    #[must_use]
    pub fn new(limits: Limits) -> Stack {
        Stack {
            frames: FrameStore::new(limits.call_depth, limits.stack_bytes),
            suspended: Vec::new(),
            wait: None,
            buffers: Vec::new(),
            nesting: 0,
            descents: 0,
            host_base: 0,
            fuel: limits.fuel.unwrap_or(u64::MAX),
            limits,
        }
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Leaves what a call needs to go on after it yields; its resumption takes it with [`Stack::take_suspended`].
    pub fn suspend(&mut self, state: Box<dyn Any + Send>) {
        self.suspended.push(state);
    }

    /// Takes what the call that is resumed had left.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where it left nothing of the type.
    pub fn take_suspended<T: Any>(&mut self) -> Result<Box<T>> {
        self.suspended
            .pop()
            .and_then(|state| state.downcast().ok())
            .ok_or_else(|| Error::failed_precondition("the call that is resumed was not suspended"))
    }

    /// True where a call is suspended on this stack.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        !self.suspended.is_empty()
    }

    /// Says what a call that yields waits for; without it, it can be resumed at once.
    pub fn wait_for(&mut self, source: Arc<dyn WaitSource>) {
        self.wait = Some(source);
    }

    /// Takes what the suspended call waits for.
    pub fn take_wait(&mut self) -> Option<Arc<dyn WaitSource>> {
        self.wait.take()
    }

    /// Fills the fuel up, for the next call.
    #[inline]
    pub(super) fn refuel(&mut self) {
        self.fuel = self.limits.fuel.unwrap_or(u64::MAX);
    }

    /// Counts an iteration of a loop or a call of translated code against the fuel.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where it is used up.
    #[inline]
    pub fn spend_fuel(&mut self) -> Result<()> {
        if self.fuel <= 1 {
            return Err(failure::out_of_fuel());
        }
        self.fuel -= 1;
        Ok(())
    }

    /// Counts what an instruction of translated code does to many bytes, or would do if it did not fail. Where the fuel does
    /// not last, the next iteration or call fails.
    #[inline]
    pub fn count_bytes(&mut self, bytes: u64) {
        self.fuel = self.fuel.saturating_sub(bytes / BYTES_PER_FUEL).max(1);
    }

    /// As [`Stack::count_bytes`], for elements of lists.
    #[inline]
    pub fn count_list_elements(&mut self, elements: u64) {
        self.count_bytes(elements.saturating_mul(LIST_ELEMENT_BYTES));
    }

    /// Counts the elements that a native function is going to work on, the product of some sizes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the fuel does not last: then the function must not begin, as nothing ends it before its time.
    #[inline]
    pub fn count_elements(&mut self, sizes: &[u64]) -> Result<()> {
        let elements = sizes.iter().fold(1u64, |product, size| product.saturating_mul(*size));
        let spent = elements / ELEMENTS_PER_FUEL;
        if spent >= self.fuel {
            return Err(failure::out_of_fuel());
        }
        self.fuel -= spent;
        Ok(())
    }

    /// Fills the fuel up for a kernel's next workgroup.
    #[inline]
    pub fn begin_workgroup(&mut self) {
        self.refuel();
    }

    /// Forgets suspended calls and open frames, and fills the fuel up.
    pub(super) fn reset(&mut self) {
        self.suspended.clear();
        self.wait = None;
        self.frames.reset();
        self.nesting = 0;
        self.descents = 0;
        self.refuel();
    }

    /// Enters a translated function that may call itself; `address` is one of its frame.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED at one of the limits.
    #[inline]
    #[doc(hidden)]
    pub fn descend(&mut self, address: usize) -> Result<()> {
        if self.descents == 0 {
            self.host_base = address;
        } else if self.descents > self.limits.call_depth {
            return Err(failure::too_deep(self.limits.call_depth));
        } else if self.host_base.abs_diff(address) > MAX_HOST_STACK {
            return Err(failure::stack_exhausted(MAX_HOST_STACK));
        }
        self.descents += 1;
        Ok(())
    }

    /// Leaves it.
    #[inline]
    #[doc(hidden)]
    pub fn ascend(&mut self) {
        self.descents = self.descents.saturating_sub(1);
    }

    /// Enters a call that nests on the host's stack.
    #[inline]
    #[doc(hidden)]
    pub fn enter(&mut self) -> Result<()> {
        if self.nesting >= MAX_NESTING {
            return Err(Error::resource_exhausted(alloc::format!("more than {MAX_NESTING} nested module calls")));
        }
        self.nesting += 1;
        Ok(())
    }

    /// Leaves a call that nests on the host's stack.
    #[inline]
    #[doc(hidden)]
    pub fn leave(&mut self) {
        self.nesting = self.nesting.saturating_sub(1);
    }

    /// An empty call buffer, reused where one was given back.
    #[inline]
    pub fn take_buffer(&mut self) -> Box<CallBuffer> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Returns a call buffer for reuse.
    #[inline]
    pub fn give_buffer(&mut self, mut buffer: Box<CallBuffer>) {
        buffer.clear();
        self.buffers.push(buffer);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::StatusCode;

    #[test]
    fn fuel_is_spent_and_filled_up() {
        let mut stack = Stack::new(Limits { fuel: Some(10), ..Limits::default() });
        (0..4).for_each(|_| stack.spend_fuel().unwrap());
        stack.count_elements(&[4, 64]).unwrap();
        assert_eq!(stack.count_elements(&[64, 2]).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(stack.count_elements(&[u64::MAX, u64::MAX]).unwrap_err().code(), StatusCode::ResourceExhausted);
        stack.spend_fuel().unwrap();
        assert_eq!(stack.spend_fuel().unwrap_err().code(), StatusCode::ResourceExhausted);
        stack.begin_workgroup();
        stack.count_bytes(u64::MAX);
        assert_eq!(stack.spend_fuel().unwrap_err().code(), StatusCode::ResourceExhausted);
        let mut unlimited = Stack::new(Limits::default());
        unlimited.count_elements(&[u64::MAX, u64::MAX]).unwrap();
        unlimited.spend_fuel().unwrap();
    }
}
