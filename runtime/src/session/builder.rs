//! Sessions and how they are built: modules loaded, the native ones they import provided, all of them linked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytecode::{Contents, VerifiedModule};
use crate::hal::local::loaders::Loader;
use crate::hal::local::{ExecutableLoader, Loaders};
use crate::hal::{Allocator, Device, DeviceOptions, DriverRegistry, InputsOnlyRead, default_device};
use crate::mapping::MappedFile;
use crate::modules::{TraceSink, hal, hal_inline, hal_loader, io_parameters};
use crate::parameters::{FileAccess, ParameterIndex, ParameterProvider, ScopedIndex};
use crate::vm::{self, BytecodeModule, Context, Limits, Linkage, Module, Program};
use crate::{Result, ResultExt};

use super::function::Function;

/// A program with its state, on its devices: what functions are found in and called.
///
/// Clones share everything. Calls from several threads run at once; they share the program's globals.
#[derive(Clone, Debug)]
pub struct Session {
    context: Arc<Context>,
    devices: Arc<[Arc<Device>]>,
    allocator: Arc<Allocator>,
    inputs_only_read: Option<InputsOnlyRead>,
}

/// Collects what a [`Session`] is made of.
#[derive(Debug)]
#[must_use]
pub struct SessionBuilder {
    devices: Vec<DeviceChoice>,
    device_options: DeviceOptions,
    modules: Vec<ModuleChoice>,
    natives: &'static [Native],
    loaders: &'static [Loader],
    own_loaders: Vec<Arc<dyn ExecutableLoader>>,
    offered: Vec<Arc<dyn Module>>,
    limits: Option<Limits>,
    kernel_limits: Option<Limits>,
    trace_sink: TraceSink,
    parameters: Vec<ParameterChoice>,
    inputs_only_read: Option<InputsOnlyRead>,
}

impl Default for SessionBuilder {
    fn default() -> SessionBuilder {
        SessionBuilder { loaders: Loader::ALL, ..SessionBuilder::with_natives(natives::ALL) }
    }
}

/// Makes the device of an address. Drivers are reached by these pointers alone, as interpretation is by [`Load`].
type MakeDevice = fn(&str, DeviceOptions) -> Result<Arc<Device>>;

fn of_drivers(uri: &str, options: DeviceOptions) -> Result<Arc<Device>> {
    DriverRegistry::default().create_device(uri, options)
}

#[derive(Debug)]
enum DeviceChoice {
    Uri(String, MakeDevice),
    Made(Arc<Device>),
}

/// Adds a file to an index. Formats of archives are reached by these pointers alone, as interpretation is by [`Load`].
type AddFile = fn(&mut ParameterIndex, &Path, FileAccess) -> Result<()>;

#[derive(Debug)]
enum ParameterChoice {
    /// Scope and file.
    File(String, PathBuf, FileAccess, AddFile),
    Made(Arc<dyn ParameterProvider>),
}

/// Makes a module of a file's bytes. Interpretation is reached by these pointers alone, so that programs that add no files have
/// no interpreter in them.
type Load = fn(Contents) -> Result<Arc<dyn Module>>;

#[derive(Debug)]
enum ModuleChoice {
    File(PathBuf, Load),
    Contents(Contents, Load),
    Made(Arc<dyn Module>),
}

fn interpreted(contents: Contents) -> Result<Arc<dyn Module>> {
    let module: Arc<dyn Module> = VerifiedModule::load(Arc::new(contents)).and_then(BytecodeModule::new)?;
    Ok(module)
}

/// A native module that sessions provide to those that import from it.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    name: &'static str,
    make: fn(&mut Natives) -> Result<Arc<dyn Module>>,
}

/// The native modules that sessions provide; their names are those of [`PROVIDED`](crate::modules::imports::PROVIDED).
pub mod natives {
    use super::{Arc, Native, Natives, Result, hal, hal_inline, hal_loader, io_parameters};

