//! What is called: a function of a module, its parameters and its results.

use incarnate_runtime::StatusCode;
use incarnate_runtime::bytecode::{find_value, wrong_argument_count};
use incarnate_runtime::hal::BorrowScope;
use incarnate_runtime::session::{Signature, ValueInfo};
use incarnate_runtime::vm::Value;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use crate::argument::{Parameter, Target};
use crate::array::Kept;
use crate::module::Module;
use crate::result::{self, Form};
use crate::{interrupt, signature};

/// A function of a module.
pub(crate) struct Callee {
    /// The position in [`Loaded::functions`](crate::module::Loaded).
    index: usize,
    name: String,
    signature: Signature,
    parameters: Vec<Parameter>,
    /// The class of several results.
    results: Option<Py<PyAny>>,
}

impl Callee {
    /// Describes a function by its position in [`Loaded::functions`](crate::module::Loaded).
    pub(crate) fn new(py: Python<'_>, index: usize, name: &str, signature: &Signature) -> PyResult<Callee> {
        let results = match signature.outputs.len() {
            0 | 1 => None,
            _ => Some(result::named_tuple(py, name, &signature.outputs)?),
        };
        Ok(Callee {
            index,
            name: name.to_owned(),
            signature: signature.clone(),
            parameters: signature.inputs.iter().cloned().map(Parameter::new).collect(),
            results,
        })
    }

    /// Calls the function.
    pub(crate) fn call<'py>(
        &self,
        module: &Module,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
        form: Form,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = positional.py();
        let loaded = module.loaded(py)?;
        let function = loaded.functions.get(self.index).ok_or_else(|| self.changed())?;
        let objects = self.order(positional, named)?;
        let mut kept = Kept::with_capacity(objects.len());
        let results = BorrowScope::enter(|scope| {
            let target = Target { allocator: loaded.session.allocator(), scope };
            let mut arguments: SmallVec<[Value; 8]> = SmallVec::with_capacity(objects.len());
            for (object, parameter) in objects.iter().zip(&self.parameters) {
                arguments.push(parameter.convert(object, &target, &mut kept)?);
            }
            let results = interrupt::detached(py, move || {
                let results = function.call::<Vec<Value>>(arguments.as_slice());
                drop(arguments);
                results
            })?;
            self.convert(py, results, form)
        });
        drop(kept);
        results
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names and types of inputs and outputs.
    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns the arguments in the order of the parameters.
    fn order<'py>(
        &self,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<SmallVec<[Bound<'py, PyAny>; 8]>> {
        let mut objects: SmallVec<[Bound<'py, PyAny>; 8]> = positional.iter().collect();
        if let Some(named) = named {
            for parameter in self.parameters.iter().skip(objects.len()) {
                match named.get_item(parameter.info.name())? {
                    Some(object) => objects.push(object),
                    None => break,
                }
            }
        }
        let given = positional.len() + named.map_or(0, PyDictMethods::len);
        if objects.len() == self.parameters.len() && given == objects.len() {
            return Ok(objects);
        }
        self.order_by_identifiers(positional, named)
    }

    /// As [`Callee::order`], for names of which some are the identifiers of others: `a_b` for `a.b`.
    #[cold]
    fn order_by_identifiers<'py>(
        &self,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<SmallVec<[Bound<'py, PyAny>; 8]>> {
        let wrong = |why: String| {
            PyTypeError::new_err(format!("{why}; calling {}{}", self.name, signature::text(&self.signature)))
        };
        let given = positional.len() + named.map_or(0, PyDictMethods::len);
        let wrong_number = || wrong(wrong_argument_count(self.parameters.len(), given));
        let mut objects: Vec<Option<Bound<'py, PyAny>>> = positional.iter().map(Some).collect();
        objects.resize(objects.len().max(self.parameters.len()), None);
        for (name, object) in named.into_iter().flatten() {
            let name = name.to_string();
            let index = match find_value(&self.signature.inputs, &name) {
                Ok(index) => index,
                Err(error) if error.code() == StatusCode::NotFound => {
                    return Err(wrong(format!("the function has no argument `{name}`")));
                }
                Err(error) => return Err(wrong(error.message().to_owned())),
            };
            if objects.get_mut(index).is_none_or(|slot| slot.replace(object).is_some()) {
                return Err(wrong(format!("argument `{name}` is given twice")));
            }
        }
        if objects.len() > self.parameters.len() {
            return Err(wrong_number());
        }
        objects.into_iter().collect::<Option<_>>().ok_or_else(wrong_number)
    }

    #[cold]
    fn changed(&self) -> PyErr {
        PyTypeError::new_err(format!(
            "the file of the model has changed: there is no function `{}` any more",
            self.name
        ))
    }

    fn convert<'py>(&self, py: Python<'py>, results: Vec<Value>, form: Form) -> PyResult<Bound<'py, PyAny>> {
        let mut converted = results
            .into_iter()
            .zip(&self.signature.outputs)
            .map(|(value, info): (Value, &ValueInfo)| result::convert(py, value, info, form));
        match &self.results {
            Some(class) => class.bind(py).call1(PyTuple::new(py, converted.collect::<PyResult<Vec<_>>>()?)?),
            None => converted.next().unwrap_or_else(|| Ok(py.None().into_bound(py))),
        }
    }
}
