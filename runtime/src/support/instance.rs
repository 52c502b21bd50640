//! Instances of translated modules: what the typed methods of generated code call.

use std::sync::Arc;
use std::vec::Vec;

use super::description::Description;
use super::module::TranslatedModule;
use super::state::State;
use crate::hal::{Buffer, BufferView, Loans};
use crate::session::{Element, Function, Input, Memory, PassedRef, Session, SessionBuilder, Tensor, fits, shape_text};
use crate::vm::{Context, Invocation, Module, Ref, Stack, Step, TypedRefObject, Value};
use crate::{Error, Result, ResultExt};

/// A translated module in a session of its own, or with others. Clones share everything.
#[derive(Clone, Debug)]
pub struct Instance {
    session: Session,
    state: Arc<State>,
    /// Index of the module in the session's program.
    index: usize,
    /// Slices are lent to the module's functions where that pays.
    lends: bool,
}

/// Slices of so many bytes and more are lent in place: about here a loan and its lease for a dispatch take as long as a copy.
pub const LEAST_LENT: usize = 4 << 10;

impl Instance {
    /// Adds the module of a description to a session, as the last one, and builds that.
    ///
    /// # Errors
    /// Those of [`SessionBuilder::build`].
    pub fn new(builder: SessionBuilder, description: &'static Description) -> Result<Instance> {
        let module: Arc<dyn Module> = TranslatedModule::new(description);
        let session = builder.module(module).build()?;
        let context = session.context();
        let index = context.program().modules().len().saturating_sub(1);
        let state = context.state(index).cloned().and_then(|state| state.downcast_arc().ok());
        let state = state.ok_or_else(|| Error::internal("the last module of the session is not the translated one"))?;
        let lends = description.lends(session.inputs_only_read().is_some());
        Ok(Instance { session, state, index, lends })
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The module's state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    fn context(&self) -> &Arc<Context> {
        self.session.context()
    }

    /// The result of calling an export, with what was called where it failed.
    ///
    /// # Errors
    /// What the call failed with.
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
        let function = description.functions.get(row.function as usize);
        let mut attributes = function.into_iter().flat_map(|function| function.attributes);
        match attributes.find(|attribute| attribute.0 == crate::bytecode::DECLARATION) {
            Some((_, declaration)) => error.context(std::format!("calling `{declaration}`")),
            None => error.context(std::format!("calling @{}", row.name)),
        }
    }

    /// Runs a call of a function of the module that does not yield.
    ///
    /// # Errors
    /// What the call fails with; the instance stays usable.
    #[inline]
    pub fn call<R>(&self, export: u32, body: impl FnOnce(&State, &mut Stack) -> Result<R>) -> Result<R> {
        let run = |invocation: &mut Invocation| invocation.run_whole(|stack| body(&self.state, stack));
        let result = self.context().with_invocation(run);
        self.finish(export, result)
    }

    /// Runs a call of a function of the module that may yield to its end; while it is suspended, waits for what it waits for.
    ///
    /// # Errors
    /// What the call fails with; the instance stays usable.
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

    /// Calls an export that takes fences, and waits for its results without blocking the thread.
    ///
    /// # Errors
    /// What the call fails with; the instance stays usable.
    pub async fn call_async(&self, export: u32, arguments: Vec<Value>) -> Result<std::vec::IntoIter<Value>> {
        let begin = || {
            let function = Function::new(self.context().export(self.index, export)?)?;
            function.call_async::<Vec<Value>>(arguments.as_slice())
        };
        let result = match begin() {
            Ok(call) => call.await,
            Err(error) => Err(error),
        };
        self.finish(export, result).map(Vec::into_iter)
    }

    /// Calls the closure, in which slices can be passed in place. They are lent until it is done: if the program has kept one,
    /// it is given a copy of the bytes then.
    ///
    /// A slice must outlive the call of this function, not only a part of it:
    ///
    /// ```
    /// # use incarnate_runtime::support::{Instance, Result};
    /// # fn call(instance: &Instance) -> Result<()> {
    /// let elements = vec![1.0f32; 4];
    /// instance.lend(|instance| {
    ///     instance.input("input0", &elements, &[Some(4)])?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0597
    /// # use incarnate_runtime::support::{Instance, Result};
    /// # fn call(instance: &Instance) -> Result<()> {
    /// instance.lend(|instance| {
    ///     let elements = vec![1.0f32; 4];
    ///     instance.input("input0", &elements, &[Some(4)])?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[inline(always)]
    pub fn lend<'env, R>(&self, body: impl FnOnce(&Lender<'_, 'env>) -> R) -> R {
        Loans::scope(|loans| body(&Lender { instance: self, loans }))
    }

    /// A tensor that is passed, in the memory of the session's device. `dims` are the dimensions that the function takes; None
    /// for those that the tensor decides.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it has another shape; RESOURCE_EXHAUSTED where memory is short.
    #[inline(always)]
    pub fn input<'a, T: Element>(
        &self,
        name: &str,
        input: impl Into<Input<'a, T>>,
        dims: &[Option<u64>],
    ) -> Result<PassedRef<'a>> {
        input.into().into_view(&**self.session.allocator(), dims).context(|| std::format!("argument `{name}`"))
    }

    /// A tensor that a function returned; `dims` as above.
    ///
    /// # Errors
    /// INTERNAL where it is no tensor of that shape.
    #[inline(always)]
    pub fn output<T: Element>(&self, name: &str, output: Ref, dims: &[Option<u64>]) -> Result<Tensor<T>> {
        let tensor = BufferView::from_ref(output).and_then(Tensor::from_view);
        let tensor: Tensor<T> = tensor.context(|| std::format!("result `{name}`"))?;
        if !fits(tensor.shape(), dims) {
            return Err(other_shape(name, tensor.shape(), dims));
        }
        Ok(tensor)
    }

    /// A view that a function returned.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is none.
    pub fn output_view(&self, name: &str, output: Ref) -> Result<Arc<BufferView>> {
        BufferView::from_ref(output).context(|| std::format!("result `{name}`"))
    }
}

