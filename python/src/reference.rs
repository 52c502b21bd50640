//! Objects of a program that Python only passes on.

use incarnate_runtime::vm::Ref;
use pyo3::prelude::*;

/// An object that a function returned and that is no tensor, such as a list or a fence. Functions take it as an argument.
#[pyclass(frozen, module = "incarnate")]
pub(crate) struct Reference(Ref);

impl Reference {
    pub(crate) fn new(reference: Ref) -> Reference {
        Reference(reference)
    }

    pub(crate) fn reference(&self) -> Ref {
        self.0.clone()
    }
}

#[pymethods]
impl Reference {
    fn __repr__(&self) -> String {
        format!("<incarnate.Reference {:?}>", self.0)
    }
}
