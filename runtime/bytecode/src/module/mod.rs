//! A module as its file has it: the FlatBuffer's tables, checked and divided. Its functions are not verified yet.

mod debug;
mod limits;
mod parse;
pub(super) mod tables;
pub(super) mod types;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

pub use debug::DebugDatabase;
pub use types::{Dependency, Export, FunctionView, Import, Requirements, TypeDef, TypeKind};

use super::archive::Archive;
use super::calling_convention::CallingConvention;
use super::contents::Contents;
use super::instruction::Instructions;
use super::isa::Generation;
use super::read::FlatBuffer;
use crate::Location;
use tables::{Text, VectorRange};

/// Fields of an attribute.
const ATTRIBUTE_KEY: usize = 0;
const ATTRIBUTE_VALUE: usize = 1;

#[derive(Debug)]
struct DependencyRow {
    name: Text,
    minimum_version: u32,
    flags: u32,
}

/// A calling convention that has been parsed: `0`, arguments, `_`, results. What is left of the arguments and the results
/// without a lone `v` stands behind the `0` and at the end.
#[derive(Clone, Copy, Debug, Default)]
struct ConventionRow {
    text: Text,
    argument_count: u32,
    result_count: u32,
}

impl ConventionRow {
    /// The letters of the arguments and of the results.
    #[inline(always)]
    fn letters(self, flatbuffer: &[u8]) -> (&[u8], &[u8]) {
        let Text { start, length } = self.text;
        let arguments = Text { start: start.saturating_add(1), length: self.argument_count };
        let results = start.saturating_add(length.saturating_sub(self.result_count));
        (arguments.of(flatbuffer), Text { start: results, length: self.result_count }.of(flatbuffer))
    }
}

#[derive(Debug)]
struct ImportRow {
    name: Text,
    convention: ConventionRow,
    flags: u32,
}

#[derive(Debug)]
struct ExportRow {
    name: Text,
    function: u32,
}

#[derive(Debug)]
struct FunctionRow {
    /// Position within the archive's contents.
    bytecode: Range<usize>,
    requirements: Requirements,
    block_count: u16,
    i32_register_count: u16,
    ref_register_count: u16,
    convention: Option<ConventionRow>,
    attributes: VectorRange,
    /// Ordinal of the first export of the function.
    first_export: Option<u32>,
}

/// A function as the verifier sees it.
pub(super) struct FunctionCode<'m> {
    pub(super) i32_register_count: u16,
    pub(super) ref_register_count: u16,
    pub(super) block_count: u16,
    pub(super) requirements: Requirements,
    pub(super) result_letters: &'m [u8],
    pub(super) bytecode: &'m [u8],
}

/// A module whose tables are checked, and whose functions are not: neither run nor translate it, [`Module::verify`] it.
#[derive(Debug)]
pub struct Module {
    archive: Archive,
    name: Text,
    version: u32,
    bytecode_version: u32,
    generation: &'static Generation,
    requirements: Requirements,
    attributes: VectorRange,
    types: Vec<TypeDef>,
    dependencies: Vec<DependencyRow>,
    imports: Vec<ImportRow>,
    exports: Vec<ExportRow>,
    functions: Vec<FunctionRow>,
    /// Bytes of all functions, counting shared ones as often as they are used.
    bytecode_length: u64,
    /// Positions within the archive's contents.
    rodata: Vec<Range<usize>>,
    global_bytes: u32,
    global_ref_count: u32,
}

impl Module {
    fn bytes(&self, text: Text) -> &[u8] {
        text.of(self.archive.flatbuffer())
    }

    fn text(&self, text: Text) -> &str {
        core::str::from_utf8(self.bytes(text)).unwrap_or_default()
    }

    /// The letters of the arguments and of the results.
    #[inline]
    fn letters(&self, row: ConventionRow) -> (&[u8], &[u8]) {
        row.letters(self.archive.flatbuffer())
    }

