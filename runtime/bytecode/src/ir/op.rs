//! What instructions and terminators do, and which values they take.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::value::{Block, Value};
use crate::TypeId;
use crate::isa::Opcode;

/// A value that is taken over: by a call, a branch, a return, or by what stores a reference.
///
/// Primitives are copied, and `moved` means nothing for them. A reference is moved where this is its last use, and shared
/// (its count goes up) where it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The value.
    pub value: Value,
    /// It is a reference, and nothing uses it afterwards. Set by [`ownership`](super::ownership), false before.
    pub moved: bool,
}

impl From<Value> for Operand {
    fn from(value: Value) -> Operand {
        Operand { value, moved: false }
    }
}

/// Where a global is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Global {
    /// Fixed: byte offset of a primitive one, ordinal of a reference. Verified to exist.
    Direct(u32),
    /// Computed, as an unsigned 32-bit number; must be checked.
    Indirect(Value),
}

/// Which function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A function of the same module, by ordinal.
    Internal(u32),
    /// An import, by ordinal. It may be unresolved if it is optional.
    Import(u32),
}

/// A call, with or without spans, that may yield or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub callee: Callee,
    /// The arguments, those of spans unrolled, one for each value.
    pub operands: Vec<Operand>,
    /// For each argument that is a span the number of its elements, for others
    /// [`SEGMENT_NOT_VARIADIC`](crate::isa::SEGMENT_NOT_VARIADIC) (1 in some files); spans within spans have
    /// theirs behind that of the element they begin in. None where the callee takes no spans.
    pub segments: Option<Box<[u16]>>,
    /// The operand, a null reference, that the call replaces by an object created on demand. The call has that object as an
    /// additional last result, which the callee's calling convention does not name. None in the bytecode.
    pub deferred: Option<u8>,
}

