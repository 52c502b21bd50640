//! What a device implements to run operations.

use alloc::sync::Arc;
use core::fmt;

use super::completion::Completion;
#[cfg(doc)]
use super::completion::QueueAffinity;
use super::operation::Operation;
use crate::Result;
use crate::commands::command_buffer::CommandBuffer;
use crate::commands::executable::ExecutableCache;
use crate::commands::inline::InlineExecution;
use crate::commands::recorded::BufferBinding;
use crate::memory::allocator::Allocator;
use crate::sync::semaphore::WaitParticipant;

/// Runs operations whose wait fence is reached.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Runs or starts an operation and finishes `completion` when it is done. An error that is known on return is also
    /// returned.
    fn run(&self, operation: Operation, completion: Completion<'_>) -> Result<()> {
        let result = match &operation {
            Operation::Execute { command_buffer, bindings } => {
                return self.execute(command_buffer, bindings, completion);
            }
            other => other.transfer(completion.meter()),
        };
        // The operation's references are released before the signal.
        drop(operation);
        completion.finish(result)
    }

    /// Executes a command buffer like [`Backend::run`], but borrows its operands: the common case, in which nothing is
    /// pending, takes no references.
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()>;

    /// Returns true if the device itself can order an operation after others, which it has started and which signal what the
    /// operation waits for. Then the operation is passed to [`Backend::run`] or [`Backend::execute`] at once, with these tasks in
    /// its [`Completion`]; its fence fails if that of one of them has failed.
    ///
    /// `tasks` may be tasks of other devices. A device without commands of its own orders nothing.
    fn can_follow(&self, tasks: &[Arc<dyn WaitParticipant>], operation: Submitted<'_>) -> bool {
        let _ = (tasks, operation);
        false
    }

    /// Returns the number of workers that run the workgroups of a dispatch.
    fn concurrency(&self) -> usize;

    /// Returns the number of queues that a [`QueueAffinity`] selects from.
    fn queue_count(&self) -> usize {
        1
    }

    /// Returns the function that runs commands at once on the calling thread, while they are recorded; `None` if the device
    /// cannot.
    fn inline_execution(&self) -> Option<InlineExecution> {
        None
    }

    /// Returns an allocator of the device's own memory, by [`Allocator::of_device`]; `None` if its memory is the host's.
    fn device_allocator(&self) -> Option<Allocator> {
        None
    }

    /// Returns what loads the device's executables; `None` if it dispatches code for the host's processors.
    fn executable_cache(&self) -> Option<&dyn ExecutableCache> {
        None
    }

    /// Waits until no operation is running.
    fn drain(&self) {}

    /// Returns true if no operation is running that [`Backend::run`] or [`Backend::execute`] left running when it returned. An
    /// operation runs until its fence is signalled.
    fn is_idle(&self) -> bool {
        true
    }
}

/// An operation that is being submitted.
#[derive(Clone, Copy, Debug)]
pub enum Submitted<'a> {
    /// An operation with operands of its own.
    Operation(&'a Operation),
    /// The execution of a command buffer with a binding table.
    Execution(&'a Arc<CommandBuffer>, &'a [BufferBinding<'a>]),
}
