//! What stands outside of instructions: directives, function headers, annotations.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::module::TypeDef;
use super::super::writer::{DependencySource, ImportSource};
use super::span::Span;
use super::{Assembler, Global, OpenFunction};
use crate::Result;

impl<'a> Assembler<'a> {
    pub(super) fn directive(&mut self, line: Span<'a>) -> Result<()> {
        if let Some(rest) = line.strip_prefix("vm.rodata[") {
            return self.rodata(line, rest);
        }
        let (directive, rest) = line.word();
        if !self.has_name && directive.text != "vm.module" {
            return Err(line.error("`vm.module` comes first"));
        }
        match directive.text {
            "vm.module" => self.module_header(line, rest),
            "vm.type" => self.define_type(rest),
            "vm.import" => self.import(rest),
            "vm.export" => self.export(rest),
            "vm.global.i32" | "vm.global.f32" => self.global(directive, rest, 4),
            "vm.global.i64" | "vm.global.f64" => self.global(directive, rest, 8),
            "vm.func" => self.function_header(rest),
            _ => Err(line.error(format!("`{}` is no directive", directive.text))),
        }
    }

    /// `vm.module @name version N`
    fn module_header(&mut self, line: Span<'a>, rest: Span<'a>) -> Result<()> {
        if self.has_name {
            return Err(line.error("a file has one `vm.module`"));
        }
        let (name, rest) = rest.symbol()?;
        if let Some(version) = rest.strip_prefix("version") {
            self.module.version = version.number()?;
        } else {
            rest.expect_end()?;
        }
        self.module.name = name;
        self.has_name = true;
        Ok(())
    }

    /// `vm.type T`
    fn define_type(&mut self, text: Span<'a>) -> Result<()> {
        TypeDef::new(text.text).map_err(|error| text.error(error.message()))?;
        self.append_type(text.text);
        Ok(())
    }

    fn append_type(&mut self, text: &str) -> u32 {
        let ordinal = self.module.types.len() as u32;
        self.module.types.push(text.into());
        self.types.entry(text.into()).or_insert(ordinal);
        ordinal
    }

    /// The ordinal of a type: `type:N`, or a text, which is added to the table if it is not there.
    pub(super) fn type_ordinal(&mut self, text: Span<'a>) -> Result<u32> {
        if let Some(ordinal) = text.strip_prefix("type:") {
            return ordinal.number();
        }
        let full = if text.text.starts_with("vm.") { format!("!{}", text.text) } else { text.text.into() };
        if let Some(&ordinal) = self.types.get(&full) {
            return Ok(ordinal);
        }
        TypeDef::new(text.text).map_err(|error| text.error(error.message()))?;
        Ok(self.append_type(text.text))
    }

    /// `vm.import [optional] @module.function cconv "..."`
    fn import(&mut self, rest: Span<'a>) -> Result<()> {
        let optional = rest.strip_prefix("optional ");
        let (full_name, rest) = optional.unwrap_or(rest).symbol()?;
        let (calling_convention, end) = rest.expect_prefix("cconv")?.utf8_string()?;
        end.expect_end()?;
        let ordinal = self.module.imports.len() as u32;
        self.imports.entry(full_name.clone()).or_insert(ordinal);
        let optional = optional.is_some();
        self.module.imports.push(ImportSource { full_name, calling_convention, optional });
        Ok(())
    }

    /// `vm.rodata[N] = hexadecimal digits`
    fn rodata(&mut self, line: Span<'a>, rest: Span<'a>) -> Result<()> {
        let Some((ordinal, rest)) = rest.split("]") else {
            return Err(line.error("`[` without `]`"));
        };
        if ordinal.number::<usize>()? != self.module.rodata.len() {
            return Err(ordinal.error(format!("the next constant is number {}", self.module.rodata.len())));
        }
        let digits = rest.expect_prefix("=")?;
        let (pairs, left) = digits.text.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let parse = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
        match pairs.iter().map(parse).collect::<Option<Vec<u8>>>() {
            Some(bytes) if left.is_empty() => self.module.rodata.push(bytes),
            _ => return Err(digits.error("expected pairs of hexadecimal digits")),
        }
        Ok(())
    }

    /// `vm.export @name [= @function]`
    fn export(&mut self, rest: Span<'a>) -> Result<()> {
        let (name, behind) = rest.symbol()?;
        let function = match behind.strip_prefix("=") {
            Some(target) => {
                let (function, end) = target.symbol()?;
                end.expect_end()?;
                function
            }
            None => {
                behind.expect_end()?;
                name.clone()
            }
        };
        self.exports.push((name, function, rest));
        Ok(())
    }

