//! What the machine is, for the head of a report. Linux tells it in files; what is not there is left out.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::report::number;
use crate::tooling::json::quoted;

/// A cache of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    kind: String,
    level: u32,
    bytes: u64,
    /// Number of logical processors that share it.
    sharing: usize,
}

/// Facts about the machine at the time of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// `2026-11-21T02:53:45+00:00`.
    date: String,
    host: String,
    executable: String,
    processors: usize,
    /// 0 where it is not known.
    megahertz: f64,
    caches: Vec<Cache>,
    load: Vec<f64>,
}

impl Machine {
    /// Asks the system.
    pub(super) fn detect() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg");
        Machine {
            date: date(SystemTime::now()),
            host: read("/proc/sys/kernel/hostname").trim().to_owned(),
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            megahertz: megahertz(&read("/proc/cpuinfo")),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            load: load.split_whitespace().take(3).filter_map(|field| field.parse().ok()).collect(),
        }
    }

    /// A machine of which nothing is known.
    #[cfg(test)]
    pub(super) fn unknown() -> Machine {
        Machine::default()
    }

    /// The fields of the JSON report's `context`, values as JSON.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let caches = self.caches.iter().map(|cache| {
            format!(
                "      {{\n        \"type\": {},\n        \"level\": {},\n        \"size\": {},\n        \
                 \"num_sharing\": {}\n      }}",
                quoted(&cache.kind),
                cache.level,
                cache.bytes,
                cache.sharing
            )
        });
        let caches = caches.collect::<Vec<_>>().join(",\n");
        let load = self.load.iter().map(|load| number(*load)).collect::<Vec<_>>().join(",");
        vec![
            ("date", quoted(&self.date)),
            ("host_name", quoted(&self.host)),
            ("executable", quoted(&self.executable)),
            ("num_cpus", self.processors.to_string()),
            ("mhz_per_cpu", format!("{:.0}", self.megahertz)),
            ("caches", if caches.is_empty() { "[]".to_owned() } else { format!("[\n{caches}\n    ]") }),
            ("load_avg", format!("[{load}]")),
            ("library_version", quoted(concat!("incarnate ", env!("CARGO_PKG_VERSION")))),
            ("library_build_type", quoted(if cfg!(debug_assertions) { "debug" } else { "release" })),
        ]
    }

    /// The head of the report for people.
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

/// The first processor's clock from `/proc/cpuinfo`.
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

/// A time of the calendar, in UTC.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin with March, so that leap days are last: the calendar repeats every 400 years, or 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    format!(
        "{:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}+00:00",
        era * 400 + year,
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d @SECONDS +%FT%T+00:00`
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00+00:00"),
            (951_782_399, "2000-02-28T23:59:59+00:00"),
            (951_782_400, "2000-02-29T00:00:00+00:00"),
            (1_795_229_625, "2026-11-21T02:53:45+00:00"),
            (4_107_542_400, "2100-03-01T00:00:00+00:00"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_clock_is_read_from_cpuinfo() {
        assert_eq!(megahertz("processor\t: 0\ncpu MHz\t\t: 2596.124\ncpu MHz\t\t: 1.0\n"), 2596.124);
        assert_eq!(megahertz(""), 0.0);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        assert_eq!(Machine::unknown().console().lines().filter(|line| !line.starts_with('*')).count(), 3);
    }
}
