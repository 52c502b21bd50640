//! What is computed and checked before a nest, and after it.
#![allow(unsafe_code, reason = "elements of buffers that were checked")]

use super::super::super::buffer::{
    Buffer, Compute, Contract, Elements, FactorSource, HasMemory, One, Region, View as Elementary, settle_memory,
};
use super::super::super::reference::Ref;
use super::super::BytecodeModule;
use super::gather;
use super::kernels::width;
use super::plan::Known;
use super::scalars::{self, Values, read};
use super::strips::{Computation, Memory, Run, Scratch};
use super::{Factor, MAX_LOOPS, Nest, OnStrips, Source, Work};
use incarnate_bytecode::ir::nest::{Check, Order, Product};
use incarnate_kernels::Loop;
use incarnate_kernels::contraction::{FmaF32, FmaF32AnyOrder, MulAddF32, MulAddF32AnyOrder, MulAddI32};
use smallvec::SmallVec;

/// The most iterations that run sequentially without a check of the time: a few seconds.
const LONGEST_SEQUENTIAL: usize = 1 << 28;

/// The registers of a frame, and what else nests read.
pub(in super::super) struct Frame<'a> {
    pub(in super::super) module: &'a BytecodeModule,
    pub(in super::super) words: &'a mut [u32],
    pub(in super::super) refs: &'a [Ref],
}

/// Runs the iterations of a nest that pass its outermost test, where all checks hold and `permitted` takes their steps, each of some
/// instructions. Returns those that were taken although the plain code must run.
pub(in super::super) fn run(
    nest: &Nest,
    frame: &mut Frame<'_>,
    scratch: &mut Scratch,
    permitted: impl FnOnce(usize, usize) -> bool,
) -> usize {
    let mut taken = 0;
    let permitted = |steps: usize, instructions: usize| {
        let is_permitted = permitted(steps, instructions);
        taken = if is_permitted { steps } else { 0 };
        is_permitted
    };
    let done = attempt(nest, frame, scratch, permitted);
    if done == Some(true) { 0 } else { taken }
}

/// Whether the iterations have run. None where a check fails.
fn attempt(
    nest: &Nest,
    frame: &mut Frame<'_>,
    Scratch { scalars, known, memory }: &mut Scratch,
    permitted: impl FnOnce(usize, usize) -> bool,
) -> Option<bool> {
    scalars::compute(nest, frame.words, scalars)?;
    let values = Values { scalars };
    let known: &Known = match &nest.known {
        Some(known) => known,
        None => {
            known.find(nest, &values)?;
            known
        }
    };
    if known.iterations == 0 {
        return None;
    }
    let mut regions: SmallVec<[Region; 8]> = SmallVec::new();
    let mut gathered: SmallVec<[gather::Elements; 4]> = SmallVec::new();
    if !known.holds {
        return Some(false);
    }
    for check in &nest.checks {
        match *check {
            Check::Bounded(at) => {
                let (form, least, greatest) = &nest.conditions[at];
                known.conditions[at].is_within(values.form(&form.base), *least, *greatest).then_some(())?;
            }
            // Where a kernel checks its operands, no other check names a view.
            Check::InRange(at) => {
                let (view, reach) = (&nest.views[at], known.views[at]);
                let access = (width(view.element), view.is_written);
                regions.push(frame.buffer(view.source)?.memory().region_of(
                    access,
                    values.form(&view.index.base),
                    reach,
                )?);
            }
            Check::Kept(at) => {
                let stored =
                    nest.views.iter().zip(&regions).filter(|(view, _)| view.is_written).map(|(_, region)| region);
                let gather = &nest.gathers[at];
                gathered.push(gather::Elements::of(frame.buffer(gather.source)?, gather.element, stored)?);
            }
            Check::Disjoint(store, other) => regions[store].is_disjoint(&regions[other]).then_some(())?,
            Check::DisjointOrSame(store, load) => {
                let is_same = regions[store].origin == regions[load].origin && known.is_alike(nest, store, load);
                (is_same || regions[store].is_disjoint(&regions[load])).then_some(())?;
            }
            // Of those that depend on trip counts and strides alone, `holds` says that they do.
            Check::Distinct(_) | Check::NotEmpty(_) => {}
        }
    }
    // A kernel runs a contraction.
    let instructions = match &nest.work {
        Work::Contraction { .. } | Work::Nothing => 1,
        Work::Strips(_) => nest.loops.iter().map(|counted| counted.instructions).sum(),
    };
    let permitted = || permitted(known.steps, instructions as usize);
    let mut results: SmallVec<[u64; 4]> = SmallVec::new();
    let (done, carried) = match &nest.work {
        Work::Contraction { .. } => (Contraction { nest, known, values: &values, frame }.run(permitted)?, &[][..]),
        Work::Nothing => (permitted(), &[][..]),
        Work::Strips(strips) => {
            let of_strips = OfStrips { nest, strips, known, values: &values, regions: &regions, gathered: &gathered };
            let is_permitted = || (!strips.is_sequential || known.steps <= LONGEST_SEQUENTIAL) && permitted();
            (of_strips.run(is_permitted, memory, &mut results), &strips.body.carried[..])
        }
    };
    settle_memory();
    #[cfg(feature = "profiling")]
    if done && crate::profile::is_on() {
        crate::profile::add_work(work(nest, known));
    }
    if done {
        for (carried, number) in carried.iter().zip(&results) {
            for register in &carried.registers {
                write(frame.words, usize::from(*register), carried.is_wide, *number);
            }
        }
        for induction in &nest.inductions {
            let advance = values.form(&induction.step).wrapping_mul(known.iterations as i64);
            step(frame.words, usize::from(induction.register), induction.is_wide, advance);
        }
    }
    Some(done)
}