    /// `vm.global.T [private] [mutable] @name [= 0 : T]`
    fn global(&mut self, directive: Span<'a>, rest: Span<'a>, size: u32) -> Result<()> {
        let rest = rest.strip_prefix("private ").unwrap_or(rest);
        let at = rest.strip_prefix("mutable ").unwrap_or(rest);
        let (name, rest) = at.symbol()?;
        if !rest.is_empty() {
            let value = rest.expect_prefix("=")?;
            let type_name = directive.text.rsplit('.').next().unwrap_or_default();
            match value.split(":") {
                Some((zero, kind)) if zero.text == "0" && kind.text == type_name => {}
                _ => return Err(value.error(format!("globals begin as zero: expected `0 : {type_name}`"))),
            }
        }
        if self.global_numbers.insert(name.clone(), self.globals.len()).is_some() {
            return Err(at.error(format!("another global has the name `{name}`")));
        }
        self.globals.push(Global { size, offset: 0 });
        Ok(())
    }

    /// `vm.func @name(%i0: i32, ...) -> (T, ...) {`
    fn function_header(&mut self, rest: Span<'a>) -> Result<()> {
        let at = rest;
        let (name, rest) = rest.symbol()?;
        let (arguments, rest) = rest.bracketed('(', ')')?;
        let (results, rest) = rest.expect_prefix("->")?.bracketed('(', ')')?;
        rest.expect_prefix("{")?.expect_end()?;
        let mut convention = String::from("0");
        let mut counts = Counts::default();
        for argument in arguments.items() {
            let Some(colon) = argument.text.rfind(':') else {
                return Err(argument.error("expected a register and its type"));
            };
            let register = Span { text: &argument.text[..colon], ..argument }.trim();
            let kind =
                Span { text: &argument.text[colon + 1..], column: argument.column + colon + 1, ..argument }.trim();
            let letter = type_letter(kind)?;
            counts.expect(register, letter)?;
            convention.push(letter);
        }
        if convention.len() == 1 {
            convention.push('v');
        }
        convention.push('_');
        let arguments_end = convention.len();
        for result in results.items() {
            convention.push(type_letter(result)?);
        }
        if convention.len() == arguments_end {
            convention.push('v');
        }
        let ordinal = self.module.functions.len() as u32;
        if self.functions.insert(name.clone(), ordinal).is_some() {
            return Err(at.error(format!("another function has the name `{name}`")));
        }
        self.open = Some(OpenFunction::new(convention));
        Ok(())
    }

    /// What follows `//!`: what the grammar has no place for. Other texts are comments.
    pub(super) fn annotation(&mut self, line: Span<'a>) -> Result<()> {
        let (keyword, rest) = line.word();
        match (keyword.text, &mut self.open) {
            ("requirements", Some(function)) => function.requirements = Some(rest.number()?),
            ("requirements", None) => self.requirements = Some(rest.number()?),
            ("registers", Some(function)) => {
                let (values, refs) = rest.word();
                function.registers = Some((values.number()?, refs.number()?));
            }
            ("globals", None) => {
                let (bytes, refs) = rest.word();
                self.globals_size = Some((bytes.number()?, refs.number()?));
            }
            ("cconv", Some(function)) if rest.text == "none" => function.source.calling_convention = None,
            ("cconv", Some(function)) => function.source.calling_convention = Some(rest.utf8_string()?.0),
            ("attribute", open) => {
                let (key, rest) = rest.utf8_string()?;
                let (value, end) = rest.expect_prefix("=")?.utf8_string()?;
                end.expect_end()?;
                match open {
                    Some(function) => function.source.attributes.push((key, value)),
                    None => self.module.attributes.push((key, value)),
                }
            }
            ("dependency", None) => {
                let optional = rest.strip_prefix("optional ");
                let (name, rest) = optional.unwrap_or(rest).symbol()?;
                let minimum_version = rest.expect_prefix("version")?.number()?;
                let optional = optional.is_some();
                self.module.dependencies.push(DependencySource { name, minimum_version, optional });
            }
            _ => {}
        }
        Ok(())
    }
}

/// The letter that a type has in a calling convention.
fn type_letter(kind: Span<'_>) -> Result<char> {
    Ok(match kind.text {
        "i32" => 'i',
        "i64" => 'I',
        "f32" => 'f',
        "f64" => 'F',
        text if text.starts_with('!') => 'r',
        text => return Err(kind.error(format!("`{text}` is no type of a value"))),
    })
}

/// Registers of arguments so far. A text may count them as frames have them, with 64-bit values at even registers, or without
/// the gaps that this makes.
#[derive(Default)]
struct Counts {
    refs: u32,
    dense: u32,
    aligned: u32,
}

impl Counts {
    fn expect(&mut self, register: Span<'_>, letter: char) -> Result<()> {
        let (dense, aligned) = match letter {
            'r' => {
                self.refs += 1;
                let text = format!("%r{}", self.refs - 1);
                (text.clone(), text)
            }
            'I' | 'F' => {
                self.aligned = self.aligned.next_multiple_of(2) + 2;
                self.dense += 2;
                let pair = |end: u32| format!("%i{}:{}", end - 2, end - 1);
                (pair(self.dense), pair(self.aligned))
            }
            _ => {
                self.aligned += 1;
                self.dense += 1;
                (format!("%i{}", self.dense - 1), format!("%i{}", self.aligned - 1))
            }
        };
        if register.text == dense || register.text == aligned {
            return Ok(());
        }
        Err(register.error(format!("expected `{aligned}`: arguments fill the registers from 0 on")))
    }
}
