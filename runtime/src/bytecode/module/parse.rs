//! Reads the tables of a module's FlatBuffer, and checks what they say.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Vector, VerifierOptions, size_prefixed_root_with_opts};
use incarnate_schemas::bytecode_module as schema;

use super::super::archive::Archive;
use super::super::calling_convention::CallingConvention;
use super::super::isa::{I32_REGISTER_LIMIT, REF_REGISTER_LIMIT, VERSION_MAJOR, VERSION_MINOR};
use super::super::read::FlatBuffer;
use super::{ConventionRow, DependencyRow, ExportRow, FunctionRow, ImportRow, Module, Requirements, Text, TypeDef};
use crate::{Error, Result};

/// Bit of a dependency's or an import's flags: the module loads without it.
pub(super) const FLAG_OPTIONAL: u32 = 2;

/// Bytes of primitive globals that a module may ask for. Compilers keep scalars there, a few bytes each.
pub(crate) const GLOBAL_BYTES_LIMIT: u32 = 16 << 20;
/// Number of reference globals that a module may ask for.
pub(crate) const GLOBAL_REF_LIMIT: u32 = 1 << 20;
/// How often functions may share the same bytecode, on average: the work of verifying stays in proportion to the file.
const BYTECODE_SHARING_LIMIT: usize = 16;
/// How often tables may share the same data, on average, for the same reason.
const FLATBUFFER_SHARING_LIMIT: usize = 16;

/// Positions of fields of `RodataSegment`.
const SEGMENT_COMPRESSION_TYPE: usize = 0;
const SEGMENT_EMBEDDED_DATA: usize = 2;
const SEGMENT_EXTERNAL_OFFSET: usize = 3;
const SEGMENT_EXTERNAL_LENGTH: usize = 4;

type Rows<'a, T> = Option<Vector<'a, ForwardsUOffset<T>>>;

pub(super) fn parse(archive: Archive) -> Result<Module> {
    let flatbuffer = archive.flatbuffer();
    let options = VerifierOptions {
        max_depth: 16,
        // A table takes at least the 4 bytes that refer to it.
        max_tables: flatbuffer.len() / 4,
        max_apparent_size: flatbuffer.len().saturating_mul(FLATBUFFER_SHARING_LIMIT).saturating_add(1 << 16),
        ignore_missing_null_terminator: false,
    };
    let root = size_prefixed_root_with_opts::<schema::BytecodeModule<'_>>(&options, flatbuffer).map_err(broken)?;
    check_version(root.bytecode_version())?;
    let requirements = requirements_of(root.requirements(), "the module")?;

    let mut builder = Builder { archive: &archive, strings: String::new(), attributes: Vec::new() };
    let name = builder.name("the module", Some(root.name()))?;
    let module_attribute_count = builder.attributes(root.attributes())?.end;
    let types = types(root.types())?;
    let dependencies = builder.dependencies(root.dependencies())?;
    let imports = builder.imports(root.imports())?;
    let functions = builder.functions(&root)?;
    let exports = builder.exports(root.exports(), functions.len())?;
    let rodata = builder.rodata(root.rodata_segments())?;
    let (global_bytes, global_ref_count) = globals(root.state())?;
    let Builder { strings, attributes, .. } = builder;
    let (version, bytecode_version) = (root.version(), root.bytecode_version());
    Ok(Module {
        strings: strings.into_boxed_str(),
        name,
        version,
        bytecode_version,
        requirements,
        attributes,
        module_attribute_count,
        types,
        dependencies,
        imports,
        exports,
        functions,
        rodata,
        global_bytes,
        global_ref_count,
        archive,
    })
}

#[cold]
fn broken(error: InvalidFlatbuffer) -> Error {
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Error::invalid_argument(format!("broken FlatBuffer: {}", lines.join(", ")))
}

fn check_version(version: u32) -> Result<()> {
    let (major, minor) = (version >> 16, version & 0xFFFF);
    if major != u32::from(VERSION_MAJOR) || minor > u32::from(VERSION_MINOR) {
        return Err(Error::incompatible(format!(
            "the module has bytecode version {major}.{minor}; this runtime reads {VERSION_MAJOR}.0 to \
             {VERSION_MAJOR}.{VERSION_MINOR}"
        )));
    }
    Ok(())
}

