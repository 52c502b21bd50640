//! Errors instead of panics of kernels.

use alloc::format;
use alloc::string::String;
use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, Result};

/// Returns an error where `run` panics, as executables that the program provides may. A panic that unwound further would
/// leave a fence without a signal, and threads that execute chunks of the same dispatch would wait without end.
pub(crate) fn without_unwinding<R>(run: impl FnOnce() -> Result<R>) -> Result<R> {
    // A kernel leaves partial results only in its bindings, whose contents are unspecified after an error.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

#[cold]
fn panicked(payload: &(dyn Any + Send)) -> Error {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Error::internal(format!("a kernel panicked: {message}"))
}
