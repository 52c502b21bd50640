//! Kernels: the functions of loaded code, and what they are called with.
#![allow(unsafe_code, reason = "declares the contract of calls with addresses of bindings")]

use alloc::string::String;
use core::fmt;

use crate::memory::address::BindingPointer;
use crate::vm::{ConstantBytes, Fuel};
use crate::{Error, Result};

/// Facts about one function (dispatch entry point) of an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Name as the compiler gave it, such as `main_dispatch_0_matmul_8x8x8_f32`; empty where it was stripped.
    pub name: String,
    /// Number of 32-bit constants that a dispatch passes.
    pub constant_count: usize,
    /// Number of buffer bindings that a dispatch passes.
    pub binding_count: usize,
    /// Bytes of local memory that each worker provides.
    pub local_memory_size: usize,
    /// Workgroups run one after another, in order, on one worker.
    pub sequential: bool,
    /// Bit `i` is set where binding `i` is known to be read only, whatever the function is given. Machine code does not say.
    pub read_only_bindings: u64,
    /// The workgroups along x that one call of the function may run. Chunks of a dispatch should begin at multiples of the most.
    pub coarsening: Coarsening,
    /// Workgroup size as compiled, x, y, z; 0 or 1 where it has no meaning.
    pub workgroup_size: [u32; 3],
}

/// What a dispatch needs to know of its function, kept with the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelNeeds {
    /// As [`FunctionInfo::read_only_bindings`].
    pub read_only_bindings: u64,
    /// As [`FunctionInfo::local_memory_size`].
    pub local_memory_size: usize,
    /// As [`DispatchArguments::workgroup_size`].
    pub workgroup_size: [u32; 3],
}

impl From<&FunctionInfo> for KernelNeeds {
    #[inline]
    fn from(info: &FunctionInfo) -> KernelNeeds {
        let [x, y, z] = info.workgroup_size;
        KernelNeeds {
            read_only_bindings: info.read_only_bindings,
            local_memory_size: info.local_memory_size,
            workgroup_size: [x.max(1), y.max(1), z.max(1)],
        }
    }
}

/// The workgroups along x that one call of a function may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarsening {
    /// The most workgroups. 0 means one.
    pub most: u32,
    /// Workgroups at positions below this may share calls; each behind has a call of its own.
    pub alike: u32,
}

impl Coarsening {
    /// Each workgroup has a call of its own.
    pub const NONE: Coarsening = Coarsening { most: 1, alike: u32::MAX };
}

impl Default for Coarsening {
    fn default() -> Coarsening {
        Coarsening::NONE
    }
}

/// The most bindings that a dispatch can have: as many as [`DispatchArguments::read_only_bindings`] has bits.
pub const MAXIMUM_BINDINGS: usize = 64;

/// Returns the error of a dispatch with more than [`MAXIMUM_BINDINGS`] bindings.
#[cold]
#[must_use]
pub fn too_many_bindings() -> Error {
    Error::out_of_range(alloc::format!("dispatch has more than {MAXIMUM_BINDINGS} bindings"))
}

/// What all workgroups of one dispatch share.
#[derive(Clone, Copy, Debug)]
pub struct DispatchArguments<'a> {
    /// Number of workgroups in x, y, z.
    pub workgroup_count: [u32; 3],
    /// Workgroup size in x, y, z; at least 1 each.
    pub workgroup_size: [u32; 3],
    /// Constants, as many as [`FunctionInfo::constant_count`].
    pub constants: &'a [u32],
    /// Addresses of the bindings, as many as [`FunctionInfo::binding_count`].
    pub binding_pointers: &'a [BindingPointer],
    /// Lengths of the bindings in bytes, one for each pointer.
    pub binding_lengths: &'a [usize],
    /// Bit `i` is set where binding `i` must not be written: memory that its owner shares for reading. Machine code is
    /// trusted to keep to that; interpreters of untrusted code check it.
    pub read_only_bindings: u64,
    /// The bytes of constants that bindings have which the kernel only reads, one for each pointer, or none at all. Unless the program
    /// orders its accesses wrongly, the bindings have the same bytes.
    pub binding_constants: &'a [Option<ConstantBytes>],
    /// Number of workers that may run workgroups of this dispatch at once.
    pub max_concurrency: u8,
}

/// What belongs to the worker that runs workgroups.
#[derive(Debug)]
pub struct Worker<'a> {
    /// Number of the logical processor, for kernels that ask.
    pub processor_id: u32,
    /// Scratch memory, at least [`FunctionInfo::local_memory_size`] bytes, aligned to 64.
    pub local_memory: &'a mut [u8],
    /// The fuel of the call that submitted the dispatch. Bytecode takes its steps from here; machine code takes none, and checks
    /// the time before each workgroup.
    pub fuel: &'a mut Fuel,
}

/// Code that a local device has loaded; one format each: machine code, nested bytecode, linked-in functions.
pub trait LocalExecutable: Send + Sync + fmt::Debug {
    /// The functions, in the order of their ordinals.
    fn functions(&self) -> &[FunctionInfo];

    /// Runs the workgroups whose linear ids (x fastest, then y, then z) lie in `workgroups`. Several threads may run ranges
    /// of one dispatch at once.
    ///
    /// # Errors
    /// What the kernel reports: a non-zero return of machine code is INTERNAL, a trap of bytecode is its own error. What
    /// does not match the function's [`FunctionInfo`], such as the number of bindings, is an error, too.
    ///
    /// # Safety
    /// The bytes of each binding, from its pointer on and as many as its length, are valid until the call returns: for reads,
    /// and for writes unless [`DispatchArguments::read_only_bindings`] or [`FunctionInfo::read_only_bindings`] has the
    /// binding's bit. Where [`DispatchArguments::binding_constants`] names bytes of a constant, the constant lives until the call
    /// returns, and has as many bytes as the binding. No reference to these bytes is in use meanwhile, except shared references to bytes that are only
    /// read.
    unsafe fn dispatch(
        &self,
        function: usize,
        arguments: &DispatchArguments<'_>,
        workgroups: core::ops::Range<u64>,
        worker: &mut Worker<'_>,
    ) -> Result<()>;
}
