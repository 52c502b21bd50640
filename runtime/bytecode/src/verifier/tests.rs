//! One module for each check, which breaks just that one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::super::assembler::assemble;
use super::super::contents::Contents;
use super::super::isa::Opcode;
use super::super::verified::VerifiedModule;
use flatbuffers::{ForwardsUOffset, Vector, WIPOffset};
use incarnate_schemas::bytecode_module as schema;

use super::super::writer::{DependencySource, FunctionSource, ImportSource, ModuleSource};
use crate::Result;

fn load(bytes: Vec<u8>) -> Result<Arc<VerifiedModule>> {
    VerifiedModule::load(Arc::new(Contents::from_vec(bytes)))
}

/// Asserts that a module is refused, with a message that holds `expected`.
fn refused(source: &ModuleSource, expected: &str) {
    match load(source.write().unwrap()) {
        Ok(_) => panic!("accepted, instead of `{expected}`"),
        Err(error) => assert!(error.to_string().contains(expected), "`{error}` does not say `{expected}`"),
    }
}

/// Asserts the same of a function body in a module that has one of everything.
fn refused_text(body: &str, expected: &str) {
    let text = module_text(body);
    match load(assemble(&text).unwrap()) {
        Ok(_) => panic!("accepted: {body}"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains(expected), "`{error}` does not say `{expected}`");
            assert!(error.contains("@tests.bad+0x"), "`{error}` does not say where");
        }
    }
}

fn accepted(body: &str) {
    if let Err(error) = load(assemble(&module_text(body)).unwrap()) {
        panic!("{error}: {body}");
    }
}

/// A module with an import of each kind, a type, a constant, 8 bytes of globals and one reference global, a function to call and
/// `@bad`, which has 4 registers of each file.
fn module_text(body: &str) -> String {
    format!(
        "vm.module @tests version 0
         //! globals 8 1
         vm.type !vm.buffer
         vm.import @m.plain cconv \"0iIr_I\"
         vm.import @m.span cconv \"0iCrID_v\"
         vm.import @m.nested cconv \"0CiCiDD_v\"
         vm.import @m.deep cconv \"0CCCCCCCCCiDDDDDDDDD_v\"
         vm.rodata[0] = 00
         vm.func @callee(%i0: i32, %i1:2: i64, %r0: !vm.buffer) -> (i64, !vm.buffer) {{
         ^bb0:
           vm.return %i2:3, %r0
         }}
         vm.export @bad
         vm.func @bad(%i0: i32) -> (i32) {{
           //! registers 4 4
         ^bb0:
           {body}
         }}"
    )
}

const RETURN: &str = "\n vm.return %i0";

#[test]
fn the_frame_of_the_other_tests_is_valid() {
    accepted("vm.return %i0");
    for body in [
        "%i2:3, %r1 = vm.call @callee(%i0, %i2:3, %R0)",
        "%i2:3 = vm.call @m.plain(%i0, %i2:3, %R0)",
        "vm.call.variadic @m.span segments[65535, 2](%i0, %r0, %i2:3, %R1, %i0:1)",
        "vm.call.variadic @m.span segments[1, 0](%i0)",
        "%i2:3 = vm.global.load.i64 .rwdata[0]",
        "%i3 = vm.global.load.i32 .rwdata[4]",
        "%R3 = vm.global.load.ref .refs[0] : !vm.buffer",
        "vm.discard.refs %R0, %R3",
        "vm.print \"x\", %i3, %r3",
    ] {
        accepted(&format!("{body}{RETURN}"));
    }
}

