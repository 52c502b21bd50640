//! Builds and prints MLIR of the dialects `func`, `arith`, `math`, `tensor`, `linalg`, `scf`, `cf` and `util`, for importers of models.
//!
//! A [`Builder`] appends operations to the innermost open [`Region`]. Operands are [`Value`]s, whose types the builder knows: an
//! operation whose operands do not fit is not printed; the first such error is what [`Builder::finish`] returns. So lowerings need no
//! error handling for each operation.
//!
//! ```
//! use incarnate_mlir::{Builder, Element, Type};
//!
//! let mut b = Builder::new();
//! let row = Type::tensor(&[None, Some(4)], Element::F32);
//! let mut function = b.function("double", &[row.clone()]);
//! let x = function.arguments[0];
//! let two = b.float(2.0, Element::F32);
//! let y = b.elementwise(&[x], Element::F32, |b, x| b.mulf(x[0], two));
//! b.end_function(function, &[y], &[], &[]);
//! let text = b.finish().unwrap();
//! assert!(text.contains("func.func @double(%0: tensor<?x4xf32>) -> (tensor<?x4xf32>)"));
//! assert!(text.contains("arith.mulf %"));
//! ```

mod affine;
mod arith;
mod builder;
mod constant;
mod flow;
mod function;
mod linalg;
mod linalg_ext;
mod quoting;
mod scf;
mod tensor;
mod types;

#[cfg(test)]
mod tests;

pub use affine::{Expression, Map};
pub use arith::{FloatPredicate, IntPredicate};
pub use builder::{Builder, Checkpoint, Malformed, Region, Value};
pub use function::Function;
pub use linalg::{Iterator, Kernel, Window};
pub use quoting::symbol;
pub use tensor::Extent;
pub use types::{Element, Type};
