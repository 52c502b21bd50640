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

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::Deref;

use smallvec::SmallVec;

use super::borrowed::MaybeOwned;
use super::buffer::Buffer;
use super::call::{CallBuffer, CallReader};
use super::list::List;
use super::module::{Completion, FunctionInfo, Linkage, Module, ModuleSignature, ModuleState, Signal};
use super::reference::{Ref, TypedRefObject};
use super::stack::{Limits, Stack};
use crate::{Error, Result};
use incarnate_bytecode::CallingConvention;

/// What a native function sees of the invocation that calls it.
#[derive(Debug)]
pub struct Caller<'a> {
    /// The invocation's storage; a function that yields says there what it waits for.
    pub stack: &'a mut Stack,
}

/// A type that native functions take as an argument.
pub trait Argument: Sized {
    /// Appends the letters of the calling convention.
    fn letters(text: &mut String);
    /// Takes the value out of a call.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where a reference is null or of another type.
    fn read(reader: &mut CallReader<'_>) -> Result<Self>;
}

/// A type that native functions return, within a `Result`.
pub trait Results: Sized {
    /// What a direct call gives: values of the VM.
    type Direct;
    /// The values of a direct call; what a suspended call needs goes on the stack.
    fn into_direct(self, stack: &mut Stack) -> Self::Direct;
    /// Appends the letters of the calling convention.
    fn letters(text: &mut String);
    /// Leaves the values in the call, or what the suspended call needs on the stack.
    fn write(self, stack: &mut Stack, buffer: &mut CallBuffer) -> Completion;
}

macro_rules! primitives {
    ($($type:ty as $direct:ty: $letter:literal, $to_word:expr, $from_word:expr;)*) => {
        $(impl Argument for $type {
            fn letters(text: &mut String) {
                text.push($letter);
            }
            #[inline]
            fn read(reader: &mut CallReader<'_>) -> Result<$type> {
                Ok($from_word(reader.word()?))
            }
        }
        impl Results for $type {
            type Direct = $direct;
            #[inline(always)]
            fn into_direct(self, _: &mut Stack) -> $direct {
                self as $direct
            }
            fn letters(text: &mut String) {
                text.push($letter);
            }
            #[inline]
            fn write(self, _: &mut Stack, buffer: &mut CallBuffer) -> Completion {
                buffer.push_word($to_word(self));
                Completion::Done
            }
        })*
    };
}
primitives! {
    i32 as i32: 'i', |v| u64::from(v as u32), |w| w as i32;
    u32 as i32: 'i', u64::from, |w| w as u32;
    i64 as i64: 'I', |v| v as u64, |w| w as i64;
    u64 as i64: 'I', |v| v, |w| w;
    f32 as f32: 'f', |v: f32| u64::from(v.to_bits()), |w| f32::from_bits(w as u32);
    f64 as f64: 'F', f64::to_bits, f64::from_bits;
}

/// A type of argument that a reference becomes.
pub trait FromRef: Sized {
    /// Takes the object out of a reference.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is null, unless that is allowed, or of another type.
    fn from_ref(reference: Ref) -> Result<Self>;
}

macro_rules! references {
    ($({$($generics:tt)*} $type:ty, $from_ref:expr;)*) => {
        $(impl<$($generics)*> FromRef for $type {
            #[inline]
            fn from_ref(reference: Ref) -> Result<$type> {
                let from_ref: fn(Ref) -> Result<$type> = $from_ref;
                from_ref(reference)
            }
        }
        impl<$($generics)*> Argument for $type {
            fn letters(text: &mut String) {
                text.push('r');
            }
            #[inline]
            fn read(reader: &mut CallReader<'_>) -> Result<$type> {
                FromRef::from_ref(reader.reference()?)
            }
        })*
    };
}
references! {
    {} Ref, Ok;
    {T: TypedRefObject} Arc<T>, <T as TypedRefObject>::from_ref;
    {T: TypedRefObject} Option<Arc<T>>, |r: Ref| match r {
        Ref::Null => Ok(None),
        object => <T as TypedRefObject>::from_ref(object).map(Some),
    };
    {} Arc<Buffer>, |r: Ref| match r { Ref::Buffer(buffer) => Ok(buffer), other => other.buffer().cloned() };
    {} Option<Arc<Buffer>>, |r: Ref| match r {
        Ref::Null => Ok(None),
        Ref::Buffer(buffer) => Ok(Some(buffer)),
        other => other.buffer().cloned().map(Some),
    };
    {} Arc<List>, |r: Ref| match r { Ref::List(list) => Ok(list), other => other.list().cloned() };
}

impl<T: TypedRefObject> Argument for MaybeOwned<'_, T> {
    fn letters(text: &mut String) {
        text.push('r');
    }
    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Self> {
        Arc::read(reader).map(MaybeOwned::from)
    }
}

