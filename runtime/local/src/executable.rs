//! Executable loaders: how the code of an executable is found.

use alloc::sync::Arc;
use core::fmt;

use super::library::ImportRegistry;
use crate::Result;
use crate::bytecode::Contents;
use crate::hal::kernel::LocalExecutable;
use crate::vm::Limits;

/// What `hal.executable.create` passes to a loader.
#[derive(Clone, Copy, Debug)]
pub struct ExecutableParameters<'a> {
    /// Format, such as `embedded-elf-x86_64`.
    pub format: &'a str,
    /// The executable's bytes; their address is stable while the load runs and the alignment at least 16.
    pub data: &'a [u8],
    /// The immutable file that `data` is a part of, where it is one: loaders may keep it instead of a copy.
    pub contents: Option<&'a Arc<Contents>>,
    /// Specialization constants.
    pub constants: &'a [u32],
    /// Who resolves the imports of machine code.
    pub imports: &'a ImportRegistry,
    /// What kernels that are bytecode, interpreted or translated, may use up.
    pub limits: &'a Limits,
    /// Interpreted kernels may compute float reductions in another order than that of the bytecode.
    pub reassociate: bool,
}

/// Loads executables of some formats. The same loaders serve all local devices and both execution modes.
pub trait ExecutableLoader: Send + Sync + fmt::Debug {
    /// Name for messages, such as `embedded-elf`.
    fn name(&self) -> &'static str;

    /// True where this loader can load `format` on this host: it answers `hal.device.query` for
    /// `hal.executable.format`, too.
    fn supports(&self, format: &str) -> bool;

    /// Returns true if this loader takes bytecode only, and verifies it: sessions of untrusted modules have no other loaders.
    fn is_verifying(&self) -> bool {
        false
    }

    /// Loads an executable if this loader is the one for these bytes; else another one is asked that supports the format.
    ///
    /// # Errors
    /// As [`ExecutableLoader::load`].
    fn take(&self, parameters: &ExecutableParameters<'_>) -> Option<Result<Arc<dyn LocalExecutable>>> {
        self.supports(parameters.format).then(|| self.load(parameters))
    }

    /// Loads an executable of a supported format.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for malformed data, INCOMPATIBLE for another architecture or library version, NOT_FOUND for an
    /// import that is missing.
    fn load(&self, parameters: &ExecutableParameters<'_>) -> Result<Arc<dyn LocalExecutable>>;
}
