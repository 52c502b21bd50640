//! `FileHandle`, `ParameterIndex`, `ParameterIndexEntry`, `ParameterProvider`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use incarnate_runtime::bytecode::Contents;
use incarnate_runtime::parameters::{
    self, ArchiveFormat, ArchiveWriter, FileAccess, ParameterEntry, ParameterFile, ParameterStorage, ScopedIndex, Splat,
};
use incarnate_runtime::{Error, Result, ResultExt, vm};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use super::memory::{self, HostMemory, python_memory};
use super::status::{OrRaise, exception};

/// A file of parameters: in memory of the host, mapped, or an open file of the process.
#[pyclass(module = "incarnate.iree.runtime", extends = HostMemory, frozen)]
pub(super) struct FileHandle {
    file: Arc<ParameterFile>,
    /// The descriptor of an open file, which is not mapped for Python.
    descriptor: Option<i32>,
}

impl FileHandle {
    fn create(
        py: Python<'_>,
        file: Arc<ParameterFile>,
        bytes: Option<Arc<vm::Buffer>>,
        descriptor: Option<i32>,
    ) -> PyResult<Py<FileHandle>> {
        let base = HostMemory::new(bytes);
        Py::new(py, PyClassInitializer::from(base).add_subclass(FileHandle { file, descriptor }))
    }

    /// A file that is mapped, or in memory.
    fn of_file(py: Python<'_>, file: Arc<ParameterFile>) -> PyResult<Py<FileHandle>> {
        let contents = file.contents();
        // Contents without an address are not shown in place.
        let bytes = vm::Buffer::of_contents(Arc::clone(contents), 0..contents.length()).ok();
        FileHandle::create(py, file, bytes, None)
    }

    fn of_object(py: Python<'_>, object: &Bound<'_, PyAny>, writable: bool) -> PyResult<(Py<FileHandle>, u64)> {
        const NAME: &str = "memory";
        if writable {
            let bytes = python_memory(object, true)?.bytes;
            let (file, length) = (ParameterFile::from_vm_buffer(NAME, Arc::clone(&bytes)), bytes.length());
            let file = file.or_raise(py, "Could not wrap host memory into a file handle")?;
            return Ok((FileHandle::create(py, file, Some(bytes), None)?, length));
        }
        let contents = memory::contents(object, ())?;
        let length = contents.length() as u64;
        Ok((FileHandle::of_file(py, ParameterFile::from_contents(NAME, Arc::new(contents)))?, length))
    }
}

#[pymethods]
impl FileHandle {
    /// Uses the memory of an object in place, which the handle keeps.
    #[staticmethod]
    #[pyo3(signature = (host_buffer, readable = true, writable = false))]
    fn wrap_memory(
        py: Python<'_>,
        host_buffer: &Bound<'_, PyAny>,
        readable: bool,
        writable: bool,
    ) -> PyResult<Py<FileHandle>> {
        let _ = readable;
        Ok(FileHandle::of_object(py, host_buffer, writable)?.0)
    }

    /// Uses an open file, which is mapped: its descriptor can be closed afterwards.
    #[staticmethod]
    #[pyo3(signature = (fd, readable = true, writable = false))]
    fn wrap_fd(py: Python<'_>, fd: i32, readable: bool, writable: bool) -> PyResult<Py<FileHandle>> {
        let _ = readable;
        if !cfg!(unix) {
            let error = Error::unimplemented("file descriptors are those of Unix; wrap the contents by wrap_memory");
            return Err(exception(py, "Could not wrap host fd into a file handle", &error));
        }
        let path = PathBuf::from(format!("/dev/fd/{fd}"));
        let access = if writable { FileAccess::Write } else { FileAccess::Map };
        let file = py.detach(|| ParameterFile::open(&path, access));
        let file = file.or_raise(py, "Could not wrap host fd into a file handle")?;
        FileHandle::create(py, file, None, Some(fd))
    }

    /// True if the contents are memory of the host, which `host_allocation` shows.
    #[getter]
    fn is_host_allocation(slf: &Bound<'_, Self>) -> bool {
        slf.as_super().get().bytes().is_some()
    }

    /// A view of the contents.
    #[getter]
    fn host_allocation<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// True if the handle is of an open file.
    #[getter]
    fn is_fd(&self) -> bool {
        self.descriptor.is_some()
    }

    /// False: files are mapped or in memory.
    #[getter]
    fn is_async(&self) -> bool {
        false
    }

    /// The descriptor that the handle was created with; None if it was created without.
    #[getter]
    fn fd(&self) -> Option<i32> {
        self.descriptor
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        match slf.get().descriptor {
            Some(descriptor) => Ok(format!("FileHandle<fd({descriptor})>")),
            None => Ok(format!("FileHandle<host_allocation({})>", FileHandle::host_allocation(slf)?.str()?)),
        }
    }
}

