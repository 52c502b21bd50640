//! What of a command buffer must wait for what.
//!
//! A command waits for those before the last barrier before it. Of these it need only wait for the ones that touch the
//! same memory, unless both only read it, and of these only for the ones that no other of them waits for already. What a
//! dispatch does with its bindings is not recorded, so each of them counts as written, but for buffers that nobody may
//! write. Slots are taken for disjoint; where an execution binds overlapping memory to them, [`Graph::in_waves`] is the
//! graph that holds all the same.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::super::super::commands::{BindingSource, Command, Commands, WorkgroupCount};
use super::super::super::memory::{MemoryAccess, WHOLE_BUFFER};

/// A dependency graph of commands. Nodes are in an order in which they could run one after the other.
#[derive(Debug, Default)]
pub(in crate::hal) struct Graph {
    nodes: Box<[Node]>,
    successors: Box<[u32]>,
    /// Nodes that wait for nothing.
    roots: Box<[u32]>,
    /// True where the order relies on slots that are bound to disjoint memory.
    needs_disjoint_slots: bool,
    /// True where some nodes may run at the same time.
    concurrent: bool,
}

#[derive(Debug)]
struct Node {
    /// Index of the command; `None` for a node that only joins others.
    command: Option<u32>,
    dependencies: u32,
    successors: Range<u32>,
}

/// Nodes between two points at which everything before is waited for. It bounds what a node is compared with.
const SEGMENT: usize = 256;

/// A set of the first [`SEGMENT`] nodes of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct NodeSet([u64; SEGMENT / 64]);

