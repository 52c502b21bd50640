//! Parses and relocates an ELF for every architecture, without running its code.
#![no_main]

use incarnate_runtime::hal::local::library::abi::EXPORT_NAME;
use incarnate_runtime::hal::local::loaders::elf::{Class, Machine, RelocatedImage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for machine in Machine::ALL {
        let base = if machine.class == Class::Elf64 { 0x7F12_3456_7000 } else { 0xF123_4000 };
        // The result depends only on the input.
        let first = RelocatedImage::new(data, machine, base, EXPORT_NAME);
        let Ok(first) = first else { continue };
        if first.bytes.len() <= 1 << 20 {
            let second = RelocatedImage::new(data, machine, base, EXPORT_NAME);
            assert!(second.is_ok_and(|second| second.bytes == first.bytes && second.symbol == first.symbol));
        }
    }
});
