//! Emission of contractions: a call of the runtime's kernels.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::{Contraction, Element, Factor, Product};
use proc_macro2::TokenStream;
use quote::quote;

use super::emit::{Writer, element};

impl Writer<'_, '_, '_> {
    /// Emits a contraction: an expression that is false where nothing was done.
    pub(super) fn contraction(&self, contraction: &Contraction) -> Result<TokenStream> {
        let (product, number) = match contraction.product {
            Product::FmaF32 => (quote!(FmaF32), Element::f32),
            Product::MulAddF32 => (quote!(MulAddF32), Element::f32),
            Product::MulAddI32 => (quote!(MulAddI32), Element::i32),
        };
        let output = self.view(contraction.output);
        let (left, right) = (self.factor(&contraction.left, number)?, self.factor(&contraction.right, number)?);
        let loops = contraction.loops.iter().map(|at| {
            let count = self.used_count(*at);
            let strides = [contraction.output, contraction.left.view, contraction.right.view]
                .map(|view| self.form(self.nest.views[view].index.stride(*at)));
            quote!((#count, #(#strides),*))
        });
        Ok(quote!(support::contract!(#product, #output, #left, #right, [#(#loops),*])))
    }

    /// The elements of a view.
    fn view(&self, view: usize) -> TokenStream {
        let view = &self.nest.views[view];
        let (buffer, base, ty) = (self.emitter.name(view.buffer), self.form(view.index.base()), element(view.element));
        quote!(support::View::<#ty>::new(&#buffer, #base))
    }

    /// The numbers of a factor.
    fn factor(&self, factor: &Factor, number: Element) -> Result<TokenStream> {
        let (view, of) = (self.view(factor.view), self.nest.views[factor.view].element);
        if factor.instructions.is_empty() && of == number {
            return Ok(view);
        }
        let (loaded, value, ty) = (self.emitter.name(factor.loaded), self.emitter.name(factor.value), element(of));
        let extended = match of {
            Element::u8 | Element::i8 | Element::u16 | Element::i16 => quote!(i32::from(#loaded)),
            _ => quote!(#loaded),
        };
        if factor.instructions.is_empty() {
            return Ok(quote!(#view.map(|#loaded: #ty| #extended)));
        }
        let extension = (extended.to_string() != loaded.to_string()).then(|| quote!(let #loaded = #extended;));
        let mut body = TokenStream::new();
        for (block, position) in &factor.instructions {
            body.extend(self.instruction(*block, *position)?);
        }
        Ok(quote!(#view.map(|#loaded: #ty| { #extension #body #value })))
    }
}
