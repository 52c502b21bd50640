//! From the nests of a function to [`Nest`]s.

use alloc::boxed::Box;
use alloc::vec::Vec;

use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::index_map::IndexMap;
use incarnate_bytecode::ir::nest::{self, Affine, Nests, Order, Schedule, ScheduledNest, Term};
use incarnate_bytecode::ir::{Block, Entry, Function, Op, Type, Value};
use incarnate_kernels::contraction::Narrow;

use super::copies;
use super::gather::{self, Gathered};
use super::kernels::{is_wide, kernel, width};
use super::plan::Known;
use super::scalars::Values;
use super::{
    Body, Computed, Counted, Factor, Form, Induction, MAX_LOOPS, MAX_SLOTS, Nest, OnStrips, Optimization, Scalar,
    Source, Step, Strided, View, Work,
};

/// Returns the nests of a function that the interpreter runs, and the offset in bytes of the block where each begins.
pub(in super::super) fn find(module: &VerifiedModule, ordinal: u32, optimization: Optimization) -> Vec<(u32, Nest)> {
    // Functions that exceed the budget of analyses run as they are.
    let Ok(function) = Function::with_registers(module, ordinal) else { return Vec::new() };
    let nests = Nests::of(&function);
    let lowered = nests.found.iter().filter_map(|nest| {
        let entry = function.block(nest.loops[0].header).entry.as_deref()?;
        let lowering = Lowering::new(&function, nest, entry, optimization.order);
        Some((entry.offset, lowering.nest(optimization.least)?))
    });
    lowered.collect()
}

pub(super) struct Lowering<'a> {
    pub(super) function: &'a Function,
    pub(super) nest: &'a nest::Nest,
    pub(super) entry: &'a Entry,
    pub(super) scheduled: ScheduledNest<'a>,
    scalars: Vec<Scalar>,
    /// The scalars of values.
    slots: IndexMap<Value, u16>,
    pub(super) wide: bool,
}

