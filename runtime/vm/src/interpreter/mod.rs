//! The interpreter: bytecode modules, run from a pre-decoded form.

mod code;
pub(super) mod frames;
mod lower;
pub(super) mod nests;
mod operation;
mod run;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::Limits;
use super::array;
use super::buffer::Buffer;
use super::call::CallBuffer;
use super::failure;
use super::module::{BoundFunction, Completion, Entry, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState};
use super::stack::Stack;
use super::state::State;
use super::sync::Once;
use super::value_type::ValueType;
use crate::{Error, Result};
use code::Code;
use incarnate_bytecode::index_map::IndexMap;
use incarnate_bytecode::ir::nest::Order;
use incarnate_bytecode::{Dependency, ExecutableTarget, Signature, VerifiedModule, recovered_declarations};
use nests::Optimization;
use run::{Machine, Suspended};

/// A bytecode module, interpreted. Functions are pre-decoded when they are first called.
pub struct BytecodeModule {
    /// Differs for all modules of the process, so that a suspended call is never resumed by another one.
    id: usize,
    /// What functions are lowered with; None for one instruction after the other.
    optimize: Option<Optimization>,
    verified: Arc<VerifiedModule>,
    types: Box<[ValueType]>,
    functions: Box<[Once<Code>]>,
    rodata: Box<[Once<Arc<Buffer>>]>,
    /// Ordinals of the exports, sorted by name.
    exports_by_name: Once<Box<[u32]>>,
    /// See [`recovered_declarations`].
    recovered: Once<IndexMap<u32, String>>,
}

impl BytecodeModule {
    /// Prepares a verified module for execution.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the process knows too many names of types already.
    pub fn new(verified: Arc<VerifiedModule>) -> Result<Arc<BytecodeModule>> {
        BytecodeModule::with_optimization(verified, Some(Optimization::WORTHWHILE))
    }

    /// As [`BytecodeModule::new`], but float reductions may be computed in another order than that of the bytecode: sums along
    /// adjacent elements, for example, in partial sums. Results may differ by rounding, and are the same on every processor and in
    /// translated code that was reassociated, too.
    ///
    /// # Errors
    /// As [`BytecodeModule::new`].
    pub fn reassociating(verified: Arc<VerifiedModule>) -> Result<Arc<BytecodeModule>> {
        // The order of sums decides about results, however short loops are.
        BytecodeModule::with_optimization(verified, Some(Optimization { order: Order::Any, least: 0 }))
    }

    /// As [`BytecodeModule::new`], but functions run one instruction after the other: what tests compare with.
    ///
    /// # Errors
    /// As [`BytecodeModule::new`].
    #[doc(hidden)]
    pub fn without_optimization(verified: Arc<VerifiedModule>) -> Result<Arc<BytecodeModule>> {
        BytecodeModule::with_optimization(verified, None)
    }

    /// As [`BytecodeModule::new`], but nests run as such however short they are: what tests compare.
    ///
    /// # Errors
    /// As [`BytecodeModule::new`].
    #[doc(hidden)]
    pub fn with_short_nests(verified: Arc<VerifiedModule>) -> Result<Arc<BytecodeModule>> {
        BytecodeModule::with_optimization(verified, Some(Optimization { least: 0, ..Optimization::WORTHWHILE }))
    }

    fn with_optimization(verified: Arc<VerifiedModule>, optimize: Option<Optimization>) -> Result<Arc<BytecodeModule>> {
        let mut types = array::with_capacity(verified.types().len())?;
        for definition in verified.types() {
            types.push(ValueType::of_definition(definition)?);
        }
        let functions = (0..verified.function_count()).map(|_| Once::default()).collect();
        let rodata = (0..verified.rodata_count()).map(|_| Once::default()).collect();
        static NEXT_ID: AtomicUsize = AtomicUsize::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let types = types.into_boxed_slice();
        Ok(Arc::new(BytecodeModule {
            id,
            optimize,
            types,
            functions,
            rodata,
            exports_by_name: Once::default(),
            recovered: Once::default(),
            verified,
        }))
    }

    /// The module as it was verified.
    #[must_use]
    pub fn verified(&self) -> &Arc<VerifiedModule> {
        &self.verified
    }

    #[inline]
    fn code(&self, function: u32) -> Result<&Code> {
        let slot = self.functions.get(function as usize).ok_or_else(|| no_function(function))?;
        match slot.get() {
            Some(code) => Ok(code),
            None => slot.get_or_try_init(|| lower::lower(&self.verified, &self.types, function, self.optimize)),
        }
    }

    #[inline]
    fn type_of(&self, id: u32) -> ValueType {
        self.types.get(id as usize).copied().unwrap_or(ValueType::AnyRef)
    }

