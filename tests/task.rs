//! Every model of tests/models on local-task, with few and many workers, again and again, from many threads at once.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::{Duration, Instant};

use support::cases::{self, Case};
use support::compare;
use support::program::Instance;

/// Threads that call at once.
const CALLERS: usize = 8;
/// The most rounds of a case, and the time after which there are no more.
const ROUNDS: usize = 60;
const TIME: Duration = Duration::from_millis(60);

/// Repeats a case that is one call from several threads on one instance, and tells what went wrong.
fn repeat(instance: &Instance, case: &Case) -> Result<usize, String> {
    let call = &case.calls[0];
    let start = Instant::now();
    let rounds = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut round = 0;
                    while round < ROUNDS && (round < 2 || start.elapsed() < TIME) {
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

/// Cases whose calls change state that they read: model and case. Several callers see each other's.
const STATEFUL: [(&str, &str); 2] = [("first_generation", "global_refs"), ("parameters", "count")];

fn is_stateless(model: &cases::Model, case: &Case) -> bool {
    !model.folder.ends_with("accumulator")
        && !STATEFUL.iter().any(|(folder, name)| model.folder.ends_with(folder) && case.name == *name)
}

#[test]
fn many_callers_get_the_right_results_from_any_number_of_workers() {
    let (mut calls, mut faults) = (0, Vec::new());
    for workers in [1, 2, 4, 16] {
        let device = format!("local-task?workers={workers}");
        for model in &cases::models() {
            let single =
                |case: &&Case| case.calls.len() == 1 && case.calls[0].fails.is_none() && is_stateless(model, case);
            for (variant, case) in
                model.variants.iter().flat_map(|v| model.cases.iter().filter(single).map(move |case| (v, case)))
            {
                let files = case.modules.iter().chain([variant]).map(AsRef::as_ref);
                let outcome = Instance::load(files, &case.machine(&device)).map_err(|error| error.to_string());
                match outcome.and_then(|instance| repeat(&instance, case)) {
                    Ok(rounds) => calls += rounds,
                    Err(fault) => faults.push(format!("{} [{}] on {device}: {fault}", variant.display(), case.name)),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
    assert!(calls > 4000, "only {calls} calls were made");
}
