//! From the bytecode of a verified function to values.
//!
//! Where several branches meet, a block takes as parameters those registers that it reads before it writes them
//! ([`demand`]), as far as they were written on only some of the paths there (the iterated dominance frontier of what writes
//! them). Then the dominator tree is walked once, with the content of each register ([`registers`]).

mod access;
mod blocks;
mod demand;
mod instructions;
mod registers;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::function::{BlockData, Definition, Entry, Function};
use super::op::{Edge, Op, Operand, Terminator};
use super::value::{Block, Type, Value};
use crate::{AnyRegister, CallingConvention, VerifiedModule};
use crate::{Budget, Result};
use access::{Access, accesses};
use blocks::{RawBlocks, RawEdge, broken};
use demand::{Demands, Expected};
use registers::{InsertionPoint, Registers};

/// Builds the values of a function, without simplifications; `with_registers` records [`Entry`]s.
///
/// # Errors
/// OUT_OF_RANGE where the module has no such function; RESOURCE_EXHAUSTED where it needs more than the budget has; INTERNAL
/// where it is not what the verifier promises.
pub(super) fn build(
    module: &VerifiedModule,
    ordinal: u32,
    with_registers: bool,
    budget: &mut Budget,
) -> Result<Function> {
    let view = module.function(ordinal).ok_or_else(|| {
        crate::Error::out_of_range(alloc::format!("function {ordinal} of {}", module.function_count()))
    })?;
    let convention = view.convention;
    let raw = RawBlocks::new(module.instructions(ordinal))?;
    let counts = (view.i32_register_count, view.ref_register_count);
    let demands = Demands::new(module, convention, &raw, counts, budget)?;
    let expected = parameters(module, convention, &raw, &demands, budget)?;
    let arguments = |edge: &RawEdge<'_>| expected[edge.target as usize].len();
    let arguments: usize = raw.blocks.iter().flat_map(|block| &block.edges).map(arguments).sum();
    budget.spend(arguments, "the arguments of the blocks")?;
    let mut function = Function::empty(ordinal, convention.results().filter_map(Type::of_item).collect());
    let registers = Registers::new(&mut function, counts);
    let all_live = |block: u32| demands.expected(block).into_iter().map(|row| row.1).collect();
    let live = if with_registers { (0..raw.blocks.len() as u32).map(all_live).collect() } else { Vec::new() };
    let mut builder =
        Builder { module, convention, raw: &raw, expected, parameters: Vec::new(), live, function, registers };
    builder.run()?;
    Ok(builder.function)
}