/// What an instruction does. Its results' types are those of the values that it defines.
///
/// Operands that are plain [`Value`]s are only read; references among them are borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// An instruction whose meaning is a function of [`semantics`](crate::semantics), with that function's arguments in order.
    /// [`semantics`](super::semantics) names the function and tells whether it can fail.
    Eval {
        /// The instruction.
        opcode: Opcode,
        /// The arguments.
        operands: SmallVec<[Value; 3]>,
    },
    /// The same bits as the other type of the same width: `i32` and `f32`, `i64` and `f64`.
    Bitcast {
        /// What is read as another type.
        operand: Value,
    },
    /// The lower 32 bits of an `i64`.
    Low {
        /// The whole.
        operand: Value,
    },
    /// The upper 32 bits of an `i64`.
    High {
        /// The whole.
        operand: Value,
    },
    /// An `i64` of two `i32`.
    Pair {
        /// The lower half.
        low: Value,
        /// The upper half.
        high: Value,
    },
    /// One of several primitives of one type, by an unsigned index.
    Switch {
        /// Which one.
        index: Value,
        /// The one for indices beyond the list.
        default: Value,
        /// The list.
        values: Vec<Value>,
    },
    /// Loads a primitive global of the result's type.
    GlobalLoad {
        /// Which one.
        global: Global,
    },
    /// Stores a primitive global of the value's type.
    GlobalStore {
        /// Which one.
        global: Global,
        /// What it will be.
        value: Value,
    },
    /// Loads a reference global after checking the type of what is in it.
    GlobalLoadRef {
        /// Which one.
        global: Global,
        /// What it must refer to, unless it is null.
        type_def: TypeId,
        /// Leaves null in the global.
        take: bool,
    },
    /// Stores a reference global after checking the type of the reference.
    GlobalStoreRef {
        /// Which one.
        global: Global,
        /// What the reference must be of, unless it is null.
        type_def: TypeId,
        /// What it will be.
        value: Operand,
    },
    /// A read-only buffer of the module.
    Rodata {
        /// Ordinal of the constant.
        rodata: u32,
    },
    /// Fails unless the reference is null or of the type.
    CheckRef {
        /// The type.
        type_def: TypeId,
        /// The reference.
        value: Value,
    },
    /// One of two references by a condition; the type of the one chosen is checked. A moved one that is not chosen is
    /// dropped.
    SelectRef {
        /// Not zero: the first.
        condition: Value,
        /// What the chosen one must be of, unless it is null.
        type_def: TypeId,
        /// The first.
        true_value: Operand,
        /// The second.
        false_value: Operand,
    },
    /// One of several references by an unsigned index; the type of the one chosen is checked. Moved ones that are not chosen
    /// are dropped.
    SwitchRef {
        /// Which one.
        index: Value,
        /// What the chosen one must be of, unless it is null; None: unchecked, as it was checked before.
        type_def: Option<TypeId>,
        /// The one for indices beyond the list.
        default: Operand,
        /// The list.
        values: Vec<Operand>,
    },
    /// 1 if two references are of the same object or both null, else 0; the other way round if `negated`.
    CompareRef {
        /// Whether the result is inverted.
        negated: bool,
        /// One.
        left: Value,
        /// The other.
        right: Value,
    },
    /// 1 if a reference is not null, else 0.
    IsNonNull {
        /// The reference.
        operand: Value,
    },
    /// A new list.
    ListAlloc {
        /// Type of its elements.
        element_type: TypeId,
        /// The capacity in elements.
        capacity: Value,
    },
    /// Reserves capacity in a list.
    ListReserve {
        /// The list.
        list: Value,
        /// For how many elements.
        capacity: Value,
    },
    /// Number of elements of a list.
    ListSize {
        /// The list.
        list: Value,
    },
    /// Changes the number of elements of a list.
    ListResize {
        /// The list.
        list: Value,
        /// Their number.
        size: Value,
    },
    /// An element of a list, converted to the result's type.
    ListGet {
        /// The list.
        list: Value,
        /// Unsigned index.
        index: Value,
    },
    /// Stores an element, converted from the value's type.
    ListSet {
        /// The list.
        list: Value,
        /// Unsigned index.
        index: Value,
        /// What it will be.
        value: Value,
    },
    /// A reference of a list, after checking its type.
    ListGetRef {
        /// The list.
        list: Value,
        /// Unsigned index.
        index: Value,
        /// What it must refer to, unless it is null.
        type_def: TypeId,
        /// Leaves null in the list.
        take: bool,
    },
    /// Stores a reference in a list.
    ListSetRef {
        /// The list.
        list: Value,
        /// Unsigned index.
        index: Value,
        /// What it will be.
        value: Operand,
    },
    /// Loads an element of a buffer; the opcode (`buffer.load.*`) tells its width and how it is extended.
    BufferLoad {
        /// The instruction.
        opcode: Opcode,
        /// The buffer.
        buffer: Value,
        /// Offset in elements.
        offset: Value,
    },
    /// Stores an element of a buffer; the opcode (`buffer.store.*`) tells its width.
    BufferStore {
        /// The instruction.
        opcode: Opcode,
        /// The buffer.
        buffer: Value,
        /// Offset in elements.
        offset: Value,
        /// What it will be, truncated.
        value: Value,
    },
    /// Fills elements of a buffer; the opcode (`buffer.fill.*`) tells their width.
    BufferFill {
        /// The instruction.
        opcode: Opcode,
        /// The buffer.
        buffer: Value,
        /// Offset in elements.
        offset: Value,
        /// Number of elements.
        length: Value,
        /// What they will be, truncated.
        value: Value,
    },
    /// A new buffer of zeros.
    BufferAlloc {
        /// Bytes.
        length: Value,
        /// Bytes.
        alignment: Value,
    },
    /// A copy of a range of a buffer.
    BufferClone {
        /// The buffer.
        buffer: Value,
        /// Offset in bytes.
        offset: Value,
        /// Bytes.
        length: Value,
        /// Bytes.
        alignment: Value,
    },
    /// Bytes of a buffer.
    BufferLength {
        /// The buffer.
        buffer: Value,
    },
    /// Copies bytes from buffer to buffer; offsets and length are in bytes.
    BufferCopy {
        /// Where from.
        source: Value,
        /// Offset there.
        source_offset: Value,
        /// Where to.
        target: Value,
        /// Offset there.
        target_offset: Value,
        /// How many.
        length: Value,
    },
    /// 1 if ranges of two buffers hold the same bytes, else 0; offsets and length are in bytes.
    BufferCompare {
        /// One.
        left: Value,
        /// Offset there.
        left_offset: Value,
        /// The other.
        right: Value,
        /// Offset there.
        right_offset: Value,
        /// How many.
        length: Value,
    },
    /// Hash of a range of a buffer, in bytes.
    BufferHash {
        /// The buffer.
        buffer: Value,
        /// Offset.
        offset: Value,
        /// How many.
        length: Value,
    },
    /// A call that does not yield; its results are the instruction's.
    Call(Call),
    /// 1 if an import is resolved, else 0.
    ImportResolved {
        /// Its ordinal.
        import: u32,
    },
    /// Emits a trace event with values.
    Trace {
        /// It is a `print`, meant for people.
        print: bool,
        /// The event's name, as the file has it.
        name: Box<[u8]>,
        /// The values; halves of 64-bit ones are values of their own.
        operands: Vec<Value>,
    },
    /// Drops a reference whose last use was no move. Placed by [`ownership`](super::ownership).
    Drop {
        /// The reference.
        value: Value,
    },
}

