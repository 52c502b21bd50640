//! `incarnate parameters`: lists, converts and creates parameter archives.

mod change;
mod list;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use incarnate_runtime::bytecode::{Contents, ConventionItem};
use incarnate_runtime::parameters::{ArchiveWriter, FileAccess, ParameterEntry, ParameterFile, ParameterIndex, Splat};
use incarnate_runtime::{Error, Result, ResultExt};

use super::Verdict;
use super::arguments::{ScopedFile, byte_size};
use super::console::Console;
use crate::tooling::atomic_file::AtomicFile;
use crate::tooling::spec::{Slot, SpecValue, parse_specs};
use crate::tooling::{HostTensor, HostValue};
use change::Replacement;

#[derive(Debug, Args)]
pub(super) struct ParametersArguments {
    #[command(subcommand)]
    command: ParametersCommand,
}

#[derive(Debug, Subcommand)]
enum ParametersCommand {
    /// Print the contents of archives.
    List(ListArguments),
    /// Convert archives of any format into one .irpa archive.
    Convert(ConvertArguments),
    /// Create an .irpa archive from values, arrays and files.
    Create(CreateArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Archives (.irpa, .safetensors, .gguf, .npy, .npz), with the scope that a model reads them under.
    #[arg(value_name = "[SCOPE=]FILE", required = true)]
    files: Vec<ScopedFile>,
    /// Write the bytes of a parameter to a file.
    #[arg(long, value_name = "[SCOPE::]KEY=FILE")]
    extract: Vec<String>,
}

#[derive(Debug, Args)]
struct ConvertArguments {
    /// Archives (.irpa, .safetensors, .gguf, .npy, .npz); scopes are not kept.
    #[arg(value_name = "[SCOPE=]FILE", required = true)]
    files: Vec<ScopedFile>,
    /// The archive to write (.irpa).
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Leave a parameter out.
    #[arg(long, value_name = "KEY")]
    exclude: Vec<String>,
    /// Rename a parameter.
    #[arg(long, value_name = "OLD=NEW")]
    rename: Vec<String>,
    /// Replace a parameter by a splat, which occupies no storage: zeros, or a value as i8=123, f32=4.5 or x32=CAFEF00D.
    #[arg(long, value_name = "KEY[=TYPE=VALUE]")]
    splat: Vec<String>,
    /// Replace all parameters by zero splats, which occupy no storage.
    #[arg(long)]
    strip: bool,
    /// Alignment of data in bytes, such as 4KiB.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = byte_size)]
    alignment: u64,
}

#[derive(Debug, Args)]
struct CreateArguments {
    /// A parameter: KEY=4xf32=1,2,3,4, KEY=4xf32 (zeros), KEY=4xf32=2.5 (repeated), KEY=@array.npy, KEY=4xf32=@raw.bin.
    #[arg(long, value_name = "KEY=VALUE")]
    data: Vec<String>,
    /// A splat parameter, which repeats one value and occupies no storage: KEY=4096xf32=4.1.
    #[arg(long, value_name = "KEY=TYPE[=VALUE]")]
    splat: Vec<String>,
    /// The archive to write (.irpa).
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Alignment of data in bytes, such as 4KiB.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = byte_size)]
    alignment: u64,
}

pub(super) fn parameters(arguments: &ParametersArguments, out: &mut Console) -> Result<Verdict> {
    match &arguments.command {
        ParametersCommand::List(arguments) => list::list(&read(&arguments.files)?, &arguments.extract, out)?,
        ParametersCommand::Convert(arguments) => convert(arguments, out)?,
        ParametersCommand::Create(arguments) => create(arguments, out)?,
    }
    Ok(Verdict::Success)
}

