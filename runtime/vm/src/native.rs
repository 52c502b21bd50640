//! Native modules: functions written in Rust that programs import.
//!
//! A function is written once, as a method of the module's state that takes and returns Rust values. Its calling
//! convention and the shell that unpacks arguments and packs results are derived from the method's signature:
//!
//! ```
//! use incarnate_vm::{Caller, ModuleState, NativeModule, Result, Span, native_functions};
//!
//! #[derive(Debug)]
//! struct Calculator;
//! impl ModuleState for Calculator {}
//!
//! impl Calculator {
//!     fn add(&self, _: &mut Caller<'_>, a: i32, b: i32) -> Result<i32> {
//!         Ok(a.wrapping_add(b))
//!     }
//!     fn sum(&self, _: &mut Caller<'_>, values: Span<i64>) -> Result<i64> {
//!         Ok(values.iter().sum())
//!     }
//! }
//!
//! let module = NativeModule::new("calculator", 0, || Ok(Calculator), native_functions! {
//!     "add" => Calculator::add,
//!     "sum" => Calculator::sum,
//! });
//! # use incarnate_vm::{Linkage, Module};
//! # assert_eq!(module.function(Linkage::Export, 0).unwrap().calling_convention, "0ii_i");
//! # assert_eq!(module.function(Linkage::Export, 1).unwrap().calling_convention, "0CID_I");
//! ```

mod method;
mod older;
mod values;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::call::CallBuffer;
use super::failure;
use super::limits::Limits;
use super::module::{Completion, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal};
use super::stack::Stack;
use crate::{Error, Result};
use incarnate_bytecode::CallingConvention;
use incarnate_bytecode::imports::older::OlderForm;

use older::OlderFunction;

pub use method::{Caller, NativeMethod};
pub(super) use method::{Form, for_each_form, operand_of};
pub(super) use values::Borrowed;
pub use values::{Argument, FromRef, Outcome, Results, Span, Step};

type Shell<S> = fn(&S, &mut Stack, &mut CallBuffer) -> Result<Completion>;

/// A row of a native module's function table; created by [`native_functions!`](crate::native_functions).
pub struct NativeFunction<S> {
    name: &'static str,
    /// Its calling convention.
    convention: Cow<'static, str>,
    begin: Shell<S>,
    resume: Option<Shell<S>>,
}

impl<S> NativeFunction<S> {
    #[doc(hidden)]
    #[must_use]
    pub fn new(name: &'static str, convention: fn() -> String, begin: Shell<S>, resume: Option<Shell<S>>) -> Self {
        NativeFunction { name, convention: Cow::Owned(convention()), begin, resume }
    }

    /// A function of a table that holds its calling convention.
    #[doc(hidden)]
    #[must_use]
    pub fn of_table(
        name: &'static str,
        convention: &'static str,
        begin: Shell<S>,
        resume: Option<Shell<S>>,
    ) -> NativeFunction<S> {
        NativeFunction { name, convention: Cow::Borrowed(convention), begin, resume }
    }
}

impl<S> fmt::Debug for NativeFunction<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.convention)
    }
}

/// Creates the function table of a [`NativeModule`]: `"name" => method`, and for a method that may yield (it returns an
/// [`Outcome`]) `"name" => method, resume method`, where the second takes the box that the first yielded. A method whose time
/// depends on its operands says so: `"name" => method, cost [Whole(0)]`, see [`Term`](incarnate_bytecode::imports::Term).
#[macro_export]
macro_rules! native_functions {
    ($($name:literal => $method:expr $(, resume $resume:expr)? $(, cost $cost:tt)?),* $(,)?) => {
        $crate::reexport::vec![$($crate::NativeFunction::new(
            $name,
            || $crate::NativeMethod::convention(&$method),
            |state, stack, buffer| {
                const COST: $crate::reexport::Cost = $crate::native_functions!(@cost $($cost)?);
                $crate::NativeMethod::call(&$method, COST, state, stack, buffer)
            },
            $crate::native_functions!(@resume $($resume)?),
        )),*]
    };
    (@cost) => { $crate::reexport::Cost::CONSTANT };
    (@cost $cost:tt) => {{
        #[allow(unused_imports, reason = "there may be no term")]
        use $crate::reexport::Term::*;
        $crate::reexport::Cost(&$cost)
    }};
    (@resume) => { None };
    (@resume $resume:expr) => {
        Some(|state, stack, buffer| {
            let saved = stack.take_suspended()?;
            let outcome = $resume(state, &mut $crate::Caller { stack: &mut *stack }, saved)?;
            Ok($crate::Results::write(outcome, stack, buffer))
        })
    };
}

