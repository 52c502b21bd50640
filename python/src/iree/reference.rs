//! References to objects of the runtime. [`classes`](super::classes) has their methods.

use incarnate_runtime::vm::Ref;
use pyo3::prelude::*;

/// The base of classes that stand for an object which programs refer to.
#[pyclass(module = "incarnate.iree.runtime", subclass, frozen)]
pub(super) struct RefObject(pub(super) Ref);

impl RefObject {
    pub(super) fn new(reference: impl Into<Ref>) -> RefObject {
        RefObject(reference.into())
    }
}

/// A reference to an object of any type, or null.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct VmRef(pub(super) Ref);

/// Returns the reference of an object that follows the protocol.
pub(super) fn reference_of(object: &Bound<'_, PyAny>) -> PyResult<Ref> {
    let reference = object.getattr("__iree_vm_ref__")?;
    Ok(reference.cast::<VmRef>()?.get().0.clone())
}
