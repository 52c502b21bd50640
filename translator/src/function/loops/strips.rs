//! Emission of strips of elements, which stay in vector registers: of reductions, and of rows of a known length. Of those, LLVM unrolls
//! short ones before it vectorises, and then moves single elements.

use std::collections::BTreeSet;

use incarnate_bytecode::ir::nest::{Dividend, Element, Strips};
use incarnate_bytecode::ir::{Block, Type, Value};
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::super::values::type_of;
use super::joined::Tuple;
use super::narrow::Narrow;
use super::passed::Passed;
use super::sums::sums_of_lanes;
use super::writer::{Tile, Writer, count, element, grid, index, mentions};

/// How the elements of strips are loaded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Density {
    /// One by one.
    Single,
    /// As vectors of every second element, some of them.
    Even,
    /// As vectors of adjacent elements, or of the same one.
    Adjacent,
}

/// The numbers of interleaved strips and their widths that cover any number of iterations of a loop, the widest first. Each
/// operation depends on the previous one of the same element, so several strips hide its latency, if their elements are adjacent. Where
/// they are no reductions, two do, and of four LLVM would gather one element each into vectors. The last strips overlap, instead of several
/// narrow ones: but for elements that are loaded one by one, as are a few of every second where none depends on another. Each of the `jammed`
/// iterations has strips of its own.
fn widths(trip_count: Option<u64>, density: Density, is_reduction: bool, jammed: u64) -> TokenStream {
    let density = match (density, trip_count) {
        (Density::Even, Some(..8)) if !is_reduction => Density::Single,
        _ => density,
    };
    let is_long = trip_count.is_none_or(|count| count >= 32);
    let four = (is_reduction && jammed <= 2).then(|| quote!(4 x LANES,));
    let two = (jammed <= 4).then(|| quote!(2 x LANES,));
    let interleaved = (density == Density::Adjacent && is_long).then(|| quote!(#four #two));
    match trip_count {
        None if density == Density::Single => quote!([1 x LANES, 1 x 4, 1 x 1]),
        None => quote!([#interleaved 1 x LANES, 1 x 16] over 16, [1 x 4] over 4, [1 x 1]),
        Some(count) if density == Density::Single || count < 4 => {
            let mut widths = Vec::new();
            widths.extend((count >= 16).then(|| quote!(1 x LANES)));
            for (lanes, covered) in [(16u8, 32), (8, 16), (4, 8), (1, 4)] {
                let width = Literal::u8_unsuffixed(lanes);
                widths.extend((count % covered >= lanes.into()).then(|| quote!(1 x #width)));
            }
            quote!([#(#widths),*])
        }
        Some(16..) => quote!([#interleaved 1 x LANES, 1 x 16] over 16),
        Some(8..) => quote!([1 x 8] over 8),
        Some(_) => quote!([1 x 4] over 4),
    }
}

/// Strips while they are emitted.
pub(super) struct Plan<'t> {
    strips: &'t Strips,
    /// The views that the strip function takes, ascending: stores and live loads.
    pub(super) views: Vec<usize>,
    /// Numbers defined before the nest that the strip function takes.
    captured: Vec<Value>,
    /// Values that differ between lanes.
    varying: BTreeSet<Value>,
    /// Values that differ between the iterations of the jammed loop.
    jammed: BTreeSet<Value>,
}

/// A value that iterations of the jammed loop share: its name, that of the array of its elements, and their type.
type Shared = (TokenStream, Ident, TokenStream);

impl Writer<'_, '_, '_> {
    fn density(&self, strips: &Strips) -> Density {
        let of_view = |view: &usize| match self.nest.views[*view].index.constant_stride(strips.lanes) {
            Some(0 | 1) => Density::Adjacent,
            Some(2) => Density::Even,
            _ => Density::Single,
        };
        // Several strips of gathers would need more registers than there are.
        if !self.nest.gathers.is_empty() {
            return Density::Single;
        }
        strips.non_aliasing.iter().map(of_view).min().unwrap_or(Density::Adjacent)
    }

    /// Emits a function for a number of strips of any width, and the loops around it.
    pub(super) fn strips(&self, strips: &Strips) -> Result<TokenStream> {
        let plan = self.plan(strips);
        let mut passed = Passed::default();
        for view in &plan.views {
            let (name, ty) = (grid(*view), self.grid_type(*view, &quote!('_)));
            passed.push(&name, quote!(&#ty), quote!(&#name));
        }
        self.pass_gathers(&mut passed);
        let counts = strips.reductions.iter().map(|at| count(*at));
        counts.chain(strips.around().map(index)).for_each(|name| passed.push_variable(name, quote!(usize)));
        self.captured(&plan).into_iter().for_each(|(name, ty)| passed.push_variable(name, ty));
        if !self.sums.is_empty() {
            let level = if self.has_variants(strips) { quote!(products) } else { quote!(support::of_program()) };
            passed.push(quote!(products), quote!(impl support::IntegerProducts), level);
        }
        let body = passed.push_constants(self.strip(&plan)?);
        let (parameters, arguments) = (passed.parameters(), &passed.values);
        let lanes = count(strips.lanes);
        let jammed = strips.jammed.and_then(|at| self.scheduled.trip_count(at)).unwrap_or(1);
        let widths = widths(
            self.scheduled.trip_count(strips.lanes),
            self.density(strips),
            !strips.reductions.is_empty(),
            jammed,
        );
        let mut loops = quote!(support::strips!(#lanes, strip(#(#arguments),*), #widths););
        for at in strips.around().rev() {
            let (index, count) = (index(at), count(at));
            loops = quote!(for #index in 0..#count { #loops });
        }
        Ok(quote! {
            #[inline(always)]
            fn strip<const STRIPS: usize, const L: usize>(#(#parameters,)* first: usize, step: usize) { #body }
            #loops
        })
    }

    /// The numbers that the strip function takes, and their types.
    pub(super) fn captured(&self, plan: &Plan<'_>) -> Vec<(TokenStream, TokenStream)> {
        let function = self.emitter.body.function;
        plan.captured.iter().map(|value| (self.emitter.name(*value), type_of(function.ty(*value)))).collect()
    }

    /// The parts of some views that a strip accesses.
    pub(super) fn slices(&self, plan: &Plan<'_>, views: &[usize]) -> TokenStream {
        let slices = views.iter().filter_map(|view| {
            let (name, axis) = (grid(*view), self.axis(*view, plan.strips.lanes)?);
            Some(quote!(let #name = #name.part(#axis, first, L + step * (STRIPS - 1));))
        });
        quote!(#(#slices)*)
    }

    pub(super) fn plan<'t>(&self, strips: &'t Strips) -> Plan<'t> {
        let function = self.emitter.body.function;
        let mut views = strips.non_aliasing.clone();
        views.extend(&strips.stores);
        views.retain(|view| self.joined.grid_of(*view) == *view);
        views.sort_unstable();
        let (mut varying, mut jammed) = (BTreeSet::new(), BTreeSet::new());
        let (mut read, mut defined) = (BTreeSet::new(), BTreeSet::new());
        let is_gather = |block: Block, position: usize| self.nest.gather(block, position).is_some();
        for at in self.nest.path(strips.innermost) {
            for induction in &self.nest.loops[at].inductions {
                let loops = induction.form.loops();
                varying.extend(loops.contains(&strips.lanes).then_some(induction.parameter));
                let is_jammed = strips.jammed.is_some_and(|at| loops.contains(&at));
                jammed.extend(is_jammed.then_some(induction.parameter));
                if self.scheduled.reads(induction.parameter) {
                    read.extend(induction.step.factors().chain(induction.initial));
                    match (at, induction.form.as_constant_base()) {
                        (0, None) => _ = read.insert(induction.parameter),
                        _ => _ = defined.insert(induction.parameter),
                    }
                }
            }
        }
        for (block, position) in self.live_instructions(strips) {
            let inst = self.nest.instruction(function, block, position);
            let (mut varies, mut is_jammed) = (false, false);
            match self.nest.access(block, position) {
                Some(access) => {
                    read.extend(access.stored);
                    let is_stored = strips.stores.contains(&access.view);
                    varies |= is_stored || self.depends_on(access.view, strips.lanes);
                    is_jammed |= is_stored || strips.jammed.is_some_and(|at| self.depends_on(access.view, at));
                }
                None => inst.op.visit(|operand| {
                    let is_number = function.ty(operand.value()) != Type::Ref || !is_gather(block, position);
                    read.extend(Some(operand.value()).filter(|_| is_number));
                    varies |= varying.contains(&operand.value());
                    is_jammed |= jammed.contains(&operand.value());
                }),
            }
            let division = self.nest.division(block, position).map(|at| &self.nest.divisions[at]);
            if let Some(Dividend::Form(form)) = division.map(|division| &division.dividend) {
                read.extend(form.factors());
            }
            defined.extend(inst.results.iter().copied());
            varying.extend(inst.results.iter().copied().filter(|_| varies));
            jammed.extend(inst.results.iter().copied().filter(|_| is_jammed));
        }
        let is_captured = |value: &Value| !defined.contains(value) && function.constant_bits(*value).is_none();
        let captured = read.into_iter().filter(is_captured).collect();
        Plan { strips, views, captured, varying, jammed }
    }

    /// The live instructions of an iteration of the innermost loop and of those around it.
    pub(super) fn live_instructions(&self, strips: &Strips) -> Vec<(Block, usize)> {
        let mut instructions = self.nest.instructions_to(strips.innermost);
        instructions.retain(|(block, position)| self.scheduled.includes(*block, *position));
        instructions
    }

    /// Whether a view depends on a loop.
    fn depends_on(&self, view: usize, at: usize) -> bool {
        self.axis(view, at).is_some()
    }

    pub(super) fn grid_type(&self, view: usize, lifetime: &TokenStream) -> TokenStream {
        let is_joined = self.joined.last_loop(view).is_some();
        let view = &self.nest.views[view];
        let name = if view.written { quote!(GridMut) } else { quote!(Grid) };
        let axes = self.scheduled.axes(&view.index).len() + usize::from(is_joined);
        let (ty, dimensions) = (element(view.element), Literal::usize_unsuffixed(axes));
        quote!(support::#name<#lifetime, #ty, #dimensions>)
    }

    /// The body of the function: all iterations of the reductions for some strips.
    fn strip(&self, plan: &Plan<'_>) -> Result<TokenStream> {
        let strips = plan.strips;
        let slices = self.slices(plan, &plan.views);
        let (mut load, mut store) = (TokenStream::new(), TokenStream::new());
        for (copy, view) in self.copies(plan).flat_map(|copy| strips.stores.iter().map(move |view| (copy, view))) {
            let (name, target) = (accumulators(*view, copy), grid(*view));
            let (ty, zero) = (element(self.nest.views[*view].element), zero(self.nest.views[*view].element));
            let elements = self.lanes_of(plan, *view);
            let index = self.index_of_copy(plan, copy);
            load.extend(quote! {
                #index
                let mut #name: [[#ty; L]; STRIPS] = [[#zero; L]; STRIPS];
                for (strip, accumulators) in #name.iter_mut().enumerate() { *accumulators = #elements; }
            });
            let (position, axis) = self.position(plan, *view);
            store.extend(quote! {
                #index
                for (strip, accumulators) in #name.iter().enumerate() {
                    #target.set_lanes(#position, #axis, *accumulators);
                }
            });
        }
        let mut work = self.iteration(plan)?;
        // Sums of integers may be reordered, so LLVM would vectorise over iterations instead of elements, which is slower.
        let is_integer = |view: &usize| !matches!(self.nest.views[*view].element, Element::f32 | Element::f64);
        if strips.stores.iter().any(is_integer) {
            work = quote!(support::keep_iteration_order(); #work);
        }
        for at in strips.reductions.iter().rev() {
            let (name, count) = (index(*at), count(*at));
            let name = if mentions(&work, &name) { quote!(#name) } else { quote!(_) };
            work = quote!(for #name in 0..#count { #work });
        }
        let (first, before_stores) = self.checks_of_strips().unzip();
        Ok(quote!(#first #slices #load #work #before_stores #store))
    }

    /// One iteration of the reductions for all strips.
    pub(super) fn iteration(&self, plan: &Plan<'_>) -> Result<TokenStream> {
        let (values, shared) = match plan.strips.jammed {
            None => (Vec::new(), TokenStream::new()),
            Some(_) => {
                let values = self.shared_values(plan);
                let shared = self.shared_work(plan, &values)?;
                (values, shared)
            }
        };
        let mut copies = TokenStream::new();
        for copy in self.copies(plan) {
            let work = self.work_of_copy(plan, copy, &values)?;
            copies.extend(if copy.is_some() { quote!({ #work }) } else { work });
        }
        Ok(quote! {
            #[allow(clippy::needless_range_loop, clippy::unused_enumerate_index, reason = "strips index several arrays")]
            for strip in 0..STRIPS {
                #shared
                #copies
            }
        })
    }

    /// The iterations of the jammed loop; one without a number where there is none.
    fn copies(&self, plan: &Plan<'_>) -> impl Iterator<Item = Option<u64>> + use<> {
        let count = plan.strips.jammed.and_then(|at| self.scheduled.trip_count(at));
        let numbered = (0..count.unwrap_or(0)).map(Some);
        numbered.chain(count.is_none().then_some(None))
    }

    /// The index of the jammed loop.
    fn index_of_copy(&self, plan: &Plan<'_>, copy: Option<u64>) -> Option<TokenStream> {
        let (index, copy) = (index(plan.strips.jammed?), Literal::u64_unsuffixed(copy?));
        Some(quote!(let #index: usize = #copy;))
    }

    /// What the iterations of the jammed loop share, with arrays of the elements that they read.
    fn shared_work(&self, plan: &Plan<'_>, values: &[Shared]) -> Result<TokenStream> {
        let (before, within) = self.work(plan, &mut Tile::default(), false)?;
        let arrays = values.iter().map(|(_, array, ty)| quote!(let mut #array: [#ty; L] = [Default::default(); L];));
        let stores = values.iter().map(|(name, array, _)| quote!(#array[lane] = #name;));
        Ok(quote!(#before #(#arrays)* for lane in 0..L { #within #(#stores)* }))
    }

    /// The values of shared work that iterations of the jammed loop read and that differ between lanes, with their arrays and types.
    fn shared_values(&self, plan: &Plan<'_>) -> Vec<Shared> {
        let function = self.emitter.body.function;
        let mut read = BTreeSet::new();
        for (block, position) in self.live_instructions(plan.strips) {
            let inst = self.nest.instruction(function, block, position);
            let access = self.nest.access(block, position);
            if self.is_of_copy(plan, &inst.results, access.is_some_and(|access| access.stored.is_some())) {
                match access {
                    Some(access) => read.extend(access.stored),
                    None => inst.op.visit(|operand| _ = read.insert(operand.value())),
                }
            }
        }
        let is_shared = |value: &Value| plan.varying.contains(value) && !plan.jammed.contains(value);
        let shared = read.into_iter().filter(is_shared).enumerate();
        let named = shared
            .map(|(at, value)| (self.emitter.name(value), format_ident!("shared{}", at), type_of(function.ty(value))));
        named.collect()
    }

    /// Whether each iteration of the jammed loop runs an instruction. All run, where there is none.
    fn is_of_copy(&self, plan: &Plan<'_>, results: &[Value], is_store: bool) -> bool {
        plan.strips.jammed.is_none() || is_store || results.iter().any(|result| plan.jammed.contains(result))
    }

    /// The work of an iteration of the jammed loop.
    fn work_of_copy(&self, plan: &Plan<'_>, copy: Option<u64>, shared: &[Shared]) -> Result<TokenStream> {
        let mut tile = Tile::default();
        let mut lanes = Vec::new();
        for (at, view) in plan.strips.stores.iter().enumerate() {
            let name = accumulators(*view, copy);
            lanes.push(quote!(#name[strip]));
            tile.elements.push((*view, if at == 0 { quote!(*accumulator) } else { quote!(#name[strip][lane]) }));
        }
        let (before, within) = self.work(plan, &mut tile, true)?;
        let index = self.index_of_copy(plan, copy);
        let shared = shared.iter().map(|(name, array, _)| quote!(let #name = #array[lane];));
        let Some(lanes) = lanes.first() else { return Err(Error::internal("strips without a store")) };
        let each = quote!(for (lane, accumulator) in #lanes.iter_mut().enumerate() { #(#shared)* #within });
        let lanes = self.by_rows(plan.strips.innermost, each);
        Ok(quote!(#index #before #lanes))
    }

    /// The work of each iteration of the jammed loop, or that which they share: before the loop over lanes, and within it. Where no loop
    /// is jammed, the former is all.
    fn work(&self, plan: &Plan<'_>, tile: &mut Tile, is_of_copy: bool) -> Result<(TokenStream, TokenStream)> {
        let strips = plan.strips;
        let (mut factors, mut within) = (Vec::new(), TokenStream::new());
        let mut before = self.load_lanes(plan, tile, is_of_copy);
        for at in self.nest.path(strips.innermost) {
            let is_own = |value: Value| self.is_of_copy(plan, &[value], false) == is_of_copy;
            let varies = |value: Value| plan.varying.contains(&value) && is_own(value);
            before.extend(self.inductions(at, |each| is_own(each.parameter) && !varies(each.parameter)));
            let is_before = |value: Value| varies(value) && self.sums.runs_before(&[value]);
            for induction in self.nest.loops[at].inductions.iter().filter(|each| is_before(each.parameter)) {
                let definition = self.inductions(at, |each| each.parameter == induction.parameter);
                factors.push((induction.parameter, with_index(strips, definition)));
            }
            let is_after = |value: Value| varies(value) && self.sums.runs_after(&[value]);
            within.extend(self.inductions(at, |each| is_after(each.parameter)));
        }
        if !self.nest.gathers.is_empty() {
            before.extend(self.prepare_divisions(strips.innermost));
        }
        let instructions = self.live_instructions(strips);
        let narrow = match self.sums.is_empty() {
            true => Narrow::new(),
            false => {
                let is_factor = |value| self.sums.runs_before(&[value]) && plan.varying.contains(&value);
                self.narrowed(&instructions, tile, is_factor)
            }
        };
        for (block, position) in instructions.iter().copied() {
            let inst = self.nest.instruction(self.emitter.body.function, block, position);
            let is_stored = self.nest.access(block, position).is_some_and(|access| access.stored.is_some());
            if self.is_of_copy(plan, &inst.results, is_stored) != is_of_copy {
                continue;
            }
            let tokens = self.instruction(block, position, Some(tile))?;
            if !is_stored && !inst.results.iter().any(|result| plan.varying.contains(result)) {
                before.extend(tokens);
                continue;
            }
            if let [result] = inst.results[..]
                && self.sums.runs_before(&[result])
            {
                let definition = narrow.get(&result).unwrap_or(&tokens).clone();
                factors.push((result, with_index(strips, definition)));
            }
            match inst.results[..] {
                [sum] if self.sums.is_sum(sum) => {
                    let sum = self.emitter.name(sum);
                    let sums = sums_of_lanes(&sum);
                    within.extend(quote!(let #sum = #sums[lane];));
                }
                _ if is_stored || self.sums.runs_after(&inst.results) => within.extend(tokens),
                _ => {}
            }
        }
        if !self.sums.is_empty() {
            before.extend(self.sums_of_products(&instructions, &factors, &narrow));
        }
        Ok((before, with_index(strips, within)))
    }

    /// Loads the elements of lanes that iterations of the jammed loop have for themselves, or those that they share.
    fn load_lanes(&self, plan: &Plan<'_>, tile: &mut Tile, is_of_copy: bool) -> TokenStream {
        let strips = plan.strips;
        let mut loads = TokenStream::new();
        for view in strips.non_aliasing.iter().copied().filter(|view| self.depends_on(*view, strips.lanes)) {
            if strips.jammed.is_none_or(|at| self.depends_on(view, at)) != is_of_copy {
                continue;
            }
            let tuple = self.joined.tuple_of(view);
            let lanes = format_ident!("lanes{}", tuple.map_or(view, |tuple| tuple.first));
            let mut ty = element(self.nest.views[view].element);
            let element = match tuple {
                None => quote!(#lanes[lane]),
                Some(Tuple { at, count, .. }) => {
                    let (at, count) = (Literal::usize_unsuffixed(at), Literal::usize_unsuffixed(count));
                    ty = quote!([#ty; #count]);
                    quote!(#lanes[lane][#at])
                }
            };
            tile.elements.push((view, element));
            if tuple.is_some_and(|tuple| tuple.at > 0) {
                continue;
            }
            let elements = self.lanes_of(plan, view);
            loads.extend(quote!(let #lanes: [#ty; L] = #elements;));
        }
        loads
    }

    /// The elements of a strip.
    fn lanes_of(&self, plan: &Plan<'_>, view: usize) -> TokenStream {
        let (grid, (position, axis)) = (grid(self.joined.grid_of(view)), self.position(plan, view));
        let method = if self.joined.tuple_of(view).is_some() { quote!(tuples) } else { quote!(lanes) };
        quote!(#grid.#method(#position, #axis))
    }

    /// The indices of the first element of a strip, and the position of the vector axis among them.
    fn position(&self, plan: &Plan<'_>, view: usize) -> (TokenStream, TokenStream) {
        let lanes = plan.strips.lanes;
        let indices = self.scheduled.axes(&self.nest.views[view].index).into_iter().map(|at| {
            if at == lanes {
                return quote!(strip * step);
            }
            let index = index(at);
            quote!(#index)
        });
        let indices = indices.chain(self.joined.last_index(view));
        let position = quote!([#(#indices),*]);
        (position, self.axis(view, lanes).unwrap_or_else(|| quote!(0)))
    }

    /// The position of a loop among those that a view depends on.
    fn axis(&self, view: usize, at: usize) -> Option<TokenStream> {
        let position = self.scheduled.axes(&self.nest.views[view].index).into_iter().position(|other| other == at)?;
        let position = Literal::usize_unsuffixed(position);
        Some(quote!(#position))
    }
}

/// Work within a loop over lanes, with the index of the loop that is split into strips where it reads that.
fn with_index(strips: &Strips, work: TokenStream) -> TokenStream {
    let lane = index(strips.lanes);
    if mentions(&work, &lane) { quote!(let #lane = first + strip * step + lane; #work) } else { work }
}

/// The variable of the elements of a stored view, of an iteration of the jammed loop if there is one.
fn accumulators(view: usize, copy: Option<u64>) -> Ident {
    match copy {
        None => format_ident!("accumulators{}", view),
        Some(copy) => format_ident!("accumulators{}_{}", view, copy),
    }
}

pub(super) fn zero(element: Element) -> TokenStream {
    if matches!(element, Element::f32 | Element::f64) { quote!(0.0) } else { quote!(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_reductions_over_every_second_element_overlap() {
        let of = |count, is_reduction| widths(Some(count), Density::Even, is_reduction, 1).to_string().replace(' ', "");
        assert_eq!(
            [3, 4, 7, 8, 15].map(|count| of(count, true)),
            ["[1x1]", "[1x4]over4", "[1x4]over4", "[1x8]over8", "[1x8]over8",]
        );
        assert_eq!(of(7, false), "[1x4,1x1]");
    }
}
