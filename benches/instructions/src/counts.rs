//! The committed counts: measuring, comparing, writing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::operations;

/// The largest change of a count, in percent, without an update of the file.
const TOLERANCE: u64 = 2;
/// The programs whose versions the file states.
const PROGRAMS: [&str; 3] = ["glibc", "rustc", "valgrind"];

/// What `counts.txt` has.
#[derive(Default)]
struct Counts {
    /// The programs that counts depend on, with their versions.
    versions: BTreeMap<String, String>,
    counts: BTreeMap<String, u64>,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt")
}

impl Counts {
    fn read(text: &str) -> Counts {
        let mut read = Counts::default();
        for line in text.lines() {
            if let Some((program, version)) = line.strip_prefix("# ").and_then(|line| line.split_once(' '))
                && PROGRAMS.contains(&program)
            {
                read.versions.insert(program.to_string(), version.to_string());
            } else if let Some((count, name)) = line.trim().split_once(' ')
                && let Ok(count) = count.parse()
            {
                read.counts.insert(name.to_string(), count);
            }
        }
        read
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# Instructions of an operation, counted by callgrind: `.ci/instructions --update` writes this file.\n",
        );
        for (program, version) in &self.versions {
            _ = writeln!(text, "# {program} {version}");
        }
        for (name, count) in &self.counts {
            _ = writeln!(text, "{count:>10} {name}");
        }
        text
    }
}

/// What a program of PATH prints.
fn output_of(program: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(program).arg(argument).output().map_err(|error| format!("{program}: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}

/// The versions of this machine's programs: of the compiler in PATH, which has compiled this one, of the library that allocates and
/// copies, and of the counter, which decides what processor a program sees.
fn versions() -> Result<BTreeMap<String, String>, String> {
    let texts = [
        output_of("getconf", "GNU_LIBC_VERSION")?,
        output_of("rustc", "--version")?,
        output_of("valgrind", "--version")?.replace('-', " "),
    ];
    let versions = PROGRAMS.iter().zip(&texts).map(|(program, text)| {
        let version = text.split_whitespace().nth(1).ok_or_else(|| format!("{program} states no version: {text}"))?;
        Ok(((*program).to_string(), version.to_string()))
    });
    versions.collect()
}

/// Counts the instructions of an operation.
fn count(valgrind: &Path, name: &str) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--toggle-collect=measured_operation", "--callgrind-out-file=/dev/null"]);
    command.arg(own).args(["run", name]);
    // No environment: its length moves the stack, and so the cost of copies of unaligned bytes.
    command.env_clear();
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(messages.into_owned());
    }
    // `==PID== Collected : COUNT`
    let total = messages.lines().find_map(|line| line.split_once(" Collected : "));
    total
        .and_then(|(_, count)| count.trim().parse().ok())
        .filter(|count| *count > 0)
        .ok_or_else(|| messages.into_owned())
}

/// Counts all operations, prints those that changed, and updates the file or fails where one grew.
pub(crate) fn check(is_update: bool) -> ExitCode {
    match counted(is_update) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(grown) => {
            println!(
                "{grown} grew by more than {TOLERANCE} %: mend it, or commit `.ci/instructions --update` and say why"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts all operations. Returns the number of those that grew; none after an update.
fn counted(is_update: bool) -> Result<usize, String> {
    let of_file = |error: std::io::Error| format!("{}: {error}", path().display());
    let committed = std::fs::read_to_string(path()).map_err(of_file).map(|text| Counts::read(&text));
    let committed = if is_update { committed.unwrap_or_default() } else { committed? };
    let mut measured = Counts { versions: versions()?, counts: BTreeMap::new() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let valgrind = std::env::split_paths(&folders).map(|folder| folder.join("valgrind")).find(|file| file.exists());
    let valgrind = valgrind.ok_or("valgrind is not in PATH")?;
    for (name, ..) in operations::ALL {
        let count_once = || count(&valgrind, name).map_err(|error| format!("{name}: {error}"));
        let mut count = count_once()?;
        // A worker of `local-task` may take work, which is not counted, before the caller does. The caller does all in the greatest count.
        for _ in 0..2 {
            if committed.counts.get(*name).is_some_and(|before| !is_within_tolerance(count, *before)) {
                count = count.max(count_once()?);
            }
        }
        measured.counts.insert((*name).to_string(), count);
    }
    let grown = report(&committed, &measured);
    if is_update {
        std::fs::write(path(), measured.text()).map_err(of_file)?;
        return Ok(0);
    }
    for (program, version) in
        measured.versions.iter().filter(|(program, version)| committed.versions.get(*program) != Some(version))
    {
        println!("{program} {version} is not that of the committed counts, which .ci/instructions uses");
    }
    Ok(grown)
}

fn is_within_tolerance(count: u64, before: u64) -> bool {
    100 * count.abs_diff(before) <= TOLERANCE * before
}

/// Prints what differs by more than the tolerance; returns the number of operations that grew, or that one of the two lacks.
fn report(committed: &Counts, measured: &Counts) -> usize {
    let (mut grown, mut shrunk) = (0, 0);
    for (name, count) in &measured.counts {
        let Some(before) = committed.counts.get(name) else {
            println!("{count:>10} {name}: new");
            grown += 1;
            continue;
        };
        if !is_within_tolerance(*count, *before) {
            let change = 100.0 * (*count as f64 / *before as f64 - 1.0);
            println!("{count:>10} {name}: {change:+.1} %, was {before}");
            if count > before { grown += 1 } else { shrunk += 1 }
        }
    }
    for name in committed.counts.keys().filter(|name| !measured.counts.contains_key(*name)) {
        println!("{:>10} {name}: is counted no more", "");
        grown += 1;
    }
    println!("{} operations counted, {grown} grew, {shrunk} shrank", measured.counts.len());
    if shrunk > 0 {
        println!("commit `.ci/instructions --update`, so that what was gained is kept");
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_are_written() {
        let counts = [("call: empty".to_string(), 300), ("load: digits".to_string(), 5)].into_iter().collect();
        let versions = PROGRAMS.iter().map(|program| ((*program).to_string(), "1.95.0".to_string())).collect();
        let written = Counts { versions, counts }.text();
        let read = Counts::read(&written);
        assert_eq!((read.versions.len(), read.versions["rustc"].as_str()), (PROGRAMS.len(), "1.95.0"));
        assert_eq!((read.counts.len(), read.counts["call: empty"]), (2, 300));
        assert_eq!(read.text(), written);
    }

    #[test]
    fn growth_beyond_the_tolerance_is_reported() {
        let of = |text: &str| Counts::read(text);
        let committed = of("100 a\n100 b\n100 c\n");
        assert_eq!(report(&committed, &of("102 a\n98 b\n50 c\n")), 0);
        assert_eq!(report(&committed, &of("103 a\n98 b\n100 c\n")), 1);
        // A new operation and one that is gone need an update.
        assert_eq!(report(&committed, &of("100 a\n100 b\n100 d\n")), 2);
    }
}
