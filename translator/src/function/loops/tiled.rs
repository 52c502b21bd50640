//! Nests that reduce, with what they reduce in registers.

use incarnate_runtime::Result;
use incarnate_runtime::ir::nest::{Element, Item, Tiling};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::emit::{Writer, count, element, grid, turn};

impl Writer<'_, '_, '_> {
    /// Under which conditions a tiling comes to the same as the nest.
    pub(super) fn tiling_holds(&self, tiling: &Tiling) -> TokenStream {
        let store = grid(tiling.store);
        let (_, loops) = self.extent(&self.nest.views[tiling.store].index);
        let mut conditions = vec![quote!(support::is_distinct(#loops))];
        conditions.extend(tiling.apart.iter().map(|view| {
            let other = grid(*view);
            quote!(#store.is_apart(&#other))
        }));
        // What is not reduced is not to be stored either.
        conditions.extend(tiling.reductions.iter().map(|at| {
            let count = self.named_count(*at);
            quote!(#count != 0)
        }));
        quote!(#(#conditions)&&*)
    }

    /// The turns of a nest by its tiling.
    pub(super) fn tiled(&self, tiling: &Tiling) -> Result<TokenStream> {
        let view = &self.nest.views[tiling.store];
        let (store, lanes, lane_count) = (grid(tiling.store), turn(tiling.lanes), self.named_count(tiling.lanes));
        let index = |lane: TokenStream| {
            let turns = view.index.turns().into_iter().map(|at| {
                let turn = turn(at);
                if at == tiling.lanes { lane.clone() } else { quote!(#turn) }
            });
            quote!([#(#turns),*])
        };
        let (in_strip, alone) = (index(quote!(first + lane)), index(quote!(#lanes)));
        let strip = self.reduced(tiling, quote!(*sum))?;
        let single = self.reduced(tiling, quote!(sum))?;
        let (ty, width) = (element(view.element), Literal::usize_unsuffixed(tiling.width));
        let is_float = matches!(view.element, Element::f32 | Element::f64);
        let zero = if is_float { quote!(0.0) } else { quote!(0) };
        let strip = match self.turns.borrow()[tiling.lanes] {
            true => quote! {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let #lanes = first + lane;
                    #strip
                }
            },
            false => quote!(for sum in &mut sums { #strip }),
        };
        let strip = self.reductions(tiling, strip);
        let single = self.reductions(tiling, single);
        let mut tokens = quote! {
            let mut first = 0;
            while first + #width <= #lane_count {
                let mut sums: [#ty; #width] = [#zero; #width];
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum = #store.get(#in_strip);
                }
                #strip
                for (lane, sum) in sums.iter().enumerate() {
                    #store.set(#in_strip, *sum);
                }
                first += #width;
            }
            for #lanes in first..#lane_count {
                let mut sum = #store.get(#alone);
                #single
                #store.set(#alone, sum);
            }
        };
        for at in tiling.outer.iter().rev() {
            let (turn, count) = (turn(*at), self.named_count(*at));
            tokens = quote!(for #turn in 0..#count { #tokens });
        }
        Ok(tokens)
    }

    /// A turn of all loops, with the element that is stored in a variable.
    fn reduced(&self, tiling: &Tiling, sum: TokenStream) -> Result<TokenStream> {
        self.turns.borrow_mut().fill(false);
        self.sum.replace(Some((tiling.store, sum)));
        let mut tokens = TokenStream::new();
        for at in self.nest.path(tiling.innermost) {
            tokens.extend(self.inductions(at));
        }
        for item in &self.nest.loops[tiling.innermost].items {
            if let Item::Instruction(block, position) = item {
                tokens.extend(self.instruction(*block, *position)?);
            }
        }
        self.sum.replace(None);
        Ok(tokens)
    }

    fn reductions(&self, tiling: &Tiling, body: TokenStream) -> TokenStream {
        tiling.reductions.iter().rev().fold(body, |body, at| {
            let (name, count) = (turn(*at), count(*at));
            let name = if self.turns.borrow()[*at] { quote!(#name) } else { quote!(_) };
            quote!(for #name in 0..#count { #body })
        })
    }
}