/// The parameters of each block.
fn parameters(
    module: &VerifiedModule,
    convention: CallingConvention<'_>,
    raw: &RawBlocks<'_>,
    demands: &Demands,
    budget: &mut Budget,
) -> Result<Vec<Vec<Expected>>> {
    let count = raw.blocks.len();
    // The blocks that write each variable, and those that edges write it before.
    let mut writers: Vec<Vec<u32>> = vec![Vec::new(); demands.variable_count()];
    let mut needed: Vec<Vec<u32>> = vec![Vec::new(); count];
    let joins: Vec<bool> = (0..count as u32).map(|block| raw.is_join(block)).collect();
    for &block in raw.dominators.order().nodes() {
        let mut wrote = |variable: u32| {
            if writers[variable as usize].last() != Some(&block) {
                writers[variable as usize].push(block);
            }
        };
        for instruction in &raw.blocks[block as usize].instructions {
            accesses(module, convention, instruction, &mut |access| match access {
                Access::Write(register, _) => wrote(Demands::value_variable(register)),
                Access::WriteRef(register) => wrote(demands.ref_variable(register)),
                Access::Read(..) | Access::ReadRef(_) => {}
            });
        }
    }
    let variable = |register: AnyRegister| match register.is_ref() {
        true => demands.ref_variable(register.index()),
        false => Demands::value_variable(register.index()),
    };
    for &block in raw.dominators.order().nodes() {
        for edge in &raw.blocks[block as usize].edges {
            for (source, target) in edge.copies.iter().flat_map(|copies| copies.iter()) {
                let moved = source.is_move().then_some(source);
                for register in [target].into_iter().chain(moved) {
                    let variable = variable(register);
                    if joins[edge.target as usize] {
                        needed[edge.target as usize].push(variable);
                    }
                    writers[variable as usize].push(edge.target);
                }
            }
        }
    }
    let expected: Vec<Vec<(u32, Expected)>> = (0..count as u32).map(|block| demands.expected(block)).collect();
    let frontiers = raw.dominators.frontiers(&raw.graph, budget)?;
    let mut placed = vec![u32::MAX; count];
    for (variable, blocks) in writers.iter_mut().enumerate() {
        let variable = variable as u32;
        while let Some(block) = blocks.pop() {
            budget.spend(frontiers[block as usize].len(), "the arguments of the blocks")?;
            for &join in &frontiers[block as usize] {
                let is_expected = || expected[join as usize].binary_search_by_key(&variable, |row| row.0).is_ok();
                if core::mem::replace(&mut placed[join as usize], variable) != variable && is_expected() {
                    needed[join as usize].push(variable);
                    blocks.push(join);
                }
            }
        }
    }
    let chosen = |(mut needed, expected): (Vec<u32>, Vec<(u32, Expected)>)| {
        needed.sort_unstable();
        let wanted = |row: &&(u32, Expected)| needed.binary_search(&row.0).is_ok();
        expected.iter().filter(wanted).map(|row| row.1).collect()
    };
    Ok(needed.into_iter().zip(expected).map(chosen).collect())
}

/// What is being built.
struct Builder<'a, 'r> {
    module: &'a VerifiedModule,
    convention: CallingConvention<'a>,
    raw: &'r RawBlocks<'a>,
    /// The parameters of each raw block, as registers and as values.
    expected: Vec<Vec<Expected>>,
    parameters: Vec<Vec<Value>>,
    /// The live registers of each raw block; empty where nothing asks for them.
    live: Vec<Vec<Expected>>,
    function: Function,
    registers: Registers,
}

