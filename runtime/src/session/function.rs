//! Functions of a session.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::convert::{Arguments, FromResults, Packer, Primitives};
use crate::bytecode::{COARSE_FENCES, ConventionItem, DECLARATION, INVOCATION_MODEL};
use crate::hal::{Fence, Reached};
use crate::vm::{self, CallBuffer, CallFuture, CallValues, Lease, Ref, Value};
use crate::{Error, Result};

/// A function of a session. Clones share it; calls from several threads run at once.
#[derive(Clone, Debug)]
pub struct Function {
    function: vm::Function,
    /// The function takes fences, which calls here provide.
    fences: bool,
    taken: Primitives,
    returned: Primitives,
}

impl Function {
    pub(crate) fn new(function: vm::Function) -> Result<Function> {
        let fences = function.attribute(INVOCATION_MODEL) == Some(COARSE_FENCES);
        let refs = |item: &ConventionItem| *item == ConventionItem::Ref;
        let last_two = function.arguments().iter().rev().take(2).filter(|item| refs(item)).count();
        if fences && last_two != 2 {
            return Err(Error::invalid_argument(format!(
                "@{} is of model {COARSE_FENCES} but takes no fences",
                function.name()
            )));
        }
        let (taken, returned) = (Primitives::of(function.arguments()), Primitives::of(function.results()));
        Ok(Function { function, fences, taken, returned })
    }

    /// Name, without the module's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.function.name()
    }

    /// The declaration in the model, such as `sync func @simple_mul(%input0: tensor<4xf32>, ...)`, where the module has it.
    #[must_use]
    pub fn declaration(&self) -> Option<&str> {
        self.function.attribute(DECLARATION)
    }

    /// Types of the arguments; without the fences that calls here provide.
    #[must_use]
    pub fn arguments(&self) -> &[ConventionItem] {
        let all = self.function.arguments();
        if self.fences { &all[..all.len() - 2] } else { all }
    }

    /// Types of the results.
    #[must_use]
    pub fn results(&self) -> &[ConventionItem] {
        self.function.results()
    }

    /// The VM's view of the function.
    #[must_use]
    pub fn vm_function(&self) -> &vm::Function {
        &self.function
    }

    /// Calls the function and waits until its results are there.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for other arguments or results than the function has; what the function fails with. The session
    /// stays usable.
    // Inlined where primitives are passed and returned, so that they stay in registers as long as they can; what else there is
    // to do is apart.
    #[inline(always)]
    pub fn call<R: FromResults>(&self, arguments: impl Arguments) -> Result<R> {
        let mut lease = self.function.context().lease();
        let invocation = lease.invocation();
        if !arguments.pack_words(self.taken, invocation.buffer()) {
            return self.call_with_values(lease, &arguments);
        }
        let called = invocation.call_packed(&self.function);
        if called.is_ok()
            && let Some(results) = R::from_words(self.returned, invocation.buffer().words())
        {
            lease.give_back();
            return Ok(results);
        }
        self.finish(lease, called, None)
    }

    /// Calls the function with other values than primitives alone.
    fn call_with_values<R: FromResults>(&self, mut lease: Lease<'_>, arguments: &impl Arguments) -> Result<R> {
        let invocation = lease.invocation();
        let (called, done) = match self.pack(arguments, invocation.buffer()) {
            Ok(done) => (invocation.call_packed(&self.function), done),
            Err(error) => (Err(error), None),
        };
        self.finish(lease, called, done)
    }

    /// Takes the results of a call, whatever they are, or says what failed.
    fn finish<R: FromResults>(&self, mut lease: Lease<'_>, called: Result<()>, done: Option<Arc<Fence>>) -> Result<R> {
        let buffer = lease.invocation().buffer();
        let reached = match (called, done) {
            (Ok(()), Some(done)) => done.wait_unless_abandoned(),
            (called, _) => called,
        };
        let results = match reached {
            Ok(()) => R::from_results(&mut buffer.values(self.function.results())),
            Err(error) => Err(error),
        };
        buffer.clear();
        lease.give_back();
        match results {
            Ok(results) => Ok(results),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Calls the function; the future is ready when the results are. Futures of several calls overlap where the program is
    /// compiled for it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for other arguments than the function has.
    pub fn call_async<R: FromResults>(&self, arguments: impl Arguments) -> Result<FunctionFuture<R>> {
        let mut values = Vec::with_capacity(arguments.count() + 2);
        arguments.for_each(&mut |value| values.push(value));
        let done = self.fences.then(|| {
            let done = Arc::new(Fence::new());
            values.extend([Value::Ref(Ref::Null), Value::Ref(Ref::from(done.clone()))]);
            done
        });
        let call = self.function.call_async(&values)?;
        let reached = done.as_ref().map(Fence::reached);
        Ok(FunctionFuture { call, results: None, reached, convert: R::from_results, items: self.results().into() })
    }

    fn pack(&self, arguments: &impl Arguments, buffer: &mut CallBuffer) -> Result<Option<Arc<Fence>>> {
        buffer.clear();
        let mut packer = Packer::new(buffer, self.arguments());
        arguments.pack(&mut packer);
        packer.finish()?;
        Ok(self.fences.then(|| {
            let done = Arc::new(Fence::new());
            // Nothing to wait for, and a fence that is reached when the results are there.
            buffer.push_ref(Ref::Null);
            buffer.push_ref(Ref::from(done.clone()));
            done
        }))
    }

    #[cold]
    #[inline(never)]
    fn explain(&self, error: Error) -> Error {
        error.context(match self.declaration() {
            Some(declaration) => format!("calling `{declaration}`"),
            None => format!("calling @{}", self.name()),
        })
    }
}

/// A call as a future, see [`Function::call_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct FunctionFuture<R> {
    call: CallFuture,
    /// What the call returned; its contents are there when the fence is reached.
    results: Option<Vec<Value>>,
    reached: Option<Reached>,
    convert: fn(&mut CallValues<'_>) -> Result<R>,
    items: Box<[ConventionItem]>,
}

impl<R> Future for FunctionFuture<R> {
    type Output = Result<R>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<R>> {
        let this = self.get_mut();
        if this.results.is_none() {
            match Pin::new(&mut this.call).poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(results) => this.results = Some(results?),
            }
        }
        if let Some(reached) = &mut this.reached {
            match Pin::new(reached).poll(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => result?,
            }
        }
        let mut buffer = CallBuffer::new();
        this.results.take().into_iter().flatten().for_each(|value| buffer.push(value));
        Poll::Ready((this.convert)(&mut buffer.values(&this.items)))
    }
}
