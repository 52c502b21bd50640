//! Emission of tiled nests: reductions whose accumulators stay in registers.

use std::collections::BTreeSet;

use incarnate_bytecode::ir::nest::{Affine, Element, Item, Nest, Tiling};
use incarnate_bytecode::ir::{Type, Value};
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::super::values::type_of;
use super::emit::{Writer, count, element, grid, index};

/// The variables of the tile that is being emitted.
#[derive(Default)]
pub(super) struct Tile {
    /// By view: the variable that holds its element.
    pub(super) elements: Vec<(usize, TokenStream)>,
    /// By loop: its index relative to the tile.
    pub(super) indices: Vec<(usize, TokenStream)>,
}

/// The width of a strip.
enum Width {
    /// As many elements as the target's vectors hold: the constant `LANES`.
    Full,
    /// A fixed number of elements.
    Fixed(usize),
}

impl Width {
    fn number(&self) -> TokenStream {
        match self {
            Width::Full => quote!(LANES),
            Width::Fixed(lanes) => {
                let lanes = Literal::usize_unsuffixed(*lanes);
                quote!(#lanes)
            }
        }
    }

    /// The widths of the strips that cover a loop, the widest first. They cover any trip count.
    fn of(trip_count: Option<u64>) -> Vec<Width> {
        let Some(trip_count) = trip_count else { return vec![Width::Full, Width::Fixed(4), Width::Fixed(1)] };
        let mut widths = Vec::new();
        if trip_count >= 16 {
            widths.push(Width::Full);
        }
        for (lanes, covered) in [(16, 32), (8, 16), (4, 8), (1, 4)] {
            if trip_count % covered >= lanes {
                widths.push(Width::Fixed(lanes as usize));
            }
        }
        widths
    }
}

/// A tiling while it is emitted.
struct Plan<'t> {
    tiling: &'t Tiling,
    /// The views that the strip function takes, ascending: stores and live loads.
    views: Vec<usize>,
    /// Numbers defined before the nest that the strip function takes.
    captured: Vec<Value>,
    /// Values that differ between lanes.
    varying: BTreeSet<Value>,
}

