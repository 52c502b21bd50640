//! Tests with assembled executables: kernel arguments, violations, and many concurrent workers.
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::string::ToString;

use super::*;
use crate::BindingPointer;
use crate::StatusCode;
use crate::bytecode::assemble;
use crate::library::ImportRegistry;

/// Assembles and loads an executable.
fn load(text: &str, constants: &[u32]) -> Result<Arc<dyn LocalExecutable>> {
    load_within(&Limits::default(), text, constants)
}

fn load_within(limits: &Limits, text: &str, constants: &[u32]) -> Result<Arc<dyn LocalExecutable>> {
    let data = assemble(text).unwrap();
    let imports = ImportRegistry::default();
    let parameters = ExecutableParameters {
        format: VMVX,
        data: &data,
        contents: None,
        constants,
        imports: &imports,
        limits,
        reassociate: false,
    };
    assert!(VmvxLoader::default().supports(VMVX));
    VmvxLoader::default().load(&parameters)
}

/// Returns the text of a kernel with the given numbers of bindings and constants.
fn kernel(name: &str, bindings: usize, constants: usize, local_memory: usize, body: &str) -> String {
    format!(
        "vm.export @{name}\nvm.func @{name}(%r0: !vm.ref<?>, %r1: !vm.ref<?>, %r2: !vm.ref<?>, %i0: i32, %i1: i32, %i2: \
         i32, %i3: i32, %i4: i32, %i5: i32, %i6: i32, %i7: i32, %i8: i32) -> () {{\n  //! attribute \"binding_count\" = \
         \"{bindings}\"\n  //! attribute \"constant_count\" = \"{constants}\"\n  //! attribute \"local_memory\" = \
         \"{local_memory}\"\n^bb0:\n{body}\n}}\n"
    )
}

const HEADER: &str = "vm.module @kernels version 0\nvm.type !vm.buffer\n";

/// Runs a range of workgroups over bindings; a set bit marks a read-only one.
fn dispatch(
    executable: &dyn LocalExecutable,
    function: usize,
    bindings: &mut [Vec<u32>],
    read_only: u64,
    constants: &[u32],
    (count, range): ([u32; 3], Range<u64>),
) -> Result<()> {
    let pointers: Vec<_> = bindings.iter_mut().map(|binding| BindingPointer(binding.as_mut_ptr().cast())).collect();
    let lengths: Vec<_> = bindings.iter().map(|binding| size_of_val(binding.as_slice())).collect();
    let arguments = DispatchArguments {
        workgroup_count: count,
        workgroup_size: [1, 1, 1],
        constants,
        binding_pointers: &pointers,
        binding_lengths: &lengths,
        read_only_bindings: read_only,
        binding_constants: &[],
        max_concurrency: 1,
    };
    let size = executable.functions().get(function).map_or(0, |info| info.local_memory_size);
    let mut local_memory = alloc::vec![0; size];
    let mut worker = Worker { processor_id: 0, local_memory: &mut local_memory, fuel: &mut Fuel::default() };
    // SAFETY: the addresses and lengths are those of vectors that this function borrows exclusively.
    unsafe { executable.dispatch(function, &arguments, range, &mut worker) }
}

/// Writes the arguments of a workgroup to the first binding, at its x.
const RECORD: &str = "  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  %i10:11 = vm.ext.i32.i64.u %i0
  %i12 = vm.const.i32 16
  %i13 = vm.mul.i32 %i1, %i12
  %i14 = vm.mul.i32 %i2, %i13
  %i13 = vm.add.i32 %i13, %i6
  vm.buffer.store.i32 %i13, %r3, %i10:11
  vm.return";

