//! What `trace`, `print` and `break` tell the world: events of the `tracing` crate.

use alloc::string::String;
use core::fmt::Write;

use super::reference::Ref;

/// A value of an event. Halves of 64-bit numbers are values of their own.
#[derive(Clone, Copy, Debug)]
pub enum Traced<'a> {
    /// A number of 32 bits, or half of one of 64.
    Word(i32),
    /// A reference.
    Ref(&'a Ref),
}

impl From<i32> for Traced<'_> {
    fn from(word: i32) -> Self {
        Traced::Word(word)
    }
}

impl<'a> From<&'a Ref> for Traced<'a> {
    fn from(reference: &'a Ref) -> Traced<'a> {
        Traced::Ref(reference)
    }
}

/// Emits the event of a `trace` (at level `TRACE`) or `print` (at level `INFO`), with its values.
pub fn event<'a>(module: &str, print: bool, name: &str, operands: impl Iterator<Item = Traced<'a>>) {
    let mut values = String::new();
    for operand in operands {
        if !values.is_empty() {
            values.push_str(", ");
        }
        // Writing to a string does not fail.
        let _ = match operand {
            Traced::Word(word) => write!(values, "{word}"),
            Traced::Ref(reference) => write!(values, "{reference:?}"),
        };
    }
    if print {
        tracing::info!(target: "vm.print", module, values, "{name}");
    } else {
        tracing::trace!(target: "vm.trace", module, values, "{name}");
    }
}

/// Emits the event of a `break` (at level `DEBUG`): there is no debugger to stop in, so execution goes on.
#[cold]
pub fn breakpoint(module: &str, function: u32) {
    tracing::debug!(target: "vm.break", module, function, "break");
}