/// What all iterations do.
#[cfg(feature = "profiling")]
fn work(nest: &Nest, known: &Known) -> crate::profile::Work {
    let mut work = crate::profile::Work::default();
    for (at, counted) in nest.loops.iter().enumerate() {
        let operations = known.iterations_of(nest, at).saturating_mul(counted.operations);
        work.operations = work.operations.saturating_add(operations);
    }
    for (stream, (view, reach)) in nest.views.iter().zip(&known.views).enumerate() {
        let loops = view.index.strides.iter().map(|(at, _)| (known.counts[*at], known.stride(*at, stream)));
        let moving = loops.filter(|each| each.1 != 0);
        let accessed = moving.fold(1u64, |count, each| count.saturating_mul(each.0 as u64));
        // Where iterations access the same elements, each counts once.
        let elements = accessed.min(reach.elements());
        work.bytes = work.bytes.saturating_add(elements.saturating_mul(width(view.element) as u64));
    }
    work
}

impl<'a> Frame<'a> {
    /// A buffer; None where it is null, or another object.
    fn buffer(&self, source: Source) -> Option<&'a Buffer> {
        match source {
            Source::Register(register) => match self.refs.get(usize::from(register))? {
                Ref::Buffer(buffer) => Some(buffer),
                _ => None,
            },
            Source::Rodata(ordinal) => Some(self.module.rodata(ordinal).ok()?),
        }
    }
}

/// Adds to a register, or to a pair.
fn step(words: &mut [u32], register: usize, is_wide: bool, advance: i64) {
    write(words, register, is_wide, read(words, register, is_wide).wrapping_add(advance as u64));
}

fn write(words: &mut [u32], register: usize, is_wide: bool, number: u64) {
    words[register] = number as u32;
    if is_wide {
        words[register + 1] = (number >> 32) as u32;
    }
}

/// A nest on strips before it runs.
struct OfStrips<'a> {
    nest: &'a Nest,
    strips: &'a OnStrips,
    known: &'a Known,
    values: &'a Values<'a>,
    regions: &'a [Region],
    gathered: &'a [gather::Elements],
}

impl OfStrips<'_> {
    fn run(&self, permitted: impl FnOnce() -> bool, memory: &mut Memory, results: &mut SmallVec<[u64; 4]>) -> bool {
        if !permitted() {
            return false;
        }
        // SAFETY: the regions of all views were checked, and the iterations are independent, or run one after the other.
        unsafe { self.iterations().all(self.positions(), memory, results) }
    }

    fn iterations(&self) -> Run<'_> {
        Run {
            known: self.known,
            body: &self.strips.body,
            views: &self.nest.views,
            regions: self.regions,
            gathered: self.gathered,
            scalars: self.values.scalars,
        }
    }

    /// The positions of the first iteration in the streams.
    fn positions(&self) -> impl Iterator<Item = i64> {
        let sequences = self.strips.body.sequences.iter().map(|(form, _)| self.values.form(&form.base));
        core::iter::repeat_n(0, self.nest.views.len()).chain(sequences)
    }
}

/// A contraction before it runs.
struct Contraction<'a> {
    nest: &'a Nest,
    known: &'a Known,
    values: &'a Values<'a>,
    frame: &'a Frame<'a>,
}

