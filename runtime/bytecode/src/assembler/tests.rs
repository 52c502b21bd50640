#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::archive::Archive;
use super::super::contents::Contents;
use super::super::disassembler::{disassemble, disassemble_function};
use super::super::fields::{FieldKind, fields};
use super::super::instruction::{Body, Instruction};
use super::super::isa::{INSTRUCTIONS, InstructionInfo, Opcode, OpcodeSet, PREFIX_EXT_F32, PREFIX_EXT_F64};
use super::super::module::{Module, Requirements, TypeKind};
use super::super::verified::VerifiedModule;
use super::super::writer::{FunctionSource, ImportSource, ModuleSource};
use super::assemble;

static SCALE: &[u8] = include_bytes!("../testdata/scale.vmfb");
static PAIRS: &[u8] = include_bytes!("../testdata/pairs.vmfb");

fn load(bytes: &[u8]) -> Arc<VerifiedModule> {
    VerifiedModule::load(Arc::new(Contents::copy_from(bytes))).unwrap()
}

/// Asserts that two modules hold the same, but for names of functions and source locations, which only a debug database has.
fn same(left: &Module, right: &Module) {
    assert_eq!((left.name(), left.version()), (right.name(), right.version()));
    assert_eq!(left.bytecode_version(), right.bytecode_version());
    assert_eq!(left.requirements(), right.requirements());
    assert!(left.attributes().eq(right.attributes()));
    assert_eq!(left.types(), right.types());
    assert!(left.dependencies().eq(right.dependencies()));
    assert!(left.imports().eq(right.imports()));
    assert!(left.exports().eq(right.exports()));
    assert_eq!(left.global_bytes(), right.global_bytes());
    assert_eq!(left.global_ref_count(), right.global_ref_count());
    assert_eq!(left.rodata_count(), right.rodata_count());
    for ordinal in 0..left.rodata_count() {
        assert_eq!(left.rodata_bytes(ordinal), right.rodata_bytes(ordinal));
    }
    assert_eq!(left.function_count(), right.function_count());
    for ordinal in 0..left.function_count() {
        let (a, b) = (left.function(ordinal).unwrap(), right.function(ordinal).unwrap());
        assert_eq!(a.bytecode, b.bytecode);
        assert_eq!(a.i32_register_count, b.i32_register_count);
        assert_eq!(a.ref_register_count, b.ref_register_count);
        assert_eq!(a.block_count, b.block_count);
        assert_eq!(a.requirements, b.requirements);
        assert_eq!(a.calling_convention, b.calling_convention);
        assert!(left.function_attributes(ordinal).eq(right.function_attributes(ordinal)));
    }
}

#[test]
fn compiled_modules_survive_their_text() {
    let scale = load(SCALE);
    // The executable is a module file, too, and lies where it is.
    let (contents, range) = (0..scale.rodata_count())
        .filter_map(|ordinal| scale.rodata(ordinal))
        .find(|(contents, range)| contents.as_bytes().unwrap()[range.clone()].starts_with(b"PK"))
        .unwrap();
    let executable = Module::parse(Archive::within(contents, range).unwrap()).unwrap().verify().unwrap();
    assert!(executable.exports().any(|export| export.local_name.starts_with("scale_dispatch_0")));
    for module in [scale, load(PAIRS), executable] {
        same(&module, &load(&assemble(&disassemble(&module)).unwrap()));
    }
}

