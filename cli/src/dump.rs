//! `incarnate dump`: prints the contents of a module.

mod executables;
mod gpu;
mod graph;
mod program;
mod signature;

use std::collections::HashSet;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use incarnate_runtime::bytecode::{
    Archive, CallingConvention, Contents, ConventionItem, Escaped, Module, Requirements, VerifiedModule, disassemble,
    disassemble_function,
};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::{Error, Result, ResultExt};
use incarnate_translator::compiler::{ModelFormat, onnx};

use program::Program;

use super::Verdict;
use super::arguments::ModuleFile;
use super::console::Console;
use super::models::CompilerArguments;
use super::tooling::output::Bounded;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpArguments {
    #[command(flatten)]
    pub(super) file: ModuleFile,
    #[command(flatten)]
    pub(super) compiler: CompilerArguments,
    /// The output; all by default, and a summary of an ONNX model, which is not compiled for that.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(super) output: Option<DumpOutput>,
    /// Format of the signatures.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = SignatureFormat::Text)]
    pub(super) format: SignatureFormat,
    /// Format of the graph.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = GraphFormat::Dot)]
    pub(super) graph_format: GraphFormat,
    /// Disassemble only this function, selected by name or ordinal.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// Treat the module as untrusted: read the file into memory instead of mapping it, as another program may change it.
    #[arg(long)]
    pub(super) untrusted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DumpOutput {
    Metadata,
    Disassembly,
    /// Both metadata and disassembly.
    All,
    /// The dispatches and transfers of command buffers, and the data flow between them.
    Graph,
    /// The names and types of the inputs and outputs of the exported functions.
    Signature,
}

impl DumpArguments {
    /// Returns true if the file is an ONNX model of which a summary is printed.
    pub(super) fn is_summary(&self) -> bool {
        self.output.is_none()
            && self.function.is_none()
            && matches!(ModelFormat::of(&self.file), Ok(Some(ModelFormat::Onnx)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SignatureFormat {
    /// One line for each function.
    Text,
    /// For tools.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum GraphFormat {
    /// For Graphviz: draw it with `dot -Tsvg`.
    Dot,
}

/// Most characters of a constant that is printed as text.
const TEXT_SHOWN: usize = 32;
/// Width of the rules between sections.
const RULE: usize = 118;
/// Bytes of a reference global in an IREE instance, which IREE's tool includes in its counts.
const IREE_REF_BYTES: u64 = 16;

pub(super) fn dump(arguments: &DumpArguments, out: &mut Console) -> Result<Verdict> {
    let context = || format!("reading '{}'", arguments.file.display());
    if arguments.is_summary() {
        let summary = onnx::Model::open(&*arguments.file).context(context)?.summary().to_string();
        let lines: String = summary.lines().map(|line| format!("{}\n", Escaped(line))).collect();
        out.write_all(lines.as_bytes()).context(|| "printing the summary")?;
        return Ok(Verdict::Success);
    }
    let output = arguments.output.unwrap_or(DumpOutput::All);
    let contents = match arguments.untrusted {
        true => Contents::read(&arguments.file)?,
        false => MappedFile::contents(&arguments.file).context(context)?,
    };
    let contents = Arc::new(contents);
    if output == DumpOutput::Graph {
        let module = VerifiedModule::load(contents).context(context)?;
        let text = graph_text(&module, arguments.graph_format)?;
        out.write_all(text.as_bytes()).context(|| "printing the graph")?;
        return Ok(Verdict::Success);
    }
    if output == DumpOutput::Signature {
        let module = VerifiedModule::load(contents).context(context)?;
        let text = signature::text(&module, arguments.format)?;
        out.write_all(text.as_bytes()).context(|| "printing the signatures")?;
        return Ok(Verdict::Success);
    }
    // The module is not verified: an invalid one is a reason to inspect it.
    let module = Module::parse(Archive::new(contents.clone()).context(context)?).context(context)?;
    if arguments.function.is_none() && output != DumpOutput::Disassembly {
        let limit = TEXT_BYTES.saturating_add(TEXT_PER_BYTE.saturating_mul(contents.length() as u64));
        let mut bounded = Bounded::new(&mut *out, limit);
        let written = write!(bounded, "{}", Metadata(&module, VerifiedModule::load(contents.clone()).ok()));
        bounded.finish(written.context(|| "printing metadata"), || {
            format!("the metadata pass the limit of {limit} bytes of text")
        })?;
    }
    if arguments.function.is_some() || output != DumpOutput::Metadata {
        let text = match &arguments.function {
            Some(name) => function_text(&module, name)?,
            None => disassemble(&module),
        };
        out.write_all(text.as_bytes()).context(|| "printing the disassembly")?;
        // The tool that prints shader modules reads them as it likes.
        if arguments.function.is_none()
            && !arguments.untrusted
            && let Ok(verified) = VerifiedModule::load(contents)
        {
            gpu::shaders(&verified, out).context(|| "printing shader modules")?;
        }
    }
    Ok(Verdict::Success)
}

/// Returns a text for each executable, from the module's functions; empty if the module is invalid.
pub(super) fn executables_of(module: &Module) -> Vec<String> {
    let contents = module.archive().contents().clone();
    let Ok(verified) = VerifiedModule::load(contents) else { return Vec::new() };
    Program::of(&verified).map(|program| executables::facts(&verified, &program)).unwrap_or_default()
}

/// Returns the graph of dispatches in a format.
fn graph_text(module: &VerifiedModule, format: GraphFormat) -> Result<String> {
    let program = Program::of(module)?;
    if program.recorders.is_empty() {
        return Err(Error::not_found(format!("no function of @{} records a command buffer", module.name())));
    }
    Ok(match format {
        GraphFormat::Dot => graph::dot(module, &program)?,
    })
}

/// Returns the disassembly of a function, selected by its exported name, its name in the compiler, or its ordinal.
fn function_text(module: &Module, name: &str) -> Result<String> {
    let exported = module.exports().find(|export| export.local_name == name).map(|export| export.function);
    let named = || (0..module.function_count()).find(|ordinal| module.function_debug_name(*ordinal) == Some(name));
    let ordinal = exported.or_else(named).or_else(|| name.parse().ok());
    ordinal.and_then(|ordinal| disassemble_function(module, ordinal)).ok_or_else(|| {
        let exports: Vec<&str> = module.exports().map(|export| export.local_name).collect();
        Error::not_found(format!(
            "no function '{name}': the module has {} functions and exports {}",
            module.function_count(),
            exports.join(", ")
        ))
    })
}

/// The bytes of metadata that are printed of every module, and for each byte of its file: any number of rows may refer to the
/// same long text.
const TEXT_BYTES: u64 = 16 << 20;
const TEXT_PER_BYTE: u64 = 64;

/// Returns the tables of a module as text and, if it is valid, its executables.
struct Metadata<'a>(&'a Module, Option<Arc<VerifiedModule>>);

impl fmt::Display for Metadata<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = self.0;
        heading(f, &format!("@{} : version {}", Escaped(module.name()), module.version()))?;
        if !module.is_first_generation() {
            writeln!(
                f,
                "Bytecode: version {}.{}",
                module.bytecode_version() >> 16,
                module.bytecode_version() & 0xFFFF
            )?;
        }
        writeln!(f, "Generation: {}", Escaped(&module.provenance().to_string()))?;
        writeln!(f, "Requirements: {}\n", requirements(module.requirements()))?;
        write_links(f, module)?;
        heading(f, "Sections")?;
        write_sections(f, module)?;
        match self.1.as_deref().map(|verified| (verified, Program::of(verified))) {
            Some((verified, Ok(program))) if !program.executables.is_empty() => {
                heading(f, "Executables")?;
                executables::write(f, verified, &program)?;
            }
            Some((_, Err(error))) => {
                heading(f, "Executables")?;
                writeln!(f, "  unknown: {error}\n")?;
            }
            _ => {}
        }
        heading(f, "Functions")?;
        write_functions(f, module)?;
        write_debug(f, module)?;
        writeln!(f)
    }
}

fn heading(f: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
    let rule = "=".repeat(RULE - 5);
    writeln!(f, "//==={rule}//\n// {title}\n//==={rule}//\n")
}

/// Returns the names of requirements, or a dash.
pub(super) fn requirements(requirements: Requirements) -> String {
    let names: Vec<String> = requirements.iter_names().map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" | ") }
}

