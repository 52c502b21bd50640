//! Loop nests that run as nests, like emitted code, must compute the same results as their basic blocks.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::bytecode::ir::nest::{Affine, Item, Needed, Nest, Nests, Order, Schedule, Strips};
use incarnate_runtime::bytecode::ir::{Block, Function, Op, Type, Value};
use incarnate_runtime::bytecode::trip_count::{Counter, outer_trip_count, trip_count};
use incarnate_runtime::vm::{Buffer, BytecodeModule, Context, Limits, Module, Program, Ref, Value as VmValue};

use super::evaluator::{Frame, IrModule, Level, Machine, Slot};
use super::gathers::gathers;
use super::loops::{product, program, rows, sums};
use super::random::{Random, programs};
use super::strides::{self, strides};

/// Iterations of outermost loops that ran as nests.
static ITERATIONS: AtomicUsize = AtomicUsize::new(0);
/// The length of strips.
const LANES: usize = 8;
/// Number of nests whose iterations ran in another order.
static REORDERED: AtomicUsize = AtomicUsize::new(0);
/// Number of nests with a collapsed loop.
static SPLIT: AtomicUsize = AtomicUsize::new(0);
/// Number of nests that stopped at a computed index.
static MISSED: AtomicUsize = AtomicUsize::new(0);

impl Frame {
    /// Evaluates a form for the given iterations, modulo 2^64.
    fn form(&self, f: &Function, form: &Affine, iterations: &[usize]) -> i64 {
        form.terms().iter().fold(0i64, |sum, term| {
            let factor = |value: &Value| match f.ty(*value) {
                Type::i32 => i64::from(self.word(f, *value) as u32 as i32),
                _ => self.word(f, *value) as i64,
            };
            let product = term.factors.iter().map(factor).fold(term.coefficient, i64::wrapping_mul);
            sum.wrapping_add(product.wrapping_mul(term.iteration.map_or(1, |iteration| iterations[iteration] as i64)))
        })
    }
}

fn count<T: Counter>(
    frame: &Frame,
    f: &Function,
    test: &incarnate_runtime::bytecode::ir::nest::Test,
    as_type: fn(i64) -> T,
) -> Option<usize> {
    let (first, bound) = (frame.form(f, &test.first, &[]), frame.form(f, &test.bound, &[]));
    trip_count(as_type(first), test.step, test.relation, as_type(bound))
}

/// Returns the exact least and greatest value of a form; None if a trip count is zero.
fn extent(frame: &Frame, f: &Function, form: &Affine, counts: &[usize]) -> Option<(i128, i128)> {
    let zeros = vec![0; counts.len()];
    let base = frame.form(f, form, &zeros);
    let (mut least, mut greatest) = (i128::from(base), i128::from(base));
    for iteration in form.loops() {
        let mut one = zeros.clone();
        one[iteration] = 1;
        let stride = i128::from(frame.form(f, form, &one).wrapping_sub(base));
        let distance = stride * (counts[iteration].checked_sub(1)? as i128);
        *(if distance < 0 { &mut least } else { &mut greatest }) += distance;
    }
    Some((least, greatest))
}

/// Returns true if strips compute the same results as the nest.
fn holds(entry: &Frame, f: &Function, nest: &Nest, strips: &Strips, counts: &[usize]) -> bool {
    if counts.contains(&0) {
        return false;
    }
    let bytes = |view: usize| {
        let view = &nest.views[view];
        let (least, greatest) = extent(entry, f, &view.index, counts).unwrap();
        let width = i128::from(view.element.width());
        let start = entry.reference(f, view.buffer).buffer().unwrap().as_ptr() as i128;
        (start + least * width, start + (greatest + 1) * width)
    };
    let chosen: Vec<usize> = strips.outer.iter().copied().chain([strips.lanes]).collect();
    strips.stores.iter().enumerate().all(|(number, store)| {
        let stored = bytes(*store);
        let is_disjoint = |view: &usize| bytes(*view).1 <= stored.0 || stored.1 <= bytes(*view).0;
        let mut seen = BTreeSet::new();
        let mut iterations = vec![0; counts.len()];
        let distinct = loop {
            if !seen.insert(entry.form(f, &nest.views[*store].index, &iterations)) {
                break false;
            }
            let Some(at) = chosen.iter().rev().find(|at| iterations[**at] + 1 < counts[**at]) else { break true };
            iterations[*at] += 1;
            chosen.iter().rev().take_while(|inner| *inner != at).for_each(|inner| iterations[*inner] = 0);
        };
        distinct && strips.non_aliasing.iter().chain(&strips.stores[..number]).all(is_disjoint)
    })
}

