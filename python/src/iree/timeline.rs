//! `HalSemaphore` and `HalFence`: timelines, and sets of points on them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use incarnate_runtime::hal::{Deadline, Fence, Semaphore};
use incarnate_runtime::vm::{Ledger, Ref};
use incarnate_runtime::{Error, Result, StatusCode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::reference::{RefObject, VmRef};
use super::status::{OrRaise, exception};

/// How often a wait lets Python handle signals, such as that of Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Returns the time of a wait that ends after `timeout` nanoseconds, or at `deadline` in nanoseconds since 1970; None if it does not
/// end.
fn time_left(timeout: Option<i64>, deadline: Option<i64>) -> PyResult<Option<Duration>> {
    let nanoseconds = match (timeout, deadline) {
        (None, None) | (Some(i64::MAX), None) | (None, Some(i64::MAX)) => return Ok(None),
        (Some(timeout), None) => timeout,
        (None, Some(deadline)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            deadline.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX))
        }
        (Some(_), Some(_)) => return Err(PyValueError::new_err("a wait has a timeout or a deadline, not both")),
    };
    Ok(Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))))
}

/// Waits for a fence; returns false if the time is over. Threads that wait without an end work for the fence.
fn wait(py: Python<'_>, fence: &Fence, what: &str, time: Option<Duration>) -> PyResult<bool> {
    match fence.query() {
        Ok(true) => return Ok(true),
        Ok(false) => {}
        Err(error) => return Err(exception(py, &format!("synchronous {what} failure"), &error)),
    }
    let end = time.and_then(|time| std::time::Instant::now().checked_add(time));
    loop {
        let left = end.map(|end| end.saturating_duration_since(std::time::Instant::now()));
        let slice = Deadline::after(left.map_or(SIGNALS_EVERY, |left| left.min(SIGNALS_EVERY)));
        let waited = py.detach(|| if end.is_none() { fence.wait_and_participate(slice) } else { fence.wait(slice) });
        match waited {
            Ok(()) => return Ok(true),
            // The fence itself may have failed with this status.
            Err(error) if error.code() == StatusCode::DeadlineExceeded && fence.query().is_ok() => {
                if left.is_some_and(|left| left <= SIGNALS_EVERY) {
                    return Ok(matches!(fence.query(), Ok(true)));
                }
                py.check_signals()?;
            }
            Err(error) => return Err(exception(py, &format!("asynchronous {what} failure"), &error)),
        }
    }
}

/// A counter that only grows. Operations wait until it reaches a payload.
#[pyclass(module = "incarnate.iree.runtime", frozen)]
pub(super) struct HalSemaphore(pub(super) Arc<Semaphore>);

#[pymethods]
impl HalSemaphore {
    /// Fails the semaphore, and all that waits for it.
    fn fail(&self, py: Python<'_>, message: String) {
        py.detach(|| self.0.fail(Error::new(StatusCode::Unknown, message)));
    }

    /// Returns the payload; raises the failure of the semaphore.
    fn query(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.query().or_raise(py, "querying semaphore")
    }

    /// Advances the payload. Operations that waited for it may run on this thread.
    fn signal(&self, py: Python<'_>, new_value: u64) -> PyResult<()> {
        py.detach(|| self.0.signal(new_value)).or_raise(py, "signaling semaphore")
    }

    /// Waits for a payload: for `timeout` nanoseconds, until `deadline` in nanoseconds since 1970, or without an end. Returns false
    /// if the time is over; raises the failure of the semaphore.
    #[pyo3(signature = (payload, timeout = None, deadline = None))]
    fn wait(&self, py: Python<'_>, payload: u64, timeout: Option<i64>, deadline: Option<i64>) -> PyResult<bool> {
        let fence = Fence::from_timepoints([(Arc::clone(&self.0), payload)]);
        wait(py, &fence, "semaphore", time_left(timeout, deadline)?)
    }

    /// Refused: devices of the host import no timepoints of other programming interfaces.
    fn import_timepoint(&self, py: Python<'_>, value: u64, external_timepoint: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = (value, external_timepoint);
        Err(exception(py, "importing timepoint", &Error::unimplemented("devices of the host import no timepoints")))
    }

    /// Refused: devices of the host export no timepoints to other programming interfaces.
    fn export_timepoint(
        &self,
        py: Python<'_>,
        value: u64,
        requested_type: u32,
        requested_flags: u32,
        out_external_timepoint: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (value, requested_type, requested_flags, out_external_timepoint);
        Err(exception(py, "exporting timepoint", &Error::unimplemented("devices of the host export no timepoints")))
    }
}

/// Payloads that semaphores must reach.
#[pyclass(module = "incarnate.iree.runtime", extends = RefObject, frozen)]
pub(super) struct HalFence {
    fence: Mutex<Arc<Fence>>,
    /// How many semaphores it may have.
    capacity: usize,
}

impl HalFence {
    pub(super) fn wrap(py: Python<'_>, fence: Arc<Fence>) -> PyResult<Bound<'_, HalFence>> {
        Bound::new(py, HalFence::initializer(fence, usize::MAX))
    }

    fn initializer(fence: Arc<Fence>, capacity: usize) -> PyClassInitializer<HalFence> {
        // Insertions exchange the fence, so that the base has none.
        let base = RefObject::new(Ref::Null);
        PyClassInitializer::from(base).add_subclass(HalFence { fence: Mutex::new(fence), capacity })
    }

    pub(super) fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, py: Python<'_>, other: &Arc<Fence>) -> PyResult<()> {
        // Exceptions are created without the lock, as that can run code of Python.
        self.try_add(other).or_raise(py, "inserting into fence")
    }

