//! What the registers hold at a point of a block, while its instructions are turned into values.

use alloc::vec;
use alloc::vec::Vec;

use smallvec::smallvec;

use super::super::function::{Definition, Function, Inst};
use super::super::op::Op;
use super::super::value::{Block, Type, Value};
use crate::RemapList;

/// What a register of 32 bits holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Known bits.
    Bits(u32),
    /// A 32-bit value.
    Whole(Value),
    /// The lower half of a 64-bit value.
    Low(Value),
    /// The upper half of one.
    High(Value),
}

/// A register's earlier content, to be put back.
#[derive(Clone, Copy, Debug)]
enum Undo {
    Value(u16, Content),
    Ref(u16, Value),
}

/// The registers, and how they came to hold what they hold.
#[derive(Debug)]
pub(super) struct Registers {
    values: Vec<Content>,
    refs: Vec<Value>,
    log: Vec<Undo>,
    null: Value,
}

/// Where instructions that reading needs are put.
pub(super) struct InsertionPoint<'f> {
    pub(super) function: &'f mut Function,
    pub(super) block: Block,
    pub(super) instructions: &'f mut Vec<Inst>,
    pub(super) offset: u32,
}

impl InsertionPoint<'_> {
    /// Adds an instruction with one result.
    pub(super) fn emit(&mut self, ty: Type, op: Op) -> Value {
        let result = self.function.value(ty, Definition::Result(self.block));
        self.instructions.push(Inst { op, results: smallvec![result], offset: self.offset });
        result
    }

    /// The value as another type of the same width.
    pub(super) fn cast(&mut self, value: Value, ty: Type) -> Value {
        match (self.function.ty(value) == ty, self.function.constant_bits(value)) {
            (true, _) => value,
            (false, Some(bits)) => self.function.constant(ty, bits),
            (false, None) => self.emit(ty, Op::Bitcast { operand: value }),
        }
    }
}

impl Registers {
    /// Registers of a new frame: zero and null.
    pub(super) fn new(function: &mut Function, (values, refs): (u16, u16)) -> Registers {
        let null = function.constant(Type::Ref, 0);
        let values = usize::from(values).next_multiple_of(2);
        Registers { values: vec![Content::Bits(0); values], refs: vec![null; refs.into()], log: Vec::new(), null }
    }

    /// A point to come back to.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Forgets what was written since a point.
    pub(super) fn undo(&mut self, mark: usize) {
        for undo in self.log.drain(mark..).rev() {
            match undo {
                Undo::Value(register, content) => self.values[usize::from(register)] = content,
                Undo::Ref(register, value) => self.refs[usize::from(register)] = value,
            }
        }
    }

    fn set_content(&mut self, register: u16, content: Content) {
        let slot = &mut self.values[usize::from(register)];
        self.log.push(Undo::Value(register, core::mem::replace(slot, content)));
    }

    /// Writes a value of its type, which is no reference.
    pub(super) fn set(&mut self, function: &Function, register: u16, value: Value) {
        let bits = function.constant_bits(value);
        if function.ty(value).is_wide() {
            let (low, high) = match bits {
                Some(bits) => (Content::Bits(bits as u32), Content::Bits((bits >> 32) as u32)),
                None => (Content::Low(value), Content::High(value)),
            };
            self.set_content(register, low);
            self.set_content(register + 1, high);
        } else {
            self.set_content(register, bits.map_or(Content::Whole(value), |bits| Content::Bits(bits as u32)));
        }
    }

    /// Writes a reference.
    pub(super) fn set_ref(&mut self, register: u16, value: Value) {
        let slot = &mut self.refs[usize::from(register)];
        self.log.push(Undo::Ref(register, core::mem::replace(slot, value)));
    }

    /// Reads a reference, which stays where it is.
    pub(super) fn share(&self, register: u16) -> Value {
        self.refs[usize::from(register)]
    }

    /// The value that a register, or the pair that begins with it, holds; None for constants and for halves of others.
    pub(super) fn held(&self, register: u16) -> Option<Value> {
        match (self.values[usize::from(register)], self.values.get(usize::from(register) + 1)) {
            (Content::Whole(value), _) => Some(value),
            (Content::Low(low), Some(Content::High(high))) if low == *high => Some(low),
            _ => None,
        }
    }

    /// Reads a reference; one that is moved leaves null.
    pub(super) fn take(&mut self, register: u16, moved: bool) -> Value {
        let value = self.share(register);
        if moved {
            self.set_ref(register, self.null);
        }
        value
    }

    /// Reads a value as a type, whatever it was written as.
    pub(super) fn get(&self, point: &mut InsertionPoint<'_>, register: u16, ty: Type) -> Value {
        match ty {
            Type::Ref => self.share(register),
            Type::i64 | Type::f64 => self.wide(point, register, ty),
            Type::i32 | Type::f32 => self.narrow(point, register, ty),
        }
    }

    fn narrow(&self, point: &mut InsertionPoint<'_>, register: u16, ty: Type) -> Value {
        let value = match self.values[usize::from(register)] {
            Content::Bits(bits) => return point.function.constant(ty, bits.into()),
            Content::Whole(value) => value,
            Content::Low(value) => {
                let operand = point.cast(value, Type::i64);
                point.emit(Type::i32, Op::Low { operand })
            }
            Content::High(value) => {
                let operand = point.cast(value, Type::i64);
                point.emit(Type::i32, Op::High { operand })
            }
        };
        point.cast(value, ty)
    }

    fn wide(&self, point: &mut InsertionPoint<'_>, register: u16, ty: Type) -> Value {
        let halves = (self.values[usize::from(register)], self.values[usize::from(register) + 1]);
        let value = match halves {
            (Content::Bits(low), Content::Bits(high)) => {
                return point.function.constant(ty, u64::from(low) | u64::from(high) << 32);
            }
            (Content::Low(low), Content::High(high)) if low == high => low,
            _ => {
                let low = self.narrow(point, register, Type::i32);
                let high = self.narrow(point, register + 1, Type::i32);
                point.emit(Type::i64, Op::Pair { low, high })
            }
        };
        point.cast(value, ty)
    }

    /// Performs the copies of a branch, one after the other.
    pub(super) fn copy(&mut self, copies: RemapList<'_>) {
        for (source, target) in copies.iter() {
            if source.is_ref() {
                let value = self.take(source.index(), source.is_move());
                self.set_ref(target.index(), value);
            } else {
                self.set_content(target.index(), self.values[usize::from(source.index())]);
            }
        }
    }
}