/// Where control goes, and with which arguments for the block's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block.
    pub target: Block,
    /// One value for each parameter of the block, taken at once (none sees another's assignment).
    pub arguments: Vec<Operand>,
    /// References that are dropped on the way: alive at the branch, used elsewhere, but neither passed nor used from here
    /// on. Set by [`ownership`](super::ownership).
    pub drops: Vec<Value>,
}

impl Edge {
    /// An edge without arguments.
    #[must_use]
    pub const fn new(target: Block) -> Edge {
        Edge { target, arguments: Vec::new(), drops: Vec::new() }
    }
}

/// What ends a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// Goes on with a block.
    Branch(Edge),
    /// Goes on with one of two blocks.
    CondBranch {
        /// Not zero: the first.
        condition: Value,
        /// The first.
        if_true: Edge,
        /// The second.
        if_false: Edge,
    },
    /// Goes on with one of several blocks, by an unsigned index.
    BranchTable {
        /// Which one.
        index: Value,
        /// The blocks.
        cases: Vec<Edge>,
        /// The one for indices beyond them.
        default: Edge,
    },
    /// Returns values, one for each result of the calling convention.
    Return(Vec<Operand>),
    /// Fails with a status code and a message.
    Fail {
        /// The status code, as [`StatusCode::from_raw`](crate::StatusCode::from_raw) reads it. Zero is no failure.
        status: Value,
        /// The message, as the file has it.
        message: Box<[u8]>,
        /// Where a status of zero goes on: with the next block of the bytecode. None: it does not get here (the status is a
        /// constant), or the function ends, which is the failure INTERNAL.
        next: Option<Edge>,
    },
    /// Suspends the call; when it is resumed it goes on with the block.
    Yield(Edge),
    /// A call that may suspend; its results are defined when it is done, and only the block that follows sees them.
    CallYieldable {
        /// The call.
        call: Call,
        /// The results.
        results: SmallVec<[Value; 2]>,
        /// Where it goes on.
        resume: Edge,
    },
    /// Tells a debugger, then goes on.
    Break(Edge),
    /// Tells a debugger if the condition is not zero, then goes on.
    CondBreak {
        /// Not zero: tell.
        condition: Value,
        /// Where it goes on.
        next: Edge,
    },
}

impl Op {
    /// Returns the type that the instruction names: of the checked reference, or of the elements of the new list.
    #[must_use]
    pub fn type_def(&self) -> Option<TypeId> {
        match self {
            Op::GlobalLoadRef { type_def, .. }
            | Op::GlobalStoreRef { type_def, .. }
            | Op::CheckRef { type_def, .. }
            | Op::SelectRef { type_def, .. }
            | Op::ListAlloc { element_type: type_def, .. }
            | Op::ListGetRef { type_def, .. } => Some(*type_def),
            Op::SwitchRef { type_def, .. } => *type_def,
            _ => None,
        }
    }

    /// Whether its references are those to buffers whose memory it accesses.
    #[must_use]
    pub const fn accesses_memory(&self) -> bool {
        matches!(
            self,
            Op::BufferLoad { .. }
                | Op::BufferStore { .. }
                | Op::BufferFill { .. }
                | Op::BufferLength { .. }
                | Op::BufferCopy { .. }
                | Op::BufferCompare { .. }
                | Op::BufferHash { .. }
                | Op::BufferClone { .. }
        )
    }

    /// Returns true if the instruction has no effects besides its results.
    #[must_use]
    pub fn is_pure(&self) -> bool {
        match self {
            Op::Eval { opcode, .. } => !opcode.info().effects.fails,
            Op::Bitcast { .. }
            | Op::Low { .. }
            | Op::High { .. }
            | Op::Pair { .. }
            | Op::Switch { .. }
            | Op::GlobalLoad { global: Global::Direct(_) }
            | Op::Rodata { .. }
            | Op::SwitchRef { type_def: None, .. }
            | Op::CompareRef { .. }
            | Op::IsNonNull { .. }
            | Op::ImportResolved { .. } => true,
            _ => false,
        }
    }
}
