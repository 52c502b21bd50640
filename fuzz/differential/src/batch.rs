//! Translates many programs into the sources of the package `incarnate-differential-batch`, compiles that, and runs it.
//!
//! Its `main` calls [`compare`], which generates the programs again from their seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use incarnate_runtime::bytecode::assemble;
use incarnate_runtime::bytecode::executable_format::{ARCHITECTURE, SYSTEM_PREFIX};
use incarnate_runtime::vm::Module;

use crate::deep;
use crate::generator::Program;
use crate::harness;
use crate::translate::{Make, Source, translate};

#[path = "../../../tests/support/native.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod native;

/// The outcome of a batch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Programs that were compiled and compared.
    pub compared: usize,
    /// Interpreted calls that returned.
    pub returned: usize,
    /// Interpreted calls that failed.
    pub failed: usize,
    /// Programs without an end, which were skipped.
    pub exhausted: usize,
    /// Failures, by seed.
    pub wrong: BTreeMap<u64, String>,
}

/// Compares the translated programs of some seeds with the interpreter; the batch's `main` calls it.
///
/// Prints `begin` before each program, then `same`, or `different` followed by an indented description.
pub fn compare(programs: &[(u64, Make)], library: Make) {
    std::panic::set_hook(Box::new(|_| {}));
    let skipped: BTreeSet<u64> = std::env::args().skip(1).filter_map(|seed| seed.parse().ok()).collect();
    let mut out = io::stdout().lock();
    for (seed, make) in programs.iter().filter(|(seed, _)| !skipped.contains(seed)) {
        let _ = writeln!(out, "begin {seed}");
        let _ = out.flush();
        let _ = match compare_one(*seed, *make, library) {
            Ok((returned, failed)) => writeln!(out, "same {seed} {returned} {failed}"),
            Err(text) => writeln!(out, "different {seed}\n{text}"),
        };
    }
}

/// Compares one program; returns the numbers of calls that returned and failed, or the difference.
fn compare_one(seed: u64, make: Make, library: Make) -> Result<(usize, usize), String> {
    let program = Program::new(seed, false);
    let interpreted = |module: &[u8]| harness::interpreted(module).map_err(|error| format!("    {error}\n"));
    let reassociated = || harness::interpreted_program(seed, &program.module).map_err(|error| format!("    {error}\n"));
    let library_file = harness::library().map_err(|error| format!("    {error}\n"))?;
    let expected = harness::run(reassociated()?, interpreted(&library_file)?, &program, true);
    let check = |name: &str, module: Arc<dyn Module>, library: Arc<dyn Module>| {
        let run = AssertUnwindSafe(|| harness::run(module, library, &program, false));
        let found = catch_unwind(run).map_err(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
            format!("    {name} panics: {}\n", text.unwrap_or_default())
        })?;
        harness::difference(&expected, &found).map_or(Ok(()), |text| Err(format!("    ({name})\n{text}")))
    };
    check("translated, with a translated library", make(), library())?;
    match seed % 4 {
        0 => check("translated, with an interpreted library", make(), interpreted(&library_file)?)?,
        1 => check("interpreted, with a translated library", reassociated()?, library())?,
        _ => {}
    }
    Ok((expected.returned, expected.failed))
}

/// The settings of batches.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// The folder of the programs' sources, in `src`, and of the linter's crate.
    pub folder: PathBuf,
    /// Optimisation level of the translated code.
    pub opt_level: u32,
}

impl Workshop {
    /// Generates, compiles and runs the programs of some seeds.
    ///
    /// # Errors
    /// Errors of writing and compiling the sources, and of running the package's program.
    pub fn batch(&self, seeds: impl Iterator<Item = u64>) -> io::Result<Report> {
        let mut report = Report::default();
        let mut programs = BTreeMap::new();
        for seed in seeds {
            match prepare(seed) {
                Ok(Some(source)) => drop(programs.insert(seed, source)),
                Ok(None) => report.exhausted += 1,
                Err(error) => drop(report.wrong.insert(seed, error)),
            }
        }
        let library = harness::library().map_err(|error| error.to_string());
        let library = library.and_then(|library| translate("library", &library, false)).map_err(io::Error::other)?;
        while !programs.is_empty() {
            self.write(&programs, &library)?;
            let errors = match self.compile()? {
                Ok(program) => {
                    self.run(&program, &mut report)?;
                    break;
                }
                Err(errors) => errors,
            };
            let broken: BTreeMap<u64, String> = errors_by_seed(&errors);
            if broken.is_empty() {
                return Err(io::Error::other(format!("the batch does not compile:\n{errors}")));
            }
            for (seed, error) in broken {
                programs.remove(&seed);
                report.wrong.insert(seed, error);
            }
        }
        Ok(report)
    }

