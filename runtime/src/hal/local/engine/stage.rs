//! The stages of a command buffer: what stands between barriers, cut into chunks.

use alloc::vec::Vec;
use core::ops::Range;

use super::super::super::commands::{BufferBinding, Command, Commands};
use super::super::cost::kernel_cost;
use super::super::execution;
use super::estimate::{self, MINIMUM_CHUNK};
use crate::{Error, Result};

/// A command of a stage.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Index of the command.
    pub(super) command: usize,
    /// The chunks of the stage that are this node's.
    pub(super) chunks: Range<u32>,
    /// Workgroups, or units of a transfer, of each chunk but the last.
    chunk: u64,
    /// Workgroups, or units of a transfer, of all chunks.
    total: u64,
    /// Workgroup counts of a dispatch, read once.
    pub(super) workgroup_count: [u32; 3],
}

impl Node {
    /// The workgroups, or units of a transfer, of a chunk.
    pub(super) fn range(&self, chunk: u32) -> Range<u64> {
        let start = u64::from(chunk.saturating_sub(self.chunks.start)).saturating_mul(self.chunk).min(self.total);
        start..start.saturating_add(self.chunk).min(self.total)
    }

    /// All of its workgroups, or units.
    pub(super) fn whole(&self) -> Range<u64> {
        0..self.total
    }
}

/// Bytes of a unit of a transfer.
pub(super) const TRANSFER_UNIT: u64 = 4096;

/// The commands between two barriers. They are independent of each other.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// Index of the command after the stage.
    next: usize,
    pub(super) nodes: Vec<Node>,
    /// Expected time of all nodes, in picoseconds.
    pub(super) time: u64,
}

impl Stage {
    /// Starts before the first command.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.nodes.clear();
        self.time = 0;
    }

    /// The number of chunks.
    pub(super) fn chunks(&self) -> u32 {
        self.nodes.last().map_or(0, |node| node.chunks.end)
    }

    /// The node of a chunk.
    pub(super) fn node(&self, chunk: u32) -> Option<&Node> {
        self.nodes.get(self.nodes.partition_point(|node| node.chunks.end <= chunk))
    }

    /// Goes on to the next stage that has a node, for so many threads; false at the end.
    ///
    /// # Errors
    /// Those of bindings and workgroup counts, with the index of the command.
    pub(super) fn advance(
        &mut self,
        commands: &Commands,
        table: &[BufferBinding<'_>],
        threads: usize,
    ) -> core::result::Result<bool, (usize, Error)> {
        self.nodes.clear();
        self.time = 0;
        while let Some(command) = commands.list.get(self.next) {
            let index = self.next;
            self.next += 1;
            match command {
                Command::Barrier if self.nodes.is_empty() => {}
                Command::Barrier => break,
                Command::BeginDebugGroup { .. } | Command::EndDebugGroup => {}
                _ => self.add(commands, table, index, command, threads).map_err(|error| (index, error))?,
            }
        }
        Ok(!self.nodes.is_empty())
    }

    fn add(
        &mut self,
        commands: &Commands,
        table: &[BufferBinding<'_>],
        index: usize,
        command: &Command,
        threads: usize,
    ) -> Result<()> {
        let mut workgroup_count = [0; 3];
        let (total, time, divisible) = match command {
            Command::Dispatch(dispatch) => {
                let (count, total) = execution::workgroup_count(commands, dispatch, table)?;
                workgroup_count = count;
                let cost = kernel_cost(&dispatch.executable, dispatch.function);
                let time = estimate::of_workgroups(cost.and_then(|cost| cost.get()), total);
                let functions = dispatch.executable.code().functions();
                (total, time, functions.get(dispatch.function).is_some_and(|info| !info.sequential))
            }
            _ => {
                let bytes = execution::divisible_bytes(commands, command, table)?;
                let length = bytes.unwrap_or(0);
                // What cannot be divided is one unit.
                (length.div_ceil(TRANSFER_UNIT).max(1), estimate::of_bytes(length), bytes.is_some())
            }
        };
        if total == 0 {
            return Ok(());
        }
        let wanted = if divisible { estimate::chunks(time, total, threads) } else { 1 };
        let chunk = total.div_ceil(wanted);
        let start = self.chunks();
        // At most `wanted`, which is a small number for each thread.
        let count = u32::try_from(total.div_ceil(chunk)).unwrap_or(u32::MAX);
        let end = start.checked_add(count).ok_or_else(|| Error::resource_exhausted("stage has too many chunks"))?;
        self.nodes.push(Node { command: index, chunks: start..end, chunk, total, workgroup_count });
        self.time = self.time.saturating_add(time);
        Ok(())
    }

    /// True where several threads are expected to finish it sooner than one.
    pub(super) fn is_parallel(&self) -> bool {
        self.chunks() >= 2 && (self.time >= 2 * MINIMUM_CHUNK || cfg!(perturb))
    }
}
