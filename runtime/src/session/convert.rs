//! Rust values to the VM's and back: what functions are called with and return.

use std::sync::Arc;

use super::element::Element;
use super::tensor::Tensor;
use crate::bytecode::ConventionItem;
use crate::hal::BufferView;
use crate::vm::{CallBuffer, CallValues, Ref, Value};
use crate::{Error, Result};

/// The types of values in one number, if they are primitives and at most eight: what a call passes is compared with what the
/// function takes at once.
#[derive(Clone, Copy, Debug)]
pub struct Primitives(u64);

impl Primitives {
    /// For values of other types, or more of them.
    const OTHERS: u64 = 0;

    /// The types of the given values.
    #[inline(always)]
    pub(super) const fn of(items: &[ConventionItem]) -> Primitives {
        if items.len() > 8 {
            return Primitives(Primitives::OTHERS);
        }
        // Types are numbers of less than four bits; the one tells how many they are.
        let (mut all, mut index) = (1, 0);
        while index < items.len() {
            all = match items[index] {
                item @ (ConventionItem::I32 | ConventionItem::I64 | ConventionItem::F32 | ConventionItem::F64) => {
                    all << 4 | item as u64
                }
                ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => {
                    return Primitives(Primitives::OTHERS);
                }
            };
            index += 1;
        }
        Primitives(all)
    }

    /// True where these are the types of the given values, and those are primitives.
    #[inline(always)]
    fn are(self, items: &[ConventionItem]) -> bool {
        let wanted = Primitives::of(items).0;
        wanted != Primitives::OTHERS && self.0 == wanted
    }
}

/// A value that a function can be called with.
pub trait ToValue {
    /// The VM's value.
    fn to_value(&self) -> Value;

    /// The type and the bits, if every value of the type is a primitive.
    #[inline(always)]
    fn primitive(&self) -> Option<(ConventionItem, u64)> {
        None
    }

    /// Appends it to the arguments of a call.
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.push(self.to_value());
    }
}

/// Puts arguments into a call, checked against the calling convention.
#[derive(Debug)]
pub struct Packer<'a> {
    buffer: &'a mut CallBuffer,
    items: core::slice::Iter<'a, ConventionItem>,
    index: usize,
    /// What was wrong first.
    error: Option<Error>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(buffer: &'a mut CallBuffer, items: &'a [ConventionItem]) -> Packer<'a> {
        Packer { buffer, items: items.iter(), index: 0, error: None }
    }

    /// Appends the bits of a primitive.
    #[inline]
    fn word(&mut self, item: ConventionItem, word: u64, value: impl FnOnce() -> Value) {
        match self.items.next() {
            Some(wanted) if *wanted == item => self.buffer.push_word(word),
            wanted => self.refuse(&value(), wanted),
        }
        self.index += 1;
    }

    /// Appends a value.
    pub fn push(&mut self, value: Value) {
        match (&value, self.items.next()) {
            (Value::I32(_), Some(ConventionItem::I32))
            | (Value::I64(_), Some(ConventionItem::I64))
            | (Value::F32(_), Some(ConventionItem::F32))
            | (Value::F64(_), Some(ConventionItem::F64))
            | (Value::Ref(_), Some(ConventionItem::Ref)) => self.buffer.push(value),
            (value, wanted) => self.refuse(value, wanted),
        }
        self.index += 1;
    }

    #[cold]
    fn refuse(&mut self, value: &Value, wanted: Option<&ConventionItem>) {
        let index = self.index;
        self.error.get_or_insert_with(|| {
            Error::invalid_argument(match wanted {
                Some(wanted) => format!("argument {index} is {value:?}, not of type {wanted:?}"),
                None => format!("{index} arguments are taken, more are given"),
            })
        });
    }

    /// # Errors
    /// INVALID_ARGUMENT where an argument did not fit, or one is missing.
    #[inline]
    pub(super) fn finish(self) -> Result<()> {
        match self.error {
            Some(error) => Err(error),
            None if self.items.len() == 0 => Ok(()),
            None => Err(too_few(self.index + self.items.len(), self.index)),
        }
    }
}

#[cold]
fn too_few(wanted: usize, given: usize) -> Error {
    Error::invalid_argument(format!("{wanted} arguments are taken, {given} are given"))
}

/// A value that a function can return.
pub trait FromValue: Sized {
    /// The type, if it is a primitive.
    const PRIMITIVE: Option<ConventionItem> = None;

    /// The primitive of the given bits; nothing for another type.
    #[inline(always)]
    #[must_use]
    fn from_word(_: u64) -> Option<Self> {
        None
    }

    /// Takes it from the VM's.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is of another type.
    fn from_value(value: Value) -> Result<Self>;

