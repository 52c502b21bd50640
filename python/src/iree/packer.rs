//! `ArgumentPacker`: arguments of Python as the list that a function is called with.

use std::sync::Arc;

use incarnate_runtime::hal::{Device, ElementType};
use incarnate_runtime::vm::{List, Ref, Value};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyTuple};

use super::allocator::view_of_copy;
use super::buffer::HalBufferView;
use super::device::HalDevice;
use super::list::{VmVariantList, new_list};
use super::status::OrRaise;

/// The module that maps types of elements.
const TYPES_MODULE: &str = "incarnate.iree.runtime.dtypes";

/// The device that arguments are copied to.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct InvokeContext(Arc<Device>);

#[pymethods]
impl InvokeContext {
    #[new]
    fn new(device: &Bound<'_, HalDevice>) -> InvokeContext {
        InvokeContext(Arc::clone(&device.get().device))
    }
}

/// How an argument is converted, by its description in the function's reflection.
enum Packer {
    /// An integer of 8, 16 or 32 bits.
    Narrow(u32),
    I64,
    F32,
    F64,
    Array {
        dtype: Py<PyAny>,
        element_type: ElementType,
    },
    Sequence(Vec<Packer>),
    Dictionary(Vec<(Py<PyAny>, Packer)>),
}

fn numpy_asarray(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    ASARRAY.import(py, "numpy", "asarray")
}

/// Converts a value to a C-contiguous array, of a type if one is given.
fn to_array<'py>(value: &Bound<'py, PyAny>, dtype: Option<&Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let converted = numpy_asarray(py)?.call1((value, dtype, "C"));
    converted.map_err(|raised| {
        let wanted = dtype.map(|dtype| format!("dtype={}, ", dtype.bind(py))).unwrap_or_default();
        let text =
            format!("could not convert value to numpy array: {wanted}error='{}', value={value}", raised.value(py));
        let error = PyValueError::new_err(text);
        error.set_cause(py, Some(raised));
        error
    })
}

/// Returns the view of a value that is on a device: a buffer view, or a `DeviceArray`.
fn view_on_device<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, HalBufferView>> {
    if let Ok(view) = value.cast::<HalBufferView>() {
        return Some(view.clone());
    }
    value.getattr_opt("_buffer_view").ok().flatten()?.cast_into::<HalBufferView>().ok()
}

fn item<'py>(
    value: &Bound<'py, PyAny>,
    key: impl IntoPyObject<'py> + std::fmt::Display + Copy,
) -> PyResult<Bound<'py, PyAny>> {
    value.get_item(key).map_err(|raised| missing_item(value, &key.to_string(), raised))
}

fn missing_item(value: &Bound<'_, PyAny>, key: &str, raised: PyErr) -> PyErr {
    let shown = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
    PyValueError::new_err(format!("could not get item {key} from: {shown}: {raised}"))
}

fn check_length(value: &Bound<'_, PyAny>, kind: &str, wanted: usize) -> PyResult<()> {
    if value.len()? == wanted {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("expected a {kind} with {wanted} values. got: {}", value.repr()?)))
}

impl Packer {
    /// Parses a description: the name of a primitive type, or a list of a kind and what it consists of.
    fn parse(description: &Bound<'_, PyAny>) -> PyResult<Packer> {
        let Ok(parts) = description.cast::<PyList>() else {
            return Packer::parse_primitive(&description.extract::<String>()?);
        };
        let kind: String = parts.get_item(0)?.extract()?;
        match kind.as_str() {
            "ndarray" => {
                let types = parts.py().import(TYPES_MODULE)?;
                let (dtype, element_type) =
                    types.call_method1("map_abi_type_to_array_type", (parts.get_item(1)?,))?.extract()?;
                Ok(Packer::Array { dtype, element_type: ElementType::from_raw(element_type) })
            }
            "slist" | "stuple" => {
                parts.iter().skip(1).map(|part| Packer::parse(&part)).collect::<PyResult<_>>().map(Packer::Sequence)
            }
            "sdict" => {
                let entries = parts.iter().skip(1);
                let entries = entries.map(|part| Ok((part.get_item(0)?.unbind(), Packer::parse(&part.get_item(1)?)?)));
                entries.collect::<PyResult<_>>().map(Packer::Dictionary)
            }
            _ => Err(PyValueError::new_err(format!("'{kind}' is no kind of argument that reflection describes"))),
        }
    }

