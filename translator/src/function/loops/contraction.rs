//! Emission of contractions: one call of a kernel.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::{Affine, Contraction, Factor, Product};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::emit::{Writer, element, is_extended};

impl Writer<'_, '_, '_> {
    /// Emits the call that runs a contraction; it leaves the nest where it refuses. `permitted` is evaluated last.
    pub(super) fn contraction(
        &self,
        contraction: &Contraction,
        permitted: Option<TokenStream>,
        label: &TokenStream,
    ) -> Result<TokenStream> {
        let operation = operation(contraction.operation);
        let index = |view: usize| &self.nest.views[view].index;
        let [output, left, right] = [contraction.output, contraction.left.view, contraction.right.view].map(index);
        let loops = contraction.loops.iter().map(|at| {
            let count = self.used_count(*at);
            let [output, left, right] = [output, left, right].map(|form| self.form(form.stride(*at)));
            quote!((#count, #output, #left, #right))
        });
        let loops = quote!([#(#loops),*]);
        let output = self.operand(contraction.output, output);
        let (left_function, right_function) = (self.computed(&contraction.left)?, self.computed(&contraction.right)?);
        let (left, right) = (self.operand(contraction.left.view, left), self.operand(contraction.right.view, right));
        let permitted = permitted.map(|permitted| quote!(, #permitted));
        Ok(quote! {
            if !support::contract!(#operation, #output, #left #left_function, #right #right_function, #loops #permitted) {
                break #label;
            }
        })
    }

    /// A buffer, and the index of the element of the first iteration.
    fn operand(&self, view: usize, index: &Affine) -> TokenStream {
        let (buffer, base) = (self.emitter.name(self.nest.views[view].buffer), self.form(index.base()));
        quote!((#buffer, #base))
    }

    /// The function of an operand that is computed from elements.
    fn computed(&self, factor: &Factor) -> Result<Option<TokenStream>> {
        if factor.is_memory(self.nest) {
            return Ok(None);
        }
        let (name, of) = (self.emitter.name(factor.loaded), self.nest.views[factor.view].element);
        let ty = element(of);
        let mut body = TokenStream::new();
        for (block, position) in &factor.instructions {
            body.extend(self.instruction(*block, *position)?);
        }
        let value = self.emitter.name(factor.value);
        let extended = is_extended(of).then(|| quote!(i32::from(#name)));
        Ok(Some(match extended {
            Some(extended) if factor.instructions.is_empty() => quote!(.map(|#name: #ty| #extended)),
            Some(extended) => quote!(.map(|#name: #ty| { let #name = #extended; #body #value })),
            None => quote!(.map(|#name: #ty| { #body #value })),
        }))
    }
}

/// The kernel's name of an operation.
fn operation(product: Product) -> Ident {
    match product {
        Product::FmaF32 => format_ident!("FmaF32"),
        Product::MulAddF32 => format_ident!("MulAddF32"),
        Product::MulAddI32 => format_ident!("MulAddI32"),
    }
}
