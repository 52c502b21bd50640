//! How far the execution of a graph has come: which nodes are ready, which workgroups are claimed, what is left. Everything
//! is counted; there are no locks.

use alloc::boxed::Box;
use core::ops::Range;

use super::claims::{self, Lane};
use super::graph::Graph;
use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// The state of one execution of a [`Graph`].
#[derive(Debug, Default)]
pub(super) struct Tracker {
    nodes: Box<[NodeState]>,
    /// The lanes of each node, one node's after the other's.
    lanes: Box<[Lane]>,
    lanes_of_node: usize,
    /// Nodes of the graph; there may be memory for more.
    count: usize,
    /// Nodes that became ready, in that order, each plus one; zero is not written yet. A node is in it once at most.
    ready: Box<[AtomicU32]>,
    cursors: Option<Box<Cursors>>,
}

/// Apart from each other in cache lines, as different threads write them at different times.
#[derive(Debug)]
#[repr(align(64))]
struct NodeState {
    /// Workgroups to go.
    unfinished: AtomicU64,
    /// Dependencies to go.
    pending: AtomicU32,
    /// Workgroups in each dimension.
    count: [AtomicU32; 3],
}

#[derive(Debug)]
#[repr(align(64))]
struct Cursors {
    /// Entries of `ready` before it are handed out in full; there may be more of these.
    head: AtomicU32,
    /// Entries of `ready` that are taken, of which the last may not be written yet.
    tail: AtomicU32,
    /// Nodes to go.
    unfinished: AtomicU32,
}

/// A block of workgroups of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) node: u32,
    pub(super) workgroups: Range<u64>,
}

/// Where a thread looks for blocks.
#[derive(Debug)]
pub(super) struct Seat {
    /// Index of its lane.
    pub(super) lane: usize,
    /// Entries of `ready` before it are handed out in full.
    position: u32,
    /// How often it has found nothing.
    looks: u32,
}

impl Seat {
    pub(super) fn new(lane: usize) -> Seat {
        Seat { lane, position: 0, looks: 0 }
    }
}

/// A thread that finds an entry unwritten looks behind it once in so many times: only another thread that is about to write
/// it leaves such a gap. The cursors are written for each node, so they are seldom read.
const LOOKS_FOR_EACH_LOOK_BEHIND: u32 = 8;
/// `head` follows in steps of so many entries.
const HEAD_STEP: u32 = 16;

impl Tracker {
    /// Prepares for an execution of a graph by threads with `lanes` lanes, at least 1; keeps the memory where it suffices.
    pub(super) fn reset(&mut self, graph: &Graph, lanes: usize) {
        let count = graph.len();
        if self.nodes.len() < count || self.cursors.is_none() {
            let zero = || AtomicU32::new(0);
            let node = || NodeState { unfinished: AtomicU64::new(0), pending: zero(), count: [zero(), zero(), zero()] };
            self.nodes = (0..count).map(|_| node()).collect();
            self.ready = (0..count).map(|_| zero()).collect();
            self.cursors = Some(Box::new(Cursors { head: zero(), tail: zero(), unfinished: zero() }));
        }
        if self.lanes.len() < count * lanes {
            self.lanes = (0..count * lanes).map(|_| Lane::new()).collect();
        }
        self.lanes_of_node = lanes;
        self.count = count;
        for ((node, state), ready) in graph.dependencies().zip(&self.nodes).zip(&self.ready) {
            state.pending.store(node, Ordering::Relaxed);
            ready.store(0, Ordering::Relaxed);
        }
        if let Some(cursors) = &self.cursors {
            cursors.head.store(0, Ordering::Relaxed);
            cursors.tail.store(0, Ordering::Relaxed);
            // A graph has as many nodes as 32 bits can number, for commands are numbered so.
            cursors.unfinished.store(count as u32, Ordering::Relaxed);
        }
    }

    #[inline]
    fn lanes(&self, node: u32) -> &[Lane] {
        let start = node as usize * self.lanes_of_node;
        self.lanes.get(start..start + self.lanes_of_node).unwrap_or_default()
    }

