//! Checks of module files and of folders with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use incarnate_runtime::{Error, Result, ResultExt};

use super::super::Verdict;
use super::super::arguments::ProgramArguments;
use super::super::console::Console;
use super::super::models::CompilerArguments;
use super::progress::Progress;
use super::{Outcome, Report, junit, parallel};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct CheckArguments {
    /// Module files, each tested separately, and folders, whose .vmfb files with tests are all tested.
    #[arg(value_name = "FILE", required_unless_present_any = ["module", "list_drivers", "list_devices", "dump_devices"])]
    files: Vec<PathBuf>,
    /// A module file that the others import from; if there are no others, the last one is tested.
    #[arg(long, value_name = "FILE")]
    module: Vec<PathBuf>,
    /// Number of files to test in parallel; by default one for each core. With 1, a crash of the process is in the
    /// function after the last printed line.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Write the outcome of each test to a file in JUnit's format, which build servers read.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compiler: CompilerArguments,
    #[command(flatten)]
    pub(crate) program: ProgramArguments,
}

impl CheckArguments {
    /// Returns the given files and folders.
    pub(crate) fn all_files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.module.iter_mut().chain(&mut self.files)
    }
}

pub(crate) fn check_files(arguments: &CheckArguments, out: &mut Console) -> Result<Verdict> {
    let start = Instant::now();
    let has_folders = arguments.files.iter().any(|file| file.is_dir());
    let programs: Vec<Vec<PathBuf>> = if arguments.files.is_empty() {
        vec![arguments.module.clone()]
    } else {
        let program = |file: PathBuf| arguments.module.iter().cloned().chain([file]).collect();
        module_files(&arguments.files)?.into_iter().map(program).collect()
    };
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.map_or_else(cores, |jobs| jobs as usize).min(programs.len());
    let progress = Progress::new(programs.len());
    let mut report = Report::new(out);
    let mut outcomes: Vec<Outcome> = Vec::new();
    parallel::check_all(&arguments.program, &programs, jobs, &mut |event| match event {
        parallel::Event::Test(outcome) => {
            progress.suspended(|| report.add(&outcome))?;
            outcomes.push(outcome);
            Ok(())
        }
        parallel::Event::Program => {
            progress.advance(report.failed);
            Ok(())
        }
    })?;
    progress.finish();
    if let Some(path) = &arguments.junit {
        junit::write(path, &outcomes, start.elapsed())?;
    }
    if has_folders {
        report.line(&summary(&outcomes, programs.len(), jobs, start.elapsed()))?;
    }
    report.finish()
}

/// Formats the outcome of a folder on one line, before the counts.
fn summary(outcomes: &[Outcome], programs: usize, jobs: usize, time: Duration) -> String {
    let failed: BTreeSet<&str> =
        outcomes.iter().filter(|outcome| outcome.failure.is_some()).map(|outcome| outcome.program.as_str()).collect();
    let slowest = outcomes.iter().max_by_key(|outcome| outcome.time);
    let slowest = slowest
        .map(|outcome| format!(", slowest: {} ({:.2} s)", outcome.name(), outcome.time.as_secs_f64()))
        .unwrap_or_default();
    format!(
        "{programs} files, of which {} have failures, in {:.2} s by {jobs} jobs{slowest}",
        failed.len(),
        time.as_secs_f64()
    )
}

/// Returns the given files and the modules in the given folders, each folder's sorted by name.
fn module_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            // A missing file fails when it is loaded.
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        walk(path, &mut found, 0).context(|| format!("looking into '{}'", path.display()))?;
        if found.is_empty() {
            return Err(Error::not_found(format!("no .vmfb file in '{}'", path.display())));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// The maximum depth of nested folders, because links may be cyclic.
const MAXIMUM_DEPTH: u32 = 32;

fn walk(folder: &Path, found: &mut Vec<PathBuf>, depth: u32) -> Result<()> {
    if depth > MAXIMUM_DEPTH {
        return Err(Error::resource_exhausted(format!(
            "'{}' is more than {MAXIMUM_DEPTH} folders deep",
            folder.display()
        )));
    }
    for entry in std::fs::read_dir(folder).context(|| format!("reading '{}'", folder.display()))? {
        let path = entry.context(|| format!("reading '{}'", folder.display()))?.path();
        if path.is_dir() {
            walk(&path, found, depth + 1)?;
        } else if path.extension().is_some_and(|extension| extension == "vmfb") {
            found.push(path);
        }
    }
    Ok(())
}
