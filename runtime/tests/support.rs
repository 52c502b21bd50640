//! The support module of translated code: a module as the translator emits it, compared with the same one interpreted.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use incarnate_runtime::bytecode::{Contents, VerifiedModule, assemble};
use incarnate_runtime::support::{
    self, At, Box, CallBuffer, Completion, Constants, Dependency, Description, Export, Function, HalState, Here,
    ImportedFunction, Ref, Result, Stack, State, Step, TranslatedModule, ValueType, semantics,
};
use incarnate_runtime::vm::{
    Buffer, BytecodeModule, Caller, Context, Limits, Linkage, Module, ModuleState, NativeModule, Outcome, Program,
    Span, Value, ValueType as VmType,
};
use incarnate_runtime::{StatusCode, native_functions};

const SOURCE: &str = "vm.module @m version 3
vm.type i32
vm.type !vm.buffer
vm.import @n.sum cconv \"0iCiirD_i\"
vm.import @n.wait cconv \"0i_i\"
vm.import optional @n.missing cconv \"0i_i\"
vm.rodata[0] = 01020304
vm.export @down
vm.func @down(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i0 = vm.sub.i32 %i0, %i1
  %i0 = vm.call @m.down(%i0)
  vm.return %i0
^bb2:
  vm.fail %i1, \"at the bottom\"
}
vm.export @sum
vm.func @sum(%i0: i32) -> (i32) {
^bb0:
  %r0 = vm.const.ref.rodata 0
  %i0 = vm.call.variadic @n.sum segments[65535, 2](%i0, %i0, %i0, %r0, %i0, %i0, %R0)
  vm.return %i0
}
vm.export @missing
vm.func @missing(%i0: i32) -> (i32) {
^bb0:
  %i0 = vm.call @n.missing(%i0)
  vm.return %i0
}
vm.export @wait
vm.func @wait(%i0: i32) -> (i32) {
^bb0:
  vm.call.yieldable @n.wait(%i0) -> ^bb1(%i1)
^bb1:
  %i0 = vm.add.i32 %i0, %i1
  vm.return %i0
}
vm.export @keep
vm.func @keep(%r0: !vm.ref<?>) -> (!vm.ref<?>) {
^bb0:
  %r1 = vm.global.load.ref .refs[0] : !vm.buffer
  vm.global.store.ref %R0, .refs[0] : !vm.buffer
  vm.return %R1
}
";

fn verified() -> Arc<VerifiedModule> {
    VerifiedModule::load(Arc::new(Contents::from_vec(assemble(SOURCE).expect("sound assembly")))).expect("verifies")
}

const BUFFER: ValueType = ValueType::Ref(Buffer::TYPE);

static MODULE: Description = Description {
    targets: &[],
    loaders: &[],
    executables: incarnate_runtime::support::Executables::NONE,
    name: "m",
    version: 3,
    attributes: &[],
    dependencies: &[],
    imports: &[
        ImportedFunction { name: "n.sum", convention: "0iCiirD_i", optional: false, direct: false },
        ImportedFunction { name: "n.wait", convention: "0i_i", optional: false, direct: false },
        ImportedFunction { name: "n.missing", convention: "0i_i", optional: true, direct: false },
    ],
    exports: &[
        Export { name: "down", function: 0, recovered: "" },
        Export { name: "sum", function: 1, recovered: "" },
        Export { name: "missing", function: 2, recovered: "" },
        Export { name: "wait", function: 3, recovered: "" },
        Export { name: "keep", function: 4, recovered: "" },
    ],
    functions: &[
        Function { name: "down", convention: "0i_i", attributes: &[], locations: &[] },
        Function { name: "sum", convention: "0i_i", attributes: &[], locations: &[] },
        Function { name: "missing", convention: "0i_i", attributes: &[], locations: &[] },
        Function { name: "wait", convention: "0i_i", attributes: &[], locations: &[] },
        Function { name: "keep", convention: "0r_r", attributes: &[], locations: &[] },
    ],
    sources: &[],
    global_bytes: 0,
    global_refs: 1,
    constants: Constants::Static(&[1, 2, 3, 4]),
    rodata: &[(0, 4)],
    call,
    resume,
};