    /// Sets the workgroups of a node that is not published yet, and how many are claimed at once.
    pub(super) fn open(&self, node: u32, total: u64, block: u64) {
        if let Some(state) = self.nodes.get(node as usize) {
            state.unfinished.store(total, Ordering::Relaxed);
        }
        claims::open(self.lanes(node), total, block);
    }

    /// Sets the workgroups in each dimension of a node that is not published yet, for threads that claim a block of it.
    pub(super) fn set_count(&self, node: u32, count: [u32; 3]) {
        if let Some(state) = self.nodes.get(node as usize) {
            state.count.iter().zip(count).for_each(|(word, count)| word.store(count, Ordering::Relaxed));
        }
    }

    /// Returns the workgroups in each dimension of a node of which the caller has claimed a block.
    pub(super) fn count(&self, node: u32) -> [u32; 3] {
        let load = |state: &NodeState| state.count.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.nodes.get(node as usize).map_or([0; 3], load)
    }

    /// Claims a block of a node that was opened by this thread or is published.
    #[inline]
    pub(super) fn claim_of(&self, node: u32, lane: usize) -> Option<Range<u64>> {
        claims::claim(self.lanes(node), lane)
    }

    /// Workgroups of a node that are not handed out yet.
    pub(super) fn left(&self, node: u32) -> u64 {
        claims::left(self.lanes(node))
    }

    /// Counts workgroups of a node as done; true for the caller that counts the last. Everything that was done before any
    /// other count happens before that.
    #[inline]
    pub(super) fn finish(&self, node: u32, count: u64) -> bool {
        let Some(state) = self.nodes.get(node as usize) else { return false };
        state.unfinished.fetch_sub(count, Ordering::AcqRel) == count
    }

    /// Shows a ready node, whose workgroups are set, to all threads. Called once for a node.
    pub(super) fn publish(&self, node: u32) {
        let Some(cursors) = &self.cursors else { return };
        let position = cursors.tail.fetch_add(1, Ordering::AcqRel);
        if let Some(entry) = self.ready.get(position as usize) {
            entry.store(node + 1, Ordering::Release);
        }
    }

    /// The node of an entry of `ready`, if it is written.
    #[inline]
    fn entry(&self, position: u32) -> Option<u32> {
        self.ready.get(..self.count)?.get(position as usize)?.load(Ordering::Acquire).checked_sub(1)
    }

    /// Claims a block of a ready node, of those that became ready first.
    #[inline]
    pub(super) fn claim(&self, seat: &mut Seat) -> Option<Block> {
        while let Some(node) = self.entry(seat.position) {
            if let Some(workgroups) = self.claim_of(node, seat.lane) {
                seat.looks = 0;
                return Some(Block { node, workgroups });
            }
            seat.position += 1;
            if seat.position.is_multiple_of(HEAD_STEP)
                && let Some(cursors) = &self.cursors
            {
                cursors.head.fetch_max(seat.position, Ordering::Relaxed);
            }
        }
        let looks = seat.looks;
        seat.looks = looks.wrapping_add(1);
        if !looks.is_multiple_of(LOOKS_FOR_EACH_LOOK_BEHIND) {
            return None;
        }
        let tail = self.cursors.as_ref()?.tail.load(Ordering::Acquire);
        (seat.position..tail).find_map(|position| {
            let node = self.entry(position)?;
            self.claim_of(node, seat.lane).map(|workgroups| Block { node, workgroups })
        })
    }

    /// True where a block can probably be claimed.
    pub(super) fn claimable(&self) -> bool {
        let Some(cursors) = &self.cursors else { return false };
        let (head, tail) = (cursors.head.load(Ordering::Relaxed), cursors.tail.load(Ordering::Acquire));
        (head..tail).any(|position| self.entry(position).is_some_and(|node| self.left(node) > 0))
    }

    /// Counts a dependency of a node as done; true for the caller that counts the last.
    #[inline]
    pub(super) fn release(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.pending.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// Counts a node as done; true for the caller that counts the last.
    #[inline]
    pub(super) fn finish_node(&self) -> bool {
        self.cursors.as_ref().is_some_and(|cursors| cursors.unfinished.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}
