//! Any bytes are parsed or rejected; the parsed ranges lie within them.
#![no_main]

use std::sync::Arc;

use incarnate_runtime::bytecode::{Archive, Contents, Module};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(archive) = Archive::new(Arc::new(Contents::copy_from(data))) else { return };
    assert!(archive.flatbuffer_range().end <= data.len());
    for offset in [0, 1, 64, data.len() as u64, u64::MAX] {
        for length in [0, 1, data.len() as u64, u64::MAX] {
            if let Some(range) = archive.external(offset, length) {
                assert_eq!(data.get(range).map(<[u8]>::len), Some(length as usize));
            }
        }
    }
    let Ok(module) = Module::parse(archive) else { return };
    for ordinal in 0..module.rodata_count() {
        assert!(module.rodata_bytes(ordinal).is_some());
    }
    let strings: usize = module.imports().map(|import| import.full_name.len()).sum();
    assert!(strings <= 32 * data.len() + (1 << 16));
});