    fn convention(&self, row: ConventionRow) -> CallingConvention<'_> {
        let text = |letters| core::str::from_utf8(letters).unwrap_or_default();
        let (arguments, results) = self.letters(row);
        CallingConvention::from_parsed(text(arguments), text(results))
    }

    /// The letters of the arguments and of the results of an import; none for an unknown ordinal.
    #[inline]
    pub(super) fn import_letters(&self, ordinal: u32) -> (&[u8], &[u8]) {
        self.imports.get(ordinal as usize).map(|row| self.letters(row.convention)).unwrap_or_default()
    }

    /// The letters of the arguments and of the results of a function; none for an unknown ordinal.
    #[inline]
    pub(super) fn function_letters(&self, ordinal: u32) -> (&[u8], &[u8]) {
        let row = self.functions.get(ordinal as usize).and_then(|row| row.convention);
        self.letters(row.unwrap_or_default())
    }

    /// The file that the module comes from.
    #[must_use]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The module's name, under which others import from it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(self.name)
    }

    /// The module's own version, against which dependents compare their minimum; not that of the format.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Version of the bytecode: major in the upper 16 bits, minor in the lower.
    #[must_use]
    pub fn bytecode_version(&self) -> u32 {
        self.bytecode_version
    }

    /// The version of the instruction set that the bytecode has, and which compilers write it.
    #[must_use]
    pub fn generation(&self) -> &'static Generation {
        self.generation
    }

    /// Which generation of the format the file is, and which compilers write it.
    #[must_use]
    pub fn provenance(&self) -> String {
        let (major, minor, compilers) =
            (self.generation.major, self.bytecode_version & 0xFFFF, self.generation.compilers);
        alloc::format!("bytecode {major}.{minor} (compilers {compilers})")
    }

    /// What the functions need together.
    #[must_use]
    pub fn requirements(&self) -> Requirements {
        self.requirements
    }

    /// Keys and values that tools attached to the module.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.attribute_rows(self.attributes)
    }

    /// The module's attribute at an index.
    #[must_use]
    pub fn attribute(&self, index: usize) -> Option<(&str, &str)> {
        self.attribute_row(self.attributes, index)
    }

    /// A function's attribute at an index.
    #[must_use]
    pub fn function_attribute(&self, ordinal: u32, index: usize) -> Option<(&str, &str)> {
        self.attribute_row(self.functions.get(ordinal as usize)?.attributes, index)
    }

    /// Keys and values that tools attached to a function, such as `iree.abi.declaration`. Empty for an unknown ordinal.
    pub fn function_attributes(&self, ordinal: u32) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        let row = self.functions.get(ordinal as usize);
        self.attribute_rows(row.map_or_else(VectorRange::default, |row| row.attributes))
    }

    fn attribute_rows(&self, vector: VectorRange) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        (0..vector.count).map(move |index| self.attribute_row(vector, index).unwrap_or_default())
    }

    fn attribute_row(&self, vector: VectorRange, index: usize) -> Option<(&str, &str)> {
        let buffer = FlatBuffer { bytes: self.archive.flatbuffer() };
        let row = buffer.element((vector.start, vector.count), index)?;
        let text = |field| buffer.string(row, field).unwrap_or_default();
        Some((text(ATTRIBUTE_KEY), text(ATTRIBUTE_VALUE)))
    }

    /// The type table.
    #[must_use]
    pub fn types(&self) -> &[TypeDef] {
        &self.types
    }

    /// The modules that this one imports from.
    pub fn dependencies(&self) -> impl ExactSizeIterator<Item = Dependency<'_>> + Clone {
        self.dependencies.iter().map(|row| self.dependency_view(row))
    }

    /// The dependency at an index.
    #[must_use]
    pub fn dependency(&self, index: usize) -> Option<Dependency<'_>> {
        self.dependencies.get(index).map(|row| self.dependency_view(row))
    }

    fn dependency_view(&self, row: &DependencyRow) -> Dependency<'_> {
        Dependency {
            name: self.text(row.name),
            minimum_version: row.minimum_version,
            optional: row.flags & types::FLAG_OPTIONAL != 0,
        }
    }

    /// The imported functions, in the order of their ordinals.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = Import<'_>> + Clone {
        self.imports.iter().map(|row| self.import_view(row))
    }

    /// The imported function of an ordinal.
    #[must_use]
    pub fn import(&self, ordinal: u32) -> Option<Import<'_>> {
        self.imports.get(ordinal as usize).map(|row| self.import_view(row))
    }

    fn import_view(&self, row: &ImportRow) -> Import<'_> {
        Import {
            full_name: self.text(row.name),
            calling_convention: self.convention(row.convention),
            calling_convention_text: self.text(row.convention.text),
            optional: row.flags & types::FLAG_OPTIONAL != 0,
        }
    }

    /// Number of imported functions.
    #[must_use]
    pub fn import_count(&self) -> u32 {
        self.imports.len() as u32
    }

    /// The exported functions, in the order of their ordinals.
    pub fn exports(&self) -> impl ExactSizeIterator<Item = Export<'_>> + Clone {
        self.exports.iter().map(|row| Export { local_name: self.text(row.name), function: row.function })
    }

    /// The exported function of an ordinal.
    #[must_use]
    pub fn export(&self, ordinal: u32) -> Option<Export<'_>> {
        let row = self.exports.get(ordinal as usize)?;
        Some(Export { local_name: self.text(row.name), function: row.function })
    }

    /// Ordinal of the function that is exported with an ordinal.
    #[inline]
    #[must_use]
    pub fn exported_function(&self, ordinal: u32) -> Option<u32> {
        self.exports.get(ordinal as usize).map(|row| row.function)
    }

    /// The first export of a function, if it has one.
    #[must_use]
    pub fn export_of(&self, function: u32) -> Option<Export<'_>> {
        self.export(self.functions.get(function as usize)?.first_export?)
    }

    /// The bytes of all functions, counting shared ones as often as they are used.
    #[must_use]
    pub fn bytecode_length(&self) -> u64 {
        self.bytecode_length
    }

    /// Number of functions.
    #[must_use]
    pub fn function_count(&self) -> u32 {
        self.functions.len() as u32
    }

    /// Returns the parts of a function that the verifier checks.
    pub(super) fn function_code(&self, ordinal: u32) -> Option<FunctionCode<'_>> {
        let row = self.functions.get(ordinal as usize)?;
        Some(FunctionCode {
            i32_register_count: row.i32_register_count,
            ref_register_count: row.ref_register_count,
            block_count: row.block_count,
            requirements: row.requirements,
            result_letters: self.letters(row.convention.unwrap_or_default()).1,
            bytecode: self.archive.sealed_bytes(row.bytecode.clone())?,
        })
    }

    /// The function of an ordinal.
    #[must_use]
    pub fn function(&self, ordinal: u32) -> Option<FunctionView<'_>> {
        let row = self.functions.get(ordinal as usize)?;
        Some(FunctionView {
            ordinal,
            i32_register_count: row.i32_register_count,
            ref_register_count: row.ref_register_count,
            block_count: row.block_count,
            requirements: row.requirements,
            calling_convention: row.convention.map(|row| self.text(row.text)),
            convention: self.convention(row.convention.unwrap_or_default()),
            bytecode: self.archive.sealed_bytes(row.bytecode.clone())?,
        })
    }

    /// The instructions of a function, in order; none for an unknown ordinal.
    #[must_use]
    pub fn instructions(&self, ordinal: u32) -> Instructions<'_> {
        Instructions::new(self.function(ordinal).map_or(&[], |function| function.bytecode))
    }

    /// Number of constants.
    #[must_use]
    pub fn rodata_count(&self) -> u32 {
        self.rodata.len() as u32
    }

    /// Where a constant's bytes are, for use in place.
    #[must_use]
    pub fn rodata(&self, ordinal: u32) -> Option<(Arc<Contents>, Range<usize>)> {
        let range = self.rodata.get(ordinal as usize)?;
        Some((self.archive.contents().clone(), range.clone()))
    }

    /// The bytes of a constant: in place, or a copy where another process can change them.
    #[must_use]
    pub fn rodata_bytes(&self, ordinal: u32) -> Option<Cow<'_, [u8]>> {
        self.archive.contents().bytes(self.rodata.get(ordinal as usize)?.clone()).ok()
    }

    /// The number of bytes of a constant.
    #[must_use]
    pub fn rodata_length(&self, ordinal: u32) -> Option<usize> {
        self.rodata.get(ordinal as usize).map(ExactSizeIterator::len)
    }

    /// Bytes of primitive globals of an instance; all are zero at first.
    #[must_use]
    pub fn global_bytes(&self) -> u32 {
        self.global_bytes
    }

    /// Number of reference globals of an instance; all are null at first.
    #[must_use]
    pub fn global_ref_count(&self) -> u32 {
        self.global_ref_count
    }

    /// The debug database, if the module has one. It is not checked: what cannot be read in it is as if absent.
    #[must_use]
    pub fn debug_database(&self) -> Option<DebugDatabase<'_>> {
        DebugDatabase::of(self.archive.flatbuffer(), self.function_count())
    }

    /// Whether [`Module::source_location`] knows of any.
    #[must_use]
    pub fn has_source_locations(&self) -> bool {
        self.debug_database().is_some()
    }

    /// Source location of an instruction, given by its offset in bytes within the function: `mlp.mlir:12:8`.
    #[must_use]
    pub fn source_location(&self, function: u32, offset: u32) -> Option<String> {
        self.debug_database()?.source_location(function, offset)
    }

    /// The name that a function had in the compiler, which need not be unique.
    #[must_use]
    pub fn function_debug_name(&self, ordinal: u32) -> Option<&str> {
        self.debug_database()?.function_name(ordinal)
    }

    /// A name for a function in messages: that of its first export, or that of the debug database, or its ordinal. At most
    /// 1024 bytes of it.
    #[must_use]
    pub fn function_name(&self, ordinal: u32) -> String {
        let export = self.export_of(ordinal).map(|export| export.local_name);
        match export.or_else(|| self.function_debug_name(ordinal)) {
            Some(name) => debug::short(name).into(),
            None => alloc::format!("fn{ordinal}"),
        }
    }

    /// The location of an instruction, for errors. `offset` is in bytes within the function.
    #[must_use]
    pub fn location(&self, function: u32, offset: u32) -> Location {
        Location {
            module: Some(self.name().into()),
            function: Some(self.function_name(function)),
            offset: Some(offset.into()),
            source: self.source_location(function, offset),
        }
    }
}