#[test]
fn registers() {
    for (instruction, expected) in [
        ("%i1 = vm.add.i32 %i4, %i0", "vm.add.i32: OUT_OF_RANGE; `left` is register i4; the function has 4"),
        ("%i1 = vm.add.i32 %i0, %i4", "`right` is register i4"),
        ("%i4 = vm.add.i32 %i0, %i0", "`result` is register i4"),
        ("%i2:3 = vm.add.i64 %i1:2, %i0:1", "`left` is a 64-bit value at the odd register i1"),
        ("%i2:3 = vm.add.i64 %i0:1, %i4:5", "`right` is register i4:5"),
        ("%i4:5 = vm.ext.i32.i64.s %i0", "`result` is register i4:5"),
        ("%i1 = vm.trunc.i64.i32 %i3:4", "`operand` is a 64-bit value at the odd register i3"),
        ("%i1 = vm.shl.i32 %i0, %i9", "`amount` is register i9"),
        ("%i1 = vm.cmp.nz.ref %r4", "`operand` is register r4; the function has 4 reference registers"),
        ("%r4 = vm.const.ref.zero", "`result` is register r4"),
        ("%r1 = vm.assign.ref %R4", "`source` is register r4"),
        ("vm.discard.refs %r0, %r4", "`refs` is register r4"),
        ("%i0 = vm.switch.i32 %i0[%i1, %i4] else %i2", "`values` is register i4"),
        ("%i0:1 = vm.switch.i64 %i0[%i1:2] else %i2:3", "`values` is a 64-bit value at the odd register i1"),
        ("%r0 = vm.switch.ref %i0[%r1, %r4] else %r2 -> !vm.buffer", "`values` is register r4"),
        ("vm.trace \"x\", %i0, %i4", "`operands` is register i4"),
        ("vm.trace \"x\", %r4", "`operands` is register r4"),
    ] {
        refused_text(&format!("{instruction}{RETURN}"), expected);
    }
}

/// What assembly text cannot say: each case is the bytes of an instruction between the block marker and `return`.
fn refused_bytes(instruction: &[u8], expected: &str) {
    let mut source = single(&[]);
    source.functions[0].bytecode = body(instruction);
    refused(&source, expected);
}

fn body(instruction: &[u8]) -> Vec<u8> {
    let mut bytecode = vec![Opcode::Block.info().byte];
    bytecode.extend(instruction);
    bytecode.push(Opcode::Return.info().byte);
    bytecode.resize(bytecode.len().next_multiple_of(2), 0);
    bytecode.extend([0, 0]);
    bytecode
}

/// A module with one function of one block, without arguments and results, and 4 registers of each file.
fn single(types: &[&str]) -> ModuleSource {
    ModuleSource {
        name: "tests".into(),
        types: types.iter().map(|text| (*text).into()).collect(),
        functions: vec![FunctionSource {
            bytecode: body(&[]),
            block_count: 1,
            i32_register_count: 4,
            ref_register_count: 4,
            ..FunctionSource::default()
        }],
        ..ModuleSource::default()
    }
}

fn bytes(opcode: Opcode, fields: &[u16]) -> Vec<u8> {
    let mut bytes = vec![opcode.info().byte];
    bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    bytes
}

#[test]
fn register_bits() {
    load(single(&[]).write().unwrap()).unwrap();
    let add = |fields: &[u16]| bytes(Opcode::AddI32, fields);
    refused_bytes(&add(&[0x8000, 0, 0]), "`left` is reference register r0, not a value register");
    refused_bytes(&bytes(Opcode::CmpNZRef, &[0, 0]), "`operand` is value register i0, not a reference register");
    refused_bytes(&bytes(Opcode::CmpNZRef, &[0xC001, 0]), "`operand` has the move bit on r1");
    refused_bytes(&bytes(Opcode::AssignRef, &[0x8000, 1]), "`result` is value register i1");
    // A branch to the first block: opcode, target, one copy.
    let copy = |source: u16, target: u16| {
        let mut bytes = vec![Opcode::Branch.info().byte, 0, 0, 0, 0];
        bytes.splice(1..5, 0u32.to_le_bytes());
        bytes.extend([1, 0]);
        bytes.extend(source.to_le_bytes());
        bytes.extend(target.to_le_bytes());
        let mut source = single(&[]);
        source.functions[0].bytecode = vec![Opcode::Block.info().byte];
        source.functions[0].bytecode.extend(bytes);
        source
    };
    load(copy(0xC000, 0x8001).write().unwrap()).unwrap();
    refused(&copy(0, 0x8000), "copies i0 to r0, of the other register file");
    refused(&copy(0x8000, 0), "copies r0 to i0, of the other register file");
    refused(&copy(0x8000, 0xC001), "`operands` has the move bit on r1");
    refused(&copy(4, 0), "`operands` is register i4");
    refused(&copy(0, 4), "`operands` is register i4");
    refused_text("%R1 = vm.call @m.plain(%i0, %i2:3, %r0)\n vm.return %i0", "`results` is reference register r1");
    refused_text("%i2:3, %R1 = vm.call @callee(%i0, %i2:3, %r0)\n vm.return %i0", "`results` has the move bit on r1");
}

