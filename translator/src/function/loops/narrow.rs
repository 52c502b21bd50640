//! Integers of 16 bits: LLVM finds of few computations with 32 bits that 16 are enough, and vectors of those have twice the lanes. Selections
//! stay as they are: of those with 16 bits LLVM makes no vectors.

use std::collections::BTreeMap;

use incarnate_bytecode::ir::nest::Element;
use incarnate_bytecode::ir::{Block, Inst, Op, Value};
use incarnate_bytecode::isa::Opcode;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::ranges::Ranges;
use super::writer::{Tile, Writer};

/// Definitions of values as 16-bit integers.
pub(super) type Narrow = BTreeMap<Value, TokenStream>;

impl Writer<'_, '_, '_> {
    /// Defines values as 16-bit integers; none if one of them has more bits. `tile` has the variables of loaded elements.
    pub(super) fn narrowed(
        &self,
        instructions: &[(Block, usize)],
        tile: &Tile,
        is_computed: impl Fn(Value) -> bool,
    ) -> Narrow {
        let parameters = self.nest.loops.iter().flat_map(|counted| &counted.inductions);
        if parameters.into_iter().any(|induction| is_computed(induction.parameter)) {
            return Narrow::new();
        }
        let ranges = Ranges::of(self, instructions);
        let mut narrow = Narrow::new();
        for (block, position) in instructions {
            let inst = self.nest.instruction(self.emitter.body.function, *block, *position);
            let [result] = inst.results[..] else { continue };
            if !is_computed(result) {
                continue;
            }
            let value = match self.nest.access(*block, *position) {
                Some(access) => {
                    tile.element(access.view).and_then(|element| match self.nest.views[access.view].element {
                        Element::i16 => Some(element),
                        Element::u8 | Element::i8 => Some(quote!(i16::from(#element))),
                        _ => None,
                    })
                }
                None => self.narrow_operation(inst, &narrow, &ranges),
            };
            let Some(value) = value else { return Narrow::new() };
            let name = self.emitter.name(result);
            narrow.insert(result, quote!(let #name = #value;));
        }
        narrow
    }

    /// An operation of 16-bit integers whose result is that of 32 bits.
    fn narrow_operation(&self, inst: &Inst, narrow: &Narrow, ranges: &Ranges) -> Option<TokenStream> {
        let function = self.emitter.body.function;
        let Op::Eval { opcode, operands } = &inst.op else { return None };
        if !inst.results.iter().chain(operands).all(|value| ranges.is_i16(function, *value)) {
            return None;
        }
        // Most processors have no vectors of 16-bit integers that are shifted by different numbers of bits.
        let is_constant = |at: usize| function.constant_bits(operands[at]).is_some_and(|bits| bits <= 15);
        let tokens: Vec<TokenStream> = operands.iter().map(|value| self.narrow_operand(*value, narrow)).collect();
        Some(match (opcode, &tokens[..]) {
            (Opcode::AndI32, [x, y]) => quote!(#x & #y),
            (Opcode::OrI32, [x, y]) => quote!(#x | #y),
            (Opcode::AddI32, [x, y]) => quote!(i16::wrapping_add(#x, #y)),
            (Opcode::SubI32, [x, y]) => quote!(i16::wrapping_sub(#x, #y)),
            (Opcode::ShlI32, [x, bits]) if is_constant(1) => quote!(i16::wrapping_shl(#x, #bits as u32)),
            (Opcode::ShrI32S, [x, bits]) if is_constant(1) => quote!(i16::wrapping_shr(#x, #bits as u32)),
            // The bits that move in are those of 32 bits.
            (Opcode::ShrI32U, [x, bits])
                if is_constant(1) && ranges.is_within(function, operands[0], (0, i16::MAX.into())) =>
            {
                quote!(i16::wrapping_shr(#x, #bits as u32))
            }
            (Opcode::ExtI8I32S, [x]) => quote!(i16::from(#x as i8)),
            (Opcode::ExtI8I32U, [x]) => quote!(i16::from(#x as u8)),
            (Opcode::ExtI16I32S, [x]) => x.clone(),
            _ => return None,
        })
    }

    /// A value of 16 bits: one of those that are computed so, a constant, or one that lanes have in common.
    pub(super) fn narrow_operand(&self, value: Value, narrow: &Narrow) -> TokenStream {
        if let Some(bits) = self.emitter.body.function.constant_bits(value) {
            let number = Literal::i16_suffixed(bits as i16);
            return quote!(#number);
        }
        let name = self.emitter.name(value);
        if narrow.contains_key(&value) { quote!(#name) } else { quote!(#name as i16) }
    }
}
