//! The objects of the harness.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use incarnate_runtime::ref_object;

/// An object known only to the harness; counts the live ones.
#[derive(Debug)]
pub struct Probe {
    id: i32,
    live: Arc<AtomicI64>,
}

ref_object!(Probe, "harness.probe");

impl Probe {
    /// Creates a probe of a number.
    pub fn new(id: i32, live: &Arc<AtomicI64>) -> Arc<Probe> {
        live.fetch_add(1, Ordering::Relaxed);
        Arc::new(Probe { id, live: live.clone() })
    }

    /// Returns the number.
    pub fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}
