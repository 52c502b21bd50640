//! Tests that the IR and the bytecode have the same semantics: programs run as IR, after several levels of passes, and
//! interpreted; results and failures must agree.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, reason = "tests")]

mod coarsening;
mod evaluator;
mod gathers;
mod loops;
mod nests;
mod random;
mod reassociation;
mod scale;
mod strides;

use std::sync::Arc;

use evaluator::{IrModule, LEVELS};
use incarnate_runtime::StatusCode;
use incarnate_runtime::bytecode::ir::{Block, Function, Graph, Liveness, Loops, Structure};
use incarnate_runtime::bytecode::{Budget, Contents, VerifiedModule, assemble};
use incarnate_runtime::vm::{Buffer, BytecodeModule, Context, Limits, Module, Program, Ref, Value};

pub fn load(bytes: &[u8]) -> Arc<VerifiedModule> {
    VerifiedModule::load(Arc::new(Contents::copy_from(bytes))).unwrap()
}

/// Formats a value; references by their contents.
fn text(value: &Value, depth: usize) -> String {
    match value {
        Value::F32(v) => format!("f32:{:08x}", v.to_bits()),
        Value::F64(v) => format!("f64:{:016x}", v.to_bits()),
        Value::Ref(Ref::Buffer(buffer)) => format!("{:?}", buffer.to_vec()),
        // A list may contain itself.
        Value::Ref(Ref::List(_)) if depth == 0 => "list".to_owned(),
        Value::Ref(Ref::List(list)) => {
            let items: Vec<String> =
                (0..list.len() as u32).map(|index| text(&list.get(index).unwrap(), depth - 1)).collect();
            format!("list {items:?}")
        }
        other => format!("{other:?}"),
    }
}

/// Returns the outcome of each call in one context: results, or status and message.
fn outcomes(module: Arc<dyn Module>, others: &[Arc<dyn Module>], calls: &[(String, Vec<Value>)]) -> Vec<String> {
    let mut modules = others.to_vec();
    modules.push(module);
    let limits = Limits { fuel: Some(10_000_000), ..Limits::default() };
    let context = match Program::link(modules).and_then(|program| Context::new(program, limits)) {
        Ok(context) => context,
        Err(error) => return vec![format!("no context: {:?}", error.code())],
    };
    let run = |(name, arguments): &(String, Vec<Value>)| match context.function(name).unwrap().call(arguments) {
        Ok(results) => results.iter().map(|value| text(value, 2)).collect::<Vec<_>>().join(" "),
        Err(error) => format!("{:?}", error.code()),
    };
    calls.iter().map(run).collect()
}

/// Compares all calls at all levels with the interpreter; returns the interpreter's outcomes.
pub fn compare(
    verified: &Arc<VerifiedModule>,
    others: &[Arc<dyn Module>],
    calls: &[(String, Vec<Value>)],
) -> Vec<String> {
    let expected = outcomes(BytecodeModule::new(verified.clone()).unwrap(), others, calls);
    for level in LEVELS {
        let module = Arc::new(IrModule::new(verified.clone(), level));
        let found = outcomes(module.clone(), others, calls);
        for ((call, expected), found) in calls.iter().zip(&expected).zip(&found) {
            assert_eq!(found, expected, "{level:?} {call:?}");
        }
        assert_eq!(found.len(), expected.len());
    }
    expected
}

/// Returns the exported functions without arguments, except for those that the VM calls itself.
pub fn argumentless(verified: &VerifiedModule) -> Vec<(String, Vec<Value>)> {
    let is_test = |function| verified.function(function).unwrap().convention.argument_letters().is_empty();
    let exports = verified.exports().filter(|export| is_test(export.function) && !export.local_name.starts_with("__"));
    exports.map(|export| (export.local_name.to_owned(), Vec::new())).collect()
}

/// Every module of tests/models, including nested ones, becomes valid IR at every level.
#[test]
fn all_models_have_valid_ir() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models");
    let mut count = 0;
    for folder in std::fs::read_dir(models).unwrap() {
        let Ok(files) = std::fs::read_dir(folder.unwrap().path()) else { continue };
        for path in files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "vmfb"))
        {
            let verified = load(&std::fs::read(&path).unwrap());
            for level in LEVELS {
                IrModule::new(verified.clone(), level);
            }
            for ordinal in 0..verified.function_count() {
                let structure = Structure::of(&Function::new(&verified, ordinal).unwrap());
                // Compilers emit only reducible control flow; that model contains the irreducible kind.
                let is_compiled = !path.parent().unwrap().ends_with("control_flow");
                assert!(structure.selector_count() == 0 || !is_compiled, "function {ordinal} of {}", path.display());
            }
            count += 1;
        }
    }
    assert!(count >= 10, "{count} modules");
}

