//! Invocations: calls of a function, to the end or from one suspension to the next.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context as TaskContext, Poll};

#[cfg(feature = "std")]
use super::alarm::Alarm;
use super::call::CallBuffer;
use super::context::Function;
use super::limits::Limits;
use super::meter::{Fuel, Meter};
use super::module::{BoundFunction, Completion};
use super::native::Step;
use super::reference::Value;
use super::stack::Stack;
use crate::{Error, Result};

/// The storage of one call at a time. Reused, so that a warm call allocates nothing.
#[derive(Debug)]
pub struct Invocation {
    stack: Stack,
    /// What calls of the program's own pass and get; empty, but for primitives, while there is none.
    buffer: CallBuffer,
    /// The call that is suspended.
    suspended: Option<BoundFunction>,
    /// Number of other calls that run in the context, if this is the storage of its first one.
    concurrent: Option<Arc<AtomicUsize>>,
}

impl Invocation {
    /// Storage for calls within limits.
    #[must_use]
    pub fn new(limits: Limits) -> Invocation {
        Invocation { stack: Stack::new(limits), buffer: CallBuffer::new(), suspended: None, concurrent: None }
    }

    /// Storage for the first of the calls that run at a time in a context, which counts the others.
    pub(super) fn first(limits: Limits, concurrent: Arc<AtomicUsize>) -> Invocation {
        Invocation { concurrent: Some(concurrent), ..Invocation::new(limits) }
    }

    /// Exchanges the fuel of the next calls for that of a thread which works for another call. See [`Stack::exchange_fuel`].
    pub fn exchange_fuel(&mut self, fuel: &mut Fuel) {
        self.stack.exchange_fuel(fuel);
    }

    /// Returns memory that few calls need, for storage that is kept.
    pub fn trim(&mut self) {
        self.stack.trim();
    }

