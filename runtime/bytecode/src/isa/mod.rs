//! The instruction set: one table of instructions and one of operand formats; everything that treats instructions
//! (decoder, verifier, disassembler, assembler, interpreter, translator) is derived from the two by macro.

mod format;
mod table;

#[doc(hidden)]
pub use format::for_each_format;
#[doc(hidden)]
pub use table::for_each_instruction;

/// Newest major version of the bytecode: what is assembled, and what the instruction table describes in full.
pub const VERSION_MAJOR: u16 = 17;
/// Newest minor version of [`VERSION_MAJOR`] that the table knows.
pub const VERSION_MINOR: u16 = 0;

/// A version of the instruction set, by its major number, and which compilers write it.
///
/// Since major version 15 instructions were only added: the table of the newest version reads all of them, and
/// [`Opcode::since`] tells which are there in an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Major version of the bytecode.
    pub major: u16,
    /// Newest minor version of it that can be read.
    pub minor: u16,
    /// The compiler releases that write it.
    pub compilers: &'static str,
    /// Whether every operand that is a reference may have the move bit, which means nothing where the value is only read
    /// at: until version 16 compilers set it wherever a reference is used for the last time.
    pub moves_anywhere: bool,
    /// Whether imports may suspend their caller at any call: before version 17 there were no calls to tell them by.
    pub any_call_yields: bool,
    /// The instructions that came with it, besides those of the oldest.
    pub added: &'static [Opcode],
}

/// The versions of the instruction set that can be read, in ascending order.
pub static GENERATIONS: [Generation; 3] = [
    Generation {
        major: 15,
        minor: 0,
        compilers: "3.0 to 3.9",
        moves_anywhere: true,
        any_call_yields: true,
        added: &[],
    },
    Generation {
        major: 16,
        minor: 0,
        compilers: "3.10",
        moves_anywhere: true,
        any_call_yields: true,
        added: &[Opcode::DiscardRefs, Opcode::AssignRef],
    },
    Generation {
        major: VERSION_MAJOR,
        minor: VERSION_MINOR,
        compilers: "3.11 to 3.13",
        moves_anywhere: false,
        any_call_yields: false,
        added: &[Opcode::CallYieldable, Opcode::CallVariadicYieldable, Opcode::FPowIF32, Opcode::FPowIF64],
    },
];

impl Generation {
    /// Returns the generation of a bytecode version as in module files: major in the upper 16 bits, minor in the lower. None
    /// if it cannot be read.
    #[must_use]
    pub fn of(version: u32) -> Option<&'static Generation> {
        let (major, minor) = (version >> 16, version & 0xFFFF);
        GENERATIONS.iter().find(|row| u32::from(row.major) == major && minor <= u32::from(row.minor))
    }
}

/// Core opcode that prefixes an instruction of [`OpcodeSet::ExtF32`].
pub const PREFIX_EXT_F32: u8 = 0xE0;
/// Core opcode that prefixes an instruction of [`OpcodeSet::ExtF64`].
pub const PREFIX_EXT_F64: u8 = 0xE1;

/// High bit of an encoded register ordinal: the register is a reference.
pub const REF_REGISTER_TYPE_BIT: u16 = 0x8000;
/// Bit of an encoded reference register: the value is moved out of it.
pub const REF_REGISTER_MOVE_BIT: u16 = 0x4000;
/// Bits of an encoded reference register that hold its ordinal.
pub const REF_REGISTER_MASK: u16 = 0x3FFF;
/// Largest number of 32-bit registers of a function.
pub const I32_REGISTER_LIMIT: u16 = 0x7FFF;
/// Largest number of reference registers of a function.
pub const REF_REGISTER_LIMIT: u16 = 0x3FFF;
/// High bit of a function ordinal: it indexes the import table.
pub const FUNCTION_ORDINAL_IMPORT_BIT: u32 = 0x8000_0000;
/// Segment size of an argument that is not a variadic span.
pub const SEGMENT_NOT_VARIADIC: u16 = 0xFFFF;

/// The encoding space that an opcode byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpcodeSet {
    /// Integers, references, buffers, control flow; no prefix.
    Core,
    /// 32-bit floating point, behind [`PREFIX_EXT_F32`].
    ExtF32,
    /// 64-bit floating point, behind [`PREFIX_EXT_F64`].
    ExtF64,
}

