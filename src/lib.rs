//! Incarnate runs models that the IREE compiler made (`.vmfb` modules), in pure Rust.
//!
//! A [`Session`] loads a module onto a device, a [`Function`] is called with [`Tensor`]s and numbers:
//!
//! ```
//! use incarnate::{Session, Tensor};
//!
//! # fn main() -> incarnate::Result<()> {
//! let session = Session::load("local-sync", "tests/models/simple_mul/llvm-cpu.vmfb")?;
//! let multiply = session.function("simple_mul")?;
//! let a = Tensor::new(&session, &[4], &[1.0f32, 2.0, 3.0, 4.0])?;
//! let b = Tensor::new(&session, &[4], &[2.0f32; 4])?;
//! let product: Tensor<f32> = multiply.call((&a, &b))?;
//! assert_eq!(product.to_vec()?, [2.0, 4.0, 6.0, 8.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Numbers go in and out as they are, and a tuple has several results:
//!
//! ```
//! # fn main() -> incarnate::Result<()> {
//! let session = incarnate::Session::load("local-sync", "tests/models/scalars/llvm-cpu.vmfb")?;
//! let echo = session.function("echo")?;
//! let (a, b, c, d, e): (i32, i64, f32, f64, i64) = echo.call((1i32, 2i64, 3.0f32, 4.0f64, 5i64))?;
//! assert_eq!((a, b, c, d, e), (1, 2, 3.0, 4.0, 5));
//! # Ok(())
//! # }
//! ```
//!
//! | for | see |
//! |---|---|
//! | several modules, shared devices, limits for modules of unknown origin | [`SessionBuilder`] |
//! | calls that overlap | [`Function::call_async`] |
//! | weights in archives of their own (`.irpa`, `.gguf`, `.safetensors`) | [`SessionBuilder::parameter_file`], [`runtime::parameters`] |
//! | modules written in Rust that models import | [`runtime::vm::NativeModule`] |
//! | devices, buffers, fences below all this | [`runtime::hal`] |
//! | reading, verifying and disassembling module files | [`runtime::bytecode`] |
//!
//! Modules may hold machine code, which does what it wants: load only those that you trust, or restrict a session as
//! [`runtime::vm::Limits::portable`] says.
//!
//! The feature `cli` adds the command line; programs that only run models need no feature but `macros`, the default.

#[cfg(feature = "program")]
pub use incarnate_cli as cli;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use incarnate_macros::include_module as __include_module;
pub use incarnate_runtime as runtime;
pub use incarnate_runtime::bytecode::VerifiedModule;
pub use incarnate_runtime::hal::{Device, ElementType};
pub use incarnate_runtime::session::{
    AlignedVec, Arguments, Element, FromResults, FromValue, Function, FunctionFuture, Session, SessionBuilder, Tensor,
    ToValue,
};
pub use incarnate_runtime::vm::{Limits, Module, Value};
pub use incarnate_runtime::{Error, Place, Result, ResultExt, StatusCode};

/// Translates a module file to Rust, as a Rust module: `include_module!("models/digits.vmfb")` makes the module `digits`,
/// `include_module!(name = "models/digits.vmfb")` one of another name. Attributes and a visibility may stand before the name;
/// without either it is `pub`.
///
/// `include_module!(name = "path", prefer = "portable")` chooses VMVX executables, which are translated, of a module that holds
/// machine code as well.
///
/// The path is relative to the package's folder. The program is built again when the file changes.
///
/// A model whose kernels are linked into the program (compiled with `--iree-llvmcpu-link-static`) names their query functions,
/// `static_library = "NAME_library_query"`, behind the path; the build script links the object that the compiler wrote by
/// `incarnate_translator::link_static_library("NAME.o")`. The declaration of that function is unsafe code, which a crate that
/// says `forbid(unsafe_code)` does not take.
///
/// The module has a struct `Module`, with a method for each function that the file exports, and a function `module`, which
/// gives the [`Module`](crate::Module) for [`SessionBuilder::module`].
///
/// ```
/// incarnate::include_module!(simple_mul = "tests/models/simple_mul/llvm-cpu.vmfb");
///
/// # fn main() -> incarnate::Result<()> {
/// let device = incarnate::Device::create("local-sync")?;
/// let module = simple_mul::Module::load(&device)?;
/// let product = module.simple_mul(&[1.0, 2.0, 3.0, 4.0], &[2.0; 4])?;
/// assert_eq!(product.to_vec()?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! include_module {
    ($($invocation:tt)*) => {
        $crate::__include_module! { $crate; $($invocation)* }
    };
}
