//! Tests with handwritten libraries, including ones that the compiler never emits.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::sync::Mutex;

use super::abi::*;
use super::{CallingConvention, Import, ImportProvider, ImportRegistry, LibraryExecutable, LibraryParameters};
use crate::vm::Fuel;
use crate::{BindingPointer, DispatchArguments, LocalExecutable, Worker};
use crate::{Error, Result, StatusCode};

/// The tables of a library, leaked on load because queries return plain pointers.
struct Parts {
    header: LibraryHeader,
    imports: Vec<Option<&'static CStr>>,
    functions: Vec<Option<DispatchFunction>>,
    attributes: Vec<DispatchAttributes>,
    names: Vec<*const c_char>,
    constant_count: u32,
}

const ATTRIBUTES: DispatchAttributes = DispatchAttributes {
    flags: 0,
    local_memory_pages: 0,
    constant_count: 0,
    binding_count: 1,
    workgroup_size_x: 1,
    workgroup_size_y: 1,
    workgroup_size_z: 1,
    parameter_count: 0,
    reserved: [0; 5],
};

impl Parts {
    /// A library with one kernel.
    fn new(function: DispatchFunction) -> Parts {
        Parts {
            header: LibraryHeader { version: VERSION_0_6, name: c"by_hand".as_ptr(), features: 0, sanitizer: 0 },
            imports: Vec::new(),
            functions: [Some(function)].into(),
            attributes: [ATTRIBUTES].into(),
            names: [c"kernel".as_ptr()].into(),
            constant_count: 0,
        }
    }

    /// Builds the library, lets a closure damage it, and loads it.
    fn load_damaged(
        self,
        constants: &[u32],
        imports: ImportRegistry,
        damage: impl FnOnce(&mut Library),
    ) -> Result<LibraryExecutable> {
        fn leak<T>(values: Vec<T>) -> *const T {
            if values.is_empty() { ptr::null() } else { Box::leak(values.into_boxed_slice()).as_ptr() }
        }
        let count = self.functions.len() as u32;
        let symbols = self.imports.iter().map(|name| name.map_or(ptr::null(), CStr::as_ptr)).collect::<Vec<_>>();
        let mut library = Library {
            header: Box::leak(Box::new(self.header)),
            imports: ImportTable { count: symbols.len() as u32, symbols: leak(symbols) },
            exports: ExportTable {
                count,
                functions: leak(self.functions),
                attributes: leak(self.attributes),
                parameters: ptr::null(),
                occupancy: ptr::null(),
                names: leak(self.names),
                tags: ptr::null(),
                parameter_names: ptr::null(),
                source_locations: ptr::null(),
                stage_locations: ptr::null(),
            },
            constants: ConstantTable { count: self.constant_count },
            sources: SourceFileTable { count: 0, files: ptr::null() },
        };
        damage(&mut library);
        let library: *const Library = Box::leak(Box::new(library));
        // One query function serves all tests: it returns a thread-local library.
        CURRENT.set(library.cast());
        let parameters = LibraryParameters { constants, imports, convention: CallingConvention::Host };
        // SAFETY: the parts follow the ABI, unless a test damages a field that is checked; they live for good.
        unsafe { LibraryExecutable::load(query, &parameters, Box::new(())) }
    }

    fn load(self) -> Result<LibraryExecutable> {
        self.load_damaged(&[], ImportRegistry::default(), |_| {})
    }
}

std::thread_local! {
    static CURRENT: core::cell::Cell<*const *const LibraryHeader> = const { core::cell::Cell::new(ptr::null()) };
}

unsafe extern "C" fn query(version: u32, environment: *const Environment) -> *const *const LibraryHeader {
    assert!(!environment.is_null());
    if version == VERSION_0_6 { CURRENT.get() } else { ptr::null() }
}

/// Count, size, concurrency, processor and local memory of one call.
type State = ([u32; 3], [u32; 3], u8, u32, u32);

/// The calls that the recording kernel received.
#[derive(Debug, Default)]
struct Record {
    ids: Vec<[u32; 3]>,
    states: Vec<State>,
}

