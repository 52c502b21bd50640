//! The tensors in signatures.

use incarnate_runtime::hal::ElementType;
use incarnate_runtime::hal::format::TensorType;
use incarnate_runtime::session::{ValueInfo, ValueType};

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

    /// Returns the type of a tensor; `None` for a value of another type.
    pub(crate) fn of(value: &ValueInfo) -> Option<DeclaredTensor> {
        match value.value_type() {
            ValueType::Tensor { element, shape } => Some(DeclaredTensor { shape: shape.clone(), element: *element }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use incarnate_runtime::bytecode::ConventionItem;
    use incarnate_runtime::session::Signature;

    #[test]
    fn only_closed_shapes_are_fixed() {
        let text = "sync func @f(%a: tensor<4x2xf32>, %b: tensor<?x2xf32>, %c: tensor<4xq9>, %d: i32) -> ()";
        let items = [ConventionItem::Ref, ConventionItem::Ref, ConventionItem::Ref, ConventionItem::I32];
        let inputs: Vec<Option<DeclaredTensor>> =
            Signature::new(Some(text), &items, &[]).inputs.iter().map(DeclaredTensor::of).collect();
        let fixed = |tensor: &Option<DeclaredTensor>| {
            tensor.as_ref().map(|tensor| tensor.fixed().map(|tensor| tensor.to_string()))
        };
        assert_eq!(
            inputs.iter().map(fixed).collect::<Vec<_>>(),
            [Some(Some("4x2xf32".to_owned())), Some(None), None, None]
        );
    }
}
