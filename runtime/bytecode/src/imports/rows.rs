//! The rows of each native module.

/// Invokes a macro with the functions of `hal` 0.7, which compilers import since 3.12, after the macro's own arguments.
/// `device.queue.execute` of a list is of 0.5: no edit of its arguments yields those of the newer function.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_hal_function {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("allocator.allocate", allocator_allocate, "0rIiiI_r", [Bytes(4)])
            ("allocator.import", allocator_import, "0riIiirII_r", [BytesOf(7, 5)])
            ("allocator.select", allocator_select, "0iiICrID_rI", [Whole(3)])
            ("buffer.allocation.discard", buffer_allocation_discard, "0r_i", [])
            ("buffer.allocation.is_terminal", buffer_allocation_is_terminal, "0r_i", [])
            ("buffer.allocation.preserve", buffer_allocation_preserve, "0r_v", [])
            ("buffer.assert", buffer_assert, "0rrrIii_v", [Whole(1)])
            ("buffer.length", buffer_length, "0r_I", [])
            ("buffer.load", buffer_load, "0rIi_i", [])
            ("buffer.store", buffer_store, "0irIi_v", [])
            ("buffer.subspan", buffer_subspan, "0rII_r", [])
            ("buffer_view.assert", buffer_view_assert @buffer_view_assert, "0rriiCID_v", [Whole(1), Whole(4)])
            ("buffer_view.buffer", buffer_view_buffer borrows view_buffer, "0r_r", [])
            ("buffer_view.create", buffer_view_create @buffer_view_create, "0rIIiiCID_r", [Whole(5)])
            ("buffer_view.dim", buffer_view_dim, "0ri_I", [])
            ("buffer_view.element_type", buffer_view_element_type, "0r_i", [])
            ("buffer_view.encoding_type", buffer_view_encoding_type, "0r_i", [])
            ("buffer_view.rank", buffer_view_rank, "0r_i", [])
            ("buffer_view.trace", buffer_view_trace, "0rCrD_v", [Whole(0), Whole(1)])
            ("channel.create", channel_create, "0rIIrrii_r", [Whole(3), Whole(4)])
            ("channel.rank_and_count", channel_rank_and_count, "0r_ii", [])
            ("channel.split", channel_split, "0riiI_r", [])
            ("command_buffer.advise_buffer", command_buffer_advise_buffer, "0rrIIIi_v", [])
            ("command_buffer.begin_debug_group", command_buffer_begin_debug_group, "0rr_v", [Whole(1)])
            ("command_buffer.collective", command_buffer_collective, "0rriiiirrIIIII_v", [])
            ("command_buffer.copy_buffer", command_buffer_copy_buffer @command_buffer_copy_buffer, "0riirIrIII_v", [])
            ("command_buffer.create", command_buffer_create, "0riiIi_r", [])
            ("command_buffer.dispatch", command_buffer_dispatch @command_buffer_dispatch, "0rrIiiiICiDCiirIID_v", [Whole(7), Whole(8)])
            ("command_buffer.dispatch.indirect", command_buffer_dispatch_indirect, "0rrIirIICiDCiirIID_v", [Whole(7), Whole(8)])
            ("command_buffer.end_debug_group", command_buffer_end_debug_group, "0r_v", [])
            ("command_buffer.execution_barrier", command_buffer_execution_barrier, "0riiI_v", [])
            ("command_buffer.fill_buffer", command_buffer_fill_buffer, "0rrIIiIiI_v", [])
            ("command_buffer.finalize", command_buffer_finalize, "0r_v", [])
            ("command_buffer.update_buffer", command_buffer_update_buffer, "0rrIrIIiI_v", [BytesOf(5, 1)])
            ("device.allocator", device_allocator, "0r_r", [])
            ("device.query.i64", device_query, "0rrr_iI", [Whole(1), Whole(2)])
            ("device.queue.alloca", queue_alloca fences queued, "0rIrrIiiII_r", [Whole(2), Whole(3), Bytes(7)])
            ("device.queue.barrier", queue_barrier fences queued, "0rIrrI_v", [Whole(2), Whole(3)])
            ("device.queue.copy", queue_copy fences queued, "0rIrrrIrIII_v", [Whole(2), Whole(3), BytesOf(8, 4)])
            ("device.queue.dealloca", queue_dealloca fences queued, "0rIrrrI_v", [Whole(2), Whole(3)])
            ("device.queue.execute", queue_execute fences queued, "0rIrrrI_v", [Whole(2), Whole(3)])
            ("device.queue.execute", queue_execute_list fences queued, "0rIrrCrD_v", [Whole(2), Whole(3), Whole(4)])
            ("device.queue.execute.indirect", queue_execute_indirect @queue_execute_indirect fences queued, "0rIrrrICrIID_v", [Whole(2), Whole(3), Whole(6)])
            ("device.queue.fill", queue_fill fences queued, "0rIrrrIIIiI_v", [Whole(2), Whole(3), BytesOf(6, 4)])
            ("device.queue.flush", queue_flush, "0rI_v", [])
            ("device.queue.read", queue_read fences queued, "0rIrrrIrIII_v", [Whole(2), Whole(3), BytesOf(8, 6)])
            ("device.queue.update", queue_update fences queued, "0rIrrrIrIII_v", [Whole(2), Whole(3), BytesOf(8, 4)])
            ("device.queue.write", queue_write fences queued, "0rIrrrIrIII_v", [Whole(2), Whole(3), BytesOf(8, 4)])
            ("devices.count", devices_count, "0v_i", [])
            ("devices.get", devices_get, "0i_r", [])
            ("ex.file.from_memory", file_from_memory, "0rIirIIi_r", [])
            ("executable.create", executable_create, "0rIrrr_r", [Whole(2), Compiled(3), Whole(4)])
            ("executable.lookup.function", executable_lookup_function, "0rr_I", [Whole(1)])
            ("fence.await", fence_await resume fence_await_resume @fence_await fences waiting, "0iICrD_i", [Whole(2)])
            ("fence.create", fence_create fences creating, "0rI_r", [])
            ("fence.fail", fence_fail, "0ri_v", [Whole(0)])
            ("fence.join", fence_join @fence_join fences waiting, "0ICrD_r", [Whole(1)])
            ("fence.query", fence_query fences waiting, "0r_i", [Whole(0)])
            ("fence.signal", fence_signal, "0r_v", [Whole(0)])
        }
    };
}

