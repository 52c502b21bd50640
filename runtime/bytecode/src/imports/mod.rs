//! Tables of the native modules' functions, which translated code calls directly.
//!
//! Each native module is one macro of rows. A row holds the import's name, the method of the module's state, the calling
//! convention, and what a call costs. Optional fields: `resume`, the method that resumes a call that yielded; `@`, a special form of call; `borrows`,
//! the function that borrows the result from its owner; `fences`, the use of fence arguments.
//!
//! The rows are those of the newest version. A function of an older version is an [`OlderForm`]: the newest function, and edits of
//! the arguments. Versions coexist, because a function is found by its name and its calling convention. The native module derives
//! its function table from these rows, and the translator looks imports up by [`find`]. The tables do not need `std`.

mod cost;
pub mod older;
mod rows;

pub use cost::{BYTES_PER_STEP, Cost, INSTRUCTIONS_PER_STEP, Operand, Term};

use crate::CallingConvention;
use older::{Edit, OlderForm};

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
    /// What a call costs by its operands.
    pub cost: Cost,
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
        $(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal, $cost:tt))*
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
            cost: {
                #[allow(unused_imports, reason = "there may be no row with a term")]
                use cost::Term::*;
                Cost(&$cost)
            },
        }),*]
    };
}

/// The functions of a native module.
#[derive(Clone, Copy, Debug)]
pub struct ModuleFunctions {
    /// The module's name.
    pub name: &'static str,
    /// The functions, sorted by name.
    pub functions: &'static [DirectImport],
    /// The forms that functions had in older versions, sorted by name.
    pub older: &'static [OlderForm],
}

/// The functions of each native module.
pub const MODULES: &[ModuleFunctions] = &[
    ModuleFunctions {
        name: "check",
        functions: crate::for_each_check_function!(direct_imports "check" "CheckState"),
        older: &[],
    },
    ModuleFunctions {
        name: "hal",
        functions: crate::for_each_hal_function!(direct_imports "hal" "HalState"),
        older: older::HAL,
    },
    ModuleFunctions {
        name: "hal_inline",
        functions: crate::for_each_hal_inline_function!(direct_imports "hal_inline" "HalInlineState"),
        older: &[],
    },
    ModuleFunctions {
        name: "hal_loader",
        functions: crate::for_each_hal_loader_function!(direct_imports "hal_loader" "HalLoaderState"),
        older: older::HAL_LOADER,
    },
    ModuleFunctions {
        name: "io_parameters",
        functions: crate::for_each_io_parameters_function!(direct_imports "io_parameters" "IoParametersState"),
        older: &[],
    },
    ModuleFunctions {
        name: "vmvx",
        functions: crate::for_each_vmvx_function!(direct_imports "vmvx" "VmvxState"),
        older: &[],
    },
];

/// The native modules that sessions provide: their names, and their constants in the runtime's `support::natives`.
pub const PROVIDED: &[(&str, &str)] =
    &[("hal", "HAL"), ("hal_inline", "HAL_INLINE"), ("hal_loader", "HAL_LOADER"), ("io_parameters", "IO_PARAMETERS")];

impl ModuleFunctions {
    /// Returns the functions of a name, the newest first.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &'static DirectImport> {
        let first = self.functions.partition_point(|row| row.name < name);
        self.functions[first..].iter().take_while(move |row| row.name == name)
    }
}

/// Returns the function of an import by its qualified name and calling convention, and the edits of the arguments that its call
/// takes; None if it is not a known native function.
#[must_use]
pub fn find(name: &str, convention: &str) -> Option<(&'static DirectImport, &'static [Edit])> {
    let (module, name) = name.split_once('.')?;
    let module = MODULES.iter().find(|row| row.name == module)?;
    let wanted = CallingConvention::parse(convention).ok()?;
    let is_wanted = |convention| CallingConvention::parse(convention).is_ok_and(|convention| convention == wanted);
    if let Some(function) = module.named(name).find(|row| is_wanted(row.convention)) {
        return Some((function, &[]));
    }
    let form = module.older.iter().find(|form| form.name == name && is_wanted(form.convention))?;
    Some((module.named(name).next()?, form.edits))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
