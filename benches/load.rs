//! Opens and verifies each module of tests/models, from memory.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has no caller to tell")]

mod support;

use std::fs;

use criterion::{Criterion, criterion_group, criterion_main};

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    for folder in fs::read_dir(support::models()).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        let files = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "vmfb")) {
            let contents = support::read(&path);
            let name = format!("{}-{}", folder.file_name().display(), path.file_stem().unwrap_or_default().display());
            group.bench_function(name, |bencher| bencher.iter(|| support::verify(&contents)));
        }
    }
    group.finish();
}

criterion_group!(benches, load);
criterion_main!(benches);
