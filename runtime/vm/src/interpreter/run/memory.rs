//! Operations on references, globals, lists and buffers.

use super::super::super::buffer::{Buffer, Scalar};
use super::super::super::failure;
use super::super::super::list::LIST_ELEMENT_BYTES;
use super::super::super::list::{List, check_ref};
use super::super::super::reference::{Ref, Value};
use super::super::operation::Inst;
use super::cursor::Cursor;
use super::registers::RegisterValue;
use crate::Result;
use incarnate_bytecode::isa::REF_REGISTER_MOVE_BIT;

/// References.
impl<'m> Cursor<'_, 'm> {
    #[inline(always)]
    pub(super) fn move_reference(&mut self, inst: &'m Inst) {
        let value = core::mem::take(self.reference_mut(inst.a));
        self.set_reference(inst.b, value);
    }

    #[inline(always)]
    pub(super) fn copy_reference(&mut self, inst: &'m Inst) {
        let value = self.reference(inst.a).clone();
        self.set_reference(inst.b, value);
    }

    #[inline(always)]
    pub(super) fn rodata(&mut self, inst: &'m Inst) -> Result<()> {
        let buffer = self.machine.module.rodata(inst.low())?.clone();
        self.set_reference(inst.c, Ref::Buffer(buffer));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn assign_reference(&mut self, inst: &'m Inst) {
        let value = self.transfer(inst.a);
        self.set_reference(inst.c, value);
    }

    /// Checks a reference against the type that the high half of the immediate names.
    #[inline(always)]
    fn check_type(&self, inst: &'m Inst, reference: &Ref) -> Result<()> {
        check_ref(reference, self.machine.module.type_of(inst.high()))
    }

    #[inline(always)]
    pub(super) fn cast_reference(&mut self, inst: &'m Inst) -> Result<()> {
        self.check_type(inst, self.reference(inst.a))?;
        self.assign_reference(inst);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn is_same_reference(&self, inst: &'m Inst) -> bool {
        self.reference(inst.a).same(self.reference(inst.b))
    }

    #[inline(always)]
    pub(super) fn is_reference(&self, inst: &'m Inst) -> bool {
        !self.reference(inst.a).is_null()
    }

    #[inline(always)]
    pub(super) fn select_reference(&mut self, inst: &'m Inst) -> Result<()> {
        let (selected, other) = if self.get::<i32>(inst.a) != 0 { (inst.b, inst.c) } else { (inst.c, inst.b) };
        let target = inst.part(0);
        self.check_type(inst, self.reference(selected))?;
        let value = self.transfer(selected);
        self.discard_unless(other, target);
        self.set_reference(target, value);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn switch_reference(&mut self, inst: &'m Inst) -> Result<()> {
        let selected = self.selected(inst);
        check_ref(self.reference(selected), self.code.tables[inst.imm as usize].check)?;
        let value = self.transfer(selected);
        self.set_reference(inst.c, value);
        Ok(())
    }
}

/// Globals. Primitive ones are at a byte offset, references have an ordinal: either is the low half of the immediate, or the
/// value of a register in the indirect forms.
impl<'m> Cursor<'_, 'm> {
    #[inline(always)]
    pub(super) fn ordinal(&self, register: u16) -> u32 {
        self.get::<i32>(register) as u32
    }

    #[inline(always)]
    pub(super) fn load_global_32(&mut self, inst: &'m Inst, offset: u32) -> Result<()> {
        let bits = self.machine.state.load32(offset)?;
        self.set(inst.c, bits as i32);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn load_global_64(&mut self, inst: &'m Inst, offset: u32) -> Result<()> {
        let bits = self.machine.state.load64(offset)?;
        self.set(inst.c, bits);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn store_global_32(&mut self, value: u16, offset: u32) -> Result<()> {
        self.machine.state.store32(offset, self.get::<i32>(value) as u32)
    }

    #[inline(always)]
    pub(super) fn store_global_64(&mut self, value: u16, offset: u32) -> Result<()> {
        self.machine.state.store64(offset, self.get(value))
    }

    #[inline(always)]
    pub(super) fn load_global_reference(&mut self, inst: &'m Inst, ordinal: u32) -> Result<()> {
        let global = self.machine.state.reference(ordinal)?;
        let mut slot = global.lock();
        self.check_type(inst, &slot)?;
        let value = if inst.a & REF_REGISTER_MOVE_BIT != 0 { core::mem::take(&mut *slot) } else { slot.clone() };
        drop(slot);
        self.set_reference(inst.a, value);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn store_global_reference(&mut self, inst: &'m Inst, ordinal: u32) -> Result<()> {
        let global = self.machine.state.reference(ordinal)?;
        self.check_type(inst, self.reference(inst.a))?;
        let value = self.transfer(inst.a);
        let replaced = core::mem::replace(&mut *global.lock(), value);
        drop(replaced);
        Ok(())
    }
}

/// Lists.
impl<'m> Cursor<'_, 'm> {
    #[inline(always)]
    pub(super) fn allocate_list(&mut self, inst: &'m Inst) -> Result<()> {
        let element_type = self.machine.module.element_type_of(inst.high());
        let capacity = self.get::<i32>(inst.a) as u32;
        self.burn_bytes(u64::from(capacity) * LIST_ELEMENT_BYTES)?;
        let list = List::new(element_type, capacity, Some(&self.machine.stack.limits().ledger))?;
        self.set_reference(inst.c, Ref::List(list));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn reserve_list(&mut self, inst: &'m Inst) -> Result<()> {
        let capacity = self.get::<i32>(inst.b) as u32;
        self.burn_bytes(u64::from(capacity) * LIST_ELEMENT_BYTES)?;
        let ledger = &self.machine.stack.limits().ledger;
        self.reference(inst.a).list()?.reserve_for(ledger, capacity)?;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn list_size(&mut self, inst: &'m Inst) -> Result<()> {
        let length = self.reference(inst.a).list()?.len();
        self.set(inst.c, length as i32);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn resize_list(&mut self, inst: &'m Inst) -> Result<()> {
        let length = self.get::<i32>(inst.b) as u32;
        self.burn_bytes(u64::from(length) * LIST_ELEMENT_BYTES)?;
        let ledger = &self.machine.stack.limits().ledger;
        self.reference(inst.a).list()?.resize_for(ledger, length)?;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn list_get<V: RegisterValue>(
        &mut self,
        inst: &'m Inst,
        convert: impl FnOnce(&Value) -> Option<V>,
    ) -> Result<()> {
        let value = self.reference(inst.a).list()?.get(self.get::<i32>(inst.b) as u32)?;
        self.set(inst.c, convert(&value).ok_or_else(failure::not_a_primitive)?);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn list_set<V: RegisterValue>(
        &mut self,
        inst: &'m Inst,
        convert: impl FnOnce(V) -> Value,
    ) -> Result<()> {
        let value = convert(self.get(inst.c));
        self.reference(inst.a).list()?.set(self.get::<i32>(inst.b) as u32, value)
    }

    #[inline(always)]
    pub(super) fn list_get_reference(&mut self, inst: &'m Inst) -> Result<()> {
        let (index, take) = (self.get::<i32>(inst.b) as u32, inst.c & REF_REGISTER_MOVE_BIT != 0);
        let expected = self.machine.module.type_of(inst.high());
        let value = self.reference(inst.a).list()?.get_ref(index, expected, take)?;
        self.set_reference(inst.c, value);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn list_set_reference(&mut self, inst: &'m Inst) -> Result<()> {
        // The value may be the list itself, moved.
        let list = self.reference(inst.a).list()?.clone();
        let value = self.transfer(inst.c);
        list.set(self.get::<i32>(inst.b) as u32, Value::Ref(value))
    }
}

/// Buffers.
impl<'m> Cursor<'_, 'm> {
    #[inline(always)]
    pub(super) fn load<S: Scalar, V: RegisterValue + From<S>>(&mut self, inst: &'m Inst) -> Result<()> {
        let scalar: S = self.reference(inst.a).buffer()?.load(self.get(inst.b))?;
        self.set(inst.c, V::from(scalar));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn store<V: RegisterValue, S: Scalar>(
        &mut self,
        inst: &'m Inst,
        narrow: impl FnOnce(V) -> S,
    ) -> Result<()> {
        let scalar = narrow(self.get(inst.c));
        self.reference(inst.a).buffer()?.store(self.get(inst.b), scalar)
    }

    #[inline(always)]
    pub(super) fn fill<V: RegisterValue, S: Scalar>(
        &mut self,
        inst: &'m Inst,
        narrow: impl FnOnce(V) -> S,
    ) -> Result<()> {
        let (count, scalar): (u64, S) = (self.get(inst.c), narrow(self.get(inst.part(0))));
        self.burn_bytes(count.saturating_mul(size_of::<S>() as u64))?;
        self.reference(inst.a).buffer()?.fill(self.get(inst.b), count, scalar)?;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn allocate_buffer(&mut self, inst: &'m Inst) -> Result<()> {
        let (length, alignment) = (self.get(inst.a), self.get::<i32>(inst.b) as u32);
        self.burn_bytes(length)?;
        let buffer = Buffer::zeroed(length, alignment, Some(&self.machine.stack.limits().ledger))?;
        self.set_reference(inst.c, Ref::Buffer(buffer));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn clone_buffer(&mut self, inst: &'m Inst) -> Result<()> {
        let (length, alignment) = (self.get(inst.part(0)), self.get::<i32>(inst.part(1)) as u32);
        self.burn_bytes(length)?;
        let budget = Some(&self.machine.stack.limits().ledger);
        let source = self.reference(inst.a).buffer()?;
        let copy = source.clone_range(self.get(inst.b), length, alignment, budget)?;
        self.set_reference(inst.c, Ref::Buffer(copy));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn buffer_length(&mut self, inst: &'m Inst) -> Result<()> {
        let length = self.reference(inst.a).buffer()?.length();
        self.set(inst.c, length);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn copy_bytes(&mut self, inst: &'m Inst) -> Result<()> {
        let length = self.get(inst.c);
        self.burn_bytes(length)?;
        let (source, target) = (self.reference(inst.a).buffer()?, self.reference(inst.part(0)).buffer()?);
        Buffer::copy(source, self.get(inst.b), target, self.get(inst.part(1)), length)?;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn compare_bytes(&mut self, inst: &'m Inst) -> Result<()> {
        let length = self.get(inst.part(2));
        self.burn_bytes(length)?;
        let (left, right) = (self.reference(inst.a).buffer()?, self.reference(inst.part(0)).buffer()?);
        let equal = Buffer::equal(left, self.get(inst.b), right, self.get(inst.part(1)), length)?;
        self.set(inst.c, i32::from(equal));
        Ok(())
    }

    #[inline(always)]
    pub(super) fn hash_bytes(&mut self, inst: &'m Inst) -> Result<()> {
        let length = self.get(inst.part(0));
        self.burn_bytes(length)?;
        let hash = self.reference(inst.a).buffer()?.hash(self.get(inst.b), length)?;
        self.set(inst.c, hash);
        Ok(())
    }
}
