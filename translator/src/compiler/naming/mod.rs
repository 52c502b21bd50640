//! The names of inputs and outputs in MLIR text, which the compiler drops.
//!
//! The compiler names a value in a function's declaration by its attribute `iree.abi.name`, and `input0` and so on without it. The
//! attribute is added here to the values of public functions that have none, from the first of these that a value has:
//!
//! - `jax.arg_info` and `jax.result_info`, attributes of JAX: `result['label']`;
//! - a location that is a name, of JAX and TensorFlow: `loc("features")`;
//! - the name of an argument in the text, `%features`, unless a printer of MLIR generated it, such as `%arg0`.
//!
//! Functions with a declaration of the model's own stay as they are. Nothing here is an error: a function whose text is not
//! understood has no names.

mod header;
mod label;
mod scan;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use header::{Attributes, Value};
use label::Label;

/// The attribute that the compiler takes names from.
const NAME: &str = "iree.abi.name";

/// Text to insert into a model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Insertion {
    at: usize,
    text: String,
}

/// The text of a model with the names of its values.
#[derive(Debug)]
pub(super) struct Named<'t> {
    text: &'t [u8],
    /// In the order of the text.
    insertions: Vec<Insertion>,
}

impl<'t> Named<'t> {
    /// Finds the names in a text; `None` if there are none to add.
    pub(super) fn of(text: &'t [u8]) -> Option<Named<'t>> {
        let functions = scan::functions(text);
        let aliases = scan::aliases(text, &functions);
        let mut insertions = Vec::new();
        for function in functions.iter().filter(|function| !function.is_declared) {
            name(&function.arguments, Label::of_argument, "input", &aliases, &mut insertions);
            name(&function.results, Label::of_result, "output", &aliases, &mut insertions);
        }
        (!insertions.is_empty()).then_some(Named { text, insertions })
    }

    /// Writes the text with its names.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut start = 0;
        for insertion in &self.insertions {
            out.write_all(self.text.get(start..insertion.at).unwrap_or_default())?;
            out.write_all(insertion.text.as_bytes())?;
            start = insertion.at;
        }
        out.write_all(self.text.get(start..).unwrap_or_default())
    }
}

/// Adds the names of a function's arguments or results.
fn name(
    values: &[Value<'_>],
    label: impl Fn(&Value<'_>, &scan::Aliases<'_>) -> Label,
    generic: &str,
    aliases: &scan::Aliases<'_>,
    insertions: &mut Vec<Insertion>,
) {
    let labels: Vec<Label> = values.iter().map(|value| label(value, aliases)).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    labels.iter().filter_map(Label::source).for_each(|source| *uses.entry(source).or_default() += 1);
    // A text that several values have describes none of them.
    let describes = |label: &Label| label.source().is_none_or(|source| uses.get(source) == Some(&1));
    let labels: Vec<Label> =
        labels.iter().map(|label| if describes(label) { label.clone() } else { Label::None }).collect();
    let mut taken = HashSet::new();
    for (index, label) in labels.iter().enumerate() {
        match label {
            Label::Given(name) => taken.insert(name.clone()),
            // The compiler names these.
            Label::None => taken.insert(format!("{generic}{index}")),
            Label::Found { .. } => false,
        };
    }
    for (value, label) in values.iter().zip(labels) {
        if let Label::Found { name, .. } = label {
            insertions.push(insertion(value, &unique(&name, &mut taken)));
        }
    }
}

/// Returns a name that is not taken, and takes it: the name, or with the first number from 2 on behind it.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let mut candidate = name.to_owned();
    for number in 2.. {
        if taken.insert(candidate.clone()) {
            break;
        }
        candidate = format!("{name}_{number}");
    }
    candidate
}

fn insertion(value: &Value<'_>, name: &str) -> Insertion {
    let attribute = format!("{NAME} = \"{name}\"");
    let text = match value.attributes {
        Attributes::None => format!(" {{{attribute}}}"),
        Attributes::Empty => attribute,
        Attributes::Some => format!("{attribute}, "),
    };
    Insertion { at: value.insert_at, text }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
