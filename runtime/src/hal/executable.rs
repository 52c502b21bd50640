//! Executables: loaded device code, as programs hold it.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

use super::local::LocalExecutable;
use super::local::cost::{Cost, Ways};
use super::local::task::Comparison;
use crate::{Error, Result, ref_object};

/// Loaded device code (`!hal.executable`): functions that dispatches name by ordinal.
#[derive(Debug)]
pub struct Executable {
    code: Arc<dyn LocalExecutable>,
    /// What each function was measured to cost.
    costs: Box<[FunctionCost]>,
}

/// What a workgroup of a function was measured to cost.
#[derive(Debug, Default)]
struct FunctionCost {
    /// The time that a thread spends on it.
    own: Cost,
    /// What a dispatch takes for each.
    ways: Ways,
    /// Of command buffers whose first dispatch that may gain by help is one of this function.
    comparison: Comparison,
}

ref_object!(Executable, "hal.executable");

impl Executable {
    /// Wraps loaded code.
    #[must_use]
    pub fn new(code: Arc<dyn LocalExecutable>) -> Executable {
        let costs = code.functions().iter().map(|_| FunctionCost::default()).collect();
        Executable { code, costs }
    }

    /// The loaded code.
    #[inline]
    #[must_use]
    pub fn code(&self) -> &dyn LocalExecutable {
        &*self.code
    }

    /// What a workgroup of a function was measured to cost a thread.
    #[inline]
    pub(super) fn cost(&self, function: usize) -> Option<&Cost> {
        self.costs.get(function).map(|cost| &cost.own)
    }

    /// What a dispatch of a function takes for each workgroup.
    #[inline]
    pub(super) fn ways(&self, function: usize) -> Option<&Ways> {
        self.costs.get(function).map(|cost| &cost.ways)
    }

    /// Whether command buffers gain by help whose first dispatch that may is one of this function.
    #[inline]
    pub(super) fn comparison(&self, function: usize) -> Option<&Comparison> {
        self.costs.get(function).map(|cost| &cost.comparison)
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
