//! `incarnate bench --roofline`: the rate of each kernel beside the greatest rates of the machine.
//!
//! Operations and bytes are those of the loop nests of a VMVX module, counted in one interpreted call. The time is that of the
//! measured module: the same one interpreted, the same one translated, or machine code of the same model, whose kernels have the same
//! names.

mod peak;
mod picture;
mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use incarnate_runtime::profile::{self, EventKind, Recording, Work};
use incarnate_runtime::{Error, Result, ResultExt};

use super::super::Verdict;
use super::super::console::Console;
use super::super::profile::{Row, read_trace, rows};
use super::super::program::{Program, module_files};
use super::arguments::BenchFiles;
use super::compare;
use super::{measure, selected, settings};
use crate::tooling::atomic_file;
use peak::Peak;

/// A kernel, in one call of the function.
#[derive(Clone, Debug, PartialEq)]
struct Kernel {
    /// The name, escaped.
    name: String,
    /// Its dispatches.
    dispatches: u64,
    /// The wall-clock time, in seconds.
    seconds: f64,
    /// What its loops do; None where the interpreter ran none of them as a nest.
    work: Option<Work>,
}

impl Kernel {
    /// 10^9 operations a second.
    fn gigaflops(&self) -> Option<f64> {
        self.work.map(|work| work.operations as f64 / self.seconds / 1e9)
    }

    /// 10^9 bytes a second.
    fn gigabytes(&self) -> Option<f64> {
        self.work.map(|work| work.bytes as f64 / self.seconds / 1e9)
    }

    /// The arithmetic intensity: operations for each byte.
    fn intensity(&self) -> Option<f64> {
        self.work.filter(|work| work.bytes > 0).map(|work| work.operations as f64 / work.bytes as f64)
    }
}

/// The limit that applies to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// The rate of arithmetic.
    Compute,
    /// The rate at which memory is read.
    Memory,
}

impl Limit {
    /// Returns the limit of an intensity and the rate that it allows, in 10^9 operations a second.
    fn of(intensity: f64, peak: &Peak) -> (Limit, f64) {
        let memory = intensity * peak.gigabytes;
        if memory < peak.gigaflops { (Limit::Memory, memory) } else { (Limit::Compute, peak.gigaflops) }
    }

    fn name(self) -> &'static str {
        match self {
            Limit::Compute => "compute",
            Limit::Memory => "memory",
        }
    }
}

/// The kernels of a call, the longest first, and the machine.
#[derive(Clone, Debug, PartialEq)]
struct Roofline {
    kernels: Vec<Kernel>,
    peak: Peak,
}

impl Roofline {
    /// The time of all kernels, in seconds.
    fn seconds(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.seconds).sum()
    }
}

/// Measures a module and prints its roofline; `line` is the command line, including the program's name.
pub(crate) fn roofline(arguments: &BenchFiles, line: &[OsString], out: &mut Console) -> Result<Verdict> {
    let modules = &arguments.of.module;
    let (function, threads, counted) = count(arguments, arguments.vmvx.as_ref().map_or(modules, std::slice::from_ref))?;
    let recording = match arguments.compare {
        true => translated(arguments, line)?,
        false => measured(arguments)?,
    };
    let roofline =
        Roofline { kernels: kernels(&recording, &function, &counted)?, peak: Peak::of_this_machine(threads)? };
    for path in &arguments.roofline_out {
        let text = if is_json(path)? { table::json(&roofline)? } else { picture::svg(&roofline, &function) };
        atomic_file::write(path, |temporary| fs::write(temporary, text))?;
    }
    out.write_all(table::table(&roofline).as_bytes()).context(|| "writing to standard output")?;
    Ok(Verdict::Success)
}

/// Whether a file is written as JSON; otherwise it is a picture.
fn is_json(path: &Path) -> Result<bool> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Ok(true),
        Some("svg") => Ok(false),
        _ => Err(Error::invalid_argument(format!("'{}' is neither a .svg nor a .json file", path.display()))),
    }
}

/// The dispatches of a kernel in one call, and what its loops do.
type Counted = BTreeMap<String, (u64, Work)>;

/// Counts the work of the kernels in one call. Returns the name of the function and the number of threads, too.
fn count(arguments: &BenchFiles, modules: &[PathBuf]) -> Result<(String, usize, Counted)> {
    let call = &arguments.of.arguments.call;
    let program = Program::load(&call.program, &module_files(modules))?;
    let (function, inputs) = selected(call, &program)?;
    let mut call = program.prepare(&function, &inputs).map_err(|error| function.explain(error))?;
    profile::start();
    let result = call.invoke();
    let recording = profile::stop();
    result.map_err(|error| function.explain(error))?;
    let mut counted = Counted::new();
    for row in rows(&recording).into_iter().filter(|row| row.kind == EventKind::Dispatch) {
        counted.insert(row.name, (row.count, row.work));
    }
    if counted.values().all(|(_, work)| work.operations == 0) {
        return Err(Error::failed_precondition(
            "no loops of kernels can be counted: name the same model compiled for VMVX by --vmvx=FILE \
             (`incarnate compile MODEL --target=portable`)",
        ));
    }
    Ok((function.name, program.concurrency(), counted))
}

