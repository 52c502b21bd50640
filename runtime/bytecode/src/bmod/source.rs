//! What a module file of the first generation holds, and reading and writing it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use flatbuffers::{FlatBufferBuilder, WIPOffset};
use incarnate_schemas::bmod as schema;

use crate::module::limits::{GLOBAL_BYTES_LIMIT, GLOBAL_REF_LIMIT, limited};
use crate::module::tables::{Reader, Table, VectorRange};
use crate::read::{array_at, u32_at};
use crate::{Error, Result};

/// How often tables may share the same data, on average: the work of reading stays in proportion to the file.
const SHARING_LIMIT: usize = 16;
/// How often functions may share the same bytecode, on average: each gets a copy.
const COPY_LIMIT: usize = 4;
/// Bytes that a file may have: half of what a FlatBuffer's signed offsets reach, since its builder panics beyond.
const FILE_LIMIT: usize = 1 << 30;
/// Bytes of a function's descriptor.
const DESCRIPTOR_LENGTH: usize = size_of::<schema::FunctionDescriptor>();

/// How a function is called: indices into the type table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) arguments: Vec<u32>,
    pub(super) results: Vec<u32>,
}

/// A function of another module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) full_name: String,
    pub(super) signature: Signature,
}

/// A function that others may call by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) local_name: String,
    pub(super) function: u32,
}

/// A function of the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Function {
    /// Empty where names were stripped.
    pub(super) local_name: String,
    pub(super) signature: Signature,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) bytecode: Vec<u8>,
    pub(super) i32_registers: u8,
    pub(super) ref_registers: u8,
}

/// A module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) types: Vec<String>,
    pub(super) imports: Vec<Import>,
    pub(super) exports: Vec<Export>,
    pub(super) functions: Vec<Function>,
    pub(super) rodata: Vec<Vec<u8>>,
    pub(super) global_bytes: u32,
    pub(super) global_refs: u32,
}

impl Source {
    /// Reads a file and checks its tables.
    ///
    /// Fails with `INVALID_ARGUMENT` or `OUT_OF_RANGE` on a FlatBuffer that is broken, names that are missing and ranges and
    /// ordinals beyond what they refer to, `UNIMPLEMENTED` on compressed constants, `RESOURCE_EXHAUSTED` where the file's
    /// tables share so much that it stands for far more than it has.
    pub(super) fn read(file: &[u8]) -> Result<Source> {
        use schema::BytecodeModule as Fields;
        let limit = file.len().saturating_mul(SHARING_LIMIT).saturating_add(1 << 16);
        let mut reader = Reader::new(file, limit);
        let root = reader.element(0)?;
        let left = file.len().saturating_mul(COPY_LIMIT);
        let mut tables = Tables { file, reader, left };
        let name = tables.text(root, Fields::VT_NAME)?;
        if name.is_empty() {
            return Err(Error::invalid_argument("the module has no name"));
        }
        let types = tables.rows(root, Fields::VT_TYPES, "types", |tables, row| {
            let text = tables.text(row, schema::TypeEntry::VT_FULL_NAME)?;
            let known = text == "i32" || text.strip_prefix('!').is_some_and(|name| !name.is_empty());
            if known { Ok(text) } else { Err(Error::invalid_argument(format!("`{}` is no type", text.escape_debug()))) }
        })?;
        let imports = tables.rows(root, Fields::VT_IMPORTS, "imports", |tables, row| {
            let full_name = tables.name(row, schema::Import::VT_FULL_NAME)?;
            let signature = tables.signature(row, schema::Import::VT_SIGNATURE, types.len())?.0;
            Ok(Import { full_name, signature })
        })?;
        let functions = tables.functions(root, types.len())?;
        let exports = tables.rows(root, Fields::VT_EXPORTS, "exports", |tables, row| {
            let local_name = tables.name(row, schema::Export::VT_LOCAL_NAME)?;
            let ordinal = tables.reader.u32(row, schema::Export::VT_INTERNAL_ORDINAL, 0)?;
            let Some(function) = functions.get(ordinal as usize) else {
                let (ordinal, count) = (ordinal as i32, functions.len());
                return Err(Error::out_of_range(format!("`{local_name}` is function {ordinal} of {count}")));
            };
            let signature = tables.signature(row, schema::Export::VT_SIGNATURE, types.len())?.0;
            if signature != function.signature {
                return Err(Error::invalid_argument(format!("`{local_name}` has another signature than its function")));
            }
            Ok(Export { local_name, function: ordinal })
        })?;
        let rodata = tables.rows(root, Fields::VT_RODATA_SEGMENTS, "rodata", Tables::segment)?;
        tables.rows(root, Fields::VT_RWDATA_SEGMENTS, "rwdata", |tables, row| {
            tables.reader.u32(row, schema::RwdataSegment::VT_BYTE_SIZE, 0)
        })?;
        let (global_bytes, global_refs) = tables.globals(root)?;
        Ok(Source { name, types, imports, exports, functions, rodata, global_bytes, global_refs })
    }

