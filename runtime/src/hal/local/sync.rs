//! `local-sync`: everything runs on the thread that submits it, or on the one that signals what it waited for.

use alloc::sync::Arc;

use super::super::command_buffer::CommandBuffer;
use super::super::commands::BufferBinding;
use super::super::queue::{Backend, Completion};
use super::execution;
use crate::Result;

/// The backend of `local-sync` devices.
#[derive(Debug)]
pub(in crate::hal) struct SyncBackend;

impl Backend for SyncBackend {
    fn execute(
        &self,
        command_buffer: &Arc<CommandBuffer>,
        bindings: &[BufferBinding<'_>],
        completion: Completion<'_>,
    ) -> Result<()> {
        let result = command_buffer.commands().and_then(|commands| execution::execute(commands, bindings));
        completion.finish(result)
    }

    fn concurrency(&self) -> usize {
        1
    }
}
