//! The implementation of `vm::Module` for translated modules.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::description::Description;
use super::state::State;
use crate::bytecode::{Contents, Dependency, ExecutableTarget};
use crate::vm::{
    BoundFunction, Buffer, CallBuffer, Completion, Entry, FunctionInfo, Limits, Linkage, Module, ModuleSignature,
    ModuleState, Once, Ref, Stack,
};
use crate::{Result, ResultExt};

/// A translated module. It behaves like the interpreted module, except that it counts fuel only if it is translated as
/// untrusted.
pub struct TranslatedModule {
    description: &'static Description,
    /// The bytes of the constants, if they override those of the description.
    contents: Option<Arc<Contents>>,
    rodata: Once<Arc<[Ref]>>,
}

impl TranslatedModule {
    /// Creates the module of a description.
    #[must_use]
    pub fn new(description: &'static Description) -> Arc<TranslatedModule> {
        Arc::new(TranslatedModule { description, contents: None, rodata: Once::default() })
    }

    /// Creates the module of a description with constants in the given bytes.
    #[must_use]
    pub fn with_constants(description: &'static Description, contents: Arc<Contents>) -> Arc<TranslatedModule> {
        Arc::new(TranslatedModule { description, contents: Some(contents), rodata: Once::default() })
    }

    fn rodata(&self) -> Result<&Arc<[Ref]>> {
        match self.rodata.get() {
            Some(rodata) => Ok(rodata),
            None => self.rodata.get_or_try_init(|| self.create_rodata()),
        }
    }

    fn create_rodata(&self) -> Result<Arc<[Ref]>> {
        let ranges = self.description.rodata;
        if ranges.is_empty() {
            return Ok(Arc::from([]));
        }
        let contents = match &self.contents {
            Some(contents) => contents.clone(),
            None => self.description.constants.open()?,
        };
        let buffer = |&(offset, length): &(usize, usize)| {
            Buffer::of_contents(contents.clone(), offset..offset.saturating_add(length)).map(Ref::Buffer)
        };
        let buffers: Result<Arc<[Ref]>> = ranges.iter().map(buffer).collect();
        buffers.context(|| alloc::format!("constants of @{}", self.description.name))
    }
}

impl fmt::Debug for TranslatedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, functions, .. } = self.description;
        write!(f, "translated module @{name} ({} functions)", functions.len())
    }
}

impl Module for TranslatedModule {
    fn name(&self) -> &str {
        self.description.name
    }

    fn signature(&self) -> ModuleSignature {
        ModuleSignature {
            version: self.description.version,
            attribute_count: self.description.attributes.len(),
            import_count: self.description.imports.len(),
            export_count: self.description.exports.len(),
            internal_count: self.description.functions.len(),
        }
    }

    fn attribute(&self, index: usize) -> Option<(&str, &str)> {
        self.description.attributes.get(index).copied()
    }

    fn dependency(&self, index: usize) -> Option<Dependency<'_>> {
        self.description.dependencies.get(index).copied()
    }

    #[expect(clippy::disallowed_methods, reason = "the translator emits few of them")]
    fn executable_targets(&self) -> Vec<ExecutableTarget<'_>> {
        self.description.targets.to_vec()
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        let description = self.description;
        let position = match linkage {
            Linkage::Export => description.exports.iter().position(|export| export.name == name),
            Linkage::Import => description.imports.iter().position(|import| import.name == name),
            Linkage::Internal => {
                (0..description.functions.len()).position(|ordinal| description.function_name(ordinal as u32) == name)
            }
        };
        position.map(|position| position as u32)
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        let Description { functions, exports, imports, .. } = self.description;
        let index = ordinal as usize;
        Some(match linkage {
            Linkage::Export => {
                let export = exports.get(index)?;
                let calling_convention = functions.get(export.function as usize)?.convention;
                FunctionInfo { name: export.name, calling_convention, optional: false }
            }
            Linkage::Internal => {
                let function = functions.get(index)?;
                FunctionInfo { name: function.name, calling_convention: function.convention, optional: false }
            }
            Linkage::Import => {
                let import = imports.get(index)?;
                FunctionInfo { name: import.name, calling_convention: import.convention, optional: import.optional }
            }
        })
    }

    fn function_attribute(&self, linkage: Linkage, ordinal: u32, index: usize) -> Option<(&str, &str)> {
        let function = match linkage {
            Linkage::Export => self.description.exports.get(ordinal as usize)?.function,
            Linkage::Internal => ordinal,
            Linkage::Import => return None,
        };
        self.description.functions.get(function as usize)?.attributes.get(index).copied()
    }

    fn declaration(&self, export: u32) -> Option<&str> {
        match self.description.exports.get(export as usize)?.recovered {
            "" => self.attribute_declaration(export),
            recovered => Some(recovered),
        }
    }

    fn source_location(&self, function: u32, offset: u32) -> Option<String> {
        self.description.source_location(function, offset).map(Into::into)
    }

    fn allocate_state(&self, limits: &Limits) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new(State::new(self.description, self.rodata()?.clone(), &limits.ledger)?))
    }

    fn fork_state(&self, parent: &dyn ModuleState) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new(parent.downcast::<State>()?.fork()?))
    }

    fn resolve_import(&self, state: &mut dyn ModuleState, import: u32, target: BoundFunction) -> Result<()> {
        state.downcast_mut::<State>()?.resolve(import, target)
    }

    #[inline]
    fn begin_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        (self.description.call)(state.downcast()?, export, stack, buffer)
    }

    fn entry(self: Arc<Self>, state: Arc<dyn ModuleState>, export: u32) -> Option<Arc<dyn Entry>> {
        let state = state.downcast_arc().ok()?;
        Some(Arc::new(TranslatedEntry { state, call: self.description.call, export }))
    }

    fn resume_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        (self.description.resume)(state.downcast()?, export, stack, buffer)
    }
}

/// An export of a translated module.
#[derive(Debug)]
struct TranslatedEntry {
    state: Arc<State>,
    call: fn(&State, u32, &mut Stack, &mut CallBuffer) -> Result<Completion>,
    export: u32,
}

impl Entry for TranslatedEntry {
    #[inline]
    fn begin_call(&self, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
        (self.call)(&self.state, self.export, stack, buffer)
    }
}