    /// The module's file. Constants are aligned to 4 bytes, as the builder has no way to align them more.
    ///
    /// Fails with `RESOURCE_EXHAUSTED` if it would take more than 1 GiB.
    pub(super) fn write(&self) -> Result<Vec<u8>> {
        self.check_size()?;
        let builder = &mut FlatBufferBuilder::new();
        let rodata: Vec<_> = self.rodata.iter().map(|bytes| builder.create_vector(bytes)).collect();
        let bytecode: Vec<u8> = self.functions.iter().flat_map(|function| function.bytecode.iter().copied()).collect();
        let bytecode_data = Some(builder.create_vector(&bytecode));
        let mut offset = 0;
        let descriptors: Vec<_> = self
            .functions
            .iter()
            .map(|function| {
                let length = function.bytecode.len() as i32;
                offset += length;
                let (values, references) = (function.i32_registers as i8, function.ref_registers as i8);
                schema::FunctionDescriptor::new(offset - length, length, values, references)
            })
            .collect();
        let rodata = vector(builder, rodata, |builder, data| {
            let arguments = schema::RodataSegmentArgs { data: Some(data), ..Default::default() };
            schema::RodataSegment::create(builder, &arguments)
        });
        let types = vector(builder, &self.types, |builder, text| {
            let full_name = Some(builder.create_string(text));
            schema::TypeEntry::create(builder, &schema::TypeEntryArgs { full_name })
        });
        let imports = vector(builder, &self.imports, |builder, import| {
            let full_name = Some(builder.create_string(&import.full_name));
            let signature = Some(signature(builder, &import.signature, &[]));
            schema::Import::create(builder, &schema::ImportArgs { full_name, signature })
        });
        let functions = vector(builder, &self.functions, |builder, function| {
            let name = &function.local_name;
            let local_name = (!name.is_empty()).then(|| builder.create_string(name));
            let signature = Some(signature(builder, &function.signature, &function.attributes));
            schema::Function::create(builder, &schema::FunctionArgs { local_name, signature })
        });
        let exports = vector(builder, &self.exports, |builder, export| {
            let local_name = Some(builder.create_string(&export.local_name));
            let none = Signature::default();
            let of = self.functions.get(export.function as usize).map_or(&none, |function| &function.signature);
            let signature = Some(signature(builder, of, &[]));
            let internal_ordinal = export.function as i32;
            schema::Export::create(builder, &schema::ExportArgs { local_name, signature, internal_ordinal })
        });
        let state = schema::ModuleStateArgs {
            global_bytes_capacity: self.global_bytes as i32,
            global_ref_count: self.global_refs as i32,
        };
        let arguments = schema::BytecodeModuleArgs {
            name: Some(builder.create_string(&self.name)),
            types: Some(types),
            imports: Some(imports),
            exports: Some(exports),
            functions: Some(functions),
            rodata_segments: Some(rodata),
            rwdata_segments: None,
            state: Some(schema::ModuleState::create(builder, &state)),
            descriptors: Some(builder.create_vector(&descriptors)),
            bytecode_data,
        };
        let root = schema::BytecodeModule::create(builder, &arguments);
        builder.finish(root, Some(schema::BYTECODE_MODULE_IDENTIFIER));
        Ok(builder.finished_data().to_vec())
    }

    /// Refuses what the FlatBuffer's builder would panic at.
    fn check_size(&self) -> Result<()> {
        let words = |signature: &Signature| 4 * (signature.arguments.len() + signature.results.len()) + 64;
        let function = |row: &Function| {
            let attributes: usize = row.attributes.iter().map(|(a, b)| a.len() + b.len() + 64).sum();
            row.bytecode.len() + row.local_name.len() + words(&row.signature) + attributes + 128
        };
        let export = |row: &Export| {
            let signature = self.functions.get(row.function as usize).map_or(0, |function| words(&function.signature));
            row.local_name.len() + signature + 64
        };
        let size = self.functions.iter().map(function).sum::<usize>()
            + self.types.iter().map(|text| text.len() + 64).sum::<usize>()
            + self.imports.iter().map(|row| row.full_name.len() + words(&row.signature) + 64).sum::<usize>()
            + self.exports.iter().map(export).sum::<usize>()
            + self.rodata.iter().map(|bytes| bytes.len() + 64).sum::<usize>();
        if size > FILE_LIMIT {
            return Err(Error::resource_exhausted(format!("the module takes {size} bytes; the limit is {FILE_LIMIT}")));
        }
        Ok(())
    }
}

