//! Gives every cycle a single entry.

use alloc::vec;
use alloc::vec::Vec;

use super::super::graph::Graph;

/// An edge of the reduced graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Successor {
    pub(super) target: u32,
    /// The selector to set on this edge, and the arm that it chooses.
    pub(super) select: Option<(u32, u32)>,
}

/// A graph with dispatch nodes, which are numbered behind the others.
#[derive(Debug)]
pub(super) struct Reduced {
    start: Successor,
    successors: Vec<Vec<Successor>>,
    node_count: u32,
}

impl Reduced {
    pub(super) fn start(&self) -> &Successor {
        &self.start
    }

    pub(super) fn successors(&self, node: u32) -> &[Successor] {
        &self.successors[node as usize]
    }

    pub(super) fn selectors(&self) -> u32 {
        self.successors.len() as u32 - self.node_count
    }

    /// The selector of a dispatch node; None for other nodes.
    pub(super) fn selector(&self, node: u32) -> Option<u32> {
        node.checked_sub(self.node_count)
    }

    pub(super) fn graph(&self) -> Graph {
        let successors = self
            .successors
            .iter()
            .map(|successors| successors.iter().map(|successor| successor.target).collect())
            .collect();
        Graph::new(self.start.target, successors)
    }
}

/// Leads the edges into cycles with several entries through dispatch nodes. None where cycles nest deeper than `depth_limit`.
pub(super) fn reduce(graph: &Graph, depth_limit: usize) -> Option<Reduced> {
    let successor = |target: &u32| Successor { target: *target, select: None };
    let count = graph.len() as u32;
    let mut reduced = Reduced {
        start: successor(&graph.entry()),
        successors: (0..count).map(|node| graph.successors(node).iter().map(successor).collect()).collect(),
        node_count: count,
    };
    // What cannot be reached is no entry to anything.
    let order = graph.reverse_postorder();
    for node in (0..count).filter(|node| !order.is_reachable(*node)) {
        reduced.successors[node as usize].clear();
    }
    if graph.dominators().is_reducible(graph) {
        return Some(reduced);
    }
    let mut scratch = Scratch::new(&reduced);
    // Sets of nodes that are still to be visited; a node's region is the last that it was put in. Edges between different
    // regions do not count, nor do edges to the headers of loops, which are the regions' `cut` nodes.
    let mut regions: Vec<(Vec<u32>, u32, usize)> = vec![(order.nodes().to_vec(), u32::MAX, 0)];
    while let Some((region, cut, depth)) = regions.pop() {
        if depth > depth_limit {
            return None;
        }
        for component in scratch.components(&reduced, &region, cut) {
            let entries = scratch.entries(&reduced, &component);
            match entries[..] {
                [] => {}
                [header] => regions.push((component, header, depth + 1)),
                _ => {
                    scratch.dispatch(&mut reduced, &entries);
                    regions.push((component, u32::MAX, depth + 1));
                }
            }
        }
    }
    Some(reduced)
}

/// Facts about nodes for one step of the reduction. What a step writes, it takes back: its time is that of its own nodes.
struct Scratch {
    predecessors: Vec<Vec<u32>>,
    inside: Vec<bool>,
    number: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    /// The number of each entry of the dispatch node that is being created.
    arms: Vec<u32>,
}

const NEW: u32 = u32::MAX;

impl Scratch {
    fn new(reduced: &Reduced) -> Scratch {
        let count = reduced.successors.len();
        let mut predecessors = vec![Vec::new(); count];
        for (node, successors) in reduced.successors.iter().enumerate() {
            successors.iter().for_each(|successor| predecessors[successor.target as usize].push(node as u32));
        }
        Scratch {
            predecessors,
            inside: vec![false; count],
            number: vec![NEW; count],
            low: vec![0; count],
            on_stack: vec![false; count],
            arms: vec![NEW; count],
        }
    }

