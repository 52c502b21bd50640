//! Reports of measurements on the console and as JSON, in the forms of Google Benchmark.

use std::fmt::Write;

use super::machine::Machine;
use super::measure::{Sample, Statistic};
use crate::tooling::json::quoted;

/// What time is shown in.
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

    /// Seconds as text.
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
    /// Name of the function.
    pub(super) function: String,
    /// One for each repetition.
    pub(super) samples: Vec<Sample>,
}

impl Measurement {
    /// Median of the wall-clock time of an iteration, in seconds.
    pub(super) fn median(&self) -> f64 {
        Statistic::Median.of(&self.samples.iter().map(|sample| sample.real).collect::<Vec<f64>>())
    }

    /// The name that the peer's tool reports: wall-clock time decides, and processors' time is that of all threads.
    fn name(&self) -> String {
        format!("BM_{}/process_time/real_time", self.function)
    }
}

/// A line of a report.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    run_name: String,
    family: usize,
    iterations: u64,
    repetitions: usize,
    kind: RowKind,
    /// Seconds, or for [`Statistic::Variation`] parts of one.
    real: f64,
    cpu: f64,
    per_second: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    Repetition(usize),
    Aggregate(Statistic, &'static str),
}

impl Row {
    fn is_percentage(&self) -> bool {
        matches!(self.kind, RowKind::Aggregate(Statistic::Variation, _))
    }
}

/// The lines of some measurements: repetitions unless only aggregates are wanted, and aggregates where there are several.
fn rows(measurements: &[Measurement], aggregates_only: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (family, measurement) in measurements.iter().enumerate() {
        let run_name = measurement.name();
        let repetitions = measurement.samples.len();
        let row = |name: String, kind, iterations, real, cpu, per_second| Row {
            name,
            run_name: run_name.clone(),
            family,
            iterations,
            repetitions,
            kind,
            real,
            cpu,
            per_second,
        };
        if !aggregates_only || repetitions < 2 {
            rows.extend(measurement.samples.iter().enumerate().map(|(index, sample)| {
                let kind = RowKind::Repetition(index);
                row(run_name.clone(), kind, sample.iterations, sample.real, sample.cpu, 1.0 / sample.real)
            }));
        }
        if repetitions < 2 {
            continue;
        }
        let column = |value: fn(&Sample) -> f64| measurement.samples.iter().map(value).collect::<Vec<f64>>();
        let (real, cpu) = (column(|sample| sample.real), column(|sample| sample.cpu));
        let rates = column(|sample| 1.0 / sample.real);
        rows.extend(Statistic::ALL.iter().map(|(statistic, name)| {
            let kind = RowKind::Aggregate(*statistic, name);
            let full = format!("{run_name}_{name}");
            row(full, kind, repetitions as u64, statistic.of(&real), statistic.of(&cpu), statistic.of(&rates))
        }));
    }
    rows
}

/// The report for [`parse_rows`].
pub(super) fn rows_of_medians(measurements: &[Measurement]) -> String {
    measurements.iter().map(|measurement| format!("{}\t{:e}\n", measurement.function, measurement.median())).collect()
}

/// Names of functions and medians in seconds.
///
/// # Errors
/// DATA_LOSS where the text is something else.
#[cfg(feature = "cli")]
pub(super) fn parse_rows(text: &str) -> incarnate_runtime::Result<Vec<(String, f64)>> {
    let row = |line: &str| {
        let (name, median) = line.rsplit_once('\t')?;
        Some((name.to_owned(), median.parse().ok()?))
    };
    let wrong = |line: &str| incarnate_runtime::Error::data_loss(format!("'{line}' is no measurement"));
    text.lines().map(|line| row(line).ok_or_else(|| wrong(line))).collect()
}

/// The report for people: a table.
pub(super) fn console(measurements: &[Measurement], unit: TimeUnit, aggregates_only: bool) -> String {
    let rows = rows(measurements, aggregates_only);
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(10);
    let header = format!("{:<width$} {:>13} {:>15} {:>12} UserCounters...", "Benchmark", "Time", "CPU", "Iterations");
    let line = "-".repeat(header.len());
    let mut out = format!("{line}\n{header}\n{line}\n");
    for row in rows {
        let (real, cpu, label, rate) = if row.is_percentage() {
            let percent = |part: f64| format!("{:>10.2}", part * 100.0);
            (percent(row.real), percent(row.cpu), "%", format!("{:.2}%", row.per_second * 100.0))
        } else {
            let time = |seconds: f64| console_time(unit.of_seconds(seconds));
            (time(row.real), time(row.cpu), unit.name(), format!("{}/s", human_readable(row.per_second)))
        };
        let _ = writeln!(
            out,
            "{:<width$} {real} {label:<4} {cpu} {label:<4} {:>10} items_per_second={rate}",
            row.name, row.iterations
        );
    }
    out
}