    fn try_add(&self, other: &Arc<Fence>) -> Result<()> {
        let mut fence = self.fence.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = join(&[Arc::clone(&fence), Arc::clone(other)])?;
        let count = joined.timepoints().count();
        if count > self.capacity {
            let why = format!("a fence of capacity {} would have {count} semaphores", self.capacity);
            return Err(Error::resource_exhausted(why));
        }
        *fence = joined;
        Ok(())
    }
}

fn join(fences: &[Arc<Fence>]) -> Result<Arc<Fence>> {
    let joined = Fence::join(fences.iter(), Ledger::HOST)?;
    Ok(joined.unwrap_or_else(|| Arc::new(Fence::from_timepoints([]))))
}

#[pymethods]
impl HalFence {
    #[new]
    fn new(capacity: usize) -> PyClassInitializer<HalFence> {
        HalFence::initializer(Arc::new(Fence::from_timepoints([])), capacity)
    }

    /// Creates a fence of one semaphore.
    #[staticmethod]
    fn create_at<'py>(py: Python<'py>, sem: &Bound<'py, HalSemaphore>, value: u64) -> PyResult<Bound<'py, HalFence>> {
        HalFence::wrap(py, Arc::new(Fence::from_timepoints([(Arc::clone(&sem.get().0), value)])))
    }

    /// Creates a fence that is reached when all fences are.
    #[staticmethod]
    fn join<'py>(py: Python<'py>, fences: Vec<Bound<'py, HalFence>>) -> PyResult<Bound<'py, HalFence>> {
        let fences: Vec<_> = fences.iter().map(|fence| fence.get().fence()).collect();
        HalFence::wrap(py, join(&fences).or_raise(py, "joining fences")?)
    }

    /// The number of semaphores.
    #[getter]
    fn timepoint_count(&self) -> usize {
        self.fence().timepoints().count()
    }

    /// Adds a payload of a semaphore. The greatest payload of a semaphore counts. References to the fence that were taken before are
    /// to the fence as it was.
    fn insert(&self, py: Python<'_>, sem: &Bound<'_, HalSemaphore>, value: u64) -> PyResult<()> {
        self.add(py, &Arc::new(Fence::from_timepoints([(Arc::clone(&sem.get().0), value)])))
    }

    /// Adds the payloads of another fence.
    fn extend(&self, py: Python<'_>, from_fence: &Bound<'_, HalFence>) -> PyResult<()> {
        let other = from_fence.get().fence();
        self.add(py, &other)
    }

    /// Fails all semaphores.
    fn fail(&self, py: Python<'_>, message: String) {
        let fence = self.fence();
        py.detach(|| fence.fail(&Error::new(StatusCode::Unknown, message)));
    }

    /// Signals all semaphores.
    fn signal(&self, py: Python<'_>) -> PyResult<()> {
        let fence = self.fence();
        py.detach(|| fence.signal()).or_raise(py, "signalling fence")
    }

    /// Waits for the fence: for `timeout` nanoseconds, until `deadline` in nanoseconds since 1970, or without an end. Returns false
    /// if the time is over; raises the failure of the fence.
    #[pyo3(signature = (timeout = None, deadline = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<i64>, deadline: Option<i64>) -> PyResult<bool> {
        wait(py, &self.fence(), "fence", time_left(timeout, deadline)?)
    }

    /// The reference.
    #[getter(__iree_vm_ref__)]
    fn protocol_reference(&self) -> VmRef {
        VmRef(Ref::from(self.fence()))
    }

    /// The reference.
    #[getter]
    fn r#ref(&self) -> VmRef {
        VmRef(Ref::from(self.fence()))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<HalFence>().is_ok_and(|other| Arc::ptr_eq(&other.get().fence(), &self.fence()))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.fence()).addr()
    }
}

/// Waits until one of several semaphores reaches its payload or fails.
#[pyfunction]
pub(super) fn wait_any(py: Python<'_>, timepoints: Vec<(Bound<'_, HalSemaphore>, u64)>) -> PyResult<()> {
    let timepoints = timepoints.iter().map(|(semaphore, payload)| (Arc::clone(&semaphore.get().0), *payload));
    let fences: Vec<Fence> = timepoints.map(|timepoint| Fence::from_timepoints([timepoint])).collect();
    // The failure of one is its own, which a query of it raises.
    let _ = py.detach(|| Fence::wait_any(fences.iter(), Deadline::NEVER));
    Ok(())
}

/// The semaphores and payloads that a queue operation waits for or signals: a `HalFence`, or a sequence of pairs.
pub(super) struct SemaphoreList(pub(super) Option<Arc<Fence>>);

impl<'py> FromPyObject<'_, 'py> for SemaphoreList {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<SemaphoreList> {
        let fence = match object.cast::<HalFence>() {
            Ok(fence) => fence.get().fence(),
            Err(_) => {
                let timepoints: Vec<(Bound<'_, HalSemaphore>, u64)> = object.extract()?;
                let timepoints =
                    timepoints.iter().map(|(semaphore, payload)| (Arc::clone(&semaphore.get().0), *payload));
                Arc::new(Fence::from_timepoints(timepoints))
            }
        };
        let is_empty = fence.timepoints().next().is_none();
        Ok(SemaphoreList((!is_empty).then_some(fence)))
    }
}
