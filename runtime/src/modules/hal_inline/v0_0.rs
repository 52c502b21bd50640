//! Version 0.0 of the module, which compilers import since 3.8 at least.

use alloc::vec::Vec;

use super::HalInlineState;
use crate::native_functions;
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 0;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalInlineState>> {
    native_functions! {
        "buffer.allocate" => HalInlineState::buffer_allocate,
        "buffer.allocate.initialized" => HalInlineState::buffer_allocate_initialized,
        "buffer.length" => HalInlineState::buffer_length,
        "buffer.storage" => HalInlineState::buffer_storage,
        "buffer.subspan" => HalInlineState::buffer_subspan,
        "buffer.wrap" => HalInlineState::buffer_wrap,
        "buffer_view.assert" => HalInlineState::buffer_view_assert,
        "buffer_view.buffer" => HalInlineState::buffer_view_buffer,
        "buffer_view.create" => HalInlineState::buffer_view_create,
        "buffer_view.dim" => HalInlineState::buffer_view_dim,
        "buffer_view.element_type" => HalInlineState::buffer_view_element_type,
        "buffer_view.encoding_type" => HalInlineState::buffer_view_encoding_type,
        "buffer_view.rank" => HalInlineState::buffer_view_rank,
        "buffer_view.trace" => HalInlineState::buffer_view_trace,
        "device.query.i64" => HalInlineState::device_query,
    }
}
