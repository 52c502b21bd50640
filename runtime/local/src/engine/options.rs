//! How many threads a local-task device works with, and how they behave.

use alloc::format;
use alloc::sync::Arc;
use core::time::Duration;

use super::executor::Executor;
use super::topology;
use crate::{Error, Result};

/// The most workers of a device.
pub const MAXIMUM_WORKERS: usize = 1024;

/// How a local-task device works.
#[derive(Clone, Debug, Default)]
pub struct TaskOptions {
    /// Threads that work at once, the calling thread being one of them; `None` for one for each physical core.
    pub worker_count: Option<usize>,
    /// Binds each worker to a core of its own; where the system does not allow it, workers are not bound.
    pub pinned: bool,
    /// How long a worker polls for work before it parks; `None` for about as long as it takes to wake it, and for no
    /// time where there are more workers than cores.
    pub spin: Option<Duration>,
    /// Provides threads in place of the device's own; the options above then do not count, except for `spin`.
    pub executor: Option<Arc<dyn Executor>>,
}

impl TaskOptions {
    /// Returns the options with the parameters of a device's URI applied: `workers=N`, `spin_us=N`, `pin=0|1`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for other parameters and values.
    pub fn with_parameters(mut self, parameters: &[(&str, &str)]) -> Result<TaskOptions> {
        for (key, value) in parameters {
            let number = || {
                value.parse::<u32>().map_err(|_| {
                    Error::invalid_argument(format!("parameter '{key}' of local-task is '{value}', which is no number"))
                })
            };
            match *key {
                "workers" => self.worker_count = Some(number()? as usize),
                "spin_us" => self.spin = Some(Duration::from_micros(number()?.into())),
                "pin" => self.pinned = number()? != 0,
                _ => {
                    let why = format!("local-task has no parameter '{key}', only workers, spin_us and pin");
                    return Err(Error::invalid_argument(why));
                }
            }
        }
        Ok(self)
    }

    /// The number of workers.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for zero and for more than [`MAXIMUM_WORKERS`].
    pub(super) fn workers(&self) -> Result<usize> {
        match self.worker_count {
            None => Ok(topology::physical_cores().min(MAXIMUM_WORKERS)),
            Some(count) if (1..=MAXIMUM_WORKERS).contains(&count) => Ok(count),
            Some(count) => Err(Error::invalid_argument(format!(
                "local-task with {count} workers; there can be 1 to {MAXIMUM_WORKERS}"
            ))),
        }
    }

    /// How long workers poll for work; `None` for the engine's default.
    pub(super) fn spin_time(&self, workers: usize) -> Option<Duration> {
        self.spin.or_else(|| (workers > topology::logical_cores()).then_some(Duration::ZERO))
    }
}
