//! Writes module files.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Vector, WIPOffset};
use incarnate_schemas::bytecode_module as schema;

use super::contents::SEGMENT_ALIGNMENT;
use super::isa::{VERSION_MAJOR, VERSION_MINOR};
use crate::{Error, Result};

/// Bytes that a FlatBuffer may have: half of what its signed offsets reach, since its builder panics beyond.
const FLATBUFFER_LIMIT: usize = 1 << 30;
/// Alignment of functions within the bytecode.
const FUNCTION_ALIGNMENT: usize = 8;

/// An imported function to be written.
#[derive(Clone, Debug, Default)]
pub struct ImportSource {
    pub full_name: String,
    pub calling_convention: String,
    pub optional: bool,
}

/// A dependency to be written.
#[derive(Clone, Debug, Default)]
pub struct DependencySource {
    pub name: String,
    pub minimum_version: u32,
    pub optional: bool,
}

/// A function to be written.
#[derive(Clone, Debug, Default)]
pub struct FunctionSource {
    pub calling_convention: Option<String>,
    pub attributes: Vec<(String, String)>,
    pub bytecode: Vec<u8>,
    pub requirements: u32,
    pub block_count: u16,
    pub i32_register_count: u16,
    pub ref_register_count: u16,
}

/// A module to be written. Nothing is checked but what cannot be written at all.
#[derive(Clone, Debug)]
pub struct ModuleSource {
    pub name: String,
    pub version: u32,
    pub bytecode_version: u32,
    pub requirements: u32,
    pub attributes: Vec<(String, String)>,
    pub types: Vec<String>,
    pub dependencies: Vec<DependencySource>,
    pub imports: Vec<ImportSource>,
    /// Names and ordinals of their functions.
    pub exports: Vec<(String, u32)>,
    pub functions: Vec<FunctionSource>,
    pub rodata: Vec<Vec<u8>>,
    pub global_bytes: u32,
    pub global_ref_count: u32,
}

impl Default for ModuleSource {
    fn default() -> ModuleSource {
        ModuleSource {
            name: String::new(),
            version: 0,
            bytecode_version: u32::from(VERSION_MAJOR) << 16 | u32::from(VERSION_MINOR),
            requirements: 0,
            attributes: Vec::new(),
            types: Vec::new(),
            dependencies: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            functions: Vec::new(),
            rodata: Vec::new(),
            global_bytes: 0,
            global_ref_count: 0,
        }
    }
}

type Builder<'b> = FlatBufferBuilder<'b>;
type TableVector<'b, T> = WIPOffset<Vector<'b, ForwardsUOffset<T>>>;

impl ModuleSource {
    /// The module's file: a FlatBuffer with its size prefix, and behind it the constants, each aligned to 64 bytes.
    ///
    /// Fails with `RESOURCE_EXHAUSTED` if everything but the constants takes more than 1 GiB.
    pub fn write(&self) -> Result<Vec<u8>> {
        self.check_size()?;
        let mut builder = Builder::new();
        let (bytecode, descriptors) = self.bytecode();
        let bytecode_data = builder.create_vector(&bytecode);
        let functions = builder.create_vector(&descriptors);
        let mut offset = 0u64;
        let rodata_segments = tables(&mut builder, &self.rodata, |builder, bytes| {
            let arguments = schema::RodataSegmentArgs {
                external_data_offset: offset,
                external_data_length: bytes.len() as u64,
                ..Default::default()
            };
            offset += bytes.len().next_multiple_of(SEGMENT_ALIGNMENT) as u64;
            schema::RodataSegment::create(builder, &arguments)
        });
        let signatures = tables(&mut builder, &self.functions, |builder, function| {
            signature(builder, function.calling_convention.as_deref(), &function.attributes)
        });
        let exports = tables(&mut builder, &self.exports, |builder, (name, function)| {
            let local_name = Some(builder.create_string(name));
            schema::Export::create(builder, &schema::ExportArgs { local_name, internal_ordinal: *function as i32 })
        });
        let imports = tables(&mut builder, &self.imports, |builder, import| {
            let full_name = Some(builder.create_string(&import.full_name));
            let signature = Some(signature(builder, Some(&import.calling_convention), &[]));
            let flags = if import.optional { 2 } else { 1 };
            schema::Import::create(builder, &schema::ImportArgs { full_name, signature, flags })
        });
        let dependencies = tables(&mut builder, &self.dependencies, |builder, dependency| {
            let name = Some(builder.create_string(&dependency.name));
            let flags = if dependency.optional { 2 } else { 1 };
            let minimum_version = dependency.minimum_version;
            schema::Dependency::create(builder, &schema::DependencyArgs { name, minimum_version, flags })
        });
        let types = tables(&mut builder, &self.types, |builder, text| {
            let full_name = Some(builder.create_string(text));
            schema::TypeEntry::create(builder, &schema::TypeEntryArgs { full_name })
        });
        let attributes = attributes(&mut builder, &self.attributes);
        let state = schema::ModuleStateArgs {
            global_bytes_capacity: self.global_bytes as i32,
            global_ref_count: self.global_ref_count as i32,
        };
        let state = Some(schema::ModuleState::create(&mut builder, &state));
        let name = Some(builder.create_string(&self.name));
        let arguments = schema::BytecodeModuleArgs {
            name,
            version: self.version,
            requirements: self.requirements,
            attributes,
            types: Some(types),
            dependencies: Some(dependencies),
            imports: Some(imports),
            exports: Some(exports),
            signatures: Some(signatures),
            rodata_segments: Some(WIPOffset::new(rodata_segments.value())),
            rwdata_segments: None,
            state,
            functions: Some(functions),
            bytecode_version: self.bytecode_version,
            bytecode_data: Some(bytecode_data),
        };
        let root = schema::BytecodeModule::create(&mut builder, &arguments);
        builder.finish_size_prefixed(root, Some(schema::BYTECODE_MODULE_IDENTIFIER));
        Ok(self.append_constants(builder.finished_data().to_vec()))
    }

