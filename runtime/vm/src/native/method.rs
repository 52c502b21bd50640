//! The form of native functions: their arguments and results, and the shell that the packed calls of the VM enter.

use alloc::string::String;

use incarnate_bytecode::imports::{Cost, Operand};

use super::values::{Argument, Borrowed, Results};
use crate::Result;
use crate::call::{CallBuffer, CallReader};
use crate::ledger::Ledger;
use crate::module::Completion;
use crate::stack::Stack;

/// What a native function sees of the invocation that calls it.
#[derive(Debug)]
pub struct Caller<'a> {
    /// The invocation's storage; a function that yields says there what it waits for.
    pub stack: &'a mut Stack,
}

impl Caller<'_> {
    /// Returns the ledger that whatever the call creates is charged to.
    #[inline]
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.stack.limits().ledger
    }
}

/// A function that can be a native module's; implemented for methods and closures of the right form.
pub trait NativeMethod<S, A> {
    #[doc(hidden)]
    fn convention(&self) -> String;
    #[doc(hidden)]
    fn call(&self, cost: Cost, state: &S, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion>;
}

/// The form of a method: the types of its leading borrowed arguments, and of the others. Each is a tuple, whose length
/// alone distinguishes the implementations of different forms.
#[derive(Debug)]
pub struct Form<BORROWED, OTHERS>(core::marker::PhantomData<(BORROWED, OTHERS)>);

/// The calling convention of arguments, given by their letters, and of results.
fn convention<R: Results>(arguments: &str) -> String {
    let mut results = String::new();
    R::letters(&mut results);
    let or_void = |letters: &str| if letters.is_empty() { String::from("v") } else { String::from(letters) };
    alloc::format!("0{}_{}", or_void(arguments), or_void(&results))
}

/// What a borrowed argument counts as.
#[inline]
pub(crate) fn operand_of<T: Borrowed>(object: &T) -> Operand {
    Operand { value: 0, extent: object.extent() }
}

/// Invokes a macro with each form of a method: the types of borrowed arguments, and of the others, each with a name for the value
/// that is passed for it.
///
/// Each form is one more candidate for every call, so that there are few with several borrowed arguments.
macro_rules! for_each_form {
    ($callback:ident) => {
        for_each_form!(@from $callback [] (A PA) (B PB) (C PC) (D PD) (E PE) (G PG) (H PH) (I PI) (J PJ) (K PK) (L PL) (M PM) (N PN) (O PO) (P PP) (Q PQ));
        for_each_form!(@from $callback [(X PX)] (A PA) (B PB) (C PC) (D PD) (E PE) (G PG) (H PH) (I PI) (J PJ) (K PK) (L PL) (M PM) (N PN) (O PO) (P PP));
        for_each_form!(@from $callback [(X PX) (Y PY)] (A PA) (B PB) (C PC) (D PD) (E PE) (G PG));
        for_each_form!(@from $callback [(X PX) (Y PY) (Z PZ)] (A PA) (B PB) (C PC) (D PD) (E PE));
    };
    (@from $callback:ident $borrowed:tt $($others:tt)*) => {
        $callback!($borrowed $($others)*);
        for_each_form!(@shorter $callback $borrowed $($others)*);
    };
    (@shorter $callback:ident $borrowed:tt) => {};
    (@shorter $callback:ident $borrowed:tt $first:tt $($others:tt)*) => {
        for_each_form!(@from $callback $borrowed $($others)*);
    };
}
pub(crate) use for_each_form;

macro_rules! native_method {
    ([$(($borrowed:ident $passer:ident))*] $(($name:ident $passed:ident))*) => {
        impl<S, F, RESULT: Results, $($borrowed: Borrowed,)* $($name: Argument),*>
            NativeMethod<S, Form<($($borrowed,)*), ($($name,)*)>> for F
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
            fn call(&self, cost: Cost, state: &S, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
                let mut _reader = buffer.reader();
                $(let $borrowed = $borrowed::borrow(_reader.borrow()?)?;)*
                $(let $name = $name::read(&mut _reader)?;)*
                if stack.meter().is_some() && !cost.0.is_empty() {
                    stack.charge(cost.steps(&[$(operand_of($borrowed),)* $($name.operand()),*]))?;
                }
                let results = self(state, &mut Caller { stack: &mut *stack }, $($borrowed,)* $($name),*)?;
                buffer.finish_arguments();
                Ok(results.write(stack, buffer))
            }
        }
    };
}
for_each_form!(native_method);

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Argument),*> Argument for ($($name,)*) {
            fn letters(_text: &mut String) {
                $($name::letters(_text);)*
            }
            #[inline]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn operand(&self) -> Operand {
                let ($($name,)*) = self;
                let _extent = 0u64;
                $(let _extent = _extent.saturating_add($name.operand().extent);)*
                Operand { value: 0, extent: _extent }
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
        tuples!(@shorter $($name)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($name:ident)*) => { tuples!($($name)*); };
}
tuples!(A B C D E G H I J K L M N O P Q);