/// Writes its workgroup id to the record in its binding; fails at the workgroup that its constant selects.
unsafe extern "C" fn record(
    environment: *const Environment,
    dispatch: *const DispatchState,
    workgroup: *const WorkgroupState,
) -> c_int {
    // SAFETY: `LibraryExecutable::dispatch` passes valid states; the tests pass a record as the only binding.
    unsafe {
        let (dispatch, workgroup) = (&*dispatch, &*workgroup);
        assert_eq!((*environment).processor, super::processor_data());
        let record = &*(*dispatch.binding_pointers).cast::<Mutex<Record>>();
        let mut record = record.lock().unwrap();
        let id = [workgroup.workgroup_id_x, workgroup.workgroup_id_y, u32::from(workgroup.workgroup_id_z)];
        record.ids.push(id);
        record.states.push((
            [dispatch.workgroup_count_x, dispatch.workgroup_count_y, u32::from(dispatch.workgroup_count_z)],
            [dispatch.workgroup_size_x, dispatch.workgroup_size_y, u32::from(dispatch.workgroup_size_z)],
            dispatch.max_concurrency,
            workgroup.processor_id,
            workgroup.local_memory_size,
        ));
        let fail_at = (dispatch.constant_count > 0).then(|| *dispatch.constants);
        if fail_at == Some(record.ids.len() as u32) { -7 } else { 0 }
    }
}

fn arguments<'a>(
    count: [u32; 3],
    constants: &'a [u32],
    pointers: &'a [BindingPointer],
    lengths: &'a [usize],
) -> DispatchArguments<'a> {
    DispatchArguments {
        workgroup_count: count,
        workgroup_size: [4, 2, 1],
        constants,
        binding_pointers: pointers,
        binding_lengths: lengths,
        read_only_bindings: 0,
        binding_constants: &[],
        max_concurrency: 3,
    }
}

/// Runs a range of a grid and returns the record.
fn run(
    executable: &LibraryExecutable,
    count: [u32; 3],
    range: core::ops::Range<u64>,
    constants: &[u32],
) -> (Result<()>, Record) {
    let record = Mutex::new(Record::default());
    let pointers = [BindingPointer((&raw const record).cast_mut().cast())];
    let mut local_memory = [0u8; 4096];
    let mut worker = Worker { processor_id: 5, local_memory: &mut local_memory, fuel: &mut Fuel::default() };
    let arguments = arguments(count, constants, &pointers, &[8]);
    // SAFETY: the kernel uses the binding as the mutex that it is the address of.
    let result = unsafe { executable.dispatch(0, &arguments, range, &mut worker) };
    (result, record.into_inner().unwrap())
}

#[test]
fn ranges_visit_the_grid_in_order() {
    let executable = Parts::new(record).load().unwrap();
    let grid = [3, 2, 4];
    let all: Vec<[u32; 3]> = (0..24).map(|id| [id % 3, id / 3 % 2, id / 6]).collect();
    for start in 0..=24u64 {
        for end in start..=24 {
            let (result, record) = run(&executable, grid, start..end, &[]);
            result.unwrap();
            assert_eq!(record.ids, all[start as usize..end as usize], "{start}..{end}");
        }
    }
    let (_, record) = run(&executable, grid, 23..24, &[]);
    assert_eq!(record.states, [(grid, [4, 2, 1], 3, 5, 4096)]);
}

#[test]
fn ranges_beyond_the_grid_are_errors() {
    let executable = Parts::new(record).load().unwrap();
    let huge = [u32::MAX, u32::MAX, 0xFFFF];
    for (grid, range, runs) in [
        ([3, 2, 4], 23..25, None),
        ([0, 2, 4], 0..1, None),
        ([3, 2, 0x1_0000], 0..1, None),
        ([3, 2, 4], core::ops::Range { start: 30, end: 20 }, Some(0)),
        ([0, 0, 0], 0..0, Some(0)),
        (huge, u64::MAX - 1..u64::MAX, Some(1)),
        (huge, u64::from(u32::MAX) * 2 + 1..u64::from(u32::MAX) * 2 + 3, Some(2)),
    ] {
        let (result, record) = run(&executable, grid, range.clone(), &[]);
        match runs {
            None => assert!(result.is_err() && record.ids.is_empty(), "{grid:?} {range:?}"),
            Some(runs) => assert!(result.is_ok() && record.ids.len() == runs, "{grid:?} {range:?}"),
        }
    }
    let row = u64::from(u32::MAX);
    let (_, record) = run(&executable, huge, row * 2 - 1..row * 2 + 1, &[]);
    assert_eq!(record.ids, [[u32::MAX - 1, 1, 0], [0, 2, 0]]);
}

