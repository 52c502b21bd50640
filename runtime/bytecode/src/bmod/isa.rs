//! The instruction set of the first generation: one table of operand formats and one of instructions.
//!
//! Opcodes and operand encodings are those of `VMBase.td` and `VMOps.td` of IREE at commit 2bbabc307d, meanings those of its
//! `bytecode_dispatch.c`. Registers are bytes: below 0x80 one of 128 registers of 32 bits; with bit 0x80 one of 64
//! references, with bit 0x40 moved from. Nothing is aligned. Branch targets are offsets of instructions; there are no
//! block markers.
//!
//! The kinds of fields are
//!
//! | kind | encoded as | meaning |
//! |---|---|---|
//! | `in_i32`, `out_i32` | u8 | register of 32 bits, read or written |
//! | `in_ref`, `out_ref` | u8 | reference register, read (and moved from where the move bit is set) or written |
//! | `imm_i32`, `imm_i8` | u32, u8 | immediate |
//! | `global` | u32 | byte offset of a primitive global |
//! | `global_ref` | u32 | ordinal of a reference global |
//! | `rodata` | u32 | ordinal of a constant |
//! | `function` | u32 | function ordinal; the high bit marks an import |
//! | `type_id` | u32 | index into the type table |
//! | `string` | u16 length, bytes | text |
//! | `target` | u32 | offset of an instruction within the function |
//! | `remap` | u8 count, pairs of u8 | source and target registers, of either file |
//! | `list` | u8 count, u8 each | registers of either file, read |
//! | `results` | the same | registers of either file, written |
//! | `segments` | u8 count, u8 each | operands of each argument; 0xFF where the argument is a single value |
//!
//! The text of a format names its fields in braces, in the order of assembly text; results stand in front of it.

/// Passes every row of the format table to the macro named by the argument.
macro_rules! for_each_bmod_format {
    ($callback:ident) => { $callback! {
        GlobalLoad = global_load "{byte_offset}" { byte_offset: global, result: out_i32 }
        GlobalStore = global_store "{value}, {byte_offset}" { byte_offset: global, value: in_i32 }
        GlobalLoadIndirect = global_load_indirect "{byte_offset}" { byte_offset: in_i32, result: out_i32 }
        GlobalStoreIndirect = global_store_indirect "{byte_offset}, {value}" { byte_offset: in_i32, value: in_i32 }
        GlobalLoadRef = global_load_ref "{global} : {type_def}" { global: global_ref, type_def: type_id, result: out_ref }
        GlobalStoreRef = global_store_ref "{value}, {global} : {type_def}" { global: global_ref, type_def: type_id,
            value: in_ref }
        GlobalLoadIndirectRef = global_load_indirect_ref "{global} : {type_def}" { global: in_i32, type_def: type_id,
            result: out_ref }
        GlobalStoreIndirectRef = global_store_indirect_ref "{global}, {value} : {type_def}" { global: in_i32,
            type_def: type_id, value: in_ref }
        Constant = constant "{value}" { value: imm_i32, result: out_i32 }
        ZeroConstant = zero_constant "" { result: out_i32 }
        ConstRefZero = const_ref_zero "" { result: out_ref }
        ConstRefRodata = const_ref_rodata "{rodata}" { rodata: rodata, result: out_ref }
        Select = select "{condition} ? {true_value} : {false_value}" { condition: in_i32, true_value: in_i32,
            false_value: in_i32, result: out_i32 }
        SelectRef = select_ref "{condition} ? {true_value} : {false_value} -> {type_def}" { condition: in_i32,
            type_def: type_id, true_value: in_ref, false_value: in_ref, result: out_ref }
        Unary = unary "{operand}" { operand: in_i32, result: out_i32 }
        Binary = binary "{left}, {right}" { left: in_i32, right: in_i32, result: out_i32 }
        Shift = shift "{operand}, {amount}" { operand: in_i32, amount: imm_i8, result: out_i32 }
        RefUnary = ref_unary "{operand}" { operand: in_ref, result: out_i32 }
        RefBinary = ref_binary "{left}, {right}" { left: in_ref, right: in_ref, result: out_i32 }
        Branch = branch "{dest}({operands})" { dest: target, operands: remap }
        CondBranch = cond_branch "{condition}, {true_dest}({true_operands}), {false_dest}({false_operands})" {
            condition: in_i32, true_dest: target, true_operands: remap, false_dest: target, false_operands: remap }
        CondBreak = cond_break "{condition}, {dest}({operands})" { condition: in_i32, dest: target, operands: remap }
        Call = call "{callee}({operands})" { callee: function, operands: list, results: results }
        CallVariadic = call_variadic "{callee} segments[{segment_sizes}]({operands})" { callee: function,
            segment_sizes: segments, operands: list, results: results }
        Return = return_ "{operands}" { operands: list }
        Yield = yield_ "" {}
        Trace = trace "{message}({operands})" { message: string, operands: list }
    } };
}

