//! Counted loops whose values are kept in machine registers.
//!
//! A value that a loop carries from turn to turn otherwise goes through the frame's memory once for each instruction that
//! touches it, and that is what small loops wait for. A block that branches to itself and does nothing but step its
//! counters, and add up (or take the least or greatest of) elements of one buffer, is run here instead, turn by turn.
//!
//! Only whole turns are run, and never the last one: before a turn that would leave the loop, fail or run out of fuel,
//! the carried values are put back and the ordinary code goes on with that turn. So whatever else the block writes is
//! written by the ordinary code, and errors are its own. Elements are read through the buffer's checked accesses.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::buffer::{Buffer, Scalar};
use super::super::reference::Ref;
use super::super::semantics;
use super::code::{Inst, Operation};

/// Blocks with more instructions are not looked at, so that looking takes a time that is linear in the code.
pub(super) const MAX_INSTRUCTIONS: usize = 64;

/// A value that does not change in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixed {
    Register(u16),
    Constant(u64),
}

/// A register that each turn adds the same to.
#[derive(Clone, Copy, Debug)]
struct Counter {
    register: u16,
    /// 64-bit.
    wide: bool,
    step: Fixed,
    /// How often a turn adds the step.
    times: u32,
}

/// The comparison that ends a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    SignedLess,
    UnsignedLess,
    NotEqual,
}

/// What decides about another turn: the first counter, after `times` steps of this turn, compared with a fixed value.
#[derive(Clone, Copy, Debug)]
struct Test {
    relation: Relation,
    times: u32,
    limit: Fixed,
    /// The fixed value stands on the left.
    swapped: bool,
    /// What the comparison gives where the loop goes on.
    expected: bool,
}

/// The elements that a turn combines into a register.
#[derive(Clone, Debug)]
struct Reduction {
    operation: Operation,
    load: Operation,
    register: u16,
    buffer: u16,
    /// For each element, the steps from the first counter's value at the start of the turn to the element's index.
    elements: Box<[u32]>,
}

/// A loop that [`CountedLoop::run`] can run.
#[derive(Clone, Debug)]
pub(super) struct CountedLoop {
    /// The first is the one that is compared and that indexes the buffer.
    counters: Box<[Counter]>,
    test: Test,
    reduction: Option<Reduction>,
    /// Fuel that a turn takes.
    fuel: u64,
}

/// The accumulators' types: how they lie in registers.
trait Word: Copy {
    const WIDE: bool;
    fn of_register(bits: u64) -> Self;
    fn into_register(self) -> u64;
}

macro_rules! words {
    ($($type:ty, $wide:literal, $from:expr, $to:expr;)*) => {
        $(impl Word for $type {
            const WIDE: bool = $wide;
            #[inline(always)]
            fn of_register(bits: u64) -> $type {
                ($from)(bits)
            }
            #[inline(always)]
            fn into_register(self) -> u64 {
                ($to)(self)
            }
        })*
    };
}
words! {
    i32, false, |bits| bits as i32, |value| u64::from(value as u32);
    i64, true, |bits| bits as i64, |value| value as u64;
    f32, false, |bits| f32::from_bits(bits as u32), |value: f32| u64::from(value.to_bits());
    f64, true, f64::from_bits, f64::to_bits;
}

/// What can be combined: the operation, its type, whether its operands may change places, the load, the scalar that it
/// reads and how that becomes an operand.
macro_rules! for_each_reduction {
    ($callback:ident!($($prefix:tt)*)) => { $callback! { $($prefix)*
        AddI32, add_i32: i32, commutes true, BufferLoadI8U u8: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI8S i8: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI16U u16: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI16S i16: i32::from;
        AddI32, add_i32: i32, commutes true, BufferLoadI32 u32: |bits: u32| bits as i32;
        AddI64, add_i64: i64, commutes true, BufferLoadI64 u64: |bits: u64| bits as i64;
        AddF32, add_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
        AddF64, add_f64: f64, commutes false, BufferLoadI64 u64: f64::from_bits;
        MulF32, mul_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
        MinI32S, min_i32_s: i32, commutes true, BufferLoadI32 u32: |bits: u32| bits as i32;
        MaxI32S, max_i32_s: i32, commutes true, BufferLoadI32 u32: |bits: u32| bits as i32;
        MinF32, min_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
        MaxF32, max_f32: f32, commutes false, BufferLoadI32 u32: f32::from_bits;
    } };
}