    fn element_type_of(&self, id: u32) -> ValueType {
        match self.verified.types().get(id as usize) {
            Some(definition) => self.type_of(id).of_elements(definition),
            None => ValueType::Any,
        }
    }

    #[inline]
    fn rodata(&self, ordinal: u32) -> Result<&Arc<Buffer>> {
        let none = || Error::out_of_range(alloc::format!("no read-only segment {ordinal}"));
        let slot = self.rodata.get(ordinal as usize).ok_or_else(none)?;
        match slot.get() {
            Some(buffer) => Ok(buffer),
            None => slot.get_or_try_init(|| {
                let (contents, range) = self.verified.rodata(ordinal).ok_or_else(none)?;
                Buffer::of_contents(contents, range)
            }),
        }
    }

    /// The first export of a name.
    fn export_named(&self, name: &str) -> Option<u32> {
        let name_of = |ordinal: u32| self.verified.export(ordinal).map(|export| export.local_name);
        let index = match self.exports_by_name.get() {
            Some(index) => index,
            None => {
                let create = || {
                    let mut index: Box<[u32]> = (0..self.verified.exports().len() as u32).collect();
                    index.sort_by_key(|ordinal| name_of(*ordinal));
                    Ok(index)
                };
                self.exports_by_name.get_or_try_init(create).ok()?
            }
        };
        let found = *index.get(index.partition_point(|ordinal| name_of(*ordinal) < Some(name)))?;
        (name_of(found) == Some(name)).then_some(found)
    }

    /// Returns the declarations of exported functions that have none that holds, by the functions' ordinals.
    fn recovered(&self) -> Option<&IndexMap<u32, String>> {
        match self.recovered.get() {
            Some(recovered) => Some(recovered),
            None => self.recovered.get_or_try_init(|| Ok(recovered_declarations(&self.verified))).ok(),
        }
    }

    #[cold]
    fn unresolved(&self, import: u32) -> Error {
        failure::unresolved(self.verified.import(import).map_or("?", |import| import.full_name))
    }

    /// Calls a function by its ordinal.
    #[inline]
    fn begin(&self, state: &State, function: u32, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
        let code = self.code(function)?;
        let bottom = stack.frames.mark();
        stack.frames.open(code.words, code.refs)?;
        let mut machine = Machine { module: self, state, stack, buffer, bottom, code, pc: 0 };
        match machine.enter(code) {
            Ok(()) => self.drive(machine),
            Err(error) => {
                // It is the caller who is wrong.
                machine.stack.frames.release(bottom);
                Err(error)
            }
        }
    }

    /// Runs a machine; where it fails, says where and closes its frames.
    fn drive(&self, mut machine: Machine<'_>) -> Result<Completion> {
        let result = machine.run();
        // The completion is constructed anew: copied as a whole, the result would wait for the writes of its parts.
        match result {
            Ok(Completion::Done) => Ok(Completion::Done),
            Ok(Completion::Yielded) => Ok(Completion::Yielded),
            Err(error) => Err(self.unwind(machine, error)),
        }
    }

    #[cold]
    fn unwind(&self, machine: Machine<'_>, mut error: Error) -> Error {
        let frames = &mut machine.stack.frames;
        error = error.at(self.location(machine.code, machine.pc));
        for _ in 0..frames.depth().saturating_sub(machine.bottom.depth()).min(failure::CALLER_LOCATIONS) {
            let code = frames.pop().and_then(|caller| {
                let code = self.functions.get(caller.function() as usize).and_then(Once::get)?;
                Some((code, code.sites.get(caller.site() as usize)?.pc))
            });
            if let Some((code, pc)) = code {
                error = error.at(self.location(code, pc));
            }
        }
        frames.release(machine.bottom);
        error
    }

    fn location(&self, code: &Code, pc: u32) -> crate::Location {
        let offset = code.offsets.get(pc as usize).copied().unwrap_or(0);
        self.verified.location(code.function, offset)
    }
}

#[cold]
fn no_function(ordinal: u32) -> Error {
    Error::out_of_range(alloc::format!("no function {ordinal}"))
}

impl fmt::Debug for BytecodeModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytecode module @{} ({} functions)", self.name(), self.functions.len())
    }
}

impl Module for BytecodeModule {
    fn name(&self) -> &str {
        self.verified.name()
    }

    fn signature(&self) -> ModuleSignature {
        ModuleSignature {
            version: self.verified.version(),
            attribute_count: self.verified.attributes().len(),
            import_count: self.verified.import_count() as usize,
            export_count: self.verified.exports().len(),
            internal_count: self.functions.len(),
        }
    }

    fn attribute(&self, index: usize) -> Option<(&str, &str)> {
        self.verified.attribute(index)
    }

