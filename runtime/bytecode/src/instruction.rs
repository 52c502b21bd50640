//! The decoder: bytes of a function to instructions, checked, for everyone who reads bytecode.
//!
//! Derived from the two tables of [`isa`](super::isa). Decoding proves only that an instruction is complete; what its
//! operands refer to is the verifier's business.

use alloc::format;

use super::isa::{
    Bank, FUNCTION_ORDINAL_IMPORT_BIT, Format, Opcode, OpcodeSet, PREFIX_EXT_F32, PREFIX_EXT_F64, for_each_format,
};
use super::operand::{
    BlockOffset, Cases, FunctionOrdinal, Reader, RefRegister, Register, RegisterList, RemapList, SegmentSizes,
    Truncated, TypeId,
};
use crate::{Error, Result};

/// The type of a field, by its kind.
macro_rules! field_type {
    ($a:lifetime in_v) => { Register };
    ($a:lifetime out_v) => { Register };
    ($a:lifetime in_w) => { Register };
    ($a:lifetime out_w) => { Register };
    ($a:lifetime in_i32) => { Register };
    ($a:lifetime out_i32) => { Register };
    ($a:lifetime in_i64) => { Register };
    ($a:lifetime out_i64) => { Register };
    ($a:lifetime in_ref) => { RefRegister };
    ($a:lifetime in_ref_move) => { RefRegister };
    ($a:lifetime out_ref) => { RefRegister };
    ($a:lifetime imm_v) => { u64 };
    ($a:lifetime global) => { u32 };
    ($a:lifetime global_ref) => { u32 };
    ($a:lifetime rodata) => { u32 };
    ($a:lifetime function) => { FunctionOrdinal };
    ($a:lifetime import) => { u32 };
    ($a:lifetime type_id) => { TypeId };
    ($a:lifetime string) => { &$a [u8] };
    ($a:lifetime target) => { BlockOffset };
    ($a:lifetime remap) => { RemapList<$a> };
    ($a:lifetime list_v) => { RegisterList<$a> };
    ($a:lifetime list_ref) => { RegisterList<$a> };
    ($a:lifetime list_any) => { RegisterList<$a> };
    ($a:lifetime results) => { RegisterList<$a> };
    ($a:lifetime segments) => { SegmentSizes<$a> };
    ($a:lifetime cases) => { Cases<$a> };
}

/// Reads a field, by its kind: `Result<_, Truncated>` must be what the code around it returns, or what it can become.
macro_rules! read_field {
    ($reader:ident $banks:ident in_v) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident out_v) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident in_w) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident out_w) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident in_i32) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident out_i32) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident in_i64) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident out_i64) => {
        $reader.register()?
    };
    ($reader:ident $banks:ident in_ref) => {
        RefRegister($reader.u16()?)
    };
    ($reader:ident $banks:ident in_ref_move) => {
        RefRegister($reader.u16()?)
    };
    ($reader:ident $banks:ident out_ref) => {
        RefRegister($reader.u16()?)
    };
    ($reader:ident $banks:ident imm_v) => {
        $reader.immediate($banks)?
    };
    ($reader:ident $banks:ident global) => {
        $reader.u32()?
    };
    ($reader:ident $banks:ident global_ref) => {
        $reader.u32()?
    };
    ($reader:ident $banks:ident rodata) => {
        $reader.u32()?
    };
    ($reader:ident $banks:ident function) => {
        FunctionOrdinal($reader.u32()?)
    };
    ($reader:ident $banks:ident import) => {
        $reader.u32()? & !FUNCTION_ORDINAL_IMPORT_BIT
    };
    ($reader:ident $banks:ident type_id) => {
        TypeId($reader.u32()?)
    };
    ($reader:ident $banks:ident string) => {
        $reader.string()?
    };
    ($reader:ident $banks:ident target) => {
        $reader.target()?
    };
    ($reader:ident $banks:ident remap) => {
        $reader.remap()?
    };
    ($reader:ident $banks:ident list_v) => {
        $reader.registers()?
    };
    ($reader:ident $banks:ident list_ref) => {
        $reader.registers()?
    };
    ($reader:ident $banks:ident list_any) => {
        $reader.registers()?
    };
    ($reader:ident $banks:ident results) => {
        $reader.registers()?
    };
    ($reader:ident $banks:ident segments) => {
        $reader.segments()?
    };
    ($reader:ident $banks:ident cases) => {
        $reader.cases()?
    };
}

pub(super) use read_field;

