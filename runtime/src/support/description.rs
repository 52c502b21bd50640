//! The static description of a translated module.

use alloc::borrow::Cow;
#[cfg(feature = "std")]
use alloc::sync::Arc;
use core::fmt;

use super::constants::Constants;
use super::state::State;
use crate::bytecode::{Dependency, ExecutableTarget};
#[cfg(feature = "std")]
use crate::hal::local::loaders::Workgroups;
#[cfg(feature = "std")]
use crate::hal::local::{Coarsening, ExecutableLoader};
#[cfg(feature = "std")]
use crate::vm::Ref;
use crate::vm::{CallBuffer, Completion, Stack};
use crate::{Location, Result};

#[cfg(feature = "std")]
pub use crate::hal::local::loaders::Loader;
/// A loader of executables; without `std` there are none.
#[cfg(not(feature = "std"))]
#[derive(Clone, Copy, Debug)]
pub enum Loader {}

/// A translated module: its tables and its code.
#[derive(Debug)]
pub struct Description {
    /// The name by which other modules import from it.
    pub name: &'static str,
    /// The version.
    pub version: u32,
    /// Attributes of the module: keys and values.
    pub attributes: &'static [(&'static str, &'static str)],
    /// Modules that it imports from.
    pub dependencies: &'static [Dependency<'static>],
    /// Imported functions, by ordinal.
    pub imports: &'static [ImportedFunction],
    /// Exported functions, by ordinal.
    pub exports: &'static [Export],
    /// Internal functions, by ordinal.
    pub functions: &'static [Function],
    /// The texts of source locations, which the tables of functions index.
    pub sources: &'static [&'static str],
    /// Bytes of primitive globals.
    pub global_bytes: u32,
    /// The number of reference globals.
    pub global_refs: u32,
    /// The targets that the module's machine code is compiled for, as far as the module records them.
    pub targets: &'static [ExecutableTarget<'static>],
    /// The loaders that the module's executables need on devices without loaders of their own.
    pub loaders: &'static [Loader],
    /// The translated executables that the module creates.
    pub executables: Executables,
    /// The bytes that hold the constants.
    pub constants: Constants,
    /// The constants, by ordinal: offset and length in bytes; (0, 0) for those that no function uses.
    pub rodata: &'static [(usize, usize)],
    /// Calls an export, given by its ordinal.
    pub call: fn(&State, u32, &mut Stack, &mut CallBuffer) -> Result<Completion>,
    /// Resumes an export that yielded.
    pub resume: fn(&State, u32, &mut Stack, &mut CallBuffer) -> Result<Completion>,
}

/// A function that a translated module imports.
#[derive(Clone, Copy, Debug)]
pub struct ImportedFunction {
    /// Name, with the module's before a dot.
    pub name: &'static str,
    /// Calling convention.
    pub convention: &'static str,
    /// The module links without it.
    pub optional: bool,
    /// It is called as a method of the native module's state, so no other module can provide it.
    pub direct: bool,
}

/// A function that a translated module exports.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// Name.
    pub name: &'static str,
    /// Ordinal among the internal functions.
    pub function: u32,
    /// The declaration that is recovered from the function's body; empty if an attribute declares it and agrees with the body.
    pub recovered: &'static str,
}

/// A function of a translated module.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name of its first export, or else that of the debug database, or empty.
    pub name: &'static str,
    /// Calling convention, or empty.
    pub convention: &'static str,
    /// Attributes: keys and values.
    pub attributes: &'static [(&'static str, &'static str)],
    /// The source locations of instructions: ascending bytecode offsets and indices into [`Description::sources`]. Each
    /// applies up to the next.
    pub locations: &'static [(u32, u32)],
}

/// Calls a kernel for a range of workgroups.
#[cfg(feature = "std")]
pub type Kernel = fn(&State, &mut Stack, &mut Workgroups<'_>) -> Result<()>;

/// An executable that is part of a program.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct Executable {
    /// The ordinal of the constant that holds the executable.
    pub rodata: u32,
    /// The translated module.
    pub module: &'static Description,
    /// The exports that are kernels.
    pub kernels: &'static [ExportedKernel],
}

/// An export of an executable that is a kernel.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct ExportedKernel {
    /// Its ordinal.
    pub export: u32,
    /// The function.
    pub function: Kernel,
    /// It takes references to buffers, and not [`Memory`](crate::vm::Memory).
    pub takes_references: bool,
    /// A bit set of the bindings that it only reads.
    pub read_only_bindings: u64,
    /// The workgroups along x that a call may run.
    pub coarsening: Coarsening,
}

/// Creates the loader of executables from the module's constants.
#[cfg(feature = "std")]
type CreateLoader = fn(&'static [Executable], &Arc<[Ref]>) -> Arc<dyn ExecutableLoader>;

/// The executables of a translated module.
#[derive(Clone, Copy)]
pub struct Executables {
    /// Creates their loader. A function pointer links the loader only into programs with executables.
    #[cfg(feature = "std")]
    pub(super) loader: Option<CreateLoader>,
    #[cfg(feature = "std")]
    pub(super) all: &'static [Executable],
}

impl fmt::Debug for Executables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executables")
    }
}

impl Executables {
    /// No executables.
    #[cfg(feature = "std")]
    pub const NONE: Executables = Executables { loader: None, all: &[] };
    /// No executables.
    #[cfg(not(feature = "std"))]
    pub const NONE: Executables = Executables {};

    /// Whether a kernel only reads a binding.
    #[cfg(feature = "std")]
    fn have_read_only_bindings(&self) -> bool {
        self.all.iter().flat_map(|executable| executable.kernels).any(|kernel| kernel.read_only_bindings != 0)
    }

    /// Whether a kernel only reads a binding.
    #[cfg(not(feature = "std"))]
    fn have_read_only_bindings(&self) -> bool {
        false
    }
}

impl Description {
    /// Whether slices are passed to its functions in place instead of being copied. They are copied for programs that access
    /// memory without a device, and if no kernel is known to only read some binding. `inputs_only_read` says that the user
    /// promises this for kernels of machine code.
    pub(super) fn borrows_inputs(&self, inputs_only_read: bool) -> bool {
        let is_inline = self.imports.iter().any(|import| import.name.starts_with("hal_inline."));
        !is_inline && (inputs_only_read || self.loaders.is_empty() && self.executables.have_read_only_bindings())
    }

    /// The name of an internal function for messages.
    pub(super) fn function_name(&self, function: u32) -> Cow<'static, str> {
        match self.functions.get(function as usize).map(|function| function.name) {
            None | Some("") => Cow::Owned(alloc::format!("fn{function}")),
            Some(name) => Cow::Borrowed(name),
        }
    }

    /// The source location of the instruction at a bytecode offset.
    pub(super) fn source_location(&self, function: u32, offset: u32) -> Option<&'static str> {
        let locations = self.functions.get(function as usize)?.locations;
        let nearest = locations.partition_point(|location| location.0 <= offset).checked_sub(1)?;
        self.sources.get(locations.get(nearest)?.1 as usize).copied()
    }

    /// The location of an instruction, for errors.
    pub(super) fn location(&self, function: u32, offset: u32) -> Location {
        Location {
            module: Some(self.name.into()),
            function: Some(self.function_name(function).into_owned()),
            offset: Some(offset.into()),
            source: self.source_location(function, offset).map(Into::into),
        }
    }
}
