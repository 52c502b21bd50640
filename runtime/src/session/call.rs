//! Calls of functions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use super::convert::{Arguments, FromResults};
use super::function::Function;
use super::packer::Packer;
use crate::hal::{Fence, Reached, wait_for_results};
use crate::vm::{CallBuffer, CallFuture, CallValues, InvocationGuard, Ref, Value};
use crate::{Error, Result};

impl Function {
    /// Calls the function and waits for its results.
    ///
    /// The arguments are a tuple of tensors, of elements on the host, and of numbers; see [`ToValue`](super::ToValue). Elements are
    /// copied to the device, and take the shape that the function declares. The results are one value, a tuple, or
    /// [`Results`](super::Results) by name.
    ///
    /// ```
    /// use incarnate_runtime::session::{Results, Session, Tensor};
    /// # fn main() -> incarnate_runtime::Result<()> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/simple_mul/vmvx.vmfb");
    /// let session = Session::load("local-sync", path)?;
    /// let multiply = session.function("simple_mul")?;
    /// let product: Tensor<f32> = multiply.call(([1.0f32, 2.0, 3.0, 4.0], &vec![2.0f32; 4]))?;
    /// let results: Results = multiply.call((&product, session.tensor([0.5f32; 4])?))?;
    /// assert_eq!(results.get::<Tensor<f32>>("output0")?.to_vec()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Values of other types do not compile:
    ///
    /// ```compile_fail,E0277
    /// # use incarnate_runtime::session::{Function, Tensor};
    /// # fn call(function: &Function) -> incarnate_runtime::Result<()> {
    /// let y: Tensor<f32> = function.call(("text",))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use incarnate_runtime::session::{Function, Tensor};
    /// # fn call(function: &Function, x: &Tensor<f32>) -> incarnate_runtime::Result<()> {
    /// // One argument is a tuple, too: `call((x,))`.
    /// let y: Tensor<f32> = function.call(x)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use incarnate_runtime::session::{Function, Tensor};
    /// # fn call(function: &Function, x: &Tensor<f32>) -> incarnate_runtime::Result<()> {
    /// let y: String = function.call((x,))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// INVALID_ARGUMENT if arguments or results do not match the signature; any error of the function. The session
    /// stays usable.
    // Inlined so that primitive arguments and results stay in registers; everything else is outlined.
    #[inline(always)]
    pub fn call<R: FromResults>(&self, arguments: impl Arguments) -> Result<R> {
        let mut guard = self.function.context().borrow_invocation();
        let invocation = guard.invocation();
        if !arguments.pack_words(self.taken, invocation.buffer()) {
            return self.call_with_values(guard, &arguments);
        }
        let called = invocation.call_packed(&self.function);
        if called.is_ok()
            && let Some(results) = R::from_words(self.returned, invocation.buffer().words())
        {
            guard.give_back();
            return Ok(results);
        }
        self.finish(guard, called, None)
    }

    /// Calls the function with arguments that are not all primitives.
    fn call_with_values<R: FromResults>(
        &self,
        mut guard: InvocationGuard<'_>,
        arguments: &impl Arguments,
    ) -> Result<R> {
        let invocation = guard.invocation();
        let (called, done) = match self.pack(arguments, invocation.buffer()) {
            Ok(done) => (invocation.call_packed(&self.function), done),
            Err(error) => (Err(error), None),
        };
        self.finish(guard, called, done)
    }

