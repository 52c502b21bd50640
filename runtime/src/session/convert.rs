//! Conversion between Rust values and VM values, for arguments and results of calls.

use std::sync::Arc;

use super::aligned::AlignedVec;
use super::element::{BF16, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, ScalarElement};
use super::function::Function;
use super::input::Input;
use super::packer::{Packer, value_text};
use super::primitives::Primitives;
use super::tensor::Tensor;
use crate::bytecode::ConventionItem;
use crate::hal::BufferView;
use crate::vm::{CallBuffer, CallValues, Ref, Value};
use crate::{Error, Result};

/// A value that a function can be called with: a tensor, elements on the host that become one, a number, or a [`Value`]; or a reference
/// to one of these.
///
/// Elements are those of a slice, a vector or an array, which take the shape that the function declares, of nested arrays of up to 8
/// dimensions, and with the feature `ndarray` of that crate's arrays and views. A number becomes a tensor of rank 0 where the function
/// takes one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a function",
    label = "not a value that functions take",
    note = "functions take tensors, numbers, slices, vectors, arrays and nested arrays of elements, by value or by reference, and with \
            the feature `ndarray` of `incarnate` arrays and views of that crate",
    note = "elements are bool, i8 to i64, u8 to u64, f32, f64 and other types that are an `Element`"
)]
pub trait ToValue {
    /// Returns the type and the bits if every value of the type is a primitive.
    #[inline(always)]
    fn primitive(&self) -> Option<(ConventionItem, u64)> {
        None
    }

    /// Appends the value to the arguments of a call.
    fn pack(&self, packer: &mut Packer<'_>);
}

/// A value that a function can return: a tensor, a number, or a [`Value`].
#[diagnostic::on_unimplemented(
    message = "a result of a function cannot be `{Self}`",
    label = "not a value that functions return",
    note = "results are `Tensor<T>` of an element type `T`, bool, i32, i64, f32 and f64; `Tensor::to_vec` copies the elements of a tensor"
)]
pub trait FromValue: Sized {
    /// The type if it is a primitive.
    const PRIMITIVE: Option<ConventionItem> = None;
    /// Converts the given bits; None if the type is not a primitive.
    #[inline(always)]
    #[must_use]
    fn from_word(_: u64) -> Option<Self> {
        None
    }

    /// Converts a VM value.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the value has another type.
    fn from_value(value: Value) -> Result<Self>;

    /// Takes the next result of a call.
    ///
    /// # Errors
    /// As above.
    #[inline]
    fn from_next(values: &mut CallValues<'_>) -> Result<Self> {
        // The caller checks the number of values first.
        Self::from_value(values.next().unwrap_or(Ok(Value::None))?)
    }
}

macro_rules! scalars {
    ($($type:ty => $variant:ident, $word:ident => $from:expr, $number:ident => $bits:expr;)*) => {
        $(impl ToValue for $type {
            #[inline(always)]
            fn primitive(&self) -> Option<(ConventionItem, u64)> {
                let $number = *self;
                Some((ConventionItem::$variant, $bits))
            }
            #[inline]
            fn pack(&self, packer: &mut Packer<'_>) {
                let $number = *self;
                packer.word(ConventionItem::$variant, $bits, self);
            }
        }
        impl FromValue for $type {
            const PRIMITIVE: Option<ConventionItem> = Some(ConventionItem::$variant);
            #[inline(always)]
            fn from_word($word: u64) -> Option<$type> {
                Some($from)
            }
            fn from_value(value: Value) -> Result<$type> {
                match value {
                    Value::$variant($word) => {
                        let $number = $word;
                        let $word: u64 = $bits;
                        Ok($from)
                    }
                    other => Err(wrong_type(stringify!($type), &other)),
                }
            }
            #[inline]
            fn from_next(values: &mut CallValues<'_>) -> Result<$type> {
                let $word = match values.next_word(ConventionItem::$variant) {
                    Some(word) => word?,
                    None => return Self::from_value(values.next().unwrap_or(Ok(Value::None))?),
                };
                Ok($from)
            }
        })*
    };
}
scalars! {
    i32 => I32, word => word as i32, number => u64::from(number as u32);
    i64 => I64, word => word as i64, number => number as u64;
    f32 => F32, word => f32::from_bits(word as u32), number => u64::from(number.to_bits());
    f64 => F64, word => f64::from_bits(word), number => number.to_bits();
}

impl ToValue for bool {
    #[inline(always)]
    fn primitive(&self) -> Option<(ConventionItem, u64)> {
        Some((ConventionItem::I32, u64::from(*self)))
    }
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.word(ConventionItem::I32, u64::from(*self), self);
    }
}

