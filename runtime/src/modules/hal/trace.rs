//! Where traced buffer views go.

use alloc::sync::Arc;
use core::fmt;

use super::HalState;
use crate::Result;
use crate::hal::BufferView;
use crate::vm::{Buffer as VmBuffer, Caller, Span};

type Print = dyn Fn(&str, &[Arc<BufferView>]) -> Result<()> + Send + Sync;

/// Takes the buffer views that a program traces (`hal.buffer_view.trace`), with the key that the program gives them.
/// Without one they are named, not printed, as events of the `tracing` crate.
#[derive(Clone, Default)]
pub struct TraceSink(Option<Arc<Print>>);

impl TraceSink {
    /// A sink that hands what is traced to `print`.
    pub fn new(print: impl Fn(&str, &[Arc<BufferView>]) -> Result<()> + Send + Sync + 'static) -> TraceSink {
        TraceSink(Some(Arc::new(print)))
    }
}

impl fmt::Debug for TraceSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TraceSink(set)" } else { "TraceSink(events)" })
    }
}

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn buffer_view_trace(
        &self,
        _: &mut Caller<'_>,
        key: Arc<VmBuffer>,
        views: Span<Arc<BufferView>>,
    ) -> Result<()> {
        let key = key.to_text()?;
        for view in views.iter() {
            tracing::info!(key, shape = ?view.shape(), element_type = %view.element_type(), "traced buffer view");
        }
        self.options.trace_sink.0.as_ref().map_or(Ok(()), |print| print(&key, &views))
    }
}
