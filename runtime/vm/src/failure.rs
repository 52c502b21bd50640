//! Failures that the interpreter and translated code report alike.

use crate::{Error, Result, StatusCode};

/// Callers that an error names at most, of one activation of a module: a runaway recursion has thousands of them, and the
/// innermost ones tell what happens.
pub const CALLER_LOCATIONS: usize = 16;

/// Adds a function to the locations of an error.
#[cold]
pub(crate) fn locate(error: Error, module: &str, function: &str) -> Error {
    error.at(crate::Location {
        module: Some(module.into()),
        function: Some(function.into()),
        ..crate::Location::default()
    })
}

/// What `fail` does: a status of zero is no failure.
#[inline]
pub fn fail(status: i32, message: &str) -> Result<()> {
    match StatusCode::from_raw(status as u32) {
        Some(status) => Err(failed(status, message)),
        None => Ok(()),
    }
}

#[cold]
fn failed(status: StatusCode, message: &str) -> Error {
    Error::new(status, alloc::string::String::from(message))
}

/// A function ends with a `fail` whose status is zero.
#[cold]
pub fn fell_through() -> Error {
    Error::internal("a failure with a status of 0 ends the function")
}

#[cold]
pub fn unexpected_yield() -> Error {
    Error::failed_precondition("an import yielded that was not called by a yieldable call")
}

/// A kernel was suspended, which nothing could resume.
#[cold]
pub fn kernel_yields() -> Error {
    Error::failed_precondition("kernel yields, but kernels cannot wait")
}

#[cold]
pub fn not_a_primitive() -> Error {
    Error::invalid_argument("the list's element is a reference")
}

/// An import that is optional, is not there, and is called.
#[cold]
pub fn unresolved(import: &str) -> Error {
    Error::not_found(alloc::format!("optional import `{import}` was not resolved and cannot be called"))
}

#[cold]
pub fn out_of_fuel() -> Error {
    Error::resource_exhausted("the fuel of the call is used up: it takes more steps than its limit")
}

#[cold]
pub fn deadline_exceeded() -> Error {
    Error::deadline_exceeded("the call takes longer than its time limit")
}

#[cold]
pub fn too_deep(call_depth: usize) -> Error {
    Error::resource_exhausted(alloc::format!("more than {call_depth} nested calls"))
}

#[cold]
pub fn stack_exhausted(stack_bytes: usize) -> Error {
    Error::resource_exhausted(alloc::format!("the registers of all open calls need more than {stack_bytes} bytes"))
}
