//! The virtual machine alone, on tests/models/vm: each function as handwritten Rust (`reference`), interpreted, and
//! translated. `benches/peer/run --vm` measures IREE on the same calls.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has no caller to tell")]

#[path = "support/reference.rs"]
mod reference;
mod support;

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use incarnate_runtime::vm::{
    BytecodeModule, CallBuffer, Caller, Context, Limits, Module, ModuleState, NativeModule, Program,
};
use incarnate_runtime::{Result, native_functions};

incarnate::include_module!(vm_benchmark = "../tests/models/vm/vm.vmfb");

/// The state of the imported module.
#[derive(Debug)]
struct Importee;

impl ModuleState for Importee {}

impl Importee {
    fn add_1(&self, _: &mut Caller<'_>, value: i32) -> Result<i32> {
        Ok(value.wrapping_add(1))
    }
}

/// The measured module with the module that it imports.
fn context(module: Arc<dyn Module>) -> Arc<Context> {
    let functions = native_functions! { "add_1" => Importee::add_1 };
    let importee = NativeModule::new("native_import_module", 0, || Ok(Importee), functions);
    Context::new(Program::link(vec![Arc::new(importee), module]).unwrap(), Limits::default()).unwrap()
}

/// Functions and their arguments. The call benchmarks call 20 functions, the loops run for the given iterations;
/// `collatz` takes 59542 steps for the numbers up to 1000.
const CALLS: [(&str, Option<i32>); 9] = [
    ("empty", None),
    ("call_internal", Some(100)),
    ("call_imported", Some(100)),
    ("loop_sum", Some(100_000)),
    ("buffer_reduce", Some(100_000)),
    ("buffer_reduce_unrolled", Some(100_000)),
    ("multiply_add_modulo", Some(100_000)),
    ("collatz", Some(1000)),
    ("fused_multiply_add", Some(100_000)),
];

/// Measures one function of a linked module, after checking its result against handwritten Rust.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    mode: &str,
    context: &Arc<Context>,
    name: &str,
    argument: Option<i32>,
) {
    let function = context.function(name).unwrap();
    let mut invocation = context.take_invocation();
    let mut buffer = CallBuffer::new();
    let mut call = || {
        buffer.clear();
        if let Some(argument) = argument {
            buffer.push_word(u64::from(black_box(argument) as u32));
        }
        invocation.call(function.bound(), &mut buffer)?;
        Ok(if argument.is_some() { buffer.words()[0] as i32 } else { 0 })
    };
    let expected = reference::function(name).map(|function| function(argument.unwrap_or_default()));
    assert_eq!(call().ok(), expected, "{name} {mode}");
    group.bench_function(BenchmarkId::new(name, mode), |bencher| bencher.iter(|| -> Result<i32> { call() }));
}

fn vm(criterion: &mut Criterion) {
    let file = support::verify(&support::read(&support::models().join("vm/vm.vmfb")));
    let interpreted = context(BytecodeModule::new(file).unwrap());
    let translated = context(vm_benchmark::module());
    let mut group = criterion.benchmark_group("vm");
    for (name, argument) in CALLS {
        let plain = reference::function(name).unwrap();
        let argument_or_none = argument.unwrap_or_default();
        group.bench_function(BenchmarkId::new(name, "reference"), |bencher| {
            bencher.iter(|| plain(black_box(argument_or_none)));
        });
        measure(&mut group, "interpreted", &interpreted, name, argument);
        measure(&mut group, "translated", &translated, name, argument);
    }
    group.finish();
}

criterion_group!(benches, vm);
criterion_main!(benches);
