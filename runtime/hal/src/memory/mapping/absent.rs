//! Memory-mapped files on platforms that map none: files are read instead.

use core::any::Any;
use core::convert::Infallible;
use std::ops::Range;
use std::path::Path;

use crate::bytecode::Contents;
use crate::{Error, Result};

/// A file that is mapped into memory, of which there is none.
#[derive(Debug)]
pub struct MappedFile(Infallible);

/// A file that is mapped for writing, of which there is none.
#[derive(Debug)]
pub(crate) struct WritableMapping(Infallible);

impl WritableMapping {
    /// # Errors
    /// UNIMPLEMENTED.
    pub(crate) fn open(path: &Path) -> Result<WritableMapping> {
        Err(absent(path))
    }

    pub(crate) fn as_mut_ptr(&mut self) -> (*mut u8, usize) {
        match self.0 {}
    }
}

impl MappedFile {
    /// Maps no file.
    ///
    /// # Errors
    /// UNIMPLEMENTED.
    pub fn open(path: &Path) -> Result<MappedFile> {
        Err(absent(path))
    }

    /// Reads the whole file as the contents of a module or of parameters. Errors contain the path.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn contents(path: &Path) -> Result<Contents> {
        Contents::read(path)
    }

    /// Reads a range of a file as the contents of parameters.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the file ends before the range does; errors of reading.
    pub fn contents_of_range(path: &Path, range: Range<u64>) -> Result<Contents> {
        let contents = Contents::read(path)?;
        let position = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
        let bytes = contents.bytes(position(range.start)..position(range.end))?;
        Ok(Contents::copy_from(&bytes))
    }

    /// Reads a file as [`MappedFile::contents`] does, and drops `companion` when the contents are dropped.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn contents_with(path: &Path, companion: impl Any + Send + Sync) -> Result<Contents> {
        struct Read<C>(Contents, C);
        impl<C> AsRef<[u8]> for Read<C> {
            fn as_ref(&self) -> &[u8] {
                self.0.as_bytes().unwrap_or_default()
            }
        }
        Ok(Contents::external(Read(Contents::read(path)?, companion)))
    }

    pub(crate) fn of(_: &Contents) -> Option<&MappedFile> {
        None
    }

    pub(crate) fn position(&self, _: *const u8) -> usize {
        match self.0 {}
    }

    pub(crate) fn private(&self, _: Range<usize>) -> Result<WritableMapping> {
        match self.0 {}
    }
}

fn absent(path: &Path) -> Error {
    Error::unimplemented(format!("mapping {}: the platform maps no files; read it instead", path.display()))
}
