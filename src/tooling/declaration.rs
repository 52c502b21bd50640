//! Declarations: what a model says that its functions take and return, in the attribute `iree.abi.declaration`, such as
//! `sync func @f(%input0: tensor<?x4xf32>, %input1: i32) -> (%output0: tensor<4xf32>)`.

use incarnate_runtime::hal::ElementType;
use incarnate_runtime::hal::format::TensorType;

/// The type of a tensor, as far as it is known when compiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredTensor {
    /// The dimensions, outermost first; those that a call decides are unknown.
    pub(crate) shape: Vec<Option<u64>>,
    /// The type of the elements.
    pub(crate) element: ElementType,
}

impl DeclaredTensor {
    /// The type, if no dimension is open.
    pub(crate) fn fixed(&self) -> Option<TensorType> {
        let shape: Option<Vec<u64>> = self.shape.iter().copied().collect();
        Some(TensorType { shape: shape?, element: self.element })
    }

    /// Reads `?x4xf32`, which may be followed by an encoding behind a comma.
    fn parse(text: &str) -> Option<DeclaredTensor> {
        let text = text.split(',').next()?.trim();
        let (dims, element) = TensorType::split(text);
        let dims = dims.into_iter().flat_map(|dims| dims.split('x'));
        let shape: Option<Vec<Option<u64>>> =
            dims.map(|dim| if dim == "?" { Some(None) } else { dim.parse().ok().map(Some) }).collect();
        Some(DeclaredTensor { shape: shape?, element: element.parse().ok()? })
    }
}

/// The tensors among the arguments and among the results of a declaration; None for other types. Where the text is not
/// understood the lists are empty: a declaration helps, but nothing depends on it.
pub(crate) fn parse(declaration: &str) -> (Vec<Option<DeclaredTensor>>, Vec<Option<DeclaredTensor>>) {
    let sides = || {
        let (_, rest) = declaration.split_once("func @")?;
        let (arguments, rest) = side(rest)?;
        Some((arguments, side(rest).map(|(results, _)| results).unwrap_or_default()))
    };
    sides().unwrap_or_default()
}

/// Reads what stands within the next parentheses, and gives what follows them.
fn side(text: &str) -> Option<(Vec<Option<DeclaredTensor>>, &str)> {
    let (_, text) = text.split_once('(')?;
    let mut tensors = Vec::new();
    let (mut depth, mut start, mut previous) = (0usize, 0, ' ');
    for (index, c) in text.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            ',' if depth == 0 => {
                tensors.push(value(&text[start..index]));
                start = index + 1;
            }
            ')' if depth == 0 => {
                if !text[start..index].trim().is_empty() {
                    tensors.push(value(&text[start..index]));
                }
                return Some((tensors, &text[index + 1..]));
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

/// Reads `%name: tensor<4xf32> {attributes}`.
fn value(text: &str) -> Option<DeclaredTensor> {
    let (_, ty) = text.split_once("tensor<")?;
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
mod tests {
    use super::*;

    fn texts(tensors: &[Option<DeclaredTensor>]) -> Vec<String> {
        let text = |tensor: &DeclaredTensor| {
            let dims = tensor.shape.iter().map(|dim| dim.map_or("?x".to_owned(), |dim| format!("{dim}x")));
            format!("{}{}", dims.collect::<String>(), tensor.element)
        };
        tensors.iter().map(|tensor| tensor.as_ref().map_or("-".to_owned(), text)).collect()
    }

    #[test]
    fn tensors_are_found_where_they_stand() {
        for (declaration, arguments, results) in [
            (
                "sync func @normalise(%input0: tensor<?x4xf32>, %n: index) -> (%output0: tensor<i32>, %output1: index)",
                &["?x4xf32", "-"][..],
                &["i32", "-"][..],
            ),
            ("async func @f(%x: tensor<2xcomplex<f32>> {iree.abi.output = 0 : index}) -> ()", &["2xcf64"], &[]),
            ("sync func @nothing() -> ()", &[], &[]),
            (
                "sync func @f(%a: tensor<4x?xbf16, #encoding<a, b>>, %b: (i32) -> i32) -> (tensor<4xi1>)",
                &["4x?xbf16", "-"],
                &["4xi1"],
            ),
            ("nonsense", &[], &[]),
            ("sync func @f(%a: tensor<4xf32", &[], &[]),
            ("sync func @f(%a: >)", &[], &[]),
            ("sync func @f(%a: tensor<4xq9>)", &["-"], &[]),
        ] {
            let (found_arguments, found_results) = parse(declaration);
            assert_eq!(
                (texts(&found_arguments), texts(&found_results)),
                (
                    arguments.iter().map(ToString::to_string).collect(),
                    results.iter().map(ToString::to_string).collect()
                ),
                "{declaration}"
            );
        }
    }

    #[test]
    fn only_closed_shapes_are_fixed() {
        let fixed =
            |text| DeclaredTensor::parse(text).and_then(|tensor| tensor.fixed()).map(|tensor| tensor.to_string());
        assert_eq!(fixed("4x2xf32"), Some("4x2xf32".to_owned()));
        assert_eq!(fixed("?x2xf32"), None);
    }
}