/// The type of a reduction: whether its accumulator is wide, and whether its operands may change places.
fn reduction_type(operation: Operation, load: Operation) -> Option<(bool, bool)> {
    macro_rules! rows {
        ($($operation:ident, $function:ident: $type:ty, commutes $commutes:literal, $load:ident $scalar:ty: $convert:expr;)*) => {
            match (operation, load) {
                $((Operation::$operation, Operation::$load) => Some((<$type>::WIDE, $commutes)),)*
                _ => None,
            }
        };
    }
    for_each_reduction!(rows!())
}

/// The counters while a loop runs. Narrow values lie in the upper half, where they wrap and compare as they should.
struct Progress {
    value: u64,
    step: u64,
    times: u64,
    limit: u64,
    turns: u64,
    fuel: u64,
}

impl CountedLoop {
    /// Runs turns as long as they are plain ones; the registers are then those at the start of the turn to go on with.
    ///
    /// `registers` and `references` are the frame's.
    #[inline(never)]
    pub(super) fn run(&self, registers: &mut [u32], references: &[Ref], fuel: &mut u64) -> Option<()> {
        let first = self.counters.first()?;
        let shift = if first.wide { 0 } else { 32 };
        let mut progress = Progress {
            value: read(registers, first.register, first.wide)? << shift,
            step: fixed(registers, first.step, first.wide)? << shift,
            times: first.times.into(),
            limit: fixed(registers, self.test.limit, first.wide)? << shift,
            turns: 0,
            fuel: *fuel,
        };
        match &self.reduction {
            None => while self.turn(&mut progress) {},
            Some(reduction) => {
                let buffer = references.get(usize::from(reduction.buffer))?.buffer().ok()?;
                self.reduce(reduction, registers, buffer, &mut progress)?;
            }
        }
        for counter in &self.counters {
            let step = fixed(registers, counter.step, counter.wide)?;
            let sum = step.wrapping_mul(counter.times.into()).wrapping_mul(progress.turns);
            let value = read(registers, counter.register, counter.wide)?.wrapping_add(sum);
            write(registers, counter.register, counter.wide, value)?;
        }
        *fuel = progress.fuel;
        Some(())
    }

    /// Steps the counters, if another turn follows the one that is to be run.
    #[inline(always)]
    fn turn(&self, progress: &mut Progress) -> bool {
        let tested = progress.value.wrapping_add(progress.step.wrapping_mul(self.test.times.into()));
        let (left, right) = if self.test.swapped { (progress.limit, tested) } else { (tested, progress.limit) };
        let result = match self.test.relation {
            Relation::SignedLess => (left as i64) < (right as i64),
            Relation::UnsignedLess => left < right,
            Relation::NotEqual => left != right,
        };
        if result != self.test.expected || progress.fuel <= self.fuel {
            return false;
        }
        progress.fuel -= self.fuel;
        progress.value = progress.value.wrapping_add(progress.step.wrapping_mul(progress.times));
        progress.turns += 1;
        true
    }

    fn reduce(
        &self,
        reduction: &Reduction,
        registers: &mut [u32],
        buffer: &Buffer,
        progress: &mut Progress,
    ) -> Option<()> {
        macro_rules! rows {
            ($($operation:ident, $function:ident: $type:ty, commutes $commutes:literal, $load:ident $scalar:ty: $convert:expr;)*) => {
                match (reduction.operation, reduction.load) {
                    $((Operation::$operation, Operation::$load) => {
                        let start = <$type>::of_register(read(registers, reduction.register, <$type>::WIDE)?);
                        let combine = |sum, scalar: $scalar| semantics::$function(sum, $convert(scalar));
                        let sum = self.combine(&reduction.elements, buffer, progress, start, combine);
                        write(registers, reduction.register, <$type>::WIDE, sum.into_register())
                    })*
                    _ => None,
                }
            };
        }
        for_each_reduction!(rows!())
    }

    #[inline(always)]
    fn combine<S: Scalar, W: Word>(
        &self,
        elements: &[u32],
        buffer: &Buffer,
        progress: &mut Progress,
        start: W,
        combine: impl Fn(W, S) -> W,
    ) -> W {
        let mut sum = start;
        loop {
            let mut next = sum;
            let index = progress.value;
            for &times in elements {
                let Ok(scalar) = buffer.load::<S>(index.wrapping_add(progress.step.wrapping_mul(times.into()))) else {
                    return sum;
                };
                next = combine(next, scalar);
            }
            if !self.turn(progress) {
                return sum;
            }
            sum = next;
        }
    }
}

fn read(registers: &[u32], register: u16, wide: bool) -> Option<u64> {
    let low = u64::from(*registers.get(usize::from(register))?);
    Some(if wide { low | u64::from(*registers.get(usize::from(register) + 1)?) << 32 } else { low })
}

