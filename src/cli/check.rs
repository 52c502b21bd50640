//! `incarnate check`: every exported function without arguments is a test.

use std::io::Write;
use std::path::{Path, PathBuf};

use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::arguments::CheckArguments;
use super::console::Console;
use super::program::{Function, Program};

/// Beginning of the names of functions that must fail.
const MUST_FAIL: &str = "fail_";

/// How many tests came out how.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

pub(super) fn check(arguments: &CheckArguments, out: &mut Console) -> Result<Verdict> {
    let mut tally = Tally::default();
    let mut first_failure = None;
    let programs: Vec<Vec<PathBuf>> = if arguments.files.is_empty() {
        vec![arguments.module.clone()]
    } else {
        let program = |file: &PathBuf| arguments.module.iter().chain([file]).cloned().collect();
        arguments.files.iter().map(program).collect()
    };
    for files in programs {
        let Some(file) = files.last() else { continue };
        // A module that does not load fails as a test does, so that the others are still run.
        if let Err(error) = check_program(&files, file, arguments, &mut tally, &mut first_failure, out) {
            tally.failed += 1;
            line(out, format_args!("FAIL {}: {error}", file.display()))?;
            first_failure.get_or_insert(format!("{}: {error}", file.display()));
        }
    }
    line(out, format_args!("{} passed, {} failed", tally.passed, tally.failed))?;
    Ok(match first_failure {
        None => Verdict::Success,
        Some(first) => Verdict::Failure(format!("{} of {} failed; {first}", tally.failed, tally.failed + tally.passed)),
    })
}

fn line(out: &mut Console, text: std::fmt::Arguments<'_>) -> Result<()> {
    // Tests may crash the process, so each line is out before the next test runs.
    writeln!(out, "{text}").and_then(|()| out.flush()).context(|| "writing to standard output")
}

fn check_program(
    files: &[PathBuf],
    file: &Path,
    arguments: &CheckArguments,
    tally: &mut Tally,
    first_failure: &mut Option<String>,
    out: &mut Console,
) -> Result<()> {
    let program = Program::load_tests(files, &arguments.program)?;
    let tests: Vec<Function> =
        program.functions()?.into_iter().filter(|function| function.arguments.is_empty()).collect();
    if tests.is_empty() {
        return Err(Error::not_found("no exported function is without arguments"));
    }
    for test in tests {
        let outcome = program.prepare(&test, &[]).and_then(|mut call| call.invoke());
        let verdict = match (outcome, test.name.starts_with(MUST_FAIL)) {
            (Ok(()), false) | (Err(_), true) => Ok(()),
            (Ok(()), true) => Err("it succeeded, though its name says that it must fail".to_owned()),
            (Err(error), false) => Err(error.to_string()),
        };
        let name = format!("{} @{}", file.display(), test.name);
        match verdict {
            Ok(()) => {
                tally.passed += 1;
                line(out, format_args!("PASS {name}"))?;
            }
            Err(why) => {
                tally.failed += 1;
                line(out, format_args!("FAIL {name}: {why}"))?;
                first_failure.get_or_insert(format!("{name}: {why}"));
            }
        }
    }
    Ok(())
}
