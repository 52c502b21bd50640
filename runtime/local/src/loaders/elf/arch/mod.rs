//! Architectures: ELF identification and relocation rules.
//!
//! An architecture is one file with one [`Machine`], listed in [`Machine::ALL`] and, for hosts, in [`Machine::HOST`].
//! Only the flush of the instruction cache in `memory` depends on it, too.

mod aarch64;
mod arm;
mod riscv;
mod x86_32;
mod x86_64;

use object::elf::{self, RelocationType};

/// Width of addresses, which determines the layout of an ELF's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// ELFCLASS32
    Elf32,
    /// ELFCLASS64
    Elf64,
}

/// The location of relocations' addends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addend {
    /// In the relocated bytes (REL).
    InPlace,
    /// In the relocation entry (RELA).
    Explicit,
}

/// The bytes that a relocation writes, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Four bytes; the value is taken modulo 2^32.
    Word32,
    /// Four bytes; zero extension must restore the value.
    Unsigned32,
    /// Four bytes; sign extension must restore the value.
    Signed32,
    /// Eight bytes.
    Word64,
}

/// The value of a relocation, in the letters of the ABI documents: B is the load address, S the symbol's address, A the
/// addend, P the address of the relocated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// B + A
    Base,
    /// S
    Symbol,
    /// S + A
    SymbolAddend,
    /// S + A - P
    Relative,
}

/// How a kind of relocation is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relocation {
    /// No effect.
    Skip,
    /// The value is written to the field.
    Write(Field, Value),
}

/// An architecture's properties.
#[derive(Debug)]
pub struct Machine {
    /// Name as in `embedded-elf-x86_64`.
    pub name: &'static str,
    /// Class of its ELF files.
    pub class: Class,
    /// `e_machine` of its ELF files.
    pub(super) id: elf::Machine,
    /// The location of its relocations' addends.
    pub(super) addend: Addend,
    /// Returns the application of a kind of relocation; `None` for kinds that embedded libraries do not use.
    pub(super) relocation: fn(RelocationType) -> Option<Relocation>,
}

impl Machine {
    /// All architectures that can be parsed and relocated on any host.
    pub const ALL: [&'static Machine; 6] =
        [&x86_64::X86_64, &aarch64::AARCH64, &riscv::RISCV_64, &riscv::RISCV_32, &arm::ARM_32, &x86_32::X86_32];

    /// The architecture of the host, whose code can run.
    pub const HOST: Option<&'static Machine> =
        if cfg!(not(all(any(unix, all(windows, target_arch = "x86_64")), target_endian = "little"))) {
            None
        } else if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(&x86_64::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_pointer_width = "64")) {
            Some(&aarch64::AARCH64)
        } else if cfg!(target_arch = "riscv64") {
            Some(&riscv::RISCV_64)
        } else if cfg!(target_arch = "riscv32") {
            Some(&riscv::RISCV_32)
        } else if cfg!(target_arch = "arm") {
            Some(&arm::ARM_32)
        } else if cfg!(target_arch = "x86") {
            Some(&x86_32::X86_32)
        } else {
            None
        };
}