/// Whether nothing is stored to what a nest loads.
fn is_separate(entry: &Frame, f: &Function, nest: &Nest) -> bool {
    let bytes = |buffer: Value| {
        let reference = entry.reference(f, buffer);
        let buffer = reference.buffer().unwrap();
        (buffer.as_ptr().addr(), buffer.as_ptr().addr() + buffer.length() as usize)
    };
    let stored = nest.views.iter().filter(|view| view.written).map(|view| bytes(view.buffer));
    let loads = nest.views.iter().filter(|view| !view.written).map(|view| view.buffer);
    let loaded: Vec<(usize, usize)> = loads.chain(nest.gathers.iter().map(|gather| gather.buffer)).map(bytes).collect();
    let is_disjoint = |stored: (usize, usize)| loaded.iter().all(|loaded| loaded.1 <= stored.0 || stored.1 <= loaded.0);
    stored.into_iter().all(is_disjoint)
}

/// Returns the order that a schedule allows: contractions run on strips of the last loop that moves the output.
fn reordered(f: &Function, nest: &Nest) -> Option<Strips> {
    match Schedule::of(f, nest, &Needed::of(f, nest), Order::Bytecode) {
        Schedule::Contraction(contraction) => {
            let index = &nest.views[contraction.output].index;
            let moves = |at: &usize| index.stride(*at).next().is_some();
            let (mut outer, reductions): (Vec<usize>, Vec<usize>) = contraction.loops.iter().copied().partition(moves);
            let lanes = outer.pop()?;
            let non_aliasing = contraction.left.iter().chain([&contraction.right]).map(|factor| factor.view).collect();
            let (stores, innermost) = (vec![contraction.output], *contraction.loops.last()?);
            Some(Strips { stores, outer, jammed: None, lanes, reductions, non_aliasing, innermost })
        }
        Schedule::Strips(strips) => Some(strips),
        Schedule::InOrder(_) | Schedule::Zeros => None,
    }
}

