//! Executable plugins: libraries of functions that kernels import.

pub mod abi;
mod allocator;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ffi::c_void;
use core::{fmt, ptr};
use std::path::Path;

use self::abi::{
    PLUGIN_EXPORT_NAME, PLUGIN_FEATURE_FULL_STATUS, PLUGIN_FEATURE_STANDALONE, PLUGIN_RESOLUTION_MISSING_OPTIONAL,
    PLUGIN_SANITIZER_NONE, PLUGIN_STATUS_CODE_MASK, PLUGIN_VERSION_0_1, Plugin, PluginEnvironment, PluginHeader,
    PluginParameter, PluginQueryFunction, PluginResolve, PluginStatus, PluginText,
};
use super::library::abi::ImportFunction;
use super::library::{Import, ImportProvider, Imports, text};
use super::loaders::{DynamicLibrary, elf};
use crate::bytecode::read_regular_file;
use crate::{Error, Result, ResultExt, StatusCode};

/// The path prefix of a plugin that is an embedded ELF.
const EMBEDDED_PREFIX: &str = "embedded:";
/// The alternative file suffix of such plugins.
const EMBEDDED_SUFFIX: &str = ".sos";

/// A loaded plugin. It is unloaded when the last executable that uses it is dropped.
///
/// Its code is trusted: it runs with all rights of the process.
pub struct ExecutablePlugin {
    plugin: Plugin,
    state: *mut c_void,
    name: String,
    /// The plugin's allocator.
    _environment: Box<PluginEnvironment>,
    /// Keeps the code in memory. Declared last, so that it is dropped last.
    _code: Box<dyn Any + Send + Sync>,
}

// SAFETY: by the ABI a plugin is loaded and asked from any thread, several at once; its state is passed to it alone.
unsafe impl Send for ExecutablePlugin {}
// SAFETY: as above.
unsafe impl Sync for ExecutablePlugin {}

impl fmt::Debug for ExecutablePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutablePlugin").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ExecutablePlugin {
    /// Loads a plugin file: a system library, or an embedded ELF if the name ends with `.sos` or begins with
    /// `embedded:`.
    ///
    /// # Errors
    /// NOT_FOUND if the file does not exist or is not a plugin; INVALID_ARGUMENT for a damaged file; INCOMPATIBLE for
    /// another machine or version; errors of the plugin itself.
    pub fn open(path: &str) -> Result<Arc<ExecutablePlugin>> {
        let (embedded, file) = match path.strip_prefix(EMBEDDED_PREFIX) {
            Some(file) => (true, file),
            None => (path.ends_with(EMBEDDED_SUFFIX), path),
        };
        let load = || if embedded { open_embedded(file) } else { open_library(file) };
        load().map(Arc::new).context(|| format!("loading the executable plugin '{file}'"))
    }

    /// Loads a plugin that is linked into the program, with parameters.
    ///
    /// # Errors
    /// INCOMPATIBLE for another version; errors of the plugin itself.
    ///
    /// # Safety
    /// `query` must be the query function of a plugin that follows the ABI, in code that stays in memory.
    pub unsafe fn linked(query: PluginQueryFunction, parameters: &[(&str, &str)]) -> Result<Arc<ExecutablePlugin>> {
        // SAFETY: as the caller's.
        let loaded = unsafe { load(query, 0, parameters, Box::new(())) };
        loaded.map(Arc::new).context(|| "loading an executable plugin")
    }

    /// Returns the plugin's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets the plugin fill entries.
    ///
    /// # Errors
    /// Errors of the plugin, except for missing functions.
    ///
    /// # Safety
    /// The pointers must refer to arrays of `count` entries, with NUL-terminated names. The arrays of functions and
    /// contexts must live as long as the plugin's functions are called: the plugin may change its own entries.
    unsafe fn resolve_entries(&self, entries: &PluginResolve) -> Result<()> {
        let Some(resolve) = self.plugin.resolve else { return Ok(()) };
        let mut resolution = 0;
        // SAFETY: the entries are the caller's, and the function and the state are the plugin's, whose code stays.
        let status = unsafe { resolve(self.state, entries, &raw mut resolution) };
        if resolution & !PLUGIN_RESOLUTION_MISSING_OPTIONAL != 0 {
            return Err(Error::internal(format!(
                "plugin `{}` returned unknown resolution flags {resolution:#x}",
                self.name
            )));
        }
        match check(status) {
            Err(error) if error.code() == StatusCode::NotFound => Ok(()),
            other => other.context(|| format!("resolving imports with the plugin `{}`", self.name)),
        }
    }
}

impl Drop for ExecutablePlugin {
    fn drop(&mut self) {
        if let Some(unload) = self.plugin.unload {
            // SAFETY: the state is what the plugin made, and nothing of it is called any more: executables keep the plugin.
            unsafe { unload(self.state) };
        }
    }
}

impl ImportProvider for ExecutablePlugin {
    fn resolve(&self, name: &str) -> Option<Import> {
        let name = CString::new(name).ok()?;
        let (names, mut function, mut context) = (name.as_ptr(), ptr::null_mut(), ptr::null_mut());
        let entry = PluginResolve { count: 1, names: &names, functions: &raw mut function, contexts: &raw mut context };
        // SAFETY: each array has one entry. That they go is no harm to a plugin that follows the ABI: it may change entries
        // only of functions that are called, and kernels are given what `resolve_all` makes.
        unsafe { self.resolve_entries(&entry) }.ok()?;
        let function = ptr::NonNull::new(function)?.as_ptr();
        // SAFETY: by the ABI a plugin writes functions of that type, which can be called as `Import::new` asks.
        Some(unsafe { Import::new(core::mem::transmute::<*mut c_void, ImportFunction>(function), context) })
    }

