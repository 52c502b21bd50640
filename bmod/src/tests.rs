#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

use super::convert;
use super::instruction::Instruction;
use super::isa::INSTRUCTIONS;
use super::schema;
use super::source::Source;

/// A module with every instruction, its listing, and the module that it converts to, which the suites of tests/models run.
const FILE: &[u8] = include_bytes!("../tests/model.bmod");
const LISTING: &str = include_str!("../tests/model.txt");
const CONVERTED: &[u8] = include_bytes!("../../tests/models/converted/vm.vmfb");
const CASES: &str = include_str!("../../tests/models/converted/cases.txt");
const DOCUMENTATION: &str = include_str!("../../docs/bmod.md");

/// `BLESS=1` writes the converted module.
#[test]
fn the_model_converts_to_the_module_that_the_suites_run() {
    let converted = convert(FILE).unwrap();
    if std::env::var_os("BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/converted/vm.vmfb");
        std::fs::write(path, &converted).unwrap();
        return;
    }
    assert!(converted == CONVERTED, "the conversion yields another file; BLESS=1 writes it");
}

/// The mnemonics of each function of the model, in order.
fn mnemonics() -> Vec<Vec<&'static str>> {
    let mut functions = Vec::new();
    for function in Source::read(FILE).unwrap().functions {
        let (mut mnemonics, mut offset) = (Vec::new(), 0);
        while (offset as usize) < function.bytecode.len() {
            let instruction = Instruction::decode(&function.bytecode, offset).unwrap();
            mnemonics.push(instruction.row.mnemonic);
            offset = instruction.end;
        }
        functions.push(mnemonics);
    }
    functions
}

#[test]
fn the_listing_is_that_of_the_model() {
    let mut listed: Vec<Vec<&str>> = Vec::new();
    for line in LISTING.lines() {
        let code = line.split_once(" = vm.").map_or(line.trim_start(), |(_, code)| code);
        let mnemonic = code.trim_start_matches("vm.").split(' ').next().unwrap();
        match (line.starts_with("vm.func "), line.starts_with("  ")) {
            (true, _) => listed.push(Vec::new()),
            (_, true) if !code.starts_with("//") => listed.last_mut().unwrap().push(mnemonic),
            _ => {}
        }
    }
    assert_eq!(listed, mnemonics());
}

#[test]
fn every_instruction_is_tested_and_documented() {
    let used = mnemonics().concat();
    for row in INSTRUCTIONS {
        let mnemonic = row.mnemonic;
        assert!(used.contains(&mnemonic), "the model has no vm.{mnemonic}");
        let head = format!("| 0x{:02X} | `{mnemonic}` |", row.byte);
        let line = DOCUMENTATION.lines().find(|line| line.starts_with(&head));
        let line = line.unwrap_or_else(|| panic!("no row of docs/bmod.md begins with {head}"));
        let cases = line.rsplit('|').nth(1).unwrap();
        let names: Vec<&str> = cases.split(['`', ',', ' ']).filter(|name| !name.is_empty() && *name != "to").collect();
        assert!(!names.is_empty(), "{line}");
        for name in names {
            assert!(CASES.contains(&format!("[{name}]\n")), "{mnemonic}: no case {name}");
        }
    }
    assert!(INSTRUCTIONS.is_sorted_by_key(|row| row.byte));
    assert_eq!(DOCUMENTATION.lines().filter(|line| line.starts_with("| 0x")).count(), INSTRUCTIONS.len());
}

type Builder<'b> = FlatBufferBuilder<'b>;
type Written = WIPOffset<TableFinishedWIPOffset>;

/// Writes a table of fields that refer to what was written before.
fn table(builder: &mut Builder<'_>, fields: &[(u16, Written)]) -> Written {
    let start = builder.start_table();
    for &(field, value) in fields {
        builder.push_slot_always(field, value);
    }
    builder.end_table(start)
}

fn string(builder: &mut Builder<'_>, text: &str) -> Written {
    WIPOffset::new(builder.create_string(text).value())
}

fn vector<T: flatbuffers::Push<Output: 'static> + Copy>(builder: &mut Builder<'_>, items: &[T]) -> Written {
    WIPOffset::new(builder.create_vector(items).value())
}

/// Writes a vector of one element; vectors of tables refer to them.
fn rows(builder: &mut Builder<'_>, row: Written, count: usize) -> Written {
    let items: Vec<WIPOffset<flatbuffers::ForwardsUOffset<Written>>> = vec![WIPOffset::new(row.value()); count];
    vector(builder, &items)
}

fn finished(mut builder: Builder<'_>, fields: &[(u16, Written)]) -> Vec<u8> {
    let root = table(&mut builder, fields);
    builder.finish(root, Some("BMOD"));
    builder.finished_data().to_vec()
}

/// Returns the module `m` with the type `i32`, the import `n.f(i32, i32) -> (i32)`, and one function `f` of this bytecode, without
/// arguments and results, with two registers of each file.
fn module(bytecode: &[u8]) -> Vec<u8> {
    let b = &mut Builder::new();
    let i32_name = string(b, "i32");
    let i32_type = table(b, &[(schema::type_entry::FULL_NAME, i32_name)]);
    let (two, one) = (vector(b, &[0u32, 0]), vector(b, &[0u32]));
    let binary = table(b, &[(schema::signature::ARGUMENT_TYPES, two), (schema::signature::RESULT_TYPES, one)]);
    let import_name = string(b, "n.f");
    let import = table(b, &[(schema::import::FULL_NAME, import_name), (schema::import::SIGNATURE, binary)]);
    let (name, nullary) = (string(b, "f"), table(b, &[]));
    let function = table(b, &[(schema::function::LOCAL_NAME, name), (schema::function::SIGNATURE, nullary)]);
    b.start_vector::<u32>(3);
    for word in [0x0202, bytecode.len() as u32, 0] {
        b.push(word);
    }
    let descriptors = WIPOffset::new(b.end_vector::<u32>(1).value());
    use schema::module as fields;
    let fields = [
        (fields::NAME, string(b, "m")),
        (fields::TYPES, rows(b, i32_type, 1)),
        (fields::IMPORTS, rows(b, import, 1)),
        (fields::FUNCTIONS, rows(b, function, 1)),
        (fields::DESCRIPTORS, descriptors),
        (fields::BYTECODE_DATA, vector(b, bytecode)),
    ];
    finished(std::mem::take(b), &fields)
}