fn call(state: &State, export: u32, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
    match export {
        0 => {
            let (v0,): (i32,) = support::arguments(buffer)?;
            Ok(support::results(buffer, down(stack, v0)?))
        }
        1 => {
            let (v0,): (i32,) = support::arguments(buffer)?;
            Ok(support::results(buffer, sum(state, stack, v0)?))
        }
        2 => {
            let (v0,): (i32,) = support::arguments(buffer)?;
            Ok(support::results(buffer, missing(state, stack, v0)?))
        }
        3 => {
            let (v0,): (i32,) = support::arguments(buffer)?;
            Ok(support::step(buffer, wait(state, stack, v0, None)?))
        }
        4 => {
            let (v0,): (Ref,) = support::arguments(buffer)?;
            Ok(support::results(buffer, keep(state, v0)?))
        }
        other => Err(support::no_export(&MODULE, other)),
    }
}

fn resume(state: &State, export: u32, stack: &mut Stack, buffer: &mut CallBuffer) -> Result<Completion> {
    match export {
        3 => {
            let resumed = stack.take_suspended()?;
            Ok(support::step(buffer, wait(state, stack, 0, Some(resumed))?))
        }
        other => Err(support::no_export(&MODULE, other)),
    }
}

/// `@down`
fn down(stack: &mut Stack, v0: i32) -> Result<i32> {
    const HERE: Here = Here::new(&MODULE, 0);
    support::guarded(stack, |stack| {
        if v0 != 0 {
            let v1 = semantics::sub_i32(v0, 1);
            let v2 = down(stack, v1).at(HERE, DOWN_CALL)?;
            return Ok(v2);
        }
        support::fail(1, "at the bottom").at(HERE, DOWN_FAIL)?;
        Err(support::fell_through()).at(HERE, DOWN_FAIL)
    })
}

/// `@sum`
fn sum(state: &State, stack: &mut Stack, v0: i32) -> Result<i32> {
    const HERE: Here = Here::new(&MODULE, 1);
    let v1 = state.rodata(0);
    let v2: (i32,) = state.import(0).call(stack, (v0, [(v0, v0, v1), (v0, v0, v1)])).at(HERE, SUM_CALL)?;
    Ok(v2.0)
}

/// `@missing`
fn missing(state: &State, stack: &mut Stack, v0: i32) -> Result<i32> {
    const HERE: Here = Here::new(&MODULE, 2);
    let (v1,): (i32,) = state.import(2).call(stack, (v0,)).at(HERE, 1)?;
    Ok(v1)
}

/// The state of a suspended `@wait`.
struct WaitSuspended {
    v0: i32,
}

/// `@wait`
fn wait(state: &State, stack: &mut Stack, v0: i32, resumed: Option<Box<WaitSuspended>>) -> Result<Step<i32>> {
    const HERE: Here = Here::new(&MODULE, 3);
    let (v0, step) = match resumed {
        None => (v0, state.import(1).call_yieldable::<(i32,)>(stack, (v0,)).at(HERE, 1)?),
        Some(resumed) => (resumed.v0, state.import(1).resume::<(i32,)>(stack).at(HERE, 1)?),
    };
    let Step::Done((v1,)) = step else {
        stack.suspend(Box::new(WaitSuspended { v0 }));
        return Ok(Step::Yielded);
    };
    Ok(Step::Done(semantics::add_i32(v0, v1)))
}

/// `@keep`
fn keep(state: &State, v0: Ref) -> Result<Ref> {
    const HERE: Here = Here::new(&MODULE, 4);
    let v1 = state.load_ref(0, BUFFER).at(HERE, 1)?;
    state.store_ref(0, BUFFER, v0).at(HERE, 12)?;
    Ok(v1)
}

/// Offsets of failing instructions; errors are compared with the interpreter's.
const DOWN_CALL: u32 = 0x20;
const DOWN_FAIL: u32 = 0x35;
const SUM_CALL: u32 = 8;

/// The imported module.
#[derive(Debug)]
struct Numbers;

impl ModuleState for Numbers {}

impl Numbers {
    fn sum(&self, _: &mut Caller<'_>, first: i32, rest: Span<(i32, i32, Arc<Buffer>)>) -> Result<i32> {
        let parts = rest.iter().map(|(a, b, buffer)| Ok(a + b + i32::from(buffer.load::<u8>(3)?)));
        parts.sum::<Result<i32>>().map(|rest| first + rest)
    }

