//! The driver's cache of compiled pipelines, and its file.
//!
//! The file belongs to one device and one version of its driver. Drivers trust what they read, so the file has a checksum; a damaged
//! one is ignored and replaced.
#![allow(unsafe_code, reason = "calls Vulkan")]

use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ash::vk;

use crate::Result;
use crate::error::Checked;
use crate::features::Properties;
use crate::gpu::Gpu;

/// The first bytes of a file; the last is its version.
const MAGIC: &[u8; 8] = b"INCVKPC\x01";
/// Magic, length of the data, checksum.
const HEADER: usize = 24;
/// The greatest file that is read or written, in bytes.
const MOST_BYTES: usize = 256 << 20;

/// A cache of pipelines, which is stored when it is dropped if it has grown.
pub(crate) struct PipelineCache {
    gpu: Arc<Gpu>,
    pub(crate) raw: vk::PipelineCache,
    file: Option<PathBuf>,
    /// The length of the data in the file.
    stored: AtomicUsize,
}

impl PipelineCache {
    /// Creates the cache of a device, with the contents of its file in `folder`.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn new(gpu: &Arc<Gpu>, folder: Option<&Path>) -> Result<PipelineCache> {
        let file = folder.map(|folder| folder.join(file_name(&gpu.properties)));
        let data = file.as_deref().and_then(read).filter(|data| is_of(data, &gpu.properties)).unwrap_or_default();
        let create = |data: &[u8]| {
            let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
            // SAFETY: the device lives. The data is none, or what this driver returned: checksum and header match.
            unsafe { gpu.raw.create_pipeline_cache(&info, None) }
        };
        let raw = create(&data).or_else(|_| create(&[])).checked("creating a pipeline cache")?;
        Ok(PipelineCache { gpu: Arc::clone(gpu), raw, file, stored: AtomicUsize::new(data.len()) })
    }

    /// Stores the cache if it has grown. A cache that cannot be stored costs time in the next process and is no error.
    pub(crate) fn store(&self) {
        let Some(file) = &self.file else { return };
        // SAFETY: the cache is of the device; Vulkan synchronizes the call with others that use it.
        let Ok(data) = (unsafe { self.gpu.raw.get_pipeline_cache_data(self.raw) }) else { return };
        if data.len() <= self.stored.load(Ordering::Relaxed) || data.len() > MOST_BYTES {
            return;
        }
        match write(file, &data) {
            Ok(()) => self.stored.store(data.len(), Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, file = %file.display(), "pipeline cache was not stored"),
        }
    }
}

impl Drop for PipelineCache {
    fn drop(&mut self) {
        // SAFETY: the cache is of the device, and no thread creates pipelines with it any more.
        unsafe { self.gpu.raw.destroy_pipeline_cache(self.raw, None) };
    }
}

impl fmt::Debug for PipelineCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PipelineCache({:?})", self.file)
    }
}

/// Returns the user's folder for caches of pipelines; `None` if it is unknown.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("LOCALAPPDATA")).or_else(home)?;
    Some(base.join("incarnate").join("vulkan"))
}

/// The name of the file of a device and its driver.
fn file_name(properties: &Properties) -> String {
    let uuid: String = properties.cache_uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let Properties { vendor, device, driver, .. } = properties;
    format!("{vendor:08x}-{device:08x}-{driver:08x}-{uuid}.cache")
}

/// Returns true if the header of the data names the device and its driver.
fn is_of(data: &[u8], properties: &Properties) -> bool {
    let word = |index: usize| {
        data.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    };
    word(0).is_some_and(|length| length >= 32 && length as usize <= data.len())
        && word(1) == Some(1)
        && word(2) == Some(properties.vendor)
        && word(3) == Some(properties.device)
        && data.get(16..32) == Some(&properties.cache_uuid[..])
}

/// FNV-1a over words of 8 bytes.
fn checksum(data: &[u8]) -> u64 {
    data.chunks(8).fold(0xCBF2_9CE4_8422_2325, |sum, chunk| {
        let word = chunk.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        (sum ^ word ^ (chunk.len() as u64) << 56).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29)
    })
}

/// Returns the data of a file; `None` if it is missing or damaged.
fn read(file: &Path) -> Option<Vec<u8>> {
    let length = fs::metadata(file).ok()?.len();
    let bytes = fs::read(file).ok().filter(|_| length <= MOST_BYTES as u64)?;
    let number = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let data = bytes.get(HEADER..)?;
    let is_whole =
        bytes.starts_with(MAGIC) && number(8) == Some(data.len() as u64) && number(16) == Some(checksum(data));
    is_whole.then(|| data.to_vec())
}

/// Creates a file that no other process and no other thread has: it must not exist. Its name is random, as containers that share the folder
/// have equal numbers of processes, and as processes that were killed leave such files.
fn create_scratch(folder: &Path) -> std::io::Result<(PathBuf, File)> {
    // The keys of the standard library's hash maps are random.
    let number = RandomState::new().hash_one(());
    let path = folder.join(format!(".{number:016x}.tmp"));
    let created = File::options().write(true).create_new(true).open(&path)?;
    Ok((path, created))
}

/// Replaces a file as a whole.
fn write(file: &Path, data: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let (scratch, mut created) = create_scratch(folder)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.extend(checksum(data).to_le_bytes());
    bytes.extend(data);
    let result = created.write_all(&bytes).and_then(|()| fs::rename(&scratch, file));
    if result.is_err() {
        let _ = fs::remove_file(&scratch);
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn damaged_files_are_ignored_and_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("cache");
        let file = folder.join("a.cache");
        assert_eq!(read(&file), None);
        let data: Vec<u8> = (0..=255).cycle().take(1003).collect();
        write(&file, &data).unwrap();
        assert_eq!(read(&file).as_deref(), Some(&data[..]));
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&file, &damaged).unwrap();
            assert_eq!(read(&file), None, "byte {at}");
        }
        for length in [0, 7, 23, 24, whole.len() - 1] {
            fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(read(&file), None, "{length} bytes");
        }
        write(&file, &data[..10]).unwrap();
        assert_eq!(read(&file).as_deref(), Some(&data[..10]));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        // Processes that were killed, and those that write at once, have files of their own.
        let others: BTreeSet<PathBuf> = (0..3000).map(|_| create_scratch(&folder).unwrap().0).collect();
        write(&file, &data).unwrap();
        assert_eq!(read(&file).as_deref(), Some(&data[..]));
        assert_eq!((others.len(), fs::read_dir(&folder).unwrap().count()), (3000, 3001));
    }
}