#[test]
fn tables_of_a_compiled_module_are_read() {
    let module = load(SCALE);
    assert_eq!(module.name(), "module");
    assert!(module.requirements().contains(Requirements::UNWIND));
    let dependency = module.dependencies().next().unwrap();
    assert_eq!((dependency.name, dependency.minimum_version, dependency.optional), ("hal", 7, false));
    let import = module.imports().find(|import| import.full_name == "hal.buffer_view.create").unwrap();
    assert_eq!(import.full_name, "hal.buffer_view.create");
    assert_eq!(import.calling_convention.argument_letters(), "rIIiiCID");
    assert!(!import.optional);
    let export = module.exports().find(|export| export.local_name == "scale").unwrap();
    let function = module.function(export.function).unwrap();
    assert_eq!(function.calling_convention, Some("0r_r"));
    assert!(
        module
            .function_attributes(export.function)
            .any(|(key, value)| { key == "iree.abi.declaration" && value.contains("tensor<8xf32>") })
    );
    assert!(module.types().iter().any(|definition| definition.kind() == TypeKind::Ref("hal.fence")));
    // The compiler keeps the source map of the last function only, which is the initialiser.
    assert_eq!(module.function_debug_name(export.function), None);
    let last = module.function_count() - 1;
    assert_eq!(module.function_debug_name(last), Some("__init"));
    let locations: Vec<String> =
        module.instructions(last).filter_map(|at| module.source_location(last, at.offset)).collect();
    assert!(locations.iter().any(|location| location.contains("scale.mlir:")), "{locations:?}");
    assert_eq!(module.source_location(99, 0), None);
    let (contents, range) = module.rodata(0).unwrap();
    assert_eq!(&contents.as_bytes().unwrap()[range], b"hal.device.id");
}

#[test]
fn a_plain_file_without_debug_database_is_read() {
    let module = load(PAIRS);
    assert_eq!(module.function_debug_name(0), None);
    assert_eq!(module.location(1, 4).to_string(), "@pairs.fn1+0x4");
    let text = disassemble_function(&module, 0).unwrap();
    let expected = "vm.export @outer\n\
        vm.func @outer(%i0: i32, %i1:2: i64, %i3:4: f64) -> (i64, i32) {\n\
        ^bb0:\n  \
          %i2:3, %i0 = vm.call @pairs.fn1(%i2:3, %i0, %i4:5)\n  \
          vm.return %i2:3, %i0\n\
        }\n";
    assert_eq!(text, expected);
    assert_eq!(disassemble_function(&module, 2), None);
}

/// A module that uses every syntax.
const EVERY_SYNTAX: &str = r#"vm.module @forms version 3
//! globals 16 5
//! attribute "a key" = "a \22value\22"
//! dependency optional @other version 7
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<i32>
vm.import @m.plain cconv "0iI_r"
vm.import optional @m.span cconv "0iCrD_v"
vm.rodata[0] = 00FF10
vm.rodata[1] = 

vm.func @first(%i0: i32, %i1:2: i64, %r0: !vm.ref<?>) -> (i64) {
  //! registers 20 9
  //! attribute "key" = "value"
^bb0:
  %i8:9 = vm.global.load.i64 .rwdata[8]
  vm.global.store.i32 %i0, .rwdata[4]
  %i1 = vm.global.load.indirect.i32 %i0
  vm.global.store.indirect.i64 %i0, %i2:3
  %R1 = vm.global.load.ref .refs[0] : !vm.buffer
  vm.global.store.ref %R1, .refs[1] : !vm.buffer
  %r1 = vm.global.load.indirect.ref %i0 : !vm.buffer
  vm.global.store.indirect.ref %i0 : !vm.buffer, %R1
  %i1 = vm.const.i32 -7  // 0xFFFFFFF9
  %i2:3 = vm.const.i64 4294967296  // 0x0000000100000000
  %r2 = vm.const.ref.zero
  %r2 = vm.const.ref.rodata 0  // 3b
  vm.discard.refs %R2, %r3
  %r3 = vm.assign.ref %R2
  %r3 = vm.cast.any.ref %R3 : !vm.ref<?> -> !vm.buffer
  %r4 = vm.list.alloc %i0 : !vm.list<i32>
  vm.list.reserve %r4, %i0
  %i1 = vm.list.size %r4
  vm.list.set.ref %r4, %i0, %R3
  %r3 = vm.list.get.ref %r4, %i0 : !vm.list<i32>
  %i2:3 = vm.select.i64 %i0 ? %i2:3 : %i8:9
  %r3 = vm.select.ref %i0 ? %R3 : %r4 -> !vm.buffer
  %i2:3 = vm.switch.i64 %i0[%i2:3, %i8:9] else %i2:3
  %r3 = vm.switch.ref %i0[%r3, %R4] else %r5 -> !vm.buffer
  vm.buffer.store.i64 %i2:3, %r3, %i8:9
  vm.buffer.fill.i8 %r3, %i2:3, %i8:9, %i0
  %i1 = vm.cmp.lt.i64.s %i2:3, %i8:9
  %i1 = vm.import.resolved @m.span
  %r6 = vm.call @m.plain(%i0, %i2:3)
  vm.call.variadic @m.span segments[65535, 2](%i0, %r3, %R6)
  vm.trace "an \22event\22", %i0, %r3
  vm.print ""
  vm.cond_br %i0, ^bb1(%i0->%i1, %R3->%r5), ^bb2()
^bb1:
  vm.br_table %i0 { default: ^bb2(), 0: ^bb1(%i1->%i0), 1: ^bb0() }
^bb2:
  %i2:3 = vm.call @forms.second(%i2:3)
  vm.cond_break %i0, ^bb3()
^bb3:
  vm.break ^bb4(%i0->%i1)
^bb4:
  vm.yield ^bb5()
^bb5:
  vm.call.yieldable @m.plain(%i0, %i2:3) -> ^bb6(%r3)
^bb6:
  vm.call.variadic.yieldable @m.span segments[1, 1](%i0, %r3) -> ^bb7()
^bb7:
  vm.cond_br %i0, ^bb8(), ^bb9()
^bb8:
  vm.fail %i0, "no // comment # here = \5C22"
^bb9:
  vm.return %i2:3
}

