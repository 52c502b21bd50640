//! Calls: operands and results against the callee's calling convention, one register for each value.
//!
//! A 64-bit value is named by the lower register of its pair, in calls and returns; only the copies of branches name both.

use alloc::format;

use super::super::calling_convention::ConventionItem;
use super::super::instruction::{AnyRegister, FunctionOrdinal, RefRegister, Register, RegisterList, SegmentSizes};
use super::super::isa::{REF_REGISTER_MOVE_BIT, REF_REGISTER_TYPE_BIT, SEGMENT_NOT_VARIADIC};
use super::FunctionVerifier;
use super::operands::bad_move;
use crate::{Error, Result};

impl FunctionVerifier<'_, '_> {
    /// Checks a call whose callee exists.
    pub(super) fn call(
        &self,
        callee: FunctionOrdinal,
        segment_sizes: Option<SegmentSizes<'_>>,
        operands: RegisterList<'_>,
        results: RegisterList<'_>,
    ) -> Result<()> {
        let convention = match callee.import() {
            Some(import) => self.module.import_convention(import),
            None if segment_sizes.is_some() => {
                return Err(Error::invalid_argument(format!(
                    "`callee` is function {} of this module; only imports take variadic arguments",
                    callee.0
                )));
            }
            None => self.module.function_convention(callee.0),
        };
        let letters = convention.argument_letters();
        match segment_sizes {
            Some(sizes) => self.variadic_operands(letters, sizes, operands)?,
            None => self.values("operands", "the callee's arguments", letters, operands)?,
        }
        self.results("the callee's results", convention.result_letters(), results)
    }

    /// Checks a list against letters without spans.
    #[inline]
    pub(super) fn values(
        &self,
        field: &'static str,
        what: &'static str,
        letters: &str,
        list: RegisterList<'_>,
    ) -> Result<()> {
        if letters.len() != list.len() {
            return Err(wrong_count(field, what, letters, list.len()));
        }
        for (letter, register) in letters.bytes().zip(list.iter()) {
            self.value(field, letter, register)?;
        }
        Ok(())
    }

    /// Checks that no result is moved out of.
    #[inline]
    fn results(&self, what: &'static str, letters: &str, list: RegisterList<'_>) -> Result<()> {
        self.values("results", what, letters, list)?;
        match list.iter().find(|register| register.is_move()) {
            None => Ok(()),
            Some(register) => Err(bad_move("results", RefRegister(register.0))),
        }
    }

    /// Checks the operands of a variadic call: an operand for each argument that is no span, and the elements of each span,
    /// of which there are as many as the argument's segment size says.
    fn variadic_operands(&self, letters: &str, sizes: SegmentSizes<'_>, operands: RegisterList<'_>) -> Result<()> {
        let (mut rest, mut sizes, mut operands) = (letters.as_bytes(), sizes.iter(), operands.iter());
        while let Some((&letter, behind)) = rest.split_first() {
            let Some(size) = sizes.next() else { return Err(wrong_segments(letters, "there are fewer")) };
            if letter != b'C' {
                // Compilers write 0xFFFF, and assembly text may say 1.
                if size != SEGMENT_NOT_VARIADIC && size != 1 {
                    return Err(wrong_segments(
                        letters,
                        "an argument that is no span has another one than 1 or 0xFFFF",
                    ));
                }
                self.next_value(letters, letter, &mut operands)?;
                rest = behind;
                continue;
            }
            if size == SEGMENT_NOT_VARIADIC {
                return Err(wrong_segments(letters, "a span has 0xFFFF"));
            }
            let (elements, end) = split_span(behind);
            self.span(letters, elements, size, (&mut sizes, &mut operands), 1)?;
            rest = end;
        }
        if sizes.next().is_some() {
            return Err(wrong_segments(letters, "there are more"));
        }
        match operands.len() {
            0 => Ok(()),
            left => Err(Error::invalid_argument(format!(
                "`operands` has {left} registers more than the callee's arguments `{letters}` take"
            ))),
        }
    }

    /// Checks the elements of a span. A span within takes a segment size of its own for each element of the outer one.
    fn span<S, O>(
        &self,
        letters: &str,
        elements: &[u8],
        count: u16,
        (sizes, operands): (&mut S, &mut O),
        depth: usize,
    ) -> Result<()>
    where
        S: Iterator<Item = u16>,
        O: Iterator<Item = AnyRegister>,
    {
        if depth > SPAN_DEPTH_LIMIT {
            return Err(Error::unimplemented(format!(
                "the callee's arguments `{letters}` have spans within spans {depth} deep, and {SPAN_DEPTH_LIMIT} is the limit"
            )));
        }
        for _ in 0..count {
            let mut rest = elements;
            while let Some((&letter, behind)) = rest.split_first() {
                rest = behind;
                if letter != b'C' {
                    self.next_value(letters, letter, operands)?;
                    continue;
                }
                let inner = match sizes.next() {
                    Some(SEGMENT_NOT_VARIADIC) => return Err(wrong_segments(letters, "a span has 0xFFFF")),
                    Some(size) => size,
                    None => return Err(wrong_segments(letters, "there are fewer")),
                };
                let (elements, end) = split_span(behind);
                self.span(letters, elements, inner, (&mut *sizes, &mut *operands), depth + 1)?;
                rest = end;
            }
        }
        Ok(())
    }

