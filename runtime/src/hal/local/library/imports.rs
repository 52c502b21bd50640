//! Functions of the program that kernels may call.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use super::abi::{ImportFunction, ImportTable};
use crate::hal::local::ExecutablePlugin;
use crate::{Error, Result};

/// Largest number of imports that is believed; the compiler writes a handful.
const MAX_IMPORT_COUNT: u32 = 4096;

/// Whether a plugin's file was ever added. Where nothing of a program adds one the compiler knows it to be false, and leaves
/// out what opens them.
static HAS_FILES: AtomicBool = AtomicBool::new(false);

/// A function that kernels may call, with the context that it is passed.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    pub(super) function: ImportFunction,
    pub(super) context: *mut c_void,
}

// SAFETY: by the contract of `Import::new` the function takes the context on any thread.
unsafe impl Send for Import {}
// SAFETY: as above.
unsafe impl Sync for Import {}

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

    /// Fills those entries of an executable's table that are empty and that this provider has.
    ///
    /// # Errors
    /// What kept the provider from looking, not that it lacks a function.
    fn resolve_all(&self, imports: &mut Imports) -> Result<()> {
        for entry in 0..imports.len() {
            if !imports.is_resolved(entry)
                && let Some(import) = self.resolve(imports.name(entry))
            {
                imports.set(entry, import);
            }
        }
        Ok(())
    }
}

/// Providers of imports, of which the one that was added last is asked first. Empty, it provides nothing: executables with
/// required imports do not load.
#[derive(Clone, Debug, Default)]
pub struct ImportRegistry {
    providers: Vec<Provider>,
}

#[derive(Clone, Debug)]
enum Provider {
    Made(Arc<dyn ImportProvider>),
    /// A plugin's file, with what came of opening it.
    File(Arc<(String, OnceLock<Result<Arc<ExecutablePlugin>>>)>),
}

impl ImportRegistry {
    /// Adds a provider, such as an [`ExecutablePlugin`], which is asked before the others.
    pub fn add(&mut self, provider: Arc<dyn ImportProvider>) {
        self.providers.push(Provider::Made(provider));
    }

    /// Adds the plugin of a file, as [`ExecutablePlugin::open`] takes it, which is opened when the first executable of machine
    /// code is loaded. Programs without such executables have nothing to open plugins with in them.
    pub fn add_file(&mut self, path: impl Into<String>) {
        HAS_FILES.store(true, Ordering::Relaxed);
        self.providers.push(Provider::File(Arc::new((path.into(), OnceLock::new()))));
    }

    /// The registry with a further provider.
    #[must_use]
    pub fn with(mut self, provider: Arc<dyn ImportProvider>) -> ImportRegistry {
        self.add(provider);
        self
    }

    /// Resolves what a table needs.
    ///
    /// # Errors
    /// NOT_FOUND with the names of all required imports that nobody has, and what providers report.
    pub(super) fn resolve(&self, imports: &mut Imports) -> Result<()> {
        for provider in self.providers.iter().rev() {
            match provider {
                Provider::Made(provider) => provider.resolve_all(imports)?,
                Provider::File(file) if HAS_FILES.load(Ordering::Relaxed) => {
                    let (path, plugin) = &**file;
                    plugin.get_or_init(|| ExecutablePlugin::open(path)).clone()?.resolve_all(imports)?;
                }
                // There is none before one was added, which is seen by whoever sees the provider.
                Provider::File(_) => {}
            }
        }
        let missing = (0..imports.len()).filter(|entry| !imports.is_resolved(*entry) && !imports.is_optional(*entry));
        let missing: Vec<String> = missing.map(|entry| format!("`{}`", imports.name(entry))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::not_found(format!("executable imports functions that nothing provides: {}", missing.join(", "))))
    }
}

/// The imports of an executable: their names, and the two parallel arrays that
/// [`Environment`](super::abi::Environment) points to.
#[derive(Debug, Default)]
pub struct Imports {
    entries: Vec<(String, bool)>,
    /// Names as the library has them, NUL-terminated, with the `?` of optional ones.
    pub(in crate::hal::local) symbols: Vec<*const c_char>,
    pub(in crate::hal::local) functions: Vec<Option<ImportFunction>>,
    pub(in crate::hal::local) contexts: Vec<*mut c_void>,
}

impl Imports {
    /// The number of imports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The name of an import; empty where there is none.
    #[must_use]
    pub fn name(&self, entry: usize) -> &str {
        self.entries.get(entry).map_or("", |entry| &entry.0)
    }

    /// Whether kernels do without it.
    #[must_use]
    pub fn is_optional(&self, entry: usize) -> bool {
        self.entries.get(entry).is_some_and(|entry| entry.1)
    }

    /// Whether it has been provided.
    #[must_use]
    pub fn is_resolved(&self, entry: usize) -> bool {
        self.functions.get(entry).is_some_and(Option::is_some)
    }

    /// Provides it.
    pub fn set(&mut self, entry: usize, import: Import) {
        if let (Some(function), Some(context)) = (self.functions.get_mut(entry), self.contexts.get_mut(entry)) {
            *function = Some(import.function);
            *context = import.context;
        }
    }

    /// Reads the table of a library.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a damaged table.
    ///
    /// # Safety
    /// `table.symbols` must be null or point to `table.count` pointers, each null or a NUL-terminated string, for as long as
    /// the value lives.
    pub(super) unsafe fn read(table: &ImportTable) -> Result<Imports> {
        let mut imports = Imports::default();
        if table.count == 0 {
            return Ok(imports);
        }
        if table.count > MAX_IMPORT_COUNT || table.symbols.is_null() {
            let count = table.count;
            return Err(Error::invalid_argument(format!(
                "executable declares {count} imports; the limit is {MAX_IMPORT_COUNT} and their names must be present"
            )));
        }
        for ordinal in 0..table.count as usize {
            // SAFETY: `symbols` is not null (checked above), so by contract it has `count` entries.
            let symbol = unsafe { *table.symbols.add(ordinal) };
            if symbol.is_null() {
                return Err(Error::invalid_argument(format!("import {ordinal} of the executable has no name")));
            }
            imports.symbols.push(symbol);
            // SAFETY: not null (checked above), so by contract a NUL-terminated string.
            let symbol = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
            let (name, is_optional) = symbol.strip_prefix('?').map_or((&*symbol, false), |name| (name, true));
            imports.entries.push((name.into(), is_optional));
        }
        imports.functions.resize(imports.len(), None);
        imports.contexts.resize(imports.len(), core::ptr::null_mut());
        Ok(imports)
    }
}

/// The [`ImportThunk`](super::abi::ImportThunk) of libraries: calls the function as it is, for kernels use the C calling
/// convention of the host.
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