/// Bytes that a field takes at least, by its kind.
macro_rules! field_length {
    (imm_v) => {
        4
    };
    (global) => {
        4
    };
    (global_ref) => {
        4
    };
    (rodata) => {
        4
    };
    (function) => {
        4
    };
    (import) => {
        4
    };
    (type_id) => {
        4
    };
    (target) => {
        4
    };
    // Registers, and the counts of lists.
    ($kind:ident) => {
        2
    };
}
pub(super) use field_length;

macro_rules! define_body {
    ($($variant:ident = $row:ident { $($field:ident: $kind:ident),* $(,)? })*) => {
        /// The operands of an instruction, by its format; fields are named and ordered as in the format table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Body<'a> {
            $(
                #[doc = concat!("Operands of format `", stringify!($row), "`.")]
                $variant {
                    $(
                        #[doc = concat!("`", stringify!($kind), "`")]
                        $field: field_type!('a $kind),
                    )*
                },
            )*
        }

        /// Reads the operands of a format.
        #[inline(always)]
        fn read_body<'a>(format: Format, banks: &[Bank], reader: &mut Reader<'a>) -> Result<Body<'a>, Truncated> {
            Ok(match format {
                $(Format::$variant => Body::$variant { $($field: read_field!(reader banks $kind),)* },)*
            })
        }
    };
}
for_each_format!(define_body);

/// An instruction, as decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Where it begins, in bytes from the start of the function.
    pub offset: u32,
    /// How many bytes it takes.
    pub length: u32,
    /// What it does.
    pub opcode: Opcode,
    /// Its operands.
    pub body: Body<'a>,
}

impl<'a> Instruction<'a> {
    /// Decodes the instruction at an offset, in bytes, of a function's bytecode.
    ///
    /// Fails with `INVALID_ARGUMENT` if the byte there is no opcode, or `OUT_OF_RANGE` if the function ends before the
    /// instruction does.
    #[inline]
    pub fn decode(function: &'a [u8], offset: u32) -> Result<Instruction<'a>> {
        let start = offset as usize;
        let Some(&byte) = function.get(start) else {
            return Err(ends_within(function, offset, None));
        };
        let set = match byte {
            PREFIX_EXT_F32 => OpcodeSet::ExtF32,
            PREFIX_EXT_F64 => OpcodeSet::ExtF64,
            _ => OpcodeSet::Core,
        };
        let (byte, position) = match set {
            OpcodeSet::Core => (byte, start + 1),
            _ => match function.get(start + 1) {
                Some(&byte) => (byte, start + 2),
                None => return Err(ends_within(function, offset, None)),
            },
        };
        let Some(opcode) = Opcode::decode(set, byte) else {
            return Err(Error::invalid_argument(format!("no instruction has opcode 0x{byte:02X} of set {set:?}")));
        };
        let info = opcode.info();
        let mut reader = Reader::new(function, position);
        match read_body(info.format, info.banks, &mut reader) {
            // The reader never goes beyond the function, whose length a 32-bit number counts.
            Ok(body) => Ok(Instruction { offset, length: (reader.position() - start) as u32, opcode, body }),
            Err(Truncated) => Err(ends_within(function, offset, Some(opcode))),
        }
    }

    /// Offset of the instruction behind this one.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.offset + self.length
    }
}

#[cold]
pub(super) fn ends_within(function: &[u8], offset: u32, opcode: Option<Opcode>) -> Error {
    let length = function.len();
    let mnemonic = opcode.map_or("an opcode", |opcode| opcode.info().mnemonic);
    Error::out_of_range(format!("the function ends at 0x{length:X}, within {mnemonic} at 0x{offset:X}"))
}

/// The instructions of a function, in order.
#[derive(Clone, Debug)]
pub struct Instructions<'a> {
    function: &'a [u8],
    offset: u32,
}

impl<'a> Instructions<'a> {
    /// Decodes from the start of a function's bytecode on.
    #[must_use]
    pub const fn new(function: &'a [u8]) -> Instructions<'a> {
        Instructions { function, offset: 0 }
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Instruction<'a>;

    /// The next instruction. What cannot be decoded ends the iteration; a verified function has no such thing.
    #[inline]
    fn next(&mut self) -> Option<Instruction<'a>> {
        if self.offset as usize >= self.function.len() {
            return None;
        }
        let instruction = Instruction::decode(self.function, self.offset).ok()?;
        self.offset = instruction.end();
        Some(instruction)
    }
}
