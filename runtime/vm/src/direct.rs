//! Direct calls of native functions, from translated code to imports of known modules.
//!
//! A native function is one Rust method ([`NativeMethod`](super::NativeMethod)); besides the shell that reads a packed call,
//! its signature yields one that takes the VM's values as they are. References that the caller keeps are borrowed (`&Ref`), so
//! that such a call changes no reference count and packs nothing.

mod module;

use alloc::sync::Arc;
use core::marker::PhantomData;

use super::borrowed::MaybeOwned;
use super::cost::{CallCost, Free};
use super::native::{Argument, Borrowed, Caller, Form, FromRef, Results, Span, for_each_form, operand_of};
use super::reference::{Ref, TypedRefObject};
use super::stack::Stack;
use crate::Result;

pub use module::DirectModule;

/// A value of the VM that can be passed for an argument of type `A`.
pub trait Pass<A> {
    /// The argument.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where a reference is null or of another type.
    fn pass(self) -> Result<A>;
}

macro_rules! primitives {
    ($($from:ty => $to:ty;)*) => {
        $(impl Pass<$to> for $from {
            #[inline(always)]
            fn pass(self) -> Result<$to> {
                Ok(self as $to)
            }
        })*
    };
}
primitives! {
    i32 => i32;
    i32 => u32;
    i64 => i64;
    i64 => u64;
    f32 => f32;
    f64 => f64;
}

impl<A: FromRef> Pass<A> for Ref {
    #[inline(always)]
    fn pass(self) -> Result<A> {
        A::from_ref(self)
    }
}

impl<A: FromRef> Pass<A> for &Ref {
    #[inline(always)]
    fn pass(self) -> Result<A> {
        A::from_ref(self.clone())
    }
}

impl<'a, T: TypedRefObject> Pass<MaybeOwned<'a, T>> for &'a Ref {
    #[inline(always)]
    fn pass(self) -> Result<MaybeOwned<'a, T>> {
        MaybeOwned::borrowed(self)
    }
}

impl<T: TypedRefObject> Pass<MaybeOwned<'_, T>> for Ref {
    #[inline(always)]
    fn pass(self) -> Result<MaybeOwned<'static, T>> {
        T::from_ref(self).map(MaybeOwned::from)
    }
}

impl<'a, T: TypedRefObject> Pass<Option<MaybeOwned<'a, T>>> for &'a Ref {
    #[inline(always)]
    fn pass(self) -> Result<Option<MaybeOwned<'a, T>>> {
        if self.is_null() { Ok(None) } else { MaybeOwned::borrowed(self).map(Some) }
    }
}

impl<T: TypedRefObject> Pass<Option<MaybeOwned<'_, T>>> for Ref {
    #[inline(always)]
    fn pass(self) -> Result<Option<MaybeOwned<'static, T>>> {
        Ok(Option::<Arc<T>>::from_ref(self)?.map(MaybeOwned::from))
    }
}

impl<A, P: Pass<A>, const N: usize> Pass<Span<A>> for [P; N] {
    #[inline]
    fn pass(self) -> Result<Span<A>> {
        Span::collect(self.into_iter().map(P::pass))
    }
}

/// A span without elements.
#[derive(Clone, Copy, Debug)]
pub struct NoElements;

impl<A> Pass<Span<A>> for NoElements {
    #[inline]
    fn pass(self) -> Result<Span<A>> {
        Span::collect(core::iter::empty())
    }
}

/// A value of the VM that can be passed for an argument `&T`.
pub trait PassBorrowed<T> {
    /// The object.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the reference is null or of another type.
    fn pass_borrowed(&self) -> Result<&T>;
}

impl<T: Borrowed> PassBorrowed<T> for Ref {
    #[inline(always)]
    fn pass_borrowed(&self) -> Result<&T> {
        T::borrow(self)
    }
}

impl<T: Borrowed> PassBorrowed<T> for &Ref {
    #[inline(always)]
    fn pass_borrowed(&self) -> Result<&T> {
        T::borrow(self)
    }
}

/// A native method that can be called with a tuple `P` of values for its arguments `A`.
pub trait DirectMethod<S, A, P> {
    /// The result of the call: a value of the VM or a tuple of them, within a [`Step`](super::Step) where the method may yield.
    type Value;
    /// Charges what the call costs, and calls the method.
    #[doc(hidden)]
    fn call_direct<COST: CallCost>(&self, state: &S, stack: &mut Stack, passed: P) -> Result<Self::Value>;
}

macro_rules! direct_method {
    ([$(($borrowed:ident $passer:ident))*] $(($name:ident $passed:ident))*) => {
        impl<S, F, RESULT: Results, $($borrowed: Borrowed, $passer: PassBorrowed<$borrowed>,)* $($name: Argument, $passed: Pass<$name>),*>
            DirectMethod<S, Form<($($borrowed,)*), ($($name,)*)>, ($($passer,)* $($passed,)*)> for F
        where
            F: Fn(&S, &mut Caller<'_>, $(&$borrowed,)* $($name),*) -> Result<RESULT>,
        {
            type Value = RESULT::Direct;
            #[inline(always)]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn call_direct<COST: CallCost>(&self, state: &S, stack: &mut Stack, passed: ($($passer,)* $($passed,)*)) -> Result<Self::Value> {
                let ($($passer,)* $($passed,)*) = passed;
                $(let $borrowed = $passer.pass_borrowed()?;)*
                $(let $name: $name = $passed.pass()?;)*
                if let Some(cost) = COST::COST {
                    let steps = cost.steps(&[$(operand_of($borrowed),)* $($name.operand()),*]);
                    stack.charge(steps.saturating_add(1))?;
                }
                let results = self(state, &mut Caller { stack: &mut *stack }, $($borrowed,)* $($name),*)?;
                Ok(results.into_direct(stack))
            }
        }
    };
}
for_each_form!(direct_method);

