//! The assembler: text to a module file. The grammar is that of [`disassemble`](super::disassemble), whose every text it
//! reads back; it is also that of IREE's own assembly text.
//!
//! Nothing is verified but that the text can be encoded: [`VerifiedModule`](super::VerifiedModule) does the rest.

mod directives;
mod fields;
mod floats;
mod instructions;
mod span;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use span::{Span, without_comment};

use super::calling_convention::CallingConvention;
use super::fields::Derived;
use super::isa::{INSTRUCTIONS, InstructionInfo, Opcode};
use super::writer::{FunctionSource, ModuleSource};
use crate::Result;

/// The module file that a text describes.
///
/// Fails with `INVALID_ARGUMENT` on the first error of the text, with line and column in the message, both counted from 1
/// (columns in bytes), and with `RESOURCE_EXHAUSTED` if the module gets too large for its format.
pub fn assemble(source: &str) -> Result<Vec<u8>> {
    let mut assembler = Assembler::new();
    let mut last = Span { text: "", line: 1, column: 0 };
    for (index, text) in source.lines().enumerate() {
        last = Span { text, line: index + 1, column: 0 };
        assembler.line(last)?;
    }
    assembler.finish(last)
}

/// A primitive global that the text declares.
struct Global {
    size: u32,
    offset: u32,
}

/// A number within a function's bytecode that a name stands for.
struct Fixup<'a> {
    function: usize,
    position: usize,
    name: String,
    at: Span<'a>,
    /// Size of the global; 0 for functions.
    size: u32,
}

/// The function that is being read.
struct OpenFunction<'a> {
    source: FunctionSource,
    registers: Option<(u16, u16)>,
    /// Number of the register behind the last pair that a call or a return names.
    pairs_end: u16,
    requirements: Option<u32>,
    labels: BTreeMap<&'a str, u32>,
    branches: Vec<(usize, Span<'a>)>,
}

struct Assembler<'a> {
    mnemonics: BTreeMap<&'static str, &'static InstructionInfo>,
    module: ModuleSource,
    has_name: bool,
    requirements: Option<u32>,
    globals_size: Option<(u32, u32)>,
    globals: Vec<Global>,
    global_numbers: BTreeMap<String, usize>,
    types: BTreeMap<String, u32>,
    imports: BTreeMap<String, u32>,
    functions: BTreeMap<String, u32>,
    exports: Vec<(String, String, Span<'a>)>,
    global_fixups: Vec<Fixup<'a>>,
    function_fixups: Vec<Fixup<'a>>,
    open: Option<OpenFunction<'a>>,
}

