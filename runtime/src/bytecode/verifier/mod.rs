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
use calls::RegisterClass;

use super::instruction::{Body, Instruction};
use super::isa::{Effects, Opcode, OpcodeSet};
use super::module::{FunctionView, Module, Requirements};
use crate::{Error, Result};

/// Verifies every function of a module. Fails with the first error found, which names module, function, offset, mnemonic
/// and field.
pub(super) fn verify(module: &Module) -> Result<()> {
    let mut blocks = Blocks::default();
    let limits = Limits::of(module);
    for ordinal in 0..module.function_count() {
        let Some(function) = module.function(ordinal) else { continue };
        let classes = RegisterClass::of(function.i32_register_count, function.ref_register_count);
        let mut verifier = FunctionVerifier { module, limits, function, classes, blocks: &mut blocks };
        let mut offset = 0;
        if let Err(error) = verifier.verify(&mut offset) {
            return Err(error.at(module.place(ordinal, offset)));
        }
    }
    Ok(())
}

/// Sizes of the module's tables, which ordinals are checked against.
#[derive(Clone, Copy)]
struct Limits {
    functions: u32,
    imports: u32,
    types: u32,
    rodata: u32,
    global_bytes: u32,
    global_refs: u32,
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
        }
    }
}

/// Verifies one function.
struct FunctionVerifier<'m, 'b> {
    module: &'m Module,
    limits: Limits,
    function: FunctionView<'m>,
    classes: [RegisterClass; 4],
    blocks: &'b mut Blocks,
}

impl FunctionVerifier<'_, '_> {
    /// Verifies the function; on an error `offset` is where.
    fn verify(&mut self, offset: &mut u32) -> Result<()> {
        self.blocks.clear();
        let bytecode = self.function.bytecode;
        while (*offset as usize) < bytecode.len() {
            let instruction = Instruction::decode(bytecode, *offset)?;
            if let Err(error) = self.instruction(&instruction) {
                return Err(in_instruction(error, instruction.opcode));
            }
            *offset = instruction.end();
        }
        self.blocks.finish(self.function.block_count, offset)
    }

    #[inline(always)]
    fn instruction(&mut self, instruction: &Instruction<'_>) -> Result<()> {
        let info = instruction.opcode.info();
        self.structure(instruction, info.effects)?;
        if info.set != OpcodeSet::Core {
            self.requirement(info.set)?;
        }
        self.operands(instruction, info.banks)?;
        match instruction.body {
            Body::Call { callee, operands, results } | Body::CallYieldable { callee, operands, results, .. } => {
                self.call(callee, None, operands, results)
            }
            Body::CallVariadic { callee, segment_sizes, operands, results }
            | Body::CallVariadicYieldable { callee, segment_sizes, operands, results, .. } => {
                self.call(callee, Some(segment_sizes), operands, results)
            }
            Body::Return { operands } => {
                let results = self.function.convention.result_letters();
                self.values("operands", "the function's own results", results, operands)
            }
            Body::Trace { operands, .. } => self.any_list("operands", operands),
            _ => Ok(()),
        }
    }

    /// Checks where the instruction stands: blocks begin with a marker and end with a terminator.
    #[inline(always)]
    fn structure(&mut self, instruction: &Instruction<'_>, effects: Effects) -> Result<()> {
        let is_marker = instruction.opcode == Opcode::Block;
        if is_marker == self.blocks.is_open() {
            return Err(misplaced(is_marker));
        }
        if is_marker {
            self.blocks.open(instruction.offset);
        } else if effects.terminates {
            self.blocks.close();
        }
        Ok(())
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

#[cold]
fn in_instruction(error: Error, opcode: Opcode) -> Error {
    let mut context = String::from("vm.");
    context.push_str(opcode.info().mnemonic);
    error.context(context)
}

#[cold]
fn misplaced(is_marker: bool) -> Error {
    Error::invalid_argument(match is_marker {
        true => "block marker within a block, which no terminator has ended",
        false => "instruction outside of a block",
    })
}
