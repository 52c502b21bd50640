//! Generates `generated/src` from `schemas/*.fbs` with the flatc that matches the runtime's `flatbuffers` crate.
//!
//! `cargo run --manifest-path schemas/regenerate/Cargo.toml` rewrites the files; with `-- --check` nothing is written,
//! and the exit status is 1 if a file differs from flatc's output.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

fn main() -> ExitCode {
    let check = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("usage: regenerate [--check]");
            return ExitCode::from(2);
        }
    };
    match run(check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("regenerate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if the checked-in files equal flatc's output; writes them first, unless `check`.
fn run(check: bool) -> io::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = tempfile::tempdir()?;
    compare_all(&root, scratch.path(), check)
}

fn compare_all(root: &Path, scratch: &Path, check: bool) -> io::Result<bool> {
    let mut in_step = true;
    for schema in schemas(&root.join("schemas"))? {
        let status = Command::new(flatc_fork::flatc())
            .args(["--rust", "--filename-suffix", "", "-o"])
            .arg(scratch)
            .arg(&schema)
            .status()?;
        if !status.success() {
            return Err(io::Error::other(format!("flatc failed on {}", schema.display())));
        }
        let name = schema.with_extension("rs");
        let name = name.file_name().ok_or_else(|| io::Error::other("schema without a file name"))?;
        let made = fs::read_to_string(scratch.join(name))?;
        let target = root.join("generated/src").join(name);
        if fs::read_to_string(&target).ok().as_deref() == Some(&made) {
            continue;
        }
        if check {
            eprintln!("{} is not what flatc makes of {}", target.display(), schema.display());
            in_step = false;
        } else {
            fs::write(&target, made)?;
        }
    }
    Ok(in_step)
}

fn schemas(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "fbs"));
    files.sort();
    Ok(files)
}
