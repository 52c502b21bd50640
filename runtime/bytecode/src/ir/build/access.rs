//! Which registers an instruction reads and writes, and as what: derived from the format table, but for calls and returns,
//! whose registers calling conventions type.

use super::super::value::Type;
use crate::isa::{Bank, for_each_format};
use crate::{
    AnyRegister, Body, CallingConvention, ConventionItem, FunctionOrdinal, Instruction, RegisterList, VerifiedModule,
};

/// A register that an instruction touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads a value.
    Read(u16, Type),
    /// Writes a value.
    Write(u16, Type),
    /// Reads a reference.
    ReadRef(u16),
    /// Writes a reference; moving out of a register writes null.
    WriteRef(u16),
}

/// The convention by which a callee is called.
pub(super) fn convention_of(module: &VerifiedModule, callee: FunctionOrdinal) -> CallingConvention<'_> {
    match callee.import() {
        Some(import) => module.import(import).map(|import| import.calling_convention),
        None => module.function(callee.0).map(|function| function.convention),
    }
    .unwrap_or_default()
}

/// The types of a call's operands: those of the callee's arguments, elements of spans as often as the segment sizes say.
///
/// `f` gets each operand's type; it ends the walk by returning false.
pub(super) fn operand_types(
    convention: CallingConvention<'_>,
    segments: &mut dyn Iterator<Item = u16>,
    f: &mut dyn FnMut(Type) -> bool,
) {
    let items: alloc::vec::Vec<ConventionItem> = convention.arguments().collect();
    spans(&items, segments, true, f);
}

fn spans(
    items: &[ConventionItem],
    segments: &mut dyn Iterator<Item = u16>,
    top_level: bool,
    f: &mut dyn FnMut(Type) -> bool,
) -> bool {
    let mut index = 0;
    while let Some(&item) = items.get(index) {
        index += 1;
        let segment = if top_level || item == ConventionItem::SpanStart { segments.next() } else { None };
        if let Some(ty) = Type::of_item(item) {
            if !f(ty) {
                return false;
            }
            continue;
        }
        let end = index + span_length(items.get(index..).unwrap_or_default());
        let elements = items.get(index..end).unwrap_or_default();
        for _ in 0..segment.unwrap_or(0) {
            if !spans(elements, segments, false, f) {
                return false;
            }
        }
        index = end + 1;
    }
    true
}

/// Number of items before the end of the span that they begin in.
fn span_length(items: &[ConventionItem]) -> usize {
    let mut depth = 0usize;
    let end = items.iter().position(|item| match item {
        ConventionItem::SpanEnd if depth == 0 => true,
        ConventionItem::SpanEnd => {
            depth -= 1;
            false
        }
        ConventionItem::SpanStart => {
            depth += 1;
            false
        }
        _ => false,
    });
    end.unwrap_or(items.len())
}

fn read(register: AnyRegister, ty: Type, f: &mut dyn FnMut(Access)) {
    match ty {
        Type::Ref => f(Access::ReadRef(register.index())),
        _ => f(Access::Read(register.index(), ty)),
    }
}

/// The registers of a list that are moved out of.
fn moves(list: RegisterList<'_>, f: &mut dyn FnMut(Access)) {
    for register in list.iter().filter(|register| register.is_move()) {
        f(Access::WriteRef(register.index()));
    }
}

fn results(convention: CallingConvention<'_>, list: RegisterList<'_>, f: &mut dyn FnMut(Access)) {
    for (register, ty) in list.iter().zip(convention.results().filter_map(Type::of_item)) {
        f(match ty {
            Type::Ref => Access::WriteRef(register.index()),
            _ => Access::Write(register.index(), ty),
        });
    }
}

