//! Architectures: what an ELF for each must look like and how its relocations are applied.
//!
//! An architecture is one file with one [`Machine`], listed in [`Machine::ALL`] and, for hosts, in [`Machine::HOST`].
//! Nothing else depends on the architecture but the flush of the instruction cache in `memory`.

mod aarch64;
mod arm;
mod riscv;
mod x86_32;
mod x86_64;

use object::elf::{self, RelocationType};

/// Width of addresses and with it the layout of an ELF's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// ELFCLASS32
    Elf32,
    /// ELFCLASS64
    Elf64,
}

/// Where relocations have their addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addend {
    /// In the bytes that are relocated: tables of REL.
    InPlace,
    /// In the relocation: tables of RELA.
    Explicit,
}

/// The bytes that a relocation writes, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Four bytes; the value is taken modulo 2^32.
    Word32,
    /// Four bytes; the value must be what zero extension gives back.
    Unsigned32,
    /// Four bytes; the value must be what sign extension gives back.
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
    /// There is nothing to do.
    Skip,
    /// The value is written to the field.
    Write(Field, Value),
}

/// What the loader needs to know of an architecture.
#[derive(Debug)]
pub struct Machine {
    /// Name as in `embedded-elf-x86_64`.
    pub name: &'static str,
    /// Class of its ELF files.
    pub class: Class,
    /// `e_machine` of its ELF files.
    pub(super) id: elf::Machine,
    /// Where its relocations have their addend.
    pub(super) addend: Addend,
    /// How a kind of relocation is applied; `None` for kinds that embedded libraries do not have.
    pub(super) relocation: fn(RelocationType) -> Option<Relocation>,
}

impl Machine {
    /// Every architecture that can be parsed and relocated, whatever the host.
    pub const ALL: [&'static Machine; 6] =
        [&x86_64::X86_64, &aarch64::AARCH64, &riscv::RISCV_64, &riscv::RISCV_32, &arm::ARM_32, &x86_32::X86_32];

    /// The architecture of the host, whose code can be run.
    pub const HOST: Option<&'static Machine> = if cfg!(not(all(unix, target_endian = "little"))) {
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
