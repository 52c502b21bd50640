//! Functions of the program that kernels may import.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use super::abi::{ImportFunction, ImportTable};
use crate::ExecutablePlugin;
use crate::vm::array;
use crate::{Error, Result};

/// Largest accepted number of imports; compilers emit a handful.
const MAX_IMPORT_COUNT: u32 = 4096;

/// True once a plugin's file was added. If no code of the program adds one, the compiler proves it false and removes
/// the code that opens plugins.
static HAS_FILES: AtomicBool = AtomicBool::new(false);

/// A function that kernels may import, with its context.
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
    /// Creates an import of `function`.
    ///
    /// # Safety
    /// `function` must be callable on any thread, concurrently, with `context` as its second argument, as long as the
    /// [`ImportProvider`] that returns the import lives. It must not unwind, and must accept the parameters that
    /// kernels pass to imports of its name. Kernels call it in the floating-point mode that flushes denormals to zero.
    #[must_use]
    pub unsafe fn new(function: ImportFunction, context: *mut c_void) -> Import {
        Import { function, context }
    }
}

/// Resolves the imports of executables.
pub trait ImportProvider: Send + Sync + fmt::Debug {
    /// Returns the function of a name (without the `?` of optional imports), or `None`.
    fn resolve(&self, name: &str) -> Option<Import>;

    /// Fills the empty entries of an executable's table that this provider knows.
    ///
    /// # Errors
    /// Failures of the provider itself; a missing function is not an error.
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

/// Providers of imports; those added last take precedence. An empty registry provides nothing: executables with
/// required imports do not load.
#[derive(Clone, Debug, Default)]
pub struct ImportRegistry {
    providers: Vec<Provider>,
}

#[derive(Clone, Debug)]
enum Provider {
    Made(Arc<dyn ImportProvider>),
    /// A plugin's file, and the result of opening it.
    File(Arc<(String, OnceLock<Result<Arc<ExecutablePlugin>>>)>),
}

impl ImportRegistry {
    /// Adds a provider, such as an [`ExecutablePlugin`], which takes precedence over the earlier ones.
    pub fn add(&mut self, provider: Arc<dyn ImportProvider>) {
        self.providers.push(Provider::Made(provider));
    }

    /// Adds the file of a plugin, for [`ExecutablePlugin::open`]. It is opened when the first machine-code executable
    /// is loaded, so programs without such executables do not link the code that opens plugins.
    pub fn add_file(&mut self, path: impl Into<String>) {
        HAS_FILES.store(true, Ordering::Relaxed);
        self.providers.push(Provider::File(Arc::new((path.into(), OnceLock::new()))));
    }

    /// Returns the registry with another provider.
    #[must_use]
    pub fn with(mut self, provider: Arc<dyn ImportProvider>) -> ImportRegistry {
        self.add(provider);
        self
    }

    /// Resolves the imports of a table.
    ///
    /// # Errors
    /// NOT_FOUND with the names of all unresolved required imports; errors of providers.
    pub(super) fn resolve(&self, imports: &mut Imports) -> Result<()> {
        for provider in self.providers.iter().rev() {
            match provider {
                Provider::Made(provider) => provider.resolve_all(imports)?,
                Provider::File(file) if HAS_FILES.load(Ordering::Relaxed) => {
                    let (path, plugin) = &**file;
                    plugin.get_or_init(|| ExecutablePlugin::open(path)).clone()?.resolve_all(imports)?;
                }
                // A file provider exists only after the flag was set, and a thread that sees one sees the flag.
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

/// The imports of an executable: their names, and the two parallel arrays that [`Environment`](super::abi::Environment)
/// points to.
#[derive(Debug, Default)]
pub struct Imports {
    entries: Vec<(String, bool)>,
    /// Names as in the library, NUL-terminated, with the `?` of optional ones.
    pub(crate) symbols: Vec<*const c_char>,
    pub(crate) functions: Vec<Option<ImportFunction>>,
    pub(crate) contexts: Vec<*mut c_void>,
}

impl Imports {
    /// Returns the number of imports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the name of an import; empty if it does not exist.
    #[must_use]
    pub fn name(&self, entry: usize) -> &str {
        self.entries.get(entry).map_or("", |entry| &entry.0)
    }

    /// Returns true if kernels can run without it.
    #[must_use]
    pub fn is_optional(&self, entry: usize) -> bool {
        self.entries.get(entry).is_some_and(|entry| entry.1)
    }

    /// Returns true if it is resolved.
    #[must_use]
    pub fn is_resolved(&self, entry: usize) -> bool {
        self.functions.get(entry).is_some_and(Option::is_some)
    }

    /// Resolves it.
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
    /// `table.symbols` must be null or point to `table.count` pointers, each null or a NUL-terminated string, valid as
    /// long as the returned value lives.
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
        imports.functions = array::filled(imports.len(), None)?;
        imports.contexts = array::filled(imports.len(), core::ptr::null_mut())?;
        Ok(imports)
    }
}
