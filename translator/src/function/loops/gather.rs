//! Emission of loads at computed indices.

use incarnate_bytecode::ir::Inst;
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::emit::{Writer, element, grid, is_extended};
use super::passed::Passed;

impl Writer<'_, '_, '_> {
    /// Borrows the buffers of gathers, and checks that nothing is stored to what the nest loads: where an index is out of range, the loops of
    /// the bytecode run after it.
    pub(super) fn gathers(&self) -> TokenStream {
        let label = &self.label;
        let mut tokens = TokenStream::new();
        if self.nest.gathers.is_empty() {
            return tokens;
        }
        let is_used = |at: usize| self.nest.accesses.iter().any(|access| access.view == at && self.is_live(access));
        let (stores, loads): (Vec<usize>, Vec<usize>) =
            (0..self.nest.views.len()).filter(|at| is_used(*at)).partition(|at| self.nest.views[*at].written);
        let borrowed: Vec<usize> = (0..self.nest.gathers.len()).filter(|at| self.borrowed(*at) == *at).collect();
        for at in &borrowed {
            let (name, gather) = (gathered(*at), &self.nest.gathers[*at]);
            let (buffer, element) = (self.emitter.name(gather.buffer), element(gather.element));
            let stores = stores.iter().map(|store| grid(*store));
            tokens.extend(quote!(let Some(#name) = support::gather_of!(#buffer, #element) else { break #label; };));
            tokens.extend(quote!(let #name = #name #(.except(&#stores))*;));
        }
        let mut conditions = Vec::new();
        for (number, store) in stores.iter().enumerate() {
            let stored = grid(*store);
            conditions.extend(loads.iter().map(|load| grid(*load)).map(|loaded| quote!(#stored.is_disjoint(&#loaded))));
            let others = stores[..number].iter().map(|other| grid(*other));
            conditions.extend(others.map(|other| quote!(#stored.is_disjoint(#other.as_grid()))));
        }
        if !conditions.is_empty() {
            tokens.extend(quote!(if !(#(#conditions)&&*) { break #label; }));
        }
        tokens
    }

    /// The first gather from the elements of a gather, which borrows them.
    fn borrowed(&self, at: usize) -> usize {
        let of = |at: usize| (self.nest.gathers[at].buffer, self.nest.gathers[at].element);
        (0..at).find(|other| of(*other) == of(at)).unwrap_or(at)
    }

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
    pub(super) fn gather(&self, at: usize, inst: &Inst) -> Result<TokenStream> {
        let [result] = inst.results[..] else { return Err(Error::internal("a load with several results")) };
        let gather = &self.nest.gathers[at];
        let (from, index) = (gathered(self.borrowed(at)), self.emitter.number(gather.index));
        let is_settled = self.index_values.contains(result);
        let number = |value: TokenStream| {
            let value = if is_extended(gather.element) { quote!(i32::from(#value)) } else { value };
            if is_settled { quote!(support::settled(#value)) } else { value }
        };
        let name = if self.is_read(result) { self.emitter.name(result) } else { quote!(_) };
        if self.is_on_strips.get() {
            let value = number(quote!(#from.get(#index, &mut misses)));
            return Ok(quote!(let #name = #value;));
        }
        let (label, value, given_back) = (&self.label, number(quote!(element)), self.given_back());
        let missed = quote!({ #given_back break #label; });
        Ok(quote!(let #name = match #from.element(#index) { Some(element) => #value, None => #missed };))
    }
}

/// The variable of the elements of a gather.
fn gathered(at: usize) -> Ident {
    format_ident!("gather{}", at)
}
