//! `incarnate bench`: measures how long calls of functions take.

mod machine;
mod measure;
mod report;

use std::io::Write;

use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::arguments::{BenchArguments, ReportFormat};
use super::console::Console;
use super::program::{Function, Program};
use super::run::{parse_inputs, verify};
use crate::tooling::atomic_file::AtomicFile;
use machine::Machine;
pub(super) use measure::MinTime;
use measure::{Settings, measure};
use report::Measurement;
pub(super) use report::TimeUnit;

pub(super) fn bench(arguments: &BenchArguments, out: &mut Console) -> Result<Verdict> {
    let call = &arguments.call;
    let program = Program::load(&call.module, &call.program)?;
    let functions = match &call.function {
        Some(name) => vec![program.find(Some(name))?],
        // Nothing can be passed to functions that nobody named.
        None if call.input.is_empty() => {
            program.functions()?.into_iter().filter(|function| function.arguments.is_empty()).collect()
        }
        None => vec![program.find(None)?],
    };
    if functions.is_empty() {
        return Err(Error::not_found("no exported function is without arguments: name one with --function="));
    }
    let settings = Settings {
        min_time: arguments.benchmark_min_time,
        warmup: arguments.benchmark_min_warmup_time,
        repetitions: arguments.benchmark_repetitions,
        batch: arguments.batch_size,
    };
    let machine = Machine::detect();
    let mut measurements = Vec::new();
    let mut verdict = Verdict::Success;
    for function in functions {
        let (measurement, outcome) = bench_function(arguments, &program, function, settings)?;
        measurements.push(measurement);
        if verdict == Verdict::Success {
            verdict = outcome;
        }
    }
    let report = |format| match format {
        ReportFormat::Console => {
            report::console(&measurements, arguments.time_unit, arguments.benchmark_report_aggregates_only)
        }
        ReportFormat::Json => {
            report::json(&measurements, arguments.time_unit, arguments.benchmark_report_aggregates_only, &machine)
        }
    };
    if arguments.benchmark_format == ReportFormat::Console {
        // Where standard error has no reader the table still has one.
        let _ = std::io::stderr().write_all(machine.console().as_bytes());
    }
    out.write_all(report(arguments.benchmark_format).as_bytes()).context(|| "writing to standard output")?;
    if let Some(path) = &arguments.benchmark_out {
        let mut file = AtomicFile::create(path, false)?;
        file.write_all(report(arguments.benchmark_out_format).as_bytes())
            .context(|| format!("writing '{}'", path.display()))?;
        file.commit()?;
    }
    Ok(verdict)
}

/// Measures one function; uploading its arguments and verifying its results are not timed.
fn bench_function(
    arguments: &BenchArguments,
    program: &Program,
    function: Function,
    settings: Settings,
) -> Result<(Measurement, Verdict)> {
    let inputs = parse_inputs(&arguments.call, &function)?;
    let mut call = program.prepare(&function, &inputs).map_err(|error| function.explain(error))?;
    let samples = measure(settings, &mut || call.invoke()).map_err(|error| function.explain(error))?;
    let mut verdict = Verdict::Success;
    if !arguments.call.expected_output.is_empty() {
        // Standard output is the report's.
        verdict = verify(&arguments.call, &function, &call.results()?, &mut std::io::sink())?;
    }
    Ok((Measurement { function: function.name, samples }, verdict))
}
