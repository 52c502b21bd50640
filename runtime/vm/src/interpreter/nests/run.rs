//! What is computed and checked before a nest, and after it.
#![allow(unsafe_code, reason = "elements of buffers that were checked")]

use alloc::vec::Vec;

use super::super::super::buffer::{Elements, Region, View as Elementary, contract, settle_memory};
use super::super::super::reference::Ref;
use super::super::BytecodeModule;
use super::kernels::width;
use super::reduce::Reducing;
use super::strips::{Computation, Dimension, Run};
use super::{Body, Counted, Factor, Form, MAX_LOOPS, Nest, Scalar, Source, Strided, View, Work};
use incarnate_bytecode::ir::nest::{Order, Product};
use incarnate_bytecode::semantics;
use incarnate_bytecode::trip_count::{is_injective, is_within, outer_trip_count, trip_count};
use incarnate_kernels::contraction::{FmaF32, FmaF32AnyOrder, MulAddF32, MulAddF32AnyOrder, MulAddI32};
use incarnate_kernels::{Loop, Operation};

/// The most iterations that run in order without a look at the clock: a few seconds.
const LONGEST_IN_ORDER: usize = 1 << 28;

/// The registers of a frame, and what else nests read.
pub(in super::super) struct Frame<'a> {
    pub(in super::super) module: &'a BytecodeModule,
    pub(in super::super) words: &'a mut [u32],
    pub(in super::super) refs: &'a [Ref],
}

/// Runs the iterations of a nest that pass its outermost test, where all checks hold and `permitted` takes their steps.
pub(in super::super) fn run(nest: &Nest, frame: &mut Frame<'_>, permitted: impl FnOnce(usize) -> bool) {
    // None where the plain code must run.
    let _ = attempt(nest, frame, permitted);
}

