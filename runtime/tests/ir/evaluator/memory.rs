//! Evaluation of the operations on buffers, lists and references.

use incarnate_runtime::bytecode::ir::{Function, Inst, Op, Type, Value};
use incarnate_runtime::bytecode::isa::Opcode;
use incarnate_runtime::vm::{Buffer, List, Ref, Value as VmValue};
use incarnate_runtime::{Error, Result};

use super::{Frame, IrModule, Machine, Slot, number};

impl Machine<'_> {
    pub(super) fn memory(
        &mut self,
        module: &IrModule,
        frame: &mut Frame,
        f: &Function,
        inst: &Inst,
        result_type: Type,
    ) -> Result<Option<Slot>> {
        match &inst.op {
            Op::ListAlloc { .. }
            | Op::ListReserve { .. }
            | Op::ListSize { .. }
            | Op::ListResize { .. }
            | Op::ListGet { .. }
            | Op::ListSet { .. }
            | Op::ListGetRef { .. }
            | Op::ListSetRef { .. } => self.access_list(module, frame, f, inst, result_type),
            _ => self.access_buffer(frame, f, inst),
        }
    }

    fn access_list(
        &mut self,
        module: &IrModule,
        frame: &mut Frame,
        f: &Function,
        inst: &Inst,
        result_type: Type,
    ) -> Result<Option<Slot>> {
        let limits = self.stack.limits().ledger.clone();
        let list = |value: &Value| Ok::<_, Error>(frame.reference(f, *value).list()?.clone());
        match &inst.op {
            Op::ListAlloc { element_type, capacity } => {
                let list = List::new(module.element_type_of(*element_type), frame.u32(f, *capacity), Some(&limits))?;
                Ok(Some(Slot::Ref(Ref::List(list))))
            }
            Op::ListReserve { list: l, capacity } => list(l)?.reserve(frame.u32(f, *capacity)).map(|()| None),
            Op::ListSize { list: l } => Ok(Some(Slot::Word(list(l)?.len() as u64))),
            Op::ListResize { list: l, size } => list(l)?.resize(frame.u32(f, *size)).map(|()| None),
            Op::ListGet { list: l, index } => {
                let value = list(l)?.get(frame.u32(f, *index))?;
                let bits = match result_type {
                    Type::i32 => value.to_i32().map(|v| u64::from(v as u32)),
                    Type::i64 => value.to_i64().map(|v| v as u64),
                    Type::f32 => value.to_f32().map(|v| u64::from(v.to_bits())),
                    Type::f64 => value.to_f64().map(f64::to_bits),
                    Type::Ref => None,
                };
                let bits = bits.ok_or_else(|| Error::invalid_argument("the list's element is a reference"))?;
                Ok(Some(Slot::Word(bits)))
            }
            Op::ListSet { list: l, index, value } => {
                list(l)?.set(frame.u32(f, *index), number(f.ty(*value), frame.word(f, *value))).map(|()| None)
            }
            Op::ListGetRef { list: l, index, type_def, take } => {
                let reference = list(l)?.get_ref(frame.u32(f, *index), module.type_of(*type_def), *take)?;
                Ok(Some(Slot::Ref(reference)))
            }
            Op::ListSetRef { list: l, index, value } => {
                let (list, index) = (list(l)?, frame.u32(f, *index));
                list.set(index, VmValue::Ref(frame.take(f, *value))).map(|()| None)
            }
            op => panic!("{op:?} is not evaluated"),
        }
    }

    fn access_buffer(&mut self, frame: &mut Frame, f: &Function, inst: &Inst) -> Result<Option<Slot>> {
        let word = |word: u64| Ok(Some(Slot::Word(word)));
        let limits = self.stack.limits().ledger.clone();
        let buffer = |value: &Value| Ok::<_, Error>(frame.reference(f, *value).buffer()?.clone());
        match &inst.op {
            Op::BufferLoad { opcode, buffer: b, offset } => {
                let (b, at) = (buffer(b)?, frame.u64(f, *offset));
                word(match opcode {
                    Opcode::BufferLoadI8U => b.load::<u8>(at)?.into(),
                    Opcode::BufferLoadI8S => u64::from(i32::from(b.load::<i8>(at)?) as u32),
                    Opcode::BufferLoadI16U => b.load::<u16>(at)?.into(),
                    Opcode::BufferLoadI16S => u64::from(i32::from(b.load::<i16>(at)?) as u32),
                    Opcode::BufferLoadI32 | Opcode::BufferLoadF32 => b.load::<u32>(at)?.into(),
                    _ => b.load::<u64>(at)?,
                })
            }
            Op::BufferStore { opcode, buffer: b, offset, value } => {
                let (b, at, bits) = (buffer(b)?, frame.u64(f, *offset), frame.word(f, *value));
                match opcode {
                    Opcode::BufferStoreI8 => b.store(at, bits as u8)?,
                    Opcode::BufferStoreI16 => b.store(at, bits as u16)?,
                    Opcode::BufferStoreI32 | Opcode::BufferStoreF32 => b.store(at, bits as u32)?,
                    _ => b.store(at, bits)?,
                }
                Ok(None)
            }
            Op::BufferFill { opcode, buffer: b, offset, length, value } => {
                let (b, at, bits) = (buffer(b)?, frame.u64(f, *offset), frame.word(f, *value));
                let length = frame.u64(f, *length);
                match opcode {
                    Opcode::BufferFillI8 => b.fill(at, length, bits as u8)?,
                    Opcode::BufferFillI16 => b.fill(at, length, bits as u16)?,
                    Opcode::BufferFillI32 | Opcode::BufferFillF32 => b.fill(at, length, bits as u32)?,
                    _ => b.fill(at, length, bits)?,
                }
                Ok(None)
            }
            Op::BufferAlloc { length, alignment } => {
                let buffer = Buffer::zeroed(frame.u64(f, *length), frame.u32(f, *alignment), Some(&limits))?;
                Ok(Some(Slot::Ref(Ref::Buffer(buffer))))
            }
            Op::BufferClone { buffer: b, offset, length, alignment } => {
                let (offset, length) = (frame.u64(f, *offset), frame.u64(f, *length));
                let copy = buffer(b)?.clone_range(offset, length, frame.u32(f, *alignment), Some(&limits))?;
                Ok(Some(Slot::Ref(Ref::Buffer(copy))))
            }
            Op::BufferLength { buffer: b } => word(buffer(b)?.length()),
            Op::BufferCopy { source, source_offset, target, target_offset, length } => {
                let (from, to) = (frame.u64(f, *source_offset), frame.u64(f, *target_offset));
                Buffer::copy(&*buffer(source)?, from, &*buffer(target)?, to, frame.u64(f, *length)).map(|()| None)
            }
            Op::BufferCompare { left, left_offset, right, right_offset, length } => {
                let (a, b) = (frame.u64(f, *left_offset), frame.u64(f, *right_offset));
                word(Buffer::equal(&*buffer(left)?, a, &*buffer(right)?, b, frame.u64(f, *length))?.into())
            }
            Op::BufferHash { buffer: b, offset, length } => {
                word(buffer(b)?.hash(frame.u64(f, *offset), frame.u64(f, *length))? as u64)
            }
            op => panic!("{op:?} is not evaluated"),
        }
    }
}