#[test]
fn the_vm_model_runs_the_same() {
    let read =
        |path: &str| load(&std::fs::read(format!("{}/../tests/models/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap());
    let import: Arc<dyn Module> = BytecodeModule::new(read("native_import_module/vm.vmfb")).unwrap();
    let module = read("vm/vm.vmfb");
    let mut calls = argumentless(&module);
    for export in module.exports().filter(|e| module.function(e.function).unwrap().convention.argument_letters() == "i")
    {
        for argument in [0, 1, 5, 100] {
            calls.push((export.local_name.to_owned(), vec![Value::I32(argument)]));
        }
    }
    let outcomes = compare(&module, &[import], &calls);
    assert!(outcomes.len() > 10 && outcomes.iter().any(|outcome| outcome == "I32(25)"), "{outcomes:?}");
}

fn assembled(text: &str) -> Arc<VerifiedModule> {
    load(&assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

/// Random programs, in which registers are written on several paths.
#[test]
fn random_programs_run_the_same() {
    let mut random = random::Random(0x1234_5678_9ABC_DEF1);
    let (mut done, mut failed) = (0, 0);
    for _ in 0..random::programs(600) {
        let text = random::program(&mut random);
        let module = assembled(&text);
        let calls: Vec<(String, Vec<Value>)> = (0..3)
            .map(|round| {
                let buffer = Ref::Buffer(Buffer::copy_of(&[round as u8; 32]).unwrap());
                let number = random.next(1000) as i64 - 300;
                let arguments = vec![
                    Value::I32(round),
                    Value::I64(number << (round * 20)),
                    Value::F32(number as f32 / 4.0),
                    Value::F64(number as f64 * 1e6),
                    Value::Ref(buffer.clone()),
                    Value::Ref(if round == 0 { Ref::Null } else { buffer }),
                ];
                ("f".to_owned(), arguments)
            })
            .collect();
        let run = std::panic::AssertUnwindSafe(|| compare(&module, &[], &calls));
        for outcome in std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("{text}")) {
            *(if outcome.contains("I64") { &mut done } else { &mut failed }) += 1;
        }
    }
    assert!(done > random::programs(600) && failed > random::programs(100), "{done} returned, {failed} failed");
}

/// Returns the text of a function.
fn printed(text: &str) -> (Function, String) {
    let function = Function::new(&assembled(text), 0).unwrap();
    let printed = function.to_string();
    (function, printed)
}

#[test]
fn a_loop_over_a_buffer_prints() {
    let (function, text) = printed(
        "vm.module @m\nvm.rodata[0] = 0000803F00000040\nvm.export @f\nvm.func @f(%i0: i32) -> (f32, i64) {\n\
        ^bb0:\n  %r0 = vm.const.ref.rodata 0\n  %i1 = vm.const.i32.zero\n  %i2:3 = vm.const.i64.zero\n  \
        %i4:5 = vm.const.i64 1\n  %i6:7 = vm.ext.i32.i64.s %i0\n  vm.br ^bb1(%i2->%i8, %i3->%i9)\n\
        ^bb1:\n  %i0 = vm.buffer.load.f32 %r0, %i8:9\n  %i1 = vm.add.f32 %i1, %i0\n  \
        %i8:9 = vm.add.i64 %i8:9, %i4:5\n  %i0 = vm.cmp.lt.i64.s %i8:9, %i6:7\n  vm.cond_br %i0, ^bb1(), ^bb2()\n\
        ^bb2:\n  vm.discard.refs %r0\n  vm.return %i1, %i8:9\n}\n",
    );
    assert_eq!(
        text,
        "function 0 (v1: i32) -> (f32, i64) {
bb0:
  v4: ref = rodata 0
  v8: i64 = ext.i32.i64.s v1
  br bb1(0.0, 0)
bb1(v2: f32, v3: i64):
  v10: f32 = buffer.load.f32 v4, v3
  v11: f32 = add.f32 v2, v10
  v12: i64 = add.i64 v3, 1
  v13: i32 = cmp.lt.i64.s v12, v8
  cond_br v13, bb1(v11, v12), bb2 drop(v4)
bb2:
  return v11, v12
}"
    );
    let graph = Graph::of(&function);
    let loops = Loops::new(&graph, &graph.dominators());
    assert_eq!(loops.all().len(), 1);
    let liveness = Liveness::new(&function, &mut Budget::of_entries(100)).unwrap();
    let error = Liveness::new(&function, &mut Budget::of_entries(3)).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert_eq!((liveness.entering(Block(1)).len(), liveness.entering(Block(2)).len()), (2, 2), "{text}");
    assert!(liveness.entering(Block::ENTRY).is_empty() && liveness.leaving(Block(2)).is_empty());
}

#[test]
fn halves_bits_and_moves_print() {
    let (_, text) = printed(
        "vm.module @m\nvm.type !vm.buffer\nvm.import @n.keep cconv \"0rr_v\"\nvm.export @f\n\
        vm.func @f(%i0: i32, %i2:3: i64, %r0: !vm.buffer) -> (i64, f32, !vm.buffer) {\n\
        ^bb0:\n  vm.cond_br %i0, ^bb1(%i2->%i5, %i0->%i4, %R0->%r1), ^bb2()\n\
        ^bb1:\n  vm.call @n.keep(%r1, %R1)\n  vm.br ^bb3(%r2->%r3)\n\
        ^bb2:\n  %i4:5 = vm.const.i64 7\n  vm.fail %i0, \"never\"\n\
        ^bb3:\n  vm.return %i4:5, %i3, %r0\n}\n",
    );
    assert_eq!(
        text,
        r#"function 0 (v1: i32, v2: i64, v3: ref) -> (i64, f32, ref) {
bb0:
  cond_br v1, bb2, bb1
bb1:
  fail v1, "never", else bb3(7, move v3)
bb2:
  call import 0(v3, move v3)
  v8: i32 = low v2
  v9: i64 = pair v1, v8
  br bb3(v9, null)
bb3(v4: i64, v5: ref):
  v10: i32 = high v2
  v11: f32 = bitcast v10
  return v4, v11, move v5
}"#
    );
}