vm.export @second
vm.export @alias = @second
vm.func @second(%i0:1: i64) -> (i64) {
  //! cconv "0I_I"
^bb0:
  vm.return %i0:1
}

vm.export @"odd name"
vm.func @"odd name"() -> () {
  //! cconv none
  //! requirements 15
^bb0:
  %i0 = vm.const.f32 1.5
  %i0 = vm.const.f32 -2e-9
  %i0 = vm.const.f32 0x1p-149
  %i0 = vm.const.f32 -nan(0x5)
  %i0 = vm.const.f32 snan(0x1)
  %i0 = vm.const.f32 inf
  %i2:3 = vm.const.f64 0.1
  %i2:3 = vm.ext.f32.f64 %i0
  vm.return
}
"#;

/// The disassembler returns what the assembler takes, line by line.
#[test]
fn every_syntax_is_given_back() {
    let module = load(&assemble(EVERY_SYNTAX).unwrap());
    let without_needless =
        |text: &str| text.replace("  //! cconv \"0I_I\"\n", "").replace("  //! requirements 15\n", "");
    let expected =
        without_needless(EVERY_SYNTAX).replace("//! cconv none\n", "//! cconv none\n  //! requirements 15\n");
    let printed = disassemble(&module);
    // Names of functions that are not exported are kept in debug databases only.
    let printed = printed.replace("@fn0", "@first");
    for (printed, expected) in printed.lines().zip(expected.lines()) {
        assert_eq!(printed.trim_end(), expected.trim_end());
    }
    assert_eq!(printed.lines().count(), expected.lines().count());
    assert_eq!(module.instructions(0).filter(|at| matches!(at.body, Body::Block {})).count(), 10);
    let message = module.instructions(0).find_map(|at| match at.body {
        Body::Fail { message, .. } => Some(message.to_vec()),
        _ => None,
    });
    assert_eq!(message.unwrap(), b"no // comment # here = \\22");
    let quiet = module.instructions(2).filter_map(|at| match at.body {
        Body::Constant { value, .. } => Some(value),
        _ => None,
    });
    assert_eq!(quiet.collect::<Vec<u64>>()[2..6], [1, 0xFFC0_0005, 0x7F80_0001, 0x7F80_0000]);
    same(&module, &load(&assemble(&disassemble(&module)).unwrap()));
}