/// Provides the parameters of a scope.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct ParameterProvider(pub(super) Arc<dyn parameters::ParameterProvider>);

#[derive(Default)]
struct Parameters {
    index: parameters::ParameterIndex,
    /// The handles of the files that entries are in.
    files: Vec<Py<FileHandle>>,
}

/// Parameters by key.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct ParameterIndex(Mutex<Parameters>);

/// Metadata of an entry: text, or bytes.
#[derive(FromPyObject)]
enum Metadata {
    Text(String),
    Bytes(Vec<u8>),
}

fn with_metadata(entry: ParameterEntry, metadata: Option<Metadata>) -> ParameterEntry {
    match metadata {
        None => entry,
        Some(Metadata::Text(text)) => entry.with_metadata(text.into_bytes()),
        Some(Metadata::Bytes(bytes)) => entry.with_metadata(bytes),
    }
}

impl ParameterIndex {
    /// The parameters, locked. No code of Python runs meanwhile, so that no thread waits for the lock and for the interpreter's.
    fn lock(&self) -> MutexGuard<'_, Parameters> {
        // A panic leaves no change incomplete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, py: Python<'_>, entry: Result<ParameterEntry>, file: Option<Py<FileHandle>>) -> PyResult<()> {
        let add = |entry| {
            let mut parameters = self.lock();
            parameters.index.add(entry)?;
            parameters.files.extend(file);
            Ok(())
        };
        entry.and_then(add).or_raise(py, "Could not add parameter index entry")
    }

    fn add_archive(&self, py: Python<'_>, handle: Py<FileHandle>, format: ArchiveFormat) -> PyResult<()> {
        let file = Arc::clone(&handle.get().file);
        let mut found = parameters::ParameterIndex::new();
        let operation = "Could not parse parameter file index";
        py.detach(|| found.add_archive(&file, format)).or_raise(py, operation)?;
        let added = {
            let mut parameters = self.lock();
            parameters.files.push(handle);
            // Earlier parameters take precedence.
            let new = found.entries().iter().filter(|entry| parameters.index.get(entry.key()).is_none()).cloned();
            new.collect::<Vec<_>>().into_iter().try_for_each(|entry| parameters.index.add(entry))
        };
        added.or_raise(py, operation)
    }
}

/// Returns the entry for Python; `files` are the handles of known files.
fn entry_of(py: Python<'_>, entry: ParameterEntry, files: &[Py<FileHandle>]) -> PyResult<ParameterIndexEntry> {
    let file = match entry.storage() {
        ParameterStorage::Splat(_) | ParameterStorage::Joined(_) | ParameterStorage::Unreadable(_) => None,
        ParameterStorage::File { file, .. } => {
            let known = files.iter().find(|handle| Arc::ptr_eq(&handle.get().file, file));
            Some(known.map_or_else(|| FileHandle::of_file(py, Arc::clone(file)), |handle| Ok(handle.clone_ref(py)))?)
        }
    };
    Ok(ParameterIndexEntry { entry, file })
}

impl Parameters {
    /// The handles of the files, without those of a lock.
    fn handles(&self, py: Python<'_>) -> Vec<Py<FileHandle>> {
        self.files.iter().map(|handle| handle.clone_ref(py)).collect()
    }
}

/// The format of a name, such as `irpa`.
fn format_of(name: &str) -> Result<ArchiveFormat> {
    ArchiveFormat::of(Path::new(&format!("archive.{name}")), &[])
}

#[pymethods]
impl ParameterIndex {
    #[new]
    fn new() -> ParameterIndex {
        ParameterIndex(Mutex::default())
    }

    fn __len__(&self) -> usize {
        self.lock().index.entries().len()
    }

    fn __getitem__(&self, py: Python<'_>, i: usize) -> PyResult<ParameterIndexEntry> {
        let (entry, count, files) = {
            let parameters = self.lock();
            let entries = parameters.index.entries();
            (entries.get(i).cloned(), entries.len(), parameters.handles(py))
        };
        let missing = || Error::out_of_range(format!("entry {i} of {count} parameters"));
        entry_of(py, entry.ok_or_else(missing).or_raise(py, "Could not enumerate parameter index")?, &files)
    }

    /// Returns keys and entries.
    fn items(&self, py: Python<'_>) -> PyResult<Vec<(String, ParameterIndexEntry)>> {
        let (entries, files) = {
            let parameters = self.lock();
            (parameters.index.entries().to_vec(), parameters.handles(py))
        };
        entries.into_iter().map(|entry| Ok((entry.key().to_owned(), entry_of(py, entry, &files)?))).collect()
    }

