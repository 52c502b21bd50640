//! Analyses of directed graphs with an entry: orders, dominators, loops. They know nothing of instructions.

use alloc::vec;
use alloc::vec::Vec;

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
        let mut walk = |from: &[u32]| {
            let mut stack = from.to_vec();
            while let Some(node) = stack.pop() {
                if !core::mem::replace(&mut reached[node as usize], true) {
                    stack.extend_from_slice(self.predecessors(node));
                }
            }
            reached.clone()
        };
        let mut seen = walk(&exits);
        for &node in self.reverse_postorder().nodes().iter().rev() {
            if !seen[node as usize] {
                exits.push(node);
                seen = walk(&[node]);
            }
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

/// The dominator tree: a node dominates another if every path from the entry to the other goes through it.
///
/// Computed by iterating over a reverse postorder (Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dominators {
    order: ReversePostorder,
    immediate: Vec<u32>,
    children: Vec<Vec<u32>>,
    /// Numbers of each node when a walk of the tree enters and leaves it.
    intervals: Vec<(u32, u32)>,
}

impl Dominators {
    fn new(graph: &Graph) -> Dominators {
        let order = graph.reverse_postorder();
        // Positions in the order, while the tree is being built: dominators have smaller ones.
        let mut tree = vec![NONE; order.nodes.len()];
        if let Some(root) = tree.first_mut() {
            *root = 0;
        }
        let mut changed = true;
        while changed {
            changed = false;
            for (position, node) in order.nodes.iter().enumerate().skip(1) {
                let mut dominator = NONE;
                for &predecessor in graph.predecessors(*node) {
                    let mut other = order.position(predecessor);
                    if other == NONE || tree[other as usize] == NONE {
                        continue;
                    }
                    if dominator == NONE {
                        dominator = other;
                    }
                    while dominator != other {
                        while other > dominator {
                            other = tree[other as usize];
                        }
                        while dominator > other {
                            dominator = tree[dominator as usize];
                        }
                    }
                }
                changed |= core::mem::replace(&mut tree[position], dominator) != dominator;
            }
        }
        let mut immediate = vec![NONE; graph.len()];
        let mut children = vec![Vec::new(); graph.len()];
        for (position, node) in order.nodes.iter().enumerate().skip(1) {
            let dominator = order.nodes[tree[position] as usize];
            immediate[*node as usize] = dominator;
            children[dominator as usize].push(*node);
        }
        let mut dominators = Dominators { order, immediate, children, intervals: vec![(0, 0); graph.len()] };
        dominators.number();
        dominators
    }

    fn number(&mut self) {
        let Some(&root) = self.order.nodes.first() else { return };
        let mut clock = 1;
        let mut stack = vec![(root, 0)];
        self.intervals[root as usize].0 = clock;
        while let Some((node, next)) = stack.last_mut() {
            clock += 1;
            match self.children[*node as usize].get(*next) {
                Some(&child) => {
                    *next += 1;
                    self.intervals[child as usize].0 = clock;
                    stack.push((child, 0));
                }
                None => {
                    self.intervals[*node as usize].1 = clock;
                    stack.pop();
                }
            }
        }
    }

    /// Returns the order in which the tree was built.
    #[must_use]
    pub fn order(&self) -> &ReversePostorder {
        &self.order
    }

    /// The closest node that dominates a node, other than itself; None for the entry and for nodes that cannot be reached.
    #[must_use]
    pub fn immediate(&self, node: u32) -> Option<u32> {
        Some(self.immediate[node as usize]).filter(|dominator| *dominator != NONE)
    }

    /// The nodes whose closest dominator a node is, in reverse postorder.
    #[must_use]
    pub fn children(&self, node: u32) -> &[u32] {
        &self.children[node as usize]
    }

    /// Whether every path to `node` goes through `dominator`. A node dominates itself; one that cannot be reached is dominated
    /// by none and dominates none.
    #[must_use]
    pub fn dominates(&self, dominator: u32, node: u32) -> bool {
        let (outer, inner) = (self.intervals[dominator as usize], self.intervals[node as usize]);
        outer.0 != 0 && outer.0 <= inner.0 && inner.1 <= outer.1
    }

    /// For each node, those where its dominance ends: it dominates a predecessor of them, and not strictly themselves.
    #[must_use]
    pub fn frontiers(&self, graph: &Graph) -> Vec<Vec<u32>> {
        let mut frontiers = vec![Vec::new(); graph.len()];
        for &node in self.order.nodes() {
            // The entry has a predecessor more than its edges show.
            if graph.predecessors(node).len() < 2 && node != graph.entry() {
                continue;
            }
            let dominator = self.immediate(node);
            for &predecessor in graph.predecessors(node).iter().filter(|node| self.order.is_reachable(**node)) {
                let mut runner = Some(predecessor);
                while let Some(at) = runner.filter(|_| runner != dominator) {
                    let frontier: &mut Vec<u32> = &mut frontiers[at as usize];
                    if frontier.last() == Some(&node) {
                        break;
                    }
                    frontier.push(node);
                    runner = self.immediate(at);
                }
            }
        }
        frontiers
    }