impl<'a> Lowering<'a> {
    fn new(function: &'a Function, nest: &'a nest::Nest, entry: &'a Entry, order: Order) -> Lowering<'a> {
        let scheduled = ScheduledNest::of(function, nest, Some(order));
        let (scalars, slots) = (Vec::new(), IndexMap::default());
        Lowering { function, nest, entry, scheduled, scalars, slots, wide: is_wide() }
    }

    fn nest(mut self, least: u64) -> Option<Nest> {
        if self.nest.loops.len() > MAX_LOOPS || self.nest.decides_by_loaded_numbers(self.function) {
            return None;
        }
        for (block, position) in &self.nest.hoisted {
            self.hoisted(*block, *position)?;
        }
        let nest = self.nest;
        let mut loops = (0..nest.loops.len()).map(|at| self.counted(at)).collect::<Option<Vec<Counted>>>()?;
        for (counted, operations) in loops.iter_mut().zip(nest.operations(self.function, &self.scheduled.needed)) {
            counted.operations = operations;
        }
        let mut conditions = Vec::new();
        for condition in &nest.conditions {
            conditions.push((self.strided(&condition.form)?, condition.least, condition.greatest));
        }
        let mut views = Vec::new();
        for view in &nest.views {
            views.push(View {
                source: self.source(view.buffer)?,
                element: view.element,
                index: self.strided(&view.index)?,
                is_written: view.written,
                is_of_zeros: view.zeros,
            });
        }
        let mut gathers = Vec::new();
        for gather in &nest.gathers {
            gathers.push(Gathered { source: self.source(gather.buffer)?, element: gather.element });
        }
        let mut inductions = Vec::new();
        let root = &nest.loops[0];
        for induction in &root.inductions {
            let (step, is_wide) = (self.form(induction.step.base())?, self.is_wide(induction.parameter));
            let held = self.entry.registers.iter().filter(|(_, value)| *value == induction.parameter);
            let before = inductions.len();
            inductions.extend(held.map(|(register, _)| Induction { register: *register, is_wide, step: step.clone() }));
            if inductions.len() == before {
                return None;
            }
        }
        let mut checks = self.scheduled.checks.clone();
        checks.extend(&self.scheduled.independence);
        let schedule = self.scheduled.schedule.clone();
        let work = match &schedule {
            Schedule::Contraction(contraction) => {
                let left = contraction.left.as_ref().map_or(Some(None), |left| self.factor(left).map(Some))?;
                let factors = Box::new((left, self.factor(&contraction.right)?));
                let (operation, output, order) = (contraction.operation, contraction.output, contraction.order);
                Work::Contraction { operation, output, factors, loops: contraction.loops.clone(), order }
            }
            Schedule::Strips(strips) => self.strips(strips)?,
            Schedule::InOrder(_) => {
                let (work, further) = self.sequential()?;
                checks.extend(further);
                work
            }
            Schedule::Zeros => Work::Nothing,
        };
        let mut lowered = Nest {
            scalars: self.scalars,
            loops,
            views,
            gathers,
            conditions,
            checks,
            inductions,
            work,
            known: None,
            least,
        };
        if Known::is_constant(&lowered) {
            // None for loops that are left to the instructions each time.
            let mut known = Box::new(Known::default());
            known.find(&lowered, &Values { scalars: &[] })?;
            lowered.known = Some(known);
        }
        Some(lowered)
    }

    pub(super) fn is_wide(&self, value: Value) -> bool {
        self.function.ty(value).is_wide()
    }

    fn scalar(&mut self, scalar: Scalar) -> Option<u16> {
        self.scalars.push(scalar);
        (self.scalars.len() <= MAX_SLOTS).then_some(self.scalars.len() as u16 - 1)
    }

    /// The scalar of a value that no iteration changes.
    fn slot(&mut self, value: Value) -> Option<u16> {
        if let Some(slot) = self.slots.get(value) {
            return Some(*slot);
        }
        let scalar = match self.function.constant_bits(value) {
            Some(bits) => Scalar::Constant(bits),
            None => {
                let (register, _) = self.entry.registers.iter().find(|(_, held)| *held == value)?;
                if self.is_wide(value) { Scalar::Wide(*register) } else { Scalar::Narrow(*register) }
            }
        };
        let slot = self.scalar(scalar)?;
        self.slots.insert(value, slot);
        Some(slot)
    }

    /// An instruction that is computed before the nest.
    fn hoisted(&mut self, block: Block, position: usize) -> Option<()> {
        let inst = self.nest.instruction(self.function, block, position);
        let [result] = inst.results[..] else { return Some(()) };
        if !self.scheduled.needed.has(result) || self.function.ty(result) == Type::Ref {
            return Some(());
        }
        let scalar = match &inst.op {
            Op::Eval { opcode, operands } => {
                Scalar::Eval(*opcode, operands.iter().map(|value| self.slot(*value)).collect::<Option<_>>()?)
            }
            Op::Bitcast { operand } => Scalar::Copy(self.slot(*operand)?),
            Op::Low { operand } => Scalar::Low(self.slot(*operand)?),
            Op::High { operand } => Scalar::High(self.slot(*operand)?),
            Op::Pair { low, high } => Scalar::Pair(self.slot(*low)?, self.slot(*high)?),
            _ => return None,
        };
        let slot = self.scalar(scalar)?;
        self.slots.insert(result, slot);
        Some(())
    }

    fn source(&self, buffer: Value) -> Option<Source> {
        if let Some((register, _)) = self.entry.registers.iter().find(|(_, held)| *held == buffer) {
            return Some(Source::Register(*register));
        }
        self.nest.hoisted.iter().find_map(|(block, position)| {
            let inst = self.nest.instruction(self.function, *block, *position);
            match inst.op {
                Op::Rodata { rodata } if inst.results[..] == [buffer] => Some(Source::Rodata(rodata)),
                _ => None,
            }
        })
    }

    fn form<'t>(&mut self, terms: impl Iterator<Item = &'t Term>) -> Option<Form> {
        let term = |term: &Term| {
            let factor = |value: &Value| Some((self.slot(*value)?, !self.is_wide(*value)));
            Some((term.coefficient, term.factors.iter().map(factor).collect::<Option<_>>()?))
        };
        terms.map(term).collect()
    }

    fn strided(&mut self, form: &Affine) -> Option<Strided> {
        let base = self.form(form.base())?;
        let stride = |at: usize| Some((at, self.form(form.stride(at))?));
        Some(Strided { base, strides: form.loops().into_iter().map(stride).collect::<Option<_>>()? })
    }

