//! Signatures: the names and types of what a function takes and returns.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::declaration::{
    BUFFER_VIEW, Declaration, DeclaredValue, declaration_of, has_replaceable_floats, without_fences, write_tensor,
};
use crate::declared_name::{QuotedName, unique};
use crate::index_map::IndexMap;
use crate::{ConventionItem, ElementType, Module};

/// The names and types of what a function takes and returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The inputs, without the fences of the asynchronous model.
    pub inputs: Vec<ValueInfo>,
    /// The outputs.
    pub outputs: Vec<ValueInfo>,
}

/// The name and type of an input or an output of a function. Its text is that of a declaration, such as
/// `image: tensor<?x3x224x224xf32>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    name: String,
    value_type: ValueType,
    output: Option<usize>,
}

/// The type of an input or an output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueType {
    /// An `i32` that is 0 or 1.
    Bool,
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// A buffer view of elements of one type.
    Tensor {
        /// The type of the elements.
        element: ElementType,
        /// The extents, outermost first; `None` for those that are only known when the function is called.
        shape: Vec<Option<u64>>,
    },
    /// A buffer view of an unknown type.
    BufferView,
    /// Another reference, with the text of its type, such as `!hal.buffer` or `!vm.list<i32>`; `!vm.ref<?>` if the type is
    /// unknown.
    Reference(String),
}

/// Says that a function takes another number of arguments than it was given.
#[must_use]
pub fn wrong_argument_count(taken: usize, given: usize) -> String {
    let arguments = match taken {
        0 => "no arguments".to_owned(),
        1 => "1 argument".to_owned(),
        taken => format!("{taken} arguments"),
    };
    let verb = if given == 1 { "was" } else { "were" };
    format!("the function takes {arguments}, but {given} {verb} given")
}

impl Signature {
    /// Creates the signature of a function from the text of its declaration and its calling convention without fences. A
    /// declaration that contradicts the calling convention does not count.
    #[must_use]
    pub fn new(declaration: Option<&str>, arguments: &[ConventionItem], results: &[ConventionItem]) -> Signature {
        let parsed = declaration.and_then(Declaration::parse).filter(|parsed| parsed.agrees_with(arguments, results));
        let parsed = parsed.unwrap_or(Declaration { arguments: Vec::new(), results: Vec::new() });
        let all = |items: &[ConventionItem], declared: &[DeclaredValue<'_>], generic: &str| {
            let name = |index: usize| declared.get(index).map_or_else(String::new, |value| value.name.as_ref().into());
            let names = unique((0..items.len()).map(name).collect(), generic);
            let rows = items.iter().zip(names).enumerate();
            rows.map(|(index, (item, name))| ValueInfo::new(*item, declared.get(index), name)).collect()
        };
        Signature {
            inputs: all(arguments, &parsed.arguments, "input"),
            outputs: all(results, &parsed.results, "output"),
        }
    }

    /// Returns the signature of a function of a module; `recovered` is what
    /// [`recovered_declarations`](crate::recovered_declarations) returns for the module. `None` for an unknown ordinal.
    #[must_use]
    pub fn of(module: &Module, recovered: &IndexMap<u32, String>, function: u32) -> Option<Signature> {
        let (arguments, results, _) = convention(module, function)?;
        let declaration = recovered.get(function).map(String::as_str).or_else(|| Signature::declared(module, function));
        Some(Signature::new(declaration, &arguments, &results))
    }

    /// Returns the text of a function's declaration, if the module has one that agrees with the calling convention.
    #[must_use]
    pub fn declared(module: &Module, function: u32) -> Option<&str> {
        let (arguments, results, _) = convention(module, function)?;
        let text = declaration_of(module.function_attributes(function), &module.function(function)?.convention)?;
        Declaration::parse(text)?.agrees_with(&arguments, &results).then_some(text)
    }

    /// Returns the text of a function's declaration if it has one that is taken as it is, without a look at the function's code; see
    /// [`recovered_declarations`](crate::recovered_declarations).
    #[must_use]
    pub fn certain(module: &Module, function: u32) -> Option<&str> {
        Signature::declared(module, function).filter(|text| !has_replaceable_floats(text))
    }
}

/// Returns the items of a function's calling convention without the fences of the asynchronous model, and whether it has them.
pub(crate) fn convention(module: &Module, function: u32) -> Option<(Vec<ConventionItem>, Vec<ConventionItem>, bool)> {
    let convention = module.function(function)?.convention;
    Some(without_fences(module.function_attributes(function), &convention))
}

