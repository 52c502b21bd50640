//! Runs a program in one of the modes and records everything observable.

pub mod native;
pub mod outcome;
mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use incarnate_runtime::bytecode::assemble;
use incarnate_runtime::vm::{
    Buffer, BytecodeModule, CallBuffer, Completion, Context, Function, Ledger, Limits, List, Module, Program, Ref,
    Value, ValueType,
};
use incarnate_runtime::{Error, Result, StatusCode};

use crate::generator::{self, Argument, Call};
use crate::verified::verified;
use outcome::{Events, Log, describe, describe_value};
use probe::Probe;

/// The fuel of an interpreted call. A program that exhausts it is skipped.
const FUEL: u64 = 100_000;
/// The maximum number of suspensions of a call.
const SUSPENSIONS: usize = 1000;

/// Creates the interpreted module of a file's bytes.
pub fn interpreted(module: &[u8]) -> Result<Arc<dyn Module>> {
    // Loops are short.
    Ok(BytecodeModule::with_short_nests(verified(module)?)?)
}

/// Creates the interpreted module of the program of a seed.
pub fn interpreted_program(seed: u64, module: &[u8]) -> Result<Arc<dyn Module>> {
    match is_reassociated(seed) {
        true => Ok(BytecodeModule::reassociating(verified(module)?)?),
        false => interpreted(module),
    }
}

/// Whether float reductions of the program of a seed are reassociated, in both modes.
pub const fn is_reassociated(seed: u64) -> bool {
    // Every second one of those with loop nests.
    seed % 32 == 5
}

/// Returns the file of the imported bytecode module.
pub fn library() -> Result<Vec<u8>> {
    assemble(include_str!("library.vmasm"))
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Everything observable.
    pub lines: Vec<String>,
    /// A call exhausted its fuel or its stack, which translated code counts differently: the program cannot be
    /// compared.
    pub exhausted: bool,
    /// Number of calls that returned.
    pub returned: usize,
    /// Number of calls that failed.
    pub failed: usize,
}

/// Runs all calls of a program in one context. `limited` counts fuel.
pub fn run(module: Arc<dyn Module>, library: Arc<dyn Module>, program: &generator::Program, limited: bool) -> Outcome {
    let mut run = Run { log: Log::default(), live: Arc::default(), outcome: Outcome::default() };
    let memory = Ledger::new(1 << 26, u64::MAX);
    let limits = Limits { fuel: limited.then_some(FUEL), ledger: memory.clone(), ..Limits::default() };
    tracing::subscriber::with_default(Events(run.log.clone()), || {
        let natives = native::module(run.log.clone(), run.live.clone());
        let context = Program::link(vec![natives, library, module]).and_then(|linked| Context::new(linked, limits));
        match context {
            Ok(context) => {
                run.calls(&context, program, &memory);
                drop(context);
            }
            Err(error) => run.error("no context", &error),
        }
        let live = run.live.load(Ordering::Relaxed);
        run.log.note(&format!("at the end {live} probes live, {} bytes are held", memory.bytes()));
    });
    run.outcome.lines = run.log.take();
    run.outcome
}

struct Run {
    log: Log,
    live: Arc<AtomicI64>,
    outcome: Outcome,
}

impl Run {
    fn error(&mut self, what: &str, error: &Error) {
        self.log.note(&format!("{what}: {}", without_use(&error.to_string())));
        self.outcome.failed += 1;
        let limits = ["fuel", "nested calls", "registers of all open calls"];
        let at_limit = limits.iter().any(|limit| error.message().contains(limit));
        self.outcome.exhausted |= error.code() == StatusCode::ResourceExhausted && at_limit;
    }

    fn calls(&mut self, context: &Arc<Context>, program: &generator::Program, memory: &Ledger) {
        for call in &program.calls {
            self.call(context, call);
            self.log.note(&format!("{} bytes are held", memory.bytes()));
            if self.outcome.exhausted {
                return;
            }
        }
        if program.forks {
            match context.fork() {
                Ok(child) => program.calls.iter().rev().take(2).for_each(|call| self.call(&child, call)),
                Err(error) => self.error("no fork", &error),
            }
        }
    }

