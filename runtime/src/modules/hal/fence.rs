//! Imports on fences, and the wait of an invocation for them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

use super::HalState;
use crate::hal::{Deadline, Device, Fence, Reached};
use crate::vm::{Caller, Outcome, Span, WaitSource, arc_of};
use crate::{Error, Result, StatusCode};

/// The infinite timeout, in milliseconds.
const INFINITE: u32 = u32::MAX;

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn fence_create(&self, _: &mut Caller<'_>, _device: &Device, _flags: u64) -> Result<Arc<Fence>> {
        Ok(arc_of(Fence::new))
    }

    pub fn fence_join(
        &self,
        _: &mut Caller<'_>,
        _flags: u64,
        fences: Span<Option<Arc<Fence>>>,
    ) -> Result<Option<Arc<Fence>>> {
        Ok(Fence::join_unreached(fences.iter().flatten()))
    }

    /// Returns the status of a fence. A null fence is the join of reached fences, and counts as reached.
    pub fn fence_query(&self, _: &mut Caller<'_>, fence: Option<Arc<Fence>>) -> Result<u32> {
        Ok(match fence.map_or(Ok(true), |fence| fence.query()) {
            Ok(true) => 0,
            Ok(false) => StatusCode::Deferred as u32,
            Err(error) => error.code() as u32,
        })
    }

    pub fn fence_signal(&self, _: &mut Caller<'_>, fence: &Fence) -> Result<()> {
        fence.signal()
    }

    pub fn fence_fail(&self, _: &mut Caller<'_>, fence: &Fence, status: u32) -> Result<()> {
        // To fail a fence with the code of success is still a failure.
        let code = StatusCode::from_raw(status).unwrap_or(StatusCode::Unknown);
        fence.fail(&Error::new(code, "the program failed the fence"));
        Ok(())
    }

    /// Returns 0 when all fences are reached and DEADLINE_EXCEEDED after the timeout. The failure of a fence is the
    /// call's.
    pub fn fence_await(
        &self,
        caller: &mut Caller<'_>,
        timeout_ms: u32,
        _flags: u64,
        fences: Span<Option<Arc<Fence>>>,
    ) -> Result<Outcome<u32>> {
        let mut pending = false;
        for fence in fences.iter().flatten() {
            pending |= !fence.query()?;
        }
        if !pending {
            return Ok(Outcome::Done(0));
        }
        let deadline = match timeout_ms {
            INFINITE => Deadline::NEVER,
            timeout => Deadline::after(Duration::from_millis(timeout.into())),
        };
        match Fence::join_unreached(fences.iter().flatten()) {
            Some(fence) => Awaited(Arc::new(FenceWait::new(fence, deadline))).go_on(caller),
            None => Ok(Outcome::Done(0)),
        }
    }

    #[allow(clippy::boxed_local, reason = "suspended calls keep their state in a box")]
    pub fn fence_await_resume(&self, caller: &mut Caller<'_>, awaited: Box<Awaited>) -> Result<Outcome<u32>> {
        awaited.go_on(caller)
    }
}

/// The state of a suspended `fence.await`.
#[derive(Debug)]
pub struct Awaited(Arc<FenceWait>);

impl Awaited {
    /// Ends the call if the wait is over, else suspends it again.
    fn go_on(self, caller: &mut Caller<'_>) -> Result<Outcome<u32>> {
        if self.0.fence.query()? {
            return Ok(Outcome::Done(0));
        }
        if self.0.deadline.has_passed() {
            return Ok(Outcome::Done(StatusCode::DeadlineExceeded as u32));
        }
        caller.stack.wait_for(Arc::clone(&self.0) as Arc<dyn WaitSource>);
        Ok(Outcome::Yield(Box::new(self)))
    }
}

/// A wait for a fence with a deadline.
struct FenceWait {
    fence: Arc<Fence>,
    deadline: Deadline,
    future: Mutex<Option<Reached>>,
    alarm: Once,
}

impl fmt::Debug for FenceWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FenceWait").field(&self.fence).finish()
    }
}

impl FenceWait {
    fn new(fence: Arc<Fence>, deadline: Deadline) -> FenceWait {
        FenceWait { fence, deadline, future: Mutex::new(None), alarm: Once::new() }
    }

    /// Wakes the waker at the deadline by a sleeping thread: executors have no common timer. Compiled programs wait
    /// without a deadline and need no alarm.
    fn set_alarm(&self, waker: &Waker) {
        let Some(instant) = self.deadline.instant() else { return };
        self.alarm.call_once(|| {
            let waker = waker.clone();
            let sleep = {
                let waker = waker.clone();
                move || {
                    std::thread::sleep(instant.saturating_duration_since(Instant::now()));
                    waker.wake();
                }
            };
            if std::thread::Builder::new().name("fence-deadline".into()).spawn(sleep).is_err() {
                // If no thread can be spawned the executor polls repeatedly, which is slow but correct.
                waker.wake();
            }
        });
    }
}

impl WaitSource for FenceWait {
    fn poll_ready(&self, waker: &Waker) -> bool {
        if self.deadline.has_passed() {
            return true;
        }
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let future = future.get_or_insert_with(|| self.fence.reached());
        if core::pin::Pin::new(future).poll(&mut Context::from_waker(waker)).is_ready() {
            return true;
        }
        self.set_alarm(waker);
        false
    }

    fn block(&self, timeout: Option<Duration>, _is_alone: bool) -> Result<()> {
        let limit = timeout.map_or(Deadline::NEVER, Deadline::after);
        // The resumed call reads the result.
        let _ = self.fence.wait(self.deadline.earlier(limit));
        Ok(())
    }
}
