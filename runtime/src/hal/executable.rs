//! Executables: loaded device code, as programs hold it.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

use super::local::LocalExecutable;
use super::local::cost::Cost;
use crate::{Error, Result, ref_object};

/// Loaded device code (`!hal.executable`): functions that dispatches name by ordinal.
#[derive(Debug)]
pub struct Executable {
    code: Arc<dyn LocalExecutable>,
    /// What a workgroup of each function was measured to cost.
    costs: Box<[Cost]>,
}

ref_object!(Executable, "hal.executable");

impl Executable {
    /// Wraps loaded code.
    #[must_use]
    pub fn new(code: Arc<dyn LocalExecutable>) -> Executable {
        let costs = code.functions().iter().map(|_| Cost::default()).collect();
        Executable { code, costs }
    }

    /// The loaded code.
    #[inline]
    #[must_use]
    pub fn code(&self) -> &dyn LocalExecutable {
        &*self.code
    }

    /// What a workgroup of a function was measured to cost.
    #[inline]
    pub(super) fn cost(&self, function: usize) -> Option<&Cost> {
        self.costs.get(function)
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
