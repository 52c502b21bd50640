//! Imports on fences, and the wait of an invocation for them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use super::{HalOptions, HalState};
use crate::hal::{Deadline, Device, Fence, Reached, wait_for_program};
use crate::vm::clock::Instant;
use crate::vm::{Caller, Outcome, Span, WaitSource};
use crate::{Error, Result, StatusCode};

/// The infinite timeout, in milliseconds.
const INFINITE: u32 = u32::MAX;

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn fence_create(&self, caller: &mut Caller<'_>, _device: &Device, _flags: u64) -> Result<Arc<Fence>> {
        Fence::of_program(caller.ledger())
    }

    pub fn fence_join(
        &self,
        caller: &mut Caller<'_>,
        _flags: u64,
        fences: Span<Option<Arc<Fence>>>,
    ) -> Result<Option<Arc<Fence>>> {
        Fence::join_unreached(fences.iter().flatten(), caller.ledger())
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
        match Fence::join_unreached(fences.iter().flatten(), caller.ledger())? {
            Some(fence) => {
                let wait = FenceWait {
                    fence,
                    awaited: fences,
                    deadline,
                    end_of_call: caller
                        .stack
                        .meter()
                        .and_then(|meter| meter.deadline())
                        .map_or(Deadline::NEVER, Deadline::at),
                    options: Arc::clone(&self.options),
                    future: Mutex::new(None),
                };
                Awaited(Arc::new(wait)).go_on(caller)
            }
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
        caller.stack.check_deadline()?;
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

/// A wait for fences.
struct FenceWait {
    /// Those that are not reached.
    fence: Arc<Fence>,
    /// The arguments of the call.
    awaited: Span<Option<Arc<Fence>>>,
    /// The end of the wait that the program gave it.
    deadline: Deadline,
    /// The end of the call, which fails then.
    end_of_call: Deadline,
    options: Arc<HalOptions>,
    future: Mutex<Option<Reached>>,
}

impl fmt::Debug for FenceWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FenceWait").field(&self.fence).finish()
    }
}

impl FenceWait {
    fn limit(&self) -> Deadline {
        self.deadline.earlier(self.end_of_call)
    }

    /// Names the fences that are not reached.
    #[cold]
    fn describe(&self, error: Error) -> Error {
        /// Most fences that a message names.
        const NAMED: usize = 8;
        let awaited = self.awaited.iter().enumerate();
        let mut unreached = awaited.filter_map(|(index, fence)| Some((index, fence.as_ref()?)));
        let unreached = unreached.by_ref().filter(|(_, fence)| matches!(fence.query(), Ok(false)));
        let name = |(index, fence): (usize, &Arc<Fence>)| format!("fence {index} ({})", timepoints(fence));
        let names: Vec<String> = unreached.take(NAMED).map(name).collect();
        error.context(format!("waiting for {} of the {} fences", names.join(", "), self.awaited.len()))
    }
}

/// Says what a fence waits for.
fn timepoints(fence: &Fence) -> String {
    let mut unreached =
        fence.timepoints().filter(|(semaphore, payload)| semaphore.query().is_ok_and(|at| at < *payload));
    let (count, first) = (unreached.clone().count(), unreached.next());
    match first {
        Some((semaphore, payload)) if count == 1 => {
            format!("its semaphore is at {} and not at {payload}", semaphore.query().unwrap_or(0))
        }
        _ => format!("{count} of its {} timepoints are not reached", fence.timepoints().count()),
    }
}

impl WaitSource for FenceWait {
    fn poll_ready(&self, waker: &Waker) -> bool {
        if self.limit().has_passed() {
            return true;
        }
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let future = future.get_or_insert_with(|| self.fence.reached());
        core::pin::Pin::new(future).poll(&mut Context::from_waker(waker)).is_ready()
    }

    fn end(&self) -> Option<Instant> {
        self.limit().instant()
    }

    fn block(&self, timeout: Option<Duration>, is_alone: &dyn Fn() -> bool) -> Result<()> {
        let end = self.limit().earlier(timeout.map_or(Deadline::NEVER, Deadline::after));
        // A host program can signal its own fences at any time.
        let is_alone = || self.fence.is_of_program() && is_alone();
        // The call that waits checks its meter between two waits.
        match wait_for_program(&self.fence, &self.options.devices, end, &is_alone, &|| Ok(())) {
            Err(error) if error.code() == StatusCode::Aborted && matches!(self.fence.query(), Ok(false)) => {
                Err(self.describe(error))
            }
            // The resumed call reads the result.
            _ => Ok(()),
        }
    }
}
