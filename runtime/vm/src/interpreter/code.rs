//! Pre-decoded functions, which the interpreter runs instead of a module's bytes.
//!
//! Branch targets are indices of instructions, and the register moves of calls are precomputed.

use alloc::boxed::Box;
use core::ops::Range;

use super::super::value_type::ValueType;
use super::nests::Nest;
use super::operation::Inst;

/// How a value of a call, a return or an entry is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// A 32-bit register.
    Word32,
    /// A 64-bit pair.
    Word64,
    /// A reference, shared.
    RefCopy,
    /// A reference, borrowed during the call.
    RefBorrow,
    /// A reference, moved.
    RefMove,
    /// The element count of a span: the register's number itself.
    Count,
}

impl Transfer {
    pub(super) fn is_reference(self) -> bool {
        matches!(self, Transfer::RefCopy | Transfer::RefBorrow | Transfer::RefMove)
    }
}

/// A value of a call: how it is passed, its source register and its target register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) transfer: Transfer,
    pub(super) source: u16,
    pub(super) target: u16,
}

/// A range of [`Code::operands`]: words, then references, each in the order of the calling convention.
#[derive(Clone, Debug)]
pub(super) struct OperandList {
    pub(super) words: Range<u32>,
    pub(super) refs: Range<u32>,
}

impl OperandList {
    /// All operands.
    #[inline(always)]
    pub(super) fn all(&self) -> Range<u32> {
        self.words.start..self.refs.end
    }
}

/// The operands of a call, besides the instruction.
#[derive(Clone, Debug)]
pub(super) struct CallSite {
    /// Function or import ordinal.
    pub(super) callee: u32,
    /// One bit for each of the first references among the arguments: it is borrowed.
    pub(super) borrowed: u64,
    pub(super) arguments: OperandList,
    /// Targets of results.
    pub(super) results: OperandList,
    /// Index of the call.
    pub(super) pc: u32,
    /// Index of the instruction after the call.
    pub(super) resume: u32,
}

/// The alternatives of a `switch` or the targets of a branch table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Registers as encoded, or indices of instructions.
    pub(super) entries: Box<[u32]>,
    /// The type that references are checked against.
    pub(super) check: ValueType,
}

/// A function in the form that the interpreter runs.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) instructions: Box<[Inst]>,
    /// For each instruction, the offset of the one that it comes from, in bytes within the function.
    pub(super) offsets: Box<[u32]>,
    pub(super) sites: Box<[CallSite]>,
    pub(super) operands: Box<[Operand]>,
    pub(super) tables: Box<[Table]>,
    pub(super) nests: Box<[Nest]>,
    /// Messages of `fail` and names of events.
    pub(super) strings: Box<[Box<str>]>,
    /// How arguments enter the first registers, when the call comes from another module.
    pub(super) entry: Box<[Operand]>,
    /// Ordinal of the function.
    pub(super) function: u32,
    /// Words of 32-bit registers, two in each; a multiple of the unit of frames.
    pub(super) words: usize,
    /// Reference registers.
    pub(super) refs: usize,
}

impl Code {
    #[inline(always)]
    pub(super) fn operands(&self, range: &Range<u32>) -> &[Operand] {
        &self.operands[range.start as usize..range.end as usize]
    }
}
