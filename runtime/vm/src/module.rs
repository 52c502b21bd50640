//! What every module offers, be it interpreted, translated or native.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use super::call::CallBuffer;
use super::stack::Stack;
use crate::{Error, Result};
use incarnate_bytecode::{CallingConvention, Dependency, ExecutableTarget, declaration_of};

/// Which of a module's function tables an ordinal indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// Functions that the module implements.
    Internal,
    /// Functions that it imports.
    Import,
    /// Functions that it exports.
    Export,
}

/// Version and sizes of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleSignature {
    /// Version, against which dependents compare the least one that they need.
    pub version: u32,
    /// Number of module attributes.
    pub attribute_count: usize,
    /// Number of imported functions.
    pub import_count: usize,
    /// Number of exported functions.
    pub export_count: usize,
    /// Number of internal functions.
    pub internal_count: usize,
}

/// Name and calling convention of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo<'a> {
    /// Name; with the module's before a dot for imports. Empty for internal functions that nothing names.
    pub name: &'a str,
    /// Calling convention in text form, empty where it is not known.
    pub calling_convention: &'a str,
    /// For imports: the program links without it.
    pub optional: bool,
}

impl<'a> FunctionInfo<'a> {
    /// The calling convention.
    ///
    /// # Errors
    /// Those of [`CallingConvention::parse`].
    pub fn convention(&self) -> Result<CallingConvention<'a>> {
        CallingConvention::parse(self.calling_convention)
    }
}

/// An event of the hosting program that modules are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The program goes on after a suspension; told in the order of registration.
    Resume,
    /// The program is about to be suspended: drop what can be recreated. Told in reverse order.
    Suspend,
    /// Memory is short: drop whatever can be dropped. Told in reverse order.
    LowMemory,
    /// The context was forked from another one; told in the order of registration.
    Fork,
}

/// What the call of a function came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Completion {
    /// The results are in the call buffer.
    Done,
    /// The call is suspended; what it needs to go on is on the stack.
    Yielded,
}

/// The state of a module within one context: globals, resolved imports, caches.
pub trait ModuleState: Any + Send + Sync + fmt::Debug {}

impl dyn ModuleState {
    /// The state as its module's type.
    ///
    /// # Errors
    /// INTERNAL where it is another module's.
    #[inline]
    pub fn downcast<T: ModuleState>(&self) -> Result<&T> {
        let any: &dyn Any = self;
        any.downcast_ref().ok_or_else(|| Error::internal("module state of another module"))
    }

    /// The same, to share it.
    ///
    /// # Errors
    /// As above.
    pub fn downcast_arc<T: ModuleState>(self: Arc<Self>) -> Result<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().map_err(|_| Error::internal("module state of another module"))
    }

    /// The state as its module's type, for changes while a context is built.
    ///
    /// # Errors
    /// INTERNAL where it is another module's.
    pub fn downcast_mut<T: ModuleState>(&mut self) -> Result<&mut T> {
        let any: &mut dyn Any = self;
        any.downcast_mut().ok_or_else(|| Error::internal("module state of another module"))
    }
}

/// A function of a module within a context: what imports are resolved to, and what programs call.
#[derive(Clone, Debug)]
pub struct BoundFunction {
    /// The module.
    pub module: Arc<dyn Module>,
    /// Its state in the context.
    pub state: Arc<dyn ModuleState>,
    /// Ordinal among the module's exports.
    pub export: u32,
}

impl BoundFunction {
    /// Adds the function to the locations of an error.
    pub(super) fn locate(&self, error: Error) -> Error {
        let name = self.module.function(Linkage::Export, self.export).map_or("", |info| info.name);
        super::failure::locate(error, self.module.name(), name)
    }
}

/// An exported function of a module, resolved for repeated calls.
pub trait Entry: Send + Sync + fmt::Debug {
    /// As [`Module::begin_call`].
    ///
    /// # Errors
    /// What the function fails with.
    fn begin_call(&self, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion>;
}

/// A module: functions that can be found, inspected and called. Immutable and shared between contexts and threads.
pub trait Module: Send + Sync + fmt::Debug {
    /// Name, by which other modules import from it.
    fn name(&self) -> &str;

    /// Version and sizes.
    fn signature(&self) -> ModuleSignature;

    /// The module attribute at `index`: key and value.
    fn attribute(&self, index: usize) -> Option<(&str, &str)> {
        let _ = index;
        None
    }

