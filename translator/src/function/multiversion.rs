//! Function multiversioning: bodies that are compiled for several sets of target features.

use incarnate_bytecode::ir::nest::Nest;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

/// The least number of iterations of a nest for which they, or its function, are multiversioned. Fewer iterations take about as long as
/// the selection of the variant.
const MIN_ITERATIONS: u64 = 256;

/// A parameter of a function.
#[derive(Clone)]
pub(super) struct Parameter {
    pub(super) name: Ident,
    /// Its type; the referenced type where it is borrowed.
    pub(super) ty: TokenStream,
    pub(super) is_mutable: bool,
    pub(super) is_borrowed: bool,
    /// The type takes a lifetime: that of the borrow.
    pub(super) has_lifetime: bool,
}

impl Parameter {
    /// Its declaration.
    pub(super) fn declaration(&self) -> TokenStream {
        let mutable = self.is_mutable.then(|| quote!(mut));
        let unchanged = self.unchanged();
        quote!(#mutable #unchanged)
    }

    /// Its declaration in a function that only passes it on.
    pub(super) fn unchanged(&self) -> TokenStream {
        let (name, borrow, ty) = (&self.name, self.borrow(), &self.ty);
        let lifetime = self.has_lifetime.then(|| quote!(<'_>));
        quote!(#name: #borrow #ty #lifetime)
    }

    /// The `&` of a borrowed parameter.
    pub(super) fn borrow(&self) -> Option<TokenStream> {
        self.is_borrowed.then(|| quote!(&))
    }
}

/// Whether a nest runs many iterations, or a number that is only known at run time.
pub(super) fn is_long(nest: &Nest) -> bool {
    let mut trip_counts = nest.loops.iter().map(|counted| counted.constant_trip_count());
    let product = trip_counts.try_fold(1u64, |product, count| Some(product.saturating_mul(count?)));
    product.is_none_or(|iterations| iterations >= MIN_ITERATIONS)
}

/// The signature of a multiversioned function, without its parameters.
pub(super) struct Multiversioned<'a> {
    pub(super) state: bool,
    pub(super) stack: bool,
    pub(super) result: &'a TokenStream,
}

impl Multiversioned<'_> {
    /// A body that runs the variant of `body` for the best of `target_features` that the processor supports, or the variant
    /// for the program's own target.
    pub(super) fn body(&self, target_features: u8, parameters: &[Parameter], body: &TokenStream) -> TokenStream {
        let result = self.result;
        let target_features = Literal::u8_unsuffixed(target_features);
        let mut types = Vec::new();
        let mut names = Vec::new();
        let mut patterns = Vec::new();
        let state = self.state.then(|| (quote!(state), quote!(&'a State)));
        let stack = self.stack.then(|| (quote!(stack), quote!(&'a mut Stack)));
        for (name, ty) in state.into_iter().chain(stack) {
            types.push(ty);
            patterns.push(name.clone());
            names.push(name);
        }
        for Parameter { name, ty, is_mutable, is_borrowed, has_lifetime } in parameters {
            let mutable = is_mutable.then(|| quote!(mut));
            let lifetime = has_lifetime.then(|| quote!(<'a>));
            types.push(if *is_borrowed { quote!(&'a #ty #lifetime) } else { ty.clone() });
            patterns.push(quote!(#mutable #name));
            names.push(quote!(#name));
        }
        let borrows = self.state || self.stack || parameters.iter().any(|parameter| parameter.is_borrowed);
        let (lifetime, elided) = match borrows {
            true => (quote!(<'a>), quote!(<'_>)),
            false => (TokenStream::new(), TokenStream::new()),
        };
        quote! {
            struct Body #lifetime(#(#types),*);
            impl support::Multiversion for Body #elided {
                type Output = Result<#result>;
                #[inline(always)]
                fn run<const LANES: usize>(self, _: impl support::IntegerProducts) -> Result<#result> {
                    let Body(#(#patterns),*) = self;
                    #body
                }
            }
            support::multiversioned::<#target_features, _>(Body(#(#names),*))
        }
    }
}
