//! Calls of machine code by its calling convention.
//!
//! Embedded ELF files have the System V convention on every system. That is the C convention of the host, except on Windows for
//! x86-64, where libraries of the system have Microsoft's.

use core::ffi::{c_int, c_void};

use super::abi::{
    DispatchFunction, DispatchState, Environment, ImportFunction, ImportThunk, LibraryHeader, QueryFunction,
    WorkgroupState,
};

/// The calling convention of a library's functions. The types of [`abi`](super::abi) stand for functions of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallingConvention {
    /// That of C on the host.
    #[default]
    Host,
    /// That of the System V ABI.
    SystemV,
}

/// Reinterprets a function of the host's convention as one of the System V convention, where they differ.
#[cfg(all(windows, target_arch = "x86_64"))]
macro_rules! system_v {
    ($function:expr, fn($($parameter:ty),*) -> $result:ty) => {
        core::mem::transmute::<unsafe extern "C" fn($($parameter),*) -> $result, unsafe extern "sysv64" fn($($parameter),*) -> $result>(
            $function,
        )
    };
}
#[cfg(not(all(windows, target_arch = "x86_64")))]
macro_rules! system_v {
    ($function:expr, fn($($parameter:ty),*) -> $result:ty) => {
        $function
    };
}

impl CallingConvention {
    /// Calls a query function.
    ///
    /// # Safety
    /// It is one of this convention, and follows the ABI.
    pub(super) unsafe fn query(
        self,
        function: QueryFunction,
        version: u32,
        environment: &Environment,
    ) -> *const *const LibraryHeader {
        // SAFETY: as the caller's; function pointers have one representation.
        unsafe {
            match self {
                CallingConvention::Host => function(version, environment),
                CallingConvention::SystemV => system_v!(
                    function,
                    fn(u32, *const Environment) -> *const *const LibraryHeader
                )(version, environment),
            }
        }
    }

    /// Calls a kernel.
    ///
    /// # Safety
    /// It is one of this convention, and the states are what the ABI asks for.
    #[inline(always)]
    pub(super) unsafe fn dispatch(
        self,
        function: DispatchFunction,
        environment: *const Environment,
        dispatch: *const DispatchState,
        workgroup: *const WorkgroupState,
    ) -> c_int {
        // SAFETY: as the caller's; function pointers have one representation.
        unsafe {
            match self {
                CallingConvention::Host => function(environment, dispatch, workgroup),
                CallingConvention::SystemV => system_v!(
                    function,
                    fn(*const Environment, *const DispatchState, *const WorkgroupState) -> c_int
                )(environment, dispatch, workgroup),
            }
        }
    }

    /// Calls a function without parameters: an initialiser of an image.
    ///
    /// # Safety
    /// It is one of this convention.
    pub(crate) unsafe fn initialise(self, function: unsafe extern "C" fn()) {
        // SAFETY: as the caller's; without parameters and results, the conventions differ in the registers that a function keeps.
        unsafe {
            match self {
                CallingConvention::Host => function(),
                CallingConvention::SystemV => system_v!(function, fn() -> ())(),
            }
        }
    }

    /// Returns the thunk through which kernels call imports, which have the host's convention.
    pub(super) fn import_thunk(self) -> ImportThunk {
        match self {
            CallingConvention::Host => call_import,
            CallingConvention::SystemV => system_v::IMPORT_THUNK,
        }
    }
}

/// The [`ImportThunk`] of libraries of the host's convention: a direct call.
///
/// # Safety
/// That of [`ImportFunction`].
unsafe extern "C" fn call_import(
    function: ImportFunction,
    parameters: *mut c_void,
    context: *mut c_void,
    reserved: *mut c_void,
) -> c_int {
    // SAFETY: the kernel passes an entry of the environment's import table with its context, which `Import::new`
    // promises to be callable.
    unsafe { function(parameters, context, reserved) }
}

#[cfg(not(all(windows, target_arch = "x86_64")))]
mod system_v {
    pub(super) const IMPORT_THUNK: super::ImportThunk = super::call_import;
}

#[cfg(all(windows, target_arch = "x86_64"))]
mod system_v {
    use super::*;

    // SAFETY: function pointers have one representation. Kernels of the System V convention alone call it.
    pub(super) const IMPORT_THUNK: ImportThunk = unsafe {
        core::mem::transmute::<
            unsafe extern "sysv64" fn(ImportFunction, *mut c_void, *mut c_void, *mut c_void) -> c_int,
            ImportThunk,
        >(call_import)
    };

    /// The thunk for kernels of the System V convention.
    ///
    /// # Safety
    /// That of [`ImportFunction`].
    unsafe extern "sysv64" fn call_import(
        function: ImportFunction,
        parameters: *mut c_void,
        context: *mut c_void,
        reserved: *mut c_void,
    ) -> c_int {
        // SAFETY: as for the other thunk.
        unsafe { function(parameters, context, reserved) }
    }
}
