//! The overhead of a call: through the virtual machine (`vm`), through a session (`session`) and through the typed
//! methods of a translated module (`typed`); of an empty function, one with a scalar, one with two arguments and eight
//! results, and one with tensors and the smallest kernel.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has no caller to tell")]

mod support;

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use incarnate::{Device, Session, Tensor};
use incarnate_runtime::vm::{BytecodeModule, CallBuffer, Module, Value};

incarnate::include_module!(vm_benchmark = "../tests/models/vm/vm.vmfb");
incarnate::include_module!(native_import = "../tests/models/native_import_module/vm.vmfb");
incarnate::include_module!(calls = "../tests/models/calls/vm.vmfb");
incarnate::include_module!(simple_mul = "../tests/models/simple_mul/llvm-cpu.vmfb");

fn interpreted(file: &str) -> Arc<dyn Module> {
    BytecodeModule::new(support::verify(&support::read(&support::models().join(file)))).unwrap()
}

/// The modules of the calls in one mode.
struct Modules {
    mode: &'static str,
    empty: Arc<dyn Module>,
    scalar: Arc<dyn Module>,
    eight: Arc<dyn Module>,
    tensor: Arc<dyn Module>,
}

fn without_device(modules: impl IntoIterator<Item = Arc<dyn Module>>) -> Session {
    modules.into_iter().fold(Session::builder(), |builder, module| builder.module(module)).build().unwrap()
}

fn empty(group: &mut BenchmarkGroup<'_, WallTime>, modules: &Modules) {
    let session = without_device([modules.scalar.clone(), modules.empty.clone()]);
    let function = session.function("vm_benchmark.empty").unwrap();
    group.bench_function(BenchmarkId::new("empty", format!("session-{}", modules.mode)), |bencher| {
        bencher.iter(|| function.call::<()>(()));
    });
    let mut invocation = session.context().take_invocation();
    let mut buffer = CallBuffer::new();
    let bound = function.vm_function().bound();
    group.bench_function(BenchmarkId::new("empty", format!("vm-{}", modules.mode)), |bencher| {
        bencher.iter(|| {
            buffer.clear();
            invocation.call(bound, &mut buffer)
        });
    });
}

fn scalar(group: &mut BenchmarkGroup<'_, WallTime>, modules: &Modules) {
    let session = without_device([modules.scalar.clone()]);
    let function = session.function("native_import_module.add_1").unwrap();
    assert_eq!(function.call::<i32>((41i32,)).unwrap(), 42);
    group.bench_function(BenchmarkId::new("scalar", format!("session-{}", modules.mode)), |bencher| {
        bencher.iter(|| function.call::<i32>((black_box(41i32),)));
    });
    let mut invocation = session.context().take_invocation();
    let mut buffer = CallBuffer::new();
    let bound = function.vm_function().bound();
    group.bench_function(BenchmarkId::new("scalar", format!("vm-{}", modules.mode)), |bencher| {
        bencher.iter(|| {
            buffer.clear();
            buffer.push_word(black_box(41));
            invocation.call(bound, &mut buffer).map(|()| buffer.words()[0])
        });
    });
}

/// The results of `@eight`.
type Eight = (i32, i32, i32, i32, i32, i32, i32, i32);

fn eight(group: &mut BenchmarkGroup<'_, WallTime>, modules: &Modules) {
    let session = without_device([modules.eight.clone()]);
    let function = session.function("calls.eight").unwrap();
    assert_eq!(function.call::<Eight>((7, 9)).unwrap(), (7, 9, 16, -2, 9, 7, -2, 16));
    group.bench_function(BenchmarkId::new("eight", format!("session-{}", modules.mode)), |bencher| {
        bencher.iter(|| function.call::<Eight>((black_box(7), black_box(9))));
    });
    let mut invocation = session.context().take_invocation();
    let mut buffer = CallBuffer::new();
    let bound = function.vm_function().bound();
    group.bench_function(BenchmarkId::new("eight", format!("vm-{}", modules.mode)), |bencher| {
        bencher.iter(|| {
            buffer.clear();
            buffer.push_word(black_box(7));
            buffer.push_word(black_box(9));
            invocation.call(bound, &mut buffer).map(|()| buffer.words()[7])
        });
    });
}

