//! The text form of the first generation, both ways. It is that of today's modules where the two have the same things; the
//! annotation `//! generation BMOD` in front says which of the two it is. Signatures name types, as these files do.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::instruction::{Instruction, Value};
use super::isa::{Format, I32_REGISTERS, INSTRUCTIONS, Kind, REF_MASK, REF_MOVE_BIT, REF_REGISTERS, REF_TYPE_BIT, Row};
use super::source::{Export, Function, Import, Signature, Source};
use crate::Result;
use crate::assembler::span::{Span, without_comment};
use crate::isa::FUNCTION_ORDINAL_IMPORT_BIT;
use crate::text::{quoted, symbol};

/// The annotation that says of a text that it is one of this generation.
const GENERATION: &str = "generation BMOD";

/// Whether a text is one of this generation: the first line that is not empty says so.
pub(crate) fn is_bmod_text(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.and_then(|line| line.strip_prefix("//!")).is_some_and(|annotation| annotation.trim() == GENERATION)
}

/// The text of a module. Cannot fail: functions that cannot be decoded end in a comment that says so.
pub(super) fn disassemble(source: &Source) -> String {
    let mut printer = Printer { source, text: format!("//! {GENERATION}\n") };
    printer.header();
    for ordinal in 0..source.functions.len() as u32 {
        printer.text.push('\n');
        printer.function(ordinal);
    }
    printer.text
}

/// The text of one function; `None` if the module has no function of that ordinal.
pub(super) fn disassemble_function(source: &Source, ordinal: u32) -> Option<String> {
    source.functions.get(ordinal as usize)?;
    let mut printer = Printer { source, text: String::new() };
    printer.function(ordinal);
    Some(printer.text)
}

/// A piece of a format's text.
#[derive(Clone, Copy)]
enum Piece {
    Literal(&'static str),
    /// A field by its name.
    Field(&'static str),
}

/// The pieces of a format's text, in order.
fn pieces(format: Format) -> Vec<Piece> {
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
fn registers_of(bytecode: &[u8]) -> (u8, u8) {
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
fn argument_registers(types: &[String], signature: &Signature) -> (u8, u8) {
    let is_i32 = |ordinal: &&u32| types.get(**ordinal as usize).is_some_and(|text| text == "i32");
    let values = signature.arguments.iter().filter(is_i32).count();
    let limited = |count: usize, limit: u8| u8::try_from(count).unwrap_or(limit).min(limit);
    (limited(values, I32_REGISTERS), limited(signature.arguments.len() - values, REF_REGISTERS))
}

struct Printer<'a> {
    source: &'a Source,
    text: String,
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
            let arguments: Vec<String> =
                import.signature.arguments.iter().map(|ordinal| self.type_text(*ordinal)).collect();
            let name = symbol(&import.full_name);
            self.line(&format!("vm.import {name}({}) -> {}", arguments.join(", "), self.results(&import.signature)));
        }
        for (ordinal, bytes) in source.rodata.iter().enumerate() {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            self.line(&format!("vm.rodata[{ordinal}] = {digits}"));
        }
        for export in &source.exports {
            self.line(&format!("vm.export {} = {}", symbol(&export.local_name), self.function_name(export.function)));
        }
    }

    fn results(&self, signature: &Signature) -> String {
        let results: Vec<String> = signature.results.iter().map(|ordinal| self.type_text(*ordinal)).collect();
        format!("({})", results.join(", "))
    }

    /// A type; by its ordinal if the table does not have it, or an earlier one has the same text.
    fn type_text(&self, ordinal: u32) -> String {
        let types = &self.source.types;
        match types.get(ordinal as usize) {
            Some(text) if types.iter().position(|other| other == text) == Some(ordinal as usize) => text.clone(),
            _ => format!("type:{ordinal}"),
        }
    }

    /// The symbol of a function: its name, where that is its alone, or its ordinal.
    fn function_name(&self, ordinal: u32) -> String {
        let functions = &self.source.functions;
        let Some(function) = functions.get(ordinal as usize) else { return format!("@function:{ordinal}") };
        let name = &function.local_name;
        let is_unique = functions.iter().filter(|other| other.local_name == *name).count() == 1;
        let is_reserved = ["import", "function"].contains(&&**name);
        match is_unique
            && !name.is_empty()
            && !is_reserved
            && self.source.imports.iter().all(|row| row.full_name != *name)
        {
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
        let arguments: Vec<String> = arguments.collect();
        let (results, name) = (self.results(&function.signature), symbol(&function.local_name));
        self.line(&format!("vm.func {name}({}) -> {results} {{", arguments.join(", ")));
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
        let results: Vec<String> = results.map(|(_, kind, value)| self.field(kind, value, labels)).collect();
        let results = results.join(", ");
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
                let copies: Vec<String> =
                    pairs.iter().map(|&[from, to]| format!("{}->{}", register(from), register(to))).collect();
                copies.join(", ")
            }
            Kind::list | Kind::results => {
                let registers: Vec<String> = value.list().iter().map(|byte| register(*byte)).collect();
                registers.join(", ")
            }
            Kind::segments => {
                let sizes: Vec<String> = value.list().iter().map(u8::to_string).collect();
                sizes.join(", ")
            }
        }
    }
}

