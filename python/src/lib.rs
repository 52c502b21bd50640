//! The extension module of the Python package `incarnate`.

mod error;
mod iree;

use pyo3::prelude::*;

/// The part of the package `incarnate` that is written in Rust.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::error::register(module)?;
        super::iree::register(module)
    }
}
