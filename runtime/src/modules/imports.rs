//! Tables of the native modules' functions, which translated code calls directly.
//!
//! Each version of a native module is one macro of rows. A row holds the import's name, the method of the module's state, and
//! the calling convention. Optional fields: `resume`, the method that resumes a call that yielded; `@`, a special form of
//! call; `borrows`, the function that borrows the result from its owner; `fences`, the use of fence arguments.
//!
//! The macro of an older version holds only the functions that differ from the next version. Versions coexist in one module,
//! because a function is found by its name and its calling convention. The native module derives its function table from
//! these rows, and the translator looks imports up by [`find`]. The tables do not need `std`.

use crate::bytecode::{CallingConvention, for_each_vmvx_0_0};
pub(crate) use crate::vm::{direct_table, native_table};

/// Invokes a macro with the functions of `hal` 0.7, which compilers import since 3.12, after the macro's own arguments.
macro_rules! for_each_hal_0_7 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("allocator.allocate", allocator_allocate, "0rIiiI_r")
            ("allocator.import", allocator_import, "0riIiirII_r")
            ("allocator.select", allocator_select, "0iiICrID_rI")
            ("buffer.allocation.discard", buffer_allocation_discard, "0r_i")
            ("buffer.allocation.is_terminal", buffer_allocation_is_terminal, "0r_i")
            ("buffer.allocation.preserve", buffer_allocation_preserve, "0r_v")
            ("buffer.assert", buffer_assert, "0rrrIii_v")
            ("buffer.length", buffer_length, "0r_I")
            ("buffer.load", buffer_load, "0rIi_i")
            ("buffer.store", buffer_store, "0irIi_v")
            ("buffer.subspan", buffer_subspan, "0rII_r")
            ("buffer_view.assert", buffer_view_assert @buffer_view_assert, "0rriiCID_v")
            ("buffer_view.buffer", buffer_view_buffer borrows view_buffer, "0r_r")
            ("buffer_view.create", buffer_view_create @buffer_view_create, "0rIIiiCID_r")
            ("buffer_view.dim", buffer_view_dim, "0ri_I")
            ("buffer_view.element_type", buffer_view_element_type, "0r_i")
            ("buffer_view.encoding_type", buffer_view_encoding_type, "0r_i")
            ("buffer_view.rank", buffer_view_rank, "0r_i")
            ("buffer_view.trace", buffer_view_trace, "0rCrD_v")
            ("channel.create", channel_create, "0rIIrrii_r")
            ("channel.rank_and_count", channel_rank_and_count, "0r_ii")
            ("channel.split", channel_split, "0riiI_r")
            ("command_buffer.advise_buffer", command_buffer_advise_buffer, "0rrIIIi_v")
            ("command_buffer.begin_debug_group", command_buffer_begin_debug_group, "0rr_v")
            ("command_buffer.collective", command_buffer_collective, "0rriiiirrIIIII_v")
            ("command_buffer.copy_buffer", command_buffer_copy_buffer, "0riirIrIII_v")
            ("command_buffer.create", command_buffer_create, "0riiIi_r")
            ("command_buffer.dispatch", command_buffer_dispatch, "0rrIiiiICiDCiirIID_v")
            ("command_buffer.dispatch.indirect", command_buffer_dispatch_indirect, "0rrIirIICiDCiirIID_v")
            ("command_buffer.end_debug_group", command_buffer_end_debug_group, "0r_v")
            ("command_buffer.execution_barrier", command_buffer_execution_barrier, "0riiI_v")
            ("command_buffer.fill_buffer", command_buffer_fill_buffer, "0rrIIiIiI_v")
            ("command_buffer.finalize", command_buffer_finalize, "0r_v")
            ("command_buffer.update_buffer", command_buffer_update_buffer, "0rrIrIIiI_v")
            ("device.allocator", device_allocator, "0r_r")
            ("device.query.i64", device_query, "0rrr_iI")
            ("device.queue.alloca", queue_alloca fences queued, "0rIrrIiiII_r")
            ("device.queue.barrier", queue_barrier fences queued, "0rIrrI_v")
            ("device.queue.copy", queue_copy fences queued, "0rIrrrIrIII_v")
            ("device.queue.dealloca", queue_dealloca fences queued, "0rIrrrI_v")
            ("device.queue.execute", queue_execute fences queued, "0rIrrrI_v")
            ("device.queue.execute.indirect", queue_execute_indirect fences queued, "0rIrrrICrIID_v")
            ("device.queue.fill", queue_fill fences queued, "0rIrrrIIIiI_v")
            ("device.queue.flush", queue_flush, "0rI_v")
            ("device.queue.read", queue_read fences queued, "0rIrrrIrIII_v")
            ("device.queue.update", queue_update fences queued, "0rIrrrIrIII_v")
            ("device.queue.write", queue_write fences queued, "0rIrrrIrIII_v")
            ("devices.count", devices_count, "0v_i")
            ("devices.get", devices_get, "0i_r")
            ("ex.file.from_memory", file_from_memory, "0rIirIIi_r")
            ("executable.create", executable_create, "0rIrrr_r")
            ("executable.lookup.function", executable_lookup_function, "0rr_I")
            ("fence.await", fence_await resume fence_await_resume fences waiting, "0iICrD_i")
            ("fence.create", fence_create fences creating, "0rI_r")
            ("fence.fail", fence_fail, "0ri_v")
            ("fence.join", fence_join fences waiting, "0ICrD_r")
            ("fence.query", fence_query fences waiting, "0r_i")
            ("fence.signal", fence_signal, "0r_v")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_hal_0_7;

