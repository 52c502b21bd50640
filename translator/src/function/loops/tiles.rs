//! Emission of nests that compute each element for itself: on tiles of the iterations of all loops.
//!
//! LLVM vectorises the innermost loop, whose iterations may be few: a row of a small image. Tiles have the elements of several rows in
//! local arrays, so that vectors are whole. Rows whose elements can be loaded as vectors run on strips.

use incarnate_bytecode::Result;
use incarnate_bytecode::ir::nest::Strips;
use incarnate_bytecode::ir::{Block, Op};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::emit::{Writer, element, grid};
use super::strips::{Tile, zero};

/// The least trip count of an innermost loop that LLVM vectorises well: at least three quarters of its iterations are in vectors.
pub(super) const LONG_ROW: u64 = 64;

impl Writer<'_, '_, '_> {
    /// The trip count of rows whose elements are each computed for themselves, if it is known: there are several rows and no reductions, and
    /// iterations compute without the indices of loops and without failures.
    pub(super) fn row_of_elements(&self, strips: &Strips) -> Option<u64> {
        let instructions = self.live_instructions(strips);
        let fails = |(block, position): &(Block, usize)| {
            let inst = self.nest.instruction(self.emitter.body.function, *block, *position);
            matches!(&inst.op, Op::Eval { opcode, .. } if opcode.info().effects.fails)
        };
        let is_each_for_itself = strips.reductions.is_empty()
            && self.around(strips).next().is_some()
            && !instructions.iter().any(fails)
            && self.nest.loops.iter().all(|counted| {
                counted.divisor.is_none() && !counted.inductions.iter().any(|each| self.is_read(each.parameter))
            });
        self.row(strips.lanes).filter(|_| is_each_for_itself)
    }

    /// Whether iterations only copy elements, or store constants.
    pub(super) fn only_copies(&self, strips: &Strips) -> bool {
        self.live_instructions(strips).iter().all(|(block, position)| self.nest.access(*block, *position).is_some())
    }

    /// The loops around the one whose iterations are rows, without those that are merged with others.
    pub(super) fn around<'s>(&'s self, strips: &'s Strips) -> impl DoubleEndedIterator<Item = usize> + 's {
        strips.outer.iter().copied().filter(|at| !self.is_merged(*at))
    }

    /// Emits the loop over tiles.
    pub(super) fn tiles(&self, strips: &Strips) -> Result<TokenStream> {
        // Rows of a tile are iterations of the loop that is vectorised.
        let loops: Vec<usize> = self.around(strips).chain([strips.lanes]).collect();
        let counts = loops.iter().map(|at| self.used_count(*at));
        let counts = quote!([#(#counts),*]);
        let (mut arrays, mut load, mut store) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        let mut tile = Tile::default();
        let is_loaded = |view: usize| {
            self.nest
                .accesses
                .iter()
                .any(|access| access.view == view && access.stored.is_none() && self.is_live(access))
        };
        for view in strips.stores.iter().chain(&strips.non_aliasing) {
            let (numbers, of) = (array(*view), grid(*view));
            let (ty, zero) = (element(self.nest.views[*view].element), zero(self.nest.views[*view].element));
            arrays.extend(quote!(let mut #numbers: [#ty; support::TILE] = [#zero; support::TILE];));
            tile.elements.push((*view, quote!(#numbers[lane])));
            let positions = self
                .axes(&self.nest.views[*view].index)
                .into_iter()
                .map(|at| Literal::usize_unsuffixed(loops.iter().position(|other| *other == at).unwrap_or_default()));
            let positions = quote!([#(#positions),*]);
            if is_loaded(*view) {
                load.extend(quote!(#of.load_tile(&tile, #positions, &mut #numbers);));
            }
            if strips.stores.contains(view) {
                store.extend(quote!(#of.store_tile(&tile, #positions, &mut #numbers);));
            }
        }
        self.tile.replace(tile);
        let mut work = TokenStream::new();
        for (block, position) in self.live_instructions(strips) {
            work.extend(self.instruction(block, position)?);
        }
        self.tile.replace(Tile::default());
        Ok(quote! {
            #arrays
            for tile in support::Tiles::new(#counts) {
                #load
                #[allow(clippy::needless_range_loop, reason = "lanes index several arrays")]
                for lane in 0..tile.padded() { #work }
                #store
            }
        })
    }
}

/// The variable of a view's elements.
fn array(view: usize) -> Ident {
    format_ident!("tile{}", view)
}
