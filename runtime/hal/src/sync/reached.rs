//! Waiting for a fence as a future.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::PoisonError;

use super::fence::Fence;
use super::semaphore::Waiter;
use super::wait::Countdown;
use crate::atomic::Mutex;
use crate::{Error, Result};

/// A future that completes with the result of a fence.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Reached {
    fence: Arc<Fence>,
    state: Option<Arc<FutureState>>,
}

#[derive(Debug)]
struct FutureState {
    countdown: Countdown,
    waker: Mutex<Option<Waker>>,
}

impl FutureState {
    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Waiter for FutureState {
    fn notify(self: Arc<Self>, result: Result<()>) {
        if self.countdown.count(result) {
            self.wake();
        }
    }
}

impl Fence {
    /// Returns a future that completes when the fence is reached.
    pub fn reached(self: &Arc<Fence>) -> Reached {
        Reached { fence: Arc::clone(self), state: None }
    }
}

impl Future for Reached {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.state.is_none() {
            if self.fence.query()? {
                return Poll::Ready(Ok(()));
            }
            let state = Arc::new(FutureState {
                countdown: Countdown::new(self.fence.timepoints().count()),
                waker: Mutex::new(Some(context.waker().clone())),
            });
            let waiter: Arc<dyn Waiter> = Arc::clone(&state) as Arc<dyn Waiter>;
            for (semaphore, payload) in self.fence.timepoints() {
                if let Poll::Ready(result) = semaphore.register(payload, &waiter) {
                    state.countdown.count(result);
                }
            }
            self.state = Some(state);
        }
        match &self.state {
            Some(state) => {
                // The waker is stored before the result is read, so that a notification in between wakes it.
                *state.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
                state.countdown.result()
            }
            None => Poll::Ready(Err(Error::internal("future of a fence lost its state"))),
        }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            let waiter: Arc<dyn Waiter> = state;
            for (semaphore, _) in self.fence.timepoints() {
                semaphore.unregister(&waiter);
            }
        }
    }
}
