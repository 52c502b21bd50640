//! The programs of the compiler's package: how they are found, their environment, and how they are run.
//!
//! A program may run in another folder than this process, so that its path and the paths in its environment are absolute.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{self, Path, PathBuf};
use std::process::{Command, Output};

use incarnate_bytecode::Result;

use crate::file_error::failed;

/// Variables that change which libraries and packages a program loads.
pub(super) const LOADING: [&str; 6] =
    ["PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"];
/// Prefixes of variables that the compiler reads: its own, those of LLVM, and those of installations for GPUs.
pub(super) const PREFIXES: [&str; 7] = ["IREE_", "LLVM_", "MLIR_", "CUDA_", "ROCM_", "HIP_", "VULKAN_"];
/// Other variables that hold paths.
const PATHS: [&str; 4] = ["PATH", "TMPDIR", "TMP", "TEMP"];

/// Finds a program by its path, or by its name in `PATH`. Returns an absolute path.
pub(super) fn in_path(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    let found = if path.components().count() > 1 {
        Some(path.to_owned()).filter(|path| path.is_file())
    } else {
        let file = |folder: PathBuf| {
            let path = folder.join(program);
            let with_suffix = path.with_extension(env::consts::EXE_EXTENSION);
            [path, with_suffix].into_iter().find(|path| path.is_file())
        };
        env::split_paths(&env::var_os("PATH")?).find_map(file)
    };
    path::absolute(found?).ok()
}

/// Returns the variables of this process as the programs receive them.
pub(super) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().map(|(name, value)| {
        let value = if holds_paths(&name) { with_absolute_paths(&name, &value) } else { value };
        (name, value)
    })
}

/// Returns true for a variable that the programs read, and whose value is a path or a list of paths.
fn holds_paths(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_path = |prefix: &&str| name.starts_with(*prefix) && (name.ends_with("_PATH") || name.ends_with("_HOME"));
    PATHS.contains(&name) || LOADING.contains(&name) || PREFIXES.iter().any(is_path)
}

/// Makes the paths of a list absolute. The loader finds libraries without a slash by itself, whose list may have spaces for colons.
fn with_absolute_paths(name: &OsStr, value: &OsStr) -> OsString {
    let is_of_libraries = name == "LD_PRELOAD" || name == "DYLD_INSERT_LIBRARIES";
    if value.is_empty() || is_of_libraries && value.as_encoded_bytes().contains(&b' ') {
        return value.to_owned();
    }
    let absolute = |path: PathBuf| {
        if is_of_libraries && path.components().count() < 2 {
            return path;
        }
        // An empty item stands for the current folder.
        let item = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        path::absolute(item).unwrap_or(path)
    };
    env::join_paths(env::split_paths(value).map(absolute)).unwrap_or_else(|_| value.to_owned())
}

/// Returns a path that a program does not take for a flag.
pub(super) fn as_argument(path: &Path) -> PathBuf {
    let is_flag = path.as_os_str().as_encoded_bytes().starts_with(b"-");
    if is_flag { Path::new(".").join(path) } else { path.to_owned() }
}

/// Runs a program to its end.
pub(super) fn run(command: &mut Command) -> Result<Output> {
    let name = Path::new(command.get_program()).display().to_string();
    let paths = environment().filter(|(name, _)| holds_paths(name));
    command.envs(paths).output().map_err(|error| failed(&format!("running '{name}':"), &error))
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn paths_of_variables_are_absolute() {
        let here = env::current_dir().unwrap();
        let value = |name: &str, value: &str| {
            let name = OsStr::new(name);
            let value = if holds_paths(name) { with_absolute_paths(name, value.as_ref()) } else { value.into() };
            value.to_str().unwrap().replace(here.to_str().unwrap(), "HERE")
        };
        for (name, before, after) in [
            ("PATH", "venv/bin:/usr/bin:", "HERE/venv/bin:/usr/bin:HERE"),
            ("TMPDIR", "tmp", "HERE/tmp"),
            ("TMPDIR", "", ""),
            ("PYTHONPATH", "a:/b", "HERE/a:/b"),
            ("LD_PRELOAD", "liba.so:lib/b.so", "liba.so:HERE/lib/b.so"),
            ("LD_PRELOAD", "liba.so lib/b.so", "liba.so lib/b.so"),
            ("IREE_LLVM_EMBEDDED_LINKER_PATH", "lld", "HERE/lld"),
            ("IREE_FLAGS", "a:b", "a:b"),
            ("LANG", "C", "C"),
        ] {
            assert_eq!(value(name, before), after, "{name}");
        }
    }
}

/// Returns true if a file has one of several words. It is read in pieces.
///
/// # Errors
/// Errors of reading the file.
pub(super) fn contains_any(path: &Path, words: &[&[u8]]) -> io::Result<bool> {
    const PIECE: usize = 1 << 16;
    let longest = words.iter().map(|word| word.len()).max().unwrap_or(0);
    let starts: Vec<u8> = words.iter().filter_map(|word| word.first().copied()).collect();
    let mut file = File::open(path)?;
    // The end of the piece before, in which a word may begin, and the piece.
    let mut bytes: Vec<u8> = Vec::with_capacity(PIECE + longest);
    loop {
        let kept = bytes.len().min(longest.saturating_sub(1));
        bytes.drain(..bytes.len() - kept);
        if file.by_ref().take(PIECE as u64).read_to_end(&mut bytes)? == 0 {
            return Ok(false);
        }
        let is_word = |at: usize| words.iter().any(|word| bytes.get(at..at + word.len()) == Some(*word));
        if bytes.iter().enumerate().any(|(at, byte)| starts.contains(byte) && is_word(at)) {
            return Ok(true);
        }
    }
}