#[test]
fn workgroups_get_their_position_in_the_grid() {
    let executable = load(&format!("{HEADER}{}", kernel("record", 1, 0, 0, RECORD)), &[]).unwrap();
    assert_eq!(executable.functions()[0].name, "record");
    assert_eq!(executable.functions()[0].binding_count, 1);
    let mut bindings = [alloc::vec![9; 4]];
    dispatch(&*executable, 0, &mut bindings, 0, &[], ([3, 2, 1], 1..5)).unwrap();
    // Workgroups (1,0), (2,0), (0,1), (1,1): y * 16 + the count in x.
    assert_eq!(bindings[0], [19, 19, 3, 9]);
    let beyond = dispatch(&*executable, 0, &mut bindings, 0, &[], ([3, 2, 1], 0..7));
    assert_eq!(beyond.unwrap_err().code(), StatusCode::OutOfRange);
    let short = dispatch(&*executable, 0, &mut [alloc::vec![0; 2]], 0, &[], ([3, 1, 1], 0..3)).unwrap_err();
    assert_eq!(short.code(), StatusCode::OutOfRange);
    assert!(short.to_string().contains("workgroup 2,0,0") && short.to_string().contains("record"), "{short}");
}

#[test]
fn initialisers_take_few_steps_and_kernels_as_many_as_the_session_allows() {
    let spin = |count: u32| {
        format!(
            "  %i10 = vm.const.i32 {count}\n  %i11 = vm.const.i32 1\n  vm.br ^bb1()\n^bb1:\n  %i10 = vm.sub.i32 %i10, %i11\n  \
             vm.cond_br %i10, ^bb1(), ^bb2()\n^bb2:\n  vm.return"
        )
    };
    let text = |initializer: u32| {
        let initializer = format!("vm.export @__init\nvm.func @__init() -> () {{\n^bb0:\n{}\n}}\n", spin(initializer));
        format!("{HEADER}{initializer}{}", kernel("spin", 0, 0, 0, &spin(1_000_000)))
    };
    let executable = load(&text(10_000), &[]).unwrap();
    dispatch(&*executable, 0, &mut [], 0, &[], ([1, 1, 1], 0..1)).unwrap();
    let error = load(&text(1_000_000), &[]).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.to_string().contains("initialising @kernels"), "{error}");
}

#[test]
fn lists_of_bindings_are_charged_to_the_kernel_that_grows_them() {
    let body = "  %i10 = vm.const.i32 100000000\n  vm.list.resize %r2, %i10\n  vm.return";
    let limits = Limits { ledger: crate::vm::Ledger::new(1 << 20, 1000), ..Limits::default() };
    let executable = load_within(&limits, &format!("{HEADER}{}", kernel("grow", 1, 0, 0, body)), &[]).unwrap();
    let error = dispatch(&*executable, 0, &mut [alloc::vec![0]], 0, &[], ([1, 1, 1], 0..1)).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.to_string().contains("bytes exceed the limit of 1048576"), "{error}");
}

#[test]
fn read_only_bindings_refuse_writes() {
    let executable = load(&format!("{HEADER}{}", kernel("record", 1, 0, 0, RECORD)), &[]).unwrap();
    let mut bindings = [alloc::vec![0; 4]];
    let refused = dispatch(&*executable, 0, &mut bindings, 1, &[], ([1, 1, 1], 0..1)).unwrap_err();
    assert_eq!(refused.code(), StatusCode::PermissionDenied);
    // The executable stays usable.
    dispatch(&*executable, 0, &mut bindings, 0, &[], ([1, 1, 1], 0..1)).unwrap();
    assert_eq!(bindings[0][0], 1);
}

#[test]
fn constants_and_local_memory_reach_kernels() {
    let body = "  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  %i10:11 = vm.const.i64 1
  %i12 = vm.buffer.load.i32 %r1, %i10:11
  vm.buffer.store.i32 %i12, %r0, %i10:11
  %i13 = vm.buffer.load.i32 %r0, %i10:11
  vm.buffer.store.i32 %i13, %r3, %i10:11
  vm.return";
    let executable = load(&format!("{HEADER}{}", kernel("copy", 1, 2, 8, body)), &[]).unwrap();
    let mut bindings = [alloc::vec![0; 2]];
    dispatch(&*executable, 0, &mut bindings, 0, &[5, 6], ([1, 1, 1], 0..1)).unwrap();
    assert_eq!(bindings[0], [0, 6]);
    let missing = dispatch(&*executable, 0, &mut bindings, 0, &[5], ([1, 1, 1], 0..1)).unwrap_err();
    assert_eq!(missing.code(), StatusCode::InvalidArgument);
}

