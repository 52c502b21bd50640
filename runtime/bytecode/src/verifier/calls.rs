//! Calls: operands and results against the callee's calling convention, one register for each value.
//!
//! A 64-bit value is named by the lower register of its pair, in calls and returns; only the copies of branches name both.

use alloc::format;

use super::super::calling_convention::ConventionItem;
use super::super::isa::{REF_REGISTER_MOVE_BIT, REF_REGISTER_TYPE_BIT, SEGMENT_NOT_VARIADIC};
use super::super::operand::{AnyRegister, FunctionOrdinal, RefRegister, Register, RegisterList, SegmentSizes};
use super::FunctionVerifier;
use super::operands::bad_move;
use crate::{Error, Result};

impl FunctionVerifier<'_, '_> {
    /// Checks a call whose callee exists.
    #[inline(always)]
    pub(super) fn call(
        &self,
        callee: FunctionOrdinal,
        segment_sizes: Option<SegmentSizes<'_>>,
        operands: RegisterList<'_>,
        results: RegisterList<'_>,
    ) -> Result<()> {
        let (arguments, result_letters) = match callee.import() {
            Some(import) => self.module.import_letters(import),
            None if segment_sizes.is_some() => return Err(not_variadic(callee)),
            None => self.module.function_letters(callee.0),
        };
        match segment_sizes {
            Some(sizes) => self.variadic_operands(arguments, sizes, operands)?,
            None => self.values("operands", "the callee's arguments", &self.classes.read, arguments, operands)?,
        }
        self.values("results", "the callee's results", &self.classes.written, result_letters, results)
    }

    /// Checks the operands of `return`.
    #[inline(always)]
    pub(super) fn returned(&self, operands: RegisterList<'_>) -> Result<()> {
        let letters = self.function.result_letters;
        self.values("operands", "the function's own results", &self.classes.read, letters, operands)
    }

    /// Checks a list against letters without spans.
    #[inline(always)]
    fn values(
        &self,
        field: &'static str,
        what: &'static str,
        classes: &[RegisterClass; 4],
        letters: &[u8],
        list: RegisterList<'_>,
    ) -> Result<()> {
        if letters.len() != list.len() {
            return Err(wrong_count(field, what, letters, list.len()));
        }
        match hold(classes, letters, list) {
            true => Ok(()),
            false => self.bad_values(field, letters, list),
        }
    }