macro_rules! tuples {
    ($(($name:ident $passed:ident))*) => {
        impl<$($name, $passed: Pass<$name>),*> Pass<($($name,)*)> for ($($passed,)*) {
            #[inline(always)]
            #[allow(non_snake_case, clippy::unused_unit, reason = "values named by their types; there may be none")]
            fn pass(self) -> Result<($($name,)*)> {
                let ($($passed,)*) = self;
                Ok(($($passed.pass()?,)*))
            }
        }
        tuples!(@shorter $(($name $passed))*);
    };
    (@shorter) => {};
    (@shorter $first:tt $($rest:tt)*) => { tuples!($($rest)*); };
}
tuples!((A PA) (B PB) (C PC) (D PD) (E PE) (G PG) (H PH) (I PI) (J PJ) (K PK) (L PL) (M PM) (N PN) (O PO) (P PP) (Q PQ));

/// What translated code knows of a native module in a context: its state, if the module is there. Calls cost `C`.
#[derive(Debug)]
pub struct Native<'a, S, C = Free> {
    module: &'static str,
    state: Option<&'a Arc<S>>,
    cost: PhantomData<fn() -> C>,
}

impl<'a, S> Native<'a, S> {
    /// Names a native module; `state` is its state in the context, if the module is there.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn new(module: &'static str, state: Option<&'a Arc<S>>) -> Self {
        Native { module, state, cost: PhantomData }
    }

    /// Returns the module for a call that is charged: a step, and the cost by its operands.
    #[inline(always)]
    #[must_use]
    pub fn charged<C: CallCost>(self) -> Native<'a, S, C> {
        Native { module: self.module, state: self.state, cost: PhantomData }
    }
}

impl<S, C> Clone for Native<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, C> Copy for Native<'_, S, C> {}

impl<'a, S, C: CallCost> Native<'a, S, C> {
    /// Calls a method, which is the import of the given name (without the module's).
    ///
    /// # Errors
    /// What the method fails with, which is placed in it; NOT_FOUND where the module is not there. For a charged call,
    /// RESOURCE_EXHAUSTED if the fuel does not last; DEADLINE_EXCEEDED.
    // Recorders have thousands of these calls: each is a call of what all calls with such arguments share, not its code.
    #[inline(never)]
    pub fn call<F, A, P>(self, name: &'static str, method: F, stack: &mut Stack, passed: P) -> Result<F::Value>
    where
        F: DirectMethod<S, A, P>,
    {
        self.call_inline(name, method, stack, passed)
    }

    /// The same for methods that are little more than a call: their code stands where they are called.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    pub fn call_inline<F, A, P>(self, name: &'static str, method: F, stack: &mut Stack, passed: P) -> Result<F::Value>
    where
        F: DirectMethod<S, A, P>,
    {
        let Some(state) = self.state else {
            return Err(missing(self.module, name));
        };
        match method.call_direct::<C>(state, stack, passed) {
            Ok(value) => Ok(value),
            Err(error) => Err(super::failure::locate(error, self.module, name)),
        }
    }

    /// Charges a call that looks at so many dimensions, and does nothing else that takes time: a step each, as
    /// [`Term::Whole`](incarnate_bytecode::imports::Term::Whole) counts them, and one for the call.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    #[doc(hidden)]
    pub fn charge_dimensions(self, name: &'static str, stack: &mut Stack, count: usize) -> Result<()> {
        if C::COST.is_none() {
            return Ok(());
        }
        stack.charge(count as u64 + 1).map_err(|error| self.failed(name, error))
    }

    /// Goes on with a method that yielded; `resume` is what goes on with it.
    ///
    /// # Errors
    /// As above; FAILED_PRECONDITION where the call was not suspended.
    pub fn resume<T: core::any::Any, R: Results>(
        self,
        name: &'static str,
        resume: impl Fn(&S, &mut Caller<'_>, alloc::boxed::Box<T>) -> Result<R>,
        stack: &mut Stack,
    ) -> Result<R::Direct> {
        let Some(state) = self.state else {
            return Err(missing(self.module, name));
        };
        let resumed = stack.take_suspended().and_then(|saved| resume(state, &mut Caller { stack: &mut *stack }, saved));
        match resumed {
            Ok(results) => Ok(results.into_direct(stack)),
            Err(error) => Err(super::failure::locate(error, self.module, name)),
        }
    }

    /// Whether the module is present.
    #[inline(always)]
    #[doc(hidden)]
    pub fn is_present(self) -> bool {
        self.state.is_some()
    }

    /// The state of the module, if it is present.
    #[inline(always)]
    #[doc(hidden)]
    pub fn state(self) -> Option<&'a S> {
        self.state.map(|state| &**state)
    }

    /// Returns the value that a function found in a borrowed argument, or its failure as that of the function of the name.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    #[doc(hidden)]
    pub fn found<T>(self, name: &'static str, found: Result<T>) -> Result<T> {
        if !self.is_present() {
            return Err(missing(self.module, name));
        }
        match found {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    /// Adds the function of the name to the locations of an error.
    #[inline(always)]
    #[doc(hidden)]
    pub fn failed(self, name: &str, error: crate::Error) -> crate::Error {
        super::failure::locate(error, self.module, name)
    }
}

// It takes the name only: every call would have to keep a passed `Native` in memory for it.
#[cold]
fn missing(module: &str, name: &str) -> crate::Error {
    super::failure::unresolved(&alloc::format!("{module}.{name}"))
}