    /// Yields as often as the argument tells, and returns its double.
    fn wait(&self, _: &mut Caller<'_>, times: i32) -> Result<Outcome<i32>> {
        Ok(if times > 0 { Outcome::Yield(Box::new((times, times))) } else { Outcome::Done(0) })
    }

    #[allow(clippy::boxed_local, reason = "resumed functions take what they yielded")]
    fn go_on(&self, _: &mut Caller<'_>, state: Box<(i32, i32)>) -> Result<Outcome<i32>> {
        let (times, left) = *state;
        Ok(if left > 1 { Outcome::Yield(Box::new((times, left - 1))) } else { Outcome::Done(2 * times) })
    }

    fn module() -> Arc<dyn Module> {
        let functions = native_functions! {
            "sum" => Numbers::sum,
            "wait" => Numbers::wait, resume Numbers::go_on,
        };
        Arc::new(NativeModule::new("n", 0, || Ok(Numbers), functions))
    }
}

fn both() -> [Arc<dyn Module>; 2] {
    [BytecodeModule::new(verified()).unwrap(), TranslatedModule::new(&MODULE)]
}

fn context(module: Arc<dyn Module>, limits: Limits) -> Arc<Context> {
    Context::new(Program::link(vec![Numbers::module(), module]).unwrap(), limits).unwrap()
}

/// Returns the results of a call in either mode, or the errors' texts.
fn called(limits: &Limits, name: &str, arguments: &[Value]) -> [Result<String, String>; 2] {
    both().map(|module| {
        let function = context(module, limits.clone()).function(name).unwrap();
        function.call(arguments).map(|results| format!("{results:?}")).map_err(|error| error.to_string())
    })
}

#[test]
fn translated_modules_have_the_metadata_of_interpreted_ones() {
    let [interpreted, translated] = both();
    assert_eq!(interpreted.name(), translated.name());
    assert_eq!(interpreted.signature(), translated.signature());
    for linkage in [Linkage::Internal, Linkage::Import, Linkage::Export] {
        for ordinal in 0..6 {
            let info = interpreted.function(linkage, ordinal);
            assert_eq!(info, translated.function(linkage, ordinal));
            let name = info.map_or("missing", |info| info.name);
            assert_eq!(interpreted.lookup(linkage, name), translated.lookup(linkage, name));
        }
    }
}

#[test]
fn calls_end_alike_in_both_modes() {
    let limits = Limits::default();
    for (name, argument) in
        [("sum", 5), ("wait", 3), ("wait", 0), ("missing", 1), ("down", 0), ("down", 3), ("down", 40)]
    {
        let [interpreted, translated] = called(&limits, name, &[Value::I32(argument)]);
        assert_eq!(interpreted, translated, "@{name}({argument})");
    }
    assert_eq!(called(&limits, "sum", &[Value::I32(5)])[1], Ok("[I32(33)]".into()));
    assert_eq!(called(&limits, "wait", &[Value::I32(3)])[1], Ok("[I32(9)]".into()));
    assert!(
        called(&limits, "missing", &[Value::I32(3)])[1].as_ref().unwrap_err().contains("`n.missing` was not resolved")
    );
}

#[test]
fn recursion_ends_at_the_same_depth() {
    let limits = Limits { call_depth: 100, ..Limits::default() };
    for depth in [100, 101, 102, 5000] {
        let [interpreted, translated] = called(&limits, "down", &[Value::I32(depth)]);
        assert_eq!(interpreted, translated, "{depth}");
    }
    // The host's stack is exhausted before the limits of trusted programs are.
    let function = context(TranslatedModule::new(&MODULE), Limits { call_depth: usize::MAX, ..Limits::default() });
    let function = function.function("down").unwrap();
    let error = function.call(&[Value::I32(i32::MAX)]).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert_eq!(error.locations().len(), 17);
    // The context stays usable.
    assert_eq!(function.call(&[Value::I32(1)]).unwrap_err().message(), "at the bottom");
}

