//! Types, values and blocks.

use crate::ConventionItem;
use crate::index_map::Key;
use crate::isa::Bank;

/// What a value is.
#[allow(non_camel_case_types, reason = "spelled as the instruction table spells them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// 32-bit integer; conditions are such, and true unless zero.
    i32,
    /// 64-bit integer.
    i64,
    /// 32-bit float.
    f32,
    /// 64-bit float.
    f64,
    /// Reference, perhaps null.
    Ref,
}

impl Type {
    /// Whether it is a 64-bit number.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        matches!(self, Type::i64 | Type::f64)
    }

    /// The type of a calling convention's item; None for the delimiters of spans.
    #[must_use]
    pub const fn of_item(item: ConventionItem) -> Option<Type> {
        Some(match item {
            ConventionItem::I32 => Type::i32,
            ConventionItem::I64 => Type::i64,
            ConventionItem::F32 => Type::f32,
            ConventionItem::F64 => Type::f64,
            ConventionItem::Ref => Type::Ref,
            ConventionItem::SpanStart | ConventionItem::SpanEnd => return None,
        })
    }
}

impl From<Bank> for Type {
    fn from(bank: Bank) -> Type {
        match bank {
            Bank::i32 => Type::i32,
            Bank::i64 => Type::i64,
            Bank::f32 => Type::f32,
            Bank::f64 => Type::f64,
        }
    }
}

/// A value, defined once: an index into the function's values; see [`Function::definition`](super::Function::definition).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// A basic block, as an index into [`Function::blocks`](super::Function::blocks).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(pub u32);

impl Value {
    /// The index.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Key for Value {
    fn number(self) -> u32 {
        self.0
    }

    fn of_number(number: u32) -> Value {
        Value(number)
    }
}

impl Key for Block {
    fn number(self) -> u32 {
        self.0
    }

    fn of_number(number: u32) -> Block {
        Block(number)
    }
}

impl Block {
    /// The block in which every function begins. Nothing branches to it.
    pub const ENTRY: Block = Block(0);

    /// The index.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
