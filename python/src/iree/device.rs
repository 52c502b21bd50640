//! `HalDevice`. [`queue`](super::queue) has its methods.

use std::sync::Arc;

use incarnate_runtime::hal::Device;
use pyo3::prelude::*;

use super::process::Process;

/// A device: memory, and a queue of operations.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct HalDevice {
    pub(super) device: Arc<Device>,
    process: Process,
}

impl HalDevice {
    pub(super) fn new(device: Arc<Device>) -> HalDevice {
        HalDevice { device, process: Process::current() }
    }

    /// Refuses devices of the process from which this one was forked.
    pub(super) fn check(&self) -> PyResult<()> {
        self.process.check("the device")
    }
}

impl Drop for HalDevice {
    fn drop(&mut self) {
        self.process.keep_in_children(&self.device);
    }
}
