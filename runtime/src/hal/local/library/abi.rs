//! Structures, constants and function types of the executable library ABI, version 0.6, and of version 0.5 what differs.
//!
//! Fields and their order are those of `iree/hal/local/executable_library.h`. The structures are read where the library
//! has them; the runtime itself writes [`Environment`], [`DispatchState`] and [`WorkgroupState`]. The layout assertions at
//! the end hold for 64-bit hosts; on 32-bit hosts the same declarations follow the C rules.

use core::ffi::{c_char, c_int, c_void};

/// Name of the symbol under which libraries export their [`QueryFunction`].
pub const EXPORT_NAME: &str = "iree_hal_executable_library_query";

/// Version 0.6, which compilers write since 3.8.
pub const VERSION_0_6: u32 = 6;

/// Version 0.5, which compilers 3.0 to 3.7 write.
pub const VERSION_0_5: u32 = 5;

/// [`LibraryHeader::sanitizer`] of a library that was built without one.
pub const SANITIZER_NONE: u32 = 0;

/// [`LibraryHeader::features`] of a library that asks for none; no feature is defined yet.
pub const FEATURE_NONE: u32 = 0;

/// Bytes in a page of workgroup local memory, the unit of [`DispatchAttributes::local_memory_pages`].
pub const LOCAL_MEMORY_PAGE_SIZE: usize = 4096;

/// Largest number of 32-bit constants of a dispatch.
pub const MAX_CONSTANT_COUNT: u8 = 64;

/// Largest number of bindings of a dispatch.
pub const MAX_BINDING_COUNT: u8 = 64;

/// Number of words of [`Environment::processor`].
pub const PROCESSOR_DATA_CAPACITY: usize = 8;

/// Bit of [`DispatchAttributes::flags`]: neighbouring workgroups work on neighbouring data, in order.
pub const DISPATCH_FLAG_SEQUENTIAL: u64 = 1 << 0;

/// Bit of [`DispatchAttributes::flags`]: the workgroup size is chosen per dispatch, a multiple of the one stated.
pub const DISPATCH_FLAG_WORKGROUP_SIZE_DYNAMIC: u64 = 1 << 1;

/// First structure of a library, the same in all versions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LibraryHeader {
    /// Version of the ABI that the structure behind the header has.
    pub version: u32,
    /// Name for messages, NUL-terminated.
    pub name: *const c_char,
    /// Features that the library needs.
    pub features: u32,
    /// Sanitizer that the library was built with.
    pub sanitizer: u32,
}

/// Returns the library's description, whose first field is a pointer to its [`LibraryHeader`], or null where the library
/// does not have the asked version.
pub type QueryFunction = unsafe extern "C" fn(version: u32, *const Environment) -> *const *const LibraryHeader;

/// A kernel. Returns zero, or another number after a failure that makes the device unusable.
pub type DispatchFunction =
    unsafe extern "C" fn(*const Environment, *const DispatchState, *const WorkgroupState) -> c_int;

/// A function that kernels import. Parameters are laid out as kernel and function have agreed; the second pointer is the
/// function's own context, the third is reserved. Returns zero on success.
pub type ImportFunction =
    unsafe extern "C" fn(parameters: *mut c_void, context: *mut c_void, reserved: *mut c_void) -> c_int;

/// The function through which kernels call every import; the first argument is the import.
pub type ImportThunk = unsafe extern "C" fn(
    function: ImportFunction,
    parameters: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int;

/// What kernels may know of the program that they run in.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Environment {
    /// Specialization constants, as many as the library's [`ConstantTable::count`]; null where there are none.
    pub constants: *const u32,
    /// Calls an import.
    pub import_thunk: Option<ImportThunk>,
    /// Imports by ordinal; `None` for an optional one that is missing.
    pub import_functions: *const Option<ImportFunction>,
    /// Context of each import.
    pub import_contexts: *const *mut c_void,
    /// What is known of the processor; see [`processor_data`](super::processor_data).
    pub processor: [u64; PROCESSOR_DATA_CAPACITY],
}

/// What all workgroups of a dispatch share.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchState {
    /// Workgroup size in x.
    pub workgroup_size_x: u32,
    /// Workgroup size in y.
    pub workgroup_size_y: u32,
    /// Workgroup size in z.
    pub workgroup_size_z: u16,
    /// Number of 32-bit words in `constants`.
    pub constant_count: u16,
    /// Number of workgroups in x.
    pub workgroup_count_x: u32,
    /// Number of workgroups in y.
    pub workgroup_count_y: u32,
    /// Number of workgroups in z.
    pub workgroup_count_z: u16,
    /// Number of workgroups that may run at once.
    pub max_concurrency: u8,
    /// Number of entries in `binding_pointers` and in `binding_lengths`.
    pub binding_count: u8,
    /// Constants.
    pub constants: *const u32,
    /// Base addresses of the bindings.
    pub binding_pointers: *const *mut c_void,
    /// Lengths of the bindings in bytes.
    pub binding_lengths: *const usize,
}

/// What one workgroup has to itself.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WorkgroupState {
    /// Workgroup id in x.
    pub workgroup_id_x: u32,
    /// Workgroup id in y.
    pub workgroup_id_y: u32,
    /// Workgroup id in z.
    pub workgroup_id_z: u16,
    /// Zero.
    pub reserved: u16,
    /// Number of the logical processor.
    pub processor_id: u32,
    /// Scratch memory; null where the kernel asks for none.
    pub local_memory: *mut c_void,
    /// Bytes of scratch memory.
    pub local_memory_size: u32,
}

