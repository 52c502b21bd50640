//! What code within a nest's function is passed, as it sees no variables of that: functions of strips, and variants of iterations.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::super::shared::pass_constants;

/// Parameters of a function, or fields of a structure: their names and types, and the values that are passed.
#[derive(Default)]
pub(super) struct Passed {
    pub(super) names: Vec<TokenStream>,
    pub(super) types: Vec<TokenStream>,
    pub(super) values: Vec<TokenStream>,
}

impl Passed {
    pub(super) fn push(&mut self, name: impl ToTokens, ty: TokenStream, value: TokenStream) {
        self.names.push(name.into_token_stream());
        self.types.push(ty);
        self.values.push(value);
    }

    /// Passes a variable, by its name.
    pub(super) fn push_variable(&mut self, name: impl ToTokens, ty: TokenStream) {
        let name = name.into_token_stream();
        self.push(name.clone(), ty, name);
    }

    /// Passes the constants of a body that may become parameters of the nest's function. Returns the body, which names them.
    pub(super) fn push_constants(&mut self, body: TokenStream) -> TokenStream {
        let (body, constants) = pass_constants(body);
        for (name, ty, constant) in constants {
            self.push(name, ty.into_token_stream(), constant);
        }
        body
    }

    /// The declarations of parameters.
    pub(super) fn parameters(&self) -> impl Iterator<Item = TokenStream> + '_ {
        self.names.iter().zip(&self.types).map(|(name, ty)| quote!(#name: #ty))
    }
}