impl Machine<'_> {
    /// Runs the iterations of a nest in the order of strips.
    fn strips(
        &mut self,
        entry: &Frame,
        frame: &mut Frame,
        f: &Function,
        nest: &Nest,
        strips: &Strips,
        counts: &[usize],
    ) {
        let mut order = strips.outer.clone();
        order.push(strips.lanes);
        order.extend(&strips.reductions);
        let mut all = Vec::new();
        let mut iterations = vec![0; counts.len()];
        loop {
            all.push(iterations.clone());
            let Some(at) = order.iter().rev().find(|at| iterations[**at] + 1 < counts[**at]) else { break };
            iterations[*at] += 1;
            order.iter().rev().take_while(|inner| *inner != at).for_each(|inner| iterations[*inner] = 0);
        }
        // The order from outermost to innermost: strips, reductions, elements of a strip.
        let key = |iterations: &Vec<usize>| {
            let of = |loops: &[usize]| loops.iter().map(|at| iterations[*at]).collect::<Vec<usize>>();
            let mut key = of(&strips.outer);
            key.push(iterations[strips.lanes] / LANES);
            key.extend(of(&strips.reductions));
            key.push(iterations[strips.lanes]);
            key
        };
        all.sort_by_key(key);
        for iterations in all {
            for at in nest.path(strips.innermost) {
                self.inductions(entry, frame, f, nest, at, &iterations);
                for item in &nest.loops[at].items {
                    if let Item::Instruction(block, position) = item {
                        self.instruction(frame, f, *block, *position);
                    }
                }
            }
        }
    }

    /// Runs a nest whose header is the next block, if all its accesses are in range.
    pub fn run_nest(&mut self, f: &Function, nest: &Nest) {
        let mut frame = self.frames.pop().unwrap();
        let before = frame.slots.clone();
        let done = self.nest(&mut frame, f, nest);
        let after = std::mem::replace(&mut frame.slots, before);
        if done {
            let root = &nest.loops[0];
            let parameters = root.inductions.iter().map(|induction| induction.parameter);
            for parameter in parameters.chain(root.carried.iter().map(|carried| carried.parameter)) {
                frame.slots[parameter.index()] = after[parameter.index()].clone();
            }
        }
        self.frames.push(frame);
    }

    fn nest(&mut self, frame: &mut Frame, f: &Function, nest: &Nest) -> bool {
        for (block, position) in &nest.hoisted {
            self.instruction(frame, f, *block, *position);
        }
        // Forms refer to values before the first iteration.
        let entry = Frame { slots: frame.slots.clone(), ..*frame };
        let mut counts = Vec::new();
        for counted in &nest.loops {
            let count = match (counted.test.ty, counted.test.signed) {
                (Type::i32, true) => count(&entry, f, &counted.test, |v| v as i32),
                (Type::i32, false) => count(&entry, f, &counted.test, |v| v as u32),
                (_, true) => count(&entry, f, &counted.test, |v| v),
                (_, false) => count(&entry, f, &counted.test, |v| v as u64),
            };
            let count = match &counted.divisor {
                None => count,
                Some(divisor) => count.and_then(|count| outer_trip_count(count, entry.form(f, divisor, &[]))),
            };
            match count.and_then(|count| count.checked_add(usize::from(counted.tested_last))) {
                Some(count) => counts.push(count),
                None => return false,
            }
        }
        if counts[0] == 0 {
            return false;
        }
        for condition in &nest.conditions {
            let extent = extent(&entry, f, &condition.form, &counts);
            if extent
                .is_some_and(|(least, greatest)| least < condition.least.into() || greatest > condition.greatest.into())
            {
                return false;
            }
        }
        for view in &nest.views {
            let Ref::Buffer(buffer) = entry.reference(f, view.buffer) else { return false };
            let length = i128::from(buffer.length() / view.element.width());
            let extent = extent(&entry, f, &view.index, &counts);
            if extent.is_some_and(|(least, greatest)| least < 0 || greatest >= length)
                || (view.written && !buffer.is_mutable())
            {
                return false;
            }
        }
        ITERATIONS.fetch_add(counts[0], Ordering::Relaxed);
        let mut iterations = vec![0; counts.len()];
        if let Some(strips) = reordered(f, nest).filter(|_| nest.gathers.is_empty())
            && holds(&entry, f, nest, &strips, &counts)
        {
            REORDERED.fetch_add(1, Ordering::Relaxed);
            let is_split = nest.loops.iter().any(|counted| counted.divisor.is_some());
            SPLIT.fetch_add(usize::from(is_split), Ordering::Relaxed);
            self.strips(&entry, frame, f, nest, &strips, &counts);
            iterations[0] = counts[0];
            self.inductions(&entry, frame, f, nest, 0, &iterations);
            return true;
        }
        if !nest.gathers.is_empty() && !is_separate(&entry, f, nest) {
            return false;
        }
        self.gathers = nest.gathers.iter().map(|gather| (gather.block, gather.position)).collect();
        self.iterate(&entry, frame, f, nest, 0, &counts, &mut iterations);
        // Then the loops of the bytecode follow from their beginning.
        MISSED.fetch_add(usize::from(self.missed), Ordering::Relaxed);
        !std::mem::take(&mut self.missed)
    }

    #[expect(clippy::too_many_arguments, reason = "what all levels share, and the level")]
    fn iterate(
        &mut self,
        entry: &Frame,
        frame: &mut Frame,
        f: &Function,
        nest: &Nest,
        at: usize,
        counts: &[usize],
        iterations: &mut [usize],
    ) {
        let counted = &nest.loops[at];
        if at != 0 {
            let initial: Vec<Slot> =
                counted.carried.iter().map(|carried| Slot::Word(frame.word(f, carried.initial))).collect();
            for (carried, slot) in counted.carried.iter().zip(initial) {
                frame.slots[carried.parameter.index()] = slot;
            }
        }
        for iteration in 0..counts[at] {
            if self.missed {
                break;
            }
            iterations[at] = iteration;
            self.inductions(entry, frame, f, nest, at, iterations);
            for item in &counted.items {
                match item {
                    Item::Loop(inner) => self.iterate(entry, frame, f, nest, *inner, counts, iterations),
                    Item::Instruction(block, position) => {
                        if let Some(access) = nest.access(*block, *position).filter(|_| !self.missed) {
                            let (Op::BufferLoad { offset, .. } | Op::BufferStore { offset, .. }) =
                                &nest.instruction(f, *block, *position).op
                            else {
                                panic!("not an access");
                            };
                            let index = entry.form(f, &nest.views[access.view].index, iterations);
                            assert_eq!(frame.word(f, *offset) as i64, index, "{nest:?}\n{f}");
                        }
                        self.instruction(frame, f, *block, *position);
                    }
                }
            }
            let next: Vec<Slot> = counted.carried.iter().map(|c| Slot::Word(frame.word(f, c.next))).collect();
            for (carried, slot) in counted.carried.iter().zip(next) {
                frame.slots[carried.parameter.index()] = slot;
            }
        }
        iterations[at] = counts[at];
        self.inductions(entry, frame, f, nest, at, iterations);
        iterations[at] = 0;
        if at != 0 {
            self.forget(frame, f, nest, at);
        }
    }

    fn inductions(&self, entry: &Frame, frame: &mut Frame, f: &Function, nest: &Nest, at: usize, iterations: &[usize]) {
        let forms: Vec<(Value, i64)> = nest.loops[at]
            .inductions
            .iter()
            .map(|induction| (induction.parameter, entry.form(f, &induction.form, iterations)))
            .collect();
        for (parameter, value) in forms {
            let word = if f.ty(parameter) == Type::i32 { u64::from(value as u32) } else { value as u64 };
            frame.slots[parameter.index()] = Slot::Word(word);
        }
    }

    /// Removes the values of an inner loop that are not visible after it.
    fn forget(&self, frame: &mut Frame, f: &Function, nest: &Nest, at: usize) {
        let counted = &nest.loops[at];
        let kept: Vec<(Value, Slot)> = counted
            .carried
            .iter()
            .filter(|carried| f.constant_bits(counted.escaping(carried)).is_none())
            .map(|carried| (counted.escaping(carried), frame.slots[carried.parameter.index()].clone()))
            .collect();
        for item in &counted.items {
            if let Item::Instruction(block, position) = item {
                for result in &nest.instruction(f, *block, *position).results {
                    frame.slots[result.index()] = Slot::Empty;
                }
            }
        }
        for parameter in &f.block(counted.header).parameters {
            frame.slots[parameter.index()] = Slot::Empty;
        }
        for (value, slot) in kept {
            frame.slots[value.index()] = slot;
        }
    }

    fn instruction(&mut self, frame: &mut Frame, f: &Function, block: Block, position: usize) {
        let inst = &f.block(block).instructions[position];
        let (module, state) = (self.module, self.state);
        if self.missed {
            return;
        }
        let slot = match self.evaluate(module, state, frame, f, inst) {
            Ok(slot) => slot,
            Err(_) if self.gathers.contains(&(block, position)) => {
                self.missed = true;
                return;
            }
            Err(error) => panic!("{error}\n{f}"),
        };
        if let ([value], Some(slot)) = (&inst.results[..], slot) {
            frame.slots[value.index()] = slot;
        }
    }
}

