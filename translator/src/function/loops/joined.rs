//! Views of adjacent elements: one grid has the elements of both, so that LLVM sees that they are adjacent.

use std::collections::BTreeMap;

use incarnate_bytecode::ir::nest::{Affine, Schedule, Strips};
use proc_macro2::TokenStream;
use quote::quote;

use super::writer::Writer;

/// By view of the second elements: the view of the first ones. The last loop of their grid is that over both.
#[derive(Default)]
pub(super) struct Joined(BTreeMap<usize, usize>);

impl Joined {
    /// Whether the elements of a view are the first ones, and those of another view the second ones.
    pub(super) fn is_first(&self, view: usize) -> bool {
        self.0.values().any(|first| *first == view)
    }

    /// The view of the first elements, of which those of this view are the second ones.
    pub(super) fn first_of(&self, view: usize) -> Option<usize> {
        self.0.get(&view).copied()
    }

    /// The trip count and the stride of the loop over both elements, for a grid that has it.
    pub(super) fn last_loop(&self, view: usize) -> Option<TokenStream> {
        self.is_first(view).then(|| quote!((2, 1)))
    }

    /// The iteration of the loop over both elements, for a view whose grid has it.
    pub(super) fn last_index(&self, view: usize) -> Option<TokenStream> {
        if self.first_of(view).is_some() { Some(quote!(1)) } else { self.is_first(view).then(|| quote!(0)) }
    }

    /// The view whose grid has the elements of a view.
    pub(super) fn grid_of(&self, view: usize) -> usize {
        self.first_of(view).unwrap_or(view)
    }
}

impl Writer<'_, '_, '_> {
    /// Finds views of adjacent elements: those that lanes have in common, and those of pairs that are multiplied, of which each lane has one.
    pub(super) fn joined_views(&self) -> Joined {
        let mut joined = Joined::default();
        let Schedule::Strips(strips) = &self.scheduled.schedule else { return joined };
        if !self.scheduled.runs_on_strips() {
            return joined;
        }
        for first in &strips.non_aliasing {
            let second = self.behind(strips, *first).filter(|second| joined.first_of(*second).is_none());
            if let Some(second) = second.filter(|_| joined.first_of(*first).is_none()) {
                joined.0.insert(second, *first);
            }
        }
        joined
    }

    /// The view of the elements behind those of a view.
    fn behind(&self, strips: &Strips, first: usize) -> Option<usize> {
        let view = &self.nest.views[first];
        let is_joined = match view.index.constant_stride(strips.lanes) {
            Some(0) => true,
            Some(2) => !self.pairs.is_empty(),
            _ => false,
        };
        if view.written || !is_joined {
            return None;
        }
        let index = view.index.add(&Affine::constant(1))?;
        let is_behind = |at: &usize| {
            let other = &self.nest.views[*at];
            (other.buffer, other.element, &other.index) == (view.buffer, view.element, &index) && !other.written
        };
        strips.non_aliasing.iter().copied().find(is_behind)
    }
}
