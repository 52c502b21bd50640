//! The memory of this process, and limits of child processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The address space of a child process in KiB.
const ADDRESS_SPACE: u64 = 1_572_864;

/// The resident memory of this process when a case began.
#[derive(Clone, Copy, Debug)]
pub struct Memory(Option<u64>);

impl Memory {
    /// Forgets the process's peak, and notes what it has now.
    #[must_use]
    pub fn begin() -> Memory {
        let _ = fs::write("/proc/self/clear_refs", "5");
        Memory(status("VmRSS:"))
    }

    /// Returns by how much the process grew at most since then.
    #[must_use]
    pub fn growth(self) -> Option<u64> {
        Some(status("VmHWM:")?.saturating_sub(self.0?))
    }
}

/// Returns a size of this process in bytes.
fn status(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Returns the processor time of this process's children that have ended, in seconds. The clock ticks 100 times a second.
#[must_use]
pub fn seconds_of_children() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The variable with the file that gets a child's standard error.
const ERRORS: &str = "INCARNATE_FUZZ_ERRORS";
/// Where a child writes to its supervisor. Its standard output is what programs print.
pub const TO_SUPERVISOR: &str = "/dev/fd/3";

/// Returns the file that gets this child's standard error.
#[must_use]
pub fn errors_of_child() -> PathBuf {
    std::env::var_os(ERRORS).map_or_else(|| "/dev/null".into(), PathBuf::from)
}

/// Returns a folder for the files of a child, by the file that gets its standard error.
#[must_use]
pub fn files_of_child(errors: &Path) -> PathBuf {
    errors.with_extension("files")
}

/// A command with a limit of its address space.
#[must_use]
pub fn limited(program: &Path) -> Command {
    redirected(program, "")
}

/// A child of a supervisor, whose standard error is appended to a file.
#[must_use]
pub fn child(program: &Path, errors: &Path) -> Command {
    let mut command = redirected(program, &format!("3>&1 >/dev/null 2>>\"${ERRORS}\""));
    command.env(ERRORS, errors);
    command
}

fn redirected(program: &Path, redirections: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" \"$@\" {redirections}");
    command.arg("-c").arg(script).arg(program);
    // Each thread's own arena would take 64 MiB of the address space.
    command.env("MALLOC_ARENA_MAX", "2").env("RUST_BACKTRACE", "0");
    command
}
