//! RISC-V, after the RISC-V ELF psABI. It has no GLOB_DAT: global offset tables use absolute relocations.

use object::elf::{self, RelocationType};

use super::{Addend, Class, Field, Machine, Relocation, Value};

pub(super) static RISCV_64: Machine = Machine {
    name: "riscv_64",
    class: Class::Elf64,
    id: elf::EM_RISCV,
    addend: Addend::Explicit,
    relocation: |kind| match kind {
        elf::R_RISCV_64 => Some(Relocation::Write(Field::Word64, Value::SymbolAddend)),
        elf::R_RISCV_32 => Some(Relocation::Write(Field::Unsigned32, Value::SymbolAddend)),
        _ => common(kind, Field::Word64),
    },
};

pub(super) static RISCV_32: Machine = Machine {
    name: "riscv_32",
    class: Class::Elf32,
    id: elf::EM_RISCV,
    addend: Addend::Explicit,
    relocation: |kind| match kind {
        elf::R_RISCV_32 => Some(Relocation::Write(Field::Word32, Value::SymbolAddend)),
        _ => common(kind, Field::Word32),
    },
};

/// The kinds that write an address, whose width is `address`.
fn common(kind: RelocationType, address: Field) -> Option<Relocation> {
    Some(match kind {
        elf::R_RISCV_NONE => Relocation::Skip,
        elf::R_RISCV_RELATIVE => Relocation::Write(address, Value::Base),
        elf::R_RISCV_JUMP_SLOT => Relocation::Write(address, Value::Symbol),
        _ => return None,
    })
}
