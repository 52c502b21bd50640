//! The machine that a program is built for: this host, or another one, for which cargo needs a standard library and a linker.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use incarnate_runtime::{Error, Result};
use incarnate_translator::compiler::Target;

/// The target of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramTarget {
    /// The name that Rust has for it; none for this host.
    triple: Option<String>,
    /// The CPU, if one is named.
    cpu: Option<String>,
    /// The architecture, as in `target_arch`.
    architecture: String,
    /// The end of a program's file name.
    suffix: String,
    /// The linker, unless it is cargo's own choice.
    linker: Option<PathBuf>,
}

impl ProgramTarget {
    /// This host, and its own CPU.
    pub(crate) fn host() -> ProgramTarget {
        ProgramTarget {
            triple: None,
            cpu: None,
            architecture: env::consts::ARCH.to_owned(),
            suffix: env::consts::EXE_SUFFIX.to_owned(),
            linker: None,
        }
    }

    /// The target of a program for the named CPU whose models are compiled for `models`, with the linker of the command line. A static
    /// program has the C library musl.
    ///
    /// # Errors
    /// Those of [`ProgramTarget::find`]; INVALID_ARGUMENT for what is no name of a CPU, for a linker without a target, and for a static program on a system other
    /// than Linux.
    pub(in super::super) fn of(
        models: Option<&Target>,
        named_cpu: &str,
        linker: Option<&Path>,
        is_static: bool,
    ) -> Result<ProgramTarget> {
        check_cpu(named_cpu)?;
        match (models, linker) {
            (Some(Target::Triple(triple, cpu)), linker) if is_static => {
                ProgramTarget::find(&with_musl(triple)?, cpu.as_deref(), linker)
            }
            (_, linker) if is_static => {
                let host = format!("{}-unknown-{}-gnu", env::consts::ARCH, env::consts::OS);
                ProgramTarget::find(&with_musl(&host)?, None, linker)
            }
            (Some(Target::Triple(triple, cpu)), linker) => ProgramTarget::find(triple, cpu.as_deref(), linker),
            (_, None) if named_cpu == "host" => Ok(ProgramTarget::host()),
            // With a target, cargo compiles build scripts for this host's CPU, where they run, and not for the named one.
            (_, None) => ProgramTarget::find(&host_triple()?, None, None),
            (_, Some(linker)) => Err(Error::invalid_argument(format!(
                "--linker={} is for programs for another machine: --target=TRIPLE names it",
                linker.display()
            ))),
        }
    }

    /// Another machine, with a linker that is named, or found in PATH where the host's linker does not do.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if rustc does not know the target; NOT_FOUND without rustc, a standard library or a linker.
    fn find(triple: &str, cpu: Option<&str>, linker: Option<&Path>) -> Result<ProgramTarget> {
        cpu.map_or(Ok(()), check_cpu)?;
        let Some(facts) = rustc(&["--print", "cfg", "--target", triple])? else {
            return Err(Error::invalid_argument(format!(
                "rustc knows no target `{triple}`: `rustc --print target-list` lists them"
            )));
        };
        let library = rustc(&["--print", "target-libdir", "--target", triple])?.unwrap_or_default();
        if !Path::new(library.trim()).is_dir() {
            return Err(Error::not_found(format!(
                "Rust's standard library for {triple} is not installed: `rustup target add {triple}`"
            )));
        }
        let architecture = fact(&facts, "target_arch").unwrap_or_default();
        let is_configured = env::var_os(linker_variable(triple)).is_some_and(|value| !value.is_empty());
        let is_foreign = fact(&facts, "target_os") == Some("linux") && architecture != env::consts::ARCH;
        let linker = match linker {
            // Cargo runs in another folder.
            Some(linker) if linker.components().count() > 1 => Some(std::path::absolute(linker)?),
            Some(linker) => Some(linker.to_owned()),
            None if is_foreign && !is_configured => Some(find_linker(triple)?),
            None => None,
        };
        let suffix = match (fact(&facts, "target_os"), fact(&facts, "target_family")) {
            (Some("windows"), _) => ".exe",
            (_, Some("wasm")) => ".wasm",
            _ => "",
        };
        Ok(ProgramTarget {
            triple: Some(triple.to_owned()),
            cpu: cpu.map(str::to_owned),
            architecture: architecture.to_owned(),
            suffix: suffix.to_owned(),
            linker,
        })
    }

    /// Returns the architecture, as in `target_arch`.
    pub(super) fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the CPU to compile for, of a command line that names `named`, or the host's where that is "host"; `None` for the
    /// oldest of another machine.
    pub(super) fn cpu<'a>(&'a self, named: &'a str) -> Option<&'a str> {
        match (named, &self.triple) {
            ("host", None) => Some("native"),
            ("host", Some(_)) => self.cpu.as_deref(),
            (named, _) => Some(named),
        }
    }

