//! Declarations: what a model says that its functions take and return, in the attribute `iree.abi.declaration`, such as
//! `sync func @f(%input0: tensor<?x4xf32>, %input1: i32) -> (%output0: tensor<4xf32>)`.
//!
//! They are text for people, which the compiler writes in one form; nothing depends on them for safety.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use crate::declared_name::{end_of_quoted, generic_name, unquote};
use crate::{CallingConvention, ConventionItem, ElementType};

/// Attribute of a function: its declaration.
pub const DECLARATION: &str = "iree.abi.declaration";
/// Attribute of a function: how it synchronises with its caller.
pub const INVOCATION_MODEL: &str = "iree.abi.model";
/// Value of [`INVOCATION_MODEL`]: the last two arguments are a fence to wait for and one to signal.
pub const COARSE_FENCES: &str = "coarse-fences";
/// The type of buffer views in a declaration.
pub(crate) const BUFFER_VIEW: &str = "!hal.buffer_view";
/// Attribute of an argument in a declaration: the result of this index is stored in the memory that is passed.
pub(crate) const OUTPUT: &str = "iree.abi.output";

/// What a function takes and returns, in the words of its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// The arguments, without fences.
    pub arguments: Vec<DeclaredValue<'a>>,
    /// The results.
    pub results: Vec<DeclaredValue<'a>>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredValue<'a> {
    /// The name, without `%` and quotes; empty where it has none. The compiler calls those that the model does not name `input0`,
    /// `output0` and so on.
    pub name: Cow<'a, str>,
    /// The type as it is written, such as `tensor<4xf32>`, `index` or `!hal.buffer`.
    pub ty: &'a str,
    /// The type, if it is a tensor's.
    pub tensor: Option<DeclaredTensor<'a>>,
    /// For an argument: the index of the result that is stored in the memory that is passed here.
    pub output: Option<usize>,
}

/// The type of a tensor, as far as it is known when compiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTensor<'a> {
    /// The dimensions, outermost first; those that a call decides are unknown.
    pub shape: Vec<Option<u64>>,
    /// The type of the elements as it is written, such as `f32` or `complex<f32>`.
    pub element: &'a str,
}

/// Returns true if the attributes of a function say that its last two arguments are fences. Of several rows with the key the first counts,
/// as in IREE.
pub fn has_coarse_fences<'a>(attributes: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    let mut models = attributes.into_iter().filter(|(key, _)| *key == INVOCATION_MODEL).map(|(_, model)| model);
    models.next() == Some(COARSE_FENCES)
}

/// Returns the items of a function's calling convention without the fences that its attributes name, and whether it takes fences.
pub(crate) fn without_fences<'a>(
    attributes: impl IntoIterator<Item = (&'a str, &'a str)>,
    convention: &CallingConvention<'_>,
) -> (Vec<ConventionItem>, Vec<ConventionItem>, bool) {
    let mut arguments: Vec<ConventionItem> = convention.arguments().collect();
    let fences = arguments.ends_with(&[ConventionItem::Ref; 2]) && has_coarse_fences(attributes);
    if fences {
        arguments.truncate(arguments.len() - 2);
    }
    (arguments, convention.results().collect(), fences)
}

/// Returns the declaration among the attributes of a function.
///
/// A function may have two: compilers write one for each, and keep one that the model declares in `iree.reflection`, in an order that
/// depends on the other attributes. A declaration that agrees with the calling convention counts before all others. Among these, the
/// declaration of the model counts: the last one with names that compilers do not generate, or else the last one.
pub fn declaration_of<'a>(
    attributes: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    convention: &CallingConvention<'_>,
) -> Option<&'a str> {
    let (arguments, results, _) = without_fences(attributes.clone(), convention);
    let all = attributes.into_iter().filter(|(key, _)| *key == DECLARATION).map(|(_, text)| text);
    // Of several greatest, this is the last.
    all.max_by_key(|text| {
        Declaration::parse(text).map(|parsed| (parsed.agrees_with(&arguments, &results), parsed.has_names()))
    })
}

/// Returns true if a declaration names a type of floats that the compiler's input passes replace by another one. Only such
/// replacements are looked for, so that the code of other functions need not be read to know the types.
pub(crate) fn has_replaceable_floats(declaration: &str) -> bool {
    ["f64", "f16"].iter().any(|name| declaration.contains(name))
}

impl<'a> Declaration<'a> {
    /// Returns true if a value has a name that compilers do not generate.
    fn has_names(&self) -> bool {
        let has = |values: &[DeclaredValue<'_>], kind: &str| {
            values.iter().enumerate().any(|(index, value)| !["", &generic_name(kind, index)].contains(&&*value.name))
        };
        has(&self.arguments, "input") || has(&self.results, "output")
    }

