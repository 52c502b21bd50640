//! The verifier: proves of every function what [`VerifiedModule`](super::VerifiedModule) promises.
//!
//! One pass over the bytecode, without allocation per instruction; operands are checked by code derived from the format
//! table, what remains (control flow, calls) by the formats' meaning.

mod blocks;
mod calls;
mod operands;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;

use blocks::Blocks;
use calls::Classes;

use super::instruction::{Instruction, ends_within};
use super::isa::{Bank, Format, INSTRUCTIONS, InstructionInfo, Opcode, OpcodeSet, PREFIX_EXT_F32, PREFIX_EXT_F64};
use super::module::{FunctionCode, Module, Requirements};
use super::operand::{Reader, Truncated};
use crate::{Error, Result};

/// Verifies every function of a module. Fails with the first error found, which names module, function, offset, mnemonic
/// and field.
pub(super) fn verify(module: &Module) -> Result<()> {
    let mut blocks = Blocks::default();
    let limits = Limits::of(module);
    for ordinal in 0..module.function_count() {
        let Some(function) = module.function_code(ordinal) else { continue };
        let classes = Classes::of(function.i32_register_count, function.ref_register_count);
        let mut verifier = FunctionVerifier { module, limits, function, classes, blocks: &mut blocks };
        let mut offset = 0;
        if let Err(error) = verifier.verify(&mut offset) {
            return Err(error.at(module.location(ordinal, offset)));
        }
    }
    Ok(())
}

/// What the verifier needs of an instruction's row of the table.
#[derive(Clone, Copy)]
struct Row {
    banks: &'static [Bank],
    opcode: Opcode,
    format: Format,
    /// Sizes in bytes of the banks.
    v: u32,
    w: u32,
    set: OpcodeSet,
    terminates: bool,
    /// The version of the bytecode that the instruction came with.
    since: u16,
}

impl Row {
    const fn of(info: &InstructionInfo) -> Row {
        let (v, w) = match info.banks {
            [] => (4, 4),
            [v] => (v.size(), 4),
            [v, w, ..] => (v.size(), w.size()),
        };
        let (opcode, format, set) = (info.opcode, info.format, info.set);
        Row { banks: info.banks, opcode, format, v, w, set, terminates: info.effects.terminates, since: opcode.since() }
    }
}

/// The rows, by set and byte.
static ROWS: [[Option<Row>; 256]; 3] = {
    let mut table = [[None; 256]; 3];
    let mut index = 0;
    while index < INSTRUCTIONS.len() {
        let info = &INSTRUCTIONS[index];
        table[info.set as usize][info.byte as usize] = Some(Row::of(info));
        index += 1;
    }
    table
};

/// What keeps an instruction from being valid.
enum Fault {
    /// The function ends within it.
    Truncated,
    Invalid(Error),
}

impl From<Truncated> for Fault {
    #[inline(always)]
    fn from(_: Truncated) -> Fault {
        Fault::Truncated
    }
}

impl From<Error> for Fault {
    #[inline(always)]
    fn from(error: Error) -> Fault {
        Fault::Invalid(error)
    }
}

/// Sizes of the module's tables, which ordinals are checked against, and what depends on the bytecode's version.
#[derive(Clone, Copy)]
struct Limits {
    functions: u32,
    imports: u32,
    types: u32,
    rodata: u32,
    global_bytes: u32,
    global_refs: u32,
    /// [`Generation::moves_anywhere`](super::isa::Generation::moves_anywhere)
    moves_anywhere: bool,
    /// [`Generation::major`](super::isa::Generation::major)
    major: u16,
}

impl Limits {
    fn of(module: &Module) -> Limits {
        Limits {
            functions: module.function_count(),
            imports: module.import_count(),
            types: module.types().len() as u32,
            rodata: module.rodata_count(),
            global_bytes: module.global_bytes(),
            global_refs: module.global_ref_count(),
            moves_anywhere: module.generation().moves_anywhere,
            major: module.generation().major,
        }
    }
}

