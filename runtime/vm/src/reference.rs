//! Typed references: shared ownership of VM buffers, lists, and whatever native modules define; and values, which are references
//! or primitives.

use alloc::sync::Arc;
use core::fmt;

use super::buffer::Buffer;
use super::list::List;
use super::ref_type::RefType;
use super::shared::{RefObject, borrow, downcast};
use crate::{Error, Result};

/// A [`RefObject`] whose type is known when compiling.
pub trait TypedRefObject: RefObject + Sized {
    /// The type that [`RefObject::ref_type`] returns.
    const TYPE: RefType;

    /// Takes the object out of a reference; null is an error.
    #[inline(always)]
    fn from_ref(reference: Ref) -> Result<Arc<Self>> {
        match reference {
            Ref::Object(object) => match downcast(object) {
                Ok(object) => Ok(object),
                Err(object) => Err(type_mismatch(Self::TYPE, object.ref_type())),
            },
            other => Err(wrong_type(Self::TYPE, &other)),
        }
    }
}

/// Implements [`RefObject`] and [`TypedRefObject`] for a type:
///
/// ```
/// use incarnate_vm::Ref;
///
/// #[derive(Debug)]
/// struct Device;
/// incarnate_vm::ref_object!(Device, "hal.device");
///
/// let reference = Ref::from(std::sync::Arc::new(Device));
/// assert!(reference.get::<Device>().is_ok());
/// ```
///
/// A third argument is the function of [`RefObject::extent`].
#[macro_export]
macro_rules! ref_object {
    ($type:ty, $name:literal $(, $extent:expr)?) => {
        impl $crate::RefObject for $type {
            $(fn extent(&self) -> u64 {
                let extent: fn(&$type) -> u64 = $extent;
                extent(self)
            })?
            #[inline]
            fn ref_type(&self) -> $crate::RefType {
                <$type as $crate::TypedRefObject>::TYPE
            }
        }
        impl $crate::TypedRefObject for $type {
            const TYPE: $crate::RefType = $crate::RefType::new($name);
        }
    };
}

/// A reference to an object, or null. Cloning it shares the object.
#[derive(Clone, Default)]
pub enum Ref {
    /// No object.
    #[default]
    Null,
    /// A `!vm.buffer`: a variant of its own, because inner loops access buffers.
    Buffer(Arc<Buffer>),
    /// A `!vm.list`.
    List(Arc<List>),
    /// An object of any other type.
    Object(Arc<dyn RefObject>),
}

impl Ref {
    /// True where there is no object.
    #[inline]
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Ref::Null)
    }

    /// The type of the object, if there is one.
    #[must_use]
    pub fn ref_type(&self) -> Option<RefType> {
        match self {
            Ref::Null => None,
            Ref::Buffer(_) => Some(Buffer::TYPE),
            Ref::List(_) => Some(List::TYPE),
            Ref::Object(object) => Some(object.ref_type()),
        }
    }

    /// The bytes of the object, see [`RefObject::extent`]; 0 for null.
    #[must_use]
    pub fn extent(&self) -> u64 {
        match self {
            Ref::Null => 0,
            Ref::Buffer(buffer) => buffer.length(),
            Ref::List(list) => list.extent(),
            Ref::Object(object) => object.extent(),
        }
    }

    /// True where both refer to the same object, or both to none.
    #[must_use]
    pub fn same(&self, other: &Ref) -> bool {
        match (self, other) {
            (Ref::Null, Ref::Null) => true,
            (Ref::Buffer(a), Ref::Buffer(b)) => Arc::ptr_eq(a, b),
            (Ref::List(a), Ref::List(b)) => Arc::ptr_eq(a, b),
            (Ref::Object(a), Ref::Object(b)) => core::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
            _ => false,
        }
    }

    /// The VM buffer, or an error.
    #[inline]
    pub fn buffer(&self) -> Result<&Arc<Buffer>> {
        match self {
            Ref::Buffer(buffer) => Ok(buffer),
            other => Err(wrong_type(Buffer::TYPE, other)),
        }
    }

    /// The VM list, or an error.
    #[inline]
    pub fn list(&self) -> Result<&Arc<List>> {
        match self {
            Ref::List(list) => Ok(list),
            other => Err(wrong_type(List::TYPE, other)),
        }
    }

    /// Borrows the object as a `T`; null and other types are errors.
    #[inline(always)]
    pub fn get<T: TypedRefObject>(&self) -> Result<&T> {
        match self {
            Ref::Object(object) => borrow(&**object).ok_or_else(|| wrong_type(T::TYPE, self)),
            other => Err(wrong_type(T::TYPE, other)),
        }
    }

    /// Shares the object as a `T`; null and other types are errors.
    #[inline]
    pub fn to<T: TypedRefObject>(&self) -> Result<Arc<T>> {
        T::from_ref(self.clone())
    }
}