    /// Writes the sources of the package.
    fn write(&self, programs: &BTreeMap<u64, Source>, library: &Source) -> io::Result<()> {
        let sources = self.sources()?;
        let mut main = String::from("mod library;\n");
        let mut table = String::new();
        library.write(&sources)?;
        for (seed, source) in programs {
            source.write(&sources)?;
            let _ = writeln!(main, "mod p{seed};");
            let _ = writeln!(table, "    ({seed}, || p{seed}::module()),");
        }
        let _ = write!(
            main,
            "\nfn main() {{\n    incarnate_differential::batch::compare(PROGRAMS, || library::module());\n}}\n\n\
            static PROGRAMS: &[(u64, incarnate_differential::translate::Make)] = &[\n{table}];\n"
        );
        std::fs::write(sources.join("batch.rs"), main)
    }

    /// Translates, compiles and runs the programs of [`deep`].
    ///
    /// # Errors
    /// Errors of writing and compiling the sources, and of running the package's program.
    pub fn deep(&self) -> io::Result<bool> {
        let sources = self.sources()?;
        let mut main = String::new();
        let mut table = String::new();
        for (name, text, _) in deep::programs() {
            let module = assemble(&text).map_err(io::Error::other)?;
            translate(name, &module, false).map_err(io::Error::other)?.write(&sources)?;
            let _ = writeln!(main, "mod {name};");
            let _ = write!(table, "(\"{name}\", || {name}::module()), ");
        }
        let _ = writeln!(main, "\nfn main() {{\n    incarnate_differential::deep::check(&[{table}]);\n}}");
        std::fs::write(sources.join("batch.rs"), main)?;
        let program = self.compile()?.map_err(io::Error::other)?;
        Ok(Command::new(program).status()?.success())
    }

    /// Translates the programs of some seeds, and module files, and tells whether the compiler and clippy have nothing to say
    /// about them, by their defaults, in both editions that programs are written in.
    ///
    /// # Errors
    /// What keeps the crate from being made; what the two say.
    pub fn lint(&self, seeds: impl Iterator<Item = u64>, models: &[PathBuf]) -> io::Result<usize> {
        let mut sources = Vec::new();
        for seed in seeds {
            let name = format!("p{seed}");
            let source = translate(&name, &Program::new(seed, false).module, harness::is_reassociated(seed))
                .map_err(io::Error::other)?;
            sources.push((name, source));
        }
        for (index, model) in models.iter().enumerate() {
            let name = format!("model_{index}");
            let module = std::fs::read(model)?;
            if let Some(formats) = native::foreign_formats(&module, ARCHITECTURE, SYSTEM_PREFIX) {
                println!("skipped: {} has kernels for {formats} only", model.display());
                continue;
            }
            let source = translate(&name, &module, index % 2 == 1);
            sources.push((name, source.map_err(|error| io::Error::other(format!("{}: {error}", model.display())))?));
        }
        for edition in ["2021", "2024"] {
            let folder = self.begin()?;
            let manifest = self.folder.join("Cargo.toml");
            let text = std::fs::read_to_string(&manifest)?;
            let text = text.replace("edition = \"2024\"", &format!("edition = \"{edition}\""));
            std::fs::write(manifest, text)?;
            // A program that uses little of what it includes, as programs do.
            let mut main = String::from("#![forbid(unsafe_code)]\n");
            let mut uses = String::new();
            for (name, source) in &sources {
                source.write(&folder)?;
                let _ = writeln!(main, "mod {name};");
                let _ = writeln!(uses, "    println!(\"{{:?}}\", {name}::module());");
            }
            let _ = writeln!(main, "\nfn main() {{\n{uses}}}");
            std::fs::write(folder.join("main.rs"), main)?;
            let mut clippy = self.cargo("clippy");
            let output = clippy.args(["--", "-Dwarnings"]).output()?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr);
                return Err(io::Error::other(format!("in edition {edition}:\n{text}")));
            }
        }
        Ok(sources.len())
    }

    /// Empties the folder of the programs' sources, and returns it.
    fn sources(&self) -> io::Result<PathBuf> {
        let sources = self.folder.join("src");
        let _ = std::fs::remove_dir_all(&sources);
        std::fs::create_dir_all(&sources)?;
        Ok(sources)
    }

    /// Creates a crate of its own for the linter, which has an edition, and returns the folder of its sources.
    fn begin(&self) -> io::Result<PathBuf> {
        let sources = self.sources()?;
        let here = env!("CARGO_MANIFEST_DIR");
        std::fs::write(
            self.folder.join("Cargo.toml"),
            format!(
                "[package]\nname = \"batch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
                incarnate-differential = {{ path = \"{here}\" }}\n\
                incarnate = {{ path = \"{here}/../..\", default-features = false }}\n\
                [profile.dev]\nopt-level = 0\ndebug = false\nincremental = false\n"
            ),
        )?;
        let lock = Path::new(here).join("../../Cargo.lock");
        if !self.folder.join("Cargo.lock").exists() && lock.exists() {
            std::fs::copy(lock, self.folder.join("Cargo.lock"))?;
        }
        Ok(sources)
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.folder).arg(command).arg("--quiet").arg("--offline");
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
        cargo
    }

    /// Compiles the programs with the workspace's runtime, and returns the path of their program; the compiler's messages where that
    /// fails.
    fn compile(&self) -> io::Result<Result<PathBuf, String>> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["test", "--quiet", "--offline", "--locked", "--no-run"]);
        // The features of the workspace's tests, which have compiled the runtime.
        cargo.args(["--workspace", "--test=programs", "--message-format=json-render-diagnostics"]);
        cargo.args([
            "--config",
            &format!("profile.dev.package.incarnate-differential-batch.opt-level={}", self.opt_level),
        ]);
        let output = cargo.env("INCARNATE_BATCH", self.folder.join("src")).output()?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let program = messages.lines().rev().find_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next());
        program.map(|path| Ok(path.into())).ok_or_else(|| io::Error::other("cargo names no program"))
    }

    /// Runs the package's program as often as it takes, as a program that crashes ends the process.
    fn run(&self, program: &Path, report: &mut Report) -> io::Result<()> {
        let mut done: BTreeSet<u64> = BTreeSet::new();
        loop {
            let output =
                Command::new(program).args(done.iter().map(u64::to_string)).env("RUST_BACKTRACE", "0").output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let mut running = None;
            for line in text.lines() {
                let mut words = line.split(' ');
                let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
                if let Some(rest) = line.strip_prefix("begin ") {
                    running = rest.parse().ok();
                    done.extend(running);
                } else if line.starts_with("same ") {
                    let (_, _, returned, failed) = (number(), number(), number(), number());
                    report.compared += 1;
                    report.returned += returned.unwrap_or(0) as usize;
                    report.failed += failed.unwrap_or(0) as usize;
                    running = None;
                } else if let Some(seed) = line.strip_prefix("different ").and_then(|rest| rest.parse().ok()) {
                    report.wrong.insert(seed, String::new());
                    report.compared += 1;
                    running = None;
                } else if let Some(seed) = done.last().copied()
                    && let Some(difference) = report.wrong.get_mut(&seed)
                {
                    let _ = writeln!(difference, "{line}");
                }
            }
            if output.status.success() {
                return Ok(());
            }
            let Some(seed) = running else {
                return Err(io::Error::other(format!("the batch's program fails: {}", output.status)));
            };
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            report.wrong.insert(seed, format!("    crashes: {} {stderr}\n", output.status));
        }
    }
}

