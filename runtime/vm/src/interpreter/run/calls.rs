//! Calls: within the module, from other modules, and to them.

use alloc::boxed::Box;
use core::ops::Range;

use super::super::super::call::CallBuffer;
use super::super::super::module::{BoundFunction, Completion};
use super::super::super::reference::Ref;
use super::super::code::{CallSite, Code, Operand, Transfer};
use super::super::frames::{Caller, Mark};
use super::super::operation::Inst;
use super::registers::{RegisterValue, Registers, reference};
use super::{Machine, Suspended};
use crate::{Error, Result};

/// A caller that continues: its code, the index of its next instruction, its registers.
pub(super) struct Return<'m> {
    pub(super) code: &'m Code,
    pub(super) next: u32,
    pub(super) registers: Registers,
}

impl<'m> Machine<'m> {
    /// Leaves the state for resumption on the stack; frames of functions that yielded may lie above `top` already.
    pub(super) fn suspend(&mut self, top: Mark) -> Result<Completion> {
        let (module, function, pc) = (self.module.id, self.code.function, self.pc);
        self.stack.suspend(Box::new(Suspended { module, bottom: self.bottom, top, function, pc }));
        Ok(Completion::Yielded)
    }

    /// Opens the frame of a function of this module, below its caller's, and moves the arguments into it.
    #[inline(always)]
    pub(super) fn call(&mut self, code: &Code, inst: &Inst) -> Result<(&'m Code, Registers)> {
        let site = &code.sites[inst.imm as usize];
        let callee = self.module.code(site.callee)?;
        self.stack.frames.call(Caller::new(code.function, inst.low()), callee.words, callee.refs)?;
        let to = self.stack.frames.registers(callee.words, callee.refs);
        let from = below(to, code);
        for operand in code.operands(&site.arguments.all()) {
            // SAFETY: operands were verified against both functions' register files.
            unsafe { operand.copy(from, to, operand.target) };
        }
        Ok((callee, to))
    }

    /// Moves results into the caller's registers and closes the frame. None where this activation has no caller.
    #[inline(always)]
    pub(super) fn return_to_caller(
        &mut self,
        code: &Code,
        from: Registers,
        list: &Range<u32>,
    ) -> Result<Option<Return<'m>>> {
        if self.stack.frames.depth() == self.bottom.depth() {
            return Ok(None);
        }
        let caller = self.stack.frames.pop().ok_or_else(no_caller)?;
        let caller_code = self.module.code(caller.function())?;
        let site = &caller_code.sites[caller.site() as usize];
        let to = below(from, caller_code);
        for (result, target) in code.operands(list).iter().zip(caller_code.operands(&site.results.all())) {
            // SAFETY: results were verified against the callee's convention on both sides.
            unsafe { result.copy(from, to, target.target) };
        }
        self.stack.frames.close(code.words, code.refs);
        // Closing may have borrowed the references anew.
        let registers = self.stack.frames.registers(caller_code.words, caller_code.refs);
        Ok(Some(Return { code: caller_code, next: site.resume, registers }))
    }

    /// Leaves results in the call buffer and closes the activation's frame.
    #[inline]
    pub(super) fn leave(&mut self, code: &Code, from: Registers, list: &Range<u32>) {
        self.buffer.finish_arguments();
        for result in code.operands(list) {
            // SAFETY: results were verified against the function's register files.
            unsafe {
                if result.transfer.is_reference() {
                    self.buffer.push_ref(result.passed_reference(from.1));
                } else {
                    self.buffer.push_word(result.word(from));
                }
            }
        }
        self.stack.frames.close(code.words, code.refs);
    }

    /// Calls a function of another module.
    #[inline]
    pub(super) fn call_import(&mut self, code: &Code, site: &CallSite) -> Result<Completion> {
        let Some(import) = self.state.import(site.callee) else {
            return Err(self.module.unresolved(site.callee));
        };
        let mut buffer = self.stack.take_buffer();
        let from = self.stack.frames.registers(code.words, code.refs);
        // SAFETY: arguments were verified against the function's register files.
        buffer.extend_words(code.operands(&site.arguments.words).iter().map(|operand| unsafe { operand.word(from) }));
        let references = code.operands(&site.arguments.refs);
        if !references.is_empty() {
            // SAFETY: as above.
            let passed = |operand: &Operand| unsafe { operand.passed_reference(from.1) };
            buffer.pass_references(references.iter().map(passed), site.borrowed);
        }
        let top = self.stack.frames.mark();
        self.stack.enter()?;
        let completion = import.module.begin_call(&import.state, import.export, self.stack, &mut buffer);
        self.after_import(code, site, buffer, completion, top)
    }

    /// Resumes the import whose yield suspended this activation.
    pub(in super::super) fn resume_import(&mut self, code: &Code, site: &CallSite, top: Mark) -> Result<Completion> {
        let import: &BoundFunction =
            self.state.import(site.callee).ok_or_else(|| self.module.unresolved(site.callee))?;
        let mut buffer = self.stack.take_buffer();
        self.stack.enter()?;
        let completion = import.module.resume_call(&import.state, import.export, self.stack, &mut buffer);
        let completion = self.after_import(code, site, buffer, completion, top)?;
        if completion == Completion::Yielded {
            return self.suspend(top);
        }
        Ok(completion)
    }

    #[inline(always)]
    fn after_import(
        &mut self,
        code: &Code,
        site: &CallSite,
        mut buffer: Box<CallBuffer>,
        completion: Result<Completion>,
        top: Mark,
    ) -> Result<Completion> {
        self.stack.leave();
        if site.borrowed != 0 && completion.is_ok() {
            // Functions that yielded may have frames above this one's.
            let to = self.stack.frames.registers_below(top, code.words, code.refs);
            for argument in code.operands(&site.arguments.refs) {
                if argument.transfer == Transfer::RefBorrow
                    && let Some(borrowed) = buffer.take_back()
                {
                    // SAFETY: arguments were verified against the function's register files.
                    unsafe { *reference(to.1, argument.source) = borrowed };
                }
            }
        }
        match completion {
            Ok(Completion::Done) => {}
            Ok(Completion::Yielded) => {
                self.stack.give_buffer(buffer);
                return Ok(Completion::Yielded);
            }
            Err(error) => return Err(error),
        }
        // The callee may have left frames, above which the registers would be at wrong addresses.
        self.stack.frames.release(top);
        let to = self.stack.frames.registers(code.words, code.refs);
        let mut reader = buffer.reader();
        for result in code.operands(&site.results.words) {
            let word = reader.word()?;
            // SAFETY: result registers were verified against the function's register files.
            unsafe {
                match result.transfer {
                    Transfer::Word64 => u64::set(to.0, result.target, word),
                    _ => i32::set(to.0, result.target, word as i32),
                }
            }
        }
        for result in code.operands(&site.results.refs) {
            // SAFETY: as above.
            unsafe { *reference(to.1, result.target) = reader.reference()? };
        }
        self.stack.give_buffer(buffer);
        Ok(Completion::Done)
    }

    /// Moves the arguments of a call from another module into the first registers.
    #[inline]
    pub(in super::super) fn enter(&mut self, code: &Code) -> Result<()> {
        let to = self.stack.frames.registers(code.words, code.refs);
        let mut reader = self.buffer.reader();
        for argument in &code.entry {
            // SAFETY: lowering sized the register files for the arguments.
            unsafe {
                match argument.transfer {
                    Transfer::Word32 => i32::set(to.0, argument.target, reader.word()? as i32),
                    Transfer::Word64 => u64::set(to.0, argument.target, reader.word()?),
                    _ => *reference(to.1, argument.target) = reader.reference()?,
                }
            }
        }
        Ok(())
    }
}