    fn parse_primitive(name: &str) -> PyResult<Packer> {
        Ok(match name {
            "i8" => Packer::Narrow(8),
            "i16" => Packer::Narrow(16),
            "i32" => Packer::Narrow(32),
            "i64" => Packer::I64,
            "f32" => Packer::F32,
            "f64" => Packer::F64,
            _ => return Err(PyValueError::new_err(format!("'{name}' is no primitive type of an argument"))),
        })
    }

    fn pack(&self, device: &Device, value: &Bound<'_, PyAny>) -> PyResult<Value> {
        let py = value.py();
        Ok(match self {
            Packer::Narrow(8) => Value::I32(value.extract::<i8>()?.into()),
            Packer::Narrow(16) => Value::I32(value.extract::<i16>()?.into()),
            Packer::Narrow(_) => Value::I32(value.extract()?),
            Packer::I64 => Value::I64(value.extract()?),
            Packer::F32 => Value::F32(value.extract()?),
            Packer::F64 => Value::F64(value.extract()?),
            Packer::Array { dtype, element_type } => match view_on_device(value) {
                Some(view) => Value::Ref(Ref::from(Arc::clone(&view.get().0))),
                None => Value::Ref(Ref::from(view_of_copy(device, &to_array(value, Some(dtype))?, *element_type)?)),
            },
            Packer::Sequence(packers) => {
                check_length(value, "sequence", packers.len())?;
                let list = new_list(py, packers.len())?;
                for (index, packer) in packers.iter().enumerate() {
                    push(py, &list, packer.pack(device, &item(value, index)?)?)?;
                }
                Value::Ref(Ref::List(list))
            }
            Packer::Dictionary(packers) => {
                check_length(value, "dict", packers.len())?;
                let list = new_list(py, packers.len())?;
                for (key, packer) in packers {
                    let found = value.get_item(key);
                    let found = found.map_err(|raised| match key.bind(py).repr() {
                        Ok(key) => missing_item(value, &key.to_string(), raised),
                        Err(raised) => raised,
                    })?;
                    push(py, &list, packer.pack(device, &found)?)?;
                }
                Value::Ref(Ref::List(list))
            }
        })
    }
}

fn push(py: Python<'_>, list: &List, value: Value) -> PyResult<()> {
    list.push(value).or_raise(py, "could not append value")
}

/// Copies an array to a device, with the element type of its data type.
fn pack_array(device: &Device, array: &Bound<'_, PyAny>) -> PyResult<Value> {
    static ELEMENT_TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = array.py();
    let dtype = array.getattr("dtype")?;
    let element_type = ELEMENT_TYPE.import(py, TYPES_MODULE, "map_dtype_to_hal_element_type")?.call1((&dtype,))?;
    let element_type: Option<u32> = element_type.extract()?;
    let unknown = || PyValueError::new_err(format!("could not map dtype {dtype} to element type"));
    let element_type = ElementType::from_raw(element_type.ok_or_else(unknown)?);
    Ok(Value::Ref(Ref::from(view_of_copy(device, array, element_type)?)))
}

/// How deep sequences of functions without reflection may be nested.
const NESTING_LIMIT: usize = 64;

/// Converts a value without a description, by its type.
fn pack_by_type(device: &Device, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = value.py();
    if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyBool>() {
        return Ok(Value::I64(value.extract()?));
    }
    if value.is_exact_instance_of::<PyFloat>() {
        return Ok(Value::F64(value.extract()?));
    }
    let array = value.cast::<PyUntypedArray>().ok().filter(|array| array.is_c_contiguous());
    if let Some(array) = array {
        return pack_array(device, array.as_any());
    }
    if let Some(view) = view_on_device(value) {
        return Ok(Value::Ref(Ref::from(Arc::clone(&view.get().0))));
    }
    if value.hasattr("__array__")? {
        return pack_array(device, &to_array(value, None)?);
    }
    let items: Vec<Bound<'_, PyAny>> = if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        value.try_iter()?.collect::<PyResult<_>>()?
    } else if let Ok(dictionary) = value.cast::<PyDict>() {
        // By the order of the keys, which is that of the elements in the list.
        let keys = dictionary.keys();
        keys.sort()?;
        keys.iter().map(|key| dictionary.as_any().get_item(key)).collect::<PyResult<_>>()?
    } else {
        return Err(PyValueError::new_err(format!("could not convert python value to VM: {}", value.repr()?)));
    };
    if depth == NESTING_LIMIT {
        return Err(PyValueError::new_err(format!("sequences are nested more than {NESTING_LIMIT} deep")));
    }
    let list = new_list(py, items.len())?;
    for item in &items {
        push(py, &list, pack_by_type(device, item, depth + 1)?)?;
    }
    Ok(Value::Ref(Ref::List(list)))
}

