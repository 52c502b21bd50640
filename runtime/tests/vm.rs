//! The VM as programs use it: linking, state, suspension, limits, errors. The modules are assembled from text.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use incarnate_runtime::bytecode::{Contents, VerifiedModule, assemble};
use incarnate_runtime::vm::{
    Buffer, BytecodeModule, Caller, Context, Ledger, Limits, Linkage, Module, ModuleState, NativeModule, Outcome,
    Program, Signal, Span, Value, WaitSource,
};
use incarnate_runtime::{Result, StatusCode, native_functions};

fn module(text: &str) -> Arc<BytecodeModule> {
    let bytes = assemble(text).expect("sound assembly");
    BytecodeModule::new(VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).expect("verifies")).unwrap()
}

fn context_of(modules: Vec<Arc<dyn Module>>) -> Result<Arc<Context>> {
    Context::new(Program::link(modules)?, Limits::default())
}

/// A module whose functions record their arguments, and one that yields until it is released.
#[derive(Debug, Default)]
struct Recorder {
    log: Arc<Mutex<Vec<String>>>,
    gate: Arc<Gate>,
    forks: Arc<AtomicUsize>,
}

impl ModuleState for Recorder {}

/// A condition to wait for, or a time.
#[derive(Debug, Default)]
struct Gate {
    open: Mutex<(bool, Vec<Waker>)>,
    blocked: AtomicI32,
    end: OnceLock<Instant>,
}

impl Gate {
    fn open(&self) {
        let mut open = self.open.lock().unwrap();
        open.0 = true;
        open.1.drain(..).for_each(Waker::wake);
    }
}

impl WaitSource for Gate {
    fn poll_ready(&self, waker: &Waker) -> bool {
        let mut open = self.open.lock().unwrap();
        if !open.0 && self.end.get().is_none() {
            open.1.push(waker.clone());
        }
        open.0 || self.end.get().is_some_and(|end| *end <= Instant::now())
    }

    fn end(&self) -> Option<Instant> {
        self.end.get().copied()
    }

    fn block(&self, _: Option<Duration>, _: &dyn Fn() -> bool) -> Result<()> {
        // No other thread of the test would open the gate.
        self.blocked.fetch_add(1, Ordering::Relaxed);
        self.open();
        Ok(())
    }
}

impl Recorder {
    fn nested(&self, _: &mut Caller<'_>, groups: Span<(i32, Span<i32>)>, last: i32) -> Result<i32> {
        let mut text = String::new();
        for (first, rest) in groups.iter() {
            text += &format!("{first}{:?} ", &**rest);
        }
        self.log.lock().unwrap().push(format!("{text}{last}"));
        Ok(groups.iter().map(|(first, rest)| first + rest.iter().sum::<i32>()).sum::<i32>() + last)
    }

    fn say(&self, _: &mut Caller<'_>, what: i32) -> Result<()> {
        self.log.lock().unwrap().push(what.to_string());
        Ok(())
    }

    fn lengths(
        &self,
        _: &mut Caller<'_>,
        a: &Buffer,
        b: Arc<Buffer>,
        c: Option<Arc<Buffer>>,
    ) -> Result<(i64, Arc<Buffer>)> {
        let c = c.map_or(100, |c| c.length());
        Ok(((a.length() + b.length() + c) as i64, b))
    }

    fn wait(&self, caller: &mut Caller<'_>, value: i32) -> Result<Outcome<i32>> {
        caller.stack.wait_for(self.gate.clone());
        Ok(Outcome::Yield(Box::new(value)))
    }

    #[allow(clippy::boxed_local, reason = "resumed functions take what they yielded")]
    fn wait_over(&self, _: &mut Caller<'_>, value: Box<i32>) -> Result<Outcome<i32>> {
        Ok(Outcome::Done(*value + 1))
    }

