//! `local-task`: executions are spread over the cores.
//!
//! An execution of a command buffer that is too small to gain by that runs on the thread that submits it, as on
//! `local-sync`. Any other becomes a `run::Run`: its `graph::Graph` says which commands are ready, whose workgroups are
//! handed out in blocks (`claims`). Threads are those of an [`Executor`], and those that wait
//! for the execution's fence, which work along. Nothing is locked while work is handed out: `tracker::Tracker` counts.
//!
//! What commands cost is measured while they run and decides how they are divided and whether a sleeping thread is
//! woken (`plan`). A thread without work looks for some for a short time and then sleeps (`idle::IdleSet`).

use alloc::sync::Arc;
use core::time::Duration;
use std::time::Instant;

mod claims;
mod comparison;
mod crew;
mod executor;
mod graph;
mod idle;
#[cfg(all(test, loom))]
mod model;
mod options;
mod placement;
mod plan;
mod run;
mod scheduler;
mod sync;
mod team;
#[cfg(test)]
mod tests;
mod topology;
mod tracker;
mod workers;

pub(in crate::hal) use comparison::Comparison;
#[cfg(feature = "rayon")]
pub use executor::RayonExecutor;
pub use executor::{Executor, Work};
pub use options::{MAXIMUM_WORKERS, TaskOptions};
pub(in crate::hal) use plan::Plan;

use super::super::command_buffer::{CommandBuffer, CommandBufferMode, Prepare};
use super::super::commands::BufferBinding;
use super::super::moves;
use super::super::queue::{Backend, Completion};
use super::cost::picoseconds;
use super::execution;
use crate::{Result, profile};
use plan::{Bounds, Choice, Inline, Measured};
use scheduler::Scheduler;
use workers::WorkerPool;
pub(super) use workers::current_worker;

/// The longest that work which gains nothing by more threads keeps those from going on who submit it.
const LONGEST_INLINE: Duration = Duration::from_micros(100);

/// The backend of `local-task` devices.
#[derive(Debug)]
pub(in crate::hal) struct TaskBackend {
    scheduler: Arc<Scheduler>,
}

impl TaskBackend {
    /// A backend with threads of its own, or of the options' executor.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a number of workers that cannot be.
    pub(in crate::hal) fn new(options: &TaskOptions) -> Result<TaskBackend> {
        let executor: Arc<dyn Executor> = match &options.executor {
            Some(executor) => Arc::clone(executor),
            None => Arc::new(WorkerPool::new(options.workers()?, options.pinned)),
        };
        let spin = options.spin_time(executor.concurrency());
        Ok(TaskBackend { scheduler: Scheduler::new(executor, spin) })
    }

    fn execute_inline(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        mut how: Inline,
    ) -> Result<()> {
        if profile::is_on() {
            how.measured = Measured::No;
        }
        if !how.helped && !how.tried && how.measured == Measured::No {
            return execution::execute(command_buffer.commands()?, bindings);
        }
        let start = Instant::now();
        let helped = team::execute(&self.scheduler, command_buffer, bindings, how)?;
        if how.measured != Measured::No {
            let time = picoseconds(start.elapsed());
            if command_buffer.modes().contains(CommandBufferMode::ONE_SHOT) {
                if let Some(comparison) = plan::comparison_of(command_buffer.commands()?) {
                    comparison.learn(time, helped);
                }
            } else {
                command_buffer.plan().learn_inline(time, helped);
            }
        }
        Ok(())
    }
}

impl Backend for TaskBackend {
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()> {
        let scheduler = &self.scheduler;
        let commands = match command_buffer.commands() {
            Ok(commands) => commands,
            Err(error) => return completion.finish(Err(error)),
        };
        let plan = command_buffer.plan();
        let once = command_buffer.modes().contains(CommandBufferMode::ONE_SHOT);
        let bounds = Bounds {
            threads: scheduler.concurrency(),
            least_gain: scheduler.least_gain(),
            longest_inline: picoseconds(LONGEST_INLINE),
            turn: if once { scheduler.count_submission() } else { 0 },
        };
        let how = match plan.choose(commands, once, &bounds) {
            Choice::Inline(how) => how,
            Choice::Spread { hands } => {
                if let Err(error) =
                    execution::check_table(commands, bindings).and_then(|()| moves::copy_instead(commands))
                {
                    return completion.finish(Err(error));
                }
                let graph = plan.graph(commands, bindings);
                match scheduler.submit(command_buffer, graph, bindings, completion.detach(), hands) {
                    Ok(()) => return Ok(()),
                    Err(completion) => {
                        return completion.finish(self.execute_inline(command_buffer, bindings, Inline::default()));
                    }
                }
            }
        };
        completion.finish(self.execute_inline(command_buffer, bindings, how))
    }

    fn concurrency(&self) -> usize {
        self.scheduler.concurrency()
    }

    fn prepare(&self) -> Option<Prepare> {
        Some(Plan::prepare)
    }

    fn drain(&self) {
        self.scheduler.drain();
    }
}

impl Drop for TaskBackend {
    fn drop(&mut self) {
        self.scheduler.drain();
        self.scheduler.shut_down();
    }
}