impl<T: TypedRefObject> Argument for Option<MaybeOwned<'_, T>> {
    fn letters(text: &mut String) {
        text.push('r');
    }
    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Self> {
        Ok(Option::<Arc<T>>::read(reader)?.map(MaybeOwned::from))
    }
}

macro_rules! reference_results {
    ($({$($generics:tt)*} $type:ty;)*) => {
        $(impl<$($generics)*> Results for $type where Ref: From<$type> {
            type Direct = Ref;
            #[inline(always)]
            fn into_direct(self, _: &mut Stack) -> Ref {
                self.into()
            }
            fn letters(text: &mut String) {
                text.push('r');
            }
            #[inline]
            fn write(self, _: &mut Stack, buffer: &mut CallBuffer) -> Completion {
                buffer.push_ref(self.into());
                Completion::Done
            }
        })*
    };
}
reference_results! {
    {} Ref;
    {T} Arc<T>;
    {T} Option<Arc<T>>;
}

/// A variadic argument: any number of values or of tuples.
#[derive(Clone, Debug)]
pub struct Span<T>(SmallVec<[T; 8]>);

impl<T> Span<T> {
    /// A span of the elements, unless one of them fails.
    #[inline]
    pub(super) fn collect(elements: impl Iterator<Item = Result<T>>) -> Result<Span<T>> {
        let (mut values, mut failure) = (SmallVec::new(), None);
        // Not pushed one by one: what is pushed is read from the stack in wider pieces than it was just written in.
        values.extend(elements.map_while(|element| element.map_err(|error| failure = Some(error)).ok()));
        match failure {
            None => Ok(Span(values)),
            Some(error) => Err(error),
        }
    }
}

impl<T> IntoIterator for Span<T> {
    type Item = T;
    type IntoIter = smallvec::IntoIter<[T; 8]>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T> Deref for Span<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Argument> Argument for Span<T> {
    fn letters(text: &mut String) {
        text.push('C');
        T::letters(text);
        text.push('D');
    }
    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Span<T>> {
        let count = reader.word()?;
        // Growth is bounded by the values that the call holds, as reading past the last one fails.
        let mut values = SmallVec::new();
        for _ in 0..count {
            values.push(T::read(reader)?);
        }
        Ok(Span(values))
    }
}

/// What a function of translated code that may yield comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<T> {
    /// The function returned.
    Done(T),
    /// The call is suspended; what it needs to go on is on the stack.
    Yielded,
}

impl<T> Step<T> {
    /// What a call came to that must not yield.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where it did.
    #[inline]
    pub fn done(self) -> Result<T> {
        match self {
            Step::Done(value) => Ok(value),
            Step::Yielded => Err(super::failure::unexpected_yield()),
        }
    }
}

/// What a native function that may yield returns.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The call is over.
    Done(T),
    /// The call is suspended; the function's `resume` gets what is in the box.
    Yield(Box<dyn Any + Send>),
}

impl<T: Results> Results for Outcome<T> {
    type Direct = Step<T::Direct>;
    fn into_direct(self, stack: &mut Stack) -> Step<T::Direct> {
        match self {
            Outcome::Done(results) => Step::Done(results.into_direct(stack)),
            Outcome::Yield(state) => {
                stack.suspend(state);
                Step::Yielded
            }
        }
    }
    fn letters(text: &mut String) {
        T::letters(text);
    }
    fn write(self, stack: &mut Stack, buffer: &mut CallBuffer) -> Completion {
        match self {
            Outcome::Done(results) => results.write(stack, buffer),
            Outcome::Yield(state) => {
                stack.suspend(state);
                Completion::Yielded
            }
        }
    }
}