    /// Checks the operands of a variadic call: an operand for each argument that is no span, and the elements of each span,
    /// of which there are as many as the argument's segment size says.
    fn variadic_operands(&self, letters: &[u8], sizes: SegmentSizes<'_>, operands: RegisterList<'_>) -> Result<()> {
        if letters.len() > SPAN_LETTERS_LIMIT {
            return Err(too_long(letters));
        }
        let (mut rest, mut sizes, mut operands) = (letters, sizes.iter(), operands);
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
                operands = self.next_values(letters, &[letter], operands)?;
                rest = behind;
                continue;
            }
            if size == SEGMENT_NOT_VARIADIC {
                return Err(wrong_segments(letters, "a span has 0xFFFF"));
            }
            let (elements, end) = split_span(behind);
            operands = self.span(letters, elements, size, &mut sizes, operands, 1)?;
            rest = end;
        }
        if sizes.next().is_some() {
            return Err(wrong_segments(letters, "there are more"));
        }
        match operands.len() {
            0 => Ok(()),
            left => Err(too_many(letters, left)),
        }
    }

    /// Checks the elements of a span; returns the operands behind them.
    #[inline(always)]
    fn span<'a>(
        &self,
        letters: &[u8],
        elements: &[u8],
        count: u16,
        sizes: &mut impl Iterator<Item = u16>,
        mut operands: RegisterList<'a>,
        depth: usize,
    ) -> Result<RegisterList<'a>> {
        if elements.contains(&b'C') {
            return self.span_of_spans(letters, elements, count, sizes, operands, depth);
        }
        for _ in 0..count {
            operands = self.next_values(letters, elements, operands)?;
        }
        Ok(operands)
    }

    /// The same where spans are among the elements: each takes a segment size of its own for each element of the outer one.
    #[inline(never)]
    fn span_of_spans<'a, S: Iterator<Item = u16>>(
        &self,
        letters: &[u8],
        elements: &[u8],
        count: u16,
        sizes: &mut S,
        mut operands: RegisterList<'a>,
        depth: usize,
    ) -> Result<RegisterList<'a>> {
        for _ in 0..count {
            let mut rest = elements;
            while let Some((&letter, behind)) = rest.split_first() {
                rest = behind;
                if letter != b'C' {
                    operands = self.next_values(letters, &[letter], operands)?;
                    continue;
                }
                let inner = match sizes.next() {
                    Some(SEGMENT_NOT_VARIADIC) => return Err(wrong_segments(letters, "a span has 0xFFFF")),
                    Some(size) => size,
                    None => return Err(wrong_segments(letters, "there are fewer")),
                };
                if depth >= SPAN_DEPTH_LIMIT {
                    return Err(too_deep(letters, depth + 1));
                }
                let (elements, end) = split_span(behind);
                operands = self.span(letters, elements, inner, &mut *sizes, operands, depth + 1)?;
                rest = end;
            }
        }
        Ok(operands)
    }

    /// Checks the next operands against the letters of some arguments; returns those behind.
    #[inline(always)]
    fn next_values<'a>(&self, letters: &[u8], next: &[u8], operands: RegisterList<'a>) -> Result<RegisterList<'a>> {
        let Some((values, rest)) = operands.split_at(next.len()) else { return Err(too_few(letters)) };
        match hold(&self.classes.read, next, values) {
            true => Ok(rest),
            false => self.bad_values("operands", next, values).map(|()| rest),
        }
    }

    /// Says what is wrong with a list of which a register is not in the class of its letter.
    #[cold]
    fn bad_values(&self, field: &'static str, letters: &[u8], list: RegisterList<'_>) -> Result<()> {
        for (&letter, register) in letters.iter().zip(list.iter()) {
            if !self.classes.read[class_of(letter)].holds(register.0) {
                self.bad_value(field, letter, register)?;
            }
        }
        match list.iter().find(|register| register.is_move()) {
            Some(register) => Err(bad_move(field, RefRegister(register.0))),
            None => Err(Error::internal("a register is not what its letter says")),
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
        Err(Error::invalid_argument("the callee takes variadic arguments, and the call has no segment sizes"))
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
    #[inline(always)]
    fn holds(self, register: u16) -> bool {
        let index = (register ^ self.flip) & self.mask;
        (index & self.clear == 0) & (index < self.limit)
    }
}

/// The classes of a function: none, 32-bit values, 64-bit values, references.
pub(super) struct Classes {
    /// For operands, whose references may be moved.
    read: [RegisterClass; 4],
    /// For results, which nothing may be moved out of.
    written: [RegisterClass; 4],
}

impl Classes {
    pub(super) fn of(i32_count: u16, ref_count: u16) -> Classes {
        let class = |flip, mask, clear, limit| RegisterClass { flip, mask, clear, limit };
        let none = RegisterClass::default();
        let value = class(0, u16::MAX, 0, i32_count);
        let pair = class(0, u16::MAX, 1, i32_count.saturating_sub(1));
        // A move bit that counts yields a number beyond any limit.
        let reference = |mask| class(REF_REGISTER_TYPE_BIT, mask, 0, ref_count);
        Classes {
            read: [none, value, pair, reference(!REF_REGISTER_MOVE_BIT)],
            written: [none, value, pair, reference(u16::MAX)],
        }
    }
}

/// Whether each register is in the class of its letter.
#[inline(always)]
fn hold(classes: &[RegisterClass; 4], letters: &[u8], list: RegisterList<'_>) -> bool {
    let pairs = letters.iter().zip(list.iter());
    pairs.fold(true, |all, (&letter, register)| all & classes[class_of(letter)].holds(register.0))
}

#[inline(always)]
fn class_of(letter: u8) -> usize {
    // The mask is for the compiler, which does not know what the table holds.
    usize::from(CLASS_OF_LETTER[usize::from(letter)] & 3)
}

/// Index into the classes of [`Classes`] by a calling convention's letter.
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
fn wrong_count(field: &'static str, what: &'static str, letters: &[u8], count: usize) -> Error {
    if letters.contains(&b'C') {
        return Error::invalid_argument("the callee takes variadic arguments, and the call has no segment sizes");
    }
    let (length, letters) = (letters.len(), letters.escape_ascii());
    Error::invalid_argument(format!("`{field}` has {count} registers; {what} are {length} (`{letters}`)"))
}

/// Spans that may lie within each other.
const SPAN_DEPTH_LIMIT: usize = 8;

/// Letters of arguments with spans. Each element of a span goes through the letters again. Those of IREE's modules have fewer
/// than 30.
const SPAN_LETTERS_LIMIT: usize = 256;

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
fn wrong_segments(letters: &[u8], why: &'static str) -> Error {
    let letters = letters.escape_ascii();
    Error::invalid_argument(format!("`segment_sizes` do not fit the callee's arguments `{letters}`: {why}"))
}

#[cold]
fn too_long(letters: &[u8]) -> Error {
    Error::unimplemented(format!(
        "the callee's arguments have {} letters, and {SPAN_LETTERS_LIMIT} are the limit of variadic ones",
        letters.len()
    ))
}

#[cold]
fn too_deep(letters: &[u8], depth: usize) -> Error {
    let letters = letters.escape_ascii();
    Error::unimplemented(format!(
        "the callee's arguments `{letters}` have spans within spans {depth} deep, and {SPAN_DEPTH_LIMIT} is the limit"
    ))
}

#[cold]
fn too_few(letters: &[u8]) -> Error {
    let letters = letters.escape_ascii();
    Error::invalid_argument(format!("`operands` has fewer registers than the callee's arguments `{letters}` take"))
}

#[cold]
fn too_many(letters: &[u8], left: usize) -> Error {
    let letters = letters.escape_ascii();
    Error::invalid_argument(format!(
        "`operands` has {left} registers more than the callee's arguments `{letters}` take"
    ))
}

#[cold]
fn not_variadic(callee: FunctionOrdinal) -> Error {
    let callee = callee.0;
    Error::invalid_argument(format!(
        "`callee` is function {callee} of this module; only imports take variadic arguments"
    ))
}
