//! The flags of the command line. Their names are those of iree-run-module and iree-benchmark-module.

#[cfg(feature = "cli")]
mod translation;

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use incarnate_runtime::hal::format::Equality;
use incarnate_runtime::parameters::FileAccess;
#[cfg(feature = "cli")]
use incarnate_translator::Prefer;
use tracing_subscriber::filter::LevelFilter;

use super::bench::{MinTime, TimeUnit};
#[cfg(feature = "cli")]
use super::check::CheckArguments;
#[cfg(feature = "cli")]
use super::diff::DiffArguments;
#[cfg(feature = "cli")]
use super::examples;
#[cfg(feature = "cli")]
use super::manual::{CompletionsArguments, ManArguments};
#[cfg(feature = "cli")]
use super::parameters::ParametersArguments;
#[cfg(feature = "cli")]
pub(super) use translation::{AssembleArguments, BuildArguments, StaticLibraryFile, TranslateArguments};

/// The maximum number of workers of a local-task device.
const MAXIMUM_WORKERS: i64 = incarnate_runtime::hal::local::engine::MAXIMUM_WORKERS as i64;

/// Run, measure, check, inspect and translate models that the IREE compiler has compiled (.vmfb).
#[cfg(feature = "cli")]
#[derive(Debug, Parser)]
#[command(name = "incarnate", version, max_term_width = 120)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Write events of the runtime to standard error: error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log: Option<LevelFilter>,
}

#[cfg(feature = "cli")]
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Call a function and print, write or check its results.
    #[command(after_help = examples::RUN)]
    Run(OfFiles<RunArguments>),
    /// Measure how long calls of a function take.
    #[command(after_help = examples::BENCH)]
    Bench(BenchFiles),
    /// Run every exported function without arguments as a test; those named fail_* must fail.
    #[command(after_help = examples::CHECK)]
    Check(CheckArguments),
    /// Print the contents of a module.
    #[command(after_help = examples::DUMP)]
    Dump(DumpArguments),
    /// Write the Rust source of a module, and the files that it includes.
    #[command(after_help = examples::TRANSLATE)]
    Translate(TranslateArguments),
    /// Assemble a module file from text in the form of `dump --output=disassembly`.
    #[command(after_help = examples::ASSEMBLE)]
    Assemble(AssembleArguments),
    /// Print the differences between two modules.
    #[command(after_help = examples::DIFF)]
    Diff(DiffArguments),
    /// Print the completion script of a shell.
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all commands.
    #[command(after_help = examples::MAN)]
    Man(ManArguments),
    /// List, convert and create parameter archives.
    #[command(after_help = examples::PARAMETERS)]
    Parameters(ParametersArguments),
    /// Build a native program of translated modules, with the commands run, bench and check.
    #[command(after_help = examples::BUILD)]
    Build(BuildArguments),
}

#[cfg(feature = "cli")]
impl Command {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Command::Run(_) => "run",
            Command::Bench(_) => "bench",
            Command::Check(_) => "check",
            Command::Dump(_) => "dump",
            Command::Translate(_) => "translate",
            Command::Parameters(_) => "parameters",
            Command::Assemble(_) => "assemble",
            Command::Diff(_) => "diff",
            Command::Completions(_) => "completions",
            Command::Man(_) => "man",
            Command::Build(_) => "build",
        }
    }

    /// The target of the command's program, for commands that run one.
    pub(super) fn program(&self) -> Option<&ProgramArguments> {
        match self {
            Command::Run(of) => Some(&of.arguments.call.program),
            Command::Bench(bench) => Some(&bench.of.arguments.call.program),
            Command::Check(arguments) => Some(&arguments.program),
            _ => None,
        }
    }
}

/// The command line of a program with embedded modules.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120)]
pub(super) struct ProgramLine {
    #[command(subcommand)]
    pub(super) command: ProgramCommand,
    /// Write events of the runtime to standard error: error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log: Option<LevelFilter>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ProgramCommand {
    /// Call a function and print, write or check its results.
    Run(RunArguments),
    /// Measure how long calls of a function take.
    Bench(BenchArguments),
    /// Run every exported function without arguments as a test; those named fail_* must fail.
    Check(ProgramArguments),
}

