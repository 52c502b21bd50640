//! The disassembler: a module as assembly text.
//!
//! The text is that of IREE's tools, so that `iree-as-module` reads it as well as this project's assembler does. What its
//! grammar has no place for follows `//!`, which it takes for a comment: requirements, register counts, sizes of the
//! globals, attributes and dependencies. Names are unique, because the assembler resolves functions by name. Left are a few things
//! that only this project's assembler reads: names with other characters than letters, digits, `_`, `$` and `.` (quoted), quotes
//! and control characters in messages (a backslash and two hexadecimal digits; the other assembler keeps these literally),
//! `vm.switch.ref`, NaNs that signal, and tables that hold something twice.

mod functions;
mod instructions;
mod names;

use alloc::format;
use alloc::string::String;

use names::Names;

use super::fields::Derived;
use super::module::{Module, Requirements};
use super::quoting::{quoted, symbol};

/// The text of a module. Cannot fail: functions that cannot be decoded end in a comment that says so.
#[must_use]
pub fn disassemble(module: &Module) -> String {
    let mut printer = Printer::new(module);
    printer.header();
    for ordinal in 0..module.function_count() {
        printer.text.push('\n');
        printer.function(ordinal);
    }
    printer.text
}

/// The text of one function; `None` if the module has no function of that ordinal.
#[must_use]
pub fn disassemble_function(module: &Module, ordinal: u32) -> Option<String> {
    Disassembler::new(module).function(ordinal)
}

/// Disassembles single functions of a module. It finds the names of all functions once.
pub struct Disassembler<'m> {
    printer: Printer<'m>,
}

impl<'m> Disassembler<'m> {
    /// Creates a disassembler of a module's functions.
    #[must_use]
    pub fn new(module: &'m Module) -> Disassembler<'m> {
        Disassembler { printer: Printer::new(module) }
    }

    /// The text of a function; `None` if the module has no function of that ordinal.
    pub fn function(&mut self, ordinal: u32) -> Option<String> {
        self.printer.module.function(ordinal)?;
        self.printer.function(ordinal);
        Some(core::mem::take(&mut self.printer.text))
    }
}

impl core::fmt::Debug for Disassembler<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Disassembler of @{}", self.printer.module.name())
    }
}

struct Printer<'m> {
    module: &'m Module,
    names: Names<'m>,
    text: String,
}

impl<'m> Printer<'m> {
    fn new(module: &'m Module) -> Printer<'m> {
        Printer { module, names: Names::new(module), text: String::new() }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Everything in front of the functions.
    fn header(&mut self) {
        let module = self.module;
        self.line(&format!("vm.module {} version {}", symbol(module.name()), module.version()));
        let mut derived = (Requirements::empty(), 0, 0);
        for function in (0..module.function_count()).filter_map(|ordinal| module.function(ordinal)) {
            let seen = Derived::of(function.bytecode);
            let bytes = derived.1.max(seen.global_bytes);
            derived = (derived.0 | function.requirements, bytes, derived.2.max(seen.global_refs));
        }
        if derived.0 != module.requirements() {
            self.line(&format!("//! requirements {}", module.requirements().bits()));
        }
        if (derived.1, derived.2) != (module.global_bytes(), module.global_ref_count()) {
            self.line(&format!("//! globals {} {}", module.global_bytes(), module.global_ref_count()));
        }
        for (key, value) in module.attributes() {
            self.attribute("", key, value);
        }
        for dependency in module.dependencies() {
            let optional = if dependency.optional { "optional " } else { "" };
            let (name, version) = (symbol(dependency.name), dependency.minimum_version);
            self.line(&format!("//! dependency {optional}{name} version {version}"));
        }
        for definition in module.types() {
            self.line(&format!("vm.type {}", definition.text()));
        }
        for import in module.imports() {
            let optional = if import.optional { "optional " } else { "" };
            let (name, convention) = (symbol(import.full_name), import.calling_convention_text);
            self.line(&format!("vm.import {optional}{name} cconv \"{convention}\""));
        }
        for ordinal in 0..module.rodata_count() {
            let bytes = module.rodata_bytes(ordinal).unwrap_or_default();
            self.text.reserve(2 * bytes.len() + 32);
            self.text.push_str(&format!("vm.rodata[{ordinal}] = "));
            for &byte in &*bytes {
                self.text.push(hex_digit(byte >> 4));
                self.text.push(hex_digit(byte & 0xF));
            }
            self.text.push('\n');
        }
        if !self.names.exports_are_in_order() {
            for export in module.exports() {
                let line = self.names.export_line(export);
                self.line(&line);
            }
        }
    }

    fn attribute(&mut self, indent: &str, key: &str, value: &str) {
        let line = format!("{indent}//! attribute {} = {}", quoted(key.as_bytes()), quoted(value.as_bytes()));
        self.line(&line);
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or_default().to_ascii_uppercase()
}
