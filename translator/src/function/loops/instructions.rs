//! Emission of the instructions of an iteration.

use incarnate_bytecode::ir::nest::Element;
use incarnate_bytecode::ir::{Block, Inst, Op};
use incarnate_bytecode::{Error, Result};
use proc_macro2::TokenStream;
use quote::quote;

use super::writer::{Tile, Writer, element, grid, index, is_extended};

impl Writer<'_, '_, '_> {
    /// An instruction or access, with the variables of a strip where it is one of its lanes; empty if it is dead.
    pub(super) fn instruction(&self, block: Block, position: usize, tile: Option<&Tile>) -> Result<TokenStream> {
        let inst = self.nest.instruction(self.emitter.body.function, block, position);
        if let Some(at) = self.nest.gather(block, position) {
            return self.gather(at, inst, tile.is_some());
        }
        let Some(access) = self.nest.access(block, position) else {
            let [result] = inst.results[..] else { return Ok(TokenStream::new()) };
            // Segments that are looked up at each use have no name.
            if !self.scheduled.needed.has(result) || self.emitter.body.rematerialized(result).is_some() {
                return Ok(TokenStream::new());
            }
            let name = self.emitter.name(result);
            if let Some(divided) = self.nest.division(block, position).and_then(|at| self.division(at)) {
                return Ok(quote!(let #name = #divided;));
            }
            let expression = self.expression(inst)?;
            let divisor = self.settled_divisor(&inst.op);
            return Ok(quote!(#divisor let #name = #expression;));
        };
        if !self.scheduled.keeps(access) {
            return Ok(TokenStream::new());
        }
        let view = &self.nest.views[access.view];
        let element_variable = tile.and_then(|tile| tile.element(access.view));
        let grid = grid(self.joined.grid_of(access.view));
        let indices = || {
            let indices = self.scheduled.axes(&view.index).into_iter().map(|at| {
                let index = index(at);
                quote!(#index)
            });
            let indices = indices.chain(self.joined.last_index(access.view));
            quote!([#(#indices),*])
        };
        Ok(match (access.stored, &inst.results[..]) {
            (Some(stored), _) => {
                let value = match (view.element, self.emitter.body.function.constant_bits(stored)) {
                    (Element::u8 | Element::i8 | Element::u16 | Element::i16, _) => {
                        let (value, ty) = (self.emitter.typed(stored), element(view.element));
                        quote!(#value as #ty)
                    }
                    _ => self.emitter.number(stored),
                };
                match element_variable {
                    Some(variable) => quote!(#variable = #value;),
                    None => {
                        let indices = indices();
                        quote!(#grid.set(#indices, #value);)
                    }
                }
            }
            (None, [result]) => {
                let name = self.emitter.name(*result);
                let value = element_variable.unwrap_or_else(|| {
                    let indices = indices();
                    quote!(#grid.get(#indices))
                });
                let value = if is_extended(view.element) { quote!(i32::from(#value)) } else { value };
                let value = if self.index_values.contains(*result) { quote!(support::settled(#value)) } else { value };
                quote!(let #name = #value;)
            }
            _ => return Err(Error::internal("a load with several results")),
        })
    }

    /// The value of an instruction of the nest, in which no division fails.
    pub(super) fn expression(&self, inst: &Inst) -> Result<TokenStream> {
        match &inst.op {
            Op::Eval { opcode, operands } if opcode.info().effects.fails => self.emitter.quotient(*opcode, operands),
            _ => self.emitter.expression(inst),
        }
    }

    /// The divisor of a division within the nest, if it may have been loaded: the compiler must not take it for two numbers, of
    /// which one is zero.
    fn settled_divisor(&self, op: &Op) -> Option<TokenStream> {
        let function = self.emitter.body.function;
        let Op::Eval { opcode, operands } = op else { return None };
        let divisor = *operands.get(1).filter(|_| opcode.info().effects.fails)?;
        let is_named = function.constant_bits(divisor).is_none() && self.emitter.body.rematerialized(divisor).is_none();
        let name = is_named.then(|| self.emitter.name(divisor))?;
        Some(quote!(let #name = support::settled(#name);))
    }
}