#[test]
fn older_versions_have_fewer_instructions_and_more_move_bits() {
    let with = |major: u32, instruction: &[u8]| {
        let mut source = single(&[]);
        source.bytecode_version = major << 16;
        source.functions[0].bytecode = body(instruction);
        source
    };
    let (kept, assigned) = (bytes(Opcode::CmpNZRef, &[0xC001, 0]), bytes(Opcode::AssignRef, &[0x8000, 0x8001]));
    load(with(15, &kept).write().unwrap()).unwrap();
    load(with(16, &kept).write().unwrap()).unwrap();
    refused(&with(17, &kept), "`operand` has the move bit on r1");
    refused(&with(15, &assigned), "the instruction came with bytecode version 16; the module has 15");
    load(with(16, &assigned).write().unwrap()).unwrap();
    let since = |opcode: Opcode| opcode.since();
    assert_eq!([Opcode::AddI32, Opcode::DiscardRefs, Opcode::CallYieldable].map(since), [15, 16, 17]);
}

#[test]
fn tables() {
    for (instruction, expected) in [
        ("%r0 = vm.const.ref.rodata 1", "`rodata` is 1; the module has 1 constants"),
        ("%r0 = vm.global.load.ref .refs[1] : !vm.buffer", "`global` is 1; the module has 1 reference globals"),
        ("vm.global.store.ref %r0, .refs[7] : !vm.buffer", "`global` is 7"),
        ("%r0 = vm.global.load.ref .refs[0] : type:1", "`type_def` is 1; the module has 1 types"),
        ("%r0 = vm.list.alloc %i0 : !vm.list<type:9>", "`element_type` is 9"),
        ("%r0 = vm.cast.any.ref %r0 : !vm.ref<?> -> type:9", "`result_type` is 9"),
        ("%i0 = vm.global.load.i32 .rwdata[8]", "`byte_offset` is 8 for 4 bytes; the module has 8 bytes of globals"),
        ("%i0:1 = vm.global.load.i64 .rwdata[4]", "`byte_offset` is 4, which is not aligned to 8 bytes"),
        ("vm.global.store.i32 %i0, .rwdata[2]", "`byte_offset` is 2, which is not aligned to 4 bytes"),
        ("vm.global.store.i32 %i0, .rwdata[4294967292]", "`byte_offset` is 4294967292 for 4 bytes"),
        ("vm.call @tests:2()", "`callee` is 2; the module has 2 functions"),
        ("vm.call @import:4()", "`callee` is 4; the module has 4 imports"),
        ("%i0 = vm.import.resolved @import:4", "`import_ordinal` is 4; the module has 4 imports"),
    ] {
        refused_text(&format!("{instruction}{RETURN}"), expected);
    }
}