#[test]
fn a_failing_kernel_stops_the_range_and_is_named() {
    let mut parts = Parts::new(record);
    parts.attributes[0].constant_count = 1;
    let executable = parts.load().unwrap();
    let (result, record) = run(&executable, [3, 2, 4], 2..20, &[4]);
    let error = result.unwrap_err();
    assert_eq!(error.code(), StatusCode::Internal);
    assert_eq!(error.message(), "kernel 0 `kernel` returned -7 in workgroup 2,1,0");
    assert_eq!(record.ids.len(), 4);
}

#[test]
fn operands_are_compared_with_the_export() {
    let mut parts = Parts::new(record);
    parts.attributes[0].constant_count = 2;
    parts.attributes[0].local_memory_pages = 1;
    parts.attributes[0].flags = DISPATCH_FLAG_SEQUENTIAL;
    let executable = parts.load().unwrap();
    let info = &executable.functions()[0];
    assert_eq!((info.constant_count, info.binding_count, info.local_memory_size), (2, 1, 4096));
    assert!(info.sequential);
    let record = Mutex::new(Record::default());
    let pointers = [BindingPointer((&raw const record).cast_mut().cast()); 2];
    let mut memory = [0u8; 4096];
    let mut code = |function, constants: &[u32], bindings: usize, lengths: &[usize], local: usize| {
        let mut worker = Worker { processor_id: 0, local_memory: &mut memory[..local], fuel: &mut Fuel::default() };
        let arguments = arguments([1, 1, 1], constants, &pointers[..bindings], lengths);
        // SAFETY: as in `run`; the call is an error for other numbers of bindings.
        unsafe { executable.dispatch(function, &arguments, 0..1, &mut worker) }.map_err(|error: Error| error.code())
    };
    assert_eq!(code(0, &[9, 9], 1, &[8], 4096), Ok(()));
    assert_eq!(code(1, &[9, 9], 1, &[8], 4096), Err(StatusCode::OutOfRange));
    for (constants, bindings, lengths, local) in [
        (&[9][..], 1, &[8][..], 4096),
        (&[9, 9, 9], 1, &[8], 4096),
        (&[9, 9], 2, &[8], 4096),
        (&[9, 9], 1, &[8, 8], 4096),
        (&[9, 9], 0, &[8], 4096),
        (&[9, 9], 1, &[8], 4095),
    ] {
        assert_eq!(code(0, constants, bindings, lengths, local), Err(StatusCode::InvalidArgument));
    }
}

