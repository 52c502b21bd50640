//! Tensors of a file as parameters of the module.

use std::collections::HashSet;

use incarnate_bytecode::{Error, Result};
use incarnate_mlir::{Builder, Element, Extent, Type, Value};

use super::activations::Activations;
use super::blocks::{Block, Format, LANES};
use super::checkpoint::{Checkpoint, ExpertOrder, Stored};
use super::config::Config;
use super::half::float_of_bits;
use crate::{ElementType, SCOPE, shown};

/// The tensors of a model, and which of them a module has as parameters.
pub(super) struct Parameters<'a> {
    checkpoint: &'a Checkpoint,
    pub(super) config: &'a Config,
    declared: HashSet<String>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, config: &'a Config) -> Parameters<'a> {
        Parameters { checkpoint, config, declared: HashSet::new() }
    }

    /// Whether the model has a tensor, or a vector that its metadata states.
    pub(super) fn has(&self, name: &str) -> bool {
        self.checkpoint.tensor(name).is_some() || self.checkpoint.vector(name).is_some()
    }

    /// Returns the order of the experts of a layer, where they are stored one by one.
    pub(super) fn expert_order(&self, layer: &str) -> Option<&'a ExpertOrder> {
        self.checkpoint.expert_order(layer)
    }

    /// Checks that the model has a tensor.
    pub(super) fn require(&self, name: &str) -> Result<()> {
        if self.has(name) { Ok(()) } else { Err(self.missing(name)) }
    }

    /// States that the module needs no tensor of this name.
    pub(super) fn ignore(&mut self, name: &str) {
        self.declared.insert(name.to_owned());
    }

    /// Returns a tensor whose shape must be this one; `None` if the file has none of this name.
    fn optional(&mut self, name: &str, shape: &[i64]) -> Result<Option<&'a Stored>> {
        let Some(tensor) = self.checkpoint.tensor(name) else { return Ok(None) };
        self.declared.insert(name.to_owned());
        if has_shape(tensor, shape) { Ok(Some(tensor)) } else { Err(wrong_shape(tensor, shape)) }
    }

    fn missing(&self, name: &str) -> Error {
        let name = self.checkpoint.conventions.names.key(name);
        Error::not_found(format!("the file has no tensor '{name}'"))
    }

    /// Checks that all tensors of the model are parameters: one that is not would be a part of the model that is not computed.
    pub(super) fn check(&self) -> Result<()> {
        match self.checkpoint.tensors().iter().find(|tensor| !self.declared.contains(&tensor.name)) {
            None => Ok(()),
            Some(tensor) => Err(Error::unimplemented(format!(
                "the tensor '{}' of the architecture '{}'",
                shown(&tensor.key),
                self.config.architecture.name
            ))),
        }
    }
}

/// A matrix of weights: `[rows, columns]`.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    name: String,
    ty: Type,
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) format: Format,
    /// Whether the module is for VMVX alone.
    pub(super) is_portable: bool,
    pub(super) activations: Activations,
    /// The stored blocks, where [`Weight::open`] has read them.
    opened: Option<Value>,
}

fn wrong_shape(tensor: &Stored, expected: &[i64]) -> Error {
    Error::invalid_argument(format!(
        "the tensor '{}' has the shape {:?} instead of {expected:?}",
        shown(&tensor.key),
        tensor.shape
    ))
}

fn has_shape(tensor: &Stored, expected: &[i64]) -> bool {
    let expected = expected.iter().map(|extent| u64::try_from(*extent).ok());
    tensor.shape.iter().copied().map(Some).eq(expected)
}

