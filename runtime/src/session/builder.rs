//! Sessions and their builder, which loads modules, provides the native modules that they import, and links them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Session, incompatible};
use crate::bytecode::{Contents, VerifiedModule};
use crate::devices::default_device;
use crate::hal::local::loaders::Loader;
use crate::hal::local::{ExecutableLoader, Loaders};
use crate::hal::{Allocator, Device, DeviceOptions, DriverRegistry, InputsOnlyRead, PendingOperations};
use crate::mapping::MappedFile;
use crate::modules::{TraceSink, hal, hal_inline, hal_loader, io_parameters};
use crate::parameters::{FileAccess, ParameterIndex, ParameterProvider, ScopedIndex};
use crate::vm::{BytecodeModule, Context, Limits, Linkage, Module, Program};
use crate::{Error, Result, ResultExt};

/// Collects the modules, devices and options of a [`Session`].
#[derive(Debug)]
#[must_use]
pub struct SessionBuilder {
    devices: Vec<DeviceChoice>,
    device_options: DeviceOptions,
    modules: Vec<ModuleChoice>,
    reading: Reading,
    /// Interpreted code may compute float reductions in another order.
    reassociate: bool,
    natives: &'static [Native],
    loaders: &'static [Loader],
    program_loaders: Vec<Arc<dyn ExecutableLoader>>,
    offered: Vec<Arc<dyn Module>>,
    limits: Option<Limits>,
    kernel_limits: Option<Limits>,
    is_untrusted: bool,
    trace_sink: TraceSink,
    parameters: Parameters,
    inputs_only_read: Option<InputsOnlyRead>,
}

impl Default for SessionBuilder {
    fn default() -> SessionBuilder {
        SessionBuilder { loaders: Loader::ALL, ..SessionBuilder::with_natives(natives::ALL) }
    }
}

/// Creates a device from its URI. The pointer is the only reference to the drivers, so that the linker drops unused
/// ones; see [`Load`].
type CreateDevice = fn(&str, DeviceOptions) -> Result<Arc<Device>>;

fn create_by_driver(uri: &str, options: DeviceOptions) -> Result<Arc<Device>> {
    DriverRegistry::default().create_device(uri, options)
}

#[derive(Debug)]
enum DeviceChoice {
    Uri(String, CreateDevice),
    Existing(Arc<Device>),
}

/// A parameter archive under a scope.
#[derive(Debug)]
struct ParameterFile {
    scope: String,
    path: PathBuf,
    access: FileAccess,
}

/// Opens files, and returns a provider for each scope of them. The pointer is the only reference to indices and archive formats; see
/// [`Load`].
type OpenFiles = fn(Vec<ParameterFile>) -> Result<Vec<Arc<dyn ParameterProvider>>>;

fn open_files(files: Vec<ParameterFile>) -> Result<Vec<Arc<dyn ParameterProvider>>> {
    let mut indices: Vec<(String, ParameterIndex)> = Vec::new();
    for ParameterFile { scope, path, access } in files {
        match indices.iter_mut().find(|(other, _)| *other == scope) {
            Some((_, index)) => index.add_file(&path, access)?,
            None => {
                let mut index = ParameterIndex::new();
                index.add_file(&path, access)?;
                indices.push((scope, index));
            }
        }
    }
    let provider = |(scope, index)| -> Arc<dyn ParameterProvider> { Arc::new(ScopedIndex::new(scope, index)) };
    Ok(indices.into_iter().map(provider).collect())
}

/// Where parameters come from.
#[derive(Debug, Default)]
struct Parameters {
    providers: Vec<Arc<dyn ParameterProvider>>,
    files: Vec<ParameterFile>,
    /// Set where there are files.
    open_files: Option<OpenFiles>,
}

/// Creates a module from a file's bytes. The pointer is the only reference to the interpreter, so that the linker drops
/// it from programs that add no module files. The flag is that of [`SessionBuilder::reassociate`].
type Load = fn(Contents, bool) -> Result<Arc<dyn Module>>;

