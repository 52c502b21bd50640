//! A queried library as an executable of a local device.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::ffi::{c_char, c_int};
use core::fmt;
use core::ops::Range;
use core::ptr;

use super::abi::{
    ConstantTable, DISPATCH_FLAG_SEQUENTIAL, DispatchAttributes, DispatchAttributesV05, DispatchFunction,
    DispatchState, Environment, FEATURE_NONE, ImportTable, LOCAL_MEMORY_PAGE_SIZE, Library, LibraryHeader, LibraryV05,
    MAX_BINDING_COUNT, MAX_CONSTANT_COUNT, QueryFunction, SANITIZER_NONE, VERSION_0_5, VERSION_0_6, WorkgroupState,
};
use super::c_string::text;
use super::convention::CallingConvention;
use super::float_state::FlushDenormals;
use super::imports::{ImportRegistry, Imports};
use super::processor_data;
use crate::grid::Cursor;
use crate::vm::array;
use crate::{Coarsening, DispatchArguments, FunctionInfo, LocalExecutable, Worker};
use crate::{Error, Result};

/// Largest accepted number of kernels.
const MAX_EXPORT_COUNT: u32 = 1 << 16;

/// The version-neutral contents of a library's tables.
struct Tables {
    functions: Vec<FunctionInfo>,
    kernels: Vec<Kernel>,
    imports: Imports,
}

/// Reads the tables of a library of one ABI version.
type Reader = unsafe fn(*const *const LibraryHeader, &LibraryParameters<'_>) -> Result<Tables>;

/// The supported ABI versions, the compilers that write them, and their readers, in the order of the queries. A library
/// answers only for the version that it was compiled for.
const VERSIONS: [(u32, &str, Reader); 2] =
    [(VERSION_0_6, "3.8 to 3.13", read_v0_6), (VERSION_0_5, "3.0 to 3.7", read_v0_5)];

/// Parameters of loading a library.
#[derive(Clone, Debug)]
pub struct LibraryParameters<'a> {
    /// Specialization constants, as many as the library declares.
    pub constants: &'a [u32],
    /// Resolves the library's imports; the executable keeps it alive.
    pub imports: ImportRegistry,
    /// How the library's functions are called.
    pub convention: CallingConvention,
}

/// The part of an export that a dispatch needs.
#[derive(Clone, Copy)]
struct Kernel {
    function: DispatchFunction,
    local_memory_size: u32,
    constant_count: u8,
    binding_count: u8,
}

/// The kernels of a library with their environment.
pub struct LibraryExecutable {
    kernels: Box<[Kernel]>,
    convention: CallingConvention,
    environment: Box<Environment>,
    functions: Box<[FunctionInfo]>,
    name: String,
    /// The memory that `environment` points to.
    _constants: Box<[u32]>,
    _imports: Imports,
    _providers: ImportRegistry,
    /// Keeps the code mapped. Declared last, so that it is dropped last.
    _code: Box<dyn Any + Send + Sync>,
}

// SAFETY: the raw pointers are addresses of the executable's own heap memory and of code; nothing writes through them
// after `load`. Kernels may run on several threads at once by the ABI, and imports by the contract of `Import::new`.
unsafe impl Send for LibraryExecutable {}
// SAFETY: as above.
unsafe impl Sync for LibraryExecutable {}

impl fmt::Debug for LibraryExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibraryExecutable").field("name", &self.name).field("functions", &self.functions).finish()
    }
}

