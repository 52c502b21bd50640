//! One execution of a command buffer by several participants.

use crate::vm::clock::Instant;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use std::sync::PoisonError;

use super::super::cost::measure;
use super::super::dispatch::{KernelCall, RecordedBindings, Scratch, execute_ranges};
use super::super::execution;
use super::claim::{Chunks, Participant, Stages, Step};
use super::participate::Engine;
use super::shares::Shares;
use super::sleep::Idle;
use super::stage::{Node, Stage, TRANSFER_UNIT};
use crate::hal::atomic::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, fence};
use crate::hal::backend::{Command, Commands, Completion, WaitParticipant};
use crate::hal::{BufferBinding, CommandBuffer};
use crate::vm::{Fuel, Meter};
use crate::worker_number::current_worker;
use crate::{Error, Result, profile};

/// The state of an execution. It is set up while no other thread has a reference, and reused.
#[derive(Debug)]
pub(super) struct Execution {
    engine: Weak<Engine>,
    stages: Stages<Work>,
    failure: Mutex<Option<(usize, Error)>>,
    has_failed: AtomicBool,
    end: Mutex<End>,
    has_ended: AtomicBool,
    /// Threads that participate.
    participants: AtomicU32,
}

/// What the stages are of.
#[derive(Debug, Default)]
struct Work {
    command_buffer: Option<Arc<CommandBuffer>>,
    /// What is bound to the slots.
    table: Vec<BufferBinding<'static>>,
    /// The meter of the call that submitted the execution, if it has limits.
    meter: Option<Arc<Meter>>,
    stage: Stage,
}

/// Who signals the completion.
#[derive(Debug, Default)]
enum End {
    /// The submitting thread, which participates.
    #[default]
    BySubmitter,
    /// The participant that ends the execution, because the submitting thread has left.
    ByParticipant(Completion<'static>),
    /// The execution has ended.
    Ended(Result<()>),
}

/// What a participating thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A thread of the executor, which polled for executions in an [`Engine::epoch`] and has others to participate in.
    Worker { epoch: u64 },
    /// A thread of the program, which needs the result of this execution.
    Caller,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under a lock is complete before anything can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Execution {
    /// An execution for an engine of so many threads.
    pub(super) fn new(engine: Weak<Engine>, threads: usize) -> Execution {
        Execution {
            engine,
            stages: Stages::new(Work::default(), threads),
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            end: Mutex::default(),
            has_ended: AtomicBool::new(false),
            participants: AtomicU32::new(0),
        }
    }

    /// Sets up an execution whose first chunk is claimable. The bindings are owned from here on.
    pub(super) fn set(
        &mut self,
        command_buffer: &Arc<CommandBuffer>,
        table: &[BufferBinding<'_>],
        meter: Option<&Arc<Meter>>,
    ) {
        *self.failure.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        *self.end.get_mut().unwrap_or_else(PoisonError::into_inner) = End::BySubmitter;
        self.has_failed.store(false, Ordering::Relaxed);
        self.has_ended.store(false, Ordering::Relaxed);
        self.stages.reset(1, |work| {
            work.command_buffer = Some(Arc::clone(command_buffer));
            work.table.clear();
            work.table.extend(table.iter().map(BufferBinding::to_own));
            work.meter = meter.cloned();
            work.stage.restart();
        });
    }

    /// True once everything is done; the completion is signalled or about to be.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// True where a chunk is unclaimed.
    pub(super) fn is_claimable(&self) -> bool {
        self.stages.is_claimable()
    }

    /// The number of threads that participate.
    pub(super) fn participants(&self) -> u32 {
        self.participants.load(Ordering::SeqCst)
    }

    /// Has the participant that ends the execution signal its completion, or signals it where the execution has ended.
    pub(super) fn leave_completion(self: &Arc<Execution>, completion: Completion<'_>) -> Result<()> {
        let mut end = lock(&self.end);
        if let End::Ended(result) = &mut *end {
            let result = core::mem::replace(result, Ok(()));
            drop(end);
            return completion.finish(result);
        }
        let completion = completion.detach();
        // A thread that will wait for the completion participates.
        completion.set_participant(&(Arc::clone(self) as Arc<dyn WaitParticipant>));
        *end = End::ByParticipant(completion);
        Ok(())
    }

    /// Runs the first chunk and the stages that one thread runs, before other threads know of the execution. True where that is
    /// all.
    pub(super) fn begin(self: &Arc<Execution>, engine: &Engine) -> bool {
        let mut participation = Participation::new(self, engine);
        participation.is_known = false;
        let ended = participation.step() == Step::Ended;
        participation.leave();
        ended
    }

    /// Participates until the execution ends or there is nothing to do for this thread; false in the latter case.
    pub(super) fn participate(self: &Arc<Execution>, engine: &Engine, role: Role) -> bool {
        loop {
            self.participate_once(engine, role);
            // Of participants that leave at once, the last comes back where one of them has published a stage.
            if self.has_ended() || !self.is_claimable() || self.participants() > 0 {
                return self.has_ended();
            }
        }
    }

    fn participate_once(self: &Arc<Execution>, engine: &Engine, role: Role) {
        let mut participation = Participation::new(self, engine);
        let (mut idle, mut epoch_of_divisions) = (Idle::default(), engine.epoch().wrapping_sub(1));
        loop {
            match participation.step() {
                Step::Ended => break,
                Step::Ran => {
                    idle = Idle::default();
                    // An execution that no other thread participates in is not left.
                    if role != Role::Caller && engine.is_surplus() && self.participants() > 1 {
                        break;
                    }
                }
                Step::Nothing => {
                    // The chunks that others run may be divided.
                    let epoch = engine.epoch();
                    if core::mem::replace(&mut epoch_of_divisions, epoch) != epoch && engine.join_divisions() {
                        idle = Idle::default();
                        continue;
                    }
                    let elsewhere = matches!(role, Role::Worker { epoch } if engine.epoch() != epoch);
                    if self.has_ended() || elsewhere || idle.is_over(engine.stage_spin()) {
                        break;
                    }
                }
            }
        }
        participation.leave();
    }

    /// Ends the execution: called once, by the participant that finished the last stage.
    fn finish(self: &Arc<Execution>, engine: &Engine) {
        let result = match lock(&self.failure).take() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        };
        engine.unregister(self);
        let completion = {
            let mut end = lock(&self.end);
            self.has_ended.store(true, Ordering::Release);
            match core::mem::replace(&mut *end, End::Ended(Ok(()))) {
                End::ByParticipant(completion) => Some((completion, result)),
                End::BySubmitter | End::Ended(_) => {
                    *end = End::Ended(result);
                    None
                }
            }
        };
        engine.end(|| {
            if let Some((completion, result)) = completion {
                // A thread that waits learns of a failure through the fence.
                let _ = completion.finish(result);
            }
        });
    }
}

impl WaitParticipant for Execution {
    fn participate(self: Arc<Self>) -> bool {
        if let Some(engine) = self.engine.upgrade() {
            loop {
                engine.as_caller(|| Execution::participate(&self, &engine, Role::Caller));
                // A thread that divided a loop may have counted on this one.
                fence(Ordering::SeqCst);
                if self.has_ended() || !engine.has_divisions() {
                    break;
                }
            }
        }
        self.has_ended()
    }
}

/// A thread that participates in an execution.
struct Participation<'a> {
    execution: &'a Arc<Execution>,
    engine: &'a Engine,
    scratch: Box<Scratch>,
    /// Index of the command that runs.
    command: usize,
    /// Other threads know of the execution.
    is_known: bool,
    /// The expected time and the number of chunks of a stage that this thread has published.
    published: Option<(u64, u32)>,
}