fn attempt(nest: &Nest, frame: &mut Frame<'_>, permitted: impl FnOnce(usize) -> bool) -> Option<()> {
    let scalars = scalars(nest, frame)?;
    let mut values = Values { scalars: &scalars, counts: [1; MAX_LOOPS] };
    let mut iterations = 0;
    for (at, counted) in nest.loops.iter().enumerate() {
        let all = values.trip_count(counted)?;
        iterations = if at == 0 { all } else { iterations };
        values.counts[at] = match &counted.divisor {
            None => all,
            Some(divisor) => outer_trip_count(all, values.form(divisor))?,
        };
    }
    if iterations == 0 {
        return None;
    }
    for (form, least, greatest) in &nest.conditions {
        let (base, loops) = values.extent(form);
        is_within(base, loops, *least, *greatest).then_some(())?;
    }
    let mut rodata = Vec::new();
    for view in &nest.views {
        rodata.push(match view.source {
            Source::Register(_) => None,
            Source::Rodata(ordinal) => Some(Ref::Buffer(frame.module.rodata(ordinal).ok()?.clone())),
        });
    }
    let mut buffers = Vec::new();
    for (view, rodata) in nest.views.iter().zip(&rodata) {
        buffers.push(match (view.source, rodata) {
            (_, Some(rodata)) => rodata,
            (Source::Register(register), _) => frame.refs.get(usize::from(register))?,
            (Source::Rodata(_), None) => return None,
        });
    }
    let regions = values.regions(nest, &buffers)?;
    let steps = values.steps(nest, 0);
    let mut carried = Vec::new();
    let done = match &nest.work {
        Work::Contraction { operation, output, left, right, loops, order } => {
            let contraction =
                Contraction { nest, values: &values, buffers: &buffers, output: *output, left, right, loops };
            contraction.run_as((*operation, *order), || permitted(steps))
        }
        Work::Reduction { .. } => values.reduce(nest, &regions, || permitted(steps)),
        Work::Strips { is_ordered, outer, lanes, reductions, stores, loads, body } => {
            let mut run = values.strips(nest, body, &regions, (outer, *lanes, reductions));
            run.join(*is_ordered);
            let is_disjoint = |store: &usize| loads.iter().all(|load| regions[*load].is_disjoint(&regions[*store]));
            let is_valid = match is_ordered {
                true => steps <= LONGEST_IN_ORDER && stores.iter().all(is_disjoint),
                false => values.is_independent(nest, &regions, stores, loads),
            } && permitted(steps);
            // SAFETY: the regions of all views were checked, and the iterations are independent, or run in order.
            let done = is_valid && unsafe { run.all() };
            carried.extend(body.carried.iter().zip(run.results));
            done
        }
    };
    settle_memory();
    #[cfg(feature = "profiling")]
    if done && crate::profile::is_on() {
        crate::profile::add_work(values.work(nest));
    }
    if done {
        for (carried, number) in carried {
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
fn scalars(nest: &Nest, frame: &Frame<'_>) -> Option<Vec<u64>> {
    let mut scalars: Vec<u64> = super::super::super::array::with_capacity(nest.scalars.len()).ok()?;
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

/// The numbers of a nest that are known before it.
struct Values<'a> {
    scalars: &'a [u64],
    /// The trip counts.
    counts: [usize; MAX_LOOPS],
}

impl Values<'_> {
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
        let mut iterations = [1u64; MAX_LOOPS];
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
    fn extent(&self, form: &Strided) -> (i64, [(usize, i64); MAX_LOOPS]) {
        let mut loops = [(1, 0); MAX_LOOPS];
        for (at, stride) in &form.strides {
            loops[*at] = (self.counts[*at], self.form(stride));
        }
        (self.form(&form.base), loops)
    }

    /// Checks the views; contractions check their operands themselves.
    fn regions(&self, nest: &Nest, buffers: &[&Ref]) -> Option<Vec<Region>> {
        let mut regions = Vec::new();
        for (view, buffer) in nest.views.iter().zip(buffers) {
            if view.is_checked {
                let (base, loops) = self.extent(&view.index);
                regions.push(buffer.region((width(view.element), view.is_written), base, loops)?);
            }
        }
        Some(regions)
    }

    /// Runs a reduction, where it is valid and `permitted`.
    fn reduce(&self, nest: &Nest, regions: &[Region], permitted: impl FnOnce() -> bool) -> bool {
        let Work::Reduction { operation, is_swapped, kernel, terms, output, outer, lanes, reductions, loads, body } =
            &nest.work
        else {
            return false;
        };
        let mut run = self.strips(nest, body, regions, (outer, *lanes, reductions));
        let (terms, output) = (*terms, *output);
        let reducing = Reducing { operation: *operation, is_swapped: *is_swapped, kernel: *kernel, terms, output };
        let is_empty = reductions.iter().chain([lanes]).any(|at| self.counts[*at] == 0);
        let is_disjoint = loads.iter().all(|load| regions[*load].is_disjoint(&regions[output]));
        let is_valid = !is_empty && is_disjoint && self.is_independent(nest, regions, &[output], loads) && permitted();
        // SAFETY: the regions of all views were checked, and the iterations are independent. The elements are `f32`, as the schedule
        // says.
        is_valid && unsafe { run.reduce_all(&reducing) }
    }

    /// Whether the iterations of all loops but the reductions may run in any order.
    fn is_independent(&self, nest: &Nest, regions: &[Region], stores: &[usize], loads: &[usize]) -> bool {
        stores.iter().enumerate().all(|(at, store)| {
            let (view, region) = (&nest.views[*store], &regions[*store]);
            let loops = self.extent(&view.index).1;
            let is_same = |other: usize| {
                let (one, two) = (&nest.views[other], &regions[other]);
                two.origin == region.origin
                    && width(one.element) == width(view.element)
                    && self.extent(&one.index).1 == loops
            };
            // Few nests have more than four loops, and the test takes the square of their number.
            let is_short = view.index.strides.len() <= 4;
            let mut short = [(1, 0); 4];
            let chosen = view.index.strides.iter().map(|(at, _)| loops[*at]);
            short.iter_mut().zip(chosen).for_each(|(short, each)| *short = each);
            (if is_short { is_injective(short) } else { is_injective(loops) })
                && loads.iter().all(|load| regions[*load].is_disjoint(region) || is_same(*load))
                && stores[..at].iter().all(|store| regions[*store].is_disjoint(region))
        })
    }

    fn strips<'n>(
        &'n self,
        nest: &'n Nest,
        body: &'n Body,
        regions: &'n [Region],
        (outer, lanes, reductions): (&[usize], usize, &[usize]),
    ) -> Run<'n> {
        let sequences = body.sequences.iter().map(|row| &row.0);
        let streams: Vec<&Strided> = nest.views.iter().map(|view| &view.index).chain(sequences).collect();
        let stride = |form: &&Strided, at: usize| {
            form.strides.iter().find(|(other, _)| *other == at).map_or(0, |(_, stride)| self.form(stride))
        };
        let dimension = |at: usize| Dimension {
            count: self.counts[at],
            strides: streams.iter().map(|form| stride(form, at)).collect(),
        };
        let positions = streams.iter().enumerate();
        let positions = positions.map(|(at, form)| if at < nest.views.len() { 0 } else { self.form(&form.base) });
        Run {
            body,
            views: &nest.views,
            regions,
            scalars: self.scalars,
            outer: outer.iter().map(|at| dimension(*at)).collect(),
            lanes: dimension(lanes),
            reductions: reductions.iter().map(|at| dimension(*at)).collect(),
            positions: positions.collect(),
            results: Vec::new(),
        }
    }
}