impl NodeSet {
    fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn extend(&mut self, other: &NodeSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// A range of memory that a command touches.
#[derive(Clone, Copy, Debug)]
struct Access {
    /// Slot, or `None` for an address.
    slot: Option<u32>,
    start: u64,
    end: u64,
    writes: bool,
}

impl Access {
    fn conflicts(&self, other: &Access) -> bool {
        self.slot == other.slot && (self.writes || other.writes) && self.start < other.end && other.start < self.end
    }
}

/// Calls `visit` with the index in [`Commands::bindings`] of each range that a command touches, and whether it is written.
fn visit_accesses(command: &Command, mut visit: impl FnMut(u32, bool)) {
    match command {
        Command::Fill { target, .. } | Command::Update { target, .. } => visit(*target, true),
        // What was written in place of the target is in its memory where commands run by a graph.
        Command::Copy { source, target } | Command::Move { source, target } => {
            visit(*source, false);
            visit(*target, true);
        }
        Command::Dispatch(dispatch) => {
            dispatch.bindings.clone().for_each(|binding| visit(binding, true));
            if let WorkgroupCount::Indirect(binding) = dispatch.workgroup_count {
                visit(binding, false);
            }
        }
        Command::Barrier | Command::BeginDebugGroup { .. } | Command::EndDebugGroup => {}
    }
}

fn access(commands: &Commands, binding: u32, writes: bool) -> Option<Access> {
    let binding = commands.bindings.get(binding as usize)?;
    let end = |start: u64| if binding.length == WHOLE_BUFFER { u64::MAX } else { start.saturating_add(binding.length) };
    Some(match binding.source {
        BindingSource::Slot(slot) => {
            Access { slot: Some(slot), start: binding.offset, end: end(binding.offset), writes }
        }
        BindingSource::Direct(index) => {
            let buffer = commands.buffers.get(index as usize)?;
            let writes = writes && buffer.access().contains(MemoryAccess::WRITE);
            match buffer.identity() {
                Ok(address) => {
                    let start = (address as u64).saturating_add(binding.offset);
                    Access { slot: None, start, end: end(start), writes }
                }
                // There is no memory for it now. If there is some later, it may be anywhere.
                Err(_) => Access { slot: None, start: 0, end: u64::MAX, writes },
            }
        }
    })
}

#[derive(Default)]
struct Builder {
    commands: Vec<Option<u32>>,
    edges: Vec<(u32, u32)>,
}

impl Builder {
    fn node(&mut self, command: Option<u32>) -> u32 {
        self.commands.push(command);
        // Nodes are at most twice as many as commands, which memory bounds far below 32 bits.
        (self.commands.len() - 1) as u32
    }

    fn finish(self, needs_disjoint_slots: bool) -> Graph {
        let Builder { commands, mut edges } = self;
        edges.sort_unstable();
        let mut nodes: Vec<Node> =
            commands.into_iter().map(|command| Node { command, dependencies: 0, successors: 0..0 }).collect();
        for (_, to) in &edges {
            if let Some(node) = nodes.get_mut(*to as usize) {
                node.dependencies += 1;
            }
        }
        let mut start = 0;
        for (index, node) in nodes.iter_mut().enumerate() {
            let rest = edges.get(start as usize..).unwrap_or_default();
            let count = rest.iter().take_while(|(from, _)| *from as usize == index).count() as u32;
            node.successors = start..start + count;
            start += count;
        }
        let roots: Box<[u32]> =
            (0..).zip(&nodes).filter(|(_, node)| node.dependencies == 0).map(|(index, _)| index).collect();
        let concurrent = roots.len() > 1 || nodes.iter().any(|node| node.successors.len() > 1);
        let successors = edges.into_iter().map(|(_, to)| to).collect();
        Graph { nodes: nodes.into(), successors, roots, needs_disjoint_slots, concurrent }
    }
}

/// Commands of a segment, and what is known of them.
#[derive(Default)]
struct Segment {
    nodes: Vec<u32>,
    ancestors: Vec<NodeSet>,
    has_successor: Vec<bool>,
    accesses: Vec<Range<usize>>,
    /// Number of nodes before the last barrier.
    before_barrier: usize,
    /// The node that everything before the segment leads to.
    entry: Option<u32>,
}

impl Graph {
    /// The graph of as few dependencies as are known to suffice.
    pub(in crate::hal) fn minimal(commands: &Commands) -> Graph {
        let mut builder = Builder::default();
        let mut segment = Segment::default();
        let mut accesses: Vec<Access> = Vec::new();
        let mut relaxed = false;
        for (index, command) in (0u32..).zip(&commands.list) {
            match command {
                Command::Barrier => {
                    segment.before_barrier = segment.nodes.len();
                    if segment.nodes.len() >= SEGMENT {
                        segment = segment.close(&mut builder);
                        accesses.clear();
                    }
                    continue;
                }
                Command::BeginDebugGroup { .. } | Command::EndDebugGroup => continue,
                _ => {}
            }
            let start = accesses.len();
            visit_accesses(command, |binding, writes| accesses.extend(access(commands, binding, writes)));
            relaxed |= segment.add(&mut builder, index, &accesses, start..accesses.len());
        }
        builder.finish(relaxed)
    }

    /// The graph in which every command waits for all those before the last barrier.
    pub(in crate::hal) fn in_waves(commands: &Commands) -> Graph {
        let mut builder = Builder::default();
        let (mut previous, mut current): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (index, command) in (0u32..).zip(&commands.list) {
            match command {
                Command::Barrier if current.is_empty() => {}
                Command::Barrier => {
                    previous = core::mem::take(&mut current);
                    if previous.len() > 1 {
                        let join = builder.node(None);
                        builder.edges.extend(previous.iter().map(|node| (*node, join)));
                        previous = Vec::from([join]);
                    }
                }
                Command::BeginDebugGroup { .. } | Command::EndDebugGroup => {}
                _ => {
                    let node = builder.node(Some(index));
                    builder.edges.extend(previous.iter().map(|before| (*before, node)));
                    current.push(node);
                }
            }
        }
        builder.finish(false)
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many dependencies each node has.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.dependencies)
    }

    /// Nodes that wait for nothing.
    pub(super) fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// The command of a node; `None` for one that only joins others.
    #[inline]
    pub(super) fn command(&self, node: u32) -> Option<u32> {
        self.nodes.get(node as usize)?.command
    }

    /// Nodes that wait for a node.
    #[inline]
    pub(super) fn successors(&self, node: u32) -> &[u32] {
        let range = self.nodes.get(node as usize).map_or(0..0, |node| node.successors.clone());
        self.successors.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// True where the order relies on slots that are bound to disjoint memory.
    pub(super) fn needs_disjoint_slots(&self) -> bool {
        self.needs_disjoint_slots
    }

    /// True where some nodes may run at the same time.
    pub(super) fn concurrent(&self) -> bool {
        self.concurrent
    }
}

impl Segment {
    /// Adds a command; true where it waits for less than all before the barrier.
    fn add(&mut self, builder: &mut Builder, command: u32, all: &[Access], own: Range<usize>) -> bool {
        let node = builder.node(Some(command));
        let mut ancestors = NodeSet::default();
        let mut count = 0;
        let touched = all.get(own.clone()).unwrap_or_default();
        for earlier in (0..self.before_barrier).rev() {
            if count == self.before_barrier {
                break;
            }
            let theirs = self.accesses.get(earlier).and_then(|range| all.get(range.clone())).unwrap_or_default();
            let hazard = || touched.iter().any(|access| theirs.iter().any(|other| access.conflicts(other)));
            if ancestors.contains(earlier) || !hazard() {
                continue;
            }
            if let (Some(from), Some(known)) = (self.nodes.get(earlier), self.ancestors.get(earlier)) {
                builder.edges.push((*from, node));
                ancestors.extend(known);
                ancestors.insert(earlier);
                count = ancestors.len();
            }
            if let Some(flag) = self.has_successor.get_mut(earlier) {
                *flag = true;
            }
        }
        if let (Some(entry), true) = (self.entry, ancestors == NodeSet::default()) {
            builder.edges.push((entry, node));
        }
        self.nodes.push(node);
        self.ancestors.push(ancestors);
        self.has_successor.push(false);
        self.accesses.push(own);
        count < self.before_barrier
    }

    /// Ends the segment with a node that waits for all of it, from which the next begins.
    fn close(self, builder: &mut Builder) -> Segment {
        let join = builder.node(None);
        let last = self.nodes.iter().zip(&self.has_successor).filter(|(_, has_successor)| !**has_successor);
        builder.edges.extend(last.map(|(node, _)| (*node, join)));
        Segment { entry: Some(join), ..Segment::default() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use alloc::vec;

    use super::super::super::super::commands::Binding;
    use super::*;
    use crate::vm::testing::Random;

    /// Commands that each fill a range of slot 0, written as start and end, or nothing for a barrier.
    fn fills(ranges: &[Option<(u64, u64)>]) -> Commands {
        let mut commands = Commands::default();
        for range in ranges {
            let command = match range {
                None => Command::Barrier,
                Some((start, end)) => {
                    let source = BindingSource::Slot(0);
                    commands.bindings.push(Binding { source, offset: *start, length: end - start });
                    let target = commands.bindings.len() as u32 - 1;
                    Command::Fill { target, pattern: 0, pattern_length: 1 }
                }
            };
            commands.list.push(command);
        }
        commands
    }

    fn edges(graph: &Graph) -> Vec<(u32, u32)> {
        (0..graph.len() as u32).flat_map(|from| graph.successors(from).iter().map(move |to| (from, *to))).collect()
    }

    #[test]
    fn only_hazards_across_barriers_are_dependencies() {
        let commands = fills(&[
            Some((0, 4)),
            Some((0, 8)),
            Some((8, 16)),
            None,
            Some((12, 13)),
            Some((20, 24)),
            None,
            Some((0, 24)),
        ]);
        let graph = Graph::minimal(&commands);
        // Without a barrier between them, 0 and 1 are not ordered; 5 waits for all, of which 2 is waited for by 3.
        assert_eq!(edges(&graph), [(0, 5), (1, 5), (2, 3), (3, 5), (4, 5)]);
        assert_eq!(graph.roots(), [0, 1, 2, 4]);
        assert!(graph.needs_disjoint_slots() && graph.concurrent());
        assert_eq!(graph.command(3), Some(4));
    }

    #[test]
    fn a_chain_stays_a_chain() {
        let mut ranges = vec![];
        for _ in 0..1000 {
            ranges.extend([Some((0, 4)), None]);
        }
        for graph in [Graph::minimal(&fills(&ranges)), Graph::in_waves(&fills(&ranges))] {
            assert!(!graph.concurrent() && !graph.needs_disjoint_slots());
            assert_eq!(graph.roots().len(), 1);
            let nodes = graph.len() as u32;
            assert!((1000..1010).contains(&nodes));
            assert!(edges(&graph).iter().all(|(from, to)| from + 1 == *to));
        }
    }

    #[test]
    fn waves_meet_in_one_node() {
        let ranges = [Some((0, 1)), Some((1, 2)), Some((2, 3)), None, None, Some((5, 6)), Some((7, 8))];
        let graph = Graph::in_waves(&fills(&ranges));
        assert_eq!(edges(&graph), [(0, 3), (1, 3), (2, 3), (3, 4), (3, 5)]);
        assert_eq!((graph.command(3), graph.command(4)), (None, Some(5)));
    }

    /// Every order that the graph allows is one that hazards allow: checked against the definition.
    #[test]
    fn random_graphs_keep_every_hazard() {
        let mut numbers = Random(0x9E37_79B9_7F4A_7C15);
        let mut random = |below: u64| numbers.below(below);
        for round in 0..60 {
            let count = if round % 10 == 0 { 700 } else { 60 };
            let ranges: Vec<Option<(u64, u64)>> = (0..count)
                .map(|_| {
                    (random(3) > 0).then(|| {
                        let start = random(40);
                        (start, start + 1 + random(6))
                    })
                })
                .collect();
            let commands = fills(&ranges);
            let graph = Graph::minimal(&commands);
            let mut reachable: Vec<Vec<bool>> = vec![vec![false; graph.len()]; graph.len()];
            for from in (0..graph.len()).rev() {
                for to in graph.successors(from as u32) {
                    let to = *to as usize;
                    assert!(from < to);
                    reachable[from][to] = true;
                    let further = reachable[to].clone();
                    reachable[from].iter_mut().zip(further).for_each(|(own, other)| *own |= other);
                }
            }
            let nodes: Vec<(usize, usize)> =
                (0..graph.len()).filter_map(|node| Some((node, graph.command(node as u32)? as usize))).collect();
            for (index, (from, first)) in nodes.iter().enumerate() {
                for (to, second) in &nodes[index + 1..] {
                    let (a, b) = (ranges[*first].unwrap(), ranges[*second].unwrap());
                    let barrier = ranges[*first..*second].contains(&None);
                    if barrier && a.0 < b.1 && b.0 < a.1 {
                        assert!(reachable[*from][*to], "{first} and {second} in round {round}");
                    }
                }
            }
        }
    }
}
