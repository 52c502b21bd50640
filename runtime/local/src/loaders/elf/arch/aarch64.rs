//! AArch64, after "ELF for the Arm 64-bit Architecture".

use object::elf::{self, RelocationType};

use super::{Addend, Class, Field, Machine, Relocation, Value};

pub(super) static AARCH64: Machine =
    Machine { name: "arm_64", class: Class::Elf64, id: elf::EM_AARCH64, addend: Addend::Explicit, relocation };

fn relocation(kind: RelocationType) -> Option<Relocation> {
    Some(match kind {
        elf::R_AARCH64_NONE => Relocation::Skip,
        elf::R_AARCH64_RELATIVE => Relocation::Write(Field::Word64, Value::Base),
        elf::R_AARCH64_ABS64 | elf::R_AARCH64_GLOB_DAT | elf::R_AARCH64_JUMP_SLOT => {
            Relocation::Write(Field::Word64, Value::SymbolAddend)
        }
        elf::R_AARCH64_ABS32 => Relocation::Write(Field::Unsigned32, Value::SymbolAddend),
        elf::R_AARCH64_PREL64 => Relocation::Write(Field::Word64, Value::Relative),
        elf::R_AARCH64_PREL32 => Relocation::Write(Field::Signed32, Value::Relative),
        _ => return None,
    })
}
