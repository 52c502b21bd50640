//! Reads the tables of a module's FlatBuffer, and checks what they say.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use incarnate_schemas::bytecode_module as schema;

use super::super::archive::Archive;
use super::super::calling_convention::{CallingConvention, count_letters};
use super::super::isa::{GENERATIONS, Generation, I32_REGISTER_LIMIT, REF_REGISTER_LIMIT};
use super::super::read::{array_at, u16_at, u32_at};
use super::limits;
use super::tables::{Reader, Table, Text, VectorRange};
use super::types::{Requirements, TypeDef};
use super::{ConventionRow, DependencyRow, ExportRow, FunctionRow, ImportRow, Module};
use crate::{Error, Result};

/// Flags of a dependency or an import that has none: required.
const FLAGS_ABSENT: u32 = 1;

/// How often functions may share the same bytecode, on average: the work of verifying stays in proportion to the file.
const BYTECODE_SHARING_LIMIT: usize = 16;
/// How often tables may share the same data, on average, for the same reason.
const FLATBUFFER_SHARING_LIMIT: usize = 16;

/// How often constants may share the same bytes of the file, on average: their text stays in proportion to the file.
const RODATA_SHARING_LIMIT: usize = 16;

/// Position of the offset to the root table: behind the size prefix.
const ROOT_OFFSET: usize = 4;

impl Module {
    /// Reads and checks the tables of an archive.
    ///
    /// Checked are the FlatBuffer's structure, the versions, the requirements, names, types, calling conventions, and that
    /// every range and every ordinal of a table lies within what it refers to. Fails with `INVALID_ARGUMENT`,
    /// `OUT_OF_RANGE`, `INCOMPATIBLE` (versions) or `UNIMPLEMENTED` (requirements, compression); the message names the table and
    /// the row.
    pub fn parse(archive: Archive) -> Result<Module> {
        use schema::BytecodeModule as Fields;

        let flatbuffer = archive.flatbuffer();
        let limit = flatbuffer.len().saturating_mul(FLATBUFFER_SHARING_LIMIT).saturating_add(1 << 16);
        let mut reader = Reader::new(flatbuffer, limit);
        let root = reader.element(ROOT_OFFSET)?;
        let bytecode_version = reader.u32(root, Fields::VT_BYTECODE_VERSION, 0)?;
        let generation = generation_of(bytecode_version)?;
        let requirements = requirements_of(reader.u32(root, Fields::VT_REQUIREMENTS, 0)?, "the module")?;
        let name = reader.string(root, Fields::VT_NAME)?;
        if name.length == 0 {
            return Err(Error::invalid_argument("the module has no name"));
        }
        let version = reader.u32(root, Fields::VT_VERSION, 0)?;

        let mut builder = Builder { archive: &archive, flatbuffer, reader, signature_bytes: Vec::new() };
        let attributes = builder.attributes(root, Fields::VT_ATTRIBUTES)?;
        let types = builder.types(root)?;
        let dependencies = builder.dependencies(root)?;
        let imports = builder.imports(root)?;
        let mut functions = builder.functions(root)?;
        let exports = builder.exports(root, functions.len())?;
        for (export, ordinal) in exports.iter().zip(0..) {
            if let Some(function) = functions.get_mut(export.function as usize) {
                function.first_export.get_or_insert(ordinal);
            }
        }
        let bytecode_length = functions.iter().map(|function| function.bytecode.len() as u64).sum();
        let rodata = builder.rodata(root)?;
        let (global_bytes, global_ref_count) = builder.globals(root)?;
        builder.mutable_segments(root)?;
        Ok(Module {
            name,
            version,
            bytecode_version,
            generation,
            requirements,
            attributes,
            types,
            dependencies,
            imports,
            exports,
            functions,
            bytecode_length,
            rodata,
            global_bytes,
            global_ref_count,
            archive,
        })
    }
}

fn generation_of(version: u32) -> Result<&'static Generation> {
    if let Some(generation) = Generation::of(version) {
        return Ok(generation);
    }
    let known: Vec<String> =
        GENERATIONS.iter().map(|row| format!("{}.{} (compilers {})", row.major, row.minor, row.compilers)).collect();
    let (major, minor) = (version >> 16, version & 0xFFFF);
    Err(Error::incompatible(format!(
        "the module has bytecode version {major}.{minor}; this runtime reads {}",
        known.join(", ")
    )))
}

fn requirements_of(bits: u32, owner: &str) -> Result<Requirements> {
    Requirements::from_bits(bits).ok_or_else(|| {
        let unknown = bits & !Requirements::all().bits();
        Error::unimplemented(format!("{owner} requires features 0x{unknown:X}, which this runtime does not know"))
    })
}