/// The results of a call, or its status, and the contents of the buffers behind it.
#[derive(Debug, PartialEq)]
struct Outcome {
    results: String,
    buffers: [Vec<u8>; 3],
}

/// Returns the contents of the longest buffer: floats of moderate size, and no NaN.
fn contents(seed: u8) -> &'static [u8] {
    static ALL: [OnceLock<Vec<u8>>; 4] = [const { OnceLock::new() }; 4];
    let byte = |at: usize| (at as u8).wrapping_mul(37) ^ (at >> 8) as u8;
    let exponent = |at: usize, byte: u8| if at % 4 == 3 { 0x3C | byte & 3 } else { byte };
    ALL[usize::from(seed)].get_or_init(|| (0..strides::BYTES).map(|at| exponent(at, byte(at) ^ seed)).collect())
}

/// Returns the outcome of a call with new buffers of a length in bytes. In round 1 two arguments are the same buffer; in round 2 the second
/// one is read-only.
fn outcome(module: Arc<dyn Module>, round: i64, length: usize) -> Outcome {
    let bytes = |seed: u8| &contents(seed)[..length];
    let first = Buffer::copy_of(bytes(1)).unwrap();
    let second = match round {
        1 => first.clone(),
        2 => {
            let contents = incarnate_runtime::bytecode::Contents::copy_from(bytes(2));
            Buffer::of_contents(Arc::new(contents), 0..length).unwrap()
        }
        _ => Buffer::copy_of(bytes(2)).unwrap(),
    };
    let third = Buffer::copy_of(bytes(3)).unwrap();
    let buffers = [first, second, third];
    let mut arguments: Vec<VmValue> = buffers.iter().map(|buffer| VmValue::Ref(Ref::Buffer(buffer.clone()))).collect();
    arguments.extend([VmValue::I64(round * 3), VmValue::I64(4 - round)]);
    let limits = Limits { fuel: Some(200_000), ..Limits::default() };
    let context = Context::new(Program::link(vec![module]).unwrap(), limits).unwrap();
    let results = match context.function("f").unwrap().call(&arguments) {
        Ok(results) => results
            .iter()
            .map(|value| match value {
                VmValue::F32(value) if value.is_nan() => "nan".to_owned(),
                VmValue::F32(value) => format!("{:08x}", value.to_bits()),
                value => format!("{value:?}"),
            })
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => format!("{:?}", error.code()),
    };
    Outcome { results, buffers: buffers.map(|buffer| buffer.to_vec().unwrap()) }
}

