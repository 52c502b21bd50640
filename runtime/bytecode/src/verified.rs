//! Modules whose functions are verified.

use alloc::sync::Arc;
use core::ops::Deref;

use super::archive::Archive;
use super::contents::Contents;
use super::module::Module;
use super::verifier;
use crate::Result;

/// A module that can be run and translated: everything that execution relies on has been verified.
///
/// Code that runs the instructions of a `VerifiedModule` may rely on this:
/// - every instruction decodes; functions end where their last instruction does; each begins with a block marker, and every
///   block ends with its only terminator;
/// - register operands lie in the function's register files, those of 64-bit banks are even and so is their other half;
///   references have the type bit, values have not; move bits are only where they mean something;
/// - branch targets are block markers of the same function; copies of a branch stay within one register file;
/// - ordinals of functions, imports, constants, reference globals and types exist; primitive globals lie within the globals'
///   bytes and are aligned to their size;
/// - calls have exactly the operands and the results of the callee's calling convention, one register for each value, and the
///   callee's register files hold its arguments; so do returns; variadic calls name imports, and their segment sizes fit the
///   convention and the number of operands;
/// - instructions of an extension only occur in functions that require it.
#[derive(Debug)]
pub struct VerifiedModule {
    module: Module,
}

impl Module {
    /// Verifies every function; see [`VerifiedModule`].
    pub fn verify(self) -> Result<Arc<VerifiedModule>> {
        verifier::verify(&self)?;
        Ok(Arc::new(VerifiedModule { module: self }))
    }
}

impl VerifiedModule {
    /// Reads and verifies a module file.
    pub fn load(contents: Arc<Contents>) -> Result<Arc<VerifiedModule>> {
        Module::parse(Archive::new(contents)?)?.verify()
    }
}

impl Deref for VerifiedModule {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.module
    }
}
