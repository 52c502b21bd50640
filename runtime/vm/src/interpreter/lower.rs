//! Lowers a verified function to pre-decoded code.

mod calls;
mod nests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::value_type::ValueType;
use super::code::{CallSite, Code, Operand, Table, Transfer};
use super::frames::FRAME_UNIT;
use super::nests::Optimization;
use super::operation::{Inst, Operation, accumulation, halves, pair, parts};
use crate::{Error, Result};
pub(super) use calls::entry;
use incarnate_bytecode::imports::INSTRUCTIONS_PER_STEP;
use incarnate_bytecode::isa::Opcode;
use incarnate_bytecode::{BlockOffset, Body, CallingConvention, Cases, Instruction, RemapList, TypeId, VerifiedModule};

/// Lowers a function. Where `optimize` is set, nests of loops are recognised and pairs fused: that changes no result, but that of float
/// reductions in any order.
///
/// # Errors
/// INTERNAL where the module is not what the verifier promises.
pub(super) fn lower(
    module: &VerifiedModule,
    types: &[ValueType],
    function: u32,
    optimize: Option<Optimization>,
) -> Result<Code> {
    let view = module.function(function).ok_or_else(broken)?;
    let mut lowering = Lowering::new(module, types, view.convention);
    for instruction in module.instructions(function) {
        lowering.instruction(&instruction)?;
    }
    let entry = entry(view.convention);
    let (mut words, mut refs) =
        (usize::from(view.i32_register_count).div_ceil(2), usize::from(view.ref_register_count));
    for argument in &entry {
        match argument.transfer {
            Transfer::RefMove => refs = refs.max(usize::from(argument.target) + 1),
            _ => words = words.max(usize::from(argument.target) / 2 + 1),
        }
    }
    lowering.finish(optimize, function, entry, words.next_multiple_of(FRAME_UNIT), refs)
}

#[cold]
fn broken() -> Error {
    Error::internal("a verified function does not decode as verified")
}

/// A branch whose target's index is not known yet.
struct Fixup {
    slot: FixupSlot,
    target: BlockOffset,
}

enum FixupSlot {
    Low(usize),
    High(usize),
    /// A table, its entry, and the instruction that reads it.
    Table(usize, usize, usize),
    Resume(usize),
}

/// An edge that copies registers: its copies follow the function's blocks.
struct Edge<'a> {
    slot: FixupSlot,
    target: BlockOffset,
    copies: RemapList<'a>,
    offset: u32,
}

/// A block that contains only a conditional branch.
#[derive(Clone, Copy)]
struct Test<'a> {
    index: usize,
    targets: [(BlockOffset, RemapList<'a>); 2],
}

struct Lowering<'a> {
    module: &'a VerifiedModule,
    types: &'a [ValueType],
    convention: CallingConvention<'a>,
    instructions: Vec<Inst>,
    offsets: Vec<u32>,
    sites: Vec<CallSite>,
    operands: Vec<Operand>,
    tables: Vec<Table>,
    strings: Vec<Box<str>>,
    /// Offset of each block marker, and the index of the instruction after it.
    blocks: Vec<(BlockOffset, u32)>,
    fixups: Vec<Fixup>,
    edges: Vec<Edge<'a>>,
    tests: Vec<Test<'a>>,
    /// Offset in bytes of the instruction that is being lowered.
    offset: u32,
    /// Instructions before this index belong to another block, and are not fused with.
    block_start: usize,
    /// Index of the first instruction since the last step.
    step_start: usize,
}

