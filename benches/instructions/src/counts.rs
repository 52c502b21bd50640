//! The committed counts: measuring, comparing, writing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::operations;

/// The largest change of a count, in percent, without an update of the file.
const TOLERANCE: u64 = 2;

/// What `counts.txt` has.
#[derive(Default)]
struct Counts {
    /// The compiler that they are counted with.
    compiler: String,
    counts: BTreeMap<String, u64>,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt")
}

impl Counts {
    fn read(text: &str) -> Counts {
        let mut read = Counts::default();
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix("# rustc ") {
                read.compiler = compiler.to_string();
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
        _ = writeln!(text, "# rustc {}", self.compiler);
        for (name, count) in &self.counts {
            _ = writeln!(text, "{count:>10} {name}");
        }
        text
    }
}

/// The version of the compiler in PATH, which has compiled this program.
fn compiler() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().nth(1).map(str::to_string)
}

/// Counts the instructions of an operation.
fn count(name: &str) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    count_in(folder.path(), name)
}

fn count_in(folder: &Path, name: &str) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let file = folder.join("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--toggle-collect=measured_operation"]);
    command.arg(format!("--callgrind-out-file={}", file.display())).arg(own).args(["run", name]);
    // A fixed environment: its length moves the stack, and so what copies of unaligned bytes take.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(messages.into_owned());
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    total.and_then(|total| total.trim().parse().ok()).filter(|total| *total > 0).ok_or_else(|| messages.into_owned())
}

/// Counts all operations, prints those that changed, and updates the file or fails where one grew.
pub(crate) fn check(is_update: bool) -> ExitCode {
    let committed = Counts::read(&std::fs::read_to_string(path()).unwrap_or_default());
    let mut measured = Counts { compiler: compiler().unwrap_or_default(), counts: BTreeMap::new() };
    for (name, ..) in operations::ALL {
        match count(name) {
            Ok(count) => _ = measured.counts.insert((*name).to_string(), count),
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let grown = report(&committed, &measured);
    if is_update {
        if let Err(error) = std::fs::write(path(), measured.text()) {
            eprintln!("{}: {error}", path().display());
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    if grown == 0 {
        return ExitCode::SUCCESS;
    }
    if committed.compiler != measured.compiler {
        println!("the committed counts are those of rustc {}, so none of these fails", committed.compiler);
        return ExitCode::SUCCESS;
    }
    println!("{grown} grew by more than 2 %: mend it, or commit `.ci/instructions --update` and say why");
    ExitCode::FAILURE
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
        if 100 * count.abs_diff(*before) > TOLERANCE * before {
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
        let written = Counts { compiler: "1.95.0".to_string(), counts }.text();
        let read = Counts::read(&written);
        assert_eq!((read.compiler.as_str(), read.counts.len(), read.counts["call: empty"]), ("1.95.0", 2, 300));
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
