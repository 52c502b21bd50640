//! Forms that functions had in older versions of their module: each call becomes one of the newest function.

use alloc::vec::Vec;

use crate::Result;
use crate::call::{CallBuffer, missing};
use incarnate_bytecode::imports::older::{OlderForm, Source};
use incarnate_bytecode::{CallingConvention, ConventionItem};

/// An older form, and the function that implements it.
#[derive(Debug)]
pub(super) struct OlderFunction {
    pub(super) form: &'static OlderForm,
    /// The ordinal of the newest function.
    pub(super) newest: u32,
    /// The words of the newest function's call that differ, in ascending order of their indices.
    edits: Vec<(usize, Source)>,
}

impl OlderFunction {
    /// Binds a form to the newest function, of the given calling convention.
    pub(super) fn new(form: &'static OlderForm, newest: u32, convention: &CallingConvention<'_>) -> OlderFunction {
        // No span precedes an edited argument, so that each argument before it is one word, or a reference.
        let word = |position| {
            convention.arguments().take(position).filter(|argument| *argument != ConventionItem::Ref).count()
        };
        let edits = form.edits.iter().map(|edit| (word(edit.position), edit.source)).collect();
        OlderFunction { form, newest, edits }
    }

    /// Converts the arguments of this form to those of the newest function.
    ///
    /// # Errors
    /// INTERNAL if the call passes fewer words than its calling convention names.
    pub(super) fn adapt(&self, buffer: &mut CallBuffer) -> Result<()> {
        let words = buffer.words_mut();
        for &(index, source) in &self.edits {
            match source {
                Source::Constant(constant) if index <= words.len() => words.insert(index, constant),
                Source::Constant(_) => return Err(missing()),
                Source::Extended => {
                    let word = words.get_mut(index).ok_or_else(missing)?;
                    *word = u64::from(*word as u32);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use incarnate_bytecode::imports::older::Edit;

    const FORM: OlderForm = OlderForm {
        name: "f",
        convention: "0riiCrD_v",
        edits: &[
            Edit { position: 2, source: Source::Extended },
            Edit { position: 3, source: Source::Constant(u64::MAX) },
        ],
    };

    #[test]
    fn arguments_are_extended_and_inserted_before_spans() {
        let convention = CallingConvention::parse("0riIICrD_v").unwrap();
        let older = OlderFunction::new(&FORM, 0, &convention);
        let mut buffer = CallBuffer::new();
        buffer.push_words([7, u64::MAX, 2]);
        older.adapt(&mut buffer).unwrap();
        assert_eq!(buffer.words(), [7, u64::from(u32::MAX), u64::MAX, 2]);
    }

    #[test]
    fn calls_with_too_few_words_fail() {
        let convention = CallingConvention::parse("0riIICrD_v").unwrap();
        let older = OlderFunction::new(&FORM, 0, &convention);
        assert!(older.adapt(&mut CallBuffer::new()).is_err());
    }
}
