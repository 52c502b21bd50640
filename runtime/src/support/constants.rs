//! The origin of a module's constants.

use alloc::sync::Arc;

use crate::Result;
use crate::bytecode::Contents;

/// The bytes that hold a module's constants.
#[derive(Clone, Copy, Debug)]
pub enum Constants {
    /// Bytes of the program; see [`include_constants!`](crate::include_constants).
    Static(&'static [u8]),
    /// A file, which is mapped when the module's state is created for the first time. Made by [`Constants::file`].
    #[doc(hidden)]
    File(&'static str, OpenFile),
}

/// Opens a file of constants. The pointer is the only reference to that code, so that the linker drops it from programs that contain their
/// constants.
type OpenFile = fn(&str) -> Result<Arc<Contents>>;

#[cfg(feature = "std")]
fn open_file(path: &str) -> Result<Arc<Contents>> {
    crate::mapping::MappedFile::contents(std::path::Path::new(path)).map(Arc::new)
}

#[cfg(not(feature = "std"))]
fn open_file(_: &str) -> Result<Arc<Contents>> {
    Err(crate::Error::unimplemented("constants in files need `std`"))
}

impl Constants {
    /// The constants in a file. Needs `std`.
    #[must_use]
    pub const fn file(path: &'static str) -> Constants {
        Constants::File(path, open_file)
    }

    /// The bytes.
    ///
    /// # Errors
    /// Errors of opening the file; UNIMPLEMENTED for files without `std`.
    pub(super) fn open(self) -> Result<Arc<Contents>> {
        match self {
            Constants::Static(bytes) => Ok(Arc::new(Contents::Static(bytes))),
            Constants::File(path, open) => open(path),
        }
    }
}

/// Aligns bytes like a segment of a module file.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<B: ?Sized>(pub B);

const _: () = assert!(align_of::<Aligned<[u8; 1]>>() == crate::bytecode::SEGMENT_ALIGNMENT);

/// Includes the bytes of a file in the program, aligned to 64: the constants of a translated module. The path is resolved as in
/// [`include_bytes!`].
#[macro_export]
macro_rules! include_constants {
    ($path:expr) => {{
        static BYTES: &$crate::support::Aligned<[u8]> = &$crate::support::Aligned(*include_bytes!($path));
        &BYTES.0
    }};
}
