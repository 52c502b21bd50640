//! A trace in the JSON form that Chrome's and Perfetto's viewers read ("Trace Event Format").

#[cfg(feature = "cli")]
use std::time::Duration;

use incarnate_runtime::bytecode::Escaped;
#[cfg(feature = "cli")]
use incarnate_runtime::profile::Work;
use incarnate_runtime::profile::{Event, EventKind, Recording, Track};
use incarnate_runtime::{Error, Result};
use serde_json::{Value, json};

/// All kinds of events.
#[cfg(feature = "cli")]
const KINDS: [EventKind; 4] = [EventKind::Dispatch, EventKind::Transfer, EventKind::Wait, EventKind::Host];

/// Returns the category of a kind of events.
fn category(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Dispatch => "dispatch",
        EventKind::Transfer => "transfer",
        EventKind::Wait => "wait",
        EventKind::Host => "host",
    }
}

/// Returns all events by thread, in the order of their recording. Times are in microseconds.
///
/// # Errors
/// INTERNAL where a value cannot be written as JSON.
pub(super) fn trace(recording: &Recording) -> Result<String> {
    let events: Vec<Value> =
        recording.tracks.iter().enumerate().flat_map(|(thread, track)| events(thread, track)).collect();
    let trace = json!({
        "displayTimeUnit": "ns",
        "traceEvents": events,
        "otherData": { "dropped_events": recording.dropped },
    });
    serde_json::to_string(&trace).map_err(|error| Error::internal(error.to_string()))
}

/// Returns the name of a thread and its events.
fn events(thread: usize, track: &Track) -> impl Iterator<Item = Value> {
    let name = json!({ "ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": { "name": track.thread } });
    std::iter::once(name).chain(track.events.iter().map(move |event| complete(thread, event)))
}

/// Returns a complete event: one with a start and a duration.
fn complete(thread: usize, event: &Event) -> Value {
    json!({
        "ph": "X",
        "name": Escaped(&event.name).to_string(),
        "cat": category(event.kind),
        "pid": 1,
        "tid": thread,
        "ts": event.start.as_secs_f64() * 1e6,
        "dur": event.duration.as_secs_f64() * 1e6,
        "args": { "workgroups": event.workgroups, "bytes": event.bytes, "first": event.first },
    })
}

/// Reads the events of dispatches, transfers, waits and functions that [`trace`] wrote, all as of one thread.
///
/// # Errors
/// INVALID_ARGUMENT where it is no such trace.
#[cfg(feature = "cli")]
pub(crate) fn read_trace(text: &[u8]) -> Result<Recording> {
    let wrong = |why: &str| Error::invalid_argument(format!("no trace of a program: {why}"));
    let trace: Value = serde_json::from_slice(text).map_err(|error| wrong(&error.to_string()))?;
    let rows = trace["traceEvents"].as_array().ok_or_else(|| wrong("it has no events"))?;
    let event = |row: &Value| {
        let kind = KINDS.into_iter().find(|kind| row["cat"] == category(*kind))?;
        let time = |key: &str| Duration::try_from_secs_f64(row[key].as_f64()? / 1e6).ok();
        let number = |key: &str| row["args"][key].as_u64();
        Some(Event {
            kind,
            name: row["name"].as_str()?.into(),
            start: time("ts")?,
            duration: time("dur")?,
            workgroups: number("workgroups")?,
            bytes: number("bytes")?,
            first: row["args"]["first"].as_bool()?,
            work: Work::default(),
        })
    };
    let events = rows.iter().filter(|row| row["ph"] == "X").map(event).collect::<Option<Vec<Event>>>();
    let events = events.ok_or_else(|| wrong("an event lacks a field"))?;
    let track = Track { thread: String::new(), events };
    Ok(Recording { tracks: vec![track], dropped: 0, duration: Duration::ZERO })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::tests::recording;
    use super::*;

    #[cfg(feature = "cli")]
    #[test]
    fn traces_are_read_as_they_were_written() {
        let events = |recording: &Recording| {
            let all = recording.tracks.iter().flat_map(|track| &track.events);
            all.map(|event| (event.kind, event.name.clone(), event.duration, event.first)).collect::<Vec<_>>()
        };
        let read = read_trace(trace(&recording()).unwrap().as_bytes()).unwrap();
        assert_eq!(events(&read), events(&recording()));
        assert!(read_trace(b"{}").is_err() && read_trace(b"").is_err());
    }

    #[test]
    fn every_event_is_one_object() {
        let trace: Value = serde_json::from_str(&trace(&recording()).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 4);
        assert_eq!(events.iter().filter(|event| event["ph"] == "M").count(), 2);
        let kernel = events.iter().find(|event| event["cat"] == "dispatch").unwrap();
        assert_eq!(
            (&kernel["name"], &kernel["tid"], &kernel["ts"], &kernel["dur"]),
            (&json!("matmul<\"a\">"), &json!(0), &json!(0.0), &json!(100.0))
        );
    }
}
