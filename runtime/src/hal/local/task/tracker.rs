//! How far the execution of a graph has come: which nodes are ready, which workgroups are claimed, what is left. Everything
//! is counted; there are no locks.

use alloc::boxed::Box;
use core::ops::Range;

use super::claims::Claims;
use super::graph::Graph;
use super::sync::{AtomicU32, Ordering};

/// The state of one execution of a [`Graph`].
#[derive(Debug, Default)]
pub(super) struct Tracker {
    nodes: Box<[NodeState]>,
    /// Nodes that became ready, in that order, each plus one; zero is not written yet. A node is in it once at most.
    ready: Box<[AtomicU32]>,
    cursors: Option<Box<Cursors>>,
    /// Lanes of each node's workgroups.
    lanes: usize,
}

/// Apart from each other in cache lines, as different threads write them at different times.
#[derive(Debug)]
#[repr(align(64))]
struct NodeState {
    claims: Claims,
    pending: AtomicU32,
}

#[derive(Debug)]
#[repr(align(64))]
struct Cursors {
    /// Entries of `ready` before it are handed out in full.
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

impl Tracker {
    /// Prepares for an execution of a graph by threads with `lanes` lanes; keeps the memory where it suffices.
    pub(super) fn reset(&mut self, graph: &Graph, lanes: usize) {
        let count = graph.len();
        if self.nodes.len() < count || self.cursors.is_none() || self.lanes < lanes {
            self.lanes = lanes;
            let node = || NodeState { claims: Claims::new(lanes), pending: AtomicU32::new(0) };
            self.nodes = (0..count).map(|_| node()).collect();
            self.ready = (0..count).map(|_| AtomicU32::new(0)).collect();
            let zero = || AtomicU32::new(0);
            self.cursors = Some(Box::new(Cursors { head: zero(), tail: zero(), unfinished: zero() }));
        }
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

    fn node(&self, node: u32) -> Option<&NodeState> {
        self.nodes.get(node as usize)
    }

    /// The counters of a node's workgroups.
    #[inline]
    pub(super) fn claims(&self, node: u32) -> Option<&Claims> {
        self.node(node).map(|node| &node.claims)
    }

    /// Shows a ready node, whose workgroups are set, to all threads. Called once for a node.
    pub(super) fn publish(&self, node: u32) {
        let Some(cursors) = &self.cursors else { return };
        let position = cursors.tail.fetch_add(1, Ordering::AcqRel);
        if let Some(entry) = self.ready.get(position as usize) {
            entry.store(node + 1, Ordering::Release);
        }
    }

    /// Claims a block of a ready node, of those that became ready first, for a thread with the lane of this index.
    #[inline]
    pub(super) fn claim(&self, lane: usize) -> Option<Block> {
        let cursors = self.cursors.as_ref()?;
        let head = cursors.head.load(Ordering::Relaxed);
        let tail = cursors.tail.load(Ordering::Acquire);
        for position in head..tail {
            let Some(node) = self.ready.get(position as usize)?.load(Ordering::Acquire).checked_sub(1) else {
                // The thread that took the entry is about to write it.
                continue;
            };
            if let Some(workgroups) = self.claims(node)?.claim(lane) {
                return Some(Block { node, workgroups });
            }
            // Only from entry to entry, so that none that is still unwritten is passed over.
            let next = position + 1;
            let _ = cursors.head.compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        None
    }

    /// True where a block can probably be claimed.
    pub(super) fn claimable(&self) -> bool {
        let Some(cursors) = &self.cursors else { return false };
        let (head, tail) = (cursors.head.load(Ordering::Relaxed), cursors.tail.load(Ordering::Acquire));
        (head..tail).any(|position| {
            let entry = self.ready.get(position as usize).map_or(0, |entry| entry.load(Ordering::Acquire));
            entry.checked_sub(1).and_then(|node| self.claims(node)).is_some_and(|claims| claims.left() > 0)
        })
    }

    /// Counts a dependency of a node as done; true for the caller that counts the last.
    #[inline]
    pub(super) fn release(&self, node: u32) -> bool {
        self.node(node).is_some_and(|node| node.pending.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// Counts a node as done; true for the caller that counts the last.
    #[inline]
    pub(super) fn finish_node(&self) -> bool {
        self.cursors.as_ref().is_some_and(|cursors| cursors.unfinished.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}
