//! The position in the running function, and the operations' access to its registers.

use core::ops::ControlFlow;

use super::super::super::module::Completion;
use super::super::super::reference::Ref;
use super::super::super::stack::BYTES_PER_FUEL;
use super::super::code::Code;
use super::super::nests::{self, Frame};
use super::super::operation::Inst;
use super::Machine;
use super::registers::{self, RegisterValue, Registers};
use crate::Result;
use incarnate_bytecode::isa::{REF_REGISTER_MASK, REF_REGISTER_MOVE_BIT};

/// What follows an operation: the next instruction, or the end of the loop with its result.
pub(super) type Flow = ControlFlow<Result<Completion>>;

/// The results of the operations' methods.
pub(super) trait IntoFlow {
    fn into_flow(self) -> Flow;
}

impl IntoFlow for () {
    #[inline(always)]
    fn into_flow(self) -> Flow {
        Flow::Continue(())
    }
}

impl IntoFlow for Result<()> {
    #[inline(always)]
    fn into_flow(self) -> Flow {
        match self {
            Ok(()) => Flow::Continue(()),
            Err(error) => Flow::Break(Err(error)),
        }
    }
}

impl IntoFlow for Flow {
    #[inline(always)]
    fn into_flow(self) -> Flow {
        self
    }
}

/// The running function, its registers, its next instruction and the remaining fuel.
///
/// [`Machine::run`] has one as a local variable, and every method is inlined into it, so that the fields stay in machine
/// registers. A method that passes a reference to the cursor to a function that is not inlined would move all of them to
/// memory.
///
/// Methods that take a register expect an operand of an instruction of `code`, and those that take a displacement or an
/// index the target of one of its branches.
pub(super) struct Cursor<'r, 'm> {
    pub(super) machine: &'r mut Machine<'m>,
    pub(super) code: &'m Code,
    words: *mut u32,
    refs: *mut Ref,
    next: *const Inst,
    fuel: u64,
}

impl<'r, 'm> Cursor<'r, 'm> {
    /// Returns a cursor at the machine's position.
    #[inline(always)]
    pub(super) fn new(machine: &'r mut Machine<'m>) -> Cursor<'r, 'm> {
        let (code, pc, fuel) = (machine.code, machine.pc, machine.stack.fuel.left);
        let registers = machine.stack.frames.registers(code.words, code.refs);
        let mut cursor = Cursor { machine, code, words: registers.0, refs: registers.1, next: core::ptr::null(), fuel };
        cursor.go_to(pc);
        cursor
    }

    /// Writes the position, as that of the instruction before the next one, and the fuel back to the machine.
    #[inline(always)]
    pub(super) fn save(&mut self) {
        self.machine.code = self.code;
        // SAFETY: `next` is behind an instruction of the code.
        self.machine.pc = (unsafe { self.next.offset_from(self.code.instructions.as_ptr()) } - 1) as u32;
        self.machine.stack.fuel.left = self.fuel;
    }

    /// Takes registers and fuel from the machine, after a call that may have changed them.
    #[inline(always)]
    pub(super) fn reload(&mut self) {
        self.fuel = self.machine.stack.fuel.left;
        (self.words, self.refs) = self.machine.stack.frames.registers(self.code.words, self.code.refs);
    }

    /// Continues in a function's code, with its registers, at an instruction.
    #[inline(always)]
    pub(super) fn enter(&mut self, code: &'m Code, (words, refs): Registers, index: u32) {
        (self.code, self.words, self.refs) = (code, words, refs);
        self.go_to(index);
    }

