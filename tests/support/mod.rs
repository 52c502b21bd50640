//! Common code of the tests with whole models: the cases of tests/models, host values, comparison of results, and
//! running models.

pub(crate) mod cases;
pub(crate) mod compare;
pub(crate) mod native;
pub(crate) mod program;
pub(crate) mod repeat;
pub(crate) mod value;
