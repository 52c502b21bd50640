//! The interpreter alone, on tests/models/vm: one benchmark for each function there. `benches/peer/run --vm` measures
//! the peer on the same calls.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has no caller to tell")]

mod support;

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use incarnate_runtime::vm::{
    BytecodeModule, CallBuffer, Caller, Context, Limits, Module, ModuleState, NativeModule, Program,
};
use incarnate_runtime::{Result, native_functions};

/// The state of the module that the measured one imports.
#[derive(Debug)]
struct Importee;

impl ModuleState for Importee {}

impl Importee {
    fn add_1(&self, _: &mut Caller<'_>, value: i32) -> Result<i32> {
        Ok(value.wrapping_add(1))
    }
}

fn context() -> Arc<Context> {
    let functions = native_functions! { "add_1" => Importee::add_1 };
    let importee = NativeModule::new("native_import_module", 0, || Ok(Importee), functions);
    let verified = support::verify(&support::read(&support::models().join("vm/vm.vmfb")));
    let modules: Vec<Arc<dyn Module>> = vec![Arc::new(importee), BytecodeModule::new(verified).unwrap()];
    Context::new(Program::link(modules).unwrap(), Limits::default()).unwrap()
}

/// Functions and what they are called with. The calls make 20 calls each, the loops run as often as told.
const CALLS: [(&str, Option<i32>); 6] = [
    ("empty", None),
    ("call_internal", Some(100)),
    ("call_imported", Some(100)),
    ("loop_sum", Some(100_000)),
    ("buffer_reduce", Some(100_000)),
    ("buffer_reduce_unrolled", Some(100_000)),
];

fn vm(criterion: &mut Criterion) {
    let context = context();
    let mut group = criterion.benchmark_group("vm");
    for (name, argument) in CALLS {
        let function = context.function(name).unwrap();
        let mut invocation = context.take_invocation();
        let mut buffer = CallBuffer::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                buffer.clear();
                if let Some(argument) = argument {
                    buffer.push_word(u64::from(argument as u32));
                }
                invocation.call(function.bound(), &mut buffer)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, vm);
criterion_main!(benches);