/// A contraction before it runs.
struct Contraction<'a> {
    nest: &'a Nest,
    values: &'a Values<'a>,
    buffers: &'a [&'a Ref],
    output: usize,
    left: &'a Factor,
    right: &'a Factor,
    loops: &'a [usize],
}

impl Contraction<'_> {
    fn view(&self, at: usize) -> (&View, i64, [(usize, i64); MAX_LOOPS]) {
        let view = &self.nest.views[at];
        let (base, loops) = self.values.extent(&view.index);
        (view, base, loops)
    }

    fn run_as(&self, operation: (Product, Order), permitted: impl FnOnce() -> bool) -> bool {
        match operation {
            (Product::FmaF32, Order::Bytecode) => self.run::<FmaF32>(permitted),
            (Product::FmaF32, Order::Any) => self.run::<FmaF32AnyOrder>(permitted),
            (Product::MulAddF32, Order::Bytecode) => self.run::<MulAddF32>(permitted),
            (Product::MulAddF32, Order::Any) => self.run::<MulAddF32AnyOrder>(permitted),
            (Product::MulAddI32, _) => self.run::<MulAddI32>(permitted),
        }
    }

    fn run<O: Operation>(&self, permitted: impl FnOnce() -> bool) -> bool
    where
        O::Number: super::super::super::buffer::Element + Default,
    {
        let (_, base, output) = self.view(self.output);
        let [(left_view, left_base, left), (right_view, right_base, right)] =
            [self.left.view, self.right.view].map(|at| self.view(at));
        let mut loops = [Loop { count: 1, output: 0, left: 0, right: 0 }; MAX_LOOPS];
        let first = MAX_LOOPS - self.loops.len();
        for (each, at) in loops[first..].iter_mut().zip(self.loops) {
            let count = self.values.counts[*at];
            *each = Loop { count, output: output[*at].1, left: left[*at].1, right: right[*at].1 };
        }
        let [left_computation, right_computation] =
            [(self.left, left_view), (self.right, right_view)].map(|(factor, view)| {
                factor.body.as_ref().map(|(body, loaded, result)| Computation {
                    body,
                    scalars: self.values.scalars,
                    element: view.element,
                    loaded: *loaded,
                    result: *result,
                })
            });
        let left = Elements {
            buffer: self.buffers[self.left.view],
            base: left_base,
            width: width(left_view.element),
            compute: left_computation.as_ref().map(|computation| computation as _),
        };
        let right = Elements {
            buffer: self.buffers[self.right.view],
            base: right_base,
            width: width(right_view.element),
            compute: right_computation.as_ref().map(|computation| computation as _),
        };
        let output = Elementary::new(self.buffers[self.output], base);
        // SAFETY: what races is only multiplied, added and stored, and the memory is settled afterwards.
        unsafe { contract::<O, MAX_LOOPS>(output, left, right, loops, permitted) }
    }
}
