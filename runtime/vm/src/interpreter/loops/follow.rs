//! Recognises loops that [`CountedLoop::run`] can run: evaluates one iteration of a block symbolically.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::operation::{Inst, Operation};
use super::comparison::Comparison;
use super::map::{self, Map};
use super::{
    Affine, CountedLoop, Counter, Invariant, MAX_INSTRUCTIONS, ONE, Product, Reduction, Stream, Sum, Test, Work,
    is_product, reduction_type,
};

/// A register, and whether it is the first of a pair.
type Register = (u16, bool);

/// The one or two 32-bit registers of a register.
fn halves((register, wide): Register) -> impl Iterator<Item = u16> {
    [Some(register), wide.then_some(register + 1)].into_iter().flatten()
}

/// A symbolic value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The value of the register at the start of the iteration.
    Initial(u16),
    Constant(u64),
    /// The value of the register at the start of the iteration, plus `times` steps.
    Stepped {
        register: u16,
        step: Invariant,
        times: u32,
    },
    /// The affine value of this number.
    Affine(usize),
    /// The loaded element of this number.
    Element(usize),
    /// The product of two elements, added to a third one or to the value of a register at the start of the iteration.
    Product {
        operation: Operation,
        factors: [usize; 2],
        sum: Result<usize, u16>,
    },
    /// The value of the register at the start of the iteration, combined with the first `count` elements.
    Combined {
        register: u16,
        count: usize,
    },
    /// The value in the strip of this number.
    Strip(usize),
    /// The result of the comparison, which no instruction may read.
    Result,
}

/// A written register: the value, and the half of it that the register holds; none where it holds all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    register: u16,
    value: usize,
    half: Option<u16>,
}

/// An element that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Element {
    load: Operation,
    buffer: u16,
    index: Known,
}

/// Follows one iteration of a block.
#[derive(Default)]
struct Follower {
    values: Vec<Known>,
    written: Vec<Written>,
    /// Registers that any instruction of the iteration writes.
    targets: Vec<u16>,
    /// Those that only the copies of the back edge write.
    only_copied: Vec<u16>,
    /// Registers whose value at the start of the iteration was read, with their width.
    initial: Vec<Register>,
    elements: Vec<Element>,
    affine: Vec<Affine>,
    /// The operation that combines the elements.
    operation: Option<Operation>,
    /// The product that was stored to the element that is its sum.
    stored: Option<Known>,
    /// The strips, where the loop computes elements from elements.
    strips: Option<Strips>,
}

/// Recognises a block that branches to itself: `body` ends with the fused comparison, whose result `expected` leads to the
/// next iteration, through the `copies` of the back edge. None where the block does more than a [`CountedLoop`] can.
pub(in super::super) fn recognize(body: &[Inst], copies: &[Inst], expected: bool) -> Option<CountedLoop> {
    if body.len() + copies.len() > MAX_INSTRUCTIONS {
        return None;
    }
    follow(body, copies, expected, None).or_else(|| follow(body, copies, expected, Some(Strips::default())))
}

/// Recognises a loop that computes elements from elements where there are `strips`, else one of the other kinds.
fn follow(body: &[Inst], copies: &[Inst], expected: bool, strips: Option<Strips>) -> Option<CountedLoop> {
    let (last, body) = body.split_last()?;
    let comparison = Comparison::of(last.operation)?;
    let wide = comparison.wide;
    let mut follower = Follower { strips, ..Follower::default() };
    for (index, inst) in body.iter().chain([last]).chain(copies).enumerate() {
        let only_copied = index > body.len();
        let written = if follower.strips.is_some() { strip_target(inst)? } else { target(inst)? };
        for register in written.into_iter().flat_map(halves) {
            if only_copied && !follower.targets.contains(&register) {
                follower.only_copied.push(register);
            }
            follower.targets.push(register);
        }
    }
    body.iter().try_for_each(|inst| follower.step(inst))?;
    let (left, right) = (follower.read(last.a, wide)?, follower.read(last.b, wide)?);
    follower.write(last.c, false, Known::Result);
    copies.iter().try_for_each(|inst| follower.step(inst))?;
    let swapped = follower.invariant(left).is_some();
    let (tested, limit) = if swapped { (right, left) } else { (left, right) };
    let limit = follower.invariant(limit)?;
    let relation = comparison.continues_while(swapped, expected)?;
    let (register, step, times) = match tested {
        Known::Initial(register) => (register, None, 0),
        Known::Stepped { register, step, times } => (register, Some(step), times),
        _ => return None,
    };
    let (counters, accumulator) = follower.carried((register, wide))?;
    if step.is_some_and(|step| counters.first().is_none_or(|counter| counter.step != step)) {
        return None;
    }
    let test = Test { relation, signed: comparison.signed, times, limit };
    let work = follower.work(accumulator, counters.first()?)?;
    // The comparison is a branch; the copies of the back edge end with another one.
    Some(CountedLoop { counters, test, work, fuel: if copies.is_empty() { 1 } else { 2 } })
}

