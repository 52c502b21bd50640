//! The instruction set: one table of operand formats and one of instructions.
//!
//! Opcodes and operand encodings are those of `VMBase.td` and `VMOps.td` of IREE at commit 2bbabc307d, meanings those of its
//! `bytecode_dispatch.c`. Registers are bytes: below 0x80 one of 128 registers of 32 bits; with bit 0x80 one of 64
//! references, with bit 0x40 moved from. Nothing is aligned. Branch targets are offsets of instructions; there are no
//! block markers.

use incarnate_bytecode::isa::Opcode;

use Lowering::{Global, Negated, Same, Swapped, SwappedNegated};

/// High bit of a register: it is a reference.
pub(super) const REF_TYPE_BIT: u8 = 0x80;
/// Bit of a reference register: the value is moved out of it.
pub(super) const REF_MOVE_BIT: u8 = 0x40;
/// Bits of a reference register that hold its ordinal.
pub(super) const REF_MASK: u8 = 0x3F;
/// Number of registers of 32 bits that a function can have.
pub(super) const I32_REGISTERS: u8 = 128;
/// Number of reference registers that a function can have.
pub(super) const REF_REGISTERS: u8 = 64;
/// Segment size of an argument that is a single value.
pub(super) const SEGMENT_SINGLE: u8 = 0xFF;

/// What a field holds, and how it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A register of 32 bits that is read: u8.
    InI32,
    /// A register of 32 bits that is written: u8.
    OutI32,
    /// A reference register that is read, and moved from if the move bit is set: u8.
    InRef,
    /// A reference register that is written: u8.
    OutRef,
    /// An immediate: u32.
    ImmI32,
    /// An immediate: u8.
    ImmI8,
    /// The byte offset of a primitive global: u32.
    Global,
    /// The ordinal of a reference global: u32.
    GlobalRef,
    /// The ordinal of a constant: u32.
    Rodata,
    /// The ordinal of a function, or of an import if the high bit is set: u32.
    Function,
    /// An index into the type table: u32.
    TypeId,
    /// A text: its length as u16, its bytes.
    String,
    /// The offset of an instruction within the function: u32.
    Target,
    /// Source and target registers, of either file: their number as u8, pairs of u8.
    Remap,
    /// Registers of either file that are read: their number as u8, a u8 each.
    List,
    /// Registers of either file that are written: their number as u8, a u8 each.
    Results,
    /// The number of operands of each argument, [`SEGMENT_SINGLE`] for one that is a single value: their number as u8, a u8 each.
    Segments,
}

/// Which fields follow an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    GlobalLoad,
    GlobalStore,
    GlobalLoadIndirect,
    GlobalStoreIndirect,
    GlobalLoadRef,
    GlobalStoreRef,
    GlobalLoadIndirectRef,
    GlobalStoreIndirectRef,
    Constant,
    ZeroConstant,
    ConstRefZero,
    ConstRefRodata,
    Select,
    SelectRef,
    Unary,
    Binary,
    Shift,
    RefUnary,
    RefBinary,
    Branch,
    CondBranch,
    CondBreak,
    Call,
    CallVariadic,
    Return,
    Yield,
    Trace,
}

