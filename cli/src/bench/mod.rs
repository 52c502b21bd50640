//! `incarnate bench`: measures the time of calls.

mod arguments;
#[cfg(feature = "cli")]
mod compare;
mod machine;
mod measure;
mod report;
#[cfg(feature = "cli")]
mod roofline;

use std::io::Write;

use incarnate_runtime::bytecode::{ConventionItem, Escaped};
use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::arguments::CallArguments;
use super::console::{self, Console};
use super::profile::profiled;
use super::program::{AddModules, Function, Program};
use super::run::{parse_inputs, verify};
use crate::tooling::atomic_file::AtomicFile;
use crate::tooling::{HostValue, Primitive};
pub(super) use arguments::BenchArguments;
#[cfg(feature = "cli")]
pub(super) use arguments::BenchFiles;
pub(super) use arguments::ReportFormat;
use machine::Machine;
use measure::{Settings, measure};
use report::Measurement;

#[cfg(feature = "cli")]
pub(super) use compare::compare;
#[cfg(feature = "cli")]
pub(super) use roofline::roofline;

/// Measures the selected functions and compares their results with the expected ones.
fn measurements(arguments: &BenchArguments, add_modules: AddModules<'_>) -> Result<(Vec<Measurement>, Verdict)> {
    let call = &arguments.call;
    let program = Program::load(&call.program, add_modules)?;
    let functions = match &call.function {
        None if call.input.is_empty() => runnable(&program, arguments.batch_size)?,
        _ => vec![selected(call, &program)?],
    };
    if functions.is_empty() {
        return Err(Error::not_found("no exported function without arguments: name one with --function="));
    }
    let settings = settings(arguments);
    let mut measurements = Vec::new();
    let mut verdict = Verdict::Success;
    for (function, inputs) in functions {
        let (measurement, outcome) = bench_function(arguments, &program, function, &inputs, settings)?;
        measurements.push(measurement);
        if verdict == Verdict::Success {
            verdict = outcome;
        }
    }
    Ok((measurements, verdict))
}

pub(super) fn bench(arguments: &BenchArguments, add_modules: AddModules<'_>, out: &mut Console) -> Result<Verdict> {
    let (measurements, verdict) = measurements(arguments, add_modules)?;
    let machine = Machine::detect();
    let report = |format| match format {
        ReportFormat::Console => {
            Ok(report::console(&measurements, arguments.time_unit, arguments.benchmark_report_aggregates_only))
        }
        ReportFormat::Json => {
            report::json(&measurements, arguments.time_unit, arguments.benchmark_report_aggregates_only, &machine)
        }
        ReportFormat::Rows => Ok(report::rows_of_medians(&measurements)),
    };
    if arguments.benchmark_format == ReportFormat::Console {
        // The table on standard output does not depend on a reader of standard error.
        let _ = console::stderr().write_all(machine.console().as_bytes());
    }
    out.write_all(report(arguments.benchmark_format)?.as_bytes()).context(|| "writing to standard output")?;
    if let Some(path) = &arguments.benchmark_out {
        let mut file = AtomicFile::create(path, false)?;
        file.write_all(report(arguments.benchmark_out_format)?.as_bytes())
            .context(|| format!("writing '{}'", path.display()))?;
        file.commit()?;
    }
    Ok(verdict)
}

fn settings(arguments: &BenchArguments) -> Settings {
    Settings {
        min_time: arguments.benchmark_min_time,
        warmup: arguments.benchmark_min_warmup_time,
        repetitions: arguments.benchmark_repetitions,
        batch: arguments.batch_size,
    }
}

/// Returns the function that is named, or the only one, and its arguments.
fn selected(arguments: &CallArguments, program: &Program) -> Result<(Function, Vec<HostValue>)> {
    with_inputs(arguments, program.find(arguments.function.as_deref())?)
}

fn with_inputs(arguments: &CallArguments, function: Function) -> Result<(Function, Vec<HostValue>)> {
    let inputs = parse_inputs(arguments, &function)?;
    Ok((function, inputs))
}

/// Returns the functions that can be called without explicit arguments, and their arguments: those without any, and
/// compiled dispatch benchmarks, which take a number of repetitions.
fn runnable(program: &Program, batch: u32) -> Result<Vec<(Function, Vec<HostValue>)>> {
    let functions = program.functions()?.into_iter();
    let with_arguments = functions.filter_map(|function| {
        let takes_count = matches!(function.arguments.as_slice(), [only] if only.kind == ConventionItem::I32);
        let repeats = takes_count && function.benchmark.as_deref() == Some("dispatch");
        match repeats {
            true => Some((function, vec![HostValue::Primitive(Primitive::I32(batch.cast_signed()))])),
            false if function.arguments.is_empty() => Some((function, Vec::new())),
            false => None,
        }
    });
    Ok(with_arguments.collect())
}

/// Measures one function. Uploading its arguments and verifying its results are not timed.
fn bench_function(
    arguments: &BenchArguments,
    program: &Program,
    function: Function,
    inputs: &[HostValue],
    settings: Settings,
) -> Result<(Measurement, Verdict)> {
    let mut call = program.prepare(&function, inputs).map_err(|error| function.explain(error))?;
    // Standard output may be a machine-readable report.
    let mut out = console::stderr();
    let profile = arguments.call.profile.as_ref();
    if profile.is_some() {
        // The first call takes longer than those that are measured.
        call.invoke().map_err(|error| function.explain(error))?;
    }
    let samples = profiled(profile, program.concurrency(), None, &mut out, || {
        // All calls use the same storage: to borrow it is not the function's work.
        let context = call.function().context().clone();
        let samples = context.with_invocation(|invocation| measure(settings, &mut || call.invoke_with(invocation)));
        samples.map_err(|error| function.explain(error))
    })?;
    let mut verdict = Verdict::Success;
    if !arguments.call.expected_output.is_empty() {
        // Standard output is reserved for the report.
        verdict = verify(&arguments.call, &function, &call.results()?, &mut std::io::sink())?;
    }
    Ok((Measurement { function: Escaped(&function.name).to_string(), samples }, verdict))
}