/// The strips and the operations on them.
#[derive(Default)]
struct Strips {
    count: usize,
    shared: Vec<(Invariant, usize)>,
    loads: Vec<(Element, usize)>,
    steps: Vec<map::Step>,
    stores: Vec<(Element, usize)>,
}

impl Strips {
    fn add(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }
}

/// As [`target`], for a loop that computes elements from elements.
fn strip_target(inst: &Inst) -> Option<Option<Register>> {
    if map::is_store(inst.operation) {
        return Some(None);
    }
    if map::element_size(inst.operation).is_some() {
        return Some(Some((inst.c, false)));
    }
    match map::step_registers(inst) {
        Some((_, _, target)) => Some(Some((target, false))),
        None => target(inst),
    }
}

/// The register that an instruction writes, if it writes one, and whether it is a pair; None for instructions that a loop may not have.
fn target(inst: &Inst) -> Option<Option<Register>> {
    Some(Some(match inst.operation {
        Operation::BufferStoreI32 => return Some(None),
        Operation::FmaI64 => (inst.part(0), true),
        Operation::FmaI32 | Operation::FmaF32 => (inst.part(0), false),
        Operation::MulI64 => (inst.c, true),
        Operation::Move32 => (inst.b, false),
        Operation::Move64 => (inst.b, true),
        Operation::ConstI32 | Operation::ConstI32Zero => (inst.c, false),
        Operation::ConstI64 | Operation::ConstI64Zero => (inst.c, true),
        operation if Comparison::of(operation).is_some() || extended(operation).is_some() => (inst.c, false),
        operation => (inst.c, combined(operation).or_else(|| loaded(operation))?),
    }))
}

/// The load whose results an extension leaves as they are; None for other operations.
fn extended(operation: Operation) -> Option<Operation> {
    Some(match operation {
        Operation::ExtI8I32S => Operation::BufferLoadI8S,
        Operation::ExtI8I32U => Operation::BufferLoadI8U,
        Operation::ExtI16I32S => Operation::BufferLoadI16S,
        Operation::ExtI16I32U => Operation::BufferLoadI16U,
        _ => return None,
    })
}

/// Whether a load's result is wide; None for other operations.
fn loaded(operation: Operation) -> Option<bool> {
    Some(match operation {
        Operation::BufferLoadI8U
        | Operation::BufferLoadI8S
        | Operation::BufferLoadI16U
        | Operation::BufferLoadI16S
        | Operation::BufferLoadI32 => false,
        Operation::BufferLoadI64 => true,
        _ => return None,
    })
}

/// Whether a reduction's accumulator is wide; None for other operations.
fn combined(operation: Operation) -> Option<bool> {
    let loads = [Operation::BufferLoadI32, Operation::BufferLoadI64];
    loads.into_iter().find_map(|load| reduction_type(operation, load)).map(|row| row.0)
}

impl Follower {
    fn write(&mut self, register: u16, wide: bool, value: Known) {
        let index = self.values.len();
        self.values.push(value);
        let mut put = |register, half| {
            self.written.retain(|written| written.register != register);
            self.written.push(Written { register, value: index, half });
        };
        put(register, wide.then_some(0));
        if wide {
            put(register + 1, Some(1));
        }
    }

    /// The value of a register; None where that is half of one or two halves.
    fn read(&mut self, register: u16, wide: bool) -> Option<Known> {
        let find = |register: u16| self.written.iter().find(|written| written.register == register).copied();
        match (find(register), wide.then(|| find(register + 1))) {
            (None, None | Some(None)) => {
                if !self.initial.contains(&(register, wide)) {
                    self.initial.push((register, wide));
                }
                Some(Known::Initial(register))
            }
            (Some(whole), None) if whole.half.is_none() => Some(self.values[whole.value]),
            (Some(low), Some(Some(high)))
                if low.half == Some(0) && high == (Written { register: register + 1, half: Some(1), ..low }) =>
            {
                Some(self.values[low.value])
            }
            _ => None,
        }
    }

