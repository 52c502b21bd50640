//! x86-64, after the System V ABI's AMD64 supplement.

use object::elf::{self, RelocationType};

use super::{Addend, Class, Field, Machine, Relocation, Value};

pub(super) static X86_64: Machine =
    Machine { name: "x86_64", class: Class::Elf64, id: elf::EM_X86_64, addend: Addend::Explicit, relocation };

fn relocation(kind: RelocationType) -> Option<Relocation> {
    Some(match kind {
        elf::R_X86_64_NONE => Relocation::Skip,
        elf::R_X86_64_RELATIVE => Relocation::Write(Field::Word64, Value::Base),
        elf::R_X86_64_64 => Relocation::Write(Field::Word64, Value::SymbolAddend),
        elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => Relocation::Write(Field::Word64, Value::Symbol),
        elf::R_X86_64_32 => Relocation::Write(Field::Unsigned32, Value::SymbolAddend),
        elf::R_X86_64_32S => Relocation::Write(Field::Signed32, Value::SymbolAddend),
        elf::R_X86_64_PC32 => Relocation::Write(Field::Signed32, Value::Relative),
        elf::R_X86_64_PC64 => Relocation::Write(Field::Word64, Value::Relative),
        _ => return None,
    })
}
