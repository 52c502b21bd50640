//! Direct calls of native functions: what translated code makes of imports whose module it knows.
//!
//! A native function is one Rust method ([`NativeMethod`](super::NativeMethod)); besides the shell that reads a packed call,
//! its signature gives one that takes the VM's values as they are. References that the caller keeps are lent (`&Ref`), so
//! that such a call counts none and packs nothing.

use alloc::sync::Arc;

use super::lent::Held;
use super::native::{Argument, Borrowed, Caller, FromRef, Lent, Results, Span};
use super::reference::{Ref, TypedRefObject};
use super::stack::Stack;
use crate::Result;

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

impl<'a, T: TypedRefObject> Pass<Held<'a, T>> for &'a Ref {
    #[inline(always)]
    fn pass(self) -> Result<Held<'a, T>> {
        Held::lent(self)
    }
}

impl<T: TypedRefObject> Pass<Held<'_, T>> for Ref {
    #[inline(always)]
    fn pass(self) -> Result<Held<'static, T>> {
        T::from_ref(self).map(Held::from)
    }
}

impl<'a, T: TypedRefObject> Pass<Option<Held<'a, T>>> for &'a Ref {
    #[inline(always)]
    fn pass(self) -> Result<Option<Held<'a, T>>> {
        if self.is_null() { Ok(None) } else { Held::lent(self).map(Some) }
    }
}

impl<T: TypedRefObject> Pass<Option<Held<'_, T>>> for Ref {
    #[inline(always)]
    fn pass(self) -> Result<Option<Held<'static, T>>> {
        Ok(Option::<Arc<T>>::from_ref(self)?.map(Held::from))
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
pub trait Lend<T> {
    /// The object.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where the reference is null or of another type.
    fn lend(&self) -> Result<&T>;
}

impl<T: Borrowed> Lend<T> for Ref {
    #[inline(always)]
    fn lend(&self) -> Result<&T> {
        T::borrow(self)
    }
}

impl<T: Borrowed> Lend<T> for &Ref {
    #[inline(always)]
    fn lend(&self) -> Result<&T> {
        T::borrow(self)
    }
}

/// A native method that can be called with a tuple `P` of values for its arguments `A`.
pub trait DirectMethod<S, A, P> {
    /// What the call gives: a value of the VM or a tuple of them, within a [`Step`](super::Step) where the method may yield.
    type Value;
    #[doc(hidden)]
    fn call_direct(&self, state: &S, stack: &mut Stack, passed: P) -> Result<Self::Value>;
}

macro_rules! arities {
    ($(($name:ident $passed:ident))*) => {
        impl<$($name, $passed: Pass<$name>),*> Pass<($($name,)*)> for ($($passed,)*) {
            #[inline(always)]
            #[allow(non_snake_case, clippy::unused_unit, reason = "values named by their types; there may be none")]
            fn pass(self) -> Result<($($name,)*)> {
                let ($($passed,)*) = self;
                Ok(($($passed.pass()?,)*))
            }
        }
        arities!(@method [] $(($name $passed))*);
        arities!(@method [(X PX)] $(($name $passed))*);
        arities!(@method [(X PX) (Y PY)] $(($name $passed))*);
        arities!(@method [(X PX) (Y PY) (Z PZ)] $(($name $passed))*);
        arities!(@shorter $(($name $passed))*);
    };
    (@method [$(($lent:ident $lender:ident))*] $(($name:ident $passed:ident))*) => {
        impl<S, F, RESULT: Results, $($lent: Borrowed, $lender: Lend<$lent>,)* $($name: Argument, $passed: Pass<$name>),*>
            DirectMethod<S, ($(Lent<$lent>,)* $($name,)*), ($($lender,)* $($passed,)*)> for F
        where
            F: Fn(&S, &mut Caller<'_>, $(&$lent,)* $($name),*) -> Result<RESULT>,
        {
            type Value = RESULT::Direct;
            #[inline(always)]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn call_direct(&self, state: &S, stack: &mut Stack, passed: ($($lender,)* $($passed,)*)) -> Result<Self::Value> {
                let ($($lender,)* $($passed,)*) = passed;
                let results = self(state, &mut Caller { stack: &mut *stack }, $($lender.lend()?,)* $($passed.pass()?),*)?;
                Ok(results.into_direct(stack))
            }
        }
    };
    (@shorter) => {};
    (@shorter $first:tt $($rest:tt)*) => { arities!($($rest)*); };
}
arities!((A PA) (B PB) (C PC) (D PD) (E PE) (G PG) (H PH) (I PI) (J PJ) (K PK) (L PL) (M PM) (N PN) (O PO) (P PP) (Q PQ));

/// What translated code knows of a native module in a context: its state, if the module is there.
#[derive(Debug)]
pub struct Native<'a, S> {
    module: &'static str,
    state: Option<&'a Arc<S>>,
}

impl<'a, S> Native<'a, S> {
    /// Names a native module; `state` is its state in the context, if the module is there.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn new(module: &'static str, state: Option<&'a Arc<S>>) -> Self {
        Native { module, state }
    }
}

impl<S> Clone for Native<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Native<'_, S> {}

impl<S> Native<'_, S> {
    /// Calls a method, which is the import of the given name (without the module's).
    ///
    /// # Errors
    /// What the method fails with, which is placed in it; NOT_FOUND where the module is not there.
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
        match method.call_direct(state, stack, passed) {
            Ok(value) => Ok(value),
            Err(error) => Err(super::native::locate(error, self.module, name)),
        }
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
            Err(error) => Err(super::native::locate(error, self.module, name)),
        }
    }

    /// True where the module is there.
    #[inline(always)]
    #[doc(hidden)]
    pub fn is_there(self) -> bool {
        self.state.is_some()
    }

    /// What the function of a name finds in an argument that the caller keeps.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    #[doc(hidden)]
    pub fn look<T>(self, name: &'static str, found: Result<T>) -> Result<T> {
        if !self.is_there() {
            return Err(missing(self.module, name));
        }
        match found {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(name, error)),
        }
    }

    /// What a function fails with, placed in it.
    #[inline(always)]
    #[doc(hidden)]
    pub fn failed(self, name: &str, error: crate::Error) -> crate::Error {
        super::native::locate(error, self.module, name)
    }
}

// Of the name alone: a `Native` that is passed is kept in memory for that, by every call.
#[cold]
fn missing(module: &str, name: &str) -> crate::Error {
    super::failure::unresolved(&alloc::format!("{module}.{name}"))
}
