//! Views of elements that are close to each other: one grid has the elements of all, so that LLVM sees how far one is from another.

use std::collections::{BTreeMap, HashMap};

use incarnate_bytecode::ir::nest::{Affine, Schedule};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::writer::Writer;

/// The most elements from the first view of a grid to the last one.
const MOST: i64 = 4096;

/// Views that have a grid in common: their indices differ by constants. The last loop of their grid runs from the first to the last one.
#[derive(Default)]
pub(super) struct Joined {
    /// By view: that whose elements are the first ones of the grid, and how far its own are from them.
    members: BTreeMap<usize, (usize, i64)>,
    /// By view of the first elements of a grid: how far the last ones are from them.
    lengths: BTreeMap<usize, i64>,
    /// By view: the tuple of adjacent elements that lanes load together.
    tuples: BTreeMap<usize, Tuple>,
}

/// The elements of a view among those that a lane loads together.
#[derive(Clone, Copy)]
pub(super) struct Tuple {
    /// The view of the first elements.
    pub(super) first: usize,
    /// The position of the view's elements.
    pub(super) at: usize,
    /// How many elements a tuple has.
    pub(super) count: usize,
}

impl Joined {
    /// The view whose grid has the elements of a view.
    pub(super) fn grid_of(&self, view: usize) -> usize {
        self.members.get(&view).map_or(view, |(first, _)| *first)
    }

    /// The trip count and the stride of the loop over all views, for a grid that has it.
    pub(super) fn last_loop(&self, view: usize) -> Option<TokenStream> {
        let count = Literal::i64_unsuffixed(self.lengths.get(&view)? + 1);
        Some(quote!((#count, 1)))
    }

    /// The iteration of the loop over all views, for a view whose grid has it.
    pub(super) fn last_index(&self, view: usize) -> Option<TokenStream> {
        let offset = Literal::i64_unsuffixed(self.members.get(&view)?.1);
        Some(quote!(#offset))
    }

    /// The tuple of a view whose elements are not loaded for themselves.
    pub(super) fn tuple_of(&self, view: usize) -> Option<Tuple> {
        self.tuples.get(&view).copied()
    }

    /// Joins views of the same buffer, whose places are given, if there are several. As many as their stride become tuples, if they are adjacent.
    fn join(&mut self, mut views: Vec<(i64, usize)>, stride: i64) {
        views.sort_unstable();
        views.dedup_by_key(|(at, _)| *at);
        let mut rest = &views[..];
        while let Some((start, first)) = rest.first().copied() {
            let count = rest.iter().take_while(|(at, _)| at - start <= MOST).count();
            let (joined, others) = rest.split_at(count);
            rest = others;
            let Some((last, _)) = joined.last().filter(|_| count > 1) else { continue };
            self.lengths.insert(first, last - start);
            self.members.extend(joined.iter().map(|(at, view)| (*view, (first, at - start))));
            self.load_together(joined, stride);
        }
    }

    /// Makes tuples of adjacent views, whose places are given in order, as many as their stride.
    fn load_together(&mut self, views: &[(i64, usize)], stride: i64) {
        let count = match stride {
            2 => 2,
            4 => 4,
            _ => return,
        };
        let mut rest = views;
        while let Some((start, first)) = rest.first().copied() {
            let adjacent = rest.iter().zip(start..).take(count).take_while(|((at, _), next)| at == next).count();
            let is_tuple = adjacent == count;
            let (views, others) = rest.split_at(if is_tuple { count } else { 1 });
            if is_tuple {
                self.tuples.extend(views.iter().enumerate().map(|(at, (_, view))| (*view, Tuple { first, at, count })));
            }
            rest = others;
        }
    }
}

impl Writer<'_, '_, '_> {
    /// Finds views that have a grid in common: those that lanes have in common, and where sums of products are computed all.
    pub(super) fn joined_views(&self) -> Joined {
        let mut joined = Joined::default();
        let Schedule::Strips(strips) = &self.scheduled.schedule else { return joined };
        if !self.scheduled.runs_on_strips() {
            return joined;
        }
        let mut by_form: HashMap<_, usize> = HashMap::new();
        let mut groups: Vec<(i64, Vec<(i64, usize)>)> = Vec::new();
        for at in strips.non_aliasing.iter().copied() {
            let view = &self.nest.views[at];
            let stride = view.index.constant_stride(strips.lanes);
            let Some(stride) = stride.filter(|stride| *stride == 0 || !self.sums.is_empty()) else { continue };
            let constant = view.index.terms().iter().find(|term| term.factors.is_empty() && term.iteration.is_none());
            let constant = constant.map_or(0, |term| term.coefficient);
            let form = view.index.sub(&Affine::constant(constant)).filter(|_| !view.written);
            let (Some(form), true) = (form, (0..=i64::MAX / 2).contains(&constant)) else { continue };
            let group = *by_form.entry((view.buffer, view.element, form)).or_insert(groups.len());
            if group == groups.len() {
                groups.push((stride, Vec::new()));
            }
            groups[group].1.push((constant, at));
        }
        for (stride, views) in groups {
            joined.join(views, stride);
        }
        joined
    }
}