/// A field of the format table, by its kind.
macro_rules! field {
    ($f:ident $banks:ident in_v $value:expr) => {
        $f(Access::Read($value.0, $banks[0].into()))
    };
    ($f:ident $banks:ident in_w $value:expr) => {
        $f(Access::Read($value.0, $banks[1].into()))
    };
    ($f:ident $banks:ident out_v $value:expr) => {
        $f(Access::Write($value.0, $banks[0].into()))
    };
    ($f:ident $banks:ident out_w $value:expr) => {
        $f(Access::Write($value.0, $banks[1].into()))
    };
    ($f:ident $banks:ident in_i32 $value:expr) => {
        $f(Access::Read($value.0, Type::i32))
    };
    ($f:ident $banks:ident out_i32 $value:expr) => {
        $f(Access::Write($value.0, Type::i32))
    };
    ($f:ident $banks:ident in_i64 $value:expr) => {
        $f(Access::Read($value.0, Type::i64))
    };
    ($f:ident $banks:ident out_i64 $value:expr) => {
        $f(Access::Write($value.0, Type::i64))
    };
    ($f:ident $banks:ident in_ref $value:expr) => {
        $f(Access::ReadRef($value.index()))
    };
    ($f:ident $banks:ident in_ref_move $value:expr) => {{
        $f(Access::ReadRef($value.index()));
        if $value.is_move() {
            $f(Access::WriteRef($value.index()));
        }
    }};
    ($f:ident $banks:ident out_ref $value:expr) => {
        $f(Access::WriteRef($value.index()))
    };
    ($f:ident $banks:ident list_v $value:expr) => {
        $value.iter().for_each(|register| $f(Access::Read(register.index(), $banks[0].into())))
    };
    ($f:ident $banks:ident list_ref $value:expr) => {{
        $value.iter().for_each(|register| $f(Access::ReadRef(register.index())));
        moves($value, $f);
    }};
    // No registers, or treated below (calls, returns, traces) or with the edges (copies, cases).
    ($f:ident $banks:ident $kind:ident $value:expr) => {
        let _ = $value;
    };
}

macro_rules! define_fields {
    ($($variant:ident = $row:ident { $($field:ident: $kind:ident),* $(,)? })*) => {
        fn fields(instruction: &Instruction<'_>, banks: &[Bank], f: &mut dyn FnMut(Access)) {
            // Rows without banks have no fields that name one.
            let banks = [
                banks.first().copied().unwrap_or(Bank::i32),
                banks.get(1).or(banks.first()).copied().unwrap_or(Bank::i32),
            ];
            match instruction.body {
                $(Body::$variant { $($field),* } => {
                    $(field!(f banks $kind $field);)*
                })*
            }
        }
    };
}
for_each_format!(define_fields);

/// Calls a function with each register that an instruction touches, but for the copies of branches. A register may be read
/// after an access has written it only if the access moved out of it; readers that are sets need no order, then.
pub(super) fn accesses(
    module: &VerifiedModule,
    convention: CallingConvention<'_>,
    instruction: &Instruction<'_>,
    f: &mut dyn FnMut(Access),
) {
    match instruction.body {
        // Nothing is read from what is discarded.
        Body::DiscardRefs { refs } => refs.iter().for_each(|register| f(Access::WriteRef(register.index()))),
        Body::Return { operands } => {
            for (register, ty) in operands.iter().zip(convention.results().filter_map(Type::of_item)) {
                read(register, ty, f);
            }
        }
        Body::Trace { operands, .. } => {
            for register in operands.iter() {
                read(register, if register.is_ref() { Type::Ref } else { Type::i32 }, f);
            }
            moves(operands, f);
        }
        Body::Call { callee, operands, results: list }
        | Body::CallYieldable { callee, operands, results: list, .. } => {
            let convention = convention_of(module, callee);
            call(convention, &mut core::iter::empty(), operands, list, f);
        }
        Body::CallVariadic { callee, segment_sizes, operands, results: list }
        | Body::CallVariadicYieldable { callee, segment_sizes, operands, results: list, .. } => {
            let convention = convention_of(module, callee);
            call(convention, &mut segment_sizes.iter(), operands, list, f);
        }
        _ => fields(instruction, instruction.opcode.info().banks, f),
    }
}

fn call(
    convention: CallingConvention<'_>,
    segments: &mut dyn Iterator<Item = u16>,
    operands: RegisterList<'_>,
    list: RegisterList<'_>,
    f: &mut dyn FnMut(Access),
) {
    let mut registers = operands.iter();
    operand_types(convention, segments, &mut |ty| match registers.next() {
        Some(register) => {
            read(register, ty, f);
            true
        }
        None => false,
    });
    moves(operands, f);
    results(convention, list, f);
}
