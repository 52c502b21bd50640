//! IREE's compiler.

use std::path::PathBuf;

use incarnate_translator::compiler::{self, CompileOptions, Compiler, Event, ImportOptions, ModelFormat, Target};
use pyo3::prelude::*;

use crate::error::{OrRaise, invalid_argument};

/// The module of a model, which is deleted with this object unless it is in the user's cache.
#[pyclass(frozen, module = "incarnate._native")]
pub(crate) struct Compiled {
    /// The path of the module.
    #[pyo3(get)]
    path: PathBuf,
    /// Whether the file stays when this object is gone.
    #[pyo3(get)]
    is_kept: bool,
    _module: Option<compiler::Compiled>,
}

/// Returns the module of a model, which IREE's compiler writes unless it is in the user's cache. A file that is no model is a module
/// itself.
#[pyfunction]
#[pyo3(signature = (model, target, flags, iree_compile=None, dims=Vec::new(), shapes=Vec::new(), inputs=Vec::new(), outputs=Vec::new()))]
#[allow(clippy::too_many_arguments, reason = "the keyword arguments of the Python function")]
pub(crate) fn compile(
    py: Python<'_>,
    model: PathBuf,
    target: &str,
    flags: Vec<String>,
    iree_compile: Option<PathBuf>,
    dims: Vec<(String, i64)>,
    shapes: Vec<(String, Vec<i64>)>,
    inputs: Vec<String>,
    outputs: Vec<String>,
) -> PyResult<Compiled> {
    let target: Target = target.parse().map_err(|error| invalid_argument(py, format!("target: {error}")))?;
    let import = ImportOptions { dims, shapes, inputs, outputs, ..ImportOptions::default() };
    let options = CompileOptions { flags, import, ..target.into() };
    let mut notes = Vec::new();
    let compiled = py.detach(|| match ModelFormat::of(&model)? {
        None => Ok(Compiled { path: model, is_kept: true, _module: None }),
        Some(_) => {
            let note = |event| match event {
                Event::NotKept(why) => notes.push(why.to_string()),
                Event::TakingF32(float) => notes.push(format!("{}: {float}", model.display())),
                Event::LeavingOut(left_out) => notes.push(format!("{}: {left_out}", model.display())),
                Event::Starting => {}
            };
            let module = Compiler::find(iree_compile.as_deref())?.compile(&model, &options, note)?;
            Ok(Compiled { path: module.path().to_owned(), is_kept: module.is_kept(), _module: Some(module) })
        }
    });
    let compiled = compiled.or_raise(py)?;
    notes.iter().try_for_each(|note| py.import("warnings")?.call_method1("warn", (note,)).map(drop))?;
    Ok(compiled)
}

/// Installs IREE's compiler from PyPI in an environment of its own, in the user's cache, unless it is there; returns its path.
#[pyfunction]
pub(crate) fn install_compiler(py: Python<'_>) -> PyResult<PathBuf> {
    py.detach(|| compiler::set_up(|_| {})).or_raise(py)
}
