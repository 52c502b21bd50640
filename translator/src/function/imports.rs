//! Imports that are called directly, as methods of native modules.

use incarnate_bytecode::imports::older::{Edit, Source};
use incarnate_bytecode::imports::{BorrowedResult, DirectImport, find};
use incarnate_bytecode::ir::{Block, Call, Callee, Function, Inst, Op, Terminator, Type, Value};
use incarnate_bytecode::isa::{Opcode, SEGMENT_NOT_VARIADIC};
use incarnate_bytecode::{CallingConvention, Result, VerifiedModule};

/// The imports of a module, by ordinal.
#[derive(Clone, Debug)]
pub(super) struct Imports {
    /// The native functions, and the edits that convert the arguments of older forms to theirs.
    direct: Vec<Option<(&'static DirectImport, &'static [Edit])>>,
    any_call_yields: bool,
}

impl Imports {
    pub(super) fn new(module: &VerifiedModule) -> Imports {
        let direct = module.imports().map(|import| find(import.full_name, import.calling_convention_text)).collect();
        Imports { direct, any_call_yields: module.generation().any_call_yields }
    }

    /// The native function of an import that is called directly.
    pub(super) fn direct(&self, import: u32) -> Option<&'static DirectImport> {
        self.direct.get(import as usize).copied().flatten().map(|found| found.0)
    }

    /// The native function that a call calls directly.
    pub(super) fn callee(&self, call: &Call) -> Option<&'static DirectImport> {
        match call.callee {
            Callee::Import(import) => self.direct(import),
            Callee::Internal(_) => None,
        }
    }

    /// The calling convention of an import's calls in the IR: that of the native function, if there is one.
    pub(super) fn convention<'m>(&self, module: &'m VerifiedModule, import: u32) -> Result<CallingConvention<'m>> {
        match self.direct(import) {
            Some(direct) => CallingConvention::parse(direct.convention),
            None => Ok(module.import(import).map(|import| import.calling_convention).unwrap_or_default()),
        }
    }

    /// How a result of a call is borrowed from its owner, if it can be.
    pub(super) fn borrowed_result(&self, call: &Call) -> Option<BorrowedResult> {
        self.callee(call)?.borrowed
    }

    /// Whether a call of an import may yield; `yieldable` says whether the instruction allows it.
    pub(super) fn may_yield(&self, import: u32, yieldable: bool) -> bool {
        (yieldable || self.any_call_yields) && self.direct(import).is_none_or(|direct| direct.resume.is_some())
    }

    /// Replaces the calls of older forms by calls of the newest functions.
    pub(super) fn update_calls(&self, body: &mut Function) {
        if self.direct.iter().flatten().all(|found| found.1.is_empty()) {
            return;
        }
        let mut blocks = core::mem::take(&mut body.blocks);
        for (data, index) in blocks.iter_mut().zip(0..) {
            let block = Block(index);
            let mut updated = Vec::with_capacity(data.instructions.len());
            for mut inst in core::mem::take(&mut data.instructions) {
                if let Op::Call(call) = &mut inst.op {
                    self.update(call, inst.offset, block, body, &mut updated);
                }
                updated.push(inst);
            }
            if let Terminator::CallYieldable { call, .. } = &mut data.terminator {
                self.update(call, data.offset, block, body, &mut updated);
            }
            data.instructions = updated;
        }
        body.blocks = blocks;
    }

    /// Edits the arguments of a call; instructions that extend them are added to `before`.
    fn update(&self, call: &mut Call, offset: u32, block: Block, body: &mut Function, before: &mut Vec<Inst>) {
        let Callee::Import(import) = call.callee else { return };
        let Some((_, edits)) = self.direct.get(import as usize).copied().flatten() else { return };
        // No span precedes an edited argument, so that its position is also that of its operand and of its segment.
        for edit in edits {
            match edit.source {
                Source::Constant(bits) => {
                    call.operands.insert(edit.position, body.constant(Type::i64, bits).into());
                    if let Some(segments) = &mut call.segments {
                        let mut all = core::mem::take(segments).into_vec();
                        all.insert(edit.position, SEGMENT_NOT_VARIADIC);
                        *segments = all.into();
                    }
                }
                Source::Extended => {
                    let operand = &mut call.operands[edit.position];
                    let extended: Value = body.result(Type::i64, block);
                    let op = Op::Eval { opcode: Opcode::ExtI32I64U, operands: [operand.value].into_iter().collect() };
                    before.push(Inst { op, results: [extended].into_iter().collect(), offset });
                    *operand = extended.into();
                }
            }
        }
    }
}
