//! Emission of quotients and rests of what loops count.

use incarnate_bytecode::ir::nest::{Affine, Dividend};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::forms::integer;
use super::writer::{Prepared, Writer, index};

impl Writer<'_, '_, '_> {
    /// What is divided once, before a loop: the divisions of the first iteration.
    pub(super) fn prepare_divisions(&self, within: usize) -> TokenStream {
        let mut tokens = TokenStream::new();
        for (at, division) in self.nest.divisions.iter().enumerate() {
            if division.within != within || !self.scheduled.includes(division.block, division.position) {
                continue;
            }
            let first = match &division.dividend {
                Dividend::Form(form) => self.first_of(form, within),
                Dividend::Quotient(of) => match self.variable(*of) {
                    Some(of) => quote!(#of.quotient(0)),
                    None => continue,
                },
            };
            let mut prepared = self.prepared.borrow_mut();
            let same = prepared.current.values().copied().find(|other| self.is_same(&prepared, *other, at));
            prepared.current.insert(at, same.unwrap_or(at));
            prepared.all.insert(at);
            if same.is_none() {
                let (name, divisor, most) = (divided(at), integer(division.divisor), integer(division.most));
                tokens.extend(quote!(let #name = support::Division::<#divisor, #most>::new(#first);));
            }
        }
        tokens
    }

    /// Whether two divisions are of the same number by the same divisor.
    fn is_same(&self, prepared: &Prepared, one: usize, other: usize) -> bool {
        let (one, other) = (&self.nest.divisions[one], &self.nest.divisions[other]);
        (one.within, one.divisor, one.most) == (other.within, other.divisor, other.most)
            && match (&one.dividend, &other.dividend) {
                (Dividend::Quotient(one), Dividend::Quotient(other)) => {
                    prepared.current.get(one) == prepared.current.get(other)
                }
                (one, other) => one == other,
            }
    }

    /// The variable of a division that a loop has prepared.
    fn variable(&self, at: usize) -> Option<Ident> {
        self.prepared.borrow().current.get(&at).map(|first| divided(*first))
    }

    /// The lanes of a strip. Most strips are within one row, so that what is computed from quotients is the same for all lanes: the compiler
    /// sees that where the quotients are.
    pub(super) fn by_rows(&self, within: usize, lanes: TokenStream) -> TokenStream {
        let divisions = self.prepared.borrow().current.clone();
        let is_of_loop = |(at, first): &(&usize, &usize)| {
            let division = &self.nest.divisions[**at];
            at == first && division.within == within && matches!(division.dividend, Dividend::Form(_))
        };
        let divided: Vec<Ident> = divisions.iter().filter(is_of_loop).map(|(at, _)| divided(*at)).collect();
        if divided.is_empty() {
            return lanes;
        }
        quote! {
            let start = (first + strip * step) as i64;
            if #(#divided.is_row(start, L))&&* {
                #(let #divided = #divided.row(start);)*
                #lanes
            } else {
                #lanes
            }
        }
    }

    /// Forgets the divisions of a loop behind its iterations.
    pub(super) fn forget_divisions(&self, within: usize) {
        self.prepared.borrow_mut().current.retain(|at, _| self.nest.divisions[*at].within != within);
    }

    /// The conditions under which what was prepared is right: no dividend is negative.
    pub(super) fn division_conditions(&self) -> TokenStream {
        let label = &self.label;
        let mut forms: Vec<&Affine> = Vec::new();
        for at in &self.prepared.borrow().all {
            if let Dividend::Form(form) = &self.nest.divisions[*at].dividend
                && !forms.contains(&form)
            {
                forms.push(form);
            }
        }
        let conditions = forms.into_iter().map(|form| {
            let (base, loops) = self.extent(form);
            quote!(if !support::is_within(#base, &#loops, 0, i64::MAX) { break #label; })
        });
        conditions.collect()
    }

    /// The result of a division that a loop has prepared.
    pub(super) fn division(&self, at: usize) -> Option<TokenStream> {
        let (name, step) = (self.variable(at)?, self.step_of(at));
        Some(if self.nest.divisions[at].is_rest { quote!(#name.rest(#step)) } else { quote!(#name.quotient(#step)) })
    }

    /// How much more is divided than in the first iteration.
    fn step_of(&self, at: usize) -> TokenStream {
        let division = &self.nest.divisions[at];
        if let Dividend::Quotient(of) = division.dividend
            && let Some(name) = self.variable(of)
        {
            let step = self.step_of(of);
            return quote!(#name.carry(#step));
        }
        self.used_indices.borrow_mut()[division.within] = true;
        let index = index(division.within);
        quote!(#index as i64)
    }

    /// The value of a form in the first iteration of a loop.
    fn first_of(&self, form: &Affine, within: usize) -> TokenStream {
        let mut sum = self.form(form.base());
        for at in form.loops().into_iter().filter(|at| *at != within) {
            self.used_indices.borrow_mut()[at] = true;
            let (index, stride) = (index(at), self.stride(form, at));
            sum = quote!((#index as i64).wrapping_mul(#stride).wrapping_add(#sum));
        }
        sum
    }
}

/// The variable of a division.
fn divided(at: usize) -> Ident {
    format_ident!("division{}", at)
}
