//! NumPy arrays as parameters: `.npy` files, and the members of uncompressed `.npz` archives.

use std::io::Cursor;
use std::sync::Arc;

use super::zip;
use crate::hal::format::NpyHeader;
use crate::parameters::file::ParameterFile;
use crate::parameters::index::{ParameterEntry, ParameterIndex, TensorFacts};
use crate::parameters::shown;
use crate::{Error, Result, ResultExt, StatusCode};

/// Most bytes of a header, which the format's versions 2 and 3 leave to 32 bits.
const HEADER_LIMIT: usize = 1 << 20;

pub(super) fn parse(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    index.add(array(file, super::stem(file), 0, file.contents().length())?)
}

pub(super) fn parse_archive(file: &Arc<ParameterFile>, index: &mut ParameterIndex) -> Result<()> {
    for member in zip::members(file.contents())? {
        let key = member.name.strip_suffix(".npy").unwrap_or(&member.name);
        let entry = member.data.and_then(|data| array(file, key.to_owned(), data.start, data.len()));
        let entry = match entry {
            // An array of objects, or one that is compressed, leaves the others usable.
            Err(error) if error.code() == StatusCode::Unimplemented => {
                ParameterEntry::unreadable(key, error.context(format!("'{}'", file.name())))
            }
            entry => entry.context(|| format!("'{}'", shown(key)))?,
        };
        index.add(entry)?;
    }
    Ok(())
}

/// Returns the array in a range of the file.
fn array(file: &Arc<ParameterFile>, key: String, start: usize, length: usize) -> Result<ParameterEntry> {
    let bytes = file.contents().bytes(start..start.saturating_add(length.min(HEADER_LIMIT)))?;
    let mut cursor = Cursor::new(&*bytes);
    let header = NpyHeader::read(&mut cursor)?;
    if header.big_endian || header.fortran_order {
        let why = if header.big_endian { "big-endian" } else { "in Fortran's order" };
        return Err(Error::unimplemented(format!(
            "elements are {why} and cannot be used in place: convert the file with `incarnate parameters create`"
        )));
    }
    let (data, size) = (cursor.position(), header.tensor.byte_length()?);
    if size > (length as u64).saturating_sub(data) {
        return Err(Error::out_of_range(format!(
            "{} is {size} bytes, but only {} are present",
            header.tensor,
            (length as u64).saturating_sub(data)
        )));
    }
    let facts = TensorFacts { element_type: header.tensor.element.to_string(), shape: header.tensor.shape };
    Ok(ParameterEntry::in_file(key, file, start as u64 + data, size)?.with_tensor(facts))
}
