//! The managed environment: a Python environment with the compiler, in the user's cache.
//!
//! Each set-up creates a folder of its own. When the compiler in it answers, the file `environment` is renamed into place, which
//! names the folder and the packages: an environment that is not complete is never found.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use incarnate_bytecode::{Error, Result};
use tempfile::{Builder, NamedTempFile};

use super::process::{in_path, run};
use super::{PROGRAM, cache_folder, with_path};

/// The packages from PyPI that are installed.
pub const PACKAGES: [&str; 1] = ["iree-base-compiler==3.13.0"];

/// The folder of programs in a Python environment.
const PROGRAMS: &str = if cfg!(windows) { "Scripts" } else { "bin" };

/// Returns the compiler of the managed environment, if there is one.
pub(super) fn compiler() -> Option<PathBuf> {
    let record = fs::read_to_string(record(&cache_folder().ok()?)).ok()?;
    compiler_in(Path::new(record.lines().nth(1)?))
}

/// Creates the managed environment, unless it is there: returns its compiler. `say` receives a line before each step.
///
/// # Errors
/// NOT_FOUND without Python; UNAVAILABLE if a step fails, with its last message; errors of writing to the cache.
pub fn set_up(mut say: impl FnMut(&str)) -> Result<PathBuf> {
    let cache = cache_folder()?;
    let packages = PACKAGES.join(" ");
    let known = fs::read_to_string(record(&cache)).is_ok_and(|text| text.lines().next() == Some(packages.as_str()));
    if let Some(program) = compiler().filter(|_| known) {
        say(&format!("{packages}: installed, nothing to do"));
        return Ok(program);
    }
    let python = ["python3", "python"].iter().find_map(|name| in_path(OsStr::new(name)));
    let python = python.ok_or_else(|| {
        Error::not_found(
            "python3 is not in PATH: install Python 3.10 or later (https://www.python.org), then try again",
        )
    })?;
    with_path(fs::create_dir_all(&cache), "creating", &cache)?;
    let mut builder = Builder::new();
    builder.prefix("environment-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let incomplete = with_path(builder.tempdir_in(&cache), "writing to", &cache)?;
    let folder = incomplete.path().to_owned();
    let mut step = |text: String, command: &mut Command| {
        say(&text);
        let done = run(command)?;
        if done.status.success() {
            return Ok(());
        }
        let all = [done.stdout, done.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        let mut lines = all.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        // Both pip and Python say last what is wrong.
        let why = lines.find(|line| !line.starts_with("[notice]")).unwrap_or("no message");
        Err(Error::unavailable(format!("{text}: {why}")))
    };
    let create = format!("creating the environment '{}' with '{}'", folder.display(), python.display());
    step(create, Command::new(&python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let own_python = folder.join(PROGRAMS).join(format!("python{}", env::consts::EXE_SUFFIX));
    let mut install = Command::new(own_python);
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"]).args(PACKAGES);
    step(format!("installing {packages} from PyPI"), &mut install)?;
    let program =
        compiler_in(&folder).ok_or_else(|| Error::unavailable(format!("'{}' has no {PROGRAM}", folder.display())))?;
    step(format!("starting '{}'", program.display()), Command::new(&program).arg("--version"))?;
    publish(&cache, &format!("{packages}\n{}\n", folder.display()))?;
    // It is complete, and stays.
    let _ = incomplete.keep();
    Ok(program)
}

/// The file that names the environment.
fn record(cache: &Path) -> PathBuf {
    cache.join("environment")
}

/// Writes the record: a rename within a file system is atomic.
fn publish(cache: &Path, text: &str) -> Result<()> {
    let written = NamedTempFile::new_in(cache).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.persist(record(cache)).map(drop).map_err(|error| error.error)
    });
    with_path(written, "writing", &record(cache))
}

fn compiler_in(folder: &Path) -> Option<PathBuf> {
    let program = folder.join(PROGRAMS).join(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX));
    Some(program).filter(|program| program.is_file())
}
