//! The stages of a command buffer: what stands between barriers, cut into chunks.

use alloc::vec::Vec;
use core::ops::Range;

use super::estimate::{self, MINIMUM_CHUNK};
use super::shares::{Shares, end_of_share};
use crate::cost::kernel_cost;
use crate::execution::divisible_bytes;
use crate::hal::BufferBinding;
use crate::hal::backend::{Command, Commands};
use crate::{Error, Result};

/// A command of a stage.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Index of the command.
    pub(super) command: usize,
    /// Number of its chunks.
    chunks: u32,
    /// Workgroups, or units of a transfer, of each chunk but the last.
    chunk: u64,
    /// Workgroups, or units of a transfer, of all chunks.
    pub(super) total: u64,
    /// Workgroup counts of a dispatch, read once.
    pub(super) workgroup_count: [u32; 3],
}

impl Node {
    /// The workgroups, or units of a transfer, of a chunk.
    pub(super) fn range(&self, chunk: u32) -> Range<u64> {
        let start = u64::from(chunk).saturating_mul(self.chunk).min(self.total);
        start..start.saturating_add(self.chunk).min(self.total)
    }

    /// All of its workgroups, or units.
    pub(super) fn whole(&self) -> Range<u64> {
        0..self.total
    }
}

/// Chunks of a node that follow each other in a share.
#[derive(Clone, Debug)]
pub(super) struct ChunksOfNode {
    /// Their numbers in the stage.
    pub(super) numbers: Range<u32>,
    /// Index of the node.
    pub(super) node: usize,
    /// The number of the first in the node.
    first: u32,
}

impl ChunksOfNode {
    /// The number in the node of the chunk that has a number in the stage.
    pub(super) fn in_node(&self, number: u32) -> u32 {
        self.first + (number - self.numbers.start)
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
    /// The chunks in the order of their numbers, if the stage is divided.
    runs: Vec<ChunksOfNode>,
    /// Number of chunks.
    pub(super) chunks: u32,
    /// Expected time of all nodes, in picoseconds.
    pub(super) time: u64,
}

impl Stage {
    /// Starts before the first command.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.nodes.clear();
        self.runs.clear();
        (self.chunks, self.time) = (0, 0);
    }

    /// Gives each share the same fraction of each node, and numbers the chunks in the order of the shares. Returns their number.
    pub(super) fn divide(&mut self, shares: &mut Shares) -> u32 {
        let Stage { nodes, runs, .. } = self;
        runs.clear();
        let (count, mut next) = (shares.count(), 0);
        shares.set(|share| {
            let mut carried = 0;
            for (node, &Node { chunks, .. }) in nodes.iter().enumerate() {
                let end_of = |index| end_of_share(chunks, index, count, carried);
                let (first, end) = (end_of(share), end_of(share + 1));
                if first < end {
                    let start = next;
                    next += end - first;
                    runs.push(ChunksOfNode { numbers: start..next, node, first });
                }
                carried = (carried + chunks as usize) % count;
            }
            next
        })
    }

