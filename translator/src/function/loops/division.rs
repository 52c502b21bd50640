//! Emission of quotients and rests of what loops count.

use std::collections::BTreeSet;

use incarnate_bytecode::ir::nest::{Affine, Dividend, Division};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::emit::{Writer, index};
use super::forms::integer;

/// The divisions that loops around the current instruction have prepared, and all that any loop has.
#[derive(Default)]
pub(super) struct Prepared {
    current: BTreeSet<usize>,
    all: BTreeSet<usize>,
}

impl Writer<'_, '_, '_> {
    /// What is divided once, before a loop: the divisions of the first iteration.
    pub(super) fn prepare_divisions(&self, within: usize) -> TokenStream {
        let mut tokens = TokenStream::new();
        for (at, division) in self.nest.divisions.iter().enumerate().filter(|(_, division)| division.within == within) {
            let is_prepared = match division.dividend {
                Dividend::Form(_) => true,
                Dividend::Quotient(of) => self.prepared.borrow().current.contains(&of),
            };
            if !is_prepared || !self.is_emitted(division.block, division.position) {
                continue;
            }
            let mut prepared = self.prepared.borrow_mut();
            prepared.current.insert(at);
            prepared.all.insert(at);
            drop(prepared);
            if self.same_division(at) == at {
                let (name, divisor, most) = (divided(at), integer(division.divisor), integer(division.most));
                let first = match &division.dividend {
                    Dividend::Form(form) => self.first_of(form, within),
                    Dividend::Quotient(of) => {
                        let of = divided(self.same_division(*of));
                        quote!(#of.quotient(0))
                    }
                };
                tokens.extend(quote!(let #name = support::Division::<#divisor, #most>::new(#first);));
            }
        }
        tokens
    }

    /// The lanes of a strip. Most strips are within one row, so that what is computed from quotients is the same for all lanes: the compiler
    /// sees that where the quotients are.
    pub(super) fn by_rows(&self, within: usize, lanes: TokenStream) -> TokenStream {
        let divisions = self.prepared.borrow().current.clone();
        let divided: Vec<Ident> = divisions
            .into_iter()
            .filter(|at| {
                let division = &self.nest.divisions[*at];
                division.within == within
                    && matches!(division.dividend, Dividend::Form(_))
                    && self.same_division(*at) == *at
            })
            .map(divided)
            .collect();
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
        self.prepared.borrow_mut().current.retain(|at| self.nest.divisions[*at].within != within);
    }

    /// The conditions under which what was prepared is right: no dividend is negative.
    pub(super) fn division_conditions(&self, label: &TokenStream) -> TokenStream {
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
        self.prepared.borrow().current.contains(&at).then(|| {
            let division = &self.nest.divisions[at];
            let (name, step) = (divided(self.same_division(at)), self.step_of(division));
            if division.is_rest { quote!(#name.rest(#step)) } else { quote!(#name.quotient(#step)) }
        })
    }

    /// How much more is divided than in the first iteration.
    fn step_of(&self, division: &Division) -> TokenStream {
        match division.dividend {
            Dividend::Form(_) => {
                self.used_indices.borrow_mut()[division.within] = true;
                let index = index(division.within);
                quote!(#index as i64)
            }
            Dividend::Quotient(of) => {
                let (name, step) = (divided(self.same_division(of)), self.step_of(&self.nest.divisions[of]));
                quote!(#name.carry(#step))
            }
        }
    }

    /// The first division of the same number by the same one.
    fn same_division(&self, at: usize) -> usize {
        let divisions = &self.nest.divisions;
        let is_same = |other: &usize| {
            let (one, two) = (&divisions[*other], &divisions[at]);
            self.prepared.borrow().current.contains(other)
                && (one.within, one.divisor, one.most) == (two.within, two.divisor, two.most)
                && match (&one.dividend, &two.dividend) {
                    (Dividend::Form(one), Dividend::Form(two)) => one == two,
                    (Dividend::Quotient(one), Dividend::Quotient(two)) => {
                        self.same_division(*one) == self.same_division(*two)
                    }
                    _ => false,
                }
        };
        (0..at).find(is_same).unwrap_or(at)
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
