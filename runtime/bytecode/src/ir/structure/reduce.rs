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

/// Leads the edges into cycles with several entries through dispatch nodes.
pub(super) fn reduce(graph: &Graph) -> Reduced {
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
        return reduced;
    }
    // Sets of nodes that are still to be visited; a node's region is the last that it was put in. Edges between different
    // regions do not count, nor do edges to the headers of loops, which are the regions' `cut` nodes.
    let mut regions: Vec<(Vec<u32>, u32)> = vec![(order.nodes().to_vec(), u32::MAX)];
    while let Some((region, cut)) = regions.pop() {
        for component in components(&reduced, &region, cut) {
            let mut inside = vec![false; reduced.successors.len()];
            component.iter().for_each(|node| inside[*node as usize] = true);
            let entries = entries(&reduced, &component, &inside);
            match entries[..] {
                [] => {}
                [header] => regions.push((component, header)),
                _ => {
                    reduced.dispatch(&entries);
                    regions.push((component, u32::MAX));
                }
            }
        }
    }
    reduced
}

/// The nodes of a component that edges from outside lead to.
fn entries(reduced: &Reduced, component: &[u32], inside: &[bool]) -> Vec<u32> {
    let mut is_entry = vec![false; inside.len()];
    is_entry[reduced.start.target as usize] = true;
    for (node, successors) in reduced.successors.iter().enumerate() {
        if !inside[node] {
            successors.iter().for_each(|successor| is_entry[successor.target as usize] = true);
        }
    }
    component.iter().copied().filter(|node| is_entry[*node as usize]).collect()
}

impl Reduced {
    /// Puts a dispatch node before some nodes.
    fn dispatch(&mut self, entries: &[u32]) {
        let dispatch = self.successors.len() as u32;
        let selector = dispatch - self.node_count;
        let lead = |successor: &mut Successor| {
            // Entries of components are ascending. An entry that is reached through an inner dispatch is not led on twice:
            // dispatch nodes are created from the outside in.
            if let Some(arm) = entries.iter().position(|entry| *entry == successor.target) {
                *successor = Successor { target: dispatch, select: Some((selector, arm as u32)) };
            }
        };
        lead(&mut self.start);
        self.successors.iter_mut().flatten().for_each(lead);
        self.successors.push(entries.iter().map(|entry| Successor { target: *entry, select: None }).collect());
    }
}

/// The cycles of a region: its strongly connected components of more than one node, by Tarjan's algorithm. Edges to `cut` are
/// left out.
fn components(reduced: &Reduced, region: &[u32], cut: u32) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let count = reduced.successors.len();
    let mut inside = vec![false; count];
    region.iter().for_each(|node| inside[*node as usize] = true);
    let (mut number, mut low) = (vec![NEW; count], vec![0u32; count]);
    let (mut on_stack, mut stack, mut found) = (vec![false; count], Vec::new(), Vec::new());
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
    found
}
