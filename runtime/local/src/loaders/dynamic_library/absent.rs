//! Shared libraries without the feature `system-library`, and on platforms that have none: none can be loaded.

use core::convert::Infallible;
use core::ffi::c_void;
use core::ptr::NonNull;
use std::path::Path;

use crate::{Error, Result};

/// A loaded library, of which there is none.
#[derive(Debug)]
pub(crate) struct DynamicLibrary(Infallible);

impl DynamicLibrary {
    /// # Errors
    /// UNIMPLEMENTED.
    ///
    /// # Safety
    /// None is needed; the function has the signature of the one that loads.
    pub(crate) unsafe fn open(_: &Path) -> Result<DynamicLibrary> {
        Err(absent())
    }

    /// # Errors
    /// UNIMPLEMENTED.
    ///
    /// # Safety
    /// As [`DynamicLibrary::open`].
    pub(crate) unsafe fn from_memory(_: &[u8], _: &str, _: Option<&Path>) -> Result<DynamicLibrary> {
        Err(absent())
    }

    pub(crate) fn symbol(&self, _: &str) -> Result<NonNull<c_void>> {
        match self.0 {}
    }
}

fn absent() -> Error {
    Error::unimplemented(if cfg!(feature = "system-library") {
        "the platform has no shared libraries: use a module with kernels of format vmvx-bytecode-fb"
    } else {
        "the program is built without the feature `system-library`, which loads libraries of the platform"
    })
}
