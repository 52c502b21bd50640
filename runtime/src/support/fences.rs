//! Deferred fences: a queue operation creates its signal fence only if it is still pending when the call returns.

use alloc::sync::Arc;

use crate::Result;
use crate::hal::{Fence, SignalFence};
use crate::vm::{Pass, Ref};

/// The slot that a call passes as the signal fence of an operation. A pending operation stores a new fence in it.
#[derive(Debug)]
pub struct DeferredFence<'a>(&'a mut Option<Arc<Fence>>);

impl<'a> Pass<SignalFence<'a>> for DeferredFence<'a> {
    #[inline(always)]
    fn pass(self) -> Result<SignalFence<'a>> {
        Ok(SignalFence::Later(self.0))
    }
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
