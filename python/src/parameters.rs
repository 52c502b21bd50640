//! Parameters of models: archives, and arrays of NumPy.

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_runtime::bytecode::Contents;
use incarnate_runtime::parameters::{FileAccess, ParameterEntry, ParameterFile, ParameterIndex, ScopedIndex};
use incarnate_runtime::session::SessionBuilder;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::{OrRaise, invalid_argument};
use crate::memory::{FrozenArray, copied_contents};

/// Parameters of one scope.
#[derive(Clone)]
enum Source {
    File(PathBuf),
    Arrays(Arc<ParameterIndex>),
}

/// The parameters of a model, by scope; earlier ones take precedence.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    sources: Vec<(String, Source)>,
}

impl Parameters {
    /// Reads the argument `parameters` of `load`: a file, a list of files, or a dictionary, of arrays by name or of any of these by
    /// scope.
    pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Parameters> {
        let mut parameters = Parameters::default();
        match object.cast::<PyDict>() {
            Ok(scopes) if scopes.values().iter().any(|value| !is_array(&value)) => {
                for (scope, value) in scopes.iter() {
                    parameters.add(&scope.extract::<String>()?, &value)?;
                }
            }
            _ => parameters.add("", object)?,
        }
        Ok(parameters)
    }

    fn add(&mut self, scope: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(arrays) = object.cast::<PyDict>() {
            self.sources.push((scope.to_owned(), Source::Arrays(Arc::new(index(arrays)?))));
            return Ok(());
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            return object.try_iter()?.try_for_each(|item| self.add(scope, &item?));
        }
        let path: PathBuf = object.extract().map_err(|_| {
            let message =
                "parameters are a file, a list of files, or a dictionary: of arrays by name, or of these by scope";
            invalid_argument(object.py(), message.to_owned())
        })?;
        self.sources.push((scope.to_owned(), Source::File(path)));
        Ok(())
    }

    /// Adds the parameters to a session.
    pub(crate) fn add_to(&self, builder: SessionBuilder) -> SessionBuilder {
        self.sources.iter().fold(builder, |builder, (scope, source)| match source {
            Source::File(path) => builder.parameter_file(scope.clone(), path, FileAccess::Map),
            Source::Arrays(index) => builder.parameters(ScopedIndex::new(scope.clone(), Arc::clone(index))),
        })
    }
}

fn is_array(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyUntypedArray>()
}

/// Creates an index of arrays. Those that are read-only and begin at a multiple of 64 bytes are used in place, the others are copied.
fn index(arrays: &Bound<'_, PyDict>) -> PyResult<ParameterIndex> {
    let py = arrays.py();
    let mut index = ParameterIndex::new();
    for (name, array) in arrays.iter() {
        let name: String = name.extract()?;
        let array = py.import("numpy")?.call_method1("ascontiguousarray", (array,))?.cast_into::<PyUntypedArray>()?;
        let contents = match FrozenArray::new(&array) {
            Some(frozen) => Contents::external(frozen),
            None => copied_contents(&array)?,
        };
        let length = contents.length() as u64;
        let file = ParameterFile::from_contents(format!("array '{name}'"), Arc::new(contents));
        index.add(ParameterEntry::in_file(name, &file, 0, length).or_raise(py)?).or_raise(py)?;
    }
    Ok(index)
}