impl ValueInfo {
    fn new(item: ConventionItem, declared: Option<&DeclaredValue<'_>>, name: String) -> ValueInfo {
        let output = declared.and_then(|value| value.output).filter(|_| item == ConventionItem::Ref);
        ValueInfo { name, value_type: ValueType::new(item, declared), output }
    }

    /// Returns the name that the model gives the value; `input0`, `output0` and so on if it gives none, or the same as to an earlier
    /// value. No other input or output of the function has it. [`find_value`](crate::find_value) finds a value by the text of a user.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type.
    #[must_use]
    pub fn value_type(&self) -> &ValueType {
        &self.value_type
    }

    /// Returns the type of the elements of a tensor.
    #[must_use]
    pub fn element_type(&self) -> Option<ElementType> {
        match &self.value_type {
            ValueType::Tensor { element, .. } => Some(*element),
            _ => None,
        }
    }

    /// Returns the extents of a tensor, outermost first; `None` for those that are only known when the function is called.
    #[must_use]
    pub fn shape(&self) -> Option<&[Option<u64>]> {
        match &self.value_type {
            ValueType::Tensor { shape, .. } => Some(shape),
            _ => None,
        }
    }

    /// Returns the index of the output that the function stores in the memory that is passed as this input.
    #[must_use]
    pub fn stored_output(&self) -> Option<usize> {
        self.output
    }
}

impl ValueType {
    /// Returns true for a reference whose type the module does not say.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, ValueType::Reference(text) if text == UNKNOWN)
    }

    fn new(item: ConventionItem, declared: Option<&DeclaredValue<'_>>) -> ValueType {
        match (item, declared) {
            (ConventionItem::I32, Some(value)) if value.ty == "i1" => ValueType::Bool,
            (ConventionItem::I32, _) => ValueType::I32,
            (ConventionItem::I64, _) => ValueType::I64,
            (ConventionItem::F32, _) => ValueType::F32,
            (ConventionItem::F64, _) => ValueType::F64,
            (_, Some(DeclaredValue { tensor: Some(tensor), .. })) => match tensor.element.parse() {
                Ok(element) => ValueType::Tensor { element, shape: tensor.shape.clone() },
                Err(_) => ValueType::BufferView,
            },
            // Malformed shapes, too.
            (_, Some(value)) if value.ty == BUFFER_VIEW || value.ty.starts_with("tensor<") => ValueType::BufferView,
            (_, Some(value)) => ValueType::Reference(value.ty.into()),
            (_, None) => ValueType::Reference(UNKNOWN.into()),
        }
    }
}

/// The text of a reference of an unknown type.
pub(crate) const UNKNOWN: &str = "!vm.ref<?>";

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::Bool => "i1",
            ValueType::I32 => "i32",
            ValueType::I64 => "i64",
            ValueType::F32 => "f32",
            ValueType::F64 => "f64",
            ValueType::Tensor { element, shape } => return write_tensor(f, *element, shape.iter().copied()),
            ValueType::BufferView => BUFFER_VIEW,
            ValueType::Reference(text) => text,
        })
    }
}

impl fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", QuotedName(&self.name), self.value_type)
    }
}

impl fmt::Display for Signature {
    /// Formats the values as `(x: tensor<4xf32>) -> (y: tensor<4xf32>)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[ValueInfo]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "({}) -> ({})", list(&self.inputs), list(&self.outputs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_count_where_they_agree_with_the_convention() {
        use ConventionItem::{I32, I64, Ref};
        let text = "sync func @f(%x: tensor<?x2xcomplex<f32>>, %p: i1, %n: index, %b: !hal.buffer {iree.abi.output = 0 : \
                    index}, %v: !hal.buffer_view, %odd: tensor<4xq9>) -> (tensor<i64>)";
        let arguments = [Ref, I32, I64, Ref, Ref, Ref];
        let signature = Signature::new(Some(text), &arguments, &[Ref]);
        assert_eq!(
            signature.to_string(),
            "(x: tensor<?x2xcomplex<f32>>, p: i1, n: i64, b: !hal.buffer, v: !hal.buffer_view, odd: !hal.buffer_view) -> \
             (output0: tensor<i64>)"
        );
        assert_eq!(signature.inputs[0].shape(), Some(&[None, Some(2)][..]));
        assert_eq!(signature.inputs[0].element_type(), Some(ElementType::COMPLEX_FLOAT_64));
        assert_eq!((signature.inputs[3].stored_output(), signature.inputs[4].stored_output()), (Some(0), None));
        let other = Signature::new(Some(text), &[I32, Ref], &[]);
        assert_eq!(other.to_string(), "(input0: i32, input1: !vm.ref<?>) -> ()");
        assert_eq!(Signature::new(None, &[], &[I64]).to_string(), "() -> (output0: i64)");
    }
}
