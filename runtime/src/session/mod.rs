//! The friendly face: a session runs a program's functions on tensors.
//!
//! ```no_run
//! use incarnate_runtime::session::{Session, Tensor};
//! # fn main() -> incarnate_runtime::Result<()> {
//! let session = Session::builder().device("local-sync").module_file("simple_mul.vmfb").build()?;
//! let multiply = session.function("simple_mul")?;
//! let a = Tensor::new(&session, &[4], &[1.0f32, 2.0, 3.0, 4.0])?;
//! let b = Tensor::new(&session, &[4], &[2.0f32; 4])?;
//! let product: Tensor<f32> = multiply.call((&a, &b))?;
//! assert_eq!(product.to_vec()?, [2.0, 4.0, 6.0, 8.0]);
//! # Ok(())
//! # }
//! ```

mod aligned;
mod arrays;
mod builder;
mod convert;
mod element;
mod elements;
#[cfg(any(feature = "half", feature = "ndarray", feature = "num-complex"))]
mod foreign;
mod function;
mod incompatible;
mod input;
mod tensor;

pub use crate::bytecode::{Signature, ValueInfo, ValueType};
pub use aligned::AlignedVec;
pub use arrays::ToTensor;
pub use builder::{Native, Session, SessionBuilder, natives};
pub use convert::{Arguments, FromResults, FromValue, Packer, Primitives, ToValue};
pub use element::{BF16, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, I1, ScalarElement};
pub use elements::Elements;
pub use function::{Function, FunctionFuture};
pub(crate) use input::Memory;
pub use input::{Input, PassedRef};
pub(crate) use input::{fits, shape_text};
pub use tensor::Tensor;
