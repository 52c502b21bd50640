//! Native modules of which translated modules are the only callers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use incarnate_bytecode::CallingConvention;

use crate::call::CallBuffer;
use crate::failure;
use crate::limits::Limits;
use crate::module::{Completion, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal};
use crate::stack::Stack;
use crate::{Error, Result};

/// A native module without packed calls, for sessions that contain only translated modules. These call the methods of its state directly
/// (see [`Native`](super::Native)), and link by names and calling conventions, which are all that the module knows of its functions. So
/// programs do without the code for packed calls that a [`NativeModule`](crate::NativeModule) brings.
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
    /// Creates a module of a name and a version; each context has a copy of the state. `rows` has a line for each function, of its name and
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloc::string::ToString;
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::StatusCode;

    #[derive(Clone, Debug)]
    struct Counted(Arc<AtomicU32>);
    impl ModuleState for Counted {}

    const ROWS: &str = "add 0ii_i\nadd 0II_I\nnegate 0i_i\n";

    fn module() -> DirectModule<Counted> {
        DirectModule::new("sums", 3, Counted(Arc::default()), ROWS).with_notify(|state, _| {
            state.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    #[test]
    fn functions_are_found_by_name_and_calling_convention() {
        let module = module();
        let found: Vec<_> = (0..).map_while(|ordinal| module.function(Linkage::Export, ordinal)).collect();
        assert_eq!(found.len(), module.signature().export_count);
        assert!(found.iter().map(|info| (info.name, info.calling_convention)).eq([
            ("add", "0ii_i"),
            ("add", "0II_I"),
            ("negate", "0i_i")
        ]));
        let of = |name, convention| module.lookup_as(name, &CallingConvention::parse(convention).unwrap());
        assert_eq!([of("add", "0ii_i"), of("add", "0II_I")], [Some(0), Some(1)]);
        // The newest, whose convention the program is told of.
        assert_eq!([of("add", "0ff_f"), of("negate", "0v_v"), of("divide", "0ii_i")], [Some(0), Some(2), None]);
        assert_eq!(module.lookup(Linkage::Export, "add"), Some(0));
        assert_eq!(module.lookup(Linkage::Import, "add"), None);
        assert!(module.function(Linkage::Internal, 0).is_none());
    }

    #[test]
    fn contexts_have_copies_of_the_state() {
        let module = module();
        let state = module.allocate_state(&Limits::default()).unwrap();
        let forked = module.fork_state(&*state).unwrap();
        module.notify(&*forked, Signal::LowMemory).unwrap();
        assert_eq!(state.downcast::<Counted>().unwrap().0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn packed_calls_are_errors_that_name_the_function() {
        let module = module();
        let state: Arc<dyn ModuleState> = Arc::from(module.allocate_state(&Limits::default()).unwrap());
        let (mut stack, mut buffer) = (Stack::new(Limits::default()), CallBuffer::new());
        let error = module.begin_call(&state, 2, &mut stack, &mut buffer).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        assert!(error.to_string().contains("@sums.negate"), "{error}");
    }
}