/// Measures the interpreted module.
fn measured(arguments: &BenchFiles) -> Result<Recording> {
    let call = &arguments.of.arguments.call;
    let program = Program::load(&call.program, &module_files(&arguments.of.module))?;
    let (function, inputs) = selected(call, &program)?;
    let mut call = program.prepare(&function, &inputs).map_err(|error| function.explain(error))?;
    profile::start();
    let result = measure::measure(settings(&arguments.of.arguments), &mut || call.invoke());
    let recording = profile::stop();
    result.map_err(|error| function.explain(error))?;
    Ok(recording)
}

/// Measures the translated module.
fn translated(arguments: &BenchFiles, line: &[OsString]) -> Result<Recording> {
    let folder = tempfile::Builder::new().prefix("incarnate-roofline-").tempdir()?;
    let trace = folder.path().join("trace.json");
    let mut profile = OsString::from("--profile=");
    profile.push(&trace);
    compare::translated(arguments, &arguments.of.module, line, &[profile])?;
    read_trace(&fs::read(&trace).context(|| format!("reading '{}'", trace.display()))?)
}

/// The kernels of one call of a function, the longest first.
fn kernels(recording: &Recording, function: &str, counted: &Counted) -> Result<Vec<Kernel>> {
    let rows = rows(recording);
    let is_call = |row: &&Row| row.kind == EventKind::Host && row.name.strip_prefix('@') == Some(function);
    let calls = rows.iter().find(is_call).map_or(0, |row| row.count);
    if calls == 0 {
        return Err(Error::internal(format!("no call of @{function} was recorded")));
    }
    let dispatches = rows.iter().filter(|row| row.kind == EventKind::Dispatch);
    let kernel = |row: &Row| {
        let work = counted.get(&row.name).filter(|(_, work)| work.bytes > 0);
        Kernel {
            name: row.name.clone(),
            dispatches: row.count / calls,
            seconds: (row.wall.as_secs_f64() / calls as f64).max(1e-9),
            work: work.map(|(_, work)| *work),
        }
    };
    let mut kernels: Vec<Kernel> = dispatches.map(kernel).collect();
    kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(kernels)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use incarnate_runtime::profile::{Event, Track};

    use super::*;

    /// A product at half of the peak, a copy at the rate of memory, and a kernel without counted loops.
    pub(super) fn roofline() -> Roofline {
        let kernel = |name: &str, seconds, work| Kernel { name: name.to_owned(), dispatches: 2, seconds, work };
        Roofline {
            kernels: vec![
                kernel("matmul<1>", 6e-3, Some(Work { operations: 300_000_000, bytes: 3_000_000 })),
                kernel("copy", 3e-3, Some(Work { operations: 3_000_000, bytes: 30_000_000 })),
                kernel("sort", 1e-3, None),
            ],
            peak: Peak { gigaflops: 100.0, gigabytes: 10.0, threads: 2 },
        }
    }

    #[test]
    fn limits_are_those_of_the_intensity() {
        let Roofline { kernels, peak } = roofline();
        let limit = |at: usize| kernels[at].intensity().map(|intensity| Limit::of(intensity, &peak));
        assert_eq!((limit(0), limit(1), limit(2)), (Some((Limit::Compute, 100.0)), Some((Limit::Memory, 1.0)), None));
        assert_eq!((kernels[0].gigaflops(), kernels[1].gigabytes()), (Some(50.0), Some(10.0)));
    }

    #[test]
    fn kernels_are_those_of_one_call() {
        let event = |kind, name: &str, start: u64| Event {
            kind,
            name: name.into(),
            start: Duration::from_micros(start),
            duration: Duration::from_micros(10),
            workgroups: 1,
            bytes: 0,
            first: true,
            work: Work::default(),
        };
        let dispatch = |start| event(EventKind::Dispatch, "k", start);
        let host = |start| event(EventKind::Host, "@f", start);
        let events = vec![dispatch(0), dispatch(20), host(0), dispatch(40), dispatch(60), host(40)];
        let recording = Recording { tracks: vec![Track { thread: "main".to_owned(), events }], ..Recording::default() };
        let work = Work { operations: 7, bytes: 8 };
        let counted = Counted::from([("k".to_owned(), (2, work))]);
        let expected = Kernel { name: "k".to_owned(), dispatches: 2, seconds: 20e-6, work: Some(work) };
        assert_eq!(kernels(&recording, "f", &counted).ok(), Some(vec![expected]));
        assert!(kernels(&recording, "g", &counted).is_err());
    }
}
