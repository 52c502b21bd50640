//! Blocking waits for what a program does, which end if nothing can signal the fence any more.

use alloc::sync::Arc;
use core::time::Duration;

use super::device::Device;
use crate::hal::{Deadline, Fence};
use crate::vm::Invocation;
use crate::{Error, Result, StatusCode};

/// How often a blocked wait examines whether it can still end, beside when it begins: what it costs is lost in it.
const EXAMINE_EVERY: Duration = Duration::from_millis(100);

/// Blocks until a fence is reached that only calls and operations of a program on the devices signal. `is_alone` tells whether
/// no other call is running; `check` ends the wait by an error.
///
/// Without another call and without an operation that is running or waits for the host, no thread can signal the fence.
///
/// # Errors
/// ABORTED if nothing can signal the fence; DEADLINE_EXCEEDED; the failure of the fence; those of `check`.
pub fn wait_for_program(
    fence: &Fence,
    devices: &[Arc<Device>],
    deadline: Deadline,
    is_alone: &dyn Fn() -> bool,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    loop {
        check()?;
        // Operations signal their fence before they stop counting, so the fence is queried last.
        if is_alone() && Device::are_idle(devices) && !fence.query()? {
            return Err(Error::aborted(
                "deadlock: no operation that would signal the fence is running or pending on a device, and no other call is \
                 running; is a queue operation missing?",
            ));
        }
        match fence.wait_and_participate(deadline.earlier(Deadline::after(EXAMINE_EVERY))) {
            // The fence itself may have failed with this status.
            Err(error) if error.code() == StatusCode::DeadlineExceeded && fence.query().is_ok() => {
                if deadline.has_passed() {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
}

/// Blocks until the fence is reached that a call was given to signal, after the call has returned: for as long as the call may
/// take in all.
///
/// # Errors
/// ABORTED if nothing can signal the fence; DEADLINE_EXCEEDED; the failure of the fence; what an interrupt ends the call with.
pub fn wait_for_results(invocation: &Invocation, devices: &[Arc<Device>], done: &Arc<Fence>) -> Result<()> {
    done.check_abandoned()?;
    let deadline = invocation.deadline().map_or(Deadline::NEVER, Deadline::at);
    let waited = wait_for_program(done, devices, deadline, &|| invocation.is_alone(), &|| invocation.check_meter());
    waited.map_err(|error| match done.query() {
        Ok(_) => error.context("waiting for the fence of the results"),
        Err(_) => error,
    })
}
