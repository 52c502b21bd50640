//! Imports ONNX models as MLIR of core dialects (`func`, `arith`, `math`, `tensor`, `linalg`, `scf`), which IREE's compiler takes with
//! `--iree-input-type=none`.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use incarnate_onnx::{Model, Options, import};
//!
//! let model = Model::open("net.onnx")?;
//! let imported = import(&model, &Options::default())?;
//! std::fs::write("net.mlir", &imported.mlir)?;
//! imported.write_weights(std::fs::File::create("net.safetensors")?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Shapes are computed with extents that are expressions of the inputs' ([`Dim`]), and small tensors of integers element by element, so
//! that the arithmetic on shapes that models contain becomes arithmetic on extents. Each operator is a row of a table and a function.

mod context;
mod convert;
mod data_type;
mod dim;
mod elements;
mod fold;
mod functions;
mod import;
mod interface;
mod kit;
mod limits;
mod loaded;
mod model;
mod node;
mod operators;
mod proto;
mod ranges;
mod rearrange;
mod reshape;
mod summary;
mod tensor;
mod weights;

#[cfg(test)]
mod tests;

pub use context::SCOPE;
pub use data_type::DataType;
pub use dim::Dim;
pub use import::{Imported, Options, import};
pub use model::Model;
pub use summary::Summary;

/// Lists the supported operators: the domain, which is empty for ONNX's own, the name, and the first version of each form.
pub fn supported_operators() -> impl Iterator<Item = (&'static str, &'static str, i64)> {
    operators::all()
}