    /// The value as one that no iteration changes. (A wide register is invariant only where neither half is written.)
    fn invariant(&self, value: Known) -> Option<Invariant> {
        match value {
            Known::Constant(value) => Some(Invariant::Constant(value)),
            Known::Initial(register) if !self.targets.contains(&register) => Some(Invariant::Register(register)),
            _ => None,
        }
    }

    fn step(&mut self, inst: &Inst) -> Option<()> {
        if self.strips.is_some() && (map::element_size(inst.operation).is_some() || map::step_registers(inst).is_some())
        {
            return self.strip_step(inst);
        }
        let Some((register, wide)) = target(inst)? else { return self.store(inst) };
        let value = match inst.operation {
            Operation::Move32 | Operation::Move64 => self.read(inst.a, wide)?,
            Operation::ConstI32 => Known::Constant(inst.imm & u64::from(u32::MAX)),
            Operation::ConstI64 => Known::Constant(inst.imm),
            Operation::ConstI32Zero | Operation::ConstI64Zero => Known::Constant(0),
            operation if loaded(operation).is_some() => self.load(inst)?,
            operation if extended(operation).is_some() => match self.read(inst.a, false)? {
                element @ Known::Element(index) if Some(self.elements.get(index)?.load) == extended(operation) => {
                    element
                }
                _ => return None,
            },
            operation => {
                let (left, right) = (self.read(inst.a, wide)?, self.read(inst.b, wide)?);
                match operation {
                    Operation::MulI64 => self.product_of(left, right)?,
                    Operation::FmaI64 => {
                        let product = self.product_of(left, right)?;
                        let more = self.read(inst.c, wide)?;
                        self.sum_of(product, more)?
                    }
                    Operation::FmaI32 | Operation::FmaF32 => {
                        let sum = self.read(inst.c, wide)?;
                        product(operation, left, right, sum)?
                    }
                    _ => self.binary(operation, left, right)?,
                }
            }
        };
        self.write(register, wide, value);
        Some(())
    }

    fn strip_step(&mut self, inst: &Inst) -> Option<()> {
        if let Some((operands, count, target)) = map::step_registers(inst) {
            let mut strips = [0; 3];
            for (strip, register) in strips.iter_mut().zip(operands).take(count) {
                let value = self.read(register, false)?;
                *strip = self.strip(value)?;
            }
            let step = map::Step { operation: inst.operation, operands: strips, target: self.strips.as_mut()?.add() };
            self.strips.as_mut()?.steps.push(step);
            self.write(target, false, Known::Strip(step.target));
            return Some(());
        }
        let element = Element { load: inst.operation, buffer: inst.a, index: self.read(inst.b, true)? };
        if map::is_store(inst.operation) {
            let value = self.read(inst.c, false)?;
            let strip = self.strip(value)?;
            self.strips.as_mut()?.stores.push((element, strip));
            return Some(());
        }
        let strips = self.strips.as_mut()?;
        // An iteration must not load after a store, as it might load what it stored.
        if !strips.stores.is_empty() {
            return None;
        }
        let strip = strips.add();
        strips.loads.push((element, strip));
        self.write(inst.c, false, Known::Strip(strip));
        Some(())
    }

    /// The strip of a 32-bit value.
    fn strip(&mut self, value: Known) -> Option<usize> {
        if let Known::Strip(strip) = value {
            return Some(strip);
        }
        let value = self.invariant(value)?;
        let strips = self.strips.as_mut()?;
        let strip = strips.add();
        strips.shared.push((value, strip));
        Some(strip)
    }

    fn map(&self, strips: &Strips, first: &Counter) -> Option<Work> {
        if strips.stores.is_empty() {
            return None;
        }
        let access = |(element, strip): &(Element, usize)| {
            Some(map::Access { operation: element.load, stream: self.stream(element, first)?, strip: *strip })
        };
        Some(Work::Map(Map {
            strips: strips.count,
            shared: strips.shared.as_slice().into(),
            loads: strips.loads.iter().map(access).collect::<Option<_>>()?,
            steps: strips.steps.as_slice().into(),
            stores: strips.stores.iter().map(access).collect::<Option<_>>()?,
        }))
    }