    fn resolve_all(&self, imports: &mut Imports) -> Result<()> {
        let entries = PluginResolve {
            count: imports.len(),
            names: imports.symbols.as_ptr(),
            functions: imports.functions.as_mut_ptr().cast(),
            contexts: imports.contexts.as_mut_ptr(),
        };
        // SAFETY: the three arrays have as many entries as there are imports; an optional function pointer is an address
        // or null. The executable keeps them, and the plugin, as long as its kernels run.
        unsafe { self.resolve_entries(&entries) }
    }
}

fn open_library(path: &str) -> Result<ExecutablePlugin> {
    // SAFETY: the caller trusts the code of the plugins that it names.
    let library = unsafe { DynamicLibrary::open(Path::new(path)) }?;
    let query = library.symbol(PLUGIN_EXPORT_NAME)?.as_ptr();
    // SAFETY: a non-null address of code; data and function pointers have the same size where there are libraries.
    let query = unsafe { core::mem::transmute::<*mut c_void, PluginQueryFunction>(query) };
    // SAFETY: the symbol has the name that the ABI reserves for query functions, and the library is kept open.
    unsafe { load(query, 0, &[], Box::new(library)) }
}

fn open_embedded(path: &str) -> Result<ExecutablePlugin> {
    let Some(host) = elf::Machine::HOST else {
        return Err(Error::incompatible("embedded ELF plugins are not supported on this host"));
    };
    if cfg!(all(windows, target_arch = "x86_64")) {
        return Err(Error::unimplemented(
            "embedded ELF plugins have another calling convention than this host: use a library",
        ));
    }
    let contents = read_regular_file(Path::new(path))?;
    let image = elf::ElfImage::load(&contents, host, PLUGIN_EXPORT_NAME)?;
    // SAFETY: as for libraries of the system.
    let query = unsafe { core::mem::transmute::<*mut c_void, PluginQueryFunction>(image.symbol().as_ptr()) };
    // SAFETY: as for libraries of the system; the image keeps the code.
    unsafe { load(query, PLUGIN_FEATURE_STANDALONE, &[], Box::new(image)) }
}

/// Queries and loads a plugin with at least the given features. `code` keeps it in memory.
///
/// # Safety
/// That of [`ExecutablePlugin::linked`], for code that stays in memory until `code` is dropped.
unsafe fn load(
    query: PluginQueryFunction,
    features: u32,
    parameters: &[(&str, &str)],
    code: Box<dyn Any + Send + Sync>,
) -> Result<ExecutablePlugin> {
    // SAFETY: by contract a query function.
    let description = unsafe { query(PLUGIN_VERSION_0_1, ptr::null_mut()) };
    if description.is_null() {
        return Err(Error::incompatible("plugin does not support version 0.1 of the plugin ABI"));
    }
    // SAFETY: not null, so by the ABI it points to the pointer to the plugin's header.
    let header = unsafe { *description };
    if header.is_null() {
        return Err(Error::invalid_argument("plugin has no header"));
    }
    // SAFETY: not null, so a header.
    let header: PluginHeader = unsafe { *header };
    // SAFETY: by the ABI null or NUL-terminated.
    let name = unsafe { text(header.name) };
    if header.version != PLUGIN_VERSION_0_1 {
        let version = header.version;
        return Err(Error::incompatible(format!(
            "plugin `{name}` has version {version} of the plugin ABI instead of 1"
        )));
    }
    if header.sanitizer != PLUGIN_SANITIZER_NONE {
        let sanitizer = header.sanitizer;
        return Err(Error::incompatible(format!(
            "plugin `{name}` was built with sanitizer {sanitizer}, which this runtime does not support"
        )));
    }
    let known = PLUGIN_FEATURE_STANDALONE | PLUGIN_FEATURE_FULL_STATUS;
    if header.features & !known != 0 || header.features & features != features {
        let has = header.features;
        return Err(Error::incompatible(format!(
            "plugin `{name}` has features {has:#x}; wanted are {features:#x} of {known:#x}"
        )));
    }
    // SAFETY: by the ABI the header's pointer is the first field of the description of this version.
    let plugin = unsafe { *description.cast::<Plugin>() };
    let environment = Box::new(PluginEnvironment { allocator: allocator::ALLOCATOR });
    let of = |text: &str| PluginText { data: text.as_ptr().cast(), size: text.len() };
    let parameters: Vec<PluginParameter> =
        parameters.iter().map(|(key, value)| PluginParameter { key: of(key), value: of(value) }).collect();
    let mut state = ptr::null_mut();
    if let Some(load) = plugin.load {
        // SAFETY: the environment lives as long as the plugin, the parameters as long as the call.
        let status = unsafe { load(&raw const *environment, parameters.len(), parameters.as_ptr(), &raw mut state) };
        check(status).context(|| format!("plugin `{name}`"))?;
    }
    Ok(ExecutablePlugin { plugin, state, name, _environment: environment, _code: code })
}

/// Converts a plugin's status to a result. The format of status messages is IREE's own, so only the code is read.
fn check(status: PluginStatus) -> Result<()> {
    match status.addr() {
        0 => Ok(()),
        address => {
            let code = u32::try_from(address & PLUGIN_STATUS_CODE_MASK).unwrap_or_default();
            let code = StatusCode::from_raw(code).unwrap_or(StatusCode::Unknown);
            Err(Error::new(code, "plugin failed".to_owned()))
        }
    }
}