impl Writer<'_, '_, '_> {
    /// The conditions under which the tiled nest computes the same as the scalar one: iterations store distinct elements,
    /// views do not alias, and reductions are not empty.
    pub(super) fn tiling_conditions(&self, tiling: &Tiling) -> TokenStream {
        let mut conditions = Vec::new();
        for (at, view) in tiling.stores.iter().enumerate() {
            let store = grid(*view);
            let (_, loops) = self.extent(&self.nest.views[*view].index);
            conditions.push(quote!(support::is_injective(#loops)));
            conditions.extend(tiling.non_aliasing.iter().map(|view| {
                let other = grid(*view);
                quote!(#store.is_disjoint(&#other))
            }));
            conditions.extend(tiling.stores[..at].iter().map(|view| {
                let other = grid(*view);
                quote!(#store.is_disjoint(#other.as_grid()))
            }));
        }
        // An empty reduction stores nothing.
        conditions.extend(tiling.reductions.iter().map(|at| {
            let count = self.used_count(*at);
            quote!(#count != 0)
        }));
        quote!(#(#conditions)&&*)
    }

    /// Emits a tiled nest: a function for a strip of any width, and the loops around it.
    pub(super) fn tiled(&self, tiling: &Tiling) -> Result<TokenStream> {
        let plan = self.plan(tiling);
        let start = start(tiling.lanes);
        let (mut parameters, mut arguments) = (TokenStream::new(), TokenStream::new());
        for view in &plan.views {
            let (name, ty) = (grid(*view), self.grid_type(*view));
            parameters.extend(quote!(#name: &#ty,));
            arguments.extend(quote!(&#name,));
        }
        for at in tiling.rows.iter().chain(&tiling.reductions) {
            let name = self.used_count(*at);
            parameters.extend(quote!(#name: usize,));
            arguments.extend(quote!(#name,));
        }
        for at in &tiling.outer {
            let name = index(*at);
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
        let lane_count = self.used_count(tiling.lanes);
        let strips = Width::of(self.nest.loops[tiling.lanes].constant_trip_count()).into_iter().map(|width| {
            let width = width.number();
            quote! {
                while #lane_count - #start >= #width {
                    strip::<#width>(#arguments #start);
                    #start += #width;
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
        let mut functions = TokenStream::new();
        let mut interleaved = TokenStream::new();
        for number in self.interleaved_strips(tiling) {
            let (name, body) = (format_ident!("strips{}", number), self.strip(&plan, *number)?);
            let number = Literal::usize_unsuffixed(*number);
            functions.extend(quote! {
                #[inline(always)]
                fn #name<const L: usize>(#parameters #start: usize) { #body }
            });
            interleaved.extend(quote! {
                while #lane_count - #start >= #number * LANES {
                    #name::<LANES>(#arguments #start);
                    #start += #number * LANES;
                }
            });
        }
        let mut loops = quote!(let mut #start = 0; #interleaved #(#strips)*);
        for at in tiling.outer.iter().rev() {
            let (index, count) = (index(*at), self.used_count(*at));
            loops = quote!(for #index in 0..#count { #loops });
        }
        let lint = (!tiling.panels.is_empty())
            .then(|| quote!(#[allow(clippy::needless_range_loop, reason = "steps index several arrays and buffers")]));
        Ok(quote! {
            #lint
            #[inline(always)]
            fn strip<const L: usize>(#parameters #start: usize) { #body }
            #functions
            #loops
        })
    }

    fn plan<'t>(&self, tiling: &'t Tiling) -> Plan<'t> {
        let function = self.emitter.body.function;
        let mut views = tiling.non_aliasing.clone();
        views.extend(&tiling.stores);
        views.sort_unstable();
        let mut varying = BTreeSet::new();
        let (mut read, mut defined) = (BTreeSet::new(), BTreeSet::new());
        for at in self.nest.path(tiling.innermost) {
            for induction in &self.nest.loops[at].inductions {
                if induction.form.loops().contains(&tiling.lanes) {
                    varying.insert(induction.parameter);
                }
                if self.is_read(induction.parameter) {
                    read.extend(induction.step.factors().chain(induction.initial));
                    match (at, induction.form.as_constant_base()) {
                        (0, None) => _ = read.insert(induction.parameter),
                        _ => _ = defined.insert(induction.parameter),
                    }
                }
            }
        }
        for (block, position) in self.live_instructions(tiling) {
            let inst = self.nest.instruction(function, block, position);
            let mut varies = false;
            match self.nest.access(block, position) {
                Some(access) => {
                    read.extend(access.stored);
                    varies |= tiling.stores.contains(&access.view) || self.depends_on(access.view, tiling.lanes);
                }
                None => inst.op.visit(|operand| {
                    read.insert(operand.value());
                    varies |= varying.contains(&operand.value());
                }),
            }
            defined.extend(inst.results.iter().copied());
            if varies {
                varying.extend(inst.results.iter().copied());
            }
        }
        let is_captured = |value: &Value| !defined.contains(value) && function.constant_bits(*value).is_none();
        let captured = read.into_iter().filter(is_captured).collect();
        Plan { tiling, views, captured, varying }
    }

    /// The live instructions of an iteration of the innermost loop.
    fn live_instructions(&self, tiling: &Tiling) -> Vec<(incarnate_bytecode::ir::Block, usize)> {
        let items = self.nest.loops[tiling.innermost].items.iter().filter_map(|item| match item {
            Item::Instruction(block, position) => Some((*block, *position)),
            Item::Loop(_) => None,
        });
        items.filter(|(block, position)| self.is_emitted(*block, *position)).collect()
    }

    /// Whether a view depends on a loop.
    fn depends_on(&self, view: usize, at: usize) -> bool {
        axis(self.nest, view, at).is_some()
    }

    fn grid_type(&self, view: usize) -> TokenStream {
        let view = &self.nest.views[view];
        let name = if view.written { quote!(GridMut) } else { quote!(Grid) };
        let (ty, dimensions) = (element(view.element), Literal::usize_unsuffixed(view.index.loops().len()));
        quote!(support::#name<'_, #ty, #dimensions>)
    }

    /// Slices the views that depend on a loop to `length` iterations from `from` on.
    fn slices(&self, views: &[usize], at: usize, from: &TokenStream, length: &TokenStream) -> TokenStream {
        let slices = views.iter().filter_map(|view| {
            let (name, axis) = (grid(*view), axis(self.nest, *view, at)?);
            Some(quote!(let #name = #name.part(#axis, #from, #length);))
        });
        quote!(#(#slices)*)
    }

    /// The numbers of strips that are interleaved, the largest first. Without rows, each operation depends on the previous one
    /// of the same element, so several strips hide its latency. Views whose elements are not contiguous are not interleaved,
    /// because their elements are loaded one by one.
    fn interleaved_strips(&self, tiling: &Tiling) -> &'static [usize] {
        let is_dense = |view: &usize| matches!(self.nest.views[*view].index.constant_stride(tiling.lanes), Some(0 | 1));
        let trip_count = self.nest.loops[tiling.lanes].constant_trip_count().unwrap_or(u64::MAX);
        match tiling.rows {
            None if trip_count >= 32 && tiling.non_aliasing.iter().all(is_dense) => &[4, 2],
            _ => &[],
        }
    }

    /// The body of the function for a number of interleaved strips.
    fn strip(&self, plan: &Plan<'_>, strips: usize) -> Result<TokenStream> {
        let tiling = plan.tiling;
        let first_lane = start(tiling.lanes);
        let width = lanes(strips);
        let slices = self.slices(&plan.views, tiling.lanes, &quote!(#first_lane), &width);
        let Some((last, before)) = tiling.reductions.split_last().filter(|_| !tiling.panels.is_empty()) else {
            let rows = match tiling.rows {
                Some(_) => self.rows(plan, &tiling.reductions, None)?,
                None => self.block(plan, strips, &tiling.reductions, None)?,
            };
            return Ok(quote!(#slices #rows));
        };
        let rows = self.rows(plan, &[], Some(*last))?;
        let (start, trip_count) = (start(*last), count(*last));
        let chunk = Literal::usize_unsuffixed(Tiling::CHUNK);
        let chunks = self.slices(&plan.views, *last, &quote!(#start), &quote!(chunk));
        let panels = tiling.panels.iter().map(|view| {
            let (name, elements) = (panel(*view), self.lanes_of(plan, *view, Some(*last), 0));
            quote! {
                let #name = &mut #name[..chunk];
                for (step, lanes) in #name.iter_mut().enumerate() { *lanes = #elements; }
            }
        });
        let mut tokens = quote! {
            let mut #start = 0;
            while #start < #trip_count {
                let chunk = (#trip_count - #start).min(#chunk);
                #chunks
                #(#panels)*
                #rows
                #start += chunk;
            }
        };
        for at in before.iter().rev() {
            let (index, count) = (index(*at), count(*at));
            tokens = quote!(for #index in 0..#count { #tokens });
        }
        Ok(quote!(#slices #tokens))
    }

    /// All rows, in blocks of [`Tiling::ROWS`] and the rest.
    fn rows(&self, plan: &Plan<'_>, reductions: &[usize], chunked: Option<usize>) -> Result<TokenStream> {
        let Some(rows) = plan.tiling.rows else { return self.block(plan, 1, reductions, chunked) };
        let (start, count) = (start(rows), count(rows));
        let mut tokens = quote!(let mut #start = 0;);
        let blocks = match self.nest.loops[rows].constant_trip_count().map(|count| count as usize) {
            Some(count) => vec![(count / Tiling::ROWS > 0, Tiling::ROWS), (true, count % Tiling::ROWS)],
            None => vec![(true, Tiling::ROWS), (true, 1)],
        };
        for (_, length) in blocks.into_iter().filter(|(there, length)| *there && *length > 0) {
            let number = Literal::usize_unsuffixed(length);
            let slices = self.slices(&plan.views, rows, &quote!(#start), &quote!(#number));
            let block = self.block(plan, length, reductions, chunked)?;
            tokens.extend(quote! {
                while #count - #start >= #number {
                    #slices
                    #block
                    #start += #number;
                }
            });
        }
        Ok(tokens)
    }

    /// A block: rows of a strip, or interleaved strips without rows. Its accumulators are variables.
    fn block(&self, plan: &Plan<'_>, rows: usize, reductions: &[usize], chunked: Option<usize>) -> Result<TokenStream> {
        let tiling = plan.tiling;
        let (mut load, mut work, mut store) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        self.used_indices.borrow_mut().fill(false);
        for row in 0..rows {
            let stem = if rows == 1 { format_ident!("accumulators") } else { format_ident!("accumulators{}", row) };
            let mut accumulators = Vec::new();
            for view in &tiling.stores {
                let name = if accumulators.is_empty() { stem.clone() } else { format_ident!("{}_{}", stem, *view) };
                let (target, ty) = (grid(*view), element(self.nest.views[*view].element));
                let elements = self.lanes_of(plan, *view, chunked, row);
                load.extend(quote!(let mut #name: [#ty; L] = #elements;));
                let (position, axis) = self.position(plan, *view, chunked, row);
                store.extend(quote!(#target.set_lanes(#position, #axis, #name);));
                accumulators.push(name);
            }
            let row = self.row(plan, row, &accumulators, chunked)?;
            work.extend(if rows == 1 { row } else { quote!({ #row }) });
        }
        // Sums of integers may be reordered, so LLVM would vectorise over iterations instead of elements, which is slower.
        let is_integer = |view: &usize| !matches!(self.nest.views[*view].element, Element::f32 | Element::f64);
        if tiling.stores.iter().any(is_integer) {
            work = quote!(support::keep_iteration_order(); #work);
        }
        if let Some(at) = chunked {
            let (index, start) = (index(at), start(at));
            let absolute = self.used_indices.borrow()[at].then(|| quote!(let #index = #start + step;));
            work = quote!(for step in 0..chunk { #absolute #work });
        }
        for at in reductions.iter().rev() {
            let (name, count) = (index(*at), count(*at));
            let name = if self.used_indices.borrow()[*at] { quote!(#name) } else { quote!(_) };
            work = quote!(for #name in 0..#count { #work });
        }
        Ok(quote!(#load #work #store))
    }

    /// One iteration of the reductions for a row of a strip.
    fn row(&self, plan: &Plan<'_>, row: usize, accumulators: &[Ident], chunked: Option<usize>) -> Result<TokenStream> {
        let tiling = plan.tiling;
        let mut tile = Tile::default();
        let (mut before, mut within, mut enumerated) = (TokenStream::new(), TokenStream::new(), accumulators.len() > 1);
        tile.elements.extend(tiling.stores.iter().zip(accumulators).enumerate().map(|(at, (view, lanes))| match at {
            0 => (*view, quote!(*accumulator)),
            _ => (*view, quote!(#lanes[lane])),
        }));
        for view in tiling.non_aliasing.iter().filter(|view| self.depends_on(**view, tiling.lanes)) {
            let lanes = format_ident!("lanes{}", view);
            if tiling.panels.contains(view) {
                let panel = panel(*view);
                before.extend(quote!(let #lanes = &#panel[step];));
            } else {
                let (elements, ty) =
                    (self.lanes_of(plan, *view, chunked, row), element(self.nest.views[*view].element));
                before.extend(quote!(let #lanes: [#ty; L] = #elements;));
            }
            tile.elements.push((*view, quote!(#lanes[lane])));
            enumerated = true;
        }
        if let Some(rows) = tiling.rows {
            let row = Literal::usize_unsuffixed(row);
            tile.indices.push((rows, quote!(#row)));
        }
        tile.indices.extend(chunked.map(|at| (at, quote!(step))));
        self.tile.replace(tile);
        let (scalar, varying) = self.path_inductions(plan);
        if let Some(rows) = tiling.rows.filter(|rows| self.used_indices.borrow()[*rows]) {
            let (index, start, row) = (index(rows), start(rows), Literal::usize_unsuffixed(row));
            before.extend(if row.to_string() == "0" {
                quote!(let #index = #start;)
            } else {
                quote!(let #index = #start + #row;)
            });
        }
        before.extend(scalar);
        if self.used_indices.borrow()[tiling.lanes] {
            let (index, start) = (index(tiling.lanes), start(tiling.lanes));
            within.extend(match plan.tiling.rows {
                None if row > 0 => {
                    let width = lanes(row);
                    quote!(let #index = #start + #width + lane;)
                }
                _ => quote!(let #index = #start + lane;),
            });
            enumerated = true;
        }
        within.extend(varying);
        for (block, position) in self.live_instructions(tiling) {
            let inst = self.nest.instruction(self.emitter.body.function, block, position);
            let is_stored = self.nest.access(block, position).is_some_and(|access| access.stored.is_some());
            let varies = is_stored || inst.results.iter().any(|result| plan.varying.contains(result));
            let tokens = self.instruction(block, position)?;
            if varies { within.extend(tokens) } else { before.extend(tokens) }
        }
        self.tile.replace(Tile::default());
        let Some(accumulators) = accumulators.first() else { return Err(Error::internal("a tiling without a store")) };
        let lanes = match enumerated {
            true => quote!((lane, accumulator) in #accumulators.iter_mut().enumerate()),
            false => quote!(accumulator in &mut #accumulators),
        };
        Ok(quote!(#before for #lanes { #within }))
    }

    /// The inductions of the loops down to the innermost one: those that are equal in all lanes, and those that vary.
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
        let (grid, (position, axis)) = (grid(view), self.position(plan, view, chunked, row));
        quote!(#grid.lanes(#position, #axis))
    }

    /// The indices of the first lane of a row, and the position of the lanes' loop among them.
    fn position(&self, plan: &Plan<'_>, view: usize, chunked: Option<usize>, row: usize) -> (TokenStream, TokenStream) {
        let tiling = plan.tiling;
        let indices = self.nest.views[view].index.loops().into_iter().map(|at| match at {
            at if at == tiling.lanes && tiling.rows.is_none() && row > 0 => lanes(row),
            at if at == tiling.lanes => quote!(0),
            at if Some(at) == tiling.rows => {
                let row = Literal::usize_unsuffixed(row);
                quote!(#row)
            }
            at if Some(at) == chunked => quote!(step),
            at => {
                self.used_indices.borrow_mut()[at] = true;
                let index = index(at);
                quote!(#index)
            }
        });
        let position = quote!([#(#indices),*]);
        (position, axis(self.nest, view, tiling.lanes).unwrap_or_else(|| quote!(0)))
    }

    /// Whether the strip function can take all captured values: references cannot be captured.
    pub(super) fn is_tileable(&self, tiling: &Tiling) -> bool {
        self.plan(tiling).captured.iter().all(|value| self.emitter.body.function.ty(*value) != Type::Ref)
    }
}

/// The position of a loop among those that a view depends on.
fn axis(nest: &Nest, view: usize, at: usize) -> Option<TokenStream> {
    let form: &Affine = &nest.views[view].index;
    let position = form.loops().into_iter().position(|other| other == at)?;
    let position = Literal::usize_unsuffixed(position);
    Some(quote!(#position))
}

/// The variable of the first iteration of a strip, block or chunk.
fn start(at: usize) -> Ident {
    format_ident!("start{}", at)
}

/// The variable of a packed view.
fn panel(view: usize) -> Ident {
    format_ident!("panel{}", view)
}

fn zero(element: Element) -> TokenStream {
    if matches!(element, Element::f32 | Element::f64) { quote!(0.0) } else { quote!(0) }
}

/// The number of lanes in a number of vectors.
fn lanes(vectors: usize) -> TokenStream {
    let number = Literal::usize_unsuffixed(vectors);
    if vectors == 1 { quote!(L) } else { quote!(#number * L) }
}
