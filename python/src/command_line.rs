//! The command `incarnate`, which comes with the package.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line: the program's name, then its arguments. Returns the exit status.
#[pyfunction]
pub(crate) fn command_line(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| incarnate_cli::run(arguments))
}
