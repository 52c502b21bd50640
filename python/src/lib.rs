//! The extension module of the Python package `incarnate`.
//!
//! Each module uses only those below it in this table.
//!
//! | module | contains |
//! |---|---|
//! | `model`, `function`, `callee` | models and their functions |
//! | `argument`, `result` | objects of Python as arguments, and results as objects |
//! | `module`, `options`, `parameters`, `devices` | how modules are loaded |
//! | `tensor`, `reference`, `signature` | classes of values and types |
//! | `array`, `dlpack`, `strided`, `memory` | elements that both sides use in place, and copies of those in another order |
//! | `compiler`, `command_line` | IREE's compiler; the command `incarnate` |
//! | `interrupt`, `fork` | signals during calls; children of `fork` |
//! | `dtype`, `error` | data types and exceptions |
//! | `iree` | the classes of `incarnate.iree.runtime`, which stand beside the others |

mod argument;
mod array;
mod callee;
mod command_line;
mod compiler;
mod devices;
mod dlpack;
mod dtype;
mod error;
mod fork;
mod function;
mod interrupt;
mod iree;
mod memory;
mod model;
mod module;
mod options;
mod parameters;
mod reference;
mod result;
mod signature;
mod strided;
mod tensor;

use pyo3::prelude::*;

/// The part of the package `incarnate` that is written in Rust.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::command_line::command_line;
    #[pymodule_export]
    use super::compiler::{Compiled, compile, install_compiler};
    #[pymodule_export]
    use super::devices::devices;
    #[pymodule_export]
    use super::function::Function;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::reference::Reference;
    #[pymodule_export]
    use super::signature::{PySignature, PyValueInfo};
    #[pymodule_export]
    use super::tensor::Tensor;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        super::error::register(module)?;
        super::fork::register(module)?;
        super::iree::register(module)
    }
}