impl ProgramCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ProgramCommand::Run(_) => "run",
            ProgramCommand::Bench(_) => "bench",
            ProgramCommand::Check(_) => "check",
        }
    }

    /// The target on which the program runs.
    pub(super) fn program(&self) -> &ProgramArguments {
        match self {
            ProgramCommand::Run(arguments) => &arguments.call.program,
            ProgramCommand::Bench(arguments) => &arguments.call.program,
            ProgramCommand::Check(arguments) => arguments,
        }
    }
}

/// Flags that print information instead of running the command.
#[cfg(feature = "cli")]
const LISTS: [&str; 3] = ["list_drivers", "list_devices", "dump_devices"];

/// A command on module files.
#[cfg(feature = "cli")]
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct OfFiles<A: Args> {
    /// A module file. Modules that others import from come first, the one to run last.
    #[arg(long, value_name = "FILE", required_unless_present_any = LISTS)]
    pub(super) module: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) arguments: A,
}

/// `bench` on module files.
#[cfg(feature = "cli")]
#[derive(Debug, Args)]
pub(super) struct BenchFiles {
    #[command(flatten)]
    pub(super) of: OfFiles<BenchArguments>,
    /// Also measure the translated module, and print both in one table.
    #[arg(long)]
    pub(super) compare: bool,
    /// Another build of the module, for example machine code beside VMVX; --compare measures it in further columns.
    #[arg(long, value_name = "FILE", requires = "compare")]
    pub(super) against: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) project: ProjectArguments,
}

/// Options for building programs.
#[cfg(feature = "cli")]
#[derive(Debug, Args)]
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
    /// The workspace of Incarnate to build programs with, also as INCARNATE_SOURCE; by default the one that this
    /// command was built from, or the registry.
    #[arg(long, value_name = "FOLDER", help_heading = "Programs")]
    pub(super) incarnate_source: Option<PathBuf>,
}

/// The default fuel: some seconds of a host program that only branches.
const DEFAULT_FUEL: u64 = 1 << 31;

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
    /// Reject machine code and limit memory, stack and fuel: for untrusted modules. Programs of translated modules
    /// count fuel if `build` ran with --untrusted, too.
    #[arg(long)]
    pub(super) untrusted: bool,
    /// Branches and calls of the host program in one invocation, so that an endless loop ends in an error; 0 for no
    /// limit.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_FUEL)]
    pub(super) fuel: u64,
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
    /// *arrays.npy (all of them), &4xf32 (storage), (null).
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) input: Vec<String>,
    /// The expected value of a result, in the form of an input; (ignored) for any.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) expected_output: Vec<String>,
    #[command(flatten)]
    pub(super) equality: EqualityArguments,
    /// Report the time of each function and dispatch: as a table, or to a file as a trace for Perfetto
    /// (https://ui.perfetto.dev) or chrome://tracing.
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

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct RunArguments {
    #[command(flatten)]
    pub(super) call: CallArguments,
    /// The destination of a result: - prints it, @FILE writes it, +FILE appends it (.npy files are arrays, others raw
    /// bytes), an empty text ignores it. By default all results are printed.
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) output: Vec<String>,
    /// Most elements of a tensor to print.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(super) output_max_element_count: usize,
}

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct BenchArguments {
    #[command(flatten)]
    pub(super) call: CallArguments,
    /// The minimum time of a repetition (0.5s), or its number of iterations (100x).
    #[arg(long, value_name = "TIME", default_value = "0.5s")]
    pub(super) benchmark_min_time: MinTime,
    /// Seconds to run the function before the measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub(super) benchmark_min_warmup_time: f64,
    /// Number of repetitions; with several, mean, median and deviation are reported, too.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) benchmark_repetitions: u32,
    /// Report only mean, median and deviation of several repetitions.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", default_value_t = false,
        action = clap::ArgAction::Set)]
    pub(super) benchmark_report_aggregates_only: bool,
    /// Format of the report on standard output.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ReportFormat::Console)]
    pub(super) benchmark_format: ReportFormat,
    /// Also write the report to this file.
    #[arg(long, value_name = "FILE")]
    pub(super) benchmark_out: Option<PathBuf>,
    /// Format of that file.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ReportFormat::Json)]
    pub(super) benchmark_out_format: ReportFormat,
    /// Unit of the reported times.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = TimeUnit::Ms, alias = "benchmark_time_unit")]
    pub(super) time_unit: TimeUnit,
    /// Calls in one iteration, for a function that repeats its work.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) batch_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    Console,
    Json,
    /// One line for each function: its name, a tab, the median in seconds.
    #[value(hide = true)]
    Rows,
}

