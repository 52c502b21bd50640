//! Files that are read in chunks: the metadata of a model is read, and its weights are not.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use incarnate_bytecode::{Contents, Error, MappedContents, Result, ResultExt as _, open_regular_file};

use crate::GgufFile;
use crate::file::names_architecture;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;

struct ChunkedFile {
    length: usize,
    reader: Mutex<Reader>,
}

struct Reader {
    file: BufReader<File>,
    position: u64,
}

impl Reader {
    fn read(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        // Keeps the chunk if the offset is in it.
        self.file.seek_relative(offset.cast_signed().wrapping_sub(self.position.cast_signed()))?;
        self.position = offset;
        match self.file.read_exact(target) {
            Ok(()) => self.position += target.len() as u64,
            // The file has become shorter.
            Err(error) => {
                self.position = self.file.seek(SeekFrom::Start(0))?;
                return Err(error);
            }
        }
        Ok(())
    }
}

impl MappedContents for ChunkedFile {
    fn length(&self) -> usize {
        self.length
    }

    fn read(&self, offset: usize, target: &mut [u8]) -> bool {
        // A reader that panicked has whole chunks all the same.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).read(offset as u64, target).is_ok()
    }
}

/// The contents of a file, of which only those are read that are asked for.
pub(crate) fn contents_of(path: &Path) -> Result<Contents> {
    let file = open_regular_file(path)?;
    let length = file.metadata()?.len();
    let length = usize::try_from(length).map_err(|_| Error::out_of_range("the file exceeds the address space"))?;
    let reader = Mutex::new(Reader { file: BufReader::with_capacity(CHUNK, file), position: 0 });
    Ok(Contents::mapped(ChunkedFile { length, reader }))
}

impl GgufFile {
    /// Reads the metadata and the list of tensors of a file, and not its data.
    ///
    /// # Errors
    /// Errors of opening the file; those of [`GgufFile::read`].
    pub fn open(path: &Path) -> Result<GgufFile> {
        let read = || GgufFile::read(Arc::new(contents_of(path)?));
        read().context(|| format!("reading '{}'", path.display()))
    }

    /// Returns whether a file is a model: whether its metadata names an architecture. Other files are archives of parameters. The metadata is
    /// read as far as that name, which is the first of ggml's files.
    ///
    /// # Errors
    /// Those of [`GgufFile::open`], without those of the list of tensors.
    pub fn is_model(path: &Path) -> Result<bool> {
        let names = || names_architecture(&contents_of(path)?);
        names().context(|| format!("reading '{}'", path.display()))
    }
}