fn requirements_of(bits: u32, owner: &str) -> Result<Requirements> {
    Requirements::from_bits(bits).ok_or_else(|| {
        let unknown = bits & !Requirements::all().bits();
        Error::unimplemented(format!("{owner} requires features 0x{unknown:X}, which this runtime does not know"))
    })
}

fn types(rows: Rows<'_, schema::TypeEntry<'_>>) -> Result<Vec<TypeDef>> {
    let parse = |(index, row): (usize, schema::TypeEntry<'_>)| {
        TypeDef::new(row.full_name().unwrap_or_default()).map_err(|error| error.context(format!("types[{index}]")))
    };
    rows.iter().flatten().enumerate().map(parse).collect()
}

fn globals(state: Option<schema::ModuleState<'_>>) -> Result<(u32, u32)> {
    let Some(state) = state else { return Ok((0, 0)) };
    let limited = |value: i32, limit: u32, what: &str| match u32::try_from(value) {
        Ok(value) if value <= limit => Ok(value),
        _ => Err(Error::out_of_range(format!("the module asks for {value} {what}; the limit is {limit}"))),
    };
    Ok((
        limited(state.global_bytes_capacity(), GLOBAL_BYTES_LIMIT, "bytes of globals")?,
        limited(state.global_ref_count(), GLOBAL_REF_LIMIT, "reference globals")?,
    ))
}

struct Builder<'a> {
    archive: &'a Archive,
    strings: String,
    attributes: Vec<(Text, Text)>,
}

impl<'a> Builder<'a> {
    fn text(&mut self, text: &str) -> Result<Text> {
        let start = self.strings.len();
        self.strings.push_str(text);
        match (u32::try_from(start), u32::try_from(self.strings.len())) {
            (Ok(start), Ok(end)) => Ok(Text { start, end }),
            _ => Err(Error::resource_exhausted("the module's names take more than 4 GiB")),
        }
    }

    fn convention(&mut self, text: &str, convention: CallingConvention<'_>) -> Result<ConventionRow> {
        let row = ConventionRow { text: self.text(text)?, ..ConventionRow::default() };
        // Both sides are parts of the text.
        let part = |part: &str| match part.is_empty() {
            true => Text::default(),
            false => {
                let start = row.text.start + (part.as_ptr().addr() - text.as_ptr().addr()) as u32;
                Text { start, end: start + part.len() as u32 }
            }
        };
        let (arguments, results) = (part(convention.argument_letters()), part(convention.result_letters()));
        Ok(ConventionRow { arguments, results, ..row })
    }

    /// A name that must be there.
    fn name(&mut self, owner: &str, name: Option<&str>) -> Result<Text> {
        match name {
            Some(name) if !name.is_empty() => self.text(name),
            _ => Err(Error::invalid_argument(format!("{owner} has no name"))),
        }
    }

    /// The same, for a row of a table.
    fn row_name(&mut self, table: &str, index: usize, name: Option<&str>) -> Result<Text> {
        match name {
            Some(name) if !name.is_empty() => self.text(name),
            _ => Err(Error::invalid_argument(format!("{table}[{index}] has no name"))),
        }
    }

    fn attributes(&mut self, rows: Rows<'_, schema::Attribute<'_>>) -> Result<Range<u32>> {
        let start = self.attributes.len();
        for row in rows.iter().flatten() {
            let key = self.text(row.key().unwrap_or_default())?;
            let value = self.text(row.value().unwrap_or_default())?;
            self.attributes.push((key, value));
        }
        // There are fewer attributes than the FlatBuffer has bytes, which a 32-bit number counts.
        Ok(start as u32..self.attributes.len() as u32)
    }

    fn dependencies(&mut self, rows: Rows<'_, schema::Dependency<'_>>) -> Result<Vec<DependencyRow>> {
        let mut dependencies = Vec::with_capacity(rows.map_or(0, |rows| rows.len()));
        for (index, row) in rows.iter().flatten().enumerate() {
            let name = self.row_name("dependencies", index, row.name())?;
            let (minimum_version, flags) = (row.minimum_version(), row.flags());
            dependencies.push(DependencyRow { name, minimum_version, flags });
        }
        Ok(dependencies)
    }

