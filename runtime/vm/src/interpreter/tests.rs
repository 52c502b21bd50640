#![allow(clippy::unwrap_used, clippy::panic, clippy::boxed_local, reason = "tests")]

mod contractions;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::module::Linkage;
use super::super::{
    CallBuffer, Caller, Completion, Context, Limits, Module, ModuleState, NativeModule, Outcome, Program, Stack, Value,
};
use super::BytecodeModule;
use crate::testing::Random;
use crate::{Result, StatusCode, native_functions};
use incarnate_bytecode::{Contents, VerifiedModule, assemble};

pub(super) fn verified(text: &str) -> Arc<VerifiedModule> {
    let bytes = assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let contents = Arc::new(Contents::from_vec(bytes));
    VerifiedModule::load(contents).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What a call of `@f` comes to, as text: results, or the error with its place.
pub(super) fn outcome(module: Arc<BytecodeModule>, arguments: &[i32], fuel: u64) -> String {
    let program = Program::link(alloc::vec![module as Arc<dyn Module>]).unwrap();
    let context = Context::new(program, Limits { fuel: Some(fuel), ..Limits::default() }).unwrap();
    let arguments: Vec<Value> = arguments.iter().map(|value| Value::I32(*value)).collect();
    match context.function("f").unwrap().call(&arguments) {
        Ok(results) => format!("{results:?}"),
        Err(error) => error.to_string(),
    }
}

/// Runs `@f` with and without optimisations, at several amounts of fuel, and returns the outcome with the most of it; and
/// the number of nests.
fn both(text: &str, arguments: &[i32]) -> (String, usize) {
    let verified = verified(text);
    let optimized = BytecodeModule::with_short_nests(verified.clone()).unwrap();
    let plain = BytecodeModule::without_optimization(verified).unwrap();
    assert_eq!(plain.code(0).unwrap().nests.len(), 0);
    let mut last = String::new();
    for fuel in [1, 2, 3, 4, 5, 7, 10, 33, 200, 5000] {
        last = outcome(plain.clone(), arguments, fuel);
        let actual = outcome(optimized.clone(), arguments, fuel);
        // Nests take a step for each iteration, and no more than the plain code.
        if !last.starts_with("RESOURCE_EXHAUSTED") {
            assert_eq!(actual, last, "fuel {fuel}\n{text}");
        }
    }
    (last, optimized.code(0).unwrap().nests.len())
}

#[test]
fn an_unknown_function_is_answered_by_those_that_exist() {
    let text = "vm.module @m\nvm.export @f\nvm.export @main_graph\nvm.func @f() -> () {\n^bb0:\n  vm.return\n}\n\
                vm.func @main_graph() -> () {\n^bb0:\n  vm.return\n}\n";
    let module = BytecodeModule::new(verified(text)).unwrap();
    let program = Program::link(alloc::vec![module as Arc<dyn Module>]).unwrap();
    let context = Context::new(program, Limits::default()).unwrap();
    let error = context.function("x").unwrap_err().to_string();
    assert!(error.contains("`x`; @m exports f, main_graph"), "{error}");
    let error = context.function("Main").unwrap_err().to_string();
    assert!(error.contains("`Main`; @m exports main_graph, f"), "{error}");
}

/// What takes long takes steps, without branches too.
#[test]
fn instructions_in_a_row_take_steps() {
    let adds = "  %i0 = vm.add.i32 %i0, %i0\n".repeat(3000);
    let text = format!(
        "vm.module @m\nvm.type i32\nvm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n^bb0:\n{adds}  vm.return %i0\n}}\n"
    );
    let run = |fuel| outcome(BytecodeModule::new(verified(&text)).unwrap(), &[1], fuel);
    assert!(run(10).starts_with("RESOURCE_EXHAUSTED"), "{}", run(10));
    assert_eq!(run(20), "[I32(0)]");
}

/// The loops of `@buffer_reduce` and its like, as the compiler emits them: their parts are recognised.
#[test]
fn reductions_are_nests() {
    let text = |body: &str, back: &str| {
        format!(
            "vm.module @m\nvm.type i32\nvm.type !vm.buffer\nvm.rodata[0] = 0100000002000000030000000400000005000000\n\
            vm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n\
            ^bb0:\n  %r0 = vm.const.ref.rodata 0\n  %i1 = vm.const.i32.zero\n  %i2:3 = vm.const.i64.zero\n  \
            %i4:5 = vm.const.i64 1\n  %i6:7 = vm.ext.i32.i64.s %i0\n  vm.br ^bb1()\n\
            ^bb1:\n{body}  %i8 = vm.cmp.lt.i64.s %i2:3, %i6:7\n  vm.cond_br %i8, ^bb1({back}), ^bb2()\n\
            ^bb2:\n  vm.return %i1\n}}\n"
        )
    };
    let plain = text(
        "  %i9 = vm.buffer.load.i32 %r0, %i2:3\n  %i1 = vm.add.i32 %i1, %i9\n  %i2:3 = vm.add.i64 %i2:3, %i4:5\n",
        "",
    );
    assert_eq!(both(&plain, &[5]), ("[I32(15)]".into(), 1));
    // The ordinary code runs the iteration that fails.
    let (error, loops) = both(&plain, &[6]);
    assert!(loops == 1 && error.contains("at element 5 of a buffer of 20 bytes"), "{error}");
    let copied = text(
        "  %i9 = vm.buffer.load.i32 %r0, %i2:3\n  %i9 = vm.mul.f32 %i1, %i9\n  %i2:3 = vm.add.i64 %i2:3, %i4:5\n",
        "%i9->%i1",
    );
    assert_eq!(both(&copied, &[4]), ("[I32(0)]".into(), 1));
    let unrolled = text(
        "  %i9 = vm.buffer.load.i32 %r0, %i2:3\n  %i2:3 = vm.add.i64 %i2:3, %i4:5\n  \
        %i10 = vm.buffer.load.i32 %r0, %i2:3\n  %i2:3 = vm.add.i64 %i4:5, %i2:3\n  \
        %i9 = vm.add.i32 %i9, %i1\n  %i1 = vm.add.i32 %i9, %i10\n",
        "",
    );
    assert_eq!(both(&unrolled, &[4]), ("[I32(10)]".into(), 1));
    // An element that is not combined must still be in range, and a step that changes is none.
    let unused = text("  %i9 = vm.buffer.load.i32 %r0, %i2:3\n  %i2:3 = vm.add.i64 %i2:3, %i4:5\n", "");
    assert_eq!(both(&unused, &[4]), ("[I32(0)]".into(), 1));
    let growing = text("  %i2:3 = vm.add.i64 %i2:3, %i4:5\n  %i4:5 = vm.add.i64 %i4:5, %i4:5\n", "");
    assert_eq!(both(&growing, &[9]), ("[I32(0)]".into(), 0));
}

/// A loop over `k` in 0:1, with numbers in `%r0` and zeros in `%r1`, of which the element of the argument is returned.
fn nest(body: &str) -> String {
    format!(
        "vm.module @m\nvm.type i32\nvm.type !vm.buffer\nvm.rodata[0] = 0100000002000000030000000400000005000000\n\
        vm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n\
        ^bb0:\n  %i14:15 = vm.ext.i32.i64.s %i0\n  %r0 = vm.const.ref.rodata 0\n  %i4:5 = vm.const.i64 32\n  %i9 = vm.const.i32 16\n  \
        %r1 = vm.buffer.alloc %i4:5, %i9\n  %i0:1 = vm.const.i64.zero\n  %i2:3 = vm.const.i64 1\n  \
        %i4:5 = vm.const.i64 5\n  %i6:7 = vm.const.i64.zero\n  vm.br ^bb1()\n\
        ^bb1:\n  %i10 = vm.cmp.lt.i64.s %i0:1, %i4:5\n  vm.cond_br %i10, ^bb2(), ^bb3()\n\
        ^bb2:\n{body}  %i0:1 = vm.add.i64 %i0:1, %i2:3\n  vm.br ^bb1()\n\
        ^bb3:\n  %i9 = vm.buffer.load.i32 %r1, %i14:15\n  vm.return %i9\n}}\n"
    )
}

#[test]
fn nests_run_on_strips_and_in_order() {
    let load = "  %i9 = vm.buffer.load.i32 %r0, %i0:1\n";
    let elements = nest(&format!("{load}  %i9 = vm.mul.i32 %i9, %i9\n  vm.buffer.store.i32 %i9, %r1, %i0:1\n"));
    assert_eq!(both(&elements, &[3]), ("[I32(16)]".into(), 1));
    // All iterations add to one element.
    let sum =
        "  %i11 = vm.buffer.load.i32 %r1, %i6:7\n  %i9 = vm.add.i32 %i11, %i9\n  vm.buffer.store.i32 %i9, %r1, %i6:7\n";
    assert_eq!(both(&nest(&format!("{load}{sum}")), &[0]), ("[I32(15)]".into(), 1));
    // Each iteration loads what the one before has stored.
    let chain = "  %i9 = vm.buffer.load.i32 %r1, %i0:1\n  %i9 = vm.add.i32 %i9, %i2\n  %i12:13 = vm.add.i64 %i0:1, %i2:3\n  \
        vm.buffer.store.i32 %i9, %r1, %i12:13\n";
    assert_eq!(both(&nest(chain), &[5]), ("[I32(5)]".into(), 1));
    // The last iteration fails, after the others have stored.
    let beyond = nest(&format!("{load}  %i12:13 = vm.mul.i64 %i0:1, %i2:3\n  vm.buffer.store.i32 %i9, %r1, %i12:13\n"))
        .replace("%i4:5 = vm.const.i64 5", "%i4:5 = vm.const.i64 6");
    let (error, nests) = both(&beyond, &[0]);
    assert!(nests == 1 && error.contains("at element 5 of a buffer of 20 bytes"), "{error}");
}

impl Random {
    /// Most often the register of a regular loop, else any other one: so registers often coincide.
    fn register(&mut self, regular: u64) -> u64 {
        if self.below(12) == 0 { self.below(10) } else { regular }
    }

    fn pair(&mut self, regular: u64) -> String {
        let register = self.register(regular) & !1;
        format!("%i{register}:{}", register + 1)
    }

    fn word(&mut self, regular: u64) -> String {
        format!("%i{}", self.register(regular))
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A loop over the registers 0:1 (counter), 2:3 (step), 4:5 (limit), 6 (accumulator), 7 to 9.
    fn program(&mut self) -> String {
        let mut text = String::from(
            "vm.module @m\nvm.type i32\nvm.type i64\nvm.type !vm.buffer\n\
            vm.rodata[0] = 01000000020000000300000014000000050000004600000007000000\nvm.export @f\n\
            vm.func @f() -> (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) {\n^bb0:\n  \
            %r0 = vm.const.ref.rodata 0\n",
        );
        for register in 0..10 {
            let value = if register % 2 == 1 && register < 6 { 0 } else { [0, 1, 5, 3, 2][self.below(5) as usize] };
            text += &format!("  %i{register} = vm.const.i32 {value}\n");
        }
        text += "  vm.br ^bb1()\n^bb1:\n";
        for _ in 0..self.below(3) {
            text += &format!("  %i8 = vm.buffer.load.i32 %r0, {}\n", self.pair(0));
            let operation = self.pick(&["add.i32", "add.i32", "min.i32.s", "add.f32"]);
            let mut operands = [self.word(6), self.word(8)];
            if self.below(4) == 0 {
                operands.reverse();
            }
            text += &format!("  {} = vm.{operation} {}, {}\n", self.word(6), operands[0], operands[1]);
            text += &format!("  {} = vm.add.i64 {}, {}\n", self.pair(0), self.pair(0), self.pair(2));
        }
        let narrow = self.below(5) == 0;
        let relation = self.pick(&["eq", "ne", "lt", "lt"]);
        let sign = if relation == "lt" { self.pick(&[".s", ".u"]) } else { "" };
        let mut operands = if narrow {
            text += &format!("  {} = vm.add.i32 {}, {}\n", self.word(0), self.word(0), self.word(2));
            [self.word(0), self.word(4)]
        } else {
            text += &format!("  {} = vm.add.i64 {}, {}\n", self.pair(0), self.pair(0), self.pair(2));
            [self.pair(0), self.pair(4)]
        };
        if self.below(4) == 0 {
            operands.reverse();
        }
        let width = if narrow { "i32" } else { "i64" };
        text += &format!("  {} = vm.cmp.{relation}.{width}{sign} {}, {}\n", self.word(9), operands[0], operands[1]);
        let condition = text.rsplit("\n  ").next().and_then(|line| line.split(' ').next()).unwrap().to_string();
        let copies = match self.below(4) {
            0 => format!("{}->{}", self.word(8), self.word(7)),
            1 => format!("{}->{}, {}->{}", self.word(7), self.word(8), self.word(6), self.word(7)),
            _ => String::new(),
        };
        let (yes, no) = (format!("^bb1({copies})"), "^bb2()".to_string());
        let (yes, no) = if self.below(4) == 0 { (no, yes) } else { (yes, no) };
        text + &format!(
            "  vm.cond_br {condition}, {yes}, {no}\n^bb2:\n  \
            vm.return %i0, %i1, %i2, %i3, %i4, %i5, %i6, %i7, %i8, %i9\n}}\n"
        )
    }
}

#[test]
fn loops_over_any_registers_are_those_of_the_plain_code() {
    let mut random = Random(1);
    let (mut separate, mut ended) = (0, 0);
    for _ in 0..2000 {
        let (outcome, loops) = both(&random.program(), &[]);
        separate += loops;
        ended += usize::from(loops == 1 && outcome.starts_with('['));
    }
    // Else the test has lost what it tests.
    assert!(separate > 80 && ended > 50, "{separate} loops were run separately, {ended} of them to their end");
}

#[test]
fn calls_pass_words_and_references_and_close_their_frames() {
    // `@f` calls a function that calls itself with two less and a buffer, and fails at the end if the number was odd.
    let text = "vm.module @m\nvm.type i32\nvm.type !vm.buffer\nvm.rodata[0] = 0700000009000000\n\
        vm.export @f\nvm.func @f(%i0: i32) -> (i32, i64) {\n^bb0:\n  %r3 = vm.const.ref.rodata 0\n  \
        %i8:9 = vm.const.i64 40\n  %i6, %i4:5 = vm.call @m:1(%i0, %i8:9, %R3)\n  \
        %i7 = vm.cmp.nz.ref %r3\n  %i6 = vm.add.i32 %i6, %i7\n  vm.return %i6, %i4:5\n}\n\
        vm.func @down(%i0: i32, %i2:3: i64, %r0: !vm.ref<?>) -> (i32, i64) {\n^bb0:\n  \
        %i1 = vm.const.i32 2\n  %i7 = vm.cmp.lt.i32.s %i0, %i1\n  vm.cond_br %i7, ^bb1(), ^bb3()\n\
        ^bb1:\n  vm.fail %i0, \"odd\"\n^bb2:\n  vm.return %i0, %i2:3\n\
        ^bb3:\n  %i1 = vm.const.i32 -2\n  %i0 = vm.add.i32 %i0, %i1\n  %i4:5 = vm.const.i64 1\n  \
        %i2:3 = vm.add.i64 %i2:3, %i4:5\n  %i0, %i2:3 = vm.call @m:1(%i0, %i2:3, %r0)\n  \
        %i1 = vm.buffer.load.i32 %r0, %i4:5\n  %i0 = vm.add.i32 %i0, %i1\n  vm.return %i0, %i2:3\n}\n";
    let module = BytecodeModule::new(verified(text)).unwrap();
    let program = Program::link(alloc::vec![module as Arc<dyn Module>]).unwrap();
    let context = Context::new(program, Limits { call_depth: 100, ..Limits::default() }).unwrap();
    let function = context.function("f").unwrap();
    for _ in 0..3 {
        assert_eq!(format!("{:?}", function.call(&[Value::I32(6)]).unwrap()), "[I32(27), I64(43)]");
        assert_eq!(format!("{:?}", function.call(&[Value::I32(180)]).unwrap()), "[I32(810), I64(130)]");
        // An odd number ends in a failure, within frames whose buffers must be given back.
        let error = function.call(&[Value::I32(7)]).unwrap_err().to_string();
        assert!(error.starts_with("CANCELLED; odd; at @m.fn1+") && error.matches("@m.fn1+").count() == 4, "{error}");
        let error = function.call(&[Value::I32(1000)]).unwrap_err().to_string();
        assert!(error.contains("more than 100 nested calls"), "{error}");
    }
}

/// Straight code of the operations that are run in pairs and triples, over few registers, so that they often coincide.
fn straight_program(random: &mut Random) -> String {
    let mut text = String::from(
        "vm.module @m\nvm.type i32\nvm.type i64\nvm.type !vm.buffer\n\
        vm.rodata[0] = 0100000002000000030000000000803F0000004000004040\nvm.export @f\n\
        vm.func @f() -> (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i64) {\n^bb0:\n  \
        %r0 = vm.const.ref.rodata 0\n  %i10:11 = vm.const.i64 0\n  %i12:13 = vm.const.i64 24\n  \
        %r1 = vm.buffer.clone %r0, %i10:11, %i12:13, %i10\n  vm.br ^bb1()\n^bb1:\n",
    );
    for register in 0..10 {
        let value = match register {
            8 => u64::from(1.5f32.to_bits()),
            9 => u64::from(2f32.to_bits()),
            _ if register % 2 == 1 => 0,
            _ => random.below(4),
        };
        text += &format!("  %i{register} = vm.const.i32 {value}\n");
    }
    for _ in 0..24 {
        let (word, other) = (random.below(10), random.below(10));
        let (pair, second) = (random.pair(0), random.pair(2));
        let target = random.register(8);
        text += &match random.below(9) {
            0 | 1 => format!("  %i{target} = vm.buffer.load.i32 %r1, {pair}\n"),
            2 => format!("  vm.buffer.store.i32 %i{target}, %r1, {pair}\n"),
            3 | 4 => {
                let operation = random.pick(&["add.i32", "add.f32", "mul.f32"]);
                format!("  %i{target} = vm.{operation} %i{target}, %i{word}\n")
            }
            5 => {
                let operation = random.pick(&["fma.i32", "fma.f32"]);
                format!("  %i{target} = vm.{operation} %i{word}, %i{other}, %i{target}\n")
            }
            6 => {
                let operation = random.pick(&["add.i64", "mul.i64"]);
                format!("  {second} = vm.{operation} {second}, {}\n", random.pair(4))
            }
            7 => format!("  {pair} = vm.fma.i64 {pair}, {second}, {}\n", random.pair(4)),
            _ => format!(
                "  %i{target} = vm.buffer.load.i32 %r1, {pair}\n  %i{target} = vm.{} \n  \
                vm.buffer.store.i32 %i{target}, %r1, {pair}\n",
                match random.below(3) {
                    0 => format!("add.f32 %i{target}, %i{word}"),
                    1 => format!("fma.i32 %i{word}, %i{target}, %i{target}"),
                    _ => format!("fma.f32 %i{word}, %i{other}, %i{target}"),
                }
            ),
        };
    }
    text + "  %i10:11 = vm.const.i64 0\n  %i10:11 = vm.buffer.hash %r1, %i10:11, %i12:13\n  \
        vm.return %i0, %i1, %i2, %i3, %i4, %i5, %i6, %i7, %i8, %i9, %i10:11\n}\n"
}

#[test]
fn pairs_and_triples_over_any_registers_are_those_of_the_plain_code() {
    let mut random = Random(2);
    let mut ended = 0;
    for _ in 0..1000 {
        ended += usize::from(both(&straight_program(&mut random), &[]).0.starts_with('['));
    }
    // Others end where an index is out of range, which is compared as well.
    assert!(ended > 100 && ended < 900, "{ended} programs ran to their end");
}

#[derive(Debug)]
struct Waiter;
impl ModuleState for Waiter {}

impl Waiter {
    /// Yields as often as the argument says, and returns its double.
    fn wait(&self, _: &mut Caller<'_>, times: i32) -> Result<Outcome<i32>> {
        self.go_on(times, times)
    }

    #[allow(clippy::boxed_local, reason = "resumed functions take what they yielded")]
    fn resume(&self, _: &mut Caller<'_>, state: Box<(i32, i32)>) -> Result<Outcome<i32>> {
        self.go_on(state.0, state.1 - 1)
    }

    fn go_on(&self, times: i32, left: i32) -> Result<Outcome<i32>> {
        Ok(if left > 0 { Outcome::Yield(Box::new((times, left))) } else { Outcome::Done(2 * times) })
    }
}

#[test]
fn suspended_calls_go_on_where_they_were_and_in_their_module_alone() {
    let text = "vm.module @m\nvm.type i32\nvm.import @w.wait cconv \"0i_i\"\nvm.export @f\n\
        vm.func @f(%i0: i32) -> (i32) {\n^bb0:\n  %i2 = vm.const.i32 100\n  \
        vm.call.yieldable @m:1(%i0) -> ^bb1(%i1)\n^bb1:\n  %i1 = vm.add.i32 %i1, %i2\n  vm.return %i1\n}\n\
        vm.func @g(%i0: i32) -> (i32) {\n^bb0:\n  %i1 = vm.const.i32 7\n  \
        vm.call.yieldable @w.wait(%i0) -> ^bb1(%i0)\n^bb1:\n  vm.yield ^bb2()\n\
        ^bb2:\n  %i0 = vm.add.i32 %i0, %i1\n  vm.return %i0\n}\n";
    let verified = verified(text);
    let context = |module: Arc<BytecodeModule>| {
        let functions = native_functions! {"wait" => Waiter::wait, resume Waiter::resume};
        let native = NativeModule::new("w", 0, || Ok(Waiter), functions);
        let program = Program::link(alloc::vec![Arc::new(native) as Arc<dyn Module>, module]).unwrap();
        Context::new(program, Limits::default()).unwrap()
    };
    let function = context(BytecodeModule::new(verified.clone()).unwrap()).function("f").unwrap();
    let other = context(BytecodeModule::new(verified).unwrap()).function("f").unwrap();
    for times in 0..4 {
        let mut stack = Stack::new(Limits::default());
        let mut buffer = CallBuffer::new();
        buffer.push_word(times);
        let bound = function.bound();
        let mut completion = bound.module.begin_call(&bound.state, bound.export, &mut stack, &mut buffer).unwrap();
        for _ in 0..times + 1 {
            assert_eq!(completion, Completion::Yielded);
            completion = bound.module.resume_call(&bound.state, bound.export, &mut stack, &mut buffer).unwrap();
        }
        assert_eq!(completion, Completion::Done);
        assert_eq!(buffer.words(), [2 * times + 107]);
        let begun = bound.module.begin_call(&bound.state, bound.export, &mut stack, &mut buffer).unwrap();
        assert_eq!(begun, Completion::Yielded);
        let bound = other.bound();
        let error = bound.module.resume_call(&bound.state, bound.export, &mut stack, &mut buffer).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
    }
}

/// A function that fills a buffer of 300 elements with pseudorandom numbers, runs a loop over it, and returns a number that all
/// elements go into. The loop's index is `%i10:11`, its limit `%i12:13`; `%i14:15` is one, `%i1` the second argument.
fn over_elements(body: &str) -> String {
    format!(
        "vm.module @m\nvm.type i32\nvm.type !vm.buffer\n\
        vm.export @f\nvm.func @f(%i0: i32, %i1: i32) -> (i32) {{\n\
        ^bb0:\n  %i2:3 = vm.const.i64 1200\n  %i4 = vm.const.i32 16\n  %r0 = vm.buffer.alloc %i2:3, %i4\n  \
        %i5 = vm.const.i32 12345\n  %i6 = vm.const.i32 1103515245\n  %i8:9 = vm.const.i64 300\n  \
        %i10:11 = vm.const.i64.zero\n  %i12:13 = vm.ext.i32.i64.s %i0\n  %i14:15 = vm.const.i64 1\n  \
        %i40:41 = vm.ext.i32.i64.s %i1\n  %i42:43 = vm.const.i64 3\n  %i44 = vm.const.i32 7\n  vm.br ^bb1()\n\
        ^bb1:\n  %i5 = vm.mul.i32 %i5, %i6\n  %i5 = vm.add.i32 %i5, %i4\n  vm.buffer.store.i32 %i5, %r0, %i10:11\n  \
        %i10:11 = vm.add.i64 %i10:11, %i14:15\n  %i16 = vm.cmp.lt.i64.s %i10:11, %i8:9\n  \
        vm.cond_br %i16, ^bb1(), ^bb2()\n\
        ^bb2:\n  %i10:11 = vm.const.i64.zero\n  vm.br ^bb3()\n\
        ^bb3:\n{body}  %i10:11 = vm.add.i64 %i10:11, %i14:15\n  %i16 = vm.cmp.lt.i64.s %i10:11, %i12:13\n  \
        vm.cond_br %i16, ^bb3(), ^bb4()\n\
        ^bb4:\n  %i10:11 = vm.const.i64.zero\n  %i5 = vm.const.i32.zero\n  vm.br ^bb5()\n\
        ^bb5:\n  %i17 = vm.buffer.load.i32 %r0, %i10:11\n  %i18 = vm.xor.i32 %i17, %i44\n  %i5 = vm.fma.i32 %i5, %i44, %i18\n  \
        %i10:11 = vm.add.i64 %i10:11, %i14:15\n  %i16 = vm.cmp.lt.i64.s %i10:11, %i8:9\n  \
        vm.cond_br %i16, ^bb5(), ^bb6()\n\
        ^bb6:\n  vm.return %i5\n}}\n"
    )
}

/// Loops over elements have the effects of the ordinary code: with strides, in place, with loads of elements that an earlier
/// iteration stored, with elements out of range, and with all trip counts around the size of a block.
#[test]
fn elements_are_computed_in_blocks() {
    let index =
        |register: &str, factor: &str, offset: &str| format!("  {register} = vm.fma.i64 %i10:11, {factor}, {offset}\n");
    let bodies = [
        // In place, of integers and floats.
        "  %i20 = vm.buffer.load.i32 %r0, %i10:11\n  %i21 = vm.mul.i32 %i20, %i44\n  %i21 = vm.xor.i32 %i21, %i1\n  \
         vm.buffer.store.i32 %i21, %r0, %i10:11\n"
            .to_string(),
        "  %i20 = vm.buffer.load.f32 %r0, %i10:11\n  %i21 = vm.mul.f32 %i20, %i20\n  %i22 = vm.cmp.lt.f32.o %i21, %i20\n  \
         %i21 = vm.select.f32 %i22 ? %i20 : %i21\n  vm.buffer.store.f32 %i21, %r0, %i10:11\n"
            .to_string(),
        // From one place to another, which may be the one that a later iteration loads, and may be out of range.
        index("%i30:31", "%i14:15", "%i40:41")
            + "  %i20 = vm.buffer.load.i32 %r0, %i10:11\n  %i20 = vm.add.i32 %i20, %i44\n  \
               vm.buffer.store.i32 %i20, %r0, %i30:31\n",
        index("%i30:31", "%i42:43", "%i40:41")
            + "  %i20 = vm.buffer.load.i8.s %r0, %i30:31\n  %i21 = vm.buffer.load.i16.u %r0, %i10:11\n  \
               %i20 = vm.sub.i32 %i20, %i21\n  vm.buffer.store.i16 %i20, %r0, %i30:31\n",
        // Every iteration stores to the same element, and to another one.
        "  %i20 = vm.buffer.load.i32 %r0, %i10:11\n  vm.buffer.store.i32 %i20, %r0, %i40:41\n".to_string(),
        index("%i30:31", "%i14:15", "%i40:41")
            + "  %i20 = vm.buffer.load.i32 %r0, %i10:11\n  %i21 = vm.ctlz.i32 %i20\n  \
               vm.buffer.store.i32 %i21, %r0, %i30:31\n  vm.buffer.store.i32 %i20, %r0, %i10:11\n",
    ];
    for body in &bodies {
        for (count, argument) in [1, 7, 8, 9, 63, 64, 65, 129, 200]
            .into_iter()
            .flat_map(|count| [0, 1, 2, 64, 100, 150, 299, -1].map(move |argument| (count, argument)))
        {
            let (outcome, loops) = both(&over_elements(body), &[count, argument]);
            // What is stored to one element again and again is no fold.
            assert_eq!(loops >= 1, !body.contains("%r0, %i40:41"), "{body}");
            assert!(outcome.contains("I32(") || outcome.contains("OUT_OF_RANGE"), "{outcome}\n{body}");
        }
    }
}

#[test]
fn tables_are_read_by_their_index() {
    // Reading them in a row from the start would take the square of their number.
    let count = 20_000;
    let rows = |row: &dyn Fn(usize) -> String| (0..count).map(row).collect::<String>();
    let attributes = rows(&|at| format!("  //! attribute \"key{at}\" = \"value{at}\"\n"));
    let exports = rows(&|at| format!("vm.export @e{at} = @f\n"));
    let dependencies = rows(&|at| format!("//! dependency optional @d{at} version 1\n"));
    let seven = "^b:\n  %i0 = vm.const.i32 7\n  vm.return %i0\n}\n";
    let head = format!("vm.module @m version 0\nvm.type i32\n{dependencies}{exports}");
    let text =
        format!("{head}vm.export @g\nvm.func @f() -> (i32) {{\n{seven}vm.func @g() -> (i32) {{\n{attributes}{seven}");
    let module = BytecodeModule::new(verified(&text)).unwrap();
    let last = format!("key{}", count - 1);
    let value = module.function_attribute_value(Linkage::Export, count as u32, &last);
    assert_eq!(value, Some(&*format!("value{}", count - 1)));
    assert_eq!(module.function_attribute(Linkage::Internal, 1, count), None);
    assert_eq!((0..).map_while(|index| module.dependency(index)).count(), count);
    for at in (0..count).rev() {
        assert_eq!(module.lookup(Linkage::Export, &format!("e{at}")), Some(at as u32));
    }
    assert_eq!(module.lookup(Linkage::Export, "e"), None);
    let context = Context::new(Program::link(alloc::vec![module]).unwrap(), Limits::default()).unwrap();
    let function = context.function(&format!("e{}", count - 1)).unwrap();
    assert!(matches!(function.call(&[]).unwrap()[..], [Value::I32(7)]));
    // Each export of a function reads its attributes: as many of both are refused.
    let text = format!("{head}vm.func @f() -> (i32) {{\n{attributes}{seven}");
    let error = VerifiedModule::load(Arc::new(Contents::from_vec(assemble(&text).unwrap()))).unwrap_err();
    assert!(error.to_string().contains("share too much of their data"), "{error}");
}