fn verified(text: &str) -> Arc<VerifiedModule> {
    super::assembled(text)
}

/// Compares runs of the plain code with those of the interpreter as nests; counts those that return and those that fail.
fn compare_interpreted(text: &str, length: usize, mut also: impl FnMut(i64, &Outcome)) -> (usize, usize) {
    let module = verified(text);
    let plain = BytecodeModule::without_optimization(module.clone()).unwrap();
    let with_nests = BytecodeModule::with_short_nests(module).unwrap();
    let (mut done, mut failed) = (0, 0);
    for round in 0..4 {
        let expected = outcome(plain.clone(), round, length);
        if expected.results.starts_with("ResourceExhausted") {
            continue;
        }
        let interpreted = outcome(with_nests.clone(), round, length);
        assert!(interpreted == expected, "interpreted, round {round}: {interpreted:?}\nand not {expected:?}\n{text}");
        also(round, &expected);
        *(if expected.results.starts_with("OutOfRange") { &mut failed } else { &mut done }) += 1;
    }
    (done, failed)
}

/// As [`compare_interpreted`], and with runs of the IR as nests.
fn compare(text: &str, length: usize) -> (usize, usize) {
    let module = verified(text);
    compare_interpreted(text, length, |round, expected| {
        let actual = || outcome(Arc::new(IrModule::new(module.clone(), Level::Nests)), round, length);
        let actual =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(actual)).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(actual, *expected, "round {round}\n{text}\n{}", Function::new(&module, 0).unwrap());
    })
}

#[test]
fn random_nests_run_the_same() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut done, mut failed, mut found) = (0, 0, 0);
    for _ in 0..programs(300) {
        let text = program(&mut random);
        found += Nests::of(&Function::new(&verified(&text), 0).unwrap()).found.len();
        let counts = compare(&text, 200);
        (done, failed) = (done + counts.0, failed + counts.1);
    }
    let iterations = ITERATIONS.load(Ordering::Relaxed);
    let enough = done > programs(300) && failed > programs(200) && found > programs(200);
    assert!(enough && iterations > programs(500), "{done} {failed} {found} {iterations}");
}