    /// The dependency at `index`; None past the last one.
    fn dependency(&self, index: usize) -> Option<Dependency<'_>> {
        let _ = index;
        None
    }

    /// The targets that the module's executables are compiled for, as far as the module records them.
    fn executable_targets(&self) -> Vec<ExecutableTarget<'_>> {
        Vec::new()
    }

    /// The ordinal of the function of the given name; imports are named with their module's name before a dot.
    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32>;

    /// The ordinal of the exported function of the given name that is called in the given way; of one that is called in
    /// another way if there is none. A module that offers a function in several versions has several of one name.
    fn lookup_as(&self, name: &str, convention: &CallingConvention<'_>) -> Option<u32> {
        let _ = convention;
        self.lookup(Linkage::Export, name)
    }

    /// Which versions of its functions the module offers, and who imports these, for messages: "versions 0.5 to 0.7".
    fn offered_versions(&self) -> Option<&str> {
        None
    }

    /// Name and calling convention of a function.
    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>>;

    /// The attribute at `index` of a function: key and value.
    fn function_attribute(&self, linkage: Linkage, ordinal: u32, index: usize) -> Option<(&str, &str)> {
        let _ = (linkage, ordinal, index);
        None
    }

    /// The value of a function's attribute, of those with equal keys the first.
    fn function_attribute_value(&self, linkage: Linkage, ordinal: u32, key: &str) -> Option<&str> {
        (0..)
            .map_while(|index| self.function_attribute(linkage, ordinal, index))
            .find(|row| row.0 == key)
            .map(|row| row.1)
    }

    /// The declaration in the attributes of an exported function, that of the model before that of the compiler; see
    /// [`declaration_of`].
    fn attribute_declaration(&self, export: u32) -> Option<&str> {
        let convention = self.function(Linkage::Export, export)?.convention().ok()?;
        let attributes = (0..).map_while(|index| self.function_attribute(Linkage::Export, export, index));
        declaration_of(attributes, &convention)
    }

    /// The declaration of an exported function: the value of its attribute `iree.abi.declaration` or, where it has none or one that
    /// contradicts its body, what is recovered from that.
    fn declaration(&self, export: u32) -> Option<&str> {
        self.attribute_declaration(export)
    }

    /// Where in the model's source an offset of an internal function comes from, if the module has debug information.
    fn source_location(&self, function: u32, offset: u32) -> Option<String> {
        let _ = (function, offset);
        None
    }

    /// Creates the state that a context holds for the module; dropping it frees it.
    ///
    /// # Errors
    /// Whatever the module needs and cannot have.
    fn allocate_state(&self, limits: &super::Limits) -> Result<Box<dyn ModuleState>>;

    /// Copies a state for a forked context; what it refers to is shared.
    ///
    /// # Errors
    /// UNIMPLEMENTED where the module's state cannot be copied.
    fn fork_state(&self, parent: &dyn ModuleState) -> Result<Box<dyn ModuleState>> {
        let _ = parent;
        Err(Error::unimplemented(alloc::format!("module @{} cannot be forked", self.name())))
    }

    /// Binds an import, once for each that was found, while a context is built. The calling conventions were compared.
    ///
    /// # Errors
    /// The reason why the import is unusable.
    fn resolve_import(&self, state: &mut dyn ModuleState, import: u32, target: BoundFunction) -> Result<()> {
        let _ = (state, import, target);
        Ok(())
    }

    /// Tells the module of an event.
    ///
    /// # Errors
    /// Whatever keeps the module from following.
    fn notify(&self, state: &dyn ModuleState, signal: Signal) -> Result<()> {
        let _ = (state, signal);
        Ok(())
    }

    /// Calls an exported function: takes the arguments out of the buffer, leaves the results in it.
    ///
    /// The caller passes what the calling convention names. A call that yields leaves on the stack what
    /// [`Module::resume_call`] needs.
    ///
    /// # Errors
    /// What the function fails with.
    fn begin_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion>;

    /// Returns [`Module::begin_call`] specialised for one function; None if that is not faster.
    fn entry(self: Arc<Self>, state: Arc<dyn ModuleState>, export: u32) -> Option<Arc<dyn Entry>> {
        let _ = (state, export);
        None
    }

    /// Goes on with a call of this module that yielded, and leaves the results in the buffer.
    ///
    /// # Errors
    /// What the function fails with.
    fn resume_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let _ = (state, export, stack, buffer);
        Err(Error::failed_precondition(alloc::format!("no call of module @{} is suspended", self.name())))
    }
}
