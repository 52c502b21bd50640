//! The form of native functions: their arguments and results, and the shell that the packed calls of the VM enter.

use alloc::string::String;

use super::values::{Argument, Borrowed, Results};
use crate::Result;
use crate::call::{CallBuffer, CallReader};
use crate::module::Completion;
use crate::stack::Stack;

/// What a native function sees of the invocation that calls it.
#[derive(Debug)]
pub struct Caller<'a> {
    /// The invocation's storage; a function that yields says there what it waits for.
    pub stack: &'a mut Stack,
}

/// A function that can be a native module's; implemented for methods and closures of the right form.
pub trait NativeMethod<S, A> {
    #[doc(hidden)]
    fn convention(&self) -> String;
    #[doc(hidden)]
    fn call(&self, state: &S, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion>;
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
