//! Sums of two products of 16-bit integers: processors have an instruction for several of them, which LLVM does not find for products of
//! elements that it loads as vectors.

use std::collections::BTreeSet;

use incarnate_bytecode::ir::nest::Schedule;
use incarnate_bytecode::ir::{Block, Op, Value};
use incarnate_bytecode::isa::Opcode;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::ranges::Ranges;
use super::writer::Writer;

/// A sum of two products.
struct Pair {
    sum: Value,
    left: [Value; 2],
    right: [Value; 2],
}

/// The sums of two products of a strip, and what is computed before and after them.
#[derive(Default)]
pub(super) struct Pairs {
    found: Vec<Pair>,
    /// What the factors are computed from, and the factors.
    before: BTreeSet<Value>,
    /// What is stored, and what that is computed from, as far as it is computed from sums.
    after: BTreeSet<Value>,
}

impl Pairs {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether an instruction with these results runs before the sums are computed.
    pub(super) fn runs_before(&self, results: &[Value]) -> bool {
        results.iter().any(|result| self.before.contains(result))
    }

    /// Whether an instruction with these results runs in the loop that stores: all do where there are no pairs.
    pub(super) fn runs_after(&self, results: &[Value]) -> bool {
        self.is_empty() || results.iter().any(|result| self.after.contains(result))
    }

    /// The array of the sums that a value is, if it is one.
    pub(super) fn sums(&self, results: &[Value]) -> Option<Ident> {
        let at = self.found.iter().position(|pair| results.contains(&pair.sum))?;
        Some(format_ident!("sums{}", at))
    }
}

impl Writer<'_, '_, '_> {
    /// Finds the sums of two products in an iteration of strips.
    pub(super) fn pairs_found(&self) -> Pairs {
        let Schedule::Strips(strips) = &self.scheduled.schedule else { return Pairs::default() };
        if strips.jammed.is_some() || !self.scheduled.runs_on_strips() {
            return Pairs::default();
        }
        let function = self.emitter.body.function;
        let instructions = self.live_instructions(strips);
        let ranges = Ranges::of(self, &instructions);
        let mut found = Vec::new();
        for (block, position) in &instructions {
            let inst = self.nest.instruction(function, *block, *position);
            if let (Op::Eval { opcode: Opcode::FmaI32, operands }, [sum]) = (&inst.op, &inst.results[..])
                && let [left, right, product] = operands[..]
                && let Some([other_left, other_right]) = self.factors(&instructions, product)
                && [left, right, other_left, other_right].iter().all(|factor| ranges.is_i16(function, *factor))
            {
                found.push(Pair { sum: *sum, left: [left, other_left], right: [right, other_right] });
            }
        }
        if found.is_empty() {
            return Pairs::default();
        }
        let sums: BTreeSet<Value> = found.iter().map(|pair| pair.sum).collect();
        let factors = found.iter().flat_map(|pair| pair.left.into_iter().chain(pair.right)).collect();
        let stored = instructions.iter().filter_map(|(block, position)| self.nest.access(*block, *position)?.stored);
        let before = self.computed_from(&instructions, factors, &BTreeSet::new());
        let after = self.computed_from(&instructions, stored.collect(), &sums);
        // Factors that are computed from sums, or from what is stored, need further loops.
        let is_stored = |(block, position): &(Block, usize)| {
            let access = self.nest.access(*block, *position);
            access.is_some_and(|access| strips.stores.contains(&access.view))
                && self
                    .nest
                    .instruction(function, *block, *position)
                    .results
                    .iter()
                    .any(|result| before.contains(result))
        };
        if before.iter().any(|value| sums.contains(value)) || instructions.iter().any(is_stored) {
            return Pairs::default();
        }
        Pairs { found, before, after }
    }

    /// The factors of a product.
    fn factors(&self, instructions: &[(Block, usize)], product: Value) -> Option<[Value; 2]> {
        let function = self.emitter.body.function;
        instructions.iter().find_map(|(block, position)| {
            let inst = self.nest.instruction(function, *block, *position);
            match &inst.op {
                Op::Eval { opcode: Opcode::MulI32, operands } if inst.results.contains(&product) => {
                    operands[..].try_into().ok()
                }
                _ => None,
            }
        })
    }

    /// Values, and all that they are computed from in an iteration; not what `without` are computed from.
    fn computed_from(
        &self,
        instructions: &[(Block, usize)],
        mut values: BTreeSet<Value>,
        without: &BTreeSet<Value>,
    ) -> BTreeSet<Value> {
        let function = self.emitter.body.function;
        for (block, position) in instructions.iter().rev() {
            let inst = self.nest.instruction(function, *block, *position);
            let is_read = inst.results.iter().any(|result| values.contains(result) && !without.contains(result));
            if is_read && self.nest.access(*block, *position).is_none() {
                inst.op.visit(|operand| _ = values.insert(operand.value()));
            }
        }
        values
    }

    /// The loop that computes factors, by `work`, and the sums of their products.
    pub(super) fn sums_of_products(&self, pairs: &Pairs, work: &TokenStream) -> TokenStream {
        let (mut arrays, mut stores, mut sums) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        for (at, pair) in pairs.found.iter().enumerate() {
            let (left, right, sum) =
                (format_ident!("left{}", at), format_ident!("right{}", at), format_ident!("sums{}", at));
            let ([a, b], [c, d]) = (pair.left, pair.right);
            let [a, b, c, d] = [a, b, c, d].map(|factor| self.emitter.typed(factor));
            arrays.extend(quote!(let (mut #left, mut #right) = ([[0i16; 2]; L], [[0i16; 2]; L]);));
            // Pairs that are stored whole are moved as integers of 32 bits.
            stores.extend(quote! {
                #left[lane][0] = #a as i16;
                #left[lane][1] = #b as i16;
                #right[lane][0] = #c as i16;
                #right[lane][1] = #d as i16;
            });
            sums.extend(quote!(let #sum = products.multiply_pairs(&#left, &#right);));
        }
        quote!(#arrays for lane in 0..L { #work #stores } #sums)
    }
}