#[test]
fn declared_globals_and_forward_calls_are_resolved() {
    let text = "vm.module @globals // comment
        vm.global.i64 private mutable @wide = 0 : i64
        vm.global.i32 @narrow
        vm.global.f32 @other # comment
        vm.export @f
        vm.func @f() -> () {
          %i0 = vm.global.load.i32 @narrow
          vm.global.store.f32 %i0, @other
          vm.global.store.i64 %i2:3, @wide
          vm.call @globals.later()
          vm.call @globals:1()
          vm.call @later()
          vm.return
        }
        [0000] vm.func @later() -> () {
        ^entry:
          vm.br ^entry
        }";
    let module = load(&assemble(text).unwrap());
    let offsets: Vec<u32> = module
        .instructions(0)
        .filter_map(|at| match at.body {
            Body::GlobalLoad { byte_offset, .. } | Body::GlobalStore { byte_offset, .. } => Some(byte_offset),
            Body::Call { callee, .. } => Some(callee.0),
            _ => None,
        })
        .collect();
    assert_eq!(offsets, [0, 4, 8, 1, 1, 1]);
    assert_eq!(module.global_bytes(), 16);
    assert_eq!(module.function(0).unwrap().requirements, Requirements::EXT_F32);
}

#[test]
fn frames_hold_arguments_and_pairs_of_calls() {
    let text = "vm.module @m
        vm.import @m.wide cconv \"0v_I\"
        vm.func @f(%i0: i32, %i2:3: i64, %r0: !vm.buffer) -> (i64) {
          vm.return %i2
        }
        vm.func @g() -> (i64) {
          %i6:7 = vm.call @m.wide()
          vm.return %i6:7
        }";
    let module = load(&assemble(text).unwrap());
    let counts = |ordinal| {
        let function = module.function(ordinal).unwrap();
        (function.i32_register_count, function.ref_register_count)
    };
    assert_eq!((counts(0), counts(1)), ((4, 1), (8, 0)));
}