impl<'a> Builder<'a, '_> {
    /// The block of a raw block that can be reached.
    fn block(&self, raw: u32) -> Block {
        Block(self.raw.dominators.order().position(raw))
    }

    fn run(&mut self) -> Result<()> {
        let nodes = self.raw.dominators.order().nodes();
        self.parameters = vec![Vec::new(); self.raw.blocks.len()];
        for &raw in nodes {
            let block = self.block(raw);
            let types: Vec<Type> = match raw {
                0 => self.convention.arguments().filter_map(Type::of_item).collect(),
                _ => self.expected[raw as usize].iter().map(|expected| expected.ty).collect(),
            };
            let define = |(index, ty)| self.function.value(ty, Definition::Parameter(block, index as u32));
            self.parameters[raw as usize] = types.into_iter().enumerate().map(define).collect();
        }
        let mut done: Vec<Option<BlockData>> = nodes.iter().map(|_| None).collect();
        // A walk of the dominator tree: each entry is a node, the next of its children, and where its writes begin.
        let mut stack = vec![(0u32, 0usize, 0usize)];
        done[0] = Some(self.translate(0)?);
        while let Some((raw, next, mark)) = stack.last_mut() {
            let Some(&child) = self.raw.dominators.children(*raw).get(*next) else {
                self.registers.undo(*mark);
                stack.pop();
                continue;
            };
            *next += 1;
            let mark = self.registers.mark();
            stack.push((child, 0, mark));
            done[self.block(child).index()] = Some(self.translate(child)?);
        }
        self.function.blocks = done.into_iter().collect::<Option<_>>().ok_or_else(broken)?;
        Ok(())
    }

    /// The content of the registers when a block begins.
    fn enter(&mut self, raw: u32) {
        let parameters = core::mem::take(&mut self.parameters[raw as usize]);
        if raw == 0 {
            let (mut value, mut reference) = (0u16, 0u16);
            for &parameter in &parameters {
                match self.function.ty(parameter) {
                    Type::Ref => {
                        self.registers.set_ref(reference, parameter);
                        reference += 1;
                    }
                    ty => {
                        value = if ty.is_wide() { value.next_multiple_of(2) } else { value };
                        self.registers.set(&self.function, value, parameter);
                        value += if ty.is_wide() { 2 } else { 1 };
                    }
                }
            }
        } else if self.raw.is_join(raw) {
            for (expected, parameter) in self.expected[raw as usize].iter().zip(&parameters) {
                match expected.ty {
                    Type::Ref => self.registers.set_ref(expected.register, *parameter),
                    _ => self.registers.set(&self.function, expected.register, *parameter),
                }
            }
        } else {
            // The only path here; the edge's copies are not done, as the block's other edges may lead elsewhere.
            if let Some(copies) = self.raw.entering(raw).and_then(|edge| edge.copies) {
                self.registers.copy(copies);
            }
        }
        self.parameters[raw as usize] = parameters;
    }

    /// What the live registers hold when a block begins, for blocks that several edges lead to.
    fn entry(&self, raw: u32) -> Option<Entry> {
        let live = self.live.get(raw as usize).filter(|_| raw != 0 && self.raw.is_join(raw))?;
        let offset = self.raw.blocks[raw as usize].begin?;
        let registers = live.iter().filter_map(|expected| {
            let value = match expected.ty {
                Type::Ref => Some(self.registers.share(expected.register)),
                _ => self.registers.held(expected.register),
            };
            Some((expected.register, value.filter(|value| self.function.constant_bits(*value).is_none())?))
        });
        Some(Entry { offset, registers: registers.collect() })
    }

    fn translate(&mut self, raw: u32) -> Result<BlockData> {
        self.enter(raw);
        let block = self.block(raw);
        let mut data = BlockData {
            parameters: self.parameters[raw as usize].clone(),
            instructions: Vec::new(),
            terminator: Terminator::Return(Vec::new()),
            offset: 0,
            entry: self.entry(raw).map(Box::new),
        };
        let source = &self.raw.blocks[raw as usize];
        match source.instructions.split_last() {
            None => {
                let mut edges = self.edges(raw, &mut data)?;
                data.terminator = Terminator::Branch(edges.pop().ok_or_else(broken)?);
            }
            Some((last, instructions)) => {
                for instruction in instructions {
                    self.instruction(instruction, block, &mut data.instructions)?;
                }
                data.offset = last.offset;
                data.terminator = self.terminator(last, raw, &mut data)?;
            }
        }
        Ok(data)
    }

    /// The edges of a block, after all that it does.
    fn edges(&mut self, raw: u32, data: &mut BlockData) -> Result<Vec<Edge>> {
        let edges = &self.raw.blocks[raw as usize].edges;
        edges.iter().map(|edge| self.edge(raw, *edge, data)).collect()
    }

    fn edge(&mut self, raw: u32, edge: RawEdge<'a>, data: &mut BlockData) -> Result<Edge> {
        let mut built = Edge::new(self.block(edge.target));
        if !self.raw.is_join(edge.target) {
            return Ok(built);
        }
        let mark = self.registers.mark();
        if let Some(copies) = edge.copies {
            self.registers.copy(copies);
        }
        let (block, offset) = (self.block(raw), data.offset);
        let mut point =
            InsertionPoint { function: &mut self.function, block, instructions: &mut data.instructions, offset };
        for expected in &self.expected[edge.target as usize] {
            built.arguments.push(Operand::from(self.registers.get(&mut point, expected.register, expected.ty)));
        }
        self.registers.undo(mark);
        Ok(built)
    }

    /// Adds an instruction without results.
    fn push(instructions: &mut Vec<super::function::Inst>, op: Op, offset: u32) {
        instructions.push(super::function::Inst { op, results: smallvec::SmallVec::new(), offset });
    }
}