    /// Returns the time at which the last call ends, with what it had devices do.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn deadline(&self) -> Option<crate::clock::Instant> {
        self.stack.meter().and_then(|meter| meter.deadline())
    }

    /// Checks the time of the last call and its interrupt.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED; what an interrupt ends the call with.
    pub fn check_meter(&self) -> Result<()> {
        self.stack.meter().map_or(Ok(()), Meter::check)
    }

    /// True if no other call runs in the context.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.concurrent.as_ref().is_some_and(|concurrent| concurrent.load(Ordering::Acquire) == 0)
    }

    /// Begins a call: the buffer has the arguments, and the results where the call is [`Completion::Done`].
    ///
    /// # Errors
    /// FAILED_PRECONDITION where a call is suspended; what the function fails with.
    #[inline]
    pub fn begin(&mut self, function: &BoundFunction, buffer: &mut CallBuffer) -> Result<Completion> {
        if self.suspended.is_some() {
            return Err(Error::failed_precondition("an invocation has one call at a time, and one is suspended"));
        }
        self.stack.begin_call();
        #[cfg(feature = "std")]
        if crate::profile::is_on() {
            return self.begin_recorded(function, buffer);
        }
        let result = function.module.begin_call(&function.state, function.export, &mut self.stack, buffer);
        self.after(function, result)
    }

    /// Begins a call and records it.
    #[cfg(feature = "std")]
    #[cold]
    fn begin_recorded(&mut self, function: &BoundFunction, buffer: &mut CallBuffer) -> Result<Completion> {
        let start = crate::clock::Instant::now();
        let result = function.module.begin_call(&function.state, function.export, &mut self.stack, buffer);
        let name = function.module.function(super::Linkage::Export, function.export);
        let name = alloc::format!("@{}", name.map_or("function", |info| info.name));
        crate::profile::record(start, &crate::profile::Facts::plain(crate::profile::EventKind::Host, &name));
        self.after(function, result)
    }

    /// Goes on with the suspended call.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where none is suspended; what the function fails with.
    pub fn resume(&mut self, buffer: &mut CallBuffer) -> Result<Completion> {
        let function = self
            .suspended
            .take()
            .ok_or_else(|| Error::failed_precondition("no call of this invocation is suspended"))?;
        buffer.clear();
        #[cfg(feature = "std")]
        let recorded = crate::profile::now();
        let result = function.module.resume_call(&function.state, function.export, &mut self.stack, buffer);
        #[cfg(feature = "std")]
        if let Some(start) = recorded {
            let name = "after a wait";
            crate::profile::record(start, &crate::profile::Facts::plain(crate::profile::EventKind::Host, name));
        }
        self.after(&function, result)
    }

    #[inline]
    fn after(&mut self, function: &BoundFunction, result: Result<Completion>) -> Result<Completion> {
        // The result is constructed anew: copied as a whole, it would wait for the writes of its parts.
        match result {
            Ok(Completion::Done) => Ok(Completion::Done),
            Ok(Completion::Yielded) => {
                self.suspended = Some(function.clone());
                Ok(Completion::Yielded)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    #[cold]
    fn failed(&mut self, error: Error) -> Error {
        self.stack.reset();
        error
    }

    /// Calls a function to its end; where it is suspended, waits for what it waits for.
    ///
    /// # Errors
    /// What the function fails with.
    #[inline]
    pub fn call(&mut self, function: &BoundFunction, buffer: &mut CallBuffer) -> Result<()> {
        match self.begin(function, buffer)? {
            Completion::Done => Ok(()),
            Completion::Yielded => self.resume_to_end(buffer),
        }
    }

    /// Blocks until the suspended call can go on. That is a step, so that calls that only yield end, too.
    fn block(&mut self) -> Result<()> {
        self.stack.spend_fuel()?;
        let Some(wait) = self.stack.take_wait() else { return Ok(()) };
        #[cfg(feature = "std")]
        let timeout = self.stack.meter().and_then(|meter| meter.longest_wait());
        #[cfg(not(feature = "std"))]
        let timeout = None;
        wait.block(timeout, &|| self.is_alone())?;
        self.stack.check_deadline()
    }

    /// Resumes a call whose wait is over.
    fn resume_step(&mut self, buffer: &mut CallBuffer) -> Result<Completion> {
        let counted = self.stack.spend_fuel().and_then(|()| self.stack.check_deadline());
        counted.map_err(|error| self.abandon(error))?;
        self.resume(buffer)
    }

    /// Ends a suspended call with an error.
    fn abandon(&mut self, error: Error) -> Error {
        let error = match self.suspended.take() {
            Some(function) => function.locate(error),
            None => error,
        };
        self.failed(error)
    }

    #[cold]
    fn resume_to_end(&mut self, buffer: &mut CallBuffer) -> Result<()> {
        loop {
            self.block().map_err(|error| self.abandon(error))?;
            if self.resume(buffer)? == Completion::Done {
                return Ok(());
            }
        }
    }

    /// The invocation's own call buffer, for [`Invocation::call_packed`].
    #[inline(always)]
    #[doc(hidden)]
    pub fn buffer(&mut self) -> &mut CallBuffer {
        &mut self.buffer
    }

    /// Calls a function to its end as [`Invocation::call`] does, with what the invocation's own call buffer has.
    ///
    /// # Errors
    /// What the function fails with.
    // Rare paths are outlined, so that the rest is inlined into the caller: primitives then pass through memory no more
    // often than through the call buffer, and what was just written is slow to read in other pieces.
    #[inline(always)]
    #[doc(hidden)]
    pub fn call_packed(&mut self, function: &Function) -> Result<()> {
        #[cfg(feature = "std")]
        let recorded = crate::profile::is_on();
        #[cfg(not(feature = "std"))]
        let recorded = false;
        if self.suspended.is_some() || recorded {
            return self.call_packed_slowly(function.bound());
        }
        self.stack.begin_call();
        match function.begin_call(&mut self.stack, &mut self.buffer) {
            Ok(Completion::Done) => Ok(()),
            rare => self.finish_packed(function.bound(), rare),
        }
    }

    #[cold]
    #[inline(never)]
    fn call_packed_slowly(&mut self, function: &BoundFunction) -> Result<()> {
        let mut buffer = core::mem::take(&mut self.buffer);
        let result = self.call(function, &mut buffer);
        self.buffer = buffer;
        result
    }

    #[cold]
    #[inline(never)]
    fn finish_packed(&mut self, function: &BoundFunction, begun: Result<Completion>) -> Result<()> {
        match self.after(function, begun)? {
            Completion::Done => Ok(()),
            Completion::Yielded => {
                let mut buffer = core::mem::take(&mut self.buffer);
                let result = self.resume_to_end(&mut buffer);
                self.buffer = buffer;
                result
            }
        }
    }

    /// Runs a call of translated code to its end, by what begins it and what goes on with it; where it is suspended, waits for
    /// what it waits for.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where a call is suspended; what the call fails with.
    #[inline]
    #[doc(hidden)]
    pub fn run<R>(
        &mut self,
        begin: impl FnOnce(&mut Stack) -> Result<Step<R>>,
        resume: impl Fn(&mut Stack) -> Result<Step<R>>,
    ) -> Result<R> {
        if self.suspended.is_some() {
            return Err(Error::failed_precondition("an invocation has one call at a time, and one is suspended"));
        }
        self.stack.begin_call();
        let mut step = begin(&mut self.stack);
        loop {
            match step {
                Ok(Step::Done(results)) => return Ok(results),
                Ok(Step::Yielded) => step = self.block().and_then(|()| resume(&mut self.stack)),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Runs a call of translated code, or kernels, that does not yield.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where a call is suspended; what the call fails with.
    // Inlined, since results that are passed on through memory are read in other pieces than they were just written in.
    #[inline(always)]
    #[doc(hidden)]
    pub fn run_whole<R>(&mut self, body: impl FnOnce(&mut Stack) -> Result<R>) -> Result<R> {
        if self.suspended.is_some() {
            return Err(Error::failed_precondition("an invocation has one call at a time, and one is suspended"));
        }
        self.stack.begin_call();
        match body(&mut self.stack) {
            Ok(results) => Ok(results),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// An empty call buffer, reused where one was given back.
    #[must_use]
    pub fn take_buffer(&mut self) -> Box<CallBuffer> {
        self.stack.take_buffer()
    }

    /// Returns a call buffer for reuse.
    pub fn give_buffer(&mut self, buffer: Box<CallBuffer>) {
        self.stack.give_buffer(buffer);
    }

    /// True where a call is suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Abandons a suspended call; its references are released.
    pub fn cancel(&mut self) {
        self.suspended = None;
        self.stack.reset();
    }
}

/// A call as a future, see [`Function::call_async`]. Dropping it abandons the call.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct CallFuture {
    function: Function,
    buffer: CallBuffer,
    invocation: Option<Box<Invocation>>,
    begun: bool,
    /// Wakes the task at the end of the present wait, if it has one. Waits of compiled programs have none.
    #[cfg(feature = "std")]
    alarm: Option<Alarm>,
}

impl CallFuture {
    pub(super) fn new(function: Function, buffer: CallBuffer) -> CallFuture {
        let invocation = Some(function.context().take_invocation());
        CallFuture {
            invocation,
            function,
            buffer,
            begun: false,
            #[cfg(feature = "std")]
            alarm: None,
        }
    }
}

impl Future for CallFuture {
    type Output = Result<Vec<Value>>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(invocation) = &mut this.invocation else {
            return Poll::Ready(Err(Error::failed_precondition("the call is over")));
        };
        if let Some(wait) = invocation.stack.take_wait()
            && !wait.poll_ready(task.waker())
        {
            #[cfg(feature = "std")]
            if let Some(end) = wait.end() {
                // Set anew, as a task may move to another waker. The one before is cancelled first.
                this.alarm = None;
                this.alarm = Some(Alarm::set(end, task.waker().clone()));
            }
            invocation.stack.wait_for(wait);
            return Poll::Pending;
        }
        #[cfg(feature = "std")]
        {
            this.alarm = None;
        }
        let completion = if this.begun {
            invocation.resume_step(&mut this.buffer)
        } else {
            this.begun = true;
            invocation.begin(this.function.bound(), &mut this.buffer)
        };
        match completion {
            Ok(Completion::Yielded) => {
                // What it waits for, if anything, is asked at the next poll, which may come at once.
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(Completion::Done) => {}
            Err(error) => {
                this.release();
                return Poll::Ready(Err(error));
            }
        }
        this.release();
        Poll::Ready(this.buffer.drain(this.function.results()))
    }
}

impl CallFuture {
    fn release(&mut self) {
        if let Some(mut invocation) = self.invocation.take() {
            if invocation.is_suspended() {
                invocation.cancel();
            }
            self.function.context().give_invocation(invocation);
        }
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        self.release();
    }
}
