//! Common code of the tests with whole models: the cases of tests/models, host values, comparison of results, and
//! running models.

pub(crate) mod cases;
pub(crate) mod compare;
pub(crate) mod native;
pub(crate) mod parallel;
pub(crate) mod program;
pub(crate) mod repeat;
pub(crate) mod value;

/// Whether an emulator runs the tests, as the scripts of `.ci/targets.d` say. It orders the accesses of threads as its host does, and
/// translates code in the time and the memory of the process.
pub(crate) const IS_EMULATED: bool = option_env!("INCARNATE_EMULATED").is_some();