/// A function that can be a native module's; implemented for methods and closures of the right form.
pub trait NativeMethod<S, A> {
    #[doc(hidden)]
    fn convention(&self) -> String;
    #[doc(hidden)]
    fn call(&self, state: &S, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion>;
}

/// An object that a native function borrows: a method's leading arguments may be `&T`.
pub trait Borrowed: Sized {
    /// The object of a reference.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is null or of another type.
    fn borrow(reference: &Ref) -> Result<&Self>;
}

impl<T: TypedRefObject> Borrowed for T {
    #[inline]
    fn borrow(reference: &Ref) -> Result<&T> {
        reference.get()
    }
}

impl Borrowed for Buffer {
    #[inline]
    fn borrow(reference: &Ref) -> Result<&Buffer> {
        reference.buffer().map(|buffer| &**buffer)
    }
}

/// Stands for an argument `&T` in the list of a method's arguments.
#[derive(Debug)]
pub struct BorrowedArgument<T>(core::marker::PhantomData<T>);

/// The calling convention of arguments, given by their letters, and of results.
fn convention<R: Results>(arguments: &str) -> String {
    let mut results = String::new();
    R::letters(&mut results);
    let or_void = |letters: &str| if letters.is_empty() { String::from("v") } else { String::from(letters) };
    alloc::format!("0{}_{}", or_void(arguments), or_void(&results))
}

macro_rules! arities {
    ($($name:ident)*) => {
        impl<$($name: Argument),*> Argument for ($($name,)*) {
            fn letters(_text: &mut String) {
                $($name::letters(_text);)*
            }
            #[inline]
            fn read(_reader: &mut CallReader<'_>) -> Result<Self> {
                Ok(($($name::read(_reader)?,)*))
            }
        }
        impl<$($name: Results),*> Results for ($($name,)*) {
            type Direct = ($($name::Direct,)*);
            #[inline(always)]
            #[allow(non_snake_case, clippy::unused_unit, reason = "values named by their types; there may be none")]
            fn into_direct(self, _stack: &mut Stack) -> Self::Direct {
                let ($($name,)*) = self;
                ($($name.into_direct(_stack),)*)
            }
            fn letters(_text: &mut String) {
                $($name::letters(_text);)*
            }
            #[inline]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn write(self, _stack: &mut Stack, _buffer: &mut CallBuffer) -> Completion {
                let ($($name,)*) = self;
                $(let _ = $name.write(_stack, _buffer);)*
                Completion::Done
            }
        }
        impl<S, F, R: Results, $($name: Argument),*> NativeMethod<S, ($($name,)*)> for F
        where
            F: Fn(&S, &mut Caller<'_>, $($name),*) -> Result<R>,
        {
            fn convention(&self) -> String {
                let mut arguments = String::new();
                <($($name,)*) as Argument>::letters(&mut arguments);
                convention::<R>(&arguments)
            }
            #[inline(always)]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn call(&self, state: &S, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
                let mut _reader = buffer.reader();
                $(let $name = $name::read(&mut _reader)?;)*
                let results = self(state, &mut Caller { stack: &mut *stack }, $($name),*)?;
                buffer.finish_arguments();
                Ok(results.write(stack, buffer))
            }
        }
        arities!(@borrowing [X] $($name)*);
        arities!(@borrowing [X Y] $($name)*);
        arities!(@borrowing [X Y Z] $($name)*);
        arities!(@shorter $($name)*);
    };
    // Methods whose first arguments are borrowed.
    (@borrowing [$($borrowed:ident)*] $($name:ident)*) => {
        impl<S, F, RESULT: Results, $($borrowed: Borrowed,)* $($name: Argument),*> NativeMethod<S, ($(BorrowedArgument<$borrowed>,)* $($name,)*)> for F
        where
            F: Fn(&S, &mut Caller<'_>, $(&$borrowed,)* $($name),*) -> Result<RESULT>,
        {
            fn convention(&self) -> String {
                let mut arguments = String::new();
                $(let _: Option<$borrowed> = None; arguments.push('r');)*
                <($($name,)*) as Argument>::letters(&mut arguments);
                convention::<RESULT>(&arguments)
            }
            #[inline(always)]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn call(&self, state: &S, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
                let mut reader = buffer.reader();
                $(let $borrowed = $borrowed::borrow(reader.borrow()?)?;)*
                $(let $name = $name::read(&mut reader)?;)*
                let results = self(state, &mut Caller { stack: &mut *stack }, $($borrowed,)* $($name),*)?;
                buffer.finish_arguments();
                Ok(results.write(stack, buffer))
            }
        }
    };
    (@shorter) => {};
    (@shorter $first:ident $($name:ident)*) => { arities!($($name)*); };
}
arities!(A B C D E G H I J K L M N O P Q);

