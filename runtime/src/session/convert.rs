//! Conversion between Rust values and VM values, for arguments and results of calls.

use std::sync::Arc;

use super::element::Element;
use super::tensor::Tensor;
use crate::bytecode::ConventionItem;
use crate::hal::BufferView;
use crate::vm::{CallBuffer, CallValues, Ref, Value};
use crate::{Error, Result};

/// The types of at most eight primitives, packed into one integer: one comparison checks a call against the signature.
#[derive(Clone, Copy, Debug)]
pub struct Primitives(u64);

impl Primitives {
    /// Stands for other types, and for more than eight values.
    const OTHERS: u64 = 0;

    /// Packs the types of the given values.
    #[inline(always)]
    pub(super) const fn of(items: &[ConventionItem]) -> Primitives {
        if items.len() > 8 {
            return Primitives(Primitives::OTHERS);
        }
        // A type takes fewer than four bits; the leading one encodes the count.
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

    /// Returns true if the given values are primitives of these types.
    #[inline(always)]
    fn are(self, items: &[ConventionItem]) -> bool {
        let wanted = Primitives::of(items).0;
        wanted != Primitives::OTHERS && self.0 == wanted
    }
}

/// A value that a function can be called with.
pub trait ToValue {
    /// Converts the value to the VM's.
    fn to_value(&self) -> Value;

    /// Returns the type and the bits if every value of the type is a primitive.
    #[inline(always)]
    fn primitive(&self) -> Option<(ConventionItem, u64)> {
        None
    }

    /// Appends the value to the arguments of a call.
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        packer.push(self.to_value());
    }
}

/// Writes arguments into a call buffer and checks them against the calling convention.
#[derive(Debug)]
pub struct Packer<'a> {
    buffer: &'a mut CallBuffer,
    items: core::slice::Iter<'a, ConventionItem>,
    index: usize,
    /// The first mismatch.
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
    /// INVALID_ARGUMENT if an argument has another type, or one is missing.
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
    /// The type if it is a primitive.
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

/// The arguments of a call: a tuple, an array or a slice of values. One value is a tuple of length one.
pub trait Arguments {
    /// Passes each value to `push`, in order.
    fn for_each(&self, push: &mut impl FnMut(Value));
    /// Appends each value to the arguments of a call, in order.
    #[inline]
    fn pack(&self, packer: &mut Packer<'_>) {
        self.for_each(&mut |value| packer.push(value));
    }
    /// Writes the values over the contents of a call buffer and returns true if they are primitives of the expected
    /// types; otherwise does nothing.
    #[inline(always)]
    fn pack_words(&self, taken: Primitives, buffer: &mut CallBuffer) -> bool {
        let _ = (taken, buffer);
        false
    }
    /// Returns the number of values.
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

/// The results of a call: `()`, one value, a tuple, or a vector of values of any type.
pub trait FromResults: Sized {
    /// Converts the results.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if their number or types differ.
    fn from_results(values: &mut CallValues<'_>) -> Result<Self>;

    /// Converts the results from their bits if they are primitives of the expected types.
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
