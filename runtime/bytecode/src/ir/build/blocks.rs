//! The bytecode's blocks as a graph, before there are values.

use alloc::vec::Vec;

use super::super::dominators::Dominators;
use super::super::graph::Graph;
use crate::{BlockOffset, Body, Instruction, Instructions, RemapList};
use crate::{Error, Result};

/// An edge of the bytecode: where it goes, and what it copies on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEdge<'a> {
    pub(super) target: u32,
    pub(super) copies: Option<RemapList<'a>>,
}

/// A block of the bytecode, or one that the graph needs besides: the entry, which only goes on with the first block, and
/// landings, where a yieldable call's results are there and the block that it resumes with has not begun.
#[derive(Debug, Default)]
pub(super) struct RawBlock<'a> {
    /// All instructions, the terminator last; none in added blocks.
    pub(super) instructions: Vec<Instruction<'a>>,
    /// In the order of [`Terminator::visit_edges`](super::super::op::Terminator::visit_edges).
    pub(super) edges: Vec<RawEdge<'a>>,
    /// Offset in bytes of the block; None for added blocks.
    pub(super) begin: Option<u32>,
}

/// The blocks of a function: the entry first.
#[derive(Debug)]
pub(super) struct RawBlocks<'a> {
    pub(super) blocks: Vec<RawBlock<'a>>,
    pub(super) graph: Graph,
    pub(super) dominators: Dominators,
    /// Whether edges to each block pass arguments: several lead there.
    joins: Vec<bool>,
    /// For each other block, the number of the edge that leads to it, among those of its predecessor.
    entering: Vec<u32>,
}

#[cold]
pub(super) fn broken() -> Error {
    Error::internal("a verified function does not decode as verified")
}

impl<'a> RawBlocks<'a> {
    pub(super) fn new(instructions: Instructions<'a>) -> Result<RawBlocks<'a>> {
        let mut blocks = alloc::vec![RawBlock::default()];
        let mut offsets: Vec<BlockOffset> = Vec::new();
        for instruction in instructions {
            if let Body::Block {} = instruction.body {
                offsets.push(BlockOffset(instruction.offset));
                blocks.push(RawBlock { begin: Some(instruction.offset), ..RawBlock::default() });
            } else {
                blocks.last_mut().ok_or_else(broken)?.instructions.push(instruction);
            }
        }
        let count = blocks.len() as u32;
        let first = if count > 1 { 1 } else { return Err(broken()) };
        blocks[0].edges.push(RawEdge { target: first, copies: None });
        let find =
            |target: BlockOffset| offsets.binary_search(&target).map(|index| index as u32 + 1).map_err(|_| broken());
        for index in 1..count {
            let last = blocks[index as usize].instructions.last().ok_or_else(broken)?;
            let next = Some(index + 1).filter(|next| *next < count);
            let landing = blocks.len() as u32;
            let edges = edges(last, next, &find)?;
            if matches!(last.body, Body::CallYieldable { .. } | Body::CallVariadicYieldable { .. }) {
                blocks.push(RawBlock { instructions: Vec::new(), edges, begin: None });
                blocks[index as usize].edges.push(RawEdge { target: landing, copies: None });
            } else {
                blocks[index as usize].edges = edges;
            }
        }
        let successors = blocks.iter().map(|block| block.edges.iter().map(|edge| edge.target).collect()).collect();
        let graph = Graph::new(0, successors);
        let dominators = graph.dominators();
        let order = dominators.order();
        let is_join =
            |block: u32| graph.predecessors(block).iter().filter(|from| order.is_reachable(**from)).take(2).count() > 1;
        let joins = (0..graph.len() as u32).map(is_join).collect();
        let mut entering = alloc::vec![0; graph.len()];
        for &block in order.nodes() {
            for (edge, number) in blocks[block as usize].edges.iter().zip(0..) {
                entering[edge.target as usize] = number;
            }
        }
        Ok(RawBlocks { blocks, graph, dominators, joins, entering })
    }

    /// The only edge to a block that is no join.
    pub(super) fn entering(&self, block: u32) -> Option<RawEdge<'a>> {
        let from = self.dominators.immediate(block)?;
        self.blocks[from as usize].edges.get(self.entering[block as usize] as usize).copied()
    }

    /// Whether edges to the block pass arguments: several lead there.
    pub(super) fn is_join(&self, block: u32) -> bool {
        self.joins[block as usize]
    }
}

/// The edges of a terminator; `next` is the block behind its own.
fn edges<'a>(
    terminator: &Instruction<'a>,
    next: Option<u32>,
    find: &dyn Fn(BlockOffset) -> Result<u32>,
) -> Result<Vec<RawEdge<'a>>> {
    let edge = |target, copies| Ok::<_, Error>(RawEdge { target: find(target)?, copies: Some(copies) });
    Ok(match terminator.body {
        Body::Branch { dest, operands } | Body::CondBreak { dest, operands, .. } => alloc::vec![edge(dest, operands)?],
        Body::CondBranch { true_dest, true_operands, false_dest, false_operands, .. } => {
            alloc::vec![edge(true_dest, true_operands)?, edge(false_dest, false_operands)?]
        }
        Body::BranchTable { default_dest, default_operands, cases, .. } => {
            let mut edges = Vec::with_capacity(cases.len() + 1);
            for (target, copies) in cases.iter() {
                edges.push(edge(target, copies)?);
            }
            edges.push(edge(default_dest, default_operands)?);
            edges
        }
        Body::CallYieldable { resume, .. } | Body::CallVariadicYieldable { resume, .. } => {
            alloc::vec![RawEdge { target: find(resume)?, copies: None }]
        }
        Body::Fail { .. } => next.into_iter().map(|target| RawEdge { target, copies: None }).collect(),
        _ => Vec::new(),
    })
}
