//! What is known of the registers at a place in a function.

use alloc::vec;
use alloc::vec::Vec;

use super::types::Types;
use crate::isa::{Bank, for_each_format};
use crate::{AnyRegister, Body, Instruction, RefRegister, Register};

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// Nothing, or it depends on the path.
    Varies,
    /// 32 bits: a number, or one half of one.
    Word(u32),
    /// The null reference.
    Null,
    /// An argument of the function, by its index among the reference arguments.
    Argument(u32),
    /// A reference of a type.
    Type(u32),
}

impl Fact {
    /// Returns what holds on both of two paths.
    pub(super) fn join(self, other: Fact, types: &mut Types) -> Fact {
        match (self, other) {
            (fact, other) if fact == other => fact,
            (Fact::Type(left), Fact::Type(right)) => types.either(left, right).map_or(Fact::Varies, Fact::Type),
            _ => Fact::Varies,
        }
    }
}

/// The registers of a function at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    /// The 32-bit registers, then the reference registers.
    facts: Vec<Fact>,
    words: usize,
}

impl Registers {
    /// Returns the registers where a function begins.
    pub(super) fn at_entry(words: u16, refs: u16, ref_arguments: usize) -> Registers {
        let words = usize::from(words);
        let mut facts = vec![Fact::Varies; words + usize::from(refs)];
        let arguments = facts.iter_mut().skip(words).take(ref_arguments);
        arguments.zip(0..).for_each(|(fact, index)| *fact = Fact::Argument(index));
        Registers { facts, words }
    }

    /// Returns the number of registers.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    pub(super) fn word(&self, register: u16) -> Option<u32> {
        match self.facts.get(..self.words)?.get(usize::from(register))? {
            Fact::Word(word) => Some(*word),
            _ => None,
        }
    }

    /// Returns the 64-bit number in a pair of registers.
    pub(super) fn wide(&self, register: u16) -> Option<u64> {
        let (low, high) = (self.word(register)?, self.word(register.checked_add(1)?)?);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    pub(super) fn set_word(&mut self, register: u16, fact: Fact) {
        if let Some(words) = self.facts.get_mut(..self.words)
            && let Some(word) = words.get_mut(usize::from(register))
        {
            *word = fact;
        }
    }

    pub(super) fn reference(&self, register: u16) -> Fact {
        self.facts.get(self.words + usize::from(register)).copied().unwrap_or(Fact::Varies)
    }

    pub(super) fn set_reference(&mut self, register: u16, fact: Fact) {
        if let Some(reference) = self.facts.get_mut(self.words + usize::from(register)) {
            *reference = fact;
        }
    }

    /// Reads a reference and leaves null in its register if it is moved out of it.
    pub(super) fn take(&mut self, register: RefRegister) -> Fact {
        let fact = self.reference(register.index());
        if register.is_move() {
            self.set_reference(register.index(), Fact::Null);
        }
        fact
    }

    /// Copies a register to another one of the same file.
    pub(super) fn copy(&mut self, source: AnyRegister, target: AnyRegister) {
        if source.is_ref() {
            let fact = self.take(RefRegister(source.0));
            self.set_reference(target.index(), fact);
        } else {
            let fact = self.word(source.index()).map_or(Fact::Varies, Fact::Word);
            self.set_word(target.index(), fact);
        }
    }

    /// Forgets what holds on only one of two paths. Returns true if anything was forgotten.
    pub(super) fn join(&mut self, other: &Registers, types: &mut Types) -> bool {
        let mut changed = false;
        for (fact, other) in self.facts.iter_mut().zip(&other.facts) {
            let joined = fact.join(*other, types);
            changed |= joined != *fact;
            *fact = joined;
        }
        changed
    }
}

/// A register that an instruction accesses.
pub(super) enum Access {
    /// Reads a reference.
    Read(RefRegister),
    /// Writes a number of this many registers.
    Write(Register, u16),
    /// Writes a reference.
    WriteRef(RefRegister),
}

/// The number of registers of a bank's values.
fn registers(bank: Option<&Bank>) -> u16 {
    if bank.is_some_and(|bank| bank.size() == 8) { 2 } else { 1 }
}

/// A field of the format table, by its kind.
macro_rules! field {
    ($f:ident $banks:ident out_v $value:expr) => {
        $f(Access::Write($value, registers($banks.first())))
    };
    ($f:ident $banks:ident out_w $value:expr) => {
        $f(Access::Write($value, registers($banks.get(1).or($banks.first()))))
    };
    ($f:ident $banks:ident out_i32 $value:expr) => {
        $f(Access::Write($value, 1))
    };
    ($f:ident $banks:ident out_i64 $value:expr) => {
        $f(Access::Write($value, 2))
    };
    ($f:ident $banks:ident in_ref $value:expr) => {
        $f(Access::Read($value))
    };
    ($f:ident $banks:ident in_ref_move $value:expr) => {
        $f(Access::Read($value))
    };
    ($f:ident $banks:ident out_ref $value:expr) => {
        $f(Access::WriteRef($value))
    };
    ($f:ident $banks:ident list_ref $value:expr) => {
        $value.iter().for_each(|register| $f(Access::Read(RefRegister(register.0))))
    };
    ($f:ident $banks:ident $kind:ident $value:expr) => {
        let _ = $value;
    };
}

macro_rules! define_accesses {
    ($($variant:ident = $row:ident { $($field:ident: $kind:ident),* $(,)? })*) => {
        /// Calls a function with the references that an instruction reads and then with the registers that it writes, except
        /// for those of calls, returns, traces and branches.
        pub(super) fn accesses(instruction: &Instruction<'_>, f: &mut dyn FnMut(Access)) {
            let banks = instruction.opcode.info().banks;
            let _ = banks;
            match instruction.body {
                $(Body::$variant { $($field),* } => {
                    $(field!(f banks $kind $field);)*
                })*
            }
        }
    };
}
for_each_format!(define_accesses);