    fn dependency(&self, index: usize) -> Option<Dependency<'_>> {
        self.verified.dependency(index)
    }

    fn executable_targets(&self) -> Vec<ExecutableTarget<'_>> {
        self.verified.executable_targets()
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        let position = match linkage {
            Linkage::Export => return self.export_named(name),
            Linkage::Import => self.verified.imports().position(|import| import.full_name == name),
            Linkage::Internal => {
                (0..self.verified.function_count()).position(|ordinal| self.verified.function_name(ordinal) == name)
            }
        };
        position.map(|position| position as u32)
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        let internal = |ordinal: u32, name| {
            let view = self.verified.function(ordinal)?;
            let calling_convention = view.calling_convention.unwrap_or_default();
            Some(FunctionInfo { name, calling_convention, optional: false })
        };
        match linkage {
            Linkage::Export => {
                let export = self.verified.export(ordinal)?;
                internal(export.function, export.local_name)
            }
            Linkage::Internal => {
                let export = self.verified.export_of(ordinal);
                let export = export.map(|export| export.local_name);
                internal(ordinal, export.or_else(|| self.verified.function_debug_name(ordinal)).unwrap_or_default())
            }
            Linkage::Import => {
                let import = self.verified.import(ordinal)?;
                Some(FunctionInfo {
                    name: import.full_name,
                    calling_convention: import.calling_convention_text,
                    optional: import.optional,
                })
            }
        }
    }

    fn function_attribute(&self, linkage: Linkage, ordinal: u32, index: usize) -> Option<(&str, &str)> {
        let function = match linkage {
            Linkage::Export => self.verified.exported_function(ordinal)?,
            Linkage::Internal => ordinal,
            Linkage::Import => return None,
        };
        self.verified.function_attribute(function, index)
    }

    fn declaration(&self, export: u32) -> Option<&str> {
        let function = self.verified.exported_function(export)?;
        Signature::certain(&self.verified, function)
            .or_else(|| self.recovered()?.get(function).map(|text| &**text))
            .or_else(|| Signature::declared(&self.verified, function))
    }

    fn source_location(&self, function: u32, offset: u32) -> Option<String> {
        self.verified.source_location(function, offset)
    }

    fn allocate_state(&self, limits: &Limits) -> Result<Box<dyn ModuleState>> {
        let module = &self.verified;
        let (bytes, references) = (module.global_bytes(), module.global_ref_count());
        Ok(Box::new(State::new(bytes, references, module.import_count(), &limits.ledger)?))
    }

    fn fork_state(&self, parent: &dyn ModuleState) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new(parent.downcast::<State>()?.fork()?))
    }

    fn resolve_import(&self, state: &mut dyn ModuleState, import: u32, target: BoundFunction) -> Result<()> {
        state.downcast_mut::<State>()?.resolve(import, target)
    }

    fn begin_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let function = self.verified.exported_function(export).ok_or_else(|| no_function(export))?;
        self.begin(state.downcast()?, function, stack, buffer)
    }

    fn entry(self: Arc<Self>, state: Arc<dyn ModuleState>, export: u32) -> Option<Arc<dyn Entry>> {
        let function = self.verified.exported_function(export)?;
        let state = state.downcast_arc().ok()?;
        Some(Arc::new(InterpretedEntry { module: self, state, function }))
    }
    fn resume_call(
        &self,
        state: &Arc<dyn ModuleState>,
        _: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let Suspended { module, bottom, top, function, pc } = *stack.take_suspended()?;
        if module != self.id {
            return Err(Error::failed_precondition("the call that is resumed is another module's"));
        }
        let code = self.code(function)?;
        let is_suspended = stack.is_suspended();
        let mut machine = Machine { module: self, state: state.downcast()?, stack, buffer, bottom, code, pc };
        // A frame that waits for an import stands at the call; one that yielded by itself, at what comes next.
        if let Some(inst) = code.instructions.get(pc as usize)
            && inst.operation == operation::Operation::CallImportYieldable
            && is_suspended
        {
            let site = &code.sites[inst.imm as usize];
            match machine.resume_import(code, site, top) {
                Ok(Completion::Done) => machine.pc = site.resume,
                Ok(Completion::Yielded) => return Ok(Completion::Yielded),
                Err(error) => return Err(self.unwind(machine, error)),
            }
        }
        self.drive(machine)
    }
}

/// An export of an interpreted module.
#[derive(Debug)]
struct InterpretedEntry {
    module: Arc<BytecodeModule>,
    state: Arc<State>,
    function: u32,
}

impl Entry for InterpretedEntry {
    fn begin_call(&self, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
        self.module.begin(&self.state, self.function, stack, buffer)
    }
}
