//! Functions of a session.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::Session;
use super::primitives::Primitives;
use crate::bytecode::{COARSE_FENCES, ConventionItem, Signature, ValueInfo, has_coarse_fences};
use crate::hal::{Allocator, Device};
use crate::vm::{self, Linkage};
use crate::{Error, Result};

/// A function of a session. Clones share it; calls from several threads run at once.
#[derive(Clone)]
pub struct Function {
    pub(super) function: vm::Function,
    /// True if the function takes fences, which `call` and `call_async` supply.
    pub(super) fences: bool,
    pub(super) taken: Primitives,
    pub(super) returned: Primitives,
    /// The devices of the session, which signal the fence of the results.
    pub(super) devices: Arc<[Arc<Device>]>,
    /// Allocates the tensors of elements on the host.
    allocator: Arc<Allocator>,
    /// Names and types of inputs and outputs, found at the first use.
    signature: Arc<OnceLock<Arc<Signature>>>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name())
            .field("declaration", &self.declaration())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Finds an exported function: `function`, or `module.function`.
    ///
    /// # Errors
    /// NOT_FOUND; INVALID_ARGUMENT for a malformed calling convention.
    pub fn function(&self, name: &str) -> Result<Function> {
        Function::new(self.context().function(name)?, self)
    }

    /// Returns the functions that the last module exports for callers. Names that begin with `__` or contain `$` are
    /// reserved for the runtime.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed calling convention.
    pub fn functions(&self) -> Result<Vec<Function>> {
        let modules = self.context().program().modules();
        let Some(module) = modules.last() else { return Ok(Vec::new()) };
        let exports = (0..).map_while(|export| Some((export, module.function(Linkage::Export, export)?)));
        let public = exports.filter(|(_, info)| !info.name.starts_with("__") && !info.name.contains('$'));
        public.map(|(export, _)| Function::new(self.context().export(modules.len() - 1, export)?, self)).collect()
    }
}

impl Function {
    pub(crate) fn new(function: vm::Function, session: &Session) -> Result<Function> {
        let fences = has_coarse_fences(function.attributes());
        let refs = |item: &ConventionItem| *item == ConventionItem::Ref;
        let last_two = function.arguments().iter().rev().take(2).filter(|item| refs(item)).count();
        if fences && last_two != 2 {
            return Err(Error::invalid_argument(format!(
                "@{} is of model {COARSE_FENCES} but takes no fences",
                function.name()
            )));
        }
        let (taken, returned) = (Primitives::of(function.arguments()), Primitives::of(function.results()));
        let (devices, allocator) = (session.device_list().clone(), session.allocator().clone());
        Ok(Function { function, fences, taken, returned, devices, allocator, signature: Arc::default() })
    }

    /// Returns the name without the module's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.function.name()
    }

    /// Returns the declaration in the module, such as `sync func @simple_mul(%input0: tensor<4xf32>, ...)`, if it contains one: that
    /// of the model, or else that of the compiler.
    #[must_use]
    pub fn declaration(&self) -> Option<&str> {
        self.function.attribute_declaration()
    }

    /// Returns the names and types of the inputs. Where the module declares none, or others than the code has, they are recovered
    /// from the code of the function: the element type and the static extents of each tensor that it checks. A translated module
    /// contains them.
    ///
    /// ```
    /// use incarnate_runtime::hal::ElementType;
    /// use incarnate_runtime::session::Session;
    /// # fn main() -> incarnate_runtime::Result<()> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/dynamic/vmvx.vmfb");
    /// let session = Session::load("local-sync", path)?;
    /// let function = session.function("scale_rows")?;
    /// let inputs = function.inputs();
    /// assert_eq!(inputs[0].to_string(), "input0: tensor<?x4xf32>");
    /// assert_eq!(inputs[0].element_type(), Some(ElementType::FLOAT_32));
    /// assert_eq!(inputs[0].shape(), Some(&[None, Some(4)][..]));
    /// assert_eq!(function.outputs()[0].name(), "output0");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn inputs(&self) -> Vec<ValueInfo> {
        self.cached_signature().inputs.clone()
    }

    /// Returns the names and types of the outputs; see [`Function::inputs`].
    #[must_use]
    pub fn outputs(&self) -> Vec<ValueInfo> {
        self.cached_signature().outputs.clone()
    }

    /// Returns the names and types of inputs and outputs.
    #[must_use]
    pub fn signature(&self) -> Signature {
        Signature::clone(self.cached_signature())
    }

    pub(super) fn cached_signature(&self) -> &Arc<Signature> {
        self.signature
            .get_or_init(|| Arc::new(Signature::new(self.function.declaration(), self.arguments(), self.results())))
    }

    /// Returns the allocator of tensors that calls create.
    pub(super) fn allocator(&self) -> &Arc<Allocator> {
        &self.allocator
    }

    /// Returns the types of the arguments in the calling convention, except for the fences that `call` supplies.
    #[must_use]
    pub fn arguments(&self) -> &[ConventionItem] {
        let all = self.function.arguments();
        if self.fences { &all[..all.len() - 2] } else { all }
    }

    /// Returns the types of the results in the calling convention.
    #[must_use]
    pub fn results(&self) -> &[ConventionItem] {
        self.function.results()
    }

    /// Returns the VM function.
    #[must_use]
    pub fn vm_function(&self) -> &vm::Function {
        &self.function
    }
}