#[test]
fn calls() {
    for (instruction, expected) in [
        ("%i2:3 = vm.call @m.plain(%i0, %i2:3)", "`operands` has 2 registers; the callee's arguments are 3 (`iIr`)"),
        ("vm.call @m.plain(%i0, %i2:3, %r0)", "`results` has 0 registers; the callee's results are 1 (`I`)"),
        ("%i2:3 = vm.call @m.plain(%i0, %i1, %r0)", "`operands` is a 64-bit value at the odd register i1"),
        ("%i2:3 = vm.call @m.plain(%i0, %r0, %r0)", "`operands` is reference register r0"),
        ("%i2:3 = vm.call @m.plain(%i4, %i2:3, %r0)", "`operands` is register i4"),
        ("%i2:3 = vm.call @m.plain(%i0, %i2:3, %i0)", "`operands` is value register i0, not a reference register"),
        ("%i4 = vm.call @m.plain(%i0, %i2:3, %r0)", "`results` is register i4:5"),
        ("%i2:3, %r0 = vm.call @callee(%i0, %i2:3)", "`operands` has 2 registers; the callee's arguments are 3"),
        ("%i2:3 = vm.call @callee(%i0, %i2:3, %r0)", "`results` has 1 registers; the callee's results are 2"),
        ("vm.call @m.span(%i0)", "the callee takes variadic arguments, and the call has no segment sizes"),
        ("vm.call @m.span(%i0, %r0, %i2:3, %r0, %i0, %i0)", "and the call has no segment sizes"),
        ("vm.call.variadic @callee segments[1](%i0)", "only imports take variadic arguments"),
        (
            "vm.call.variadic @m.span segments[1](%i0)",
            "`segment_sizes` do not fit the callee's arguments `iCrID`: there are fewer",
        ),
        ("vm.call.variadic @m.span segments[1, 0, 0](%i0)", "there are more"),
        ("vm.call.variadic @m.span segments[2, 0](%i0)", "has another one than 1 or 0xFFFF"),
        ("vm.call.variadic @m.span segments[1, 65535](%i0)", "a span has 0xFFFF"),
        ("vm.call.variadic @m.span segments[1, 1](%i0, %r0)", "`operands` has fewer registers"),
        ("vm.call.variadic @m.span segments[1, 1](%i0, %r0, %i0:1, %r0)", "`operands` has 1 registers more"),
        ("vm.call.variadic @m.span segments[1, 1](%i0, %r0, %i1)", "`operands` is a 64-bit value at the odd register"),
        (
            "vm.call.variadic @m.nested segments[1](%i0)",
            "`segment_sizes` do not fit the callee's arguments `CiCiDD`: there are fewer",
        ),
        ("vm.call.variadic @m.nested segments[2, 1, 2](%i0, %i0, %i0, %i0)", "`operands` has fewer registers"),
        ("vm.call.variadic @m.deep segments[1, 1, 1, 1, 1, 1, 1, 1, 1](%i0)", "9 deep, and 8 is the limit"),
    ] {
        refused_text(&format!("{instruction}{RETURN}"), expected);
    }
    refused_text("vm.return", "`operands` has 0 registers; the function's own results are 1 (`i`)");
    refused_text("vm.return %i0, %i1", "`operands` has 2 registers; the function's own results are 1");
    refused_text("vm.return %r0", "`operands` is reference register r0, not a value register");
    refused_text("vm.return %i4", "`operands` is register i4");
    refused_text(
        "vm.call.yieldable @m.plain(%i0) -> ^bb1(%i2)\n ^bb1:\n vm.return %i0",
        "`operands` has 1 registers; the callee's arguments are 3",
    );
    refused_text(
        "vm.call.variadic.yieldable @m.span segments[1, 1](%i0) -> ^bb1()\n ^bb1:\n vm.return %i0",
        "`operands` has fewer registers",
    );
}

