//! Rust values to the VM's and back: what functions are called with and return.

use std::sync::Arc;

use super::element::Element;
use super::tensor::Tensor;
use crate::hal::BufferView;
use crate::vm::{CallValues, Ref, Value};
use crate::{Error, Result};

/// A value that a function can be called with.
pub trait ToValue {
    /// The VM's value.
    fn to_value(&self) -> Value;
}

/// A value that a function can return.
pub trait FromValue: Sized {
    /// Takes it from the VM's.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is of another type.
    fn from_value(value: Value) -> Result<Self>;
}

macro_rules! scalars {
    ($($type:ty => $variant:ident;)*) => {
        $(impl ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value {
                Value::$variant(*self)
            }
        }
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<$type> {
                match value {
                    Value::$variant(value) => Ok(value),
                    other => Err(wrong_type(stringify!($type), &other)),
                }
            }
        })*
    };
}
scalars! {
    i32 => I32;
    i64 => I64;
    f32 => F32;
    f64 => F64;
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
    fn for_each(&self, push: &mut dyn FnMut(Value));
    /// Number of values.
    fn count(&self) -> usize;
}

impl<T: ToValue> Arguments for [T] {
    fn for_each(&self, push: &mut dyn FnMut(Value)) {
        self.iter().for_each(|value| push(value.to_value()));
    }
    fn count(&self) -> usize {
        self.len()
    }
}

impl<T: ToValue> Arguments for &[T] {
    fn for_each(&self, push: &mut dyn FnMut(Value)) {
        (**self).for_each(push);
    }
    fn count(&self) -> usize {
        self.len()
    }
}

impl<T: ToValue, const N: usize> Arguments for [T; N] {
    fn for_each(&self, push: &mut dyn FnMut(Value)) {
        self.as_slice().for_each(push);
    }
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
}

impl<T: FromValue> FromResults for Vec<T> {
    fn from_results(values: &mut CallValues<'_>) -> Result<Vec<T>> {
        values.map(|value| T::from_value(value?)).collect()
    }
}

fn check_count(wanted: usize, values: &CallValues<'_>) -> Result<()> {
    match values.len() {
        found if found == wanted => Ok(()),
        found => Err(Error::invalid_argument(format!("the function returns {found} values, not {wanted}"))),
    }
}

/// The next of values that were counted.
fn next<T: FromValue>(values: &mut CallValues<'_>) -> Result<T> {
    T::from_value(values.next().unwrap_or(Ok(Value::None))?)
}

macro_rules! single_results {
    ($({$($generics:tt)*} $type:ty;)*) => {
        $(impl<$($generics)*> FromResults for $type {
            #[inline]
            fn from_results(values: &mut CallValues<'_>) -> Result<$type> {
                check_count(1, values)?;
                next(values)
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
            #[allow(non_snake_case, reason = "values named by their types")]
            fn for_each(&self, _push: &mut dyn FnMut(Value)) {
                let ($($name,)*) = self;
                $(_push($name.to_value());)*
            }
            fn count(&self) -> usize {
                $count
            }
        }
        impl<$($name: FromValue),*> FromResults for ($($name,)*) {
            fn from_results(values: &mut CallValues<'_>) -> Result<Self> {
                check_count($count, values)?;
                Ok(($(next::<$name>(values)?,)*))
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
