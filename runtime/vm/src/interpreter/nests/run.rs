//! What is computed and checked before a nest, and after it.
#![allow(unsafe_code, reason = "elements of buffers that were checked")]

use alloc::vec::Vec;

use super::super::super::buffer::{Buffer, Elements, Region, View as Elementary, contract, settle_memory};
use super::super::super::reference::Ref;
use super::super::BytecodeModule;
use super::kernels::width;
use super::strips::{Computation, Dimension, Loops, Run, Scratch};
use super::{Counted, Factor, Form, MAX_LOOPS, Nest, OnStrips, Scalar, Source, Strided, View, Work};
use incarnate_bytecode::ir::nest::Product;
use incarnate_bytecode::semantics;
use incarnate_bytecode::trip_count::{is_injective, is_within, outer_trip_count, trip_count};
use incarnate_kernels::contraction::{FmaF32, MulAddF32, MulAddI32};
use incarnate_kernels::{Loop, Operation};
use smallvec::SmallVec;

/// The most iterations that run in order without a look at the clock: a few seconds.
const LONGEST_IN_ORDER: usize = 1 << 28;

/// The registers of a frame, and what else nests read.
pub(in super::super) struct Frame<'a> {
    pub(in super::super) module: &'a BytecodeModule,
    pub(in super::super) words: &'a mut [u32],
    pub(in super::super) refs: &'a [Ref],
}

/// Runs the iterations of a nest that pass its outermost test, where all checks hold and `permitted` takes their steps.
pub(in super::super) fn run(
    nest: &Nest,
    frame: &mut Frame<'_>,
    scratch: &mut Scratch,
    permitted: impl FnOnce(usize) -> bool,
) {
    // None where the plain code must run. What is computed for each loop is compiled for few loops and for many.
    let _ = match nest.loops.len() {
        ..=4 => attempt::<4>(nest, frame, scratch, permitted),
        5..=8 => attempt::<8>(nest, frame, scratch, permitted),
        _ => attempt::<MAX_LOOPS>(nest, frame, scratch, permitted),
    };
}

fn attempt<const D: usize>(
    nest: &Nest,
    frame: &mut Frame<'_>,
    scratch: &mut Scratch,
    permitted: impl FnOnce(usize) -> bool,
) -> Option<()> {
    let scalars = scalars(nest, frame)?;
    let (values, iterations) = Values::<D>::of(nest, &scalars)?;
    for (form, least, greatest) in &nest.conditions {
        let (base, loops) = values.extent(form);
        is_within(base, loops, *least, *greatest).then_some(())?;
    }
    let extents: Extents<D> = nest.views.iter().map(|view| values.extent(&view.index)).collect();
    let mut regions: SmallVec<[Region; 8]> = SmallVec::new();
    for (view, extent) in nest.views.iter().zip(&extents) {
        // Contractions check their operands themselves.
        if view.is_checked {
            let buffer = frame.buffer(view)?;
            regions.push(buffer.region((width(view.element), view.is_written), extent.0, extent.1)?);
        }
    }
    let steps = values.steps(nest, 0);
    let permitted = || permitted(steps);
    let mut results = SmallVec::new();
    let (done, carried) = match &nest.work {
        Work::Contraction { operation, output, factors, loops } => {
            let contraction = Contraction {
                nest,
                values: &values,
                extents: &extents,
                frame,
                operands: [*output, factors[0].view, factors[1].view],
                factors,
                loops,
            };
            let done = match operation {
                Product::FmaF32 => contraction.run::<FmaF32>(permitted),
                Product::MulAddF32 => contraction.run::<MulAddF32>(permitted),
                Product::MulAddI32 => contraction.run::<MulAddI32>(permitted),
            };
            (done?, &[][..])
        }
        Work::Strips(strips) => {
            let of_strips = OfStrips { nest, strips, values: &values, extents: &extents, regions: &regions };
            let is_permitted = || (!strips.is_ordered || steps <= LONGEST_IN_ORDER) && permitted();
            (of_strips.run(is_permitted, scratch, &mut results), &strips.body.carried[..])
        }
    };
    settle_memory();
    #[cfg(feature = "profiling")]
    if done && crate::profile::is_on() {
        crate::profile::add_work(values.work(nest));
    }
    if done {
        for (carried, number) in carried.iter().zip(results) {
            for register in &carried.registers {
                write(frame.words, usize::from(*register), carried.is_wide, number);
            }
        }
        for induction in &nest.inductions {
            let advance = values.form(&induction.step).wrapping_mul(iterations as i64);
            step(frame.words, usize::from(induction.register), induction.is_wide, advance);
        }
    }
    Some(())
}

