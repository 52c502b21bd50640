//! The printed table.

use std::fmt::Write;
use std::time::Duration;

use incarnate_runtime::profile::{EventKind, Recording};

use super::summary::{Row, rows};

/// Characters of the longest bar.
const BAR: f64 = 24.0;
/// Characters of the longest name.
const NAME: usize = 56;

/// Prints one row for each dispatch, transfer, wait and function, the longest time first within its kind.
/// `first_call` is the time of the call before the recording.
pub(super) fn table(recording: &Recording, threads: usize, first_call: Option<Duration>) -> String {
    let rows = rows(recording);
    let total: Duration = rows.iter().filter(|row| is_work(row)).map(|row| row.busy).sum();
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(8, NAME);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:width$} {:>9} {:>11} {:>7} {:>12} {:>8} {:>9}",
        "", "count", "total", "share", "workgroups", "GB/s <=", "parallel"
    );
    for kind in [EventKind::Dispatch, EventKind::Transfer, EventKind::Wait, EventKind::Host] {
        for row in rows.iter().filter(|row| row.kind == kind) {
            line(&mut out, row, width, total, threads);
        }
    }
    let _ = writeln!(
        out,
        "{} of {threads} threads in {}; shares are of their work. Waits and functions include nested events.",
        duration(total),
        duration(recording.duration)
    );
    if let Some(first_call) = first_call {
        let _ = writeln!(out, "The table is of the second call. The first one took {}.", duration(first_call));
    }
    if recording.dropped > 0 {
        let _ = writeln!(out, "{} more events were dropped.", recording.dropped);
    }
    out
}

fn is_work(row: &Row) -> bool {
    matches!(row.kind, EventKind::Dispatch | EventKind::Transfer)
}

fn line(out: &mut String, row: &Row, width: usize, total: Duration, threads: usize) {
    let name: String = row.name.chars().take(width).collect();
    let _ = write!(out, "{name:width$} {:>9} {:>11}", row.count, duration(row.busy));
    if is_work(row) {
        let share = row.busy.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
        let parallel = row.parallel_efficiency(threads) * 100.0;
        let _ = write!(
            out,
            " {:>6.1}% {:>12} {:>8.2} {parallel:>8.0}%  {}",
            share * 100.0,
            row.workgroups,
            row.gigabytes_per_second(),
            "#".repeat((share * BAR).round() as usize)
        );
    }
    out.push('\n');
}

/// Formats a time in a suitable unit.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.3} s"),
        seconds if seconds >= 1e-3 => format!("{:.3} ms", seconds * 1e3),
        seconds => format!("{:.2} us", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::recording;
    use super::*;

    #[test]
    fn rows_sum_up_the_events_of_threads() {
        let rows = rows(&recording());
        let kernel = rows.iter().find(|row| row.kind == EventKind::Dispatch).map(|row| (row.count, row.workgroups));
        assert_eq!(kernel, Some((1, 8)));
        let text = table(&recording(), 2, Some(Duration::from_micros(1300)));
        let kernel = text.lines().find(|line| line.starts_with("matmul")).unwrap_or_default();
        // 150 us of 2 x 100 us; 8000 bytes in 100 us.
        let columns: Vec<&str> = kernel.split_whitespace().collect();
        assert_eq!(columns[1..], ["1", "150.00", "us", "100.0%", "8", "0.08", "75%", &"#".repeat(24)]);
        assert!(text.lines().any(|line| line.starts_with("@main")) && text.contains("150.00 us of 2 threads"));
        assert!(text.ends_with("The table is of the second call. The first one took 1.300 ms.\n"), "{text}");
        assert!(!table(&recording(), 2, None).contains("call."));
    }
}