/// Returns the translated source of a seed's program; None if it does not end.
fn prepare(seed: u64) -> Result<Option<Source>, String> {
    let program = Program::new(seed, false);
    let interpreted = |module: &[u8]| harness::interpreted(module).map_err(|error| format!("    {error}\n"));
    let reassociated = || harness::interpreted_program(seed, &program.module).map_err(|error| format!("    {error}\n"));
    let library = harness::library().map_err(|error| error.to_string())?;
    if harness::run(reassociated()?, interpreted(&library)?, &program, true).exhausted {
        return Ok(None);
    }
    let name = format!("p{seed}");
    match catch_unwind(|| translate(&name, &program.module, harness::is_reassociated(seed))) {
        Ok(result) => result.map(Some),
        Err(_) => Err("    the translator panics\n".to_owned()),
    }
}

/// Returns the compiler's errors, by program.
fn errors_by_seed(errors: &str) -> BTreeMap<u64, String> {
    let mut by_seed: BTreeMap<u64, String> = BTreeMap::new();
    // Sources are included by their absolute paths: `--> /tmp/batch/src/p5.rs:10:3`.
    let seed_in = |line: &str| {
        let (_, path) = line.split_once("--> ")?;
        path.rsplit_once("/src/p")?.1.split(['.', '/']).next()?.parse().ok()
    };
    for error in errors.split("\n\n") {
        if let Some(seed) = error.lines().find_map(seed_in)
            && error.contains("error")
        {
            by_seed.entry(seed).or_insert_with(|| format!("    does not compile:\n{error}\n"));
        }
    }
    by_seed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form in which rustc names the sources of a program that is included by its path.
    const ERRORS: &str = "\
error[E0308]: mismatched types
  --> /batch/src/p5.rs:10:18
   |
10 |     let x: i32 = \"\";
   |            ---   ^^ expected `i32`, found `&str`
   |            |
   |            expected due to this

warning: unused variable: `y`
 --> /batch/src/p6.rs:1:5

error[E0425]: cannot find value `z` in this scope
 --> /batch/src/p70.chunks/0.rs:2:3
  |
2 |   z
  |   ^ not found in this scope

error: aborting due to 2 previous errors; 1 warning emitted
";

    #[test]
    fn errors_belong_to_the_programs_of_their_paths() {
        let found = errors_by_seed(ERRORS);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [5, 70]);
        assert!(found.values().all(|error| error.starts_with("    does not compile:\nerror[")), "{found:?}");
    }
}
