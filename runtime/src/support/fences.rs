//! Fences of queue operations that only this program's own operations wait for: such a fence is made when it is needed.

use alloc::sync::Arc;

use crate::Result;
use crate::hal::{Fence, SignalFence};
use crate::vm::{Pass, Ref};

/// What a call passes for the fence that an operation signals: a place for one, should there be something to wait for.
#[derive(Debug)]
pub struct Later<'a>(&'a mut Option<Arc<Fence>>);

impl<'a> Pass<SignalFence<'a>> for Later<'a> {
    #[inline(always)]
    fn pass(self) -> Result<SignalFence<'a>> {
        Ok(SignalFence::Later(self.0))
    }
}

/// A queue operation, and the fence that it signals: null, which is reached, where it is done.
///
/// # Errors
/// Those of the call.
#[inline(always)]
pub fn signalled(call: impl FnOnce(Later<'_>) -> Result<()>) -> Result<Ref> {
    signalled_with(call).map(|((), fence)| fence)
}

/// The same for an operation that has a result.
///
/// # Errors
/// Those of the call.
#[inline(always)]
pub fn signalled_with<R>(call: impl FnOnce(Later<'_>) -> Result<R>) -> Result<(R, Ref)> {
    let mut fence = None;
    match call(Later(&mut fence)) {
        Ok(result) => Ok((result, fence.into())),
        Err(error) => Err(error),
    }
}
