//! Loading: module files, the native modules that they import from, the device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::hal::Device;
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Linkage, Module, Program};
use incarnate_runtime::{Result, ResultExt};

use super::arguments::ProgramArguments;

/// A program with its state, and the device that it runs on, if it needs one.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) context: Arc<Context>,
    pub(super) device: Option<Arc<Device>>,
}

/// Loads module files after the native modules that they import from. Of `offered` modules those are taken that a file needs.
///
/// # Errors
/// What is wrong with a file, a module that is missing, and what an initialiser fails with.
pub(super) fn load(files: &[PathBuf], arguments: &ProgramArguments, offered: &[Arc<dyn Module>]) -> Result<Loaded> {
    let mut modules: Vec<Arc<dyn Module>> = Vec::new();
    for file in files {
        let module = read_module(file).context(|| format!("loading '{}'", file.display()))?;
        for name in needed(&*module) {
            let provided = modules.iter().any(|other| other.name() == name);
            let offer = offered.iter().find(|other| other.name() == name);
            if let (false, Some(offer)) = (provided, offer) {
                modules.push(offer.clone());
            }
        }
        modules.push(module);
    }
    let limits = if arguments.untrusted { Limits::portable() } else { Limits::default() };
    let context = Context::new(Program::link(modules)?, limits)?;
    Ok(Loaded { context, device: None })
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
