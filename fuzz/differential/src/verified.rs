//! Verified modules of bytes.

use std::sync::Arc;

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::{Contents, VerifiedModule};

/// Creates the module of a file's bytes.
///
/// # Errors
/// Errors of the verifier.
pub fn verified(module: &[u8]) -> Result<Arc<VerifiedModule>> {
    VerifiedModule::load(Arc::new(Contents::copy_from(module)))
}
