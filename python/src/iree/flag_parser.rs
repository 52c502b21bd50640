//! Flags of the process, as `iree-run-module` takes them.

use std::sync::{Mutex, PoisonError};

use incarnate_runtime::hal::DeviceOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The number of workers of `local-task` devices that are created from now on; None for one for each core.
static WORKERS: Mutex<Option<usize>> = Mutex::new(None);

const HELP: &str = "Flags of incarnate.iree.runtime:
  --help                             prints this text
  --task_topology_group_count=N      workers of local-task devices; 0 for one for each core
";

/// Options of a device that is created now.
pub(super) fn device_options() -> DeviceOptions {
    let mut options = DeviceOptions::default();
    options.task.worker_count = *WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    options
}

/// Sets flags of the process: `--task_topology_group_count=N`, the workers of `local-task` devices. `--help` prints them.
#[pyfunction]
#[pyo3(signature = (*flags))]
pub(super) fn parse_flags(py: Python<'_>, flags: Vec<String>) -> PyResult<()> {
    for flag in flags {
        let (name, value) = flag.trim_start_matches('-').split_once('=').unwrap_or((flag.trim_start_matches('-'), ""));
        match name {
            "help" => py.import("builtins")?.getattr("print")?.call1((HELP,)).map(drop)?,
            "task_topology_group_count" => {
                let count: usize = value
                    .parse()
                    .map_err(|_| PyValueError::new_err(format!("flag '{name}' is '{value}', which is no number")))?;
                *WORKERS.lock().unwrap_or_else(PoisonError::into_inner) = (count > 0).then_some(count);
            }
            _ => return Err(PyValueError::new_err(format!("flag '{name}' not recognized; --help lists the flags"))),
        }
    }
    Ok(())
}