/// Verifies one function.
struct FunctionVerifier<'m, 'b> {
    module: &'m Module,
    limits: Limits,
    function: FunctionCode<'m>,
    classes: Classes,
    blocks: &'b mut Blocks,
}

impl<'m> FunctionVerifier<'m, '_> {
    /// Verifies the function; on an error `offset` is where.
    fn verify(&mut self, offset: &mut u32) -> Result<()> {
        self.blocks.clear();
        let bytecode = self.function.bytecode;
        let mut reader = Reader::new(bytecode, 0);
        while !reader.is_at_end() {
            // The length of the bytecode is a 32-bit number.
            let at = reader.position() as u32;
            let Some(row) = row(&mut reader) else {
                *offset = at;
                return Err(unknown(bytecode, at));
            };
            if let Err(fault) = self.instruction(row, &mut reader, at) {
                *offset = at;
                return Err(match fault {
                    Fault::Truncated => ends_within(bytecode, at, Some(row.opcode)),
                    Fault::Invalid(error) => in_instruction(error, row.opcode),
                });
            }
        }
        *offset = bytecode.len() as u32;
        self.blocks.finish(self.function.block_count, offset)
    }

    #[inline(always)]
    fn instruction(&mut self, row: &Row, reader: &mut Reader<'m>, at: u32) -> Result<(), Fault> {
        // Blocks begin with a marker and end with a terminator.
        let is_marker = row.format == Format::Block;
        if is_marker == self.blocks.is_open() {
            return Err(misplaced(is_marker).into());
        }
        if is_marker {
            self.blocks.open(at);
        } else if row.terminates {
            self.blocks.close();
        }
        if row.set != OpcodeSet::Core {
            self.requirement(row.set)?;
        }
        if row.since > self.limits.major {
            return Err(too_new(row.opcode, self.limits.major).into());
        }
        self.operands(row, reader, at)
    }

    fn requirement(&self, set: OpcodeSet) -> Result<()> {
        let needed = match set {
            OpcodeSet::Core => Requirements::empty(),
            OpcodeSet::ExtF32 => Requirements::EXT_F32,
            OpcodeSet::ExtF64 => Requirements::EXT_F64,
        };
        if self.function.requirements.contains(needed) {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "instruction of set {set:?} in a function that does not require {needed:?}"
        )))
    }
}

/// Reads an opcode, with its prefix; `None` if there is none.
#[inline(always)]
fn row(reader: &mut Reader<'_>) -> Option<&'static Row> {
    let byte = reader.u8().ok()?;
    let (set, byte) = match byte {
        PREFIX_EXT_F32 => (OpcodeSet::ExtF32, reader.u8().ok()?),
        PREFIX_EXT_F64 => (OpcodeSet::ExtF64, reader.u8().ok()?),
        _ => (OpcodeSet::Core, byte),
    };
    ROWS[set as usize][usize::from(byte)].as_ref()
}

/// Says what is wrong where there is no opcode.
#[cold]
fn unknown(bytecode: &[u8], at: u32) -> Error {
    match Instruction::decode(bytecode, at) {
        Err(error) => error,
        Ok(_) => Error::internal("an opcode is in one table and not in the other"),
    }
}

#[cold]
fn in_instruction(error: Error, opcode: Opcode) -> Error {
    let mut context = String::from("vm.");
    context.push_str(opcode.info().mnemonic);
    error.context(context)
}

#[cold]
fn too_new(opcode: Opcode, major: u16) -> Error {
    let since = opcode.since();
    Error::invalid_argument(format!("the instruction came with bytecode version {since}; the module has {major}"))
}

#[cold]
fn misplaced(is_marker: bool) -> Error {
    Error::invalid_argument(match is_marker {
        true => "block marker within a block, which no terminator has ended",
        false => "instruction outside of a block",
    })
}