    /// Whether every cycle has one node that is the only entry.
    #[must_use]
    pub fn is_reducible(&self, graph: &Graph) -> bool {
        self.order.nodes().iter().all(|&node| {
            graph.successors(node).iter().all(|&successor| {
                self.order.position(successor) > self.order.position(node) || self.dominates(successor, node)
            })
        })
    }
}

/// A natural loop: the nodes from which a header can be reached again without leaving the nodes that it dominates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The only entry.
    pub header: u32,
    /// Its nodes, ascending; the header and the nodes of inner loops among them.
    pub nodes: Vec<u32>,
    /// The nodes whose edges lead back to the header, ascending.
    pub latches: Vec<u32>,
    /// The edges that leave it, as pairs of nodes.
    pub exits: Vec<(u32, u32)>,
    /// The loop around it, as an index into [`Loops::all`].
    pub parent: Option<usize>,
    /// How many loops it is in, itself included.
    pub depth: u32,
}

/// The natural loops of a graph. Cycles with several entries are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loops {
    loops: Vec<Loop>,
    innermost: Vec<Option<usize>>,
}

impl Loops {
    /// Finds the loops; those with the same header are one.
    #[must_use]
    pub fn new(graph: &Graph, dominators: &Dominators) -> Loops {
        let mut loops: Vec<Loop> = Vec::new();
        let mut innermost: Vec<Option<usize>> = vec![None; graph.len()];
        // Headers of outer loops stand before those of inner ones.
        for &header in dominators.order().nodes() {
            let mut latches: Vec<u32> = graph.predecessors(header).to_vec();
            latches.retain(|latch| dominators.dominates(header, *latch));
            latches.sort_unstable();
            latches.dedup();
            if latches.is_empty() {
                continue;
            }
            let mut nodes = vec![header];
            let mut stack = latches.clone();
            let mut inside = vec![false; graph.len()];
            inside[header as usize] = true;
            while let Some(node) = stack.pop() {
                if !core::mem::replace(&mut inside[node as usize], true) {
                    nodes.push(node);
                    let from = graph.predecessors(node).iter();
                    stack.extend(from.filter(|node| dominators.order().is_reachable(**node)));
                }
            }
            nodes.sort_unstable();
            let exits = nodes
                .iter()
                .flat_map(|&node| graph.successors(node).iter().map(move |&to| (node, to)))
                .filter(|(_, to)| !inside[*to as usize])
                .collect();
            let parent = innermost[header as usize];
            let depth = parent.map_or(1, |parent| loops[parent].depth + 1);
            for node in &nodes {
                innermost[*node as usize] = Some(loops.len());
            }
            loops.push(Loop { header, nodes, latches, exits, parent, depth });
        }
        Loops { loops, innermost }
    }

    /// The loops, outer ones before those that they contain.
    #[must_use]
    pub fn all(&self) -> &[Loop] {
        &self.loops
    }

    /// The innermost loop that a node is in, as an index into [`Loops::all`].
    #[must_use]
    pub fn innermost_index(&self, node: u32) -> Option<usize> {
        self.innermost[node as usize]
    }

    /// The innermost loop that a node is in.
    #[must_use]
    pub fn innermost(&self, node: u32) -> Option<&Loop> {
        self.innermost[node as usize].map(|index| &self.loops[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[&[u32]]) -> Graph {
        Graph::new(0, edges.iter().map(|targets| targets.to_vec()).collect())
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
        assert_eq!(dominators.frontiers(&graph), [vec![], vec![3], vec![3], vec![], vec![]]);
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
        assert_eq!((outer.header, &outer.nodes[..], &outer.latches[..]), (1, &[1, 2, 3, 4, 5][..], &[4, 5][..]));
        assert_eq!(outer.exits, [(1, 6), (3, 6), (5, 7)]);
        assert_eq!((inner.header, &inner.nodes[..], inner.parent, inner.depth), (2, &[2, 3][..], Some(0), 2));
        assert_eq!(inner.exits, [(2, 4), (3, 6)]);
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
        assert_eq!(dominators.frontiers(&graph), [vec![], vec![2], vec![1], vec![]]);
    }

    #[test]
    fn a_node_that_repeats_itself_is_a_loop() {
        let graph = graph(&[&[0, 1], &[]]);
        let dominators = graph.dominators();
        let loops = Loops::new(&graph, &dominators);
        assert_eq!((loops.all()[0].header, &loops.all()[0].nodes[..]), (0, &[0][..]));
        assert_eq!(dominators.frontiers(&graph)[0], [0]);
    }
}