impl<'a> Frame<'a> {
    /// The buffer of a view; None where it is null, or another object.
    fn buffer(&self, view: &View) -> Option<&'a Buffer> {
        match view.source {
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

fn read(words: &[u32], register: usize, is_wide: bool) -> u64 {
    let low = u64::from(words[register]);
    if is_wide { low | u64::from(words[register + 1]) << 32 } else { low }
}

/// Computes what no iteration changes.
fn scalars(nest: &Nest, frame: &Frame<'_>) -> Option<SmallVec<[u64; 32]>> {
    let mut scalars: SmallVec<[u64; 32]> = SmallVec::new();
    scalars.try_reserve(nest.scalars.len()).ok()?;
    for scalar in &nest.scalars {
        let of = |slot: &u16| scalars[usize::from(*slot)];
        let number = match scalar {
            Scalar::Constant(bits) => *bits,
            Scalar::Narrow(register) => read(frame.words, usize::from(*register), false),
            Scalar::Wide(register) => read(frame.words, usize::from(*register), true),
            Scalar::Eval(opcode, operands) => {
                let mut bits = [0; 3];
                let bits = bits.get_mut(..operands.len())?;
                bits.iter_mut().zip(operands).for_each(|(bits, slot)| *bits = of(slot));
                semantics::fold(*opcode, bits)?
            }
            Scalar::Copy(slot) => of(slot),
            Scalar::Low(slot) => of(slot) & u64::from(u32::MAX),
            Scalar::High(slot) => of(slot) >> 32,
            Scalar::Pair(low, high) => of(low) | of(high) << 32,
        };
        scalars.push(number);
    }
    Some(scalars)
}

/// The base of a form, and trip count and stride of each loop.
type Extent<const D: usize> = (i64, [(usize, i64); D]);
type Extents<const D: usize> = SmallVec<[Extent<D>; 8]>;

/// The numbers of a nest that are known before it.
struct Values<'a, const D: usize> {
    scalars: &'a [u64],
    /// The trip counts.
    counts: [usize; D],
}

impl<'a, const D: usize> Values<'a, D> {
    /// Computes the trip counts, and how many iterations of the outermost loop there are. None where that is none.
    fn of(nest: &Nest, scalars: &'a [u64]) -> Option<(Values<'a, D>, usize)> {
        let mut values = Values { scalars, counts: [1; D] };
        let mut iterations = 0;
        for (at, counted) in nest.loops.iter().enumerate() {
            let all = values.trip_count(counted)?;
            iterations = if at == 0 { all } else { iterations };
            values.counts[at] = match &counted.divisor {
                None => all,
                Some(divisor) => outer_trip_count(all, values.form(divisor))?,
            };
        }
        (iterations != 0).then_some((values, iterations))
    }

    fn form(&self, form: &Form) -> i64 {
        let product = |(coefficient, factors): &(i64, Vec<(u16, bool)>)| {
            factors.iter().fold(*coefficient, |product, (slot, is_narrow)| {
                let bits = self.scalars[usize::from(*slot)];
                product.wrapping_mul(if *is_narrow { i64::from(bits as u32 as i32) } else { bits as i64 })
            })
        };
        form.iter().fold(0, |sum, term| sum.wrapping_add(product(term)))
    }

