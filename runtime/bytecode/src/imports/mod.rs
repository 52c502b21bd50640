//! Tables of the native modules' functions, which translated code calls directly.
//!
//! Each version of a native module is one macro of rows. A row holds the import's name, the method of the module's state, and
//! the calling convention. Optional fields: `resume`, the method that resumes a call that yielded; `@`, a special form of
//! call; `borrows`, the function that borrows the result from its owner; `fences`, the use of fence arguments.
//!
//! The macro of an older version holds only the functions that differ from the next version. Versions coexist in one module,
//! because a function is found by its name and its calling convention. The native module derives its function table from
//! these rows, and the translator looks imports up by [`find`]. The tables do not need `std`.

mod rows;

use crate::CallingConvention;

/// A function of a native module that translated code calls directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectImport {
    /// The module, such as `hal`, which is also the method of the runtime's `support::State` that returns it.
    pub module: &'static str,
    /// The name of its state's type in the runtime's `support`, such as `HalState`.
    pub state: &'static str,
    /// The function's name, without the module's.
    pub name: &'static str,
    /// The state's method.
    pub method: &'static str,
    /// The state's method that resumes a call that yielded; None for functions that do not yield.
    pub resume: Option<&'static str>,
    /// How it is called, if not through `Native::call`: `inline` for small functions, which are inlined into the caller, or the
    /// function of `support` that inlines its fast path.
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
    /// `hal::SignalFence`, whose creation can be deferred.
    pub const SIGNAL: usize = 3;
}

/// How a result is borrowed from the object that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorrowedResult {
    /// The function of the runtime's `support` that borrows it.
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
pub const MODULES: &[(&str, &[&[DirectImport]])] = &[
    ("check", &[crate::for_each_check_0_0!(direct_imports "check" "CheckState")]),
    (
        "hal",
        &[
            crate::for_each_hal_0_7!(direct_imports "hal" "HalState"),
            crate::for_each_hal_0_6!(direct_imports "hal" "HalState"),
            crate::for_each_hal_0_5!(direct_imports "hal" "HalState"),
        ],
    ),
    ("hal_inline", &[crate::for_each_hal_inline_0_0!(direct_imports "hal_inline" "HalInlineState")]),
    (
        "hal_loader",
        &[
            crate::for_each_hal_loader_0_1!(direct_imports "hal_loader" "HalLoaderState"),
            crate::for_each_hal_loader_0_0!(direct_imports "hal_loader" "HalLoaderState"),
        ],
    ),
    ("io_parameters", &[crate::for_each_io_parameters_0_0!(direct_imports "io_parameters" "IoParametersState")]),
    ("vmvx", &[crate::for_each_vmvx_0_0!(direct_imports "vmvx" "VmvxState")]),
];

/// The native modules that sessions provide: their names, and their constants in the runtime's `support::natives`.
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
}
