//! Files that are read in chunks: the metadata of a model is read, and its weights are not.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use incarnate_bytecode::{Contents, Error, MappedContents, Result, ResultExt as _, open_regular_file};

use crate::GgufFile;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;

struct ChunkedFile {
    length: usize,
    reader: Mutex<Reader>,
}

struct Reader {
    file: File,
    /// The position of the first byte of the chunk.
    start: usize,
    chunk: Vec<u8>,
}

impl Reader {
    fn read(&mut self, offset: usize, target: &mut [u8]) -> std::io::Result<()> {
        if target.len() > CHUNK {
            self.file.seek(SeekFrom::Start(offset as u64))?;
            return self.file.read_exact(target);
        }
        let in_chunk = |reader: &Reader| {
            let first = offset.checked_sub(reader.start)?;
            Some(first..first.checked_add(target.len())?)
        };
        if in_chunk(self).and_then(|range| self.chunk.get(range)).is_none() {
            self.file.seek(SeekFrom::Start(offset as u64))?;
            (self.start, self.chunk) = (offset, Vec::with_capacity(CHUNK));
            self.file.by_ref().take(CHUNK as u64).read_to_end(&mut self.chunk)?;
        }
        let found = in_chunk(self).and_then(|range| self.chunk.get(range));
        found.map(|bytes| target.copy_from_slice(bytes)).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }
}

impl MappedContents for ChunkedFile {
    fn length(&self) -> usize {
        self.length
    }

    fn read(&self, offset: usize, target: &mut [u8]) -> bool {
        // A reader that panicked has whole chunks all the same.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).read(offset, target).is_ok()
    }
}

impl GgufFile {
    /// Reads the metadata and the list of tensors of a file, and not its data.
    ///
    /// # Errors
    /// Errors of opening the file; those of [`GgufFile::read`].
    pub fn open(path: &Path) -> Result<GgufFile> {
        let context = || format!("reading '{}'", path.display());
        let file = open_regular_file(path)?;
        let length = file.metadata().context(context)?.len();
        let length = usize::try_from(length).map_err(|_| Error::out_of_range("the file exceeds the address space"))?;
        let reader = Mutex::new(Reader { file, start: 0, chunk: Vec::new() });
        GgufFile::read(Arc::new(Contents::mapped(ChunkedFile { length, reader }))).context(context)
    }
}
