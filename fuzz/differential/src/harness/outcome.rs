//! The text of a run's observations.

use std::fmt;
use std::sync::{Arc, Mutex};

use incarnate_runtime::vm::{Ref, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::probe::Probe;

/// Recorded lines in order; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Appends a line.
    pub fn note(&self, line: &str) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line.to_owned());
    }

    /// Removes and returns all lines.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// Formats a reference by its contents; lists up to `depth` levels, because they may contain themselves.
pub fn describe(reference: &Ref, depth: usize) -> String {
    match reference {
        Ref::Null => "null".to_owned(),
        Ref::Buffer(buffer) => {
            let bytes: String =
                buffer.to_vec().unwrap_or_default().iter().take(64).map(|byte| format!("{byte:02x}")).collect();
            let hash = buffer.hash(0, buffer.length()).unwrap_or_default();
            format!("{buffer:?} {bytes} {hash:x}")
        }
        Ref::List(list) if depth == 0 => format!("{list:?}"),
        Ref::List(list) => {
            let items = (0..list.len().min(16) as u32).map(|index| match list.get(index) {
                Ok(value) => describe_value(&value, depth - 1),
                Err(error) => error.to_string(),
            });
            format!("{list:?} {:?}", items.collect::<Vec<_>>())
        }
        other => match other.get::<Probe>() {
            Ok(probe) => format!("probe {}", probe.id()),
            Err(_) => format!("{other:?}"),
        },
    }
}

/// Formats a value; floats by their bits.
pub fn describe_value(value: &Value, depth: usize) -> String {
    match value {
        Value::F32(v) => format!("f32:{:08x}", v.to_bits()),
        Value::F64(v) => format!("f64:{:016x}", v.to_bits()),
        Value::Ref(reference) => describe(reference, depth),
        other => format!("{other:?}"),
    }
}

/// Records the events of programs: traces, prints, breaks.
pub struct Events(pub Log);

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("vm.")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Fields(Vec<String>);
        impl Visit for Fields {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.push(format!("{}={value:?}", field.name()));
            }
        }
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        fields.0.sort();
        self.0.note(&format!("{} {} {}", event.metadata().level(), event.metadata().target(), fields.0.join(" ")));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