/// An `i32` of the VM that is 0 or 1.
impl FromValue for bool {
    const PRIMITIVE: Option<ConventionItem> = Some(ConventionItem::I32);
    #[inline(always)]
    fn from_word(word: u64) -> Option<bool> {
        match word as u32 {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn from_value(value: Value) -> Result<bool> {
        match value {
            Value::I32(0) => Ok(false),
            Value::I32(1) => Ok(true),
            other => Err(wrong_type("bool", &other)),
        }
    }
}

#[cold]
fn wrong_type(wanted: &str, found: &Value) -> Error {
    Error::invalid_argument(format!("the result is {}, not of type {wanted}", value_text(found)))
}

/// Numbers that the VM has no type for: tensors of rank 0.
macro_rules! tensors_of_rank_0 {
    ($($type:ty),*) => {
        $(impl $crate::session::ToValue for $type {
            #[inline]
            fn pack(&self, packer: &mut $crate::session::Packer<'_>) {
                packer.push_tensor($crate::session::Input::scalar(self));
            }
        })*
    };
}
#[cfg(any(feature = "half", feature = "num-complex"))]
pub(super) use tensors_of_rank_0;

tensors_of_rank_0!(i8, i16, u8, u16, u32, u64, F16, BF16, F8E5M2, F8E4M3FN, F8E5M2FNUZ, F8E4M3FNUZ, F8E8M0FNU);

/// Elements on the host, by their conversion to [`Input`].
macro_rules! elements {
    ($({$($generics:tt)*} $type:ty;)*) => {
        $(impl<$($generics)*> $crate::session::ToValue for $type {
            #[inline]
            fn pack(&self, packer: &mut $crate::session::Packer<'_>) {
                packer.push_tensor($crate::session::IntoInput::<'_, T>::into_input(self));
            }
        })*
    };
}
#[cfg(feature = "ndarray")]
pub(super) use elements;

elements! {
    {T: Element} [T];
    {T: Element} Vec<T>;
    {T: Element} AlignedVec<T>;
    {T: ScalarElement, const A: usize} [T; A];
    {T: ScalarElement, const A: usize, const B: usize} [[T; B]; A];
    {T: ScalarElement, const A: usize, const B: usize, const C: usize} [[[T; C]; B]; A];
    {T: ScalarElement, const A: usize, const B: usize, const C: usize, const D: usize} [[[[T; D]; C]; B]; A];
    {T: ScalarElement, const A: usize, const B: usize, const C: usize, const D: usize, const E: usize}
        [[[[[T; E]; D]; C]; B]; A];
    {T: ScalarElement, const A: usize, const B: usize, const C: usize, const D: usize, const E: usize, const F: usize}
        [[[[[[T; F]; E]; D]; C]; B]; A];
    {
        T: ScalarElement, const A: usize, const B: usize, const C: usize, const D: usize, const E: usize, const F: usize,
        const G: usize
    } [[[[[[[T; G]; F]; E]; D]; C]; B]; A];
    {
        T: ScalarElement, const A: usize, const B: usize, const C: usize, const D: usize, const E: usize, const F: usize,
        const G: usize, const H: usize
    } [[[[[[[[T; H]; G]; F]; E]; D]; C]; B]; A];
}

impl<T: Element> ToValue for Input<'_, T> {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.push_tensor(self.by_reference());
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    #[inline(always)]
    fn primitive(&self) -> Option<(ConventionItem, u64)> {
        (**self).primitive()
    }
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        (**self).pack(packer);
    }
}

impl ToValue for Value {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.push(self.clone());
    }
}

impl<T: Element> ToValue for Tensor<T> {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.push(Value::Ref(Ref::from(self.view().clone())));
    }
}

impl ToValue for Arc<BufferView> {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.push(Value::Ref(Ref::from(self.clone())));
    }
}

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Value> {
        Ok(value)
    }
}

impl FromValue for Ref {
    fn from_value(value: Value) -> Result<Ref> {
        match value {
            Value::Ref(reference) => Ok(reference),
            other => Err(wrong_type("reference", &other)),
        }
    }
}

impl FromValue for Arc<BufferView> {
    fn from_value(value: Value) -> Result<Arc<BufferView>> {
        match value {
            Value::Ref(reference) => crate::vm::TypedRefObject::from_ref(reference),
            other => Err(wrong_type("!hal.buffer_view", &other)),
        }
    }
}

impl<T: Element> FromValue for Tensor<T> {
    fn from_value(value: Value) -> Result<Tensor<T>> {
        Tensor::from_view(FromValue::from_value(value)?)
    }
}