/// The registers of the frame below, whose function's code is given.
#[inline(always)]
fn below(registers: Registers, code: &Code) -> Registers {
    (registers.0.wrapping_sub(code.words * 2), registers.1.wrapping_sub(code.refs))
}

impl Operand {
    /// Copies or moves the value of the operand's source to a register of another frame.
    ///
    /// # Safety
    /// The registers lie in the frames' register files, which are disjoint.
    #[inline(always)]
    unsafe fn copy(&self, from: Registers, to: Registers, target: u16) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.transfer {
                Transfer::Word32 => i32::set(to.0, target, i32::get(from.0, self.source)),
                Transfer::Word64 => u64::set(to.0, target, u64::get(from.0, self.source)),
                _ => self.copy_reference(from.1, to.1, target),
            }
        }
    }

    /// The rest of `copy`, outlined so that words need no jump table.
    ///
    /// # Safety
    /// As above.
    #[inline(never)]
    unsafe fn copy_reference(&self, from: *mut Ref, to: *mut Ref, target: u16) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.transfer {
                Transfer::RefMove => *reference(to, target) = core::mem::take(reference(from, self.source)),
                Transfer::RefCopy | Transfer::RefBorrow => {
                    *reference(to, target) = reference(from, self.source).clone();
                }
                Transfer::Word32 | Transfer::Word64 | Transfer::Count => {}
            }
        }
    }

    /// Returns the word that the operand passes: a register's value, or the element count of a span.
    ///
    /// # Safety
    /// The register lies in the frame's register files.
    #[inline(always)]
    unsafe fn word(&self, from: Registers) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self.transfer {
                Transfer::Word32 => u64::from(i32::get(from.0, self.source) as u32),
                Transfer::Word64 => u64::get(from.0, self.source),
                _ => self.source.into(),
            }
        }
    }

    /// Returns the reference that the operand passes: moved out of its register, unless it is copied. A borrowed one is put back after the
    /// call.
    ///
    /// # Safety
    /// The register lies in the frame's register files.
    #[inline(always)]
    unsafe fn passed_reference(&self, from: *mut Ref) -> Ref {
        // SAFETY: the caller's promise.
        let reference = unsafe { reference(from, self.source) };
        if self.transfer == Transfer::RefCopy { reference.clone() } else { core::mem::take(reference) }
    }
}

#[cold]
fn no_caller() -> Error {
    Error::internal("a function returns to no caller")
}