    fn counted(&mut self, at: usize) -> Option<Counted> {
        let counted = &self.nest.loops[at];
        let test = &counted.test;
        Some(Counted {
            first: self.form(test.first.base())?,
            bound: self.form(test.bound.base())?,
            step: test.step,
            relation: test.relation,
            is_wide: test.ty == Type::i64,
            is_signed: test.signed,
            tested_last: counted.tested_last,
            divisor: match &counted.divisor {
                Some(divisor) => Some(self.form(divisor.base())?),
                None => None,
            },
            parent: counted.parent,
            merged: self.scheduled.merged_count(at).and_then(|count| usize::try_from(count).ok()),
            operations: 0,
            instructions: counted.items.iter().filter(|item| matches!(item, nest::Item::Instruction(..))).count()
                as u64
                + 1,
        })
    }

    fn factor(&mut self, factor: &nest::Factor) -> Option<Factor> {
        if factor.is_memory(self.nest) {
            return Some(Factor { view: factor.view, computed: None });
        }
        let is_wide = self.is_wide(factor.loaded);
        let mut body = BodyLowering::new(self);
        let loaded = body.strip(is_wide)?;
        body.strips.insert(factor.loaded, loaded);
        for (block, position) in &factor.instructions {
            body.instruction(*block, *position)?;
        }
        let result = body.operand(factor.value)?;
        let mut body = body.body;
        let names = body.reuse_strips(&[loaded, result]);
        // Strips of factors are on the stack.
        let is_small = body.strips as usize <= super::strips::FACTOR_STRIPS;
        let load = copies::load(self.nest.views[factor.view].element, self.wide);
        let narrow = factor.narrow(self.function, self.nest).and_then(|element| match element {
            nest::Element::i8 => Some(Narrow::I8),
            nest::Element::u8 => Some(Narrow::U8),
            nest::Element::i16 => Some(Narrow::I16),
            _ => None,
        });
        let computed = Computed { body, load, loaded: names[loaded], result: names[result], narrow };
        is_small.then_some(Factor { view: factor.view, computed: Some(computed) })
    }

    fn strips(&mut self, strips: &nest::Strips) -> Option<Work> {
        let instructions = self.nest.instructions_to(strips.innermost);
        let mut lowering = BodyLowering::new(self);
        for (block, position) in instructions {
            lowering.instruction(block, position)?;
        }
        let mut body = lowering.body;
        let is_separate = !strips.reductions.is_empty() && body.accumulate(&strips.stores);
        let accumulating = body.take_accumulating(strips.stores.len());
        body.borrow_loads();
        let mut kept: Vec<u16> = body.accumulators.iter().flat_map(|(loaded, stored)| [*loaded, *stored]).collect();
        kept.extend(accumulating.results.iter().copied());
        let names = body.reuse_strips(&kept);
        if is_separate {
            let count = strips.stores.len();
            body.after = body.steps.split_off(body.steps.len() - count);
            body.before = body.steps.drain(..count).collect();
            body.accumulating = body.steps.split_off(body.steps.len() - accumulating.results.len());
            let operands = accumulating.operands.iter().map(|(strip, width)| (names[*strip], *width));
            body.accumulating_operands = operands.collect();
            body.accumulators.iter_mut().for_each(|pair| *pair = (names[pair.0], names[pair.1]));
        }
        // One iteration after the other, so that only those before an index that is out of range have stored.
        let is_sequential = !self.nest.gathers.is_empty();
        if is_sequential && !body.stores_last() {
            return None;
        }
        Some(Work::Strips(Box::new(OnStrips {
            is_sequential,
            outer: strips.outer.clone(),
            lanes: strips.lanes,
            reductions: strips.reductions.clone(),
            body,
        })))
    }
}

impl Lowering<'_> {
    /// The loop that holds all work, with nothing but it in those around it, which carry nothing but memory if they are several.
    pub(super) fn innermost(&self) -> Option<usize> {
        let mut at = 0;
        loop {
            let counted = &self.nest.loops[at];
            // A loop on its own may carry values in registers.
            let is_alone = self.nest.loops.len() == 1;
            let is_carried = |carried: &nest::Carried| match at {
                0 => carried.next != carried.parameter,
                _ => self.scheduled.needed.has(carried.parameter),
            };
            if !is_alone && counted.carried.iter().any(is_carried) {
                return None;
            }
            let is_work = |item: &nest::Item| match item {
                nest::Item::Loop(_) => false,
                nest::Item::Instruction(block, position) => self.scheduled.includes(*block, *position),
            };
            let mut inner = counted.items.iter().filter_map(|item| match item {
                nest::Item::Loop(inner) => Some(*inner),
                nest::Item::Instruction(..) => None,
            });
            match (inner.next(), inner.next()) {
                (None, _) => return Some(at),
                (Some(inner), None) if !counted.items.iter().any(is_work) => at = inner,
                _ => return None,
            }
        }
    }
}

