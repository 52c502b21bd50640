//! Sessions of programs that need no device: with or without `std`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Session;
use crate::Result;
use crate::hal::Allocator;
use crate::modules::TraceSink;
use crate::modules::hal_inline::{self, HalInlineOptions};
use crate::vm::{Context, Limits, Module, Program};

/// Creates a native module that programs without a device import from: [`InlineNative::PACKED`] or [`InlineNative::DIRECT`]. The
/// linker drops the one that a program does not name.
#[derive(Clone, Copy, Debug)]
pub struct InlineNative(fn(HalInlineOptions) -> Arc<dyn Module>);

impl InlineNative {
    /// `hal_inline` for interpreted and translated modules.
    pub const PACKED: InlineNative = InlineNative(|options| Arc::new(hal_inline::module(options)));
    /// `hal_inline` for translated modules, which call its functions directly.
    pub const DIRECT: InlineNative = InlineNative(|options| Arc::new(hal_inline::direct_module(options)));
}

impl Session {
    /// Creates a session of one module that was compiled with `--iree-execution-model=inline-static`, and runs its initialisers.
    /// The calling thread runs its kernels, which are functions of the module, on memory of the global allocator.
    ///
    /// Limits of memory apply to buffers and to what the program creates.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use incarnate_runtime::session::{InlineNative, Session, Tensor};
    /// use incarnate_runtime::vm::{BytecodeModule, Limits, Ref, Value};
    /// # use incarnate_runtime::bytecode::{Contents, VerifiedModule};
    /// # fn main() -> incarnate_runtime::Result<()> {
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/simple_mul/inline-static.vmfb");
    /// # let bytes = std::fs::read(file).unwrap();
    /// let module = VerifiedModule::load(Arc::new(Contents::from_vec(bytes)))?;
    /// let session = Session::inline(BytecodeModule::new(module)?, &[InlineNative::PACKED], Limits::default())?;
    /// let numbers = Tensor::new(&session, &[4], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let argument = || Value::from(Ref::from(Arc::clone(numbers.view())));
    /// let product = session.context().function("simple_mul")?.call(&[argument(), argument()])?;
    /// # assert_eq!(product.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of linking, where the module imports from another module; those of the initialisers.
    pub fn inline(module: Arc<dyn Module>, natives: &[InlineNative], limits: Limits) -> Result<Session> {
        let allocator = Arc::new(Allocator::new());
        let native = |native: &InlineNative| {
            (native.0)(HalInlineOptions { allocator: allocator.clone(), trace_sink: TraceSink::default() })
        };
        let modules: Vec<Arc<dyn Module>> = natives.iter().map(native).chain([module]).collect();
        let context = Context::new(Program::link(modules)?, limits)?;
        Ok(Session {
            context,
            #[cfg(feature = "std")]
            devices: Arc::default(),
            allocator,
            inputs_only_read: None,
        })
    }
}