/// The arguments of a call: a tuple, an array or a slice of values. One value is a tuple of length one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of arguments",
    label = "expected a tuple of arguments",
    note = "`Function::call` takes the arguments as a tuple, also of one: `call((value,))`; or as an array or a slice of values of one type"
)]
pub trait Arguments {
    /// Appends each value to the arguments of a call, in order.
    fn pack(&self, packer: &mut Packer<'_>);
    /// Writes the values over the contents of a call buffer and returns true if they are primitives of the expected
    /// types; otherwise does nothing.
    #[inline(always)]
    fn pack_words(&self, taken: Primitives, buffer: &mut CallBuffer) -> bool {
        let _ = (taken, buffer);
        false
    }
}

impl<T: ToValue> Arguments for [T] {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        self.iter().for_each(|value| value.pack(packer));
    }
}

impl<T: ToValue> Arguments for &[T] {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        Arguments::pack(&**self, packer);
    }
}

impl<T: ToValue, const N: usize> Arguments for [T; N] {
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        Arguments::pack(self.as_slice(), packer);
    }
}

/// The results of a call: `()`, one value, a tuple, a vector of values of one type, or [`Results`](super::Results), which finds them by
/// name.
#[diagnostic::on_unimplemented(
    message = "the results of a function cannot be `{Self}`",
    label = "not results of a function",
    note = "results are `()`, one value, a tuple of up to 8 values, a vector of them, or `incarnate::Results` for access by name",
    note = "a value is a `Tensor<T>`, whose elements `Tensor::to_vec` copies, or a bool, an i32, an i64, an f32 or an f64"
)]
pub trait FromResults: Sized {
    /// Converts the results of a call of a function.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if their number or types differ.
    fn from_results(values: &mut CallValues<'_>, function: &Function) -> Result<Self>;

    /// Converts the results from their bits if they are primitives of the expected types.
    #[inline(always)]
    #[must_use]
    fn from_words(returned: Primitives, words: &[u64]) -> Option<Self> {
        let _ = (returned, words);
        None
    }
}

impl<T: FromValue> FromResults for Vec<T> {
    fn from_results(values: &mut CallValues<'_>, _: &Function) -> Result<Vec<T>> {
        values.map(|value| T::from_value(value?)).collect()
    }
}

#[inline]
fn check_count(wanted: usize, values: &CallValues<'_>) -> Result<()> {
    match values.len() {
        found if found == wanted => Ok(()),
        found => Err(wrong_count(wanted, found)),
    }
}

#[cold]
fn wrong_count(wanted: usize, found: usize) -> Error {
    let values = if found == 1 { "1 value" } else { &*format!("{found} values") };
    Error::invalid_argument(format!("the function returns {values}, not {wanted}"))
}

macro_rules! single_results {
    ($({$($generics:tt)*} $type:ty;)*) => {
        $(impl<$($generics)*> FromResults for $type {
            #[inline]
            fn from_results(values: &mut CallValues<'_>, _: &Function) -> Result<$type> {
                check_count(1, values)?;
                FromValue::from_next(values)
            }
            #[inline(always)]
            fn from_words(returned: Primitives, words: &[u64]) -> Option<$type> {
                <($type,)>::from_words(returned, words).map(|(result,)| result)
            }
        })*
    };
}
single_results! {
    {} i32;
    {} i64;
    {} f32;
    {} f64;
    {} bool;
    {} Value;
    {} Arc<BufferView>;
    {T: Element} Tensor<T>;
}

macro_rules! tuples {
    ($($count:literal: $($name:ident)*;)*) => {
        $(impl<$($name: ToValue),*> Arguments for ($($name,)*) {
            #[inline]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn pack(&self, _packer: &mut Packer<'_>) {
                let ($($name,)*) = self;
                $($name.pack(_packer);)*
            }
            #[inline(always)]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn pack_words(&self, taken: Primitives, buffer: &mut CallBuffer) -> bool {
                let ($($name,)*) = self;
                match ($($name.primitive(),)*) {
                    ($(Some($name),)*) if taken.are(&[$($name.0),*]) => {
                        buffer.set_words([$($name.1),*]);
                        true
                    }
                    #[allow(unreachable_patterns, reason = "of no values none is anything else")]
                    _ => false,
                }
            }
        }
        impl<$($name: FromValue),*> FromResults for ($($name,)*) {
            #[inline]
            #[allow(non_snake_case, clippy::unused_unit, reason = "values named by their types; there may be none")]
            fn from_results(values: &mut CallValues<'_>, _: &Function) -> Result<Self> {
                check_count($count, values)?;
                Ok(($($name::from_next(values)?,)*))
            }
            #[inline(always)]
            #[allow(non_snake_case, clippy::unused_unit, reason = "values named by their types; there may be none")]
            fn from_words(returned: Primitives, words: &[u64]) -> Option<Self> {
                if let ($(Some($name),)*) = const { ($($name::PRIMITIVE,)*) }
                    && returned.are(&[$($name),*])
                    && let Some([$($name),*]) = words.first_chunk::<$count>()
                {
                    return Some(($($name::from_word(*$name)?,)*));
                }
                None
            }
        })*
    };
}
tuples! {
    0: ;
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
}