#[test]
fn control_flow() {
    refused_text("%i1 = vm.add.i32 %i0, %i0", "no terminator ends the last block");
    refused_text("vm.cond_br %i4, ^bb0(), ^bb0()", "`condition` is register i4");
    refused_text("vm.return %i0\n vm.return %i0", "vm.return: INVALID_ARGUMENT; instruction outside of a block");
    refused_text("vm.fail %i0, \"x\"\n vm.return %i0", "instruction outside of a block");
    refused_text("%i0 = vm.const.i32.zero\n ^bb1:\n vm.return %i0", "block marker within a block");
    refused_text("vm.br_table %i0 { default: ^bb0(), 0: ^bb0(%i0->%i4) }", "`cases` is register i4");
    let patched = |position: usize, value: u8, blocks: u16| {
        let mut source = single(&[]);
        let function = &mut source.functions[0];
        function.bytecode = vec![Opcode::Block.info().byte, Opcode::Branch.info().byte, 0, 0, 0, 0, 0, 0];
        function.bytecode[position] = value;
        function.block_count = blocks;
        source
    };
    load(patched(2, 0, 1).write().unwrap()).unwrap();
    refused(&patched(2, 1, 1), "`dest` 0x1 is not the offset of a block marker; at @tests.fn0+0x1");
    refused(&patched(2, 100, 1), "0x64 is not the offset of a block marker; at @tests.fn0+0x1");
    refused(&patched(5, 255, 1), "0xFF000000 is not the offset of a block marker");
    refused(&patched(2, 0, 2), "the function has 1 blocks, its descriptor says 2");
    refused(&patched(0, Opcode::Branch.info().byte, 1), "instruction outside of a block");
    refused(&patched(6, 9, 1), "the function ends at 0x8, within br at 0x1");
    refused(&patched(1, 0xDF, 1), "no instruction has opcode 0xDF of set Core; at @tests.fn0+0x1");
    let mut source = single(&[]);
    source.functions[0].bytecode = vec![Opcode::Block.info().byte, 0xE0];
    refused(&source, "the function ends at 0x2, within an opcode at 0x1");
}

#[test]
fn requirements() {
    let mut source = single(&[]);
    source.functions[0].bytecode = body(&[0xE0, Opcode::ConstF32Zero.info().byte, 0, 0]);
    refused(
        &source,
        "vm.const.f32.zero: INVALID_ARGUMENT; instruction of set ExtF32 in a function that does not require",
    );
    source.functions[0].requirements = 1;
    load(source.write().unwrap()).unwrap();
    source.functions[0].bytecode = body(&[0xE1, Opcode::ConstF64Zero.info().byte, 0, 0]);
    refused(&source, "set ExtF64");
    source.functions[0].requirements = 0x10;
    refused(&source, "functions[0]: UNIMPLEMENTED; a function requires features 0x10");
    let source = ModuleSource { requirements: 0x8000_0000, ..single(&[]) };
    refused(&source, "UNIMPLEMENTED; the module requires features 0x80000000");
}

#[test]
fn module_tables() {
    let with = |change: fn(&mut ModuleSource)| {
        let mut source = single(&[]);
        change(&mut source);
        source
    };
    let import = |full_name: &str, calling_convention: &str| ImportSource {
        full_name: full_name.into(),
        calling_convention: calling_convention.into(),
        optional: false,
    };
    let with_import =
        |name: &str, convention: &str| ModuleSource { imports: vec![import(name, convention)], ..single(&[]) };
    refused(&with(|m| m.name.clear()), "the module has no name");
    refused(&with(|m| m.bytecode_version = 14 << 16), "INCOMPATIBLE; the module has bytecode version 14.0");
    refused(&with(|m| m.bytecode_version = 14 << 16), "reads 15.0 (compilers 3.0 to 3.9), 16.0 (compilers 3.10), 17.0");
    refused(&with(|m| m.bytecode_version = 17 << 16 | 1), "bytecode version 17.1");
    refused(&single(&["i32", "what"]), "types[1]: INVALID_ARGUMENT; `what` is no type");
    refused(&single(&[""]), "types[0]: INVALID_ARGUMENT; `` is no type");
    refused(&with_import("", "0v_v"), "imports[0] has no name");
    refused(&with_import("m.f", "0x_v"), "imports[0] `m.f`: INVALID_ARGUMENT; malformed calling convention `0x_v`");
    refused(&with_import("m.f", "0v_CiD"), "imports[0] `m.f`: INVALID_ARGUMENT; a span among the results of `0v_CiD`");
    refused(&with(|m| m.dependencies.push(DependencySource::default())), "dependencies[0] has no name");
    refused(&with(|m| m.exports.push((String::new(), 0))), "exports[0] has no name");
    refused(&with(|m| m.exports.push(("f".into(), 1))), "exports[0] `f` is function 1 of 1");
    refused(&with(|m| m.exports.push(("f".into(), u32::MAX))), "exports[0] `f` is function -1 of 1");
    refused(&with(|m| m.functions[0].block_count = 0), "functions[0] has no block");
    refused(&with(|m| m.functions[0].bytecode.clear()), "functions[0] has no block");
    refused(&with(|m| m.functions[0].i32_register_count = 0x8000), "functions[0] has 32768 32-bit and 4 reference");
    refused(&with(|m| m.functions[0].ref_register_count = 0x4000), "functions[0] has 4 32-bit and 16384 reference");
    refused(
        &with(|m| m.functions[0].calling_convention = Some("0CiD_v".into())),
        "signatures[0] has a span, which only imports may have",
    );
    refused(&with(|m| m.functions[0].calling_convention = Some("0D".into())), "signatures[0]: INVALID_ARGUMENT");
    refused(
        &with(|m| m.functions[0].calling_convention = Some(format!("0{}_v", "r".repeat(0x4000)))),
        "functions[0] has 4 32-bit and 16384 reference registers",
    );
    refused(&with(|m| m.global_bytes = u32::MAX), "the module asks for -1 bytes of globals");
    refused(
        &with(|m| m.global_bytes = 1 << 30),
        "the module asks for 1073741824 bytes of globals; the limit is 16777216",
    );
    refused(&with(|m| m.global_ref_count = 1 << 30), "the module asks for 1073741824 reference globals");
}