/// Formats a calling convention as types: `(i32, tuple<i64>...) -> (!vm.ref<?>)`.
pub(super) fn signature(convention: CallingConvention<'_>) -> String {
    format!("({}) -> ({})", types(convention.arguments()), types(convention.results()))
}

fn types(items: impl Iterator<Item = ConventionItem>) -> String {
    let mut text = String::new();
    for item in items {
        if item == ConventionItem::SpanEnd {
            text.push_str(">...");
            continue;
        }
        if !text.is_empty() && !text.ends_with("tuple<") {
            text.push_str(", ");
        }
        text.push_str(match item {
            ConventionItem::I32 => "i32",
            ConventionItem::I64 => "i64",
            ConventionItem::F32 => "f32",
            ConventionItem::F64 => "f64",
            ConventionItem::Ref => "!vm.ref<?>",
            ConventionItem::SpanStart => "tuple<",
            ConventionItem::SpanEnd => "",
        });
    }
    text
}

fn write_links(f: &mut fmt::Formatter<'_>, module: &Module) -> fmt::Result {
    if module.attributes().len() > 0 {
        writeln!(f, "Attributes:")?;
        module.attributes().try_for_each(|(key, value)| writeln!(f, "  {}: {}", Escaped(key), Escaped(value)))?;
        writeln!(f)?;
    }
    if !module.types().is_empty() {
        writeln!(f, "Required Types:")?;
        for (index, ty) in module.types().iter().enumerate() {
            writeln!(f, "  [{index:3}] {}", ty.text())?;
        }
        writeln!(f)?;
    }
    if module.dependencies().len() > 0 {
        writeln!(f, "Module Dependencies:")?;
        for dependency in module.dependencies() {
            let need = if dependency.optional { "optional" } else { "required" };
            writeln!(f, "  {}, version >= {}, {need}", Escaped(dependency.name), dependency.minimum_version)?;
        }
        writeln!(f)?;
    }
    if module.imports().len() > 0 {
        writeln!(f, "Imported Functions:")?;
        for (index, import) in module.imports().enumerate() {
            let optional = if import.optional { "?" } else { "" };
            writeln!(
                f,
                "  [{index:3}] {optional}{}{}",
                Escaped(import.full_name),
                signature(import.calling_convention)
            )?;
        }
        writeln!(f)?;
    }
    if module.exports().len() > 0 {
        writeln!(f, "Exported Functions:")?;
        let mut described = HashSet::new();
        for (index, export) in module.exports().enumerate() {
            let convention = module.function(export.function).map(|function| signature(function.convention));
            writeln!(f, "  [{index:3}] {}{}", Escaped(export.local_name), convention.unwrap_or_default())?;
            // Attributes belong to the function, which may have many names.
            if !described.insert(export.function) {
                continue;
            }
            for (key, value) in module.function_attributes(export.function) {
                writeln!(f, "        {}: {}", Escaped(key), Escaped(value))?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

fn write_sections(f: &mut fmt::Formatter<'_>, module: &Module) -> fmt::Result {
    let (bytes, refs) = (module.global_bytes(), module.global_ref_count());
    let total = u64::from(bytes) + IREE_REF_BYTES * u64::from(refs);
    writeln!(f, "Module State:\n  {bytes} bytes, {refs} refs, ~{total} bytes total\n")?;
    let flatbuffer = module.archive().flatbuffer_range();
    writeln!(f, "FlatBuffer: {} bytes", flatbuffer.len())?;
    let bytecode: usize = (0..module.function_count()).map(|ordinal| bytecode_length(module, ordinal)).sum();
    writeln!(f, "  Bytecode: {bytecode} bytes")?;
    let mut external = 0;
    for ordinal in 0..module.rodata_count() {
        let Some((contents, range)) = module.rodata(ordinal) else { continue };
        write!(f, "  .rodata[{ordinal:3}] ")?;
        if flatbuffer.contains(&range.start) {
            let data = contents.bytes(range.clone()).unwrap_or_default();
            writeln!(f, "embedded {:8} bytes{}", range.len(), text_of(&data))?;
        } else {
            external += range.len();
            writeln!(f, "external {:8} bytes (file {:X}h to {:X}h)", range.len(), range.start, range.end)?;
        }
    }
    if external > 0 {
        writeln!(f, "\nExternal .rodata: {external} bytes")?;
    }
    writeln!(f)
}

/// Formats the number of source locations, and the locations where functions begin.
fn write_debug(f: &mut fmt::Formatter<'_>, module: &Module) -> fmt::Result {
    let Some(database) = module.debug_database() else { return Ok(()) };
    writeln!(f)?;
    heading(f, "Debug Information")?;
    writeln!(f, "Locations: {}", database.location_count())?;
    for function in 0..module.function_count() {
        // The first instructions are constants, which may have no location.
        let length = u32::try_from(bytecode_length(module, function)).unwrap_or(u32::MAX);
        let Some(location) = (0..length).find_map(|offset| module.source_location(function, offset)) else { continue };
        writeln!(f, "  [{function:3}] @{} begins at {}", Escaped(&module.function_name(function)), Escaped(&location))?;
    }
    Ok(())
}

fn bytecode_length(module: &Module, ordinal: u32) -> usize {
    module.function(ordinal).map_or(0, |function| function.bytecode.len())
}

/// Returns the beginning of a constant that is printable text, up to its first NUL.
fn text_of(data: &[u8]) -> String {
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() || !text.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return String::new();
    }
    let shown = text.get(..TEXT_SHOWN).unwrap_or(text);
    let more = if text.len() > TEXT_SHOWN { "..." } else { "" };
    format!(" `{}`{more}", String::from_utf8_lossy(shown))
}

fn write_functions(f: &mut fmt::Formatter<'_>, module: &Module) -> fmt::Result {
    writeln!(f, "  # | Offset   |   Length | Blocks | i32 # | ref # | Requirements     | Name, aliases")?;
    let rule = "----+----------+----------+--------+-------+-------+------------------+-";
    writeln!(f, "{rule}{}", "-".repeat(RULE.saturating_sub(rule.len())))?;
    let functions = || (0..module.function_count()).filter_map(|ordinal| module.function(ordinal));
    // All functions lie in one section, which begins at the first of them.
    let section = functions().map(|function| function.bytecode.as_ptr().addr()).min().unwrap_or(0);
    let mut exported = vec![Vec::new(); module.function_count() as usize];
    for export in module.exports() {
        if let Some(names) = exported.get_mut(export.function as usize) {
            names.push(export.local_name);
        }
    }
    for function in functions() {
        let ordinal = function.ordinal;
        let exports = exported.get(ordinal as usize).map(|names| names.join(", ")).unwrap_or_default();
        let names = if exports.is_empty() {
            module.function_debug_name(ordinal).map(|name| format!("({name})")).unwrap_or_default()
        } else {
            exports
        };
        let row = format!(
            "{ordinal:3} | {:08X} | {:8} | {:6} | {:5} | {:5} | {:16} | {}",
            function.bytecode.as_ptr().addr() - section,
            function.bytecode.len(),
            function.block_count,
            function.i32_register_count,
            function.ref_register_count,
            requirements(function.requirements),
            Escaped(&names)
        );
        writeln!(f, "{}", row.trim_end())?;
    }
    Ok(())
}