    /// Returns the compiler's flags for the CPU of a command line that names `named`.
    ///
    /// LLVM keeps to vectors of 256 bits for Intel's CPUs with AVX-512, as the first of these lower their clock for wider ones. So programs
    /// are tuned for x86-64-v3 there, and have the features of x86-64-v4: EfficientNet takes 0.91 to 0.93 of the time on a Xeon (Sapphire
    /// Rapids).
    ///
    /// Without rustc, nothing is known of the CPU, and cargo says that it is missing.
    pub(super) fn flags(&self, named: &str) -> Vec<String> {
        let Some(cpu) = self.cpu(named) else { return Vec::new() };
        let of_cpu = format!("-Ctarget-cpu={cpu}");
        if self.architecture == "x86_64" {
            let triple = self.triple.iter().flat_map(|triple| ["--target", triple]);
            let arguments: Vec<&str> = ["--print", "cfg", &of_cpu].into_iter().chain(triple).collect();
            let facts = rustc(&arguments).ok().flatten().unwrap_or_default();
            if has_x86_64_v4(&facts) && !is_tuned_for_512_bits(cpu) {
                let features: Vec<String> = X86_64_V4.iter().map(|feature| format!("+{feature}")).collect();
                return vec!["-Ctarget-cpu=x86-64-v3".into(), format!("-Ctarget-feature={}", features.join(","))];
            }
        }
        vec![of_cpu]
    }

    /// Returns where cargo writes a package's program, in a target folder.
    pub(super) fn program(&self, folder: &Path, package: &str) -> PathBuf {
        let folder = self.triple.as_ref().map_or_else(|| folder.to_owned(), |triple| folder.join(triple));
        folder.join("release").join(format!("{package}{}", self.suffix))
    }

    /// Tells a cargo command that compiles what it is to compile for.
    pub(super) fn apply(&self, cargo: &mut Command) {
        let Some(triple) = &self.triple else { return };
        cargo.arg("--target").arg(triple);
        if let Some(linker) = &self.linker {
            cargo.env(linker_variable(triple), linker);
        }
    }
}

/// Checks that a text may be the name of a CPU, which becomes part of the compiler's flags.
fn check_cpu(name: &str) -> Result<()> {
    match name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => Err(Error::invalid_argument(format!("'{name}' is not the name of a CPU"))),
        false => Ok(()),
    }
}

/// Returns the target of static programs for a Linux target.
///
/// # Errors
/// INVALID_ARGUMENT for another system.
fn with_musl(triple: &str) -> Result<String> {
    match triple.rsplit_once("-linux-") {
        Some((_, system)) if system.starts_with("musl") => Ok(triple.to_owned()),
        Some((machine, system)) if system.starts_with("gnu") => {
            Ok(format!("{machine}-linux-{}", system.replacen("gnu", "musl", 1)))
        }
        _ => Err(Error::invalid_argument(format!("--static is for programs for Linux, and not for {triple}"))),
    }
}

/// Returns the variable that names a target's linker to cargo.
fn linker_variable(triple: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace(['-', '.'], "_"))
}

/// Runs rustc; returns what it prints, and nothing if it fails.
fn rustc(arguments: &[&str]) -> Result<Option<String>> {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&program).args(arguments).output().map_err(|error| {
        Error::not_found(format!(
            "cannot run '{}' ({error}): programs are built by Rust's tools, see https://rustup.rs",
            program.display()
        ))
    })?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The features that x86-64-v4 has and x86-64-v3 has not.
const X86_64_V4: [&str; 5] = ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// Whether a CPU whose configuration rustc prints has all features of x86-64-v4.
fn has_x86_64_v4(facts: &str) -> bool {
    X86_64_V4.iter().all(|feature| facts.lines().any(|line| line == format!("target_feature=\"{feature}\"")))
}

/// Whether LLVM uses vectors of 512 bits where it compiles for a CPU with AVX-512: one of AMD's.
fn is_tuned_for_512_bits(cpu: &str) -> bool {
    let is_amd = |name: &str| name.starts_with("znver");
    if cpu != "native" {
        return is_amd(cpu);
    }
    let cpus = rustc(&["--print", "target-cpus"]).ok().flatten().unwrap_or_default();
    cpus.lines().filter_map(|line| line.split_once("(currently ")).any(|(_, name)| is_amd(name))
}

/// Returns the target that rustc compiles for by default.
///
/// # Errors
/// NOT_FOUND without rustc; INTERNAL if it does not name it.
fn host_triple() -> Result<String> {
    let version = rustc(&["--version", "--verbose"])?.unwrap_or_default();
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).ok_or_else(|| Error::internal("`rustc --version --verbose` names no host"))
}

/// Returns the value of a target's configuration.
fn fact<'a>(facts: &'a str, key: &str) -> Option<&'a str> {
    facts.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix("=\"")?.strip_suffix('"'))
}