/// Returns the parameters of files by scope, in the order of the scopes' first files.
fn read(files: &[ScopedFile]) -> Result<Vec<(String, ParameterIndex)>> {
    let mut scopes: Vec<(String, ParameterIndex)> = Vec::new();
    for file in files {
        let position = scopes.iter().position(|(scope, _)| *scope == file.scope).unwrap_or_else(|| {
            scopes.push((file.scope.clone(), ParameterIndex::new()));
            scopes.len() - 1
        });
        scopes[position].1.add_file(&file.path, FileAccess::Map)?;
    }
    Ok(scopes)
}

fn convert(arguments: &ConvertArguments, out: &mut Console) -> Result<()> {
    let mut changes = change::Changes {
        excluded: arguments.exclude.iter().map(String::as_str).collect(),
        renamed: arguments.rename.iter().map(|text| split("--rename", text)).collect::<Result<_>>()?,
        replaced: arguments.splat.iter().map(|text| Replacement::parse(text)).collect::<Result<_>>()?,
        strip: arguments.strip,
    };
    let mut index = ParameterIndex::new();
    for (_, source) in read(&arguments.files)? {
        for entry in source.entries() {
            if let Some(entry) = changes.apply(entry.clone())? {
                index.add(entry)?;
            }
        }
    }
    changes.check_all_used()?;
    write(&index, &arguments.output, arguments.alignment, out)
}

fn create(arguments: &CreateArguments, out: &mut Console) -> Result<()> {
    let mut index = ParameterIndex::new();
    for text in &arguments.data {
        let (key, value) = split("--data", text)?;
        let array = value_of(value).context(|| format!("--data={key}"))?;
        let length = array.bytes.len() as u64;
        let file = ParameterFile::from_contents(key, Arc::new(Contents::from_vec(array.bytes)));
        index.add(ParameterEntry::in_file(key, &file, 0, length)?)?;
    }
    for text in &arguments.splat {
        let (key, value) = split("--splat", text)?;
        let splat = change::splat_of(value).context(|| format!("--splat={key}"))?;
        index.add(ParameterEntry::splat(key, splat))?;
    }
    write(&index, &arguments.output, arguments.alignment, out)
}

/// Splits `A=B`.
fn split<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    parts.ok_or_else(|| Error::invalid_argument(format!("{flag}={text}: no '=' between a key and a value")))
}

/// Parses a tensor in the form of a function's input.
fn value_of(text: &str) -> Result<HostTensor> {
    // A type without contents means zeros.
    let text = if text.contains(['=', '@']) { text.to_owned() } else { format!("{text}=0") };
    let slot = Slot { kind: ConventionItem::Ref, declared: None, info: None };
    match parse_specs(&[slot], &[text])?.pop() {
        Some(SpecValue::Value(HostValue::Tensor(array))) => Ok(array),
        _ => Err(Error::invalid_argument("not a tensor: write SHAPExTYPE=VALUES or @FILE.npy")),
    }
}

/// Writes the archive, and prints its contents.
fn write(index: &ParameterIndex, path: &Path, alignment: u64, out: &mut Console) -> Result<()> {
    store(ArchiveWriter::new(index).with_alignment(alignment), path)?;
    let mut written = ParameterIndex::new();
    written.add_file(path, FileAccess::Map)?;
    list::list(&[(String::new(), written)], &[], out)
}

/// Writes the parameters of a file as an archive (`.irpa`).
pub(super) fn archive(from: &Path, path: &Path) -> Result<()> {
    let mut index = ParameterIndex::new();
    index.add_file(from, FileAccess::Map)?;
    store(Ok(ArchiveWriter::new(&index)), path)
}

/// Writes an archive; the file is there as a whole or not at all.
fn store(writer: Result<ArchiveWriter<'_>>, path: &Path) -> Result<()> {
    let mut file = AtomicFile::create(path, false)?;
    let written = writer.and_then(|writer| writer.write(&mut file));
    written.context(|| format!("writing '{}'", path.display()))?;
    file.commit()
}

/// Creates a splat of zeros.
fn zeros(length: u64) -> Result<Splat> {
    Splat::new(&[0], length)
}
