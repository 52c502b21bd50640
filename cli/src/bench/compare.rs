//! `incarnate bench --compare`: a module and other builds of it, interpreted and translated, in one table.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use incarnate_runtime::{Error, Result, ResultExt};

use super::super::Verdict;
use super::super::build;
use super::super::console::Console;
use super::super::program::module_files;
use super::arguments::{BenchFiles, ReportFormat};
use super::measurements;
use super::report;

/// Measures the module, and each other build of it, by `bench` and as a program from `build`; `line` is the command
/// line, including the program's name.
pub(crate) fn compare(arguments: &BenchFiles, line: &[OsString], out: &mut Console) -> Result<Verdict> {
    if arguments.of.arguments.benchmark_format != ReportFormat::Console {
        return Err(Error::invalid_argument("--compare prints a table: use --benchmark_format=console"));
    }
    let (first, imported) = match arguments.of.module.split_last() {
        Some((first, imported)) => (first, imported),
        None => return Err(Error::invalid_argument("--compare needs --module=FILE")),
    };
    let builds: Vec<&PathBuf> = std::iter::once(first).chain(&arguments.against).collect();
    let mut columns = Vec::new();
    let mut verdict = Verdict::Success;
    for (name, build) in names(&builds).into_iter().zip(builds) {
        let modules: Vec<PathBuf> = imported.iter().chain([build]).cloned().collect();
        let (interpreted, outcome) = measurements(&arguments.of.arguments, &module_files(&modules))
            .context(|| format!("measuring '{}', interpreted", build.display()))?;
        let rows = interpreted.iter().map(|row| (row.function.clone(), row.median())).collect();
        columns.push(Column { name: format!("{name}interpreted"), rows });
        let rows = report::parse_rows(&translated(arguments, &modules, line, &[])?)?;
        columns.push(Column { name: format!("{name}translated"), rows });
        if verdict == Verdict::Success {
            verdict = outcome;
        }
    }
    out.write_all(table(&columns, arguments.of.arguments.time_unit).as_bytes())
        .context(|| "writing to standard output")?;
    Ok(verdict)
}

/// Returns the prefixes of each build's columns: empty for a single build, otherwise the file's name, or its path if
/// names are equal.
fn names(builds: &[&PathBuf]) -> Vec<String> {
    let short = |build: &PathBuf| build.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let unique = builds.iter().map(|build| short(build)).collect::<BTreeSet<_>>().len() == builds.len();
    let name = |build: &&PathBuf| if unique { short(build) } else { build.display().to_string() };
    match builds {
        [_] => vec![String::new()],
        _ => builds.iter().map(|build| format!("{}, ", name(build))).collect(),
    }
}

/// Builds the program of some modules and measures it, with `more` flags; returns its report in rows.
pub(super) fn translated(
    arguments: &BenchFiles,
    modules: &[PathBuf],
    line: &[OsString],
    more: &[OsString],
) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("incarnate-compare-").tempdir()?;
    let program = folder.path().join("program");
    let flags = &arguments.of.arguments.call.program;
    let code = build::Code { untrusted: flags.untrusted, reassociate: flags.reassociate, unfuse: false };
    build::program(modules, None, &program, &arguments.project, &build::ProgramTarget::host(), code)?;
    let mut command = Command::new(&program);
    command
        .arg("bench")
        .args(passed(line, &arguments.of.files))
        .arg("--benchmark_format=rows")
        .args(more)
        .stderr(Stdio::inherit());
    let output = command.output().context(|| format!("running '{}'", program.display()))?;
    if !output.status.success() {
        let file = modules.last().map(|file| file.display().to_string()).unwrap_or_default();
        return Err(Error::aborted(format!("the translated program of '{file}' failed ({})", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The measurements of one build in one mode.
struct Column {
    name: String,
    /// Functions and their medians in seconds.
    rows: Vec<(String, f64)>,
}

/// Returns the medians; from the second column on with their ratios to the first.
fn table(columns: &[Column], unit: report::TimeUnit) -> String {
    let Some((first, others)) = columns.split_first() else { return String::new() };
    let mut lines = vec![vec!["function".to_owned(), first.name.clone()]];
    lines[0].extend(others.iter().flat_map(|column| [column.name.clone(), "ratio".to_owned()]));
    for (function, base) in &first.rows {
        let mut line = vec![function.clone(), unit.text(*base)];
        for column in others {
            let median = column.rows.iter().find(|row| row.0 == *function).map(|row| row.1);
            line.push(median.map_or("-".to_owned(), |median| unit.text(median)));
            line.push(median.map_or("-".to_owned(), |median| ratio(median / base)));
        }
        lines.push(line);
    }
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in &lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names are left-aligned, numbers right-aligned.
            match column {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push('\n');
    }
    text
}

/// Formats a ratio with two decimals, or more if it is small.
fn ratio(value: f64) -> String {
    if value < 0.095 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// Returns the arguments that the translated program accepts, too.
fn passed<'a>(line: &'a [OsString], files: &[PathBuf]) -> Vec<&'a OsStr> {
    const DROPPED: [&str; 14] = [
        "--iree-compile",
        "--iree_compile",
        "--module",
        "--target",
        "--against",
        "--roofline_out",
        "--vmvx",
        "--prefer",
        "--static-library",
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
        if matches!(&*text, "--compare" | "--roofline" | "--reassociate")
            || files.iter().any(|file| file.as_os_str() == argument)
            || DROPPED.iter().any(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
        {
            continue;
        }
        if DROPPED.contains(&&*text) {
            // The value is a separate argument.
            arguments.next();
            continue;
        }
        kept.push(argument);
    }
    kept
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
            "model.onnx",
            "--target=both",
            "--compare",
            "--roofline",
            "--vmvx=e",
            "--against=c",
            "--against",
            "d",
            "--prefer=portable",
            "--function=f",
            "--input",
            "5",
            "--benchmark_format=console",
            "--benchmark_repetitions=3",
        ]
        .map(OsString::from);
        assert_eq!(
            passed(&line, &["model.onnx".into()]),
            ["--function=f", "--input", "5", "--benchmark_repetitions=3"]
        );
    }

    #[test]
    fn builds_are_named_where_there_are_several() {
        let named = |builds: &[&str]| {
            let builds: Vec<PathBuf> = builds.iter().map(PathBuf::from).collect();
            names(&builds.iter().collect::<Vec<_>>())
        };
        assert_eq!(named(&["a/vmvx.vmfb"]), [""]);
        assert_eq!(named(&["a/vmvx.vmfb", "a/host.vmfb"]), ["vmvx, ", "host, "]);
        assert_eq!(named(&["a/m.vmfb", "b/m.vmfb"]), ["a/m.vmfb, ", "b/m.vmfb, "]);
    }

    #[test]
    fn tables_have_ratios_to_the_first_column() {
        let column = |name: &str, rows: &[(&str, f64)]| Column {
            name: name.to_owned(),
            rows: rows.iter().map(|(function, median)| ((*function).to_owned(), *median)).collect(),
        };
        let columns = [
            column("vmvx, interpreted", &[("f", 0.2), ("longer", 0.1)]),
            column("vmvx, translated", &[("longer", 0.05), ("f", 0.001)]),
            column("host, interpreted", &[("f", 0.4)]),
        ];
        let expected = "\
function  vmvx, interpreted  vmvx, translated   ratio  host, interpreted  ratio
f                200.000 ms          1.000 ms  0.0050         400.000 ms   2.00
longer           100.000 ms         50.000 ms    0.50                  -      -
";
        assert_eq!(table(&columns, report::TimeUnit::Ms), expected);
    }
}
