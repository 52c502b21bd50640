//! Emission of contractions: a call of the runtime's kernels.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::{Contraction, Factor, Order, Product};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::writer::{Writer, count, element, is_extended};

impl Writer<'_, '_, '_> {
    /// Emits a contraction: an expression that is false where nothing was done. `permitted` is evaluated last.
    pub(super) fn contraction(&self, contraction: &Contraction, permitted: Option<TokenStream>) -> Result<TokenStream> {
        let product = match (contraction.operation, contraction.order) {
            (Product::FmaF32, Order::Bytecode) => quote!(FmaF32),
            (Product::FmaF32, Order::Any) => quote!(FmaF32AnyOrder),
            (Product::MulAddF32, Order::Bytecode) => quote!(MulAddF32),
            (Product::MulAddF32, Order::Any) => quote!(MulAddF32AnyOrder),
            (Product::MulAddI32, _) => quote!(MulAddI32),
            (Product::AddF32, Order::Bytecode) => quote!(MulAddF32),
            (Product::AddF32, Order::Any) => quote!(MulAddF32AnyOrder),
        };
        let (buffer, base) = self.view(contraction.output);
        let zeros = self.nest.views[contraction.output].zeros.then(|| quote!(, of_zeros));
        let output = quote!((#buffer, #base #zeros));
        let left = contraction.left.as_ref().map_or_else(|| Ok(quote!(one)), |left| self.factor(left))?;
        let right = self.factor(&contraction.right)?;
        let loops = contraction.loops.iter().map(|at| {
            let count = count(*at);
            let stride = |view: usize| self.stride(&self.nest.views[view].index, *at);
            let (output, right) = (stride(contraction.output), stride(contraction.right.view));
            let left = match (&contraction.left, contraction.order) {
                (Some(left), _) => stride(left.view),
                (None, Order::Any) => right.clone(),
                (None, Order::Bytecode) => quote!(0),
            };
            quote!((#count, #output, #left, #right))
        });
        let permitted = permitted.map(|permitted| quote!(, #permitted));
        Ok(quote!(support::contract!(#product, #output, #left, #right, [#(#loops),*] #permitted)))
    }

    /// The buffer of a view, and the index of the element of the first iteration.
    fn view(&self, view: usize) -> (TokenStream, TokenStream) {
        let view = &self.nest.views[view];
        (self.emitter.name(view.buffer), self.form(view.index.base()))
    }

    /// The numbers of a factor.
    fn factor(&self, factor: &Factor) -> Result<TokenStream> {
        let ((buffer, base), of) = (self.view(factor.view), self.nest.views[factor.view].element);
        let view = quote!((#buffer, #base));
        if factor.is_memory(self.nest) {
            return Ok(view);
        }
        if let Some(narrow) = factor.narrow(self.emitter.body.function, self.nest) {
            let extended = format_ident!("extended_{}", element(narrow).to_string());
            return Ok(quote!(#view.#extended()));
        }
        let (loaded, ty) = (self.emitter.name(factor.loaded), element(of));
        let extended = is_extended(of).then(|| quote!(i32::from(#loaded)));
        let Some(((block, position), before)) = factor.instructions.split_last() else {
            return Ok(quote!(#view.map(|#loaded: #ty| #extended)));
        };
        let mut body = extended.map(|extended| quote!(let #loaded = #extended;)).unwrap_or_default();
        for (block, position) in before {
            body.extend(self.instruction(*block, *position, None)?);
        }
        let value = self.expression(self.nest.instruction(self.emitter.body.function, *block, *position))?;
        let body = if body.is_empty() { value } else { quote!({ #body #value }) };
        Ok(quote!(#view.map(|#loaded: #ty| #body)))
    }
}
