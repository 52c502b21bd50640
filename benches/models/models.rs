//! Warm calls of every model of tests/models, interpreted and translated: each model's heaviest successful case with a
//! single call, on the default device. The build script of tests/translated translates the models.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot begin has no caller to tell")]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use incarnate_runtime::Result;
use incarnate_runtime::hal::local::Loaders;
use incarnate_translated_tests::MODULES;
use support::cases::{self, Call, Case};
use support::program::{Instance, Machine};
use support::value::Value;

type Loader = fn(&[PathBuf], &Machine) -> Result<Instance>;

fn weight(call: &Call) -> usize {
    let values = call.inputs.iter().chain(&call.expected);
    values.map(|value| if let Value::Tensor(tensor) = value { tensor.bytes.len() } else { 0 }).sum()
}

fn heaviest(cases: &[Case]) -> Option<&Case> {
    let single = cases.iter().filter(|case| case.calls.len() == 1 && case.calls[0].fails.is_none());
    single.max_by_key(|case| weight(&case.calls[0]))
}

/// Loads module files for interpretation.
fn interpreted(files: &[PathBuf], machine: &Machine) -> Result<Instance> {
    Instance::load(files.iter().map(PathBuf::as_path), machine)
}

/// Loads the translations of module files.
fn translated(files: &[PathBuf], machine: &Machine) -> Result<Instance> {
    let folder = cases::root().canonicalize().expect("tests/models");
    Instance::load_with(files.iter().map(PathBuf::as_path), machine, Loaders::all(), &|file| {
        let file = file.canonicalize().expect("a model");
        let key = file.strip_prefix(&folder).expect("a file of tests/models").display().to_string();
        let (_, module) = MODULES.iter().find(|(name, _)| *name == key).expect("the build script translates all");
        Ok(module())
    })
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
            let files: Vec<PathBuf> = case.modules.iter().chain([variant]).cloned().collect();
            let modes: [(&str, Loader); 2] = [("interpreted", interpreted), ("translated", translated)];
            for (mode, load) in modes {
                let instance = load(&files, &case.machine("")).expect("the model");
                let mut call = instance.prepare(&case.calls[0].function, &case.calls[0].inputs).expect("arguments");
                group.bench_function(BenchmarkId::new(&name, mode), |bencher| bencher.iter(|| call.invoke()));
            }
        }
    }
    group.finish();
}

criterion_group!(benches, models);
criterion_main!(benches);