    fn trip_count(&self, counted: &Counted) -> Option<usize> {
        let (first, bound) = (self.form(&counted.first), self.form(&counted.bound));
        let (step, relation) = (counted.step, counted.relation);
        let count = match (counted.is_wide, counted.is_signed) {
            (true, true) => trip_count(first, step, relation, bound),
            (true, false) => trip_count(first as u64, step, relation, bound as u64),
            (false, true) => trip_count(first as i32, step, relation, bound as i32),
            (false, false) => trip_count(first as u32, step, relation, bound as u32),
        }?;
        count.checked_add(counted.tested_last.into())
    }

    /// The iterations of a loop and of those in it.
    fn steps(&self, nest: &Nest, at: usize) -> usize {
        let inner = nest.loops.iter().enumerate().filter(|(_, counted)| counted.parent == Some(at));
        let inner = inner.map(|(inner, _)| self.steps(nest, inner)).fold(0, usize::saturating_add);
        self.counts[at].saturating_mul(inner.saturating_add(1))
    }

    /// What all iterations do.
    #[cfg(feature = "profiling")]
    fn work(&self, nest: &Nest) -> crate::profile::Work {
        let mut work = crate::profile::Work::default();
        // Loops stand behind those around them.
        let mut iterations = [1u64; D];
        for (at, counted) in nest.loops.iter().enumerate() {
            let around = counted.parent.map_or(1, |parent| iterations[parent]);
            iterations[at] = around.saturating_mul(self.counts[at] as u64);
            work.operations = work.operations.saturating_add(iterations[at].saturating_mul(counted.operations));
        }
        for view in &nest.views {
            let (base, loops) = self.extent(&view.index);
            let moving = loops.iter().filter(|each| each.1 != 0);
            let accessed = moving.fold(1u64, |count, each| count.saturating_mul(each.0 as u64));
            // Where iterations access the same elements, each counts once.
            let span =
                incarnate_bytecode::trip_count::extent(base, loops).map_or(0, |(least, most)| most.abs_diff(least) + 1);
            work.bytes = work.bytes.saturating_add(accessed.min(span).saturating_mul(width(view.element) as u64));
        }
        work
    }

    /// The base of a form, and trip count and stride of each loop.
    fn extent(&self, form: &Strided) -> Extent<D> {
        let mut loops = [(1, 0); D];
        for (at, stride) in &form.strides {
            loops[*at] = (self.counts[*at], self.form(stride));
        }
        (self.form(&form.base), loops)
    }
}

/// A nest on strips before it runs.
struct OfStrips<'a, const D: usize> {
    nest: &'a Nest,
    strips: &'a OnStrips,
    values: &'a Values<'a, D>,
    extents: &'a Extents<D>,
    regions: &'a [Region],
}

