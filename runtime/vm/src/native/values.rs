//! The Rust types that native functions take and return.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::ops::Deref;

use incarnate_bytecode::imports::{BYTES_PER_STEP, Operand};
use smallvec::SmallVec;

use crate::borrowed::MaybeOwned;
use crate::buffer::Buffer;
use crate::call::{CallBuffer, CallReader};
use crate::list::List;
use crate::module::Completion;
use crate::reference::{Ref, TypedRefObject};
use crate::stack::Stack;
use crate::{Result, failure};

/// A type that native functions take as an argument.
pub trait Argument: Sized {
    /// Appends the letters of the calling convention.
    fn letters(text: &mut String);
    /// Takes the value out of a call.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where a reference is null or of another type.
    fn read(reader: &mut CallReader<'_>) -> Result<Self>;
    /// What the argument counts as in the cost of a call.
    fn operand(&self) -> Operand;
}

/// A type that native functions return, within a `Result`.
pub trait Results: Sized {
    /// The result of a direct call: values of the VM.
    type Direct;
    /// The values of a direct call; what a suspended call needs goes on the stack.
    fn into_direct(self, stack: &mut Stack) -> Self::Direct;
    /// Appends the letters of the calling convention.
    fn letters(text: &mut String);
    /// Leaves the values in the call, or what the suspended call needs on the stack.
    fn write(self, stack: &mut Stack, buffer: &mut CallBuffer) -> Completion;
}

macro_rules! primitives {
    ($($type:ty as $direct:ty: $letter:literal, $to_word:expr, $from_word:expr, $count:expr;)*) => {
        $(impl Argument for $type {
            fn letters(text: &mut String) {
                text.push($letter);
            }
            #[inline]
            fn read(reader: &mut CallReader<'_>) -> Result<$type> {
                Ok($from_word(reader.word()?))
            }
            #[inline]
            fn operand(&self) -> Operand {
                let count: fn($type) -> u64 = $count;
                Operand { value: count(*self), extent: 0 }
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
    i32 as i32: 'i', |v| u64::from(v as u32), |w| w as i32, |v| v as u32 as u64;
    u32 as i32: 'i', u64::from, |w| w as u32, |v| v as u64;
    i64 as i64: 'I', |v| v as u64, |w| w as i64, |v| v as u64;
    u64 as i64: 'I', |v| v, |w| w, |v| v;
    f32 as f32: 'f', |v: f32| u64::from(v.to_bits()), |w| f32::from_bits(w as u32), |_| 0;
    f64 as f64: 'F', f64::to_bits, f64::from_bits, |_| 0;
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
    ($({$($generics:tt)*} $type:ty, $from_ref:expr, $extent:expr;)*) => {
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
            #[inline]
            fn operand(&self) -> Operand {
                let extent: fn(&$type) -> u64 = $extent;
                Operand { value: 0, extent: extent(self) }
            }
        })*
    };
}
references! {
    {} Ref, Ok, Ref::extent;
    {T: TypedRefObject} Arc<T>, <T as TypedRefObject>::from_ref, |object| object.extent();
    {T: TypedRefObject} Option<Arc<T>>, |r: Ref| match r {
        Ref::Null => Ok(None),
        object => <T as TypedRefObject>::from_ref(object).map(Some),
    }, |object| object.as_ref().map_or(0, |object| object.extent());
    {} Arc<Buffer>, |r: Ref| match r { Ref::Buffer(buffer) => Ok(buffer), other => other.buffer().cloned() },
        |buffer| buffer.length();
    {} Option<Arc<Buffer>>, |r: Ref| match r {
        Ref::Null => Ok(None),
        Ref::Buffer(buffer) => Ok(Some(buffer)),
        other => other.buffer().cloned().map(Some),
    }, |buffer| buffer.as_ref().map_or(0, |buffer| buffer.length());
    {} Arc<List>, |r: Ref| match r { Ref::List(list) => Ok(list), other => other.list().cloned() },
        |list| list.extent();
}

impl<T: TypedRefObject> Argument for MaybeOwned<'_, T> {
    fn letters(text: &mut String) {
        text.push('r');
    }
    #[inline]
    fn read(reader: &mut CallReader<'_>) -> Result<Self> {
        Arc::read(reader).map(MaybeOwned::from)
    }
    #[inline]
    fn operand(&self) -> Operand {
        Operand { value: 0, extent: self.extent() }
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
    #[inline]
    fn operand(&self) -> Operand {
        Operand { value: 0, extent: self.as_ref().map_or(0, |object| object.extent()) }
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
    pub(crate) fn collect(elements: impl Iterator<Item = Result<T>>) -> Result<Span<T>> {
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
    #[inline]
    fn operand(&self) -> Operand {
        let extents = self.iter().map(|element| element.operand().extent.saturating_add(BYTES_PER_STEP));
        Operand { value: self.len() as u64, extent: extents.fold(0, u64::saturating_add) }
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
    /// The result of a call that must not yield.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where it did.
    #[inline]
    pub fn done(self) -> Result<T> {
        match self {
            Step::Done(value) => Ok(value),
            Step::Yielded => Err(failure::unexpected_yield()),
        }
    }

    /// The result of a call of a kernel.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where it yielded.
    #[inline]
    pub fn of_kernel(self) -> Result<T> {
        match self {
            Step::Done(value) => Ok(value),
            Step::Yielded => Err(failure::kernel_yields()),
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

/// An object that a native function borrows: up to three leading arguments of a method may be `&T`. Besides one of them there can be
/// fifteen arguments, besides two six, and besides three five.
pub trait Borrowed: Sized {
    /// The object of a reference.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is null or of another type.
    fn borrow(reference: &Ref) -> Result<&Self>;
    /// The object's bytes, see [`RefObject::extent`](crate::RefObject::extent).
    fn extent(&self) -> u64;
}

impl<T: TypedRefObject> Borrowed for T {
    #[inline]
    fn borrow(reference: &Ref) -> Result<&T> {
        reference.get()
    }
    #[inline]
    fn extent(&self) -> u64 {
        crate::RefObject::extent(self)
    }
}

impl Borrowed for Buffer {
    #[inline]
    fn borrow(reference: &Ref) -> Result<&Buffer> {
        reference.buffer().map(|buffer| &**buffer)
    }
    #[inline]
    fn extent(&self) -> u64 {
        self.length()
    }
}
