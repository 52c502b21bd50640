//! `incarnate run`: calls a function and prints, writes or checks its results.

use std::io::Write;
use std::time::Instant;

use clap::Args;
use incarnate_runtime::bytecode::{Escaped, wrong_argument_count};
use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::arguments::CallArguments;
use super::console::Console;
use super::profile::profiled;
use super::program::{AddModules, Call, Function, Program};
use crate::tooling::HostValue;
use crate::tooling::destination::{Destination, parse_destinations};
use crate::tooling::expected::{compare_results, report};
use crate::tooling::output::{print_results, write_results};
use crate::tooling::results::ResultValue;
use crate::tooling::spec::{SpecValue, parse_specs};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct RunArguments {
    #[command(flatten)]
    pub(super) call: CallArguments,
    /// The destination of a result: - prints it, @FILE writes it, +FILE appends it (.npy files are arrays, others raw
    /// bytes), an empty text ignores it; NAME=SPEC is that of one result by its name. By default all results are printed.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) output: Vec<String>,
    /// Most elements of a tensor to print.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(super) output_max_element_count: usize,
}

pub(super) fn run(arguments: &RunArguments, add_modules: AddModules<'_>, out: &mut Console) -> Result<Verdict> {
    let program = Program::load(&arguments.call.program, add_modules)?;
    let function = program.find(arguments.call.function.as_deref())?;
    let inputs = parse_inputs(&arguments.call, &function)?;
    let destinations = match arguments.output.as_slice() {
        [] => None,
        specs => Some(parse_destinations(&function.results, specs).map_err(|error| function.explain(error))?),
    };
    let mut call = program.prepare(&function, &inputs).map_err(|error| function.explain(error))?;
    // Flushed first, so that output or a crash of the call comes after this line.
    writeln!(out, "EXEC @{}", Escaped(&function.name))
        .and_then(|()| out.flush())
        .context(|| "writing to standard output")?;
    let invoke = |call: &mut Call| call.invoke().map_err(|error| function.explain(error));
    let start = Instant::now();
    invoke(&mut call)?;
    let first_call = start.elapsed();
    let verdict = show(arguments, &function, &call.results()?, destinations.as_deref(), out)?;
    if let Some(destination) = &arguments.call.profile {
        profiled(Some(destination), program.concurrency(), Some(first_call), out, || invoke(&mut call))?;
    }
    Ok(verdict)
}

/// Compares, prints or writes results.
fn show(
    arguments: &RunArguments,
    function: &Function,
    results: &[ResultValue],
    destinations: Option<&[Destination]>,
    out: &mut Console,
) -> Result<Verdict> {
    if !arguments.call.expected_output.is_empty() {
        return verify(&arguments.call, function, results, out);
    }
    let limit = arguments.output_max_element_count;
    match destinations {
        None => print_results(out, results, limit)?,
        Some(destinations) => write_results(out, results, destinations, limit)?,
    }
    Ok(Verdict::Success)
}

/// Parses the values of `--input` for a function.
///
/// # Errors
/// INVALID_ARGUMENT if their number differs from the function's arguments, and errors of parsing.
pub(super) fn parse_inputs(arguments: &CallArguments, function: &Function) -> Result<Vec<HostValue>> {
    let values = parse_specs(&function.arguments, &arguments.input)
        .context(|| "--input")
        .map_err(|error| function.explain(error))?;
    if values.len() != function.arguments.len() {
        let why = wrong_argument_count(function.arguments.len(), values.len());
        return Err(function.explain(Error::invalid_argument(why)));
    }
    let values = values.into_iter().enumerate();
    values
        .map(|(index, value)| match value {
            SpecValue::Value(value) => Ok(value),
            SpecValue::Ignored => {
                Err(Error::invalid_argument(format!("argument {index} is (ignored), which is valid for results only")))
            }
        })
        .collect()
}

/// Compares results, prints the differences, and summarises them on one line.
pub(super) fn verify(
    arguments: &CallArguments,
    function: &Function,
    results: &[ResultValue],
    out: &mut dyn Write,
) -> Result<Verdict> {
    let expected = parse_specs(&function.results, &arguments.expected_output).context(|| "--expected_output")?;
    let differences = compare_results(arguments.equality.equality(), &expected, results)?;
    report(out, &differences)?;
    Ok(match differences.as_slice() {
        [] => Verdict::Success,
        [only] => Verdict::Failure(format!("@{}: {}", function.name, only.summary)),
        [first, rest @ ..] => {
            Verdict::Failure(format!("@{}: {}; {} more results differ", function.name, first.summary, rest.len()))
        }
    })
}
