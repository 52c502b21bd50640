//! Emission of iterations that run one after the other, as the bytecode has them.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::{Carried, Induction, Item};
use incarnate_bytecode::ir::{Type, Value};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, quote};

use super::super::values::type_of;
use super::forms::integer;
use super::writer::{Writer, count, index, mentions};

impl Writer<'_, '_, '_> {
    /// All iterations of a loop; empty if they have no effect.
    pub(super) fn iterations(&self, at: usize) -> Result<TokenStream> {
        let counted = &self.nest.loops[at];
        let prepared = self.prepare_divisions(at);
        let mut body = TokenStream::new();
        for item in &counted.items {
            body.extend(match item {
                Item::Instruction(block, position) => self.instruction(*block, *position, None)?,
                Item::Loop(inner) => self.iterations(*inner)?,
            });
        }
        let carried: Vec<&Carried> = counted
            .carried
            .iter()
            .filter(|carried| {
                carried.next != carried.parameter && (at == 0 || self.scheduled.needed.has(carried.parameter))
            })
            .collect();
        body.extend(self.assign_carried(&carried));
        let iterations = if body.is_empty() || self.scheduled.is_merged(at) {
            body
        } else {
            let first = self.inductions(at, |_| true);
            let (count, work) = (count(at), quote!(#first #body));
            let index = index(at);
            let index = if mentions(&work, &index) { quote!(#index) } else { quote!(_) };
            quote!(#prepared for #index in 0..#count { #work })
        };
        // Later code uses even unchanged carried values by their name in the loop.
        if at == 0 {
            return Ok(iterations);
        }
        let mut before = TokenStream::new();
        let mut after = TokenStream::new();
        for carried in counted.carried.iter().filter(|carried| self.scheduled.needed.has(carried.parameter)) {
            let name = self.emitter.name(carried.parameter);
            let (ty, initial) =
                (type_of(self.emitter.body.function.ty(carried.parameter)), self.emitter.number(carried.initial));
            let mutable = (carried.next != carried.parameter).then(|| quote!(mut));
            before.extend(quote!(let #mutable #name: #ty = #initial;));
            let escaping = counted.escaping(carried);
            if escaping != carried.parameter && self.escapes(escaping, at) {
                let escaping = self.emitter.name(escaping);
                after.extend(quote!(let #escaping = #name;));
            }
        }
        Ok(quote!(#before #iterations #after))
    }

    /// The values of a loop's inductions in an iteration, for those that are read.
    pub(super) fn inductions(&self, at: usize, which: impl Fn(&Induction) -> bool) -> TokenStream {
        let inductions = self.nest.loops[at].inductions.iter();
        let mut tokens = TokenStream::new();
        for induction in inductions.filter(|induction| which(induction) && self.scheduled.reads(induction.parameter)) {
            let index = index(at);
            let (name, value) = (self.emitter.name(induction.parameter), self.induction(induction, &index));
            tokens.extend(quote!(let #name = #value;));
        }
        tokens
    }

    /// Whether a value of a loop is used after it.
    fn escapes(&self, value: Value, from: usize) -> bool {
        let function = self.emitter.body.function;
        let is_outside = |at: usize| !self.nest.path(at).contains(&from);
        self.nest.loops.iter().enumerate().any(|(at, counted)| {
            let inner = counted.carried.iter().any(|carried| {
                (carried.initial == value && counted.parent.is_some_and(is_outside))
                    || (carried.next == value && is_outside(at))
            });
            let instructions = counted.items.iter().any(|item| match item {
                Item::Instruction(block, position) if is_outside(at) => {
                    let mut found = false;
                    let inst = self.nest.instruction(function, *block, *position);
                    inst.op.visit(|operand| found |= operand.value() == value);
                    found
                }
                _ => false,
            });
            inner || instructions
        }) && function.constant_bits(value).is_none()
    }

    /// Assigns the carried values for the next iteration.
    fn assign_carried(&self, carried: &[&Carried]) -> TokenStream {
        let names: Vec<TokenStream> = carried.iter().map(|carried| self.emitter.name(carried.parameter)).collect();
        let values: Vec<TokenStream> = carried.iter().map(|carried| self.emitter.number(carried.next)).collect();
        let is_swapped = carried.iter().enumerate().any(|(position, carried_last)| {
            carried[..position].iter().any(|carried| carried.parameter == carried_last.next)
        });
        match is_swapped {
            true => quote!((#(#names),*) = (#(#values),*);),
            false => quote!(#(#names = #values;)*),
        }
    }

    /// The value of an induction in the iteration of an index.
    pub(super) fn induction(&self, induction: &Induction, index: &Ident) -> TokenStream {
        let is_narrow = self.emitter.body.function.ty(induction.parameter) == Type::i32;
        let ty = if is_narrow { quote!(i32) } else { quote!(i64) };
        let advance = match induction.step.as_constant() {
            Some(1) => quote!((#index as #ty)),
            Some(step) if !is_narrow => {
                let step = integer(step);
                quote!((#index as i64).wrapping_mul(#step))
            }
            _ => {
                let step = self.form(induction.step.base());
                let advance = quote!((#index as i64).wrapping_mul(#step));
                if is_narrow { quote!(#advance as i32) } else { advance }
            }
        };
        let first = match (induction.initial, induction.form.as_constant_base()) {
            (None, Some(first)) => Some(first).filter(|first| *first != 0).map(integer),
            (None, None) => Some(self.emitter.name(induction.parameter)),
            (Some(initial), _) if self.emitter.body.function.constant_bits(initial) == Some(0) => None,
            (Some(initial), _) => Some(self.emitter.number(initial)),
        };
        match (first, induction.step.as_constant()) {
            (Some(first), step) if is_narrow && step != Some(1) => quote!((#advance).wrapping_add(#first)),
            (Some(first), _) => quote!(#advance.wrapping_add(#first)),
            (None, Some(1)) => quote!(#index as #ty),
            (None, _) => advance,
        }
    }

    /// The iterations of a loop and of those in it, as an expression: those of the bytecode, whose loops are not merged.
    pub(super) fn steps(&self, at: usize) -> TokenStream {
        let count = match self.scheduled.merged_count(at) {
            Some(_) => Literal::usize_suffixed(self.nest.loops[at].constant_trip_count().unwrap_or_default() as usize)
                .to_token_stream(),
            None => count(at).to_token_stream(),
        };
        let inner = self.nest.loops.iter().enumerate().filter(|(_, counted)| counted.parent == Some(at));
        let inner = inner.map(|(inner, _)| self.steps(inner)).reduce(|sum, steps| quote!(#sum.saturating_add(#steps)));
        match inner {
            None => quote!(#count),
            Some(inner) => quote!(#count.saturating_mul(#inner.saturating_add(1))),
        }
    }
}
