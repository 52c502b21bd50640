//! The machine's properties in the head of a report, from Linux's files; missing ones are omitted.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A cache of a processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    #[serde(rename = "type")]
    kind: String,
    level: u32,
    #[serde(rename = "size")]
    bytes: u64,
    /// Number of logical processors that share it.
    #[serde(rename = "num_sharing")]
    sharing: usize,
}

/// The machine at the time of a measurement; the names are those of Google Benchmark's JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Machine {
    /// `2026-11-21T02:53:45+00:00`.
    date: String,
    #[serde(rename = "host_name")]
    host: String,
    executable: String,
    #[serde(rename = "num_cpus")]
    processors: usize,
    /// 0 if it is not known.
    #[serde(rename = "mhz_per_cpu", serialize_with = "rounded")]
    megahertz: f64,
    caches: Vec<Cache>,
    #[serde(rename = "load_avg")]
    load: Vec<f64>,
}

impl Machine {
    /// Queries the system.
    pub(super) fn detect() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg");
        Machine {
            date: Timestamp::now().strftime("%FT%T+00:00").to_string(),
            host: read("/proc/sys/kernel/hostname").trim().to_owned(),
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            megahertz: megahertz(&read("/proc/cpuinfo")),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            load: load.split_whitespace().take(3).filter_map(|field| field.parse().ok()).collect(),
        }
    }

    /// Returns an unknown machine.
    #[cfg(test)]
    pub(super) fn unknown() -> Machine {
        Machine::default()
    }

    /// Formats the head of the console report.
    pub(super) fn console(&self) -> String {
        let mut out = format!("{}\nRunning {}\n", self.date, self.executable);
        let _ = writeln!(out, "Run on ({} X {} MHz CPU s)", self.processors, self.megahertz);
        if !self.caches.is_empty() {
            out.push_str("CPU Caches:\n");
        }
        for cache in &self.caches {
            let count = (self.processors / cache.sharing.max(1)).max(1);
            let _ = writeln!(out, "  L{} {} {} KiB (x{count})", cache.level, cache.kind, cache.bytes >> 10);
        }
        if !self.load.is_empty() {
            let load = self.load.iter().map(|load| format!("{load:.2}")).collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "Load Average: {load}");
        }
        if cfg!(debug_assertions) {
            out.push_str("***WARNING*** Built as debug. Timings may be affected.\n");
        }
        out
    }
}

/// Formats a number without decimals.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn rounded<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(number.round() as u64)
}

/// Returns the first processor's clock from `/proc/cpuinfo`.
fn megahertz(cpuinfo: &str) -> f64 {
    let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"));
    line.and_then(|line| line.split_once(':')).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0.0)
}

fn caches(folder: &Path) -> Vec<Cache> {
    let mut caches = Vec::new();
    for index in 0.. {
        let read = |name: &str| {
            fs::read_to_string(folder.join(format!("index{index}")).join(name)).map(|text| text.trim().to_owned())
        };
        let (Ok(kind), Ok(level), Ok(size)) = (read("type"), read("level"), read("size")) else { break };
        let kib: u64 = size.trim_end_matches('K').parse().unwrap_or(0);
        let sharing = read("shared_cpu_map").unwrap_or_default();
        let sharing = sharing.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit.count_ones() as usize).sum();
        caches.push(Cache { kind, level: level.parse().unwrap_or(0), bytes: kib << 10, sharing });
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_from_cpuinfo() {
        assert_eq!(megahertz("processor\t: 0\ncpu MHz\t\t: 2596.124\ncpu MHz\t\t: 1.0\n"), 2596.124);
        assert_eq!(megahertz(""), 0.0);
    }

    #[test]
    fn unknown_properties_are_omitted() {
        assert_eq!(Machine::unknown().console().lines().filter(|line| !line.starts_with('*')).count(), 3);
    }
}