impl LibraryExecutable {
    /// Queries a library, checks its tables and resolves its imports. `code` keeps the library in memory and is dropped
    /// with the executable.
    ///
    /// # Errors
    /// INCOMPATIBLE if the library's version, features or sanitizer are unsupported; INVALID_ARGUMENT for missing
    /// tables; OUT_OF_RANGE for counts beyond the ABI's limits; FAILED_PRECONDITION if the number of specialization
    /// constants differs; NOT_FOUND for unresolved imports.
    ///
    /// # Safety
    /// `query` must be the query function of a library that follows the ABI, in code which stays in memory until `code`
    /// is dropped. The code is trusted: it runs with all rights of the process.
    pub unsafe fn load(
        query: QueryFunction,
        parameters: &LibraryParameters<'_>,
        code: Box<dyn Any + Send + Sync>,
    ) -> Result<LibraryExecutable> {
        let constants: Box<[u32]> = parameters.constants.into();
        let mut environment = Box::new(environment(&constants));
        // SAFETY: as the caller's.
        let (library, reader) = unsafe { offered(query, parameters.convention, &environment) }?;
        // SAFETY: not null, so by the ABI it points to the pointer to the library's header.
        let name = unsafe { check_header(*library) }?;
        // SAFETY: `reader` belongs to the version that the library answered for.
        let tables = unsafe { reader(library, parameters) }.map_err(|error| error.context(name.clone()))?;
        if !tables.imports.is_empty() {
            environment.import_thunk = Some(parameters.convention.import_thunk());
            environment.import_functions = tables.imports.functions.as_ptr();
            environment.import_contexts = tables.imports.contexts.as_ptr();
        }
        Ok(LibraryExecutable {
            kernels: tables.kernels.into(),
            convention: parameters.convention,
            environment,
            functions: tables.functions.into(),
            name,
            _constants: constants,
            _imports: tables.imports,
            _providers: parameters.imports.clone(),
            _code: code,
        })
    }

    /// Returns the compiler's name of the library, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[cold]
    fn kernel_failed(&self, function: usize, code: c_int, state: &WorkgroupState) -> Error {
        let name = self.functions.get(function).map_or("", |info| &info.name);
        let WorkgroupState { workgroup_id_x: x, workgroup_id_y: y, workgroup_id_z: z, .. } = state;
        Error::internal(format!("kernel {function} `{name}` returned {code} in workgroup {x},{y},{z}"))
    }

    /// Describes which operand of `LocalExecutable::dispatch` is wrong.
    #[cold]
    fn operands_differ(&self, function: usize, arguments: &DispatchArguments<'_>, worker: &Worker<'_>) -> Error {
        let Some(info) = self.functions.get(function) else {
            let count = self.functions.len();
            return Error::out_of_range(format!("function {function} of an executable with {count} functions"));
        };
        Error::invalid_argument(format!(
            "kernel {function} `{}` takes {} constants, {} bindings and {} bytes of local memory; it was given {} \
             constants, {} binding addresses, {} binding lengths and {} bytes, for {:?} workgroups of size {:?}",
            info.name,
            info.constant_count,
            info.binding_count,
            info.local_memory_size,
            arguments.constants.len(),
            arguments.binding_pointers.len(),
            arguments.binding_lengths.len(),
            worker.local_memory.len(),
            arguments.workgroup_count,
            arguments.workgroup_size,
        ))
    }
}

