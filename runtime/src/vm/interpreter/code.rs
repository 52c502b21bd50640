//! Pre-decoded functions: what the interpreter runs instead of a module's bytes.
//!
//! Instructions have one size; branch targets are indices of instructions, calls have their register moves worked out,
//! comparisons are fused with the branch that follows. Most operations are named as the instructions that they come from.

use alloc::boxed::Box;
use core::ops::Range;

use super::super::value::ValueType;
use crate::bytecode::isa::{Opcode, for_each_instruction};

macro_rules! define_operations {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, [$($format:tt)*], [$($effect:tt)*], $($semantics:tt)*))*) => {
        /// What an instruction of the pre-decoded form does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(super) enum Operation {
            $($name,)*
            /// 32-bit register `a` to `b`.
            Move32,
            /// 64-bit register `a` to `b`.
            Move64,
            /// Reference `a` to `b`, leaving null.
            MoveRef,
            /// Reference `a` to `b`, shared.
            CopyRef,
            /// Compare `a` and `b`, put the result into `c`, and branch to the low or high half of `imm`.
            CmpEqI32Br,
            CmpNeI32Br,
            CmpLtI32SBr,
            CmpLtI32UBr,
            CmpEqI64Br,
            CmpNeI64Br,
            CmpLtI64SBr,
            CmpLtI64UBr,
            /// Call of an imported function; `imm` indexes the call sites.
            CallImport,
            /// As `CallImport`; the callee may yield, and execution goes on at the site's `resume`.
            CallImportYieldable,
            /// Runs into the end of the function: a `fail` with a status of zero in the last block.
            FellThrough,
        }

        /// The operations that are named as instructions.
        pub(super) static OPERATIONS: &[Operation] = &[$(Operation::$name,)*];
    };
}
for_each_instruction!(define_operations);

impl Operation {
    /// The operation of the instruction's name.
    pub(super) fn of(opcode: Opcode) -> Operation {
        OPERATIONS[opcode as usize]
    }

    /// The comparison of the given name, fused with a branch.
    pub(super) fn fused(opcode: Opcode) -> Option<Operation> {
        Some(match opcode {
            Opcode::CmpEQI32 => Operation::CmpEqI32Br,
            Opcode::CmpNEI32 => Operation::CmpNeI32Br,
            Opcode::CmpLTI32S => Operation::CmpLtI32SBr,
            Opcode::CmpLTI32U => Operation::CmpLtI32UBr,
            Opcode::CmpEQI64 => Operation::CmpEqI64Br,
            Opcode::CmpNEI64 => Operation::CmpNeI64Br,
            Opcode::CmpLTI64S => Operation::CmpLtI64SBr,
            Opcode::CmpLTI64U => Operation::CmpLtI64UBr,
            _ => return None,
        })
    }
}

/// An instruction: registers `a`, `b`, `c` and an immediate, of which each operation says what they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inst {
    pub(super) operation: Operation,
    pub(super) a: u16,
    pub(super) b: u16,
    pub(super) c: u16,
    pub(super) imm: u64,
}

impl Inst {
    pub(super) const fn new(operation: Operation, a: u16, b: u16, c: u16, imm: u64) -> Inst {
        Inst { operation, a, b, c, imm }
    }

    /// The low half of the immediate.
    #[inline(always)]
    pub(super) const fn low(&self) -> u32 {
        self.imm as u32
    }

    /// The high half of the immediate.
    #[inline(always)]
    pub(super) const fn high(&self) -> u32 {
        (self.imm >> 32) as u32
    }

    /// One 16-bit part of the immediate.
    #[inline(always)]
    pub(super) const fn part(&self, index: u32) -> u16 {
        (self.imm >> (16 * index)) as u16
    }
}

/// Packs 16-bit parts into an immediate.
pub(super) const fn parts(parts: [u16; 4]) -> u64 {
    parts[0] as u64 | (parts[1] as u64) << 16 | (parts[2] as u64) << 32 | (parts[3] as u64) << 48
}

/// Packs two halves into an immediate.
pub(super) const fn halves(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// How a value of a call, a return or an entry is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// A 32-bit register.
    Word32,
    /// A 64-bit pair.
    Word64,
    /// A reference, shared.
    RefCopy,
    /// A reference, moved.
    RefMove,
    /// The element count of a span: the register's number itself.
    Count,
}

/// A value of a call: how it travels, the register that it comes from, and the one that it goes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) transfer: Transfer,
    pub(super) source: u16,
    pub(super) target: u16,
}

/// What a call needs besides the instruction.
#[derive(Clone, Debug)]
pub(super) struct CallSite {
    /// Function or import ordinal.
    pub(super) callee: u32,
    /// Range of [`Code::operands`]: arguments.
    pub(super) arguments: Range<u32>,
    /// Range of [`Code::operands`]: where results go.
    pub(super) results: Range<u32>,
    /// Index of the instruction after the call.
    pub(super) resume: u32,
}

/// The alternatives of a `switch` or the targets of a branch table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Registers as encoded, or indices of instructions.
    pub(super) entries: Box<[u32]>,
    /// What references are checked against.
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
    /// Messages of `fail` and names of events.
    pub(super) strings: Box<[Box<str>]>,
    /// How arguments enter the first registers, when the call comes from another module.
    pub(super) entry: Box<[Operand]>,
    /// Words of 32-bit registers, two in each.
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
