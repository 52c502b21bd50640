//! Functions, and parts of them, whose bodies come in versions for processors.

use incarnate_runtime::ir::nest::Nest;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

use super::Analysis;
use super::tree::{Body, Node, Sequence};

/// Turns from which a nest is worth the choice of a version, and its code as often as there are versions: fewer take about
/// as long as the call.
const TURNS: u64 = 256;

/// A parameter of a function.
pub(super) struct Parameter {
    pub(super) name: Ident,
    /// Its type, or that of what it borrows.
    pub(super) ty: TokenStream,
    pub(super) is_mutable: bool,
    pub(super) is_borrowed: bool,
}

impl Parameter {
    /// What declares it.
    pub(super) fn declaration(&self) -> TokenStream {
        let mutable = self.is_mutable.then(|| quote!(mut));
        let unchanged = self.unchanged();
        quote!(#mutable #unchanged)
    }

    /// What declares it where it is passed on as it is.
    pub(super) fn unchanged(&self) -> TokenStream {
        let (name, borrow, ty) = (&self.name, self.borrow(), &self.ty);
        quote!(#name: #borrow #ty)
    }

    /// The sign before what it borrows.
    pub(super) fn borrow(&self) -> Option<TokenStream> {
        self.is_borrowed.then(|| quote!(&))
    }
}

/// Whether statements have a nest that may make many turns; parts cut out of them decide for themselves.
pub(super) fn are_worthwhile(analysis: &Analysis<'_>, body: &Body<'_>, sequence: &Sequence) -> bool {
    analysis.versions != 0 && sequence.iter().any(|node| has_long_nest(body, node))
}

fn has_long_nest(body: &Body<'_>, node: &Node) -> bool {
    match node {
        Node::Nest(index) => body.nests.found.get(*index as usize).is_some_and(is_long),
        _ => node.children().into_iter().flatten().any(|child| has_long_nest(body, child)),
    }
}

/// Whether a nest makes many turns, or as many as is known when it runs.
fn is_long(nest: &Nest) -> bool {
    let mut turns = nest.loops.iter().map(|counted| counted.constant_trip_count());
    turns.try_fold(1u64, |all, turns| Some(all.saturating_mul(turns?))).is_none_or(|turns| turns >= TURNS)
}

/// What a function takes beside its parameters, and gives.
pub(super) struct Versioned<'a> {
    pub(super) state: bool,
    pub(super) stack: bool,
    pub(super) result: &'a TokenStream,
}

impl Versioned<'_> {
    /// A body that runs `body` in the best version among those for some levels and the program's own.
    pub(super) fn body(&self, levels: u8, parameters: &[Parameter], body: &TokenStream) -> TokenStream {
        let result = self.result;
        let levels = Literal::u8_unsuffixed(levels);
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
        for Parameter { name, ty, is_mutable, is_borrowed } in parameters {
            let mutable = is_mutable.then(|| quote!(mut));
            types.push(if *is_borrowed { quote!(&'a #ty) } else { ty.clone() });
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
            impl support::Code for Body #elided {
                type Output = Result<#result>;
                #[inline(always)]
                fn run<const LANES: usize>(self) -> Result<#result> {
                    let Body(#(#patterns),*) = self;
                    #body
                }
            }
            support::in_versions::<#levels, _>(Body(#(#names),*))
        }
    }
}
