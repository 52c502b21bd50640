//! The flags of `incarnate bench`. Their names are those of Google Benchmark.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::measure::MinTime;
use super::report::TimeUnit;
use crate::arguments::CallArguments;
#[cfg(feature = "cli")]
use crate::arguments::{OfFiles, ProjectArguments};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct BenchArguments {
    #[command(flatten)]
    pub(crate) call: CallArguments,
    /// The minimum time of a repetition (0.5s), or its number of iterations (100x).
    #[arg(long, value_name = "TIME", default_value = "0.5s")]
    pub(crate) benchmark_min_time: MinTime,
    /// Seconds to run the function before the measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub(crate) benchmark_min_warmup_time: f64,
    /// Number of repetitions; with several, mean, median and deviation are reported, too.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) benchmark_repetitions: u32,
    /// Report only mean, median and deviation of several repetitions.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", default_value_t = false,
        action = clap::ArgAction::Set)]
    pub(crate) benchmark_report_aggregates_only: bool,
    /// Format of the report on standard output.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ReportFormat::Console)]
    pub(crate) benchmark_format: ReportFormat,
    /// Also write the report to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) benchmark_out: Option<PathBuf>,
    /// Format of that file.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ReportFormat::Json)]
    pub(crate) benchmark_out_format: ReportFormat,
    /// Unit of the reported times.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = TimeUnit::Ms, alias = "benchmark_time_unit")]
    pub(crate) time_unit: TimeUnit,
    /// Calls in one iteration, for a function that repeats its work.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Console,
    Json,
    /// One line for each function: its name, a tab, the median in seconds.
    #[value(hide = true)]
    Rows,
}

/// `bench` on module files.
#[cfg(feature = "cli")]
#[derive(Debug, Args)]
pub(crate) struct BenchFiles {
    #[command(flatten)]
    pub(crate) of: OfFiles<BenchArguments>,
    /// Also measure the translated module, and print both in one table.
    #[arg(long)]
    pub(crate) compare: bool,
    /// Another build of the module, for example machine code beside VMVX; --compare measures it in further columns.
    #[arg(long, value_name = "FILE", requires = "compare")]
    pub(crate) against: Vec<PathBuf>,
    /// Print the rate of each kernel beside the greatest rates of this machine, and the limit that applies: of the interpreted
    /// module, or with --compare of the translated one.
    #[arg(long)]
    pub(crate) roofline: bool,
    /// Also draw the kernels below the roof (.svg), or write the table (.json).
    #[arg(long = "roofline_out", alias = "roofline-out", value_name = "FILE", requires = "roofline")]
    pub(crate) roofline_out: Vec<PathBuf>,
    /// The same model compiled for VMVX, whose loops are counted for kernels of machine code.
    #[arg(long, value_name = "FILE", requires = "roofline")]
    pub(crate) vmvx: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) project: ProjectArguments,
}