    fn imports(&mut self, rows: Rows<'_, schema::Import<'_>>) -> Result<Vec<ImportRow>> {
        let mut imports = Vec::with_capacity(rows.map_or(0, |rows| rows.len()));
        for (index, row) in rows.iter().flatten().enumerate() {
            let name = self.row_name("imports", index, row.full_name())?;
            let text = row.signature().and_then(|signature| signature.calling_convention()).unwrap_or_default();
            let convention = CallingConvention::parse(text).map_err(|error| {
                error.context(format!("imports[{index}] `{}`", row.full_name().unwrap_or_default()))
            })?;
            if convention.result_letters().contains('C') {
                return Err(Error::invalid_argument(format!(
                    "imports[{index}] has a span among its results: `{text}`"
                )));
            }
            let convention = self.convention(text, convention)?;
            imports.push(ImportRow { name, convention, flags: row.flags() });
        }
        Ok(imports)
    }

    fn exports(&mut self, rows: Rows<'_, schema::Export<'_>>, function_count: usize) -> Result<Vec<ExportRow>> {
        let mut exports = Vec::with_capacity(rows.map_or(0, |rows| rows.len()));
        for (index, row) in rows.iter().flatten().enumerate() {
            let name = self.row_name("exports", index, row.local_name())?;
            let ordinal = row.internal_ordinal();
            match u32::try_from(ordinal) {
                Ok(function) if (function as usize) < function_count => exports.push(ExportRow { name, function }),
                _ => {
                    return Err(Error::out_of_range(format!(
                        "exports[{index}] `{}` is function {ordinal} of {function_count}",
                        row.local_name().unwrap_or_default()
                    )));
                }
            }
        }
        Ok(exports)
    }

    fn functions(&mut self, root: &schema::BytecodeModule<'_>) -> Result<Vec<FunctionRow>> {
        let bytecode = root.bytecode_data().map(|data| data.bytes()).unwrap_or_default();
        let descriptor_count = root.functions().map_or(0, |rows| rows.len());
        let signature_count = root.signatures().map_or(0, |rows| rows.len());
        if descriptor_count != signature_count {
            return Err(Error::invalid_argument(format!(
                "the module has {descriptor_count} functions and {signature_count} signatures"
            )));
        }
        let bytecode_start = self.position(bytecode);
        let mut functions = Vec::with_capacity(descriptor_count);
        let mut total = 0usize;
        let rows = root.functions().into_iter().flatten().zip(root.signatures().into_iter().flatten());
        for (index, (descriptor, signature)) in rows.enumerate() {
            let mut row = function_row(index, descriptor, bytecode.len())?;
            total = total.saturating_add(row.bytecode.len());
            row.bytecode = bytecode_start + row.bytecode.start..bytecode_start + row.bytecode.end;
            let convention = self.function_convention(index, signature.calling_convention(), &mut row)?;
            row.convention = convention;
            row.attributes = self.attributes(signature.attributes())?;
            functions.push(row);
        }
        if total > bytecode.len().saturating_mul(BYTECODE_SHARING_LIMIT) {
            return Err(Error::resource_exhausted(format!(
                "functions of {total} bytes share {} bytes of bytecode; the limit is {BYTECODE_SHARING_LIMIT} times as many",
                bytecode.len()
            )));
        }
        Ok(functions)
    }

    /// Parses a function's calling convention, and sees to it that the frame holds the arguments: the registers of those that
    /// a function never uses need not be in its descriptor.
    fn function_convention(
        &mut self,
        index: usize,
        text: Option<&str>,
        row: &mut FunctionRow,
    ) -> Result<Option<ConventionRow>> {
        let Some(text) = text else { return Ok(None) };
        let convention =
            CallingConvention::parse(text).map_err(|error| error.context(format!("signatures[{index}]")))?;
        if convention.is_variadic() || convention.result_letters().contains('C') {
            return Err(Error::invalid_argument(format!(
                "signatures[{index}] has a span, which only imports may have: `{text}`"
            )));
        }
        let (i32_count, ref_count) = convention.argument_registers();
        row.i32_register_count = row.i32_register_count.max(i32_count.try_into().unwrap_or(u16::MAX));
        row.ref_register_count = row.ref_register_count.max(ref_count.try_into().unwrap_or(u16::MAX));
        check_register_counts(index, row.i32_register_count, row.ref_register_count)?;
        self.convention(text, convention).map(Some)
    }

    /// Position of a part of the FlatBuffer within the archive's contents.
    fn position(&self, part: &[u8]) -> usize {
        let base = self.archive.contents().as_bytes().as_ptr().addr();
        if part.is_empty() { 0 } else { part.as_ptr().addr().saturating_sub(base) }
    }