#[test]
fn damaged_libraries_are_refused() {
    type Damage = fn(&mut Library);
    let cases: [(StatusCode, Damage); 6] = [
        (StatusCode::InvalidArgument, |library| library.header = ptr::null()),
        (StatusCode::InvalidArgument, |library| library.exports.functions = ptr::null()),
        (StatusCode::InvalidArgument, |library| library.exports.attributes = ptr::null()),
        (StatusCode::OutOfRange, |library| library.exports.count = u32::MAX),
        (StatusCode::InvalidArgument, |library| library.imports.count = 1),
        (StatusCode::InvalidArgument, |library| library.imports.count = u32::MAX),
    ];
    for (index, (code, damage)) in cases.into_iter().enumerate() {
        let result = Parts::new(record).load_damaged(&[], ImportRegistry::default(), damage);
        assert_eq!(result.unwrap_err().code(), code, "case {index}");
    }
    type PartsDamage = fn(&mut Parts);
    let cases: [(StatusCode, PartsDamage); 5] = [
        (StatusCode::Incompatible, |parts| parts.header.features = 1),
        (StatusCode::Incompatible, |parts| parts.header.sanitizer = 1),
        (StatusCode::OutOfRange, |parts| parts.attributes[0].binding_count = MAX_BINDING_COUNT + 1),
        (StatusCode::OutOfRange, |parts| parts.attributes[0].constant_count = MAX_CONSTANT_COUNT + 1),
        (StatusCode::InvalidArgument, |parts| parts.functions[0] = None),
    ];
    for (index, (code, damage)) in cases.into_iter().enumerate() {
        let mut parts = Parts::new(record);
        damage(&mut parts);
        assert_eq!(parts.load().unwrap_err().code(), code, "case {index}");
    }
    unsafe extern "C" fn newer(_version: u32, _environment: *const Environment) -> *const *const LibraryHeader {
        ptr::null()
    }
    let parameters =
        LibraryParameters { constants: &[], imports: ImportRegistry::default(), convention: CallingConvention::Host };
    // SAFETY: answers no version, as the ABI allows.
    let error = unsafe { LibraryExecutable::load(newer, &parameters, Box::new(())) }.unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible);
}

#[test]
fn constants_match_the_declaration() {
    for (declared, given, loads) in [(2, 2, true), (2, 1, false), (2, 3, false), (0, 3, true), (0, 0, true)] {
        let mut parts = Parts::new(record);
        parts.constant_count = declared;
        let result = parts.load_damaged(&[1, 2, 3][..given], ImportRegistry::default(), |_| {});
        assert_eq!(result.is_ok(), loads, "{declared} declared, {given} given");
        if let Err(error) = result {
            assert_eq!(error.code(), StatusCode::FailedPrecondition);
        }
    }
}

/// Provides `present`, whose context is the address 0x40.
#[derive(Debug)]
struct Present;

impl ImportProvider for Present {
    fn resolve(&self, name: &str) -> Option<Import> {
        // SAFETY: the function ignores its arguments.
        (name == "present").then(|| unsafe { Import::new(context_as_code, ptr::without_provenance_mut(0x40)) })
    }
}

unsafe extern "C" fn context_as_code(_parameters: *mut c_void, context: *mut c_void, _reserved: *mut c_void) -> c_int {
    context.addr() as c_int
}

/// Calls its first import through the thunk and returns its result, plus one if the second import is missing.
unsafe extern "C" fn call_imports(
    environment: *const Environment,
    _dispatch: *const DispatchState,
    _workgroup: *const WorkgroupState,
) -> c_int {
    // SAFETY: the test's library imports two functions, so the tables have two entries and the thunk is there.
    unsafe {
        let environment = &*environment;
        let (Some(thunk), Some(function)) = (environment.import_thunk, *environment.import_functions) else { return 1 };
        let missing = (*environment.import_functions.add(1)).is_none();
        thunk(function, ptr::null_mut(), *environment.import_contexts, ptr::null_mut()) + c_int::from(missing)
    }
}

#[test]
fn imports_are_resolved_and_called_with_their_context() {
    let with_imports = |imports: &[Option<&'static CStr>], provider: ImportRegistry| {
        let mut parts = Parts::new(call_imports);
        parts.imports = imports.into();
        parts.load_damaged(&[], provider, |_| {})
    };
    let executable =
        with_imports(&[Some(c"present"), Some(c"?absent")], ImportRegistry::default().with(Arc::new(Present))).unwrap();
    let (result, _) = run(&executable, [1, 1, 1], 0..1, &[]);
    assert_eq!(result.unwrap_err().message(), "kernel 0 `kernel` returned 65 in workgroup 0,0,0");

    let error = with_imports(&[Some(c"one"), Some(c"?two"), Some(c"three")], ImportRegistry::default()).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.to_string().ends_with("`one`, `three`"), "{error}");
    assert!(with_imports(&[Some(c"?one"), Some(c"?two")], ImportRegistry::default()).is_ok());
    let error = with_imports(&[None], ImportRegistry::default().with(Arc::new(Present))).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
}