#[test]
fn errors_name_the_location() {
    const RETURN: &[u8] = &[0x54, 0];
    assert!(convert(&module(RETURN)).is_ok());
    for (start, expected) in [
        // vm.br of `%i0 -> %r0` to the next instruction
        (&[0x50, 8, 0, 0, 0, 1, 0, 0x80][..], "BMOD+0x0: "),
        (&[0x50, 8, 0, 0, 0, 1, 0, 0x80], "copies i0 to r0"),
        // vm.br into itself
        (&[0x50, 1, 0, 0, 0, 0], "no instruction begins at the branch target 0x1; at @m.f+0x0"),
        // %i2 = vm.const.i32 1
        (&[0x09, 1, 0, 0, 0, 2], "register i2; the function has 2 32-bit registers; at @m.f+0x0"),
        // %i0 = vm.const.i32 1, %r2 = vm.const.ref.zero
        (&[0x09, 1, 0, 0, 0, 0, 0x0A, 0x82], "register r2; the function has 2 reference registers; at @m.f+0x6"),
        // vm.return %i0
        (&[0x54, 1, 0], "the function's own results"),
        // %i0 = vm.const.i32 1, vm.return %i0
        (&[0x09, 1, 0, 0, 0, 0, 0x54, 1, 0], "BMOD+0x6: "),
        // %r0 = vm.const.ref.rodata 0
        (&[0x0B, 0, 0, 0, 0, 0x80], "`rodata` is 0; the module has 0 constants"),
        // %i0 = vm.call of function 7, and of import 7
        (&[0x52, 7, 0, 0, 0, 0, 1, 0], "`callee` is 7; the module has 1 functions"),
        (&[0x52, 7, 0, 0, 0x80, 0, 1, 0], "`callee` is 7; the module has 1 imports"),
        // %i0 = vm.call @n.f(%i0)
        (&[0x52, 0, 0, 0, 0x80, 1, 0, 1, 0], "`operands` has 1 registers; the callee's arguments are 2"),
        // %i0 = vm.call.variadic @n.f segments[1](%i0)
        (&[0x53, 0, 0, 0, 0x80, 1, 1, 1, 0, 1, 0], "1 segment sizes for 2 arguments; at @m.f+0x0"),
        // %r0 = vm.global.load.ref .refs[3] : i32
        (&[0x04, 3, 0, 0, 0, 0, 0, 0, 0, 0x80], "`global` is 3; the module has 0 reference globals"),
        // No instruction.
        (&[0x30], "no instruction of BMOD has the opcode 0x30; at @m.f+0x0"),
    ] {
        let error = convert(&module(&[start, RETURN].concat())).unwrap_err().to_string();
        assert!(error.contains(expected), "{start:?}: {error}");
    }
    for (bytecode, expected) in [
        (&[][..], "no branch and no return ends the function; at @m.f+0x0"),
        (&[0x09, 1, 0, 0, 0, 0], "no branch and no return ends the function; at @m.f+0x6"),
        // vm.yield
        (&[0x60], "no branch and no return ends the function; at @m.f+0x1"),
        (&[0x09, 1, 0], "the function ends at 0x3, within `value` of vm.const.i32; at @m.f+0x0"),
    ] {
        let error = convert(&module(bytecode)).unwrap_err().to_string();
        assert!(error.contains(expected), "{bytecode:?}: {error}");
    }
}

#[test]
fn other_files_are_refused() {
    for file in [&[][..], &FILE[..7], CONVERTED] {
        let error = convert(file).unwrap_err().to_string();
        assert_eq!(error, "INVALID_ARGUMENT; the file is not a BMOD file; a .vmfb file needs no conversion");
    }
}

#[test]
fn damaged_files_are_errors() {
    // Behind the last table there are up to 3 bytes of padding.
    for length in 0..FILE.len() - 3 {
        assert!(convert(&FILE[..length]).is_err(), "{length}");
    }
    let mut refused = 0;
    for position in (0..FILE.len()).step_by(3) {
        for change in [0x01, 0x80, 0xFF] {
            let mut file = FILE.to_vec();
            file[position] ^= change;
            refused += u32::from(convert(&file).is_err());
        }
    }
    assert!(refused > 500, "only {refused} changes were noticed");
}

/// Files whose tables refer to the same data again and again cost no more than their size allows.
#[test]
fn shared_data_is_bounded() {
    let file = |count: usize| {
        let mut builder = Builder::new();
        let long = string(&mut builder, &format!("!{}", "x".repeat(1 << 16)));
        let entry = table(&mut builder, &[(schema::type_entry::FULL_NAME, long)]);
        let fields = [
            (schema::module::TYPES, rows(&mut builder, entry, count)),
            (schema::module::NAME, string(&mut builder, "m")),
        ];
        finished(builder, &fields)
    };
    assert_eq!(Source::read(&file(2)).unwrap().types.len(), 2);
    let error = convert(&file(5000)).unwrap_err().to_string();
    assert!(error.contains("share too much"), "{error}");
}
