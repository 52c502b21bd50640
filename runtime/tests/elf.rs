//! Loads ELF libraries of the compiler and runs their kernels; relocates those of other architectures.
//!
//! `.ci/targets` runs kernels of other architectures with QEMU's user mode.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, unused_imports, reason = "all but one kernel are compiled for x86-64 and 64-bit ARM only")
)]
#![allow(unsafe_code, reason = "calls of kernels, and an import of one")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use incarnate_runtime::hal::local::library::abi::EXPORT_NAME;
use incarnate_runtime::hal::local::library::{FlushDenormals, Import, ImportProvider, ImportRegistry};
use incarnate_runtime::hal::local::loaders::EmbeddedElfLoader;
use incarnate_runtime::hal::local::loaders::elf::{Class, LibraryFacts, Machine, RelocatedImage};
use incarnate_runtime::hal::local::{
    DispatchArguments, ExecutableLoader, ExecutableParameters, LocalExecutable, Worker,
};
use incarnate_runtime::vm::{Fuel, Limits};
use incarnate_runtime::{Result, StatusCode};

#[macro_use]
mod fixture;

const SIMPLE_MUL: &[u8] = include_bytes!("fixtures/elf/simple_mul_x86_64.so");
const MATMUL: &[u8] = fixture!("elf/matmul");
const BF16_ADD: &[u8] = fixture!("elf/bf16_add");
const DYNAMIC_SCALE: &[u8] = fixture!("elf/dynamic_scale");
const IMPORTS: &[u8] = fixture!("elf/imports");
const CONSTANTS: &[u8] = fixture!("elf/constants");

/// `simple_mul` for every architecture.
const ARCHITECTURES: [(&str, &[u8]); 6] = [
    ("x86_64", SIMPLE_MUL),
    ("arm_64", include_bytes!("fixtures/elf/simple_mul_arm_64.so")),
    ("riscv_64", include_bytes!("fixtures/elf/simple_mul_riscv_64.so")),
    ("riscv_32", include_bytes!("fixtures/elf/simple_mul_riscv_32.so")),
    ("arm_32", include_bytes!("fixtures/elf/simple_mul_arm_32.so")),
    ("x86_32", include_bytes!("fixtures/elf/simple_mul_x86_32.so")),
];

/// The descriptions of libraries are readable for any architecture.
#[test]
fn libraries_are_described_without_running_them() {
    for (name, data) in ARCHITECTURES {
        let facts = LibraryFacts::read(data, machine(name)).unwrap().unwrap_or_else(|| panic!("{name}"));
        assert_eq!((facts.abi, facts.imports.len(), facts.kernels.len()), (6, 0, 1), "{name}: {facts:?}");
        assert!(facts.kernels[0].starts_with("simple_mul_dispatch_0"), "{name}: {facts:?}");
    }
    let facts = LibraryFacts::read(IMPORTS, machine(architecture!())).unwrap().unwrap();
    assert_eq!(facts.imports, ["incarnate_test_offset"]);
    // Truncated files yield an error or nothing.
    for length in (0..SIMPLE_MUL.len()).step_by(97) {
        drop(LibraryFacts::read(&SIMPLE_MUL[..length], machine("x86_64")));
    }
    assert!(LibraryFacts::read(SIMPLE_MUL, machine("arm_64")).is_err());
}

mod kernels;

/// Little-endian number at an offset.
fn number(bytes: &[u8], offset: u64, size: u64) -> u64 {
    bytes[offset as usize..][..size as usize].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn machine(name: &str) -> &'static Machine {
    Machine::ALL.into_iter().find(|machine| machine.name == name).unwrap()
}

#[cfg(any(unix, all(windows, target_arch = "x86_64")))]
mod run {
    use super::kernels::{Aligned, binding, dispatch};
    use super::*;

    fn load_with(imports: ImportRegistry, data: &[u8], constants: &[u32]) -> Result<Arc<dyn LocalExecutable>> {
        EmbeddedElfLoader.load(&ExecutableParameters {
            format: &format!("embedded-elf-{}", host().name),
            data,
            contents: None,
            constants,
            imports: &imports,
            limits: &Limits::default(),
            reassociate: false,
        })
    }

