//! Directed graphs with an entry, and orders of their nodes. They know nothing of instructions.

use alloc::vec;
use alloc::vec::Vec;

use super::dominators::Dominators;
use super::function::Function;

/// A node that is none: unreachable, or without a dominator.
pub const NONE: u32 = u32::MAX;

/// A directed graph with an entry; nodes are numbered from 0 on. Parallel edges are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    entry: u32,
    successors: Vec<Vec<u32>>,
    predecessors: Vec<Vec<u32>>,
}

impl Graph {
    /// A graph of the successors of each node. Edges to nodes that do not exist are left out.
    #[must_use]
    pub fn new(entry: u32, mut successors: Vec<Vec<u32>>) -> Graph {
        let count = successors.len();
        let mut predecessors = vec![Vec::new(); count];
        for (node, targets) in successors.iter_mut().enumerate() {
            targets.retain(|target| (*target as usize) < count);
            for &target in targets.iter() {
                predecessors[target as usize].push(node as u32);
            }
        }
        Graph { entry, successors, predecessors }
    }

    /// The blocks of a function, and its edges.
    #[must_use]
    pub fn of(function: &Function) -> Graph {
        let successors = |block: &super::function::BlockData| {
            block.terminator.successors().iter().map(|successor| successor.0).collect()
        };
        Graph::new(0, function.blocks.iter().map(successors).collect())
    }

    /// The node where everything begins.
    #[must_use]
    pub const fn entry(&self) -> u32 {
        self.entry
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.successors.len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.successors.is_empty()
    }

    /// Where edges from a node lead.
    ///
    /// # Panics
    /// Where there is no such node; so do the other functions that take a node.
    #[must_use]
    pub fn successors(&self, node: u32) -> &[u32] {
        &self.successors[node as usize]
    }

    /// Where edges to a node come from, once for each edge.
    #[must_use]
    pub fn predecessors(&self, node: u32) -> &[u32] {
        &self.predecessors[node as usize]
    }

    /// The graph with all edges turned round, entered at one more node, its last, that leads to every node without
    /// successors and to one node of every cycle that nothing leaves. Dominators in it are post-dominators.
    #[must_use]
    pub fn reversed(&self) -> Graph {
        let mut successors = self.predecessors.clone();
        let mut exits: Vec<u32> = (0..self.len() as u32).filter(|&node| self.successors(node).is_empty()).collect();
        let mut reached = vec![false; self.len()];
        let mut stack = exits.clone();
        let mut late = self.reverse_postorder().nodes().to_vec().into_iter().rev();
        loop {
            while let Some(node) = stack.pop() {
                if !core::mem::replace(&mut reached[node as usize], true) {
                    stack.extend_from_slice(self.predecessors(node));
                }
            }
            let Some(node) = late.find(|node| !reached[*node as usize]) else { break };
            exits.push(node);
            stack.push(node);
        }
        successors.push(exits);
        Graph::new(self.len() as u32, successors)
    }

    /// A reverse postorder of the nodes that can be reached: but for edges that go back, edges go forward in it.
    #[must_use]
    pub fn reverse_postorder(&self) -> ReversePostorder {
        let mut nodes = Vec::with_capacity(self.len());
        let mut visited = vec![false; self.len()];
        let mut stack = Vec::new();
        if let Some(visited) = visited.get_mut(self.entry as usize) {
            *visited = true;
            stack.push((self.entry, 0));
        }
        while let Some((node, next)) = stack.last_mut() {
            match self.successors(*node).get(*next) {
                Some(&successor) => {
                    *next += 1;
                    if !core::mem::replace(&mut visited[successor as usize], true) {
                        stack.push((successor, 0));
                    }
                }
                None => {
                    nodes.push(*node);
                    stack.pop();
                }
            }
        }
        nodes.reverse();
        let mut positions = vec![NONE; self.len()];
        for (position, node) in nodes.iter().enumerate() {
            positions[*node as usize] = position as u32;
        }
        ReversePostorder { nodes, positions }
    }

    /// The dominators.
    #[must_use]
    pub fn dominators(&self) -> Dominators {
        Dominators::new(self)
    }
}

