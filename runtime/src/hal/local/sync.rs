//! `local-sync`: everything runs on the thread that submits it, or on the one that signals what it waited for.

use alloc::sync::Arc;

use super::super::command_buffer::CommandBuffer;
use super::super::commands::BufferBinding;
use super::super::queue::{Backend, Completion, Operation};
use super::execution;
use crate::Result;

/// The backend of `local-sync` devices.
#[derive(Debug)]
pub(in crate::hal) struct SyncBackend;

impl Backend for SyncBackend {
    fn run(&self, operation: Operation, completion: Completion) -> Result<()> {
        let result = match &operation {
            Operation::Execute { command_buffer, bindings } => {
                return self.execute(command_buffer, bindings, completion);
            }
            other => other.transfer(),
        };
        // What the operation held is free before anybody is told that it is done.
        drop(operation);
        completion.finish(result)
    }

    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding],
        completion: Completion,
    ) -> Result<()> {
        let result = command_buffer.commands().and_then(|commands| execution::execute(commands, bindings));
        completion.finish(result)
    }

    fn concurrency(&self) -> usize {
        1
    }
}