#[test]
fn constants_and_framing() {
    let source = ModuleSource { rodata: vec![vec![1, 2, 3], vec![4; 100]], ..single(&[]) };
    let file = source.write().unwrap();
    let module = load(file.clone()).unwrap();
    assert_eq!(*module.rodata_bytes(0).unwrap(), [1, 2, 3]);
    let (contents, range) = module.rodata(1).unwrap();
    assert_eq!((&contents.as_bytes().unwrap()[range.clone()], range.start % 64), (&[4; 100][..], 0));
    // The last constant is padded to 64 bytes; cutting off more than the padding cuts the constant.
    assert!(load(file[..file.len() - 28].to_vec()).is_ok());
    let error = load(file[..file.len() - 29].to_vec()).unwrap_err().to_string();
    assert!(
        error.contains("rodata[1]: OUT_OF_RANGE; 100 bytes at offset 64 behind the FlatBuffer exceed the file"),
        "{error}"
    );
}

#[test]
fn no_truncation_or_flipped_byte_panics() {
    let text =
        module_text("%i2:3, %r1 = vm.call @callee(%i0, %i2:3, %R0)\n vm.br ^bb1(%i0->%i1)\n ^bb1:\n vm.return %i1");
    let file = assemble(&text).unwrap();
    load(file.clone()).unwrap();
    for length in 0..file.len() {
        let _ = load(file[..length].to_vec());
    }
    for position in 0..file.len() {
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut changed = file.clone();
            changed[position] = value;
            if let Ok(module) = load(changed) {
                for function in 0..module.function_count() {
                    let _ = module.location(function, 3);
                }
            }
        }
    }
}

/// The file of a module in which the descriptor of each function has been changed.
fn with_descriptors(source: &ModuleSource, change: impl Fn(usize, &mut [u8])) -> Vec<u8> {
    let mut file = source.write().unwrap();
    let mut offset = 0usize;
    for (index, function) in source.functions.iter().enumerate() {
        let length = function.bytecode.len();
        let mut descriptor = (offset as u32).to_le_bytes().to_vec();
        descriptor.extend((length as u32).to_le_bytes());
        let position = file.windows(8).position(|window| window == descriptor).unwrap();
        change(index, &mut file[position..position + 20]);
        offset = (offset + length).next_multiple_of(8);
    }
    file
}