/// Invokes a macro with the functions of `hal` 0.6 (compilers 3.4 to 3.11) that differ from 0.7, after the macro's own
/// arguments.
macro_rules! for_each_hal_0_6 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("command_buffer.dispatch", command_buffer_dispatch_v0_6, "0rriiiiICiDCiirIID_v")
            ("command_buffer.dispatch.indirect", command_buffer_dispatch_indirect_v0_6, "0rriirIICiDCiirIID_v")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_hal_0_6;

/// Invokes a macro with the functions of `hal` 0.5 (compilers 3.0 to 3.3) that differ from 0.6, after the macro's own
/// arguments.
macro_rules! for_each_hal_0_5 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("channel.create", channel_create_v0_5, "0rIirrii_r")
            ("channel.split", channel_split_v0_5, "0riii_r")
            ("command_buffer.copy_buffer", command_buffer_copy_buffer_v0_5, "0riirIrII_v")
            ("command_buffer.execution_barrier", command_buffer_execution_barrier_v0_5, "0riii_v")
            ("command_buffer.fill_buffer", command_buffer_fill_buffer_v0_5, "0rrIIiii_v")
            ("command_buffer.update_buffer", command_buffer_update_buffer_v0_5, "0rrIrIIi_v")
            ("device.queue.alloca", queue_alloca_v0_5 fences queued, "0rIrriiiI_r")
            ("device.queue.dealloca", queue_dealloca_v0_5 fences queued, "0rIrrr_v")
            ("device.queue.execute", queue_execute_v0_5 fences queued, "0rIrrCrD_v")
            ("device.queue.execute.indirect", queue_execute_indirect_v0_5 fences queued, "0rIrrrCrIID_v")
            ("device.queue.read", queue_read_v0_5 fences queued, "0rIrrrIrIIi_v")
            ("device.queue.write", queue_write_v0_5 fences queued, "0rIrrrIrIIi_v")
            ("executable.create", executable_create_v0_5, "0rrrr_r")
            ("fence.await", fence_await_v0_5 resume fence_await_resume fences waiting, "0iCrD_i")
            ("fence.create", fence_create_v0_5 fences creating, "0ri_r")
            ("fence.join", fence_join_v0_5 fences waiting, "0CrD_r")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_hal_0_5;

/// Invokes a macro with the functions of `hal_inline` 0.0, after the macro's own arguments.
macro_rules! for_each_hal_inline_0_0 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("buffer.allocate", buffer_allocate @inline borrows buffer_storage of buffer_allocate_alone, "0iI_rr")
            ("buffer.allocate.initialized", buffer_allocate_initialized, "0irII_rr")
            ("buffer.length", buffer_length @inline, "0r_I")
            ("buffer.storage", buffer_storage @inline borrows buffer_storage, "0r_r")
            ("buffer.subspan", buffer_subspan, "0rII_r")
            ("buffer.wrap", buffer_wrap, "0rII_r")
            ("buffer_view.assert", buffer_view_assert @buffer_view_assert, "0rriiCID_v")
            ("buffer_view.buffer", buffer_view_buffer @inline borrows view_buffer, "0r_r")
            ("buffer_view.create", buffer_view_create @buffer_view_create, "0rIIiiCID_r")
            ("buffer_view.dim", buffer_view_dim @inline, "0ri_I")
            ("buffer_view.element_type", buffer_view_element_type @inline, "0r_i")
            ("buffer_view.encoding_type", buffer_view_encoding_type @inline, "0r_i")
            ("buffer_view.rank", buffer_view_rank @inline, "0r_i")
            ("buffer_view.trace", buffer_view_trace, "0rCrD_v")
            ("device.query.i64", device_query, "0rr_iI")
        }
    };
}
pub(crate) use for_each_hal_inline_0_0;

