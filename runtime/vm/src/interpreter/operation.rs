//! Pre-decoded instructions.
//!
//! Instructions have one size. Comparisons are fused with the branch that follows. Most operations are named as the
//! instructions that they come from.

use incarnate_bytecode::isa::{Opcode, for_each_instruction};

/// The operations that are not instructions of the table, in two lists.
///
/// The first lists those with functions of their own in `run/operation.rs`.
///
/// The second lists pairs of operations that are frequent in loops and run as one: `Name = First, Second`. The second
/// instruction stays where it is, with its operands; only the operation of the first one is replaced. So any pair can be
/// fused, and branches to the second instruction remain valid.
macro_rules! for_each_synthetic {
    ($callback:ident $(, $($prefix:tt)*)?) => { $callback! { $($($prefix)*)? {
        /// 32-bit register `a` to `b`.
        Move32;
        /// 64-bit register `a` to `b`.
        Move64;
        /// Reference `a` to `b`, leaving null.
        MoveRef;
        /// Reference `a` to `b`, shared.
        CopyRef;
        /// `Move32`, then `Branch`.
        Move32Branch;
        /// `Move64`, then `Branch`.
        Move64Branch;
        /// Compares `a` and `b`, puts the result into `c`, and branches by the low or high half of `imm`.
        CmpEqI32Branch;
        /// As `CmpEqI32Branch`; so are the following.
        CmpNeI32Branch;
        /// See above.
        CmpLtI32SBranch;
        /// See above.
        CmpLtI32UBranch;
        /// See above.
        CmpEqI64Branch;
        /// See above.
        CmpNeI64Branch;
        /// See above.
        CmpLtI64SBranch;
        /// See above.
        CmpLtI64UBranch;
        /// A load, an operation on the loaded value, and a store of the result. A kernel that accumulates into a buffer waits
        /// for these three, so the value is passed between them without the frame.
        AddI32InBuffer;
        /// See above.
        AddF32InBuffer;
        /// See above.
        FmaI32InBuffer;
        /// See above.
        FmaF32InBuffer;
        /// Call of an imported function; `imm` indexes the call sites.
        CallImport;
        /// As `CallImport`; the callee may yield, and execution continues at the site's `resume`.
        CallImportYieldable;
        /// Runs the nest that the high half of `imm` indexes, as far as its checks hold, then branches to its block.
        Nest;
        /// Runs into the end of the function: a `fail` with a status of zero in the last block.
        FellThrough;
    } {
        LoadThenAddI32 = BufferLoadI32, AddI32;
        LoadThenAddI64 = BufferLoadI32, AddI64;
        LoadThenLoad = BufferLoadI32, BufferLoadI32;
        LoadThenMulF32 = BufferLoadI32, MulF32;
        LoadThenAddF32 = BufferLoadI32, AddF32;
        AddI32ThenAddI32 = AddI32, AddI32;
        AddI32ThenAddI64 = AddI32, AddI64;
        AddI32ThenCmpLtI32SBranch = AddI32, CmpLtI32SBranch;
        AddI32ThenCmpLtI64SBranch = AddI32, CmpLtI64SBranch;
        AddI64ThenLoad = AddI64, BufferLoadI32;
        AddI64ThenStore = AddI64, BufferStoreI32;
        AddI64ThenAddI64 = AddI64, AddI64;
        AddI64ThenMulI64 = AddI64, MulI64;
        AddI64ThenCmpLtI64SBranch = AddI64, CmpLtI64SBranch;
        MulI64ThenAddI64 = MulI64, AddI64;
        FmaI64ThenLoad = FmaI64, BufferLoadI32;
        LoadThenFmaF32 = BufferLoadI32, FmaF32;
        FmaF32ThenStore = FmaF32, BufferStoreI32;
        MulF32ThenAddF32 = MulF32, AddF32;
        AddF32ThenStore = AddF32, BufferStoreI32;
        AddF32ThenAddI64 = AddF32, AddI64;
        StoreThenAddI64 = BufferStoreI32, AddI64;
        Move32ThenMove32 = Move32, Move32;
        Move64ThenMove64 = Move64, Move64;
        ConstI32ThenConstI32 = ConstI32, ConstI32;
    } } };
}
pub(super) use for_each_synthetic;

