//! The sink of traced buffer views.

use alloc::sync::Arc;
use core::fmt;

use crate::Result;
use crate::hal::BufferView;

type Print = dyn Fn(&str, &[Arc<BufferView>]) -> Result<()> + Send + Sync;

/// Receives the buffer views that a program traces (`buffer_view.trace` of `hal` and `hal_inline`), with the program's
/// key. The default sink emits their types, not their contents, as events of the `tracing` crate.
#[derive(Clone, Default)]
pub struct TraceSink(Option<Arc<Print>>);

impl TraceSink {
    /// Creates a sink that passes traced views to `print`.
    pub fn new(print: impl Fn(&str, &[Arc<BufferView>]) -> Result<()> + Send + Sync + 'static) -> TraceSink {
        TraceSink(Some(Arc::new(print)))
    }
}

impl fmt::Debug for TraceSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TraceSink(set)" } else { "TraceSink(events)" })
    }
}

impl TraceSink {
    /// Passes views to the sink.
    pub(super) fn trace(&self, key: &str, views: &[Arc<BufferView>]) -> Result<()> {
        for view in views {
            tracing::info!(key, shape = ?view.shape(), element_type = %view.element_type(), "traced buffer view");
        }
        self.0.as_ref().map_or(Ok(()), |print| print(key, views))
    }
}