fn tensor(group: &mut BenchmarkGroup<'_, WallTime>, modules: &Modules) {
    let session = Session::builder().device("local-sync").module(modules.tensor.clone()).build().unwrap();
    let function = session.function("simple_mul").unwrap();
    let inputs = [[1.0f32, 2.0, 3.0, 4.0], [2.0; 4]];
    let on_device = inputs.map(|input| Tensor::new(&session, &[4], &input).unwrap());
    let product: Tensor<f32> = function.call((&on_device[0], &on_device[1])).unwrap();
    assert_eq!(product.to_vec().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    group.bench_function(BenchmarkId::new("tensor", format!("session-{}", modules.mode)), |bencher| {
        bencher.iter(|| function.call::<Tensor<f32>>((&on_device[0], &on_device[1])));
    });
    group.bench_function(BenchmarkId::new("tensor", format!("session-with-copies-{}", modules.mode)), |bencher| {
        bencher.iter(|| {
            let [a, b] = inputs.map(|input| Tensor::new(&session, &[4], &black_box(input)).unwrap());
            function.call::<Tensor<f32>>((&a, &b)).and_then(|product| product.to_vec())
        });
    });
    let mut invocation = session.context().take_invocation();
    let mut buffer = CallBuffer::new();
    let bound = function.vm_function().bound();
    let views = on_device.map(|tensor| tensor.view().clone());
    group.bench_function(BenchmarkId::new("tensor", format!("vm-{}", modules.mode)), |bencher| {
        bencher.iter(|| {
            buffer.clear();
            views.iter().for_each(|view| buffer.push(Value::Ref(view.clone().into())));
            invocation.call(bound, &mut buffer)
        });
    });
}

/// The methods of translated modules.
fn typed(group: &mut BenchmarkGroup<'_, WallTime>) {
    let device = Device::create("local-sync").unwrap();
    let builder = Session::builder().shared_device(device.clone()).module(native_import::module());
    let module = vm_benchmark::Module::load_with(builder).unwrap();
    group.bench_function(BenchmarkId::new("empty", "typed"), |bencher| bencher.iter(|| black_box(&module).empty()));
    // Calls another module, which needs a stack.
    group.bench_function(BenchmarkId::new("20_imported_calls", "typed"), |bencher| {
        bencher.iter(|| black_box(&module).call_imported(black_box(41)));
    });

    let module = native_import::Module::load(&device).unwrap();
    assert_eq!(module.add_1(41).unwrap(), 42);
    group.bench_function(BenchmarkId::new("scalar", "typed"), |bencher| {
        bencher.iter(|| black_box(&module).add_1(black_box(41)));
    });

    let module = calls::Module::load(&device).unwrap();
    group.bench_function(BenchmarkId::new("eight", "typed"), |bencher| {
        bencher.iter(|| black_box(&module).eight(black_box(7), black_box(9)));
    });

    let module = simple_mul::Module::load(&device).unwrap();
    let inputs = [[1.0f32, 2.0, 3.0, 4.0], [2.0; 4]];
    let on_device = inputs.map(|input| Tensor::new(module.session(), &[4], &input).unwrap());
    let product = module.simple_mul(&on_device[0], &on_device[1]).unwrap();
    assert_eq!(product.to_vec().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    group.bench_function(BenchmarkId::new("tensor", "typed"), |bencher| {
        bencher.iter(|| module.simple_mul(&on_device[0], &on_device[1]));
    });
    group.bench_function(BenchmarkId::new("tensor", "typed-with-copies"), |bencher| {
        bencher.iter(|| {
            let [a, b] = black_box(&inputs);
            module.simple_mul(a, b).and_then(|product| product.to_vec())
        });
    });
}

fn invoke(criterion: &mut Criterion) {
    let modes = [
        Modules {
            mode: "interpreted",
            empty: interpreted("vm/vm.vmfb"),
            scalar: interpreted("native_import_module/vm.vmfb"),
            eight: interpreted("calls/vm.vmfb"),
            tensor: interpreted("simple_mul/llvm-cpu.vmfb"),
        },
        Modules {
            mode: "translated",
            empty: vm_benchmark::module(),
            scalar: native_import::module(),
            eight: calls::module(),
            tensor: simple_mul::module(),
        },
    ];
    let mut group = criterion.benchmark_group("invoke");
    for modules in &modes {
        empty(&mut group, modules);
        scalar(&mut group, modules);
        eight(&mut group, modules);
        tensor(&mut group, modules);
    }
    typed(&mut group);
    group.finish();
}

criterion_group!(benches, invoke);
criterion_main!(benches);
