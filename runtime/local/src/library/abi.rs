//! Structures, constants and function types of the executable library ABI, version 0.6, and the differences of version
//! 0.5.
//!
//! Fields and their order are those of `iree/hal/local/executable_library.h`. Most structures are read in the library's
//! memory; the runtime writes [`Environment`], [`DispatchState`] and [`WorkgroupState`]. The layout assertions at the
//! end hold for 64-bit hosts; on 32-bit hosts the same declarations follow the rules of C.

use core::ffi::{c_char, c_int, c_void};

/// Name of the exported symbol of a library's [`QueryFunction`].
pub const EXPORT_NAME: &str = "iree_hal_executable_library_query";

/// Version 0.6, which compilers write since 3.8.
pub const VERSION_0_6: u32 = 6;

/// Version 0.5, which compilers 3.0 to 3.7 write.
pub const VERSION_0_5: u32 = 5;

/// [`LibraryHeader::sanitizer`] of a library without one.
pub const SANITIZER_NONE: u32 = 0;

/// [`LibraryHeader::features`] of a library that needs none; the ABI defines no feature yet.
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
    /// The ABI version of the structure that begins with this header.
    pub version: u32,
    /// Name for messages, NUL-terminated.
    pub name: *const c_char,
    /// Features that the library needs.
    pub features: u32,
    /// Sanitizer that the library was built with.
    pub sanitizer: u32,
}

/// Returns the library's description, whose first field is a pointer to its [`LibraryHeader`]; null if the library does
/// not support the version.
pub type QueryFunction = unsafe extern "C" fn(version: u32, *const Environment) -> *const *const LibraryHeader;

/// A kernel. Returns zero on success; another number if a failure makes the device unusable.
pub type DispatchFunction =
    unsafe extern "C" fn(*const Environment, *const DispatchState, *const WorkgroupState) -> c_int;

/// A function that kernels import. Kernel and function agree on the parameters' layout; the second pointer is the
/// function's own context, the third is reserved. Returns zero on success.
pub type ImportFunction =
    unsafe extern "C" fn(parameters: *mut c_void, context: *mut c_void, reserved: *mut c_void) -> c_int;

/// The trampoline through which kernels call every import; the first argument is the import.
pub type ImportThunk = unsafe extern "C" fn(
    function: ImportFunction,
    parameters: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int;

/// The environment of kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Environment {
    /// Specialization constants, [`ConstantTable::count`] of them; null if there are none.
    pub constants: *const u32,
    /// Calls an import.
    pub import_thunk: Option<ImportThunk>,
    /// Imports by ordinal; `None` for a missing optional one.
    pub import_functions: *const Option<ImportFunction>,
    /// Context of each import.
    pub import_contexts: *const *mut c_void,
    /// Features of the processor; see [`processor_data`](super::processor_data).
    pub processor: [u64; PROCESSOR_DATA_CAPACITY],
}

/// The operands that all workgroups of a dispatch share.
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

/// The operands of one workgroup.
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
    /// Scratch memory; null if the kernel needs none.
    pub local_memory: *mut c_void,
    /// Bytes of scratch memory.
    pub local_memory_size: u32,
}

/// Attributes of a kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchAttributes {
    /// `DISPATCH_FLAG_*`.
    pub flags: u64,
    /// Local memory of each workgroup, in units of [`LOCAL_MEMORY_PAGE_SIZE`].
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

/// The imports of a library.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ImportTable {
    /// Number of imports.
    pub count: u32,
    /// NUL-terminated names; a leading `?` marks an optional import.
    pub symbols: *const *const c_char,
}

/// The kernels of a library; the arrays are parallel and indexed by ordinal.
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

/// The specialization constants of a library.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConstantTable {
    /// Number of 32-bit constants. Compilers up to 3.13.0 write zero even if kernels read some.
    pub count: u32,
}

/// The embedded sources of a library.
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

/// Attributes of a kernel of version 0.5, whose workgroup size is 1 x 1 x 1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchAttributesV05 {
    /// Local memory of each workgroup, in units of [`LOCAL_MEMORY_PAGE_SIZE`].
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

/// The kernels of a library of version 0.5; the arrays are parallel and indexed by ordinal.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExportTableV05 {
    /// Number of kernels.
    pub count: u32,
    /// The kernels.
    pub functions: *const Option<DispatchFunction>,
    /// Their attributes, or null if no kernel takes constants, bindings or local memory.
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
