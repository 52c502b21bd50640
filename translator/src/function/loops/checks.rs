//! Emission of the checks before a nest.

use incarnate_bytecode::ir::nest::{Check, Schedule};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::forms::integer;
use super::writer::{Writer, count, element, grid};

impl Writer<'_, '_, '_> {
    /// Checks, each of which leaves the nest's block where it does not hold.
    pub(super) fn checked(&self, checks: &[Check]) -> TokenStream {
        let label = &self.label;
        let (mut tokens, mut relations) = (TokenStream::new(), Vec::new());
        for check in checks {
            match check {
                Check::Bounded(at) => tokens.extend(self.bounded(*at)),
                Check::InRange(view) => tokens.extend(self.in_range(*view)),
                Check::Kept(gather) => tokens.extend(self.kept(*gather)),
                relation => relations.extend(self.relation(relation)),
            }
        }
        if !relations.is_empty() {
            tokens.extend(quote!(if !(#(#relations)&&*) { break #label; }));
        }
        tokens
    }

    fn bounded(&self, at: usize) -> TokenStream {
        let (label, condition) = (&self.label, &self.nest.conditions[at]);
        let (base, loops) = self.extent(&condition.form);
        let (least, greatest) = (integer(condition.least), integer(condition.greatest));
        quote!(if !support::is_within(#base, &#loops, #least, #greatest) { break #label; })
    }

    /// Makes the grid of a view, or of all that have one in common.
    fn in_range(&self, at: usize) -> TokenStream {
        if self.joined.grid_of(at) != at {
            return TokenStream::new();
        }
        let (label, view) = (&self.label, &self.nest.views[at]);
        let base = self.form(view.index.base());
        let mut loops = self.loops_of(&view.index);
        loops.extend(self.joined.last_loop(at));
        let (name, buffer, element) = (grid(at), self.emitter.name(view.buffer), element(view.element));
        let dimensions = Literal::usize_unsuffixed(loops.len());
        let function = if view.written { format_ident!("grid_mut") } else { format_ident!("grid") };
        let is_named = self.scheduled.is_used(at) && self.scheduled.schedule != Schedule::Zeros;
        let name = if is_named { quote!(#name) } else { quote!(_) };
        quote! {
            let Some(#name) = support::elements_of!(#buffer, #function, #element, #dimensions, #base, [#(#loops),*])
            else { break #label; };
        }
    }

    /// Borrows the elements of a gather, without those that are stored.
    fn kept(&self, at: usize) -> Option<TokenStream> {
        if self.borrowed(at) != at {
            return None;
        }
        let (label, name, gather) = (&self.label, gathered(at), &self.nest.gathers[at]);
        let (buffer, element) = (self.emitter.name(gather.buffer), element(gather.element));
        let is_stored = |view: &usize| self.nest.views[*view].written && self.scheduled.is_used(*view);
        let stores = (0..self.nest.views.len()).filter(is_stored).map(grid);
        Some(quote! {
            let Some(#name) = support::gather_of!(#buffer, #element) else { break #label; };
            let #name = #name #(.except(&#stores))*;
        })
    }

    /// A check of trip counts, or of checked elements, as an expression; none of kinds that are no relations.
    fn relation(&self, check: &Check) -> Option<TokenStream> {
        let other_grid = |view: usize| {
            let name = grid(view);
            if self.nest.views[view].written { quote!(#name.as_grid()) } else { quote!(&#name) }
        };
        Some(match *check {
            Check::Distinct(view) => {
                let (_, loops) = self.extent(&self.nest.views[view].index);
                quote!(support::is_injective(&#loops))
            }
            Check::Disjoint(_, other) | Check::DisjointOrSame(_, other) if self.joined.grid_of(other) != other => {
                return None;
            }
            Check::Disjoint(store, other) => {
                let (store, other) = (grid(store), other_grid(other));
                quote!(#store.is_disjoint(#other))
            }
            // A grid of several views is not that of one.
            Check::DisjointOrSame(store, load) if self.joined.last_loop(load).is_some() => {
                self.relation(&Check::Disjoint(store, load))?
            }
            Check::DisjointOrSame(store, load) => {
                let (store, load) = (grid(store), other_grid(load));
                quote!((#store.is_disjoint(#load) || #store.is_same(#load)))
            }
            Check::NotEmpty(at) => {
                let count = count(at);
                quote!(#count != 0)
            }
            Check::Bounded(_) | Check::InRange(_) | Check::Kept(_) => return None,
        })
    }

    /// The first gather from the elements of a gather, which borrows them.
    pub(super) fn borrowed(&self, at: usize) -> usize {
        let of = |at: usize| (self.nest.gathers[at].buffer, self.nest.gathers[at].element);
        (0..at).find(|other| of(*other) == of(at)).unwrap_or(at)
    }
}

/// The variable of the elements of a gather.
pub(super) fn gathered(at: usize) -> Ident {
    format_ident!("gather{}", at)
}
