//! Tensors of a file as parameters of the module.

use std::collections::HashSet;

use incarnate_bytecode::{Error, Result};
use incarnate_mlir::{Builder, Element, Type, Value};

use super::SCOPE;
use super::blocks::{Block, Format};
use super::config::Config;
use crate::{ElementType, GgufFile, Tensor, shown};

/// The tensors of a file, and which of them a module has as parameters.
pub(super) struct Parameters<'a> {
    file: &'a GgufFile,
    pub(super) config: &'a Config,
    declared: HashSet<String>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(file: &'a GgufFile, config: &'a Config) -> Parameters<'a> {
        Parameters { file, config, declared: HashSet::new() }
    }

    /// Whether the file has a tensor.
    pub(super) fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// Checks that the file has a tensor.
    pub(super) fn require(&self, name: &str) -> Result<()> {
        if self.has(name) { Ok(()) } else { Err(missing(name)) }
    }

    /// States that the module needs no tensor of this name.
    pub(super) fn ignore(&mut self, name: &str) {
        self.declared.insert(name.to_owned());
    }

    /// Returns a tensor whose shape must be this one; `None` if the file has none of this name.
    fn optional(&mut self, name: &str, shape: &[i64]) -> Result<Option<&'a Tensor>> {
        let Some(tensor) = self.file.tensor(name) else { return Ok(None) };
        self.declared.insert(name.to_owned());
        if has_shape(tensor, shape) { Ok(Some(tensor)) } else { Err(wrong_shape(tensor, shape)) }
    }

    /// Checks that all tensors of the file are parameters: one that is not would be a part of the model that is not computed.
    pub(super) fn check(&self) -> Result<()> {
        match self.file.tensors().iter().find(|tensor| !self.declared.contains(&tensor.name)) {
            None => Ok(()),
            Some(tensor) => Err(Error::unimplemented(format!(
                "the tensor '{}' of the architecture '{}'",
                shown(&tensor.name),
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
    /// The stored blocks, where [`Weight::open`] has read them.
    opened: Option<Value>,
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("the file has no tensor '{name}'"))
}

fn wrong_shape(tensor: &Tensor, expected: &[i64]) -> Error {
    Error::invalid_argument(format!(
        "the tensor '{}' has the shape {:?} instead of {expected:?}",
        tensor.name, tensor.shape
    ))
}

fn has_shape(tensor: &Tensor, expected: &[i64]) -> bool {
    let expected = expected.iter().map(|extent| u64::try_from(*extent).ok());
    tensor.shape.iter().copied().map(Some).eq(expected)
}

impl Weight {
    /// Declares the parameter of a matrix.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str, shape: [i64; 2]) -> Result<Weight> {
        Weight::declare_as(b, of, (name, &shape), shape)
    }

    /// Declares the parameter of matrices `[matrices, rows, columns]`, whose rows are one behind the other.
    pub(super) fn declare_stack(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        name: &str,
        shape: [i64; 3],
    ) -> Result<Weight> {
        let [matrices, rows, columns] = shape;
        Weight::declare_as(b, of, (name, &shape), [matrices * rows, columns])
    }

    fn declare_as(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        (name, shape): (&str, &[i64]),
        [rows, columns]: [i64; 2],
    ) -> Result<Weight> {
        let tensor = of.optional(name, shape)?.ok_or_else(|| missing(name))?;
        let format = Format::of(tensor.element_type).filter(|format| columns % format.elements() == 0);
        let format = format.ok_or_else(|| {
            let element = tensor.element_type;
            Error::unimplemented(format!("the tensor '{name}' of {element} with rows of {columns} elements"))
        })?;
        let ty = format.storage(rows, columns);
        b.parameter(name, SCOPE, name, &ty);
        Ok(Weight {
            name: name.to_owned(),
            ty,
            rows,
            columns,
            format,
            is_portable: of.config.is_portable,
            opened: None,
        })
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
        self.opened.unwrap_or_else(|| b.load_global(&self.name, &self.ty))
    }
}

/// A vector of `f32`.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    name: String,
    ty: Type,
}

impl Vector {
    /// Declares the parameter of a vector; `None` if the file has none.
    pub(super) fn optional(
        b: &mut Builder,
        of: &mut Parameters<'_>,
        name: &str,
        length: i64,
    ) -> Result<Option<Vector>> {
        let Some(tensor) = of.optional(name, &[length])? else { return Ok(None) };
        if tensor.element_type != ElementType::F32 {
            return Err(Error::unimplemented(format!("the tensor '{name}' of {}, not F32", tensor.element_type)));
        }
        let ty = Type::tensor(&[u64::try_from(length).ok()], Element::F32);
        b.parameter(name, SCOPE, name, &ty);
        Ok(Some(Vector { name: name.to_owned(), ty }))
    }

    /// Declares the parameter of a vector.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str, length: i64) -> Result<Vector> {
        Vector::optional(b, of, name, length)?.ok_or_else(|| missing(name))
    }

    /// Reads the elements.
    pub(super) fn load(&self, b: &mut Builder) -> Value {
        b.load_global(&self.name, &self.ty)
    }
}