/// An order of the nodes that can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReversePostorder {
    nodes: Vec<u32>,
    positions: Vec<u32>,
}

impl ReversePostorder {
    /// The nodes, in order.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// Where a node stands; [`NONE`] if it cannot be reached.
    #[must_use]
    pub fn position(&self, node: u32) -> u32 {
        self.positions[node as usize]
    }

    /// Whether a node can be reached.
    #[must_use]
    pub fn is_reachable(&self, node: u32) -> bool {
        self.position(node) != NONE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::loops::Loops;
    use super::*;
    use crate::Budget;

    fn graph(edges: &[&[u32]]) -> Graph {
        Graph::new(0, edges.iter().map(|targets| targets.to_vec()).collect())
    }

    fn frontiers(graph: &Graph) -> Vec<Vec<u32>> {
        graph.dominators().frontiers(graph, &mut Budget::of_entries(100)).unwrap()
    }

    #[test]
    fn frontiers_are_bounded() {
        // Each header of three nested loops has all headers around it in its frontier.
        let graph = graph(&[&[1], &[2], &[3], &[4], &[3, 5], &[2, 6], &[1, 7], &[]]);
        assert!(graph.dominators().frontiers(&graph, &mut Budget::of_entries(12)).is_ok());
        let error = graph.dominators().frontiers(&graph, &mut Budget::of_entries(11)).unwrap_err();
        assert_eq!(error.code(), crate::StatusCode::ResourceExhausted);
    }

    /// Returns 300 graphs of up to 12 nodes and up to 3 edges from each, with the number of their nodes.
    fn random_graphs(seed: u32) -> impl Iterator<Item = (u32, Graph)> {
        let mut state = seed;
        let mut random = move |end: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % end
        };
        (0..300).map(move |_| {
            let count = 2 + random(11);
            let edges = (0..count).map(|_| (0..random(4)).map(|_| random(count)).collect()).collect();
            (count, Graph::new(0, edges))
        })
    }

    #[test]
    fn dominators_of_random_graphs_are_those_of_the_definition() {
        for (count, graph) in random_graphs(1) {
            let dominators = graph.dominators();
            // What is reached from the entry without going through a node.
            let reached_without = |removed: u32| {
                let (mut reached, mut stack) = (vec![false; count as usize], vec![0]);
                while let Some(node) = stack.pop() {
                    if node != removed && !core::mem::replace(&mut reached[node as usize], true) {
                        stack.extend_from_slice(graph.successors(node));
                    }
                }
                reached
            };
            let reached = reached_without(NONE);
            for dominator in 0..count {
                let without = reached_without(dominator);
                for node in 0..count {
                    let expected = reached[dominator as usize] && reached[node as usize] && !without[node as usize];
                    assert_eq!(dominators.dominates(dominator, node), expected, "{dominator} of {node}: {graph:?}");
                }
            }
        }
    }

    #[test]
    fn loops_of_random_graphs_are_those_of_the_definition() {
        for (count, graph) in random_graphs(7) {
            let dominators = graph.dominators();
            let loops = Loops::new(&graph, &dominators);
            let mut at = 0;
            for &header in dominators.order().nodes() {
                let is_latch = |node: &u32| dominators.dominates(header, *node);
                let mut stack: Vec<u32> = graph.predecessors(header).iter().copied().filter(is_latch).collect();
                if stack.is_empty() {
                    continue;
                }
                let mut inside = vec![false; count as usize];
                inside[header as usize] = true;
                while let Some(node) = stack.pop() {
                    if !core::mem::replace(&mut inside[node as usize], true) {
                        let from = graph.predecessors(node).iter();
                        stack.extend(from.filter(|node| dominators.order().is_reachable(**node)));
                    }
                }
                let nodes = || (0..count).filter(|node| inside[*node as usize]);
                let leaves = |node: u32| graph.successors(node).iter().filter(|to| !inside[**to as usize]).count();
                let exits: usize = nodes().map(leaves).sum();
                assert_eq!((loops.all()[at].header, loops.all()[at].exits as usize), (header, exits), "{graph:?}");
                assert!((0..count).all(|node| loops.contains(at, node) == inside[node as usize]), "{graph:?}");
                assert!(loops.all()[at].parent.is_none_or(|parent| loops.contains(parent, header)));
                at += 1;
            }
            assert_eq!(at, loops.all().len());
        }
    }

