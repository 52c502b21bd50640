//! `incarnate bench --compare`: one module interpreted and translated, in one table.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::{Command, Stdio};

use incarnate_runtime::{Error, Result, ResultExt};

use super::super::arguments::{BenchFiles, ReportFormat};
use super::super::build;
use super::super::console::Console;
use super::super::{Verdict, files};
use super::measurements;
use super::report::{self, Measurement};

/// Measures the module as `bench` does, and the program of it that `build` makes; `line` are the arguments of the command
/// line, with the program's name.
pub(in crate::cli) fn compare(arguments: &BenchFiles, line: &[OsString], out: &mut Console) -> Result<Verdict> {
    if arguments.of.arguments.benchmark_format != ReportFormat::Console {
        return Err(Error::invalid_argument("--compare prints a table: --benchmark_format=console"));
    }
    let program = std::env::temp_dir().join(format!("incarnate-compare-{}", std::process::id()));
    let _removed = Removed(&program);
    build::program(&arguments.of.module, &program, &arguments.project)?;
    let (interpreted, verdict) = measurements(&arguments.of.arguments, &files(&arguments.of.module))?;
    let mut command = Command::new(&program);
    command.arg("bench").args(passed(line)).arg("--benchmark_format=rows").stderr(Stdio::inherit());
    let output = command.output().context(|| format!("running '{}'", program.display()))?;
    if !output.status.success() {
        return Ok(Verdict::Failure(format!("the translated module failed ({})", output.status)));
    }
    let translated = String::from_utf8_lossy(&output.stdout);
    let translated = report::parse_rows(&translated)?;
    out.write_all(table(&interpreted, &translated, &arguments.of.arguments.time_unit).as_bytes())
        .context(|| "writing to standard output")?;
    Ok(verdict)
}

/// The medians of both.
fn table(interpreted: &[Measurement], translated: &[(String, f64)], unit: &report::TimeUnit) -> String {
    let mut rows = vec![["function", "interpreted", "translated", "ratio"].map(str::to_owned)];
    for measurement in interpreted {
        let median = measurement.median();
        let name = measurement.function.as_str();
        let other = translated.iter().find(|row| row.0 == name).map(|row| row.1);
        rows.push([
            name.to_owned(),
            unit.text(median),
            other.map_or("-".to_owned(), |other| unit.text(other)),
            other.map_or("-".to_owned(), |other| format!("{:.2}", other / median)),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let line = |row: &[String; 4]| {
        let [name, interpreted, translated, ratio] = row;
        let [first, second, third, fourth] = widths;
        format!("{name:<first$}  {interpreted:>second$}  {translated:>third$}  {ratio:>fourth$}\n")
    };
    rows.iter().map(line).collect()
}

/// The arguments that the translated program takes, too.
fn passed(line: &[OsString]) -> Vec<&OsStr> {
    const DROPPED: [&str; 6] = [
        "--module",
        "--target-cpu",
        "--incarnate-source",
        "--benchmark_format",
        "--benchmark_out",
        "--benchmark_out_format",
    ];
    let mut kept = Vec::new();
    let mut arguments =
        line.iter().skip(1).map(OsString::as_os_str).skip_while(|argument| *argument != "bench").skip(1);
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        if text == "--compare"
            || DROPPED.iter().any(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
        {
            continue;
        }
        if DROPPED.contains(&&*text) {
            // Its value stands by itself.
            arguments.next();
            continue;
        }
        kept.push(argument);
    }
    kept
}

/// A file that is removed at the end.
struct Removed<'a>(&'a std::path::Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = std::fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_program_are_passed() {
        let line = [
            "incarnate",
            "--log=warn",
            "bench",
            "--module=a",
            "--module",
            "b",
            "--compare",
            "--function=f",
            "--input",
            "5",
            "--benchmark_format=console",
            "--benchmark_repetitions=3",
        ]
        .map(OsString::from);
        assert_eq!(passed(&line), ["--function=f", "--input", "5", "--benchmark_repetitions=3"]);
    }
}
