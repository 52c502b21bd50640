//! Where a module's constants come from.

use alloc::sync::Arc;

use crate::Result;
use crate::bytecode::Contents;

/// The bytes that a module's constants lie in.
#[derive(Clone, Copy, Debug)]
pub enum Constants {
    /// Bytes of the program; see [`include_constants!`](crate::include_constants).
    Static(&'static [u8]),
    /// A file, which is mapped when the module's state is first made. Needs `std`.
    File(&'static str),
}

impl Constants {
    /// The bytes.
    ///
    /// # Errors
    /// What opening the file fails with; UNIMPLEMENTED for files without `std`.
    pub(super) fn open(self) -> Result<Arc<Contents>> {
        match self {
            Constants::Static(bytes) => Ok(Arc::new(Contents::Static(bytes))),
            #[cfg(feature = "std")]
            Constants::File(path) => crate::mapping::MappedFile::contents(std::path::Path::new(path)).map(Arc::new),
            #[cfg(not(feature = "std"))]
            Constants::File(_) => Err(crate::Error::unimplemented("constants in files need `std`")),
        }
    }
}

/// Gives bytes the alignment of segments.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<B: ?Sized>(pub B);

const _: () = assert!(align_of::<Aligned<[u8; 1]>>() == crate::bytecode::SEGMENT_ALIGNMENT);

/// The bytes of a file as part of the program, aligned to 64: what the constants of a translated module lie in. The path is
/// one for [`include_bytes!`].
#[macro_export]
macro_rules! include_constants {
    ($path:expr) => {{
        static BYTES: &$crate::support::Aligned<[u8]> = &$crate::support::Aligned(*include_bytes!($path));
        &BYTES.0
    }};
}
