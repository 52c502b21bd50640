//! The names of inputs and outputs, which the compiler drops.
//!
//! The compiler names a value in a function's declaration by its attribute `iree.abi.name`, and `input0` and so on without it. The
//! attribute is added here to the values of public functions that have none, from the first of these that a value has:
//!
//! - `jax.arg_info` and `jax.result_info`, attributes of JAX: `result['label']`;
//! - a location that is a name, of JAX and TensorFlow: `loc("features")`;
//! - the name of an argument in the text, `%features`, unless a printer of MLIR generated it, such as `%arg0`.
//!
//! `jax.export` wraps a function with dynamic shapes in another one, whose arguments have the names of those of the wrapped one.
//! Functions with a declaration of the model's own stay as they are.

use std::collections::{HashMap, HashSet};

use super::Edit;
use super::header::{Attributes, Function, NAME, Value};
use super::label::Label;
use super::scan;

/// What `jax.export` puts before the name of a function that it wraps.
const WRAPPED: &[u8] = b"_wrapped_jax_export_";

/// Adds the names of a text's functions.
pub(super) fn add(text: &[u8], functions: &[Function<'_>], edits: &mut Vec<Edit>) {
    let aliases = scan::aliases(text, functions);
    let wrapped_functions: HashMap<&[u8], &Function<'_>> =
        functions.iter().filter_map(|function| Some((function.name.strip_prefix(WRAPPED)?, function))).collect();
    for function in functions.iter().filter(|function| function.is_public && !function.is_declared) {
        let wrapped = wrapped_functions.get(function.name).map_or_else(Vec::new, |other| wrapped(function, other));
        let argument = |index: usize, value: &Value<'_>| match Label::of_argument(value, &aliases) {
            Label::None => wrapped.get(index).map_or(Label::None, |value| Label::of_argument(value, &aliases)),
            label => label,
        };
        name(&function.arguments, argument, "input", edits);
        name(&function.results, |_, value| Label::of_result(value, &aliases), "output", edits);
    }
}

/// Returns the arguments of a function that `jax.export` has wrapped in another one, one for each argument of the latter, which passes
/// extents before them; none if their numbers differ.
fn wrapped<'f, 't>(function: &Function<'t>, inner: &'f Function<'t>) -> Vec<&'f Value<'t>> {
    let arguments: Vec<&Value<'t>> = inner.arguments.iter().filter(|value| !value.is_dimension).collect();
    if arguments.len() == function.arguments.len() { arguments } else { Vec::new() }
}

/// Adds the names of a function's arguments or results.
fn name(values: &[Value<'_>], label: impl Fn(usize, &Value<'_>) -> Label, generic: &str, edits: &mut Vec<Edit>) {
    let labels: Vec<Label> = values.iter().enumerate().map(|(index, value)| label(index, value)).collect();
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
            edits.push(edit(value, &unique(&name, &mut taken)));
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

fn edit(value: &Value<'_>, name: &str) -> Edit {
    let attribute = format!("{NAME} = \"{name}\"");
    let text = match value.attributes {
        Attributes::None => format!(" {{{attribute}}}"),
        Attributes::Empty => attribute,
        Attributes::Some => format!("{attribute}, "),
    };
    Edit { range: value.insert_at..value.insert_at, text }
}
