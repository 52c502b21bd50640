//! The tensors in declarations, with element types that this build knows.

use incarnate_runtime::bytecode::{self, DeclaredValue};
use incarnate_runtime::hal::ElementType;
use incarnate_runtime::hal::format::TensorType;

/// The type of a tensor, as far as it is known at compile time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredTensor {
    /// The dimensions, outermost first; dynamic ones are None.
    pub(crate) shape: Vec<Option<u64>>,
    /// The type of the elements.
    pub(crate) element: ElementType,
}

impl DeclaredTensor {
    /// Returns the type if no dimension is dynamic.
    pub(crate) fn fixed(&self) -> Option<TensorType> {
        let shape: Option<Vec<u64>> = self.shape.iter().copied().collect();
        Some(TensorType { shape: shape?, element: self.element })
    }

    fn of(value: &DeclaredValue<'_>) -> Option<DeclaredTensor> {
        let tensor = value.tensor.as_ref()?;
        Some(DeclaredTensor { shape: tensor.shape.clone(), element: tensor.element.parse().ok()? })
    }
}

/// Parses the tensors among the arguments and among the results of a declaration; None for other types. Unknown syntax
/// yields empty lists: declarations are only hints.
pub(crate) fn parse(declaration: &str) -> (Vec<Option<DeclaredTensor>>, Vec<Option<DeclaredTensor>>) {
    let Some(parsed) = bytecode::Declaration::parse(declaration) else { return Default::default() };
    let tensors = |values: &[DeclaredValue<'_>]| values.iter().map(DeclaredTensor::of).collect();
    (tensors(&parsed.arguments), tensors(&parsed.results))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_closed_shapes_are_fixed() {
        let text = "sync func @f(%a: tensor<4x2xf32>, %b: tensor<?x2xf32>, %c: tensor<4xq9>, %d: i32) -> ()";
        let (arguments, results) = parse(text);
        let fixed = |index: usize| {
            let tensor: &Option<DeclaredTensor> = &arguments[index];
            tensor.as_ref().map(|tensor| tensor.fixed().map(|tensor| tensor.to_string()))
        };
        assert_eq!((0..4).map(fixed).collect::<Vec<_>>(), [Some(Some("4x2xf32".to_owned())), Some(None), None, None]);
        assert_eq!(results, []);
        assert_eq!(parse("nonsense"), (vec![], vec![]));
    }
}