    fn load(&mut self, inst: &Inst) -> Option<Known> {
        // An iteration must not load after a store, as it might load what it stored.
        if self.stored.is_some() {
            return None;
        }
        let index = self.read(inst.b, true)?;
        self.elements.push(Element { load: inst.operation, buffer: inst.a, index });
        Some(Known::Element(self.elements.len() - 1))
    }

    fn store(&mut self, inst: &Inst) -> Option<()> {
        let (index, value) = (self.read(inst.b, true)?, self.read(inst.c, false)?);
        let Known::Product { sum: Ok(sum), .. } = value else { return None };
        let target = *self.elements.get(sum)?;
        let same = target.load == Operation::BufferLoadI32
            && target.buffer == inst.a
            && self.affine(target.index)? == self.affine(index)?;
        (same && self.stored.replace(value).is_none()).then_some(())
    }

    /// The value as an affine one.
    fn affine(&self, value: Known) -> Option<Affine> {
        if let Some(value) = self.invariant(value) {
            return Some(Affine { scaled: None, terms: alloc::vec![[value, ONE]] });
        }
        Some(match value {
            Known::Initial(register) => Affine { scaled: Some((register, [ONE, ONE])), terms: Vec::new() },
            Known::Stepped { register, step, times } => Affine {
                scaled: Some((register, [ONE, ONE])),
                terms: alloc::vec![[step, Invariant::Constant(times.into())]],
            },
            Known::Affine(index) => self.affine.get(index)?.clone(),
            _ => return None,
        })
    }

    fn new_affine(&mut self, value: Affine) -> Known {
        self.affine.push(value);
        Known::Affine(self.affine.len() - 1)
    }

    /// The product of two 64-bit values, of which at least one is invariant.
    fn product_of(&mut self, left: Known, right: Known) -> Option<Known> {
        let (value, factor) = match (self.invariant(left), self.invariant(right)) {
            (_, Some(factor)) => (left, factor),
            (Some(factor), None) => (right, factor),
            (None, None) => return None,
        };
        let mut value = self.affine(value)?;
        for term in value.terms.iter_mut().chain(value.scaled.as_mut().map(|scaled| &mut scaled.1)) {
            *term.iter_mut().find(|factor| **factor == ONE)? = factor;
        }
        Some(self.new_affine(value))
    }

    /// The sum of two 64-bit values, of which at least one is invariant.
    fn sum_of(&mut self, left: Known, right: Known) -> Option<Known> {
        let (mut sum, more) = (self.affine(left)?, self.affine(right)?);
        if sum.scaled.is_some() && more.scaled.is_some() {
            return None;
        }
        sum.scaled = sum.scaled.or(more.scaled);
        sum.terms.extend(more.terms);
        Some(self.new_affine(sum))
    }

    fn binary(&mut self, operation: Operation, left: Known, right: Known) -> Option<Known> {
        for (sum, element, swapped) in [(left, right, false), (right, left, true)] {
            if let Known::Element(index) = element
                && let Some((_, commutes)) = reduction_type(operation, self.elements.get(index)?.load)
                && (commutes || !swapped)
            {
                return self.combine(operation, sum, index);
            }
        }
        if !matches!(operation, Operation::AddI32 | Operation::AddI64) {
            return None;
        }
        let (counter, step) = match (self.invariant(left), self.invariant(right)) {
            (None, Some(step)) => (left, step),
            (Some(step), None) => (right, step),
            _ if operation == Operation::AddI64 => return self.sum_of(left, right),
            _ => return None,
        };
        match counter {
            Known::Initial(register) => Some(Known::Stepped { register, step, times: 1 }),
            Known::Stepped { register, step: before, times } if before == step => {
                Some(Known::Stepped { register, step, times: times + 1 })
            }
            _ if operation == Operation::AddI64 => self.sum_of(left, right),
            _ => None,
        }
    }

    /// Combines an element. Elements are combined in the order of their loads, each once, so that all are checked.
    fn combine(&mut self, operation: Operation, sum: Known, element: usize) -> Option<Known> {
        let (register, count) = match sum {
            Known::Initial(register) => (register, 0),
            Known::Combined { register, count } => (register, count),
            _ => return None,
        };
        if count != element || *self.operation.get_or_insert(operation) != operation {
            return None;
        }
        Some(Known::Combined { register, count: count + 1 })
    }