/// How a kernel is to be dispatched.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchAttributes {
    /// `DISPATCH_FLAG_*`.
    pub flags: u64,
    /// Local memory that each workgroup needs, in [`LOCAL_MEMORY_PAGE_SIZE`].
    pub local_memory_pages: u16,
    /// Number of 32-bit constants.
    pub constant_count: u8,
    /// Number of bindings.
    pub binding_count: u8,
    /// Workgroup size in x.
    pub workgroup_size_x: u32,
    /// Workgroup size in y.
    pub workgroup_size_y: u32,
    /// Workgroup size in z.
    pub workgroup_size_z: u16,
    /// Number of logical parameters in the export table's `parameters`.
    pub parameter_count: u16,
    /// Zero.
    pub reserved: [u64; 5],
}

/// Imports that a library asks for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ImportTable {
    /// Number of imports.
    pub count: u32,
    /// NUL-terminated names; a leading `?` marks an import that may be missing.
    pub symbols: *const *const c_char,
}

/// Kernels that a library has; the arrays are parallel and indexed by ordinal.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExportTable {
    /// Number of kernels.
    pub count: u32,
    /// The kernels.
    pub functions: *const Option<DispatchFunction>,
    /// Their attributes.
    pub attributes: *const DispatchAttributes,
    /// Parameter reflection, or null. This runtime does not read it.
    pub parameters: *const *const c_void,
    /// Occupancy, or null. This runtime does not read it.
    pub occupancy: *const c_void,
    /// NUL-terminated names.
    pub names: *const *const c_char,
    /// Tags for traces, or null. This runtime does not read them.
    pub tags: *const *const c_char,
    /// Parameter names, or null. This runtime does not read them.
    pub parameter_names: *const *const c_char,
    /// Source locations, or null. This runtime does not read them.
    pub source_locations: *const c_void,
    /// Source locations by stage of compilation, or null. This runtime does not read them.
    pub stage_locations: *const c_void,
}

/// Specialization constants that a library asks for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConstantTable {
    /// Number of 32-bit constants. Compilers up to 3.13.0 leave it zero, whatever the kernels read.
    pub count: u32,
}

/// Sources that a library carries.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SourceFileTable {
    /// Number of files.
    pub count: u32,
    /// The files. This runtime does not read them.
    pub files: *const c_void,
}

/// Description of a library of version 0.6.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Library {
    /// Header.
    pub header: *const LibraryHeader,
    /// Imports.
    pub imports: ImportTable,
    /// Kernels.
    pub exports: ExportTable,
    /// Specialization constants.
    pub constants: ConstantTable,
    /// Sources.
    pub sources: SourceFileTable,
}

/// How a kernel of a library of version 0.5 is to be dispatched: one workgroup is 1 x 1 x 1 for the runtime.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchAttributesV05 {
    /// Local memory that each workgroup needs, in [`LOCAL_MEMORY_PAGE_SIZE`].
    pub local_memory_pages: u16,
    /// Number of 32-bit constants.
    pub constant_count: u8,
    /// Number of bindings.
    pub binding_count: u8,
    /// Zero.
    pub reserved: u32,
    /// Zero.
    pub reserved_words: [u64; 8],
}

/// Kernels that a library of version 0.5 has; the arrays are parallel and indexed by ordinal.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExportTableV05 {
    /// Number of kernels.
    pub count: u32,
    /// The kernels.
    pub functions: *const Option<DispatchFunction>,
    /// Their attributes, or null where every kernel takes neither constants nor bindings nor local memory.
    pub attributes: *const DispatchAttributesV05,
    /// NUL-terminated names, or null.
    pub names: *const *const c_char,
    /// Tags for traces, or null. This runtime does not read them.
    pub tags: *const *const c_char,
    /// Source locations, or null. This runtime does not read them.
    pub source_locations: *const c_void,
    /// Source locations by stage of compilation, or null. This runtime does not read them.
    pub stage_locations: *const c_void,
}

/// Description of a library of version 0.5.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LibraryV05 {
    /// Header.
    pub header: *const LibraryHeader,
    /// Imports.
    pub imports: ImportTable,
    /// Kernels.
    pub exports: ExportTableV05,
    /// Specialization constants.
    pub constants: ConstantTable,
    /// Sources.
    pub sources: SourceFileTable,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<LibraryHeader>() == 24);
    assert!(offset_of!(LibraryHeader, sanitizer) == 20);
    assert!(size_of::<Environment>() == 32 + 8 * PROCESSOR_DATA_CAPACITY);
    assert!(offset_of!(Environment, processor) == 32);
    assert!(size_of::<DispatchState>() == 48);
    assert!(offset_of!(DispatchState, workgroup_count_x) == 12);
    assert!(offset_of!(DispatchState, binding_count) == 23);
    assert!(offset_of!(DispatchState, constants) == 24);
    assert!(size_of::<WorkgroupState>() == 32);
    assert!(offset_of!(WorkgroupState, processor_id) == 12);
    assert!(offset_of!(WorkgroupState, local_memory) == 16);
    assert!(size_of::<DispatchAttributes>() == 64);
    assert!(offset_of!(DispatchAttributes, workgroup_size_x) == 12);
    assert!(offset_of!(DispatchAttributes, parameter_count) == 22);
    assert!(size_of::<ImportTable>() == 16);
    assert!(size_of::<ExportTable>() == 80);
    assert!(offset_of!(ExportTable, names) == 40);
    assert!(size_of::<Library>() == 128);
    assert!(offset_of!(Library, constants) == 104);
    assert!(size_of::<DispatchAttributesV05>() == 72);
    assert!(size_of::<ExportTableV05>() == 56);
    assert!(offset_of!(LibraryV05, constants) == 80);
};
