//! Version 0.7 of the module, which compilers import since 3.12.

use alloc::vec::Vec;

use super::HalState;
use crate::native_functions;
use crate::vm::NativeFunction;

/// The version, as modules name the least that they need.
pub const VERSION: u32 = 7;

/// The functions of this version.
#[must_use]
pub fn functions() -> Vec<NativeFunction<HalState>> {
    native_functions! {
        "allocator.allocate" => HalState::allocator_allocate,
        "allocator.import" => HalState::allocator_import,
        "allocator.select" => HalState::allocator_select,
        "buffer.allocation.discard" => HalState::buffer_allocation_discard,
        "buffer.allocation.is_terminal" => HalState::buffer_allocation_is_terminal,
        "buffer.allocation.preserve" => HalState::buffer_allocation_preserve,
        "buffer.assert" => HalState::buffer_assert,
        "buffer.length" => HalState::buffer_length,
        "buffer.load" => HalState::buffer_load,
        "buffer.store" => HalState::buffer_store,
        "buffer.subspan" => HalState::buffer_subspan,
        "buffer_view.assert" => HalState::buffer_view_assert,
        "buffer_view.buffer" => HalState::buffer_view_buffer,
        "buffer_view.create" => HalState::buffer_view_create,
        "buffer_view.dim" => HalState::buffer_view_dim,
        "buffer_view.element_type" => HalState::buffer_view_element_type,
        "buffer_view.encoding_type" => HalState::buffer_view_encoding_type,
        "buffer_view.rank" => HalState::buffer_view_rank,
        "buffer_view.trace" => HalState::buffer_view_trace,
        "channel.create" => HalState::channel_create,
        "channel.rank_and_count" => HalState::channel_rank_and_count,
        "channel.split" => HalState::channel_split,
        "command_buffer.advise_buffer" => HalState::command_buffer_advise_buffer,
        "command_buffer.begin_debug_group" => HalState::command_buffer_begin_debug_group,
        "command_buffer.collective" => HalState::command_buffer_collective,
        "command_buffer.copy_buffer" => HalState::command_buffer_copy_buffer,
        "command_buffer.create" => HalState::command_buffer_create,
        "command_buffer.dispatch" => HalState::command_buffer_dispatch,
        "command_buffer.dispatch.indirect" => HalState::command_buffer_dispatch_indirect,
        "command_buffer.end_debug_group" => HalState::command_buffer_end_debug_group,
        "command_buffer.execution_barrier" => HalState::command_buffer_execution_barrier,
        "command_buffer.fill_buffer" => HalState::command_buffer_fill_buffer,
        "command_buffer.finalize" => HalState::command_buffer_finalize,
        "command_buffer.update_buffer" => HalState::command_buffer_update_buffer,
        "device.allocator" => HalState::device_allocator,
        "device.query.i64" => HalState::device_query,
        "device.queue.alloca" => HalState::queue_alloca,
        "device.queue.barrier" => HalState::queue_barrier,
        "device.queue.copy" => HalState::queue_copy,
        "device.queue.dealloca" => HalState::queue_dealloca,
        "device.queue.execute" => HalState::queue_execute,
        "device.queue.execute.indirect" => HalState::queue_execute_indirect,
        "device.queue.fill" => HalState::queue_fill,
        "device.queue.flush" => HalState::queue_flush,
        "device.queue.read" => HalState::queue_read,
        "device.queue.update" => HalState::queue_update,
        "device.queue.write" => HalState::queue_write,
        "devices.count" => HalState::devices_count,
        "devices.get" => HalState::devices_get,
        "ex.file.from_memory" => HalState::file_from_memory,
        "executable.create" => HalState::executable_create,
        "executable.lookup.function" => HalState::executable_lookup_function,
        "fence.await" => HalState::fence_await, resume HalState::fence_await_resume,
        "fence.create" => HalState::fence_create,
        "fence.fail" => HalState::fence_fail,
        "fence.join" => HalState::fence_join,
        "fence.query" => HalState::fence_query,
        "fence.signal" => HalState::fence_signal,
    }
}