impl<'a> Assembler<'a> {
    fn new() -> Assembler<'a> {
        Assembler {
            mnemonics: INSTRUCTIONS.iter().map(|row| (row.mnemonic, row)).collect(),
            module: ModuleSource::default(),
            has_name: false,
            requirements: None,
            globals_size: None,
            globals: Vec::new(),
            global_numbers: BTreeMap::new(),
            types: BTreeMap::new(),
            imports: BTreeMap::new(),
            functions: BTreeMap::new(),
            exports: Vec::new(),
            global_fixups: Vec::new(),
            function_fixups: Vec::new(),
            open: None,
        }
    }

    fn line(&mut self, line: Span<'a>) -> Result<()> {
        if let Some(annotation) = line.trim().strip_prefix("//!") {
            return self.annotation(annotation);
        }
        let mut line = Span { text: without_comment(line.text), ..line }.trim();
        if line.text.starts_with('[')
            && let Ok((_, behind)) = line.bracketed('[', ']')
        {
            // Offsets that some listings have in front of every line.
            line = behind;
        }
        if line.is_empty() {
            return Ok(());
        }
        let Some(mut function) = self.open.take() else {
            return self.directive(line);
        };
        if line.text == "}" {
            return self.close_function(function, line);
        }
        let result = match line.text.strip_prefix('^') {
            Some(_) => function.label(line),
            None => self.instruction(&mut function, line),
        };
        self.open = Some(function);
        result
    }

    /// Ends a function: branches get their targets, and what the text did not say is derived.
    fn close_function(&mut self, function: OpenFunction<'a>, line: Span<'a>) -> Result<()> {
        let OpenFunction { mut source, registers, pairs_end, requirements, labels, branches } = function;
        for (position, label) in branches {
            let Some(offset) = labels.get(label.text) else {
                return Err(label.error(format!("no block has the label `^{}`", label.text)));
            };
            patch(&mut source.bytecode, position, *offset);
        }
        let derived = Derived::of(&source.bytecode);
        source.block_count =
            u16::try_from(derived.blocks).map_err(|_| line.error("the function has more than 65535 blocks"))?;
        source.requirements = requirements.unwrap_or(derived.requirements.bits());
        let convention = CallingConvention::parse(source.calling_convention.as_deref().unwrap_or_default());
        let (values, refs) = convention.unwrap_or_default().argument_registers();
        let at_least = |count: u16, arguments: usize| count.max(arguments.try_into().unwrap_or(u16::MAX));
        (source.i32_register_count, source.ref_register_count) = registers
            .unwrap_or((at_least(derived.i32_registers.max(pairs_end), values), at_least(derived.ref_registers, refs)));
        self.module.global_bytes = self.module.global_bytes.max(derived.global_bytes);
        self.module.global_ref_count = self.module.global_ref_count.max(derived.global_refs);
        self.module.functions.push(source);
        Ok(())
    }

    /// Resolves what could be named before it was defined, and writes the file.
    fn finish(mut self, last: Span<'a>) -> Result<Vec<u8>> {
        if self.open.is_some() {
            return Err(last.error("the function's `}` is missing"));
        }
        if !self.has_name {
            return Err(last.error("`vm.module` is missing"));
        }
        self.place_globals();
        let (functions, globals) = (&self.functions, &self.globals);
        let global = |name: &str| self.global_numbers.get(name).and_then(|number| globals.get(*number));
        for fixup in self.function_fixups.iter().chain(&self.global_fixups) {
            let value = match fixup.size {
                0 => functions.get(&fixup.name).copied(),
                size => global(&fixup.name).filter(|row| row.size == size).map(|row| row.offset),
            };
            let Some(value) = value else {
                let what = if fixup.size == 0 { "function" } else { "global of this size" };
                return Err(fixup.at.error(format!("no {what} has the name `{}`", fixup.name)));
            };
            if let Some(function) = self.module.functions.get_mut(fixup.function) {
                patch(&mut function.bytecode, fixup.position, value);
            }
        }
        for (name, function, at) in core::mem::take(&mut self.exports) {
            let Some(&ordinal) = self.functions.get(&function) else {
                return Err(at.error(format!("no function has the name `{function}`")));
            };
            self.module.exports.push((name, ordinal));
        }
        let union = self.module.functions.iter().fold(0, |bits, function| bits | function.requirements);
        self.module.requirements = self.requirements.unwrap_or(union);
        if let Some((bytes, references)) = self.globals_size {
            (self.module.global_bytes, self.module.global_ref_count) = (bytes, references);
        }
        self.module.write()
    }

    /// Assigns offsets to declared globals: small ones first, in the order of their declaration.
    fn place_globals(&mut self) {
        let mut offset = 0u32;
        for size in [4, 8] {
            for global in self.globals.iter_mut().filter(|global| global.size == size) {
                offset = offset.next_multiple_of(size);
                global.offset = offset;
                offset += size;
            }
        }
        self.module.global_bytes = self.module.global_bytes.max(offset);
    }
}

impl<'a> OpenFunction<'a> {
    fn new(calling_convention: String) -> OpenFunction<'a> {
        let bytecode = [Opcode::Block.info().byte].to_vec();
        OpenFunction {
            source: FunctionSource {
                calling_convention: Some(calling_convention),
                bytecode,
                ..FunctionSource::default()
            },
            registers: None,
            pairs_end: 0,
            requirements: None,
            labels: BTreeMap::new(),
            branches: Vec::new(),
        }
    }

    /// Begins a block. The first label names the block that the function begins with.
    fn label(&mut self, line: Span<'a>) -> Result<()> {
        let (name, rest) = line.expect_prefix("^")?.name();
        if name.is_empty() {
            return Err(line.error("expected a label"));
        }
        rest.expect_prefix(":")?.expect_end()?;
        let mut offset = self.source.bytecode.len();
        match offset == 1 && self.labels.is_empty() {
            true => offset = 0,
            false => self.source.bytecode.push(Opcode::Block.info().byte),
        }
        let offset = u32::try_from(offset).map_err(|_| line.error("the function is larger than 4 GiB"))?;
        match self.labels.insert(name.text, offset) {
            Some(_) => Err(name.error(format!("another block has the label `^{}`", name.text))),
            None => Ok(()),
        }
    }
}

fn patch(bytecode: &mut [u8], position: usize, value: u32) {
    if let Some(bytes) = bytecode.get_mut(position..position + 4) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}
