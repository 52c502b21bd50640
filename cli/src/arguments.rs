//! The groups of flags that several commands take. Their names are those of iree-run-module and iree-benchmark-module.

use std::convert::Infallible;
#[cfg(feature = "cli")]
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use incarnate_runtime::hal::format::Equality;
use incarnate_runtime::parameters::FileAccess;
use incarnate_runtime::vm::{GivenLimits, Limits, parse_byte_size};
#[cfg(feature = "cli")]
use incarnate_translator::Prefer;

#[cfg(feature = "cli")]
use super::models::CompilerArguments;
#[cfg(feature = "cli")]
use super::static_library::StaticLibraryFile;

/// The maximum number of workers of a local-task device.
const MAXIMUM_WORKERS: i64 = incarnate_runtime::hal::local::engine::MAXIMUM_WORKERS as i64;

/// The flag that names modules, and those that print information instead of running the command.
#[cfg(feature = "cli")]
const MODULES_OR_LISTS: [&str; 4] = ["module", "list_drivers", "list_devices", "dump_devices"];

/// A command on module files.
#[cfg(feature = "cli")]
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct OfFiles<A: Args> {
    /// A module file, or a model to compile (.onnx, .gguf, .mlir, .mlirbc, a folder of Hugging Face). Modules that others import from
    /// come first, the one to run last.
    #[arg(value_name = "FILE", required_unless_present_any = MODULES_OR_LISTS)]
    pub(super) files: Vec<PathBuf>,
    /// A module file before those without a flag, as IREE's tools take it.
    #[arg(long, value_name = "FILE")]
    pub(super) module: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) compiler: CompilerArguments,
    #[command(flatten)]
    pub(super) arguments: A,
}

#[cfg(feature = "cli")]
impl<A: Args> OfFiles<A> {
    /// Adds the files without a flag to the modules; returns all modules, the main one last.
    pub(super) fn all_modules(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.module.extend(self.files.iter().cloned());
        self.module.iter_mut()
    }
}

/// The only module file of a command.
#[cfg(feature = "cli")]
#[derive(Debug, Args)]
pub(super) struct ModuleFile {
    /// The module file, or a model to compile (.onnx, .gguf, .mlir, .mlirbc, a folder of Hugging Face).
    #[arg(value_name = "FILE", required_unless_present = "module")]
    file: Option<PathBuf>,
    /// The same, as IREE's tools take it.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    module: Option<PathBuf>,
}

#[cfg(feature = "cli")]
impl ModuleFile {
    /// Returns the path, to put that of a compiled model in its place.
    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        self.module.as_mut().or(self.file.as_mut())
    }
}

#[cfg(feature = "cli")]
impl core::ops::Deref for ModuleFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.module.as_ref().or(self.file.as_ref()).map_or(Path::new(""), PathBuf::as_path)
    }
}

/// Options for building programs.
#[cfg(feature = "cli")]
#[derive(Clone, Debug, Args)]
pub(super) struct ProjectArguments {
    /// The target CPU of the program, one of `rustc --print target-cpus`; by default this host's.
    #[arg(long, value_name = "NAME", default_value = "host", help_heading = "Programs")]
    pub(super) target_cpu: String,
    /// The executables to use of a module that contains several formats: native or portable.
    #[arg(long, value_name = "KIND", default_value = "native", help_heading = "Programs")]
    pub(super) prefer: Prefer,
    /// An object file of kernels to link (--iree-llvmcpu-static-library-output-path=), for modules of the format
    /// static, and the symbols of its query functions; by default all query functions that it contains.
    #[arg(long, value_name = "OBJECT[=SYMBOL,...]", help_heading = "Programs")]
    pub(super) static_library: Vec<StaticLibraryFile>,
    /// A feature of the crate incarnate that the program has, such as vulkan, which --target=vulkan implies. May be repeated.
    #[arg(long, value_name = "NAME", value_parser = feature_name, help_heading = "Programs")]
    pub(super) feature: Vec<String>,
    /// The workspace of Incarnate to build programs with, also as INCARNATE_SOURCE; by default the one that this
    /// command was built from, or the registry.
    #[arg(long, value_name = "FOLDER", help_heading = "Programs")]
    pub(super) incarnate_source: Option<PathBuf>,
}

