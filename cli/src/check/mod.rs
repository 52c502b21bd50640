//! `incarnate check`: every exported function without arguments is a test.

#[cfg(feature = "cli")]
mod files;
#[cfg(feature = "cli")]
mod junit;
#[cfg(feature = "cli")]
mod parallel;
#[cfg(feature = "cli")]
mod progress;

use std::io::Write;
use std::time::{Duration, Instant};

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::modules::check::Unmet;
use incarnate_runtime::{Result, ResultExt};

use super::Verdict;
use super::arguments::ProgramArguments;
use super::console::Console;
use super::program::{AddModules, Function, Program};

#[cfg(feature = "cli")]
pub(super) use files::{CheckArguments, check_files};

/// Prefix of functions that must fail.
const MUST_FAIL: &str = "fail_";

/// Most characters of a failure in the final summary.
const MOST_CHARACTERS: usize = 400;

/// The outcome of a test, or of loading a program.
#[derive(Clone, Debug)]
struct Outcome {
    /// The program.
    program: String,
    /// The function; None if the program did not load or has no tests.
    function: Option<String>,
    /// The failure, if there is one.
    failure: Option<String>,
    /// Why nothing of the program was tested, if it has no tests: that is not a failure.
    skipped: Option<String>,
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "reports of several files tell it"))]
    time: Duration,
}

impl Outcome {
    /// Returns the program and the function, escaped: a line feed in a name would begin a line of the report.
    fn name(&self) -> String {
        match &self.function {
            Some(function) => format!("{} @{}", Escaped(&self.program), Escaped(function)),
            None => Escaped(&self.program).to_string(),
        }
    }
}

/// Counts and prints outcomes.
#[derive(Debug)]
struct Report<'a> {
    out: &'a mut Console,
    passed: usize,
    failed: usize,
    first_failure: Option<String>,
}

impl<'a> Report<'a> {
    fn new(out: &'a mut Console) -> Report<'a> {
        Report { out, passed: 0, failed: 0, first_failure: None }
    }

    fn add(&mut self, outcome: &Outcome) -> Result<()> {
        let name = outcome.name();
        let line = match (&outcome.failure, &outcome.skipped) {
            (None, Some(why)) => format!("SKIP {name}: {why}"),
            (None, None) => {
                self.passed += 1;
                format!("PASS {name}")
            }
            (Some(why), _) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| format!("{name}: {}", on_one_line(why)));
                format!("FAIL {name}: {why}")
            }
        };
        self.line(&line)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        // A test may crash the process, so each line is flushed before the next test.
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

/// Joins the lines of a text, which may contain long tensors, and bounds its length.
fn on_one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Checks the program that the modules form.
pub(super) fn check_program(
    arguments: &ProgramArguments,
    add_modules: AddModules<'_>,
    out: &mut Console,
) -> Result<Verdict> {
    let mut report = Report::new(out);
    check(arguments, add_modules, None, &mut |outcome| report.add(&outcome))?;
    report.finish()
}

/// Runs the tests of a program, which is labelled `name` or else by its module, and reports each outcome.
fn check(
    arguments: &ProgramArguments,
    add_modules: AddModules<'_>,
    name: Option<&str>,
    done: &mut dyn FnMut(Outcome) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    let of_program = |name: &str, failure: Option<String>, skipped: Option<String>| Outcome {
        program: name.to_owned(),
        function: None,
        failure,
        skipped,
        time: start.elapsed(),
    };
    let unmet = Unmet::default();
    let loaded =
        Program::load_tests(arguments, &unmet, add_modules).and_then(|program| Ok((program.functions()?, program)));
    let (functions, program) = match loaded {
        Ok(loaded) => loaded,
        // A module that does not load counts as a failed test, so that the others still run.
        Err(error) => return done(of_program(name.unwrap_or("the program"), Some(error.to_string()), None)),
    };
    let name = name.unwrap_or(program.name());
    let tests: Vec<Function> = functions.into_iter().filter(|function| function.arguments.is_empty()).collect();
    if tests.is_empty() {
        return done(of_program(name, None, Some("no exported function without arguments".to_owned())));
    }
    for test in tests {
        let start = Instant::now();
        let outcome = program.prepare(&test, &[]).and_then(|mut call| call.invoke());
        // All unmet expectations, then the error that ended the function, if any.
        let faults: Vec<String> =
            unmet.take().into_iter().chain(outcome.err().map(|error| error.to_string())).collect();
        let failure = match (faults.is_empty(), test.name.starts_with(MUST_FAIL)) {
            (true, false) | (false, true) => None,
            (true, true) => Some("it succeeded, but functions named fail_* must fail".to_owned()),
            (false, false) => Some(faults.join("\n")),
        };
        let (program, function) = (name.to_owned(), Some(test.name));
        done(Outcome { program, function, failure, skipped: None, time: start.elapsed() })?;
    }
    Ok(())
}
