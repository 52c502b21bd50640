//! Measures loading and full verification of module files: `cargo run --release --example verify_speed -- FILE...`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use incarnate_runtime::bytecode::{Archive, Module, VerifiedModule};
use incarnate_runtime::mapping::MappedFile;

fn main() -> ExitCode {
    let mut failed = false;
    for path in std::env::args().skip(1) {
        match measure(Path::new(&path)) {
            Ok(line) => println!("{path}: {line}"),
            Err(error) => {
                failed = true;
                println!("{path}: {error}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn measure(path: &Path) -> incarnate_runtime::Result<String> {
    let contents = Arc::new(MappedFile::contents(path)?);
    let module = VerifiedModule::load(contents.clone())?;
    let functions = module.function_count();
    let bytes: usize = (0..functions).filter_map(|ordinal| module.function(ordinal)).map(|f| f.bytecode.len()).sum();
    let instructions: usize = (0..functions).map(|ordinal| module.instructions(ordinal).count()).sum();
    let parse = best(|| Module::parse(Archive::new(contents.clone())?).map(drop))?;
    let load = best(|| VerifiedModule::load(contents.clone()).map(drop))?;
    Ok(format!(
        "{load:?} (tables {parse:?}) for {functions} functions, {instructions} instructions, {bytes} bytes of bytecode"
    ))
}

/// Returns the shortest time of many runs.
fn best(mut run: impl FnMut() -> incarnate_runtime::Result<()>) -> incarnate_runtime::Result<Duration> {
    let mut best = Duration::MAX;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}