    fn call(&mut self, context: &Arc<Context>, call: &Call) {
        let function = match context.function(&call.export) {
            Ok(function) => function,
            Err(error) => return self.error(&call.export, &error),
        };
        let arguments = match self.arguments(call) {
            Ok(arguments) => arguments,
            Err(error) => return self.error("no arguments", &error),
        };
        self.log.note(&format!("== {} {:?}", call.export, call.arguments));
        match self.complete(&function, arguments.clone(), call.cancel_at) {
            Ok(results) => {
                self.outcome.returned += 1;
                for result in &results {
                    self.log.note(&format!("result {}", describe_value(result, 3)));
                }
            }
            Err(error) => self.error("failed", &error),
        }
        let live = self.live.load(Ordering::Relaxed);
        self.log.note(&format!("{live} probes live"));
        for argument in &arguments {
            if let Value::Ref(reference) = argument {
                self.log.note(&format!("argument held {} times: {}", holders(reference), describe(reference, 3)));
            }
        }
    }

    /// Runs a call and counts its suspensions, or drops it at a given suspension.
    fn complete(&self, function: &Function, arguments: Vec<Value>, cancel_at: Option<usize>) -> Result<Vec<Value>> {
        let mut buffer = CallBuffer::new();
        function.pack(arguments.into_iter(), &mut buffer)?;
        let mut invocation = function.context().take_invocation();
        let mut completion = invocation.begin(function.bound(), &mut buffer);
        let mut suspensions = 0;
        while matches!(completion, Ok(Completion::Yielded)) {
            suspensions += 1;
            self.log.note("suspended");
            if cancel_at == Some(suspensions) || suspensions > SUSPENSIONS {
                invocation.cancel();
                completion = Err(Error::new(StatusCode::Cancelled, "given up"));
                break;
            }
            completion = invocation.resume(&mut buffer);
        }
        function.context().give_invocation(invocation);
        let _ = completion?;
        buffer.drain(function.results())
    }

    fn arguments(&self, call: &Call) -> Result<Vec<Value>> {
        let mut values: Vec<Value> = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            let value = match argument {
                Argument::I32(value) => Value::I32(*value),
                Argument::I64(value) => Value::I64(*value),
                Argument::F32(bits) => Value::F32(f32::from_bits(*bits)),
                Argument::F64(bits) => Value::F64(f64::from_bits(*bits)),
                Argument::Null => Value::Ref(Ref::Null),
                Argument::Buffer(bytes) => Value::Ref(Buffer::copy_of(bytes)?.into()),
                Argument::Numbers(numbers) => {
                    let list = List::new(ValueType::I32, 0, None)?;
                    numbers.iter().try_for_each(|&number| list.push(Value::I32(number)))?;
                    Value::Ref(list.into())
                }
                Argument::Anything(probe) => {
                    let list = List::new(ValueType::Any, 0, None)?;
                    list.push(Value::Ref(Probe::new(*probe, &self.live).into()))?;
                    list.push(Value::F64(f64::from(*probe) / 3.0))?;
                    list.push(Value::None)?;
                    list.push(Value::Ref(Buffer::copy_of(&probe.to_le_bytes())?.into()))?;
                    Value::Ref(list.into())
                }
                Argument::Probe(id) => Value::Ref(Probe::new(*id, &self.live).into()),
                Argument::Same => values
                    .iter()
                    .rev()
                    .find(|value| matches!(value, Value::Ref(_)))
                    .cloned()
                    .unwrap_or(Value::Ref(Ref::Null)),
            };
            values.push(value);
        }
        Ok(values)
    }
}

