//! Instances of translated modules, which the typed methods of generated code call.

use alloc::format;
use alloc::sync::Arc;
#[cfg(feature = "std")]
use alloc::vec::{self, Vec};

use super::description::Description;
use super::module::TranslatedModule;
use super::state::State;
use crate::bytecode::{CallingConvention, declaration_of};
use crate::hal::{BorrowScope, Buffer, BufferView};
use crate::session::{Element, InlineNative, IntoInput, Memory, PassedRef, Session, Tensor, fits, shape_text};
#[cfg(feature = "std")]
use crate::session::{Function, SessionBuilder};
use crate::vm::{Context, FromRef, Invocation, Limits, Ref, Stack, Step, TypedRefObject};
#[cfg(feature = "std")]
use crate::vm::{Module, Value};
use crate::{Error, Result, ResultExt};

/// A translated module in a session. Clones share the state.
#[derive(Clone, Debug)]
pub struct Instance {
    session: Session,
    state: Arc<State>,
    /// The index of the module in the session's program.
    #[cfg(feature = "std")]
    index: usize,
    /// Slices are passed to the module's functions in place.
    borrows_inputs: bool,
}

/// The least size in bytes of a slice that is passed in place. Below it, a copy takes less time than an external buffer and its
/// pin guard; `cargo bench --bench invoke` measures both.
pub const MIN_BORROWED_BYTES: usize = 4 << 10;

impl Instance {
    /// Adds the module of a description to a session as the last one, and builds the session.
    ///
    /// # Errors
    /// Those of [`SessionBuilder::build`].
    #[cfg(feature = "std")]
    pub fn new(builder: SessionBuilder, description: &'static Description) -> Result<Instance> {
        let module: Arc<dyn Module> = TranslatedModule::new(description);
        Instance::of_session(builder.module(module).build()?, description)
    }

    /// Creates a session of the module of a description, which needs no device.
    ///
    /// # Errors
    /// Those of [`Session::inline`].
    pub fn inline(description: &'static Description, natives: &[InlineNative], limits: Limits) -> Result<Instance> {
        Instance::of_session(Session::inline(TranslatedModule::new(description), natives, limits)?, description)
    }

    fn of_session(session: Session, description: &'static Description) -> Result<Instance> {
        let context = session.context();
        let index = context.program().modules().len().saturating_sub(1);
        let state = context.state(index).cloned().and_then(|state| state.downcast_arc().ok());
        let state = state.ok_or_else(|| Error::internal("the last module of the session is not the translated one"))?;
        let borrows_inputs = description.borrows_inputs(session.inputs_only_read().is_some());
        Ok(Instance {
            session,
            state,
            #[cfg(feature = "std")]
            index,
            borrows_inputs,
        })
    }