/// Stores the first binding, local memory, or the list of bindings in a global.
fn keeper(what: &str) -> String {
    let body = format!(
        "  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  vm.global.store.ref {what}
  vm.return"
    );
    let load = "  %i9 = vm.const.i32.zero
  %r3 = vm.global.load.ref .refs[0] : !vm.buffer
  %i10:11 = vm.const.i64.zero
  %i12 = vm.buffer.load.i32 %r3, %i10:11
  vm.return";
    format!(
        "{HEADER}vm.type !vm.list<!vm.buffer>\n//! globals 0 2\n{}{}",
        kernel("keep", 1, 0, 8, &body),
        kernel("use", 1, 0, 8, load)
    )
}

#[test]
fn borrowed_buffers_cannot_be_kept() {
    for what in ["%r3, .refs[0] : !vm.buffer", "%r0, .refs[0] : !vm.buffer", "%r1, .refs[0] : !vm.buffer"] {
        let executable = load(&keeper(what), &[]).unwrap();
        let mut bindings = [alloc::vec![7; 2]];
        let kept = dispatch(&*executable, 0, &mut bindings, 0, &[], ([1, 1, 1], 0..1)).unwrap_err();
        assert_eq!(kept.code(), StatusCode::FailedPrecondition, "{kept}");
        assert!(kept.message().contains("keeps a buffer"), "{kept}");
        // The next dispatch has new globals, which are null.
        let gone = dispatch(&*executable, 1, &mut bindings, 0, &[], ([1, 1, 1], 0..1)).unwrap_err();
        assert_eq!(gone.code(), StatusCode::InvalidArgument, "{gone}");
        assert!(gone.message().contains("null"), "{gone}");
    }
    // To keep the list itself is allowed, because it is emptied.
    let executable = load(&keeper("%r2, .refs[1] : !vm.list<!vm.buffer>"), &[]).unwrap();
    for _ in 0..2 {
        dispatch(&*executable, 0, &mut [alloc::vec![7; 2]], 0, &[], ([1, 1, 1], 0..1)).unwrap();
    }
}

#[test]
fn specialization_constants_are_set_for_each_worker() {
    let set = "vm.export @__set_constants
vm.func @__set_constants(%r0: !vm.ref<?>) -> () {
^bb0:
  %i0:1 = vm.const.i64 1
  %i2 = vm.buffer.load.i32 %r0, %i0:1
  vm.global.store.i32 %i2, .rwdata[0]
  vm.return
}
";
    let body = "  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  %i10:11 = vm.const.i64.zero
  %i12 = vm.global.load.i32 .rwdata[0]
  vm.buffer.store.i32 %i12, %r3, %i10:11
  vm.return";
    let text = format!("{HEADER}//! globals 4 0\n{set}{}", kernel("constant", 1, 0, 0, body));
    let executable = load(&text, &[11, 22]).unwrap();
    let mut bindings = [alloc::vec![0; 1]];
    dispatch(&*executable, 0, &mut bindings, 0, &[], ([1, 1, 1], 0..1)).unwrap();
    assert_eq!(bindings[0], [22]);
    assert_eq!(load(&text, &[]).unwrap_err().code(), StatusCode::InvalidArgument);
    let none = format!("{HEADER}{}", kernel("record", 1, 0, 0, RECORD));
    assert_eq!(load(&none, &[1]).unwrap_err().code(), StatusCode::InvalidArgument);
}

#[test]
fn invalid_executables_are_rejected() {
    let other = format!("{HEADER}vm.export @f\nvm.func @f(%i0: i32) -> () {{\n^bb0:\n  vm.return\n}}\n");
    let error = load(&other, &[]).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(error.message().contains("0i_v"), "{error}");
    let imports = ImportRegistry::default();
    let parameters = ExecutableParameters {
        format: VMVX,
        data: b"nothing",
        contents: None,
        constants: &[],
        imports: &imports,
        limits: &Limits::default(),
        reassociate: false,
    };
    assert_eq!(VmvxLoader::default().load(&parameters).unwrap_err().code(), StatusCode::InvalidArgument);
    let import = format!("{HEADER}vm.import @hal.devices.count cconv \"0v_i\"\n");
    assert_eq!(load(&import, &[]).unwrap_err().code(), StatusCode::NotFound);
}