    /// Does nothing: an index grows as entries are added.
    fn reserve(&self, new_capacity: usize) {
        let _ = new_capacity;
    }

    /// Adds a parameter of `total_length` bytes that repeats a pattern of 1, 2, 4, 8 or 16 bytes.
    #[pyo3(signature = (key, pattern, total_length, *, metadata = None))]
    fn add_splat(
        &self,
        py: Python<'_>,
        key: String,
        pattern: &Bound<'_, PyAny>,
        total_length: u64,
        metadata: Option<Metadata>,
    ) -> PyResult<()> {
        let pattern = python_memory(pattern, false)?.bytes.to_vec();
        let splat = pattern.and_then(|pattern| Splat::new(&pattern, total_length));
        self.add(py, splat.map(|splat| with_metadata(ParameterEntry::splat(key, splat), metadata)), None)
    }

    /// Adds a parameter that is a range of a file.
    #[pyo3(signature = (key, file_handle, length, *, offset = 0, metadata = None))]
    fn add_from_file_handle(
        &self,
        py: Python<'_>,
        key: String,
        file_handle: &Bound<'_, FileHandle>,
        length: u64,
        offset: u64,
        metadata: Option<Metadata>,
    ) -> PyResult<()> {
        let entry = ParameterEntry::in_file(key, &file_handle.get().file, offset, length);
        self.add(py, entry.map(|entry| with_metadata(entry, metadata)), Some(file_handle.clone().unbind()))
    }

    /// Adds a parameter that is the memory of an object, in place.
    #[pyo3(signature = (key, buffer, *, readable = true, writable = false, metadata = None))]
    fn add_buffer(
        &self,
        py: Python<'_>,
        key: String,
        buffer: &Bound<'_, PyAny>,
        readable: bool,
        writable: bool,
        metadata: Option<Metadata>,
    ) -> PyResult<()> {
        let _ = readable;
        let (handle, length) = FileHandle::of_object(py, buffer, writable)?;
        let entry = ParameterEntry::in_file(key, &handle.get().file, 0, length);
        self.add(py, entry.map(|entry| with_metadata(entry, metadata)), Some(handle))
    }

    /// Adds the contents of an archive: `irpa`, `gguf`, `safetensors`, `npy`, `npz`, or `bin`.
    fn load_from_file_handle(&self, py: Python<'_>, file_handle: &Bound<'_, FileHandle>, format: &str) -> PyResult<()> {
        let format = format_of(format).or_raise(py, "Could not parse parameter file index")?;
        self.add_archive(py, file_handle.clone().unbind(), format)
    }

    /// Adds the contents of an archive file, whose extension names the format unless it is given. The file is mapped, or read with
    /// `mmap=False`. What programs write to parameters changes a file that is `writable`.
    #[pyo3(signature = (file_path, *, format = None, readable = true, writable = false, mmap = true))]
    fn load(
        &self,
        py: Python<'_>,
        file_path: PathBuf,
        format: Option<&str>,
        readable: bool,
        writable: bool,
        mmap: bool,
    ) -> PyResult<()> {
        let _ = readable;
        let access = match (writable, mmap) {
            (true, _) => FileAccess::Write,
            (false, true) => FileAccess::Map,
            (false, false) => FileAccess::Read,
        };
        let operation = "Error opening parameter file";
        let file = py.detach(|| ParameterFile::open(&file_path, access)).or_raise(py, operation)?;
        let found = || ArchiveFormat::of(&file_path, &first_bytes(file.contents()));
        let format = format.map_or_else(found, format_of).or_raise(py, operation)?;
        self.add_archive(py, FileHandle::of_file(py, file)?, format)
    }

