//! Incarnate turns machine-learning models into Rust: it translates modules of the IREE compiler (`.vmfb` files) ahead of time
//! with [`include_module!`], or interprets them.
//!
//! A [`Session`] loads a module onto a device and interprets it. A [`Function`] takes [`Tensor`]s, elements on the host, and numbers:
//!
//! ```
//! use incarnate::{Session, Tensor};
//!
//! # fn main() -> incarnate::Result<()> {
//! let session = Session::load("local-sync", "tests/models/simple_mul/vmvx.vmfb")?;
//! let multiply = session.function("simple_mul")?;
//! let product: Tensor<f32> = multiply.call(([1.0f32, 2.0, 3.0, 4.0], vec![2.0f32; 4]))?;
//! assert_eq!(product.to_vec()?, [2.0, 4.0, 6.0, 8.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Numbers are passed and returned as Rust numbers. Several results are a tuple, or [`Results`] by name:
//!
//! ```
//! # fn main() -> incarnate::Result<()> {
//! let session = incarnate::Session::load("local-sync", "tests/models/scalars/vmvx.vmfb")?;
//! let echo = session.function("echo")?;
//! let (a, b, c, d, e): (i32, i64, f32, f64, i64) = echo.call((1i32, 2i64, 3.0f32, 4.0f64, 5i64))?;
//! assert_eq!((a, b, c, d, e), (1, 2, 3.0, 4.0, 5));
//! # Ok(())
//! # }
//! ```
//!
//! The root contains what a program with a model uses. Everything else is below [`runtime`]:
//!
//! | for | see |
//! |---|---|
//! | translated modules | [`include_module!`] |
//! | several modules, shared devices, limits | [`SessionBuilder`] |
//! | concurrent calls | [`Function::call_async`] |
//! | weights in files of their own (`.irpa`; with the feature `parameters-formats` also `.gguf`, `.safetensors`, `.npy`) | [`SessionBuilder::parameter_file`], [`runtime::parameters`] |
//! | where the time goes | [`runtime::profile`] |
//! | conversions of arguments and results, the small float types | [`runtime::session`] |
//! | modules written in Rust that models import | [`runtime::vm::NativeModule`] |
//! | devices, buffers, fences | [`runtime::hal`] |
//! | reading, verifying and disassembling module files | [`runtime::bytecode`] |
//!
//! A module may contain machine code, which runs with all rights of the process: load only modules that you trust, or call
//! [`SessionBuilder::untrusted`], which refuses machine code and limits what a call takes.
//!
//! The default features are `macros` and `local-task`: what programs with a model need. `vulkan` adds devices that are GPUs,
//! `system-library` kernels that are libraries of the platform, `profiling` recordings of where the time goes, `half`, `ndarray` and
//! `num-complex` the values of these crates, which are re-exported, and `cli` the command line.

#[cfg(feature = "program")]
#[doc(hidden)]
pub use incarnate_cli as cli;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use incarnate_macros::include_module as __include_module;
pub use incarnate_runtime as runtime;
pub use incarnate_runtime::hal::{Device, DeviceOptions, ElementType};
#[cfg(feature = "half")]
pub use incarnate_runtime::half;
#[cfg(feature = "ndarray")]
pub use incarnate_runtime::ndarray;
#[cfg(feature = "num-complex")]
pub use incarnate_runtime::num_complex;
pub use incarnate_runtime::parameters::FileAccess;
pub use incarnate_runtime::session::{
    AlignedVec, BF16, Element, Elements, F16, Function, FunctionFuture, Input, Results, Session, SessionBuilder,
    Signature, Tensor, ValueInfo, ValueType,
};
pub use incarnate_runtime::vm::{Limits, Module};
pub use incarnate_runtime::{Error, Result, StatusCode};
#[cfg(all(feature = "web", target_family = "wasm"))]
#[doc(hidden)]
pub use incarnate_runtime::{web, web_program};

/// Translates a module file to a Rust module.
///
/// `include_module!("models/digits.vmfb")` creates the module `digits`, `include_module!(name = "models/digits.vmfb")` a module
/// of another name. Attributes and a visibility may precede the name; without them the module is `pub`. The path is relative to
/// the package. Cargo builds the program again when the file changes.
///
/// The module contains a struct `Module` with one method for each function that the file exports, and a function `module`, which
/// returns the [`Module`](crate::Module) for [`SessionBuilder::module`].
///
/// These options may follow the path:
///
/// - `untrusted` is for a module that can be anyone's: machine code in it is a compile error, and `Module::load` limits memory,
///   objects, steps and time, as [`SessionBuilder::untrusted`] does.
/// - `prefer = "portable"` selects and translates VMVX executables where the file also contains machine code.
/// - `static_library = "NAME_library_query"` names the query function of kernels that the program links (compiled with
///   `--iree-llvmcpu-link-static`). The build script links the compiler's object with
///   `incarnate_translator::link_static_library("NAME.o")`. The declaration of that function is unsafe code, which a crate with
///   `forbid(unsafe_code)` does not accept.
///
/// ```
/// incarnate::include_module!(simple_mul = "tests/models/simple_mul/vmvx.vmfb");
///
/// # fn main() -> incarnate::Result<()> {
/// let device = incarnate::Device::create("local-sync")?;
/// let module = simple_mul::Module::load(&device)?;
/// let product = module.simple_mul(&[1.0, 2.0, 3.0, 4.0], &[2.0; 4])?;
/// assert_eq!(product.to_vec()?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok(())
/// # }
/// ```
///
/// Elements of another type are a compile error:
///
/// ```compile_fail,E0277
/// # incarnate::include_module!(simple_mul = "tests/models/simple_mul/vmvx.vmfb");
/// # fn call(module: &simple_mul::Module) -> incarnate::Result<()> {
/// module.simple_mul(&[1.0f64, 2.0, 3.0, 4.0], &[2.0; 4])?;
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

/// Compiles and runs the examples of the README and of the guide.
#[cfg(doctest)]
mod guide {
    #[cfg(feature = "macros")]
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[cfg(feature = "macros")]
    #[doc = include_str!("../docs/rust.md")]
    struct Rust;
    #[doc = include_str!("../docs/build-scripts.md")]
    struct BuildScripts;
    #[doc = include_str!("../docs/parameters.md")]
    struct Parameters;
    #[doc = include_str!("../docs/untrusted.md")]
    struct UntrustedModules;
    #[doc = include_str!("../docs/extending.md")]
    struct Extending;
}