    /// Reads a declaration; None for text of another form.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Declaration<'a>> {
        let (_, rest) = text.split_once("func @")?;
        let (arguments, rest) = side(rest)?;
        Some(Declaration { arguments, results: side(rest).map(|(results, _)| results).unwrap_or_default() })
    }

    /// Returns true if the declaration has as many values as a calling convention, and references where that has some.
    #[must_use]
    pub fn agrees_with(&self, arguments: &[ConventionItem], results: &[ConventionItem]) -> bool {
        let agree = |declared: &[DeclaredValue<'_>], items: &[ConventionItem]| {
            let is_ref = |value: &DeclaredValue<'_>| value.tensor.is_some() || value.ty.starts_with('!');
            let mut pairs = declared.iter().zip(items);
            declared.len() == items.len() && pairs.all(|(value, item)| is_ref(value) == (*item == ConventionItem::Ref))
        };
        agree(&self.arguments, arguments) && agree(&self.results, results)
    }
}

impl<'a> DeclaredTensor<'a> {
    /// Reads `?x4xf32`, which may be followed by an encoding behind a comma.
    fn parse(text: &'a str) -> Option<DeclaredTensor<'a>> {
        let text = text.split(',').next()?.trim();
        let (dims, element) = split_tensor_type(text);
        let dims = dims.into_iter().flat_map(|dims| dims.split('x'));
        let shape: Option<Vec<Option<u64>>> =
            dims.map(|dim| if dim == "?" { Some(None) } else { dim.parse().ok().map(Some) }).collect();
        Some(DeclaredTensor { shape: shape?, element })
    }
}

/// Divides the text of a tensor's type into the dimensions, if there are any, and the element type: `2x2` and `f32`.
#[must_use]
pub fn split_tensor_type(text: &str) -> (Option<&str>, &str) {
    // The name of a complex type has an x of its own.
    match text.find("complex<") {
        Some(at) => {
            let (dims, element) = text.split_at(at);
            (dims.strip_suffix('x'), element)
        }
        None => text.rsplit_once('x').map_or((None, text), |(dims, element)| (Some(dims), element)),
    }
}

/// Formats a tensor's type as declarations have it: `tensor<?x3xf32>`, `tensor<2xcomplex<f32>>`.
pub(crate) fn write_tensor(
    f: &mut impl fmt::Write,
    element: ElementType,
    shape: impl IntoIterator<Item = Option<u64>>,
) -> fmt::Result {
    f.write_str("tensor<")?;
    for dim in shape {
        match dim {
            Some(dim) => write!(f, "{dim}x")?,
            None => f.write_str("?x")?,
        }
    }
    match element {
        ElementType::COMPLEX_FLOAT_64 => f.write_str("complex<f32>>"),
        ElementType::COMPLEX_FLOAT_128 => f.write_str("complex<f64>>"),
        element => write!(f, "{element}>"),
    }
}

/// Returns the text within the next parentheses, and the rest.
fn side(text: &str) -> Option<(Vec<DeclaredValue<'_>>, &str)> {
    let (_, text) = text.split_once('(')?;
    let mut values = Vec::new();
    let (mut depth, mut start, mut previous, mut quoted) = (0usize, 0, ' ', 0);
    for (index, c) in text.char_indices() {
        if index < quoted {
            continue;
        }
        match c {
            // Nothing in quotes separates values.
            '"' => quoted = index + 1 + end_of_quoted(text.get(index + 1..)?)? + 1,
            '(' | '<' | '[' | '{' => depth += 1,
            ',' if depth == 0 => {
                values.push(value(&text[start..index])?);
                start = index + 1;
            }
            ')' if depth == 0 => {
                if !text[start..index].trim().is_empty() {
                    values.push(value(&text[start..index])?);
                }
                return Some((values, &text[index + 1..]));
            }
            // The head of an arrow closes nothing.
            '>' if previous == '-' => {}
            ')' | '>' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        previous = c;
    }
    None
}

/// Reads `%name: tensor<4xf32> {attributes}`; the name may be quoted, as [`QuotedName`](crate::QuotedName) writes it.
fn value(text: &str) -> Option<DeclaredValue<'_>> {
    let (name, rest) = match text.trim().strip_prefix('%') {
        Some(named) => match named.strip_prefix('"') {
            Some(quoted) => {
                let (name, rest) = unquote(quoted)?;
                (name, rest.trim_start().strip_prefix(':')?.trim())
            }
            None => named
                .split_once(':')
                .map_or((Cow::Borrowed(""), text.trim()), |(name, rest)| (name.trim().into(), rest.trim())),
        },
        None => (Cow::Borrowed(""), text.trim()),
    };
    let (ty, attributes) = rest.split_once(" {").unwrap_or((rest, ""));
    let output = attributes.split_once(OUTPUT).and_then(|(_, rest)| {
        let digits = rest.trim_start().strip_prefix('=')?.trim_start();
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    // An encoding within the type may have braces, too.
    Some(DeclaredValue { name, ty: ty.trim(), tensor: tensor(rest), output })
}

/// Reads `tensor<4xf32>` and ignores what follows.
fn tensor(text: &str) -> Option<DeclaredTensor<'_>> {
    let ty = text.strip_prefix("tensor<")?;
    let mut depth = 1usize;
    for (index, c) in ty.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return DeclaredTensor::parse(&ty[..index]);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::{format, vec};

    fn texts(values: &[DeclaredValue<'_>]) -> Vec<String> {
        let text = |value: &DeclaredValue<'_>| match &value.tensor {
            None => format!("{}:{}", value.name, value.ty),
            Some(tensor) => {
                let dims = tensor.shape.iter().map(|dim| dim.map_or("?x".into(), |dim| format!("{dim}x")));
                format!("{}:{}{}", value.name, dims.collect::<String>(), tensor.element)
            }
        };
        values.iter().map(text).collect()
    }

    #[test]
    fn values_are_found_where_they_stand() {
        for (declaration, arguments, results) in [
            (
                "sync func @normalise(%input0: tensor<?x4xf32>, %n: index) -> (%output0: tensor<i32>, %output1: index)",
                &["input0:?x4xf32", "n:index"][..],
                &["output0:i32", "output1:index"][..],
            ),
            ("async func @f(%x: tensor<2xcomplex<f32>> {iree.abi.consume = unit}) -> ()", &["x:2xcomplex<f32>"], &[]),
            ("sync func @nothing() -> ()", &[], &[]),
            (
                "sync func @f(%x: i32 {jax.info = \"x['a)'], \\\"\"}, %y: i32) -> (%r: i32 {jax.info = \"(\"}, i32)",
                &["x:i32", "y:i32"],
                &["r:i32", ":i32"],
            ),
            (
                "sync func @f(%a: tensor<4x?xbf16, #encoding<a, b>>, %b: (i32) -> i32) -> (tensor<4xi1>)",
                &["a:4x?xbf16", "b:(i32) -> i32"],
                &[":4xi1"],
            ),
        ] {
            let parsed = Declaration::parse(declaration).unwrap();
            assert_eq!((texts(&parsed.arguments), texts(&parsed.results)), (strings(arguments), strings(results)));
        }
        for declaration in ["nonsense", "sync func @f(%a: tensor<4xf32", "sync func @f(%a: >)", ""] {
            assert_eq!(Declaration::parse(declaration), None, "{declaration}");
        }
        // A name of the text `i32x4` that is no shape is no tensor.
        let parsed = Declaration::parse("sync func @f(%a: tensor<ax4>)").unwrap();
        assert_eq!(parsed.arguments[0].tensor, None);
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).into()).collect()
    }