    #[test]
    fn diamonds_end_dominance() {
        // 0 branches to 1 and 2, which meet in 3; 4 cannot be reached and leads there, too.
        let graph = graph(&[&[1, 2], &[3], &[3], &[], &[3]]);
        let dominators = graph.dominators();
        assert_eq!(dominators.order().nodes().len(), 4);
        assert!(!dominators.order().is_reachable(4) && dominators.immediate(4).is_none());
        assert_eq!(
            (0..4).map(|node| dominators.immediate(node)).collect::<Vec<_>>(),
            [None, Some(0), Some(0), Some(0)]
        );
        assert!(dominators.dominates(0, 3) && dominators.dominates(3, 3) && !dominators.dominates(1, 3));
        assert!(!dominators.dominates(4, 3) && !dominators.dominates(4, 4) && !dominators.dominates(0, 4));
        assert_eq!(frontiers(&graph), [vec![], vec![3], vec![3], vec![], vec![]]);
        assert!(dominators.is_reducible(&graph));
        let post = graph.reversed();
        let dominators = post.dominators();
        assert_eq!(dominators.immediate(0), Some(3));
        assert_eq!(dominators.immediate(1), Some(3));
        // The exit is the reversed graph's own node.
        assert_eq!(dominators.immediate(3), Some(5));
    }

    #[test]
    fn post_dominators_treat_endless_loops() {
        // 1 and 2 go round for ever; 3 returns.
        let graph = graph(&[&[1, 3], &[2], &[1], &[]]);
        let post = graph.reversed().dominators();
        assert!((0..4).all(|node| post.order().is_reachable(node)));
        assert_eq!(post.immediate(0), Some(4));
    }

    #[test]
    fn loops_nest() {
        // 1 is the header of the outer loop with latches 4 and 5, 2 that of the inner with 3; both have several exits.
        let graph = graph(&[&[1], &[2, 6], &[3, 4], &[2, 6], &[1, 5], &[1, 7], &[], &[]]);
        let dominators = graph.dominators();
        let loops = Loops::new(&graph, &dominators);
        let [outer, inner] = loops.all() else { unreachable!("{loops:?}") };
        let nodes = |at| (0..8).filter(|node| loops.contains(at, *node)).collect::<Vec<_>>();
        assert_eq!((outer.header, nodes(0), &outer.latches[..]), (1, vec![1, 2, 3, 4, 5], &[4, 5][..]));
        // 1 to 6, 3 to 6, 5 to 7.
        assert_eq!(outer.exits, 3);
        assert_eq!((inner.header, nodes(1), inner.parent, inner.depth), (2, vec![2, 3], Some(0), 2));
        // 2 to 4, 3 to 6.
        assert_eq!(inner.exits, 2);
        assert_eq!(loops.innermost(3).map(|found| found.header), Some(2));
        assert_eq!(loops.innermost(5).map(|found| found.header), Some(1));
        assert!(loops.innermost(6).is_none() && loops.innermost(0).is_none());
        assert!(dominators.is_reducible(&graph));
    }

    #[test]
    fn cycles_with_two_entries_are_irreducible() {
        let graph = graph(&[&[1, 2], &[2, 3], &[1], &[]]);
        let dominators = graph.dominators();
        assert!(!dominators.is_reducible(&graph));
        assert!(Loops::new(&graph, &dominators).all().is_empty());
        assert_eq!(dominators.immediate(2), Some(0));
        assert_eq!(frontiers(&graph), [vec![], vec![2], vec![1], vec![]]);
    }

    #[test]
    fn a_node_that_repeats_itself_is_a_loop() {
        let graph = graph(&[&[0, 1], &[]]);
        let dominators = graph.dominators();
        let loops = Loops::new(&graph, &dominators);
        assert_eq!((loops.all()[0].header, loops.all()[0].exits), (0, 1));
        assert!(loops.contains(0, 0) && !loops.contains(0, 1));
        assert_eq!(frontiers(&graph)[0], [0]);
    }
}