type Shell<S> = fn(&S, &mut Stack, &mut CallBuffer) -> Result<Completion>;

/// A row of a native module's function table; created by [`native_functions!`](crate::native_functions).
pub struct NativeFunction<S> {
    name: &'static str,
    convention: Convention,
    begin: Shell<S>,
    resume: Option<Shell<S>>,
}

/// A calling convention.
#[derive(Clone, Copy)]
enum Convention {
    /// Of a method's signature.
    Derived(fn() -> String),
    Given(&'static str),
}

impl Convention {
    fn text(self) -> Cow<'static, str> {
        match self {
            Convention::Derived(derive) => Cow::Owned(derive()),
            Convention::Given(text) => Cow::Borrowed(text),
        }
    }
}

impl<S> NativeFunction<S> {
    #[doc(hidden)]
    #[must_use]
    pub fn new(name: &'static str, convention: fn() -> String, begin: Shell<S>, resume: Option<Shell<S>>) -> Self {
        NativeFunction { name, convention: Convention::Derived(convention), begin, resume }
    }

    /// A function that is not called by its ordinal, as translated modules call its method.
    #[doc(hidden)]
    pub const fn direct(name: &'static str, convention: &'static str) -> NativeFunction<S> {
        NativeFunction {
            name,
            convention: Convention::Given(convention),
            begin: |_, _, _| Err(no_shell()),
            resume: None,
        }
    }
}

impl<S> fmt::Debug for NativeFunction<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.convention.text())
    }
}

/// Creates the function table of a [`NativeModule`]: `"name" => method`, and for a method that may yield (it returns an
/// [`Outcome`]) `"name" => method, resume method`, where the second takes the box that the first yielded.
#[macro_export]
macro_rules! native_functions {
    ($($name:literal => $method:expr $(, resume $resume:expr)?),* $(,)?) => {
        $crate::reexport::vec![$($crate::NativeFunction::new(
            $name,
            || $crate::NativeMethod::convention(&$method),
            |state, stack, buffer| $crate::NativeMethod::call(&$method, state, stack, buffer),
            $crate::native_functions!(@resume $($resume)?),
        )),*]
    };
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
    ($state:ident $(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal))*) => {
        $crate::native_functions! { $($name => $state::$method $(, resume $state::$resume)?),* }
    };
}

/// Creates the function table of translated modules, which call the methods directly, from the same rows.
#[doc(hidden)]
#[macro_export]
macro_rules! direct_table {
    ($state:ident $(($name:literal, $method:ident $(resume $resume:ident)? $(@ $form:ident)? $(borrows $borrows:ident $(of $alone:ident)?)? $(fences $fences:ident)?, $convention:literal))*) => {
        $crate::reexport::vec![$($crate::NativeFunction::direct($name, $convention)),*]
    };
}

type MakeState<S> = Box<dyn Fn() -> Result<S> + Send + Sync>;
type ForkState<S> = fn(&S) -> Result<S>;
type Notify<S> = fn(&S, Signal) -> Result<()>;

/// The indices of names in their order, those of equal names in the order given. Names come in sorted runs, so that insertion is
/// fast; the sort of slices would be most of the code that small programs have of this.
fn sorted_order(names: &[&str]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let position = order.partition_point(|other| names.get(*other).is_some_and(|other| other <= name));
        order.insert(position, index);
    }
    order
}

