//! A trace in the JSON form that Chrome's and Perfetto's viewers read ("Trace Event Format").

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::profile::{Event, EventKind, Recording, Track};
use incarnate_runtime::{Error, Result};
use serde_json::{Value, json};

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
        "args": { "workgroups": event.workgroups, "bytes": event.bytes },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::tests::recording;
    use super::*;

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