    /// Converts the results of a call of any types, or explains its error.
    fn finish<R: FromResults>(
        &self,
        mut guard: InvocationGuard<'_>,
        called: Result<()>,
        done: Option<Arc<Fence>>,
    ) -> Result<R> {
        let reached = match (called, done) {
            (Ok(()), Some(done)) => wait_for_results(guard.invocation(), &self.devices, &done),
            (called, _) => called,
        };
        let buffer = guard.invocation().buffer();
        let results = match reached {
            Ok(()) => R::from_results(&mut buffer.values(self.function.results()), self),
            Err(error) => Err(error),
        };
        buffer.clear();
        guard.give_back();
        match results {
            Ok(results) => Ok(results),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Calls the function. The future is ready when the results are. Futures of several calls overlap if the program is
    /// compiled for asynchronous calls.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the arguments do not match the signature.
    pub fn call_async<R: FromResults>(&self, arguments: impl Arguments) -> Result<FunctionFuture<R>> {
        let mut buffer = CallBuffer::new();
        let done = self.pack(&arguments, &mut buffer);
        let started = done.and_then(|done| {
            let values = buffer.values(self.function.arguments()).collect::<Result<Vec<Value>>>()?;
            Ok((self.function.call_async(&values)?, done))
        });
        let (call, done) = started.map_err(|error| self.explain(error))?;
        let reached = done.as_ref().map(Fence::reached);
        Ok(FunctionFuture { call, results: None, reached, convert: R::from_results, function: self.clone() })
    }

    fn pack(&self, arguments: &impl Arguments, buffer: &mut CallBuffer) -> Result<Option<Arc<Fence>>> {
        buffer.clear();
        let mut packer = Packer::new(buffer, self);
        arguments.pack(&mut packer);
        packer.finish()?;
        Ok(self.fences.then(|| {
            let done = Arc::new(Fence::of_results());
            // A null fence to wait for, and one that signals that the results are complete.
            buffer.push_ref(Ref::Null);
            buffer.push_ref(Ref::from(done.clone()));
            done
        }))
    }

    #[cold]
    #[inline(never)]
    fn explain(&self, error: Error) -> Error {
        error.calling(self.name(), self.declaration())
    }
}

/// A call as a future; see [`Function::call_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct FunctionFuture<R> {
    call: CallFuture,
    /// The results; their contents are complete when the fence is reached.
    results: Option<Vec<Value>>,
    reached: Option<Reached>,
    convert: fn(&mut CallValues<'_>, &Function) -> Result<R>,
    function: Function,
}

impl<R> Future for FunctionFuture<R> {
    type Output = Result<R>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<R>> {
        let this = self.get_mut();
        let result = this.poll_results(task);
        result.map(|result| result.map_err(|error| this.function.explain(error)))
    }
}

impl<R> FunctionFuture<R> {
    /// Polls the call, then the fence of its results, and converts them.
    fn poll_results(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<R>> {
        if self.results.is_none() {
            self.results = Some(ready!(Pin::new(&mut self.call).poll(task))?);
        }
        if let Some(reached) = &mut self.reached {
            ready!(Pin::new(reached).poll(task))?;
        }
        let mut buffer = CallBuffer::new();
        self.results.take().into_iter().flatten().for_each(|value| buffer.push(value));
        Poll::Ready((self.convert)(&mut buffer.values(self.function.results()), &self.function))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::type_complexity, reason = "tests")]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::vm::{Buffer, Caller, ModuleState, NativeModule};
    use crate::{StatusCode, native_functions};

    #[derive(Debug)]
    struct Natives;
    impl ModuleState for Natives {}

    impl Natives {
        fn turned(&self, _: &mut Caller<'_>, a: i32, b: i64, c: f32, d: f64) -> Result<(f64, f32, i64, i32)> {
            Ok((d, c, b, a))
        }

        fn eight(&self, _: &mut Caller<'_>, a: i32, b: i32) -> Result<(i32, i32, i32, i32, i32, i32, i32, i32)> {
            Ok((a, b, a + b, a - b, b, a, a - b, a + b))
        }

        fn picky(&self, _: &mut Caller<'_>, a: i32) -> Result<i32> {
            if a < 0 { Err(Error::out_of_range("the number is negative")) } else { Ok(a) }
        }

        fn echo(&self, _: &mut Caller<'_>, buffer: Arc<Buffer>, a: i32) -> Result<(Arc<Buffer>, i32)> {
            Ok((buffer, a))
        }
    }

    fn session() -> Session {
        let module = NativeModule::new(
            "natives",
            0,
            || Ok(Natives),
            native_functions! {
                "turned" => Natives::turned,
                "eight" => Natives::eight,
                "picky" => Natives::picky,
                "echo" => Natives::echo,
            },
        );
        Session::builder().module(Arc::new(module)).build().unwrap()
    }

    #[test]
    fn primitives_keep_their_order_types_and_bits() {
        let session = session();
        let turned = session.function("natives.turned").unwrap();
        let results: (f64, f32, i64, i32) = turned.call((-1i32, i64::MIN, -0.5f32, f64::MAX)).unwrap();
        assert_eq!(results, (f64::MAX, -0.5, i64::MIN, -1));
        // Dynamically typed values take the general path.
        let values = [Value::I32(-1), Value::I64(i64::MIN), Value::F32(-0.5), Value::F64(f64::MAX)];
        assert_eq!(turned.call::<(f64, f32, i64, i32)>(values.as_slice()).unwrap(), results);
        let (d, c, b, a): (Value, f32, Value, i32) = turned.call((Value::I32(7), 8i64, &9f32, 10f64)).unwrap();
        assert!(matches!((d, c, b, a), (Value::F64(10.0), 9.0, Value::I64(8), 7)));
        let eight = session.function("natives.eight").unwrap();
        let results: (i32, i32, i32, i32, i32, i32, i32, i32) = eight.call((7, 9)).unwrap();
        assert_eq!(results, (7, 9, 16, -2, 9, 7, -2, 16));
        assert_eq!(eight.call::<Vec<i32>>((7, 9)).unwrap(), [7, 9, 16, -2, 9, 7, -2, 16]);
    }

    #[test]
    fn mismatched_arguments_and_results_are_rejected() {
        let session = session();
        let (turned, picky) = (session.function("natives.turned").unwrap(), session.function("natives.picky").unwrap());
        let refused = |result: Result<i32>, text: &str| {
            let error = result.unwrap_err();
            assert_eq!(error.code(), StatusCode::InvalidArgument);
            let shown = error.to_string();
            assert!(shown.contains(text) && shown.ends_with("; calling @picky"), "{shown}");
        };
        refused(picky.call((1i64,)), "argument 0 is the i64 1, but the function takes an i32");
        refused(picky.call((Value::F32(1.0),)), "argument 0 is the f32 1, but the function takes an i32");
        refused(picky.call((&[1i32, 2],)), "argument 0 is a tensor of i32, but the function takes an i32");
        refused(picky.call(()), "the function takes 1 argument, but 0 were given");
        refused(
            picky.call((1, 2)),
            "the function takes 1 argument, but 2 were given: elements of a tensor are one argument",
        );
        refused(picky.call::<(i32, i32)>((1,)).map(|pair| pair.0), "returns 1 value, not 2");
        refused(picky.call::<i64>((1,)).map(|_| 0), "the result is the i32 1, not of type i64");
        refused(picky.call::<()>((1,)).map(|()| 0), "returns 1 value, not 0");
        assert!(turned.call::<(f64, f32, i64, i64)>((1i32, 2i64, 3f32, 4f64)).is_err());
        assert!(turned.call::<(f64, f32, i64, i32)>((1i32, 2i64, 3f64, 4f64)).is_err());
        let error = picky.call::<i32>((-1,)).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange);
        assert!(error.to_string().contains("calling @picky"), "{error}");
        assert_eq!(picky.call::<i32>((5,)).unwrap(), 5);
    }

    #[test]
    fn only_0_and_1_are_bools() {
        let session = session();
        let (picky, eight) = (session.function("natives.picky").unwrap(), session.function("natives.eight").unwrap());
        assert_eq!([0, 1].map(|number| picky.call::<bool>((number,)).unwrap()), [false, true]);
        assert!(picky.call::<bool>((true,)).unwrap());
        for error in [picky.call::<bool>((2,)).unwrap_err(), picky.call::<(bool,)>((i32::MAX,)).unwrap_err()] {
            let text = error.to_string();
            assert!(error.code() == StatusCode::InvalidArgument && text.contains("not of type bool"), "{text}");
        }
        assert_eq!(eight.call::<Vec<bool>>((1, 0)).unwrap()[..3], [true, false, true]);
        assert!(eight.call::<Vec<bool>>((0, 1)).unwrap_err().to_string().contains("the i32 -1, not of type bool"));
    }

    #[test]
    fn errors_of_futures_name_the_function() {
        let session = session();
        let picky = session.function("natives.picky").unwrap();
        let poll = |arguments| {
            let mut future = Box::pin(picky.call_async::<i32>(arguments).unwrap());
            future.as_mut().poll(&mut TaskContext::from_waker(std::task::Waker::noop()))
        };
        assert!(matches!(poll((3,)), Poll::Ready(Ok(3))));
        let Poll::Ready(Err(error)) = poll((-1,)) else { unreachable!("a native function does not wait") };
        assert_eq!(error.code(), StatusCode::OutOfRange);
        assert!(error.to_string().contains("; calling @picky"), "{error}");
        assert!(picky.call_async::<i32>((1i64,)).unwrap_err().to_string().ends_with("; calling @picky"));
    }

    #[test]
    fn a_call_keeps_no_references() {
        let session = session();
        let echo = session.function("natives.echo").unwrap();
        let buffer = Buffer::copy_of(&[1, 2, 3]).unwrap();
        let held = || Value::Ref(Ref::Buffer(buffer.clone()));
        let alone = Arc::strong_count(&buffer);
        let (back, number): (Value, i32) = echo.call((held(), 4)).unwrap();
        assert_eq!(number, 4);
        assert_eq!(Arc::strong_count(&buffer), alone + 1);
        drop(back);
        assert!(echo.call::<(Value, i32)>((held(), 4i64)).is_err());
        assert!(echo.call::<(Value, i64)>((held(), 4)).is_err());
        assert!(echo.call::<(Value,)>((held(), 4)).is_err());
        assert_eq!(Arc::strong_count(&buffer), alone);
        assert_eq!(echo.vm_function().call(&[held(), Value::I32(4)]).unwrap().len(), 2);
        assert!(echo.vm_function().call(&[held(), Value::I64(4)]).is_err());
        assert_eq!(Arc::strong_count(&buffer), alone);
    }
}