/// Invokes a macro with the functions of `hal_inline` 0.0, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_hal_inline_function {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("buffer.allocate", buffer_allocate @inline borrows buffer_storage of buffer_allocate_alone, "0iI_rr", [Bytes(1)])
            ("buffer.allocate.initialized", buffer_allocate_initialized, "0irII_rr", [BytesOf(3, 1)])
            ("buffer.length", buffer_length @inline, "0r_I", [])
            ("buffer.storage", buffer_storage @inline borrows buffer_storage, "0r_r", [])
            ("buffer.subspan", buffer_subspan, "0rII_r", [])
            ("buffer.wrap", buffer_wrap, "0rII_r", [])
            ("buffer_view.assert", buffer_view_assert @buffer_view_assert, "0rriiCID_v", [Whole(1), Whole(4)])
            ("buffer_view.buffer", buffer_view_buffer @inline borrows view_buffer, "0r_r", [])
            ("buffer_view.create", buffer_view_create @buffer_view_create, "0rIIiiCID_r", [Whole(5)])
            ("buffer_view.dim", buffer_view_dim @inline, "0ri_I", [])
            ("buffer_view.element_type", buffer_view_element_type @inline, "0r_i", [])
            ("buffer_view.encoding_type", buffer_view_encoding_type @inline, "0r_i", [])
            ("buffer_view.rank", buffer_view_rank @inline, "0r_i", [])
            ("buffer_view.trace", buffer_view_trace, "0rCrD_v", [Whole(0), Whole(1)])
            ("device.query.i64", device_query, "0rr_iI", [Whole(0), Whole(1)])
        }
    };
}

