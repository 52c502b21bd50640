//! The functions on buffers and buffer views that `hal` and `hal_inline` share.

use alloc::sync::Arc;

use super::bytes::message_text;
#[cfg(feature = "std")]
use super::hal::HalState;
use super::hal_inline::HalInlineState;
use crate::Result;
use crate::hal::{Buffer, BufferView, ElementType, EncodingType};
use crate::vm::{Buffer as VmBuffer, Caller, Span};

/// Defines the methods for a module's state whose `options` contain a trace sink.
macro_rules! buffer_functions {
    ($state:ident) => {
        #[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
        impl $state {
            pub fn buffer_subspan(
                &self,
                caller: &mut Caller<'_>,
                buffer: Arc<Buffer>,
                offset: u64,
                length: u64,
            ) -> Result<Arc<Buffer>> {
                buffer.subspan_charged(offset, length, caller.ledger())
            }

            #[inline]
            pub fn buffer_length(&self, _: &mut Caller<'_>, buffer: &Buffer) -> Result<u64> {
                Ok(buffer.byte_length())
            }

            pub fn buffer_view_create(
                &self,
                caller: &mut Caller<'_>,
                buffer: Arc<Buffer>,
                offset: u64,
                length: u64,
                element_type: u32,
                encoding_type: u32,
                shape: Span<u64>,
            ) -> Result<Arc<BufferView>> {
                let buffer = if offset == 0 && length == buffer.byte_length() {
                    buffer
                } else {
                    buffer.subspan_charged(offset, length, caller.ledger())?
                };
                let (element_type, encoding_type) =
                    (ElementType::from_raw(element_type), EncodingType::from_raw(encoding_type));
                BufferView::shared(buffer, &shape, element_type, encoding_type, caller.ledger())
            }

            #[inline]
            pub fn buffer_view_assert(
                &self,
                _: &mut Caller<'_>,
                view: &BufferView,
                message: &VmBuffer,
                element_type: u32,
                encoding_type: u32,
                shape: Span<u64>,
            ) -> Result<()> {
                view.check(ElementType::from_raw(element_type), EncodingType::from_raw(encoding_type), &shape)
                    .map_err(|error| error.context(message_text(message)))
            }

            #[inline]
            pub fn buffer_view_buffer(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<Arc<Buffer>> {
                Ok(Arc::clone(view.buffer()))
            }

            #[inline]
            pub fn buffer_view_element_type(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<u32> {
                Ok(view.element_type().raw())
            }

            #[inline]
            pub fn buffer_view_encoding_type(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<u32> {
                Ok(view.encoding_type().raw())
            }

            #[inline]
            pub fn buffer_view_rank(&self, _: &mut Caller<'_>, view: &BufferView) -> Result<u32> {
                view.rank()
            }

            #[inline]
            pub fn buffer_view_dim(&self, _: &mut Caller<'_>, view: &BufferView, index: u32) -> Result<u64> {
                view.dimension(index)
            }

            pub fn buffer_view_trace(
                &self,
                _: &mut Caller<'_>,
                key: Arc<VmBuffer>,
                views: Span<Arc<BufferView>>,
            ) -> Result<()> {
                self.options.trace_sink.trace(&message_text(&key), &views)
            }
        }
    };
}
#[cfg(feature = "std")]
buffer_functions!(HalState);
buffer_functions!(HalInlineState);
