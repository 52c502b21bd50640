//! Alarms: wakers that are woken at a time. Executors have no common timer, so one thread sleeps for all of them.

use crate::clock::Instant;
use alloc::collections::BTreeMap;
use core::task::Waker;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An alarm, which is cancelled when it is dropped.
#[derive(Debug)]
pub(super) struct Alarm((Instant, u64));

#[derive(Debug)]
struct Alarms {
    /// By time, and by number.
    set: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    is_running: bool,
}

static ALARMS: Mutex<Alarms> = Mutex::new(Alarms { set: BTreeMap::new(), next: 0, is_running: false });
static CHANGED: Condvar = Condvar::new();

/// How long the thread waits for another alarm before it ends.
const IDLE: Duration = Duration::from_secs(1);

fn lock() -> MutexGuard<'static, Alarms> {
    // Every change under the lock is complete before anything can panic.
    ALARMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Alarm {
    /// Wakes the waker at `time`. If there is no thread for it, at once: the executor then polls repeatedly, which is slow but
    /// correct.
    pub(super) fn set(time: Instant, waker: Waker) -> Alarm {
        let mut alarms = lock();
        let key = (time, alarms.next);
        alarms.next += 1;
        if !alarms.is_running {
            let thread = std::thread::Builder::new().name("incarnate-alarm".into()).spawn(run);
            alarms.is_running = thread.is_ok();
        }
        if alarms.is_running {
            alarms.set.insert(key, waker);
            CHANGED.notify_one();
        } else {
            drop(alarms);
            waker.wake();
        }
        Alarm(key)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let waker = lock().set.remove(&self.0);
        drop(waker);
    }
}

/// Wakes what is due, and ends after a time without alarms.
fn run() {
    let mut alarms = lock();
    loop {
        let first = alarms.set.first_key_value().map(|((time, _), _)| *time);
        let now = Instant::now();
        match first {
            Some(time) if time <= now => {
                if let Some((_, waker)) = alarms.set.pop_first() {
                    drop(alarms);
                    waker.wake();
                    alarms = lock();
                }
            }
            _ => {
                let patience = first.map_or(IDLE, |time| time - now);
                let (guard, result) = CHANGED.wait_timeout(alarms, patience).unwrap_or_else(PoisonError::into_inner);
                alarms = guard;
                if result.timed_out() && alarms.set.is_empty() {
                    alarms.is_running = false;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloc::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    struct Send(mpsc::Sender<u32>, u32);

    impl std::task::Wake for Send {
        fn wake(self: Arc<Self>) {
            self.0.send(self.1).unwrap();
        }
    }

    #[test]
    fn alarms_wake_in_the_order_of_their_times_unless_cancelled() {
        let (sender, receiver) = mpsc::channel();
        let now = Instant::now();
        let set = |after, number| {
            Alarm::set(now + Duration::from_millis(after), Waker::from(Arc::new(Send(sender.clone(), number))))
        };
        let kept = [set(30, 3), set(10, 1), set(0, 0)];
        drop(set(20, 2));
        assert_eq!((receiver.recv(), receiver.recv(), receiver.recv()), (Ok(0), Ok(1), Ok(3)));
        drop(kept);
    }
}