/// All workers of a dispatch write to the same elements. The bytes of an element may remain of different writes: only single
/// bytes are indivisible where many are copied at once, and under ThreadSanitizer they are copied one by one. Each element is
/// a multiple of the count, as each written value is.
#[test]
fn workers_race_on_bindings_without_harm() {
    let body = "  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  %i10:11 = vm.const.i64.zero
  %i12:13 = vm.const.i64 1
  %i14:15 = vm.const.i64 4096
  vm.br ^bb1(%i10->%i16, %i11->%i17)
^bb1:
  %i18 = vm.buffer.load.i32 %r3, %i16:17
  %i18 = vm.add.i32 %i18, %i6
  vm.buffer.store.i32 %i18, %r3, %i16:17
  %i16:17 = vm.add.i64 %i16:17, %i12:13
  %i9 = vm.cmp.lt.i64.s %i16:17, %i14:15
  vm.cond_br %i9, ^bb1(), ^bb2()
^bb2:
  vm.return";
    let executable = load(&format!("{HEADER}{}", kernel("race", 1, 0, 0, body)), &[]).unwrap();
    let mut binding: Vec<u32> = alloc::vec![0; 4096];
    let length = size_of_val(binding.as_slice());
    let pointer = BindingPointer(binding.as_mut_ptr().cast());
    const WORKGROUPS: u32 = 64;
    std::thread::scope(|scope| {
        for worker in 0..4u32 {
            let executable = &*executable;
            scope.spawn(move || {
                let (pointers, lengths) = ([pointer], [length]);
                let arguments = DispatchArguments {
                    workgroup_count: [WORKGROUPS, 1, 1],
                    workgroup_size: [1, 1, 1],
                    constants: &[],
                    binding_pointers: &pointers,
                    binding_lengths: &lengths,
                    read_only_bindings: 0,
                    binding_constants: &[],
                    max_concurrency: 4,
                };
                let range = u64::from(worker * 16)..u64::from(worker * 16 + 16);
                let mut worker = Worker { processor_id: worker, local_memory: &mut [], fuel: &mut Fuel::default() };
                // SAFETY: the address and the length are those of the vector, which only the kernels use meanwhile.
                unsafe { executable.dispatch(0, &arguments, range, &mut worker) }.unwrap();
            });
        }
    });
    assert_eq!(binding.iter().find(|element| !element.is_multiple_of(WORKGROUPS)), None);
}

/// A module in Rust may keep a weak reference to an operand: it does not become a buffer over memory that is gone.
#[test]
fn weak_references_do_not_outlive_a_dispatch() {
    use std::sync::Weak;
    static KEPT: Mutex<Option<Weak<Buffer>>> = Mutex::new(None);
    #[derive(Debug)]
    struct Keeps;
    impl CompiledKernels for Keeps {
        fn run(&self, _: u32, _: &dyn ModuleState, _: &mut Stack, workgroups: &mut Workgroups<'_>) -> Result<()> {
            let (_, _, bindings) = workgroups.references()?;
            workgroups.run(&mut |_, _| {
                if let Ref::Buffer(buffer) = &bindings[0] {
                    *KEPT.lock().unwrap() = Some(Arc::downgrade(buffer));
                }
                Ok(())
            })
        }
        fn takes_references(&self, _: u32) -> bool {
            true
        }
        fn read_only_bindings(&self, _: u32) -> u64 {
            0
        }
        fn coarsening(&self, _: u32) -> Coarsening {
            Coarsening::NONE
        }
    }
    let text = format!("{HEADER}{}", kernel("keep", 1, 0, 0, "  vm.return"));
    let archive = Archive::new(Arc::new(Contents::copy_from(&assemble(&text).unwrap()))).unwrap();
    let module = BytecodeModule::new(BytecodeFile::parse(archive).unwrap().verify().unwrap()).unwrap();
    let executable = VmvxExecutable::compiled(module, &Keeps, &[], Limits::default()).unwrap();
    let result = dispatch(&executable, 0, &mut [alloc::vec![7; 4]], 0, &[], ([1, 1, 1], 0..1));
    assert_eq!(result.unwrap_err().code(), StatusCode::FailedPrecondition);
    assert!(KEPT.lock().unwrap().as_ref().unwrap().upgrade().is_none());
}
