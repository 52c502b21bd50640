//! Nests that reduce, with what they reduce in registers.

use std::collections::BTreeSet;

use incarnate_runtime::ir::nest::{Affine, Element, Item, Nest, Tiling};
use incarnate_runtime::ir::{Type, Value};
use incarnate_runtime::{Error, Result};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::super::values::type_of;
use super::emit::{Writer, count, element, grid, turn};

/// Where the elements of views are within a tile.
#[derive(Default)]
pub(super) struct Tile {
    /// The variables that elements of views are in.
    pub(super) held: Vec<(usize, TokenStream)>,
    /// The turns of loops as grids count them.
    pub(super) turns: Vec<(usize, TokenStream)>,
}

/// How wide a strip is.
enum Width {
    /// As many elements as the processor that the program is for holds side by side.
    Whole,
    Lanes(usize),
}

impl Width {
    fn number(&self) -> TokenStream {
        match self {
            Width::Whole => quote!(LANES),
            Width::Lanes(lanes) => {
                let lanes = Literal::usize_unsuffixed(*lanes);
                quote!(#lanes)
            }
        }
    }

    /// The strips that a loop is cut into, the widest first; all of any number of turns is taken.
    fn of(turns: Option<u64>) -> Vec<Width> {
        let Some(turns) = turns else { return vec![Width::Whole, Width::Lanes(4), Width::Lanes(1)] };
        let mut widths = Vec::new();
        if turns >= 16 {
            widths.push(Width::Whole);
        }
        for (lanes, covered) in [(16, 32), (8, 16), (4, 8), (1, 4)] {
            if turns % covered >= lanes {
                widths.push(Width::Lanes(lanes as usize));
            }
        }
        widths
    }
}

/// A tiling that is emitted.
struct Plan<'t> {
    tiling: &'t Tiling,
    /// Views that the turns take, in order: that which is stored, and those of loads that are kept.
    views: Vec<usize>,
    /// Numbers from before the nest that the turns look at.
    captured: Vec<Value>,
    /// Values that differ from lane to lane.
    varying: BTreeSet<Value>,
}

