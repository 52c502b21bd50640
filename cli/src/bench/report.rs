//! Reports of measurements for the console and as JSON, in the formats of Google Benchmark.

use std::fmt::Write;

use incarnate_runtime::{Error, Result};
use serde::Serialize;

use super::machine::Machine;
use super::measure::{Sample, Statistic};

/// The unit of reported times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TimeUnit {
    Ns,
    Us,
    Ms,
    S,
}

impl TimeUnit {
    fn name(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Us => "us",
            TimeUnit::Ms => "ms",
            TimeUnit::S => "s",
        }
    }

    /// Formats seconds.
    #[cfg(feature = "cli")]
    pub(super) fn text(self, seconds: f64) -> String {
        format!("{:.3} {}", self.of_seconds(seconds), self.name())
    }

    fn of_seconds(self, seconds: f64) -> f64 {
        match self {
            TimeUnit::Ns => seconds * 1e9,
            TimeUnit::Us => seconds * 1e6,
            TimeUnit::Ms => seconds * 1e3,
            TimeUnit::S => seconds,
        }
    }
}

/// The measurements of one function.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Name of the function, escaped.
    pub(super) function: String,
    /// One sample for each repetition.
    pub(super) samples: Vec<Sample>,
}

impl Measurement {
    /// Returns the median of the wall-clock time of an iteration, in seconds.
    pub(super) fn median(&self) -> f64 {
        Statistic::Median.of(&self.samples.iter().map(|sample| sample.real).collect::<Vec<f64>>())
    }

    /// Returns the name in the report of IREE's tool: real time is measured, and CPU time is that of the process.
    fn name(&self) -> String {
        format!("BM_{}/process_time/real_time", self.function)
    }
}

/// A line of a report, with the names and the order of Google Benchmark's fields.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    family_index: usize,
    per_family_instance_index: usize,
    run_name: String,
    run_type: &'static str,
    repetitions: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_index: Option<usize>,
    threads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_unit: Option<&'static str>,
    iterations: u64,
    /// In the unit, or a ratio for [`Statistic::Variation`].
    real_time: f64,
    cpu_time: f64,
    time_unit: &'static str,
    items_per_second: f64,
}

impl Row {
    fn is_percentage(&self) -> bool {
        self.aggregate_unit == Some(PERCENTAGE)
    }
}

/// The unit of [`Statistic::Variation`].
const PERCENTAGE: &str = "percentage";

/// Returns the lines of some measurements: repetitions unless only aggregates are requested, and aggregates of several
/// repetitions.
fn rows(measurements: &[Measurement], unit: TimeUnit, aggregates_only: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (family_index, measurement) in measurements.iter().enumerate() {
        let run_name = measurement.name();
        let repetitions = measurement.samples.len();
        let repetition = |(index, sample): (usize, &Sample)| Row {
            name: run_name.clone(),
            family_index,
            per_family_instance_index: 0,
            run_name: run_name.clone(),
            run_type: "iteration",
            repetitions,
            repetition_index: Some(index),
            threads: 1,
            aggregate_name: None,
            aggregate_unit: None,
            iterations: sample.iterations,
            real_time: unit.of_seconds(sample.real),
            cpu_time: unit.of_seconds(sample.cpu),
            time_unit: unit.name(),
            items_per_second: 1.0 / sample.real,
        };
        let samples: Vec<Row> = measurement.samples.iter().enumerate().map(repetition).collect();
        let aggregate = |(statistic, name): &(Statistic, &'static str)| {
            let of = |value: fn(&Row) -> f64| statistic.of(&samples.iter().map(value).collect::<Vec<f64>>());
            Row {
                name: format!("{run_name}_{name}"),
                run_type: "aggregate",
                repetition_index: None,
                aggregate_name: Some(name),
                aggregate_unit: Some(if *statistic == Statistic::Variation { PERCENTAGE } else { "time" }),
                iterations: repetitions as u64,
                real_time: of(|row| row.real_time),
                cpu_time: of(|row| row.cpu_time),
                items_per_second: of(|row| row.items_per_second),
                ..samples[0].clone()
            }
        };
        let aggregates: Vec<Row> = match repetitions {
            0 | 1 => Vec::new(),
            _ => Statistic::ALL.iter().map(aggregate).collect(),
        };
        if !aggregates_only || repetitions < 2 {
            rows.extend(samples);
        }
        rows.extend(aggregates);
    }
    rows
}

/// Formats the report for [`parse_rows`].
pub(super) fn rows_of_medians(measurements: &[Measurement]) -> String {
    measurements.iter().map(|measurement| format!("{}\t{:e}\n", measurement.function, measurement.median())).collect()
}

/// Parses names of functions and medians in seconds.
///
/// # Errors
/// DATA_LOSS for other text.
#[cfg(feature = "cli")]
pub(super) fn parse_rows(text: &str) -> Result<Vec<(String, f64)>> {
    let row = |line: &str| {
        let (name, median) = line.rsplit_once('\t')?;
        Some((name.to_owned(), median.parse().ok()?))
    };
    let wrong = |line: &str| Error::data_loss(format!("'{line}' is not a measurement"));
    text.lines().map(|line| row(line).ok_or_else(|| wrong(line))).collect()
}

