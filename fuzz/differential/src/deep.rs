//! Programs with the deepest possible calls: translated, they fail with RESOURCE_EXHAUSTED at the interpreter's depth,
//! and never overflow the host's stack of 2 MiB in a build without optimisation.

use std::fmt::Write;
use std::sync::Arc;

use incarnate_runtime::vm::{Context, Limits, Module, Program, Value};
use incarnate_runtime::{Result, StatusCode};

use crate::translate::Make;

/// The default stack size of a std thread.
const STACK: usize = 2 << 20;

/// The expected outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The stack is exhausted.
    Exhausted,
    /// It returns the number.
    Returns(i32),
    /// It returns the number, or the stack is exhausted.
    Either(i32),
}

/// The programs: name, assembly text, and the outcome of `@x` with the argument 1.
pub fn programs() -> Vec<(&'static str, String, Expected)> {
    vec![
        (
            "runaway",
            "vm.module @m\nvm.export @x\nvm.func @x(%i0: i32) -> (i32) {\n^b:\n  %i1 = vm.const.i32 1\n  \
            %i0 = vm.add.i32 %i0, %i1\n  %i0 = vm.call @x(%i0)\n  %i0 = vm.add.i32 %i0, %i1\n  vm.return %i0\n}\n"
                .into(),
            Expected::Exhausted,
        ),
        (
            "two_in_turns",
            "vm.module @m\nvm.export @x\nvm.func @x(%i0: i32) -> (i32) {\n^b:\n  %i2:3 = vm.ext.i32.i64.s %i0\n  \
            %r0 = vm.const.ref.zero\n  %i0 = vm.call @y(%i2:3, %R0)\n  vm.return %i0\n}\n\
            vm.func @y(%i0:1: i64, %r0: !vm.ref<?>) -> (i32) {\n^b:\n  %i2 = vm.trunc.i64.i32 %i0:1\n  \
            vm.cond_br %i2, ^c(), ^d()\n^c:\n  %i2 = vm.call @x(%i2)\n  vm.br ^d()\n^d:\n  vm.return %i2\n}\n"
                .into(),
            Expected::Exhausted,
        ),
        (
            "suspending",
            "vm.module @m\nvm.export @x\nvm.func @x(%i0: i32) -> (i32) {\n^b:\n  vm.yield ^c()\n^c:\n  \
            vm.call.yieldable @x(%i0) -> ^d(%i1)\n^d:\n  %i0 = vm.add.i32 %i0, %i1\n  vm.return %i0\n}\n"
                .into(),
            Expected::Exhausted,
        ),
        ("large_frames", large_frames(), Expected::Exhausted),
        ("chain_of_1000", chain(1000), Expected::Returns(1001)),
        ("chain_of_3000", chain(3000), Expected::Either(3001)),
        ("deep_enough", countdown(), Expected::Either(2001)),
    ]
}

/// Returns a function that calls itself while hundreds of values are live.
fn large_frames() -> String {
    const VALUES: usize = 1500;
    let mut text = String::from("vm.module @m\nvm.export @x\nvm.func @x(%i0: i32) -> (i32) {\n^b:\n");
    for index in 1..VALUES {
        let _ = writeln!(text, "  %i{index} = vm.mul.i32 %i{}, %i{}", index - 1, index / 2);
    }
    let _ = writeln!(text, "  %i0 = vm.call @x(%i{})", VALUES - 1);
    for index in 1..VALUES {
        let _ = writeln!(text, "  %i0 = vm.add.i32 %i0, %i{index}");
    }
    text + "  vm.return %i0\n}\n"
}

/// Returns functions that each call the next one.
fn chain(length: usize) -> String {
    let mut text = String::from("vm.module @m\nvm.export @x = @f0\n");
    for index in 0..length {
        let _ = writeln!(text, "vm.func @f{index}(%i0: i32) -> (i32) {{\n^b:\n  %i1 = vm.const.i32 1");
        if index + 1 < length {
            let _ = writeln!(text, "  %i0 = vm.call @f{}(%i0)", index + 1);
        }
        text += "  %i0 = vm.add.i32 %i0, %i1\n  vm.return %i0\n}\n";
    }
    text
}

/// Returns a function that calls itself 2000 times.
fn countdown() -> String {
    "vm.module @m\nvm.export @x\nvm.func @x(%i0: i32) -> (i32) {\n^a:\n  %i1 = vm.const.i32 2000\n  \
    %i0 = vm.call @y(%i1, %i0)\n  vm.return %i0\n}\nvm.func @y(%i0: i32, %i1: i32) -> (i32) {\n^b:\n  \
    vm.cond_br %i0, ^c(), ^d()\n^c:\n  %i2 = vm.const.i32 1\n  %i0 = vm.sub.i32 %i0, %i2\n  \
    %i1 = vm.add.i32 %i1, %i2\n  %i1 = vm.call @y(%i0, %i1)\n  vm.br ^d()\n^d:\n  vm.return %i1\n}\n"
        .into()
}

fn call(module: Arc<dyn Module>) -> Result<i32> {
    let context = Context::new(Program::link(vec![module])?, Limits::default())?;
    let function = context.function("x")?;
    // The context stays usable after a failure.
    let results = function.call(&[Value::I32(1)]).or_else(|_| function.call(&[Value::I32(1)]))?;
    Ok(results.first().and_then(Value::to_i32).unwrap_or_default())
}

/// Runs the programs in both modes; the generated crate's `main` calls it. Exits if an outcome is wrong.
pub fn check(translated: &[(&str, Make)]) {
    for (name, text, expected) in programs() {
        let Some((_, make)) = translated.iter().find(|(other, _)| *other == name) else {
            println!("{name}: was not translated");
            std::process::exit(1);
        };
        let module = incarnate_runtime::bytecode::assemble(&text).and_then(|file| crate::harness::interpreted(&file));
        let interpreted = module.and_then(call);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn({
            let make = *make;
            move || call(make())
        });
        let found = thread.map(|thread| thread.join());
        let is_exhausted =
            |result: &Result<i32>| result.as_ref().is_err_and(|error| error.code() == StatusCode::ResourceExhausted);
        let fits = |result: &Result<i32>| match expected {
            Expected::Exhausted => is_exhausted(result),
            Expected::Returns(value) => result.as_ref().is_ok_and(|found| *found == value),
            Expected::Either(value) => is_exhausted(result) || result.as_ref().is_ok_and(|found| *found == value),
        };
        let good = matches!(&found, Ok(Ok(found)) if fits(found)) && fits(&interpreted);
        let text = |result: &Result<i32>| format!("{result:?}").chars().take(200).collect::<String>();
        println!(
            "{name}: interpreted {}, translated {}",
            text(&interpreted),
            match &found {
                Ok(Ok(found)) => text(found),
                _ => "panics".to_owned(),
            }
        );
        if !good {
            println!("{name}: expected {expected:?}");
            std::process::exit(1);
        }
    }
}
