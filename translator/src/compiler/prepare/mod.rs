//! What is changed in MLIR text before it is compiled: [`names`] are added, and [`dynamic`] shapes of JAX are written so that the
//! compiler accepts them.
//!
//! Nothing here is an error: text that is not understood stays as it is, and a model whose changed text does not compile is compiled
//! unchanged.

mod assertions;
mod dynamic;
mod header;
mod label;
mod names;
mod scan;

use std::io::{self, Write};
use std::ops::Range;

use dynamic::Shapes;
use header::Function;

/// What begins a function.
const FUNCTION: &[u8] = b"func.func";
/// The version of these changes and of those of [`core_text`](super::core_text), as an input of the key of what is compiled: it changes with them.
pub(super) const PREPARATION: &str = "prepared 5";

/// A replacement of a part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    range: Range<usize>,
    text: String,
}

/// The text of a model with changes.
#[derive(Debug)]
pub(super) struct Prepared<'t> {
    text: &'t [u8],
    /// In the order of the text.
    edits: Vec<Edit>,
}

impl<'t> Prepared<'t> {
    /// Finds what is to be changed in a text; `None` if that is nothing.
    pub(super) fn of(text: &'t [u8]) -> Option<Prepared<'t>> {
        let (mut functions, mut shapes) = (Vec::new(), Shapes::default());
        // The bytes that were read ahead. Headers and operations do not overlap, so that these are no more than those of the text;
        // a text of another form is not read to its end at each of its words.
        let mut ahead = 0;
        scan::words(text, |word, mut cursor| {
            if ahead > text.len() {
                return;
            }
            let start = cursor.at();
            match word {
                FUNCTION => functions.extend(Function::parse(&mut cursor)),
                word => shapes.visit(word, &mut cursor),
            }
            ahead += cursor.at() - start;
        });
        let mut edits = shapes.into_edits();
        names::add(text, &functions, &mut edits);
        edits.sort_by_key(|edit| edit.range.start);
        (!edits.is_empty()).then_some(Prepared { text, edits })
    }

    /// Writes the text with the changes.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut start = 0;
        for edit in &self.edits {
            out.write_all(self.text.get(start..edit.range.start).unwrap_or_default())?;
            out.write_all(edit.text.as_bytes())?;
            start = edit.range.end;
        }
        out.write_all(self.text.get(start..).unwrap_or_default())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
