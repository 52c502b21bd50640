//! Recursion of translated functions, whose frames are on the host's stack.

use crate::Result;
use crate::vm::Stack;

/// Runs the body of a recursive function.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the depth of calls or their use of the host's stack exceeds the limits; the errors of the body.
#[inline]
pub fn guarded<T>(stack: &mut Stack, body: impl FnOnce(&mut Stack) -> Result<T>) -> Result<T> {
    // The address of a local variable measures the use of the stack; nothing is read from it.
    let marker = 0u8;
    stack.descend((&raw const marker).addr())?;
    let result = body(stack);
    stack.ascend();
    result
}