    /// The chunks of a node among which a chunk of a divided stage is.
    pub(super) fn chunks_of_node(&self, chunk: u32) -> Option<&ChunksOfNode> {
        self.runs.get(self.runs.partition_point(|run| run.numbers.end <= chunk))
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
        (self.chunks, self.time) = (0, 0);
        while let Some(command) = commands.list().get(self.next) {
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
        // Workgroups that stay together.
        let mut unit = 1;
        let (total, time) = match command {
            Command::Dispatch(dispatch) => {
                let (count, total) = crate::dispatch::workgroup_count(commands, dispatch, table)?;
                workgroup_count = count;
                let cost = kernel_cost(&dispatch.executable, dispatch.function);
                let time = estimate::of_workgroups(cost.and_then(|cost| cost.get()), total);
                let function = dispatch.executable.functions().get(dispatch.function);
                unit = estimate::unit_of(function, count, total, (time, threads));
                (total, time)
            }
            _ => {
                // What cannot be divided is one unit.
                let length = divisible_bytes(commands, command, table)?.unwrap_or(0);
                (length.div_ceil(TRANSFER_UNIT).max(1), estimate::of_bytes(length))
            }
        };
        if total == 0 {
            return Ok(());
        }
        let wanted = estimate::chunks(time, total.div_ceil(unit), threads);
        let chunk = total.div_ceil(wanted);
        let chunk = chunk.checked_next_multiple_of(unit).unwrap_or(chunk);
        // At most `wanted`, which is a small number for each thread.
        let chunks = u32::try_from(total.div_ceil(chunk)).unwrap_or(u32::MAX);
        let all = self.chunks.checked_add(chunks);
        self.chunks = all.ok_or_else(|| Error::resource_exhausted("stage has too many chunks"))?;
        self.nodes.push(Node { command: index, chunks, chunk, total, workgroup_count });
        self.time = self.time.saturating_add(time);
        Ok(())
    }

    /// True where several threads are expected to finish it sooner than one.
    pub(super) fn is_parallel(&self) -> bool {
        self.chunks >= 2 && (self.time >= 2 * MINIMUM_CHUNK || cfg!(perturb))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::estimate::Estimate;
    use super::*;
    use crate::hal::{
        Allocator, BufferParameters, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, ExecutionStage,
    };

    /// Records commands that each fill so many bytes of slot 0; `None` records a barrier.
    fn fills(lengths: &[Option<u64>]) -> CommandBuffer {
        let commands =
            CommandBuffer::new(CommandBufferMode::empty(), CommandCategory::all(), 1, None, crate::vm::Charge::none());
        for length in lengths {
            match *length {
                None => commands.execution_barrier(ExecutionStage::TRANSFER, ExecutionStage::TRANSFER),
                Some(length) => commands.fill(BufferRef { buffer: None, slot: 0, offset: 0, length }, 0, 1),
            }
            .unwrap();
        }
        commands.finalize().unwrap();
        commands
    }

    fn table() -> [BufferBinding<'static>; 1] {
        let buffer = Allocator::new().allocate(BufferParameters::DEVICE, 4 << 20).unwrap();
        [BufferBinding { buffer: Some(buffer.into()), offset: 0, length: 4 << 20 }]
    }

    #[test]
    fn stages_are_what_stands_between_barriers() {
        let recorded = fills(&[None, Some(64), Some(0), None, None, Some(1 << 20), Some(10), None]);
        let commands = recorded.commands().unwrap();
        let table = table();
        let mut stage = Stage::default();
        let mut found = Vec::new();
        while stage.advance(commands, &table, 2).unwrap() {
            found.push((stage.nodes.iter().map(|node| node.command).collect::<Vec<_>>(), stage.is_parallel()));
        }
        assert_eq!(found, [(alloc::vec![1, 2], false), (alloc::vec![5, 6], true)]);
        stage.restart();
        assert!(stage.advance(commands, &table, 1).unwrap());
        assert!(stage.advance(commands, &table, 1).unwrap());
        // One thread shares no node.
        assert_eq!(stage.chunks, 2);
    }

    #[test]
    fn chunks_cover_each_node_once() {
        for length in [1, 4096, 20_000, 20_480, 100_001, 1 << 20, (1 << 20) + 1] {
            let recorded = fills(&[Some(length), Some(3), Some(length)]);
            let commands = recorded.commands().unwrap();
            let mut stage = Stage::default();
            assert!(stage.advance(commands, &table(), 4).unwrap());
            for (index, node) in stage.nodes.iter().enumerate() {
                let mut next = 0;
                for chunk in 0..node.chunks {
                    let range = node.range(chunk);
                    assert!(range.start == next && range.end > next, "{length} {chunk} {range:?}");
                    next = range.end;
                }
                assert_eq!((node.command, node.whole()), (index, 0..next));
            }
        }
    }

    #[test]
    fn each_share_has_the_same_fraction_of_each_node() {
        let recorded = fills(&[Some(1 << 20), Some(3), Some(90_000)]);
        let commands = recorded.commands().unwrap();
        for count in [1, 2, 5, 40] {
            let (mut stage, mut shares) = (Stage::default(), Shares::new(count));
            assert!(stage.advance(commands, &table(), 4).unwrap());
            assert_eq!(stage.divide(&mut shares), stage.chunks);
            let mut ran: Vec<Vec<u32>> = stage.nodes.iter().map(|_| Vec::new()).collect();
            for number in 0..stage.chunks {
                // The first thread takes all of its share first, and then from the others.
                let taken = shares.take(0).unwrap();
                let found = stage.chunks_of_node(taken).unwrap();
                assert!(found.numbers.contains(&taken));
                let (chunk, of_node) = (found.in_node(taken), stage.nodes[found.node].chunks);
                if number < stage.chunks / count as u32 {
                    assert!(taken == number && chunk <= of_node.div_ceil(count as u32));
                }
                ran[found.node].push(chunk);
            }
            for (node, mut ran) in stage.nodes.iter().zip(ran) {
                ran.sort_unstable();
                assert_eq!(ran, (0..node.chunks).collect::<Vec<_>>());
            }
            assert!(shares.take(0).is_none() && stage.chunks_of_node(stage.chunks).is_none());
        }
    }

    #[test]
    fn errors_name_their_command() {
        let recorded = fills(&[Some(64), None, Some(8 << 20)]);
        let commands = recorded.commands().unwrap();
        let mut stage = Stage::default();
        assert!(stage.advance(commands, &table(), 2).unwrap());
        assert_eq!(stage.advance(commands, &table(), 2).unwrap_err().0, 2);
    }

    #[test]
    fn estimates_count_what_can_be_divided() {
        let recorded = fills(&[Some(64), None, Some(1 << 20), None, Some(100)]);
        let commands = recorded.commands().unwrap();
        let estimate = Estimate::of(commands, 2);
        assert_eq!((estimate.total, estimate.divisible), (((1 << 20) + 164) * 100, (1 << 20) * 100));
        assert_eq!(Estimate::of(commands, 1).divisible, 0);
        assert!(!estimate.is_unmeasured);
    }
}
