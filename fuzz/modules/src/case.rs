//! Runs one case in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use incarnate_runtime::bytecode::{ConventionItem, assemble};
use incarnate_runtime::session::Session;
use incarnate_runtime::vm::{CallBuffer, Completion, Ledger, Module, Ref, Value};
use incarnate_runtime::{Error, Result, StatusCode};

use crate::plan::{Call, Plan};
use crate::process::Memory;
use crate::sessions;

/// Bytes that the process may grow by while it runs a case: four times what the program may hold.
pub(crate) const GROWTH: u64 = 4 * sessions::BYTES;
/// The time by which a call may pass its limit on a busy machine.
const LATE: Duration = Duration::from_secs(10);
/// The time in which pending operations end after their session is dropped, besides the timeout of calls.
const PENDING: Duration = Duration::from_secs(5);

/// What became of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The calls of each thread, in order: status codes, and integers that were returned.
    pub calls: Vec<Vec<String>>,
    /// The verifier accepts the module.
    pub is_verified: bool,
    /// What is wrong.
    pub findings: Vec<String>,
    /// A limit ended a call, so that the other mode may differ.
    pub is_limited: bool,
}

impl Outcome {
    /// Returns the numbers of calls that returned and that failed.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let calls = || self.calls.iter().flatten();
        let returned = calls().filter(|line| line.contains(": OK")).count();
        (returned, calls().count() - returned)
    }
}

/// Assembles a case's module.
///
/// # Errors
/// Errors of the assembler.
pub fn module(text: &str) -> Result<Vec<u8>> {
    assemble(text)
}

/// Runs a case; its module is interpreted unless another one is given.
#[must_use]
pub fn run(text: &str, module: Option<Arc<dyn Module>>) -> Outcome {
    let plan = Plan::parse(text);
    let limits = sessions::limits(plan.timeout);
    let ledger = limits.ledger.clone();
    let mut outcome = Outcome::default();
    let memory = Memory::begin();
    let module = module.map_or_else(|| assemble(text).and_then(|bytes| sessions::interpreted(&bytes)), Ok);
    match module.and_then(|module| sessions::build(module, &plan.device, limits)) {
        Ok(session) => {
            outcome.is_verified = true;
            calls(&session, &plan, &mut outcome);
            drop(session);
        }
        Err(error) => outcome.findings.push(format!("no session: {error}")),
    }
    let end = Instant::now() + plan.timeout + PENDING;
    while is_charged(&ledger) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    if is_charged(&ledger) {
        let (bytes, objects) = (ledger.bytes(), ledger.objects());
        outcome
            .findings
            .push(format!("leak: {bytes} bytes and {objects} objects are charged after the session is gone"));
    }
    if let Some(growth) = memory.growth().filter(|growth| *growth > GROWTH) {
        outcome.findings.push(format!("overshoot: the process grew by {growth} bytes"));
    }
    outcome
}

fn is_charged(ledger: &Ledger) -> bool {
    ledger.bytes() > 0 || ledger.objects() > 0
}

/// Runs the plan's threads.
fn calls(session: &Session, plan: &Plan, outcome: &mut Outcome) {
    let limited = std::sync::atomic::AtomicBool::new(false);
    let run = |calls: &[Call]| -> (Vec<String>, Vec<String>) {
        let (mut lines, mut findings) = (Vec::new(), Vec::new());
        for call in calls {
            let start = Instant::now();
            let result = complete(session, call);
            let time = start.elapsed();
            if time > plan.timeout + LATE {
                findings.push(format!("late: @{} takes {} ms", call.export, time.as_millis()));
            }
            lines.push(match result {
                Ok(values) => format!("@{}: OK{values}", call.export),
                Err(error) => {
                    if matches!(error.code(), StatusCode::ResourceExhausted | StatusCode::DeadlineExceeded) {
                        limited.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    // Programs can fail their fences with any status.
                    if error.code() == StatusCode::Internal && !error.message().contains("the program failed the fence")
                    {
                        findings.push(format!("internal: @{}: {error}", call.export));
                    }
                    format!("@{}: {} {}", call.export, error.code(), first_line(error.message()))
                }
            });
        }
        (lines, findings)
    };
    let results: Vec<_> = match plan.threads.as_slice() {
        [calls] => vec![run(calls)],
        threads => std::thread::scope(|scope| {
            let handles: Vec<_> = threads.iter().map(|calls| scope.spawn(|| run(calls))).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        }),
    };
    for (lines, findings) in results {
        outcome.calls.push(lines);
        outcome.findings.extend(findings);
    }
    outcome.is_limited = limited.into_inner();
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Calls an export without arguments; returns the integers of its results.
fn complete(session: &Session, call: &Call) -> Result<String> {
    let function = session.function(&call.export)?;
    let function = function.vm_function();
    let (mut buffer, mut invocation) = (CallBuffer::new(), function.context().take_invocation());
    // Callers of commands take an argument; it is null here.
    let arguments: Vec<Value> = function
        .arguments()
        .iter()
        .map(|item| match item {
            ConventionItem::I32 => Value::I32(0),
            ConventionItem::I64 => Value::I64(0),
            ConventionItem::F32 => Value::F32(0.0),
            ConventionItem::F64 => Value::F64(0.0),
            _ => Value::Ref(Ref::Null),
        })
        .collect();
    function.pack(arguments.into_iter(), &mut buffer)?;
    let result = if call.is_cancelled {
        let completion = invocation.begin(function.bound(), &mut buffer);
        if invocation.is_suspended() {
            invocation.cancel();
        }
        match completion {
            Ok(Completion::Yielded) => Err(Error::new(StatusCode::Cancelled, "dropped")),
            other => other.map(|_| ()),
        }
    } else {
        invocation.call(function.bound(), &mut buffer)
    };
    function.context().give_invocation(invocation);
    result?;
    let values = buffer.drain(function.results())?;
    let words = values.iter().filter_map(|value| match value {
        Value::I32(value) => Some(format!(" {value}")),
        Value::I64(value) => Some(format!(" {value}")),
        _ => None,
    });
    Ok(words.collect())
}