/// What a register holds. All but references share one file of 32-bit registers; 64-bit banks take an aligned pair.
#[allow(non_camel_case_types, reason = "spelled as the table and the assembly text spell them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bank {
    /// 32-bit integer.
    i32,
    /// 64-bit integer in an aligned pair.
    i64,
    /// 32-bit float.
    f32,
    /// 64-bit float in an aligned pair.
    f64,
}

impl Bank {
    /// Bytes that a value of the bank takes.
    #[must_use]
    pub const fn size(self) -> u32 {
        match self {
            Bank::i32 | Bank::f32 => 4,
            Bank::i64 | Bank::f64 => 8,
        }
    }
}

/// What control flow may do at an instruction, besides going on to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Ends its block.
    pub terminates: bool,
    /// May end the call with an error.
    pub fails: bool,
    /// May suspend the call.
    pub yields: bool,
}

/// A row of the instruction table, but for its semantic function.
#[derive(Clone, Copy, Debug)]
pub struct InstructionInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Encoding space.
    pub set: OpcodeSet,
    /// Byte within the encoding space.
    pub byte: u8,
    /// Name in assembly text, without the dialect prefix `vm.`.
    pub mnemonic: &'static str,
    /// Operand format.
    pub format: Format,
    /// Banks that the format's `v` and `w` stand for.
    pub banks: &'static [Bank],
    /// Effects on control flow.
    pub effects: Effects,
}

macro_rules! define_formats {
    ($($variant:ident = $row:ident { $($fields:tt)* })*) => {
        /// Which operand fields follow an opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $(#[doc = concat!("The row `", stringify!($row), "` of the format table.")] $variant,)*
        }

        #[allow(non_upper_case_globals, reason = "row names of the format table, looked up by the instruction table")]
        mod format_rows {
            use super::Format;
            $(pub(super) const $row: Format = Format::$variant;)*
        }
    };
}
for_each_format!(define_formats);

macro_rules! define_opcodes {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, [$format:ident $($bank:ident)*],
        [$($effect:ident),*], $($semantics:ident)*))*) => {
        /// An instruction of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Opcode {
            $(#[doc = concat!("`vm.", $mnemonic, "`")] $name,)*
        }

        /// The instruction table, in the order of [`Opcode`].
        pub static INSTRUCTIONS: &[InstructionInfo] = &[$(InstructionInfo {
            opcode: Opcode::$name,
            set: OpcodeSet::$set,
            byte: $byte,
            mnemonic: $mnemonic,
            format: format_rows::$format,
            banks: &[$(Bank::$bank),*],
            effects: {
                #[allow(unused_mut, reason = "rows without effects")]
                let mut effects = Effects { terminates: false, fails: false, yields: false };
                $(effects.$effect = true;)*
                effects
            },
        },)*];
    };
}
for_each_instruction!(define_opcodes);

impl Opcode {
    /// The opcode's row of the table.
    #[must_use]
    pub fn info(self) -> &'static InstructionInfo {
        &INSTRUCTIONS[self as usize]
    }

    /// The major version of the bytecode that the opcode came with.
    #[must_use]
    pub const fn since(self) -> u16 {
        let mut generation = GENERATIONS.len();
        while generation > 0 {
            generation -= 1;
            let row = &GENERATIONS[generation];
            let mut index = 0;
            while index < row.added.len() {
                if row.added[index] as u16 == self as u16 {
                    return row.major;
                }
                index += 1;
            }
        }
        GENERATIONS[0].major
    }

    /// The opcode of a byte in an encoding space, if there is one.
    #[must_use]
    pub const fn decode(set: OpcodeSet, byte: u8) -> Option<Opcode> {
        OPCODES_BY_BYTE[set as usize][byte as usize]
    }
}

static OPCODES_BY_BYTE: [[Option<Opcode>; 256]; 3] = {
    let mut table = [[None; 256]; 3];
    let mut index = 0;
    while index < INSTRUCTIONS.len() {
        let row = &INSTRUCTIONS[index];
        table[row.set as usize][row.byte as usize] = Some(row.opcode);
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_byte() {
        for (index, row) in INSTRUCTIONS.iter().enumerate() {
            assert_eq!(row.opcode as usize, index);
            assert_eq!(Opcode::decode(row.set, row.byte), Some(row.opcode), "{}", row.mnemonic);
        }
        // isa.json of early 3.13 has 265 rows, two of which are the prefixes; the release adds the two of `fpowi`.
        assert_eq!(INSTRUCTIONS.len(), 265);
    }
}