#[test]
fn instances_have_globals_of_their_own() {
    for module in both() {
        let first = context(module.clone(), Limits::default());
        let (second, buffer) = (context(module, Limits::default()), Value::Ref(Buffer::copy_of(&[7]).unwrap().into()));
        let keep = |context: &Arc<Context>, value: &Value| {
            context.function("keep").unwrap().call(std::slice::from_ref(value)).map(|results| format!("{results:?}"))
        };
        let null = Value::Ref(Ref::Null);
        assert_eq!(keep(&first, &buffer).unwrap(), "[Ref(null)]");
        assert_eq!(keep(&second, &null).unwrap(), "[Ref(null)]");
        let fork = first.fork().err();
        // The native module cannot be forked; both modes report it.
        assert_eq!(fork.unwrap().code(), StatusCode::Unimplemented);
        assert_ne!(keep(&first, &null).unwrap(), "[Ref(null)]");
        let list = incarnate_runtime::vm::List::new(VmType::I32, 0, None).unwrap();
        let error = keep(&first, &Value::Ref(list.into())).unwrap_err();
        assert_eq!(error.message(), "reference to a !vm.list where a !vm.buffer is expected");
    }
}

static CALLS_HAL: Description = Description {
    targets: &[],
    loaders: &[],
    executables: incarnate_runtime::support::Executables::NONE,
    name: "h",
    imports: &[ImportedFunction { name: "hal.devices.count", convention: "0v_i", optional: false, direct: true }],
    exports: &[Export { name: "count", function: 0, recovered: "" }],
    functions: &[Function { name: "count", convention: "0v_i", attributes: &[], locations: &[] }],
    dependencies: &[Dependency { name: "hal", minimum_version: 0, optional: false }],
    call: |state, _, stack, buffer| {
        let count = state.hal().call("devices.count", HalState::devices_count, stack, ())?;
        Ok(support::results(buffer, count))
    },
    resume: |_, export, _, _| Err(support::no_export(&CALLS_HAL, export)),
    constants: Constants::file("/nowhere/constants.bin"),
    ..MODULE_DEFAULTS
};

/// An empty module.
const MODULE_DEFAULTS: Description = Description {
    targets: &[],
    loaders: &[],
    executables: incarnate_runtime::support::Executables::NONE,
    name: "",
    version: 0,
    attributes: &[],
    dependencies: &[],
    imports: &[],
    exports: &[],
    functions: &[],
    sources: &[],
    global_bytes: 0,
    global_refs: 0,
    constants: Constants::Static(&[]),
    rodata: &[],
    call: |_, export, _, _| Err(support::no_export(&CALLS_HAL, export)),
    resume: |_, export, _, _| Err(support::no_export(&CALLS_HAL, export)),
};

static NO_CONSTANTS: Description =
    Description { constants: Constants::file("/nowhere/constants.bin"), rodata: &[(0, 4)], ..MODULE_DEFAULTS };

/// A module named `hal` that is not this crate's.
#[derive(Debug)]
struct Impostor;

impl ModuleState for Impostor {}

impl Impostor {
    fn count(&self, _: &mut Caller<'_>) -> Result<i32> {
        Ok(7)
    }
}

#[test]
fn direct_calls_need_the_native_module_of_this_runtime() {
    let hal = incarnate_runtime::modules::hal::module(Default::default());
    let program = Program::link(vec![Arc::new(hal), TranslatedModule::new(&CALLS_HAL)]).unwrap();
    let function = Context::new(program, Limits::default()).unwrap().function("h.count").unwrap();
    assert_eq!(format!("{:?}", function.call(&[]).unwrap()), "[I32(0)]");

    let impostor =
        NativeModule::new("hal", 7, || Ok(Impostor), native_functions! { "devices.count" => Impostor::count });
    let program = Program::link(vec![Arc::new(impostor), TranslatedModule::new(&CALLS_HAL)]).unwrap();
    let error = Context::new(program, Limits::default()).unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible);
}

#[test]
fn missing_constants_are_an_error() {
    let program = Program::link(vec![TranslatedModule::new(&NO_CONSTANTS)]).unwrap();
    let error = Context::new(program, Limits::default()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/constants.bin"), "{error}");
    // Constants that are too short are an error, too.
    let few = TranslatedModule::with_constants(&NO_CONSTANTS, Arc::new(Contents::from_vec(vec![1, 2])));
    let error = Context::new(Program::link(vec![few]).unwrap(), Limits::default()).unwrap_err();
    assert_eq!(error.code(), StatusCode::OutOfRange);
}
