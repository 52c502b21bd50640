//! `local-sync`: everything runs on the thread that submits it, or on the one that signals what it waited for.

use alloc::sync::Arc;

use super::execution;
use crate::Result;
use crate::hal::backend::{Backend, Completion, InlineExecution};
use crate::hal::{BufferBinding, CommandBuffer};

/// The backend of `local-sync` devices.
#[derive(Debug)]
pub struct SyncBackend;

impl Backend for SyncBackend {
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()> {
        let result = command_buffer.commands();
        let result = result.and_then(|commands| execution::execute(commands, bindings, completion.meter()));
        completion.finish(result)
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn inline_execution(&self) -> Option<InlineExecution> {
        Some(InlineExecution {
            dispatch: |dispatch| Some(execution::execute_inline(dispatch, false)),
            longest_transfer: u64::MAX,
        })
    }
}