impl<'a> Lowering<'a> {
    fn new(module: &'a VerifiedModule, types: &'a [ValueType], convention: CallingConvention<'a>) -> Lowering<'a> {
        Lowering {
            module,
            types,
            convention,
            instructions: Vec::new(),
            offsets: Vec::new(),
            sites: Vec::new(),
            operands: Vec::new(),
            tables: Vec::new(),
            strings: Vec::new(),
            blocks: Vec::new(),
            fixups: Vec::new(),
            edges: Vec::new(),
            tests: Vec::new(),
            offset: 0,
            block_start: 0,
            step_start: 0,
        }
    }

    fn emit(&mut self, operation: Operation, a: u16, b: u16, c: u16, imm: u64) -> usize {
        self.instructions.push(Inst::new(operation, a, b, c, imm));
        self.offsets.push(self.offset);
        self.instructions.len() - 1
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        self.offset = instruction.offset;
        if self.instructions.len() - self.step_start >= INSTRUCTIONS_PER_STEP {
            // To the next instruction.
            self.emit(Operation::Branch, 0, 0, 0, 1);
            self.step_start = self.instructions.len();
        }
        let operation = Operation::of(instruction.opcode);
        let mut emit = |a: u16, b: u16, c: u16, imm: u64| {
            self.emit(operation, a, b, c, imm);
        };
        match instruction.body {
            Body::Unary { operand, result }
            | Body::Conversion { operand, result }
            | Body::UnaryComparison { operand, result } => emit(operand.0, 0, result.0, 0),
            Body::Binary { left, right, result } | Body::BinaryComparison { left, right, result } => {
                emit(left.0, right.0, result.0, 0);
            }
            Body::Ternary { first, second, third, result } => emit(first.0, second.0, third.0, result.0.into()),
            Body::Shift { operand, amount, result } => emit(operand.0, amount.0, result.0, 0),
            Body::Power { base, exponent, result } => emit(base.0, exponent.0, result.0, 0),
            Body::Select { condition, true_value, false_value, result } => {
                emit(condition.0, true_value.0, false_value.0, result.0.into());
            }
            Body::RefUnaryComparison { operand, result }
            | Body::ListSize { list: operand, result }
            | Body::BufferLength { buffer: operand, result } => emit(operand.index(), 0, result.0, 0),
            Body::RefBinaryComparison { left, right, result } => emit(left.index(), right.index(), result.0, 0),
            Body::GlobalLoad { byte_offset, result } => emit(0, 0, result.0, byte_offset.into()),
            Body::GlobalStore { byte_offset, value } => emit(value.0, 0, 0, byte_offset.into()),
            Body::GlobalLoadIndirect { byte_offset, result } => emit(byte_offset.0, 0, result.0, 0),
            Body::GlobalStoreIndirect { byte_offset, value } => emit(byte_offset.0, value.0, 0, 0),
            Body::GlobalLoadRef { global, type_def, value } | Body::GlobalStoreRef { global, type_def, value } => {
                emit(value.0, 0, 0, halves(global, type_def.0));
            }
            Body::GlobalLoadIndirectRef { global, type_def, value }
            | Body::GlobalStoreIndirectRef { global, type_def, value } => {
                emit(value.0, global.0, 0, halves(0, type_def.0));
            }
            Body::Constant { value, result } => emit(0, 0, result.0, value),
            Body::ZeroConstant { result } => emit(0, 0, result.0, 0),
            Body::ConstRefZero { result } => emit(0, 0, result.index(), 0),
            Body::ConstRefRodata { rodata, value } => emit(0, 0, value.index(), rodata.into()),
            Body::AssignRef { source, result } => emit(source.0, 0, result.index(), 0),
            Body::CastAnyRef { operand, result_type, result } => {
                emit(operand.0, 0, result.index(), halves(0, result_type.0));
            }
            Body::SelectRef { condition, type_def, true_value, false_value, result } => {
                emit(condition.0, true_value.0, false_value.0, halves(result.index().into(), type_def.0));
            }
            Body::ImportResolved { import_ordinal, result } => emit(0, 0, result.0, import_ordinal.into()),
            ref other => return self.memory(operation, instruction.opcode, other),
        }
        Ok(())
    }

    /// Instructions on lists and buffers.
    fn memory(&mut self, operation: Operation, opcode: Opcode, body: &Body<'a>) -> Result<()> {
        let mut emit = |a: u16, b: u16, c: u16, imm: u64| {
            self.emit(operation, a, b, c, imm);
        };
        match *body {
            Body::ListAlloc { element_type, initial_capacity, result } => {
                emit(initial_capacity.0, 0, result.index(), halves(0, element_type.0));
            }
            Body::ListReserve { list, minimum_capacity: b } | Body::ListResize { list, new_size: b } => {
                emit(list.index(), b.0, 0, 0);
            }
            Body::ListGet { list, index, result: value } | Body::ListSet { list, index, value } => {
                emit(list.index(), index.0, value.0, 0);
            }
            Body::ListGetRef { list, index, type_def, result } => {
                emit(list.index(), index.0, result.0, halves(0, type_def.0));
            }
            Body::ListSetRef { list, index, value } => emit(list.index(), index.0, value.0, 0),
            Body::BufferLoad { source_buffer: buffer, source_offset: offset, result: value }
            | Body::BufferStore { target_buffer: buffer, target_offset: offset, value } => {
                emit(buffer.index(), offset.0, value.0, 0);
            }
            Body::BufferFill { target_buffer, target_offset, length, value } => {
                emit(target_buffer.index(), target_offset.0, length.0, value.0.into());
            }
            Body::BufferAlloc { length, alignment, result } => emit(length.0, alignment.0, result.index(), 0),
            Body::BufferClone { source, offset, length, alignment, result } => {
                emit(source.index(), offset.0, result.index(), parts([length.0, alignment.0, 0, 0]));
            }
            Body::BufferCopy { source_buffer, source_offset, target_buffer, target_offset, length } => {
                let rest = parts([target_buffer.index(), target_offset.0, 0, 0]);
                emit(source_buffer.index(), source_offset.0, length.0, rest);
            }
            Body::BufferCompare { lhs_buffer, lhs_offset, rhs_buffer, rhs_offset, length, result } => {
                let rest = parts([rhs_buffer.index(), rhs_offset.0, length.0, 0]);
                emit(lhs_buffer.index(), lhs_offset.0, result.0, rest);
            }
            Body::BufferHash { source_buffer, source_offset, length, result } => {
                emit(source_buffer.index(), source_offset.0, result.0, length.0.into());
            }
            ref control => return self.control(operation, opcode, control),
        }
        Ok(())
    }

    /// Instructions that are lists of registers or that change the flow of control.
    fn control(&mut self, operation: Operation, opcode: Opcode, body: &Body<'a>) -> Result<()> {
        match *body {
            Body::DiscardRefs { refs } => {
                for register in refs.iter() {
                    self.emit(Operation::ConstRefZero, 0, 0, register.index(), 0);
                }
            }
            Body::Switch { index, default_value, values, result } => {
                let table = self.table(values.iter().map(|register| register.index().into()), ValueType::Any);
                self.emit(operation, index.0, default_value.0, result.0, table);
            }
            Body::SwitchRef { index, type_def, default_value, values, result } => {
                let check = self.type_of(type_def);
                let table = self.table(values.iter().map(|register| register.0.into()), check);
                self.emit(operation, index.0, default_value.0, result.index(), table);
            }
            Body::Block {} => self.block(),
            Body::Branch { dest, operands } => {
                if opcode == Opcode::Yield {
                    // The copies come first, so that resuming is a plain jump.
                    self.copies(operands);
                    let index = self.emit(operation, 0, 0, 0, 0);
                    self.fixups.push(Fixup { slot: FixupSlot::Low(index), target: dest });
                } else {
                    self.jump(operation, dest, operands);
                }
            }
            Body::CondBranch { condition, true_dest, true_operands, false_dest, false_operands } => {
                let index = self.conditional(operation, condition.0);
                let targets = [(true_dest, true_operands), (false_dest, false_operands)];
                self.branch_targets(index, targets);
                if index == self.block_start {
                    self.tests.push(Test { index, targets });
                }
            }
            Body::CondBreak { condition, dest, operands } => {
                self.emit(operation, condition.0, 0, 0, 0);
                self.jump(Operation::Branch, dest, operands);
            }
            Body::BranchTable { index, default_dest, default_operands, cases } => {
                self.branch_table(operation, index.0, default_dest, default_operands, cases);
            }
            Body::Call { callee, operands, results } => self.call(callee, None, operands, results, None)?,
            Body::CallVariadic { callee, segment_sizes, operands, results } => {
                self.call(callee, Some(segment_sizes), operands, results, None)?;
            }
            Body::CallYieldable { callee, operands, resume, results } => {
                self.call(callee, None, operands, results, Some(resume))?;
            }
            Body::CallVariadicYieldable { callee, segment_sizes, operands, resume, results } => {
                self.call(callee, Some(segment_sizes), operands, results, Some(resume))?;
            }
            Body::Return { operands } => {
                let range = self.operand_list(self.convention.results(), None, operands)?.all();
                self.emit(operation, 0, 0, 0, halves(range.start, range.end));
            }
            Body::Fail { status, message } => {
                let string = self.string(message);
                self.emit(operation, status.0, 0, 0, string);
            }
            Body::Trace { event_name, operands } => {
                let string = self.string(event_name);
                let table = self.table(operands.iter().map(|register| register.0.into()), ValueType::Any);
                self.emit(operation, 0, 0, 0, halves(string as u32, table as u32));
            }
            _ => return Err(broken()),
        }
        Ok(())
    }

    fn block(&mut self) {
        self.blocks.push((BlockOffset(self.offset), self.instructions.len() as u32));
        self.block_start = self.instructions.len();
        self.step_start = self.block_start;
    }

    fn type_of(&self, id: TypeId) -> ValueType {
        self.types.get(id.0 as usize).copied().unwrap_or(ValueType::AnyRef)
    }

    fn string(&mut self, bytes: &[u8]) -> u64 {
        self.strings.push(String::from_utf8_lossy(bytes).into());
        self.strings.len() as u64 - 1
    }

    fn table(&mut self, entries: impl Iterator<Item = u32>, check: ValueType) -> u64 {
        self.tables.push(Table { entries: entries.collect(), check });
        self.tables.len() as u64 - 1
    }

    /// Emits a conditional branch, fused with the comparison before it where that computes its condition.
    fn conditional(&mut self, operation: Operation, condition: u16) -> usize {
        let last = self.instructions.len().wrapping_sub(1);
        if last >= self.block_start
            && let Some(comparison) = self.instructions.get_mut(last)
            && comparison.c == condition
            && let Some(fused) = fused(comparison.operation)
        {
            comparison.operation = fused;
            return last;
        }
        self.emit(operation, condition, 0, 0, 0)
    }

    fn copies(&mut self, copies: RemapList<'a>) {
        let mut pending: Option<(u16, u16)> = None;
        for (source, target) in copies.iter() {
            if source.is_ref() {
                let operation = if source.is_move() { Operation::MoveRef } else { Operation::CopyRef };
                self.emit(operation, source.index(), target.index(), 0, 0);
                continue;
            }
            // The compiler copies the halves of a pair one after the other; one copy does for both.
            if pending.take() == Some((source.0.wrapping_sub(1), target.0.wrapping_sub(1)))
                && let Some(before) = self.instructions.last_mut()
            {
                before.operation = Operation::Move64;
                continue;
            }
            self.emit(Operation::Move32, source.0, target.0, 0, 0);
            pending =
                (source.0 % 2 == 0 && target.0 % 2 == 0 && source.0 != target.0 + 1).then_some((source.0, target.0));
        }
    }

    /// Returns the test that is the only instruction of the target's block, where that precedes.
    fn test(&self, target: BlockOffset) -> Option<Test<'a>> {
        let block = self.blocks.binary_search_by_key(&target, |block| block.0).ok()?;
        let index = self.blocks[block].1 as usize;
        self.tests.binary_search_by_key(&index, |test| test.index).ok().map(|test| self.tests[test])
    }

