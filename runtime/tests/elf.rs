//! Loads ELF libraries that the compiler made and runs their kernels; relocates those of other architectures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(unsafe_code, reason = "one test provides an import to a kernel")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use incarnate_runtime::hal::local::library::abi::EXPORT_NAME;
use incarnate_runtime::hal::local::library::{Import, ImportProvider};
use incarnate_runtime::hal::local::loaders::EmbeddedElfLoader;
use incarnate_runtime::hal::local::loaders::elf::{Class, Machine, RelocatedImage};
use incarnate_runtime::hal::local::{
    BindingPointer, DispatchArguments, ExecutableLoader, ExecutableParameters, LocalExecutable, Worker,
};
use incarnate_runtime::{Result, StatusCode};

const SIMPLE_MUL: &[u8] = include_bytes!("fixtures/elf/simple_mul_x86_64.so");
const MATMUL: &[u8] = include_bytes!("fixtures/elf/matmul_x86_64.so");
const BF16_ADD: &[u8] = include_bytes!("fixtures/elf/bf16_add_x86_64.so");
const DYNAMIC_SCALE: &[u8] = include_bytes!("fixtures/elf/dynamic_scale_x86_64.so");
const IMPORTS: &[u8] = include_bytes!("fixtures/elf/imports_x86_64.so");
const CONSTANTS: &[u8] = include_bytes!("fixtures/elf/constants_x86_64.so");

/// `simple_mul` for every architecture.
const ARCHITECTURES: [(&str, &[u8]); 6] = [
    ("x86_64", SIMPLE_MUL),
    ("arm_64", include_bytes!("fixtures/elf/simple_mul_arm_64.so")),
    ("riscv_64", include_bytes!("fixtures/elf/simple_mul_riscv_64.so")),
    ("riscv_32", include_bytes!("fixtures/elf/simple_mul_riscv_32.so")),
    ("arm_32", include_bytes!("fixtures/elf/simple_mul_arm_32.so")),
    ("x86_32", include_bytes!("fixtures/elf/simple_mul_x86_32.so")),
];

fn machine(name: &str) -> &'static Machine {
    Machine::ALL.into_iter().find(|machine| machine.name == name).unwrap()
}

#[cfg(all(target_arch = "x86_64", unix))]
mod run {
    use super::*;

    fn load_with(loader: &EmbeddedElfLoader, data: &[u8], constants: &[u32]) -> Result<Arc<dyn LocalExecutable>> {
        loader.load(&ExecutableParameters { format: "embedded-elf-x86_64", data, constants })
    }

    fn load(data: &[u8]) -> Arc<dyn LocalExecutable> {
        load_with(&EmbeddedElfLoader::default(), data, &[]).unwrap()
    }

    /// Memory as devices give it to kernels.
    #[repr(C, align(64))]
    struct Aligned<T>(T);

    fn binding<T>(buffer: &mut Aligned<T>) -> (BindingPointer, usize) {
        (BindingPointer((&raw mut buffer.0).cast()), size_of::<T>())
    }

    fn dispatch(
        executable: &dyn LocalExecutable,
        workgroup_count: u32,
        workgroups: std::ops::Range<u64>,
        constants: &[u32],
        bindings: &[(BindingPointer, usize)],
    ) -> Result<()> {
        let (pointers, lengths): (Vec<_>, Vec<_>) = bindings.iter().copied().unzip();
        let arguments = DispatchArguments {
            workgroup_count: [workgroup_count, 1, 1],
            workgroup_size: [1, 1, 1],
            constants,
            binding_pointers: &pointers,
            binding_lengths: &lengths,
            max_concurrency: 1,
        };
        executable.dispatch(0, &arguments, workgroups, &mut Worker { processor_id: 0, local_memory: &mut [] })
    }

