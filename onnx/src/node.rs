//! A node with its inputs and attributes, as a lowering sees it.

use std::collections::HashMap;

use incarnate_bytecode::{Error, Result};

use crate::data_type::DataType;
use crate::proto;
use crate::tensor::{Item, Tensor};

/// A node whose inputs are known.
#[derive(Debug)]
pub(crate) struct Node<'m> {
    pub(crate) proto: &'m proto::Node,
    /// The name, or the operator and the first output.
    pub(crate) name: String,
    pub(crate) inputs: Vec<Option<Item>>,
    /// The attributes; references to those of a function are resolved.
    pub(crate) attributes: HashMap<&'m str, &'m proto::Attribute>,
}

/// The outputs of a node, by position.
pub(crate) type Outputs = Vec<Item>;

/// Returns the only output of a node.
pub(crate) fn one(tensor: Tensor) -> Result<Outputs> {
    Ok(vec![Item::Tensor(tensor)])
}

/// An error about what is not supported.
pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::unimplemented(what.into()))
}

/// An error about what the model says.
pub(crate) fn invalid<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::invalid_argument(what.into()))
}

impl<'m> Node<'m> {
    /// Returns an input that must be there.
    pub(crate) fn input(&self, index: usize) -> Result<&Tensor> {
        match self.optional(index)? {
            Some(tensor) => Ok(tensor),
            None => invalid(format!("there is no input {index}")),
        }
    }

    /// Returns an input that may be left out.
    pub(crate) fn optional(&self, index: usize) -> Result<Option<&Tensor>> {
        match self.inputs.get(index) {
            Some(Some(Item::Tensor(tensor))) => Ok(Some(tensor)),
            Some(Some(Item::Sequence(..))) => invalid(format!("the input {index} is a sequence")),
            Some(Some(Item::Nothing | Item::Unknown) | None) | None => Ok(None),
        }
    }

    /// Returns all inputs, which must be tensors.
    pub(crate) fn all_inputs(&self) -> Result<Vec<&Tensor>> {
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// Returns the number of outputs; those at the end may be left out.
    pub(crate) fn output_count(&self) -> usize {
        self.proto.output.len()
    }

    /// Returns true if an output is used.
    pub(crate) fn has_output(&self, index: usize) -> bool {
        self.proto.output.get(index).is_some_and(|name| !name.is_empty())
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'m proto::Attribute> {
        self.attributes.get(name).copied()
    }

    /// Returns an integer attribute.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).map(|attribute| attribute.i)
    }

    /// Returns an integer attribute, or its default.
    pub(crate) fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int(name).unwrap_or(default)
    }

    /// Returns true for an integer attribute that is not 0.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.int_or(name, 0) != 0
    }

    /// Returns a float attribute.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        self.attribute(name).map(|attribute| f64::from(attribute.f))
    }

    /// Returns a float attribute, or its default.
    pub(crate) fn float_or(&self, name: &str, default: f32) -> f64 {
        self.float(name).unwrap_or(f64::from(default))
    }

    /// Returns an attribute of several integers.
    pub(crate) fn ints(&self, name: &str) -> Option<&'m [i64]> {
        self.attribute(name).map(|attribute| &*attribute.ints)
    }

    /// Returns an attribute of several floats.
    pub(crate) fn floats(&self, name: &str) -> Option<&'m [f32]> {
        self.attribute(name).map(|attribute| &*attribute.floats)
    }

    /// Returns a text attribute.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'m str>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        match core::str::from_utf8(&attribute.s) {
            Ok(text) => Ok(Some(text)),
            Err(_) => invalid(format!("the attribute `{name}` is not UTF-8")),
        }
    }

    /// Returns a text attribute, or its default.
    pub(crate) fn text_or(&self, name: &str, default: &'static str) -> Result<&'m str> {
        Ok(self.text(name)?.unwrap_or(default))
    }

    /// Returns an attribute of several texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&'m str>>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        let texts = attribute.strings.iter().map(|text| core::str::from_utf8(text));
        match texts.collect() {
            Ok(texts) => Ok(Some(texts)),
            Err(_) => invalid(format!("the attribute `{name}` is not UTF-8")),
        }
    }

    /// Returns a graph attribute that must be there.
    pub(crate) fn graph(&self, name: &str) -> Result<&'m proto::Graph> {
        match self.attribute(name).and_then(|attribute| attribute.g.as_ref()) {
            Some(graph) => Ok(graph),
            None => invalid(format!("there is no graph `{name}`")),
        }
    }

    /// Returns an element type that an attribute names.
    pub(crate) fn data_type(&self, name: &str) -> Result<Option<DataType>> {
        match self.int(name) {
            None => Ok(None),
            Some(code) => data_type(code).map(Some),
        }
    }

    /// Returns a type of floats that an attribute names.
    pub(crate) fn float_type(&self, name: &str) -> Result<Option<DataType>> {
        match self.data_type(name)? {
            Some(ty) if !ty.is_float() => {
                invalid(format!("the attribute `{name}` names {}, which is no type of floats", ty.name()))
            }
            named => Ok(named),
        }
    }

    /// Returns an axis of a tensor from an attribute; negative ones count from the end.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize> {
        axis(self.int_or(name, default), rank)
    }
}

/// Returns the type of a number in `TensorProto.DataType`.
pub(crate) fn data_type(code: i64) -> Result<DataType> {
    match i32::try_from(code).ok().and_then(DataType::of_code) {
        Some(ty) => Ok(ty),
        None if code == 8 => unsupported("strings are not supported"),
        None => unsupported(format!("the element type {code} is not supported")),
    }
}

/// Returns the index of an axis; negative ones count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    match usize::try_from(if axis < 0 { axis.saturating_add(signed) } else { axis }) {
        Ok(index) if index < rank => Ok(index),
        _ => invalid(format!("the axis {axis} is not one of a tensor of rank {rank}")),
    }
}

/// Returns axes in the order given, each of which occurs once.
pub(crate) fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>> {
    let axes: Vec<usize> = list.iter().map(|each| axis(*each, rank)).collect::<Result<_>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair.first() == pair.last()) {
        return invalid(format!("the axes {list:?} name one twice"));
    }
    Ok(axes)
}
