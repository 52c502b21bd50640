//! Operations on primitive registers: constants, moves, arithmetic and comparisons.

use super::super::super::buffer::Scalar;
use super::super::operation::Inst;
use super::cursor::Cursor;
use super::registers::RegisterValue;
use crate::Result;

impl<'m> Cursor<'_, 'm> {
    #[inline(always)]
    pub(super) fn move_word<V: RegisterValue>(&mut self, inst: &'m Inst) {
        let value: V = self.get(inst.a);
        self.set(inst.b, value);
    }

    #[inline(always)]
    pub(super) fn unary<A: RegisterValue, R: RegisterValue>(&mut self, inst: &'m Inst, evaluate: impl FnOnce(A) -> R) {
        self.set(inst.c, evaluate(self.get(inst.a)));
    }

    #[inline(always)]
    pub(super) fn binary<A: RegisterValue, B: RegisterValue, R: RegisterValue>(
        &mut self,
        inst: &'m Inst,
        evaluate: impl FnOnce(A, B) -> R,
    ) {
        self.set(inst.c, evaluate(self.get(inst.a), self.get(inst.b)));
    }

    #[inline(always)]
    pub(super) fn try_binary<V: RegisterValue>(
        &mut self,
        inst: &'m Inst,
        evaluate: impl FnOnce(V, V) -> Result<V>,
    ) -> Result<()> {
        self.set(inst.c, evaluate(self.get(inst.a), self.get(inst.b))?);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn ternary<A: RegisterValue, V: RegisterValue>(
        &mut self,
        inst: &'m Inst,
        evaluate: impl FnOnce(A, V, V) -> V,
    ) {
        self.set(inst.part(0), evaluate(self.get(inst.a), self.get(inst.b), self.get(inst.c)));
    }

    #[inline(always)]
    pub(super) fn compare_and_branch<V: RegisterValue>(
        &mut self,
        inst: &'m Inst,
        compare: impl FnOnce(V, V) -> i32,
    ) -> Result<()> {
        let result = compare(self.get(inst.a), self.get(inst.b));
        self.set(inst.c, result);
        self.branch(inst, result != 0)
    }

    /// Loads an element, computes a new value of it by the instruction after, and stores that by the one after that.
    #[inline(always)]
    pub(super) fn accumulate<V: RegisterValue + Scalar>(
        &mut self,
        load: &'m Inst,
        target: impl FnOnce(&Inst) -> u16,
        evaluate: impl FnOnce(&Self, &'m Inst, V) -> V,
    ) -> Result<()> {
        let value: V = self.reference(load.a).buffer()?.load(self.get(load.b))?;
        self.set(load.c, value);
        let inst = self.fetch();
        let value = evaluate(self, inst, value);
        self.set(target(inst), value);
        let store = self.fetch();
        self.reference(store.a).buffer()?.store(self.get(store.b), value)
    }
}
