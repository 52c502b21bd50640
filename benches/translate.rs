//! The translator's throughput (group `translate`, in bytes of bytecode per second), and rustc's on its output (group
//! `rustc`, in optimised lines per second). Also prints the lines, and rustc's seconds per thousand lines.
//!
//! rustc is measured by building a package in `target/translate-bench`, with and without a translated module, after its
//! dependencies have been built.
#![allow(missing_docs, reason = "criterion's macros make items without documentation")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has no caller to tell")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_translator::{Config, File, Options, generate};

/// The models' folders in tests/models, from small to large.
const MODULES: [(&str, &str); 5] = [
    ("simple_mul", "llvm-cpu.vmfb"),
    ("vm", "vm.vmfb"),
    ("scalars", "llvm-cpu.vmfb"),
    ("digits", "llvm-cpu.vmfb"),
    ("attention", "llvm-cpu.vmfb"),
];

/// The models whose translations are compiled.
const COMPILED: [&str; 2] = ["scalars", "attention"];

fn bytecode_bytes(module: &VerifiedModule) -> u64 {
    (0..module.function_count())
        .filter_map(|ordinal| module.function(ordinal))
        .map(|view| view.bytecode.len() as u64)
        .sum()
}

fn lines(files: &[File]) -> u64 {
    let sources = files.iter().filter(|file| file.path.extension().is_some_and(|extension| extension == "rs"));
    sources.map(|file| file.contents.iter().filter(|byte| **byte == b'\n').count() as u64).sum()
}

fn translate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("translate");
    for (folder, file) in MODULES {
        let module = support::verify(&support::read(&support::models().join(folder).join(file)));
        let bytes = bytecode_bytes(&module);
        let files = || generate(&module, &Options::default()).and_then(|output| output.files("translated"));
        println!("{folder}: {bytes} bytes of bytecode become {} lines", lines(&files().unwrap()));
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(folder, |bencher| bencher.iter(files));
    }
    group.finish();
}

/// A package that depends on `incarnate`, for compiling translated modules.
struct Package(PathBuf);

impl Package {
    fn new() -> Package {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = root.join("target/translate-bench");
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = format!(
            "[package]\nname = \"translated\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             incarnate = {{ path = {:?}, default-features = false }}\n\n[workspace]\n",
            root.display().to_string()
        );
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        Package(folder)
    }

    /// Builds the package with new sources; returns the time.
    fn build(&self, source: &str) -> Duration {
        fs::write(self.0.join("src/lib.rs"), source).unwrap();
        let start = Instant::now();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["build", "--release", "--quiet"])
            .current_dir(&self.0)
            .env("CARGO_TARGET_DIR", self.0.join("target"));
        assert!(command.status().unwrap().success());
        start.elapsed()
    }
}

fn rustc(criterion: &mut Criterion) {
    let package = Package::new();
    package.build("");
    let mut group = criterion.benchmark_group("rustc");
    group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(5));
    for (folder, file) in MODULES.iter().filter(|(folder, _)| COMPILED.contains(folder)) {
        let path = support::models().join(folder).join(file);
        let config = Config::new().out_dir(package.0.join("src")).module_name("module");
        let written = config.compile(&path).unwrap();
        let sources =
            written.files.iter().map(|(path, _)| path).filter(|path| path.extension().is_some_and(|e| e == "rs"));
        let lines: u64 = sources.map(|path| fs::read_to_string(path).unwrap().lines().count() as u64).sum();
        let mut least = Duration::MAX;
        let mut iteration = 0;
        group.throughput(Throughput::Elements(lines));
        group.bench_function(*folder, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    // A unique text, so that cargo rebuilds it.
                    iteration += 1;
                    let without = package.build(&format!("// {iteration}\n"));
                    let with = package.build(&format!("// {iteration}\npub mod module;\n"));
                    let spent = with.saturating_sub(without);
                    least = least.min(spent);
                    total += spent;
                }
                total.max(Duration::from_nanos(1))
            });
        });
        println!("{folder}: {lines} lines, {:.3} s a thousand", least.as_secs_f64() * 1e3 / lines as f64);
    }
    group.finish();
}

criterion_group!(benches, translate, rustc);
criterion_main!(benches);