fn refused_file(file: Vec<u8>, expected: &str) {
    match load(file) {
        Ok(_) => panic!("accepted, instead of `{expected}`"),
        Err(error) => assert!(error.to_string().contains(expected), "`{error}` does not say `{expected}`"),
    }
}

#[test]
fn function_descriptors() {
    let source = single(&[]);
    for (offset, length, expected) in [
        (-8, 6, "functions[0]: 6 bytes at offset -8 exceed the bytecode's 8"),
        (0, 9, "functions[0]: 9 bytes at offset 0 exceed the bytecode's 8"),
        (4, 5, "functions[0]: 5 bytes at offset 4 exceed the bytecode's 8"),
        (0, -1, "functions[0]: -1 bytes at offset 0"),
        (i32::MAX, i32::MAX, "functions[0]: 2147483647 bytes at offset 2147483647"),
    ] {
        let file = with_descriptors(&source, |_, descriptor| {
            descriptor[..4].copy_from_slice(&i32::to_le_bytes(offset));
            descriptor[4..8].copy_from_slice(&i32::to_le_bytes(length));
        });
        refused_file(file, expected);
    }
    // Each of 40 functions claims all the bytecode.
    let mut many = single(&[]);
    many.functions = vec![many.functions[0].clone(); 40];
    many.functions[0].bytecode.resize(4000, 0);
    let file = with_descriptors(&many, |_, descriptor| {
        descriptor[..8].copy_from_slice(&[0, 0, 0, 0, 160, 15, 0, 0]);
    });
    refused_file(file, "RESOURCE_EXHAUSTED; functions of 160000 bytes share 4312 bytes of bytecode");
    // The number of descriptors stands in front of them.
    let mut file = source.write().unwrap();
    let descriptor = [1, 0, 0, 0, 0, 0, 0, 0, source.functions[0].bytecode.len() as u8, 0, 0, 0];
    let position = file.windows(12).position(|window| window == descriptor).unwrap();
    file[position] = 0;
    refused_file(file, "the module has 0 functions and 1 signatures");
}

#[test]
fn broken_flatbuffers() {
    let file = single(&["i32"]).write().unwrap();
    let mut root = file.clone();
    root[4..8].copy_from_slice(&[0xFF; 4]);
    refused_file(root, "INVALID_ARGUMENT; broken FlatBuffer");
    let mut text = file.clone();
    let name = text.windows(5).position(|window| window == b"tests").unwrap();
    text[name] = 0xFF;
    refused_file(text, "broken FlatBuffer: string at 0x64 is not UTF-8");
    let raw = |vector: WIPOffset<Vector<'_, ForwardsUOffset<_>>>| WIPOffset::new(vector.value());
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let segment = schema::RodataSegmentArgs {
        compression_type: schema::Compression(9),
        compression: Some(schema::Uncompressed::create(&mut builder, &schema::UncompressedArgs {}).as_union_value()),
        ..schema::RodataSegmentArgs::default()
    };
    let segment = schema::RodataSegment::create(&mut builder, &segment);
    let arguments = schema::BytecodeModuleArgs {
        name: Some(builder.create_string("tests")),
        rodata_segments: Some(raw(builder.create_vector(&[segment]))),
        bytecode_version: 17 << 16,
        ..schema::BytecodeModuleArgs::default()
    };
    let root = schema::BytecodeModule::create(&mut builder, &arguments);
    builder.finish_size_prefixed(root, Some("IREE"));
    refused_file(builder.finished_data().to_vec(), "rodata[0]: UNIMPLEMENTED; compression 9");
}