/// Returns an error's text without the amount of memory in use, because translated code drops references earlier.
fn without_use(text: &str) -> String {
    match text.split_once(" bytes asked for, ") {
        Some((before, rest)) => {
            format!("{before} bytes asked for, {}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => text.to_owned(),
    }
}

/// Returns the number of references to an object, without the given one.
fn holders(reference: &Ref) -> usize {
    match reference {
        Ref::Null => 0,
        Ref::Buffer(buffer) => Arc::strong_count(buffer) - 1,
        Ref::List(list) => Arc::strong_count(list) - 1,
        Ref::Object(object) => Arc::strong_count(object) - 1,
    }
}

/// Returns true if a line reports that memory was exhausted although the request was within the limit.
///
/// The interpreter keeps a register's object until the register is overwritten; translated code drops it after its last
/// use. So one may run out of memory where the other continues, and the runs cannot be compared from there on.
fn is_short_of_memory(line: &str) -> bool {
    let numbers = |text: &str| -> Option<(u64, u64)> {
        let (before, rest) = text.split_once(" bytes asked for, ")?;
        let limit = rest.split_once("of the program's ")?.1.split_once(' ')?.0;
        Some((before.rsplit(' ').next()?.parse().ok()?, limit.parse().ok()?))
    };
    numbers(line).is_some_and(|(asked, limit)| asked <= limit)
}

/// Returns the first difference between two runs, with some preceding lines.
pub fn difference(interpreted: &Outcome, translated: &Outcome) -> Option<String> {
    let (left, right) = (&interpreted.lines, &translated.lines);
    if left == right {
        return None;
    }
    let at = left.iter().zip(right).position(|(a, b)| a != b).unwrap_or(left.len().min(right.len()));
    if left.get(at).is_some_and(|line| is_short_of_memory(line)) {
        return None;
    }
    let mut text = String::new();
    for line in &left[at.saturating_sub(6)..at] {
        text += &format!("    {line}\n");
    }
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "(nothing)".to_owned());
    text += &format!("  interpreted {}\n  translated  {}\n", line(left), line(right));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpret(program: &generator::Program) -> Outcome {
        run(interpreted(&program.module).unwrap(), interpreted(&library().unwrap()).unwrap(), program, true)
    }

    /// Programs depend only on their seed, and records contain nothing that differs between runs.
    #[test]
    fn runs_repeat() {
        let (mut returned, mut failed, mut suspended) = (0, 0, 0);
        for seed in 0..300 {
            let program = generator::Program::new(seed, false);
            assert_eq!(program.text, generator::Program::new(seed, false).text);
            let outcome = interpret(&program);
            assert_eq!(difference(&outcome, &interpret(&program)), None, "seed {seed}");
            returned += outcome.returned;
            failed += outcome.failed;
            suspended += outcome.lines.iter().filter(|line| *line == "suspended").count();
        }
        assert!(returned > 500 && failed > 50 && suspended > 50, "{returned} {failed} {suspended}");
    }

    #[test]
    fn memory_of_dropped_references_may_differ() {
        let failed =
            |asked: &str| format!("failed: RESOURCE_EXHAUSTED; {asked} bytes asked for,  of the program's 64 in use");
        let outcome = |line: String| Outcome { lines: vec![line], ..Outcome::default() };
        let went_on = outcome("returned".to_owned());
        assert!(difference(&outcome(failed("48")), &went_on).is_none());
        assert!(difference(&outcome(failed("65")), &went_on).is_some());
        assert!(difference(&went_on, &outcome(failed("48"))).is_some());
    }

    /// Behaviour is observable: in nearly all programs, changing one instruction makes a difference.
    #[test]
    fn changes_are_seen() {
        let (mut changed, mut seen) = (0, 0);
        for seed in (0..350).filter(|seed| seed % 8 != 7) {
            let mut program = generator::Program::new(seed, false);
            let before = interpret(&program);
            for (from, to) in [("vm.const.i32 3\n", "vm.const.i32 2\n"), ("vm.add.i64", "vm.sub.i64"), ("%R", "%r")] {
                let text = std::mem::take(&mut program.text);
                // Not in the function that returns the globals.
                let (functions, rest) = text.split_at(text.find("vm.export @observe").unwrap_or(text.len()));
                let altered = functions.replace(from, to) + rest;
                if altered != text && !before.exhausted {
                    program.module = assemble(&altered).unwrap();
                    changed += 1;
                    seen += usize::from(difference(&before, &interpret(&program)).is_some());
                }
                program.text = text;
            }
        }
        assert!(changed > 300 && seen * 3 > changed, "{seen} of {changed}");
    }

    #[test]
    fn all_instructions_run() {
        let counts = crate::coverage::measure(0..600);
        let never: Vec<_> = counts.iter().filter(|(_, count)| count.run == 0).collect();
        assert!(never.is_empty(), "{never:?}");
    }
}
