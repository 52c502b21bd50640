//! The amount of arithmetic in a nest.

use alloc::vec::Vec;

use super::{Item, Needed, Nest};
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::isa::Opcode;

impl Nest {
    /// Returns for each loop the operations in one of its iterations, without those of inner loops: additions, multiplications and
    /// functions of numbers that are stored or carried out of the nest. A fused multiplication and addition is two. Comparisons,
    /// selections, conversions, shifts and logic do not count, nor do indices.
    #[must_use]
    pub fn operations(&self, function: &Function, needed: &Needed) -> Vec<u64> {
        let of_item = |item: &Item| match item {
            Item::Instruction(block, position) => {
                let inst = self.instruction(function, *block, *position);
                let is_needed = inst.results.iter().any(|value| needed.has(*value));
                match &inst.op {
                    Op::Eval { opcode, .. } if is_needed => operations(*opcode),
                    _ => 0,
                }
            }
            Item::Loop(_) => 0,
        };
        self.loops.iter().map(|counted| counted.items.iter().map(of_item).sum()).collect()
    }
}

/// The operations of an instruction.
fn operations(opcode: Opcode) -> u64 {
    // The part of the mnemonic in front of the type.
    match opcode.info().mnemonic.split('.').next().unwrap_or_default() {
        "fma" => 2,
        "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" | "neg" | "abs" | "sqrt" | "rsqrt" | "pow" | "fpowi"
        | "exp" | "exp2" | "expm1" | "log" | "log2" | "log10" | "log1p" | "tanh" | "erf" | "sin" | "cos" | "atan"
        | "atan2" => 1,
        _ => 0,
    }
}