    fn branch_targets(&mut self, index: usize, [yes, no]: [(BlockOffset, RemapList<'a>); 2]) {
        self.edge(FixupSlot::Low(index), yes.0, yes.1);
        self.edge(FixupSlot::High(index), no.0, no.1);
    }

    fn jump(&mut self, operation: Operation, target: BlockOffset, copies: RemapList<'a>) {
        let first = self.instructions.len();
        self.copies(copies);
        if operation == Operation::Branch
            && let Some(test) = self.test(target)
        {
            // The back edge to a loop's test: a copy of the test instead saves a branch in each iteration, and makes the block
            // before it one that branches to itself.
            let Inst { operation, a, b, c, .. } = self.instructions[test.index];
            let index = self.emit(operation, a, b, c, 0);
            return self.branch_targets(index, test.targets);
        }
        let index = match self.instructions[first..].last_mut() {
            Some(copy) if operation == Operation::Branch && copy.operation == Operation::Move32 => {
                copy.operation = Operation::Move32Branch;
                self.instructions.len() - 1
            }
            Some(copy) if operation == Operation::Branch && copy.operation == Operation::Move64 => {
                copy.operation = Operation::Move64Branch;
                self.instructions.len() - 1
            }
            _ => self.emit(operation, 0, 0, 0, 0),
        };
        self.fixups.push(Fixup { slot: FixupSlot::Low(index), target });
    }

    fn edge(&mut self, slot: FixupSlot, target: BlockOffset, copies: RemapList<'a>) {
        if copies.is_empty() {
            self.fixups.push(Fixup { slot, target });
        } else {
            self.edges.push(Edge { slot, target, copies, offset: self.offset });
        }
    }

    fn branch_table(
        &mut self,
        operation: Operation,
        index: u16,
        default: BlockOffset,
        copies: RemapList<'a>,
        cases: Cases<'a>,
    ) {
        let table = self.tables.len();
        let entries = core::iter::repeat_n(0, cases.len() + 1);
        let imm = self.table(entries, ValueType::Any);
        let reader = self.emit(operation, index, 0, 0, imm);
        for (entry, (target, copies)) in cases.iter().enumerate() {
            self.edge(FixupSlot::Table(table, entry, reader), target, copies);
        }
        // The default is the last entry.
        self.edge(FixupSlot::Table(table, cases.len(), reader), default, copies);
    }

    fn finish(
        mut self,
        optimize: Option<Optimization>,
        function: u32,
        entry: Box<[Operand]>,
        words: usize,
        refs: usize,
    ) -> Result<Code> {
        self.emit(Operation::FellThrough, 0, 0, 0, 0);
        // Edges that lead to tests stay plain branches, or else they would have edges of their own.
        self.tests.clear();
        for edge in core::mem::take(&mut self.edges) {
            let index = self.instructions.len() as u32;
            self.patch(&edge.slot, index);
            self.offset = edge.offset;
            self.jump(Operation::Branch, edge.target, edge.copies);
        }
        let fixups = core::mem::take(&mut self.fixups);
        for fixup in &fixups {
            self.patch(&fixup.slot, self.blocks[self.block_of(fixup)?].1);
        }
        let mut nests = Box::default();
        if let Some(optimization) = optimize {
            nests = self.find_nests(&fixups, function, optimization)?;
            self.fuse_pairs();
        }
        Ok(Code {
            instructions: self.instructions.into(),
            offsets: self.offsets.into(),
            sites: self.sites.into(),
            operands: self.operands.into(),
            tables: self.tables.into(),
            nests,
            strings: self.strings.into(),
            entry,
            function,
            words,
            refs,
        })
    }

    /// The block that a fixup's branch leads to, as an index of `blocks`.
    fn block_of(&self, fixup: &Fixup) -> Result<usize> {
        self.blocks.binary_search_by_key(&fixup.target, |block| block.0).map_err(|_| broken())
    }

    /// Runs frequent sequences as one operation.
    fn fuse_pairs(&mut self) {
        let mut index = 0;
        while let Some([first, second, rest @ ..]) = self.instructions.get(index..) {
            if let Some(third) = rest.first()
                && let Some(all) = accumulation(&[*first, *second, *third])
            {
                self.instructions[index].operation = all;
                index += 3;
                continue;
            }
            match pair(first.operation, second.operation) {
                Some(both) => {
                    self.instructions[index].operation = both;
                    index += 2;
                }
                None => index += 1,
            }
        }
    }

    fn patch(&mut self, slot: &FixupSlot, target: u32) {
        match *slot {
            FixupSlot::Low(index) => {
                let inst = &mut self.instructions[index];
                inst.imm = halves(target.wrapping_sub(index as u32), inst.high());
            }
            FixupSlot::High(index) => {
                let inst = &mut self.instructions[index];
                inst.imm = halves(inst.low(), target.wrapping_sub(index as u32));
            }
            FixupSlot::Table(table, entry, _) => self.tables[table].entries[entry] = target,
            FixupSlot::Resume(site) => self.sites[site].resume = target,
        }
    }
}

fn fused(operation: Operation) -> Option<Operation> {
    incarnate_bytecode::isa::INSTRUCTIONS
        .iter()
        .find(|row| Operation::of(row.opcode) == operation)
        .and_then(|row| Operation::fused(row.opcode))
}
