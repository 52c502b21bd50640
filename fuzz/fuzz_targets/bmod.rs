//! Any bytes are rejected in one line, or converted to a module of bounded size.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| match incarnate_bmod::convert(data) {
    Ok(module) => assert!(module.len() <= 256 * data.len() + (1 << 16)),
    Err(error) => assert_eq!(error.to_string().lines().count(), 1),
});
