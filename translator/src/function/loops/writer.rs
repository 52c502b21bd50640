//! A nest while it is emitted, and the names of its variables.

use std::collections::BTreeMap;

use incarnate_bytecode::index_map::IndexSet;
use incarnate_bytecode::ir::Value;
use incarnate_bytecode::ir::nest::{Element, Nest, ScheduledNest};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{format_ident, quote};

use super::super::emitter::Emitter;
use super::joined::Joined;
use super::sums::Sums;

/// A nest while it is emitted.
pub(super) struct Writer<'a, 'e, 'm> {
    pub(super) emitter: &'a Emitter<'e, 'm>,
    pub(super) nest: &'a Nest,
    pub(super) scheduled: ScheduledNest<'a>,
    /// The values that indices of gathers are computed from.
    pub(super) index_values: IndexSet<Value>,
    /// The label of the block that is left where the loops of the bytecode must run.
    pub(super) label: TokenStream,
    /// The views that have a grid in common.
    pub(super) joined: Joined,
    /// The sums of products that strips compute between loops over lanes.
    pub(super) sums: Sums,
    /// The divisions that loops have prepared.
    pub(super) prepared: Prepared,
    /// Which constants of loops may become parameters.
    pub(super) parameters: Parameters,
}

/// The variables of a strip.
#[derive(Default)]
pub(super) struct Tile {
    /// By view: the variable that holds its element.
    pub(super) elements: Vec<(usize, TokenStream)>,
}

impl Tile {
    /// The variable that holds the element of a view.
    pub(super) fn element(&self, view: usize) -> Option<TokenStream> {
        self.elements.iter().find(|row| row.0 == view).map(|row| row.1.clone())
    }
}

/// The divisions that loops prepare, by their index in [`Nest::divisions`]: for each the first one of the same number by the same divisor,
/// which has a variable.
pub(super) type Prepared = BTreeMap<usize, usize>;

/// Constants of the loops of a nest that may become parameters of a function that several nests share. Those of strips stay
/// literals: reductions are unrolled, and vectors are loaded by constant strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameters {
    None,
    /// Those of loops around others, and long trip counts of the innermost one.
    Outer,
    /// All: kernels read them at run time.
    All,
}

/// Whether a name is in some tokens.
pub(super) fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Whether loads extend an element to 32 bits.
pub(super) const fn is_extended(element: Element) -> bool {
    matches!(element, Element::u8 | Element::i8 | Element::u16 | Element::i16)
}

/// The variable of a loop's index.
pub(super) fn index(at: usize) -> Ident {
    format_ident!("i{}", at)
}

/// The variable of a loop's trip count.
pub(super) fn count(at: usize) -> Ident {
    format_ident!("count{}", at)
}

/// The variable of a view.
pub(super) fn grid(at: usize) -> Ident {
    format_ident!("grid{}", at)
}

pub(super) fn element(element: Element) -> TokenStream {
    match element {
        Element::u8 => quote!(u8),
        Element::i8 => quote!(i8),
        Element::u16 => quote!(u16),
        Element::i16 => quote!(i16),
        Element::i32 => quote!(i32),
        Element::i64 => quote!(i64),
        Element::f32 => quote!(f32),
        Element::f64 => quote!(f64),
    }
}
