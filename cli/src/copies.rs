//! The progress of long copies between the host and devices, such as of parameters to a GPU, on a terminal.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;

/// A bar on standard error while bytes are copied.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies(Arc<Mutex<Option<ProgressBar>>>);

/// Returns a filter of the crates whose events tell of copies.
pub(super) fn targets() -> Targets {
    ["incarnate_hal", "incarnate_vulkan"].map(|target| (target, LevelFilter::DEBUG)).into_iter().collect()
}

impl<S: Subscriber> Layer<S> for Copies {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut bytes = Bytes::default();
        event.record(&mut bytes);
        if let Bytes { copied: Some(copied), total: Some(total) } = bytes {
            self.show(copied, total);
        }
    }
}

impl Copies {
    fn show(&self, copied: u64, total: u64) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = shown.get_or_insert_with(|| {
            let bar = ProgressBar::new(total);
            match ProgressStyle::with_template("copying [{bar:40}] {bytes}/{total_bytes}, {elapsed}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        bar.set_length(total);
        bar.set_position(copied);
        if copied >= total {
            drop(shown);
            self.clear();
        }
    }

    /// Removes the bar of a copy that has ended or failed.
    pub(super) fn clear(&self) {
        if let Some(bar) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

/// The fields of an event that tells how much of a copy is done.
#[derive(Default)]
struct Bytes {
    copied: Option<u64>,
    total: Option<u64>,
}

impl Visit for Bytes {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "copied" => self.copied = Some(value),
            "total" => self.total = Some(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    fn bar_after(copied: u64, other: bool) -> Option<(u64, Option<u64>)> {
        let copies = Copies::default();
        let subscriber = tracing_subscriber::registry().with(copies.clone().with_filter(targets()));
        tracing::subscriber::with_default(subscriber, || {
            if other {
                tracing::debug!(target: "incarnate_hal", copied, "without a total");
            } else {
                tracing::debug!(target: "incarnate_hal", copied, total = 100_u64, "copying");
            }
        });
        let shown = copies.0.lock().unwrap().as_ref().map(|bar| (bar.position(), bar.length()));
        copies.clear();
        assert!(copies.0.lock().unwrap().is_none());
        shown
    }

    #[test]
    fn a_copy_has_a_bar_until_its_end() {
        assert_eq!(bar_after(30, false), Some((30, Some(100))));
        assert_eq!(bar_after(100, false), None);
        assert_eq!(bar_after(30, true), None);
    }
}