/// Passes every row of the instruction table to the macro named by the argument. A row reads
///
/// `(byte, Name, "mnemonic", format, lowering)`
///
/// where `lowering` says what the instruction is in today's set: `same X` the instruction `X` with the same operands, `swapped X`
/// with its two operands exchanged, `negated X` and `swapped_negated X` one minus the result of these, and `special`
/// what only the format decides.
macro_rules! for_each_bmod_instruction {
    ($callback:ident) => { $callback! {
        (0x00, GlobalLoadI32, "global.load.i32", global_load, special)
        (0x01, GlobalStoreI32, "global.store.i32", global_store, special)
        (0x02, GlobalLoadIndirectI32, "global.load.indirect.i32", global_load_indirect, same GlobalLoadIndirectI32)
        (0x03, GlobalStoreIndirectI32, "global.store.indirect.i32", global_store_indirect, same GlobalStoreIndirectI32)
        (0x04, GlobalLoadRef, "global.load.ref", global_load_ref, same GlobalLoadRef)
        (0x05, GlobalStoreRef, "global.store.ref", global_store_ref, same GlobalStoreRef)
        (0x06, GlobalLoadIndirectRef, "global.load.indirect.ref", global_load_indirect_ref, same GlobalLoadIndirectRef)
        (0x07, GlobalStoreIndirectRef, "global.store.indirect.ref", global_store_indirect_ref, same GlobalStoreIndirectRef)
        (0x08, ConstI32Zero, "const.i32.zero", zero_constant, same ConstI32Zero)
        (0x09, ConstI32, "const.i32", constant, same ConstI32)
        (0x0A, ConstRefZero, "const.ref.zero", const_ref_zero, same ConstRefZero)
        (0x0B, ConstRefRodata, "const.ref.rodata", const_ref_rodata, same ConstRefRodata)
        (0x20, SelectI32, "select.i32", select, same SelectI32)
        (0x21, SelectRef, "select.ref", select_ref, same SelectRef)
        (0x22, AddI32, "add.i32", binary, same AddI32)
        (0x23, SubI32, "sub.i32", binary, same SubI32)
        (0x24, MulI32, "mul.i32", binary, same MulI32)
        (0x25, DivI32S, "div.i32.s", binary, same DivI32S)
        (0x26, DivI32U, "div.i32.u", binary, same DivI32U)
        (0x27, RemI32S, "rem.i32.s", binary, same RemI32S)
        (0x28, RemI32U, "rem.i32.u", binary, same RemI32U)
        (0x29, NotI32, "not.i32", unary, same NotI32)
        (0x2A, AndI32, "and.i32", binary, same AndI32)
        (0x2B, OrI32, "or.i32", binary, same OrI32)
        (0x2C, XorI32, "xor.i32", binary, same XorI32)
        (0x2D, ShlI32, "shl.i32", shift, same ShlI32)
        (0x2E, ShrI32S, "shr.i32.s", shift, same ShrI32S)
        (0x2F, ShrI32U, "shr.i32.u", shift, same ShrI32U)
        (0x31, TruncI8, "trunc.i8", unary, same TruncI32I8)
        (0x32, TruncI16, "trunc.i16", unary, same TruncI32I16)
        (0x33, ExtI8I32S, "ext.i8.i32.s", unary, same ExtI8I32S)
        (0x34, ExtI16I32S, "ext.i16.i32.s", unary, same ExtI16I32S)
        (0x40, CmpEQI32, "cmp.eq.i32", binary, same CmpEQI32)
        (0x41, CmpNEI32, "cmp.ne.i32", binary, same CmpNEI32)
        (0x42, CmpLTI32S, "cmp.lt.i32.s", binary, same CmpLTI32S)
        (0x43, CmpLTI32U, "cmp.lt.i32.u", binary, same CmpLTI32U)
        (0x44, CmpLTEI32S, "cmp.lte.i32.s", binary, swapped_negated CmpLTI32S)
        (0x45, CmpLTEI32U, "cmp.lte.i32.u", binary, swapped_negated CmpLTI32U)
        (0x46, CmpGTI32S, "cmp.gt.i32.s", binary, swapped CmpLTI32S)
        (0x47, CmpGTI32U, "cmp.gt.i32.u", binary, swapped CmpLTI32U)
        (0x48, CmpGTEI32S, "cmp.gte.i32.s", binary, negated CmpLTI32S)
        (0x49, CmpGTEI32U, "cmp.gte.i32.u", binary, negated CmpLTI32U)
        (0x4A, CmpEQRef, "cmp.eq.ref", ref_binary, same CmpEQRef)
        (0x4B, CmpNERef, "cmp.ne.ref", ref_binary, same CmpNERef)
        (0x4C, CmpNZRef, "cmp.nz.ref", ref_unary, same CmpNZRef)
        (0x50, Branch, "br", branch, same Branch)
        (0x51, CondBranch, "cond_br", cond_branch, same CondBranch)
        (0x52, Call, "call", call, same Call)
        (0x53, CallVariadic, "call.variadic", call_variadic, same CallVariadic)
        (0x54, Return, "return", return_, same Return)
        (0x60, Yield, "yield", yield_, same Yield)
        (0x7C, Trace, "trace", trace, same Trace)
        (0x7D, Print, "print", trace, same Print)
        (0x7E, CondBreak, "cond_break", cond_break, same CondBreak)
        (0x7F, Break, "break", branch, same Break)
    } };
}

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

