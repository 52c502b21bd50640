//! 32-bit Arm, after "ELF for the Arm Architecture". Addresses of Thumb functions include the Thumb bit.

use object::elf::{self, RelocationType};

use super::{Addend, Class, Field, Machine, Relocation, Value};

pub(super) static ARM_32: Machine =
    Machine { name: "arm_32", class: Class::Elf32, id: elf::EM_ARM, addend: Addend::InPlace, relocation };

fn relocation(kind: RelocationType) -> Option<Relocation> {
    Some(match kind {
        elf::R_ARM_NONE => Relocation::Skip,
        elf::R_ARM_RELATIVE => Relocation::Write(Field::Word32, Value::Base),
        elf::R_ARM_ABS32 => Relocation::Write(Field::Word32, Value::SymbolAddend),
        // The initial contents of these slots are not an addend.
        elf::R_ARM_GLOB_DAT | elf::R_ARM_JUMP_SLOT => Relocation::Write(Field::Word32, Value::Symbol),
        elf::R_ARM_REL32 => Relocation::Write(Field::Word32, Value::Relative),
        _ => return None,
    })
}