impl LocalExecutable for LibraryExecutable {
    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    unsafe fn dispatch(
        &self,
        function: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: Range<u64>,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let Some(kernel) = self.kernels.get(function) else {
            return Err(self.operands_differ(function, arguments, worker));
        };
        let DispatchArguments { workgroup_count: [count_x, count_y, count_z], workgroup_size, .. } = *arguments;
        let (Ok(count_z), Ok(size_z)) = (u16::try_from(count_z), u16::try_from(workgroup_size[2])) else {
            return Err(self.operands_differ(function, arguments, worker));
        };
        if arguments.constants.len() != usize::from(kernel.constant_count)
            || arguments.binding_pointers.len() != usize::from(kernel.binding_count)
            || arguments.binding_lengths.len() != usize::from(kernel.binding_count)
            || worker.local_memory.len() < kernel.local_memory_size as usize
        {
            return Err(self.operands_differ(function, arguments, worker));
        }
        let Some(mut cursor) = Cursor::new(arguments.workgroup_count, workgroups)? else {
            return Ok(());
        };
        let dispatch = DispatchState {
            workgroup_size_x: workgroup_size[0],
            workgroup_size_y: workgroup_size[1],
            workgroup_size_z: size_z,
            constant_count: u16::from(kernel.constant_count),
            workgroup_count_x: count_x,
            workgroup_count_y: count_y,
            workgroup_count_z: count_z,
            max_concurrency: arguments.max_concurrency,
            binding_count: kernel.binding_count,
            constants: arguments.constants.as_ptr(),
            // `BindingPointer` is transparent over the pointer.
            binding_pointers: arguments.binding_pointers.as_ptr().cast(),
            binding_lengths: arguments.binding_lengths.as_ptr(),
        };
        let mut state = WorkgroupState {
            workgroup_id_x: cursor.x,
            workgroup_id_y: cursor.y,
            workgroup_id_z: cursor.z as u16,
            reserved: 0,
            processor_id: worker.processor_id,
            local_memory: worker.local_memory.as_mut_ptr().cast(),
            local_memory_size: u32::try_from(worker.local_memory.len()).unwrap_or(u32::MAX),
        };
        reserve_stack();
        // SAFETY: until the guard is dropped, after the loop, only kernels and integer code run.
        let mode = unsafe { FlushDenormals::enter() };
        let code = loop {
            worker.fuel.check()?;
            // SAFETY: the function is an export of a library that follows the ABI (contract of `load`), in code that
            // `_code` keeps mapped. Both states and the environment outlive the call. The numbers of constants and
            // bindings and the size of local memory are what the export asks for (compared above), and the caller keeps
            // the bindings' memory alive (contract of `LocalExecutable::dispatch`).
            let code = unsafe {
                let environment = &raw const *self.environment;
                self.convention.dispatch(kernel.function, environment, &raw const dispatch, &raw const state)
            };
            if code != 0 || !cursor.advance() {
                break code;
            }
            state.workgroup_id_x = cursor.x;
            state.workgroup_id_y = cursor.y;
            state.workgroup_id_z = cursor.z as u16;
        };
        drop(mode);
        if code == 0 { Ok(()) } else { Err(self.kernel_failed(function, code, &state)) }
    }
}

/// Commits the stack that kernels use, which do not probe it as programs for Windows must: a frame of more than a page could
/// step over the guard page. The compiler's limit for the arrays of a kernel is 32 KiB.
#[cfg(windows)]
#[inline(never)]
fn reserve_stack() {
    // Rust probes a frame of this size page by page.
    core::hint::black_box(&mut core::mem::MaybeUninit::<[u8; 128 << 10]>::uninit());
}

/// Does nothing: the system commits the stack at any access.
#[cfg(not(windows))]
#[inline(always)]
fn reserve_stack() {}

/// The environment of kernels without imports.
fn environment(constants: &[u32]) -> Environment {
    Environment {
        constants: if constants.is_empty() { ptr::null() } else { constants.as_ptr() },
        import_thunk: None,
        import_functions: ptr::null(),
        import_contexts: ptr::null(),
        processor: processor_data(),
    }
}

/// Queries a library for each supported version; returns its first answer with the version's reader.
///
/// # Safety
/// `query` must be the query function of a library that follows the ABI.
unsafe fn offered(
    query: QueryFunction,
    convention: CallingConvention,
    environment: &Environment,
) -> Result<(*const *const LibraryHeader, Reader)> {
    let mut versions = VERSIONS.iter();
    let found = versions.find_map(|&(version, _, reader)| {
        // SAFETY: by contract; the environment outlives the call.
        let library = unsafe { convention.query(query, version, environment) };
        (!library.is_null()).then_some((library, reader))
    });
    found.ok_or_else(|| {
        let versions =
            VERSIONS.map(|(version, compilers, _)| format!("0.{version} of compilers {compilers}")).join(", ");
        Error::incompatible(format!(
            "executable library does not offer a version of the ABI that this runtime supports ({versions})"
        ))
    })
}

