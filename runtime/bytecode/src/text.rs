//! What the assembler and the disassembler agree on: symbols, strings, numbers, and what follows from instructions alone.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::instruction::{Body, Instruction, Instructions};
use super::isa::{Bank, Format, OpcodeSet, for_each_format};
use super::module::Requirements;

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

        /// Hands the registers, globals and types of an instruction to `visit`.
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

    fn any(&mut self, register: super::instruction::AnyRegister) {
        match register.is_ref() {
            true => self.reference(register.index()),
            false => self.value(register.index(), false),
        }
    }
}

/// Whether a character can stand in a symbol that is not quoted.
pub(super) const fn is_symbol_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '.')
}

/// A symbol with its `@`: quoted if a character asks for it.
pub(super) fn symbol(name: &str) -> String {
    match !name.is_empty() && name.chars().all(is_symbol_character) {
        true => format!("@{name}"),
        false => format!("@{}", quoted(name.as_bytes())),
    }
}

/// Bytes in quotes. What cannot stand there becomes a backslash and two hexadecimal digits: quotes, control characters, what
/// is not UTF-8, and a backslash that would be taken for the beginning of such a thing.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    let mut rest = bytes;
    while !rest.is_empty() {
        let valid = match core::str::from_utf8(rest) {
            Ok(valid) => valid,
            Err(error) => core::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        for (index, character) in valid.char_indices() {
            let behind = valid.as_bytes().get(index + 1..).unwrap_or_default();
            let escape = match character {
                '"' => true,
                '\\' => behind.len() >= 2 && behind[..2].iter().all(u8::is_ascii_hexdigit),
                _ => character.is_ascii_control(),
            };
            match escape {
                true => text.push_str(&format!("\\{:02X}", character as u32)),
                false => text.push(character),
            }
        }
        rest = &rest[valid.len()..];
        if let Some((byte, behind)) = rest.split_first() {
            text.push_str(&format!("\\{byte:02X}"));
            rest = behind;
        }
    }
    text.push('"');
    text
}

/// The bytes that the inside of a quoted text stands for.
pub(super) fn unquoted(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut result = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let escape = (byte == b'\\').then(|| text.get(index + 1..index + 3)).flatten();
        match escape.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            Some(digits) => {
                result.push(u8::from_str_radix(digits, 16).unwrap_or_default());
                index += 3;
            }
            None => {
                result.push(byte);
                index += 1;
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_undone() {
        let cases: [&[u8]; 9] = [
            b"",
            b"plain",
            b"a \"b\" c",
            b"back\\slash",
            b"\\41",
            b"\\4",
            b"line\nend\0",
            b"\xFF\xFEab",
            b"\\\xC3\xA9\\22",
        ];
        for bytes in cases {
            let text = quoted(bytes);
            let inside = &text[1..text.len() - 1];
            assert!(!inside.contains(['"', '\n']), "{text}");
            assert_eq!(unquoted(inside), bytes, "{text}");
        }
        assert_eq!(quoted(b"a \"b\""), "\"a \\22b\\22\"");
    }
}
