//! The first generation of the format: files with the identifier `BMOD` and the extension `.module`, as compilers of March
//! 2020 wrote them (IREE commit 2bbabc307d).
//!
//! A second front end: it reads the file's own schema ([`source`]) and instruction set ([`isa`], [`instruction`]) and converts
//! them to today's module ([`lower`]), so that no other module handles the difference. The text form
//! ([`disassembler`], [`assembler`]) is the file's own.

mod assembler;
mod disassembler;
mod instruction;
mod isa;
mod lower;
mod source;
#[cfg(test)]
mod tests;
mod text;

use alloc::string::String;

use super::contents::Contents;
use crate::Result;
pub(super) use assembler::assemble;
pub(super) use disassembler::Printer;
use source::Source;
pub(super) use text::is_bmod_text;

/// A module of the first generation, with the offsets of its conversion.
#[derive(Debug)]
pub(super) struct Origin {
    source: Source,
    offsets: lower::Offsets,
}

/// Reads a file, and converts it to today's format.
pub(super) fn open(file: &[u8]) -> Result<(Contents, Origin)> {
    let source = Source::read(file)?;
    let (module, offsets) = lower::lower(&source)?;
    Ok((Contents::from_vec(module.write()?), Origin { source, offsets }))
}

impl Origin {
    /// Returns the offset within the file's bytecode of the instruction that a converted instruction, by its offset, comes from.
    pub(super) fn offset(&self, function: u32, offset: u32) -> Option<u32> {
        let rows = self.offsets.get(function as usize)?;
        let behind = rows.partition_point(|row| row.0 <= offset);
        rows.get(behind.checked_sub(1)?).map(|row| row.1)
    }

    /// The name of a function, if the file has one.
    pub(super) fn function_name(&self, function: u32) -> Option<&str> {
        let name = &self.source.functions.get(function as usize)?.local_name;
        (!name.is_empty()).then_some(name)
    }

    /// The module as text.
    pub(super) fn text(&self) -> String {
        disassembler::disassemble(&self.source)
    }

    /// Prints single functions.
    pub(super) fn printer(&self) -> Printer<'_> {
        Printer::new(&self.source)
    }
}
