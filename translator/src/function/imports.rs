//! Which imports are called directly.

use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::ir::{Call, Callee};
use incarnate_runtime::modules::imports::{DirectImport, Lender, find};

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

    /// The native function that an import is, if it is called directly.
    pub(super) fn direct(&self, import: u32) -> Option<&'static DirectImport> {
        self.direct.get(import as usize).copied().flatten()
    }

    /// How a result of a call is had that something else keeps, if it is.
    pub(super) fn lender(&self, call: &Call) -> Option<Lender> {
        match call.callee {
            Callee::Import(import) => self.direct(import)?.lent,
            Callee::Internal(_) => None,
        }
    }

    /// Whether a call of an import may yield, which is a yieldable one or not.
    pub(super) fn may_yield(&self, import: u32, yieldable: bool) -> bool {
        (yieldable || self.any_call_yields) && self.direct(import).is_none_or(|direct| direct.resume.is_some())
    }
}
