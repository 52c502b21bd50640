//! A trace in the JSON form that Chrome's and Perfetto's viewers read ("Trace Event Format").

use std::fmt::Write;

use incarnate_runtime::profile::{EventKind, Recording};

use crate::tooling::json::quoted;

/// Name of a kind, as the trace's category.
pub(super) fn category(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Dispatch => "dispatch",
        EventKind::Transfer => "transfer",
        EventKind::Wait => "wait",
        EventKind::Host => "host",
    }
}

/// All events, by thread; times are in microseconds.
pub(super) fn json(recording: &Recording) -> String {
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    let mut separator = "\n";
    for (thread, lane) in recording.lanes.iter().enumerate() {
        let name = quoted(&lane.thread);
        let _ = write!(
            out,
            "{separator}{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{thread},\"args\":{{\"name\":{name}}}}}"
        );
        separator = ",\n";
        for event in &lane.events {
            let _ = write!(
                out,
                "{separator}{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":1,\"tid\":{thread},\"ts\":{:.3},\"dur\":{:.3},\
                 \"args\":{{\"workgroups\":{},\"bytes\":{}}}}}",
                quoted(&event.name),
                category(event.kind),
                event.start.as_secs_f64() * 1e6,
                event.duration.as_secs_f64() * 1e6,
                event.workgroups,
                event.bytes
            );
        }
    }
    let _ = writeln!(out, "\n],\"otherData\":{{\"dropped_events\":{}}}}}", recording.dropped);
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::recording;

    #[test]
    fn every_event_is_one_object() {
        let text = super::json(&recording());
        assert_eq!(text.matches("\"ph\":\"X\"").count(), 4);
        assert_eq!(text.matches("\"ph\":\"M\"").count(), 2);
        assert!(text.contains(
            "\"name\":\"matmul<\\\"a\\\">\",\"cat\":\"dispatch\",\"pid\":1,\"tid\":0,\"ts\":0.000,\"dur\":100.000"
        ));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
