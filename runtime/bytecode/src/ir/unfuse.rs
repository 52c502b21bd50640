//! Products and sums of `f32` that are rounded twice.

use alloc::vec::Vec;

use super::function::{Function, Inst};
use super::op::Op;
use super::value::{Block, Type};
use crate::isa::Opcode;

impl Function {
    /// Replaces each `fma.f32` by a product and a sum, both rounded. IREE's compiler fuses them, whatever the model says; processors
    /// without such an instruction compute two faster. Results differ by rounding.
    pub fn unfuse(&mut self) {
        for index in 0..self.blocks.len() {
            let fused = core::mem::take(&mut self.blocks[index].instructions);
            let mut instructions = Vec::with_capacity(fused.len());
            for mut inst in fused {
                if let Op::Eval { opcode: opcode @ Opcode::FmaF32, operands } = &mut inst.op
                    && let &[left, right, sum] = &operands[..]
                {
                    let product = self.result(Type::f32, Block(index as u32));
                    let op = Op::Eval { opcode: Opcode::MulF32, operands: [left, right].into_iter().collect() };
                    instructions.push(Inst { op, results: [product].into_iter().collect(), offset: inst.offset });
                    (*opcode, *operands) = (Opcode::AddF32, [product, sum].into_iter().collect());
                }
                instructions.push(inst);
            }
            self.blocks[index].instructions = instructions;
        }
    }
}