#[test]
fn errors_say_line_and_column() {
    let function = |line: &str| format!("vm.module @m\nvm.func @f() -> () {{\n  {line}\n}}");
    for (text, expected) in [
        (String::new(), "line 1, column 1: `vm.module` is missing"),
        ("vm.type i32".into(), "line 1, column 1: `vm.module` comes first"),
        ("vm.module m".into(), "line 1, column 11: expected a symbol"),
        ("vm.module @m version x".into(), "line 1, column 22: `x` is not a number"),
        ("vm.module @m\nvm.what".into(), "line 2, column 1: `vm.what` is no directive"),
        ("vm.module @m\nvm.type nothing".into(), "line 2, column 9: `nothing` is no type"),
        ("vm.module @m\nvm.rodata[1] = 00".into(), "line 2, column 11: the next constant is number 0"),
        ("vm.module @m\nvm.rodata[0] = 0G".into(), "line 2, column 16: expected pairs of hexadecimal digits"),
        ("vm.module @m\nvm.export @f".into(), "line 2, column 11: no function has the name `f`"),
        ("vm.module @m\nvm.func @f(%i1: i32) -> () {".into(), "line 2, column 12: expected `%i0`"),
        ("vm.module @m\nvm.func @f() -> () {".into(), "line 2, column 1: the function's `}` is missing"),
        ("vm.module @m\nvm.func @f() -> (x) {".into(), "line 2, column 18: `x` is no type of a value"),
        (function("vm.what"), "line 3, column 3: `vm.what` is no instruction"),
        (function("%i0 = vm.add.i32 %i1, %i2:3"), "line 3, column 25: expected one register"),
        (function("%i0:1 = vm.add.i64 %i2:3, %i4"), "line 3, column 29: expected a pair"),
        (function("%i0:1 = vm.add.i64 %i2:4, %i4:5"), "line 3, column 22: expected a pair"),
        (function("%i0 = vm.add.i32 %i1"), "line 3, column 20: `vm.add.i32` has too few operands"),
        (function("%i0 = vm.add.i32 %i1, %i2, %i3"), "line 3, column 30: unexpected `%i3`"),
        (function("%i0 = vm.add.i32 %r1, %i2"), "line 3, column 20: expected a value register"),
        (function("%i99999 = vm.const.i32.zero"), "line 3, column 5: `99999` is not a number"),
        (function("%i0 = vm.cmp.nz.ref %R0"), "line 3, column 23: nothing can be moved out of this operand"),
        (function("%i0 = vm.const.i32 x"), "line 3, column 22: `x` is no 32-bit integer"),
        (function("%i0 = vm.const.f32 0x"), "line 3, column 22: `0x` is no 32-bit float"),
        (function("%i0 = vm.return"), "line 3, column 3: `vm.return` has no result"),
        (function("vm.br ^nowhere"), "line 3, column 10: no block has the label `^nowhere`"),
        (function("vm.call @nowhere()"), "line 3, column 11: no function has the name `nowhere`"),
        (function("vm.fail %i0, \"x"), "line 3, column 16: quotes are not closed"),
        (function("%i0 = vm.global.load.i32 @g"), "line 3, column 28: no global of this size has the name `g`"),
    ] {
        let error = assemble(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

/// Bytes of an instruction: operands by the kinds of the format, with non-empty lists.
fn encode(row: &InstructionInfo, bytecode: &mut Vec<u8>) {
    match row.set {
        OpcodeSet::Core => {}
        OpcodeSet::ExtF32 => bytecode.push(PREFIX_EXT_F32),
        OpcodeSet::ExtF64 => bytecode.push(PREFIX_EXT_F64),
    }
    bytecode.push(row.byte);
    for &kind in fields(row.format) {
        let mut list = |items: &[u16]| {
            bytecode.resize(bytecode.len().next_multiple_of(2), 0);
            bytecode.extend((items.len() as u16).to_le_bytes());
            bytecode.extend(items.iter().flat_map(|item| item.to_le_bytes()));
        };
        match kind {
            FieldKind::in_ref => bytecode.extend([0x03, 0x80]),
            FieldKind::in_ref_move | FieldKind::out_ref => bytecode.extend([0x03, 0xC0]),
            FieldKind::imm_v if kind.is_pair(row.banks) => bytecode.extend([1, 2, 3, 4, 5, 6, 7, 8]),
            FieldKind::imm_v => bytecode.extend([1, 2, 3, 4]),
            FieldKind::function | FieldKind::import => bytecode.extend([0, 0, 0, 0x80]),
            FieldKind::global | FieldKind::global_ref => bytecode.extend([8, 0, 0, 0]),
            FieldKind::rodata | FieldKind::type_id | FieldKind::target => bytecode.extend([0; 4]),
            FieldKind::string => bytecode.extend([3, 0, b'"', b'\\', b'a']),
            FieldKind::remap => {
                bytecode.resize(bytecode.len().next_multiple_of(2), 0);
                bytecode.extend([1, 0, 5, 0, 4, 0]);
            }
            FieldKind::list_v => list(&[2, 4]),
            FieldKind::list_ref => list(&[0xC002, 0x8004]),
            FieldKind::list_any | FieldKind::results => list(&[0xC002, 4]),
            FieldKind::segments => list(&[0xFFFF, 7]),
            FieldKind::cases => bytecode.extend([1, 0, 0, 0, 0, 0, 0, 0]),
            _ => bytecode.extend([6, 0]),
        }
    }
}

/// Every row of the instruction table: encoded, decoded, printed, read back.
#[test]
fn every_instruction_survives_its_text() {
    for row in INSTRUCTIONS.iter().filter(|row| row.opcode != Opcode::Block) {
        let mut bytecode = Vec::from([Opcode::Block.info().byte]);
        encode(row, &mut bytecode);
        let instruction = Instruction::decode(&bytecode, 1).unwrap();
        assert_eq!((instruction.opcode, instruction.end() as usize), (row.opcode, bytecode.len()), "{}", row.mnemonic);
        for length in 1..bytecode.len() {
            assert!(Instruction::decode(&bytecode[..length], 1).is_err(), "{} in {length} bytes", row.mnemonic);
        }
        let import = ImportSource { full_name: "m.f".into(), calling_convention: "0v_v".into(), optional: false };
        let function = FunctionSource { bytecode: bytecode.clone(), block_count: 1, ..FunctionSource::default() };
        let source = ModuleSource {
            name: "rows".into(),
            types: Vec::from(["i32".into()]),
            imports: Vec::from([import]),
            functions: Vec::from([function]),
            ..ModuleSource::default()
        };
        let parse = |file: Vec<u8>| Module::parse(Archive::new(Arc::new(Contents::from_vec(file))).unwrap()).unwrap();
        let text = disassemble(&parse(source.write().unwrap()));
        let again = parse(assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
        assert_eq!(again.function(0).unwrap().bytecode, bytecode, "{text}");
    }
}
