//! Control flow as nested blocks and loops: what languages without `goto` can say.
//!
//! The method is that of Norman Ramsey, "Beyond Relooper: Recursive Translation of Unstructured Control Flow to Structured
//! Control Flow" (2022): what a node dominates is placed within it; nodes where several paths meet are placed behind a block
//! that those paths leave. Unlike there, what follows a loop is placed behind it and not within, and of the nodes that only
//! one edge leads to, the one that dominates most is placed behind the branch, so that long sequences stay flat.
//!
//! Cycles with several entries get a single one: a dispatch node in front, which branches on a selector variable. Only edges to
//! their entries are led through it, and cycles within are treated on their own.

mod reduce;
mod tidy;

#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use super::dominators::Dominators;
use super::function::Function;
use super::graph::Graph;
use super::loops::Loops;
use reduce::{Reduced, Successor};

/// Names a block or a loop, for what leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub u32);

/// A piece of structured control flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// The instructions of a node, without its terminator.
    Run(u32),
    /// The terminator of a node: chooses an edge and goes on with its arm. An arm that comes to its end goes on behind the
    /// branch. A node without edges ends the function here.
    Branch {
        /// The node.
        node: u32,
        /// For each edge what happens after its arguments are passed, in the order of the terminator's edges.
        arms: Vec<Vec<Statement>>,
    },
    /// A sequence that can be left.
    Block {
        /// What it is left by: `Break` goes on behind it.
        label: Label,
        /// The sequence.
        body: Vec<Statement>,
    },
    /// A sequence that begins anew when it comes to its end.
    Loop {
        /// What it is left by (`Break` goes on behind it) and repeated by (`Continue`).
        label: Label,
        /// The sequence.
        body: Vec<Statement>,
    },
    /// Sets the selector of a dispatch.
    Select {
        /// Which one: an index below [`Structure::selector_count`].
        selector: u32,
        /// The arm that it will choose.
        arm: u32,
    },
    /// Goes on with the arm that a selector says. An arm that comes to its end goes on behind.
    Dispatch {
        /// Which selector.
        selector: u32,
        /// What it chooses from.
        arms: Vec<Vec<Statement>>,
    },
    /// Goes on behind the block or loop around it that has the label.
    Break(Label),
    /// Continues with the next iteration of the enclosing loop that has the label.
    Continue(Label),
}

/// The structured form of a graph: every node that can be reached runs in exactly one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    body: Vec<Statement>,
    selector_count: u32,
    label_count: u32,
}

/// Maximum depth of nested sequences; a function that needs more becomes one dispatch over its blocks.
pub const MAX_NESTING: usize = 200;

impl Structure {
    /// The structured form of a function's control flow; nodes are blocks.
    #[must_use]
    pub fn of(function: &Function) -> Structure {
        Structure::new(&Graph::of(function))
    }

    /// The structured form of a graph.
    #[must_use]
    pub fn new(graph: &Graph) -> Structure {
        // Each cycle is a loop: where cycles nest too deep, loops do.
        let Some(reduced) = reduce::reduce(graph, MAX_NESTING) else { return dispatch_all(graph) };
        let flow = reduced.graph();
        let dominators = flow.dominators();
        let mut builder = Builder::new(&reduced, &flow, &dominators);
        match builder.whole() {
            Some(body) => {
                let (body, label_count) = (tidy::tidy(body, builder.labels), builder.labels);
                Structure { body, selector_count: reduced.selectors(), label_count }
            }
            None => dispatch_all(graph),
        }
    }

    /// The sequence that the whole is. It does not come to its end.
    #[must_use]
    pub fn body(&self) -> &[Statement] {
        &self.body
    }

    /// Number of selector variables. Each is set before it is read.
    #[must_use]
    pub const fn selector_count(&self) -> u32 {
        self.selector_count
    }

    /// Number of labels; some may not be used.
    #[must_use]
    pub const fn label_count(&self) -> u32 {
        self.label_count
    }
}

