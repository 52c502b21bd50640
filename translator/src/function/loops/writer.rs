//! A nest while it is emitted, and the names of its variables.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use incarnate_bytecode::index_map::IndexSet;
use incarnate_bytecode::ir::Value;
use incarnate_bytecode::ir::nest::{Element, Nest, ScheduledNest};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::super::emitter::Emitter;

/// A nest while it is emitted.
pub(super) struct Writer<'a, 'e, 'm> {
    pub(super) emitter: &'a Emitter<'e, 'm>,
    pub(super) nest: &'a Nest,
    pub(super) scheduled: ScheduledNest<'a>,
    /// The values that indices of gathers are computed from.
    pub(super) index_values: IndexSet<Value>,
    /// Whether the emitted code uses the index of each loop.
    pub(super) used_indices: RefCell<Vec<bool>>,
    /// Whether the emitted code uses the trip count of each loop.
    pub(super) used_counts: RefCell<Vec<bool>>,
    /// The elements that the current strip holds in variables.
    pub(super) tile: RefCell<Tile>,
    /// The label of the block that is left where the loops of the bytecode must run.
    pub(super) label: TokenStream,
    /// Whether the lanes of strips are emitted.
    pub(super) is_on_strips: Cell<bool>,
    /// The divisions that loops have prepared.
    pub(super) prepared: RefCell<Prepared>,
    /// Which constants of loops may become parameters.
    pub(super) parameters: Parameters,
}

/// The variables of the strip that is being emitted.
#[derive(Default)]
pub(super) struct Tile {
    /// By view: the variable that holds its element.
    pub(super) elements: Vec<(usize, TokenStream)>,
}

/// The divisions that loops have prepared, by their index in [`Nest::divisions`].
#[derive(Default)]
pub(super) struct Prepared {
    /// Those of the loops around what is emitted: for each the first one of the same number by the same divisor, which has a variable.
    pub(super) current: BTreeMap<usize, usize>,
    /// Those that any loop has prepared.
    pub(super) all: BTreeSet<usize>,
}

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

impl Writer<'_, '_, '_> {
    /// The variable of a loop's trip count, which is then used.
    pub(super) fn used_count(&self, at: usize) -> Ident {
        self.used_counts.borrow_mut()[at] = true;
        count(at)
    }
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
