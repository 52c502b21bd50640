//! Replaces the instructions of each function by those of today.
//!
//! Blocks get their markers; what has no counterpart becomes two or three instructions with one more register: comparisons
//! that are the negation of another one, shifts by an immediate, moves out of compared references, globals at offsets that
//! only fail when they are reached. A yield goes on with the next instruction.

use std::collections::BTreeMap;

use incarnate_bytecode::isa::{
    FUNCTION_ORDINAL_IMPORT_BIT, Opcode, REF_REGISTER_MOVE_BIT, REF_REGISTER_TYPE_BIT, SEGMENT_NOT_VARIADIC,
};
use incarnate_bytecode::writer::{FunctionSource, ImportSource, ModuleSource};
use incarnate_bytecode::{Error, Location, Result, StatusCode};

use super::instruction::{Instruction, Value};
use super::isa::{Format, Kind, Lowering, REF_MASK, REF_MOVE_BIT, REF_TYPE_BIT, SEGMENT_SINGLE};
use super::source::{Function, Signature, Source};

/// The types of bytes that a module has as constants, which are buffers today.
const BYTE_BUFFERS: [&str; 2] = ["!iree.byte_buffer", "!iree.mutable_byte_buffer"];

/// A converted module.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) module: ModuleSource,
    /// For each function, the offsets of converted instructions with those of the original ones, ascending.
    offsets: Vec<Vec<(u32, u32)>>,
}

impl Lowered {
    /// Returns the offset, in its original function, of the instruction that a converted instruction comes from.
    pub(super) fn original_offset(&self, function: usize, offset: u32) -> Option<u32> {
        let rows = self.offsets.get(function)?;
        let behind = rows.partition_point(|row| row.0 <= offset);
        rows.get(behind.checked_sub(1)?).map(|row| row.1)
    }
}

/// Converts a module.
///
/// Fails with `INVALID_ARGUMENT` or `OUT_OF_RANGE` on bytecode that does not decode, registers and types that are not there,
/// branches to where no instruction begins, and functions that do not end.
pub(super) fn lower(source: &Source) -> Result<Lowered> {
    let types = source.types.iter().map(|text| if BYTE_BUFFERS.contains(&&**text) { "!vm.buffer" } else { text });
    let (mut functions, mut offsets) = (Vec::new(), Vec::new());
    let spans = spans(source)?;
    for (ordinal, function) in source.functions.iter().enumerate() {
        let mut at = 0;
        let mut emitter = Emitter::new(source, function, &spans);
        if let Err(error) = emitter.function(&mut at) {
            return Err(error.at(location(source, ordinal, at)));
        }
        let convention = convention(source, &function.signature, &[]);
        offsets.push(std::mem::take(&mut emitter.offsets));
        functions.push(emitter.finish(convention, function));
    }
    let imports = source.imports.iter().zip(&spans).map(|(import, spans)| ImportSource {
        full_name: import.full_name.clone(),
        calling_convention: convention(source, &import.signature, spans),
        optional: false,
    });
    let module = ModuleSource {
        name: source.name.clone(),
        types: types.map(String::from).collect(),
        imports: imports.collect(),
        exports: source.exports.iter().map(|export| (export.local_name.clone(), export.function)).collect(),
        functions,
        rodata: source.rodata.clone(),
        global_bytes: source.global_bytes.checked_next_multiple_of(4).unwrap_or(u32::MAX),
        global_ref_count: source.global_refs,
        ..ModuleSource::default()
    };
    Ok(Lowered { module, offsets })
}

/// Returns the location of an instruction, for errors; `offset` is that of the file's bytecode.
fn location(source: &Source, ordinal: usize, offset: u32) -> Location {
    let name = source.functions.get(ordinal).map(|function| function.local_name.clone());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("fn{ordinal}"));
    Location { module: Some(source.name.clone()), function: Some(name), offset: Some(offset.into()), source: None }
}

/// Returns the calling convention of a signature; `spans` says which arguments are spans.
fn convention(source: &Source, signature: &Signature, spans: &[bool]) -> String {
    let letter = |ordinal: &u32| match source.types.get(*ordinal as usize).map(String::as_str) {
        Some("i32") => 'i',
        _ => 'r',
    };
    let mut text = String::from("0");
    for (index, argument) in signature.arguments.iter().enumerate() {
        match spans.get(index) {
            Some(true) => text.extend(['C', letter(argument), 'D']),
            _ => text.push(letter(argument)),
        }
    }
    if signature.arguments.is_empty() {
        text.push('v');
    }
    text.push('_');
    text.extend(signature.results.iter().map(letter));
    if signature.results.is_empty() {
        text.push('v');
    }
    text
}

