//! Native modules of which translated modules are the only callers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use incarnate_bytecode::CallingConvention;

use crate::call::CallBuffer;
use crate::failure;
use crate::module::{Completion, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal};
use crate::stack::{Limits, Stack};
use crate::{Error, Result};

/// A native module without packed calls, for sessions that contain only translated modules. These call the methods of its state directly
/// (see [`Native`](super::Native)): of its functions it knows name and calling convention, so that programs are linked without the shells,
/// the older forms and the tables of a [`NativeModule`](crate::NativeModule).
pub struct DirectModule<S> {
    name: &'static str,
    version: u32,
    versions: Option<&'static str>,
    /// Names and calling conventions; of functions of one name, the newest comes first.
    functions: Vec<(&'static str, &'static str)>,
    state: S,
    notify: Option<fn(&S, Signal) -> Result<()>>,
}

impl<S: ModuleState + Clone> DirectModule<S> {
    /// A module of the given name and version; each context has a copy of the state. `rows` has a line for each function, of its name and
    /// its calling convention ([`direct_table!`](crate::direct_table)): one text is much smaller in a program than a table of texts.
    #[doc(hidden)]
    #[must_use]
    pub fn new(name: &'static str, version: u32, state: S, rows: &'static str) -> DirectModule<S> {
        DirectModule { name, version, versions: None, functions: functions_of(rows), state, notify: None }
    }

    /// As [`NativeModule::with_versions`](crate::NativeModule::with_versions).
    #[must_use]
    pub fn with_versions(mut self, versions: &'static str) -> DirectModule<S> {
        self.versions = Some(versions);
        self
    }

    /// As [`NativeModule::with_notify`](crate::NativeModule::with_notify).
    #[must_use]
    pub fn with_notify(mut self, notify: fn(&S, Signal) -> Result<()>) -> DirectModule<S> {
        self.notify = Some(notify);
        self
    }
}

fn functions_of(rows: &'static str) -> Vec<(&'static str, &'static str)> {
    let functions: Vec<_> = rows.split('\n').filter_map(|row| row.split_once(' ')).collect();
    debug_assert_eq!(functions.len(), rows.matches('\n').count(), "rows without a convention");
    functions
}

fn find(functions: &[(&'static str, &'static str)], name: &str, is_wanted: impl Fn(&str) -> bool) -> Option<u32> {
    functions.iter().position(|function| function.0 == name && is_wanted(function.1)).map(|index| index as u32)
}

impl<S> fmt::Debug for DirectModule<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "native module @{} version {} ({} functions)", self.name, self.version, self.functions.len())
    }
}

impl<S: ModuleState + Clone> Module for DirectModule<S> {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> ModuleSignature {
        ModuleSignature { version: self.version, export_count: self.functions.len(), ..ModuleSignature::default() }
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        if linkage == Linkage::Export { find(&self.functions, name, |_| true) } else { None }
    }

    fn lookup_as(&self, name: &str, convention: &CallingConvention<'_>) -> Option<u32> {
        let is_wanted = |text: &str| CallingConvention::parse(text).is_ok_and(|found| found == *convention);
        find(&self.functions, name, is_wanted).or_else(|| self.lookup(Linkage::Export, name))
    }

    fn offered_versions(&self) -> Option<&str> {
        self.versions
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        let (name, calling_convention) = match linkage {
            Linkage::Export => *self.functions.get(ordinal as usize)?,
            Linkage::Import | Linkage::Internal => return None,
        };
        Some(FunctionInfo { name, calling_convention, optional: false })
    }

    fn allocate_state(&self, _: &Limits) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new(self.state.clone()))
    }

    fn fork_state(&self, parent: &dyn ModuleState) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new(parent.downcast::<S>()?.clone()))
    }

    fn notify(&self, state: &dyn ModuleState, signal: Signal) -> Result<()> {
        self.notify.map_or(Ok(()), |notify| notify(state.downcast()?, signal))
    }

    fn begin_call(
        &self,
        _: &Arc<dyn ModuleState>,
        export: u32,
        _: &mut Stack,
        _: &mut CallBuffer,
    ) -> Result<Completion> {
        let function = self.functions.get(export as usize).map_or("", |function| function.0);
        let error = "this program has the function only for translated modules, which call it directly";
        Err(failure::locate(Error::failed_precondition(error), self.name, function))
    }
}
