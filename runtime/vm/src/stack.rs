//! The storage that an invocation works in: registers, suspended calls, limits.

#[cfg(feature = "std")]
use crate::clock::Instant;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use super::call::CallBuffer;
use super::failure;
use super::interpreter::frames::FrameStore;
use super::interpreter::nests::Scratch;
use super::limits::Limits;
use super::list::LIST_ELEMENT_BYTES;
use super::meter::{Fuel, Meter};
use crate::{Error, Result};

/// What a suspended invocation waits for.
pub trait WaitSource: Send + Sync + fmt::Debug {
    /// True where the wait is over; else wakes the waker when it is, but for its [end](WaitSource::end), at which whoever polls has to
    /// poll again.
    fn poll_ready(&self, waker: &Waker) -> bool;

    /// The time from which on [`poll_ready`](WaitSource::poll_ready) is true whatever happens, if there is such a time; it stays the same.
    /// A future that polls has itself woken then, so that only programs with such futures have the code for it.
    #[cfg(feature = "std")]
    fn end(&self) -> Option<Instant> {
        None
    }

    /// Blocks until the wait is over, or the time has passed. `is_alone` tells whether no other call is running that could
    /// end the wait.
    ///
    /// # Errors
    /// ABORTED if the wait cannot end any more.
    fn block(&self, timeout: Option<Duration>, is_alone: &dyn Fn() -> bool) -> Result<()>;
}

/// The storage of one invocation at a time; reused, so that a warm call allocates nothing.
#[derive(Debug)]
pub struct Stack {
    pub(super) frames: FrameStore,
    /// The memory of loop nests; None before the first one, and while one runs.
    pub(super) scratch: Option<Box<Scratch>>,
    /// What suspended calls need to go on: innermost first, so that the outermost takes its part first.
    suspended: Vec<Box<dyn Any + Send>>,
    wait: Option<Arc<dyn WaitSource>>,
    #[expect(clippy::vec_box, reason = "moving a box reads none of the fields, which were just written")]
    buffers: Vec<Box<CallBuffer>>,
    /// See [`Stack::kept`].
    kept: Option<Box<dyn Any + Send>>,
    /// Module calls that are nested on the host's own stack.
    nesting: usize,
    /// Calls of translated functions that may call themselves.
    descents: usize,
    /// Address of the host's stack at the outermost of them.
    host_base: usize,
    /// The fuel of the running call, and its meter; none if its steps and its time are not limited.
    pub(super) fuel: Fuel,
    metering: Metering,
    /// Others may have a share of the meter.
    is_meter_shared: bool,
    limits: Limits,
}

/// Which meter the calls of a stack have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metering {
    /// None.
    Off,
    /// Each call has a new one, by the limits.
    OfCall,
    /// That of another call, see [`Stack::exchange_fuel`].
    Exchanged,
}

/// Bytes that one instruction may fill, copy, compare, hash or obtain for the price of a branch.
pub(super) use incarnate_bytecode::imports::BYTES_PER_STEP as BYTES_PER_FUEL;

/// The most instructions of a loop nest that runs at once, which take a few seconds as vector operations; of a call without limits, the most
/// iterations.
const LONGEST_NEST: u64 = 1 << 32;

/// Module calls that may nest on the host's stack; calls within one module do not nest there.
const MAX_NESTING: usize = 128;

/// Bytes of the host's stack that translated functions may use which call themselves: half of what Rust's threads have.
const MAX_HOST_STACK: usize = 1 << 20;

/// Returns how many calls of translated functions that call themselves may nest. A program of WebAssembly cannot tell how much of the
/// engine's stack its calls use: V8 has about 1 MB, so that there are some 2 kB for each.
const fn most_descents(call_depth: usize) -> usize {
    const OF_WASM: usize = 512;
    if cfg!(target_family = "wasm") && call_depth > OF_WASM { OF_WASM } else { call_depth }
}