/// Returns which arguments of each import are spans. Signatures do not tell: an argument is one if some call passes another
/// number of values for it than a single one.
fn spans(source: &Source) -> Result<Vec<Vec<bool>>> {
    let mut spans: Vec<Vec<bool>> =
        source.imports.iter().map(|row| vec![false; row.signature.arguments.len()]).collect();
    for (ordinal, function) in source.functions.iter().enumerate() {
        let mut offset = 0;
        // What does not decode is an error of the function's own pass.
        while let Ok(instruction) = Instruction::decode(&function.bytecode, offset) {
            if let (Format::CallVariadic, [callee, segments, ..]) = (instruction.row.format, &*instruction.values)
                && callee.number() & FUNCTION_ORDINAL_IMPORT_BIT != 0
                && let Some(of) = spans.get_mut((callee.number() & !FUNCTION_ORDINAL_IMPORT_BIT) as usize)
            {
                if of.len() != segments.list().len() {
                    let error = Error::invalid_argument(format!(
                        "vm.call.variadic: {} segment sizes for {} arguments",
                        segments.list().len(),
                        of.len()
                    ));
                    return Err(error.at(location(source, ordinal, offset)));
                }
                for (is_span, size) in of.iter_mut().zip(segments.list()) {
                    *is_span |= *size != SEGMENT_SINGLE;
                }
            }
            offset = instruction.end;
        }
    }
    Ok(spans)
}

/// Converts one function.
struct Emitter<'a> {
    source: &'a Source,
    spans: &'a [Vec<bool>],
    code: &'a [u8],
    /// Registers that the function may name.
    i32_registers: u16,
    ref_registers: u16,
    /// Whether the register behind these is used.
    uses_scratch: bool,
    bytecode: Vec<u8>,
    offsets: Vec<(u32, u32)>,
    /// Offsets of block markers, by the offsets of the instructions that they stand before.
    blocks: BTreeMap<u32, u32>,
    /// Where offsets of blocks belong, and which.
    fixups: Vec<(usize, u32)>,
    block_count: usize,
    /// Whether no terminator has ended the block.
    is_open: bool,
}