/// Invokes a macro with the functions of `hal_loader` 0.1, after the macro's own arguments.
macro_rules! for_each_hal_loader_0_1 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("executable.dispatch", executable_dispatch, "0rIiiiCiDCrIID_v")
            ("executable.load", executable_load, "0rrr_r")
            ("executable.lookup.function", executable_lookup_function, "0rr_I")
            ("executable.query_support", executable_query_support, "0r_i")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_hal_loader_0_1;

/// Invokes a macro with the functions of `hal_loader` 0.0 (compilers 3.0 to 3.11) that differ from 0.1, after the
/// macro's own arguments.
macro_rules! for_each_hal_loader_0_0 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("executable.dispatch", executable_dispatch_v0_0, "0riiiiCiDCrIID_v")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_hal_loader_0_0;

/// Invokes a macro with the functions of `io_parameters` 0.0, after the macro's own arguments.
macro_rules! for_each_io_parameters_0_0 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("gather", gather fences queued, "0rIrrrrrrr_v")
            ("load", load fences queued, "0rIrrrIiirrr_r")
            ("scatter", scatter fences queued, "0rIrrrrrrr_v")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_io_parameters_0_0;

/// Invokes a macro with the functions of `check` 0.0, after the macro's own arguments.
macro_rules! for_each_check_0_0 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("expect_all_true", expect_all_true, "0rr_v")
            ("expect_almost_eq", expect_almost_eq, "0rrrff_v")
            ("expect_eq", expect_eq, "0rrr_v")
            ("expect_false", expect_false, "0i_v")
            ("expect_true", expect_true, "0i_v")
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use for_each_check_0_0;

/// A function of a native module that translated code calls directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectImport {
    /// The module, such as `hal`, which is also the method of [`support::State`](crate::support::State) that returns it.
    pub module: &'static str,
    /// The name of its state's type in [`support`](crate::support), such as `HalState`.
    pub state: &'static str,
    /// The function's name, without the module's.
    pub name: &'static str,
    /// The state's method.
    pub method: &'static str,
    /// The state's method that resumes a call that yielded; None for functions that do not yield.
    pub resume: Option<&'static str>,
    /// How it is called, if not through `Native::call`: `inline` for small functions, which are inlined into the caller, or the
    /// function of [`support`](crate::support) that inlines its fast path.
    pub form: Option<&'static str>,
    /// How its result is borrowed from the object that owns it, instead of shared by reference counting.
    pub borrowed: Option<BorrowedResult>,
    /// How it uses fence arguments, where that is known.
    pub fences: Option<FenceUse>,
    /// Calling convention.
    pub convention: &'static str,
}

/// How a function uses fence arguments. A fence to wait for may be null, which counts as signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceUse {
    /// It creates a fence.
    Creating,
    /// It is a queue operation: it waits for [`FenceUse::WAIT`] and signals [`FenceUse::SIGNAL`].
    Queued,
    /// It waits for them or queries them.
    Waiting,
}

impl FenceUse {
    /// The index of the argument that is the wait fence of a queue operation.
    pub const WAIT: usize = 2;
    /// The index of the argument that is the signal fence. The method takes it as a
    /// [`SignalFence`](crate::hal::SignalFence), whose creation can be deferred.
    pub const SIGNAL: usize = 3;
}

/// How a result is borrowed from the object that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorrowedResult {
    /// The function of [`support`](crate::support) that borrows it.
    pub function: &'static str,
    /// None: the only argument owns the only result. Otherwise the first of two results owns the second, and this is the
    /// state's method that returns the first alone.
    pub alone: Option<&'static str>,
}

macro_rules! borrowed_result {
    () => {
        None
    };
    ($function:ident $(of $alone:ident)?) => {
        Some(BorrowedResult { function: stringify!($function), alone: optional!($($alone)?) })
    };
}

