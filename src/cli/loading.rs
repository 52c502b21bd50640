//! Loading: module files, the native modules that they import from, the device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::hal::Device;
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Module, Program};
use incarnate_runtime::{Error, Result, ResultExt};

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
        for dependency in (0..).map_while(|index| module.dependency(index)) {
            let provided = modules.iter().any(|other| other.name() == dependency.name);
            let offer = offered.iter().find(|other| other.name() == dependency.name);
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

fn read_module(file: &Path) -> Result<Arc<BytecodeModule>> {
    let contents = Contents::map(file)?;
    BytecodeModule::new(VerifiedModule::load(Arc::new(contents))?)
}