    fn host() -> &'static Machine {
        Machine::HOST.unwrap()
    }

    /// `simple_mul` for the host.
    fn simple_mul_library() -> &'static [u8] {
        ARCHITECTURES.into_iter().find(|(name, _)| *name == host().name).unwrap().1
    }

    fn load(data: &[u8]) -> Arc<dyn LocalExecutable> {
        load_with(ImportRegistry::default(), data, &[]).unwrap()
    }

    #[test]
    fn simple_mul() {
        let executable = load(simple_mul_library());
        let info = &executable.functions()[0];
        assert_eq!(executable.functions().len(), 1);
        assert!(info.name.starts_with("simple_mul_dispatch_0_elementwise_4"), "{info:?}");
        assert_eq!((info.constant_count, info.binding_count, info.local_memory_size), (0, 3, 0));
        let mut lhs = Aligned([1.0f32, 2.0, 3.0, 4.0]);
        let mut rhs = Aligned([10.0f32, 20.0, 30.0, 0.5]);
        let mut out = Aligned([0.0f32; 4]);
        dispatch(&*executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
        assert_eq!(out.0, [10.0, 40.0, 90.0, 2.0]);
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn kernels_flush_denormals_and_the_caller_does_not() {
        let executable = load(simple_mul_library());
        let tiny = f32::MIN_POSITIVE;
        let mut lhs = Aligned([tiny, tiny / 2.0, 3.0, 4.0]);
        let mut rhs = Aligned([0.5f32, 4.0, 1.0, 1.0]);
        let mut out = Aligned([7.0f32; 4]);
        dispatch(&*executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
        assert_eq!(out.0, [0.0, 0.0, 3.0, 4.0]);
        let product = || std::hint::black_box(tiny) * std::hint::black_box(0.5);
        assert!(product() > 0.0, "the mode was not restored");
        // A guard over several dispatches: the mode stays until it is dropped.
        {
            // SAFETY: only kernels run.
            let _guard = unsafe { FlushDenormals::enter() };
            dispatch(&*executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
            dispatch(&*executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
        }
        assert_eq!(out.0, [0.0, 0.0, 3.0, 4.0]);
        assert!(product() > 0.0, "the mode was not restored");
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn matmul_in_parts() {
        const M: usize = 96;
        const K: usize = 32;
        const N: usize = 160;
        /// The compiler's grid for these extents, in one dimension: 3 by 8 for 64-bit ARM, 2 by 8 for x86-64.
        const WORKGROUPS: u32 = if cfg!(target_arch = "aarch64") { 24 } else { 16 };
        let executable = load(MATMUL);
        let mut lhs = Box::new(Aligned([0.0f32; M * K]));
        let mut rhs = Box::new(Aligned([0.0f32; K * N]));
        let mut out = Box::new(Aligned([f32::NAN; M * N]));
        // Small integers: every sum is exact in any order.
        lhs.0.iter_mut().enumerate().for_each(|(index, value)| *value = (index * 7 % 13) as f32 - 6.0);
        rhs.0.iter_mut().enumerate().for_each(|(index, value)| *value = (index * 5 % 11) as f32 - 5.0);
        let bindings = [binding(&mut lhs), binding(&mut rhs), binding(&mut out)];
        for part in [11..u64::from(WORKGROUPS), 0..1, 1..1, 1..11] {
            dispatch(&*executable, WORKGROUPS, part, &[], &bindings).unwrap();
        }
        for row in 0..M {
            for column in 0..N {
                let expected: f32 = (0..K).map(|k| lhs.0[row * K + k] * rhs.0[k * N + column]).sum();
                assert_eq!(out.0[row * N + column], expected, "row {row}, column {column}");
            }
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn bf16_add() {
        // The upper half of an f32; these values are exact.
        let bf16 = |value: f32| (value.to_bits() >> 16) as u16;
        let executable = load(BF16_ADD);
        let mut lhs = Aligned([0u16; 32]);
        let mut rhs = Aligned([0u16; 32]);
        let mut out = Aligned([0u16; 32]);
        for index in 0..32 {
            lhs.0[index] = bf16(index as f32);
            rhs.0[index] = bf16(2.0 - index as f32 * 3.0);
        }
        dispatch(&*executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
        for index in 0..32 {
            assert_eq!(out.0[index], bf16(2.0 - index as f32 * 2.0), "element {index}");
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn dispatch_constants_give_the_extent() {
        const EXTENT: usize = 4096 + 5;
        let executable = load(DYNAMIC_SCALE);
        assert_eq!(executable.functions()[0].constant_count, 2);
        let mut values = Box::new(Aligned([1.5f32; EXTENT + 3]));
        let mut out = Box::new(Aligned([-1.0f32; EXTENT + 3]));
        values.0[EXTENT - 1] = 8.0;
        let bindings = [binding(&mut values), binding(&mut out)];
        dispatch(&*executable, 2, 0..2, &[EXTENT as u32, 0], &bindings).unwrap();
        assert!(out.0[..EXTENT - 1].iter().all(|value| *value == 3.0));
        assert_eq!(out.0[EXTENT - 1..], [16.0, -1.0, -1.0, -1.0]);
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn wrong_operands_are_errors() {
        let executable = load(DYNAMIC_SCALE);
        let mut values = Aligned([1.0f32; 4]);
        let mut out = Aligned([0.0f32; 4]);
        let bindings = [binding(&mut values), binding(&mut out)];
        let code = |result: Result<()>| result.unwrap_err().code();
        assert_eq!(code(dispatch(&*executable, 1, 0..1, &[4], &bindings)), StatusCode::InvalidArgument);
        assert_eq!(code(dispatch(&*executable, 1, 0..1, &[4, 0], &bindings[..1])), StatusCode::InvalidArgument);
        assert_eq!(code(dispatch(&*executable, 1, 0..2, &[4, 0], &bindings)), StatusCode::OutOfRange);
        assert_eq!(out.0, [0.0; 4]);
        let bindings = [binding(&mut values), binding(&mut out)];
        dispatch(&*executable, 1, 0..1, &[4, 0], &bindings).unwrap();
        assert_eq!(out.0, [2.0; 4]);
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn specialization_constants() {
        let executable = load_with(ImportRegistry::default(), CONSTANTS, &[35]).unwrap();
        let mut out = Aligned([0i32; 2]);
        dispatch(&*executable, 1, 0..1, &[7], &[binding(&mut out)]).unwrap();
        assert_eq!(out.0, [42, 35]);
    }

    /// The parameters that the kernel of `imports.mlir` passes.
    #[repr(C)]
    struct OffsetParameters {
        values: *const f32,
        out: *mut f32,
        extent: usize,
    }

    /// Adds the number at `context` to all values.
    unsafe extern "C" fn offset(parameters: *mut c_void, context: *mut c_void, _reserved: *mut c_void) -> c_int {
        // SAFETY: the kernel passes the structure above, with views of four elements, and the context is `OFFSET`.
        unsafe {
            let parameters = &*parameters.cast::<OffsetParameters>();
            if parameters.extent != 4 {
                return 3;
            }
            for index in 0..parameters.extent {
                *parameters.out.add(index) = *parameters.values.add(index) + *context.cast::<f32>();
            }
        }
        0
    }

    static OFFSET: f32 = 100.0;

    #[derive(Debug)]
    struct Offset;

    impl ImportProvider for Offset {
        fn resolve(&self, name: &str) -> Option<Import> {
            // SAFETY: `offset` reads the parameters that kernels which import it pass; `OFFSET` is never written.
            (name == "incarnate_test_offset")
                .then(|| unsafe { Import::new(offset, (&raw const OFFSET).cast_mut().cast()) })
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn imports() {
        let error = load_with(ImportRegistry::default(), IMPORTS, &[]).unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        assert!(error.to_string().contains("`incarnate_test_offset`"), "{error}");
        let executable = load_with(ImportRegistry::default().with(Arc::new(Offset)), IMPORTS, &[]).unwrap();
        let mut values = Aligned([1.0f32, 2.0, 3.0, 4.0]);
        let mut out = Aligned([0.0f32; 4]);
        dispatch(&*executable, 1, 0..1, &[], &[binding(&mut values), binding(&mut out)]).unwrap();
        assert_eq!(out.0, [101.0, 102.0, 103.0, 104.0]);
    }

    #[test]
    fn only_the_host_is_supported() {
        let loader = EmbeddedElfLoader;
        assert!(loader.supports(&format!("embedded-elf-{}", host().name)));
        for format in ["embedded-elf-", host().name, "system-elf-x86_64", "vmvx-bytecode-fb"] {
            assert!(!loader.supports(format), "{format}");
        }
        for (name, data) in ARCHITECTURES.into_iter().filter(|(name, _)| *name != host().name) {
            let format = format!("embedded-elf-{name}");
            assert!(!loader.supports(&format), "{format}");
            // Foreign bytes in the host's format; the foreign format.
            assert_eq!(load_with(ImportRegistry::default(), data, &[]).unwrap_err().code(), StatusCode::Incompatible);
            let imports = ImportRegistry::default();
            let parameters = ExecutableParameters {
                format: &format,
                data,
                contents: None,
                constants: &[],
                imports: &imports,
                limits: &Limits::default(),
                reassociate: false,
            };
            assert_eq!(loader.load(&parameters).unwrap_err().code(), StatusCode::Incompatible);
        }
    }

    #[test]
    fn code_is_unmapped_with_the_executable() {
        // Other tests map at the same time, but not as often.
        let mappings = || std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
        let before = mappings();
        for _ in 0..1000 {
            load(simple_mul_library());
        }
        assert!(mappings() < before + 1000, "{} mappings, {before} before", mappings());
    }

    /// Prints the times of a dispatch and of a load; `cargo test --release --test elf -- --ignored --nocapture timing`.
    #[test]
    #[ignore = "a measurement"]
    fn timing() {
        /// Returns the shortest of twenty measurements of `iterations` iterations, in picoseconds for each.
        fn best(iterations: u32, work: &mut dyn FnMut()) -> u128 {
            let measure = |_| {
                let start = std::time::Instant::now();
                (0..iterations).for_each(|_| work());
                start.elapsed().as_nanos() * 1000 / u128::from(iterations)
            };
            (0..20).map(measure).min().unwrap()
        }
        let executable = load(simple_mul_library());
        let (mut lhs, mut rhs, mut out) = (Aligned([1.0f32; 4]), Aligned([2.0f32; 4]), Aligned([0.0f32; 4]));
        let pointers = [&mut lhs, &mut rhs, &mut out].map(|buffer| binding(buffer).pointer);
        let mut worker = Worker { processor_id: 0, local_memory: &mut [], fuel: &mut Fuel::default() };
        let mut dispatches = || {
            [1, 2, 16, 1024].map(|workgroups| {
                let arguments = DispatchArguments {
                    workgroup_count: [workgroups, 1, 1],
                    workgroup_size: [1, 1, 1],
                    constants: &[],
                    binding_pointers: &pointers,
                    binding_lengths: &[16; 3],
                    read_only_bindings: 0,
                    binding_constants: &[],
                    max_concurrency: 1,
                };
                let picoseconds = best(4_000_000 / (workgroups + 3), &mut || {
                    let arguments = std::hint::black_box(&arguments);
                    // SAFETY: three buffers of 16 bytes, which nothing else uses before the last dispatch.
                    unsafe { executable.dispatch(0, arguments, 0..u64::from(workgroups), &mut worker) }.unwrap();
                });
                (workgroups, picoseconds)
            })
        };
        let single = dispatches();
        let guarded = {
            // SAFETY: kernels and integer code run.
            let _guard = unsafe { FlushDenormals::enter() };
            dispatches()
        };
        for ((workgroups, single), (_, guarded)) in single.into_iter().zip(guarded) {
            println!("dispatch of {workgroups} workgroups: {single} ps, under a guard {guarded} ps");
        }
        let data = simple_mul_library();
        let load = best(2000, &mut || drop(load(data)));
        let parse = best(2000, &mut || drop(RelocatedImage::new(data, host(), 0x1000, EXPORT_NAME).unwrap()));
        println!("load and unload: {load} ps; parse and relocate: {parse} ps");
    }

    #[test]
    fn code_is_shared_between_threads() {
        let executable = load(simple_mul_library());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let executable = &executable;
                scope.spawn(move || {
                    for iteration in 0..1000 {
                        let factor = (thread * 1000 + iteration) as f32;
                        let (mut lhs, mut rhs) = (Aligned([1.0f32, 2.0, 3.0, 4.0]), Aligned([factor; 4]));
                        let mut out = Aligned([0.0f32; 4]);
                        let bindings = [binding(&mut lhs), binding(&mut rhs), binding(&mut out)];
                        dispatch(&**executable, 1, 0..1, &[], &bindings).unwrap();
                        assert_eq!(out.0, [factor, 2.0 * factor, 3.0 * factor, 4.0 * factor]);
                    }
                });
            }
        });
    }
}

/// Relocation, compared with values derived from the files' own structures.
mod relocate {
    use super::*;

    /// Field offsets and sizes of the ELF structures that the test reads.
    struct Fields {
        word: u64,
        section_headers: u64,
        section_header_size: u64,
        section_count: u64,
        section_address: u64,
        section_offset: u64,
        section_size: u64,
        symbol_value: u64,
    }

    fn fields(class: Class) -> Fields {
        match class {
            Class::Elf64 => Fields {
                word: 8,
                section_headers: 0x28,
                section_header_size: 64,
                section_count: 0x3C,
                section_address: 16,
                section_offset: 24,
                section_size: 32,
                symbol_value: 8,
            },
            Class::Elf32 => Fields {
                word: 4,
                section_headers: 0x20,
                section_header_size: 40,
                section_count: 0x30,
                section_address: 12,
                section_offset: 16,
                section_size: 20,
                symbol_value: 4,
            },
        }
    }

    /// A section as (address, offset in the file, size).
    fn section(file: &[u8], fields: &Fields, wanted: u64) -> Option<(u64, u64, u64)> {
        let table = number(file, fields.section_headers, fields.word);
        (0..number(file, fields.section_count, 2)).map(|index| table + index * fields.section_header_size).find_map(
            |header| {
                (number(file, header + 4, 4) == wanted).then(|| {
                    let field = |offset| number(file, header + offset, fields.word);
                    (field(fields.section_address), field(fields.section_offset), field(fields.section_size))
                })
            },
        )
    }

    const SHT_RELA: u64 = 4;
    const SHT_REL: u64 = 9;
    const SHT_DYNSYM: u64 = 11;

    #[test]
    fn every_architecture() {
        for (name, file) in ARCHITECTURES {
            let machine = machine(name);
            let fields = fields(machine.class);
            // Above 2^31, so that signs and carries matter.
            let base: u64 = if machine.class == Class::Elf64 { 0x7F12_3456_7000 } else { 0xF123_4000 };
            let plain = RelocatedImage::new(file, machine, 0, EXPORT_NAME).unwrap();
            let image = RelocatedImage::new(file, machine, base, EXPORT_NAME).unwrap();
            assert_eq!(image.start, 0, "{name}");
            let (_, symbols, _) = section(file, &fields, SHT_DYNSYM).unwrap();
            let symbol_size = if fields.word == 8 { 24 } else { 16 };
            let value = number(file, symbols + symbol_size + fields.symbol_value, fields.word);
            assert_eq!(image.symbol, base + value, "{name}");

            // Every relocated word contains base + addend; nothing else changed.
            let mut expected = plain.bytes.clone();
            let (relocations, entry_words) = match section(file, &fields, SHT_RELA) {
                Some(section) => (section, 3),
                None => (section(file, &fields, SHT_REL).unwrap(), 2),
            };
            let entry_size = entry_words * fields.word;
            assert_eq!(relocations.2 / entry_size, 7, "{name}");
            for index in 0..relocations.2 / entry_size {
                let entry = relocations.1 + index * entry_size;
                let place = number(file, entry, fields.word);
                let addend = match entry_words {
                    3 => number(file, entry + 2 * fields.word, fields.word),
                    _ => number(&plain.bytes, place, fields.word),
                };
                let value = base.wrapping_add(addend).to_le_bytes();
                expected[place as usize..][..fields.word as usize].copy_from_slice(&value[..fields.word as usize]);
            }
            assert_ne!(plain.bytes, image.bytes, "{name}");
            assert!(expected == image.bytes, "{name}: relocated bytes differ");
        }
    }

    #[test]
    fn the_header_of_the_library_is_reachable() {
        // Follows the pointers as a runtime does: library, header, name; export table, function.
        for (name, file) in ARCHITECTURES {
            let machine = machine(name);
            let word = fields(machine.class).word;
            let base = 0x4000_0000;
            let image = RelocatedImage::new(file, machine, base, EXPORT_NAME).unwrap();
            let at = |address: u64, size| number(&image.bytes, address - base, size);
            // Only the library begins with a pointer to a version 6 that is followed by the name's pointer.
            let library = (0..image.bytes.len() as u64 - 128)
                .step_by(word as usize)
                .map(|offset| base + offset)
                .find(|&address| {
                    let header = at(address, word);
                    let inside = |address: u64| (base..base + image.bytes.len() as u64 - 16).contains(&address);
                    inside(header) && at(header, 4) == 6 && {
                        let text = at(header + word, word);
                        inside(text) && at(text, 8) == u64::from_le_bytes(*b"simple_m")
                    }
                })
                .unwrap_or_else(|| panic!("{name}: no library"));
            // Header pointer, import count and symbols, then the exports.
            let exports = library + 3 * word;
            assert_eq!(at(exports, 4), 1, "{name}");
            let kernel = at(at(exports + word, word), word);
            let code = image.symbol & !1;
            assert!(kernel.abs_diff(code) < 0x100, "{name}: kernel at {kernel:#x}, query at {code:#x}");
            let attributes = at(exports + 2 * word, word);
            assert_eq!(at(attributes + 8, 4), 3 << 24, "{name}: no local memory, no constants, three bindings");
        }
    }

    #[test]
    fn fat_elf() {
        let mut file = vec![0xFA, 0x70, 0x0E, 0x1F, 1, 0, ARCHITECTURES.len() as u8, 0];
        // An odd offset: members need no alignment.
        let mut offset = 8 + 24 * ARCHITECTURES.len() + 3;
        for (name, member) in ARCHITECTURES {
            let class = if machine(name).class == Class::Elf32 { 1 } else { 2 };
            file.extend(&member[18..20]);
            file.extend([0, 0, class, 1, 0, 0]);
            file.extend((offset as u64).to_le_bytes());
            file.extend((member.len() as u64).to_le_bytes());
            offset += member.len();
        }
        file.extend([0xEE; 3]);
        ARCHITECTURES.iter().for_each(|(_, member)| file.extend(*member));
        for (name, member) in ARCHITECTURES {
            let machine = machine(name);
            let selected = RelocatedImage::new(&file, machine, 0x1000, EXPORT_NAME).unwrap();
            let single = RelocatedImage::new(member, machine, 0x1000, EXPORT_NAME).unwrap();
            assert!(selected.bytes == single.bytes, "{name}");
        }
        let host = machine("x86_64");
        let code = |file: &[u8]| RelocatedImage::new(file, host, 0x1000, EXPORT_NAME).unwrap_err().code();
        for length in 5..file.len() - 1 {
            // Truncated within the header or the records, or before the end of a member.
            let cut = &file[..length];
            if RelocatedImage::new(cut, host, 0x1000, EXPORT_NAME).is_err() {
                assert!(matches!(code(cut), StatusCode::InvalidArgument | StatusCode::Incompatible), "{length}");
            }
        }
        let mut other = file.clone();
        other[8] = 1;
        assert_eq!(code(&other), StatusCode::Incompatible);
        let mut far = file.clone();
        far[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(code(&far), StatusCode::InvalidArgument);
        let mut version = file.clone();
        version[4] = 2;
        assert_eq!(code(&version), StatusCode::Incompatible);
    }
}

#[path = "elf/damaged.rs"]
mod damaged;
