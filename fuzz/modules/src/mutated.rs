//! Runs mutants through the commands that take files of untrusted modules.
//!
//! The commands run in this process, as functions of the command line, so that 100,000 mutants take minutes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use incarnate_runtime::bytecode::{
    Archive, Contents, ConventionItem, DECLARATION, Declaration, DeclaredValue, Module, VerifiedModule,
};

use crate::case::{GROWTH, Outcome};
use crate::mutation::{Base, mutant};
use crate::process::{self, Memory};
use crate::sessions::{BYTES, DEVICES, FUEL, OBJECTS};

/// The time of a command, with its limits.
const LONGEST: Duration = Duration::from_secs(10);
/// Seconds of a call.
const TIMEOUT: u64 = 2;
/// Exports of a mutant that are called.
const CALLS: usize = 3;
/// Elements of the largest tensor that is an argument.
const ELEMENTS: u64 = 1 << 16;

/// Runs mutants in a folder of their own.
#[derive(Debug)]
pub struct Runner {
    bases: Vec<Base>,
    folder: PathBuf,
}

impl Runner {
    /// Creates a runner. From now on a panic of any thread ends the process.
    #[must_use]
    pub fn new(bases: Vec<Base>, folder: &Path) -> Runner {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            hook(panic);
            std::process::abort();
        }));
        Runner { bases, folder: folder.to_owned() }
    }

    /// Runs the mutant of a seed.
    #[must_use]
    pub fn run(&self, seed: u64) -> Outcome {
        let (base, bytes) = mutant(&self.bases, seed);
        let mut outcome = Outcome::default();
        if let Err(error) = self.commands(seed, base, &bytes, &mut outcome) {
            outcome.findings.push(format!("no files: {error}"));
        }
        outcome.findings.iter_mut().for_each(|finding| finding.push_str(&format!(" ({})", base.name)));
        outcome
    }

    fn commands(&self, seed: u64, base: &Base, bytes: &[u8], outcome: &mut Outcome) -> io::Result<()> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let (file, source) = (path("mutant.vmfb"), path("mutant.rs"));
        fs::create_dir_all(&self.folder)?;
        fs::write(&file, bytes)?;
        let memory = Memory::begin();
        let program = program(seed, base);
        execute(&[&words(&["check", &file, "--jobs=1"]), &program], outcome)?;
        execute(&[&words(&["dump", &file, "--untrusted"])], outcome)?;
        execute(&[&words(&["translate", &file, "--untrusted", "-o", &source])], outcome)?;
        let contents = Arc::new(Contents::copy_from(bytes));
        outcome.is_verified = VerifiedModule::load(contents.clone()).is_ok();
        if outcome.is_verified
            && let Ok(module) = Archive::new(contents).and_then(Module::parse)
        {
            let mut lines = Vec::new();
            for (name, inputs) in calls(&module, seed) {
                let call = words(&["run", &format!("--module={file}"), &format!("--function={name}")]);
                let result = if execute(&[&call, &inputs, &program], outcome)? { "OK" } else { "failed" };
                lines.push(format!("@{name}: {result}"));
            }
            outcome.calls.push(lines);
        }
        if let Some(growth) = memory.growth().filter(|growth| *growth > GROWTH) {
            outcome.findings.push(format!("overshoot: the process grew by {growth} bytes"));
        }
        self.clear(outcome)
    }

    /// Removes the files of a mutant. Their names begin with its name.
    fn clear(&self, outcome: &mut Outcome) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            if !name.to_string_lossy().starts_with("mutant") {
                outcome.findings.push(format!("a file beside the output: {name:?}"));
            }
        }
        fs::remove_dir_all(&self.folder)
    }
}

/// Words of a command line.
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the flags of programs.
fn program(seed: u64, base: &Base) -> Vec<String> {
    let device = DEVICES[(seed % 2) as usize];
    let mut flags = vec![
        "--untrusted".to_owned(),
        format!("--device={device}"),
        "--task_topology_group_count=2".to_owned(),
        format!("--fuel={FUEL}"),
        format!("--timeout={TIMEOUT}"),
        format!("--memory_limit={BYTES}"),
        format!("--object_limit={OBJECTS}"),
    ];
    if base.name.contains("parameters") {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/parameters");
        let flag = |scope: &str| format!("--parameters={scope}={}/{scope}.irpa", folder.display());
        flags.extend([flag("model"), flag("state")]);
    }
    flags
}

/// Returns the exports to call, with their arguments: tensors of ones, zeros and nulls.
fn calls(module: &Module, seed: u64) -> Vec<(String, Vec<String>)> {
    let exports: Vec<_> = module.exports().take(1 << 10).collect();
    let first = seed as usize % exports.len().max(1);
    let exports = exports.iter().cycle().skip(first).take(exports.len().min(CALLS));
    let call = |export: &incarnate_runtime::bytecode::Export<'_>| {
        let text = module.function_attributes(export.function).find(|(name, _)| *name == DECLARATION);
        let inputs = match text.and_then(|(_, text)| Declaration::parse(text)) {
            Some(declaration) => declaration.arguments.iter().map(declared).collect(),
            None => module.function(export.function).map_or_else(Vec::new, |function| {
                let argument = |item| if item == ConventionItem::Ref { "(null)" } else { "0" };
                function.convention.arguments().map(|item| argument(item).to_owned()).collect()
            }),
        };
        let inputs = inputs.into_iter().map(|input: String| format!("--input={input}")).collect();
        (export.local_name.to_owned(), inputs)
    };
    exports.map(call).collect()
}

/// Returns an argument of a declared type.
fn declared(value: &DeclaredValue<'_>) -> String {
    let Some(tensor) = &value.tensor else { return "0".to_owned() };
    let shape = tensor.shape.iter().map(|dimension| dimension.unwrap_or(3));
    if shape.clone().try_fold(1_u64, u64::checked_mul).is_none_or(|elements| elements > ELEMENTS) {
        return "(null)".to_owned();
    }
    let shape: String = shape.map(|dimension| format!("{dimension}x")).collect();
    format!("{shape}{}=1", tensor.element)
}

/// Runs a command; returns whether it succeeds. One that fails says so in one line.
fn execute(parts: &[&[String]], outcome: &mut Outcome) -> io::Result<bool> {
    let errors = process::errors_of_child();
    fs::write(&errors, "")?;
    let start = Instant::now();
    let arguments: Vec<&String> = parts.iter().copied().flatten().collect();
    let status = incarnate_cli::main(
        ["incarnate"].into_iter().chain(arguments.iter().map(|word| word.as_str())).map(Into::into),
    );
    let time = start.elapsed();
    let command = || arguments.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
    if time > LONGEST {
        outcome.findings.push(format!("late: {} ms: {}", time.as_millis(), command()));
    }
    // Programs trace on standard error, too.
    let text = String::from_utf8_lossy(&fs::read(&errors)?).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("incarnate ")).collect();
    let succeeds = status == ExitCode::SUCCESS;
    let is_one_line =
        status == ExitCode::FAILURE && lines.len() == 1 && text.trim_end().lines().last() == lines.first().copied();
    if !(is_one_line || succeeds && lines.is_empty()) {
        let last: String = text.chars().take(400).collect();
        outcome.findings.push(format!("no line of error: {status:?}: {last:?}: {}", command()));
    }
    Ok(succeeds)
}
