//! Executables: loaded device code, as programs hold it.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use std::sync::OnceLock;

use super::kernel::LocalExecutable;
use crate::vm::{Charge, Ledger};
use crate::{Error, Result, ref_object};

/// Bytes that are charged for each byte of an executable: a copy of the file, its tables, and the code that it is lowered to.
const BYTES_PER_BYTE_OF_CODE: u64 = 16;
/// Bytes of the contexts in which workers run kernels that are bytecode: their frames, beside what their programs allocate.
const WORKER_CONTEXTS: u64 = 256 << 10;

/// Loaded device code (`!hal.executable`): functions that dispatches name by ordinal.
#[derive(Debug)]
pub struct Executable {
    code: Arc<dyn LocalExecutable>,
    /// What the backend of the device keeps with the executable.
    backend_data: BackendData,
    #[expect(dead_code, reason = "returned when dropped")]
    charge: Charge,
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
    /// Wraps code that a host program loaded.
    #[inline]
    #[must_use]
    pub fn new(code: Arc<dyn LocalExecutable>) -> Executable {
        Executable::charged(code, Charge::none())
    }

    /// Wraps code that was charged to its program before it was loaded; see [`Executable::charge`].
    #[inline]
    #[must_use]
    pub fn charged(code: Arc<dyn LocalExecutable>, charge: Charge) -> Executable {
        Executable { code, backend_data: BackendData::default(), charge }
    }

    /// Charges an executable of `length` bytes, before it is loaded: `BYTES_PER_BYTE_OF_CODE` for each, and the contexts of
    /// the workers that run it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    pub fn charge(length: usize, ledger: &Ledger) -> Result<Charge> {
        ledger.charge((length as u64).saturating_mul(BYTES_PER_BYTE_OF_CODE).saturating_add(WORKER_CONTEXTS))
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