impl Stack {
    /// An empty stack.
    #[must_use]
    pub fn new(limits: Limits) -> Stack {
        let mut stack = Stack {
            frames: FrameStore::new(limits.call_depth, limits.stack_bytes),
            scratch: None,
            suspended: Vec::new(),
            wait: None,
            buffers: Vec::new(),
            kept: None,
            nesting: 0,
            descents: 0,
            host_base: 0,
            fuel: Fuel::default(),
            is_meter_shared: false,
            metering: if limits.are_metered() { Metering::OfCall } else { Metering::Off },
            limits,
        };
        stack.begin_call();
        stack
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

    /// Begins a call: starts its meter, if its steps or its time are limited.
    #[inline]
    pub(super) fn begin_call(&mut self) {
        if self.metering == Metering::OfCall {
            self.start_meter();
        }
    }

    #[inline(never)]
    fn start_meter(&mut self) {
        let fuel = self.limits.fuel.unwrap_or(u64::MAX);
        let is_shared = self.is_meter_shared;
        let own = self
            .fuel
            .meter
            .as_mut()
            .and_then(|meter| if is_shared { Arc::get_mut(meter).map(|meter| &*meter) } else { Some(&**meter) });
        let first = match own {
            Some(meter) => meter.restart(fuel),
            None => self.fuel.meter.insert(self.limits.create_meter()).restart(fuel),
        };
        self.fuel.left = first + 1;
        self.is_meter_shared = false;
    }

    /// Exchanges the fuel for that of a thread which works for another call, such as the one that submitted the kernels of this stack:
    /// the next calls count against it. The same exchange ends that.
    pub fn exchange_fuel(&mut self, fuel: &mut Fuel) {
        core::mem::swap(&mut self.fuel, fuel);
        self.metering = match self.metering {
            Metering::Exchanged if self.limits.are_metered() => Metering::OfCall,
            Metering::Exchanged => Metering::Off,
            Metering::Off | Metering::OfCall => Metering::Exchanged,
        };
    }

    /// Returns what a native module keeps from one call to the next, which no other call uses meanwhile: one value, which replaces that of
    /// another type.
    #[inline]
    pub fn kept<T: Any + Send + Default>(&mut self) -> Option<&mut T> {
        if !self.kept.as_ref().is_some_and(|kept| kept.is::<T>()) {
            self.kept = Some(Box::<T>::default());
        }
        self.kept.as_mut()?.downcast_mut()
    }

    /// Returns memory of frames that few calls need, for storage that is kept.
    pub fn trim(&mut self) {
        self.frames.trim();
    }

    /// Returns the meter of the running call; none if its steps and its time are not limited.
    #[inline]
    #[must_use]
    pub fn meter(&self) -> Option<&Meter> {
        self.fuel.meter.as_deref()
    }

    /// Shares the meter of the running call with what it has a device do. The stack keeps its slice.
    #[inline]
    pub fn share_meter(&mut self) {
        self.is_meter_shared = true;
    }

    /// Returns the meter of the running call for the operations that it submits, if it was shared.
    #[inline]
    #[must_use]
    pub fn shared_meter(&self) -> Option<&Arc<Meter>> {
        self.fuel.meter.as_ref().filter(|_| self.is_meter_shared)
    }

    /// Counts an iteration of a loop or a call of translated code against the fuel.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where it is used up; DEADLINE_EXCEEDED.
    #[inline]
    pub fn spend_fuel(&mut self) -> Result<()> {
        self.fuel.left -= 1;
        if self.fuel.left == 0 { self.fuel.replenish() } else { Ok(()) }
    }

    /// Counts the iterations of a loop of translated code that takes nothing else from the stack.
    #[inline(always)]
    pub fn iterations(&mut self) -> Iterations<'_> {
        let left = self.fuel.left;
        Iterations { stack: self, left }
    }

    /// Takes fuel for the bytes that an instruction of translated code is about to process.
    ///
    /// # Errors
    /// Those of [`Stack::charge`].
    #[inline]
    pub fn charge_bytes(&mut self, bytes: u64) -> Result<()> {
        self.charge(bytes / BYTES_PER_FUEL)
    }

    /// As [`Stack::charge_bytes`], for elements of lists.
    ///
    /// # Errors
    /// Those of [`Stack::charge`].
    #[inline]
    pub fn charge_list_elements(&mut self, elements: u64) -> Result<()> {
        self.charge_bytes(elements.saturating_mul(LIST_ELEMENT_BYTES))
    }

    /// Takes fuel for work that is about to begin.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if it does not last: then the work must not begin. DEADLINE_EXCEEDED.
    #[inline]
    pub fn charge(&mut self, units: u64) -> Result<()> {
        self.fuel.charge(units)
    }