/// Invokes a macro with the functions of `hal_loader` 0.1, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_hal_loader_function {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("executable.dispatch", executable_dispatch, "0rIiiiCiDCrIID_v", [Whole(5), Whole(6)])
            ("executable.load", executable_load, "0rrr_r", [Whole(0), Compiled(1), Whole(2)])
            ("executable.lookup.function", executable_lookup_function, "0rr_I", [Whole(1)])
            ("executable.query_support", executable_query_support, "0r_i", [Whole(0)])
        }
    };
}

/// Invokes a macro with the functions of `io_parameters` 0.0, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_io_parameters_function {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("gather", gather fences queued, "0rIrrrrrrr_v", [Whole(2), Whole(3), Whole(4), Whole(6), Whole(7), Whole(8)])
            ("load", load fences queued, "0rIrrrIiirrr_r", [Whole(2), Whole(3), Whole(4), Whole(8), Whole(9), Whole(10)])
            ("scatter", scatter fences queued, "0rIrrrrrrr_v", [Whole(2), Whole(3), Whole(5), Whole(6), Whole(7), Whole(8)])
        }
    };
}

/// Invokes a macro with the functions of `vmvx` 0.0, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_vmvx_function {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("abs.2d.f32", abs_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("add.2d.f32", add_2d_f32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("add.2d.i32", add_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("and.2d.i32", and_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("ceil.2d.f32", ceil_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("copy.2d.x16", copy_2d_x16, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("copy.2d.x32", copy_2d_x32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("copy.2d.x64", copy_2d_x64, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("copy.2d.x8", copy_2d_x8, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("ctlz.2d.i32", ctlz_2d_i32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("div.2d.f32", div_2d_f32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("divs.2d.i32", divs_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("divu.2d.i32", divu_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("exp.2d.f32", exp_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("fill.2d.x32", fill_2d_x32, "0irIIII_v", [Elements(&[4, 5])])
            ("floor.2d.f32", floor_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("log.2d.f32", log_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("mmt4d", mmt4d, "0rIIrIIrIIIIIiiii_v", [Elements(&[9, 10, 11, 12, 13, 14])])
            ("mul.2d.f32", mul_2d_f32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("mul.2d.i32", mul_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("neg.2d.f32", neg_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("or.2d.i32", or_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("pack", pack, "0rIIIrIIIIIIIIIIi_v", [Elements(&[10, 11, 12, 13])])
            ("query_tile_sizes.2d", query_tile_sizes_2d, "0IIi_II", [])
            ("rsqrt.2d.f32", rsqrt_2d_f32, "0rIIIrIIIII_v", [Elements(&[8, 9])])
            ("shl.2d.i32", shl_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("shrs.2d.i32", shrs_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("shru.2d.i32", shru_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("sub.2d.f32", sub_2d_f32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("sub.2d.i32", sub_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
            ("unpack", unpack, "0rIIIrIIIIIIIIIi_v", [Elements(&[8, 9, 10, 11])])
            ("xor.2d.i32", xor_2d_i32, "0rIIIrIIIrIIIII_v", [Elements(&[12, 13])])
        }
    };
}

/// Invokes a macro with the functions of `check` 0.0, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_check_function {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("expect_all_true", expect_all_true, "0rr_v", [Whole(1)])
            ("expect_almost_eq", expect_almost_eq, "0rrrff_v", [Whole(1), Whole(2)])
            ("expect_eq", expect_eq, "0rrr_v", [Whole(1), Whole(2)])
            ("expect_false", expect_false, "0i_v", [])
            ("expect_true", expect_true, "0i_v", [])
        }
    };
}