    #[inline]
    fn next_value(&self, letters: &str, letter: u8, operands: &mut impl Iterator<Item = AnyRegister>) -> Result<()> {
        match operands.next() {
            Some(register) => self.value("operands", letter, register),
            None => Err(Error::invalid_argument(format!(
                "`operands` has fewer registers than the callee's arguments `{letters}` take"
            ))),
        }
    }

    /// Checks one register against its letter.
    #[inline(always)]
    fn value(&self, field: &'static str, letter: u8, register: AnyRegister) -> Result<()> {
        match self.classes[usize::from(CLASS_OF_LETTER[usize::from(letter)])].holds(register.0) {
            true => Ok(()),
            false => self.bad_value(field, letter, register),
        }
    }

    /// Says what is wrong with a register that its letter's class does not hold.
    #[cold]
    fn bad_value(&self, field: &'static str, letter: u8, register: AnyRegister) -> Result<()> {
        match ConventionItem::from_letter(letter) {
            Some(ConventionItem::I32 | ConventionItem::F32) => self.value_register(field, Register(register.0), 4),
            Some(ConventionItem::I64 | ConventionItem::F64) => self.value_register(field, Register(register.0), 8),
            Some(ConventionItem::Ref) => self.ref_register(field, RefRegister(register.0)),
            Some(ConventionItem::SpanStart | ConventionItem::SpanEnd) | None => Ok(()),
        }?;
        Err(Error::invalid_argument("the callee takes variadic arguments, and the call gives no segment sizes"))
    }
}

/// Registers that can hold a kind of value, such that one comparison without branches decides: call operands are most of a
/// module's bytecode.
#[derive(Clone, Copy, Default)]
pub(super) struct RegisterClass {
    /// Bits that are turned over first: the type bit for references, which must be set.
    flip: u16,
    /// Bits that count then: all but the move bit for references.
    mask: u16,
    /// Bits that must be clear then: the lowest for pairs.
    clear: u16,
    /// What remains must be less than this.
    limit: u16,
}

impl RegisterClass {
    /// The classes of a function: none, 32-bit values, 64-bit values, references.
    pub(super) fn of(i32_count: u16, ref_count: u16) -> [RegisterClass; 4] {
        [
            RegisterClass::default(),
            RegisterClass { flip: 0, mask: 0xFFFF, clear: 0, limit: i32_count },
            RegisterClass { flip: 0, mask: 0xFFFF, clear: 1, limit: i32_count.saturating_sub(1) },
            RegisterClass { flip: REF_REGISTER_TYPE_BIT, mask: !REF_REGISTER_MOVE_BIT, clear: 0, limit: ref_count },
        ]
    }

    #[inline(always)]
    fn holds(self, register: u16) -> bool {
        let index = (register ^ self.flip) & self.mask;
        (index & self.clear == 0) & (index < self.limit)
    }
}

/// Index into [`RegisterClass::of`] by a calling convention's letter.
static CLASS_OF_LETTER: [u8; 256] = {
    let mut table = [0; 256];
    table[b'i' as usize] = 1;
    table[b'f' as usize] = 1;
    table[b'I' as usize] = 2;
    table[b'F' as usize] = 2;
    table[b'r' as usize] = 3;
    table
};

#[cold]
fn wrong_count(field: &'static str, what: &'static str, letters: &str, count: usize) -> Error {
    if letters.contains('C') {
        return Error::invalid_argument("the callee takes variadic arguments, and the call gives no segment sizes");
    }
    Error::invalid_argument(format!("`{field}` has {count} registers; {what} are {} (`{letters}`)", letters.len()))
}

/// Spans that may lie within each other.
const SPAN_DEPTH_LIMIT: usize = 8;

/// Divides what follows a `C` into the span's elements and what is behind its `D`; parsing the convention has seen to it that
/// there is one.
fn split_span(behind: &[u8]) -> (&[u8], &[u8]) {
    let mut depth = 0usize;
    for (index, letter) in behind.iter().enumerate() {
        match letter {
            b'C' => depth += 1,
            b'D' if depth == 0 => return (&behind[..index], &behind[index + 1..]),
            b'D' => depth -= 1,
            _ => {}
        }
    }
    (behind, &[])
}

#[cold]
fn wrong_segments(letters: &str, why: &'static str) -> Error {
    Error::invalid_argument(format!("`segment_sizes` do not fit the callee's arguments `{letters}`: {why}"))
}
