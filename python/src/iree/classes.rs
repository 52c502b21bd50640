//! The Python class of each type of reference, and the protocol by which classes stand for types.

use incarnate_runtime::hal::{Buffer, BufferView, CommandBuffer, Fence};
use incarnate_runtime::vm::{self, List, Ref, RefType, TypedRefObject};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::buffer::{HalBuffer, HalBufferView};
use super::command_buffer::HalCommandBuffer;
use super::list::VmVariantList;
use super::memory::VmBuffer;
use super::reference::{RefObject, VmRef};
use super::status::OrRaise;
use super::timeline::HalFence;

/// A class, the type that it stands for, and its constructor.
struct Class {
    name: RefType,
    class: fn(Python<'_>) -> Bound<'_, PyType>,
    wrap: for<'py> fn(Python<'py>, &Ref) -> PyResult<Bound<'py, PyAny>>,
}

/// Every class that stands for a type of reference.
const CLASSES: &[Class] = &[
    Class {
        name: BufferView::TYPE,
        class: |py| py.get_type::<HalBufferView>(),
        wrap: |py, reference| Ok(HalBufferView::wrap(py, found(py, reference.to())?)?.into_any()),
    },
    Class {
        name: Buffer::TYPE,
        class: |py| py.get_type::<HalBuffer>(),
        wrap: |py, reference| Ok(HalBuffer::wrap(py, found(py, reference.to())?)?.into_any()),
    },
    Class {
        name: List::TYPE,
        class: |py| py.get_type::<VmVariantList>(),
        wrap: |py, reference| Ok(VmVariantList::wrap(py, found(py, reference.list().cloned())?)?.into_any()),
    },
    Class {
        name: vm::Buffer::TYPE,
        class: |py| py.get_type::<VmBuffer>(),
        wrap: |py, reference| Ok(VmBuffer::wrap(py, found(py, reference.buffer().cloned())?)?.into_any()),
    },
    Class {
        name: Fence::TYPE,
        class: |py| py.get_type::<HalFence>(),
        wrap: |py, reference| Ok(HalFence::wrap(py, found(py, reference.to())?)?.into_any()),
    },
    Class {
        name: CommandBuffer::TYPE,
        class: |py| py.get_type::<HalCommandBuffer>(),
        wrap: |py, reference| Ok(HalCommandBuffer::wrap(py, found(py, reference.to())?)?.into_any()),
    },
];

fn found<T>(py: Python<'_>, object: incarnate_runtime::Result<T>) -> PyResult<T> {
    object.or_raise(py, "dereferencing")
}

fn class_of(cls: &Bound<'_, PyType>) -> PyResult<Option<&'static Class>> {
    for class in CLASSES {
        if cls.is_subclass(&(class.class)(cls.py()))? {
            return Ok(Some(class));
        }
    }
    Ok(None)
}

fn cast<'py>(reference: &Ref, cls: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let class = class_of(cls)?.filter(|class| reference.ref_type() == Some(class.name));
    class.map(|class| (class.wrap)(cls.py(), reference)).transpose()
}

/// Returns the object of a reference as a class, by the class's own protocol unless it is one of this module; None where the
/// object is of another type.
pub(super) fn as_class<'py>(
    py: Python<'py>,
    reference: &Ref,
    class: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let known = CLASSES.iter().find(|known| class.is((known.class)(py)));
    match known {
        Some(known) if reference.ref_type() == Some(known.name) => (known.wrap)(py, reference),
        Some(_) => Ok(py.None().into_bound(py)),
        None => class.call_method1("__iree_vm_cast__", (VmRef(reference.clone()),)),
    }
}

#[pymethods]
impl RefObject {
    /// The reference.
    #[getter(__iree_vm_ref__)]
    fn protocol_reference(&self) -> VmRef {
        VmRef(self.0.clone())
    }

    /// The reference.
    #[getter]
    fn r#ref(&self) -> VmRef {
        VmRef(self.0.clone())
    }

    /// Returns the object of a reference as this class, or None where it is of another type.
    #[classmethod]
    fn __iree_vm_cast__<'py>(cls: &Bound<'py, PyType>, reference: &VmRef) -> PyResult<Option<Bound<'py, PyAny>>> {
        cast(&reference.0, cls)
    }

    /// Returns the name of the type that this class stands for.
    #[classmethod]
    fn __iree_vm_type__(cls: &Bound<'_, PyType>) -> PyResult<&'static str> {
        let class = class_of(cls)?;
        class.map(|class| class.name.name()).ok_or_else(|| PyTypeError::new_err("the class stands for no type"))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<RefObject>().is_ok_and(|other| other.get().0.same(&self.0))
    }

    fn __hash__(&self) -> usize {
        address(&self.0)
    }
}

#[pymethods]
impl VmRef {
    #[getter]
    fn __iree_vm_ref__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Returns true if the object is of the type that a class stands for.
    fn isinstance(&self, ref_type: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name: String = ref_type.call_method0("__iree_vm_type__")?.extract()?;
        Ok(self.0.ref_type().is_some_and(|found| found.name() == name))
    }

    /// Returns the object as a class. Where it is of another type, that is an error, or None if `optional` is set.
    #[pyo3(signature = (value, optional = false))]
    fn deref<'py>(&self, value: &Bound<'py, PyAny>, optional: bool) -> PyResult<Bound<'py, PyAny>> {
        let object = as_class(value.py(), &self.0, value)?;
        if object.is_none() && !optional {
            let found = self.0.ref_type().map_or("null", |found| found.name());
            return Err(PyTypeError::new_err(format!("the reference is {found}, which is not a {value}")));
        }
        Ok(object)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<VmRef>().is_ok_and(|other| other.get().0.same(&self.0))
    }

    fn __hash__(&self) -> usize {
        address(&self.0)
    }

    fn __repr__(&self) -> String {
        match self.0.ref_type() {
            None => String::from("<VmRef NULL>"),
            Some(found) => format!("<VmRef {} at {:#x}>", found.name(), address(&self.0)),
        }
    }
}

fn address(reference: &Ref) -> usize {
    match reference {
        Ref::Null => 0,
        Ref::Buffer(buffer) => std::sync::Arc::as_ptr(buffer).addr(),
        Ref::List(list) => std::sync::Arc::as_ptr(list).addr(),
        Ref::Object(object) => std::sync::Arc::as_ptr(object).addr(),
    }
}
