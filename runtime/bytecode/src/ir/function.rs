//! A function: its values, its blocks, and who defines what.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::op::{Op, Terminator};
use super::value::{Block, Type, Value};
use crate::isa::Opcode;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Definition {
    /// A constant, by its bits (the null reference is zero). Constants belong to no block and are unique.
    Constant(u64),
    /// A parameter of a block, by position. Those of the entry are the function's arguments.
    Parameter(Block, u32),
    /// A result of an instruction, or of a yieldable call, of a block.
    Result(Block),
}

/// Type and definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// The type.
    pub ty: Type,
    /// The definition.
    pub definition: Definition,
}

/// An instruction: an operation with its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// The results; several only for calls.
    pub results: SmallVec<[Value; 1]>,
    /// Offset in bytes of the instruction of the bytecode that it comes from, for the locations of errors.
    pub offset: u32,
}

/// What registers hold when a block of the bytecode begins that several edges lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset in bytes of the block in the bytecode.
    pub offset: u32,
    /// The live registers of known values that are not constants: the lower one of each pair for 64-bit values.
    pub registers: Vec<(u16, Value)>,
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockData {
    /// The values that branches here pass.
    pub parameters: Vec<Value>,
    /// The instructions, in order.
    pub instructions: Vec<Inst>,
    /// What ends it.
    pub terminator: Terminator,
    /// Offset in bytes of the terminator's instruction in the bytecode.
    pub offset: u32,
    /// What registers hold when it begins, where [`Function::with_registers`] records it.
    pub entry: Option<Box<Entry>>,
}

/// Where the instructions stand that define values.
#[derive(Clone, Debug)]
pub struct Positions(Vec<Option<(Block, u32)>>);

impl Positions {
    /// Finds them for all values of a function.
    #[must_use]
    pub fn of(function: &Function) -> Positions {
        let mut positions = vec![None; function.value_count()];
        for (block, data) in function.iter() {
            for (inst, position) in data.instructions.iter().zip(0..) {
                inst.results.iter().for_each(|result| positions[result.index()] = Some((block, position)));
            }
        }
        Positions(positions)
    }

    /// The block of the instruction that defines a value, and its position there; None for constants and parameters.
    #[must_use]
    pub fn get(&self, value: Value) -> Option<(Block, usize)> {
        self.0.get(value.index()).copied().flatten().map(|(block, position)| (block, position as usize))
    }

    /// The instruction that defines a value of the function.
    #[must_use]
    pub fn instruction<'f>(&self, function: &'f Function, value: Value) -> Option<&'f Inst> {
        let (block, position) = self.get(value)?;
        function.block(block).instructions.get(position)
    }
}

/// A function in the form of values and blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its ordinal in the module.
    pub ordinal: u32,
    /// What it returns.
    pub results: Vec<Type>,
    /// The blocks; the first is the entry. All can be reached, and their order is a reverse postorder.
    pub blocks: Vec<BlockData>,
    values: Vec<ValueInfo>,
    constants: BTreeMap<(u64, Type), Value>,
}

impl Function {
    pub(super) fn empty(ordinal: u32, results: Vec<Type>) -> Function {
        Function { ordinal, results, blocks: Vec::new(), values: Vec::new(), constants: BTreeMap::new() }
    }

    /// The arguments: the parameters of the entry.
    #[must_use]
    pub fn arguments(&self) -> &[Value] {
        self.blocks.first().map_or(&[], |block| &block.parameters)
    }

    /// Number of values, those included that nothing uses any more.
    #[must_use]
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// The type of a value.
    ///
    /// # Panics
    /// Where the value is not of this function.
    #[inline]
    #[must_use]
    pub fn ty(&self, value: Value) -> Type {
        self.values[value.index()].ty
    }

    /// Where a value comes from.
    ///
    /// # Panics
    /// Where the value is not of this function.
    #[inline]
    #[must_use]
    pub fn definition(&self, value: Value) -> Definition {
        self.values[value.index()].definition
    }

    /// The bits of a constant; None for other values.
    #[must_use]
    pub fn constant_bits(&self, value: Value) -> Option<u64> {
        match self.definition(value) {
            Definition::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// Whether an integer is not zero, as compilers write it: one is chosen where it would be.
    fn is_nonzero(&self, value: Value, positions: &Positions) -> bool {
        if let Some(bits) = self.constant_bits(value) {
            return bits != 0;
        }
        let Some(Op::Eval { opcode: Opcode::SelectI32 | Opcode::SelectI64, operands }) =
            positions.instruction(self, value).map(|inst| &inst.op)
        else {
            return false;
        };
        let [condition, if_true, if_false] = operands[..] else { return false };
        self.constant_bits(if_true).is_some_and(|bits| bits != 0)
            && self.holds_for_zero(condition, if_false, positions, 4)
    }

    /// Whether a condition holds wherever an integer is zero.
    fn holds_for_zero(&self, condition: Value, value: Value, positions: &Positions, depth: u32) -> bool {
        let op = positions.instruction(self, condition).map(|inst| &inst.op);
        let Some(Op::Eval { opcode, operands }) = op else { return false };
        let is_zero = |operand: Value| self.constant_bits(operand) == Some(0);
        match (opcode, &operands[..]) {
            (Opcode::CmpEQI32 | Opcode::CmpEQI64, &[left, right]) => {
                (left == value && is_zero(right)) || (right == value && is_zero(left))
            }
            (Opcode::OrI32, &[left, right]) if depth > 0 => {
                self.holds_for_zero(left, value, positions, depth - 1)
                    || self.holds_for_zero(right, value, positions, depth - 1)
            }
            _ => false,
        }
    }

    /// Returns true if an operation computes numbers (or a constant buffer) from only its operands, and cannot fail: division by a number
    /// that is seen not to be zero among them.
    #[must_use]
    pub fn is_arithmetic(&self, op: &Op, positions: &Positions) -> bool {
        match op {
            Op::SwitchRef { .. } => false,
            Op::Eval { opcode, operands } if opcode.info().effects.fails => {
                // Only division fails, and only by zero.
                operands.get(1).is_some_and(|divisor| self.is_nonzero(*divisor, positions))
            }
            op => op.is_pure(),
        }
    }

    /// The block of an index, that of the entry and of every edge among them.
    ///
    /// # Panics
    /// Where the block is not of this function.
    #[inline]
    #[must_use]
    pub fn block(&self, block: Block) -> &BlockData {
        &self.blocks[block.index()]
    }

    /// The blocks, with their names.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Block, &BlockData)> + ExactSizeIterator {
        self.blocks.iter().enumerate().map(|(index, data)| (Block(index as u32), data))
    }

    /// A new value.
    pub(super) fn value(&mut self, ty: Type, definition: Definition) -> Value {
        self.values.push(ValueInfo { ty, definition });
        Value(self.values.len() as u32 - 1)
    }

    /// A new value that an instruction of the block will define.
    pub fn result(&mut self, ty: Type, block: Block) -> Value {
        self.value(ty, Definition::Result(block))
    }

    pub(super) fn redefine(&mut self, value: Value, definition: Definition) {
        self.values[value.index()].definition = definition;
    }

    /// The constant of a type and of bits, of which the upper half is ignored for 32-bit types; always the same value.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        let bits = match ty {
            Type::i32 | Type::f32 => u64::from(bits as u32),
            Type::i64 | Type::f64 => bits,
            Type::Ref => 0,
        };
        if let Some(value) = self.constants.get(&(bits, ty)) {
            return *value;
        }
        let value = self.value(ty, Definition::Constant(bits));
        self.constants.insert((bits, ty), value);
        value
    }
}