/// Formats the console report.
pub(super) fn console(measurements: &[Measurement], unit: TimeUnit, aggregates_only: bool) -> String {
    let rows = rows(measurements, unit, aggregates_only);
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(10);
    let header = format!("{:<width$} {:>13} {:>15} {:>12} UserCounters...", "Benchmark", "Time", "CPU", "Iterations");
    let line = "-".repeat(header.len());
    let mut out = format!("{line}\n{header}\n{line}\n");
    for row in rows {
        let (real, cpu, label, rate) = if row.is_percentage() {
            let percent = |part: f64| format!("{:>10.2}", part * 100.0);
            (percent(row.real_time), percent(row.cpu_time), "%", format!("{:.2}%", row.items_per_second * 100.0))
        } else {
            let rate = format!("{}/s", human_readable(row.items_per_second));
            (console_time(row.real_time), console_time(row.cpu_time), row.time_unit, rate)
        };
        let _ = writeln!(
            out,
            "{:<width$} {real} {label:<4} {cpu} {label:<4} {:>10} items_per_second={rate}",
            row.name, row.iterations
        );
    }
    out
}

/// Formats a time in ten columns, with fewer decimals for larger ones.
fn console_time(time: f64) -> String {
    match time {
        time if time < 1.0 => format!("{time:>10.3}"),
        time if time < 10.0 => format!("{time:>10.2}"),
        time if time < 100.0 => format!("{time:>10.1}"),
        time if time > 9_999_999_999.0 => format!("{time:.4e}"),
        time => format!("{time:>10.0}"),
    }
}

/// Formats a number with an SI prefix.
fn human_readable(value: f64) -> String {
    const PREFIXES: [(f64, &str); 9] = [
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "u"),
        (1e-9, "n"),
        (1e-12, "p"),
    ];
    let prefix = PREFIXES.iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or(&(1.0, ""));
    format!("{}{}", incarnate_runtime::hal::format::General(value / prefix.0), prefix.1)
}

/// The JSON report.
#[derive(Debug, Serialize)]
struct Report<'a> {
    context: Context<'a>,
    benchmarks: Vec<Row>,
}

/// The head of a report.
#[derive(Debug, Serialize)]
struct Context<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    library_version: &'static str,
    library_build_type: &'static str,
    json_schema_version: u32,
}

/// Returns the report for programs as JSON, in which numbers that are not finite are `null`.
///
/// # Errors
/// INTERNAL where a value cannot be written as JSON.
pub(super) fn json(
    measurements: &[Measurement],
    unit: TimeUnit,
    aggregates_only: bool,
    machine: &Machine,
) -> Result<String> {
    let report = Report {
        context: Context {
            machine,
            library_version: concat!("incarnate ", env!("CARGO_PKG_VERSION")),
            library_build_type: if cfg!(debug_assertions) { "debug" } else { "release" },
            json_schema_version: 1,
        },
        benchmarks: rows(measurements, unit, aggregates_only),
    };
    let text = serde_json::to_string_pretty(&report).map_err(|error| Error::internal(error.to_string()))?;
    Ok(text + "\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::Value;

    use super::*;

    fn measurement(real: &[f64]) -> Measurement {
        let samples = real.iter().map(|real| Sample { iterations: 1000, real: *real, cpu: real / 2.0 }).collect();
        Measurement { function: "f".to_owned(), samples }
    }

    /// The columns are those that iree-benchmark-module of release 3.13 prints.
    #[test]
    fn the_console_report_is_google_benchmark_s() {
        assert_eq!(
            console(&[measurement(&[0.0001, 0.0003])], TimeUnit::Ms, false),
            "\
---------------------------------------------------------------------------------------------
Benchmark                                   Time             CPU   Iterations UserCounters...
---------------------------------------------------------------------------------------------
BM_f/process_time/real_time             0.100 ms        0.050 ms         1000 items_per_second=10k/s
BM_f/process_time/real_time             0.300 ms        0.150 ms         1000 items_per_second=3.33333k/s
BM_f/process_time/real_time_mean        0.200 ms        0.100 ms            2 items_per_second=6.66667k/s
BM_f/process_time/real_time_median      0.200 ms        0.100 ms            2 items_per_second=6.66667k/s
BM_f/process_time/real_time_stddev      0.141 ms        0.071 ms            2 items_per_second=4.71405k/s
BM_f/process_time/real_time_cv          70.71 %         70.71 %             2 items_per_second=70.71%
"
        );
    }

    fn rows_of_json(samples: &[f64], unit: TimeUnit, aggregates_only: bool) -> Vec<Value> {
        let text = json(&[measurement(samples)], unit, aggregates_only, &Machine::unknown()).unwrap();
        let mut report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["context"]["json_schema_version"], 1);
        serde_json::from_value(report["benchmarks"].take()).unwrap()
    }

    #[test]
    fn the_json_report_has_one_row_for_a_repetition_and_one_for_a_statistic() {
        let rows = rows_of_json(&[0.25], TimeUnit::Us, true);
        assert_eq!(rows.len(), 1);
        assert_eq!((&rows[0]["real_time"], &rows[0]["time_unit"]), (&Value::from(2.5e5), &Value::from("us")));
        assert_eq!((&rows[0]["iterations"], &rows[0]["aggregate_name"]), (&Value::from(1000), &Value::Null));
        let rows = rows_of_json(&[1.0, 2.0, 3.0], TimeUnit::S, false);
        assert_eq!(rows.iter().filter(|row| row["run_type"] == "iteration").count(), 3);
        assert_eq!(rows.iter().filter(|row| row["run_type"] == "aggregate").count(), 4);
        let rows = rows_of_json(&[1.0, 2.0], TimeUnit::S, true);
        assert!(rows.iter().all(|row| row["run_type"] == "aggregate"), "{rows:?}");
        assert_eq!(rows_of_json(&[0.0], TimeUnit::S, false)[0]["items_per_second"], Value::Null);
    }

    #[test]
    fn rates_have_prefixes() {
        assert_eq!(human_readable(0.0), "0");
        assert_eq!(human_readable(0.25), "250m");
    }
}
