//! Emission of quotients and rests of what loops count.

use incarnate_bytecode::ir::nest::{Affine, Dividend, Schedule};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::forms::integer;
use super::writer::{Prepared, Writer, index};

impl Writer<'_, '_, '_> {
    /// The divisions that loops prepare: those of all loops that run in order, and those of the lanes of strips that gather.
    pub(super) fn divisions_prepared(&self) -> Prepared {
        let mut prepared = Prepared::new();
        let on_strips = match &self.scheduled.schedule {
            Schedule::Contraction(_) | Schedule::Zeros => return prepared,
            Schedule::Strips(strips) if self.scheduled.runs_on_strips() => Some(strips.innermost),
            Schedule::Strips(_) | Schedule::InOrder(_) => None,
        };
        if on_strips.is_some() && self.nest.gathers.is_empty() {
            return prepared;
        }
        for (at, division) in self.nest.divisions.iter().enumerate() {
            let is_emitted = self.scheduled.includes(division.block, division.position);
            let has_dividend = match division.dividend {
                Dividend::Form(_) => true,
                Dividend::Quotient(of) => prepared.contains_key(&of),
            };
            if is_emitted && has_dividend && on_strips.is_none_or(|innermost| division.within == innermost) {
                let same = prepared.values().copied().find(|other| self.is_same(&prepared, *other, at));
                prepared.insert(at, same.unwrap_or(at));
            }
        }
        prepared
    }

    /// What is divided once, before a loop: the divisions of the first iteration.
    pub(super) fn prepare_divisions(&self, within: usize) -> TokenStream {
        let mut tokens = TokenStream::new();
        for (at, division) in self.nest.divisions.iter().enumerate() {
            // Of the same number by the same divisor, the first one has a variable.
            if division.within != within || self.prepared.get(&at) != Some(&at) {
                continue;
            }
            let first = match &division.dividend {
                Dividend::Form(form) => self.first_of(form, within),
                Dividend::Quotient(of) => match self.variable(*of) {
                    Some(of) => quote!(#of.quotient(0)),
                    None => continue,
                },
            };
            let (name, divisor, most) = (divided(at), integer(division.divisor), integer(division.most));
            tokens.extend(quote!(let #name = support::Division::<#divisor, #most>::new(#first);));
        }
        tokens
    }

    /// Whether two divisions are of the same number by the same divisor.
    fn is_same(&self, prepared: &Prepared, one: usize, other: usize) -> bool {
        let (one, other) = (&self.nest.divisions[one], &self.nest.divisions[other]);
        (one.within, one.divisor, one.most) == (other.within, other.divisor, other.most)
            && match (&one.dividend, &other.dividend) {
                (Dividend::Quotient(one), Dividend::Quotient(other)) => prepared.get(one) == prepared.get(other),
                (one, other) => one == other,
            }
    }

    /// The variable of a division that a loop prepares.
    fn variable(&self, at: usize) -> Option<Ident> {
        self.prepared.get(&at).map(|first| divided(*first))
    }

    /// The lanes of a strip. Most strips are within one row, so that what is computed from quotients is the same for all lanes: the compiler
    /// sees that where the quotients are.
    pub(super) fn by_rows(&self, within: usize, lanes: TokenStream) -> TokenStream {
        let is_of_loop = |(at, first): &(&usize, &usize)| {
            let division = &self.nest.divisions[**at];
            at == first && division.within == within && matches!(division.dividend, Dividend::Form(_))
        };
        let divided: Vec<Ident> = self.prepared.iter().filter(is_of_loop).map(|(at, _)| divided(*at)).collect();
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

    /// The conditions under which what was prepared is right: no dividend is negative.
    pub(super) fn division_conditions(&self) -> TokenStream {
        let label = &self.label;
        let mut forms: Vec<&Affine> = Vec::new();
        for at in self.prepared.keys() {
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
        let index = index(division.within);
        quote!(#index as i64)
    }

    /// The value of a form in the first iteration of a loop.
    fn first_of(&self, form: &Affine, within: usize) -> TokenStream {
        let mut sum = self.form(form.base());
        for at in form.loops().into_iter().filter(|at| *at != within) {
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