/// The same for a file, which is read or mapped.
type LoadFile = fn(&Path, Reading, bool) -> Result<Arc<dyn Module>>;

/// How module files get into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Copied,
    Mapped,
}

#[derive(Debug)]
enum ModuleChoice {
    File(PathBuf, LoadFile),
    Contents(Contents, Load),
    Existing(Arc<dyn Module>),
}

fn load_interpreted(contents: Contents, reassociate: bool) -> Result<Arc<dyn Module>> {
    let verified = VerifiedModule::load(Arc::new(contents))?;
    Ok(if reassociate { BytecodeModule::reassociating(verified)? } else { BytecodeModule::new(verified)? })
}

fn load_file(path: &Path, reading: Reading, reassociate: bool) -> Result<Arc<dyn Module>> {
    let contents = match reading {
        Reading::Copied => Contents::read(path)?,
        Reading::Mapped => MappedFile::contents(path)?,
    };
    load_interpreted(contents, reassociate).context(|| format!("loading '{}'", path.display()))
}

/// A native module that sessions provide to the modules that import from it.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    name: &'static str,
    create: fn(&mut Natives<'_>) -> Result<Arc<dyn Module>>,
}

/// The native modules that sessions provide. Their names are those in [`PROVIDED`](crate::modules::imports::PROVIDED).
pub mod natives {
    use super::{Arc, Native, Natives, Result, hal, hal_inline, hal_loader, io_parameters};