/// The instructions of an iteration while they are lowered.
pub(super) struct BodyLowering<'l, 'a> {
    pub(super) lowering: &'l mut Lowering<'a>,
    /// The strips of values.
    pub(super) strips: IndexMap<Value, u16>,
    pub(super) body: Body,
}

impl<'l, 'a> BodyLowering<'l, 'a> {
    pub(super) fn new(lowering: &'l mut Lowering<'a>) -> BodyLowering<'l, 'a> {
        BodyLowering { lowering, strips: IndexMap::default(), body: Body::default() }
    }

    pub(super) fn strip(&mut self, is_wide: bool) -> Option<u16> {
        self.body.strips += 1;
        self.body.advances.push(if is_wide { 8 } else { 4 });
        (usize::from(self.body.strips) <= MAX_SLOTS).then_some(self.body.strips - 1)
    }

    /// The strip of a value.
    pub(super) fn operand(&mut self, value: Value) -> Option<u16> {
        if let Some(strip) = self.strips.get(value) {
            return Some(*strip);
        }
        let wide = self.lowering.is_wide(value);
        let into = self.strip(wide)?;
        let nest = self.lowering.nest;
        let mut inductions = nest.loops.iter().flat_map(|counted| &counted.inductions);
        if let Some(induction) = inductions.find(|induction| induction.parameter == value) {
            let form = self.lowering.strided(&induction.form)?;
            self.body.steps.push(Step::Sequence { sequence: self.body.sequences.len(), into });
            self.body.sequences.push((form, wide));
        } else {
            let slot = self.lowering.slot(value)?;
            self.body.broadcasts.push((into, slot, wide));
        }
        self.strips.insert(value, into);
        Some(into)
    }

    pub(super) fn instruction(&mut self, block: Block, position: usize) -> Option<()> {
        let (function, nest) = (self.lowering.function, self.lowering.nest);
        if !self.lowering.scheduled.includes(block, position) {
            return Some(());
        }
        let inst = nest.instruction(function, block, position);
        if let Some(access) = nest.access(block, position) {
            return self.access(access, &inst.results);
        }
        let [result] = inst.results[..] else { return None };
        if let Some(at) = nest.gather(block, position) {
            let gather = &nest.gathers[at];
            let (index, into) = (self.operand(gather.index)?, self.strip(self.lowering.is_wide(result))?);
            self.body.steps.push(Step::Gather { gather: at, load: gather::gather(gather.element), index, into });
            self.strips.insert(result, into);
            return Some(());
        }
        match &inst.op {
            Op::Eval { opcode, operands } => {
                let mut strips = [0; 3];
                for (strip, value) in strips.iter_mut().zip(operands) {
                    *strip = self.operand(*value)?;
                }
                for strip in &mut strips[operands.len().min(3)..] {
                    *strip = u16::MAX;
                }
                let kernel = kernel(*opcode, self.lowering.wide)?;
                let into = self.strip(self.lowering.is_wide(result))?;
                self.body.steps.push(Step::Eval { kernel, operands: strips, into });
                self.strips.insert(result, into);
            }
            Op::Bitcast { operand } => {
                let strip = self.operand(*operand)?;
                self.strips.insert(result, strip);
            }
            _ => return None,
        }
        Some(())
    }

    fn access(&mut self, access: &nest::Access, results: &[Value]) -> Option<()> {
        let view = access.view;
        match (access.stored, results) {
            (Some(stored), _) => {
                let from = self.operand(stored)?;
                let copy = copies::store(self.lowering.nest.views[view].element, self.lowering.wide);
                self.body.steps.push(Step::Store { view, from, copy });
            }
            (None, [result]) => {
                let into = self.strip(self.lowering.is_wide(*result))?;
                let element = self.lowering.nest.views[view].element;
                let (copy, is_extended) = (copies::load(element, self.lowering.wide), width(element) < 4);
                self.body.steps.push(Step::Load { view, into, copy, is_extended, is_borrowed: false });
                self.strips.insert(*result, into);
            }
            _ => return None,
        }
        Some(())
    }
}