impl<const D: usize> OfStrips<'_, D> {
    fn run(&self, permitted: impl FnOnce() -> bool, scratch: &mut Scratch, results: &mut SmallVec<[u64; 4]>) -> bool {
        let OnStrips { is_ordered, outer, lanes, reductions, stores, loads, body } = self.strips;
        let is_disjoint = |store: &usize| {
            let region = &self.regions[*store];
            loads.iter().all(|load| self.regions[*load].is_disjoint(region))
        };
        let is_disjoint = stores.iter().all(is_disjoint);
        if !(if *is_ordered { is_disjoint } else { self.is_independent(is_disjoint) }) || !permitted() {
            return false;
        }
        let sequences: SmallVec<[Extent<D>; 4]> =
            body.sequences.iter().map(|(form, _)| self.values.extent(form)).collect();
        let views = self.nest.views.len();
        let mut positions: SmallVec<[i64; 16]> = SmallVec::from_elem(0, views);
        positions.extend(sequences.iter().map(|extent| extent.0));
        // The strides of all streams in each loop.
        let mut strides: SmallVec<[i64; 48]> = SmallVec::new();
        for at in 0..self.nest.loops.len() {
            strides.extend(self.extents.iter().chain(&sequences).map(|extent| extent.1[at].1));
        }
        let dimension = |at: &usize| Dimension {
            count: self.values.counts[*at],
            strides: &strides[at * positions.len()..(at + 1) * positions.len()],
        };
        let loops = Loops {
            outer: outer.iter().map(dimension).collect(),
            lanes: dimension(lanes),
            reductions: reductions.iter().map(dimension).collect(),
            is_ordered: *is_ordered,
        };
        let run = Run {
            body,
            views: &self.nest.views,
            regions: self.regions,
            scalars: self.values.scalars,
            is_accumulated: is_disjoint && !body.accumulators.is_empty(),
        };
        // SAFETY: the regions of all views were checked, and the iterations are independent, or run in order.
        unsafe { run.all(loops, positions, scratch, results) }
    }

    /// Whether the iterations of all loops but the reductions may run in any order; `is_disjoint` says that no store overlaps a load.
    fn is_independent(&self, is_disjoint: bool) -> bool {
        let OnStrips { stores, loads, .. } = self.strips;
        stores.iter().enumerate().all(|(at, store)| {
            let (view, region) = (&self.nest.views[*store], &self.regions[*store]);
            let loops = self.extents[*store].1;
            let is_same = |other: usize| {
                let (one, two) = (&self.nest.views[other], &self.regions[other]);
                two.origin == region.origin
                    && width(one.element) == width(view.element)
                    && self.extents[other].1 == loops
            };
            // Loops that do not move the element count as one iteration.
            is_injective(loops)
                && (is_disjoint || loads.iter().all(|load| self.regions[*load].is_disjoint(region) || is_same(*load)))
                && stores[..at].iter().all(|store| self.regions[*store].is_disjoint(region))
        })
    }
}

/// A contraction before it runs.
struct Contraction<'a, 'f, const D: usize> {
    nest: &'a Nest,
    values: &'a Values<'a, D>,
    extents: &'a Extents<D>,
    frame: &'a Frame<'f>,
    /// The views of the output and of the factors.
    operands: [usize; 3],
    factors: &'a [Factor; 2],
    loops: &'a [usize],
}

impl<const D: usize> Contraction<'_, '_, D> {
    /// None where an operand is no buffer.
    fn run<O: Operation>(&self, permitted: impl FnOnce() -> bool) -> Option<bool>
    where
        O::Number: super::super::super::buffer::Element + Default,
    {
        let rodata = self.operands.map(|at| match self.nest.views[at].source {
            Source::Rodata(ordinal) => Some(Ref::Buffer(self.frame.module.rodata(ordinal).ok()?.clone())),
            Source::Register(_) => None,
        });
        let buffer = |operand: usize| match (&rodata[operand], self.nest.views[self.operands[operand]].source) {
            (Some(rodata), _) => Some(rodata),
            (None, Source::Register(register)) => self.frame.refs.get(usize::from(register)),
            (None, Source::Rodata(_)) => None,
        };
        let [(base, output), left, right] = self.operands.map(|at| &self.extents[at]);
        let mut loops = [Loop { count: 1, output: 0, left: 0, right: 0 }; D];
        let first = D - self.loops.len();
        for (each, at) in loops[first..].iter_mut().zip(self.loops) {
            let count = self.values.counts[*at];
            *each = Loop { count, output: output[*at].1, left: left.1[*at].1, right: right.1[*at].1 };
        }
        let computations = self.factors.each_ref().map(|factor| {
            let element = self.nest.views[factor.view].element;
            let computed = factor.computed.as_ref()?;
            Some(Computation { computed, scalars: self.values.scalars, element })
        });
        let elements = |at: usize, base: i64| {
            Some(Elements {
                buffer: buffer(1 + at)?,
                base,
                width: width(self.nest.views[self.factors[at].view].element),
                compute: computations[at].as_ref().map(|computation| computation as _),
            })
        };
        let (left, right) = (elements(0, left.0)?, elements(1, right.0)?);
        let output = Elementary::new(buffer(0)?, *base);
        // SAFETY: what races is only multiplied, added and stored, and the memory is settled afterwards.
        Some(unsafe { contract::<O, D>(output, left, right, loops, permitted) })
    }
}