impl Weight {
    /// Declares the parameter of a matrix.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str, shape: [i64; 2]) -> Result<Weight> {
        Weight::declare_as(b, of, (name, &shape), shape)
    }

    /// Declares the parameter of matrices `[matrices..., rows, columns]`, whose rows are one behind the other.
    pub(super) fn declare_stack(b: &mut Builder, of: &mut Parameters<'_>, name: &str, shape: &[i64]) -> Result<Weight> {
        let [outer @ .., columns] = shape else {
            return Err(Error::internal("a stack of matrices without columns"));
        };
        Weight::declare_as(b, of, (name, shape), [outer.iter().product(), *columns])
    }

    /// Returns the same elements as rows of another length, which divides their number.
    pub(super) fn with_columns(&self, columns: i64) -> Result<Weight> {
        if columns % self.format.elements() != 0 {
            let (name, element) = (&self.name, self.format.elements());
            return Err(Error::unimplemented(format!(
                "'{name}' with rows of {columns} elements, which are no multiple of {element}"
            )));
        }
        Ok(Weight { rows: self.rows * self.columns / columns, columns, ..self.clone() })
    }

    fn declare_as(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        (name, shape): (&str, &[i64]),
        [rows, columns]: [i64; 2],
    ) -> Result<Weight> {
        let tensor = of.optional(name, shape)?.ok_or_else(|| of.missing(name))?;
        let format = Format::of(tensor.element_type).filter(|format| columns % format.elements() == 0);
        let format = format.ok_or_else(|| {
            let (key, element) = (shown(&tensor.key), tensor.element_type);
            Error::unimplemented(format!("the tensor '{key}' of {element} with rows of {columns} elements"))
        })?;
        let ty = format.storage(rows, columns);
        b.parameter(name, SCOPE, &tensor.key, &ty);
        Ok(Weight {
            name: name.to_owned(),
            ty,
            rows,
            columns,
            format,
            is_portable: of.config.is_portable,
            activations: of.config.activations,
            opened: None,
        })
    }

    /// The columns as blocks and their elements.
    pub(super) fn split_columns(&self) -> [i64; 2] {
        let length = self.format.elements();
        [self.columns / length, length]
    }

    /// The columns as blocks, groups and lanes.
    pub(super) fn split_groups(&self) -> Vec<i64> {
        let [blocks, _] = self.split_columns();
        [&[blocks], self.format.groups, &[LANES]].concat()
    }

    /// Returns a block of the stored matrix.
    pub(super) fn block(&self, stored: Value, at: [Value; 2]) -> Block {
        Block { stored, at, is_portable: self.is_portable }
    }

    /// Reads the stored blocks for the rest of a function, as a value that the compiler takes for no constant: otherwise elements of small
    /// weights would be computed when the module is loaded, and kept. The barrier is one for the host, too, and ends a command buffer, so
    /// that its place is the beginning of a function.
    pub(super) fn open(&mut self, b: &mut Builder) {
        let stored = self.load(b);
        self.opened = Some(b.opaque(stored));
    }

    /// Reads the stored blocks, unless they are opened.
    pub(super) fn load(&self, b: &mut Builder) -> Value {
        let stored = self.opened.unwrap_or_else(|| b.load_global(&self.name, &self.ty));
        let ty = self.format.storage(self.rows, self.columns);
        if ty == self.ty {
            return stored;
        }
        let extents = ty.extents().unwrap_or_default().iter().copied();
        let extents: Vec<Extent> = extents.flatten().map(|extent| Extent::Constant(extent.cast_signed())).collect();
        let dimensions = vec![(0..extents.len()).collect()];
        let elements = b.collapse_shape(stored, &dimensions);
        b.expand_shape(elements, &dimensions, &extents)
    }
}

/// Extents that are known.
pub(super) fn constants(extents: &[i64]) -> Vec<Extent> {
    extents.iter().copied().map(Extent::Constant).collect()
}

/// A vector, whose elements are read as `f32`.
#[derive(Clone, Debug)]
pub(super) enum Vector {
    Parameter(VectorParameter),
    /// Numbers of the metadata, as bits.
    Constant(Vec<u64>),
}

/// The parameter of a vector.
#[derive(Clone, Debug)]
pub(super) struct VectorParameter {
    name: String,
    ty: Type,
    element_type: ElementType,
    /// What is added to the elements.
    offset: f64,
    is_portable: bool,
}

impl Vector {
    /// Declares the parameter of a vector; `None` if the model has none.
    pub(super) fn optional(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        name: &str,
        length: i64,
    ) -> Result<Option<Vector>> {
        if let Some(elements) = of.checkpoint.vector(name) {
            return Ok(Some(Vector::Constant(elements.iter().map(|element| u64::from(element.to_bits())).collect())));
        }
        let Some(tensor) = of.optional(name, &[length])? else { return Ok(None) };
        let element_type = tensor.element_type;
        let element = match element_type {
            ElementType::F32 => Element::F32,
            ElementType::F16 | ElementType::Bf16 => Element::I16,
            _ => {
                let key = shown(&tensor.key);
                return Err(Error::unimplemented(format!(
                    "the tensor '{key}' of {element_type}, not F32, F16 or BF16"
                )));
            }
        };
        let ty = Type::tensor(&[u64::try_from(length).ok()], element);
        b.parameter(name, SCOPE, &tensor.key, &ty);
        let is_norm = name.ends_with("norm.weight");
        let offset = if is_norm { of.checkpoint.conventions.norm_offset } else { 0.0 };
        let is_portable = of.config.is_portable;
        Ok(Some(Vector::Parameter(VectorParameter { name: name.to_owned(), ty, element_type, offset, is_portable })))
    }

    /// Declares the parameter of a vector.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str, length: i64) -> Result<Vector> {
        Vector::optional(b, of, name, length)?.ok_or_else(|| of.missing(name))
    }

    /// Reads the elements.
    pub(super) fn load(&self, b: &mut Builder) -> Value {
        let VectorParameter { name, ty, element_type, offset, is_portable } = match self {
            Vector::Parameter(parameter) => parameter,
            Vector::Constant(bits) => return b.dense(bits, &[bits.len() as u64], Element::F32),
        };
        let stored = b.load_global(name, ty);
        if *element_type == ElementType::F32 && *offset == 0.0 {
            return stored;
        }
        b.elementwise(&[stored], Element::F32, |b, x| {
            let element = float_of_bits(b, *element_type, x[0], *is_portable);
            match *offset == 0.0 {
                true => element,
                false => {
                    let offset = b.float(*offset, Element::F32);
                    b.addf(element, offset)
                }
            }
        })
    }
}
