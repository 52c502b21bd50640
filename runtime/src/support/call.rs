//! Calls between modules: the entry points of exports, and imports by packed calls.

use crate::vm::failure::{unexpected_yield, unresolved};
use crate::vm::{Argument, BoundFunction, CallBuffer, Completion, Ref, Stack, Step};
use crate::{Error, Result};

use super::description::Description;
use super::state::State;

/// Reads the arguments of a call as a tuple.
///
/// # Errors
/// INTERNAL if there are fewer.
#[inline(always)]
pub fn arguments<A: Argument>(buffer: &mut CallBuffer) -> Result<A> {
    A::read(&mut buffer.reader())
}

/// Writes the results of a call.
#[inline(always)]
pub fn results(buffer: &mut CallBuffer, results: impl Pack) -> Completion {
    results.pack_results(buffer);
    Completion::Done
}

/// Writes the results of a call if it is done.
#[inline]
pub fn step(buffer: &mut CallBuffer, step: Step<impl Pack>) -> Completion {
    match step {
        Step::Done(values) => results(buffer, values),
        Step::Yielded => Completion::Yielded,
    }
}

/// The error of a call of an export that does not exist, or of a resumption of one that does not yield.
#[cold]
#[must_use]
pub fn no_export(module: &Description, export: u32) -> Error {
    match module.exports.get(export as usize) {
        Some(export) => {
            Error::failed_precondition(alloc::format!("@{}.{} cannot be resumed", module.name, export.name))
        }
        None => Error::out_of_range(alloc::format!("module @{} has no exported function {export}", module.name)),
    }
}

/// Values that are passed in a packed call.
pub trait Pack: Sized {
    /// Whether the value is one primitive.
    const IS_WORD: bool = false;

    /// The bits of a primitive.
    #[inline(always)]
    fn word(&self) -> u64 {
        0
    }

    /// Appends the values.
    fn pack(self, buffer: &mut CallBuffer);

    /// Replaces the arguments by the values as results.
    #[inline(always)]
    fn pack_results(self, buffer: &mut CallBuffer) {
        if const { Self::IS_WORD } {
            buffer.finish_with_words([self.word()]);
        } else {
            buffer.finish_arguments();
            self.pack(buffer);
        }
    }
}

macro_rules! words {
    ($($type:ty, $value:ident => $word:expr;)*) => {
        $(impl Pack for $type {
            const IS_WORD: bool = true;
            #[inline(always)]
            fn word(&self) -> u64 {
                let $value = *self;
                $word
            }
            #[inline(always)]
            fn pack(self, buffer: &mut CallBuffer) {
                buffer.push_word(self.word());
            }
        })*
    };
}
words! {
    i32, value => u64::from(value as u32);
    i64, value => value as u64;
    f32, value => u64::from(value.to_bits());
    f64, value => value.to_bits();
}

impl Pack for Ref {
    #[inline(always)]
    fn pack(self, buffer: &mut CallBuffer) {
        buffer.push_ref(self);
    }
}

impl Pack for &Ref {
    #[inline(always)]
    fn pack(self, buffer: &mut CallBuffer) {
        buffer.push_ref(self.clone());
    }
}

/// A span.
impl<T: Pack, const N: usize> Pack for [T; N] {
    #[inline]
    fn pack(self, buffer: &mut CallBuffer) {
        buffer.push_word(N as u64);
        self.into_iter().for_each(|element| element.pack(buffer));
    }
}

/// A span whose elements differ in Rust type: their number, and a tuple of them.
#[derive(Clone, Copy, Debug)]
pub struct Elements<T>(pub u32, pub T);

impl<T: Pack> Pack for Elements<T> {
    #[inline]
    fn pack(self, buffer: &mut CallBuffer) {
        buffer.push_word(u64::from(self.0));
        self.1.pack(buffer);
    }
}

impl Pack for crate::vm::NoElements {
    #[inline]
    fn pack(self, buffer: &mut CallBuffer) {
        buffer.push_word(0);
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Pack),*> Pack for ($($name,)*) {
            #[inline(always)]
            #[allow(non_snake_case, reason = "values are named like their types")]
            fn pack(self, _buffer: &mut CallBuffer) {
                let ($($name,)*) = self;
                if const { true $(&& $name::IS_WORD)* } {
                    _buffer.push_words([$($name.word()),*]);
                    return;
                }
                $($name.pack(_buffer);)*
            }
            #[inline(always)]
            #[allow(non_snake_case, reason = "values are named like their types")]
            fn pack_results(self, buffer: &mut CallBuffer) {
                if const { true $(&& $name::IS_WORD)* } {
                    let ($($name,)*) = self;
                    buffer.finish_with_words([$($name.word()),*]);
                } else {
                    buffer.finish_arguments();
                    self.pack(buffer);
                }
            }
        }
        tuples!(@shorter $($name)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($name:ident)*) => { tuples!($($name)*); };
}
tuples!(A B C D E F G H I J K L M N O P);

/// An imported function.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    pub(super) state: &'a State,
    pub(super) ordinal: u32,
}

impl<'a> Import<'a> {
    /// Returns 1 if the import is resolved, otherwise 0.
    #[inline]
    #[must_use]
    pub fn is_resolved(self) -> i32 {
        i32::from(self.state.core.import(self.ordinal).is_some())
    }

    #[inline]
    fn target(self) -> Result<&'a BoundFunction> {
        self.state.core.import(self.ordinal).ok_or_else(|| {
            let import = self.state.description.imports.get(self.ordinal as usize);
            unresolved(import.map_or("?", |import| import.name))
        })
    }

    /// Calls it.
    ///
    /// # Errors
    /// The errors of the function; FAILED_PRECONDITION if it yields; NOT_FOUND if it is not resolved.
    #[inline]
    pub fn call<R: Argument>(self, stack: &mut Stack, arguments: impl Pack) -> Result<R> {
        match self.call_yieldable(stack, arguments)? {
            Step::Done(results) => Ok(results),
            Step::Yielded => Err(unexpected_yield()),
        }
    }

    /// Calls it; it may yield.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn call_yieldable<R: Argument>(self, stack: &mut Stack, arguments: impl Pack) -> Result<Step<R>> {
        let target = self.target()?;
        let mut buffer = stack.take_buffer();
        arguments.pack(&mut buffer);
        stack.enter()?;
        let completion = target.module.begin_call(&target.state, target.export, stack, &mut buffer);
        finish(stack, completion, buffer)
    }

    /// Resumes a call that yielded.
    ///
    /// # Errors
    /// As above.
    pub fn resume<R: Argument>(self, stack: &mut Stack) -> Result<Step<R>> {
        let target = self.target()?;
        let mut buffer = stack.take_buffer();
        stack.enter()?;
        let completion = target.module.resume_call(&target.state, target.export, stack, &mut buffer);
        finish(stack, completion, buffer)
    }
}

#[inline]
fn finish<R: Argument>(
    stack: &mut Stack,
    completion: Result<Completion>,
    mut buffer: alloc::boxed::Box<CallBuffer>,
) -> Result<Step<R>> {
    stack.leave();
    let step = match completion? {
        Completion::Done => Step::Done(R::read(&mut buffer.reader())?),
        Completion::Yielded => Step::Yielded,
    };
    stack.give_buffer(buffer);
    Ok(step)
}