    /// Takes the steps of a loop nest, which runs without checking the time; false if they do not last, or if iterations of so many
    /// instructions take so long that the time must be checked in between.
    #[inline]
    pub fn take_steps(&mut self, steps: usize, instructions: usize) -> bool {
        let steps = steps as u64;
        let each = if self.fuel.is_limited() { instructions.max(1) as u64 } else { 1 };
        steps.saturating_mul(each) <= LONGEST_NEST && self.charge(steps).is_ok()
    }

    /// Gives back what [`Stack::take_steps`] has taken for a loop nest that could not end: its loops take their own.
    #[inline]
    pub fn give_back_steps(&mut self, steps: usize) {
        self.fuel.give_back(steps as u64);
    }

    /// Checks the time of the call: native functions that work long call it now and then.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED.
    #[inline]
    pub fn check_deadline(&self) -> Result<()> {
        self.fuel.check()
    }

    /// Forgets suspended calls and open frames.
    pub(super) fn reset(&mut self) {
        self.suspended.clear();
        self.wait = None;
        self.frames.reset();
        self.nesting = 0;
        self.descents = 0;
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
        } else if self.descents > most_descents(self.limits.call_depth) {
            return Err(failure::too_deep(most_descents(self.limits.call_depth)));
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

/// The fuel of a stack while a loop runs that takes nothing else from it: a count that can be in a register, and returns to the
/// stack when it is dropped.
#[derive(Debug)]
pub struct Iterations<'a> {
    stack: &'a mut Stack,
    left: u64,
}

impl Iterations<'_> {
    /// Counts an iteration, as [`Stack::spend_fuel`] does.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the fuel is used up; DEADLINE_EXCEEDED.
    #[inline(always)]
    pub fn spend(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left > 0 {
            return Ok(());
        }
        // What is passed is not `self`, which would then have to be in memory.
        let replenished = self.stack.fuel.replenish();
        self.left = self.stack.fuel.left;
        replenished
    }

    /// Counts an iteration of many instructions as so many steps, as [`Stack::charge`] does.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn charge(&mut self, steps: u64) -> Result<()> {
        self.stack.fuel.left = self.left;
        let charged = self.stack.fuel.charge(steps);
        self.left = self.stack.fuel.left;
        charged
    }
}

impl Drop for Iterations<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.stack.fuel.left = self.left;
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
        stack.charge(4).unwrap();
        assert_eq!(stack.charge(3).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(stack.charge(u64::MAX).unwrap_err().code(), StatusCode::ResourceExhausted);
        stack.charge(1).unwrap();
        stack.spend_fuel().unwrap();
        assert_eq!(stack.spend_fuel().unwrap_err().code(), StatusCode::ResourceExhausted);
        stack.begin_call();
        stack.charge_bytes(63).unwrap();
        for charged in [stack.charge_bytes(u64::MAX), stack.charge_list_elements(u64::MAX)] {
            assert_eq!(charged.unwrap_err().code(), StatusCode::ResourceExhausted);
        }
        stack.begin_call();
        let mut iterations = stack.iterations();
        let spent = (0..).find(|_| iterations.spend().is_err());
        assert!(spent.is_some() && iterations.spend().is_err());
        drop(iterations);
        assert_eq!(stack.spend_fuel().unwrap_err().code(), StatusCode::ResourceExhausted);
        let mut unlimited = Stack::new(Limits::default());
        unlimited.charge(1 << 60).unwrap();
        unlimited.iterations().spend().unwrap();
        unlimited.spend_fuel().unwrap();
    }

    #[test]
    fn nests_of_long_iterations_run_a_time() {
        let most = LONGEST_NEST as usize;
        let taken = |limits: Limits, steps: usize, instructions: usize| {
            let mut stack = Stack::new(limits);
            stack.begin_call();
            stack.take_steps(steps, instructions)
        };
        let limited = || Limits { fuel: Some(u64::MAX / 2), ..Limits::default() };
        assert!(taken(limited(), most, 1) && taken(limited(), most / 64, 64) && taken(limited(), most, 0));
        assert!(!taken(limited(), most + 1, 1) && !taken(limited(), most / 64 + 1, 64));
        assert!(taken(Limits::default(), most, 64) && !taken(Limits::default(), most + 1, 1));
    }
}