/// Converts the arguments of a function.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct ArgumentPacker {
    /// None without reflection.
    packers: Option<Vec<Packer>>,
    positional: usize,
    /// The indices of keyword arguments.
    keywords: Py<PyDict>,
}

#[pymethods]
impl ArgumentPacker {
    /// Creates a packer of the descriptions in a function's reflection; without them, arguments are converted by their types.
    #[new]
    #[pyo3(signature = (statics, arg_descs = None))]
    fn new(statics: &Bound<'_, PyAny>, arg_descs: Option<Bound<'_, PyList>>) -> PyResult<ArgumentPacker> {
        let py = statics.py();
        let keywords = PyDict::new(py);
        let mut packer = ArgumentPacker { packers: None, positional: 0, keywords: keywords.clone().unbind() };
        let Some(descriptions) = arg_descs else { return Ok(packer) };
        let mut packers = Vec::with_capacity(descriptions.len());
        for (index, description) in descriptions.iter().enumerate() {
            let parts = description.cast::<PyList>().ok().filter(|parts| !parts.is_empty());
            let is_named = match parts {
                Some(parts) => parts.get_item(0)?.extract::<String>().is_ok_and(|kind| kind == "named"),
                None => false,
            };
            if is_named {
                keywords.set_item(description.get_item(1)?, index)?;
                packers.push(Packer::parse(&description.get_item(2)?)?);
            } else {
                packer.positional += 1;
                packers.push(Packer::parse(&description)?);
            }
        }
        packer.packers = Some(packers);
        Ok(packer)
    }

    /// Converts arguments to a list.
    fn pack<'py>(
        &self,
        py: Python<'py>,
        invoke_context: &Bound<'py, InvokeContext>,
        pos_args: &Bound<'py, PySequence>,
        kwargs: &Bound<'py, PyMapping>,
    ) -> PyResult<Bound<'py, VmVariantList>> {
        let device = &invoke_context.get().0;
        let positional: Vec<Bound<'py, PyAny>> = pos_args.try_iter()?.collect::<PyResult<_>>()?;
        let Some(packers) = &self.packers else {
            if kwargs.len()? != 0 {
                return Err(PyValueError::new_err("functions without reflection take no keyword arguments"));
            }
            let list = new_list(py, positional.len())?;
            positional.iter().try_for_each(|value| push(py, &list, pack_by_type(device, value, 0)?))?;
            return VmVariantList::wrap(py, list);
        };
        let list = new_list(py, packers.len())?;
        let values = self.in_order(packers.len(), positional, kwargs)?;
        for (packer, value) in packers.iter().zip(&values) {
            push(py, &list, packer.pack(device, value)?)?;
        }
        VmVariantList::wrap(py, list)
    }
}

impl ArgumentPacker {
    /// Returns a value for each argument.
    fn in_order<'py>(
        &self,
        count: usize,
        positional: Vec<Bound<'py, PyAny>>,
        kwargs: &Bound<'py, PyMapping>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if positional.len() > self.positional {
            return Err(PyValueError::new_err(format!(
                "mismatched call arity: expected {} positional arguments, got {}",
                self.positional,
                positional.len()
            )));
        }
        let mut values: Vec<Option<Bound<'py, PyAny>>> = positional.into_iter().map(Some).collect();
        values.resize(count, None);
        if kwargs.len()? > 0 {
            for pair in kwargs.items()?.iter() {
                let (key, value) = pair.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
                let index = self.keywords.bind(kwargs.py()).get_item(&key)?;
                let unknown = || PyValueError::new_err(format!("specified kwarg '{key}' is unknown"));
                let index: usize = index.ok_or_else(unknown)?.extract()?;
                let slot = values.get_mut(index).ok_or_else(unknown)?;
                if slot.replace(value).is_some() {
                    return Err(PyValueError::new_err(format!(
                        "mismatched call arity: duplicate keyword argument '{key}'"
                    )));
                }
            }
        }
        let missing =
            |index| PyValueError::new_err(format!("mismatched call arity: expected a value for argument {index}"));
        values.into_iter().enumerate().map(|(index, value)| value.ok_or_else(|| missing(index))).collect()
    }
}
