//! Warm calls: of every model of tests/models (group `models`), and what a call costs beside the model's own work
//! (group `invoke`). Each model's heaviest case that is one call and succeeds is measured, on the default device.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot begin has no caller to tell")]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use support::cases::{self, Call, Case};
use support::program::Instance;
use support::value::Value;

fn weight(call: &Call) -> usize {
    let values = call.inputs.iter().chain(&call.expected);
    values.map(|value| if let Value::Tensor(tensor) = value { tensor.bytes.len() } else { 0 }).sum()
}

fn heaviest(cases: &[Case]) -> Option<&Case> {
    let single = cases.iter().filter(|case| case.calls.len() == 1 && case.calls[0].fails.is_none());
    single.max_by_key(|case| weight(&case.calls[0]))
}

fn models(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("models");
    for model in cases::models() {
        let Some(case) = heaviest(&model.cases) else { continue };
        for variant in &model.variants {
            let name = format!(
                "{}-{}",
                model.folder.file_name().unwrap_or_default().display(),
                variant.file_stem().unwrap_or_default().display()
            );
            let files = case.modules.iter().chain([variant]).map(AsRef::as_ref);
            let instance = Instance::load(files, "").expect("the model");
            let mut call = instance.prepare(&case.calls[0].function, &case.calls[0].inputs).expect("arguments");
            group.bench_function(name, |bencher| bencher.iter(|| call.invoke()));
        }
    }
    group.finish();
}

fn invoke(criterion: &mut Criterion) {
    let folder = cases::root().join("simple_mul");
    let model = Instance::load([folder.join("llvm-cpu.vmfb").as_path()].into_iter(), "").expect("the model");
    let inputs = [Value::parse(&folder, "4xf32=1,2,3,4"), Value::parse(&folder, "4xf32=2")];
    let mut group = criterion.benchmark_group("invoke");
    let mut call = model.prepare("simple_mul", &inputs).expect("arguments");
    group.bench_function("arguments_on_device", |bencher| bencher.iter(|| call.invoke()));
    group.bench_function("upload_call_download", |bencher| bencher.iter(|| model.call("simple_mul", &inputs)));
    group.finish();
}

criterion_group!(benches, models, invoke);
criterion_main!(benches);