    /// Takes the next of the values that a call left.
    ///
    /// # Errors
    /// As above.
    #[inline]
    fn from_next(values: &mut CallValues<'_>) -> Result<Self> {
        // Values are counted before they are taken.
        Self::from_value(values.next().unwrap_or(Ok(Value::None))?)
    }
}

macro_rules! scalars {
    ($($type:ty => $variant:ident, $word:ident => $from:expr, $number:ident => $bits:expr;)*) => {
        $(impl ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value {
                Value::$variant(*self)
            }
            #[inline(always)]
            fn primitive(&self) -> Option<(ConventionItem, u64)> {
                let $number = *self;
                Some((ConventionItem::$variant, $bits))
            }
            #[inline]
            fn pack(&self, packer: &mut Packer<'_>) {
                let $number = *self;
                packer.word(ConventionItem::$variant, $bits, || Value::$variant($number));
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
                    Value::$variant(value) => Ok(value),
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

#[cold]
fn wrong_type(wanted: &str, found: &Value) -> Error {
    Error::invalid_argument(format!("the result is {found:?}, not of type {wanted}"))
}

impl<T: ToValue + ?Sized> ToValue for &T {
    #[inline]
    fn to_value(&self) -> Value {
        (**self).to_value()
    }
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
    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl<T: Element> ToValue for Tensor<T> {
    #[inline]
    fn to_value(&self) -> Value {
        Value::Ref(Ref::from(self.view().clone()))
    }
}

impl ToValue for Arc<BufferView> {
    #[inline]
    fn to_value(&self) -> Value {
        Value::Ref(Ref::from(self.clone()))
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

/// What a function is called with: a tuple, an array or a slice of values, or one value alone in a tuple.
pub trait Arguments {
    /// Hands each value on, in order.
    fn for_each(&self, push: &mut impl FnMut(Value));
    /// Appends each value to the arguments of a call, in order.
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        self.for_each(&mut |value| packer.push(value));
    }
    /// Puts the values into a call's buffer in place of what it has, if they are primitives of the types that are taken; else
    /// does nothing.
    #[inline(always)]
    fn pack_words(&self, taken: Primitives, buffer: &mut CallBuffer) -> bool {
        let _ = (taken, buffer);
        false
    }
    /// Number of values.
    fn count(&self) -> usize;
}

impl<T: ToValue> Arguments for [T] {
    #[inline]
    fn for_each(&self, push: &mut impl FnMut(Value)) {
        self.iter().for_each(|value| push(value.to_value()));
    }
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }
}

impl<T: ToValue> Arguments for &[T] {
    #[inline]
    fn for_each(&self, push: &mut impl FnMut(Value)) {
        (**self).for_each(push);
    }
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }
}

impl<T: ToValue, const N: usize> Arguments for [T; N] {
    #[inline]
    fn for_each(&self, push: &mut impl FnMut(Value)) {
        self.as_slice().for_each(push);
    }
    #[inline]
    fn count(&self) -> usize {
        N
    }
}

/// What a function returns: nothing, one value, a tuple of values, or a vector of whatever they are.
pub trait FromResults: Sized {
    /// Takes the results.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where their number or types are others.
    fn from_results(values: &mut CallValues<'_>) -> Result<Self>;

    /// The results of their bits, if they are primitives of the types that are returned.
    #[inline(always)]
    #[must_use]
    fn from_words(returned: Primitives, words: &[u64]) -> Option<Self> {
        let _ = (returned, words);
        None
    }
}

impl<T: FromValue> FromResults for Vec<T> {
    fn from_results(values: &mut CallValues<'_>) -> Result<Vec<T>> {
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
    Error::invalid_argument(format!("the function returns {found} values, not {wanted}"))
}

macro_rules! single_results {
    ($({$($generics:tt)*} $type:ty;)*) => {
        $(impl<$($generics)*> FromResults for $type {
            #[inline]
            fn from_results(values: &mut CallValues<'_>) -> Result<$type> {
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
    {} Value;
    {} Arc<BufferView>;
    {T: Element} Tensor<T>;
}

macro_rules! tuples {
    ($($count:literal: $($name:ident)*;)*) => {
        $(impl<$($name: ToValue),*> Arguments for ($($name,)*) {
            #[inline]
            #[allow(non_snake_case, reason = "values named by their types")]
            fn for_each(&self, _push: &mut impl FnMut(Value)) {
                let ($($name,)*) = self;
                $(_push($name.to_value());)*
            }
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
            #[inline]
            fn count(&self) -> usize {
                $count
            }
        }
        impl<$($name: FromValue),*> FromResults for ($($name,)*) {
            #[inline]
            #[allow(non_snake_case, clippy::unused_unit, reason = "values named by their types; there may be none")]
            fn from_results(values: &mut CallValues<'_>) -> Result<Self> {
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