impl<'a> Participation<'a> {
    fn new(execution: &'a Arc<Execution>, engine: &'a Engine) -> Participation<'a> {
        execution.participants.fetch_add(1, Ordering::SeqCst);
        Participation { execution, engine, scratch: Scratch::take(), command: 0, is_known: true, published: None }
    }

    fn step(&mut self) -> Step {
        let execution = self.execution;
        let step = execution.stages.step(self);
        if let Some((time, chunks)) = self.published.take()
            && self.is_known
        {
            self.engine.wake_for(time, chunks.saturating_sub(execution.participants()) as usize);
        }
        if step == Step::Ended {
            self.execution.finish(self.engine);
        }
        step
    }

    fn leave(self) {
        self.scratch.give_back();
        self.execution.participants.fetch_sub(1, Ordering::SeqCst);
    }

    /// Runs parts of a node, which `drive` names by calling its argument, and measures them.
    fn run_node(
        &mut self,
        commands: &Commands,
        table: &[BufferBinding<'_>],
        meter: Option<&Arc<Meter>>,
        node: &Node,
        drive: impl FnOnce(&mut dyn FnMut(core::ops::Range<u64>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.command = node.command;
        let Some(command) = commands.list().get(node.command) else {
            return Err(Error::internal("command of an execution is gone"));
        };
        let start = Instant::now();
        let (mut done, mut is_first) = (0, false);
        let mut count = |range: &core::ops::Range<u64>| {
            done += range.end - range.start;
            is_first |= range.start == 0;
        };
        let result = match command {
            Command::Dispatch(dispatch) => {
                let mut fuel = Fuel::of(meter);
                let threads = u8::try_from(self.engine.concurrency()).unwrap_or(u8::MAX);
                let call = KernelCall {
                    executable: &dispatch.executable,
                    function: dispatch.function,
                    needs: &dispatch.needs,
                    workgroup_count: node.workgroup_count,
                    constants: commands.constants(dispatch),
                    threads,
                };
                let bindings = RecordedBindings::new(commands, dispatch, table);
                let scratch = &mut self.scratch;
                self.engine.dividing(|| {
                    execute_ranges(&call, &bindings, &mut fuel, scratch, |run| {
                        drive(&mut |range| {
                            count(&range);
                            run(range)
                        })
                    })
                })
            }
            transfer => drive(&mut |units| {
                count(&units);
                let byte = |unit: u64| usize::try_from(unit.saturating_mul(TRANSFER_UNIT)).unwrap_or(usize::MAX);
                // What cannot be divided is one unit of any length.
                let end = if units == node.whole() { usize::MAX } else { byte(units.end) };
                execution::execute_transfer_part(commands, transfer, table, byte(units.start)..end)
            }),
        };
        result.map_err(|error| execution::describe(error, node.command, command))?;
        if profile::is_on() {
            execution::record(start, commands, command, table, done, node.total, is_first);
        }
        if let Command::Dispatch(dispatch) = command {
            measure(start, (&dispatch.executable, dispatch.function), done);
        }
        Ok(())
    }
}

impl Work {
    /// The commands, and what is bound to their slots.
    fn commands(&self) -> Result<(&Commands, &[BufferBinding<'static>])> {
        let command_buffer = self.command_buffer.as_ref();
        let commands = command_buffer.ok_or_else(|| Error::internal("command buffer of an execution is gone"))?;
        Ok((commands.commands()?, &self.table))
    }
}

/// Charges the commands of a stage before other threads may run them.
///
/// # Errors
/// Those of [`execution::charge`], with the index of the command.
fn charge(
    meter: Option<&Arc<Meter>>,
    commands: &Commands,
    table: &[BufferBinding<'_>],
    stage: &Stage,
) -> core::result::Result<(), (usize, Error)> {
    if meter.is_none() {
        return Ok(());
    }
    let mut fuel = Fuel::of(meter);
    stage.nodes.iter().try_for_each(|node| {
        let Some(command) = commands.list().get(node.command) else { return Ok(()) };
        execution::charge(&mut fuel, commands, command, table, node.total).map_err(|error| (node.command, error))
    })
}

impl Participant<Work> for Participation<'_> {
    fn run(&mut self, work: &Work, chunks: &mut Chunks<'_>) -> Result<()> {
        let (commands, table) = work.commands()?;
        while let Some(chunk) = chunks.peek() {
            let Some(run) = work.stage.chunks_of_node(chunk) else {
                // The chunk before the first stage.
                chunks.run_in(&(0..u32::MAX), |_| Ok(()))?;
                continue;
            };
            let meter = work.meter.as_ref();
            let node = work.stage.nodes.get(run.node).ok_or_else(|| Error::internal("node of a chunk is gone"))?;
            self.run_node(commands, table, meter, node, |execute| {
                chunks.run_in(&run.numbers, |chunk| {
                    meter.map_or(Ok(()), |meter| meter.check())?;
                    execute(node.range(run.in_node(chunk)))
                })
            })?;
        }
        Ok(())
    }

    fn share(&self) -> usize {
        current_worker() as usize
    }

    fn fail(&mut self, error: Error) {
        let mut failure = lock(&self.execution.failure);
        if failure.as_ref().is_none_or(|(command, _)| self.command < *command) {
            *failure = Some((self.command, error));
        }
        self.execution.has_failed.store(true, Ordering::Release);
    }

    fn advance(&mut self, work: &mut Work, shares: &mut Shares) -> Result<u32> {
        let threads = self.engine.concurrency();
        let result = loop {
            if self.execution.has_failed.load(Ordering::Acquire) {
                break Ok(0);
            }
            let Work { command_buffer, table, meter, stage } = work;
            let commands = match command_buffer.as_ref().map(|buffer| buffer.commands()) {
                Some(Ok(commands)) => commands,
                Some(Err(error)) => break Err(error),
                None => break Ok(0),
            };
            let advanced = stage.advance(commands, table, threads);
            match advanced.and_then(|more| charge(meter.as_ref(), commands, table, stage).map(|()| more)) {
                Ok(true) if stage.is_parallel() => {
                    self.published = Some((stage.time, stage.chunks));
                    return Ok(stage.divide(shares));
                }
                Ok(true) => {}
                Ok(false) => break Ok(0),
                Err((index, error)) => {
                    self.command = index;
                    break Err(match commands.list().get(index) {
                        Some(command) => execution::describe(error, index, command),
                        None => error,
                    });
                }
            }
            let run = stage
                .nodes
                .iter()
                .try_for_each(|node| self.run_node(commands, table, meter.as_ref(), node, |run| run(node.whole())));
            if let Err(error) = run {
                break Err(error);
            }
        };
        // What was bound is given up before the completion is signalled.
        work.table.clear();
        work.command_buffer = None;
        work.meter = None;
        work.stage.restart();
        result
    }
}