/// Returns the name of a library.
///
/// # Errors
/// INCOMPATIBLE if the library's version, features or sanitizer are unsupported; INVALID_ARGUMENT for a missing header.
///
/// # Safety
/// Those of [`LibraryExecutable::load`].
pub(crate) unsafe fn library_name(query: QueryFunction) -> Result<String> {
    // SAFETY: as the caller's.
    let (library, _) = unsafe { offered(query, CallingConvention::Host, &environment(&[])) }?;
    // SAFETY: not null, so by the ABI it points to the pointer to the library's header.
    unsafe { check_header(*library) }
}

/// Checks features and sanitizer and returns the library's name.
///
/// # Safety
/// `header` must be null or point to a header whose name is null or NUL-terminated.
unsafe fn check_header(header: *const LibraryHeader) -> Result<String> {
    if header.is_null() {
        return Err(Error::invalid_argument("executable library has no header"));
    }
    // SAFETY: not null, so by contract a header.
    let header = unsafe { *header };
    // SAFETY: by contract null or NUL-terminated.
    let name = unsafe { text(header.name) };
    if header.features != FEATURE_NONE {
        let features = header.features;
        return Err(Error::incompatible(format!(
            "executable library `{name}` needs features {features:#x}, of which this runtime supports none"
        )));
    }
    if header.sanitizer != SANITIZER_NONE {
        let sanitizer = header.sanitizer;
        return Err(Error::incompatible(format!(
            "executable library `{name}` was built with sanitizer {sanitizer}, which this runtime does not support"
        )));
    }
    Ok(name)
}

/// The tables that all ABI versions share.
struct View {
    imports: ImportTable,
    constants: ConstantTable,
    export_count: u32,
    functions: *const Option<DispatchFunction>,
    names: *const *const c_char,
    attributes: Attributes,
}

/// The attributes of kernels, in the layout of a version.
#[derive(Clone, Copy)]
enum Attributes {
    V06(*const DispatchAttributes),
    V05(*const DispatchAttributesV05),
}

impl Attributes {
    /// Returns true if required attributes are missing.
    fn are_missing(self) -> bool {
        matches!(self, Attributes::V06(rows) if rows.is_null())
    }

    /// Returns the attributes of a kernel, converted to the newest version.
    ///
    /// # Safety
    /// The array must be null or have more than `ordinal` entries; that of version 0.6 must not be null.
    unsafe fn get(self, ordinal: usize) -> DispatchAttributes {
        let plain = DispatchAttributes {
            flags: 0,
            local_memory_pages: 0,
            constant_count: 0,
            binding_count: 0,
            workgroup_size_x: 1,
            workgroup_size_y: 1,
            workgroup_size_z: 1,
            parameter_count: 0,
            reserved: [0; 5],
        };
        match self {
            // SAFETY: not null and long enough (contract).
            Attributes::V06(rows) => unsafe { *rows.add(ordinal) },
            Attributes::V05(rows) if rows.is_null() => plain,
            Attributes::V05(rows) => {
                // SAFETY: not null, so long enough (contract).
                let row = unsafe { *rows.add(ordinal) };
                let DispatchAttributesV05 { local_memory_pages, constant_count, binding_count, .. } = row;
                DispatchAttributes { local_memory_pages, constant_count, binding_count, ..plain }
            }
        }
    }
}

/// The reader of version 0.6.
///
/// # Safety
/// `library` must be a non-null result of a query for [`VERSION_0_6`].
unsafe fn read_v0_6(library: *const *const LibraryHeader, parameters: &LibraryParameters<'_>) -> Result<Tables> {
    // SAFETY: the pointer to the header is the first field of the library (contract).
    let library = unsafe { &*library.cast::<Library>() };
    let view = View {
        imports: library.imports,
        constants: library.constants,
        export_count: library.exports.count,
        functions: library.exports.functions,
        names: library.exports.names,
        attributes: Attributes::V06(library.exports.attributes),
    };
    // SAFETY: the view points into the library (contract).
    unsafe { read_tables(&view, parameters) }
}