/// One loop around a dispatch over all nodes: right for every graph, and slow.
fn dispatch_all(graph: &Graph) -> Structure {
    let (order, label) = (graph.reverse_postorder(), Label(0));
    let arm = |node: &u32| {
        let select = |to: &u32| vec![Statement::Select { selector: 0, arm: order.position(*to) }];
        let arms = graph.successors(*node).iter().map(select).collect();
        vec![Statement::Run(*node), Statement::Branch { node: *node, arms }]
    };
    let dispatch = Statement::Dispatch { selector: 0, arms: order.nodes().iter().map(arm).collect() };
    let body = vec![Statement::Select { selector: 0, arm: 0 }, Statement::Loop { label, body: vec![dispatch] }];
    Structure { body, selector_count: 1, label_count: 1 }
}

/// Fills a sequence at a depth; returns the node that follows in it.
type Fill<'f, B> = dyn FnMut(&mut B, usize, &mut Vec<Statement>) -> Option<Option<u32>> + 'f;

/// Builds the statements from the dominator tree.
struct Builder<'a> {
    reduced: &'a Reduced,
    dominators: &'a Dominators,
    loops: Loops,
    /// Several forward edges lead to the node.
    is_merge: Vec<bool>,
    /// Number of nodes that each dominates.
    sizes: Vec<u32>,
    /// Nodes that are placed behind a node's branch, or behind the loop that it is the header of; in the order of places.
    behind_branch: Vec<Vec<u32>>,
    behind_loop: Vec<Vec<u32>>,
    block_labels: Vec<Option<Label>>,
    loop_labels: Vec<Option<Label>>,
    labels: u32,
}