fn write(registers: &mut [u32], register: u16, wide: bool, value: u64) -> Option<()> {
    if wide {
        *registers.get_mut(usize::from(register) + 1)? = (value >> 32) as u32;
    }
    *registers.get_mut(usize::from(register))? = value as u32;
    Some(())
}

fn fixed(registers: &[u32], value: Fixed, wide: bool) -> Option<u64> {
    match value {
        Fixed::Register(register) => read(registers, register, wide),
        Fixed::Constant(value) => Some(value),
    }
}

/// A register, and whether it is a pair.
type Register = (u16, bool);

/// The 32-bit registers that it is made of.
fn halves((register, wide): Register) -> impl Iterator<Item = u16> {
    [Some(register), wide.then_some(register + 1)].into_iter().flatten()
}

/// What is known of a value while a turn is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// What the register held when the turn began.
    Initial(u16),
    Constant(u64),
    /// What the register held when the turn began, and `times` steps more.
    Stepped {
        register: u16,
        step: Fixed,
        times: u32,
    },
    /// The element that was loaded after so many others.
    Element(usize),
    /// What the register held when the turn began, combined with so many elements.
    Combined {
        register: u16,
        count: usize,
    },
    /// The result of the comparison, which nothing may read.
    Result,
}

/// A register was written: the value, and which half of it the register has; none where it has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    register: u16,
    value: usize,
    half: Option<u16>,
}

/// Follows one turn of a block.
#[derive(Default)]
struct Follower {
    values: Vec<Known>,
    written: Vec<Written>,
    /// Registers that any instruction of the turn writes.
    targets: Vec<u16>,
    /// Those that only the way back to the next turn writes.
    only_copied: Vec<u16>,
    /// Registers whose value at the start of the turn was read, with their width.
    initial: Vec<Register>,
    /// Of elements that were loaded: the counter, its step and how many of them lead to the index.
    elements: Vec<(u16, Option<Fixed>, u32)>,
    load: Option<(Operation, u16)>,
    operation: Option<Operation>,
}

