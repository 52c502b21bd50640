//! Lowers calls: pairs the registers of calls, returns and entries with the items of calling conventions.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::super::super::call::CallBuffer;
use super::super::code::{CallSite, Operand, OperandList, Transfer};
use super::super::operation::Operation;
use super::{Fixup, FixupSlot, Lowering, broken};
use crate::Result;
use incarnate_bytecode::isa::SEGMENT_NOT_VARIADIC;
use incarnate_bytecode::{
    AnyRegister, BlockOffset, CallingConvention, ConventionItem, FunctionOrdinal, RegisterList, SegmentSizes,
};

/// Returns the registers that arguments are passed in: each file is filled from its start, 64-bit values at even registers. Words precede
/// references.
pub(in super::super) fn entry(convention: CallingConvention<'_>) -> Box<[Operand]> {
    let (mut word, mut reference) = (0u16, 0u16);
    let operand = |item: ConventionItem| {
        let (transfer, target) = match item {
            ConventionItem::I32 | ConventionItem::F32 => {
                word += 1;
                (Transfer::Word32, word - 1)
            }
            ConventionItem::I64 | ConventionItem::F64 => {
                word = word.next_multiple_of(2) + 2;
                (Transfer::Word64, word - 2)
            }
            _ => {
                reference += 1;
                (Transfer::RefMove, reference - 1)
            }
        };
        Operand { transfer, source: 0, target }
    };
    let mut operands: Box<[Operand]> = convention.arguments().map(operand).collect();
    operands.sort_by_key(|operand| operand.transfer.is_reference());
    operands
}

fn transfer_of(item: ConventionItem, register: AnyRegister) -> Transfer {
    match item {
        ConventionItem::I32 | ConventionItem::F32 => Transfer::Word32,
        ConventionItem::I64 | ConventionItem::F64 => Transfer::Word64,
        _ if register.is_move() => Transfer::RefMove,
        _ => Transfer::RefCopy,
    }
}

impl<'a> Lowering<'a> {
    pub(super) fn call(
        &mut self,
        callee: FunctionOrdinal,
        segments: Option<SegmentSizes<'a>>,
        operands: RegisterList<'a>,
        results: RegisterList<'a>,
        resume: Option<BlockOffset>,
    ) -> Result<()> {
        let (operation, ordinal, convention) = match (callee.internal(), callee.import()) {
            (Some(ordinal), _) => {
                (Operation::Call, ordinal, self.module.function(ordinal).ok_or_else(broken)?.convention)
            }
            (None, import) => {
                let ordinal = import.ok_or_else(broken)?;
                let convention = self.module.import(ordinal).ok_or_else(broken)?.calling_convention;
                let yieldable = resume.is_some() || self.module.generation().any_call_yields;
                (if yieldable { Operation::CallImportYieldable } else { Operation::CallImport }, ordinal, convention)
            }
        };
        let arguments = self.operand_list(convention.arguments(), segments, operands)?;
        if operation == Operation::Call {
            let targets = entry(convention);
            for (operand, target) in self.operands_mut(&arguments.all()).iter_mut().zip(&targets) {
                operand.target = target.target;
            }
        }
        let borrowed = if operation == Operation::Call { 0 } else { self.borrow_arguments(&arguments.refs) };
        let results = self.operand_list(convention.results(), None, results)?;
        for operand in self.operands_mut(&results.all()) {
            operand.target = operand.source;
        }
        let site = self.sites.len();
        let pc = self.instructions.len() as u32;
        self.sites.push(CallSite { callee: ordinal, borrowed, arguments, results, pc, resume: pc + 1 });
        self.emit(operation, 0, 0, 0, site as u64);
        if let Some(target) = resume {
            self.fixups.push(Fixup { slot: FixupSlot::Resume(site), target });
        }
        Ok(())
    }

    fn operands_mut(&mut self, range: &Range<u32>) -> &mut [Operand] {
        &mut self.operands[range.start as usize..range.end as usize]
    }

    /// Passes references to an imported function as borrowed instead of cloned, where their register is passed once.
    /// Returns a bit for each that is.
    fn borrow_arguments(&mut self, references: &Range<u32>) -> u64 {
        let operands = self.operands_mut(references);
        let mut borrowed = 0;
        // Recorders of command buffers pass many; the count below must not make lowering quadratic.
        for index in 0..operands.len().min(CallBuffer::MAX_BORROWED) {
            let operand = operands[index];
            let once = operands.iter().filter(|other| other.source == operand.source).count() == 1;
            if operand.transfer == Transfer::RefCopy && once {
                operands[index].transfer = Transfer::RefBorrow;
                borrowed |= 1 << index;
            }
        }
        borrowed
    }

    /// Pairs the items of a convention with registers; spans are unrolled by their segment sizes.
    pub(super) fn operand_list(
        &mut self,
        items: impl Iterator<Item = ConventionItem> + Clone,
        segments: Option<SegmentSizes<'a>>,
        registers: RegisterList<'a>,
    ) -> Result<OperandList> {
        let start = self.operands.len();
        let mut registers = registers.iter();
        let mut segments = segments.into_iter().flat_map(SegmentSizes::iter);
        self.items(items, &mut segments, &mut registers, true)?;
        let list = &mut self.operands[start..];
        list.sort_by_key(|operand| operand.transfer.is_reference());
        let refs = start + list.partition_point(|operand| !operand.transfer.is_reference());
        let [start, refs, end] = [start, refs, self.operands.len()].map(|index| index as u32);
        Ok(OperandList { words: start..refs, refs: refs..end })
    }

    fn items(
        &mut self,
        mut items: impl Iterator<Item = ConventionItem> + Clone,
        segments: &mut dyn Iterator<Item = u16>,
        registers: &mut dyn Iterator<Item = AnyRegister>,
        top_level: bool,
    ) -> Result<()> {
        while let Some(item) = items.next() {
            let segment = if top_level || item == ConventionItem::SpanStart { segments.next() } else { None };
            if item != ConventionItem::SpanStart {
                let register = registers.next().ok_or_else(broken)?;
                let transfer = transfer_of(item, register);
                self.operands.push(Operand { transfer, source: register.index(), target: 0 });
                continue;
            }
            let count = segment.filter(|count| *count != SEGMENT_NOT_VARIADIC).ok_or_else(broken)?;
            self.operands.push(Operand { transfer: Transfer::Count, source: count, target: 0 });
            let body = span_body(&mut items);
            for _ in 0..count {
                self.items(body.iter().copied(), segments, registers, false)?;
            }
        }
        Ok(())
    }
}

/// Takes the items of a span, up to its end, from the iterator.
fn span_body(items: &mut impl Iterator<Item = ConventionItem>) -> Vec<ConventionItem> {
    let mut depth = 0usize;
    let mut body = Vec::new();
    for item in items {
        match item {
            ConventionItem::SpanStart => depth += 1,
            ConventionItem::SpanEnd if depth == 0 => break,
            ConventionItem::SpanEnd => depth -= 1,
            _ => {}
        }
        body.push(item);
    }
    body
}