    fn mark(&mut self, nodes: &[u32], inside: bool) {
        nodes.iter().for_each(|node| self.inside[*node as usize] = inside);
    }

    /// The nodes of a component that edges from outside lead to.
    fn entries(&mut self, reduced: &Reduced, component: &[u32]) -> Vec<u32> {
        self.mark(component, true);
        let is_entry = |node: &u32| {
            let mut from = self.predecessors[*node as usize].iter();
            reduced.start.target == *node || from.any(|from| !self.inside[*from as usize])
        };
        let entries = component.iter().copied().filter(is_entry).collect();
        self.mark(component, false);
        entries
    }

    /// Puts a dispatch node before some nodes.
    fn dispatch(&mut self, reduced: &mut Reduced, entries: &[u32]) {
        let dispatch = reduced.successors.len() as u32;
        let selector = dispatch - reduced.node_count;
        let mut from = Vec::new();
        for (arm, entry) in (0..).zip(entries) {
            self.arms[*entry as usize] = arm;
            from.extend(core::mem::replace(&mut self.predecessors[*entry as usize], vec![dispatch]));
        }
        let lead = |successor: &mut Successor| {
            // An entry that is reached through an inner dispatch is not led on twice: dispatch nodes are created from the
            // outside in.
            let arm = self.arms[successor.target as usize];
            if arm != NEW {
                *successor = Successor { target: dispatch, select: Some((selector, arm)) };
            }
        };
        lead(&mut reduced.start);
        from.sort_unstable();
        from.dedup();
        from.iter().for_each(|node| reduced.successors[*node as usize].iter_mut().for_each(lead));
        reduced.successors.push(entries.iter().map(|entry| Successor { target: *entry, select: None }).collect());
        entries.iter().for_each(|entry| self.arms[*entry as usize] = NEW);
        self.predecessors.push(from);
        self.inside.push(false);
        self.number.push(NEW);
        self.low.push(0);
        self.on_stack.push(false);
        self.arms.push(NEW);
    }

    /// The cycles of a region: its strongly connected components of more than one node, by Tarjan's algorithm. Edges to `cut` are
    /// left out.
    fn components(&mut self, reduced: &Reduced, region: &[u32], cut: u32) -> Vec<Vec<u32>> {
        self.mark(region, true);
        let Scratch { inside, number, low, on_stack, .. } = self;
        let (mut stack, mut found) = (Vec::new(), Vec::new());
        let mut clock = 0;
        for &root in region {
            if number[root as usize] != NEW {
                continue;
            }
            let mut walk = vec![(root, 0usize)];
            while let Some((node, next)) = walk.last_mut() {
                let at = *node as usize;
                if *next == 0 {
                    (number[at], low[at]) = (clock, clock);
                    clock += 1;
                    stack.push(*node);
                    on_stack[at] = true;
                }
                let successor = reduced.successors[at].get(*next).copied();
                *next += 1;
                match successor {
                    Some(Successor { target, .. }) if target == cut || !inside[target as usize] => {}
                    Some(Successor { target, .. }) if number[target as usize] == NEW => walk.push((target, 0)),
                    Some(Successor { target, .. }) => {
                        if on_stack[target as usize] {
                            low[at] = low[at].min(number[target as usize]);
                        }
                    }
                    None => {
                        walk.pop();
                        if let Some((parent, _)) = walk.last() {
                            low[*parent as usize] = low[*parent as usize].min(low[at]);
                        }
                        if low[at] == number[at] {
                            let mut component = Vec::new();
                            while let Some(member) = stack.pop() {
                                on_stack[member as usize] = false;
                                component.push(member);
                                if member as usize == at {
                                    break;
                                }
                            }
                            if component.len() > 1 {
                                component.sort_unstable();
                                found.push(component);
                            }
                        }
                    }
                }
            }
        }
        region.iter().for_each(|node| number[*node as usize] = NEW);
        self.mark(region, false);
        found
    }
}
