//! Modules of the first generation as text.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::instruction::{Instruction, Value};
use super::isa::{Kind, REF_MASK, REF_MOVE_BIT, REF_TYPE_BIT};
use super::source::Source;
use super::text::{GENERATION, Piece, argument_registers, pieces, registers_of};
use crate::isa::FUNCTION_ORDINAL_IMPORT_BIT;
use crate::quoting::{quoted, symbol};

/// The text of a module. Cannot fail: functions that cannot be decoded end in a comment that says so.
pub(super) fn disassemble(source: &Source) -> String {
    let mut printer = Printer::new(source);
    printer.line(&format!("//! {GENERATION}"));
    printer.header();
    for ordinal in 0..source.functions.len() as u32 {
        printer.text.push('\n');
        printer.function(ordinal);
    }
    printer.text
}

/// Prints a module or its functions.
pub(crate) struct Printer<'a> {
    source: &'a Source,
    text: String,
    /// The ordinal of the first type of each text.
    types: BTreeMap<&'a str, u32>,
    /// For each name, the number of functions and imports that have it.
    names: BTreeMap<&'a str, u32>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(source: &'a Source) -> Printer<'a> {
        let (mut types, mut names) = (BTreeMap::new(), BTreeMap::new());
        for (text, ordinal) in source.types.iter().zip(0..) {
            types.entry(&**text).or_insert(ordinal);
        }
        let functions = source.functions.iter().map(|function| &*function.local_name);
        for name in functions.chain(source.imports.iter().map(|import| &*import.full_name)) {
            *names.entry(name).or_insert(0) += 1;
        }
        Printer { source, text: String::new(), types, names }
    }

    /// The text of one function; `None` if the module has no function of that ordinal.
    pub(crate) fn function_text(&mut self, ordinal: u32) -> Option<String> {
        self.source.functions.get(ordinal as usize)?;
        self.function(ordinal);
        Some(core::mem::take(&mut self.text))
    }
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn header(&mut self) {
        let source = self.source;
        self.line(&format!("vm.module {}", symbol(&source.name)));
        if (source.global_bytes, source.global_refs) != (0, 0) {
            self.line(&format!("//! globals {} {}", source.global_bytes, source.global_refs));
        }
        for text in &source.types {
            self.line(&format!("vm.type {text}"));
        }
        for import in &source.imports {
            let (name, signature) = (symbol(&import.full_name), &import.signature);
            let (arguments, results) = (self.types(&signature.arguments), self.types(&signature.results));
            self.line(&format!("vm.import {name}({arguments}) -> ({results})"));
        }
        for (ordinal, bytes) in source.rodata.iter().enumerate() {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            self.line(&format!("vm.rodata[{ordinal}] = {digits}"));
        }
        for export in &source.exports {
            self.line(&format!("vm.export {} = {}", symbol(&export.local_name), self.function_name(export.function)));
        }
    }

    fn types(&self, ordinals: &[u32]) -> String {
        joined(ordinals.iter().map(|ordinal| self.type_text(*ordinal)))
    }

    /// A type; by its ordinal if the table does not have it, or an earlier one has the same text.
    fn type_text(&self, ordinal: u32) -> String {
        match self.source.types.get(ordinal as usize) {
            Some(text) if self.types.get(&**text) == Some(&ordinal) => text.clone(),
            _ => format!("type:{ordinal}"),
        }
    }

    /// The symbol of a function: its name if that is unique, or its ordinal.
    fn function_name(&self, ordinal: u32) -> String {
        let functions = &self.source.functions;
        let Some(function) = functions.get(ordinal as usize) else { return format!("@function:{ordinal}") };
        let name = &function.local_name;
        let is_unique = self.names.get(&**name) == Some(&1);
        let is_reserved = ["import", "function"].contains(&&**name);
        match is_unique && !name.is_empty() && !is_reserved {
            true => symbol(name),
            false => format!("@function:{ordinal}"),
        }
    }

    fn callee(&self, ordinal: u32) -> String {
        if ordinal & FUNCTION_ORDINAL_IMPORT_BIT == 0 {
            return self.function_name(ordinal);
        }
        let imports = &self.source.imports;
        let ordinal = ordinal & !FUNCTION_ORDINAL_IMPORT_BIT;
        match imports.get(ordinal as usize) {
            Some(import) if imports.iter().filter(|other| other.full_name == import.full_name).count() == 1 => {
                symbol(&import.full_name)
            }
            _ => format!("@import:{ordinal}"),
        }
    }

    fn function(&mut self, ordinal: u32) {
        let Some(function) = self.source.functions.get(ordinal as usize) else { return };
        let (mut values, mut references) = (0, 0);
        let arguments = function.signature.arguments.iter().map(|ordinal| {
            let text = self.type_text(*ordinal);
            let is_value = self.source.types.get(*ordinal as usize).is_some_and(|text| text == "i32");
            let (file, count) = if is_value { ('i', &mut values) } else { ('r', &mut references) };
            *count += 1;
            format!("%{file}{}: {text}", *count - 1)
        });
        let arguments = joined(arguments);
        let (results, name) = (self.types(&function.signature.results), symbol(&function.local_name));
        self.line(&format!("vm.func {name}({arguments}) -> ({results}) {{"));
        let (values, references) = registers_of(&function.bytecode);
        let (value_arguments, ref_arguments) = argument_registers(&self.source.types, &function.signature);
        let derived = (values.max(value_arguments), references.max(ref_arguments));
        if derived != (function.i32_registers, function.ref_registers) {
            self.line(&format!("  //! registers {} {}", function.i32_registers, function.ref_registers));
        }
        for (key, value) in &function.attributes {
            self.line(&format!("  //! attribute {} = {}", quoted(key.as_bytes()), quoted(value.as_bytes())));
        }
        self.body(&function.bytecode);
        self.line("}");
    }

    fn body(&mut self, bytecode: &[u8]) {
        let (mut instructions, mut offset) = (Vec::new(), 0);
        let error = loop {
            if offset as usize >= bytecode.len() {
                break None;
            }
            match Instruction::decode(bytecode, offset) {
                Ok(instruction) => {
                    offset = instruction.end;
                    instructions.push(instruction);
                }
                Err(error) => break Some(error),
            }
        };
        let mut labels = BTreeMap::new();
        for target in instructions.iter().flat_map(Instruction::targets) {
            labels.insert(target, 0);
        }
        labels.values_mut().enumerate().for_each(|(index, label)| *label = index);
        for instruction in &instructions {
            if let Some(label) = labels.get(&instruction.offset) {
                self.line(&format!("^bb{label}:"));
            }
            let line = self.instruction(instruction, &labels);
            self.line(&line);
        }
        if let Some(error) = error {
            self.line(&format!("  // {error}"));
        }
    }

    fn instruction(&self, instruction: &Instruction<'_>, labels: &BTreeMap<u32, usize>) -> String {
        let results = instruction.fields().filter(|field| field.1.is_result());
        let results = joined(results.map(|(_, kind, value)| self.field(kind, value, labels)));
        let mut line = match results.is_empty() {
            true => String::from("  "),
            false => format!("  {results} = "),
        };
        line.push_str("vm.");
        line.push_str(instruction.row.mnemonic);
        let mut operands = String::new();
        for piece in pieces(instruction.row.format) {
            match piece {
                Piece::Literal(text) => operands.push_str(text),
                Piece::Field(name) => {
                    let field = instruction.fields().find(|field| field.0 == name);
                    operands.push_str(&field.map_or(String::new(), |(_, kind, value)| self.field(kind, value, labels)));
                }
            }
        }
        if !operands.is_empty() {
            line.push(' ');
            line.push_str(&operands);
        }
        line
    }

    fn field(&self, kind: Kind, value: Value<'_>, labels: &BTreeMap<u32, usize>) -> String {
        let number = value.number();
        match kind {
            Kind::in_i32 | Kind::out_i32 | Kind::in_ref | Kind::out_ref => register(number as u8),
            Kind::imm_i32 => (number as i32).to_string(),
            Kind::imm_i8 | Kind::rodata => number.to_string(),
            Kind::global => format!(".rwdata[{number}]"),
            Kind::global_ref => format!(".refs[{number}]"),
            Kind::function => self.callee(number),
            Kind::type_id => self.type_text(number),
            Kind::string => quoted(value.list()),
            Kind::target => labels.get(&number).map_or(format!("^0x{number:X}"), |label| format!("^bb{label}")),
            Kind::remap => {
                let (pairs, _) = value.list().as_chunks::<2>();
                joined(pairs.iter().map(|&[from, to]| format!("{}->{}", register(from), register(to))))
            }
            Kind::list | Kind::results => joined(value.list().iter().map(|byte| register(*byte))),
            Kind::segments => joined(value.list().iter().map(u8::to_string)),
        }
    }
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn register(register: u8) -> String {
    match register & (REF_TYPE_BIT | REF_MOVE_BIT) {
        REF_TYPE_BIT => format!("%r{}", register & REF_MASK),
        bits if bits & REF_TYPE_BIT != 0 => format!("%R{}", register & REF_MASK),
        _ => format!("%i{register}"),
    }
}
