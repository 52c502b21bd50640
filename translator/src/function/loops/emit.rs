//! Emission of nests: what is checked before them, and their loops.

use std::cell::{Cell, RefCell};

use incarnate_bytecode::index_map::IndexSet;
use incarnate_bytecode::ir::nest::{
    Access, Carried, Counted, Element, Induction, Item, Needed, Nest, Schedule, Strips,
};
use incarnate_bytecode::ir::{Block, Inst, Op, Type, Value};
use incarnate_bytecode::{Error, Result};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::super::emitter::{Emitter, lifetime_named};
use super::super::values::type_of;
use super::super::{multiversion, shared};
use super::division::Prepared;
use super::forms::{Parameters, integer, unsigned};
use super::merged::Merged;
use super::strips::{Tile, Way};

/// A nest while it is emitted.
pub(super) struct Writer<'a, 'e, 'm> {
    pub(super) emitter: &'a Emitter<'e, 'm>,
    pub(super) nest: &'a Nest,
    needed: Needed,
    /// The values that indices of gathers are computed from.
    pub(super) index_values: IndexSet<Value>,
    /// Whether the emitted code uses the index of each loop.
    pub(super) used_indices: RefCell<Vec<bool>>,
    /// Whether the emitted code uses the trip count of each loop.
    used_counts: RefCell<Vec<bool>>,
    /// The elements that the current strip holds in variables.
    pub(super) tile: RefCell<Tile>,
    /// The label of the block that is left where the loops of the bytecode must run.
    pub(super) label: TokenStream,
    /// Whether the lanes of strips are emitted.
    pub(super) is_on_strips: Cell<bool>,
    /// The divisions that loops have prepared.
    pub(super) prepared: RefCell<Prepared>,
    pub(super) merged: Merged,
    /// Which constants of loops may become parameters.
    pub(super) parameters: Parameters,
}

