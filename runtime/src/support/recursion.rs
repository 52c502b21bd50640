//! Recursion of translated functions, which lies on the host's own stack.

use crate::Result;
use crate::vm::Stack;

/// Runs the body of a function that may call itself, even by way of others.
///
/// # Errors
/// RESOURCE_EXHAUSTED where more calls are open than the limits allow, or they take more of the host's stack than
/// translated code may; what the body fails with.
#[inline]
pub fn guarded<T>(stack: &mut Stack, body: impl FnOnce(&mut Stack) -> Result<T>) -> Result<T> {
    // The address of something in this frame is a measure of the stack that is used; nothing is read from it.
    let marker = 0u8;
    stack.descend((&raw const marker).addr())?;
    let result = body(stack);
    stack.ascend();
    result
}
