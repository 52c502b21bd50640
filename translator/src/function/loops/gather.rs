//! Emission of loads at computed indices.

use incarnate_bytecode::ir::Inst;
use incarnate_bytecode::{Error, Result};
use proc_macro2::TokenStream;
use quote::quote;

use super::checks::gathered;
use super::passed::Passed;
use super::writer::{Writer, element, is_extended};

impl Writer<'_, '_, '_> {
    /// Passes the elements of gathers to a function, which says whether an index was out of range.
    pub(super) fn pass_gathers(&self, passed: &mut Passed) {
        for (at, gather) in self.nest.gathers.iter().enumerate().filter(|(at, _)| self.borrowed(*at) == *at) {
            let (name, ty) = (gathered(at), element(gather.element));
            passed.push(&name, quote!(&support::Gather<'_, #ty>), quote!(&#name));
        }
        if !self.nest.gathers.is_empty() {
            passed.push(quote!(all_misses), quote!(&mut support::Misses), quote!(&mut misses));
        }
    }

    /// What a function of strips does before all else, and before it stores: a strip with an index that is out of range stores nothing, nor do
    /// those after it. So the memory is as the loops of the bytecode leave it, which run from their beginning then.
    pub(super) fn checks_of_strips(&self) -> Option<(TokenStream, TokenStream)> {
        (!self.nest.gathers.is_empty()).then(|| {
            let first = quote!(if all_misses.any() { return; } let mut misses = support::Misses::default(););
            (
                first,
                quote!(if misses.any() {
                    *all_misses = misses;
                    return;
                }),
            )
        })
    }

    /// Gives back the steps of an untrusted nest that is left, as the loops of the bytecode take theirs.
    fn given_back(&self) -> Option<TokenStream> {
        self.emitter.analysis.untrusted.then(|| {
            let steps = self.steps(0);
            quote!(stack.give_back_steps(#steps);)
        })
    }

    /// The iterations of strips. They leave the nest if an index was out of range.
    pub(super) fn checked_iterations(&self, iterations: TokenStream) -> TokenStream {
        match self.nest.gathers.is_empty() {
            true => iterations,
            false => {
                let (label, given_back) = (&self.label, self.given_back());
                quote! {
                    let mut misses = support::Misses::default();
                    #iterations
                    if misses.any() { #given_back break #label; }
                }
            }
        }
    }

    /// A load at a computed index. What is not used may be out of range, too.
    pub(super) fn gather(&self, at: usize, inst: &Inst, is_on_strips: bool) -> Result<TokenStream> {
        let [result] = inst.results[..] else { return Err(Error::internal("a load with several results")) };
        let gather = &self.nest.gathers[at];
        let (from, index) = (gathered(self.borrowed(at)), self.emitter.number(gather.index));
        let is_settled = self.index_values.contains(result);
        let number = |value: TokenStream| {
            let value = if is_extended(gather.element) { quote!(i32::from(#value)) } else { value };
            if is_settled { quote!(support::settled(#value)) } else { value }
        };
        let name = if self.scheduled.reads(result) { self.emitter.name(result) } else { quote!(_) };
        if is_on_strips {
            let value = number(quote!(#from.get(#index, &mut misses)));
            return Ok(quote!(let #name = #value;));
        }
        let (label, value, given_back) = (&self.label, number(quote!(element)), self.given_back());
        let missed = quote!({ #given_back break #label; });
        Ok(quote!(let #name = match #from.element(#index) { Some(element) => #value, None => #missed };))
    }
}