    /// Finds the constants. The segments' tables are not part of the FlatBuffer's verification, but read with checks.
    fn rodata(&self, offsets: Option<Vector<'_, u32>>) -> Result<Vec<Range<usize>>> {
        let Some(offsets) = offsets else { return Ok(Vec::new()) };
        let base = self.archive.flatbuffer_range().start;
        let first = self.position(offsets.bytes()).saturating_sub(base);
        let mut segments = Vec::with_capacity(offsets.len());
        for (index, offset) in offsets.iter().enumerate() {
            let table = first.saturating_add(4 * index).saturating_add(offset as usize);
            segments.push(self.segment(index, table, base)?);
        }
        Ok(segments)
    }

    /// The constant of a segment; `table` is the position of its table within the FlatBuffer, which begins at `base`.
    fn segment(&self, index: usize, table: usize, base: usize) -> Result<Range<usize>> {
        let buffer = FlatBuffer { bytes: self.archive.flatbuffer() };
        let is_broken = || Error::invalid_argument(format!("broken FlatBuffer: rodata[{index}] exceeds it"));
        let compression = match buffer.checked_field(table, SEGMENT_COMPRESSION_TYPE).ok_or_else(is_broken)? {
            Some(position) => *buffer.bytes.get(position).ok_or_else(is_broken)?,
            None => 0,
        };
        if compression > schema::Compression::ENUM_MAX {
            return Err(Error::unimplemented(format!("rodata[{index}] has compression {compression}")));
        }
        if buffer.checked_field(table, SEGMENT_EMBEDDED_DATA).ok_or_else(is_broken)?.is_some() {
            let (start, length) = buffer.vector(table, SEGMENT_EMBEDDED_DATA).ok_or_else(is_broken)?;
            return match start.checked_add(length) {
                Some(end) if end <= buffer.bytes.len() => Ok(base + start..base + end),
                _ => Err(is_broken()),
            };
        }
        let offset = buffer.checked_u64(table, SEGMENT_EXTERNAL_OFFSET).ok_or_else(is_broken)?;
        let length = buffer.checked_u64(table, SEGMENT_EXTERNAL_LENGTH).ok_or_else(is_broken)?;
        self.archive.external(offset, length).ok_or_else(|| {
            Error::out_of_range(format!(
                "rodata[{index}]: {length} bytes at offset {offset} behind the FlatBuffer exceed the file"
            ))
        })
    }
}

/// Checks a descriptor; the range is within the module's bytecode.
fn function_row(index: usize, descriptor: &schema::FunctionDescriptor, bytecode_length: usize) -> Result<FunctionRow> {
    let (offset, length) = (descriptor.bytecode_offset(), descriptor.bytecode_length());
    let range = match (usize::try_from(offset), usize::try_from(length)) {
        (Ok(start), Ok(length)) if start <= bytecode_length && length <= bytecode_length - start => {
            start..start + length
        }
        _ => {
            return Err(Error::out_of_range(format!(
                "functions[{index}]: {length} bytes at offset {offset} exceed the bytecode's {bytecode_length}"
            )));
        }
    };
    if range.is_empty() || descriptor.block_count() == 0 {
        return Err(Error::invalid_argument(format!("functions[{index}] has no block")));
    }
    let (i32_count, ref_count) = (descriptor.i32_register_count(), descriptor.ref_register_count());
    check_register_counts(index, i32_count, ref_count)?;
    Ok(FunctionRow {
        bytecode: range,
        requirements: requirements_of(descriptor.requirements(), "a function")
            .map_err(|error| error.context(format!("functions[{index}]")))?,
        block_count: descriptor.block_count(),
        i32_register_count: i32_count,
        ref_register_count: ref_count,
        convention: None,
        attributes: 0..0,
    })
}

fn check_register_counts(index: usize, i32_count: u16, ref_count: u16) -> Result<()> {
    if i32_count > I32_REGISTER_LIMIT || ref_count > REF_REGISTER_LIMIT {
        return Err(Error::out_of_range(format!(
            "functions[{index}] has {i32_count} 32-bit and {ref_count} reference registers; the limits are \
             {I32_REGISTER_LIMIT} and {REF_REGISTER_LIMIT}"
        )));
    }
    Ok(())
}
