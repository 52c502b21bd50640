//! Every verified module can run: functions of arbitrary modules end with a result or an error, within their limits.
#![no_main]

use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, ConventionItem, VerifiedModule};
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Linkage, Ledger, Module, Program, Ref, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(verified) = VerifiedModule::load(Arc::new(Contents::copy_from(bytes))) else { return };
    let Ok(module) = BytecodeModule::new(verified) else { return };
    let Ok(program) = Program::link(vec![module.clone()]) else { return };
    let limits =
        Limits { call_depth: 200, stack_bytes: 1 << 20, ledger: Ledger::new(1 << 20, u64::MAX), fuel: Some(20_000), ..Limits::default() };
    let Ok(context) = Context::new(program, limits) else { return };
    for export in (0..).take_while(|export| module.function(Linkage::Export, *export).is_some()).take(16) {
        let Ok(function) = context.export(0, export) else { continue };
        for word in [0, 1, -1, 7] {
            let arguments: Vec<Value> = function
                .arguments()
                .iter()
                .map(|item| match item {
                    ConventionItem::I32 => Value::I32(word),
                    ConventionItem::I64 => Value::I64(word.into()),
                    ConventionItem::F32 => Value::F32(word as f32),
                    ConventionItem::F64 => Value::F64(word.into()),
                    _ => Value::Ref(Ref::Null),
                })
                .collect();
            let mut invocation = context.take_invocation();
            let mut buffer = incarnate_runtime::vm::CallBuffer::new();
            if function.pack(arguments.into_iter(), &mut buffer).is_ok() {
                // A function may yield for ever without consuming its fuel.
                let mut completion = invocation.begin(function.bound(), &mut buffer);
                for _ in 0..100 {
                    if !invocation.is_suspended() {
                        break;
                    }
                    completion = invocation.resume(&mut buffer);
                }
                let _ = completion;
                if invocation.is_suspended() {
                    invocation.cancel();
                }
            }
            context.give_invocation(invocation);
        }
    }
});