    fn module(&self) -> Arc<NativeModule<Recorder>> {
        let (log, gate, forks) = (self.log.clone(), self.gate.clone(), self.forks.clone());
        let make = move || Ok(Recorder { log: log.clone(), gate: gate.clone(), forks: forks.clone() });
        let functions = native_functions! {
            "nested" => Recorder::nested,
            "lengths" => Recorder::lengths,
            "say" => Recorder::say,
            "wait" => Recorder::wait, resume Recorder::wait_over,
        };
        let fork = |state: &Recorder| {
            Ok(Recorder { log: state.log.clone(), gate: state.gate.clone(), forks: state.forks.clone() })
        };
        let notify = |state: &Recorder, signal| {
            state.log.lock().unwrap().push(format!("{signal:?}"));
            if signal == Signal::Fork {
                state.forks.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        Arc::new(NativeModule::new("recorder", 3, make, functions).with_fork(fork).with_notify(notify))
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

#[test]
fn spans_within_spans_arrive_as_they_are_nested() {
    let recorder = Recorder::default();
    let program = module(
        "vm.module @m version 0
         vm.import @recorder.nested cconv \"0CiCiDDi_i\"
         vm.export @f
         vm.func @f(%i0: i32, %i1: i32, %i2: i32) -> (i32) {
         ^bb0:
           %i3 = vm.call.variadic @recorder.nested segments[2, 0, 3, 65535](%i0, %i1, %i0, %i1, %i2, %i2)
           vm.return %i3
         }",
    );
    let context = context_of(vec![recorder.module(), program]).unwrap();
    let results = context.function("f").unwrap().call(&[Value::I32(1), Value::I32(20), Value::I32(300)]).unwrap();
    assert_eq!(recorder.log(), ["1[] 20[1, 20, 300] 300"]);
    assert_eq!(results[0].to_i32(), Some(642));
}

/// Reference arguments that the caller keeps are borrowed: they are valid after the call, also if one is passed twice,
/// or moved in the same call, or if another bytecode module is called.
#[test]
fn references_that_are_passed_stay_with_their_owner() {
    let callee = module(
        "vm.module @callee version 0
         vm.type !vm.buffer
         vm.export @pass
         vm.func @pass(%r0: !vm.buffer) -> (!vm.buffer, i64) {
         ^bb0:
           %i0:1 = vm.buffer.length %r0
           vm.return %R0, %i0
         }",
    );
    let program = module(
        "vm.module @m version 0
         vm.type !vm.buffer
         vm.import @recorder.lengths cconv \"0rrr_Ir\"
         vm.import @callee.pass cconv \"0r_rI\"
         vm.export @f
         vm.func @f() -> (i64, i64, i64, i32) {
         ^bb0:
           %i0 = vm.const.i32 16
           %i2:3 = vm.const.i64 3
           %r0 = vm.buffer.alloc %i2:3, %i0
           %i2:3 = vm.const.i64 20
           %r1 = vm.buffer.alloc %i2:3, %i0
           %r2 = vm.const.ref.zero
           %i2:3, %r3 = vm.call @recorder.lengths(%r0, %r0, %r2)
           %i4:5, %r0 = vm.call @recorder.lengths(%r1, %r0, %r0)
           %r2, %i6:7 = vm.call @callee.pass(%r1)
           %i0 = vm.cmp.eq.ref %r1, %r2
           %i6:7, %r3 = vm.call @recorder.lengths(%r1, %r0, %R1)
           %i1 = vm.cmp.nz.ref %r1
           %i0 = vm.add.i32 %i0, %i1
           vm.discard.refs %r0, %r1, %r2, %r3
           vm.return %i2, %i4, %i6, %i0
         }",
    );
    let context = context_of(vec![Recorder::default().module(), callee, program]).unwrap();
    for _ in 0..2 {
        let results = context.function("f").unwrap().call(&[]).unwrap();
        let results: Vec<_> = results.iter().map(|value| value.to_i64().unwrap()).collect();
        assert_eq!(results, [106, 26, 43, 1]);
    }
}

const WAITING: &str = "vm.module @m version 0
    vm.import @recorder.wait cconv \"0i_i\"
    vm.func @inner(%i0: i32) -> (i32) {
    ^bb0:
      vm.call.yieldable @recorder.wait(%i0) -> ^bb1(%i1)
    ^bb1:
      vm.yield ^bb2()
    ^bb2:
      %i1 = vm.add.i32 %i1, %i0
      vm.return %i1
    }
    vm.export @f
    vm.func @f(%i0: i32) -> (i32) {
    ^bb0:
      vm.call.yieldable @inner(%i0) -> ^bb1(%i1)
    ^bb1:
      vm.return %i1
    }";

#[test]
fn a_suspended_call_resumes_when_its_wait_is_over() {
    let recorder = Recorder::default();
    // The second module calls the first, so that two interpreters and a native function are suspended at once.
    let outer = module(
        "vm.module @outer version 0
         vm.import @m.f cconv \"0i_i\"
         vm.export @g
         vm.func @g(%i0: i32) -> (i32) {
         ^bb0:
           vm.call.yieldable @m.f(%i0) -> ^bb1(%i1)
         ^bb1:
           %i1 = vm.add.i32 %i1, %i0
           vm.return %i1
         }",
    );
    let context = context_of(vec![recorder.module(), module(WAITING), outer]).unwrap();
    let function = context.function("outer.g").unwrap();

    let mut call = pin!(function.call_async(&[Value::I32(10)]).unwrap());
    let mut task = TaskContext::from_waker(Waker::noop());
    for _ in 0..5 {
        assert!(call.as_mut().poll(&mut task).is_pending());
    }
    recorder.gate.open();
    let results = loop {
        if let Poll::Ready(results) = call.as_mut().poll(&mut task) {
            break results.unwrap();
        }
    };
    assert_eq!(results[0].to_i32(), Some(31));
    assert_eq!(recorder.gate.blocked.load(Ordering::Relaxed), 0);
    // A blocking caller waits until it is done.
    assert_eq!(function.call(&[Value::I32(1)]).unwrap()[0].to_i32(), Some(4));
    assert_eq!(recorder.gate.blocked.load(Ordering::Relaxed), 1);
}

#[test]
fn an_asynchronous_call_is_woken_at_the_end_of_its_wait() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let recorder = Recorder::default();
    recorder.gate.end.set(Instant::now() + Duration::from_millis(20)).unwrap();
    let context = context_of(vec![recorder.module(), module(WAITING)]).unwrap();
    let function = context.function("f").unwrap();
    let mut call = pin!(function.call_async(&[Value::I32(10)]).unwrap());
    // Nothing but the end of the wait wakes it.
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let results = loop {
        match call.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(results) => break results.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(results[0].to_i32(), Some(21));
}

#[test]
fn a_dropped_call_leaves_the_context_usable() {
    let recorder = Recorder::default();
    let context = context_of(vec![recorder.module(), module(WAITING)]).unwrap();
    let function = context.function("f").unwrap();
    let mut invocation = context.take_invocation();
    let mut buffer = incarnate_runtime::vm::CallBuffer::new();
    buffer.push(Value::I32(1));
    assert_eq!(invocation.begin(function.bound(), &mut buffer).unwrap(), incarnate_runtime::vm::Completion::Yielded);
    let second = invocation.begin(function.bound(), &mut buffer).unwrap_err();
    assert_eq!(second.code(), StatusCode::FailedPrecondition);
    invocation.cancel();
    context.give_invocation(invocation);
    assert_eq!(function.call(&[Value::I32(5)]).unwrap()[0].to_i32(), Some(11));
}

const STATEFUL: &str = "vm.module @m version 0
    //! globals 4 0
    vm.import @recorder.say cconv \"0i_v\"
    vm.export @__init
    vm.func @__init() -> () {
    ^bb0:
      %i0 = vm.const.i32 7
      vm.global.store.i32 %i0, .rwdata[0]
      vm.call @recorder.say(%i0)
      vm.return
    }
    vm.export @__deinit
    vm.func @__deinit() -> () {
    ^bb0:
      %i0 = vm.global.load.i32 .rwdata[0]
      vm.call @recorder.say(%i0)
      vm.return
    }
    vm.export @add
    vm.func @add(%i0: i32) -> (i32) {
    ^bb0:
      %i1 = vm.global.load.i32 .rwdata[0]
      %i0 = vm.add.i32 %i0, %i1
      vm.global.store.i32 %i0, .rwdata[0]
      vm.return %i0
    }";

#[test]
fn state_is_initialised_forked_notified_and_deinitialised() {
    let recorder = Recorder::default();
    let context = context_of(vec![recorder.module(), module(STATEFUL)]).unwrap();
    let add = |context: &Arc<Context>, value| {
        context.function("add").unwrap().call(&[Value::I32(value)]).unwrap()[0].to_i32().unwrap()
    };
    assert_eq!(add(&context, 1), 8);
    let child = context.fork().unwrap();
    assert_eq!((add(&child, 10), add(&context, 2)), (18, 10));
    assert_eq!(recorder.forks.load(Ordering::Relaxed), 1);
    context.notify(Signal::LowMemory).unwrap();
    drop(child);
    drop(context);
    assert_eq!(recorder.log(), ["7", "Fork", "LowMemory", "18", "10"]);
}

#[test]
fn a_context_is_extended_with_the_same_state() {
    let recorder = Recorder::default();
    let base = context_of(vec![recorder.module(), module(STATEFUL)]).unwrap();
    let caller = module(
        "vm.module @caller version 0
         vm.import @m.add cconv \"0i_i\"
         vm.export @add_twice
         vm.func @add_twice(%i0: i32) -> (i32) {
         ^bb0:
           %i1 = vm.call @m.add(%i0)
           %i1 = vm.call @m.add(%i0)
           vm.return %i1
         }",
    );
    assert_eq!(base.extend(vec![recorder.module()]).unwrap_err().code(), StatusCode::AlreadyExists);
    let context = base.extend(vec![caller]).unwrap();
    let call = |context: &Arc<Context>, name, value| {
        context.function(name).unwrap().call(&[Value::I32(value)]).unwrap()[0].to_i32().unwrap()
    };
    assert_eq!((call(&context, "add_twice", 1), call(&base, "add", 10)), (9, 19));
    assert_eq!(base.function("add_twice").unwrap_err().code(), StatusCode::NotFound);
    drop(base);
    assert_eq!(call(&context, "add", 1), 20);
    assert_eq!(recorder.log(), ["7"]);
    drop(context);
    // The initialiser and the deinitialiser ran once.
    assert_eq!(recorder.log(), ["7", "20"]);
}

#[test]
fn linking_reports_missing_old_and_different_imports() {
    let importing = |import: &str| {
        let text = format!("vm.module @m version 0\n{import}\nvm.func @f() -> () {{\n^bb0:\n vm.return\n}}");
        module(&text)
    };
    let link = |import: &str| Program::link(vec![Recorder::default().module(), importing(import)]);
    assert!(link("vm.import @recorder.say cconv \"0i_v\"").is_ok());
    let error = link("vm.import @recorder.shout cconv \"0i_v\"").unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (StatusCode::NotFound, "module @m imports `recorder.shout`, which no module exports")
    );
    let error = link("vm.import @recorder.say cconv \"0I_v\"").unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible);
    let twice = Program::link(vec![Recorder::default().module(), Recorder::default().module()]);
    assert_eq!(twice.unwrap_err().code(), StatusCode::AlreadyExists);
}

#[test]
fn runaway_programs_end_within_their_limits() {
    let program = module(
        "vm.module @m version 0
         vm.export @recurse
         vm.func @recurse(%i0: i32) -> (i32) {
         ^bb0:
           %i0 = vm.call @recurse(%i0)
           vm.return %i0
         }
         vm.export @spin
         vm.func @spin() -> () {
         ^bb0:
           vm.br ^bb0()
         }
         vm.export @hoard
         vm.func @hoard(%i0: i32) -> () {
         ^bb0:
           %i2:3 = vm.ext.i32.i64.u %i0
           %i1 = vm.const.i32 16
           %r0 = vm.buffer.alloc %i2:3, %i1
           vm.discard.refs %r0
           vm.return
         }",
    );
    let limits = Limits {
        call_depth: 1000,
        stack_bytes: 1 << 20,
        ledger: Ledger::new(1 << 16, 1000),
        fuel: Some(100_000),
        ..Limits::default()
    };
    let context = Context::new(Program::link(vec![program]).unwrap(), limits).unwrap();
    for _ in 0..3 {
        let error = context.function("recurse").unwrap().call(&[Value::I32(1)]).unwrap_err();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        assert_eq!(error.locations()[0].function.as_deref(), Some("recurse"));
        let error = context.function("spin").unwrap().call(&[]).unwrap_err();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        let hoard = context.function("hoard").unwrap();
        assert_eq!(hoard.call(&[Value::I32(1 << 20)]).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert!(hoard.call(&[Value::I32(1 << 10)]).is_ok());
    }
}

#[test]
fn errors_collect_locations_of_the_call_stack() {
    let program = module(
        "vm.module @m version 0
         vm.export @inner
         vm.func @inner(%i0: i32, %i1: i32) -> (i32) {
         ^bb0:
           %i0 = vm.div.i32.s %i0, %i1
           vm.return %i0
         }
         vm.export @outer
         vm.func @outer(%i0: i32) -> (i32) {
         ^bb0:
           %i1 = vm.const.i32.zero
           %i0 = vm.call @inner(%i0, %i1)
           vm.return %i0
         }",
    );
    let context = context_of(vec![program]).unwrap();
    let error = context.function("outer").unwrap().call(&[Value::I32(1)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "INVALID_ARGUMENT; integer division by zero; at @m.inner+0x1, called from @m.outer+0x4"
    );
    let error = context.function("outer").unwrap().call(&[Value::F32(1.0)]).unwrap_err();
    assert_eq!(error.message(), "argument 0 of `outer` is F32(1.0), not of type I32");
}

#[test]
fn calls_from_many_threads_share_a_context() {
    let context = context_of(vec![Recorder::default().module(), module(STATEFUL)]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let add = context.function("add").unwrap();
                for _ in 0..1000 {
                    add.call(&[Value::I32(0)]).unwrap();
                }
            });
        }
    });
    assert_eq!(context.function("add").unwrap().call(&[Value::I32(0)]).unwrap()[0].to_i32(), Some(7));
}

