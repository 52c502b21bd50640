//! Calls: operands and results against the callee's calling convention, one register for each value.
//!
//! A 64-bit value is named by the lower register of its pair, in calls and returns; only the copies of branches name both.

use alloc::format;

use super::super::calling_convention::ConventionItem;
use super::super::instruction::{AnyRegister, FunctionOrdinal, RefRegister, Register, RegisterList, SegmentSizes};
use super::super::isa::SEGMENT_NOT_VARIADIC;
use super::FunctionVerifier;
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
        self.values("results", "the callee's results", convention.result_letters(), results)
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

    /// Checks the operands of a variadic call: an operand for each argument that is no span, and the elements of each span,
    /// of which there are as many as the argument's segment size says.
    fn variadic_operands(&self, letters: &str, sizes: SegmentSizes<'_>, operands: RegisterList<'_>) -> Result<()> {
        let (mut rest, mut sizes, mut operands) = (letters, sizes.iter(), operands.iter());
        while let Some(&letter) = rest.as_bytes().first() {
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
                rest = &rest[1..];
                continue;
            }
            if size == SEGMENT_NOT_VARIADIC {
                return Err(wrong_segments(letters, "a span has 0xFFFF"));
            }
            let Some((elements, behind)) = rest[1..].split_once('D') else {
                return Err(wrong_segments(letters, "a span does not end"));
            };
            if elements.contains('C') {
                return Err(Error::unimplemented(format!(
                    "the callee's arguments `{letters}` have a span within a span"
                )));
            }
            for _ in 0..size {
                for letter in elements.bytes() {
                    self.next_value(letters, letter, &mut operands)?;
                }
            }
            rest = behind;
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
        match ConventionItem::from_letter(letter) {
            Some(ConventionItem::I32 | ConventionItem::F32) => self.value_register(field, Register(register.0), 4),
            Some(ConventionItem::I64 | ConventionItem::F64) => self.value_register(field, Register(register.0), 8),
            Some(ConventionItem::Ref) => self.ref_register(field, RefRegister(register.0)),
            Some(ConventionItem::SpanStart | ConventionItem::SpanEnd) | None => {
                Err(Error::invalid_argument("the callee takes variadic arguments, and the call gives no segment sizes"))
            }
        }
    }
}

#[cold]
fn wrong_count(field: &'static str, what: &'static str, letters: &str, count: usize) -> Error {
    if letters.contains('C') {
        return Error::invalid_argument("the callee takes variadic arguments, and the call gives no segment sizes");
    }
    Error::invalid_argument(format!("`{field}` has {count} registers; {what} are {} (`{letters}`)", letters.len()))
}

#[cold]
fn wrong_segments(letters: &str, why: &'static str) -> Error {
    Error::invalid_argument(format!("`segment_sizes` do not fit the callee's arguments `{letters}`: {why}"))
}
