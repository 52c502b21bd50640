//! Events of a recording, summed up by name.

use std::collections::BTreeMap;
use std::time::Duration;

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::profile::{EventKind, Recording, Work};

/// Start and end of an event, relative to the start of the recording.
type Interval = (Duration, Duration);

/// All events of a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: EventKind,
    /// The name, escaped.
    pub(crate) name: String,
    /// Commands, calls or waits.
    pub(crate) count: u64,
    /// The total time of all threads.
    pub(crate) busy: Duration,
    /// The time during which at least one thread was in the event.
    pub(crate) wall: Duration,
    pub(crate) workgroups: u64,
    pub(crate) bytes: u64,
    /// What loop nests did, where the interpreter ran them.
    pub(crate) work: Work,
}

impl Row {
    /// Returns the fraction of the threads' time in the event, while at least one was in it.
    pub(super) fn parallel_efficiency(&self, threads: usize) -> f64 {
        let available = self.wall.as_secs_f64() * threads.max(1) as f64;
        if available > 0.0 { (self.busy.as_secs_f64() / available).min(1.0) } else { 0.0 }
    }

    /// Returns gigabytes per second.
    pub(super) fn gigabytes_per_second(&self) -> f64 {
        let wall = self.wall.as_secs_f64();
        if wall > 0.0 { self.bytes as f64 / wall / 1e9 } else { 0.0 }
    }
}

/// Returns a row for each name, the longest time first.
pub(crate) fn rows(recording: &Recording) -> Vec<Row> {
    let mut spans: BTreeMap<(EventKind, &str), (Row, Vec<Interval>)> = BTreeMap::new();
    for event in recording.tracks.iter().flat_map(|track| &track.events) {
        let (row, spans) = spans.entry((event.kind, &event.name)).or_insert_with(|| {
            let name = Escaped(&event.name).to_string();
            let (busy, wall) = (Duration::ZERO, Duration::ZERO);
            (
                Row { kind: event.kind, name, count: 0, busy, wall, workgroups: 0, bytes: 0, work: Work::default() },
                Vec::new(),
            )
        });
        row.count += u64::from(event.first);
        row.busy += event.duration;
        row.workgroups = row.workgroups.saturating_add(event.workgroups);
        row.bytes = row.bytes.saturating_add(event.bytes);
        row.work.operations = row.work.operations.saturating_add(event.work.operations);
        row.work.bytes = row.work.bytes.saturating_add(event.work.bytes);
        spans.push((event.start, event.start + event.duration));
    }
    let mut rows: Vec<Row> = spans
        .into_values()
        .map(|(mut row, mut spans)| {
            spans.sort_unstable();
            let mut end = Duration::ZERO;
            for (from, to) in spans {
                row.wall += to.saturating_sub(from.max(end));
                end = end.max(to);
            }
            row
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.busy));
    rows
}
