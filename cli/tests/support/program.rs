//! The command line as a process, also where tests of another architecture are emulated.

use std::env;
use std::path::PathBuf;
use std::process::Command;

#[path = "../../../tests/support/native.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
pub(crate) mod native;

/// Returns the command line, which runs as these tests do.
pub(crate) fn incarnate() -> Command {
    let mut words = runner().into_iter().chain([env!("CARGO_BIN_EXE_incarnate").into()]);
    let mut command = Command::new(words.next().expect("the program"));
    command.args(words);
    command
}

/// Returns the words with which cargo runs programs of this architecture: none where the processor does. The first one is a path,
/// because tests change PATH. Windows programs start each other without it, also where they are emulated.
fn runner() -> Vec<PathBuf> {
    if cfg!(windows) {
        return Vec::new();
    }
    let of_architecture = format!("CARGO_TARGET_{}", env::consts::ARCH.to_uppercase());
    let is_runner = |name: &str| name.starts_with(&of_architecture) && name.ends_with("_RUNNER");
    let Some((_, runner)) = env::vars().find(|(name, _)| is_runner(name)) else { return Vec::new() };
    let mut words: Vec<PathBuf> = runner.split_whitespace().map(PathBuf::from).collect();
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(first) = words.first_mut() {
        let mut files = env::split_paths(&path).map(|folder| folder.join(&first));
        *first = files.find(|file| file.is_file()).expect("the runner is in PATH");
    }
    words
}

/// Returns the arguments of a command that runs kernels with files for this architecture, in the place of machine code of tests/models
/// for x86-64; the arguments of other commands as they are.
#[allow(dead_code, reason = "other tests have no machine code")]
pub(crate) fn native_arguments(arguments: &[&str]) -> Vec<String> {
    let runs_kernels = matches!(arguments.first(), Some(&("run" | "bench" | "check")));
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let of_host = |argument: &&str| {
        let (flag, file) = argument
            .rsplit_once('=')
            .map_or(("", *argument), |(_, file)| argument.split_at(argument.len() - file.len()));
        let file_of_host = native::native(file);
        if runs_kernels && models.join(&file_of_host).is_file() {
            format!("{flag}{file_of_host}")
        } else {
            (*argument).to_owned()
        }
    };
    arguments.iter().map(of_host).collect()
}
