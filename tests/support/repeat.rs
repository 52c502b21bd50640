//! Repeated calls of one instance from many threads.

use std::path::Path;
use std::time::{Duration, Instant};

use super::IS_EMULATED;
use super::cases::{self, Case, Model};
use super::compare;
use super::program::Instance;

/// Number of concurrent threads; few in emulators, where repetition finds no more, and takes minutes.
const CALLERS: usize = if IS_EMULATED { 4 } else { 8 };
/// Most rounds of a case in each thread, the time after which there are no more, and the least rounds.
const ROUNDS: usize = if IS_EMULATED { 6 } else { 60 };
const TIME: Duration = Duration::from_millis(60);
const LEAST_ROUNDS: usize = if IS_EMULATED { 1 } else { 2 };
/// The numbers of workers. A limited run gives each case one of them, in turn; a run of asked rounds gives each case all.
const WORKERS: [usize; 4] = [4, 1, 16, 2];
/// The least calls of all.
const CALLS: usize = if IS_EMULATED { 400 } else { 4000 };
/// The environment variable with a number of rounds without a time limit.
const ROUNDS_VARIABLE: &str = "INCARNATE_TASK_ROUNDS";

/// Cases whose calls read state that others change: model and case. Concurrent callers would interfere.
const STATEFUL: [(&str, &str); 4] = [
    ("converted", "global_refs"),
    ("language_model", "prefill"),
    ("language_model_native", "prefill"),
    ("parameters", "count"),
];

fn is_stateless(model: &Model, case: &Case) -> bool {
    !model.folder.ends_with("accumulator")
        && !STATEFUL.iter().any(|(folder, name)| model.folder.ends_with(folder) && case.name == *name)
}

fn asked_rounds() -> Option<usize> {
    std::env::var(ROUNDS_VARIABLE).ok().map(|rounds| rounds.parse().expect("a number of rounds"))
}

/// Repeats a single-call case from several threads on one instance; describes the errors.
fn repeat(instance: &Instance, case: &Case) -> Result<usize, String> {
    let call = &case.calls[0];
    let (most, limited) = asked_rounds().map_or((ROUNDS, true), |rounds| (rounds, false));
    let start = Instant::now();
    let rounds = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut round = 0;
                    while round < most && (round < LEAST_ROUNDS || !limited || start.elapsed() < TIME) {
                        let outputs = instance.call(&call.function, &call.inputs);
                        let outputs = outputs.map_err(|error| format!("round {round}: {error}"))?;
                        if let Some(fault) = compare::mismatch(call, &outputs) {
                            return Err(format!("round {round}: {fault}"));
                        }
                        round += 1;
                    }
                    Ok(round)
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().expect("a caller")).collect::<Result<Vec<_>, String>>()
    })?;
    Ok(rounds.iter().sum())
}

/// Repeats every stateless single-call case of every model on local-task, with few and many workers.
///
/// # Panics
/// If any call fails or returns a wrong result, or few calls were made.
pub(crate) fn repeat_all(instance: impl Fn(&Case, &Path, &str) -> Result<Instance, String>) {
    let models = cases::models();
    let is_single = |model: &Model, case: &Case| {
        case.calls.len() == 1 && case.calls[0].fails.is_none() && is_stateless(model, case)
    };
    let runs = models.iter().flat_map(|model| model.runs().filter(|(_, case)| is_single(model, case)));
    let (mut calls, mut faults) = (0, Vec::new());
    for (index, (variant, case)) in runs.enumerate() {
        let one = [WORKERS[index % WORKERS.len()]];
        let counts: &[usize] = if asked_rounds().is_some() { &WORKERS } else { &one };
        for workers in counts {
            let device = format!("local-task?workers={workers}");
            match instance(case, variant, &device).and_then(|instance| repeat(&instance, case)) {
                Ok(rounds) => calls += rounds,
                Err(fault) => faults.push(format!("{} [{}] on {device}: {fault}", variant.display(), case.name)),
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
    println!("{calls} calls");
    assert!(calls > CALLS, "only {calls} calls were made");
}