#[test]
fn broken_constants() {
    let file = ModuleSource { rodata: vec![vec![7; 9]], ..single(&[]) }.write().unwrap();
    let start = file.windows(8).position(|window| window == [9, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut long = file.clone();
    long[start] = 65;
    refused_file(long, "rodata[0]: OUT_OF_RANGE; 65 bytes at offset 0 behind the FlatBuffer exceed the file");
    // Whatever an offset or a table is changed to, what is accepted can be read.
    for position in 8..file.len() - 64 {
        for value in [0, 4, 0x40, 0xFF] {
            let mut changed = file.clone();
            changed[position] = value;
            if let Ok(module) = load(changed) {
                assert!((0..module.rodata_count()).all(|index| module.rodata_bytes(index).is_some()));
            }
        }
    }
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let arguments = schema::BytecodeModuleArgs {
        name: Some(builder.create_string("tests")),
        rodata_segments: Some(builder.create_vector(&[0xFFFF_FFFFu32])),
        bytecode_version: 17 << 16,
        ..schema::BytecodeModuleArgs::default()
    };
    let root = schema::BytecodeModule::create(&mut builder, &arguments);
    builder.finish_size_prefixed(root, Some("IREE"));
    refused_file(builder.finished_data().to_vec(), "rodata[0]: INVALID_ARGUMENT; broken FlatBuffer: an offset at");
}

/// A name that many rows share is checked for each of them: reading bounds what that may come to.
#[test]
fn shared_names_do_not_multiply() {
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let name = builder.create_string(&"n".repeat(1 << 16));
    let import =
        schema::Import::create(&mut builder, &schema::ImportArgs { full_name: Some(name), ..Default::default() });
    let imports = vec![import; 1 << 12];
    let arguments = schema::BytecodeModuleArgs {
        name: Some(name),
        imports: Some(builder.create_vector(&imports)),
        bytecode_version: 17 << 16,
        ..schema::BytecodeModuleArgs::default()
    };
    let root = schema::BytecodeModule::create(&mut builder, &arguments);
    builder.finish_size_prefixed(root, Some("IREE"));
    refused_file(
        builder.finished_data().to_vec(),
        "imports[19]: INVALID_ARGUMENT; broken FlatBuffer: its tables share too much of their data",
    );
}

#[test]
fn shared_constants_do_not_multiply() {
    let raw = |vector: WIPOffset<Vector<'_, ForwardsUOffset<_>>>| WIPOffset::new(vector.value());
    let file = |count: usize| {
        let mut builder = flatbuffers::FlatBufferBuilder::new();
        let name = builder.create_string("m");
        let data = builder.create_vector(&[1u8; 1 << 16]);
        let segment = schema::RodataSegmentArgs { embedded_data: Some(data), ..Default::default() };
        let segment = schema::RodataSegment::create(&mut builder, &segment);
        let outside = schema::RodataSegmentArgs { external_data_length: 1 << 16, ..Default::default() };
        let outside = schema::RodataSegment::create(&mut builder, &outside);
        let segments = [vec![segment; 1], vec![outside; count]].concat();
        let arguments = schema::BytecodeModuleArgs {
            name: Some(name),
            rodata_segments: Some(raw(builder.create_vector(&segments))),
            bytecode_version: 17 << 16,
            ..schema::BytecodeModuleArgs::default()
        };
        let root = schema::BytecodeModule::create(&mut builder, &arguments);
        builder.finish_size_prefixed(root, Some("IREE"));
        let mut file = builder.finished_data().to_vec();
        file.resize(file.len().next_multiple_of(64) + (1 << 16), 0);
        file
    };
    assert_eq!(load(file(30)).unwrap().rodata_count(), 31);
    let error = load(file(40)).unwrap_err();
    assert_eq!(error.code(), crate::StatusCode::ResourceExhausted);
}

#[test]
fn conventions_of_variadic_callees_are_short() {
    // Each element of the span would go through the letters of the inner one.
    let text = |letters: usize| {
        format!(
            "vm.module @m version 0\nvm.type i32\n//! dependency @x version 0\nvm.import @x.f cconv \"0CC{}DD_v\"\n\
             vm.func @f(%i0: i32) -> () {{\n^b:\n  vm.call.variadic @x.f segments[2, 0, 0]()\n  vm.return\n}}\n",
            "i".repeat(letters)
        )
    };
    assert!(load(assemble(&text(252)).unwrap()).is_ok());
    assert!(
        load(assemble(&text(253)).unwrap()).unwrap_err().to_string().contains("257 letters, and 256 are the limit")
    );
}
