#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use flatbuffers::FlatBufferBuilder;
use incarnate_schemas::bmod as schema;

use super::isa::INSTRUCTIONS;
use super::source::Source;
use crate::{Contents, VerifiedModule, assemble, disassemble, disassemble_function};

/// Every instruction, as text and as a file; the cases of the folder run it.
const TEXT: &str = include_str!("../../../../tests/models/first_generation/model.vmasm");
const FILE: &[u8] = include_bytes!("../../../../tests/models/first_generation/bmod.module");
const CASES: &str = include_str!("../../../../tests/models/first_generation/cases.txt");
const DOCUMENTATION: &str = include_str!("../../../../docs/bmod.md");

fn load(file: &[u8]) -> crate::Result<Arc<VerifiedModule>> {
    VerifiedModule::load(Arc::new(Contents::copy_from(file)))
}

/// `BLESS=1` writes the file anew.
#[test]
#[cfg(feature = "std")]
fn the_model_is_what_its_text_says() {
    let file = assemble(TEXT).unwrap();
    if std::env::var_os("BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/models/first_generation/bmod.module");
        std::fs::write(path, &file).unwrap();
        return;
    }
    assert!(file == FILE, "assembling the text yields another file; BLESS=1 writes it");
}

#[test]
fn text_and_file_become_each_other() {
    let module = load(FILE).unwrap();
    let text = disassemble(&module);
    assert_eq!(assemble(&text).unwrap(), FILE);
    assert_eq!(disassemble(&load(&assemble(&text).unwrap()).unwrap()), text);
    // But for labels, indentation and what stands where, it is the text that was written.
    let instructions = |text: &str| text.lines().filter(|line| line.contains("vm.")).count();
    assert_eq!(instructions(&text), instructions(TEXT));
    assert_eq!(Source::read(FILE).unwrap().write().unwrap(), FILE);
    assert!(disassemble_function(&module, 0).unwrap().starts_with("vm.func @add_i32(%i0: i32, %i1: i32) -> (i32) {"));
    assert_eq!(disassemble_function(&module, 1000), None);
    assert!(module.is_first_generation());
    assert_eq!(module.provenance(), "BMOD, the first generation (compilers of early 2020)");
}

#[test]
fn every_instruction_is_tested_and_documented() {
    for row in INSTRUCTIONS {
        let mnemonic = row.mnemonic;
        let used = [' ', '\n'].iter().any(|end| TEXT.contains(&alloc::format!("vm.{mnemonic}{end}")));
        assert!(used, "vm.{mnemonic} is not in the text");
        let head = alloc::format!("| 0x{:02X} | `{mnemonic}` |", row.byte);
        let line = DOCUMENTATION.lines().find(|line| line.starts_with(&head));
        let line = line.unwrap_or_else(|| panic!("no row of docs/bmod.md begins with {head}"));
        let cases = line.rsplit('|').nth(1).unwrap();
        let names: Vec<&str> = cases.split(['`', ',', ' ']).filter(|name| !name.is_empty() && *name != "to").collect();
        assert!(!names.is_empty(), "{line}");
        for name in names {
            assert!(CASES.contains(&alloc::format!("[{name}]\n")), "{mnemonic}: no case {name}");
        }
    }
    assert!(INSTRUCTIONS.is_sorted_by_key(|row| row.byte));
    assert_eq!(DOCUMENTATION.lines().filter(|line| line.starts_with("| 0x")).count(), INSTRUCTIONS.len());
}

