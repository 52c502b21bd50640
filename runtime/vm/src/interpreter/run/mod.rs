//! The loop that runs pre-decoded code.
//!
//! Each operation is a function of [`operation`], which calls a method of the [`Cursor`]; the match that selects it is
//! generated. All of them are inlined into [`Machine::run`].
//!
//! This is one of the modules that may use `unsafe`: registers are reached through raw pointers, and instructions too. All
//! of it relies on what [`VerifiedModule`](incarnate_bytecode::VerifiedModule) promises: register operands lie in the
//! function's register files, branch targets are instructions, the last block ends.
#![allow(unsafe_code, reason = "registers of verified functions")]

mod arithmetic;
mod calls;
mod control;
mod cursor;
mod memory;
mod operation;
mod registers;

use super::super::call::CallBuffer;
use super::super::module::Completion;
use super::super::stack::Stack;
use super::super::state::State;
use super::BytecodeModule;
use super::code::Code;
use super::frames::Mark;
use super::operation::{Operation, for_each_synthetic};
use crate::Result;
use cursor::{Cursor, Flow};
use incarnate_bytecode::isa::for_each_instruction;

/// The function of a module that runs, its stack, and the arguments and results of its caller.
pub(super) struct Machine<'a> {
    pub(super) module: &'a BytecodeModule,
    pub(super) state: &'a State,
    pub(super) stack: &'a mut Stack,
    pub(super) buffer: &'a mut CallBuffer,
    /// The tops below this activation's frames: the activation ends when no caller above them waits.
    pub(super) bottom: Mark,
    /// The running function; while the loop runs, as of the last call of another module.
    pub(super) code: &'a Code,
    /// Index of the instruction that it runs, as of the same time.
    pub(super) pc: u32,
}

/// What a suspended activation leaves on the stack.
#[derive(Debug)]
pub(super) struct Suspended {
    /// The module of the frames.
    pub(super) module: usize,
    pub(super) bottom: Mark,
    /// The tops of this activation's frames.
    pub(super) top: Mark,
    /// Ordinal of the function to resume.
    pub(super) function: u32,
    /// Index of the instruction to resume at, or of the call that yielded.
    pub(super) pc: u32,
}

/// Runs the operation of an instruction.
macro_rules! execute {
    (
        { $($(#[$doc:meta])* $fused:ident;)* } { $($pair:ident = $first:ident, $second:ident;)* } $cursor:ident $inst:ident
        $(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*
    ) => {
        match $inst.operation {
            $(Operation::$name => operation::$name(&mut $cursor, $inst),)*
            $(Operation::$fused => operation::$fused(&mut $cursor, $inst),)*
            $(Operation::$pair => match operation::$first(&mut $cursor, $inst) {
                Flow::Continue(()) => {
                    let second = $cursor.fetch();
                    operation::$second(&mut $cursor, second)
                }
                end => end,
            },)*
        }
    };
}
macro_rules! with_synthetic {
    ($cursor:ident $inst:ident $($lists:tt)*) => { for_each_instruction!(execute, $($lists)* $cursor $inst) };
}

impl Machine<'_> {
    /// Runs until the activation returns, yields or fails. After a failure, `code` and `pc` are its location.
    pub(super) fn run(&mut self) -> Result<Completion> {
        let mut cursor = Cursor::new(self);
        loop {
            let inst = cursor.fetch();
            if let Flow::Break(result) = for_each_synthetic!(with_synthetic, cursor inst) {
                cursor.save();
                return result;
            }
        }
    }
}