#[cold]
fn type_mismatch(expected: RefType, found: RefType) -> Error {
    Error::invalid_argument(alloc::format!("reference to !{} holds a !{}", expected.name(), found.name()))
}

#[cold]
pub(super) fn wrong_type(expected: RefType, found: &Ref) -> Error {
    match found.ref_type() {
        None => Error::invalid_argument(alloc::format!("reference to !{} is null", expected.name())),
        Some(found) => type_mismatch(expected, found),
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ref::Null => f.write_str("null"),
            Ref::Buffer(buffer) => fmt::Debug::fmt(buffer, f),
            Ref::List(list) => fmt::Debug::fmt(list, f),
            Ref::Object(object) => fmt::Debug::fmt(object, f),
        }
    }
}

impl From<Arc<Buffer>> for Ref {
    fn from(buffer: Arc<Buffer>) -> Ref {
        Ref::Buffer(buffer)
    }
}

impl From<Arc<List>> for Ref {
    fn from(list: Arc<List>) -> Ref {
        Ref::List(list)
    }
}

impl<T: TypedRefObject> From<Arc<T>> for Ref {
    fn from(object: Arc<T>) -> Ref {
        Ref::Object(object)
    }
}

impl<T: Into<Ref>> From<Option<T>> for Ref {
    fn from(object: Option<T>) -> Ref {
        object.map_or(Ref::Null, Into::into)
    }
}

/// A primitive or a reference, with its type.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value: what a list of any type holds where nothing was stored.
    #[default]
    None,
    /// 32-bit integer.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// 32-bit float.
    F32(f32),
    /// 64-bit float.
    F64(f64),
    /// Reference, possibly null.
    Ref(Ref),
}

impl Value {
    /// The value as a 32-bit integer, converted as `vm.list.get.i32` converts. None for references.
    #[must_use]
    pub fn to_i32(&self) -> Option<i32> {
        match *self {
            Value::None => Some(0),
            Value::I32(v) => Some(v),
            Value::I64(v) => Some(v as i32),
            Value::F32(v) => Some(v as i32),
            Value::F64(v) => Some(v as i32),
            Value::Ref(_) => None,
        }
    }

    /// The value as a 64-bit integer, converted as `vm.list.get.i64` converts. None for references.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        match *self {
            Value::None => Some(0),
            Value::I32(v) => Some(i64::from(v)),
            Value::I64(v) => Some(v),
            Value::F32(v) => Some(v as i64),
            Value::F64(v) => Some(v as i64),
            Value::Ref(_) => None,
        }
    }

    /// The value as a 32-bit float, converted as `vm.list.get.f32` converts. None for references.
    #[must_use]
    pub fn to_f32(&self) -> Option<f32> {
        match *self {
            Value::None => Some(0.0),
            Value::I32(v) => Some(v as f32),
            Value::I64(v) => Some(v as f32),
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            Value::Ref(_) => None,
        }
    }

    /// The value as a 64-bit float, converted as `vm.list.get.f64` converts. None for references.
    #[must_use]
    pub fn to_f64(&self) -> Option<f64> {
        match *self {
            Value::None => Some(0.0),
            Value::I32(v) => Some(f64::from(v)),
            Value::I64(v) => Some(v as f64),
            Value::F32(v) => Some(f64::from(v)),
            Value::F64(v) => Some(v),
            Value::Ref(_) => None,
        }
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value)
            }
        })*
    };
}
value_from!(i32 => I32, i64 => I64, f32 => F32, f64 => F64, Ref => Ref);
