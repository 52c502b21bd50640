//! Operations that change the flow of control: branches, calls, returns, failures, suspension, traces.

use super::super::super::module::{Completion, Module};
use super::super::super::reference::Ref;
use super::super::super::{failure, trace};
use super::super::code::{CallSite, Code};
use super::super::operation::{Inst, Operation};
use super::Machine;
use super::cursor::{Cursor, Flow};
use super::registers::{RegisterValue, Registers, reference};
use crate::{Error, Result};
use incarnate_bytecode::AnyRegister;
use incarnate_bytecode::isa::{REF_REGISTER_MOVE_BIT, REF_REGISTER_TYPE_BIT};

impl<'m> Cursor<'_, 'm> {
    #[inline(always)]
    pub(super) fn jump(&mut self, inst: &'m Inst) -> Result<()> {
        self.burn()?;
        self.skip(inst, inst.low());
        Ok(())
    }

    #[inline(always)]
    pub(super) fn move_and_jump<V: RegisterValue>(&mut self, inst: &'m Inst) -> Result<()> {
        self.burn()?;
        self.move_word::<V>(inst);
        self.skip(inst, inst.low());
        Ok(())
    }

    #[inline(always)]
    pub(super) fn branch_by_table(&mut self, inst: &'m Inst) -> Result<()> {
        self.burn()?;
        let entries = &self.code.tables[inst.imm as usize].entries;
        let default = entries.len() - 1;
        let index = self.get::<i32>(inst.a) as u32 as usize;
        self.go_to(entries[index.min(default)]);
        Ok(())
    }

    /// Returns the encoded register that a `switch` selects.
    #[inline(always)]
    pub(super) fn selected(&self, inst: &'m Inst) -> u16 {
        let index = self.get::<i32>(inst.a) as u32 as usize;
        self.code.tables[inst.imm as usize].entries.get(index).map_or(inst.b, |entry| *entry as u16)
    }

    #[inline(always)]
    pub(super) fn switch<V: RegisterValue>(&mut self, inst: &'m Inst) {
        let value: V = self.get(self.selected(inst));
        self.set(inst.c, value);
    }

    /// Runs a nest where its checks hold, and continues at its header.
    #[inline(always)]
    pub(super) fn nest(&mut self, inst: &'m Inst) {
        self.run_nest(inst.high());
        self.skip(inst, inst.low());
    }

    #[inline(always)]
    pub(super) fn call(&mut self, inst: &'m Inst) -> Result<()> {
        self.burn()?;
        let (callee, registers) = self.machine.call(self.code, inst)?;
        self.enter(callee, registers, 0);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn call_import(&mut self, inst: &'m Inst) -> Result<()> {
        match self.import(&self.code.sites[inst.imm as usize])? {
            Completion::Done => Ok(()),
            Completion::Yielded => Err(failure::unexpected_yield()),
        }
    }

    #[inline(always)]
    pub(super) fn call_yieldable_import(&mut self, inst: &'m Inst) -> Flow {
        let site = &self.code.sites[inst.imm as usize];
        let top = self.machine.stack.frames.mark();
        match self.import(site) {
            Ok(Completion::Done) => {
                self.go_to(site.resume);
                Flow::Continue(())
            }
            Ok(Completion::Yielded) => Flow::Break(self.machine.suspend(top)),
            Err(error) => Flow::Break(Err(error)),
        }
    }

    #[inline(always)]
    fn import(&mut self, site: &CallSite) -> Result<Completion> {
        self.burn()?;
        self.save();
        let completion = self.machine.call_import(self.code, site);
        self.reload();
        completion
    }

    #[inline(always)]
    pub(super) fn return_(&mut self, inst: &'m Inst) -> Flow {
        let results = inst.low()..inst.high();
        match self.machine.return_to_caller(self.code, self.registers(), &results) {
            Ok(Some(caller)) => {
                self.enter(caller.code, caller.registers, caller.next);
                Flow::Continue(())
            }
            Ok(None) => {
                self.machine.leave(self.code, self.registers(), &results);
                Flow::Break(Ok(Completion::Done))
            }
            Err(error) => Flow::Break(Err(error)),
        }
    }

    #[inline(always)]
    pub(super) fn fail(&mut self, inst: &'m Inst) -> Result<()> {
        failure::fail(self.get(inst.a), &self.code.strings[inst.imm as usize])
    }

    /// Fails, as the function has no block to continue with.
    #[inline(always)]
    pub(super) fn fell_through(&self, _: &'m Inst) -> Result<()> {
        Err(failure::fell_through())
    }

    /// Fails, as lowering replaces the instruction by others.
    #[inline(always)]
    pub(super) fn not_lowered(&self, inst: &'m Inst) -> Result<()> {
        Err(not_lowered(inst))
    }

    #[inline(always)]
    pub(super) fn yield_(&mut self, inst: &'m Inst) -> Flow {
        self.save();
        self.machine.pc = self.machine.pc.wrapping_add(inst.low());
        let top = self.machine.stack.frames.mark();
        Flow::Break(self.machine.suspend(top))
    }

    #[inline(always)]
    pub(super) fn import_resolved(&mut self, inst: &'m Inst) {
        let resolved = self.machine.state.import(inst.low()).is_some();
        self.set(inst.c, i32::from(resolved));
    }

    #[inline(always)]
    pub(super) fn trace(&mut self, inst: &'m Inst) {
        // SAFETY: the cursor's registers are those of its code's function.
        unsafe { self.machine.trace(self.code, self.registers(), inst) }
    }

    #[inline(always)]
    pub(super) fn break_and_jump(&mut self, inst: &'m Inst) -> Result<()> {
        self.burn()?;
        trace::breakpoint(self.machine.module.name(), self.code.function);
        self.skip(inst, inst.low());
        Ok(())
    }

    #[inline(always)]
    pub(super) fn break_if(&mut self, inst: &'m Inst) {
        if self.get::<i32>(inst.a) != 0 {
            trace::breakpoint(self.machine.module.name(), self.code.function);
        }
    }
}

#[cold]
fn not_lowered(inst: &Inst) -> Error {
    Error::internal(alloc::format!("operation {:?} is not one of the interpreter's", inst.operation))
}

impl Machine<'_> {
    /// Emits the event of a `trace` or `print`, then drops the references that it moves.
    ///
    /// # Safety
    /// The registers are those of a frame of the code's function, and the instruction is the code's.
    #[cold]
    #[inline(never)]
    unsafe fn trace(&self, code: &Code, (words, refs): Registers, inst: &Inst) {
        let registers = &code.tables[inst.high() as usize].entries;
        let name = &*code.strings[inst.low() as usize];
        let operands = registers.iter().map(|&encoded| {
            let register = AnyRegister(encoded as u16);
            // SAFETY: verified register operands of the caller's frame; no other borrow of them is alive.
            unsafe {
                if register.is_ref() {
                    trace::Traced::Ref(reference(refs, register.index()))
                } else {
                    trace::Traced::Word(i32::get(words, register.index()))
                }
            }
        });
        trace::event(self.module.name(), inst.operation == Operation::Print, name, operands);
        const MOVED_REFERENCE: u16 = REF_REGISTER_MOVE_BIT | REF_REGISTER_TYPE_BIT;
        for &encoded in registers.iter().filter(|&&encoded| encoded as u16 & MOVED_REFERENCE == MOVED_REFERENCE) {
            // SAFETY: as above.
            *unsafe { reference(refs, encoded as u16) } = Ref::Null;
        }
    }
}