/// An instance that passes slices in place, see [`Instance::lend`].
#[derive(Debug)]
pub struct Lender<'l, 'env> {
    instance: &'l Instance,
    loans: &'l Loans<'env>,
}

impl<'env> Lender<'_, 'env> {
    /// As [`Instance::input`]. Slices of [`LEAST_LENT`] bytes and more are passed in place if they are aligned to 64 bytes, as
    /// kernels rely on, and the module's kernels are known to read only some of what they work on; others are copied. What
    /// the program might write is copied when it is about to.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn input<T: Element>(
        &self,
        name: &str,
        input: impl Into<Input<'env, T>>,
        dims: &[Option<u64>],
    ) -> Result<PassedRef<'env>> {
        input.into().into_view(self, dims).context(|| std::format!("argument `{name}`"))
    }
}

impl core::ops::Deref for Lender<'_, '_> {
    type Target = Instance;
    #[inline(always)]
    fn deref(&self) -> &Instance {
        self.instance
    }
}

impl<'env> Memory<'env> for Lender<'_, 'env> {
    #[inline(always)]
    fn buffer(&self, bytes: &'env [u8]) -> Result<Arc<Buffer>> {
        let session = &self.instance.session;
        if bytes.len() >= LEAST_LENT && self.instance.lends && Loans::can_lend(bytes) {
            return self.loans.lend(session.allocator(), bytes, session.inputs_only_read());
        }
        session.allocator().buffer(bytes)
    }
}

#[cold]
fn other_shape(name: &str, shape: &[u64], dims: &[Option<u64>]) -> Error {
    Error::internal(std::format!("result `{name}` has shape {shape:?}, declared is {}", shape_text(dims)))
}

/// The next of the results of [`Instance::call_async`].
///
/// # Errors
/// INTERNAL where it is of another type.
pub fn next_result<T: crate::session::FromValue>(results: &mut std::vec::IntoIter<Value>) -> Result<T> {
    T::from_value(results.next().unwrap_or(Value::None)).context(|| "results of a call")
}
