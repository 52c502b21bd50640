//! Emission of reductions along adjacent elements, whose partial results stay in vector registers.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::{Reduce, Reduction, Strips};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::emit::{Writer, grid, index};
use super::passed::Passed;
use super::strips::accumulators;

impl Writer<'_, '_, '_> {
    /// The conditions under which a reduction is valid.
    pub(super) fn reduction_conditions(&self, reduction: &Reduction) -> TokenStream {
        let (conditions, count) =
            (self.strip_conditions(&reduction.strips, false), self.used_count(reduction.strips.lanes));
        quote!(#conditions && #count != 0)
    }

    /// Emits a function for some adjacent numbers, and the loops around it.
    pub(super) fn reduction(&self, reduction: &Reduction) -> Result<TokenStream> {
        let strips = &reduction.strips;
        let around = strips.outer.iter().chain(&strips.reductions).copied().collect();
        let plan_of = Strips { outer: around, reductions: Vec::new(), ..strips.clone() };
        let plan = self.plan(&plan_of);
        self.used_indices.borrow_mut().fill(false);
        let work = self.iteration(&plan)?;
        let mut passed = Passed::default();
        for view in &strips.non_aliasing {
            let (name, ty) = (grid(*view), self.grid_type(*view, &quote!('_)));
            passed.push(&name, quote!(&#ty), quote!(&#name));
        }
        let is_used = |at: &usize| self.used_indices.borrow()[*at];
        let indices = plan_of.outer.iter().copied().filter(|at| is_used(at)).map(index);
        indices.for_each(|name| passed.push_variable(name, quote!(usize)));
        self.captured(&plan).into_iter().for_each(|(name, ty)| passed.push_variable(name, ty));
        let slices = self.slices(&plan, &strips.non_aliasing);
        let work = passed.push_constants(quote!(#slices #work));
        let (parameters, arguments) = (passed.parameters(), &passed.values);
        let output = strips.stores.first().copied().unwrap_or_default();
        let (partial, trip_count) = (accumulators(output), self.used_count(strips.lanes));
        let mut loops = quote!(support::partial_results!(#trip_count, #partial, strip(#(#arguments),*)););
        for at in strips.reductions.iter().rev() {
            let (name, count) = (index(*at), self.used_count(*at));
            let name = if is_used(at) { quote!(#name) } else { quote!(_) };
            loops = quote!(for #name in 0..#count { #loops });
        }
        let element = self.element(reduction, output);
        let identity = identity(reduction.operation);
        loops = quote! {
            let mut #partial = [[#identity; support::PARTIAL]];
            #loops
            #element
        };
        for at in strips.outer.iter().rev() {
            let (index, count) = (index(*at), self.used_count(*at));
            loops = quote!(for #index in 0..#count { #loops });
        }
        Ok(quote! {
            #[inline(always)]
            fn strip<const STRIPS: usize, const L: usize>(
                #(#parameters,)* mut #partial: [[f32; L]; STRIPS], first: usize
            ) -> [[f32; L]; STRIPS] {
                let step = L;
                #work
                #partial
            }
            #loops
        })
    }

    /// Combines an element with its partial results.
    fn element(&self, reduction: &Reduction, output: usize) -> TokenStream {
        let (output_grid, partial) = (grid(output), accumulators(output));
        let indices = self.nest.views[output].index.loops().into_iter().map(index);
        let indices = quote!([#(#indices),*]);
        let function = match reduction.operation {
            Reduce::AddF32 | Reduce::FmaF32 => quote!(semantics::add_f32),
            Reduce::MulF32 => quote!(semantics::mul_f32),
            Reduce::MaxF32 => quote!(semantics::max_f32),
            Reduce::MinF32 => quote!(semantics::min_f32),
            Reduce::MaxNumF32 => quote!(support::max_num_f32),
            Reduce::MinNumF32 => quote!(support::min_num_f32),
        };
        let operands = if reduction.is_swapped { quote!(number, result) } else { quote!(result, number) };
        quote! {
            let combined = |result: f32, number: f32| #function(#operands);
            let number = support::combine(#partial[0], combined);
            #output_grid.set(#indices, combined(#output_grid.get(#indices), number));
        }
    }
}

fn identity(operation: Reduce) -> TokenStream {
    match operation.identity() {
        f32::INFINITY => quote!(f32::INFINITY),
        f32::NEG_INFINITY => quote!(f32::NEG_INFINITY),
        number if number.is_nan() => quote!(f32::NAN),
        number => {
            let number = Literal::f32_unsuffixed(number);
            quote!(#number)
        }
    }
}