impl Emitter<'_, '_> {
    /// Emits a nest: a block that is left if an access may fail, and that otherwise runs all iterations.
    pub(in super::super) fn nest(&self, index: u32) -> Result<TokenStream> {
        let nest = &self.body.nests.found[index as usize];
        let mut writer = Writer {
            emitter: self,
            nest,
            needed: Needed::of(self.body.function, nest),
            index_values: nest.index_values(self.body.function),
            used_indices: RefCell::new(vec![false; nest.loops.len()]),
            used_counts: RefCell::new(vec![false; nest.loops.len()]),
            tile: RefCell::default(),
            label: {
                let label = lifetime_named(&format!("nest{index}"));
                quote!(#label)
            },
            is_on_strips: Cell::new(false),
            prepared: RefCell::default(),
            merged: Merged::default(),
            parameters: Parameters::None,
        };
        let schedule = self.analysis.scheduling.schedule(self.body.function, nest, &writer.needed);
        writer.parameters = match &schedule {
            _ if self.shared.is_none() => Parameters::None,
            Schedule::Contraction(_) => Parameters::All,
            Schedule::Strips(strips) if writer.is_reduction(strips) => Parameters::None,
            _ => Parameters::Outer,
        };
        writer.merged = writer.merge(&schedule);
        writer.nest(index, &schedule)
    }
}

impl Writer<'_, '_, '_> {
    fn nest(&self, index: u32, schedule: &Schedule) -> Result<TokenStream> {
        let label = &self.label;
        let leave = quote!(else { break #label; });
        let mut tokens = TokenStream::new();
        for condition in &self.nest.conditions {
            let (base, loops) = self.extent(&condition.form);
            let (least, greatest) = (integer(condition.least), integer(condition.greatest));
            tokens.extend(quote!(if !support::is_within(#base, &#loops, #least, #greatest) { break #label; }));
        }
        for (at, view) in self.nest.views.iter().enumerate() {
            // Loads without uses are checked, too.
            let is_used = self.nest.accesses.iter().any(|access| access.view == at && self.is_live(access));
            if is_used && matches!(schedule, Schedule::Contraction(_)) {
                continue;
            }
            let (base, loops) = self.extent(&view.index);
            let (name, buffer) = (grid(at), self.emitter.name(view.buffer));
            let (element, dimensions) =
                (element(view.element), Literal::usize_unsuffixed(self.axes(&view.index).len()));
            let function = if view.written { format_ident!("grid_mut") } else { format_ident!("grid") };
            let name = if is_used && *schedule != Schedule::Zeros { quote!(#name) } else { quote!(_) };
            tokens.extend(quote! {
                let Some(#name) = support::elements_of!(#buffer, #function, #element, #dimensions, #base, #loops)
                #leave;
            });
        }
        tokens.extend(self.gathers());
        let scheduled = self.scheduled(schedule)?;
        tokens.extend(self.division_conditions());
        tokens.extend(scheduled);
        let root = &self.nest.loops[0];
        tokens.extend(self.settle(root));
        for induction in &root.inductions {
            let count = if root.divisor.is_some() { format_ident!("iterations") } else { self.used_count(0) };
            let name = self.emitter.name(induction.parameter);
            let end = self.induction(induction, &count);
            tokens.extend(quote!(#name = #end;));
        }
        let mut first = TokenStream::new();
        for (block, position) in &self.nest.hoisted {
            first.extend(self.instruction(*block, *position)?);
        }
        for (at, counted) in self.nest.loops.iter().enumerate() {
            let trip_count = self.trip_count(counted);
            // Loops without work must terminate, too: otherwise the loops of the bytecode do not.
            let name = if self.used_counts.borrow()[at] { count(at) } else { format_ident!("_count{}", at) };
            first.extend(match (&counted.divisor, self.row(at)) {
                (None, Some(known)) => {
                    let known = match self.literal_count(at) {
                        None => shared::constant(shared::Kind::Usize, known),
                        Some(known) => unsigned(known),
                    };
                    quote!(let #name: usize = #known;)
                }
                (None, None) => quote!(let Some(#name) = #trip_count #leave;),
                (Some(divisor), _) => {
                    let divisor = self.form(divisor.base());
                    let all = if at == 0 { format_ident!("iterations") } else { name.clone() };
                    quote! {
                        let Some(#all) = #trip_count #leave;
                        let Some(#name) = support::outer_trip_count(#all, #divisor) #leave;
                    }
                }
            });
        }
        Ok(match self.emitter.body.accumulators.output_of(index as usize) {
            None => quote!(#label: { #first #tokens }),
            // Where the block is left, the loops of the bytecode add to what is in memory.
            Some(buffer) => {
                let (run, buffer) = (lifetime_named(&format!("run{index}")), self.emitter.read(buffer));
                let cleared = self.emitter.fallible(
                    quote!(support::buffer_clear(#buffer)),
                    self.emitter.offset_of(self.nest.loops[0].header),
                );
                quote!(#run: { #label: { #first #tokens break #run; } #cleared })
            }
        })
    }

    /// The iterations, as a schedule runs them, after the last checks.
    fn scheduled(&self, schedule: &Schedule) -> Result<TokenStream> {
        let label = &self.label;
        // Without the steps, the original loop takes those that are left, and fails.
        let permitted = self.emitter.analysis.untrusted.then(|| {
            let steps = self.steps(0);
            // A kernel runs a contraction.
            let instructions = match schedule {
                Schedule::Contraction(_) | Schedule::Zeros => 1,
                _ => self.nest.instructions().count(),
            };
            let instructions = Literal::usize_unsuffixed(instructions);
            quote!(stack.take_steps(#steps, #instructions))
        });
        let steps = permitted.as_ref().map(|permitted| quote!(if !#permitted { break #label; }));
        match schedule {
            Schedule::Contraction(contraction) => {
                let call = self.contraction(contraction, permitted)?;
                Ok(quote!(if !#call { break #label; }))
            }
            Schedule::Strips(strips) => self.by_strips(strips, &steps),
            Schedule::InOrder(_) => {
                self.stays_in_function();
                let iterations = self.iterations(0)?;
                Ok(quote!(#steps #iterations))
            }
            Schedule::Zeros => Ok(quote!(#steps)),
        }
    }

    /// The iterations of strips.
    fn by_strips(&self, strips: &Strips, steps: &Option<TokenStream>) -> Result<TokenStream> {
        let label = &self.label;
        let iterations = match self.way(strips) {
            Way::Strips => self.checked_iterations(self.strips(strips)?),
            Way::Loops => {
                self.stays_in_function();
                let iterations = self.iterations(0)?;
                return Ok(quote!(#steps #iterations));
            }
        };
        let conditions = self.strip_conditions(strips, strips.reductions.is_empty());
        let iterations = if self.has_variants(strips) {
            self.with_variants(strips, iterations)
        } else {
            self.stays_in_function();
            iterations
        };
        Ok(quote!(if !(#conditions) { break #label; } #steps #iterations))
    }

    /// Notes that the iterations are part of the body around them, which has variants for their sake if they are many.
    fn stays_in_function(&self) {
        let needs_variants = &self.emitter.needs_variants;
        needs_variants.set(needs_variants.get() || multiversion::is_long(self.nest));
    }

    /// Makes numbers of what raced, for the code behind the nest.
    fn settle(&self, root: &Counted) -> TokenStream {
        let loads = !self.nest.accesses.is_empty();
        let carried = root.carried.iter().filter(|carried| loads && carried.next != carried.parameter);
        let names = carried.map(|carried| self.emitter.name(carried.parameter));
        let settled = names.map(|name| quote!(#name = support::settled(#name);));
        let stores = self.nest.accesses.iter().any(|access| access.stored.is_some() && self.is_live(access));
        let memory = stores.then(|| quote!(support::settle_memory();));
        quote!(#(#settled)* #memory)
    }

    /// The value of an instruction of the nest, in which no division fails.
    pub(super) fn expression(&self, inst: &Inst) -> Result<TokenStream> {
        match &inst.op {
            Op::Eval { opcode, operands } if opcode.info().effects.fails => self.emitter.quotient(*opcode, operands),
            _ => self.emitter.expression(inst),
        }
    }

    /// The divisor of a division within the nest, if it may have been loaded: the compiler must not take it for two numbers, of
    /// which one is zero.
    fn settled_divisor(&self, op: &Op) -> Option<TokenStream> {
        let function = self.emitter.body.function;
        let Op::Eval { opcode, operands } = op else { return None };
        let divisor = *operands.get(1).filter(|_| opcode.info().effects.fails)?;
        let is_named = function.constant_bits(divisor).is_none() && self.emitter.body.rematerialized(divisor).is_none();
        let name = is_named.then(|| self.emitter.name(divisor))?;
        Some(quote!(let #name = support::settled(#name);))
    }

    /// The iterations of a loop and of those in it, as an expression.
    pub(super) fn steps(&self, at: usize) -> TokenStream {
        let count = self.used_count(at);
        let inner = self.nest.loops.iter().enumerate().filter(|(_, counted)| counted.parent == Some(at));
        let inner = inner.map(|(inner, _)| self.steps(inner)).reduce(|sum, steps| quote!(#sum.saturating_add(#steps)));
        match inner {
            None => quote!(#count),
            Some(inner) => quote!(#count.saturating_mul(#inner.saturating_add(1))),
        }
    }

    /// The variable of a loop's trip count, which is then used.
    pub(super) fn used_count(&self, at: usize) -> Ident {
        self.used_counts.borrow_mut()[at] = true;
        count(at)
    }

    /// All iterations of a loop; empty if they have no effect.
    fn iterations(&self, at: usize) -> Result<TokenStream> {
        let counted = &self.nest.loops[at];
        let prepared = self.prepare_divisions(at);
        let mut body = TokenStream::new();
        for item in &counted.items {
            body.extend(match item {
                Item::Instruction(block, position) => self.instruction(*block, *position)?,
                Item::Loop(inner) => self.iterations(*inner)?,
            });
        }
        let carried: Vec<&Carried> = counted
            .carried
            .iter()
            .filter(|carried| carried.next != carried.parameter && (at == 0 || self.needed.has(carried.parameter)))
            .collect();
        body.extend(self.assign_carried(&carried));
        self.forget_divisions(at);
        let iterations = if body.is_empty() || self.merged.is_outer(at) {
            body
        } else {
            let first = self.inductions(at, |_| true);
            let (index, count) = (index(at), self.used_count(at));
            let index = if self.used_indices.borrow()[at] { quote!(#index) } else { quote!(_) };
            quote!(#prepared for #index in 0..#count { #first #body })
        };
        // Later code uses even unchanged carried values by their name in the loop.
        if at == 0 {
            return Ok(iterations);
        }
        let mut before = TokenStream::new();
        let mut after = TokenStream::new();
        for carried in counted.carried.iter().filter(|carried| self.needed.has(carried.parameter)) {
            let name = self.emitter.name(carried.parameter);
            let (ty, initial) =
                (type_of(self.emitter.body.function.ty(carried.parameter)), self.emitter.number(carried.initial));
            let mutable = (carried.next != carried.parameter).then(|| quote!(mut));
            before.extend(quote!(let #mutable #name: #ty = #initial;));
            let escaping = counted.escaping(carried);
            if escaping != carried.parameter && self.escapes(escaping, at) {
                let escaping = self.emitter.name(escaping);
                after.extend(quote!(let #escaping = #name;));
            }
        }
        Ok(quote!(#before #iterations #after))
    }

    /// The values of a loop's inductions in an iteration, for those that are read.
    pub(super) fn inductions(&self, at: usize, which: impl Fn(&Induction) -> bool) -> TokenStream {
        let inductions = self.nest.loops[at].inductions.iter();
        let mut tokens = TokenStream::new();
        for induction in inductions.filter(|induction| which(induction) && self.is_read(induction.parameter)) {
            self.used_indices.borrow_mut()[at] = true;
            let index = index(at);
            let (name, value) = (self.emitter.name(induction.parameter), self.induction(induction, &index));
            tokens.extend(quote!(let #name = #value;));
        }
        tokens
    }

    /// Whether a value of a loop is used after it.
    fn escapes(&self, value: Value, from: usize) -> bool {
        let function = self.emitter.body.function;
        let is_outside = |at: usize| !self.nest.path(at).contains(&from);
        self.nest.loops.iter().enumerate().any(|(at, counted)| {
            let inner = counted.carried.iter().any(|carried| {
                (carried.initial == value && counted.parent.is_some_and(is_outside))
                    || (carried.next == value && is_outside(at))
            });
            let instructions = counted.items.iter().any(|item| match item {
                Item::Instruction(block, position) if is_outside(at) => {
                    let mut found = false;
                    let inst = self.nest.instruction(function, *block, *position);
                    inst.op.visit(|operand| found |= operand.value() == value);
                    found
                }
                _ => false,
            });
            inner || instructions
        }) && function.constant_bits(value).is_none()
    }

    /// Whether a live instruction or a carried value reads a value.
    pub(super) fn is_read(&self, value: Value) -> bool {
        let function = self.emitter.body.function;
        let mut found = false;
        for (block, position) in self.nest.instructions() {
            let inst = self.nest.instruction(function, block, position);
            match self.nest.access(block, position) {
                Some(access) => found |= access.stored == Some(value),
                None if self.needed.includes(function, self.nest, block, position) => {
                    inst.op.visit(|operand| found |= operand.value() == value);
                }
                None => {}
            }
        }
        found
            || self.nest.loops.iter().enumerate().any(|(at, counted)| {
                let carried = counted.carried.iter().filter(|carried| at == 0 || self.needed.has(carried.parameter));
                let mut initials = counted.inductions.iter().filter(|induction| self.needed.has(induction.parameter));
                carried.into_iter().any(|carried| carried.next == value || (at != 0 && carried.initial == value))
                    || initials.any(|induction| induction.initial == Some(value) && induction.parameter != value)
            })
    }

    /// Assigns the carried values for the next iteration.
    fn assign_carried(&self, carried: &[&Carried]) -> TokenStream {
        let names: Vec<TokenStream> = carried.iter().map(|carried| self.emitter.name(carried.parameter)).collect();
        let values: Vec<TokenStream> = carried.iter().map(|carried| self.emitter.number(carried.next)).collect();
        let is_swapped = carried.iter().enumerate().any(|(position, carried_last)| {
            carried[..position].iter().any(|carried| carried.parameter == carried_last.next)
        });
        match is_swapped {
            true => quote!((#(#names),*) = (#(#values),*);),
            false => quote!(#(#names = #values;)*),
        }
    }

    /// The value of an induction in the iteration of an index.
    fn induction(&self, induction: &Induction, index: &Ident) -> TokenStream {
        let is_narrow = self.emitter.body.function.ty(induction.parameter) == Type::i32;
        let ty = if is_narrow { quote!(i32) } else { quote!(i64) };
        let advance = match induction.step.as_constant() {
            Some(1) => quote!((#index as #ty)),
            Some(step) if !is_narrow => {
                let step = integer(step);
                quote!((#index as i64).wrapping_mul(#step))
            }
            _ => {
                let step = self.form(induction.step.base());
                let advance = quote!((#index as i64).wrapping_mul(#step));
                if is_narrow { quote!(#advance as i32) } else { advance }
            }
        };
        let first = match (induction.initial, induction.form.as_constant_base()) {
            (None, Some(first)) => Some(first).filter(|first| *first != 0).map(integer),
            (None, None) => Some(self.emitter.name(induction.parameter)),
            (Some(initial), _) if self.emitter.body.function.constant_bits(initial) == Some(0) => None,
            (Some(initial), _) => Some(self.emitter.number(initial)),
        };
        match (first, induction.step.as_constant()) {
            (Some(first), step) if is_narrow && step != Some(1) => quote!((#advance).wrapping_add(#first)),
            (Some(first), _) => quote!(#advance.wrapping_add(#first)),
            (None, Some(1)) => quote!(#index as #ty),
            (None, _) => advance,
        }
    }

    /// Whether an access has an effect that is used.
    pub(super) fn is_live(&self, access: &Access) -> bool {
        self.needed.keeps(self.emitter.body.function, self.nest, access)
    }

    /// Whether an instruction or access is emitted.
    pub(super) fn is_emitted(&self, block: Block, position: usize) -> bool {
        self.needed.includes(self.emitter.body.function, self.nest, block, position)
    }

    /// An instruction or access; empty if it is dead.
    pub(super) fn instruction(&self, block: Block, position: usize) -> Result<TokenStream> {
        let inst = self.nest.instruction(self.emitter.body.function, block, position);
        if let Some(at) = self.nest.gather(block, position) {
            return self.gather(at, inst);
        }
        let Some(access) = self.nest.access(block, position) else {
            let [result] = inst.results[..] else { return Ok(TokenStream::new()) };
            // Segments that are looked up at each use have no name.
            if !self.needed.has(result) || self.emitter.body.rematerialized(result).is_some() {
                return Ok(TokenStream::new());
            }
            let name = self.emitter.name(result);
            if let Some(divided) = self.nest.division(block, position).and_then(|at| self.division(at)) {
                return Ok(quote!(let #name = #divided;));
            }
            let expression = self.expression(inst)?;
            let divisor = self.settled_divisor(&inst.op);
            return Ok(quote!(#divisor let #name = #expression;));
        };
        if !self.is_live(access) {
            return Ok(TokenStream::new());
        }
        let view = &self.nest.views[access.view];
        let tile = self.tile.borrow();
        let element_variable = tile.elements.iter().find(|row| row.0 == access.view).map(|row| row.1.clone());
        let grid = grid(access.view);
        let indices = || {
            let indices = self.axes(&view.index).into_iter().map(|at| {
                self.used_indices.borrow_mut()[at] = true;
                let index = index(at);
                quote!(#index)
            });
            quote!([#(#indices),*])
        };
        Ok(match (access.stored, &inst.results[..]) {
            (Some(stored), _) => {
                let value = match (view.element, self.emitter.body.function.constant_bits(stored)) {
                    (Element::u8 | Element::i8 | Element::u16 | Element::i16, _) => {
                        let (value, ty) = (self.emitter.typed(stored), element(view.element));
                        quote!(#value as #ty)
                    }
                    _ => self.emitter.number(stored),
                };
                match element_variable {
                    Some(variable) => quote!(#variable = #value;),
                    None => {
                        let indices = indices();
                        quote!(#grid.set(#indices, #value);)
                    }
                }
            }
            (None, [result]) => {
                let name = self.emitter.name(*result);
                let value = element_variable.unwrap_or_else(|| {
                    let indices = indices();
                    quote!(#grid.get(#indices))
                });
                let value = if is_extended(view.element) { quote!(i32::from(#value)) } else { value };
                let value = if self.index_values.contains(*result) { quote!(support::settled(#value)) } else { value };
                quote!(let #name = #value;)
            }
            _ => return Err(Error::internal("a load with several results")),
        })
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
