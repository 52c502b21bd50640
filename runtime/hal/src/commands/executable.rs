//! Executables: loaded device code, as programs hold it.

use alloc::format;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use super::backend_data::BackendData;
use super::kernel::{FunctionInfo, LocalExecutable};
use crate::vm::{Charge, Ledger};
use crate::{Error, Result, ref_object};

/// Bytes that are charged for each byte of an executable: a copy of the file, its tables, and the code that it is lowered to.
const BYTES_PER_BYTE_OF_CODE: u64 = 16;
/// Bytes of the contexts in which workers run kernels that are bytecode: their frames, beside what their programs allocate.
const WORKER_CONTEXTS: u64 = 256 << 10;

/// Loaded device code (`!hal.executable`): functions that dispatches name by ordinal.
#[derive(Debug)]
pub struct Executable {
    code: Code,
    /// What the backend of the device keeps with the executable.
    backend_data: BackendData,
    #[expect(dead_code, reason = "returned when dropped")]
    charge: Charge,
}

#[derive(Debug)]
enum Code {
    /// Code for the host's processors.
    Local(Arc<dyn LocalExecutable>),
    Device(Arc<dyn DeviceExecutable>),
}

/// Code that a device has loaded which is not the host: its backend executes it.
pub trait DeviceExecutable: Any + Send + Sync + fmt::Debug {
    /// The functions, in the order of their ordinals.
    fn functions(&self) -> &[FunctionInfo];
}

/// Loads executables for a device that is not the host.
pub trait ExecutableCache: Send + Sync + fmt::Debug {
    /// Returns true if executables of the format can be loaded.
    fn supports(&self, format: &str) -> bool;

    /// Loads an executable of a supported format, with its specialization constants.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for malformed data; UNAVAILABLE if the device lacks a feature that the code needs, which the message names.
    fn prepare(&self, format: &str, data: &[u8], constants: &[u32]) -> Result<Arc<dyn DeviceExecutable>>;
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
        Executable { code: Code::Local(code), backend_data: BackendData::default(), charge }
    }

    /// Wraps code of a device that was charged to its program before it was loaded; see [`Executable::charge`].
    #[must_use]
    pub fn of_device(code: Arc<dyn DeviceExecutable>, charge: Charge) -> Executable {
        Executable { code: Code::Device(code), backend_data: BackendData::default(), charge }
    }

    /// Charges an executable of `length` bytes, before it is loaded: `BYTES_PER_BYTE_OF_CODE` for each, and the contexts of
    /// the workers that run it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the ledger is used up.
    pub fn charge(length: usize, ledger: &Ledger) -> Result<Charge> {
        ledger.charge((length as u64).saturating_mul(BYTES_PER_BYTE_OF_CODE).saturating_add(WORKER_CONTEXTS))
    }

    /// The functions, in the order of their ordinals.
    #[inline]
    #[must_use]
    pub fn functions(&self) -> &[FunctionInfo] {
        match &self.code {
            Code::Local(code) => code.functions(),
            Code::Device(code) => code.functions(),
        }
    }

    /// The loaded code for the host's processors.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if another kind of device loaded the executable.
    #[inline]
    pub fn local_code(&self) -> Result<&dyn LocalExecutable> {
        match &self.code {
            Code::Local(code) => Ok(&**code),
            Code::Device(_) => Err(of_other_device()),
        }
    }

    /// The loaded code of a device.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if another kind of device loaded the executable.
    pub fn device_code<T: DeviceExecutable>(&self) -> Result<&T> {
        match &self.code {
            Code::Device(code) => (&**code as &dyn Any).downcast_ref().ok_or_else(of_other_device),
            Code::Local(_) => Err(of_other_device()),
        }
    }

    /// What the backend of the device keeps with the executable, made by `init` at first; `None` where another backend keeps
    /// something of another type.
    #[inline]
    pub fn backend_data<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Option<&T> {
        self.backend_data.get_or_init(init)
    }

    /// The ordinal of the function of the given name.
    ///
    /// # Errors
    /// NOT_FOUND where there is none.
    pub fn lookup(&self, name: &str) -> Result<usize> {
        let found = self.position(name.as_bytes());
        found.ok_or_else(|| {
            let count = self.functions().len();
            Error::not_found(format!("executable of {count} functions has none named '{name}'"))
        })
    }

    /// The ordinal of the function whose name has these bytes.
    #[must_use]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        self.functions().iter().position(|function| function.name.as_bytes() == name)
    }

    /// Checks what a dispatch passes against the function that it names, and gives the function's ordinal and what is known of it.
    ///
    /// # Errors
    /// OUT_OF_RANGE for a function that there is not; INVALID_ARGUMENT for another number of constants or bindings.
    pub fn check(&self, function: u64, constants: usize, bindings: usize) -> Result<(usize, &FunctionInfo)> {
        let functions = self.functions();
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
        Ok((index, info))
    }
}

#[cold]
fn of_other_device() -> Error {
    Error::failed_precondition("executable was loaded by a device of another kind and cannot be dispatched on this one")
}
