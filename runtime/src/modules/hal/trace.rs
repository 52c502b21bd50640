//! Traces of buffer views.

use alloc::sync::Arc;

use super::HalState;
use crate::Result;
use crate::hal::BufferView;
use crate::vm::{Buffer as VmBuffer, Caller, Span};

#[allow(missing_docs, reason = "the imports, as programs declare them")]
impl HalState {
    pub fn buffer_view_trace(
        &self,
        _: &mut Caller<'_>,
        key: Arc<VmBuffer>,
        views: Span<Arc<BufferView>>,
    ) -> Result<()> {
        self.options.trace_sink.trace(&key.to_text()?, &views)
    }
}
