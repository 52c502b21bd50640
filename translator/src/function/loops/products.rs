//! Sums of two products of 16-bit integers, and of four products of bytes: processors have instructions for several of them, which LLVM does not
//! find for products of elements that it loads as vectors.

use std::collections::{BTreeMap, BTreeSet};

use incarnate_bytecode::ir::nest::Schedule;
use incarnate_bytecode::ir::{Block, Op, Value};
use incarnate_bytecode::isa::Opcode;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::narrow::Narrow;
use super::ranges::Ranges;
use super::sums::{Factors, Form, Sums, sums_of_lanes};
use super::writer::Writer;

/// A sum of products.
#[derive(Clone)]
struct Chain {
    /// The factors.
    products: Vec<(Value, Value)>,
    /// The sums of fewer of the products.
    parts: Vec<Value>,
}

impl Writer<'_, '_, '_> {
    /// Finds the sums of products in an iteration of strips.
    pub(super) fn sums_found(&self) -> Sums {
        let Schedule::Strips(strips) = &self.scheduled.schedule else { return Sums::default() };
        let is_plain = strips.jammed.is_none() && self.nest.gathers.is_empty() && self.nest.divisions.is_empty();
        if !is_plain || !self.scheduled.runs_on_strips() {
            return Sums::default();
        }
        let instructions = self.live_instructions(strips);
        let sums = self.sums_of_integers(&instructions);
        if sums.is_empty() {
            return Sums::default();
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
            return Sums::default();
        }
        let stored = instructions.iter().filter_map(|(block, position)| self.nest.access(*block, *position)?.stored);
        let after = self.computed_from(&instructions, stored.collect(), &sums);
        Sums { all: sums, before, after }
    }

    /// The sums of two products of 16-bit integers, and of four of bytes.
    fn sums_of_integers(&self, instructions: &[(Block, usize)]) -> BTreeMap<Value, Factors> {
        let function = self.emitter.body.function;
        let ranges = Ranges::of(self, instructions);
        let mut chains: BTreeMap<Value, Chain> = BTreeMap::new();
        let mut sums = BTreeMap::new();
        for (block, position) in instructions {
            let inst = self.nest.instruction(function, *block, *position);
            let (Op::Eval { opcode, operands }, [result]) = (&inst.op, &inst.results[..]) else { continue };
            let chain = match (opcode, &operands[..]) {
                (Opcode::MulI32, [left, right]) => Chain { products: vec![(*left, *right)], parts: Vec::new() },
                (Opcode::FmaI32, [left, right, addend]) => {
                    let Some(chain) = chains.get(addend).filter(|chain| chain.products.len() < 4) else { continue };
                    let Chain { mut products, mut parts } = chain.clone();
                    // The compiler computes a sum of two products as the second one, and the first one with that added.
                    let at = if products.len() == 1 { 0 } else { products.len() };
                    products.insert(at, (*left, *right));
                    parts.push(*addend);
                    Chain { products, parts }
                }
                _ => continue,
            };
            let factors = match chain.products.len() {
                2 => ranges.pairs(function, &chain.products),
                4 => ranges.quads(function, &chain.products),
                _ => None,
            };
            if let Some(factors) = factors {
                sums.retain(|sum, _| !chain.parts.contains(sum));
                sums.insert(*result, factors);
            }
            chains.insert(*result, chain);
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
        for (at, (sum, factors)) in self.sums.all.iter().enumerate() {
            let (left, right) = (format_ident!("left{}", at), format_ident!("right{}", at));
            let (method, [of_left, of_right]) = match factors.form {
                Form::Pairs => ("multiply_pairs", ["i16", "i16"]),
                Form::Quads => ("multiply_quads", ["u8", "i8"]),
                Form::SignedQuads => ("multiply_signed_quads", ["i8", "i8"]),
            };
            let (method, count) = (format_ident!("{}", method), Literal::usize_unsuffixed(factors.left.len()));
            let sides = [(&left, of_left, &factors.left), (&right, of_right, &factors.right)];
            let (mut array, mut stored) = (TokenStream::new(), TokenStream::new());
            for (name, ty, factors) in sides {
                let ty = format_ident!("{}", ty);
                array.extend(quote!(let mut #name: [[#ty; #count]; L] = [[0; #count]; L];));
                // Tuples that are stored whole are moved as one integer.
                for (at, factor) in factors.iter().enumerate() {
                    let (at, factor) = (Literal::usize_unsuffixed(at), self.narrow_operand(*factor, narrow));
                    let factor = if ty == "i16" { factor } else { quote!(#factor as #ty) };
                    stored.extend(quote!(#name[lane][#at] = #factor;));
                }
            }
            let sum = sums_of_lanes(&self.emitter.name(*sum));
            let product = quote!(let #sum = products.#method(&#left, &#right););
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
