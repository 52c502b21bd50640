//! Natural loops of graphs.

use alloc::vec;
use alloc::vec::Vec;

use super::dominators::Dominators;
use super::graph::Graph;

/// A natural loop: the nodes from which a header can be reached again without leaving the nodes that it dominates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The only entry.
    pub header: u32,
    /// The nodes whose edges lead back to the header, ascending.
    pub latches: Vec<u32>,
    /// The number of edges that leave it.
    pub exits: u32,
    /// The loop around it, as an index into [`Loops::all`].
    pub parent: Option<usize>,
    /// How many loops it is in, itself included.
    pub depth: u32,
    /// The index behind the last loop within it: those within it follow it.
    end: usize,
}

/// The natural loops of a graph. Cycles with several entries are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loops {
    loops: Vec<Loop>,
    innermost: Vec<Option<usize>>,
    /// For each loop, its number in an order where those within a loop follow it.
    numbers: Vec<usize>,
}

impl Loops {
    /// Finds the loops; those with the same header are one.
    #[must_use]
    pub fn new(graph: &Graph, dominators: &Dominators) -> Loops {
        let mut loops: Vec<Loop> = Vec::new();
        // Headers of outer loops stand before those of inner ones.
        for &header in dominators.order().nodes() {
            let mut latches: Vec<u32> = graph.predecessors(header).to_vec();
            latches.retain(|latch| dominators.dominates(header, *latch));
            latches.sort_unstable();
            latches.dedup();
            if !latches.is_empty() {
                loops.push(Loop { header, latches, exits: 0, parent: None, depth: 1, end: 0 });
            }
        }
        let mut innermost: Vec<Option<usize>> = vec![None; graph.len()];
        // For each loop that was found, the outermost one around it so far, with compressed paths.
        let mut outermost: Vec<usize> = (0..loops.len()).collect();
        for at in (0..loops.len()).rev() {
            let header = loops[at].header;
            innermost[header as usize].get_or_insert(at);
            let mut stack = loops[at].latches.clone();
            while let Some(node) = stack.pop() {
                // An inner loop is one step: from any of its nodes to what leads to its header.
                let entry = match innermost[node as usize] {
                    Some(inner) => {
                        let inner = outermost_of(&mut outermost, inner);
                        if inner == at {
                            continue;
                        }
                        outermost[inner] = at;
                        loops[inner].parent = Some(at);
                        loops[inner].header
                    }
                    None => {
                        innermost[node as usize] = Some(at);
                        node
                    }
                };
                let from = graph.predecessors(entry).iter();
                stack.extend(from.filter(|node| dominators.order().is_reachable(**node)));
            }
        }
        let mut found = Loops { numbers: vec![0; loops.len()], loops, innermost };
        found.number();
        found.count_exits(graph, dominators);
        found
    }

    /// Numbers the loops such that those within a loop follow it.
    fn number(&mut self) {
        let mut inner: Vec<Vec<usize>> = vec![Vec::new(); self.loops.len()];
        let mut stack = Vec::new();
        for at in (0..self.loops.len()).rev() {
            match self.loops[at].parent {
                Some(parent) => inner[parent].push(at),
                None => stack.push(at),
            }
        }
        let mut order = Vec::with_capacity(self.loops.len());
        while let Some(at) = stack.pop() {
            self.numbers[at] = order.len();
            order.push(at);
            if let Some(parent) = self.loops[at].parent {
                self.loops[at].depth = self.loops[parent].depth + 1;
            }
            stack.append(&mut inner[at]);
        }
        self.loops.iter_mut().zip(&self.numbers).for_each(|(found, number)| found.end = number + 1);
        for &at in order.iter().rev() {
            if let Some(parent) = self.loops[at].parent {
                self.loops[parent].end = self.loops[parent].end.max(self.loops[at].end);
            }
        }
    }

    /// Counts the edges that leave each loop: an edge leaves those around its source that are not around its target. The
    /// counts of inner loops that stay inside the outer one are taken off there.
    fn count_exits(&mut self, graph: &Graph, dominators: &Dominators) {
        let mut counts = vec![0i64; self.loops.len()];
        for &node in dominators.order().nodes() {
            let Some(from) = self.innermost[node as usize] else { continue };
            for &to in graph.successors(node) {
                if self.contains(from, to) {
                    continue;
                }
                counts[from] += 1;
                // An edge leads into a loop only by its header, so that the loops around both are those around the target's
                // loop, or around its parent where the target is a header that the source is not in.
                let mut around = self.innermost[to as usize];
                if let Some(at) = around.filter(|at| !self.contains(*at, node)) {
                    around = self.loops[at].parent;
                }
                if let Some(around) = around {
                    counts[around] -= 1;
                }
            }
        }
        // Inner loops before those around them.
        for at in (0..self.loops.len()).rev() {
            self.loops[at].exits = u32::try_from(counts[at]).unwrap_or(0);
            if let Some(parent) = self.loops[at].parent {
                counts[parent] += counts[at];
            }
        }
    }

    /// The loops, outer ones before those that they contain.
    #[must_use]
    pub fn all(&self) -> &[Loop] {
        &self.loops
    }

    /// Whether a loop, an index into [`Loops::all`], contains a node: itself or in a loop within it.
    #[must_use]
    pub fn contains(&self, at: usize, node: u32) -> bool {
        self.innermost[node as usize]
            .is_some_and(|inner| (self.numbers[at]..self.loops[at].end).contains(&self.numbers[inner]))
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

/// The outermost loop around one that was found so far.
fn outermost_of(outermost: &mut [usize], mut at: usize) -> usize {
    while outermost[at] != at {
        outermost[at] = outermost[outermost[at]];
        at = outermost[at];
    }
    at
}
