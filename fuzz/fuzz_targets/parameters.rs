//! Reads parameter archives in every format: accepted entries lie in the file, and writing and reading preserves them.
#![no_main]

use std::sync::Arc;

use incarnate_runtime::bytecode::Contents;
use incarnate_runtime::parameters::{ArchiveFormat, ArchiveWriter, ParameterFile, ParameterIndex, ParameterStorage};
use libfuzzer_sys::fuzz_target;

const FORMATS: [ArchiveFormat; 5] =
    [ArchiveFormat::Irpa, ArchiveFormat::Gguf, ArchiveFormat::Safetensors, ArchiveFormat::Npy, ArchiveFormat::Npz];

fn read(bytes: &[u8], format: ArchiveFormat) -> Option<ParameterIndex> {
    let file = ParameterFile::from_contents("fuzzed", Arc::new(Contents::copy_from(bytes)));
    let mut index = ParameterIndex::new();
    index.add_archive(&file, format).ok().map(|()| index)
}

fuzz_target!(|data: &[u8]| {
    for format in FORMATS {
        let Some(index) = read(data, format) else { continue };
        // Entries of one archive may share bytes: their total is not bounded by the file.
        let stored: u64 = index
            .entries()
            .iter()
            .filter(|entry| matches!(entry.storage(), ParameterStorage::File { .. }))
            .map(|entry| entry.length())
            .sum();
        if stored > 1 << 20 {
            continue;
        }
        let mut written = Vec::new();
        if index.entries().iter().any(|entry| entry.check_readable().is_err()) {
            // An archive with them would lack their bytes.
            assert!(ArchiveWriter::new(&index).write(&mut written).is_err());
            continue;
        }
        ArchiveWriter::new(&index).write(&mut written).expect("a vector takes all");
        let again = read(&written, ArchiveFormat::Irpa).expect("what is written is sound");
        assert_eq!(again.entries().len(), index.entries().len());
        for (one, other) in again.entries().iter().zip(index.entries()) {
            assert_eq!((one.key(), one.metadata(), one.length()), (other.key(), other.metadata(), other.length()));
            if matches!(one.storage(), ParameterStorage::File { .. }) {
                assert_eq!(one.read().expect("it is there"), other.read().expect("it is there"));
            }
        }
    }
});
