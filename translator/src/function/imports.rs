//! Imports that are called directly, as methods of native modules.

use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::imports::{BorrowedResult, DirectImport, find};
use incarnate_bytecode::ir::{Call, Callee};

/// The imports of a module, by ordinal.
#[derive(Clone, Debug)]
pub(super) struct Imports {
    direct: Vec<Option<&'static DirectImport>>,
    any_call_yields: bool,
}

impl Imports {
    pub(super) fn new(module: &VerifiedModule) -> Imports {
        let direct = module.imports().map(|import| find(import.full_name, import.calling_convention_text)).collect();
        Imports { direct, any_call_yields: module.generation().any_call_yields }
    }

    /// The native function of an import that is called directly.
    pub(super) fn direct(&self, import: u32) -> Option<&'static DirectImport> {
        self.direct.get(import as usize).copied().flatten()
    }

    /// How a result of a call is borrowed from its owner, if it can be.
    pub(super) fn borrowed_result(&self, call: &Call) -> Option<BorrowedResult> {
        match call.callee {
            Callee::Import(import) => self.direct(import)?.borrowed,
            Callee::Internal(_) => None,
        }
    }

    /// Whether a call of an import may yield; `yieldable` says whether the instruction allows it.
    pub(super) fn may_yield(&self, import: u32, yieldable: bool) -> bool {
        (yieldable || self.any_call_yields) && self.direct(import).is_none_or(|direct| direct.resume.is_some())
    }
}
