//! Iterations with variants of their own: they are compiled for several sets of target features; the checks before them and the original loop
//! are not. Where there are many, threads divide them.

use incarnate_bytecode::ir::nest::{DIVIDED, Strips};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::super::multiversion;
use super::forms::{integer, unsigned};
use super::passed::Passed;
use super::writer::{Writer, count, grid, mentions};

impl Writer<'_, '_, '_> {
    /// Whether the iterations of strips have variants of their own.
    pub(super) fn has_variants(&self, strips: &Strips) -> bool {
        let is_worthwhile = self.emitter.analysis.target_features != 0 && multiversion::is_long(self.nest);
        self.nest.gathers.is_empty() && (is_worthwhile || self.is_divided(strips))
    }

    /// Whether threads divide the iterations of one of the outer loops: there are many, of constant trip counts, and none computes with the
    /// index of such a loop, which a part counts from zero.
    fn is_divided(&self, strips: &Strips) -> bool {
        let reads_index =
            |at: usize| self.nest.loops[at].inductions.iter().any(|each| self.scheduled.reads(each.parameter));
        let mut divided = strips.around().peekable();
        self.nest.iterations() >= DIVIDED && divided.peek().is_some() && !divided.any(reads_index)
    }

    /// Emits variants of iterations, those of the loops around strips and of these, and the call of one.
    pub(super) fn with_variants(&self, strips: &Strips, iterations: TokenStream) -> TokenStream {
        let plan = self.plan(strips);
        let divided: Vec<usize> = if self.is_divided(strips) { strips.around().collect() } else { Vec::new() };
        let mut fields = Passed::default();
        let (mut counts, mut grids) = (TokenStream::new(), TokenStream::new());
        for view in &plan.views {
            let (name, ty) = (grid(*view), self.grid_type(*view, &quote!('a)));
            fields.push(&name, quote!(&'a #ty), quote!(&#name));
            grids.extend(self.part_of_grid(*view, &divided));
        }
        self.captured(&plan).into_iter().for_each(|(name, ty)| fields.push_variable(name, ty));
        let within = strips.reductions.iter().copied().chain([strips.lanes]);
        let within: Vec<usize> =
            strips.outer.iter().copied().filter(|at| !divided.contains(at)).chain(within).collect();
        let is_mentioned = |at: &usize| Some(*at) != strips.jammed || mentions(&grids, &count(*at));
        for at in within.iter().copied().filter(is_mentioned) {
            let name = count(at);
            match self.literal_count(at) {
                Some(known) => {
                    let known = unsigned(known);
                    counts.extend(quote!(let #name: usize = #known;));
                }
                None => fields.push_variable(name, quote!(usize)),
            }
        }
        if !divided.is_empty() {
            let names = divided.iter().map(|at| (format_ident!("first{}", at), count(*at)));
            let names = names.map(|(first, count)| quote!((#first, #count)));
            let number = Literal::usize_unsuffixed(divided.len());
            fields.push(quote!([#(#names),*]), quote!([(usize, usize); #number]), quote!(loops));
        }
        let body = fields.push_constants(quote!(#counts #grids #iterations));
        let Passed { names, types, values } = fields;
        let products = if self.sums.is_empty() { quote!(_) } else { quote!(products) };
        let target_features = Literal::u8_unsuffixed(self.emitter.analysis.target_features);
        let call = quote!(support::multiversioned::<#target_features, _>(Iterations(#(#values),*)));
        let call = match &divided[..] {
            [] => quote!(#call;),
            divided => {
                let around = divided.iter().map(|at| count(*at));
                let within = within.iter().map(|at| count(*at));
                quote!(support::divide([#(#around),*], [#(#within),*], &|loops| { #call });)
            }
        };
        quote! {
            struct Iterations<'a>(#(#types),*);
            impl support::Multiversion for Iterations<'_> {
                type Output = ();
                #[inline(always)]
                fn run<const LANES: usize>(self, #products: impl support::IntegerProducts) {
                    let Iterations(#(#names),*) = self;
                    #body
                }
            }
            #call
        }
    }

    /// Makes of a checked grid that of the iterations of a part. The compiler sees constant strides and trip counts again.
    fn part_of_grid(&self, view: usize, divided: &[usize]) -> TokenStream {
        let name = grid(view);
        let index = &self.nest.views[view].index;
        let axes = self.scheduled.axes(index);
        let first = axes.iter().map(|at| match divided.contains(at) {
            true => {
                let first = format_ident!("first{}", at);
                quote!(#first)
            }
            false => quote!(0),
        });
        let first = first.chain(self.joined.last_index(view));
        let loops = axes.iter().enumerate().map(|(axis, at)| {
            let count = count(*at);
            let stride = match index.constant_stride(*at).filter(|_| !self.is_parameter(*at, false)) {
                Some(stride) => integer(stride),
                None => {
                    let axis = Literal::usize_unsuffixed(axis);
                    quote!(#name.stride(#axis))
                }
            };
            quote!((#count, #stride))
        });
        let loops = loops.chain(self.joined.last_loop(view));
        quote!(let #name = #name.subgrid([#(#first),*], [#(#loops),*]);)
    }
}