/// Returns the names that GNU compilers have for a Linux target. Rust has its own start files for musl, so that a compiler for glibc
/// links such programs, too.
fn linkers(triple: &str) -> Vec<String> {
    let mut parts = triple.split('-');
    let (machine, system) = (parts.next().unwrap_or_default(), parts.next_back().unwrap_or_default());
    let machine = match machine {
        "riscv64gc" => "riscv64",
        arm if arm.starts_with("arm") && !arm.starts_with("arm64") => "arm",
        other => other,
    };
    let mut names = vec![format!("{machine}-linux-{system}-gcc")];
    if system.starts_with("musl") {
        names.push(format!("{machine}-linux-{}-gcc", system.replacen("musl", "gnu", 1)));
    }
    names
}

/// Finds a linker for a Linux target in PATH.
fn find_linker(triple: &str) -> Result<PathBuf> {
    let names = linkers(triple);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut files = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let package = names.last().and_then(|name| name.strip_suffix("-gcc")).unwrap_or_default();
        Error::not_found(format!(
            "no linker for {triple}: {} is not in PATH (Debian's package gcc-{package}); --linker names another one",
            names.join(" or ")
        ))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn compilers_have_their_own_names_of_targets() {
        assert_eq!(linkers("aarch64-unknown-linux-gnu"), ["aarch64-linux-gnu-gcc"]);
        assert_eq!(linkers("riscv64gc-unknown-linux-gnu"), ["riscv64-linux-gnu-gcc"]);
        assert_eq!(linkers("armv7-unknown-linux-gnueabihf"), ["arm-linux-gnueabihf-gcc"]);
        assert_eq!(linkers("aarch64-unknown-linux-musl"), ["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"]);
        assert_eq!(linker_variable("aarch64-unknown-linux-gnu"), "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
    }

    #[test]
    fn static_programs_have_musl() {
        assert_eq!(with_musl("x86_64-unknown-linux-gnu").unwrap(), "x86_64-unknown-linux-musl");
        assert_eq!(with_musl("armv7-unknown-linux-gnueabihf").unwrap(), "armv7-unknown-linux-musleabihf");
        assert_eq!(with_musl("aarch64-unknown-linux-musl").unwrap(), "aarch64-unknown-linux-musl");
        let error = with_musl("x86_64-pc-windows-gnu").unwrap_err().to_string();
        assert!(error.contains("--static is for programs for Linux"), "{error}");
    }

    #[test]
    fn facts_are_those_of_their_key() {
        let facts = "target_arch=\"aarch64\"\ntarget_os=\"linux\"\nunix\n";
        assert_eq!((fact(facts, "target_arch"), fact(facts, "target_os")), (Some("aarch64"), Some("linux")));
        assert_eq!((fact(facts, "unix"), fact(facts, "target")), (None, None));
    }

    #[test]
    fn the_host_has_its_own_cpu_and_other_machines_the_named_one() {
        let host = ProgramTarget::host();
        assert_eq!((host.cpu("host"), host.cpu("x")), (Some("native"), Some("x")));
        let other = ProgramTarget { triple: Some("a-b".to_owned()), cpu: Some("c".to_owned()), ..host.clone() };
        assert_eq!((other.cpu("host"), other.cpu("x")), (Some("c"), Some("x")));
        assert_eq!(other.program(Path::new("t"), "p").parent(), Some(Path::new("t/a-b/release")));
        let error = ProgramTarget::of(None, "host", Some(Path::new("ld")), false).unwrap_err();
        assert!(error.to_string().contains("--linker=ld is for programs for another machine"), "{error}");
        assert_eq!(ProgramTarget::of(Some(&Target::Portable), "host", None, false).unwrap(), host);
    }

    #[test]
    fn programs_for_other_cpus_of_the_host_are_those_of_its_triple() {
        // An emulator of Windows has no rustc.
        let Ok(host) = host_triple() else { return };
        let target = ProgramTarget::of(Some(&Target::Portable), "x86-64-v4", None, false).unwrap();
        assert_eq!((&target.triple, target.cpu("x86-64-v4")), (&Some(host.clone()), Some("x86-64-v4")));
        // In an emulator, the host of rustc is another machine than that of this program.
        if host.starts_with(std::env::consts::ARCH) {
            assert_eq!(ProgramTarget { triple: None, ..target }, ProgramTarget::host());
        }
    }

    #[test]
    fn programs_for_cpus_with_avx512_have_vectors_of_512_bits() {
        let x86_64 = ProgramTarget { architecture: "x86_64".to_owned(), triple: None, ..ProgramTarget::host() };
        let other = ProgramTarget { architecture: "aarch64".to_owned(), ..x86_64.clone() };
        assert_eq!(other.flags("x86-64-v4"), ["-Ctarget-cpu=x86-64-v4"]);
        if cfg!(target_arch = "x86_64") && host_triple().is_ok() {
            assert_eq!(x86_64.flags("x86-64-v3"), ["-Ctarget-cpu=x86-64-v3"]);
            assert_eq!(x86_64.flags("znver4"), ["-Ctarget-cpu=znver4"]);
            let features = "-Ctarget-feature=+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";
            for cpu in ["x86-64-v4", "sapphirerapids"] {
                assert_eq!(x86_64.flags(cpu), ["-Ctarget-cpu=x86-64-v3", features]);
            }
        }
    }
}