macro_rules! fence_use {
    () => {
        None
    };
    (creating) => {
        Some(FenceUse::Creating)
    };
    (queued) => {
        Some(FenceUse::Queued)
    };
    (waiting) => {
        Some(FenceUse::Waiting)
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

/// The rows of one module as imports.
macro_rules! direct_imports {
    (
        $module:literal $state:literal
        $(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal))*
    ) => {
        &[$(DirectImport {
            module: $module,
            state: $state,
            name: $name,
            method: stringify!($method),
            resume: optional!($($resume)?),
            form: optional!($($form)?),
            borrowed: borrowed_result!($($borrows $(of $alone)?)?),
            fences: fence_use!($($fences)?),
            convention: $convention,
        }),*]
    };
}

/// The rows of each module by version, newest first, each sorted by name.
const MODULES: &[(&str, &[&[DirectImport]])] = &[
    ("check", &[for_each_check_0_0!(direct_imports "check" "CheckState")]),
    (
        "hal",
        &[
            for_each_hal_0_7!(direct_imports "hal" "HalState"),
            for_each_hal_0_6!(direct_imports "hal" "HalState"),
            for_each_hal_0_5!(direct_imports "hal" "HalState"),
        ],
    ),
    ("hal_inline", &[for_each_hal_inline_0_0!(direct_imports "hal_inline" "HalInlineState")]),
    (
        "hal_loader",
        &[
            for_each_hal_loader_0_1!(direct_imports "hal_loader" "HalLoaderState"),
            for_each_hal_loader_0_0!(direct_imports "hal_loader" "HalLoaderState"),
        ],
    ),
    ("io_parameters", &[for_each_io_parameters_0_0!(direct_imports "io_parameters" "IoParametersState")]),
    ("vmvx", &[for_each_vmvx_0_0!(direct_imports "vmvx" "VmvxState")]),
];

/// The native modules that sessions provide: their names, and their constants in
/// [`support::natives`](crate::support::natives).
pub const PROVIDED: &[(&str, &str)] =
    &[("hal", "HAL"), ("hal_inline", "HAL_INLINE"), ("hal_loader", "HAL_LOADER"), ("io_parameters", "IO_PARAMETERS")];

/// Returns the function of an import by its qualified name and calling convention; None if it is not a known native
/// function.
#[must_use]
pub fn find(name: &str, convention: &str) -> Option<&'static DirectImport> {
    let (module, function) = name.split_once('.')?;
    let versions = MODULES.iter().find(|row| row.0 == module)?.1;
    let convention = CallingConvention::parse(convention).ok()?;
    versions.iter().find_map(|rows| {
        let row = &rows[rows.binary_search_by_key(&function, |row| row.name).ok()?];
        (convention == CallingConvention::parse(row.convention).ok()?).then_some(row)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn imports_are_found_by_name_and_convention() {
        let row = find("hal.buffer.length", "0r_I");
        assert_eq!(row.map(|row| (row.state, row.method, row.resume)), Some(("HalState", "buffer_length", None)));
        assert_eq!(find("hal.buffer.length", "0r_i"), None);
        assert_eq!(find("hal.buffer.size", "0r_I"), None);
        assert_eq!(find("lah.buffer.length", "0r_I"), None);
        assert_eq!(find("hal.fence.await", "0iICrD_i").and_then(|row| row.resume), Some("fence_await_resume"));
        // The calling convention distinguishes the versions of a function.
        for (convention, method) in
            [("0riirIrIII_v", "command_buffer_copy_buffer"), ("0riirIrII_v", "command_buffer_copy_buffer_v0_5")]
        {
            let row = find("hal.command_buffer.copy_buffer", convention);
            assert_eq!(row.map(|row| row.method), Some(method));
        }
        for (name, versions) in MODULES {
            assert!(versions.iter().all(|rows| rows.is_sorted_by_key(|row| row.name)), "{name}");
            let mut all: Vec<_> =
                versions.iter().flat_map(|rows| rows.iter().map(|r| (r.name, r.convention))).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "@{name}: two functions of one name and convention");
        }
    }

    #[test]
    #[cfg(feature = "std")]
    fn conventions_are_those_of_the_methods() {
        use crate::modules::{check, hal, hal_inline, hal_loader, io_parameters, vmvx};
        use crate::vm::{Linkage, Module};
        let modules: [&dyn Module; 6] = [
            &check::module(),
            &hal::module(hal::HalOptions::default()),
            &hal_inline::module(hal_inline::HalInlineOptions::default()),
            &hal_loader::module(hal_loader::HalLoaderOptions::default()),
            &io_parameters::module(io_parameters::IoParametersOptions::default()),
            &vmvx::module(),
        ];
        assert_eq!(modules.len(), MODULES.len());
        for (module, (name, versions)) in modules.into_iter().zip(MODULES) {
            assert_eq!(module.name(), *name);
            for row in versions.iter().copied().flatten() {
                let info = module
                    .lookup_as(row.name, &CallingConvention::parse(row.convention).unwrap())
                    .and_then(|ordinal| module.function(Linkage::Export, ordinal))
                    .map(|info| (info.name, info.calling_convention));
                assert_eq!(info, Some((row.name, row.convention)), "{name}");
            }
            assert_eq!(
                module.signature().export_count,
                versions.iter().map(|rows| rows.len()).sum::<usize>(),
                "{name}"
            );
        }
    }
}
