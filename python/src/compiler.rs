//! IREE's compiler.

use std::path::PathBuf;

use incarnate_translator::compiler::{self, Compiler, ModelFormat, Target};
use pyo3::prelude::*;

use crate::error::{OrRaise, invalid_argument};

/// Returns the module of a model: the path of a file in the user's cache, which IREE's compiler writes unless it is there. The path of
/// a file that is no model is returned as it is.
#[pyfunction]
#[pyo3(signature = (model, target, flags, iree_compile=None))]
pub(crate) fn compile(
    py: Python<'_>,
    model: PathBuf,
    target: &str,
    flags: Vec<String>,
    iree_compile: Option<PathBuf>,
) -> PyResult<PathBuf> {
    let target: Target = target.parse().map_err(|error| invalid_argument(py, format!("target: {error}")))?;
    py.detach(|| match ModelFormat::of(&model)? {
        None => Ok(model),
        Some(_) => Compiler::find(iree_compile.as_deref())?.compile(&model, &target, &flags, |_| {}),
    })
    .or_raise(py)
}

/// Installs IREE's compiler from PyPI in an environment of its own, in the user's cache, unless it is there; returns its path.
#[pyfunction]
pub(crate) fn install_compiler(py: Python<'_>) -> PyResult<PathBuf> {
    py.detach(|| compiler::set_up(|_| {})).or_raise(py)
}