impl<'a> Emitter<'a> {
    fn new(source: &'a Source, function: &'a Function, spans: &'a [Vec<bool>]) -> Emitter<'a> {
        // Frames hold the arguments, even if nothing names them.
        let is_i32 = |ordinal: &&u32| source.types.get(**ordinal as usize).is_some_and(|text| text == "i32");
        let arguments = &function.signature.arguments;
        let values = arguments.iter().filter(is_i32).count();
        let at_least = |count: u8, arguments: usize| u16::from(count).max(arguments.try_into().unwrap_or(u16::MAX));
        Emitter {
            source,
            spans,
            code: &function.bytecode,
            i32_registers: at_least(function.i32_registers, values),
            ref_registers: at_least(function.ref_registers, arguments.len() - values),
            uses_scratch: false,
            bytecode: Vec::new(),
            offsets: Vec::new(),
            blocks: BTreeMap::new(),
            fixups: Vec::new(),
            block_count: 0,
            is_open: false,
        }
    }

    fn finish(self, convention: String, function: &Function) -> FunctionSource {
        FunctionSource {
            calling_convention: Some(convention),
            attributes: function.attributes.clone(),
            bytecode: self.bytecode,
            requirements: 0,
            block_count: self.block_count as u16,
            i32_register_count: self.i32_registers.saturating_add(self.uses_scratch.into()),
            ref_register_count: self.ref_registers,
        }
    }

    /// Converts the function; on an error `at` is the offset in the file's bytecode.
    fn function(&mut self, at: &mut u32) -> Result<()> {
        let mut leaders = BTreeMap::new();
        let mut instructions = Vec::new();
        let end = self.code.len() as u32;
        while *at < end {
            let instruction = Instruction::decode(self.code, *at)?;
            leaders.extend(instruction.targets().map(|target| (target, instruction.offset)));
            *at = instruction.end;
            instructions.push(instruction);
        }
        let begins = |target: &u32| instructions.binary_search_by_key(target, |row| row.offset).is_ok();
        if let Some((target, branch)) = leaders.iter().find(|(target, _)| !begins(target)) {
            *at = *branch;
            return Err(Error::invalid_argument(format!("no instruction begins at the branch target 0x{target:X}")));
        }
        for instruction in &instructions {
            *at = instruction.offset;
            if !self.is_open || leaders.contains_key(&instruction.offset) {
                self.begin_block(instruction.offset);
            }
            self.offsets.push((self.bytecode.len() as u32, instruction.offset));
            let mnemonic = instruction.row.mnemonic;
            self.instruction(instruction).map_err(|error| error.context(format!("vm.{mnemonic}")))?;
        }
        *at = end;
        if !instructions.last().is_some_and(|last| last.row.terminates()) {
            return Err(Error::invalid_argument("no branch and no return ends the function"));
        }
        if self.block_count > usize::from(u16::MAX) {
            return Err(Error::resource_exhausted(format!("the function has {} blocks", self.block_count)));
        }
        for (position, target) in std::mem::take(&mut self.fixups) {
            let marker = self.blocks.get(&target).copied().unwrap_or_default();
            if let Some(bytes) = self.bytecode.get_mut(position..position + 4) {
                bytes.copy_from_slice(&marker.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Puts a block marker in front of an instruction; a block that is open goes on with it.
    fn begin_block(&mut self, offset: u32) {
        if self.is_open {
            self.opcode(Opcode::Branch);
            self.target(offset);
            self.list(0, []);
        }
        self.blocks.insert(offset, self.bytecode.len() as u32);
        self.opcode(Opcode::Block);
        self.block_count += 1;
        self.is_open = true;
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) -> Result<()> {
        let row = instruction.row;
        match (row.lowering, row.format) {
            (Lowering::Same(opcode), Format::Shift) => self.shift(opcode, instruction)?,
            (Lowering::Same(opcode), Format::RefUnary | Format::RefBinary) => self.compare_refs(opcode, instruction)?,
            (Lowering::Same(opcode), Format::Yield) => {
                self.opcode(opcode);
                self.target(instruction.end);
                self.list(0, []);
                self.is_open = false;
            }
            (Lowering::Same(_), Format::CallVariadic) if self.calls_itself(instruction) => self.variadic_call_within(),
            (Lowering::Same(opcode), _) => self.plain(opcode, instruction)?,
            (Lowering::Swapped(opcode), _) => self.compare(opcode, instruction, true, false)?,
            (Lowering::Negated(opcode), _) => self.compare(opcode, instruction, false, true)?,
            (Lowering::SwappedNegated(opcode), _) => self.compare(opcode, instruction, true, true)?,
            (Lowering::Global, _) => self.global(instruction)?,
        }
        if row.terminates() {
            self.is_open = false;
        }
        Ok(())
    }

    /// The instruction with the same fields in the same order.
    fn plain(&mut self, opcode: Opcode, instruction: &Instruction<'_>) -> Result<()> {
        self.opcode(opcode);
        for (name, kind, value) in instruction.fields() {
            self.field(instruction, kind, value).map_err(|error| error.context(format!("`{name}`")))?;
        }
        Ok(())
    }

    fn field(&mut self, instruction: &Instruction<'_>, kind: Kind, value: Value<'_>) -> Result<()> {
        let number = value.number();
        match kind {
            Kind::InI32 | Kind::OutI32 => {
                let register = self.value(number as u8)?;
                self.u16(register);
            }
            Kind::InRef => {
                let register = self.reference(number as u8)?;
                self.u16(register);
            }
            Kind::OutRef => {
                let register = self.reference(number as u8)?;
                // Only loads of globals move by it: out of the global.
                let moves = matches!(instruction.row.format, Format::GlobalLoadRef | Format::GlobalLoadIndirectRef);
                self.u16(if moves { register } else { register & !REF_REGISTER_MOVE_BIT });
            }
            Kind::ImmI32 | Kind::Global | Kind::GlobalRef | Kind::Rodata | Kind::Function | Kind::ImmI8 => {
                self.u32(number);
            }
            Kind::TypeId => {
                let ordinal = self.type_ordinal(number)?;
                self.u32(ordinal);
            }
            Kind::String => {
                let text = value.list();
                self.u16(text.len() as u16);
                self.bytecode.extend_from_slice(text);
            }
            Kind::Target => self.target(number),
            Kind::Remap => {
                let (pairs, _) = value.list().as_chunks::<2>();
                let mut copies = Vec::with_capacity(2 * pairs.len());
                for &[source, target] in pairs {
                    let target = self.any(target)?;
                    let is_ref = target & REF_REGISTER_TYPE_BIT != 0;
                    copies.extend([self.any(source)?, if is_ref { target & !REF_REGISTER_MOVE_BIT } else { target }]);
                }
                self.list(pairs.len(), copies);
            }
            Kind::List | Kind::Results => {
                let mut registers = Vec::with_capacity(value.list().len());
                for &register in value.list() {
                    let register = self.any(register)?;
                    let is_moved_result = kind == Kind::Results && register & REF_REGISTER_TYPE_BIT != 0;
                    registers.push(if is_moved_result { register & !REF_REGISTER_MOVE_BIT } else { register });
                }
                self.list(registers.len(), registers);
            }
            Kind::Segments => {
                let callee = instruction.values.first().map_or(0, |callee| callee.number());
                let spans = self.spans.get((callee & !FUNCTION_ORDINAL_IMPORT_BIT) as usize).map(Vec::as_slice);
                let spans = spans.unwrap_or_default();
                let size = |(index, size): (usize, &u8)| match *size {
                    SEGMENT_SINGLE if spans.get(index) == Some(&true) => 1,
                    SEGMENT_SINGLE => SEGMENT_NOT_VARIADIC,
                    size => size.into(),
                };
                self.list(value.list().len(), value.list().iter().enumerate().map(size).collect::<Vec<u16>>());
            }
        }
        Ok(())
    }

    /// A comparison of integers, perhaps of the operands the other way round, and perhaps its negation.
    fn compare(&mut self, opcode: Opcode, instruction: &Instruction<'_>, swap: bool, negate: bool) -> Result<()> {
        let [left, right, result] = self.three(instruction)?;
        let (left, right) = if swap { (right, left) } else { (left, right) };
        self.registers(opcode, [left, right, result]);
        if negate {
            let one = self.scratch(1);
            self.registers(Opcode::XorI32, [result, one, result]);
        }
        Ok(())
    }

    /// A shift by an immediate.
    fn shift(&mut self, opcode: Opcode, instruction: &Instruction<'_>) -> Result<()> {
        let [operand, amount, result] = *instruction.values.as_slice() else { return Err(malformed()) };
        let (operand, result) = (self.value(operand.number() as u8)?, self.value(result.number() as u8)?);
        let amount = self.scratch(amount.number());
        self.registers(opcode, [operand, amount, result]);
        Ok(())
    }

    /// A comparison of references, which drops those that are moved.
    fn compare_refs(&mut self, opcode: Opcode, instruction: &Instruction<'_>) -> Result<()> {
        self.opcode(opcode);
        let mut moved = Vec::new();
        for (name, kind, value) in instruction.fields() {
            if kind != Kind::InRef {
                self.field(instruction, kind, value)?;
                continue;
            }
            let register = self.reference(value.number() as u8).map_err(|error| error.context(format!("`{name}`")))?;
            self.u16(register & !REF_REGISTER_MOVE_BIT);
            if register & REF_REGISTER_MOVE_BIT != 0 {
                moved.push(register);
            }
        }
        if !moved.is_empty() {
            self.opcode(Opcode::DiscardRefs);
            self.list(moved.len(), moved);
        }
        Ok(())
    }

    /// A load or a store of a primitive global. One that is not there fails when it is reached.
    fn global(&mut self, instruction: &Instruction<'_>) -> Result<()> {
        let [offset, register] = *instruction.values.as_slice() else { return Err(malformed()) };
        let (offset, register) = (offset.number(), self.value(register.number() as u8)?);
        let is_load = instruction.row.format == Format::GlobalLoad;
        if offset.is_multiple_of(4) && offset < self.source.global_bytes {
            self.opcode(if is_load { Opcode::GlobalLoadI32 } else { Opcode::GlobalStoreI32 });
            self.u32(offset);
            self.u16(register);
        } else {
            let offset = self.scratch(offset);
            let opcode = if is_load { Opcode::GlobalLoadIndirectI32 } else { Opcode::GlobalStoreIndirectI32 };
            self.registers(opcode, [offset, register]);
        }
        Ok(())
    }

    /// Whether a call is one of this module's functions.
    fn calls_itself(&self, instruction: &Instruction<'_>) -> bool {
        instruction.values.first().is_some_and(|callee| callee.number() & FUNCTION_ORDINAL_IMPORT_BIT == 0)
    }

    /// Only imports take variadic calls, which is found out when the call is reached.
    fn variadic_call_within(&mut self) {
        let status = self.scratch(StatusCode::FailedPrecondition as u32);
        self.opcode(Opcode::Fail);
        self.u16(status);
        let message = b"variadic call of a function that is no import";
        self.u16(message.len() as u16);
        self.bytecode.extend_from_slice(message);
        self.is_open = false;
    }

    fn three(&self, instruction: &Instruction<'_>) -> Result<[u16; 3]> {
        let [a, b, c] = *instruction.values.as_slice() else { return Err(malformed()) };
        Ok([self.value(a.number() as u8)?, self.value(b.number() as u8)?, self.value(c.number() as u8)?])
    }

    /// The register behind the function's own, loaded with a number.
    fn scratch(&mut self, value: u32) -> u16 {
        self.uses_scratch = true;
        let register = self.i32_registers;
        self.opcode(Opcode::ConstI32);
        self.u32(value);
        self.u16(register);
        register
    }

    /// A register of 32 bits.
    fn value(&self, register: u8) -> Result<u16> {
        if register & REF_TYPE_BIT != 0 {
            let index = register & REF_MASK;
            return Err(Error::invalid_argument(format!(
                "reference register r{index}, where a value register belongs"
            )));
        }
        match u16::from(register) {
            index if index < self.i32_registers => Ok(index),
            index => Err(Error::out_of_range(format!(
                "register i{index}; the function has {} 32-bit registers",
                self.i32_registers
            ))),
        }
    }

    /// A reference register, with its move bit.
    fn reference(&self, register: u8) -> Result<u16> {
        if register & REF_TYPE_BIT == 0 {
            return Err(Error::invalid_argument(format!("value register i{register}, where a reference belongs")));
        }
        let index = u16::from(register & REF_MASK);
        if index >= self.ref_registers {
            return Err(Error::out_of_range(format!(
                "register r{index}; the function has {} reference registers",
                self.ref_registers
            )));
        }
        let moves = if register & REF_MOVE_BIT != 0 { REF_REGISTER_MOVE_BIT } else { 0 };
        Ok(REF_REGISTER_TYPE_BIT | moves | index)
    }

    /// A register of either file.
    fn any(&self, register: u8) -> Result<u16> {
        if register & REF_TYPE_BIT != 0 { self.reference(register) } else { self.value(register) }
    }

    /// The type that an ordinal stands for: of those beyond the table, the first one.
    fn type_ordinal(&self, ordinal: u32) -> Result<u32> {
        match (ordinal as usize) < self.source.types.len() {
            true => Ok(ordinal),
            false if ordinal as i32 >= 0 && !self.source.types.is_empty() => Ok(0),
            false => {
                Err(Error::out_of_range(format!("type {}; the module has {}", ordinal as i32, self.source.types.len())))
            }
        }
    }

    fn opcode(&mut self, opcode: Opcode) {
        self.bytecode.push(opcode.info().byte);
    }

    fn registers<const N: usize>(&mut self, opcode: Opcode, registers: [u16; N]) {
        self.opcode(opcode);
        registers.into_iter().for_each(|register| self.u16(register));
    }

    fn u16(&mut self, value: u16) {
        self.bytecode.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytecode.extend(value.to_le_bytes());
    }

    fn target(&mut self, offset: u32) {
        self.fixups.push((self.bytecode.len(), offset));
        self.u32(0);
    }

    fn list(&mut self, count: usize, items: impl IntoIterator<Item = u16>) {
        if !self.bytecode.len().is_multiple_of(2) {
            self.bytecode.push(0);
        }
        // Counts of the original are bytes.
        self.u16(count as u16);
        items.into_iter().for_each(|item| self.u16(item));
    }
}

#[cold]
fn malformed() -> Error {
    Error::internal("an instruction does not have the fields of its format")
}