    /// The values that the loop carries to the next iteration: counters, `first` among them first, and the accumulator.
    fn carried(&mut self, first: Register) -> Option<(Box<[Counter]>, Option<Register>)> {
        let mut registers = core::mem::take(&mut self.initial);
        registers.retain(|register| *register != first);
        registers.insert(0, first);
        let (mut counters, mut accumulator) = (Vec::new(), None);
        for (register, wide) in registers {
            let touched = |register: u16| self.targets.contains(&register);
            if !(touched(register) || wide && touched(register + 1)) {
                continue;
            }
            match self.read(register, wide)? {
                Known::Stepped { register: from, step, times } if from == register => {
                    counters.push(Counter { register, wide, step, times });
                }
                Known::Combined { register: from, count } if from == register && count == self.elements.len() => {
                    accumulator = Some((register, wide));
                }
                value @ Known::Product { sum: Err(from), .. } if from == register && self.stored.is_none() => {
                    accumulator = Some((register, wide));
                    self.stored = Some(value);
                }
                _ => return None,
            }
        }
        let carried = || counters.iter().map(|counter| (counter.register, counter.wide)).chain(accumulator);
        let parts = || carried().flat_map(halves);
        // A register that is read both as itself and as half of a pair is not one value.
        let disjoint = parts().enumerate().all(|(index, part)| parts().skip(index + 1).all(|other| other != part));
        // The last iteration does not take the back edge, so registers that only its copies write must be carried values.
        if !self.only_copied.iter().all(|register| parts().any(|part| part == *register)) {
            return None;
        }
        // The first counter decides when the loop ends, so it must be one.
        let first_is_counter = counters.first().is_some_and(|counter| (counter.register, counter.wide) == first);
        (disjoint && first_is_counter).then(|| (counters.into(), accumulator))
    }

    /// The work of an iteration. It includes all loaded elements, so that all are checked.
    fn work(self, accumulator: Option<Register>, first: &Counter) -> Option<Work> {
        if let Some(strips) = &self.strips {
            return self.map(strips, first).filter(|_| accumulator.is_none());
        }
        if let Some(stored) = self.stored {
            return self.multiplication(stored, accumulator, first);
        }
        let (Some(Element { load, buffer, .. }), Some((register, wide)), Some(operation)) =
            (self.elements.first().copied(), accumulator, self.operation)
        else {
            return (self.elements.is_empty() && accumulator.is_none()).then_some(Work::None);
        };
        if reduction_type(operation, load)?.0 != wide || !first.wide {
            return None;
        }
        let steps = |element: &Element| match element.index {
            _ if (element.load, element.buffer) != (load, buffer) => None,
            Known::Initial(register) if register == first.register => Some(0),
            Known::Stepped { register, step, times } if (register, step) == (first.register, first.step) => Some(times),
            _ => None,
        };
        let elements = self.elements.iter().map(steps).collect::<Option<_>>()?;
        Some(Work::Reduce(Reduction { operation, load, register, buffer, elements }))
    }

    fn multiplication(&self, stored: Known, accumulator: Option<Register>, first: &Counter) -> Option<Work> {
        let Known::Product { operation, factors: [left, right], sum } = stored else { return None };
        let element = |index: usize| self.elements.get(index);
        let load = element(left)?.load;
        let used = |index: usize| index == left || index == right || sum == Ok(index);
        if !is_product(operation, load) || element(right)?.load != load || !(0..self.elements.len()).all(used) {
            return None;
        }
        let stream = |index: usize| self.stream(element(index)?, first);
        let sum = match sum {
            Ok(index) if accumulator.is_none() => Sum::Element(stream(index)?),
            Err(register) if accumulator == Some((register, false)) => Sum::Register(register),
            _ => return None,
        };
        Some(Work::Multiply(Product { operation, load, left: stream(left)?, right: stream(right)?, sum }))
    }

    /// The location of an element, as a function of the first counter.
    fn stream(&self, element: &Element, first: &Counter) -> Option<Stream> {
        let Affine { scaled, terms } = self.affine(element.index)?;
        let scale = match scaled {
            None => None,
            Some((register, scale)) if first.wide && register == first.register => Some(scale),
            Some(_) => return None,
        };
        Some(Stream { buffer: element.buffer, scale, terms: terms.into() })
    }
}

fn product(operation: Operation, left: Known, right: Known, sum: Known) -> Option<Known> {
    let sum = match sum {
        Known::Element(index) => Ok(index),
        Known::Initial(register) => Err(register),
        _ => return None,
    };
    match (left, right) {
        (Known::Element(left), Known::Element(right)) => {
            Some(Known::Product { operation, factors: [left, right], sum })
        }
        _ => None,
    }
}
