//! Loading: module files, the native modules that they import from, the device.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::hal::format::format_tensor;
use incarnate_runtime::hal::{BufferView, Device, DeviceOptions, DriverRegistry};
use incarnate_runtime::modules::hal;
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Linkage, Module, Program};
use incarnate_runtime::{Result, ResultExt};

use super::arguments::ProgramArguments;

/// A program with its state, and the device that it runs on, if it needs one.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) context: Arc<Context>,
    pub(super) device: Option<Arc<Device>>,
}

/// Loads module files after the native modules that they import from. Of `offered` modules those are taken that a file
/// needs, and of the runtime's own ones, too.
///
/// # Errors
/// What is wrong with a file, a module that is missing, and what an initialiser fails with.
pub(super) fn load(files: &[PathBuf], arguments: &ProgramArguments, offered: &[Arc<dyn Module>]) -> Result<Loaded> {
    let mut natives = Natives { arguments, offered, devices: None };
    let mut modules: Vec<Arc<dyn Module>> = Vec::new();
    for file in files {
        let module = read_module(file).context(|| format!("loading '{}'", file.display()))?;
        for name in needed(&*module) {
            if !modules.iter().any(|other| other.name() == name) {
                modules.extend(natives.provide(name)?);
            }
        }
        modules.push(module);
    }
    let device = natives.devices.and_then(|devices| devices.first().cloned());
    let limits = if arguments.untrusted { Limits::portable() } else { Limits::default() };
    let context = Context::new(Program::link(modules)?, limits)?;
    Ok(Loaded { context, device })
}

/// The native modules that files may import from, made when one does.
struct Natives<'a> {
    arguments: &'a ProgramArguments,
    offered: &'a [Arc<dyn Module>],
    /// The devices, once a module needed them.
    devices: Option<Vec<Arc<Device>>>,
}

impl Natives<'_> {
    /// The module of a name, if it is one of these.
    fn provide(&mut self, name: &str) -> Result<Option<Arc<dyn Module>>> {
        Ok(match name {
            hal::NAME => {
                let trace_sink = hal::TraceSink::new(print_trace);
                Some(Arc::new(hal::module(hal::HalOptions { devices: self.devices()?, trace_sink })))
            }
            _ => self.offered.iter().find(|module| module.name() == name).cloned(),
        })
    }

    fn devices(&mut self) -> Result<Vec<Arc<Device>>> {
        if let Some(devices) = &self.devices {
            return Ok(devices.clone());
        }
        let registry = DriverRegistry::default();
        let default = [String::new()];
        let uris = if self.arguments.device.is_empty() { &default[..] } else { &self.arguments.device };
        let devices = uris.iter().map(|uri| registry.create_device(uri, DeviceOptions::default()));
        let devices = devices.collect::<Result<Vec<_>>>()?;
        self.devices = Some(devices.clone());
        Ok(devices)
    }
}

/// Prints buffer views that a program traces, as the peer does.
fn print_trace(key: &str, views: &[Arc<BufferView>]) -> Result<()> {
    let mut text = format!("=== {key} ===\n");
    for view in views {
        let mut bytes = vec![0; usize::try_from(view.byte_length()).unwrap_or(0)];
        view.buffer().read(0, &mut bytes)?;
        format_tensor(&mut text, view.shape(), view.element_type(), &bytes, usize::MAX)?;
        text.push('\n');
    }
    text.push('\n');
    std::io::stderr().write_all(text.as_bytes()).context(|| "tracing")
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

fn read_module(file: &Path) -> Result<Arc<BytecodeModule>> {
    let contents = Contents::map(file)?;
    BytecodeModule::new(VerifiedModule::load(Arc::new(contents))?)
}
