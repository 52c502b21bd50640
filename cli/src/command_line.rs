//! The parsers of the command lines: every command with its flags.

#[cfg(feature = "cli")]
use std::path::PathBuf;

use clap::{Parser, Subcommand};
#[cfg(feature = "cli")]
use incarnate_runtime::Result;
#[cfg(feature = "cli")]
use incarnate_translator::compiler::{Compiled, ModelFormat, gguf};
use tracing_subscriber::filter::LevelFilter;

use super::arguments::ProgramArguments;
use super::bench::BenchArguments;
#[cfg(any(feature = "cli", feature = "chat"))]
use super::chat::ChatOptions;
#[cfg(feature = "chat")]
use super::chat::OfModel;
use super::run::RunArguments;
#[cfg(any(feature = "cli", feature = "serve"))]
use super::serve::ServeOptions;
#[cfg(feature = "cli")]
use super::{
    arguments::OfFiles, arguments::ScopedFile, assemble::AssembleArguments, bench::BenchFiles, build::BuildArguments,
    chat::program::ModelCommand, chat::program::ModelOptions, check::CheckArguments, compile::CompileArguments,
    convert::ConvertArguments, diff::DiffArguments, dump::DumpArguments, examples, manual::CompletionsArguments,
    manual::ManArguments, models::CompilerArguments, models::compile_models, parameters::ParametersArguments,
    translate::TranslateArguments, web::WebArguments,
};

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
    /// Compile a model (.onnx, .gguf, .mlir, .mlirbc, a folder of Hugging Face) with IREE's compiler.
    #[command(after_help = examples::COMPILE)]
    Compile(CompileArguments),
    /// Call a function and print, write or check its results.
    #[command(after_help = examples::RUN)]
    Run(OfFiles<RunArguments>),
    /// Measure how long calls of a function take.
    #[command(after_help = examples::BENCH)]
    Bench(Box<BenchFiles>),
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
    /// Convert a module of IREE's first bytecode format (BMOD, early 2020) to a module of today.
    #[command(after_help = examples::CONVERT)]
    Convert(ConvertArguments),
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
    /// Talk with a language model (.gguf, or a folder of Hugging Face): the first time, its program is built.
    #[command(after_help = examples::CHAT)]
    Chat(ModelCommand<ChatOptions>),
    /// Answer clients of OpenAI's HTTP interface with a language model (.gguf, or a folder of Hugging Face): the first time, its program is built.
    #[command(after_help = examples::SERVE)]
    Serve(ModelCommand<ServeOptions>),
    /// Build a package of JavaScript modules and a WebAssembly program of a translated module, for pages.
    #[command(after_help = examples::WEB)]
    Web(WebArguments),
}

#[cfg(feature = "cli")]
impl Command {
    /// The target of the command's program, for commands that run one.
    pub(super) fn program(&self) -> Option<&ProgramArguments> {
        match self {
            Command::Run(of) => Some(&of.arguments.call.program),
            Command::Bench(bench) => Some(&bench.of.arguments.call.program),
            Command::Check(arguments) => Some(&arguments.program),
            _ => None,
        }
    }

    /// The files of the command that may be models, and how to compile them; `None` for commands that take no modules.
    fn files(&mut self) -> Option<(CompilerArguments, Vec<&mut PathBuf>)> {
        Some(match self {
            Command::Run(of) => {
                let compiler = of.compiler.clone();
                (compiler, of.all_modules().collect())
            }
            Command::Bench(bench) => {
                let compiler = bench.of.compiler.clone();
                (compiler, bench.of.all_modules().chain(&mut bench.against).chain(&mut bench.vmvx).collect())
            }
            Command::Check(arguments) => {
                let compiler = arguments.compiler.clone();
                // A folder is one of modules.
                (compiler, arguments.all_files().filter(|file| !file.is_dir()).collect())
            }
            Command::Dump(arguments) if arguments.is_summary() => return None,
            Command::Dump(arguments) => (arguments.compiler.clone(), arguments.file.path_mut().into_iter().collect()),
            Command::Translate(arguments) => {
                (arguments.compiler.clone(), arguments.file.path_mut().into_iter().collect())
            }
            Command::Build(arguments) => (arguments.compiler.clone(), arguments.all_modules().collect()),
            Command::Web(arguments) => (arguments.compiler.clone(), vec![&mut arguments.file]),
            _ => return None,
        })
    }

    /// Compiles the models among the files of the command and puts their modules in their place, which are there as long as the
    /// result is. The weights of language models become parameters of the program that the command runs.
    pub(super) fn compile_models(&mut self) -> Result<Vec<Compiled>> {
        let prefer = if let Command::Build(build) = self { Some(build.project.prefer) } else { None };
        let Some((compiler, files)) = self.files() else { return Ok(Vec::new()) };
        let is_language_model =
            |file: &PathBuf| matches!(ModelFormat::of(file), Ok(Some(format)) if format.is_language_model());
        let weights: Vec<PathBuf> = files.iter().map(|file| file.to_path_buf()).filter(is_language_model).collect();
        let compiled = compile_models(&compiler, files, prefer)?;
        if let (Command::Build(build), [_, ..]) = (&mut *self, &*weights) {
            build.project.feature.push(ChatOptions::COMMAND.to_owned());
            build.weights = weights.last().cloned();
        }
        if let Some(program) = self.program_mut() {
            // Parameters that the user names come first, and take precedence.
            let scope = gguf::SCOPE.to_owned();
            program.parameters.extend(weights.into_iter().map(|path| ScopedFile { scope: scope.clone(), path }));
        }
        Ok(compiled)
    }

    fn program_mut(&mut self) -> Option<&mut ProgramArguments> {
        match self {
            Command::Run(of) => Some(&mut of.arguments.call.program),
            Command::Bench(bench) => Some(&mut bench.of.arguments.call.program),
            Command::Check(arguments) => Some(&mut arguments.program),
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
    /// Talk with the language model.
    #[cfg(feature = "chat")]
    Chat(OfModel<ChatOptions>),
    /// Answer clients of OpenAI's HTTP interface with the language model.
    #[cfg(feature = "serve")]
    Serve(OfModel<ServeOptions>),
}

impl ProgramCommand {
    /// The target on which the program runs.
    pub(super) fn program(&self) -> Option<&ProgramArguments> {
        match self {
            ProgramCommand::Run(arguments) => Some(&arguments.call.program),
            ProgramCommand::Bench(arguments) => Some(&arguments.call.program),
            ProgramCommand::Check(arguments) => Some(arguments),
            #[cfg(feature = "chat")]
            ProgramCommand::Chat(_) => None,
            #[cfg(feature = "serve")]
            ProgramCommand::Serve(_) => None,
        }
    }
}

#[cfg(all(test, feature = "cli"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use incarnate_runtime::hal::format::Equality;

    use super::*;
    use crate::bench::ReportFormat;

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
