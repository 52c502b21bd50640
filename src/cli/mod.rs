//! The command line.

mod arguments;
mod bench;
mod check;
mod console;
mod dump;
mod program;
mod run;
mod yieldable_test;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use incarnate_runtime::Result;

use arguments::{Command, CommandLine};
use console::Console;

/// Whether a command found what it was asked to make sure of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything succeeded.
    Success,
    /// What the command did succeeded, but what it found is not what was expected: why, on one line.
    Failure(String),
}

/// Runs the command line: the program's name, then its arguments.
///
/// Exits with 0 if everything succeeded, with 1 and a line on standard error if not, with 2 if the arguments are wrong.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let line = match CommandLine::try_parse_from(arguments) {
        Ok(line) => line,
        Err(error) => {
            // Help and version are no errors; printing fails only where nobody listens.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Some(level) = line.log {
        console::log_to_stderr(level);
    }
    let mut out = Console::stdout();
    let name = line.command.name();
    let verdict = execute(&line.command, &mut out);
    let flushed = out.flush();
    match verdict {
        Ok(Verdict::Success) if flushed.is_ok() => ExitCode::SUCCESS,
        Ok(Verdict::Success) => fail(name, "writing to standard output failed"),
        Ok(Verdict::Failure(why)) => fail(name, &why),
        Err(error) => fail(name, &error.to_string()),
    }
}

fn execute(command: &Command, out: &mut Console) -> Result<Verdict> {
    match command {
        Command::Run(arguments) => run::run(arguments, out),
        Command::Bench(arguments) => bench::bench(arguments, out),
        Command::Check(arguments) => check::check(arguments, out),
        Command::Dump(arguments) => dump::dump(arguments, out),
    }
}

/// Says on one line what went wrong.
fn fail(command: &str, why: &str) -> ExitCode {
    let line = why.split('\n').map(str::trim_end).collect::<Vec<_>>().join(" ");
    // Where nobody listens to standard error either, the exit status is all that can be told.
    let _ = writeln!(std::io::stderr(), "incarnate {command}: {line}");
    ExitCode::FAILURE
}