type Builder<'b> = FlatBufferBuilder<'b>;
type Vector<'b, T> = WIPOffset<flatbuffers::Vector<'b, flatbuffers::ForwardsUOffset<T>>>;

fn vector<'b, T, Row>(
    builder: &mut Builder<'b>,
    rows: impl IntoIterator<Item = Row>,
    mut write: impl FnMut(&mut Builder<'b>, Row) -> WIPOffset<T>,
) -> Vector<'b, T> {
    let offsets: Vec<WIPOffset<T>> = rows.into_iter().map(|row| write(builder, row)).collect();
    builder.create_vector(&offsets)
}

fn signature<'b>(
    builder: &mut Builder<'b>,
    signature: &Signature,
    attributes: &[(String, String)],
) -> WIPOffset<schema::Signature<'b>> {
    let types = |types: &[u32], builder: &mut Builder<'b>| {
        let types: Vec<i32> = types.iter().map(|ordinal| *ordinal as i32).collect();
        (!types.is_empty()).then(|| builder.create_vector(&types))
    };
    let argument_types = types(&signature.arguments, builder);
    let result_types = types(&signature.results, builder);
    let attributes = (!attributes.is_empty()).then(|| {
        vector(builder, attributes, |builder, (key, value)| {
            let (key, value) = (Some(builder.create_string(key)), Some(builder.create_string(value)));
            schema::Attribute::create(builder, &schema::AttributeArgs { key, value })
        })
    });
    schema::Signature::create(builder, &schema::SignatureArgs { argument_types, result_types, attributes })
}

/// Reads tables.
struct Tables<'a> {
    file: &'a [u8],
    reader: Reader<'a>,
    /// Bytes that may still be copied.
    left: usize,
}