/// A module of functions written in Rust.
pub struct NativeModule<S> {
    name: String,
    version: u32,
    versions: Option<&'static str>,
    functions: Vec<NativeFunction<S>>,
    conventions: Vec<Cow<'static, str>>,
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
        let order = sorted_order(&functions.iter().map(|function| function.name).collect::<Vec<_>>());
        let mut functions: Vec<_> = functions.into_iter().map(Some).collect();
        let functions: Vec<_> = order.into_iter().filter_map(|index| functions.get_mut(index)?.take()).collect();
        let conventions = functions.iter().map(|function| function.convention.text()).collect();
        let make_state = Box::new(make_state);
        NativeModule {
            name: name.into(),
            version,
            versions: None,
            functions,
            conventions,
            make_state,
            fork: None,
            notify: None,
        }
    }

    /// The ordinals of the functions of a name: newest version first.
    fn named(&self, name: &str) -> impl Iterator<Item = u32> {
        let first = self.functions.partition_point(|function| function.name < name);
        let count = self.functions.iter().skip(first).take_while(|function| function.name == name).count();
        (first..first + count).map(|index| index as u32)
    }

    /// Says which versions of the functions are there, for messages: those of the newest version come first among the functions.
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
        ModuleSignature { version: self.version, export_count: self.functions.len(), ..ModuleSignature::default() }
    }

    fn lookup(&self, linkage: Linkage, name: &str) -> Option<u32> {
        if linkage != Linkage::Export {
            return None;
        }
        self.named(name).next()
    }

    fn lookup_as(&self, name: &str, convention: &CallingConvention<'_>) -> Option<u32> {
        let is_called_so = |ordinal: &u32| {
            let text = self.conventions.get(*ordinal as usize)?;
            Some(CallingConvention::parse(text).ok()? == *convention)
        };
        self.named(name).find(|ordinal| is_called_so(ordinal) == Some(true)).or_else(|| self.named(name).next())
    }

    fn offered_versions(&self) -> Option<&str> {
        self.versions
    }

    fn function(&self, linkage: Linkage, ordinal: u32) -> Option<FunctionInfo<'_>> {
        if linkage != Linkage::Export {
            return None;
        }
        let (function, convention) = (self.functions.get(ordinal as usize)?, self.conventions.get(ordinal as usize)?);
        Some(FunctionInfo { name: function.name, calling_convention: convention, optional: false })
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
        let function = self.functions.get(export as usize).ok_or_else(|| no_function(&self.name, export))?;
        // The completion is constructed anew: a copy of the whole result would wait for the stores of its parts.
        match (function.begin)(state.downcast()?, stack, buffer) {
            Ok(Completion::Done) => Ok(Completion::Done),
            Ok(Completion::Yielded) => Ok(Completion::Yielded),
            Err(error) => Err(locate(error, &self.name, function.name)),
        }
    }

    fn resume_call(
        &self,
        state: &Arc<dyn ModuleState>,
        export: u32,
        stack: &mut Stack,
        buffer: &mut CallBuffer,
    ) -> Result<Completion> {
        let function = self.functions.get(export as usize).ok_or_else(|| no_function(&self.name, export))?;
        let resume = function.resume.ok_or_else(|| {
            Error::failed_precondition(alloc::format!("@{}.{} cannot be resumed", self.name, function.name))
        })?;
        resume(state.downcast()?, stack, buffer).map_err(|error| locate(error, &self.name, function.name))
    }
}

/// Says in which native function an error happened.
#[cold]
pub(super) fn locate(error: Error, module: &str, function: &str) -> Error {
    error.at(crate::Place { module: Some(module.into()), function: Some(function.into()), ..crate::Place::default() })
}

#[cold]
fn no_shell() -> Error {
    Error::failed_precondition("this program has the function only for translated modules, which call it directly")
}

#[cold]
fn no_function(module: &str, ordinal: u32) -> Error {
    Error::out_of_range(alloc::format!("module @{module} has no exported function {ordinal}"))
}