impl Format {
    /// Names and kinds of the fields, in the order of their encoding.
    pub(super) const fn fields(self) -> &'static [(&'static str, Kind)] {
        use Kind::*;
        match self {
            Format::GlobalLoad => &[("byte_offset", Global), ("result", OutI32)],
            Format::GlobalStore => &[("byte_offset", Global), ("value", InI32)],
            Format::GlobalLoadIndirect => &[("byte_offset", InI32), ("result", OutI32)],
            Format::GlobalStoreIndirect => &[("byte_offset", InI32), ("value", InI32)],
            Format::GlobalLoadRef => &[("global", GlobalRef), ("type_def", TypeId), ("result", OutRef)],
            Format::GlobalStoreRef => &[("global", GlobalRef), ("type_def", TypeId), ("value", InRef)],
            Format::GlobalLoadIndirectRef => &[("global", InI32), ("type_def", TypeId), ("result", OutRef)],
            Format::GlobalStoreIndirectRef => &[("global", InI32), ("type_def", TypeId), ("value", InRef)],
            Format::Constant => &[("value", ImmI32), ("result", OutI32)],
            Format::ZeroConstant => &[("result", OutI32)],
            Format::ConstRefZero => &[("result", OutRef)],
            Format::ConstRefRodata => &[("rodata", Rodata), ("result", OutRef)],
            Format::Select => {
                &[("condition", InI32), ("true_value", InI32), ("false_value", InI32), ("result", OutI32)]
            }
            Format::SelectRef => &[
                ("condition", InI32),
                ("type_def", TypeId),
                ("true_value", InRef),
                ("false_value", InRef),
                ("result", OutRef),
            ],
            Format::Unary => &[("operand", InI32), ("result", OutI32)],
            Format::Binary => &[("left", InI32), ("right", InI32), ("result", OutI32)],
            Format::Shift => &[("operand", InI32), ("amount", ImmI8), ("result", OutI32)],
            Format::RefUnary => &[("operand", InRef), ("result", OutI32)],
            Format::RefBinary => &[("left", InRef), ("right", InRef), ("result", OutI32)],
            Format::Branch => &[("dest", Target), ("operands", Remap)],
            Format::CondBranch => &[
                ("condition", InI32),
                ("true_dest", Target),
                ("true_operands", Remap),
                ("false_dest", Target),
                ("false_operands", Remap),
            ],
            Format::CondBreak => &[("condition", InI32), ("dest", Target), ("operands", Remap)],
            Format::Call => &[("callee", Function), ("operands", List), ("results", Results)],
            Format::CallVariadic => {
                &[("callee", Function), ("segment_sizes", Segments), ("operands", List), ("results", Results)]
            }
            Format::Return => &[("operands", List)],
            Format::Yield => &[],
            Format::Trace => &[("message", String), ("operands", List)],
        }
    }
}

/// The instructions of today that do what an instruction does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lowering {
    /// The instruction with the same operands.
    Same(Opcode),
    /// The instruction with its two operands exchanged.
    Swapped(Opcode),
    /// One minus the result of the instruction.
    Negated(Opcode),
    /// One minus the result of the instruction with its two operands exchanged.
    SwappedNegated(Opcode),
    /// A load or a store of a primitive global, whose form depends on the offset.
    Global,
}

/// A row of the instruction table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) byte: u8,
    pub(super) mnemonic: &'static str,
    pub(super) format: Format,
    pub(super) lowering: Lowering,
}

impl Row {
    const fn new(byte: u8, mnemonic: &'static str, format: Format, lowering: Lowering) -> Row {
        Row { byte, mnemonic, format, lowering }
    }

    /// Whether control never goes on to the next instruction.
    pub(super) const fn terminates(self) -> bool {
        matches!(self.format, Format::Branch | Format::CondBranch | Format::CondBreak | Format::Return)
    }
}

/// Returns the instruction of a byte.
pub(super) fn row(byte: u8) -> Option<&'static Row> {
    let index = INSTRUCTIONS.binary_search_by_key(&byte, |row| row.byte).ok()?;
    INSTRUCTIONS.get(index)
}