#[test]
fn modules_can_be_inspected() {
    let module = module(STATEFUL);
    assert_eq!(module.lookup(Linkage::Export, "add"), Some(2));
    assert_eq!(module.function(Linkage::Export, 2).unwrap().calling_convention, "0i_i");
    assert_eq!(module.function(Linkage::Import, 0).unwrap().name, "recorder.say");
    assert_eq!(module.function(Linkage::Export, 3), None);
    assert_eq!(module.signature().internal_count, 3);
}

#[test]
fn globals_are_charged_to_the_ledger() {
    let module = module("vm.module @m version 0\n//! globals 4096 16\n");
    let state = |ledger: Ledger| {
        let program = Program::link(vec![Arc::clone(&module) as Arc<dyn Module>]).unwrap();
        Context::new(program, Limits { ledger, ..Limits::default() })
    };
    assert_eq!(state(Ledger::new(4096, 10)).unwrap_err().code(), StatusCode::ResourceExhausted);
    let ledger = Ledger::new(8192, 10);
    let context = state(ledger.clone()).unwrap();
    assert!(ledger.bytes() >= 4096 && ledger.objects() == 1, "{ledger:?}");
    // A fork has globals of its own, for which there is no memory.
    assert_eq!(context.fork().unwrap_err().code(), StatusCode::ResourceExhausted);
    drop(context);
    assert_eq!((ledger.bytes(), ledger.objects()), (0, 0));
}
