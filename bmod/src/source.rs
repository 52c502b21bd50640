//! Reads the tables of a `BMOD` file.

use incarnate_bytecode::read::{Reader, Table, VectorRange, array_at, u32_at};
use incarnate_bytecode::{Error, Result};

use super::isa::{I32_REGISTERS, REF_REGISTERS};
use super::schema::{self, DESCRIPTOR_LENGTH};

/// How often tables may share the same data, on average: the work of reading stays in proportion to the file.
const SHARING_LIMIT: usize = 16;
/// How often functions may share the same bytecode, on average: each gets a copy.
const COPY_LIMIT: usize = 4;
/// Bytes that a file may have, as far as a FlatBuffer's signed offsets reach.
const FILE_LIMIT: usize = 1 << 31;

/// How a function is called: indices into the type table.
#[derive(Debug, PartialEq)]
pub(super) struct Signature {
    pub(super) arguments: Vec<u32>,
    pub(super) results: Vec<u32>,
}

/// A function of another module.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) full_name: String,
    pub(super) signature: Signature,
}

/// A function that others may call by name.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) local_name: String,
    pub(super) function: u32,
}

/// A function of the module.
#[derive(Debug)]
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
#[derive(Debug)]
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
        use schema::module as fields;
        if file.len() > FILE_LIMIT {
            return Err(Error::resource_exhausted(format!("the file has more than {FILE_LIMIT} bytes")));
        }
        let limit = file.len().saturating_mul(SHARING_LIMIT).saturating_add(1 << 16);
        let mut reader = Reader::new(file, limit);
        let root = reader.element(0)?;
        let left = file.len().saturating_mul(COPY_LIMIT);
        let mut tables = Tables { file, reader, left };
        let name = tables.text(root, fields::NAME)?;
        if name.is_empty() {
            return Err(Error::invalid_argument("the module has no name"));
        }
        let types = tables.rows(root, fields::TYPES, "types", |tables, row| {
            let text = tables.text(row, schema::type_entry::FULL_NAME)?;
            let known = text == "i32" || text.strip_prefix('!').is_some_and(|name| !name.is_empty());
            if known { Ok(text) } else { Err(Error::invalid_argument(format!("`{}` is no type", text.escape_debug()))) }
        })?;
        let imports = tables.rows(root, fields::IMPORTS, "imports", |tables, row| {
            let full_name = tables.name(row, schema::import::FULL_NAME)?;
            let signature = tables.signature(row, schema::import::SIGNATURE, types.len())?.0;
            Ok(Import { full_name, signature })
        })?;
        let functions = tables.functions(root, types.len())?;
        let exports = tables.rows(root, fields::EXPORTS, "exports", |tables, row| {
            let local_name = tables.name(row, schema::export::LOCAL_NAME)?;
            let ordinal = tables.reader.u32(row, schema::export::INTERNAL_ORDINAL, 0)?;
            let Some(function) = functions.get(ordinal as usize) else {
                let (ordinal, count) = (ordinal as i32, functions.len());
                return Err(Error::out_of_range(format!("`{local_name}` is function {ordinal} of {count}")));
            };
            let signature = tables.signature(row, schema::export::SIGNATURE, types.len())?.0;
            if signature != function.signature {
                return Err(Error::invalid_argument(format!("`{local_name}` has another signature than its function")));
            }
            Ok(Export { local_name, function: ordinal })
        })?;
        let rodata = tables.rows(root, fields::RODATA_SEGMENTS, "rodata", Tables::segment)?;
        tables.rows(root, fields::RWDATA_SEGMENTS, "rwdata", |tables, row| {
            tables.reader.u32(row, schema::rwdata_segment::BYTE_SIZE, 0)
        })?;
        let (global_bytes, global_refs) = tables.globals(root)?;
        Ok(Source { name, types, imports, exports, functions, rodata, global_bytes, global_refs })
    }

    /// Returns the ordinal of the function that an error about the converted module names.
    pub(super) fn function_named(&self, name: &str) -> Option<usize> {
        let export = self.exports.iter().find(|export| export.local_name == name);
        export.map_or_else(|| name.strip_prefix("fn")?.parse().ok(), |export| Some(export.function as usize))
    }
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
        use schema::signature as fields;
        let Some(signature) = self.reader.child(table, field)? else {
            return Err(Error::invalid_argument("it has no signature"));
        };
        let arguments = self.numbers(signature, fields::ARGUMENT_TYPES)?;
        let results = self.numbers(signature, fields::RESULT_TYPES)?;
        if let Some(&ordinal) = arguments.iter().chain(&results).find(|ordinal| **ordinal as usize >= type_count) {
            let ordinal = ordinal as i32;
            return Err(Error::out_of_range(format!("its signature has type {ordinal} of {type_count}")));
        }
        let attributes = self.rows(signature, fields::ATTRIBUTES, "attributes", |tables, row| {
            Ok((tables.text(row, schema::attribute::KEY)?, tables.text(row, schema::attribute::VALUE)?))
        })?;
        Ok((Signature { arguments, results }, attributes))
    }

    fn functions(&mut self, root: Table<'a>, type_count: usize) -> Result<Vec<Function>> {
        use schema::module as fields;
        let bytecode = self.reader.vector(root, fields::BYTECODE_DATA, 1)?;
        let descriptors = self.reader.vector(root, fields::DESCRIPTORS, DESCRIPTOR_LENGTH)?;
        let count = self.reader.tables(root, fields::FUNCTIONS)?.count;
        if descriptors.count != count {
            return Err(Error::invalid_argument(format!(
                "the module has {count} functions and {} descriptors",
                descriptors.count
            )));
        }
        let mut positions = descriptors.positions(DESCRIPTOR_LENGTH);
        self.rows(root, fields::FUNCTIONS, "functions", |tables, row| {
            let descriptor = positions.next().and_then(|position| array_at(tables.file, position));
            let (range, i32_registers, ref_registers) =
                descriptor_of(&descriptor.unwrap_or([0; DESCRIPTOR_LENGTH]), bytecode)?;
            let local_name = tables.text(row, schema::function::LOCAL_NAME)?;
            let (signature, attributes) = tables.signature(row, schema::function::SIGNATURE, type_count)?;
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
        use schema::rodata_segment as fields;
        let compression = self.reader.u8(segment, fields::COMPRESSION_TYPE, 0)?;
        if compression > schema::UNCOMPRESSED {
            return Err(Error::unimplemented(format!("compression {compression}")));
        }
        let data = self.reader.vector(segment, fields::DATA, 1)?;
        self.copy(data)
    }

    fn globals(&mut self, root: Table<'a>) -> Result<(u32, u32)> {
        use schema::state as fields;
        let Some(state) = self.reader.child(root, schema::module::STATE)? else { return Ok((0, 0)) };
        let number = |field| self.reader.u32(state, field, 0);
        Ok((number(fields::GLOBAL_BYTES_CAPACITY)?, number(fields::GLOBAL_REF_COUNT)?))
    }
}

/// Checks a descriptor: where the bytecode lies, and the numbers of registers.
fn descriptor_of(descriptor: &[u8; DESCRIPTOR_LENGTH], bytecode: VectorRange) -> Result<(VectorRange, u8, u8)> {
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
