//! 32-bit x86, after the System V ABI's Intel386 supplement.

use object::elf::{self, RelocationType};

use super::{Addend, Class, Field, Machine, Relocation, Value};

pub(super) static X86_32: Machine =
    Machine { name: "x86_32", class: Class::Elf32, id: elf::EM_386, addend: Addend::InPlace, relocation };

fn relocation(kind: RelocationType) -> Option<Relocation> {
    Some(match kind {
        elf::R_386_NONE => Relocation::Skip,
        elf::R_386_RELATIVE => Relocation::Write(Field::Word32, Value::Base),
        elf::R_386_32 => Relocation::Write(Field::Word32, Value::SymbolAddend),
        // The initial contents of these slots are not an addend.
        elf::R_386_GLOB_DAT | elf::R_386_JMP_SLOT => Relocation::Write(Field::Word32, Value::Symbol),
        elf::R_386_PC32 => Relocation::Write(Field::Word32, Value::Relative),
        _ => return None,
    })
}