/// Creates the function table of a state from the rows of its module in [`incarnate_bytecode::imports`].
#[doc(hidden)]
#[macro_export]
macro_rules! native_table {
    ($state:ident $(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal, $cost:tt))*) => {
        $crate::reexport::vec![$($crate::NativeFunction::of_table(
            $name,
            $convention,
            |state, stack, buffer| {
                const COST: $crate::reexport::Cost = $crate::native_functions!(@cost $cost);
                $crate::NativeMethod::call(&$state::$method, COST, state, stack, buffer)
            },
            $crate::native_functions!(@resume $($state::$resume)?),
        )),*]
    };
}

/// Creates the functions of a [`DirectModule`](crate::DirectModule) from the same rows.
#[doc(hidden)]
#[macro_export]
macro_rules! direct_table {
    ($(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal, $cost:tt))*) => {
        concat!($($name, " ", $convention, "\n"),*)
    };
}

type MakeState<S> = Box<dyn Fn() -> Result<S> + Send + Sync>;
type ForkState<S> = fn(&S) -> Result<S>;
type Notify<S> = fn(&S, Signal) -> Result<()>;

/// Sorts functions by name; those of equal names stay in the order given. Names come in sorted runs, so that insertion is fast; the sort
/// of slices would be most of the code that small programs have of this.
fn sort_by_name<S>(functions: &mut [NativeFunction<S>]) {
    for next in 1..functions.len() {
        let (before, rest) = functions.split_at(next);
        let name = rest.first().map_or("", |function| function.name);
        let place = before.partition_point(|function| function.name <= name);
        if let Some(moved) = functions.get_mut(place..=next) {
            moved.rotate_right(1);
        }
    }
}

/// A module of functions written in Rust.
pub struct NativeModule<S> {
    name: String,
    version: u32,
    versions: Option<&'static str>,
    functions: Vec<NativeFunction<S>>,
    /// The forms of functions in older versions, whose ordinals follow those of the functions.
    older: Vec<OlderFunction>,
    make_state: MakeState<S>,
    fork: Option<ForkState<S>>,
    notify: Option<Notify<S>>,
}

impl<S: ModuleState> NativeModule<S> {
    /// A module of the given name and version; `make_state` is called once for each context.
    pub fn new(
        name: impl Into<String>,
        version: u32,
        make_state: impl Fn() -> Result<S> + Send + Sync + 'static,
        functions: Vec<NativeFunction<S>>,
    ) -> NativeModule<S> {
        let mut functions = functions;
        sort_by_name(&mut functions);
        let make_state = Box::new(make_state);
        NativeModule {
            name: name.into(),
            version,
            versions: None,
            functions,
            older: Vec::new(),
            make_state,
            fork: None,
            notify: None,
        }
    }

    /// The ordinals of the functions of a name: the newest first.
    fn named(&self, name: &str) -> impl Iterator<Item = u32> {
        let first = self.functions.partition_point(|function| function.name < name);
        let count = self.functions.iter().skip(first).take_while(|function| function.name == name).count();
        (first..first + count).map(|index| index as u32)
    }

    /// Adds forms that functions have in older versions of the module; forms of functions that are not there are left out.
    #[must_use]
    pub fn with_older_forms(mut self, forms: &'static [OlderForm]) -> NativeModule<S> {
        self.older = forms
            .iter()
            .filter_map(|form| {
                let newest = self.named(form.name).next()?;
                let convention = CallingConvention::parse(&self.functions.get(newest as usize)?.convention).ok()?;
                Some(OlderFunction::new(form, newest, &convention))
            })
            .collect();
        self
    }

    /// The older form of an ordinal that follows those of the functions.
    fn older(&self, export: u32) -> Option<&OlderFunction> {
        self.older.get((export as usize).checked_sub(self.functions.len())?)
    }

    /// Calls the newest function of an older form.
    #[inline(never)]
    fn begin_older(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let older = self.older(export).ok_or_else(|| no_function(&self.name, export))?;
        older.adapt(buffer).map_err(|error| failure::locate(error, &self.name, older.form.name))?;
        self.begin_call(state, older.newest, stack, buffer)
    }

    /// Says which versions of the functions are there, for messages.
    #[must_use]
    pub fn with_versions(mut self, versions: &'static str) -> NativeModule<S> {
        self.versions = Some(versions);
        self
    }

    /// Says how the state is copied for a forked context.
    #[must_use]
    pub fn with_fork(mut self, fork: fn(&S) -> Result<S>) -> NativeModule<S> {
        self.fork = Some(fork);
        self
    }

    /// Says how the state follows events of the hosting program.
    #[must_use]
    pub fn with_notify(mut self, notify: fn(&S, Signal) -> Result<()>) -> NativeModule<S> {
        self.notify = Some(notify);
        self
    }
}

