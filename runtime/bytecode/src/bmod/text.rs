//! What both directions of the text form share. The form is that of today's modules where the two have the same things; the
//! annotation `//! generation BMOD` in front says which of the two it is. Signatures name types, as these files do.

use alloc::string::String;
use alloc::vec::Vec;

use super::instruction::{Instruction, Value};
use super::isa::{Format, I32_REGISTERS, Kind, REF_MASK, REF_REGISTERS, REF_TYPE_BIT};
use super::source::Signature;

/// The annotation that says of a text that it is one of this generation.
pub(super) const GENERATION: &str = "generation BMOD";

/// Whether a text is one of this generation: the first line that is not empty says so.
pub(crate) fn is_bmod_text(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.and_then(|line| line.strip_prefix("//!")).is_some_and(|annotation| annotation.trim() == GENERATION)
}

/// A piece of a format's text.
#[derive(Clone, Copy)]
pub(super) enum Piece {
    Literal(&'static str),
    /// A field by its name.
    Field(&'static str),
}

/// The pieces of a format's text, in order.
pub(super) fn pieces(format: Format) -> Vec<Piece> {
    let (mut pieces, mut rest) = (Vec::new(), format.text());
    while let Some((literal, behind)) = rest.split_once('{') {
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        let (field, behind) = behind.split_once('}').unwrap_or((behind, ""));
        pieces.push(Piece::Field(field));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    pieces
}

/// Registers that a function's instructions name at least, of both files.
pub(super) fn registers_of(bytecode: &[u8]) -> (u8, u8) {
    let (mut values, mut references, mut offset) = (0u8, 0u8, 0);
    let mut any = |register: u8| match register & REF_TYPE_BIT {
        0 => values = values.max(register + 1),
        _ => references = references.max((register & REF_MASK) + 1),
    };
    while let Ok(instruction) = Instruction::decode(bytecode, offset) {
        for (_, kind, value) in instruction.fields() {
            match (kind, value) {
                (_, Value::Register(register)) => any(register),
                (Kind::remap | Kind::list | Kind::results, Value::List(bytes)) => bytes.iter().for_each(|r| any(*r)),
                _ => {}
            }
        }
        offset = instruction.end;
    }
    (values, references)
}

/// The registers that hold a signature's arguments, of both files.
pub(super) fn argument_registers(types: &[String], signature: &Signature) -> (u8, u8) {
    let is_i32 = |ordinal: &&u32| types.get(**ordinal as usize).is_some_and(|text| text == "i32");
    let values = signature.arguments.iter().filter(is_i32).count();
    let limited = |count: usize, limit: u8| u8::try_from(count).unwrap_or(limit).min(limit);
    (limited(values, I32_REGISTERS), limited(signature.arguments.len() - values, REF_REGISTERS))
}