/// A time in ten columns, with fewer decimals the larger it is.
fn console_time(time: f64) -> String {
    match time {
        time if time < 1.0 => format!("{time:>10.3}"),
        time if time < 10.0 => format!("{time:>10.2}"),
        time if time < 100.0 => format!("{time:>10.1}"),
        time if time > 9_999_999_999.0 => format!("{time:.4e}"),
        time => format!("{time:>10.0}"),
    }
}

/// A number of six digits with a prefix of the SI.
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

/// The report for programs.
pub(super) fn json(measurements: &[Measurement], unit: TimeUnit, aggregates_only: bool, machine: &Machine) -> String {
    let mut out = String::from("{\n  \"context\": {\n");
    for (key, value) in machine.fields() {
        let _ = writeln!(out, "    {}: {value},", quoted(key));
    }
    out.push_str("    \"json_schema_version\": 1\n  },\n  \"benchmarks\": [");
    for (index, row) in rows(measurements, aggregates_only).iter().enumerate() {
        out.push_str(if index == 0 { "\n    {\n" } else { ",\n    {\n" });
        let fields: Vec<String> =
            fields(row, unit).into_iter().map(|(key, value)| format!("      {}: {value}", quoted(key))).collect();
        out.push_str(&fields.join(",\n"));
        out.push_str("\n    }");
    }
    out.push_str("\n  ]\n}\n");
    out
}

fn fields(row: &Row, unit: TimeUnit) -> Vec<(&'static str, String)> {
    let time = |seconds: f64| number(if row.is_percentage() { seconds } else { unit.of_seconds(seconds) });
    let mut fields = vec![
        ("name", quoted(&row.name)),
        ("family_index", row.family.to_string()),
        ("per_family_instance_index", "0".to_owned()),
        ("run_name", quoted(&row.run_name)),
    ];
    match row.kind {
        RowKind::Repetition(index) => fields.extend([
            ("run_type", quoted("iteration")),
            ("repetitions", row.repetitions.to_string()),
            ("repetition_index", index.to_string()),
            ("threads", "1".to_owned()),
        ]),
        RowKind::Aggregate(_, name) => fields.extend([
            ("run_type", quoted("aggregate")),
            ("repetitions", row.repetitions.to_string()),
            ("threads", "1".to_owned()),
            ("aggregate_name", quoted(name)),
            ("aggregate_unit", quoted(if row.is_percentage() { "percentage" } else { "time" })),
        ]),
    }
    fields.extend([
        ("iterations", row.iterations.to_string()),
        ("real_time", time(row.real)),
        ("cpu_time", time(row.cpu)),
        ("time_unit", quoted(unit.name())),
        ("items_per_second", number(row.per_second)),
    ]);
    fields
}

/// A number of all its digits; JSON has none for what is not finite.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let text = format!("{value:.16e}");
    match text.split_once('e').map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>().unwrap_or(0))) {
        Some((mantissa, exponent)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_json_report_has_one_row_for_a_repetition_and_one_for_a_statistic() {
        let machine = Machine::unknown();
        let one = json(&[measurement(&[0.25])], TimeUnit::Us, true, &machine);
        assert_eq!(one.matches("\"name\"").count(), 1);
        assert!(one.contains("\"real_time\": 2.5000000000000000e+05,\n"), "{one}");
        assert!(one.contains("\"time_unit\": \"us\",\n") && one.contains("\"iterations\": 1000,\n"), "{one}");
        let three = json(&[measurement(&[1.0, 2.0, 3.0])], TimeUnit::S, false, &machine);
        assert_eq!(three.matches("\"run_type\": \"iteration\"").count(), 3);
        assert_eq!(three.matches("\"run_type\": \"aggregate\"").count(), 4);
        assert_eq!(json(&[measurement(&[1.0, 2.0])], TimeUnit::S, true, &machine).matches("\"iteration\"").count(), 0);
    }

    #[test]
    fn texts_and_numbers_are_json() {
        assert_eq!(quoted("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\\u0001\"");
        assert_eq!(number(0.75), "7.5000000000000000e-01");
        assert_eq!(number(f64::INFINITY), "null");
        assert_eq!(human_readable(0.0), "0");
        assert_eq!(human_readable(0.25), "250m");
    }
}
