//! Each instruction of the bytecode, as an operation on values.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smallvec::{SmallVec, smallvec};

use super::super::function::{BlockData, Definition, Inst};
use super::super::op::{Call, Callee, Edge, Global, Op, Operand, Terminator};
use super::super::value::{Block, Type, Value};
use super::Builder;
use super::access::{convention_of, operand_types};
use super::blocks::broken;
use super::registers::InsertionPoint;
use crate::Result;
use crate::isa::{Bank, Opcode};
use crate::{AnyRegister, Body, FunctionOrdinal, Instruction, RefRegister, Register, RegisterList, SegmentSizes};

/// The first bank of an instruction, or the only one.
fn bank(opcode: Opcode, index: usize) -> Type {
    let banks = opcode.info().banks;
    banks.get(index).or(banks.first()).copied().unwrap_or(Bank::i32).into()
}

/// An instruction's environment: reads registers, writes results.
struct Site<'s, 'a, 'r> {
    builder: &'s mut Builder<'a, 'r>,
    block: Block,
    instructions: &'s mut Vec<Inst>,
    offset: u32,
}

impl Site<'_, '_, '_> {
    fn get(&mut self, register: Register, ty: Type) -> Value {
        let mut point = InsertionPoint {
            function: &mut self.builder.function,
            block: self.block,
            instructions: self.instructions,
            offset: self.offset,
        };
        self.builder.registers.get(&mut point, register.0, ty)
    }

    fn get_i32(&mut self, register: Register) -> Value {
        self.get(register, Type::i32)
    }

    fn get_i64(&mut self, register: Register) -> Value {
        self.get(register, Type::i64)
    }

    fn share(&self, register: RefRegister) -> Value {
        self.builder.registers.share(register.index())
    }

    fn take(&mut self, register: RefRegister) -> Operand {
        Operand::from(self.builder.registers.take(register.index(), register.is_move()))
    }

    fn push(&mut self, op: Op) {
        Builder::push(self.instructions, op, self.offset);
    }

    fn emit(&mut self, ty: Type, op: Op) -> Value {
        let result = self.builder.function.value(ty, Definition::Result(self.block));
        self.instructions.push(Inst { op, results: smallvec![result], offset: self.offset });
        result
    }

    fn set(&mut self, register: Register, value: Value) {
        self.builder.registers.set(&self.builder.function, register.0, value);
    }

    fn define(&mut self, register: Register, ty: Type, op: Op) {
        let value = self.emit(ty, op);
        self.set(register, value);
    }

    fn make_ref(&mut self, register: RefRegister, op: Op) {
        let value = self.emit(Type::Ref, op);
        self.builder.registers.set_ref(register.index(), value);
    }

    fn eval(&mut self, opcode: Opcode, operands: &[(Register, Type)], result: (Register, Type)) {
        let operands = operands.iter().map(|&(register, ty)| self.get(register, ty)).collect();
        self.define(result.0, result.1, Op::Eval { opcode, operands });
    }

    /// Operands of calls and returns: read one after the other, so that a reference that is moved is null for the next.
    fn operand(&mut self, register: AnyRegister, ty: Type) -> Operand {
        match ty {
            Type::Ref => self.take(RefRegister(register.0)),
            _ => Operand::from(self.get(Register(register.0), ty)),
        }
    }

    fn call(
        &mut self,
        callee: FunctionOrdinal,
        segments: Option<SegmentSizes<'_>>,
        operands: RegisterList<'_>,
    ) -> Call {
        let convention = convention_of(self.builder.module, callee);
        let mut types = Vec::with_capacity(operands.len());
        let mut sizes = segments.into_iter().flat_map(SegmentSizes::iter);
        operand_types(convention, &mut sizes, &mut |ty| {
            types.push(ty);
            types.len() < operands.len()
        });
        let operands = operands.iter().zip(types).map(|(register, ty)| self.operand(register, ty)).collect();
        let segments: Option<Box<[u16]>> = segments.map(|sizes| sizes.iter().collect());
        let callee = callee.import().map_or(Callee::Internal(callee.0), Callee::Import);
        Call { callee, operands, segments, deferred: None }
    }

    /// Defines a call's results and writes them.
    fn results<A: smallvec::Array<Item = Value>>(
        &mut self,
        callee: FunctionOrdinal,
        registers: RegisterList<'_>,
    ) -> SmallVec<A> {
        let types = convention_of(self.builder.module, callee).results().filter_map(Type::of_item);
        registers
            .iter()
            .zip(types)
            .map(|(register, ty)| {
                let value = self.builder.function.value(ty, Definition::Result(self.block));
                match ty {
                    Type::Ref => self.builder.registers.set_ref(register.index(), value),
                    _ => self.set(Register(register.0), value),
                }
                value
            })
            .collect()
    }

    /// `switch.ref` moves only what it chooses out of its register: the others keep theirs.
    fn switch_ref(&mut self, body: &Body<'_>) -> Result<()> {
        let Body::SwitchRef { index, type_def, default_value, values, result } = *body else { return Err(broken()) };
        let index = self.get_i32(index);
        let registers: Vec<RefRegister> = values.iter().map(|register| RefRegister(register.0)).collect();
        let share = |site: &Self, register: &RefRegister| Operand::from(site.share(*register));
        let operands = registers.iter().map(|register| share(self, register)).collect();
        let default = share(self, &default_value);
        let chosen = self.emit(Type::Ref, Op::SwitchRef { index, type_def: Some(type_def), default, values: operands });
        let mut moved: Vec<u16> =
            registers.iter().chain([&default_value]).filter(|r| r.is_move()).map(|r| r.index()).collect();
        moved.sort_unstable();
        moved.dedup();
        let null = Operand::from(self.builder.function.constant(Type::Ref, 0));
        for register in moved {
            let kept = Operand::from(self.builder.registers.share(register));
            let after = |other: &RefRegister| if other.is_move() && other.index() == register { null } else { kept };
            let (values, default) = (registers.iter().map(after).collect(), after(&default_value));
            let value = self.emit(Type::Ref, Op::SwitchRef { index, type_def: None, default, values });
            self.builder.registers.set_ref(register, value);
        }
        self.builder.registers.set_ref(result.index(), chosen);
        Ok(())
    }

    /// Arithmetic and constants: everything that accesses only value registers.
    fn arithmetic(&mut self, opcode: Opcode, body: &Body<'_>) -> Result<bool> {
        let (v, w) = (bank(opcode, 0), bank(opcode, 1));
        match *body {
            Body::Unary { operand, result } => self.eval(opcode, &[(operand, v)], (result, v)),
            Body::Binary { left, right, result } => self.eval(opcode, &[(left, v), (right, v)], (result, v)),
            Body::Ternary { first, second, third, result } => {
                self.eval(opcode, &[(first, v), (second, v), (third, v)], (result, v));
            }
            Body::Shift { operand, amount, result } => {
                self.eval(opcode, &[(operand, v), (amount, Type::i32)], (result, v));
            }
            Body::Power { base, exponent, result } => {
                self.eval(opcode, &[(base, v), (exponent, Type::i64)], (result, v));
            }
            Body::Select { condition, true_value, false_value, result } => {
                self.eval(opcode, &[(condition, Type::i32), (true_value, v), (false_value, v)], (result, v));
            }
            Body::UnaryComparison { operand, result } => self.eval(opcode, &[(operand, v)], (result, Type::i32)),
            Body::BinaryComparison { left, right, result } => {
                self.eval(opcode, &[(left, v), (right, v)], (result, Type::i32));
            }
            Body::Conversion { operand, result } => self.eval(opcode, &[(operand, v)], (result, w)),
            Body::Constant { value, result } => {
                let value = self.builder.function.constant(v, value);
                self.set(result, value);
            }
            Body::ZeroConstant { result } => {
                let value = self.builder.function.constant(v, 0);
                self.set(result, value);
            }
            Body::Switch { index, default_value, values, result } => {
                let index = self.get_i32(index);
                let values = values.iter().map(|register| self.get(Register(register.0), v)).collect();
                let default = self.get(default_value, v);
                self.define(result, v, Op::Switch { index, default, values });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn globals(&mut self, opcode: Opcode, body: &Body<'_>) -> bool {
        let v = bank(opcode, 0);
        match *body {
            Body::GlobalLoad { byte_offset, result } => {
                self.define(result, v, Op::GlobalLoad { global: Global::Direct(byte_offset) });
            }
            Body::GlobalStore { byte_offset, value } => {
                let value = self.get(value, v);
                self.push(Op::GlobalStore { global: Global::Direct(byte_offset), value });
            }
            Body::GlobalLoadIndirect { byte_offset, result } => {
                let global = Global::Indirect(self.get_i32(byte_offset));
                self.define(result, v, Op::GlobalLoad { global });
            }
            Body::GlobalStoreIndirect { byte_offset, value } => {
                let global = Global::Indirect(self.get_i32(byte_offset));
                let value = self.get(value, v);
                self.push(Op::GlobalStore { global, value });
            }
            Body::GlobalLoadRef { global, type_def, value } => {
                let global = Global::Direct(global);
                self.make_ref(value, Op::GlobalLoadRef { global, type_def, take: value.is_move() });
            }
            Body::GlobalLoadIndirectRef { global, type_def, value } => {
                let global = Global::Indirect(self.get_i32(global));
                self.make_ref(value, Op::GlobalLoadRef { global, type_def, take: value.is_move() });
            }
            Body::GlobalStoreRef { global, type_def, value } => {
                let value = self.take(value);
                self.push(Op::GlobalStoreRef { global: Global::Direct(global), type_def, value });
            }
            Body::GlobalStoreIndirectRef { global, type_def, value } => {
                let global = Global::Indirect(self.get_i32(global));
                let value = self.take(value);
                self.push(Op::GlobalStoreRef { global, type_def, value });
            }
            _ => return false,
        }
        true
    }

    fn references(&mut self, body: &Body<'_>) -> bool {
        match *body {
            Body::RefUnaryComparison { operand, result } => {
                let operand = self.share(operand);
                self.define(result, Type::i32, Op::IsNonNull { operand });
            }
            Body::ConstRefZero { result } => {
                let null = self.builder.function.constant(Type::Ref, 0);
                self.builder.registers.set_ref(result.index(), null);
            }
            Body::ConstRefRodata { rodata, value } => self.make_ref(value, Op::Rodata { rodata }),
            Body::DiscardRefs { refs } => {
                let null = self.builder.function.constant(Type::Ref, 0);
                refs.iter().for_each(|register| self.builder.registers.set_ref(register.index(), null));
            }
            Body::AssignRef { source, result } => {
                let value = self.take(source).value;
                self.builder.registers.set_ref(result.index(), value);
            }
            Body::CastAnyRef { operand, result_type, result } => {
                let value = self.take(operand).value;
                self.push(Op::CheckRef { type_def: result_type, value });
                self.builder.registers.set_ref(result.index(), value);
            }
            Body::SelectRef { condition, type_def, true_value, false_value, result } => {
                let condition = self.get_i32(condition);
                // Both are read before either is moved: they may be the same register.
                let (first, second) = (self.share(true_value), self.share(false_value));
                self.take(true_value);
                self.take(false_value);
                let op = Op::SelectRef { condition, type_def, true_value: first.into(), false_value: second.into() };
                self.make_ref(result, op);
            }
            _ => return false,
        }
        true
    }

    fn lists(&mut self, opcode: Opcode, body: &Body<'_>) -> bool {
        let v = bank(opcode, 0);
        match *body {
            Body::ListAlloc { element_type, initial_capacity, result } => {
                let capacity = self.get_i32(initial_capacity);
                self.make_ref(result, Op::ListAlloc { element_type, capacity });
            }
            Body::ListReserve { list, minimum_capacity } => {
                let (list, capacity) = (self.share(list), self.get_i32(minimum_capacity));
                self.push(Op::ListReserve { list, capacity });
            }
            Body::ListSize { list, result } => {
                let list = self.share(list);
                self.define(result, Type::i32, Op::ListSize { list });
            }
            Body::ListResize { list, new_size } => {
                let (list, size) = (self.share(list), self.get_i32(new_size));
                self.push(Op::ListResize { list, size });
            }
            Body::ListGet { list, index, result } => {
                let (list, index) = (self.share(list), self.get_i32(index));
                self.define(result, v, Op::ListGet { list, index });
            }
            Body::ListSet { list, index, value } => {
                let (list, index, value) = (self.share(list), self.get_i32(index), self.get(value, v));
                self.push(Op::ListSet { list, index, value });
            }
            Body::ListGetRef { list, index, type_def, result } => {
                let (list, index) = (self.share(list), self.get_i32(index));
                self.make_ref(result, Op::ListGetRef { list, index, type_def, take: result.is_move() });
            }
            Body::ListSetRef { list, index, value } => {
                let (list, index) = (self.share(list), self.get_i32(index));
                let value = self.take(value);
                self.push(Op::ListSetRef { list, index, value });
            }
            _ => return false,
        }
        true
    }

    fn buffers(&mut self, opcode: Opcode, body: &Body<'_>) -> bool {
        let v = bank(opcode, 0);
        match *body {
            Body::BufferLoad { source_buffer, source_offset, result } => {
                let (buffer, offset) = (self.share(source_buffer), self.get_i64(source_offset));
                self.define(result, v, Op::BufferLoad { opcode, buffer, offset });
            }
            Body::BufferStore { target_buffer, target_offset, value } => {
                let (buffer, offset) = (self.share(target_buffer), self.get_i64(target_offset));
                let value = self.get(value, v);
                self.push(Op::BufferStore { opcode, buffer, offset, value });
            }
            Body::BufferFill { target_buffer, target_offset, length, value } => {
                let (buffer, offset) = (self.share(target_buffer), self.get_i64(target_offset));
                let (length, value) = (self.get_i64(length), self.get(value, v));
                self.push(Op::BufferFill { opcode, buffer, offset, length, value });
            }
            Body::BufferAlloc { length, alignment, result } => {
                let (length, alignment) = (self.get_i64(length), self.get_i32(alignment));
                self.make_ref(result, Op::BufferAlloc { length, alignment });
            }
            Body::BufferClone { source, offset, length, alignment, result } => {
                let (buffer, offset) = (self.share(source), self.get_i64(offset));
                let (length, alignment) = (self.get_i64(length), self.get_i32(alignment));
                self.make_ref(result, Op::BufferClone { buffer, offset, length, alignment });
            }
            Body::BufferLength { buffer, result } => {
                let buffer = self.share(buffer);
                self.define(result, Type::i64, Op::BufferLength { buffer });
            }
            Body::BufferHash { source_buffer, source_offset, length, result } => {
                let (buffer, offset) = (self.share(source_buffer), self.get_i64(source_offset));
                let length = self.get_i64(length);
                self.define(result, Type::i64, Op::BufferHash { buffer, offset, length });
            }
            _ => return false,
        }
        true
    }

    /// What takes two references, and the rest.
    fn others(&mut self, opcode: Opcode, body: &Body<'_>) -> Result<()> {
        match *body {
            Body::RefBinaryComparison { left, right, result } => {
                let (left, right) = (self.share(left), self.share(right));
                self.define(result, Type::i32, Op::CompareRef { negated: opcode == Opcode::CmpNERef, left, right });
            }
            Body::BufferCopy { source_buffer, source_offset, target_buffer, target_offset, length } => {
                let (source, target) = (self.share(source_buffer), self.share(target_buffer));
                let (source_offset, target_offset) = (self.get_i64(source_offset), self.get_i64(target_offset));
                let length = self.get_i64(length);
                self.push(Op::BufferCopy { source, source_offset, target, target_offset, length });
            }
            Body::BufferCompare { lhs_buffer, lhs_offset, rhs_buffer, rhs_offset, length, result } => {
                let (left, right) = (self.share(lhs_buffer), self.share(rhs_buffer));
                let (left_offset, right_offset) = (self.get_i64(lhs_offset), self.get_i64(rhs_offset));
                let length = self.get_i64(length);
                let op = Op::BufferCompare { left, left_offset, right, right_offset, length };
                self.define(result, Type::i32, op);
            }
            Body::Call { callee, operands, results } => self.plain_call(callee, None, operands, results),
            Body::CallVariadic { callee, segment_sizes, operands, results } => {
                self.plain_call(callee, Some(segment_sizes), operands, results);
            }
            Body::ImportResolved { import_ordinal, result } => {
                self.define(result, Type::i32, Op::ImportResolved { import: import_ordinal });
            }
            Body::Trace { event_name, operands } => {
                let read = |register: AnyRegister| match register.is_ref() {
                    true => self.share(RefRegister(register.0)),
                    false => self.get_i32(Register(register.0)),
                };
                let values = operands.iter().map(read).collect();
                self.push(Op::Trace { print: opcode == Opcode::Print, name: event_name.into(), operands: values });
                for register in operands.iter().filter(|register| register.is_move()) {
                    self.take(RefRegister(register.0));
                }
            }
            ref body @ Body::SwitchRef { .. } => self.switch_ref(body)?,
            _ => return Err(broken()),
        }
        Ok(())
    }

    fn plain_call(
        &mut self,
        callee: FunctionOrdinal,
        segments: Option<SegmentSizes<'_>>,
        operands: RegisterList<'_>,
        results: RegisterList<'_>,
    ) {
        let op = Op::Call(self.call(callee, segments, operands));
        let results = self.results(callee, results);
        self.instructions.push(Inst { op, results, offset: self.offset });
    }
}

impl<'a> Builder<'a, '_> {
    /// Adds an instruction that ends no block.
    pub(super) fn instruction(
        &mut self,
        instruction: &Instruction<'a>,
        block: Block,
        instructions: &mut Vec<Inst>,
    ) -> Result<()> {
        let (opcode, body) = (instruction.opcode, &instruction.body);
        let mut site = Site { builder: self, block, instructions, offset: instruction.offset };
        if site.arithmetic(opcode, body)?
            || site.globals(opcode, body)
            || site.references(body)
            || site.lists(opcode, body)
            || site.buffers(opcode, body)
        {
            return Ok(());
        }
        site.others(opcode, body)
    }

    /// The end of a block.
    pub(super) fn terminator(&mut self, last: &Instruction<'a>, raw: u32, data: &mut BlockData) -> Result<Terminator> {
        let block = self.block(raw);
        let mut site = Site { builder: self, block, instructions: &mut data.instructions, offset: last.offset };
        // What the terminator reads itself, it reads before it copies.
        let call = match last.body {
            Body::Return { operands } => {
                let types = site.builder.function.results.clone();
                let operands = operands.iter().zip(types).map(|(register, ty)| site.operand(register, ty)).collect();
                return Ok(Terminator::Return(operands));
            }
            Body::CallYieldable { callee, operands, results, .. } => Some((callee, None, operands, results)),
            Body::CallVariadicYieldable { callee, segment_sizes, operands, results, .. } => {
                Some((callee, Some(segment_sizes), operands, results))
            }
            _ => None,
        };
        if let Some((callee, segments, operands, results)) = call {
            let call = site.call(callee, segments, operands);
            let results = site.results(callee, results);
            let resume = self.edges(raw, data)?.pop().ok_or_else(broken)?;
            return Ok(Terminator::CallYieldable { call, results, resume });
        }
        let selector = match last.body {
            Body::CondBranch { condition: register, .. }
            | Body::CondBreak { condition: register, .. }
            | Body::BranchTable { index: register, .. }
            | Body::Fail { status: register, .. } => site.get_i32(register),
            _ => site.builder.function.constant(Type::i32, 0),
        };
        let mut edges = self.edges(raw, data)?;
        let mut last_edge = || edges.pop().ok_or_else(broken);
        Ok(match (last.opcode, last.body) {
            (_, Body::CondBranch { .. }) => {
                let (if_false, if_true) = (last_edge()?, last_edge()?);
                Terminator::CondBranch { condition: selector, if_true, if_false }
            }
            (_, Body::CondBreak { .. }) => Terminator::CondBreak { condition: selector, next: last_edge()? },
            (_, Body::BranchTable { .. }) => {
                let default: Edge = last_edge()?;
                Terminator::BranchTable { index: selector, cases: edges, default }
            }
            (_, Body::Fail { message, .. }) => {
                Terminator::Fail { status: selector, message: message.into(), next: edges.pop() }
            }
            (Opcode::Yield, _) => Terminator::Yield(last_edge()?),
            (Opcode::Break, _) => Terminator::Break(last_edge()?),
            (Opcode::Branch, _) => Terminator::Branch(last_edge()?),
            _ => return Err(broken()),
        })
    }
}
