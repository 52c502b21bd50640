//! Like tests/task.rs, translated: every model on local-task, with few and many workers, from many threads.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../../support/mod.rs"]
#[allow(dead_code, reason = "other packages use the rest")]
mod support;

use incarnate_runtime::hal::local::Loaders;
use support::program::Instance;
use support::{cases, repeat};

#[test]
fn many_callers_get_the_right_results_from_any_number_of_workers() {
    repeat::repeat_all(|case, model, device| {
        let files = case.modules.iter().map(AsRef::as_ref).chain([model]);
        Instance::load_with(files, &case.machine(device), Loaders::default(), &|file| {
            let key = cases::key(file);
            let row = incarnate_translated_tests::MODULES.iter().find(|row| row.0 == key);
            Ok((row.unwrap_or_else(|| panic!("{key} is not translated")).1)())
        })
        .map_err(|error| error.to_string())
    });
}