/// The reader of version 0.5.
///
/// # Safety
/// `library` must be a non-null result of a query for [`VERSION_0_5`].
unsafe fn read_v0_5(library: *const *const LibraryHeader, parameters: &LibraryParameters<'_>) -> Result<Tables> {
    // SAFETY: the pointer to the header is the first field of the library (contract).
    let library = unsafe { &*library.cast::<LibraryV05>() };
    let view = View {
        imports: library.imports,
        constants: library.constants,
        export_count: library.exports.count,
        functions: library.exports.functions,
        names: library.exports.names,
        attributes: Attributes::V05(library.exports.attributes),
    };
    // SAFETY: the view points into the library (contract).
    unsafe { read_tables(&view, parameters) }
}

/// Reads and checks the tables of a library of any version.
///
/// # Safety
/// The view must be that of a library that follows the ABI.
unsafe fn read_tables(library: &View, parameters: &LibraryParameters<'_>) -> Result<Tables> {
    let (declared, given) = (library.constants.count as usize, parameters.constants.len());
    // The compiler (3.13.0) emits reads of the constants but a count of zero, which cannot be compared.
    if declared != 0 && declared != given {
        return Err(Error::new(
            crate::StatusCode::FailedPrecondition,
            format!("executable declares {declared} specialization constants and was given {given}"),
        ));
    }
    let count = library.export_count;
    if count > MAX_EXPORT_COUNT {
        return Err(Error::out_of_range(format!(
            "executable declares {count} kernels; the limit is {MAX_EXPORT_COUNT}"
        )));
    }
    if count > 0 && (library.functions.is_null() || library.attributes.are_missing()) {
        return Err(Error::invalid_argument("executable declares kernels without functions or attributes"));
    }
    let mut functions = array::with_capacity(count as usize)?;
    let mut kernels = array::with_capacity(count as usize)?;
    for ordinal in 0..count as usize {
        // SAFETY: neither array is null where it must not be (checked above), so by the ABI they have `count` entries.
        let (function, attributes) = unsafe { (*library.functions.add(ordinal), library.attributes.get(ordinal)) };
        let name = if library.names.is_null() {
            String::new()
        } else {
            // SAFETY: the array is not null, so by the ABI it has `count` entries, each null or NUL-terminated.
            unsafe { text(*library.names.add(ordinal)) }
        };
        let Some(function) = function else {
            return Err(Error::invalid_argument(format!("kernel {ordinal} `{name}` has no function")));
        };
        let (constant_count, binding_count) = (attributes.constant_count, attributes.binding_count);
        if constant_count > MAX_CONSTANT_COUNT || binding_count > MAX_BINDING_COUNT {
            return Err(Error::out_of_range(format!(
                "kernel {ordinal} `{name}` takes {constant_count} constants and {binding_count} bindings; the limits \
                 are {MAX_CONSTANT_COUNT} and {MAX_BINDING_COUNT}"
            )));
        }
        let local_memory_size = usize::from(attributes.local_memory_pages) * LOCAL_MEMORY_PAGE_SIZE;
        kernels.push(Kernel { function, local_memory_size: local_memory_size as u32, constant_count, binding_count });
        functions.push(FunctionInfo {
            read_only_bindings: 0,
            name,
            constant_count: usize::from(constant_count),
            binding_count: usize::from(binding_count),
            local_memory_size,
            sequential: attributes.flags & DISPATCH_FLAG_SEQUENTIAL != 0,
            coarsening: Coarsening::NONE,
            workgroup_size: [
                attributes.workgroup_size_x,
                attributes.workgroup_size_y,
                u32::from(attributes.workgroup_size_z),
            ],
        });
    }
    // SAFETY: by the ABI the table's array is null or has `count` entries, each null or NUL-terminated.
    let mut imports = unsafe { Imports::read(&library.imports) }?;
    parameters.imports.resolve(&mut imports)?;
    Ok(Tables { functions, kernels, imports })
}