    #[test]
    fn declarations_of_models_count_before_those_of_compilers() {
        let (compiler, model, other) = (
            "sync func @f(%input0: i32, %input1: i32) -> (%output0: i32)",
            "sync func @f(%input0: i32, %scale: i32) -> (%output0: i32)",
            "sync func @f(%input0: i32, i32) -> (i32)",
        );
        let convention = CallingConvention::parse("0ii_i").unwrap();
        let short = "sync func @f(%scale: i32) -> (i32)";
        for (texts, wanted) in [
            (&[short, compiler][..], Some(compiler)),
            (&[compiler, short], Some(compiler)),
            (&[short], Some(short)),
            (&[compiler, model][..], Some(model)),
            (&[model, compiler], Some(model)),
            (&["nonsense", compiler], Some(compiler)),
            (&[compiler, other], Some(other)),
            (&[], None),
        ] {
            let rows = texts.iter().flat_map(|text| [("iree.abi.model", "x"), (DECLARATION, *text)]);
            assert_eq!(declaration_of(rows, &convention), wanted);
        }
    }

    #[test]
    fn the_first_model_of_invocation_counts() {
        let [other, fenced] = ["x", COARSE_FENCES].map(|model| (INVOCATION_MODEL, model));
        let convention = CallingConvention::parse("0irr_i").unwrap();
        for (rows, expected) in [(&[fenced, other][..], true), (&[other, fenced], false), (&[], false)] {
            let rows = || rows.iter().copied();
            assert_eq!(has_coarse_fences(rows()), expected);
            let (arguments, _, fences) = without_fences(rows(), &convention);
            assert_eq!((arguments.len(), fences), (if expected { 1 } else { 3 }, expected));
        }
    }

    #[test]
    fn storage_of_results_is_found() {
        let text =
            "sync func @f(%a: tensor<4xf32>, %o: !hal.buffer {iree.abi.output = 1 : index}) -> (%r: tensor<4xf32>)";
        let parsed = Declaration::parse(text).unwrap();
        assert_eq!(parsed.arguments.iter().map(|value| value.output).collect::<Vec<_>>(), vec![None, Some(1)]);
        assert_eq!(parsed.arguments[1].ty, "!hal.buffer");
    }
}