    macro_rules! natives {
        ($($(#[$attribute:meta])* $constant:ident: $module:ident, $options:ident;)*) => {
            $($(#[$attribute])*
            pub const $constant: Native = Native {
                name: $module::NAME,
                create: |session| Ok(Arc::new($module::module($options(session)?))),
            };)*

            /// All native modules.
            pub const ALL: &[Native] = &[$($constant),*];

            /// The same modules without packed calls, for sessions that contain only translated modules.
            pub mod direct {
                use super::{Arc, Native, hal, hal_inline, hal_loader, io_parameters};

                $($(#[$attribute])*
                pub const $constant: Native = Native {
                    name: $module::NAME,
                    create: |session| Ok(Arc::new($module::direct_module(super::$options(session)?))),
                };)*

                /// All native modules.
                pub const ALL: &[Native] = &[$($constant),*];
            }
        };
    }
    natives! {
        /// `hal`.
        HAL: hal, hal_options;
        /// `hal_inline`.
        HAL_INLINE: hal_inline, hal_inline_options;
        /// `hal_loader`.
        HAL_LOADER: hal_loader, hal_loader_options;
        /// `io_parameters`.
        IO_PARAMETERS: io_parameters, io_parameters_options;
    }

    fn hal_options(session: &mut Natives<'_>) -> Result<hal::HalOptions> {
        let (devices, loaders) = (session.devices()?, session.loaders.clone());
        let (trace_sink, pending) = (session.builder.trace_sink.clone(), Arc::clone(&session.pending));
        Ok(hal::HalOptions { devices, trace_sink, loaders, pending })
    }

    fn io_parameters_options(session: &mut Natives<'_>) -> Result<io_parameters::IoParametersOptions> {
        let pending = Arc::clone(&session.pending);
        Ok(io_parameters::IoParametersOptions { providers: session.parameters()?, pending })
    }

    fn hal_inline_options(session: &mut Natives<'_>) -> Result<hal_inline::HalInlineOptions> {
        Ok(hal_inline::HalInlineOptions {
            allocator: session.allocator()?,
            trace_sink: session.builder.trace_sink.clone(),
        })
    }

    fn hal_loader_options(session: &mut Natives<'_>) -> Result<hal_loader::HalLoaderOptions> {
        let (device, imports) = match session.chosen_device()? {
            Some(device) => (device.loaders().map(<[_]>::to_vec), device.imports().clone()),
            None => (session.builder.device_options.loaders.clone(), session.builder.device_options.imports.clone()),
        };
        Ok(hal_loader::HalLoaderOptions { loaders: session.loaders.clone(), device, imports })
    }
}

impl SessionBuilder {
    /// Creates a builder without modules and devices. The program can import from the given native modules and from
    /// those that are offered; executables need explicit loaders. Native modules that are not listed are not linked
    /// into the binary.
    pub fn with_natives(natives: &'static [Native]) -> SessionBuilder {
        SessionBuilder {
            devices: Vec::new(),
            device_options: DeviceOptions::default(),
            modules: Vec::new(),
            reading: Reading::Mapped,
            reassociate: false,
            natives,
            loaders: &[],
            program_loaders: Vec::new(),
            offered: Vec::new(),
            limits: None,
            kernel_limits: None,
            is_untrusted: false,
            trace_sink: TraceSink::default(),
            parameters: Parameters::default(),
            inputs_only_read: None,
        }
    }

    /// Adds a device by its URI, such as `local-sync`; the first one is the default. A program that needs a device and
    /// is given none uses this build's default device.
    pub fn device(mut self, uri: impl Into<String>) -> SessionBuilder {
        self.devices.push(DeviceChoice::Uri(uri.into(), create_by_driver));
        self
    }

    /// Sets the options for the devices that are added by URI, and for the default device.
    pub fn device_options(mut self, options: DeviceOptions) -> SessionBuilder {
        self.device_options = options;
        self
    }

    /// Adds an existing device, which several sessions can share.
    pub fn shared_device(mut self, device: Arc<Device>) -> SessionBuilder {
        self.devices.push(DeviceChoice::Existing(device));
        self
    }

    /// Adds a module file. Its code is copied and verified; its constants are mapped. If another process changes the file while
    /// the session lives, constants change; if it truncates the file, an access to them ends the process.
    /// [`SessionBuilder::read_module_files`] and [`SessionBuilder::module_bytes`] depend on no file.
    pub fn module_file(mut self, path: impl Into<PathBuf>) -> SessionBuilder {
        self.modules.push(ModuleChoice::File(path.into(), load_file));
        self.with_all_loaders()
    }

    /// Reads all module files into memory instead of mapping them: for files that others may change.
    pub fn read_module_files(mut self) -> SessionBuilder {
        self.reading = Reading::Copied;
        self
    }

    /// Lets module files and kernels that are bytecode compute float reductions in another order than that of the bytecode: sums along
    /// adjacent elements, for example, in partial sums. That is faster, and results may differ by rounding. They are the same on every
    /// processor, and those of code that was translated with `Config::reassociate`. Translated code is as it was translated.
    pub fn reassociate(mut self, reassociate: bool) -> SessionBuilder {
        self.reassociate = reassociate;
        self
    }

    /// Adds a module file's bytes.
    pub fn module_bytes(mut self, bytes: Vec<u8>) -> SessionBuilder {
        self.modules.push(ModuleChoice::Contents(Contents::from_vec(bytes), load_interpreted));
        self.with_all_loaders()
    }

    /// Adds a module that is embedded in the program, for example by `include_bytes!`.
    pub fn module_static(mut self, bytes: &'static [u8]) -> SessionBuilder {
        self.modules.push(ModuleChoice::Contents(Contents::Static(bytes), load_interpreted));
        self.with_all_loaders()
    }

    /// Enables all loaders: an interpreted module does not declare which ones it needs.
    fn with_all_loaders(mut self) -> SessionBuilder {
        self.loaders = Loader::ALL;
        self
    }

    /// Adds an existing module: a verified one that sessions share, or one written in Rust.
    pub fn module(mut self, module: Arc<dyn Module>) -> SessionBuilder {
        self.modules.push(ModuleChoice::Existing(module));
        self
    }

    /// Offers a native module. It is linked only if another module imports it.
    pub fn offer(mut self, module: Arc<dyn Module>) -> SessionBuilder {
        self.offered.push(module);
        self
    }

    /// Adds an executable loader, such as a [static library loader](crate::hal::local::loaders::StaticLibraryLoader).
    /// It takes precedence over the built-in loaders, on every device.
    pub fn executable_loader(mut self, loader: Arc<dyn ExecutableLoader>) -> SessionBuilder {
        self.program_loaders.push(loader);
        self
    }

    /// Adds a parameter archive under a scope; the empty scope serves programs that name none. Formats: `.irpa`, any
    /// bytes as `.bin`, and with the feature `parameters-formats` also `.gguf`, `.safetensors`, `.npy` and `.npz`.
    ///
    /// Among several files of one scope, earlier ones take precedence. The files are opened by
    /// [`build`](SessionBuilder::build); [`FileAccess`] states what each kind of access requires.
    ///
    /// Translated modules take archives in the same way:
    /// `Module::load_with(Session::builder().shared_device(device).parameter_file(...))`.
    pub fn parameter_file(
        mut self,
        scope: impl Into<String>,
        path: impl Into<PathBuf>,
        access: FileAccess,
    ) -> SessionBuilder {
        self.parameters.files.push(ParameterFile { scope: scope.into(), path: path.into(), access });
        self.parameters.open_files = Some(open_files);
        self
    }

    /// Adds a parameter provider. The first provider of a scope serves it; these providers come before files.
    pub fn parameters(mut self, provider: impl ParameterProvider + 'static) -> SessionBuilder {
        self.parameters.providers.push(Arc::new(provider));
        self
    }

    /// Lets the modules be anyone's: refuses machine code on every device, and limits memory, objects, steps and time by
    /// [`Limits::portable`], unless [`limits`](SessionBuilder::limits) sets others. Module files are read into memory, as by
    /// [`read_module_files`](SessionBuilder::read_module_files), because another program may change them. Devices that the session
    /// creates hold no more memory than the program may. The order of the builder's methods does not matter.
    ///
    /// The flag `--untrusted` of the command line, `untrusted` of `include_module!` and `untrusted=True` of the Python package do the
    /// same.
    ///
    /// ```
    /// use incarnate_runtime::session::{Session, Tensor};
    /// use incarnate_runtime::StatusCode;
    /// # fn main() -> incarnate_runtime::Result<()> {
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/simple_mul");
    /// # let (portable, machine_code) = (format!("{folder}/vmvx.vmfb"), format!("{folder}/llvm-cpu.vmfb"));
    /// let session = Session::builder().device("local-sync").module_file(portable).untrusted().build()?;
    /// assert!(session.context().limits().ledger.is_limited());
    ///
    /// let refused = Session::builder().device("local-sync").module_file(machine_code).untrusted().build();
    /// # #[cfg(target_arch = "x86_64")]
    /// assert_eq!(refused.unwrap_err().code(), StatusCode::PermissionDenied);
    /// # Ok(())
    /// # }
    /// ```
    pub fn untrusted(mut self) -> SessionBuilder {
        self.is_untrusted = true;
        self.read_module_files()
    }

    /// Sets the limits of calls; see [`SessionBuilder::untrusted`] for modules of anyone's. Sessions with clones of the same limits
    /// share the ledger and the deadline. Kernels in bytecode take their steps, their time and their memory from the call
    /// that submits them. Translated code counts steps only if it was translated as untrusted.
    pub fn limits(mut self, limits: Limits) -> SessionBuilder {
        self.limits = Some(limits);
        self
    }

    /// Sets separate limits of memory and stack for bytecode kernels. The default is the limits of calls.
    pub fn kernel_limits(mut self, limits: Limits) -> SessionBuilder {
        self.kernel_limits = Some(limits);
        self
    }

    /// Sets the sink of the tensors that the program traces.
    pub fn trace_sink(mut self, sink: TraceSink) -> SessionBuilder {
        self.trace_sink = sink;
        self
    }

    /// Lets typed functions of translated modules pass borrowed slices to machine code as well. The caller promises
    /// that the machine code only reads them; see [`InputsOnlyRead`]. Bytecode executables need no promise.
    pub fn borrow_inputs(mut self, promise: InputsOnlyRead) -> SessionBuilder {
        self.inputs_only_read = Some(promise);
        self
    }

    /// Returns the limits of calls and those of kernels. Those of an untrusted module bound the memory of devices, too.
    fn resolved_limits(&mut self) -> Result<(Limits, Limits)> {
        let default = if self.is_untrusted { Limits::portable } else { Limits::default };
        let mut limits = self.limits.take().unwrap_or_else(default);
        limits.machine_code &= !self.is_untrusted;
        let mut kernel_limits = self.kernel_limits.take().unwrap_or_else(|| limits.clone());
        kernel_limits.machine_code &= limits.machine_code;
        if self.is_untrusted {
            let memory_limit = &mut self.device_options.memory_limit;
            *memory_limit = limits.ledger.byte_limit().min(*memory_limit);
        }
        let refused = self.program_loaders.iter().find(|loader| !kernel_limits.machine_code && !loader.is_verifying());
        match refused {
            Some(loader) => Err(Error::permission_denied(format!(
                "the program's executable loader {} runs machine code, which SessionBuilder::untrusted and Limits::portable refuse: \
                 remove the loader from the session, or load the module without them if you trust its author",
                loader.name()
            ))),
            None => Ok((limits, kernel_limits)),
        }
    }

    /// Loads, verifies and links the modules and runs their initialisers.
    ///
    /// # Errors
    /// Errors of loading, verifying and linking, and those of the initialisers.
    pub fn build(mut self) -> Result<Session> {
        let (limits, kernel_limits) = self.resolved_limits()?;
        let loaders = Loaders::named(self.loaders).with(&self.program_loaders);
        let loaders = loaders.within(kernel_limits).reassociating(self.reassociate);
        let (reading, reassociate, inputs_only_read) = (self.reading, self.reassociate, self.inputs_only_read);
        let load = |choice: ModuleChoice| choice.load(reading, reassociate);
        let loaded = core::mem::take(&mut self.modules).into_iter().map(load).collect::<Result<Vec<_>>>()?;
        let mut natives =
            Natives { builder: &mut self, loaders, devices: None, allocator: None, pending: Arc::default() };
        for module in &loaded {
            natives.loaders = natives.loaders.for_targets(&module.executable_targets());
        }
        let mut modules: Vec<Arc<dyn Module>> = Vec::new();
        for module in loaded {
            for name in needed(&*module) {
                if !modules.iter().any(|other| other.name() == name) {
                    modules.extend(natives.provide(name)?);
                }
            }
            modules.push(module);
        }
        // Files of parameters that no module asked for are opened, too: a wrong name is an error.
        natives.parameters()?;
        let devices: Arc<[Arc<Device>]> = natives.devices.unwrap_or_default().into();
        let of_device = || devices.first().map(|device| device.allocator().clone());
        let allocator = natives.allocator.or_else(of_device).unwrap_or_default();
        let context = Context::new(Program::link(modules)?, limits);
        let context = context.map_err(|error| incompatible::explain(error, &devices, &natives.loaders))?;
        Ok(Session { context, devices, allocator, inputs_only_read })
    }
}

impl ModuleChoice {
    fn load(self, reading: Reading, reassociate: bool) -> Result<Arc<dyn Module>> {
        match self {
            ModuleChoice::Existing(module) => Ok(module),
            ModuleChoice::Contents(contents, load) => load(contents, reassociate).context(|| "loading a module"),
            ModuleChoice::File(path, load) => load(&path, reading, reassociate),
        }
    }
}

/// The native modules that others may import from. Each is created at its first import.
#[derive(Debug)]
struct Natives<'b> {
    builder: &'b mut SessionBuilder,
    loaders: Loaders,
    /// The devices, created at the first use.
    devices: Option<Vec<Arc<Device>>>,
    /// The allocator of programs without a device, created at the first use.
    allocator: Option<Arc<Allocator>>,
    pending: Arc<PendingOperations>,
}

impl Natives<'_> {
    /// Returns the module of the given name if it is one of these.
    fn provide(&mut self, name: &str) -> Result<Option<Arc<dyn Module>>> {
        if let Some(module) = self.builder.offered.iter().find(|module| module.name() == name) {
            return Ok(Some(module.clone()));
        }
        let Some(native) = self.builder.natives.iter().find(|native| native.name == name) else { return Ok(None) };
        (native.create)(self).map(Some)
    }

    /// Returns the parameter providers: the explicit ones, then one for each scope of files.
    fn parameters(&mut self) -> Result<Vec<Arc<dyn ParameterProvider>>> {
        let Parameters { mut providers, files, open_files } = std::mem::take(&mut self.builder.parameters);
        if let Some(open_files) = open_files {
            providers.extend(open_files(files)?);
        }
        Ok(providers)
    }

    /// Returns the first explicit device, if any. Inline programs use its memory and its loaders.
    fn chosen_device(&mut self) -> Result<Option<Arc<Device>>> {
        if self.builder.devices.is_empty() && self.devices.is_none() {
            return Ok(None);
        }
        Ok(self.devices()?.first().cloned())
    }

    /// Returns the allocator of programs without a device.
    fn allocator(&mut self) -> Result<Arc<Allocator>> {
        if let Some(allocator) = &self.allocator {
            return Ok(allocator.clone());
        }
        let device = self.chosen_device()?;
        let allocator = match device {
            Some(device) => device.allocator().clone(),
            None => Arc::new(Allocator::with_limit(self.builder.device_options.memory_limit)),
        };
        self.allocator = Some(allocator.clone());
        Ok(allocator)
    }

    fn devices(&mut self) -> Result<Vec<Arc<Device>>> {
        if let Some(devices) = &self.devices {
            return Ok(devices.clone());
        }
        let SessionBuilder { devices: choices, device_options, .. } = &mut *self.builder;
        if choices.is_empty() {
            choices.push(DeviceChoice::Existing(default_device(device_options.clone())));
        }
        let make = |choice: DeviceChoice| match choice {
            DeviceChoice::Uri(uri, create) => create(&uri, device_options.clone()),
            DeviceChoice::Existing(device) => Ok(device),
        };
        let devices = std::mem::take(choices).into_iter().map(make).collect::<Result<Vec<_>>>()?;
        self.devices = Some(devices.clone());
        Ok(devices)
    }
}

/// Returns the names of the modules that a module imports from, some of them several times. Assembled modules do not declare
/// their dependencies.
fn needed(module: &dyn Module) -> impl Iterator<Item = &str> {
    let declared = (0..).map_while(|index| module.dependency(index)).map(|dependency| dependency.name);
    let imports = (0..).map_while(|index| module.function(Linkage::Import, index));
    let imported = imports.filter_map(|import| import.name.split_once('.')).map(|(name, _)| name);
    declared.chain(imported)
}

impl Session {
    /// Creates a builder without modules and devices.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Loads one module file on one device.
    ///
    /// # Errors
    /// Those of [`SessionBuilder::build`].
    pub fn load(device: impl Into<String>, path: impl Into<PathBuf>) -> Result<Session> {
        Session::builder().device(device).module_file(path).build()
    }

    /// Returns the devices; empty if no module needs one.
    #[must_use]
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// Returns the devices, shared.
    pub(crate) fn device_list(&self) -> &Arc<[Arc<Device>]> {
        &self.devices
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