/// Reads the name of a feature, which becomes part of a manifest.
#[cfg(feature = "cli")]
fn feature_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_name.then(|| text.to_owned()).ok_or_else(|| "not the name of a feature".to_owned())
}

/// The devices that a program runs on, and its parameters and limits.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ProgramArguments {
    /// A device to run on, such as local-sync or local-task://?workers=4. Repeat it for programs of several devices;
    /// the first one is the default.
    #[arg(long, value_name = "URI")]
    pub(super) device: Vec<String>,
    /// Print the device drivers and exit.
    #[arg(long, help_heading = "Devices")]
    pub(super) list_drivers: bool,
    /// Print the URIs of all devices, or of a driver's, and exit.
    #[arg(long, value_name = "DRIVER", num_args = 0..=1, require_equals = true, help_heading = "Devices")]
    pub(super) list_devices: Option<Option<String>>,
    /// Print the properties of all devices, or of a driver's, and exit.
    #[arg(long, value_name = "DRIVER", num_args = 0..=1, require_equals = true, help_heading = "Devices")]
    pub(super) dump_devices: Option<Option<String>>,
    /// A plugin with functions that kernels import: a system library, or an embedded ELF (.sos, or embedded: before the
    /// path). The last one takes precedence.
    #[arg(long, value_name = "FILE")]
    pub(super) executable_plugin: Vec<String>,
    /// Keep the files of system-library executables in this folder, so that profilers and debuggers find their symbols.
    #[cfg(feature = "cli")]
    #[arg(long, value_name = "FOLDER", conflicts_with = "untrusted")]
    pub(super) keep_libraries: Option<PathBuf>,
    /// Number of local-task threads, including the calling one; by default one for each physical core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAXIMUM_WORKERS))]
    pub(super) task_topology_group_count: Option<u32>,
    /// Microseconds that an idle local-task thread polls before it sleeps.
    #[arg(long, value_name = "N")]
    pub(super) task_worker_spin_us: Option<u32>,
    /// Pin each worker of local-task to a core.
    #[arg(long)]
    pub(super) task_pin_workers: bool,
    /// A parameter file (.irpa, .safetensors, .gguf, .npy, .npz; .bin for any bytes), with the scope that the model
    /// reads it under.
    #[arg(long, value_name = "[SCOPE=]FILE")]
    pub(super) parameters: Vec<ScopedFile>,
    /// How to open parameter files.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ParameterMode::File)]
    pub(super) parameter_mode: ParameterMode,
    /// Reject machine code and limit memory, objects, steps and time: for untrusted modules. Programs of translated
    /// modules count steps if `build` ran with --untrusted, too.
    #[arg(long)]
    pub(super) untrusted: bool,
    /// Let interpreted code compute float reductions in another order than that of the bytecode: sums along adjacent elements in
    /// partial sums, for example. Results may differ by rounding, and are the same on every processor, and in programs that
    /// `build` wrote with --reassociate.
    #[cfg(feature = "cli")]
    #[arg(long)]
    pub(super) reassociate: bool,
    /// Steps of a call, with the kernels that are bytecode: branches, calls, and 64 bytes that an instruction or a native
    /// function processes. 0 for no limit; by default 10^9 with --untrusted.
    #[arg(long, value_name = "STEPS")]
    pub(super) fuel: Option<u64>,
    /// The longest time of a call, with its waits and its kernels. 0 for no limit; by default 30 with --untrusted.
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    pub(super) timeout: Option<f64>,
    /// Bytes that the program may hold, on the device and elsewhere, such as 512MiB or 10MB. 0 for no limit; by default 1 GiB with
    /// --untrusted.
    #[arg(long, value_name = "BYTES", value_parser = byte_size)]
    pub(super) memory_limit: Option<u64>,
    /// Objects, such as buffers, lists and fences, that the program may hold. 0 for no limit; by default 1,000,000 with
    /// --untrusted.
    #[arg(long, value_name = "NUMBER")]
    pub(super) object_limit: Option<u64>,
}

