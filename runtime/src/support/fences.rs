//! Deferred fences: a queue operation creates its signal fence only if it is still pending when the call returns. Otherwise the fence is null,
//! which counts as signalled.

use alloc::sync::Arc;

use super::abi;
use crate::Result;
use crate::hal::{Fence, SignalFence};
use crate::vm::{CallCost, DirectMethod, Native, NoElements, Pass, Ref, Stack, Step};

/// The slot that a call passes as the signal fence of an operation. A pending operation stores a new fence in it.
#[derive(Debug)]
pub struct DeferredFence<'a>(&'a mut Option<Arc<Fence>>);

impl<'a> Pass<SignalFence<'a>> for DeferredFence<'a> {
    #[inline(always)]
    fn pass(self) -> Result<SignalFence<'a>> {
        Ok(SignalFence::Later(self.0))
    }
}

/// The modes of a command buffer that is submitted when `wait` is reached, with nothing that accesses memory between its first command and the
/// submission. If the fence is reached already, the commands may run while they are recorded.
#[inline(always)]
#[must_use]
pub fn modes_of_recording(modes: i32, wait: &Ref) -> i32 {
    let is_reached =
        wait.is_null() || wait.get::<Fence>().is_ok_and(|fence| fence.query().is_ok_and(|reached| reached));
    if is_reached { modes | abi::command_buffer_mode::ALLOW_INLINE_EXECUTION } else { modes }
}

/// Calls a queue operation and returns its signal fence: null, which counts as signalled, if the operation is complete.
///
/// # Errors
/// Those of the call.
#[inline(always)]
pub fn signalled(call: impl FnOnce(DeferredFence<'_>) -> Result<()>) -> Result<Ref> {
    signalled_with(call).map(|((), fence)| fence)
}

/// Calls a queue operation with a result, and returns the result and the signal fence.
///
/// # Errors
/// Those of the call.
#[inline(always)]
pub fn signalled_with<R>(call: impl FnOnce(DeferredFence<'_>) -> Result<R>) -> Result<(R, Ref)> {
    let mut fence = None;
    match call(DeferredFence(&mut fence)) {
        Ok(result) => Ok((result, fence.into())),
        Err(error) => Err(error),
    }
}

/// The fences that a call passes: an array of references, or [`NoElements`].
pub trait PassedFences {
    /// Whether all are null.
    fn are_null(&self) -> bool;
}

impl<const N: usize> PassedFences for [Ref; N] {
    #[inline(always)]
    fn are_null(&self) -> bool {
        self.iter().all(Ref::is_null)
    }
}

impl<const N: usize> PassedFences for [&Ref; N] {
    #[inline(always)]
    fn are_null(&self) -> bool {
        self.iter().all(|fence| fence.is_null())
    }
}

impl PassedFences for NoElements {
    #[inline(always)]
    fn are_null(&self) -> bool {
        true
    }
}

/// Calls `fence.join`. The fast path is a join of signalled fences, which is one.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn fence_join<S, C, F, A, P>(
    native: Native<'_, S, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: (i64, P),
) -> Result<Ref>
where
    C: CallCost,
    F: DirectMethod<S, A, (i64, P), Value = Ref>,
    P: PassedFences,
{
    if C::COST.is_none() && native.is_present() && passed.1.are_null() {
        return Ok(Ref::Null);
    }
    native.call(name, method, stack, passed)
}

/// Calls `fence.await`. The fast path is an await of signalled fences.
///
/// # Errors
/// Those of [`Native::call`].
#[inline(always)]
pub fn fence_await<S, C, F, A, P>(
    native: Native<'_, S, C>,
    name: &'static str,
    method: F,
    stack: &mut Stack,
    passed: (i32, i64, P),
) -> Result<Step<i32>>
where
    C: CallCost,
    F: DirectMethod<S, A, (i32, i64, P), Value = Step<i32>>,
    P: PassedFences,
{
    if C::COST.is_none() && native.is_present() && passed.2.are_null() {
        return Ok(Step::Done(0));
    }
    native.call(name, method, stack, passed)
}
