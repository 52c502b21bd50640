//! `incarnate check`: every exported function without arguments is a test.

use std::io::Write;
#[cfg(feature = "cli")]
use std::path::PathBuf;

use incarnate_runtime::{Result, ResultExt};

use super::Verdict;
#[cfg(feature = "cli")]
use super::arguments::CheckArguments;
use super::arguments::ProgramArguments;
use super::console::Console;
#[cfg(feature = "cli")]
use super::files;
use super::program::{AddModules, Function, Program};

/// Beginning of the names of functions that must fail.
const MUST_FAIL: &str = "fail_";

/// What came of tests.
struct Report<'a> {
    out: &'a mut Console,
    passed: usize,
    failed: usize,
    first_failure: Option<String>,
}

impl Report<'_> {
    /// Prints what came of a test, or of the attempt to load some.
    fn add(&mut self, name: &str, outcome: Result<(), String>) -> Result<()> {
        let line = match outcome {
            Ok(()) => {
                self.passed += 1;
                format!("PASS {name}")
            }
            Err(why) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| format!("{name}: {why}"));
                format!("FAIL {name}: {why}")
            }
        };
        self.line(&line)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        // Tests may crash the process, so each line is out before the next test runs.
        writeln!(self.out, "{line}").and_then(|()| self.out.flush()).context(|| "writing to standard output")
    }

    fn finish(mut self) -> Result<Verdict> {
        self.line(&format!("{} passed, {} failed", self.passed, self.failed))?;
        Ok(match self.first_failure {
            None => Verdict::Success,
            Some(first) => {
                Verdict::Failure(format!("{} of {} failed; {first}", self.failed, self.failed + self.passed))
            }
        })
    }
}

#[cfg(feature = "cli")]
pub(super) fn check_files(arguments: &CheckArguments, out: &mut Console) -> Result<Verdict> {
    let programs: Vec<Vec<PathBuf>> = if arguments.files.is_empty() {
        vec![arguments.module.clone()]
    } else {
        let program = |file: &PathBuf| arguments.module.iter().chain([file]).cloned().collect();
        arguments.files.iter().map(program).collect()
    };
    let mut report = Report { out, passed: 0, failed: 0, first_failure: None };
    for program in programs {
        let name = program.last().map(|file| file.display().to_string()).unwrap_or_default();
        check(&arguments.program, &files(&program), Some(&name), &mut report)?;
    }
    report.finish()
}

/// Checks the program that the modules make.
pub(super) fn check_program(
    arguments: &ProgramArguments,
    add_modules: AddModules<'_>,
    out: &mut Console,
) -> Result<Verdict> {
    let mut report = Report { out, passed: 0, failed: 0, first_failure: None };
    check(arguments, add_modules, None, &mut report)?;
    report.finish()
}

/// Runs the tests of a program, which is called as given or else as its module is.
fn check(
    arguments: &ProgramArguments,
    add_modules: AddModules<'_>,
    name: Option<&str>,
    report: &mut Report<'_>,
) -> Result<()> {
    let loaded = Program::load_tests(arguments, add_modules).and_then(|program| Ok((program.functions()?, program)));
    let (functions, program) = match loaded {
        Ok(loaded) => loaded,
        // A module that does not load fails as a test does, so that the others are still run.
        Err(error) => return report.add(name.unwrap_or("the program"), Err(error.to_string())),
    };
    let name = name.unwrap_or(program.name());
    let tests: Vec<Function> = functions.into_iter().filter(|function| function.arguments.is_empty()).collect();
    if tests.is_empty() {
        return report.add(name, Err("no exported function is without arguments".to_owned()));
    }
    for test in tests {
        let outcome = program.prepare(&test, &[]).and_then(|mut call| call.invoke());
        let outcome = match (outcome, test.name.starts_with(MUST_FAIL)) {
            (Ok(()), false) | (Err(_), true) => Ok(()),
            (Ok(()), true) => Err("it succeeded, though its name says that it must fail".to_owned()),
            (Err(error), false) => Err(error.to_string()),
        };
        report.add(&format!("{name} @{}", test.name), outcome)?;
    }
    Ok(())
}
