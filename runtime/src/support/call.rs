//! The values of packed calls: those of the entry points of exports, and those that imports are called with.

use crate::vm::{Argument, CallBuffer, Completion, NoElements, Ref, Step};
use crate::{Error, Result};

use super::description::Description;

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

impl Pack for NoElements {
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

/// The numbers of a span that a call passes, such as dimensions: an array, or [`NoElements`].
pub trait PassedNumbers<T>: Copy {
    /// How many there are.
    const COUNT: usize;

    /// Calls `f` with the numbers.
    fn with<R>(self, f: impl FnOnce(&[T]) -> R) -> R;
}

macro_rules! passed_numbers {
    ($($from:ty => $to:ty;)*) => { $(
        impl<const N: usize> PassedNumbers<$to> for [$from; N] {
            const COUNT: usize = N;

            #[inline(always)]
            fn with<R>(self, f: impl FnOnce(&[$to]) -> R) -> R {
                f(&self.map(|number| number as $to))
            }
        }
    )* };
}
passed_numbers! {
    i32 => u32;
    i64 => u64;
}

impl<T> PassedNumbers<T> for NoElements {
    const COUNT: usize = 0;

    #[inline(always)]
    fn with<R>(self, f: impl FnOnce(&[T]) -> R) -> R {
        f(&[])
    }
}
