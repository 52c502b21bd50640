//! The types of values and of the elements of lists.

use core::fmt;

use super::ref_type::RefType;
use crate::Result;
use incarnate_bytecode::{TypeDef, TypeKind};

/// What a list holds, or what an argument or result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// 8-bit integer, only as the element of a list.
    I8,
    /// 16-bit integer, only as the element of a list.
    I16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// Reference to an object of the type.
    Ref(RefType),
    /// Reference to an object of whatever type.
    AnyRef,
    /// Any value (a variant).
    Any,
}

impl ValueType {
    /// What a value of a type that a module defines is checked against.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED where the process knows too many names of types already.
    pub fn of_definition(definition: &TypeDef) -> Result<ValueType> {
        match definition.static_kind() {
            Some(kind) => ValueType::of_kind(kind, |name| Ok(RefType::new(name))),
            None => ValueType::of_kind(definition.kind(), RefType::intern),
        }
    }

    /// As [`ValueType::of_definition`], for a kind; `reference` converts a name to a type.
    fn of_kind<'a>(kind: TypeKind<'a>, reference: impl FnOnce(&'a str) -> Result<RefType>) -> Result<ValueType> {
        Ok(match kind {
            TypeKind::I8 => ValueType::I8,
            TypeKind::I16 => ValueType::I16,
            TypeKind::I32 => ValueType::I32,
            TypeKind::I64 => ValueType::I64,
            TypeKind::F32 => ValueType::F32,
            TypeKind::F64 => ValueType::F64,
            TypeKind::Opaque | TypeKind::AnyRef => ValueType::AnyRef,
            TypeKind::Any => ValueType::Any,
            TypeKind::List(_) => ValueType::Ref(RefType::LIST),
            TypeKind::Ref(name) => ValueType::Ref(reference(name)?),
        })
    }

    /// What `vm.list.alloc` makes a list of, where its type is defined so and [`ValueType::of_definition`] gave this: an
    /// opaque type means any value there, and a reference to other instructions.
    #[must_use]
    pub fn of_elements(self, definition: &TypeDef) -> ValueType {
        match definition.kind() {
            TypeKind::Opaque => ValueType::Any,
            _ => self,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::I8 => "i8",
            ValueType::I16 => "i16",
            ValueType::I32 => "i32",
            ValueType::I64 => "i64",
            ValueType::F32 => "f32",
            ValueType::F64 => "f64",
            ValueType::Ref(ty) => return write!(f, "!{}", ty.name()),
            ValueType::AnyRef => "!vm.ref<?>",
            ValueType::Any => "?",
        })
    }
}
