//! Sums of two products of 16-bit integers: processors have an instruction for several of them, which LLVM does not find for products of
//! elements that it loads as vectors.

use std::collections::{BTreeMap, BTreeSet};

use incarnate_bytecode::ir::nest::Schedule;
use incarnate_bytecode::ir::{Block, Op, Value};
use incarnate_bytecode::isa::Opcode;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::narrow::Narrow;
use super::ranges::Ranges;
use super::sums::{Factors, Pairs, sums_of_lanes};
use super::writer::Writer;

impl Writer<'_, '_, '_> {
    /// Finds the sums of two products in an iteration of strips.
    pub(super) fn pairs_found(&self) -> Pairs {
        let Schedule::Strips(strips) = &self.scheduled.schedule else { return Pairs::default() };
        let is_plain = strips.jammed.is_none() && self.nest.gathers.is_empty() && self.nest.divisions.is_empty();
        if !is_plain || !self.scheduled.runs_on_strips() {
            return Pairs::default();
        }
        let instructions = self.live_instructions(strips);
        let sums = self.sums_of_two_products(&instructions);
        if sums.is_empty() {
            return Pairs::default();
        }
        let function = self.emitter.body.function;
        let factors = sums.values().flat_map(|factors| factors.all()).collect();
        let before = self.computed_from(&instructions, factors, &BTreeMap::new());
        // Factors that are computed from sums, or from what is stored, need further loops.
        let is_stored = |(block, position): &(Block, usize)| {
            let access = self.nest.access(*block, *position);
            let results = &self.nest.instruction(function, *block, *position).results;
            access.is_some_and(|access| strips.stores.contains(&access.view))
                && results.iter().any(|result| before.contains(result))
        };
        if sums.keys().any(|sum| before.contains(sum)) || instructions.iter().any(is_stored) {
            return Pairs::default();
        }
        let stored = instructions.iter().filter_map(|(block, position)| self.nest.access(*block, *position)?.stored);
        let after = self.computed_from(&instructions, stored.collect(), &sums);
        Pairs { sums, before, after }
    }

    /// The sums of two products of 16-bit integers.
    fn sums_of_two_products(&self, instructions: &[(Block, usize)]) -> BTreeMap<Value, Factors> {
        let function = self.emitter.body.function;
        let ranges = Ranges::of(self, instructions);
        let (mut products, mut sums) = (BTreeMap::new(), BTreeMap::new());
        for (block, position) in instructions {
            let inst = self.nest.instruction(function, *block, *position);
            let (Op::Eval { opcode, operands }, [result]) = (&inst.op, &inst.results[..]) else { continue };
            match (opcode, &operands[..]) {
                (Opcode::MulI32, [left, right]) => _ = products.insert(*result, (*left, *right)),
                (Opcode::FmaI32, [left, right, product]) => {
                    let Some((other_left, other_right)) = products.get(product) else { continue };
                    let factors = Factors { left: [*left, *other_left], right: [*right, *other_right] };
                    if factors.all().all(|factor| ranges.is_i16(function, factor)) {
                        sums.insert(*result, factors);
                    }
                }
                _ => {}
            }
        }
        sums
    }

    /// Values, and all that they are computed from in an iteration; not what `without` are computed from.
    fn computed_from(
        &self,
        instructions: &[(Block, usize)],
        mut values: BTreeSet<Value>,
        without: &BTreeMap<Value, Factors>,
    ) -> BTreeSet<Value> {
        let function = self.emitter.body.function;
        for (block, position) in instructions.iter().rev() {
            let inst = self.nest.instruction(function, *block, *position);
            let is_read = inst.results.iter().any(|result| values.contains(result) && !without.contains_key(result));
            if is_read && self.nest.access(*block, *position).is_none() {
                inst.op.visit(|operand| _ = values.insert(operand.value()));
            }
        }
        values
    }

    /// The loops that compute factors, by definitions in order, and the sums of their products. Each sum has a loop of its own where factors are
    /// computed with 16 bits: of one for all, LLVM makes wider vectors of parts of several factors. Where they are not, it makes no vectors of
    /// several loops.
    pub(super) fn sums_of_products(
        &self,
        instructions: &[(Block, usize)],
        definitions: &[(Value, TokenStream)],
        narrow: &Narrow,
    ) -> TokenStream {
        let are_narrow = !narrow.is_empty();
        let (mut arrays, mut loops, mut sums) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        let mut stores = TokenStream::new();
        for (at, (sum, factors)) in self.pairs.sums.iter().enumerate() {
            let (left, right) = (format_ident!("left{}", at), format_ident!("right{}", at));
            let ([a, b], [c, d]) = (factors.left, factors.right);
            let [a, b, c, d] = [a, b, c, d].map(|factor| self.narrow_operand(factor, narrow));
            // Pairs that are stored whole are moved as integers of 32 bits.
            let stored = quote! {
                #left[lane][0] = #a;
                #left[lane][1] = #b;
                #right[lane][0] = #c;
                #right[lane][1] = #d;
            };
            let array = quote!(let (mut #left, mut #right) = ([[0i16; 2]; L], [[0i16; 2]; L]););
            let sum = sums_of_lanes(&self.emitter.name(*sum));
            let product = quote!(let #sum = products.multiply_pairs(&#left, &#right););
            if are_narrow {
                let before = self.computed_from(instructions, factors.all().collect(), &BTreeMap::new());
                let own = definitions.iter().filter(|(value, _)| before.contains(value));
                let own = own.map(|(_, definition)| definition);
                loops.extend(quote!(#array for lane in 0..L { #(#own)* #stored } #product));
            } else {
                arrays.extend(array);
                stores.extend(stored);
                sums.extend(product);
            }
        }
        if are_narrow {
            return loops;
        }
        let all = definitions.iter().map(|(_, definition)| definition);
        quote!(#arrays for lane in 0..L { #(#all)* #stores } #sums)
    }
}
