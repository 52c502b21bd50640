//! Executables: loaded device code, as programs hold it.

use alloc::format;
use alloc::sync::Arc;

use super::local::LocalExecutable;
use crate::{Error, Result, ref_object};

/// Loaded device code (`!hal.executable`): functions that dispatches name by ordinal.
#[derive(Debug)]
pub struct Executable {
    code: Arc<dyn LocalExecutable>,
}

ref_object!(Executable, "hal.executable");

impl Executable {
    /// Wraps loaded code.
    #[must_use]
    pub fn new(code: Arc<dyn LocalExecutable>) -> Executable {
        Executable { code }
    }

    /// The loaded code.
    #[inline]
    #[must_use]
    pub fn code(&self) -> &dyn LocalExecutable {
        &*self.code
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
}