impl<'a> Tables<'a> {
    fn rows<T>(
        &mut self,
        root: Table<'a>,
        field: u16,
        name: &str,
        mut read: impl FnMut(&mut Self, Table<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let vector = self.reader.tables(root, field).map_err(|error| error.context(format!("`{name}`")))?;
        let mut rows = Vec::with_capacity(vector.count);
        for (index, position) in vector.positions(4).enumerate() {
            let row = self.reader.element(position).and_then(|table| read(self, table));
            rows.push(row.map_err(|error| error.context(format!("{name}[{index}]")))?);
        }
        Ok(rows)
    }

    fn text(&mut self, table: Table<'a>, field: u16) -> Result<String> {
        let text = self.reader.string(table, field)?;
        Ok(self.reader.text(text)?.into())
    }

    fn name(&mut self, table: Table<'a>, field: u16) -> Result<String> {
        match self.text(table, field)? {
            name if name.is_empty() => Err(Error::invalid_argument("it has no name")),
            name => Ok(name),
        }
    }

    fn numbers(&mut self, table: Table<'a>, field: u16) -> Result<Vec<u32>> {
        let vector = self.reader.vector(table, field, 4)?;
        Ok(vector.positions(4).map(|position| u32_at(self.file, position).unwrap_or_default()).collect())
    }

    /// A signature, which must be there, and its attributes.
    fn signature(
        &mut self,
        table: Table<'a>,
        field: u16,
        type_count: usize,
    ) -> Result<(Signature, Vec<(String, String)>)> {
        use schema::Signature as Fields;
        let Some(signature) = self.reader.child(table, field)? else {
            return Err(Error::invalid_argument("it has no signature"));
        };
        let arguments = self.numbers(signature, Fields::VT_ARGUMENT_TYPES)?;
        let results = self.numbers(signature, Fields::VT_RESULT_TYPES)?;
        if let Some(&ordinal) = arguments.iter().chain(&results).find(|ordinal| **ordinal as usize >= type_count) {
            let ordinal = ordinal as i32;
            return Err(Error::out_of_range(format!("its signature has type {ordinal} of {type_count}")));
        }
        let attributes = self.rows(signature, Fields::VT_ATTRIBUTES, "attributes", |tables, row| {
            Ok((tables.text(row, schema::Attribute::VT_KEY)?, tables.text(row, schema::Attribute::VT_VALUE)?))
        })?;
        Ok((Signature { arguments, results }, attributes))
    }

    fn functions(&mut self, root: Table<'a>, type_count: usize) -> Result<Vec<Function>> {
        use schema::BytecodeModule as Fields;
        let bytecode = self.reader.vector(root, Fields::VT_BYTECODE_DATA, 1)?;
        let descriptors = self.reader.vector(root, Fields::VT_DESCRIPTORS, DESCRIPTOR_LENGTH)?;
        let count = self.reader.tables(root, Fields::VT_FUNCTIONS)?.count;
        if descriptors.count != count {
            return Err(Error::invalid_argument(format!(
                "the module has {count} functions and {} descriptors",
                descriptors.count
            )));
        }
        let mut positions = descriptors.positions(DESCRIPTOR_LENGTH);
        self.rows(root, Fields::VT_FUNCTIONS, "functions", |tables, row| {
            let descriptor = positions.next().and_then(|position| array_at(tables.file, position));
            let (range, i32_registers, ref_registers) =
                descriptor_of(&descriptor.unwrap_or([0; DESCRIPTOR_LENGTH]), bytecode)?;
            let local_name = tables.text(row, schema::Function::VT_LOCAL_NAME)?;
            let (signature, attributes) = tables.signature(row, schema::Function::VT_SIGNATURE, type_count)?;
            let bytecode = tables.copy(range)?;
            Ok(Function { local_name, signature, attributes, bytecode, i32_registers, ref_registers })
        })
    }

    /// The bytes of a range that lies within the file.
    fn copy(&mut self, range: VectorRange) -> Result<Vec<u8>> {
        self.left = self.left.checked_sub(range.count).ok_or_else(|| {
            Error::resource_exhausted(format!(
                "functions and constants share the file's bytes more than {COPY_LIMIT} times"
            ))
        })?;
        Ok(self.file.get(range.start..).and_then(|rest| rest.get(..range.count)).unwrap_or_default().to_vec())
    }

    fn segment(&mut self, segment: Table<'a>) -> Result<Vec<u8>> {
        use schema::RodataSegment as Fields;
        let compression = self.reader.u8(segment, Fields::VT_COMPRESSION_TYPE, 0)?;
        if compression > schema::Compression::ENUM_MAX {
            return Err(Error::unimplemented(format!("compression {compression}")));
        }
        let data = self.reader.vector(segment, Fields::VT_DATA, 1)?;
        self.copy(data)
    }

    fn globals(&mut self, root: Table<'a>) -> Result<(u32, u32)> {
        use schema::ModuleState as Fields;
        let Some(state) = self.reader.child(root, schema::BytecodeModule::VT_STATE)? else { return Ok((0, 0)) };
        let number = |field| self.reader.u32(state, field, 0);
        Ok((
            limited(number(Fields::VT_GLOBAL_BYTES_CAPACITY)?, GLOBAL_BYTES_LIMIT, "bytes of globals")?,
            limited(number(Fields::VT_GLOBAL_REF_COUNT)?, GLOBAL_REF_LIMIT, "reference globals")?,
        ))
    }
}

/// Checks a descriptor: where the bytecode lies, and the numbers of registers.
fn descriptor_of(descriptor: &[u8; DESCRIPTOR_LENGTH], bytecode: VectorRange) -> Result<(VectorRange, u8, u8)> {
    use super::isa::{I32_REGISTERS, REF_REGISTERS};
    let word = |position| u32_at(descriptor, position).unwrap_or_default() as i32;
    let (offset, length) = (word(0), word(4));
    let (i32_registers, ref_registers) = (descriptor[8], descriptor[9]);
    let range = match (usize::try_from(offset), usize::try_from(length)) {
        (Ok(start), Ok(length)) if start <= bytecode.count && length <= bytecode.count - start => {
            VectorRange { start: bytecode.start + start, count: length }
        }
        _ => {
            return Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed the bytecode's {}",
                bytecode.count
            )));
        }
    };
    if i32_registers > I32_REGISTERS || ref_registers > REF_REGISTERS {
        return Err(Error::out_of_range(format!(
            "it has {i32_registers} 32-bit and {ref_registers} reference registers; the limits are {I32_REGISTERS} and \
             {REF_REGISTERS}"
        )));
    }
    Ok((range, i32_registers, ref_registers))
}
