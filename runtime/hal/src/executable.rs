//! Executables: loaded device code, as programs hold it.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use std::sync::OnceLock;

use super::kernel::LocalExecutable;
use crate::{Error, Result, ref_object};

/// Loaded device code (`!hal.executable`): functions that dispatches name by ordinal.
#[derive(Debug)]
pub struct Executable {
    code: Arc<dyn LocalExecutable>,
    /// What the backend of the device keeps with the executable.
    backend_data: BackendData,
}

#[derive(Default)]
struct BackendData(OnceLock<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for BackendData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendData")
    }
}

ref_object!(Executable, "hal.executable");

impl Executable {
    /// Wraps loaded code.
    #[inline]
    #[must_use]
    pub fn new(code: Arc<dyn LocalExecutable>) -> Executable {
        Executable { code, backend_data: BackendData::default() }
    }

    /// The loaded code.
    #[inline]
    #[must_use]
    pub fn code(&self) -> &dyn LocalExecutable {
        &*self.code
    }

    /// What the backend of the device keeps with the executable, made by `init` at first; `None` where another backend keeps
    /// something of another type.
    #[inline]
    pub fn backend_data<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Option<&T> {
        self.backend_data.0.get_or_init(|| Box::new(init())).downcast_ref()
    }

    /// The ordinal of the function of the given name.
    ///
    /// # Errors
    /// NOT_FOUND where there is none.
    pub fn lookup(&self, name: &str) -> Result<usize> {
        let functions = self.code.functions();
        functions.iter().position(|function| function.name == name).ok_or_else(|| {
            Error::not_found(format!("executable of {} functions has none named '{name}'", functions.len()))
        })
    }

    /// Checks what a dispatch passes against the function that it names, and gives the function's ordinal.
    ///
    /// # Errors
    /// OUT_OF_RANGE for a function that there is not; INVALID_ARGUMENT for another number of constants or bindings.
    pub fn check(&self, function: u64, constants: usize, bindings: usize) -> Result<usize> {
        let functions = self.code.functions();
        let index = usize::try_from(function).ok().filter(|index| *index < functions.len());
        let Some((index, info)) = index.and_then(|index| Some((index, functions.get(index)?))) else {
            return Err(Error::out_of_range(format!(
                "function {function} of an executable of {} functions",
                functions.len()
            )));
        };
        for (what, given, expected) in
            [("constants", constants, info.constant_count), ("bindings", bindings, info.binding_count)]
        {
            if given != expected {
                return Err(Error::invalid_argument(format!(
                    "dispatch passes {given} {what} to function {index} '{}', which has {expected}",
                    info.name
                )));
            }
        }
        Ok(index)
    }
}