/// The instruction table, by ascending bytes.
#[rustfmt::skip]
pub(super) static INSTRUCTIONS: &[Row] = &[
    Row::new(0x00, "global.load.i32", Format::GlobalLoad, Global),
    Row::new(0x01, "global.store.i32", Format::GlobalStore, Global),
    Row::new(0x02, "global.load.indirect.i32", Format::GlobalLoadIndirect, Same(Opcode::GlobalLoadIndirectI32)),
    Row::new(0x03, "global.store.indirect.i32", Format::GlobalStoreIndirect, Same(Opcode::GlobalStoreIndirectI32)),
    Row::new(0x04, "global.load.ref", Format::GlobalLoadRef, Same(Opcode::GlobalLoadRef)),
    Row::new(0x05, "global.store.ref", Format::GlobalStoreRef, Same(Opcode::GlobalStoreRef)),
    Row::new(0x06, "global.load.indirect.ref", Format::GlobalLoadIndirectRef, Same(Opcode::GlobalLoadIndirectRef)),
    Row::new(0x07, "global.store.indirect.ref", Format::GlobalStoreIndirectRef, Same(Opcode::GlobalStoreIndirectRef)),
    Row::new(0x08, "const.i32.zero", Format::ZeroConstant, Same(Opcode::ConstI32Zero)),
    Row::new(0x09, "const.i32", Format::Constant, Same(Opcode::ConstI32)),
    Row::new(0x0A, "const.ref.zero", Format::ConstRefZero, Same(Opcode::ConstRefZero)),
    Row::new(0x0B, "const.ref.rodata", Format::ConstRefRodata, Same(Opcode::ConstRefRodata)),
    Row::new(0x20, "select.i32", Format::Select, Same(Opcode::SelectI32)),
    Row::new(0x21, "select.ref", Format::SelectRef, Same(Opcode::SelectRef)),
    Row::new(0x22, "add.i32", Format::Binary, Same(Opcode::AddI32)),
    Row::new(0x23, "sub.i32", Format::Binary, Same(Opcode::SubI32)),
    Row::new(0x24, "mul.i32", Format::Binary, Same(Opcode::MulI32)),
    Row::new(0x25, "div.i32.s", Format::Binary, Same(Opcode::DivI32S)),
    Row::new(0x26, "div.i32.u", Format::Binary, Same(Opcode::DivI32U)),
    Row::new(0x27, "rem.i32.s", Format::Binary, Same(Opcode::RemI32S)),
    Row::new(0x28, "rem.i32.u", Format::Binary, Same(Opcode::RemI32U)),
    Row::new(0x29, "not.i32", Format::Unary, Same(Opcode::NotI32)),
    Row::new(0x2A, "and.i32", Format::Binary, Same(Opcode::AndI32)),
    Row::new(0x2B, "or.i32", Format::Binary, Same(Opcode::OrI32)),
    Row::new(0x2C, "xor.i32", Format::Binary, Same(Opcode::XorI32)),
    Row::new(0x2D, "shl.i32", Format::Shift, Same(Opcode::ShlI32)),
    Row::new(0x2E, "shr.i32.s", Format::Shift, Same(Opcode::ShrI32S)),
    Row::new(0x2F, "shr.i32.u", Format::Shift, Same(Opcode::ShrI32U)),
    Row::new(0x31, "trunc.i8", Format::Unary, Same(Opcode::TruncI32I8)),
    Row::new(0x32, "trunc.i16", Format::Unary, Same(Opcode::TruncI32I16)),
    Row::new(0x33, "ext.i8.i32.s", Format::Unary, Same(Opcode::ExtI8I32S)),
    Row::new(0x34, "ext.i16.i32.s", Format::Unary, Same(Opcode::ExtI16I32S)),
    Row::new(0x40, "cmp.eq.i32", Format::Binary, Same(Opcode::CmpEQI32)),
    Row::new(0x41, "cmp.ne.i32", Format::Binary, Same(Opcode::CmpNEI32)),
    Row::new(0x42, "cmp.lt.i32.s", Format::Binary, Same(Opcode::CmpLTI32S)),
    Row::new(0x43, "cmp.lt.i32.u", Format::Binary, Same(Opcode::CmpLTI32U)),
    Row::new(0x44, "cmp.lte.i32.s", Format::Binary, SwappedNegated(Opcode::CmpLTI32S)),
    Row::new(0x45, "cmp.lte.i32.u", Format::Binary, SwappedNegated(Opcode::CmpLTI32U)),
    Row::new(0x46, "cmp.gt.i32.s", Format::Binary, Swapped(Opcode::CmpLTI32S)),
    Row::new(0x47, "cmp.gt.i32.u", Format::Binary, Swapped(Opcode::CmpLTI32U)),
    Row::new(0x48, "cmp.gte.i32.s", Format::Binary, Negated(Opcode::CmpLTI32S)),
    Row::new(0x49, "cmp.gte.i32.u", Format::Binary, Negated(Opcode::CmpLTI32U)),
    Row::new(0x4A, "cmp.eq.ref", Format::RefBinary, Same(Opcode::CmpEQRef)),
    Row::new(0x4B, "cmp.ne.ref", Format::RefBinary, Same(Opcode::CmpNERef)),
    Row::new(0x4C, "cmp.nz.ref", Format::RefUnary, Same(Opcode::CmpNZRef)),
    Row::new(0x50, "br", Format::Branch, Same(Opcode::Branch)),
    Row::new(0x51, "cond_br", Format::CondBranch, Same(Opcode::CondBranch)),
    Row::new(0x52, "call", Format::Call, Same(Opcode::Call)),
    Row::new(0x53, "call.variadic", Format::CallVariadic, Same(Opcode::CallVariadic)),
    Row::new(0x54, "return", Format::Return, Same(Opcode::Return)),
    Row::new(0x60, "yield", Format::Yield, Same(Opcode::Yield)),
    Row::new(0x7C, "trace", Format::Trace, Same(Opcode::Trace)),
    Row::new(0x7D, "print", Format::Trace, Same(Opcode::Print)),
    Row::new(0x7E, "cond_break", Format::CondBreak, Same(Opcode::CondBreak)),
    Row::new(0x7F, "break", Format::Branch, Same(Opcode::Break)),
];
