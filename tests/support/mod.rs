//! What the tests of whole models share: the cases of tests/models, values on the host, how results are compared, and
//! the ways to run a model.

pub(crate) mod cases;
pub(crate) mod compare;
pub(crate) mod program;
pub(crate) mod repeat;
pub(crate) mod value;
