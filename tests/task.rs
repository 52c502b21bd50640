//! Every model of tests/models on local-task, with few and many workers, repeatedly, from many threads.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use support::program::Instance;
use support::repeat;

#[test]
fn many_callers_get_the_right_results_from_any_number_of_workers() {
    repeat::repeat_all(|case, model, device| {
        let files = case.modules.iter().map(AsRef::as_ref).chain([model]);
        Instance::load(files, &case.machine(device)).map_err(|error| error.to_string())
    });
}