    /// Refuses what the FlatBuffer's builder would panic at.
    fn check_size(&self) -> Result<()> {
        let attributes = |rows: &[(String, String)]| rows.iter().map(|(a, b)| a.len() + b.len() + 64).sum::<usize>();
        let function = |row: &FunctionSource| {
            let convention = row.calling_convention.as_ref().map_or(0, String::len);
            row.bytecode.len() + convention + attributes(&row.attributes) + 128
        };
        let size = attributes(&self.attributes)
            + self.functions.iter().map(function).sum::<usize>()
            + self.types.iter().map(|text| text.len() + 64).sum::<usize>()
            + self.imports.iter().map(|row| row.full_name.len() + row.calling_convention.len() + 128).sum::<usize>()
            + self.exports.iter().map(|(name, _)| name.len() + 64).sum::<usize>()
            + self.rodata.len() * 64;
        if size > FLATBUFFER_LIMIT {
            return Err(Error::resource_exhausted(format!(
                "the module's tables take {size} bytes; the limit is {FLATBUFFER_LIMIT}"
            )));
        }
        Ok(())
    }

    /// All functions' bytecode and where each function lies in it.
    fn bytecode(&self) -> (Vec<u8>, Vec<schema::FunctionDescriptor>) {
        let mut bytecode = Vec::new();
        let mut descriptors = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            descriptors.push(schema::FunctionDescriptor::new(
                bytecode.len() as i32,
                function.bytecode.len() as i32,
                function.requirements,
                0,
                function.block_count,
                function.i32_register_count,
                function.ref_register_count,
            ));
            bytecode.extend_from_slice(&function.bytecode);
            bytecode.resize(bytecode.len().next_multiple_of(FUNCTION_ALIGNMENT), 0);
        }
        (bytecode, descriptors)
    }

    fn append_constants(&self, mut file: Vec<u8>) -> Vec<u8> {
        for constant in &self.rodata {
            file.resize(file.len().next_multiple_of(SEGMENT_ALIGNMENT), 0);
            file.extend_from_slice(constant);
        }
        if !self.rodata.is_empty() {
            file.resize(file.len().next_multiple_of(SEGMENT_ALIGNMENT), 0);
        }
        file
    }
}

fn tables<'b, T, Row>(
    builder: &mut Builder<'b>,
    rows: &[Row],
    mut write: impl FnMut(&mut Builder<'b>, &Row) -> WIPOffset<T>,
) -> TableVector<'b, T> {
    let offsets: Vec<WIPOffset<T>> = rows.iter().map(|row| write(builder, row)).collect();
    builder.create_vector(&offsets)
}

fn attributes<'b>(
    builder: &mut Builder<'b>,
    rows: &[(String, String)],
) -> Option<TableVector<'b, schema::Attribute<'b>>> {
    (!rows.is_empty()).then(|| {
        tables(builder, rows, |builder, (key, value)| {
            let (key, value) = (Some(builder.create_string(key)), Some(builder.create_string(value)));
            schema::Attribute::create(builder, &schema::AttributeArgs { key, value })
        })
    })
}

fn signature<'b>(
    builder: &mut Builder<'b>,
    calling_convention: Option<&str>,
    rows: &[(String, String)],
) -> WIPOffset<schema::Signature<'b>> {
    let attributes = attributes(builder, rows);
    let calling_convention = calling_convention.map(|text| builder.create_string(text));
    schema::Signature::create(builder, &schema::SignatureArgs { calling_convention, attributes })
}
