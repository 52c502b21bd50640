//! Reads tests/models: the models, their variants, and the expected results of calls. tests/models/README.md documents
//! the format of cases.txt.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use incarnate_runtime::bytecode::executable_format::{ARCHITECTURE, SYSTEM_PREFIX};

use super::native::{foreign_formats, is_foreign_plugin, native};
use super::program::Machine;
use super::value::Value;

/// A folder of tests/models.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) folder: PathBuf,
    /// Its modules that this processor runs, one for each variant.
    pub(crate) variants: Vec<PathBuf>,
    /// The number of variants that are for other processors.
    pub(crate) others: usize,
    pub(crate) cases: Vec<Case>,
}

impl Model {
    /// Every case with every variant.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&PathBuf, &Case)> {
        self.variants.iter().flat_map(|variant| self.cases.iter().map(move |case| (variant, case)))
    }
}

/// Consecutive calls on one instance.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Modules that are loaded before the model.
    pub(crate) modules: Vec<PathBuf>,
    /// URIs of the devices, if the model requires certain ones.
    pub(crate) devices: Vec<String>,
    /// Plugins that provide imports of its kernels.
    pub(crate) plugins: Vec<PathBuf>,
    /// Archives of parameters, by scope.
    pub(crate) parameters: Vec<(String, PathBuf)>,
    pub(crate) calls: Vec<Call>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) inputs: Vec<Value>,
    pub(crate) expected: Vec<Value>,
    /// Absolute tolerances by type, and the relative one as `rtol`, except for the defaults.
    pub(crate) tolerances: HashMap<String, f64>,
    /// The name of the expected status; None for success.
    pub(crate) fails: Option<String>,
}

impl Case {
    /// Returns the model's own devices, or else the given one.
    pub(crate) fn machine(&self, device: &str) -> Machine {
        let devices = if self.devices.is_empty() { vec![device.to_owned()] } else { self.devices.clone() };
        Machine { devices, plugins: self.plugins.clone(), parameters: self.parameters.clone() }
    }
}

/// Returns the folder of all models, or the one that `sweep` names.
pub(crate) fn root() -> PathBuf {
    if let Some(folder) = std::env::var_os("INCARNATE_TEST_MODELS") {
        return PathBuf::from(folder);
    }
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/models"));
    folders.find(|folder| folder.is_dir()).expect("tests/models")
}

/// A module file's path within the folder of all models, with slashes on every platform.
#[allow(dead_code, reason = "tests of translated models use it")]
pub(crate) fn key(file: &Path) -> String {
    let file = file.canonicalize().expect("a module file");
    let root = root().canonicalize().expect("tests/models");
    let within = file.strip_prefix(root).expect("a file of tests/models");
    within.display().to_string().replace(std::path::MAIN_SEPARATOR, "/")
}

/// All models, by name, without modules that have no kernels for this platform, and cases that need plugins for others.
pub(crate) fn models() -> Vec<Model> {
    let entries = fs::read_dir(root()).expect("tests/models").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join("cases.txt").exists()).collect();
    folders.sort();
    let is_runnable = |model: &Model| !model.variants.is_empty() && !model.cases.is_empty();
    folders.into_iter().map(read_model).filter(is_runnable).collect()
}

/// Returns true if this platform can run a module; says so if not.
fn is_runnable(module: &Path) -> bool {
    let foreign = foreign_formats(&fs::read(module).expect("a module"), ARCHITECTURE, SYSTEM_PREFIX);
    if let Some(formats) = &foreign {
        println!("skipped: {} has kernels for {formats} only", module.display());
    }
    foreign.is_none()
}

/// Returns true if a file is a module.
fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "vmfb")
}

fn read_model(folder: PathBuf) -> Model {
    let files = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (mut variants, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.filter(|path| is_module(path)).partition(|path| is_runnable(path));
    variants.sort();
    let text = fs::read_to_string(folder.join("cases.txt")).expect("cases.txt");
    let mut cases = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        read_line(&folder, line, &mut cases);
    }
    cases.retain(|case| match case.plugins.iter().find(|plugin| is_foreign_plugin(plugin)) {
        Some(plugin) => {
            println!("skipped: case {} needs {}", case.name, plugin.display());
            false
        }
        None => true,
    });
    Model { folder, variants, others: others.len(), cases }
}

fn read_line(folder: &Path, line: &str, cases: &mut Vec<Case>) {
    if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
        let (devices, plugins, parameters) = (Vec::new(), Vec::new(), Vec::new());
        let (name, modules, calls) = (name.to_owned(), Vec::new(), Vec::new());
        cases.push(Case { name, modules, devices, plugins, parameters, calls });
        return;
    }
    let case = cases.last_mut().expect("a case before its lines");
    if let Some(module) = line.strip_prefix("--module=") {
        case.modules.push(folder.join(module));
        return;
    }
    if let Some(device) = line.strip_prefix("--device=") {
        case.devices.push(device.to_owned());
        return;
    }
    if let Some(plugin) = line.strip_prefix("--executable_plugin=") {
        case.plugins.push(folder.join(native(plugin)));
        return;
    }
    if let Some(parameters) = line.strip_prefix("--parameters=") {
        let (scope, file) = parameters.split_once('=').expect("a scope and a file");
        case.parameters.push((scope.to_owned(), folder.join(file)));
        return;
    }
    if let Some(function) = line.strip_prefix("--function=") {
        let (inputs, expected, tolerances) = (Vec::new(), Vec::new(), HashMap::new());
        case.calls.push(Call { function: function.to_owned(), inputs, expected, tolerances, fails: None });
        return;
    }
    let call = case.calls.last_mut().expect("a function before its arguments");
    if let Some(value) = line.strip_prefix("--input=") {
        call.inputs.push(Value::parse(folder, value));
    } else if let Some(value) = line.strip_prefix("--expected_output=") {
        call.expected.push(Value::parse(folder, value));
    } else if let Some(status) = line.strip_prefix("fails ") {
        call.fails = Some(status.to_owned());
    } else {
        let tolerance = line.strip_prefix("--expected_").and_then(|flag| flag.split_once('='));
        let (name, value) = tolerance.unwrap_or_else(|| panic!("{}: `{line}`", folder.display()));
        let name = name.strip_suffix("_threshold").unwrap_or(name);
        call.tolerances.insert(name.to_owned(), value.parse().expect("a tolerance"));
    }
}