/// Makes a loop of a block that branches to itself: `body` ends with the fused comparison, of which `expected` leads to the
/// next turn, by way of the `copies`. None where the block does more than can be run here.
pub(super) fn recognize(body: &[Inst], copies: &[Inst], expected: bool) -> Option<CountedLoop> {
    let (last, body) = body.split_last()?;
    if body.len() + copies.len() > MAX_INSTRUCTIONS {
        return None;
    }
    let (relation, wide, negated) = relation(last.operation)?;
    let mut follower = Follower::default();
    for (index, inst) in body.iter().chain([last]).chain(copies).enumerate() {
        let only_copied = index > body.len();
        for register in halves(target(inst)?) {
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
    let swapped = follower.fixed(left).is_some();
    let (tested, limit) = if swapped { (right, left) } else { (left, right) };
    let limit = follower.fixed(limit)?;
    let (register, step, times) = match tested {
        Known::Initial(register) => (register, None, 0),
        Known::Stepped { register, step, times } => (register, Some(step), times),
        _ => return None,
    };
    let (counters, accumulator) = follower.carried((register, wide))?;
    if step.is_some_and(|step| counters.first().is_none_or(|counter| counter.step != step)) {
        return None;
    }
    let test = Test { relation, times, limit, swapped, expected: expected != negated };
    let reduction = follower.reduction(accumulator, counters.first()?)?;
    // The comparison is a branch; where the way back copies, it ends with another one.
    Some(CountedLoop { counters, test, reduction, fuel: if copies.is_empty() { 1 } else { 2 } })
}

/// What a fused comparison compares: the relation, whether it is one of 64 bits, and whether it is negated.
fn relation(operation: Operation) -> Option<(Relation, bool, bool)> {
    Some(match operation {
        Operation::CmpEqI32Branch => (Relation::NotEqual, false, true),
        Operation::CmpNeI32Branch => (Relation::NotEqual, false, false),
        Operation::CmpLtI32SBranch => (Relation::SignedLess, false, false),
        Operation::CmpLtI32UBranch => (Relation::UnsignedLess, false, false),
        Operation::CmpEqI64Branch => (Relation::NotEqual, true, true),
        Operation::CmpNeI64Branch => (Relation::NotEqual, true, false),
        Operation::CmpLtI64SBranch => (Relation::SignedLess, true, false),
        Operation::CmpLtI64UBranch => (Relation::UnsignedLess, true, false),
        _ => return None,
    })
}

/// The register that an instruction writes, and whether it is a pair; None for instructions that a loop may not have.
fn target(inst: &Inst) -> Option<Register> {
    Some(match inst.operation {
        Operation::Move32 => (inst.b, false),
        Operation::Move64 => (inst.b, true),
        Operation::ConstI32 | Operation::ConstI32Zero => (inst.c, false),
        Operation::ConstI64 | Operation::ConstI64Zero => (inst.c, true),
        operation if relation(operation).is_some() => (inst.c, false),
        operation => (inst.c, combined(operation).or_else(|| loaded(operation))?),
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

    /// A value that no turn changes. (A wide register is fixed only where none of its halves is written.)
    fn fixed(&self, value: Known) -> Option<Fixed> {
        match value {
            Known::Constant(value) => Some(Fixed::Constant(value)),
            Known::Initial(register) if !self.targets.contains(&register) => Some(Fixed::Register(register)),
            _ => None,
        }
    }

    fn step(&mut self, inst: &Inst) -> Option<()> {
        let (register, wide) = target(inst)?;
        let value = match inst.operation {
            Operation::Move32 | Operation::Move64 => self.read(inst.a, wide)?,
            Operation::ConstI32 => Known::Constant(inst.imm & u64::from(u32::MAX)),
            Operation::ConstI64 => Known::Constant(inst.imm),
            Operation::ConstI32Zero | Operation::ConstI64Zero => Known::Constant(0),
            operation if loaded(operation).is_some() => self.load(inst)?,
            operation => {
                let (left, right) = (self.read(inst.a, wide)?, self.read(inst.b, wide)?);
                self.binary(operation, left, right)?
            }
        };
        self.write(register, wide, value);
        Some(())
    }

    fn load(&mut self, inst: &Inst) -> Option<Known> {
        if *self.load.get_or_insert((inst.operation, inst.a)) != (inst.operation, inst.a) {
            return None;
        }
        let index = match self.read(inst.b, true)? {
            Known::Initial(register) => (register, None, 0),
            Known::Stepped { register, step, times } => (register, Some(step), times),
            _ => return None,
        };
        self.elements.push(index);
        Some(Known::Element(self.elements.len() - 1))
    }

    fn binary(&mut self, operation: Operation, left: Known, right: Known) -> Option<Known> {
        if let Some((load, _)) = self.load
            && let Some((_, commutes)) = reduction_type(operation, load)
        {
            match (left, right) {
                (sum, Known::Element(element)) => return self.combine(operation, sum, element),
                (Known::Element(element), sum) if commutes => return self.combine(operation, sum, element),
                _ => {}
            }
        }
        if !matches!(operation, Operation::AddI32 | Operation::AddI64) {
            return None;
        }
        let (counter, step) = match self.fixed(right) {
            Some(step) => (left, step),
            None => (right, self.fixed(left)?),
        };
        match counter {
            Known::Initial(register) => Some(Known::Stepped { register, step, times: 1 }),
            Known::Stepped { register, step: before, times } if before == step => {
                Some(Known::Stepped { register, step, times: times + 1 })
            }
            _ => None,
        }
    }

    /// Elements are combined in the order of their loads, and each once, so that none is left unchecked.
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

    /// What the loop carries from turn to turn: counters, the given one first, and the accumulator.
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
                _ => return None,
            }
        }
        let carried = || counters.iter().map(|counter| (counter.register, counter.wide)).chain(accumulator);
        let parts = || carried().flat_map(halves);
        // A register that is read both as itself and as half of a pair is not one value.
        let distinct = parts().enumerate().all(|(index, part)| parts().skip(index + 1).all(|other| other != part));
        // The last turn does not go the way back: what only that writes must be put back like the rest.
        if !self.only_copied.iter().all(|register| parts().any(|part| part == *register)) {
            return None;
        }
        // The first counter decides when the loop ends, so it must be one.
        let first_is_counter = counters.first().is_some_and(|counter| (counter.register, counter.wide) == first);
        (distinct && first_is_counter).then(|| (counters.into(), accumulator))
    }

    fn reduction(self, accumulator: Option<Register>, first: &Counter) -> Option<Option<Reduction>> {
        let (Some((load, buffer)), Some((register, wide)), Some(operation)) = (self.load, accumulator, self.operation)
        else {
            // Loads whose elements nobody combines are not run here.
            return (self.load.is_none() && accumulator.is_none()).then_some(None);
        };
        if reduction_type(operation, load)?.0 != wide || !first.wide {
            return None;
        }
        let same = |element: &(u16, Option<Fixed>, u32)| {
            element.0 == first.register && element.1.is_none_or(|step| step == first.step)
        };
        let elements = self.elements.iter().map(|element| same(element).then_some(element.2)).collect::<Option<_>>()?;
        Some(Some(Reduction { operation, load, register, buffer, elements }))
    }
}