    /// Returns the next instruction and steps behind it.
    #[inline(always)]
    pub(super) fn fetch(&mut self) -> &'m Inst {
        // SAFETY: `next` is an instruction of the code: each block ends with a terminator, and the last instruction of the
        // code does not continue. So behind it is at most the end of the code.
        unsafe {
            let inst = &*self.next;
            self.next = self.next.add(1);
            inst
        }
    }

    /// Continues at an instruction of the code.
    #[inline(always)]
    pub(super) fn go_to(&mut self, index: u32) {
        // SAFETY: branch targets were verified and resolved to indices of this code's instructions.
        self.next = unsafe { self.code.instructions.as_ptr().add(index as usize) };
    }

    /// Continues at a displacement from an instruction.
    #[inline(always)]
    pub(super) fn skip(&mut self, inst: &'m Inst, displacement: u32) {
        // SAFETY: branch targets were verified and resolved to displacements within this code's instructions.
        self.next = unsafe { (&raw const *inst).offset(displacement as i32 as isize) };
    }

    /// Counts a branch or a call.
    #[inline(always)]
    pub(super) fn burn(&mut self) -> Result<()> {
        self.fuel -= 1;
        if self.fuel == 0 {
            let replenished = self.machine.stack.fuel.replenish();
            self.fuel = self.machine.stack.fuel.left;
            return replenished;
        }
        Ok(())
    }

    /// Charges the bytes that an instruction is about to process. Many such instructions may follow each other without a branch, so
    /// one for which the fuel does not last must not begin.
    #[inline(always)]
    pub(super) fn burn_bytes(&mut self, bytes: u64) -> Result<()> {
        let units = bytes / BYTES_PER_FUEL;
        if units < self.fuel {
            self.fuel -= units;
            return Ok(());
        }
        self.machine.stack.fuel.left = self.fuel;
        let charged = self.machine.stack.fuel.charge(units);
        self.fuel = self.machine.stack.fuel.left;
        charged
    }

    /// Branches by the low half of the immediate where the condition holds, else by the high half.
    #[inline(always)]
    pub(super) fn branch(&mut self, inst: &'m Inst, condition: bool) -> Result<()> {
        self.burn()?;
        if condition {
            predicted();
            self.skip(inst, inst.low());
        } else {
            self.skip(inst, inst.high());
        }
        Ok(())
    }

    /// The register files.
    #[inline(always)]
    pub(super) fn registers(&self) -> Registers {
        (self.words, self.refs)
    }

    #[inline(always)]
    pub(super) fn get<V: RegisterValue>(&self, register: u16) -> V {
        // SAFETY: verified register operand.
        unsafe { V::get(self.words, register) }
    }

    #[inline(always)]
    pub(super) fn set<V: RegisterValue>(&mut self, register: u16, value: V) {
        // SAFETY: verified register operand.
        unsafe { V::set(self.words, register, value) }
    }

    #[inline(always)]
    pub(super) fn reference(&self, register: u16) -> &Ref {
        // SAFETY: verified register operand; mutable borrows of references need one of the cursor.
        unsafe { registers::reference(self.refs, register) }
    }

    #[inline(always)]
    pub(super) fn reference_mut(&mut self, register: u16) -> &mut Ref {
        // SAFETY: verified register operand; the cursor is borrowed as long as the reference.
        unsafe { registers::reference(self.refs, register) }
    }

    #[inline(always)]
    pub(super) fn set_reference(&mut self, register: u16, value: Ref) {
        *self.reference_mut(register) = value;
    }

    /// Takes the reference of an encoded register where its move bit is set, else shares it.
    #[inline(always)]
    pub(super) fn transfer(&mut self, encoded: u16) -> Ref {
        // SAFETY: verified register operand.
        unsafe { registers::transfer(self.refs, encoded) }
    }

    /// Drops the reference of an encoded register where its move bit is set, unless the register is `kept`.
    #[inline(always)]
    pub(super) fn discard_unless(&mut self, encoded: u16, kept: u16) {
        if encoded & REF_REGISTER_MOVE_BIT != 0 && encoded & REF_REGISTER_MASK != kept {
            self.set_reference(encoded, Ref::Null);
        }
    }

    /// Runs a nest of the code where its checks hold.
    #[inline(always)]
    pub(super) fn run_nest(&mut self, index: u32) {
        let nest = &self.code.nests[index as usize];
        // SAFETY: the register files of the frame, which are not borrowed otherwise during the call.
        let (words, refs) = unsafe {
            (
                core::slice::from_raw_parts_mut(self.words, self.code.words * 2),
                core::slice::from_raw_parts(self.refs, self.code.refs),
            )
        };
        let stack = &mut *self.machine.stack;
        stack.fuel.left = self.fuel;
        let mut frame = Frame { module: self.machine.module, words, refs };
        let mut scratch = stack.scratch.take().unwrap_or_default();
        let unused =
            nests::run(nest, &mut frame, &mut scratch, |steps, instructions| stack.take_steps(steps, instructions));
        stack.give_back_steps(unused);
        stack.scratch = Some(scratch);
        self.fuel = stack.fuel.left;
    }
}

/// Keeps a conditional branch one: as a conditional move, the next instruction's address would wait for the condition, and
/// the processor could not run ahead.
#[inline(always)]
fn predicted() {
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    // SAFETY: no instructions.
    unsafe {
        core::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
