//! The `incarnate` command line, and the command line of the programs that `incarnate build` creates.
//!
//! Other programs should not call either: `cargo install incarnate-cli` installs the command.

mod arguments;
#[cfg(feature = "cli")]
mod assemble;
mod bench;
#[cfg(feature = "cli")]
mod build;
#[cfg(any(feature = "cli", feature = "chat"))]
mod chat;
mod check;
mod command_line;
#[cfg(feature = "cli")]
mod compile;
mod console;
#[cfg(feature = "cli")]
mod convert;
#[cfg(feature = "cli")]
mod copies;
mod devices;
#[cfg(feature = "cli")]
mod diff;
#[cfg(feature = "cli")]
mod dump;
#[cfg(feature = "cli")]
mod examples;
#[cfg(feature = "cli")]
mod manual;
#[cfg(feature = "cli")]
mod models;
#[cfg(feature = "cli")]
mod parameters;
mod profile;
mod program;
mod run;
#[cfg(any(feature = "cli", feature = "serve"))]
mod serve;
#[cfg(feature = "cli")]
mod static_library;
mod tooling;
#[cfg(feature = "cli")]
mod translate;
#[cfg(feature = "cli")]
mod web;
mod yieldable_test;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

#[cfg(feature = "cli")]
use clap::CommandFactory;
use clap::Parser;
use incarnate_runtime::Result;
use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::session::SessionBuilder;
use tracing_subscriber::filter::LevelFilter;

#[cfg(feature = "cli")]
use command_line::{Command, CommandLine};
use command_line::{ProgramCommand, ProgramLine};
use console::Console;
#[cfg(feature = "cli")]
use program::module_files;

/// The outcome of a command's checks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything succeeded.
    Success,
    /// The command succeeded, but a check failed; the text is one line.
    Failure(String),
}

/// Runs the command line: the program's name, then its arguments.
///
/// Exits with 0 if everything succeeded, with 1 and a line on standard error if not, with 2 if the arguments are wrong.
#[cfg(feature = "cli")]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run(arguments))
}

/// As [`main`], for a program that is more than this command: returns the exit status.
#[cfg(feature = "cli")]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let (name, mut line) = match parse::<CommandLine>(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage("incarnate", &error),
    };
    finish(&format!("incarnate {name}"), line.log, |out| {
        let _compiled = line.command.compile_models()?;
        execute(&line.command, &arguments, out)
    })
}

/// Runs a command; `arguments` are its words, with the program's name.
#[cfg(feature = "cli")]
fn execute(command: &Command, arguments: &[OsString], out: &mut Console) -> Result<Verdict> {
    match command {
        command if command.program().is_some_and(devices::is_asked_for) => {
            command.program().map_or(Ok(Verdict::Success), |program| devices::print(program, out))
        }
        Command::Run(of) => run::run(&of.arguments, &module_files(&of.module), out),
        Command::Bench(bench) if bench.roofline => bench::roofline(bench, arguments, out),
        Command::Bench(bench) if bench.compare => bench::compare(bench, arguments, out),
        Command::Bench(bench) => bench::bench(&bench.of.arguments, &module_files(&bench.of.module), out),
        Command::Check(arguments) => check::check_files(arguments, out),
        Command::Dump(arguments) => dump::dump(arguments, out),
        Command::Translate(arguments) => translate::translate(arguments, out),
        Command::Assemble(arguments) => assemble::assemble(arguments, out),
        Command::Convert(arguments) => convert::convert(arguments, out),
        Command::Diff(arguments) => diff::diff(arguments, out),
        Command::Completions(arguments) => manual::completions(arguments, CommandLine::command(), out),
        Command::Man(arguments) => manual::man(arguments, CommandLine::command(), out),
        Command::Parameters(arguments) => parameters::parameters(arguments, out),
        Command::Build(arguments) => build::build(arguments, out),
        Command::Web(arguments) => web::web(arguments, out),
        Command::Compile(arguments) => compile::compile(arguments, out),
        Command::Chat(arguments) => chat::program::run_model(arguments),
        Command::Serve(arguments) => chat::program::run_model(arguments),
    }
}