fn register(register: u8) -> String {
    match register & (REF_TYPE_BIT | REF_MOVE_BIT) {
        REF_TYPE_BIT => format!("%r{}", register & REF_MASK),
        bits if bits & REF_TYPE_BIT != 0 => format!("%R{}", register & REF_MASK),
        _ => format!("%i{register}"),
    }
}

/// The file that a text describes.
///
/// Fails with `INVALID_ARGUMENT` on the first error of the text, with line and column in the message, and with
/// `RESOURCE_EXHAUSTED` if the module gets too large for its format.
pub(crate) fn assemble(text: &str) -> Result<Vec<u8>> {
    let mut assembler = Assembler::default();
    let mut last = Span { text: "", line: 1, column: 0 };
    for (index, text) in text.lines().enumerate() {
        last = Span { text, line: index + 1, column: 0 };
        assembler.line(last)?;
    }
    super::write(&assembler.finish(last)?)
}

/// The function that is being read.
#[derive(Default)]
struct OpenFunction<'a> {
    function: Function,
    registers: Option<(u8, u8)>,
    labels: BTreeMap<&'a str, u32>,
    branches: Vec<(usize, Span<'a>)>,
}

#[derive(Default)]
struct Assembler<'a> {
    source: Source,
    open: Option<OpenFunction<'a>>,
    /// Exports and their functions' names.
    exports: Vec<(String, Span<'a>)>,
    /// Functions that are called: in which function, where in its bytecode, and which.
    calls: Vec<(usize, usize, Span<'a>)>,
}

impl<'a> Assembler<'a> {
    fn line(&mut self, line: Span<'a>) -> Result<()> {
        if let Some(annotation) = line.trim().strip_prefix("//!") {
            return self.annotation(annotation);
        }
        let line = Span { text: without_comment(line.text), ..line }.trim();
        if line.is_empty() {
            return Ok(());
        }
        let Some(mut open) = self.open.take() else { return self.directive(line) };
        if line.text == "}" {
            return self.close(open);
        }
        match line.strip_prefix("^") {
            Some(label) => {
                let (name, rest) = label.name();
                rest.expect_prefix(":")?.expect_end()?;
                let offset = open.function.bytecode.len() as u32;
                if open.labels.insert(name.text, offset).is_some() {
                    return Err(name.error(format!("another block has the label `^{}`", name.text)));
                }
            }
            None => self.instruction(&mut open, line)?,
        }
        self.open = Some(open);
        Ok(())
    }

    fn directive(&mut self, line: Span<'a>) -> Result<()> {
        if let Some(rest) = line.strip_prefix("vm.rodata[") {
            return self.rodata(rest);
        }
        let (directive, rest) = line.word();
        if self.source.name.is_empty() && directive.text != "vm.module" {
            return Err(line.error("`vm.module` comes first"));
        }
        match directive.text {
            "vm.module" if self.source.name.is_empty() => {
                let (name, end) = rest.symbol()?;
                end.expect_end()?;
                if name.is_empty() {
                    return Err(rest.error("the module needs a name"));
                }
                self.source.name = name;
            }
            "vm.module" => return Err(line.error("a file has one `vm.module`")),
            "vm.type" => self.source.types.push(rest.text.into()),
            "vm.import" => {
                let (full_name, rest) = rest.symbol()?;
                let (arguments, rest) = rest.bracketed('(', ')')?;
                let arguments =
                    arguments.items().into_iter().map(|text| self.type_ordinal(text)).collect::<Result<_>>()?;
                let (results, end) = self.results(rest)?;
                end.expect_end()?;
                self.source.imports.push(Import { full_name, signature: Signature { arguments, results } });
            }
            "vm.export" => {
                let (local_name, behind) = rest.symbol()?;
                let function = behind.strip_prefix("=").unwrap_or(rest);
                self.exports.push((local_name, function));
            }
            "vm.func" => self.header(rest)?,
            _ => return Err(line.error(format!("`{}` is no directive", directive.text))),
        }
        Ok(())
    }

    fn rodata(&mut self, rest: Span<'a>) -> Result<()> {
        let Some((ordinal, digits)) = rest.split("]") else { return Err(rest.error("`[` without `]`")) };
        if ordinal.number::<usize>()? != self.source.rodata.len() {
            return Err(ordinal.error(format!("the next constant is number {}", self.source.rodata.len())));
        }
        let digits = digits.expect_prefix("=")?;
        let (pairs, left) = digits.text.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let parse = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
        match pairs.iter().map(parse).collect::<Option<Vec<u8>>>() {
            Some(bytes) if left.is_empty() => self.source.rodata.push(bytes),
            _ => return Err(digits.error("expected pairs of hexadecimal digits")),
        }
        Ok(())
    }

    /// The ordinal of a type: `type:N`, or a text, which is added to the table if it is not there.
    fn type_ordinal(&mut self, text: Span<'a>) -> Result<u32> {
        if let Some(ordinal) = text.strip_prefix("type:") {
            return ordinal.number();
        }
        let types = &mut self.source.types;
        if let Some(ordinal) = types.iter().position(|other| other == text.text) {
            return Ok(ordinal as u32);
        }
        if text.text != "i32" && !text.text.starts_with('!') {
            return Err(text.error(format!("`{}` is no type", text.text)));
        }
        types.push(text.text.into());
        Ok(types.len() as u32 - 1)
    }

    fn results(&mut self, rest: Span<'a>) -> Result<(Vec<u32>, Span<'a>)> {
        let (results, rest) = rest.expect_prefix("->")?.bracketed('(', ')')?;
        Ok((results.items().into_iter().map(|text| self.type_ordinal(text)).collect::<Result<_>>()?, rest))
    }

    /// `vm.func @name(%i0: i32, ...) -> (T, ...) {`
    fn header(&mut self, rest: Span<'a>) -> Result<()> {
        let (local_name, rest) = rest.symbol()?;
        let (list, rest) = rest.bracketed('(', ')')?;
        let (mut arguments, mut values, mut references) = (Vec::new(), 0, 0);
        for item in list.items() {
            let (register, text) = item.split(":").ok_or_else(|| item.error("expected a register and its type"))?;
            let ordinal = self.type_ordinal(text)?;
            let is_value = self.source.types.get(ordinal as usize).is_some_and(|text| text == "i32");
            let (file, count) = if is_value { ('i', &mut values) } else { ('r', &mut references) };
            let expected = format!("%{file}{count}");
            if register.text != expected {
                return Err(register.error(format!("expected `{expected}`: arguments fill the registers from 0 on")));
            }
            *count += 1;
            arguments.push(ordinal);
        }
        let (results, end) = self.results(rest)?;
        end.expect_prefix("{")?.expect_end()?;
        let function = Function { local_name, signature: Signature { arguments, results }, ..Function::default() };
        self.open = Some(OpenFunction { function, ..OpenFunction::default() });
        Ok(())
    }

    /// What follows `//!`. Other texts are comments.
    fn annotation(&mut self, line: Span<'a>) -> Result<()> {
        let (keyword, rest) = line.word();
        match (keyword.text, &mut self.open) {
            ("registers", Some(open)) => {
                let (values, references) = rest.word();
                open.registers = Some((values.number()?, references.number()?));
            }
            ("globals", None) => {
                let (bytes, references) = rest.word();
                (self.source.global_bytes, self.source.global_refs) = (bytes.number()?, references.number()?);
            }
            ("attribute", Some(open)) => {
                let (key, rest) = rest.utf8_string()?;
                let (value, end) = rest.expect_prefix("=")?.utf8_string()?;
                end.expect_end()?;
                open.function.attributes.push((key, value));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a function: branches get their targets, and what the text did not say is derived.
    fn close(&mut self, open: OpenFunction<'a>) -> Result<()> {
        let OpenFunction { mut function, registers, labels, branches } = open;
        for (position, label) in branches {
            let Some(offset) = label.strip_prefix("^").and_then(|name| labels.get(name.text)) else {
                return Err(label.error(format!("no block has the label `{}`", label.text)));
            };
            patch(&mut function.bytecode, position, *offset);
        }
        let (values, references) = registers_of(&function.bytecode);
        let (value_arguments, ref_arguments) = argument_registers(&self.source.types, &function.signature);
        (function.i32_registers, function.ref_registers) =
            registers.unwrap_or((values.max(value_arguments), references.max(ref_arguments)));
        self.source.functions.push(function);
        Ok(())
    }

    fn instruction(&mut self, open: &mut OpenFunction<'a>, line: Span<'a>) -> Result<()> {
        let (results, rest) = match line.text.starts_with('%') {
            true => {
                let (results, rest) = line.split("=").ok_or_else(|| line.error("expected `=`"))?;
                (Some(results), rest)
            }
            false => (None, line),
        };
        let (word, operands) = rest.word();
        let row = word.text.strip_prefix("vm.").and_then(|name| INSTRUCTIONS.iter().find(|row| row.mnemonic == name));
        let Some(row) = row else {
            return Err(word.error(format!("`{}` is no instruction of this generation", word.text)));
        };
        let texts = operand_texts(row, operands)?;
        let end = operands.text.len();
        let nothing = Span { text: "", column: operands.column + end, ..operands };
        let (mut used, has_result) = (0, row.format.fields().iter().any(|field| field.1.is_result()));
        open.function.bytecode.push(row.byte);
        for &(name, kind) in row.format.fields() {
            let text = match kind.is_result() {
                true => results.unwrap_or(nothing),
                false => {
                    used += 1;
                    texts.iter().find(|text| text.0 == name).map_or(nothing, |text| text.1)
                }
            };
            self.field(open, kind, text)?;
        }
        debug_assert_eq!(used, texts.len());
        match results {
            Some(results) if !has_result => Err(results.error("the instruction has no result")),
            _ => Ok(()),
        }
    }

    fn field(&mut self, open: &mut OpenFunction<'a>, kind: Kind, text: Span<'a>) -> Result<()> {
        let position = open.function.bytecode.len();
        let bytes = &mut open.function.bytecode;
        match kind {
            Kind::in_i32 | Kind::out_i32 => bytes.push(register_of(text, false)?),
            Kind::in_ref | Kind::out_ref => bytes.push(register_of(text, true)?),
            Kind::imm_i32 => {
                let negative = text.strip_prefix("-").map(|digits| digits.number::<u32>()).transpose()?;
                let value = match negative {
                    Some(digits) if digits <= 1 << 31 => digits.wrapping_neg(),
                    Some(_) => return Err(text.error("the number takes more than 32 bits")),
                    None => text.number()?,
                };
                bytes.extend(value.to_le_bytes());
            }
            Kind::imm_i8 => bytes.push(text.number()?),
            Kind::rodata => bytes.extend(text.number::<u32>()?.to_le_bytes()),
            Kind::global => bytes.extend(storage(text, ".rwdata")?.to_le_bytes()),
            Kind::global_ref => bytes.extend(storage(text, ".refs")?.to_le_bytes()),
            Kind::type_id => {
                let ordinal = self.type_ordinal(text)?;
                bytes.extend(ordinal.to_le_bytes());
            }
            Kind::function => {
                self.calls.push((self.source.functions.len(), position, text));
                bytes.extend([0; 4]);
            }
            Kind::target => {
                open.branches.push((position, text));
                bytes.extend([0; 4]);
            }
            Kind::string => {
                let (string, end) = text.string()?;
                end.expect_end()?;
                let length = u16::try_from(string.len()).map_err(|_| text.error("a text has 65535 bytes at most"))?;
                bytes.extend(length.to_le_bytes());
                bytes.extend(string);
            }
            Kind::remap => {
                let items = text.items();
                bytes.push(count(items.len(), text)?);
                for item in items {
                    let (from, to) = item.split("->").ok_or_else(|| item.error("expected `->`"))?;
                    bytes.extend([any_register(from)?, any_register(to)?]);
                }
            }
            Kind::list | Kind::results => {
                let items = text.items();
                bytes.push(count(items.len(), text)?);
                for item in items {
                    bytes.push(any_register(item)?);
                }
            }
            Kind::segments => {
                let items = text.items();
                bytes.push(count(items.len(), text)?);
                for item in items {
                    bytes.push(item.number()?);
                }
            }
        }
        Ok(())
    }

    /// Resolves what could be named before it was defined.
    fn finish(mut self, last: Span<'a>) -> Result<Source> {
        if self.open.is_some() {
            return Err(last.error("the function's `}` is missing"));
        }
        if self.source.name.is_empty() {
            return Err(last.error("`vm.module` is missing"));
        }
        for (function, position, text) in core::mem::take(&mut self.calls) {
            let ordinal = self.callee(text)?;
            if let Some(function) = self.source.functions.get_mut(function) {
                patch(&mut function.bytecode, position, ordinal);
            }
        }
        for (local_name, text) in core::mem::take(&mut self.exports) {
            match self.callee(text)? {
                function if function & FUNCTION_ORDINAL_IMPORT_BIT == 0 => {
                    self.source.exports.push(Export { local_name, function });
                }
                _ => return Err(text.error("an import cannot be exported")),
            }
        }
        Ok(self.source)
    }

    /// `@import`, `@function`, `@import:N` or `@function:N`.
    fn callee(&self, text: Span<'a>) -> Result<u32> {
        let (name, rest) = text.symbol()?;
        if let Some(ordinal) = rest.strip_prefix(":") {
            let ordinal: u32 = ordinal.number()?;
            return match &*name {
                "import" => Ok(ordinal | FUNCTION_ORDINAL_IMPORT_BIT),
                "function" => Ok(ordinal),
                _ => Err(text.error("an ordinal follows `import` or `function`")),
            };
        }
        rest.expect_end()?;
        if let Some(ordinal) = self.source.imports.iter().position(|import| import.full_name == name) {
            return Ok(ordinal as u32 | FUNCTION_ORDINAL_IMPORT_BIT);
        }
        match self.source.functions.iter().position(|function| function.local_name == name) {
            Some(ordinal) => Ok(ordinal as u32),
            None => Err(text.error(format!("no function has the name `{name}`"))),
        }
    }
}

/// The texts of an instruction's operands, by the names of their fields.
fn operand_texts<'a>(row: &Row, operands: Span<'a>) -> Result<Vec<(&'static str, Span<'a>)>> {
    let pieces = pieces(row.format);
    let (mut texts, mut rest) = (Vec::new(), operands);
    for (index, piece) in pieces.iter().enumerate() {
        match (*piece, pieces.get(index + 1)) {
            // Taken with the field in front of it.
            (Piece::Literal(_), _) => {}
            (Piece::Field(name), Some(Piece::Literal(literal))) => {
                let literal = literal.trim();
                let Some((text, behind)) = rest.split(literal) else {
                    return Err(rest.error(format!("expected `{literal}`")));
                };
                texts.push((name, text));
                rest = behind;
            }
            (Piece::Field(name), _) => {
                texts.push((name, rest));
                rest = Span { text: "", column: rest.column + rest.text.len(), ..rest };
            }
        }
    }
    rest.expect_end()?;
    Ok(texts)
}

fn patch(bytecode: &mut [u8], position: usize, value: u32) {
    if let Some(bytes) = bytecode.get_mut(position..position + 4) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

fn count(count: usize, at: Span<'_>) -> Result<u8> {
    u8::try_from(count).map_err(|_| at.error(format!("{count} items are more than 255")))
}

fn register_of(text: Span<'_>, is_ref: bool) -> Result<u8> {
    match any_register(text)? {
        register if (register & REF_TYPE_BIT != 0) == is_ref => Ok(register),
        _ if is_ref => Err(text.error("expected a reference register such as `%r0`")),
        _ => Err(text.error("expected a value register such as `%i0`")),
    }
}

/// `%i4`, `%r4`, or `%R4` for one that is moved from.
fn any_register(text: Span<'_>) -> Result<u8> {
    let registers = [
        ("%i", 0, I32_REGISTERS),
        ("%r", REF_TYPE_BIT, REF_REGISTERS),
        ("%R", REF_TYPE_BIT | REF_MOVE_BIT, REF_REGISTERS),
    ];
    for (prefix, bits, limit) in registers {
        if let Some(index) = text.strip_prefix(prefix) {
            return match index.number::<u8>()? {
                number if number < limit => Ok(number | bits),
                _ => Err(index.error(format!("a function has at most {limit} such registers"))),
            };
        }
    }
    Err(text.error("expected a register such as `%i0` or `%r0`"))
}

/// `.rwdata[8]`, `.refs[1]`
fn storage(text: Span<'_>, name: &str) -> Result<u32> {
    let (number, end) = text.expect_prefix(name)?.bracketed('[', ']')?;
    end.expect_end()?;
    number.number()
}
