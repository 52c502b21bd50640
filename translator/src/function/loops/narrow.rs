//! Integers of 16 bits: LLVM finds of few computations with 32 bits that 16 are enough, and vectors of those have twice the lanes. Selections
//! stay as they are: of those with 16 bits LLVM makes no vectors.

use std::collections::BTreeMap;

use incarnate_bytecode::ir::nest::{Access, Element};
use incarnate_bytecode::ir::{Block, Inst, Op, Value};
use incarnate_bytecode::isa::Opcode;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::ranges::Ranges;
use super::writer::Writer;

/// Computations of 16-bit integers, by the results of instructions.
pub(super) type Narrow = BTreeMap<Value, Expression>;

/// A computation of a 16-bit integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// The element that a view's access loads.
    Load(usize),
    /// An operation of integers whose results, too, are of 16 bits.
    Operation(Opcode),
}

impl Writer<'_, '_, '_> {
    /// The computations of values as 16-bit integers; none if one of them has more bits.
    pub(super) fn narrowed(&self, instructions: &[(Block, usize)], is_computed: impl Fn(Value) -> bool) -> Narrow {
        self.all_narrowed(instructions, is_computed).unwrap_or_default()
    }

    fn all_narrowed(&self, instructions: &[(Block, usize)], is_computed: impl Fn(Value) -> bool) -> Option<Narrow> {
        let function = self.emitter.body.function;
        let ranges = &Ranges::of(self, instructions);
        let parameters = self.nest.loops.iter().flat_map(|counted| &counted.inductions);
        if parameters.into_iter().any(|induction| is_computed(induction.parameter)) {
            return None;
        }
        let mut narrow = Narrow::new();
        for (block, position) in instructions {
            let inst = self.nest.instruction(function, *block, *position);
            let [result] = inst.results[..] else { continue };
            if is_computed(result) {
                let expression = self.narrow_expression(self.nest.access(*block, *position), inst, ranges)?;
                narrow.insert(result, expression);
            }
        }
        Some(narrow)
    }

    fn narrow_expression(&self, access: Option<&Access>, inst: &Inst, ranges: &Ranges) -> Option<Expression> {
        let function = self.emitter.body.function;
        if let Some(access) = access {
            let element = self.nest.views[access.view].element;
            return matches!(element, Element::u8 | Element::i8 | Element::i16)
                .then_some(Expression::Load(access.view));
        }
        let Op::Eval { opcode, operands } = &inst.op else { return None };
        let fits = inst.results.iter().chain(operands).all(|value| ranges.is_i16(function, *value));
        let is_known = matches!(
            opcode,
            Opcode::AndI32
                | Opcode::OrI32
                | Opcode::AddI32
                | Opcode::SubI32
                | Opcode::ShlI32
                | Opcode::ShrI32S
                | Opcode::ShrI32U
                | Opcode::ExtI8I32S
                | Opcode::ExtI8I32U
                | Opcode::ExtI16I32S
        );
        // Most processors have no vectors of 16-bit integers that are shifted by different numbers of bits.
        let is_constant = |at: usize| function.constant_bits(operands[at]).is_some_and(|bits| bits <= 15);
        let is_alike = match opcode {
            Opcode::ShlI32 | Opcode::ShrI32S => is_constant(1),
            // The bits that move in are those of 32 bits.
            Opcode::ShrI32U => is_constant(1) && ranges.is_within(function, operands[0], (0, i16::MAX.into())),
            _ => true,
        };
        (fits && is_known && is_alike).then_some(Expression::Operation(*opcode))
    }

    /// The definition of a value as 16-bit integer; `element` is the variable of what lanes load of a view.
    pub(super) fn narrow_definition(
        &self,
        inst: &Inst,
        narrow: &Narrow,
        element: impl Fn(usize) -> Option<TokenStream>,
    ) -> Option<TokenStream> {
        let [result] = &inst.results[..] else { return None };
        let name = self.emitter.name(*result);
        let opcode = match narrow.get(result)? {
            Expression::Load(view) => {
                let element = element(*view)?;
                let is_wide = self.nest.views[*view].element == Element::i16;
                return Some(if is_wide {
                    quote!(let #name = #element;)
                } else {
                    quote!(let #name = i16::from(#element);)
                });
            }
            Expression::Operation(opcode) => opcode,
        };
        let Op::Eval { operands, .. } = &inst.op else { return None };
        let operands: Vec<TokenStream> = operands.iter().map(|value| self.narrow_operand(*value, narrow)).collect();
        let value = match (opcode, &operands[..]) {
            (Opcode::AndI32, [x, y]) => quote!(#x & #y),
            (Opcode::OrI32, [x, y]) => quote!(#x | #y),
            (Opcode::AddI32, [x, y]) => quote!(i16::wrapping_add(#x, #y)),
            (Opcode::SubI32, [x, y]) => quote!(i16::wrapping_sub(#x, #y)),
            (Opcode::ShlI32, [x, bits]) => quote!(i16::wrapping_shl(#x, #bits as u32)),
            (Opcode::ShrI32S | Opcode::ShrI32U, [x, bits]) => quote!(i16::wrapping_shr(#x, #bits as u32)),
            (Opcode::ExtI8I32S, [x]) => quote!(i16::from(#x as i8)),
            (Opcode::ExtI8I32U, [x]) => quote!(i16::from(#x as u8)),
            (Opcode::ExtI16I32S, [x]) => x.clone(),
            _ => return None,
        };
        Some(quote!(let #name = #value;))
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
