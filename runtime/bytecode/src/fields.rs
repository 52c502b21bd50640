//! Facts that follow from only the instructions of a function: the operand fields, registers and requirements, for both directions of
//! the text form.

use super::instruction::{Body, Instruction, Instructions};
use super::isa::{Bank, Format, OpcodeSet, for_each_format};
use super::module::types::Requirements;
use super::operand::AnyRegister;

/// The kind of an operand field; see the table of formats.
#[allow(non_camel_case_types, dead_code, reason = "spelled as the table spells them; not every kind has a row")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    in_v,
    out_v,
    in_w,
    out_w,
    in_i32,
    out_i32,
    in_i64,
    out_i64,
    in_ref,
    in_ref_move,
    out_ref,
    imm_v,
    global,
    global_ref,
    rodata,
    function,
    import,
    type_id,
    string,
    target,
    remap,
    list_v,
    list_ref,
    list_any,
    results,
    segments,
    cases,
}

impl FieldKind {
    /// Whether the field's register stands to the left of `=`.
    pub(super) const fn is_result(self) -> bool {
        use FieldKind::{out_i32, out_i64, out_ref, out_v, out_w, results};
        matches!(self, out_v | out_w | out_i32 | out_i64 | out_ref | results)
    }

    /// Whether a value register of the field is a pair, for an instruction's banks.
    pub(super) fn is_pair(self, banks: &[Bank]) -> bool {
        let wide = |index: usize| banks.get(index).is_some_and(|bank| bank.size() == 8);
        match self {
            FieldKind::in_v | FieldKind::out_v | FieldKind::list_v | FieldKind::imm_v | FieldKind::global => wide(0),
            FieldKind::in_w | FieldKind::out_w => wide(1),
            FieldKind::in_i64 | FieldKind::out_i64 => true,
            _ => false,
        }
    }
}

macro_rules! define_fields {
    ($($variant:ident = $row:ident { $($field:ident: $kind:ident),* $(,)? })*) => {
        /// The operand fields of a format, in the order of their encoding.
        pub(super) const fn fields(format: Format) -> &'static [FieldKind] {
            match format {
                $(Format::$variant => &[$(FieldKind::$kind),*],)*
            }
        }

        /// Passes the registers, globals and types of an instruction to `visit`.
        fn visit(body: &Body<'_>, banks: &[Bank], seen: &mut Derived) {
            match *body {
                $(Body::$variant { $($field),* } => {
                    $(derive_field!(seen banks $kind $field);)*
                    let _ = (banks, &seen);
                })*
            }
        }
    };
}

/// What a field of an instruction says about the function and the module that hold it.
macro_rules! derive_field {
    ($seen:ident $banks:ident imm_v $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident rodata $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident function $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident import $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident type_id $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident string $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident target $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident segments $value:expr) => { let _ = $value; };
    ($seen:ident $banks:ident global $value:expr) => {
        let size = $banks.first().map_or(4, |bank| bank.size());
        $seen.global_bytes = $seen.global_bytes.max($value.saturating_add(size));
    };
    ($seen:ident $banks:ident global_ref $value:expr) => {
        $seen.global_refs = $seen.global_refs.max($value.saturating_add(1));
    };
    ($seen:ident $banks:ident in_ref $value:expr) => { $seen.reference($value.index()); };
    ($seen:ident $banks:ident in_ref_move $value:expr) => { $seen.reference($value.index()); };
    ($seen:ident $banks:ident out_ref $value:expr) => { $seen.reference($value.index()); };
    ($seen:ident $banks:ident remap $value:expr) => {
        for (source, target) in $value.iter() {
            $seen.any(source);
            $seen.any(target);
        }
    };
    ($seen:ident $banks:ident cases $value:expr) => {
        for (_, operands) in $value.iter() {
            derive_field!($seen $banks remap operands);
        }
    };
    ($seen:ident $banks:ident list_ref $value:expr) => { derive_field!($seen $banks list_any $value); };
    ($seen:ident $banks:ident results $value:expr) => { derive_field!($seen $banks list_any $value); };
    ($seen:ident $banks:ident list_any $value:expr) => {
        for register in $value.iter() {
            $seen.any(register);
        }
    };
    ($seen:ident $banks:ident list_v $value:expr) => {
        for register in $value.iter() {
            $seen.value(register.0, FieldKind::list_v.is_pair($banks));
        }
    };
    ($seen:ident $banks:ident $kind:ident $value:expr) => {
        $seen.value($value.index(), FieldKind::$kind.is_pair($banks));
    };
}
for_each_format!(define_fields);

/// What follows from a function's instructions: the assembler writes it where the text says nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Derived {
    pub(super) i32_registers: u16,
    pub(super) ref_registers: u16,
    pub(super) requirements: Requirements,
    pub(super) blocks: usize,
    pub(super) global_bytes: u32,
    pub(super) global_refs: u32,
}

impl Derived {
    pub(super) fn of(bytecode: &[u8]) -> Derived {
        let mut seen = Derived::default();
        for instruction in Instructions::new(bytecode) {
            seen.instruction(&instruction);
        }
        seen
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        let info = instruction.opcode.info();
        self.requirements |= match info.set {
            OpcodeSet::Core => Requirements::empty(),
            OpcodeSet::ExtF32 => Requirements::EXT_F32,
            OpcodeSet::ExtF64 => Requirements::EXT_F64,
        };
        if matches!(instruction.body, Body::Block {}) {
            self.blocks += 1;
        }
        visit(&instruction.body, info.banks, self);
    }

    fn value(&mut self, index: u16, pair: bool) {
        self.i32_registers = self.i32_registers.max(index.saturating_add(1 + u16::from(pair)));
    }

    fn reference(&mut self, index: u16) {
        self.ref_registers = self.ref_registers.max(index + 1);
    }

    fn any(&mut self, register: AnyRegister) {
        match register.is_ref() {
            true => self.reference(register.index()),
            false => self.value(register.index(), false),
        }
    }
}