impl ProgramArguments {
    /// Returns the limits of the program.
    pub(super) fn limits(&self) -> Limits {
        let given = GivenLimits {
            bytes: self.memory_limit,
            objects: self.object_limit,
            fuel: self.fuel,
            timeout: self.timeout.map(Duration::from_secs_f64),
        };
        given.limits(self.untrusted)
    }
}

/// Parses a size in bytes.
pub(super) fn byte_size(text: &str) -> Result<u64, String> {
    parse_byte_size(text).map_err(|error| error.message().to_owned())
}

/// Parses a time in seconds: a number that is not negative, and small enough for the clock.
fn timeout(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(_) => Ok(seconds),
        Err(error) => Err(format!("`{text}` seconds: {error}")),
    }
}

/// A parameter file and its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopedFile {
    /// Empty for programs that name no scope.
    pub(super) scope: String,
    pub(super) path: PathBuf,
}

impl FromStr for ScopedFile {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<ScopedFile, Infallible> {
        let (scope, path) = text.split_once('=').unwrap_or(("", text));
        Ok(ScopedFile { scope: scope.to_owned(), path: path.into() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ParameterMode {
    /// Map the files and read pages at their first use.
    File,
    /// Read the files into memory at once.
    Preload,
    /// Map the files and let the program write to them.
    Write,
}

impl ParameterMode {
    pub(super) fn access(self) -> FileAccess {
        match self {
            ParameterMode::File => FileAccess::Map,
            ParameterMode::Preload => FileAccess::Read,
            ParameterMode::Write => FileAccess::Write,
        }
    }
}

/// A call of a function, and the destinations of its results.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct CallArguments {
    #[command(flatten)]
    pub(super) program: ProgramArguments,
    /// The exported function; optional if the module exports only one.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// An argument: 2x2xf32=[1 2][3 4], f32=2, 5, 4xf32=@raw.bin, @array.npy, +array.npy (the next array of the same file),
    /// *arrays.npy (all of them), &4xf32 (storage), (null). NAME=VALUE is the input of that name, after those without one.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) input: Vec<String>,
    /// The expected value of a result, in the form of an input, in order or by name; (ignored) for any.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) expected_output: Vec<String>,
    #[command(flatten)]
    pub(super) equality: EqualityArguments,
    /// Report the time of each function and dispatch: as a table, or to a file as a trace for Perfetto
    /// (https://ui.perfetto.dev) or chrome://tracing. The first call, which takes longer, is not in it: `run` calls the function a
    /// second time, after its results are shown.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub(super) profile: Option<Option<PathBuf>>,
}

/// The equality of results.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct EqualityArguments {
    /// Compare floats with a tolerance.
    #[arg(long, value_enum, default_value_t = EqualityMode::Approximate, help_heading = "Comparison")]
    equality_mode: EqualityMode,
    /// Absolute tolerance of f16.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.001, help_heading = "Comparison")]
    expected_f16_threshold: f32,
    /// Absolute tolerance of bf16.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.01, help_heading = "Comparison")]
    expected_bf16_threshold: f32,
    /// Absolute tolerance of f32.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0001, help_heading = "Comparison")]
    expected_f32_threshold: f32,
    /// Absolute tolerance of f64.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0001, help_heading = "Comparison")]
    expected_f64_threshold: f64,
    /// Tolerance of floats relative to the expected value.
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-5, help_heading = "Comparison")]
    expected_rtol: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EqualityMode {
    Approximate,
    Exact,
}

impl EqualityArguments {
    pub(super) fn equality(&self) -> Equality {
        match self.equality_mode {
            EqualityMode::Exact => Equality::Exact,
            EqualityMode::Approximate => Equality::Approximate {
                f16: f64::from(self.expected_f16_threshold),
                bf16: f64::from(self.expected_bf16_threshold),
                f32: f64::from(self.expected_f32_threshold),
                f64: self.expected_f64_threshold,
                relative: self.expected_rtol,
            },
        }
    }
}