use super::super::isa::Opcode;

/// The kind of a field; see above.
#[allow(non_camel_case_types, reason = "spelled as the table spells them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    in_i32,
    out_i32,
    in_ref,
    out_ref,
    imm_i32,
    imm_i8,
    global,
    global_ref,
    rodata,
    function,
    type_id,
    string,
    target,
    remap,
    list,
    results,
    segments,
}

impl Kind {
    /// Whether the field stands to the left of `=`.
    pub(super) const fn is_result(self) -> bool {
        matches!(self, Kind::out_i32 | Kind::out_ref | Kind::results)
    }
}

macro_rules! define_formats {
    ($($variant:ident = $row:ident $text:literal { $($field:ident: $kind:ident),* $(,)? })*) => {
        /// Which fields follow an opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Format {
            $($variant,)*
        }

        #[allow(non_upper_case_globals, reason = "row names of the format table, looked up by the instruction table")]
        mod rows {
            use super::Format;
            $(pub(super) const $row: Format = Format::$variant;)*
        }

        impl Format {
            /// Names and kinds of the fields, in the order of their encoding.
            pub(super) const fn fields(self) -> &'static [(&'static str, Kind)] {
                match self {
                    $(Format::$variant => &[$((stringify!($field), Kind::$kind)),*],)*
                }
            }

            /// The operands as text.
            pub(super) const fn text(self) -> &'static str {
                match self {
                    $(Format::$variant => $text,)*
                }
            }
        }
    };
}
for_each_bmod_format!(define_formats);

/// What an instruction is in today's set.
#[allow(non_camel_case_types, reason = "spelled as the table spells them")]
#[derive(Clone, Copy, Debug)]
pub(super) enum Lowering {
    same(Opcode),
    swapped(Opcode),
    negated(Opcode),
    swapped_negated(Opcode),
    special,
}

/// A row of the instruction table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) byte: u8,
    pub(super) mnemonic: &'static str,
    pub(super) format: Format,
    pub(super) lowering: Lowering,
}

macro_rules! define_instructions {
    ($(($byte:literal, $name:ident, $mnemonic:literal, $format:ident, $lowering:ident $($opcode:ident)?))*) => {
        /// The instruction table, by ascending bytes.
        pub(super) static INSTRUCTIONS: &[Row] = &[$(Row {
            byte: $byte,
            mnemonic: $mnemonic,
            format: rows::$format,
            lowering: Lowering::$lowering $((Opcode::$opcode))?,
        },)*];
    };
}
for_each_bmod_instruction!(define_instructions);

impl Row {
    /// Whether control never goes on to the next instruction.
    pub(super) const fn terminates(self) -> bool {
        matches!(self.format, Format::Branch | Format::CondBranch | Format::CondBreak | Format::Return)
    }
}

/// The instruction of a byte.
pub(super) fn row(byte: u8) -> Option<&'static Row> {
    let index = INSTRUCTIONS.binary_search_by_key(&byte, |row| row.byte).ok()?;
    INSTRUCTIONS.get(index)
}