/// Names the row that an error is about.
#[cold]
fn in_row(error: Error, table: &str, index: usize) -> Error {
    error.context(format!("{table}[{index}]"))
}

#[cold]
fn no_name(table: &str, index: usize) -> Error {
    Error::invalid_argument(format!("{table}[{index}] has no name"))
}

struct Builder<'a> {
    archive: &'a Archive,
    flatbuffer: &'a [u8],
    reader: Reader<'a>,
    /// The bytes of each function's signature.
    signature_bytes: Vec<usize>,
}

impl<'a> Builder<'a> {
    /// Reads each table of a vector of tables.
    #[inline(always)]
    fn rows<T>(
        &mut self,
        root: Table<'a>,
        field: u16,
        name: &str,
        mut read: impl FnMut(&mut Self, usize, Table<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let vector = self.reader.tables(root, field).map_err(|error| error.context(format!("`{name}`")))?;
        let mut rows = Vec::with_capacity(vector.count);
        for (index, position) in vector.positions(4).enumerate() {
            let table = self.reader.element(position).map_err(|error| in_row(error, name, index))?;
            rows.push(read(self, index, table)?);
        }
        Ok(rows)
    }

    /// The name of a table's row, which must be there.
    #[inline(always)]
    fn name(&mut self, table: &str, index: usize, row: Table<'a>, field: u16) -> Result<Text> {
        match self.reader.string(row, field) {
            Ok(name) if name.length != 0 => Ok(name),
            Ok(_) => Err(no_name(table, index)),
            Err(error) => Err(in_row(error, table, index)),
        }
    }

    fn types(&mut self, root: Table<'a>) -> Result<Vec<TypeDef>> {
        self.rows(root, schema::BytecodeModule::VT_TYPES, "types", |builder, index, row| {
            let definition = builder.reader.string_bytes(row, schema::TypeEntry::VT_FULL_NAME).and_then(|text| {
                match TypeDef::well_known(builder.reader.text_bytes(text)) {
                    Some(definition) => Ok(definition),
                    None => TypeDef::new(builder.reader.text(text)?),
                }
            });
            definition.map_err(|error| in_row(error, "types", index))
        })
    }

    /// Checks attributes, which are read when they are asked for.
    fn attributes(&mut self, owner: Table<'a>, field: u16) -> Result<VectorRange> {
        let vector = self.reader.tables(owner, field)?;
        for position in vector.positions(4) {
            let row = self.reader.element(position)?;
            self.reader.string(row, schema::Attribute::VT_KEY)?;
            self.reader.string(row, schema::Attribute::VT_VALUE)?;
        }
        Ok(vector)
    }

    fn dependencies(&mut self, root: Table<'a>) -> Result<Vec<DependencyRow>> {
        use schema::Dependency as Fields;
        self.rows(root, schema::BytecodeModule::VT_DEPENDENCIES, "dependencies", |builder, index, row| {
            let name = builder.name("dependencies", index, row, Fields::VT_NAME)?;
            let minimum_version = builder.reader.u32(row, Fields::VT_MINIMUM_VERSION, 0)?;
            let flags = builder.reader.u32(row, Fields::VT_FLAGS, FLAGS_ABSENT)?;
            Ok(DependencyRow { name, minimum_version, flags })
        })
    }

    fn imports(&mut self, root: Table<'a>) -> Result<Vec<ImportRow>> {
        use schema::Import as Fields;
        self.rows(root, schema::BytecodeModule::VT_IMPORTS, "imports", |builder, index, row| {
            let name = builder.name("imports", index, row, Fields::VT_FULL_NAME)?;
            let convention = builder.import_convention(row).map_err(|error| {
                error.context(format!("imports[{index}] `{}`", builder.reader.text(name).unwrap_or_default()))
            })?;
            let flags = builder.reader.u32(row, Fields::VT_FLAGS, FLAGS_ABSENT)?;
            Ok(ImportRow { name, convention, flags })
        })
    }

    #[inline(always)]
    fn import_convention(&mut self, row: Table<'a>) -> Result<ConventionRow> {
        let Some(signature) = self.reader.child(row, schema::Import::VT_SIGNATURE)? else {
            return Ok(ConventionRow::default());
        };
        // Nothing reads those of imports.
        if signature.has(schema::Signature::VT_ATTRIBUTES) {
            self.attributes(signature, schema::Signature::VT_ATTRIBUTES)?;
        }
        self.convention(signature)
    }

    /// Reads the calling convention of a signature: empty if it is absent.
    #[inline(always)]
    fn convention(&mut self, signature: Table<'a>) -> Result<ConventionRow> {
        let text = self.reader.string_bytes(signature, schema::Signature::VT_CALLING_CONVENTION)?;
        let (arguments, results) = count_letters(self.reader.text_bytes(text))?;
        // Both are parts of the text, whose length is a 32-bit number.
        let row = ConventionRow { text, argument_count: arguments as u32, result_count: results as u32 };
        if row.letters(self.flatbuffer).1.contains(&b'C') {
            return Err(Error::invalid_argument(format!("a span among the results of `{}`", self.reader.text(text)?)));
        }
        Ok(row)
    }

    fn exports(&mut self, root: Table<'a>, function_count: usize) -> Result<Vec<ExportRow>> {
        use schema::Export as Fields;
        self.rows(root, schema::BytecodeModule::VT_EXPORTS, "exports", |builder, index, row| {
            let name = builder.name("exports", index, row, Fields::VT_LOCAL_NAME)?;
            let function = builder.reader.u32(row, Fields::VT_INTERNAL_ORDINAL, 0)?;
            // Ordinals are signed; negative ones are beyond any number of functions.
            if function as usize >= function_count {
                let (ordinal, text) = (function as i32, builder.reader.text(name)?);
                return Err(Error::out_of_range(format!(
                    "exports[{index}] `{text}` is function {ordinal} of {function_count}"
                )));
            }
            // Its declaration is read for each of its names.
            let signature = builder.signature_bytes.get(function as usize).copied().unwrap_or(0);
            builder.reader.spend(signature).map_err(|error| in_row(error, "exports", index))?;
            Ok(ExportRow { name, function })
        })
    }

    fn functions(&mut self, root: Table<'a>) -> Result<Vec<FunctionRow>> {
        use schema::BytecodeModule as Fields;
        let bytecode = self.reader.vector(root, Fields::VT_BYTECODE_DATA, 1)?;
        let descriptors = self.reader.vector(root, Fields::VT_FUNCTIONS, DESCRIPTOR_LENGTH)?;
        let bytecode_start = self.archive.flatbuffer_range().start + bytecode.start;
        let mut positions = descriptors.positions(DESCRIPTOR_LENGTH);
        let mut total = 0usize;
        let signature_count = self.reader.tables(root, Fields::VT_SIGNATURES)?.count;
        if descriptors.count != signature_count {
            return Err(Error::invalid_argument(format!(
                "the module has {} functions and {signature_count} signatures",
                descriptors.count
            )));
        }
        let functions = self.rows(root, Fields::VT_SIGNATURES, "signatures", |builder, index, signature| {
            let descriptor = positions.next().and_then(|position| array_at(builder.flatbuffer, position));
            let mut row = function_row(index, &descriptor.unwrap_or([0; DESCRIPTOR_LENGTH]), bytecode.count)?;
            total = total.saturating_add(row.bytecode.len());
            row.bytecode = bytecode_start + row.bytecode.start..bytecode_start + row.bytecode.end;
            let before = builder.reader.left();
            builder.signature(index, signature, &mut row)?;
            builder.signature_bytes.push(before - builder.reader.left());
            Ok(row)
        })?;
        if total > bytecode.count.saturating_mul(BYTECODE_SHARING_LIMIT) {
            return Err(Error::resource_exhausted(format!(
                "functions of {total} bytes share {} bytes of bytecode; the limit is {BYTECODE_SHARING_LIMIT} times as many",
                bytecode.count
            )));
        }
        Ok(functions)
    }

    /// Reads a function's signature, and sees to it that the frame holds the arguments: the registers of those that a
    /// function never uses need not be in its descriptor.
    fn signature(&mut self, index: usize, signature: Table<'a>, row: &mut FunctionRow) -> Result<()> {
        use schema::Signature as Fields;
        let in_signature = |error| in_row(error, "signatures", index);
        row.attributes = self.attributes(signature, Fields::VT_ATTRIBUTES).map_err(in_signature)?;
        let convention = self.convention(signature).map_err(in_signature)?;
        if convention.text.is_absent() {
            return Ok(());
        }
        row.convention = Some(convention);
        let text = self.reader.text(convention.text)?;
        let convention = CallingConvention::parse(text).map_err(in_signature)?;
        if convention.is_variadic() {
            return Err(Error::invalid_argument(format!(
                "signatures[{index}] has a span, which only imports may have: `{text}`"
            )));
        }
        let (i32_count, ref_count) = convention.argument_registers();
        row.i32_register_count = row.i32_register_count.max(i32_count.try_into().unwrap_or(u16::MAX));
        row.ref_register_count = row.ref_register_count.max(ref_count.try_into().unwrap_or(u16::MAX));
        check_register_counts(index, row.i32_register_count, row.ref_register_count)?;
        Ok(())
    }

    /// Finds the constants. The schema declares their offsets as numbers, but they lead to tables as others do.
    fn rodata(&mut self, root: Table<'a>) -> Result<Vec<Range<usize>>> {
        let limit = self.archive.length().saturating_mul(RODATA_SHARING_LIMIT);
        let mut total = 0usize;
        self.rows(root, schema::BytecodeModule::VT_RODATA_SEGMENTS, "rodata", |builder, index, segment| {
            let range = builder.segment(segment).map_err(|error| in_row(error, "rodata", index))?;
            total = total.saturating_add(range.len());
            match total > limit {
                true => Err(Error::resource_exhausted(format!(
                    "constants of more than {limit} bytes share the bytes of the file; the limit is \
                     {RODATA_SHARING_LIMIT} times as many"
                ))),
                false => Ok(range),
            }
        })
    }

    /// Where the constant of a segment is, within the archive's contents.
    fn segment(&mut self, segment: Table<'a>) -> Result<Range<usize>> {
        use schema::RodataSegment as Fields;
        let compression = self.reader.u8(segment, Fields::VT_COMPRESSION_TYPE, 0)?;
        if compression > schema::Compression::ENUM_MAX {
            return Err(Error::unimplemented(format!("compression {compression}")));
        }
        if segment.has(Fields::VT_EMBEDDED_DATA) {
            let data = self.reader.vector(segment, Fields::VT_EMBEDDED_DATA, 1)?;
            let start = self.archive.flatbuffer_range().start + data.start;
            return Ok(start..start + data.count);
        }
        let offset = self.reader.u64(segment, Fields::VT_EXTERNAL_DATA_OFFSET, 0)?;
        let length = self.reader.u64(segment, Fields::VT_EXTERNAL_DATA_LENGTH, 0)?;
        self.archive.external(offset, length).ok_or_else(|| {
            Error::out_of_range(format!("{length} bytes at offset {offset} behind the FlatBuffer exceed the file"))
        })
    }

    /// Checks the tables of segments that nothing reads: compilers have never written any.
    fn mutable_segments(&mut self, root: Table<'a>) -> Result<()> {
        let vector = self.reader.tables(root, schema::BytecodeModule::VT_RWDATA_SEGMENTS)?;
        for position in vector.positions(4) {
            let segment = self.reader.element(position)?;
            self.reader.u32(segment, schema::RwdataSegment::VT_BYTE_SIZE, 0)?;
        }
        Ok(())
    }

    fn globals(&mut self, root: Table<'a>) -> Result<(u32, u32)> {
        use schema::ModuleState as Fields;
        let Some(state) = self.reader.child(root, schema::BytecodeModule::VT_STATE)? else { return Ok((0, 0)) };
        let number = |field| self.reader.u32(state, field, 0);
        limits::globals(number(Fields::VT_GLOBAL_BYTES_CAPACITY)?, number(Fields::VT_GLOBAL_REF_COUNT)?)
    }
}

/// Bytes of a function's descriptor.
const DESCRIPTOR_LENGTH: usize = size_of::<schema::FunctionDescriptor>();

/// Checks a descriptor; the range is within the module's bytecode.
fn function_row(index: usize, descriptor: &[u8; DESCRIPTOR_LENGTH], bytecode_length: usize) -> Result<FunctionRow> {
    // The fields in the order of the schema: two signed 32-bit numbers, one unsigned, a reserved 16-bit one, three counts.
    let word = |position| u32_at(descriptor, position).unwrap_or_default();
    let half = |position| u16_at(descriptor, position).unwrap_or_default();
    let (offset, length) = (word(0) as i32, word(4) as i32);
    let (requirements, block_count) = (word(8), half(14));
    let (i32_count, ref_count) = (half(16), half(18));
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
    if range.is_empty() || block_count == 0 {
        return Err(Error::invalid_argument(format!("functions[{index}] has no block")));
    }
    check_register_counts(index, i32_count, ref_count)?;
    Ok(FunctionRow {
        bytecode: range,
        requirements: requirements_of(requirements, "a function").map_err(|error| in_row(error, "functions", index))?,
        block_count,
        i32_register_count: i32_count,
        ref_register_count: ref_count,
        convention: None,
        attributes: VectorRange::default(),
        first_export: None,
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