    /// Returns the session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the module's state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    fn context(&self) -> &Arc<Context> {
        self.session.context()
    }

    /// Adds the called function to the error of a call.
    ///
    /// # Errors
    /// The error of the call.
    #[inline(always)]
    pub fn finish<R>(&self, export: u32, result: Result<R>) -> Result<R> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.explain(export, error)),
        }
    }

    #[cold]
    fn explain(&self, export: u32, error: Error) -> Error {
        let description = self.state.description;
        let Some(row) = description.exports.get(export as usize) else { return error };
        let declaration = description.functions.get(row.function as usize).and_then(|function| {
            let convention = CallingConvention::parse(function.convention).ok()?;
            declaration_of(function.attributes.iter().copied(), &convention)
        });
        error.calling(row.name, declaration)
    }

    /// Calls a function of the module that does not yield.
    ///
    /// # Errors
    /// The errors of the call; the instance stays usable.
    #[inline]
    pub fn call<R>(&self, export: u32, body: impl FnOnce(&State, &mut Stack) -> Result<R>) -> Result<R> {
        let run = |invocation: &mut Invocation| invocation.run_whole(|stack| body(&self.state, stack));
        let result = self.context().with_invocation(run);
        self.finish(export, result)
    }

    /// Calls a function of the module that may yield, and blocks while it is suspended.
    ///
    /// # Errors
    /// The errors of the call; the instance stays usable.
    #[inline]
    pub fn call_yieldable<R>(
        &self,
        export: u32,
        body: impl FnOnce(&State, &mut Stack) -> Result<Step<R>>,
        resume: impl Fn(&State, &mut Stack) -> Result<Step<R>>,
    ) -> Result<R> {
        let result = self.context().with_invocation(|invocation| {
            invocation.run(|stack| body(&self.state, stack), |stack| resume(&self.state, stack))
        });
        self.finish(export, result)
    }

    /// Calls an export that takes fences, and awaits its results.
    ///
    /// # Errors
    /// The errors of the call; the instance stays usable.
    #[cfg(feature = "std")]
    pub async fn call_async(&self, export: u32, arguments: Vec<Value>) -> Result<vec::IntoIter<Value>> {
        let begin = || {
            let function = Function::new(self.context().export(self.index, export)?, &self.session)?;
            function.call_async::<Vec<Value>>(arguments.as_slice())
        };
        let result = match begin() {
            Ok(call) => call.await,
            Err(error) => Err(error),
        };
        self.finish(export, result).map(Vec::into_iter)
    }

    /// Calls a closure in which slices can be passed in place. The borrow ends with the closure: a buffer that the program still
    /// holds then gets a copy of the bytes.
    ///
    /// A slice must outlive the call of this function, not only the closure:
    ///
    /// ```
    /// # use incarnate_runtime::support::{Instance, Result};
    /// # fn call(instance: &Instance) -> Result<()> {
    /// let elements = vec![1.0f32; 4];
    /// instance.with_borrowed_inputs(|instance| {
    ///     instance.input("input0", &elements, &[Some(4)])?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0597
    /// # use incarnate_runtime::support::{Instance, Result};
    /// # fn call(instance: &Instance) -> Result<()> {
    /// instance.with_borrowed_inputs(|instance| {
    ///     let elements = vec![1.0f32; 4];
    ///     instance.input("input0", &elements, &[Some(4)])?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[inline(always)]
    pub fn with_borrowed_inputs<'env, R>(&self, body: impl FnOnce(&BorrowedInputs<'_, 'env>) -> R) -> R {
        BorrowScope::enter(|scope| body(&BorrowedInputs { instance: self, scope }))
    }

    /// Copies an argument to the memory of the session's device. `dims` are the dimensions that the function takes; None
    /// stands for a dynamic dimension.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the tensor has another shape; RESOURCE_EXHAUSTED if memory is short.
    #[inline(always)]
    pub fn input<'a, T: Element>(
        &self,
        name: &str,
        input: impl IntoInput<'a, T>,
        dims: &[Option<u64>],
    ) -> Result<PassedRef<'a>> {
        input.into_input().into_view(&**self.session.allocator(), dims).context(|| format!("argument `{name}`"))
    }

    /// Converts a result to a tensor; `dims` as for [`Instance::input`].
    ///
    /// # Errors
    /// INTERNAL if it is not a tensor of that shape.
    #[inline(always)]
    pub fn output<T: Element>(&self, name: &str, output: Ref, dims: &[Option<u64>]) -> Result<Tensor<T>> {
        let tensor = BufferView::from_ref(output).and_then(Tensor::from_view);
        let tensor: Tensor<T> = tensor.context(|| format!("result `{name}`"))?;
        if !fits(tensor.shape(), dims) {
            return Err(other_shape(name, tensor.shape(), dims));
        }
        Ok(tensor)
    }

    /// Converts a result to an object.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is null or an object of another type.
    pub fn output_object<T: FromRef>(&self, name: &str, output: Ref) -> Result<T> {
        T::from_ref(output).context(|| format!("result `{name}`"))
    }
}

/// An instance that passes slices in place: see [`Instance::with_borrowed_inputs`].
#[derive(Debug)]
pub struct BorrowedInputs<'s, 'env> {
    instance: &'s Instance,
    scope: &'s BorrowScope<'env>,
}

impl<'env> BorrowedInputs<'_, 'env> {
    /// Passes an argument in place if it has [`MIN_BORROWED_BYTES`] or more, is aligned to 64 bytes, and the module's kernels
    /// only read some of their bindings; otherwise copies it. A slice in place is copied before the program writes to it.
    ///
    /// # Errors
    /// Those of [`Instance::input`].
    #[inline(always)]
    pub fn input<T: Element>(
        &self,
        name: &str,
        input: impl IntoInput<'env, T>,
        dims: &[Option<u64>],
    ) -> Result<PassedRef<'env>> {
        input.into_input().into_view(self, dims).context(|| format!("argument `{name}`"))
    }
}

impl core::ops::Deref for BorrowedInputs<'_, '_> {
    type Target = Instance;
    #[inline(always)]
    fn deref(&self) -> &Instance {
        self.instance
    }
}

impl<'env> Memory<'env> for BorrowedInputs<'_, 'env> {
    #[inline(always)]
    fn buffer(&self, bytes: &'env [u8]) -> Result<Arc<Buffer>> {
        let session = &self.instance.session;
        if bytes.len() >= MIN_BORROWED_BYTES && self.instance.borrows_inputs && BorrowScope::accepts(bytes) {
            return self.scope.borrow(session.allocator(), bytes, session.inputs_only_read());
        }
        session.allocator().buffer(bytes)
    }

    fn copy(&self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        Memory::copy(&**self.instance.session.allocator(), bytes)
    }
}

#[cold]
fn other_shape(name: &str, shape: &[u64], dims: &[Option<u64>]) -> Error {
    Error::internal(format!("result `{name}` has shape {shape:?}, declared is {}", shape_text(dims)))
}

/// Returns the next result of [`Instance::call_async`].
///
/// # Errors
/// INTERNAL if it has another type.
#[cfg(feature = "std")]
pub fn next_result<T: crate::session::FromValue>(results: &mut vec::IntoIter<Value>) -> Result<T> {
    T::from_value(results.next().unwrap_or(Value::None)).context(|| "results of a call")
}