    macro_rules! natives {
        ($($(#[$attribute:meta])* $constant:ident: $module:ident, $options:ident;)*) => {
            $($(#[$attribute])*
            pub const $constant: Native = Native {
                name: $module::NAME,
                make: |session| Ok(Arc::new($module::module($options(session)?))),
            };)*

            /// All of them.
            pub const ALL: &[Native] = &[$($constant),*];

            /// The same, for sessions of translated modules alone: these have no packed calls.
            pub mod direct {
                use super::{Arc, Native, hal, hal_inline, hal_loader, io_parameters};

                $($(#[$attribute])*
                pub const $constant: Native = Native {
                    name: $module::NAME,
                    make: |session| Ok(Arc::new($module::direct_module(super::$options(session)?))),
                };)*

                /// All of them.
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

    fn hal_options(session: &mut Natives) -> Result<hal::HalOptions> {
        let (devices, loaders) = (session.devices()?, session.loaders.clone());
        Ok(hal::HalOptions { devices, trace_sink: session.trace_sink.clone(), loaders })
    }

    fn io_parameters_options(session: &mut Natives) -> Result<io_parameters::IoParametersOptions> {
        Ok(io_parameters::IoParametersOptions { providers: session.parameters()? })
    }

    fn hal_inline_options(session: &mut Natives) -> Result<hal_inline::HalInlineOptions> {
        Ok(hal_inline::HalInlineOptions { allocator: session.allocator()?, trace_sink: session.trace_sink.clone() })
    }

    fn hal_loader_options(session: &mut Natives) -> Result<hal_loader::HalLoaderOptions> {
        let (device, imports) = match session.chosen_device()? {
            Some(device) => (device.loaders().map(<[_]>::to_vec), device.imports().clone()),
            None => (session.device_options.loaders.clone(), session.device_options.imports.clone()),
        };
        Ok(hal_loader::HalLoaderOptions { loaders: session.loaders.clone(), device, imports })
    }
}

impl SessionBuilder {
    /// A builder without modules and devices, for programs that import from these native modules at most and from those that
    /// are offered, and that bring along their loaders of executables. What nobody names is not linked into the program.
    pub fn with_natives(natives: &'static [Native]) -> SessionBuilder {
        SessionBuilder {
            devices: Vec::new(),
            device_options: DeviceOptions::default(),
            modules: Vec::new(),
            natives,
            loaders: &[],
            own_loaders: Vec::new(),
            offered: Vec::new(),
            limits: None,
            kernel_limits: None,
            trace_sink: TraceSink::default(),
            parameters: Vec::new(),
            inputs_only_read: None,
        }
    }

    /// Adds a device by its address, such as `local-sync`; the first one is the default. Without any, programs that need a
    /// device get the default one of this build.
    pub fn device(mut self, uri: impl Into<String>) -> SessionBuilder {
        self.devices.push(DeviceChoice::Uri(uri.into(), of_drivers));
        self
    }

    /// Says how devices are made that are given by their addresses, and the default one.
    pub fn device_options(mut self, options: DeviceOptions) -> SessionBuilder {
        self.device_options = options;
        self
    }

    /// Adds a device that was made before, to share it between sessions.
    pub fn shared_device(mut self, device: Arc<Device>) -> SessionBuilder {
        self.devices.push(DeviceChoice::Made(device));
        self
    }

    /// Adds a module file, which is mapped: it must not change while the session lives.
    pub fn module_file(mut self, path: impl Into<PathBuf>) -> SessionBuilder {
        self.modules.push(ModuleChoice::File(path.into(), interpreted));
        self.with_all_loaders()
    }

    /// Adds a module file's bytes.
    pub fn module_bytes(mut self, bytes: Vec<u8>) -> SessionBuilder {
        self.modules.push(ModuleChoice::Contents(Contents::from_vec(bytes), interpreted));
        self.with_all_loaders()
    }

    /// Adds a module file that is part of the program, as `include_bytes!` makes it.
    pub fn module_static(mut self, bytes: &'static [u8]) -> SessionBuilder {
        self.modules.push(ModuleChoice::Contents(Contents::Static(bytes), interpreted));
        self.with_all_loaders()
    }

    /// Interpreted modules do not say which loaders they need.
    fn with_all_loaders(mut self) -> SessionBuilder {
        self.loaders = Loader::ALL;
        self
    }

    /// Adds a module that was made before: a verified one shared between sessions, or one written in Rust.
    pub fn module(mut self, module: Arc<dyn Module>) -> SessionBuilder {
        self.modules.push(ModuleChoice::Made(module));
        self
    }

    /// Offers a native module to those that import it; it is part of the program only if one does.
    pub fn offer(mut self, module: Arc<dyn Module>) -> SessionBuilder {
        self.offered.push(module);
        self
    }

    /// Adds a loader of executables, which is asked before others and on every device, such as one of
    /// [static libraries](crate::hal::local::loaders::StaticLibraryLoader).
    pub fn executable_loader(mut self, loader: Arc<dyn ExecutableLoader>) -> SessionBuilder {
        self.own_loaders.push(loader);
        self
    }

    /// Adds an archive of parameters (`.irpa`, any bytes as `.bin`, and with the feature `parameters-formats` `.gguf`,
    /// `.safetensors`, `.npy` and `.npz`), for programs that read them under a scope; the empty scope is that of programs that name none. Of several files of one scope, those that
    /// come first take precedence. Files are opened when the session is built; see [`FileAccess`] for what that asks of them.
    ///
    /// Translated modules take them likewise: `Module::load_with(Session::builder().shared_device(device).parameter_file(...))`.
    pub fn parameter_file(
        mut self,
        scope: impl Into<String>,
        path: impl Into<PathBuf>,
        access: FileAccess,
    ) -> SessionBuilder {
        self.parameters.push(ParameterChoice::File(scope.into(), path.into(), access, ParameterIndex::add_file));
        self
    }

    /// Adds a provider of parameters; the first that has a scope serves it, those of this method before files.
    pub fn parameters(mut self, provider: impl ParameterProvider + 'static) -> SessionBuilder {
        self.parameters.push(ParameterChoice::Made(Arc::new(provider)));
        self
    }

    /// Says what a call may use up; see [`Limits::portable`] for modules of unknown origin. Kernels that are bytecode, interpreted
    /// or translated, share the memory; stack and fuel are those of each call and of each workgroup. Translated code counts no
    /// fuel.
    pub fn limits(mut self, limits: Limits) -> SessionBuilder {
        self.limits = Some(limits);
        self
    }

    /// Says what kernels that are bytecode may use up, where that is not what calls may.
    pub fn kernel_limits(mut self, limits: Limits) -> SessionBuilder {
        self.kernel_limits = Some(limits);
        self
    }

    /// Says where tensors go that the program traces.
    pub fn trace_sink(mut self, sink: TraceSink) -> SessionBuilder {
        self.trace_sink = sink;
        self
    }

    /// Lets typed functions of translated modules lend slices to machine code, too, by the program's promise that it only reads
    /// them; see [`InputsOnlyRead`]. Where executables are bytecode no promise is needed.
    pub fn lend_inputs(mut self, promise: InputsOnlyRead) -> SessionBuilder {
        self.inputs_only_read = Some(promise);
        self
    }

    /// Loads, verifies and links the modules and runs their initialisers.
    ///
    /// # Errors
    /// What is wrong with a file, a module or device that is missing, and what an initialiser fails with.
    pub fn build(self) -> Result<Session> {
        let limits = self.limits.unwrap_or_default();
        let kernel_limits = self.kernel_limits.unwrap_or_else(|| limits.clone());
        let mut natives = Natives {
            known: self.natives,
            loaders: Loaders::named(self.loaders).with(&self.own_loaders).within(kernel_limits),
            choices: self.devices,
            device_options: self.device_options,
            offered: self.offered,
            trace_sink: self.trace_sink,
            parameters: self.parameters,
            devices: None,
            allocator: None,
        };
        let mut modules: Vec<Arc<dyn Module>> = Vec::new();
        for choice in self.modules {
            let module = choice.load()?;
            for name in needed(&*module) {
                if !modules.iter().any(|other| other.name() == name) {
                    modules.extend(natives.provide(name)?);
                }
            }
            modules.push(module);
        }
        let devices: Arc<[Arc<Device>]> = natives.devices.unwrap_or_default().into();
        let of_device = || devices.first().map(|device| device.allocator().clone());
        let allocator = natives.allocator.or_else(of_device).unwrap_or_default();
        let context = Context::new(Program::link(modules)?, limits)?;
        Ok(Session { context, devices, allocator, inputs_only_read: self.inputs_only_read })
    }
}

impl ModuleChoice {
    fn load(self) -> Result<Arc<dyn Module>> {
        match self {
            ModuleChoice::Made(module) => Ok(module),
            ModuleChoice::Contents(contents, load) => load(contents).context(|| "loading a module"),
            ModuleChoice::File(path, load) => {
                load(MappedFile::contents(&path)?).context(|| format!("loading '{}'", path.display()))
            }
        }
    }
}

/// The native modules that others may import from, made when one does.
#[derive(Debug)]
struct Natives {
    known: &'static [Native],
    loaders: Loaders,
    choices: Vec<DeviceChoice>,
    device_options: DeviceOptions,
    offered: Vec<Arc<dyn Module>>,
    trace_sink: TraceSink,
    parameters: Vec<ParameterChoice>,
    /// The devices, once a module needed them.
    devices: Option<Vec<Arc<Device>>>,
    /// The allocator of programs without a device, once one needed it.
    allocator: Option<Arc<Allocator>>,
}

impl Natives {
    /// The module of a name, if it is one of these.
    fn provide(&mut self, name: &str) -> Result<Option<Arc<dyn Module>>> {
        if let Some(module) = self.offered.iter().find(|module| module.name() == name) {
            return Ok(Some(module.clone()));
        }
        let Some(native) = self.known.iter().find(|native| native.name == name) else { return Ok(None) };
        (native.make)(self).map(Some)
    }

    /// The providers of parameters: those that were made, then one for each scope of files.
    fn parameters(&mut self) -> Result<Vec<Arc<dyn ParameterProvider>>> {
        let mut providers: Vec<Arc<dyn ParameterProvider>> = Vec::new();
        let mut indices: Vec<(String, ParameterIndex)> = Vec::new();
        for choice in std::mem::take(&mut self.parameters) {
            let (scope, path, access, add_file) = match choice {
                ParameterChoice::Made(provider) => {
                    providers.push(provider);
                    continue;
                }
                ParameterChoice::File(scope, path, access, add_file) => (scope, path, access, add_file),
            };
            match indices.iter_mut().find(|(other, _)| *other == scope) {
                Some((_, index)) => add_file(index, &path, access)?,
                None => {
                    let mut index = ParameterIndex::new();
                    add_file(&mut index, &path, access)?;
                    indices.push((scope, index));
                }
            }
        }
        providers.extend(indices.into_iter().map(|(scope, index)| {
            let provider: Arc<dyn ParameterProvider> = Arc::new(ScopedIndex::new(scope, index));
            provider
        }));
        Ok(providers)
    }

    /// The first device that was asked for, if any was: programs that run inline use its memory and its loaders.
    fn chosen_device(&mut self) -> Result<Option<Arc<Device>>> {
        if self.choices.is_empty() && self.devices.is_none() {
            return Ok(None);
        }
        Ok(self.devices()?.first().cloned())
    }

    /// Where buffers of programs without a device are allocated.
    fn allocator(&mut self) -> Result<Arc<Allocator>> {
        if let Some(allocator) = &self.allocator {
            return Ok(allocator.clone());
        }
        let device = self.chosen_device()?;
        let allocator = match device {
            Some(device) => device.allocator().clone(),
            None => Arc::new(Allocator::with_limit(self.device_options.memory_limit)),
        };
        self.allocator = Some(allocator.clone());
        Ok(allocator)
    }

    fn devices(&mut self) -> Result<Vec<Arc<Device>>> {
        if let Some(devices) = &self.devices {
            return Ok(devices.clone());
        }
        if self.choices.is_empty() {
            self.choices.push(DeviceChoice::Made(default_device(self.device_options.clone())));
        }
        let make = |choice: DeviceChoice| match choice {
            DeviceChoice::Uri(uri, make) => make(&uri, self.device_options.clone()),
            DeviceChoice::Made(device) => Ok(device),
        };
        let devices = std::mem::take(&mut self.choices).into_iter().map(make).collect::<Result<Vec<_>>>()?;
        self.devices = Some(devices.clone());
        Ok(devices)
    }
}

/// Names of the modules that a module imports from, each once. Assembled modules do not declare their dependencies.
fn needed(module: &dyn Module) -> Vec<&str> {
    let declared = (0..).map_while(|index| module.dependency(index)).map(|dependency| dependency.name);
    let imports = (0..).map_while(|index| module.function(Linkage::Import, index));
    let imported = imports.filter_map(|import| import.name.split_once('.')).map(|(name, _)| name);
    let mut names: Vec<&str> = Vec::new();
    for name in declared.chain(imported) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Session {
    /// A builder without modules and devices.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// A session of one module file on a device.
    ///
    /// # Errors
    /// Those of [`SessionBuilder::build`].
    pub fn load(device: impl Into<String>, path: impl Into<PathBuf>) -> Result<Session> {
        Session::builder().device(device).module_file(path).build()
    }

    /// Finds an exported function: `function`, or `module.function`.
    ///
    /// # Errors
    /// NOT_FOUND; INVALID_ARGUMENT for a malformed calling convention.
    pub fn function(&self, name: &str) -> Result<Function> {
        Function::new(self.context.function(name)?)
    }

    /// The functions that the last module exports for callers. Those whose names begin with `__` or contain `$` serve the
    /// runtime.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed calling convention.
    pub fn functions(&self) -> Result<Vec<Function>> {
        let modules = self.context.program().modules();
        let Some(module) = modules.last() else { return Ok(Vec::new()) };
        let exports = (0..).map_while(|export| Some((export, module.function(Linkage::Export, export)?)));
        let public = exports.filter(|(_, info)| !info.name.starts_with("__") && !info.name.contains('$'));
        public.map(|(export, _)| Function::new(self.context.export(modules.len() - 1, export)?)).collect()
    }

    /// The VM's view of the session.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The devices; none where no module needs one.
    #[must_use]
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// Where tensors for this session are allocated: on the first device, or on the host where there is none.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.allocator
    }

    /// The promise that arguments are only read, if it was given.
    pub(crate) fn inputs_only_read(&self) -> Option<InputsOnlyRead> {
        self.inputs_only_read
    }

    /// Tells the program of an event of the hosting program, such as a shortage of memory.
    ///
    /// # Errors
    /// What a module fails with.
    pub fn notify(&self, signal: vm::Signal) -> Result<()> {
        self.context.notify(signal)
    }

    /// Copies the program's state: globals are the child's own, and what they refer to is shared.
    ///
    /// # Errors
    /// UNIMPLEMENTED where a module's state cannot be copied.
    pub fn fork(&self) -> Result<Session> {
        let context = self.context.fork()?;
        Ok(Session { context, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provided_modules_are_listed() {
        let names: Vec<&str> = natives::ALL.iter().map(|native| native.name).collect();
        let listed: Vec<&str> = crate::modules::imports::PROVIDED.iter().map(|row| row.0).collect();
        assert_eq!(names, listed);
    }
}
