//! Text to modules of the first generation.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::isa::{I32_REGISTERS, INSTRUCTIONS, Kind, REF_MOVE_BIT, REF_REGISTERS, REF_TYPE_BIT, Row};
use super::source::{Export, Function, Import, Signature, Source};
use super::text::{Piece, argument_registers, pieces, registers_of};
use crate::Result;
use crate::assembler::span::{Span, without_comment};
use crate::isa::FUNCTION_ORDINAL_IMPORT_BIT;

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
    assembler.finish(last)?.write()
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
    /// The ordinal of the first type of each text that instructions name.
    types: BTreeMap<&'a str, u32>,
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
            "vm.type" => {
                let ordinal = self.source.types.len() as u32;
                self.types.entry(rest.text).or_insert(ordinal);
                self.source.types.push(rest.text.into());
            }
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
        if let Some(&ordinal) = self.types.get(text.text) {
            return Ok(ordinal);
        }
        if text.text != "i32" && !text.text.starts_with('!') {
            return Err(text.error(format!("`{}` is no type", text.text)));
        }
        self.types.insert(text.text, types.len() as u32);
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
        // The first one of a name counts, and imports before functions: later entries replace earlier ones.
        let functions = self.source.functions.iter().enumerate().rev();
        let functions = functions.map(|(ordinal, function)| (function.local_name.clone(), ordinal as u32));
        let imports = self.source.imports.iter().enumerate().rev();
        let imports =
            imports.map(|(ordinal, import)| (import.full_name.clone(), ordinal as u32 | FUNCTION_ORDINAL_IMPORT_BIT));
        let callees: BTreeMap<String, u32> = functions.chain(imports).collect();
        for (function, position, text) in core::mem::take(&mut self.calls) {
            let ordinal = self.callee(text, &callees)?;
            if let Some(function) = self.source.functions.get_mut(function) {
                patch(&mut function.bytecode, position, ordinal);
            }
        }
        for (local_name, text) in core::mem::take(&mut self.exports) {
            match self.callee(text, &callees)? {
                function if function & FUNCTION_ORDINAL_IMPORT_BIT == 0 => {
                    self.source.exports.push(Export { local_name, function });
                }
                _ => return Err(text.error("an import cannot be exported")),
            }
        }
        Ok(self.source)
    }

    /// `@import`, `@function`, `@import:N` or `@function:N`.
    fn callee(&self, text: Span<'a>, callees: &BTreeMap<String, u32>) -> Result<u32> {
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
        match callees.get(&name) {
            Some(ordinal) => Ok(*ordinal),
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