    #[test]
    fn simple_mul() {
        let executable = load(SIMPLE_MUL);
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
    fn kernels_flush_denormals_and_the_caller_does_not() {
        let executable = load(SIMPLE_MUL);
        let tiny = f32::MIN_POSITIVE;
        let mut lhs = Aligned([tiny, tiny / 2.0, 3.0, 4.0]);
        let mut rhs = Aligned([0.5f32, 4.0, 1.0, 1.0]);
        let mut out = Aligned([7.0f32; 4]);
        dispatch(&*executable, 1, 0..1, &[], &[binding(&mut lhs), binding(&mut rhs), binding(&mut out)]).unwrap();
        assert_eq!(out.0, [0.0, 0.0, 3.0, 4.0]);
        assert!(std::hint::black_box(tiny) * std::hint::black_box(0.5) > 0.0, "the mode was not restored");
    }

    #[test]
    fn matmul_in_parts() {
        const M: usize = 96;
        const K: usize = 32;
        const N: usize = 160;
        /// What the compiler chose for these extents: a grid of 2 by 8 in one dimension.
        const WORKGROUPS: u32 = 16;
        let executable = load(MATMUL);
        let mut lhs = Box::new(Aligned([0.0f32; M * K]));
        let mut rhs = Box::new(Aligned([0.0f32; K * N]));
        let mut out = Box::new(Aligned([f32::NAN; M * N]));
        // Small integers: every sum is exact, in any order.
        lhs.0.iter_mut().enumerate().for_each(|(index, value)| *value = (index * 7 % 13) as f32 - 6.0);
        rhs.0.iter_mut().enumerate().for_each(|(index, value)| *value = (index * 5 % 11) as f32 - 5.0);
        let bindings = [binding(&mut lhs), binding(&mut rhs), binding(&mut out)];
        for part in [11..16, 0..1, 1..1, 1..11] {
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
    fn bf16_add() {
        // The upper half of the f32 of the same value; these are exact.
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
        dispatch(&*executable, 1, 0..1, &[4, 0], &bindings).unwrap();
        assert_eq!(out.0, [2.0; 4]);
    }

    #[test]
    fn specialization_constants() {
        let loader = EmbeddedElfLoader::default();
        let executable = load_with(&loader, CONSTANTS, &[35]).unwrap();
        let mut out = Aligned([0i32; 2]);
        dispatch(&*executable, 1, 0..1, &[7], &[binding(&mut out)]).unwrap();
        assert_eq!(out.0, [42, 35]);
        for wrong in [&[][..], &[1, 2]] {
            let error = load_with(&loader, CONSTANTS, wrong).unwrap_err();
            assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error}");
        }
    }

    /// What the kernel of `imports.mlir` passes.
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
    fn imports() {
        let error = load_with(&EmbeddedElfLoader::default(), IMPORTS, &[]).unwrap_err();
        assert_eq!(error.code(), StatusCode::NotFound);
        assert!(error.to_string().contains("`incarnate_test_offset`"), "{error}");
        let executable = load_with(&EmbeddedElfLoader::new(Arc::new(Offset)), IMPORTS, &[]).unwrap();
        let mut values = Aligned([1.0f32, 2.0, 3.0, 4.0]);
        let mut out = Aligned([0.0f32; 4]);
        dispatch(&*executable, 1, 0..1, &[], &[binding(&mut values), binding(&mut out)]).unwrap();
        assert_eq!(out.0, [101.0, 102.0, 103.0, 104.0]);
    }

    #[test]
    fn only_the_host_is_supported() {
        let loader = EmbeddedElfLoader::default();
        assert!(loader.supports("embedded-elf-x86_64"));
        for format in ["embedded-elf-arm_64", "embedded-elf-", "x86_64", "system-elf-x86_64", "vmvx-bytecode-fb"] {
            assert!(!loader.supports(format), "{format}");
        }
        let arm = ARCHITECTURES[1].1;
        assert_eq!(load_with(&loader, arm, &[]).unwrap_err().code(), StatusCode::Incompatible);
        let parameters = ExecutableParameters { format: "embedded-elf-arm_64", data: arm, constants: &[] };
        assert_eq!(loader.load(&parameters).unwrap_err().code(), StatusCode::Incompatible);
    }

    #[test]
    fn code_is_unmapped_with_the_executable() {
        // A leak of three pages a turn would exceed the system's limit of mappings (65530 by default).
        for _ in 0..25_000 {
            load(SIMPLE_MUL);
        }
    }

    #[test]
    fn code_is_shared_between_threads() {
        let executable = load(SIMPLE_MUL);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let executable = &executable;
                scope.spawn(move || {
                    for turn in 0..1000 {
                        let factor = (thread * 1000 + turn) as f32;
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

/// Little-endian numbers of a file or image.
fn number(bytes: &[u8], offset: u64, size: usize) -> u64 {
    bytes[offset as usize..][..size].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
