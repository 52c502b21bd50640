//! Views of adjacent elements: one grid has the elements of both, so that LLVM sees that they are adjacent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use incarnate_bytecode::ir::nest::{Affine, Schedule};
use proc_macro2::TokenStream;
use quote::quote;

use super::writer::Writer;

/// Views of which one has the elements behind those of another one. The last loop of their grid is that over both.
#[derive(Default)]
pub(super) struct Joined {
    /// The views of the first elements.
    first: BTreeSet<usize>,
    /// By view of the second elements: the view of the first ones.
    first_of: BTreeMap<usize, usize>,
}

impl Joined {
    /// Whether the elements of a view are the first ones, and those of another view the second ones.
    pub(super) fn is_first(&self, view: usize) -> bool {
        self.first.contains(&view)
    }

    /// The view of the first elements, of which those of this view are the second ones.
    pub(super) fn first_of(&self, view: usize) -> Option<usize> {
        self.first_of.get(&view).copied()
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
        let is_candidate = |at: &usize| match self.nest.views[*at].index.constant_stride(strips.lanes) {
            Some(0) => !self.nest.views[*at].written,
            Some(2) => !self.nest.views[*at].written && !self.pairs.is_empty(),
            _ => false,
        };
        let candidates: Vec<usize> = strips.non_aliasing.iter().copied().filter(is_candidate).collect();
        let by_index: HashMap<_, usize> = candidates
            .iter()
            .map(|at| {
                let view = &self.nest.views[*at];
                ((view.buffer, view.element, &view.index), *at)
            })
            .collect();
        let one = Affine::constant(1);
        for first in candidates {
            let view = &self.nest.views[first];
            let Some(index) = view.index.add(&one) else { continue };
            let second = by_index.get(&(view.buffer, view.element, &index)).copied();
            let is_free = |view: usize| !joined.is_first(view) && joined.first_of(view).is_none();
            if let Some(second) = second.filter(|second| is_free(first) && is_free(*second)) {
                joined.first.insert(first);
                joined.first_of.insert(second, first);
            }
        }
        joined
    }
}