impl<'a> Builder<'a> {
    fn new(reduced: &'a Reduced, flow: &Graph, dominators: &'a Dominators) -> Builder<'a> {
        let count = flow.len();
        let order = dominators.order();
        let loops = Loops::new(flow, dominators);
        let mut builder = Builder {
            reduced,
            dominators,
            is_merge: vec![false; count],
            sizes: vec![1; count],
            behind_branch: vec![Vec::new(); count],
            behind_loop: vec![Vec::new(); count],
            block_labels: vec![None; count],
            loop_labels: vec![None; count],
            loops,
            labels: 0,
        };
        for &node in order.nodes() {
            let from = flow.predecessors(node).iter().filter(|from| order.position(**from) < order.position(node));
            builder.is_merge[node as usize] = from.count() > 1;
            if let Some(dominator) = dominators.immediate(node) {
                builder.place(node, dominator);
            }
        }
        for &node in order.nodes().iter().rev() {
            if let Some(dominator) = dominators.immediate(node) {
                builder.sizes[dominator as usize] += builder.sizes[node as usize];
            }
        }
        builder
    }

    /// Decides where a node is placed: behind the outermost loop that the path from its dominator leaves; else, if several
    /// edges lead to it, behind its dominator's branch; else within that.
    fn place(&mut self, node: u32, dominator: u32) {
        let mut left = None;
        let mut around = self.loops.innermost_index(dominator);
        while let Some(at) = around.filter(|at| !self.loops.contains(*at, node)) {
            left = Some(at);
            around = self.loops.all()[at].parent;
        }
        match left {
            Some(at) => self.behind_loop[self.loops.all()[at].header as usize].push(node),
            None if self.is_merge[node as usize] => self.behind_branch[dominator as usize].push(node),
            None => {}
        }
    }

    fn is_placed_behind(&self, node: u32) -> bool {
        self.block_labels[node as usize].is_some()
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// The whole; None where it nests too deep.
    fn whole(&mut self) -> Option<Vec<Statement>> {
        let root = *self.dominators.order().nodes().first()?;
        let mut body = Vec::new();
        self.select(self.reduced.start(), &mut body);
        self.sequence(Some(root), 0, &mut body)?;
        Some(body)
    }

    /// A node, and those that follow it in the same sequence.
    fn sequence(&mut self, root: Option<u32>, depth: usize, into: &mut Vec<Statement>) -> Option<()> {
        let mut next = root;
        while let Some(node) = next {
            next = self.tree(node, depth, into)?;
        }
        Some(())
    }

    fn select(&self, successor: &Successor, into: &mut Vec<Statement>) {
        into.extend(successor.select.map(|(selector, arm)| Statement::Select { selector, arm }));
    }

    /// Opens the blocks whose ends lead to nodes, fills the innermost, and places the nodes behind them. Returns the node that
    /// is to follow in the same sequence.
    fn surround(
        &mut self,
        nodes: &[u32],
        depth: usize,
        into: &mut Vec<Statement>,
        fill: &mut Fill<'_, Self>,
    ) -> Option<Option<u32>> {
        let Some((&last, inner)) = nodes.split_last() else { return fill(self, depth, into) };
        for &node in nodes {
            self.block_labels[node as usize] = Some(self.label());
        }
        let mut body = Vec::new();
        let next = fill(self, depth + nodes.len(), &mut body)?;
        self.sequence(next, depth + nodes.len(), &mut body)?;
        for (index, &node) in inner.iter().enumerate() {
            let label = self.block_labels[node as usize]?;
            body = vec![Statement::Block { label, body }];
            self.sequence(Some(node), depth + inner.len() - index, &mut body)?;
        }
        into.push(Statement::Block { label: self.block_labels[last as usize]?, body });
        Some(Some(last))
    }

    /// A node and what it dominates, except for the returned node, which follows.
    fn tree(&mut self, root: u32, depth: usize, into: &mut Vec<Statement>) -> Option<Option<u32>> {
        if depth > MAX_NESTING {
            return None;
        }
        let is_header = self.loops.innermost(root).is_some_and(|found| found.header == root);
        if !is_header {
            return self.node(root, depth, into);
        }
        let label = self.label();
        self.loop_labels[root as usize] = Some(label);
        let behind = core::mem::take(&mut self.behind_loop[root as usize]);
        self.surround(&behind, depth, into, &mut |this, depth, into| {
            let mut body = Vec::new();
            let next = this.node(root, depth + 1, &mut body)?;
            this.sequence(next, depth + 1, &mut body)?;
            into.push(Statement::Loop { label, body });
            Some(None)
        })
    }

    /// A node within its loop, and what it dominates there.
    fn node(&mut self, node: u32, depth: usize, into: &mut Vec<Statement>) -> Option<Option<u32>> {
        if self.reduced.selector(node).is_none() {
            into.push(Statement::Run(node));
        }
        let behind = core::mem::take(&mut self.behind_branch[node as usize]);
        self.surround(&behind, depth, into, &mut |this, depth, into| this.branch(node, behind.is_empty(), depth, into))
    }

    /// The branch of a node. Returns the node that is to follow in the same sequence: only where the arms do not meet behind
    /// the branch, that is, where all but one leave.
    fn branch(&mut self, node: u32, flat: bool, depth: usize, into: &mut Vec<Statement>) -> Option<Option<u32>> {
        if depth > MAX_NESTING {
            return None;
        }
        let successors: &'a [Successor] = self.reduced.successors(node);
        // Nodes that are placed within the branch; the largest of them behind it instead, as no other arm gets there.
        let position = |node: u32| self.dominators.order().position(node);
        let within = |target: u32| position(target) > position(node) && !self.is_placed_behind(target);
        let largest = successors
            .iter()
            .map(|successor| successor.target)
            .filter(|target| within(*target) && (flat || successors.len() == 1))
            .max_by_key(|target| (self.sizes[*target as usize], core::cmp::Reverse(position(*target))));
        let mut arms = Vec::with_capacity(successors.len());
        for successor in successors {
            let mut arm = Vec::new();
            self.select(successor, &mut arm);
            if position(successor.target) <= position(node) {
                arm.push(Statement::Continue(self.loop_labels[successor.target as usize]?));
            } else if let Some(label) = self.block_labels[successor.target as usize] {
                arm.push(Statement::Break(label));
            } else if Some(successor.target) != largest {
                self.sequence(Some(successor.target), depth + 1, &mut arm)?;
            }
            arms.push(arm);
        }
        into.push(match self.reduced.selector(node) {
            Some(selector) => Statement::Dispatch { selector, arms },
            None => Statement::Branch { node, arms },
        });
        Some(largest)
    }
}