impl Contraction<'_> {
    /// None where an operand is no buffer.
    fn run(&self, permitted: impl FnOnce() -> bool) -> Option<bool> {
        let Work::Contraction { operation, output, factors, loops, order } = &self.nest.work else { return None };
        let (output, (left, right)) = (*output, &**factors);
        let left = left.as_ref();
        match (operation, order) {
            (Product::FmaF32, Order::Bytecode) => self.run_as::<FmaF32>(output, (left?, right), loops, permitted),
            (Product::FmaF32, Order::Any) => self.run_as::<FmaF32AnyOrder>(output, (left?, right), loops, permitted),
            (Product::MulAddF32, Order::Bytecode) => self.run_as::<MulAddF32>(output, (left?, right), loops, permitted),
            (Product::MulAddF32, Order::Any) => {
                self.run_as::<MulAddF32AnyOrder>(output, (left?, right), loops, permitted)
            }
            (Product::MulAddI32, _) => self.run_as::<MulAddI32>(output, (left?, right), loops, permitted),
            (Product::AddF32, Order::Bytecode) => {
                self.contract::<MulAddF32>(output, (&One, None), right, loops, permitted)
            }
            (Product::AddF32, Order::Any) => {
                self.contract::<MulAddF32AnyOrder>(output, (&One, Some(right.view)), right, loops, permitted)
            }
        }
    }

    /// With two factors.
    fn run_as<O: Contract<Number: Default>>(
        &self,
        output: usize,
        (left, right): (&Factor, &Factor),
        loops: &[usize],
        permitted: impl FnOnce() -> bool,
    ) -> Option<bool> {
        let (held, computation) = (self.held(left.view)?, self.computation(left));
        let elements = self.elements(left, held.as_ref(), computation.as_ref())?;
        self.contract::<O>(output, (&elements, Some(left.view)), right, loops, permitted)
    }

    fn contract<O: Contract<Number: Default>>(
        &self,
        output: usize,
        (left, left_view): (&dyn FactorSource<O::Number>, Option<usize>),
        right: &Factor,
        loops: &[usize],
        permitted: impl FnOnce() -> bool,
    ) -> Option<bool> {
        let mut described = [Loop::default(); MAX_LOOPS];
        for (each, at) in described.iter_mut().zip(loops) {
            let stride = |view: usize| self.known.stride(*at, view);
            let (count, left) = (self.known.counts[*at], left_view.map_or(0, stride));
            *each = Loop { count, output: stride(output), left, right: stride(right.view) };
        }
        let (held, held_output, computation) = (self.held(right.view)?, self.held(output)?, self.computation(right));
        let right = self.elements(right, held.as_ref(), computation.as_ref())?;
        let (buffer, base) = (self.buffer(output, held_output.as_ref())?, self.base(output));
        let view = Elementary::new(buffer.memory(), base);
        let output = if self.nest.views[output].is_of_zeros { view.of_zeros() } else { view };
        let mut permitted = Some(permitted);
        let mut permitted = || permitted.take().is_some_and(|permitted| permitted());
        // SAFETY: what races is only multiplied, added and stored, and the memory is settled afterwards.
        Some(unsafe { O::contract(output, left, &right, &described[..loops.len()], &mut permitted) })
    }

    /// The elements of a factor, in its buffer or in one that was [held](Self::held).
    fn elements<'e, N>(
        &'e self,
        factor: &Factor,
        held: Option<&'e Ref>,
        computation: Option<&'e Computation<'_>>,
    ) -> Option<Elements<'e, N>>
    where
        for<'c> Computation<'c>: Compute<N>,
    {
        Some(Elements {
            buffer: self.buffer(factor.view, held)?,
            base: self.base(factor.view),
            width: width(self.nest.views[factor.view].element),
            compute: computation.map(|computation| computation as _),
        })
    }

    fn buffer<'e>(&'e self, view: usize, held: Option<&'e Ref>) -> Option<&'e Ref> {
        match (held, self.nest.views[view].source) {
            (Some(held), _) => Some(held),
            (None, Source::Register(register)) => self.frame.refs.get(usize::from(register)),
            (None, Source::Rodata(_)) => None,
        }
    }

    fn base(&self, view: usize) -> i64 {
        self.values.form(&self.nest.views[view].index.base)
    }

    /// The reference to a read-only segment that a view is in, which no register holds.
    fn held(&self, view: usize) -> Option<Option<Ref>> {
        Some(match self.nest.views[view].source {
            Source::Rodata(ordinal) => Some(Ref::Buffer(self.frame.module.rodata(ordinal).ok()?.clone())),
            Source::Register(_) => None,
        })
    }

    fn computation<'c>(&'c self, factor: &'c Factor) -> Option<Computation<'c>> {
        let element = self.nest.views[factor.view].element;
        Some(Computation { computed: factor.computed.as_ref()?, scalars: self.values.scalars, element })
    }
}