/// A module of one function without arguments and results; `what` stands for its body.
fn module(what: &str) -> String {
    alloc::format!(
        "//! generation BMOD\nvm.module @m\nvm.type i32\nvm.import @n.f(i32, i32) -> (i32)\n\
         vm.func @f() -> () {{\n//! registers 2 2\n{what}\n}}\n"
    )
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (body, expected) in [
        ("vm.return", None),
        ("", Some("no branch and no return ends the function")),
        ("%i0 = vm.const.i32 1", Some("no branch and no return ends the function; at @m.f+0x6")),
        ("%i2 = vm.const.i32 1\nvm.return", Some("register i2; the function has 2 32-bit registers; at @m.f+0x0")),
        ("%i0 = vm.const.i32 1\n%r2 = vm.const.ref.zero\nvm.return", Some("register r2; the function has 2 reference")),
        ("vm.return %i0", Some("the function's own results")),
        ("%r0 = vm.const.ref.rodata 0\nvm.return", Some("`rodata` is 0; the module has 0 constants")),
        ("%i0 = vm.call @function:7()\nvm.return", Some("`callee` is 7; the module has 1 functions")),
        ("%i0 = vm.call @import:7()\nvm.return", Some("`callee` is 7; the module has 1 imports")),
        ("%i0 = vm.call @n.f(%i0)\nvm.return", Some("`operands` has 1 registers; the callee's arguments are 2")),
        ("%i0 = vm.call.variadic @n.f segments[1](%i0)\nvm.return", Some("1 segment sizes for 2 arguments")),
        (
            "%r0 = vm.global.load.ref .refs[3] : i32\nvm.return",
            Some("`global` is 3; the module has 0 reference globals"),
        ),
        ("vm.br ^a(%i0->%r0)\n^a:\nvm.return", Some("copies i0 to r0")),
    ] {
        let result = load(&assemble(&module(body)).unwrap());
        match (result, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{body}: {error}"),
            (result, _) => panic!("{body}: {result:?}"),
        }
    }
    // Errors of the one verifier say where the instruction is in the file, too.
    let error = load(&assemble(&module("%i0 = vm.const.i32 1\nvm.return %i0")).unwrap()).unwrap_err();
    assert!(error.to_string().contains("BMOD+0x6"), "{error}");
}

#[test]
fn texts_that_cannot_be_encoded_are_refused() {
    for (body, expected) in [
        ("%i0 = vm.add.i64 %i0, %i1", "line 7, column 7: `vm.add.i64` is no instruction of this generation"),
        ("%i128 = vm.const.i32 1", "at most 128 such registers"),
        ("%i0 = vm.const.i32 4294967296", "is not a number"),
        ("%r0 = vm.const.i32 1", "expected a value register"),
        ("%i0 = vm.add.i32 %i0", "expected `,`"),
        ("vm.br ^nowhere()", "no block has the label `^nowhere`"),
        ("%i0 = vm.shl.i32 %i0, 256", "is not a number"),
        ("%i0 = vm.return", "has no result"),
        ("vm.call @g()", "no function has the name `g`"),
        ("vm.yield 1", "unexpected `1`"),
    ] {
        let error = assemble(&module(body)).unwrap_err().to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
    for (text, expected) in [
        ("//! generation BMOD\nvm.type i32", "`vm.module` comes first"),
        ("//! generation BMOD\n", "`vm.module` is missing"),
        ("//! generation BMOD\nvm.module @m\nvm.func @f() -> () {", "`}` is missing"),
        ("//! generation BMOD\nvm.module @m\nvm.func @f(%i0: i64) -> () {", "`i64` is no type"),
        ("//! generation BMOD\nvm.module @m\nvm.export @f", "no function has the name `f`"),
    ] {
        let error = assemble(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn damaged_files_are_errors() {
    // Behind the last table there are up to 3 bytes of padding.
    for length in 0..FILE.len() - 3 {
        assert!(load(&FILE[..length]).is_err(), "{length}");
    }
    let mut refused = 0;
    for position in (0..FILE.len()).step_by(3) {
        for change in [0x01, 0x80, 0xFF] {
            let mut file = FILE.to_vec();
            file[position] ^= change;
            refused += u32::from(load(&file).is_err());
        }
    }
    assert!(refused > 500, "only {refused} changes were noticed");
}

/// Files whose tables refer to the same data again and again cost no more than their size allows.
#[test]
fn shared_parts_are_bounded() {
    let file = |count: usize| {
        let builder = &mut FlatBufferBuilder::new();
        let full_name = Some(builder.create_string(&alloc::format!("!{}", "x".repeat(1 << 16))));
        let entry = schema::TypeEntry::create(builder, &schema::TypeEntryArgs { full_name });
        let types = Some(builder.create_vector(&alloc::vec![entry; count]));
        let name = Some(builder.create_string("m"));
        let arguments = schema::BytecodeModuleArgs { name, types, ..Default::default() };
        let root = schema::BytecodeModule::create(builder, &arguments);
        builder.finish(root, Some(schema::BYTECODE_MODULE_IDENTIFIER));
        builder.finished_data().to_vec()
    };
    assert_eq!(Source::read(&file(2)).unwrap().types.len(), 2);
    let error = Source::read(&file(5000)).unwrap_err().to_string();
    assert!(error.contains("share too much"), "{error}");
}
