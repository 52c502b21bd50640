//! `local-task`: executions that several threads share.
//!
//! A command buffer is a list of stages: what stands between barriers. The commands of a stage are independent of each other, and are cut
//! into chunks by what they are expected to cost (`estimate`, `stage`). The threads that participate in an execution claim
//! chunks, each thread the same fraction of every command where it can (`shares`), and the one that finishes the last chunk of a stage publishes the
//! next (`claim`, `execution`). The submitting
//! thread participates first; workers join while the threads at work are fewer than the device's concurrency
//! (`participate`), and so does a thread that waits for the fence of the execution. A worker without work polls for some time
//! and then parks (`sleep`, `workers`).
//!
//! A loop of a kernel whose iterations do not depend on each other is divided in the same way while the kernel runs (`division`).
//!
//! An execution that takes too little time to be shared runs on the submitting thread as it does on `local-sync`.
//! `docs/engine.md` has the argument for the order of memory accesses, and the measurements behind the constants.

use alloc::sync::Arc;
use core::cell::Cell;

mod claim;
mod division;
mod estimate;
mod execution;
mod executor;
#[cfg(all(test, loom))]
mod model;
mod options;
mod padded;
mod participate;
mod shares;
mod sleep;
mod stage;
#[cfg(all(test, not(loom)))]
mod tests;
mod topology;
mod workers;

#[cfg(feature = "rayon")]
pub use executor::RayonExecutor;
pub use executor::{Executor, Work};
pub use options::{MAXIMUM_WORKERS, TaskOptions};

use super::execution as sequential;
use crate::Result;
use crate::hal::backend::{Backend, Commands, Completion, InlineExecution};
use crate::hal::{BufferBinding, CommandBuffer};
use crate::vm::Fuel;
use estimate::Estimate;
use participate::{Engine, Mode};
use workers::WorkerPool;

/// One of so many sequential executions of a thread is measured, so that measuring costs less than one part in a hundred of
/// the shortest (`cargo bench --bench task -- small_execution`).
const MEASURED_EVERY: u32 = 64;

thread_local! {
    /// Sequential executions of this thread until one is measured.
    static UNTIL_MEASURED: Cell<u32> = const { Cell::new(0) };
}

/// The backend of `local-task` devices.
#[derive(Debug)]
pub struct TaskBackend {
    engine: Arc<Engine>,
}

impl TaskBackend {
    /// A backend with threads of its own, or of the options' executor.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a number of workers that cannot be.
    pub fn new(options: &TaskOptions) -> Result<TaskBackend> {
        let executor: Arc<dyn Executor> = match &options.executor {
            Some(executor) => Arc::clone(executor),
            None => Arc::new(WorkerPool::new(options.workers()?, options.pinned)),
        };
        let spin = options.spin_time(executor.concurrency());
        Ok(TaskBackend { engine: Engine::new(executor, spin) })
    }

    fn execute_sequentially(
        &self,
        commands: &Commands,
        bindings: &[BufferBinding<'_>],
        fuel: &mut Fuel,
        is_unmeasured: bool,
        is_counted: bool,
    ) -> Result<()> {
        let mut run = || sequential::execute_measuring(commands, bindings, fuel, is_unmeasured || is_measured_now());
        // What counts takes long enough for its loops to be divided.
        if is_counted { self.engine.as_caller(|| self.engine.dividing(run)) } else { run() }
    }
}

/// Counts a sequential execution; true where it is to be measured.
fn is_measured_now() -> bool {
    let left = UNTIL_MEASURED.get();
    UNTIL_MEASURED.set(left.checked_sub(1).unwrap_or(MEASURED_EVERY - 1));
    left == 0
}

impl Backend for TaskBackend {
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()> {
        let commands = match command_buffer.commands() {
            Ok(commands) => commands,
            Err(error) => return completion.finish(Err(error)),
        };
        // The estimate walks the list, too.
        let mut fuel = Fuel::of(completion.meter());
        if let Err(error) = sequential::charge_list(&mut fuel, commands) {
            drop(fuel);
            return completion.finish(Err(error));
        }
        let estimate = Estimate::of(commands, self.engine.concurrency());
        let (mode, is_counted) = self.engine.mode(&estimate);
        if mode == Mode::Sequential {
            let result = self.execute_sequentially(commands, bindings, &mut fuel, estimate.is_unmeasured, is_counted);
            drop(fuel);
            return completion.finish(result);
        }
        drop(fuel);
        if let Err(error) = sequential::check_table(commands, bindings) {
            return completion.finish(Err(error));
        }
        self.engine.submit(command_buffer, bindings, completion, (mode, &estimate))
    }

    fn concurrency(&self) -> usize {
        self.engine.concurrency()
    }

    fn inline_execution(&self) -> Option<InlineExecution> {
        Some(InlineExecution {
            dispatch: |dispatch| {
                let is_short =
                    estimate::is_undivided((dispatch.executable, dispatch.function), dispatch.workgroup_count);
                is_short.then(|| sequential::execute_inline(dispatch, is_measured_now()))
            },
            longest_transfer: estimate::UNDIVIDED_BYTES,
        })
    }

    fn drain(&self) {
        self.engine.drain();
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }
}

impl Drop for TaskBackend {
    fn drop(&mut self) {
        self.engine.drain();
        self.engine.shut_down();
    }
}