    /// Writes the parameters as an archive (`.irpa`), and adds those of the file to an index, which is returned: a new one if none is
    /// given.
    #[pyo3(signature = (file_path, file_offset = 0, target_index = None))]
    fn create_archive_file<'py>(
        &self,
        py: Python<'py>,
        file_path: PathBuf,
        file_offset: u64,
        target_index: Option<Bound<'py, ParameterIndex>>,
    ) -> PyResult<Bound<'py, ParameterIndex>> {
        let operation = "Error building parameter archive";
        if file_offset != 0 {
            let error = Error::unimplemented("an archive begins at the beginning of its file");
            return Err(exception(py, operation, &error));
        }
        let index = self.lock().index.clone();
        let write = || -> Result<Arc<ParameterFile>> {
            let file = File::create(&file_path).context(|| format!("creating {}", file_path.display()))?;
            let mut writer = BufWriter::new(file);
            ArchiveWriter::new(&index).write(&mut writer)?;
            writer.flush().context(|| format!("writing {}", file_path.display()))?;
            ParameterFile::open(&file_path, FileAccess::Map)
        };
        let file = py.detach(write).or_raise(py, operation)?;
        let target = target_index.map_or_else(|| Bound::new(py, ParameterIndex::new()), Ok)?;
        target.get().add_archive(py, FileHandle::of_file(py, file)?, ArchiveFormat::Irpa)?;
        Ok(target)
    }

    /// Creates a provider of the parameters as they are now, under a scope.
    #[pyo3(signature = (*, scope = "", max_concurrent_operations = None))]
    fn create_provider(&self, scope: &str, max_concurrent_operations: Option<usize>) -> ParameterProvider {
        let _ = max_concurrent_operations;
        ParameterProvider(Arc::new(ScopedIndex::new(scope, self.lock().index.clone())))
    }

    fn __repr__(&self) -> String {
        let parameters = self.lock();
        let entries = parameters.index.entries();
        let total = entries.iter().fold(0u64, |total, entry| total.saturating_add(entry.length()));
        let mut text = format!("Parameter scope <global> ({} entries, {total} total bytes)\n", entries.len());
        for entry in entries {
            text += &match entry.storage() {
                ParameterStorage::Splat(_) => format!("  splat of {} bytes: {}\n", entry.length(), entry.key()),
                ParameterStorage::Unreadable(error) => format!("  cannot be read ({error}): {}\n", entry.key()),
                ParameterStorage::Joined(parts) => {
                    format!("  {} bytes of {} parameters: {}\n", entry.length(), parts.len(), entry.key())
                }
                ParameterStorage::File { file, offset } => {
                    format!("  {} bytes at {offset} of {}: {}\n", entry.length(), file.name(), entry.key())
                }
            };
        }
        text
    }
}

/// The first bytes of contents, which identify a format.
fn first_bytes(contents: &Contents) -> Vec<u8> {
    contents.bytes(0..contents.length().min(16)).map(|bytes| bytes.into_owned()).unwrap_or_default()
}

/// A parameter: a range of a file, or a repeated pattern.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct ParameterIndexEntry {
    entry: ParameterEntry,
    /// None for a pattern.
    file: Option<Py<FileHandle>>,
}

#[pymethods]
impl ParameterIndexEntry {
    /// The name.
    #[getter]
    fn key(&self) -> &str {
        self.entry.key()
    }

    /// The number of bytes.
    #[getter]
    fn length(&self) -> u64 {
        self.entry.length()
    }

    /// The metadata, whose meaning is the user's.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.entry.metadata())
    }

    /// True for a range of a file.
    #[getter]
    fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// True for a repeated pattern.
    #[getter]
    fn is_splat(&self) -> bool {
        matches!(self.entry.storage(), ParameterStorage::Splat(_))
    }

    /// The file, and the offset of the first byte.
    #[getter]
    fn file_storage(&self, py: Python<'_>) -> PyResult<(Py<FileHandle>, u64)> {
        match (&self.file, self.entry.storage()) {
            (Some(file), ParameterStorage::File { offset, .. }) => Ok((file.clone_ref(py), *offset)),
            (_, ParameterStorage::Unreadable(error)) => Err(PyValueError::new_err(error.to_string())),
            _ => Err(PyValueError::new_err("Entry is not file storage based: it is a splat, or has several parts")),
        }
    }

    /// A view of the bytes in the file.
    #[getter]
    fn file_view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (file, offset) = self.file_storage(py)?;
        let end = offset.saturating_add(self.entry.length());
        let range = py.import("builtins")?.getattr("slice")?.call1((offset, end))?;
        FileHandle::host_allocation(file.bind(py))?.get_item(range)
    }

    /// The pattern.
    #[getter]
    fn splat_pattern<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match self.entry.storage() {
            ParameterStorage::Splat(splat) => Ok(PyBytes::new(py, splat.pattern())),
            ParameterStorage::File { .. } | ParameterStorage::Joined(_) => {
                Err(PyValueError::new_err("Entry is not splat based: it is in a file"))
            }
            ParameterStorage::Unreadable(error) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (key, length) = (self.entry.key(), self.entry.length());
        if let ParameterStorage::Unreadable(error) = self.entry.storage() {
            return Ok(format!("<ParameterIndexEntry '{key}' that cannot be read: {error}>"));
        }
        if self.file.is_none() {
            let pattern = self.splat_pattern(py)?.repr()?;
            return Ok(format!("<ParameterIndexEntry '{key}' splat {pattern}:{length}>"));
        }
        let (file, offset) = self.file_storage(py)?;
        Ok(format!("<ParameterIndexEntry '{key}' {}:{offset}:{length}>", FileHandle::__repr__(file.bind(py))?))
    }
}