macro_rules! define_operations {
    (
        { $($(#[$doc:meta])* $fused:ident;)* } { $($pair:ident = $first:ident, $second:ident;)* }
        $(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*
    ) => {
        /// The operation of an instruction of the pre-decoded form.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(super) enum Operation {
            $($name,)*
            $($(#[$doc])* $fused,)*
            $(#[doc = concat!(stringify!($first), ", then ", stringify!($second))] $pair,)*
        }

        /// The operations that are named as instructions.
        pub(super) static OPERATIONS: &[Operation] = &[$(Operation::$name,)*];
    };
}
macro_rules! with_synthetic {
    ($($lists:tt)*) => { for_each_instruction!(define_operations, $($lists)*); };
}
for_each_synthetic!(with_synthetic);

impl Operation {
    /// The operation of the instruction's name.
    pub(super) fn of(opcode: Opcode) -> Operation {
        // Registers hold bits: what moves floats moves integers.
        match OPERATIONS[opcode as usize] {
            Operation::BufferLoadF32 => Operation::BufferLoadI32,
            Operation::BufferLoadF64 => Operation::BufferLoadI64,
            Operation::BufferStoreF32 => Operation::BufferStoreI32,
            Operation::BufferStoreF64 => Operation::BufferStoreI64,
            Operation::ConstF32 => Operation::ConstI32,
            Operation::ConstF64 => Operation::ConstI64,
            other => other,
        }
    }

    /// The comparison of the given name, fused with a branch.
    pub(super) fn fused(opcode: Opcode) -> Option<Operation> {
        Some(match opcode {
            Opcode::CmpEQI32 => Operation::CmpEqI32Branch,
            Opcode::CmpNEI32 => Operation::CmpNeI32Branch,
            Opcode::CmpLTI32S => Operation::CmpLtI32SBranch,
            Opcode::CmpLTI32U => Operation::CmpLtI32UBranch,
            Opcode::CmpEQI64 => Operation::CmpEqI64Branch,
            Opcode::CmpNEI64 => Operation::CmpNeI64Branch,
            Opcode::CmpLTI64S => Operation::CmpLtI64SBranch,
            Opcode::CmpLTI64U => Operation::CmpLtI64UBranch,
            _ => return None,
        })
    }
}

/// Returns the operation that fuses both, if there is one.
pub(super) fn pair(first: Operation, second: Operation) -> Option<Operation> {
    macro_rules! find {
        ({ $($fused:tt)* } { $($pair:ident = $first:ident, $second:ident;)* }) => {
            match (first, second) {
                $((Operation::$first, Operation::$second) => Some(Operation::$pair),)*
                _ => None,
            }
        };
    }
    for_each_synthetic!(find)
}

/// Returns the operation that fuses the three, where the second uses the loaded value and the third stores its result.
pub(super) fn accumulation([load, operation, store]: &[Inst; 3]) -> Option<Operation> {
    if (load.operation, store.operation) != (Operation::BufferLoadI32, Operation::BufferStoreI32) {
        return None;
    }
    let (input, result, fused) = match operation.operation {
        Operation::AddI32 => (operation.a, operation.c, Operation::AddI32InBuffer),
        Operation::AddF32 => (operation.a, operation.c, Operation::AddF32InBuffer),
        Operation::FmaI32 => (operation.c, operation.part(0), Operation::FmaI32InBuffer),
        Operation::FmaF32 => (operation.c, operation.part(0), Operation::FmaF32InBuffer),
        _ => return None,
    };
    (load.c == input && result == store.c).then_some(fused)
}

/// An instruction: registers `a`, `b`, `c` and an immediate, whose meaning depends on the operation. Branches have
/// displacements, in instructions from the branch itself.
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
