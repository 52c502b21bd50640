//! Dominators of graphs.

use alloc::vec;
use alloc::vec::Vec;

use super::graph::{Graph, NONE, ReversePostorder};
use crate::{Budget, Result};

/// The dominator tree: a node dominates another if every path from the entry to the other goes through it.
///
/// Computed by the simple algorithm of Lengauer and Tarjan ("A Fast Algorithm for Finding Dominators in a Flowgraph"): its
/// time is `m log n` for every graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dominators {
    order: ReversePostorder,
    immediate: Vec<u32>,
    children: Vec<Vec<u32>>,
    /// Numbers of each node when a walk of the tree enters and leaves it.
    intervals: Vec<(u32, u32)>,
}

/// Some nodes, as far as their common dominators are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Common {
    /// The least number at which a walk of the tree enters one of them; zero if one cannot be reached.
    first: u32,
    /// The greatest number at which it leaves one.
    last: u32,
}

impl Dominators {
    pub(super) fn new(graph: &Graph) -> Dominators {
        let order = graph.reverse_postorder();
        let tree = Tree::of(graph).immediate_dominators(graph);
        let mut immediate = vec![NONE; graph.len()];
        let mut children = vec![Vec::new(); graph.len()];
        for node in order.nodes().iter().skip(1) {
            let dominator = tree[*node as usize];
            immediate[*node as usize] = dominator;
            children[dominator as usize].push(*node);
        }
        let mut dominators = Dominators { order, immediate, children, intervals: vec![(0, 0); graph.len()] };
        dominators.number();
        dominators
    }

    fn number(&mut self) {
        let Some(&root) = self.order.nodes().first() else { return };
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

    /// Adds a node to some, whose common dominators `dominates_all` tells.
    pub(super) fn common(&self, nodes: Option<Common>, node: u32) -> Common {
        let (first, last) = self.intervals[node as usize];
        nodes.map_or(Common { first, last }, |nodes| Common {
            first: nodes.first.min(first),
            last: nodes.last.max(last),
        })
    }

    /// Whether a node [dominates](Dominators::dominates) all of some.
    pub(super) fn dominates_all(&self, dominator: u32, nodes: Common) -> bool {
        let outer = self.intervals[dominator as usize];
        outer.0 != 0 && outer.0 <= nodes.first && nodes.last <= outer.1
    }

    /// For each node, those where its dominance ends: it dominates a predecessor of them, and not strictly themselves.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where they are more than the budget has: their number may be the square of that of the nodes.
    pub fn frontiers(&self, graph: &Graph, budget: &mut Budget) -> Result<Vec<Vec<u32>>> {
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
                    budget.spend(1, "dominance frontiers")?;
                    frontier.push(node);
                    runner = self.immediate(at);
                }
            }
        }
        Ok(frontiers)
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

/// A depth-first tree of the nodes that can be reached. Nodes are numbered in the order in which it reaches them.
struct Tree {
    /// By number.
    nodes: Vec<u32>,
    /// The number of each node; [`NONE`] if it cannot be reached.
    numbers: Vec<u32>,
    /// The number of each node's parent, by number; the root's own is 0.
    parents: Vec<u32>,
}

impl Tree {
    fn of(graph: &Graph) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), numbers: vec![NONE; graph.len()], parents: Vec::new() };
        let mut stack = Vec::new();
        if (graph.entry() as usize) < graph.len() {
            tree.reach(graph.entry(), 0);
            stack.push((graph.entry(), 0));
        }
        while let Some((node, next)) = stack.last_mut() {
            let Some(&successor) = graph.successors(*node).get(*next) else {
                stack.pop();
                continue;
            };
            *next += 1;
            if tree.numbers[successor as usize] == NONE {
                let parent = tree.numbers[*node as usize];
                tree.reach(successor, parent);
                stack.push((successor, 0));
            }
        }
        tree
    }

    fn reach(&mut self, node: u32, parent: u32) {
        self.numbers[node as usize] = self.nodes.len() as u32;
        self.nodes.push(node);
        self.parents.push(parent);
    }

    /// The closest dominator of each node; [`NONE`] for the entry and for nodes that cannot be reached.
    fn immediate_dominators(&self, graph: &Graph) -> Vec<u32> {
        let count = self.nodes.len();
        let mut forest = Forest::new(count);
        let mut semi: Vec<u32> = (0..count as u32).collect();
        let mut dominators = vec![0u32; count];
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); count];
        for node in (1..count).rev() {
            for predecessor in graph.predecessors(self.nodes[node]) {
                let number = self.numbers[*predecessor as usize];
                if number != NONE {
                    let least = forest.least(number, &semi);
                    semi[node] = semi[node].min(semi[least as usize]);
                }
            }
            buckets[semi[node] as usize].push(node as u32);
            let parent = self.parents[node];
            forest.link(node as u32, parent);
            for other in core::mem::take(&mut buckets[parent as usize]) {
                let least = forest.least(other, &semi);
                dominators[other as usize] = if semi[least as usize] < parent { least } else { parent };
            }
        }
        for node in 1..count {
            if dominators[node] != semi[node] {
                dominators[node] = dominators[dominators[node] as usize];
            }
        }
        let mut found = vec![NONE; graph.len()];
        for node in 1..count {
            found[self.nodes[node] as usize] = self.nodes[dominators[node] as usize];
        }
        found
    }
}

/// The part of a tree whose nodes are done, with compressed paths.
struct Forest {
    ancestors: Vec<u32>,
    /// For each node, the one with the least semidominator on the compressed path.
    labels: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Forest {
        Forest { ancestors: vec![NONE; count], labels: (0..count as u32).collect(), path: Vec::new() }
    }

    fn link(&mut self, node: u32, parent: u32) {
        self.ancestors[node as usize] = parent;
    }

    /// The node with the least semidominator on the path from the root of the node's tree, which is not among them, to it.
    fn least(&mut self, node: u32, semi: &[u32]) -> u32 {
        if self.ancestors[node as usize] == NONE {
            return node;
        }
        let mut at = node;
        while self.ancestors[self.ancestors[at as usize] as usize] != NONE {
            self.path.push(at);
            at = self.ancestors[at as usize];
        }
        while let Some(below) = self.path.pop() {
            let ancestor = self.ancestors[below as usize];
            let (own, above) = (self.labels[below as usize], self.labels[ancestor as usize]);
            if semi[above as usize] < semi[own as usize] {
                self.labels[below as usize] = above;
            }
            self.ancestors[below as usize] = self.ancestors[ancestor as usize];
        }
        self.labels[node as usize]
    }
}
