//! Functions of the program that kernels may call.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int, c_void};
use core::fmt;

use super::abi::{ImportFunction, ImportTable};
use crate::{Error, Result};

/// Largest number of imports that is believed; the compiler writes a handful.
const MAX_IMPORT_COUNT: u32 = 4096;

/// A function that kernels may call, with the context that it is passed.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    function: ImportFunction,
    context: *mut c_void,
}

impl Import {
    /// Makes an import of `function`.
    ///
    /// # Safety
    /// `function` must be callable on any thread, several at once, with `context` as its second argument, for as long as
    /// the [`ImportProvider`] that returns the import lives. It must not unwind, and must accept the parameters that
    /// kernels which ask for its name pass. Kernels call it with the floating-point mode that flushes denormals to zero.
    #[must_use]
    pub unsafe fn new(function: ImportFunction, context: *mut c_void) -> Import {
        Import { function, context }
    }
}

/// Resolves the imports of executables.
pub trait ImportProvider: Send + Sync + fmt::Debug {
    /// The function of that name (without the `?` of optional imports), or `None` where there is none.
    fn resolve(&self, name: &str) -> Option<Import>;
}

/// Provides nothing: executables with required imports do not load.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoImports;

impl ImportProvider for NoImports {
    fn resolve(&self, _name: &str) -> Option<Import> {
        None
    }
}

/// The two parallel arrays that [`Environment`](super::abi::Environment) points to.
#[derive(Debug, Default)]
pub(super) struct ResolvedImports {
    pub(super) functions: Vec<Option<ImportFunction>>,
    pub(super) contexts: Vec<*mut c_void>,
}

impl ResolvedImports {
    /// Resolves every import of `table`.
    ///
    /// # Errors
    /// NOT_FOUND with the names of all required imports that `provider` does not have; INVALID_ARGUMENT for a damaged
    /// table.
    ///
    /// # Safety
    /// `table.symbols` must be null or point to `table.count` pointers, each null or a NUL-terminated string.
    pub(super) unsafe fn resolve(table: &ImportTable, provider: &dyn ImportProvider) -> Result<ResolvedImports> {
        if table.count == 0 {
            return Ok(ResolvedImports::default());
        }
        if table.count > MAX_IMPORT_COUNT || table.symbols.is_null() {
            let count = table.count;
            return Err(Error::invalid_argument(format!(
                "executable declares {count} imports; the limit is {MAX_IMPORT_COUNT} and their names must be present"
            )));
        }
        let mut resolved = ResolvedImports::default();
        let mut missing: Vec<String> = Vec::new();
        for ordinal in 0..table.count as usize {
            // SAFETY: `symbols` is not null (checked above), so by contract it has `count` entries.
            let symbol = unsafe { *table.symbols.add(ordinal) };
            if symbol.is_null() {
                return Err(Error::invalid_argument(format!("import {ordinal} of the executable has no name")));
            }
            // SAFETY: not null (checked above), so by contract a NUL-terminated string.
            let symbol = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
            let (name, optional) = symbol.strip_prefix('?').map_or((&*symbol, false), |name| (name, true));
            let import = provider.resolve(name);
            if import.is_none() && !optional {
                missing.push(format!("`{name}`"));
            }
            resolved.functions.push(import.map(|import| import.function));
            resolved.contexts.push(import.map_or(core::ptr::null_mut(), |import| import.context));
        }
        if missing.is_empty() {
            return Ok(resolved);
        }
        Err(Error::not_found(format!("executable imports functions that nothing provides: {}", missing.join(", "))))
    }
}

/// The [`ImportThunk`](super::abi::ImportThunk) of embedded and system libraries: calls the function as it is, for kernels
/// use the C calling convention of the host.
///
/// # Safety
/// As [`ImportFunction`].
pub(super) unsafe extern "C" fn call_import(
    function: ImportFunction,
    parameters: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int {
    // SAFETY: the kernel passes an entry of the environment's import table with its context, which `Import::new`
    // promises to be callable.
    unsafe { function(parameters, context, reserved) }
}