/// Runs the command line of a program with embedded modules, such as translated ones: `run`, `bench` and `check` with
/// the flags of [`main`], without `--module`. The closure adds the modules to a session; the last one is the main
/// module.
pub fn program_main(
    arguments: impl IntoIterator<Item = OsString>,
    add_modules: impl Fn(SessionBuilder) -> SessionBuilder,
) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    ExitCode::from(program(&arguments, &add_modules))
}

/// As [`program_main`]; compiled with this crate, and not with each program.
fn program(arguments: &[OsString], add_modules: program::AddModules<'_>) -> u8 {
    let (name, line) = match parse::<ProgramLine>(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&program_name(arguments), &error),
    };
    finish(&name, line.log, |out| match &line.command {
        command if command.program().is_some_and(devices::is_asked_for) => {
            command.program().map_or(Ok(Verdict::Success), |program| devices::print(program, out))
        }
        ProgramCommand::Run(arguments) => run::run(arguments, add_modules, out),
        ProgramCommand::Bench(arguments) => bench::bench(arguments, add_modules, out),
        ProgramCommand::Check(arguments) => check::check_program(arguments, add_modules, out),
        #[cfg(feature = "chat")]
        ProgramCommand::Chat(arguments) => chat::conversation::chat(arguments, add_modules, out),
        #[cfg(feature = "serve")]
        ProgramCommand::Serve(arguments) => serve::server::serve(arguments, add_modules, out),
    })
}

/// Parses a command line; returns the name of its command, too.
fn parse<L: Parser>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> clap::error::Result<(String, L)> {
    let mut command = L::command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    let line = L::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((name, line))
}

/// Prints the parser's error, or the requested help or version; returns the exit status.
fn usage(name: &str, error: &clap::Error) -> u8 {
    let status = u8::try_from(error.exit_code()).unwrap_or(2);
    let printed = error.print();
    if error.use_stderr() {
        // A failure to print the error has no reader.
        return status;
    }
    match console::unless_broken(printed.and_then(|()| std::io::stdout().flush())) {
        Ok(()) => status,
        Err(error) => fail(name, &format!("writing to standard output: {error}")),
    }
}

/// Returns the name of a program by the first word of its command line.
fn program_name(arguments: &[OsString]) -> String {
    let path = arguments.first().map(std::path::Path::new);
    path.and_then(std::path::Path::file_name)
        .map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Runs a command and converts its outcome to an exit status.
fn finish(name: &str, log: Option<LevelFilter>, execute: impl FnOnce(&mut Console) -> Result<Verdict>) -> u8 {
    let events = console::subscribe(log);
    let mut out = Console::stdout();
    let verdict = execute(&mut out);
    let flushed = out.flush();
    events.end();
    match verdict {
        Ok(Verdict::Success) if flushed.is_ok() => 0,
        Ok(Verdict::Success) => fail(name, "writing to standard output failed"),
        Ok(Verdict::Failure(why)) => fail(name, &why),
        Err(error) => fail(name, &error.to_string()),
    }
}

/// Most characters of an error: names and messages of modules are as long as the module decides.
const ERROR_CHARACTERS: usize = 1 << 14;

/// Prints an error on one line; returns the exit status.
fn fail(command: &str, why: &str) -> u8 {
    let line = why.split('\n').map(str::trim_end).collect::<Vec<_>>().join(" ");
    let (line, more) = match line.char_indices().nth(ERROR_CHARACTERS) {
        Some((end, _)) => (line.get(..end).unwrap_or_default(), "..."),
        None => (line.as_str(), ""),
    };
    // Without a reader of standard error, the exit status is the only report.
    let _ = writeln!(std::io::stderr(), "{command}: {}{more}", Escaped(line));
    1
}