#[cfg(feature = "cli")]
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpArguments {
    /// The module file.
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The output.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = DumpOutput::All)]
    pub(super) output: DumpOutput,
    /// Format of the graph.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = GraphFormat::Dot)]
    pub(super) graph_format: GraphFormat,
    /// Disassemble only this function, selected by name or ordinal.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
}

#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DumpOutput {
    Metadata,
    Disassembly,
    /// Both metadata and disassembly.
    All,
    /// The dispatches and transfers of command buffers, and the data flow between them.
    Graph,
}

#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum GraphFormat {
    /// For Graphviz: draw it with `dot -Tsvg`.
    Dot,
}

#[cfg(all(test, feature = "cli"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<CommandLine, clap::Error> {
        CommandLine::try_parse_from(std::iter::once(&"incarnate").chain(arguments))
    }

    #[test]
    fn the_definition_is_valid() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
        ProgramLine::command().debug_assert();
    }

    #[test]
    fn flags_take_their_values_either_way() {
        for arguments in [
            &["run", "--module=a.vmfb", "--module=b.vmfb", "--function=f", "--input=-5", "--expected_output=4xf32=1"][..],
            &[
                "run",
                "--module",
                "a.vmfb",
                "--module",
                "b.vmfb",
                "--function",
                "f",
                "--input",
                "-5",
                "--expected_output",
                "4xf32=1",
            ],
        ] {
            let Command::Run(run) = parse(arguments).unwrap().command else { unreachable!("run") };
            assert_eq!(run.module, [PathBuf::from("a.vmfb"), PathBuf::from("b.vmfb")]);
            let run = run.arguments;
            assert_eq!((run.call.input, run.call.expected_output), (vec!["-5".to_owned()], vec!["4xf32=1".to_owned()]));
            assert_eq!(run.call.equality.equality(), Equality::default());
        }
        let empty = parse(&["run", "--module=a", "--output=", "--output=-"]).unwrap();
        let Command::Run(run) = empty.command else { unreachable!("run") };
        assert_eq!(run.arguments.output, ["", "-"]);
    }

    #[test]
    fn bench_takes_the_flags_of_google_benchmark() {
        let line = parse(&[
            "bench",
            "--module=a",
            "--benchmark_min_time=1s",
            "--benchmark_repetitions=3",
            "--benchmark_format=json",
            "--benchmark_report_aggregates_only=true",
            "--time_unit=us",
        ]);
        let Command::Bench(bench) = line.unwrap().command else { unreachable!("bench") };
        let bench = bench.of.arguments;
        assert_eq!((bench.benchmark_repetitions, bench.benchmark_format), (3, ReportFormat::Json));
        assert!(bench.benchmark_report_aggregates_only);
    }

    #[test]
    fn static_libraries_may_name_their_symbols() {
        let parsed = |text: &str| {
            let StaticLibraryFile { path, queries } = text.parse().unwrap();
            (path.display().to_string(), queries.join(" "))
        };
        for (text, path, queries) in [
            ("k.o", "k.o", ""),
            ("k.o=a_library_query", "k.o", "a_library_query"),
            ("a=b/k.o=_a,b1", "a=b/k.o", "_a b1"),
            ("a=b/k.o", "a=b/k.o", ""),
            ("k.o=1a", "k.o=1a", ""),
            ("k.o=a,", "k.o=a,", ""),
            ("k.o=", "k.o=", ""),
            ("=a", "=a", ""),
        ] {
            assert_eq!(parsed(text), (path.to_owned(), queries.to_owned()), "{text}");
        }
    }

    #[test]
    fn wrong_flags_are_usage_errors() {
        for arguments in [
            &["run"][..],
            &["run", "--module=a", "--what=1"],
            &["bench", "--module=a", "--benchmark_min_time=fast"],
            &["bench", "--module=a", "--benchmark_repetitions=0"],
            &["check"],
            &["dump"],
            &["dump", "a", "--output=json"],
            &["translate", "a"],
            &["build", "a"],
            &["build", "-o", "a"],
            &["fly"],
            &[],
        ] {
            assert_eq!(parse(arguments).unwrap_err().exit_code(), 2, "{arguments:?}");
        }
    }
}
