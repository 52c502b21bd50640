//! The types of references, each with a number.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::ElementType;
use crate::declaration::{BUFFER_VIEW, write_tensor};

/// The type of a reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RefType {
    /// A buffer view.
    View,
    /// A buffer view of elements of a type, by its number.
    Tensor(u32, Vec<Option<u64>>),
    /// Another type, by its text.
    Named(String),
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefType::View => f.write_str(BUFFER_VIEW),
            RefType::Tensor(element, shape) => write_tensor(f, ElementType::from_raw(*element), shape.iter().copied()),
            RefType::Named(text) => f.write_str(text),
        }
    }
}

/// The types that occur in a module.
#[derive(Debug, Default)]
pub(super) struct Types {
    rows: Vec<RefType>,
    numbers: BTreeMap<RefType, u32>,
}

impl Types {
    /// Returns the type of a number.
    pub(super) fn get(&self, number: u32) -> &RefType {
        self.rows.get(number as usize).unwrap_or(&RefType::View)
    }

    /// Returns the number of a type.
    pub(super) fn number(&mut self, ty: RefType) -> u32 {
        if let Some(number) = self.numbers.get(&ty) {
            return *number;
        }
        let number = self.rows.len() as u32;
        self.rows.push(ty.clone());
        self.numbers.insert(ty, number);
        number
    }

    /// Returns the number of a type with the given text.
    pub(super) fn named(&mut self, text: &str) -> u32 {
        self.number(if text == BUFFER_VIEW { RefType::View } else { RefType::Named(text.into()) })
    }

    /// Returns a type without the element type and the extents.
    pub(super) fn kind_of(&mut self, number: u32) -> u32 {
        match self.get(number) {
            RefType::Tensor(..) => self.number(RefType::View),
            RefType::View | RefType::Named(_) => number,
        }
    }

    /// Returns the type of a reference that is of both types: the first one if they contradict each other.
    pub(super) fn both(&mut self, left: u32, right: u32) -> u32 {
        match (self.get(left), self.get(right)) {
            (RefType::View, RefType::Tensor(..)) => right,
            (RefType::Tensor(element, dims), RefType::Tensor(other, other_dims))
                if element == other && dims.len() == other_dims.len() =>
            {
                let dims = dims.iter().zip(other_dims).map(|(dim, other)| dim.or(*other)).collect();
                let ty = RefType::Tensor(*element, dims);
                self.number(ty)
            }
            _ => left,
        }
    }

    /// Returns the type of a reference that is of one of two types, if they have one in common.
    pub(super) fn either(&mut self, left: u32, right: u32) -> Option<u32> {
        let common = match (self.get(left), self.get(right)) {
            (RefType::Named(_), _) | (_, RefType::Named(_)) => return None,
            (RefType::Tensor(element, dims), RefType::Tensor(other, other_dims))
                if element == other && dims.len() == other_dims.len() =>
            {
                let common = |(dim, other): (&Option<u64>, &Option<u64>)| dim.filter(|dim| Some(*dim) == *other);
                RefType::Tensor(*element, dims.iter().zip(other_dims).map(common).collect())
            }
            _ => RefType::View,
        };
        Some(self.number(common))
    }
}