impl Writer<'_, '_, '_> {
    /// Under which conditions a tiling comes to the same as the nest.
    pub(super) fn tiling_holds(&self, tiling: &Tiling) -> TokenStream {
        let mut conditions = Vec::new();
        for (at, view) in tiling.stores.iter().enumerate() {
            let store = grid(*view);
            let (_, loops) = self.extent(&self.nest.views[*view].index);
            conditions.push(quote!(support::is_injective(#loops)));
            conditions.extend(tiling.apart.iter().map(|view| {
                let other = grid(*view);
                quote!(#store.is_disjoint(&#other))
            }));
            conditions.extend(tiling.stores[..at].iter().map(|view| {
                let other = grid(*view);
                quote!(#store.is_disjoint(#other.as_grid()))
            }));
        }
        // What is not reduced is not to be stored either.
        conditions.extend(tiling.reductions.iter().map(|at| {
            let count = self.named_count(*at);
            quote!(#count != 0)
        }));
        quote!(#(#conditions)&&*)
    }

    /// The turns of a nest by its tiling: a function for a strip of any width, and the loops around it.
    pub(super) fn tiled(&self, tiling: &Tiling) -> Result<TokenStream> {
        let plan = self.plan(tiling);
        let first = first(tiling.lanes);
        let (mut parameters, mut arguments) = (TokenStream::new(), TokenStream::new());
        for view in &plan.views {
            let (name, ty) = (grid(*view), self.grid_type(*view));
            parameters.extend(quote!(#name: &#ty,));
            arguments.extend(quote!(&#name,));
        }
        for at in tiling.rows.iter().chain(&tiling.reductions) {
            let name = self.named_count(*at);
            parameters.extend(quote!(#name: usize,));
            arguments.extend(quote!(#name,));
        }
        for at in &tiling.outer {
            let name = turn(*at);
            parameters.extend(quote!(#name: usize,));
            arguments.extend(quote!(#name,));
        }
        for value in &plan.captured {
            let (name, ty) = (self.emitter.name(*value), type_of(self.emitter.body.function.ty(*value)));
            parameters.extend(quote!(#name: #ty,));
            arguments.extend(quote!(#name,));
        }
        for view in &tiling.panels {
            let (name, ty) = (panel(*view), element(self.nest.views[*view].element));
            let chunk = Literal::usize_unsuffixed(Tiling::CHUNK);
            parameters.extend(quote!(#name: &mut [[#ty; L]; #chunk],));
            arguments.extend(quote!(&mut #name,));
        }
        let body = self.strip(&plan, 1)?;
        let lane_count = self.named_count(tiling.lanes);
        let strips = Width::of(self.nest.loops[tiling.lanes].constant_trip_count()).into_iter().map(|width| {
            let width = width.number();
            quote! {
                while #lane_count - #first >= #width {
                    strip::<#width>(#arguments #first);
                    #first += #width;
                }
            }
        });
        let panels = |width: &Width| {
            let panels = tiling.panels.iter().map(|view| {
                let (name, width, zero) = (panel(*view), width.number(), zero(self.nest.views[*view].element));
                let chunk = Literal::usize_unsuffixed(Tiling::CHUNK);
                quote!(let mut #name = [[#zero; #width]; #chunk];)
            });
            quote!(#(#panels)*)
        };
        let widths = Width::of(self.nest.loops[tiling.lanes].constant_trip_count());
        let strips = strips.zip(&widths).map(|(strip, width)| {
            let panels = panels(width);
            quote!(#panels #strip)
        });
        let mut several = TokenStream::new();
        let mut together = TokenStream::new();
        for number in self.strips_together(tiling) {
            let (name, body) = (format_ident!("strips{}", number), self.strip(&plan, *number)?);
            let number = Literal::usize_unsuffixed(*number);
            several.extend(quote! {
                #[inline(always)]
                fn #name<const L: usize>(#parameters #first: usize) { #body }
            });
            together.extend(quote! {
                while #lane_count - #first >= #number * LANES {
                    #name::<LANES>(#arguments #first);
                    #first += #number * LANES;
                }
            });
        }
        let mut turns = quote!(let mut #first = 0; #together #(#strips)*);
        for at in tiling.outer.iter().rev() {
            let (turn, count) = (turn(*at), self.named_count(*at));
            turns = quote!(for #turn in 0..#count { #turns });
        }
        let lint = (!tiling.panels.is_empty()).then(|| {
            quote!(#[allow(clippy::needless_range_loop, reason = "steps are numbers in several arrays and positions in buffers")])
        });
        Ok(quote! {
            #lint
            #[inline(always)]
            fn strip<const L: usize>(#parameters #first: usize) { #body }
            #several
            #turns
        })
    }

    fn plan<'t>(&self, tiling: &'t Tiling) -> Plan<'t> {
        let function = self.emitter.body.function;
        let mut views = tiling.apart.clone();
        views.extend(&tiling.stores);
        views.sort_unstable();
        let mut varying = BTreeSet::new();
        let (mut read, mut made) = (BTreeSet::new(), BTreeSet::new());
        for at in self.nest.path(tiling.innermost) {
            for induction in &self.nest.loops[at].inductions {
                if induction.form.turns().contains(&tiling.lanes) {
                    varying.insert(induction.parameter);
                }
                if self.is_read(induction.parameter) {
                    read.extend(induction.step.factors().chain(induction.initial));
                    match (at, induction.form.as_constant_base()) {
                        (0, None) => _ = read.insert(induction.parameter),
                        _ => _ = made.insert(induction.parameter),
                    }
                }
            }
        }
        for (block, position) in self.kept(tiling) {
            let inst = self.nest.instruction(function, block, position);
            let mut varies = false;
            match self.nest.access(block, position) {
                Some(access) => {
                    read.extend(access.stored);
                    varies |= tiling.stores.contains(&access.view) || self.is_along(access.view, tiling.lanes);
                }
                None => inst.op.visit(|operand| {
                    read.insert(operand.value());
                    varies |= varying.contains(&operand.value());
                }),
            }
            made.extend(inst.results.iter().copied());
            if varies {
                varying.extend(inst.results.iter().copied());
            }
        }
        let is_captured = |value: &Value| !made.contains(value) && function.constant_bits(*value).is_none();
        let captured = read.into_iter().filter(is_captured).collect();
        Plan { tiling, views, captured, varying }
    }

    /// The instructions of a turn that are made.
    fn kept(&self, tiling: &Tiling) -> Vec<(incarnate_runtime::ir::Block, usize)> {
        let items = self.nest.loops[tiling.innermost].items.iter().filter_map(|item| match item {
            Item::Instruction(block, position) => Some((*block, *position)),
            Item::Loop(_) => None,
        });
        items.filter(|(block, position)| self.is_made(*block, *position)).collect()
    }

    /// Whether a view changes with a loop's turns.
    fn is_along(&self, view: usize, at: usize) -> bool {
        axis(self.nest, view, at).is_some()
    }

    fn grid_type(&self, view: usize) -> TokenStream {
        let view = &self.nest.views[view];
        let name = if view.written { quote!(GridMut) } else { quote!(Grid) };
        let (ty, dimensions) = (element(view.element), Literal::usize_unsuffixed(view.index.turns().len()));
        quote!(support::#name<'_, #ty, #dimensions>)
    }

    /// Cuts the turns of a loop off, from `from` on, in all views that change with it.
    fn parts(&self, views: &[usize], at: usize, from: &TokenStream, length: &TokenStream) -> TokenStream {
        let parts = views.iter().filter_map(|view| {
            let (name, axis) = (grid(*view), axis(self.nest, *view, at)?);
            Some(quote!(let #name = #name.part(#axis, #from, #length);))
        });
        quote!(#(#parts)*)
    }

    /// How many strips go together, the most first: where no rows do, as each operation waits for the one before it on the
    /// same element. Elements that lie apart would be loaded one by one.
    fn strips_together(&self, tiling: &Tiling) -> &'static [usize] {
        let is_dense = |view: &usize| matches!(self.nest.views[*view].index.constant_stride(tiling.lanes), Some(0 | 1));
        let turns = self.nest.loops[tiling.lanes].constant_trip_count().unwrap_or(u64::MAX);
        match tiling.rows {
            None if turns >= 32 && tiling.apart.iter().all(is_dense) => &[4, 2],
            _ => &[],
        }
    }

    /// The body of the function for some strips side by side.
    fn strip(&self, plan: &Plan<'_>, strips: usize) -> Result<TokenStream> {
        let tiling = plan.tiling;
        let first_lane = first(tiling.lanes);
        let width = lanes(strips);
        let cut = self.parts(&plan.views, tiling.lanes, &quote!(#first_lane), &width);
        let Some((last, before)) = tiling.reductions.split_last().filter(|_| !tiling.panels.is_empty()) else {
            let rows = match tiling.rows {
                Some(_) => self.rows(plan, &tiling.reductions, None)?,
                None => self.block(plan, strips, &tiling.reductions, None)?,
            };
            return Ok(quote!(#cut #rows));
        };
        let rows = self.rows(plan, &[], Some(*last))?;
        let (first, turns) = (first(*last), count(*last));
        let chunk = Literal::usize_unsuffixed(Tiling::CHUNK);
        let chunks = self.parts(&plan.views, *last, &quote!(#first), &quote!(chunk));
        let panels = tiling.panels.iter().map(|view| {
            let (name, elements) = (panel(*view), self.lanes_of(plan, *view, Some(*last), 0));
            quote! {
                let #name = &mut #name[..chunk];
                for (step, lanes) in #name.iter_mut().enumerate() { *lanes = #elements; }
            }
        });
        let mut tokens = quote! {
            let mut #first = 0;
            while #first < #turns {
                let chunk = (#turns - #first).min(#chunk);
                #chunks
                #(#panels)*
                #rows
                #first += chunk;
            }
        };
        for at in before.iter().rev() {
            let (turn, count) = (turn(*at), count(*at));
            tokens = quote!(for #turn in 0..#count { #tokens });
        }
        Ok(quote!(#cut #tokens))
    }

    /// All rows, in blocks.
    fn rows(&self, plan: &Plan<'_>, reductions: &[usize], chunked: Option<usize>) -> Result<TokenStream> {
        let Some(rows) = plan.tiling.rows else { return self.block(plan, 1, reductions, chunked) };
        let (first, count) = (first(rows), count(rows));
        let mut tokens = quote!(let mut #first = 0;);
        let blocks = match self.nest.loops[rows].constant_trip_count().map(|turns| turns as usize) {
            Some(turns) => vec![(turns / Tiling::ROWS > 0, Tiling::ROWS), (true, turns % Tiling::ROWS)],
            None => vec![(true, Tiling::ROWS), (true, 1)],
        };
        for (_, length) in blocks.into_iter().filter(|(there, length)| *there && *length > 0) {
            let number = Literal::usize_unsuffixed(length);
            let cut = self.parts(&plan.views, rows, &quote!(#first), &quote!(#number));
            let block = self.block(plan, length, reductions, chunked)?;
            tokens.extend(quote! {
                while #count - #first >= #number {
                    #cut
                    #block
                    #first += #number;
                }
            });
        }
        Ok(tokens)
    }

    /// Some rows of a strip, or some strips where there are no rows, with their sums in variables.
    fn block(&self, plan: &Plan<'_>, rows: usize, reductions: &[usize], chunked: Option<usize>) -> Result<TokenStream> {
        let tiling = plan.tiling;
        let (mut load, mut work, mut keep) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        self.turns.borrow_mut().fill(false);
        for row in 0..rows {
            let named = if rows == 1 { format_ident!("sums") } else { format_ident!("sums{}", row) };
            let mut sums = Vec::new();
            for view in &tiling.stores {
                let name = if sums.is_empty() { named.clone() } else { format_ident!("{}_{}", named, *view) };
                let (store, ty) = (grid(*view), element(self.nest.views[*view].element));
                let elements = self.lanes_of(plan, *view, chunked, row);
                load.extend(quote!(let mut #name: [#ty; L] = #elements;));
                let (place, axis) = self.place(plan, *view, chunked, row);
                keep.extend(quote!(#store.set_lanes(#place, #axis, #name);));
                sums.push(name);
            }
            let turns = self.row(plan, row, &sums, chunked)?;
            work.extend(if rows == 1 { turns } else { quote!({ #turns }) });
        }
        // Turns would be run side by side, instead of elements: what is added up in integers may be so in any order.
        let is_integer = |view: &usize| !matches!(self.nest.views[*view].element, Element::f32 | Element::f64);
        if tiling.stores.iter().any(is_integer) {
            work = quote!(support::keep_iteration_order(); #work);
        }
        if let Some(at) = chunked {
            let (turn, first) = (turn(at), first(at));
            let absolute = self.turns.borrow()[at].then(|| quote!(let #turn = #first + step;));
            work = quote!(for step in 0..chunk { #absolute #work });
        }
        for at in reductions.iter().rev() {
            let (name, count) = (turn(*at), count(*at));
            let name = if self.turns.borrow()[*at] { quote!(#name) } else { quote!(_) };
            work = quote!(for #name in 0..#count { #work });
        }
        Ok(quote!(#load #work #keep))
    }

    /// What a turn of the reductions does to a row of a strip.
    fn row(&self, plan: &Plan<'_>, row: usize, sums: &[Ident], chunked: Option<usize>) -> Result<TokenStream> {
        let tiling = plan.tiling;
        let mut tile = Tile::default();
        let (mut before, mut within, mut enumerated) = (TokenStream::new(), TokenStream::new(), sums.len() > 1);
        tile.held.extend(tiling.stores.iter().zip(sums).enumerate().map(|(at, (view, sums))| match at {
            0 => (*view, quote!(*sum)),
            _ => (*view, quote!(#sums[lane])),
        }));
        for view in tiling.apart.iter().filter(|view| self.is_along(**view, tiling.lanes)) {
            let lanes = format_ident!("lanes{}", view);
            if tiling.panels.contains(view) {
                let panel = panel(*view);
                before.extend(quote!(let #lanes = &#panel[step];));
            } else {
                let (elements, ty) =
                    (self.lanes_of(plan, *view, chunked, row), element(self.nest.views[*view].element));
                before.extend(quote!(let #lanes: [#ty; L] = #elements;));
            }
            tile.held.push((*view, quote!(#lanes[lane])));
            enumerated = true;
        }
        if let Some(rows) = tiling.rows {
            let row = Literal::usize_unsuffixed(row);
            tile.turns.push((rows, quote!(#row)));
        }
        tile.turns.extend(chunked.map(|at| (at, quote!(step))));
        self.tile.replace(tile);
        let (scalar, varying) = self.path_inductions(plan);
        if let Some(rows) = tiling.rows.filter(|rows| self.turns.borrow()[*rows]) {
            let (turn, first, row) = (turn(rows), first(rows), Literal::usize_unsuffixed(row));
            before.extend(if row.to_string() == "0" {
                quote!(let #turn = #first;)
            } else {
                quote!(let #turn = #first + #row;)
            });
        }
        before.extend(scalar);
        if self.turns.borrow()[tiling.lanes] {
            let (turn, first) = (turn(tiling.lanes), first(tiling.lanes));
            within.extend(match plan.tiling.rows {
                None if row > 0 => {
                    let width = lanes(row);
                    quote!(let #turn = #first + #width + lane;)
                }
                _ => quote!(let #turn = #first + lane;),
            });
            enumerated = true;
        }
        within.extend(varying);
        for (block, position) in self.kept(tiling) {
            let inst = self.nest.instruction(self.emitter.body.function, block, position);
            let is_stored = self.nest.access(block, position).is_some_and(|access| access.stored.is_some());
            let varies = is_stored || inst.results.iter().any(|result| plan.varying.contains(result));
            let tokens = self.instruction(block, position)?;
            if varies { within.extend(tokens) } else { before.extend(tokens) }
        }
        self.tile.replace(Tile::default());
        let Some(sums) = sums.first() else { return Err(Error::internal("a tiling that stores nothing")) };
        let lanes =
            if enumerated { quote!((lane, sum) in #sums.iter_mut().enumerate()) } else { quote!(sum in &mut #sums) };
        Ok(quote!(#before for #lanes { #within }))
    }

    /// What is counted by the loops down to the innermost one: what is the same for all lanes, and what is not.
    fn path_inductions(&self, plan: &Plan<'_>) -> (TokenStream, TokenStream) {
        let (mut scalar, mut varying) = (TokenStream::new(), TokenStream::new());
        for at in self.nest.path(plan.tiling.innermost) {
            scalar.extend(self.inductions(at, |induction| !plan.varying.contains(&induction.parameter)));
            varying.extend(self.inductions(at, |induction| plan.varying.contains(&induction.parameter)));
        }
        (scalar, varying)
    }

    /// The elements of a strip and a row.
    fn lanes_of(&self, plan: &Plan<'_>, view: usize, chunked: Option<usize>, row: usize) -> TokenStream {
        let (grid, (place, axis)) = (grid(view), self.place(plan, view, chunked, row));
        quote!(#grid.lanes(#place, #axis))
    }

    /// The turn of the first lane of a row, and which of the loops goes along the lanes.
    fn place(&self, plan: &Plan<'_>, view: usize, chunked: Option<usize>, row: usize) -> (TokenStream, TokenStream) {
        let tiling = plan.tiling;
        let turns = self.nest.views[view].index.turns().into_iter().map(|at| match at {
            at if at == tiling.lanes && tiling.rows.is_none() && row > 0 => lanes(row),
            at if at == tiling.lanes => quote!(0),
            at if Some(at) == tiling.rows => {
                let row = Literal::usize_unsuffixed(row);
                quote!(#row)
            }
            at if Some(at) == chunked => quote!(step),
            at => {
                self.turns.borrow_mut()[at] = true;
                let turn = turn(at);
                quote!(#turn)
            }
        });
        let place = quote!([#(#turns),*]);
        (place, axis(self.nest, view, tiling.lanes).unwrap_or_else(|| quote!(0)))
    }

    /// Whether the nest can be tiled in Rust: references do not go into strips.
    pub(super) fn is_tileable(&self, tiling: &Tiling) -> bool {
        self.plan(tiling).captured.iter().all(|value| self.emitter.body.function.ty(*value) != Type::Ref)
    }
}

/// The position of a loop among those that change a view.
fn axis(nest: &Nest, view: usize, at: usize) -> Option<TokenStream> {
    let index: &Affine = &nest.views[view].index;
    let position = index.turns().into_iter().position(|turn| turn == at)?;
    let position = Literal::usize_unsuffixed(position);
    Some(quote!(#position))
}

/// The first turn of a strip, block or chunk.
fn first(at: usize) -> Ident {
    format_ident!("first{}", at)
}

fn panel(view: usize) -> Ident {
    format_ident!("panel{}", view)
}

fn zero(element: Element) -> TokenStream {
    if matches!(element, Element::f32 | Element::f64) { quote!(0.0) } else { quote!(0) }
}

/// The lanes of some vectors.
fn lanes(vectors: usize) -> TokenStream {
    let number = Literal::usize_unsuffixed(vectors);
    if vectors == 1 { quote!(L) } else { quote!(#number * L) }
}
