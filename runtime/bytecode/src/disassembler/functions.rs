//! Functions: signature, blocks, and what the instructions do not say.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::calling_convention::{CallingConvention, ConventionItem};
use super::super::fields::Derived;
use super::super::instruction::{Body, Instruction};
use super::super::module::FunctionView;
use super::Printer;

impl Printer<'_> {
    pub(super) fn function(&mut self, ordinal: u32) {
        let Some(function) = self.module.function(ordinal) else { return };
        if self.names.exports_are_in_order() {
            for export in self.names.exports_of(ordinal) {
                let line = self.names.export_line(export);
                self.line(&line);
            }
        }
        let header = format!("vm.func {}{} {{", self.names.function(ordinal), signature(function.convention));
        self.line(&header);
        self.annotations(&function);
        self.body(&function);
        self.line("}");
    }

    /// What the assembler would not find out by itself.
    fn annotations(&mut self, function: &FunctionView<'_>) {
        let derived = Derived::of(function.bytecode);
        if function.calling_convention != Some(&*convention_text(function.convention)) {
            let text = function.calling_convention.map_or(String::from("none"), |text| format!("\"{text}\""));
            self.line(&format!("  //! cconv {text}"));
        }
        let (values, refs) = function.convention.argument_registers();
        let i32_count = usize::from(derived.i32_registers).max(values);
        let ref_count = usize::from(derived.ref_registers).max(refs);
        if (i32_count, ref_count) != (function.i32_register_count.into(), function.ref_register_count.into()) {
            self.line(&format!("  //! registers {} {}", function.i32_register_count, function.ref_register_count));
        }
        if derived.requirements != function.requirements {
            self.line(&format!("  //! requirements {}", function.requirements.bits()));
        }
        for (key, value) in self.module.function_attributes(function.ordinal) {
            self.attribute("  ", key, value);
        }
    }

    fn body(&mut self, function: &FunctionView<'_>) {
        let bytecode = function.bytecode;
        let blocks = Blocks::of(bytecode);
        let mut offset = 0;
        while (offset as usize) < bytecode.len() {
            match Instruction::decode(bytecode, offset) {
                Ok(instruction) => {
                    if let Body::Block {} = instruction.body {
                        self.line(&format!("{}:", blocks.label(offset)));
                    } else {
                        self.text.push_str("  ");
                        self.instruction(&instruction, &blocks, function.convention);
                        self.text.push('\n');
                    }
                    offset = instruction.end();
                }
                Err(error) => {
                    self.line(&format!("  // {error}"));
                    return;
                }
            }
        }
    }
}

/// Arguments and results. Argument registers are counted as the text form does it: without the gap that the frame has where
/// a 64-bit value would begin at an odd register.
fn signature(convention: CallingConvention<'_>) -> String {
    let (mut value, mut reference) = (0u32, 0u32);
    let arguments = convention.arguments().map(|item| {
        let text = match item {
            ConventionItem::Ref => format!("%r{reference}: {}", type_name(item)),
            ConventionItem::I64 | ConventionItem::F64 => format!("%i{value}:{}: {}", value + 1, type_name(item)),
            _ => format!("%i{value}: {}", type_name(item)),
        };
        match item {
            ConventionItem::Ref => reference += 1,
            ConventionItem::I64 | ConventionItem::F64 => value += 2,
            _ => value += 1,
        }
        text
    });
    let arguments: Vec<String> = arguments.collect();
    let results: Vec<&str> = convention.results().map(type_name).collect();
    format!("({}) -> ({})", arguments.join(", "), results.join(", "))
}

fn type_name(item: ConventionItem) -> &'static str {
    match item {
        ConventionItem::I32 => "i32",
        ConventionItem::I64 => "i64",
        ConventionItem::F32 => "f32",
        ConventionItem::F64 => "f64",
        ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => "!vm.ref<?>",
    }
}

/// The text that the assembler makes of a signature.
fn convention_text(convention: CallingConvention<'_>) -> String {
    let side = |letters: &str| if letters.is_empty() { String::from("v") } else { letters.into() };
    format!("0{}_{}", side(convention.argument_letters()), side(convention.result_letters()))
}

/// The blocks of a function, by the offsets of their markers.
pub(super) struct Blocks(Vec<u32>);

impl Blocks {
    fn of(bytecode: &[u8]) -> Blocks {
        let markers = super::super::instruction::Instructions::new(bytecode);
        Blocks(markers.filter(|at| matches!(at.body, Body::Block {})).map(|at| at.offset).collect())
    }

    /// The label of a block; the offset, if there is no block.
    pub(super) fn label(&self, offset: u32) -> String {
        match self.0.binary_search(&offset) {
            Ok(index) => format!("^bb{index}"),
            Err(_) => format!("^0x{offset:X}"),
        }
    }
}