#[test]
fn zeros_in_new_buffers_run_the_same() {
    // Of 64 bytes; a second nest adds to some of them, and returns their sum. Longer ones fail.
    for count in [0, 1, 7, 16, 17] {
        let text = format!(
            "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, \
             %i0:1: i64, %i2:3: i64) -> (i64, f32) {{\n^bb0:\n  %i4:5 = vm.const.i64.zero\n  %i6:7 = vm.const.i64 1\n  \
             %i8:9 = vm.const.i64 {count}\n  %i10:11 = vm.const.i64 64\n  %i12 = vm.const.i32 16\n  \
             %i13 = vm.const.f32.zero\n  %i14 = vm.const.f32 0.5\n  %r3 = vm.buffer.alloc %i10:11, %i12\n  \
             vm.br ^bb1(%i4->%i16, %i5->%i17)\n\
             ^bb1:\n  %i15 = vm.cmp.lt.i64.s %i16:17, %i8:9\n  vm.cond_br %i15, ^bb2(), ^bb3()\n\
             ^bb2:\n  vm.buffer.store.f32 %i13, %r3, %i16:17\n  %i16:17 = vm.add.i64 %i16:17, %i6:7\n  vm.br ^bb1()\n\
             ^bb3:\n  vm.br ^bb4(%i4->%i16, %i5->%i17)\n\
             ^bb4:\n  %i15 = vm.cmp.lt.i64.s %i16:17, %i2:3\n  vm.cond_br %i15, ^bb5(), ^bb6()\n\
             ^bb5:\n  %i20 = vm.buffer.load.f32 %r3, %i16:17\n  %i20 = vm.add.f32 %i20, %i14\n  \
             vm.buffer.store.f32 %i20, %r3, %i16:17\n  vm.buffer.store.f32 %i20, %r0, %i16:17\n  \
             %i16:17 = vm.add.i64 %i16:17, %i6:7\n  vm.br ^bb4()\n\
             ^bb6:\n  vm.return %i16:17, %i20\n}}\n"
        );
        let (done, failed) = compare(&text, 200);
        assert_eq!((done == 0, failed == 0), (count > 16, count <= 16), "{count}");
    }
}

/// Compares runs of random programs, most of which return.
fn compare_random(seed: u64, program: fn(&mut Random) -> String) {
    let (mut random, mut done) = (Random(seed), 0);
    for _ in 0..programs(100) {
        done += compare(&program(&mut random), 8000).0;
    }
    assert!(done > programs(200), "{done}");
}

#[test]
fn random_sums_run_the_same() {
    compare_random(0x5BE0_CD19_137E_2179, sums);
}

#[test]
fn random_rows_run_the_same() {
    compare_random(0xCBBB_9D5D_C105_9ED8, rows);
}

#[test]
fn random_gathers_run_the_same() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut done, mut failed, mut found) = (0, 0, 0);
    for _ in 0..programs(240) {
        let text = gathers(&mut random);
        let nests = Nests::of(&Function::new(&verified(&text), 0).unwrap()).found;
        found += nests.iter().filter(|nest| !nest.gathers.is_empty()).count();
        let counts = compare(&text, 2000);
        (done, failed) = (done + counts.0, failed + counts.1);
    }
    let missed = MISSED.load(Ordering::Relaxed);
    let enough = done > programs(400) && failed > programs(30) && found > programs(200) && missed > programs(15);
    assert!(enough, "{done} {failed} {found} {missed}");
}

/// The interpreter runs them all, the evaluator of the IR every sixteenth. `INCARNATE_NESTS=100000` in the environment asks for more.
#[test]
fn random_strides_run_the_same() {
    let asked = std::env::var("INCARNATE_NESTS").ok().and_then(|count| count.parse().ok());
    let count = asked.unwrap_or(programs(400));
    let (mut done, mut failed, mut on_strips, mut scalar) = (0, 0, 0, 0);
    for seed in 1..=count {
        let text = strides(&mut Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed as u64)));
        let function = Function::new(&verified(&text), 0).unwrap();
        for nest in Nests::of(&function).found {
            match Schedule::of(&function, &nest, &Needed::of(&function, &nest), Order::Bytecode) {
                Schedule::InOrder(_) => scalar += 1,
                _ => on_strips += 1,
            }
        }
        let counts = match seed % 16 {
            0 => compare(&text, strides::BYTES),
            _ => compare_interpreted(&text, strides::BYTES, |_, _| {}),
        };
        (done, failed) = (done + counts.0, failed + counts.1);
    }
    let enough = done > 2 * count && failed > count / 32 && on_strips > count / 8 && scalar > count / 4;
    assert!(enough, "{done} {failed} {on_strips} {scalar} of {count}");
}

#[test]
fn random_products_run_the_same_in_another_order() {
    let mut random = Random(0x1F83_D9AB_FB41_BD6B);
    let (mut done, mut failed) = (0, 0);
    for _ in 0..programs(240) {
        let counts = compare(&product(&mut random), 2000);
        (done, failed) = (done + counts.0, failed + counts.1);
    }
    let (reordered, split) = (REORDERED.load(Ordering::Relaxed), SPLIT.load(Ordering::Relaxed));
    let enough = done > programs(400) && failed > programs(20) && reordered > programs(80) && split > programs(20);
    assert!(enough, "{done} {failed} {reordered} {split}");
}
