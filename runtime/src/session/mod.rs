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
//!
//! Without `std`, a session runs one module that needs no device: see [`Session::inline`].

mod aligned;
mod arrays;
#[cfg(feature = "std")]
mod builder;
#[cfg(feature = "std")]
mod call;
#[cfg(feature = "std")]
mod convert;
mod element;
mod elements;
#[cfg(any(feature = "half", feature = "ndarray", feature = "num-complex"))]
mod foreign;
#[cfg(feature = "std")]
mod function;
#[cfg(feature = "std")]
mod incompatible;
mod inline;
mod input;
#[cfg(feature = "std")]
mod packer;
#[cfg(feature = "std")]
mod primitives;
#[cfg(feature = "std")]
mod results;
mod tensor;

use alloc::sync::Arc;

use crate::Result;
#[cfg(feature = "std")]
use crate::hal::Device;
use crate::hal::{Allocator, InputsOnlyRead};
use crate::vm::{self, Context};

pub use crate::bytecode::{Signature, ValueInfo, ValueType};
pub use aligned::AlignedVec;
#[cfg(feature = "std")]
pub use builder::{Native, SessionBuilder, natives};
#[cfg(feature = "std")]
pub use call::FunctionFuture;
#[cfg(feature = "std")]
pub use convert::{Arguments, FromResults, FromValue, ToValue};
pub use element::{BF16, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F16, ScalarElement};
pub use elements::Elements;
#[cfg(feature = "std")]
pub use function::Function;
pub use inline::InlineNative;
pub(crate) use input::Memory;
pub use input::{Input, IntoInput, PassedRef, ToTensor};
pub(crate) use input::{fits, shape_text};
#[cfg(feature = "std")]
pub use packer::Packer;
#[cfg(feature = "std")]
pub use primitives::Primitives;
#[cfg(feature = "std")]
pub use results::{ResultKey, Results};
pub use tensor::Tensor;

/// A linked program with its state and its devices. It finds and calls functions.
///
/// Clones share everything. Calls from several threads run concurrently and share the program's globals.
#[derive(Clone, Debug)]
pub struct Session {
    context: Arc<Context>,
    #[cfg(feature = "std")]
    devices: Arc<[Arc<Device>]>,
    allocator: Arc<Allocator>,
    inputs_only_read: Option<InputsOnlyRead>,
}

impl Session {
    /// Returns the VM context.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the allocator of this session's tensors: the first device's, or the host's if there is no device.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.allocator
    }

    /// Returns the promise that arguments are only read, if it was made.
    pub(crate) fn inputs_only_read(&self) -> Option<InputsOnlyRead> {
        self.inputs_only_read
    }

    /// Forwards a signal of the hosting program, such as low memory, to all modules.
    ///
    /// # Errors
    /// The first error of a module.
    pub fn notify(&self, signal: vm::Signal) -> Result<()> {
        self.context.notify(signal)
    }

    /// Creates a child session with a copy of the globals. Objects that the globals refer to are shared.
    ///
    /// # Errors
    /// UNIMPLEMENTED where a module's state cannot be copied.
    pub fn fork(&self) -> Result<Session> {
        let context = self.context.fork()?;
        Ok(Session { context, ..self.clone() })
    }
}