impl<S: ModuleState + Clone> NativeModule<S> {
    /// A module of which each context has a copy of the state, and each forked context one of its parent's.
    pub fn of_state(
        name: impl Into<String>,
        version: u32,
        state: S,
        functions: Vec<NativeFunction<S>>,
    ) -> NativeModule<S> {
        NativeModule::new(name, version, move || Ok(state.clone()), functions).with_fork(|state| Ok(state.clone()))
    }
}

impl<S> fmt::Debug for NativeModule<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "native module @{} version {} ({} functions)", self.name, self.version, self.functions.len())
    }
}

impl<S: ModuleState> Module for NativeModule<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> ModuleSignature {
        let export_count = self.functions.len() + self.older.len();
        ModuleSignature { version: self.version, export_count, ..ModuleSignature::default() }
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        if linkage != Linkage::Export {
            return None;
        }
        self.named(name).next()
    }

    fn lookup_as(&self, name: &str, convention: &CallingConvention<'_>) -> Option<u32> {
        let is_wanted = |text: &str| CallingConvention::parse(text).is_ok_and(|found| found == *convention);
        let newest = self.named(name).find(|ordinal| {
            self.functions.get(*ordinal as usize).is_some_and(|function| is_wanted(&function.convention))
        });
        let older = || {
            let index =
                self.older.iter().position(|older| older.form.name == name && is_wanted(older.form.convention))?;
            Some((self.functions.len() + index) as u32)
        };
        newest.or_else(older).or_else(|| self.named(name).next())
    }

    fn offered_versions(&self) -> Option<&str> {
        self.versions
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        if linkage != Linkage::Export {
            return None;
        }
        let (name, calling_convention) = match (self.functions.get(ordinal as usize), self.older(ordinal)) {
            (Some(function), _) => (function.name, &*function.convention),
            (None, older) => older.map(|older| (older.form.name, older.form.convention))?,
        };
        Some(FunctionInfo { name, calling_convention, optional: false })
    }

    fn allocate_state(&self, _: &Limits) -> Result<Box<dyn ModuleState>> {
        Ok(Box::new((self.make_state)()?))
    }

    fn fork_state(&self, parent: &dyn ModuleState) -> Result<Box<dyn ModuleState>> {
        match self.fork {
            Some(fork) => Ok(Box::new(fork(parent.downcast()?)?)),
            None => Err(Error::unimplemented(alloc::format!("module @{} cannot be forked", self.name))),
        }
    }

    fn notify(&self, state: &dyn ModuleState, signal: Signal) -> Result<()> {
        self.notify.map_or(Ok(()), |notify| notify(state.downcast()?, signal))
    }

    #[inline]
    fn begin_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let Some(function) = self.functions.get(export as usize) else {
            return self.begin_older(state, export, stack, buffer);
        };
        // The completion is constructed anew: a copy of the whole result would wait for the stores of its parts.
        match (function.begin)(state.downcast()?, stack, buffer) {
            Ok(Completion::Done) => Ok(Completion::Done),
            Ok(Completion::Yielded) => Ok(Completion::Yielded),
            Err(error) => Err(failure::locate(error, &self.name, function.name)),
        }
    }

    fn resume_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let ordinal = self.older(export).map_or(export, |older| older.newest);
        let function = self.functions.get(ordinal as usize).ok_or_else(|| no_function(&self.name, export))?;
        let resume = function.resume.ok_or_else(|| {
            Error::failed_precondition(alloc::format!("@{}.{} cannot be resumed", self.name, function.name))
        })?;
        resume(state.downcast()?, stack, buffer).map_err(|error| failure::locate(error, &self.name, function.name))
    }
}

#[cold]
fn no_function(module: &str, ordinal: u32) -> Error {
    Error::out_of_range(alloc::format!("module @{module} has no exported function {ordinal}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[derive(Debug)]
    struct Nothing;
    impl ModuleState for Nothing {}

    #[test]
    fn functions_are_sorted_by_name_and_then_as_given() {
        let mut random = Random(3);
        for count in 0..40 {
            let conventions = ["0v_v", "0i_v", "0I_v", "0f_v", "0F_v"];
            let rows: Vec<(&str, &str)> = (0..count)
                .map(|at| (["a", "b", "c", "d"][random.below(4) as usize], conventions[at % conventions.len()]))
                .collect();
            let of = |(name, convention): &(&'static str, &'static str)| {
                NativeFunction::of_table(name, convention, |_, _, _| Ok(Completion::Done), None)
            };
            let module = NativeModule::new("m", 0, || Ok(Nothing), rows.iter().map(of).collect());
            let mut expected = rows.clone();
            expected.sort_by_key(|row| row.0);
            let found: Vec<_> = (0..).map_while(|at| module.function(Linkage::Export, at)).collect();
            assert!(found.iter().map(|info| (info.name, info.calling_convention)).eq(expected), "{rows:?}");
        }
    }
}
