//! Operations on the models of `tests/models`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate::{Device, FileAccess, Function, Session, Tensor};
use incarnate_bytecode::{Archive, Contents, Module as Bytecode, VerifiedModule};
use incarnate_runtime::vm::{
    BytecodeModule, CallBuffer, Caller, Context, Limits, Module, ModuleState, NativeModule, Program, Value,
};
use incarnate_runtime::{Result, native_functions};
use incarnate_translator::{Options, generate};

use crate::Operation;

incarnate::include_module!(calls = "../../tests/models/vm/vm.vmfb");
incarnate::include_module!(native_import = "../../tests/models/native_import_module/vm.vmfb");
incarnate::include_module!(simple_mul = "../../tests/models/simple_mul/llvm-cpu.vmfb");
incarnate::include_module!(language_model = "../../tests/models/language_model/vmvx.vmfb");
incarnate::include_module!(language_model_integers = "../../tests/models/language_model_integers/vmvx.vmfb");
incarnate::include_module!(lstm = "../../tests/models/lstm/vmvx.vmfb");
incarnate::include_module!(mlp = "../../tests/models/mlp/vmvx.vmfb");

/// The inputs of `@simple_mul`.
const INPUTS: [[f32; 4]; 2] = [[1.0, 2.0, 3.0, 4.0], [2.0; 4]];

/// `local-task` with the calling thread alone, so that no other one does a part of the work.
pub(crate) const TASK: &str = "local-task?workers=1";

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models").join(file)
}

fn read(file: &str) -> Arc<Contents> {
    Arc::new(Contents::from_vec(std::fs::read(path(file)).unwrap()))
}

fn verified(file: &str) -> Arc<VerifiedModule> {
    Bytecode::parse(Archive::new(read(file)).unwrap()).unwrap().verify().unwrap()
}

fn interpreted(file: &str) -> Arc<dyn Module> {
    BytecodeModule::new(verified(file)).unwrap()
}

/// The state of the module that the benchmarks of calls import.
#[derive(Debug)]
struct Importee;

impl ModuleState for Importee {}

impl Importee {
    fn add_1(&self, _: &mut Caller<'_>, value: i32) -> Result<i32> {
        Ok(value.wrapping_add(1))
    }
}

/// Calls a function of `tests/models/vm`, interpreted or translated.
pub(crate) fn vm(name: &'static str, argument: Option<i32>, is_translated: bool) -> Operation {
    let functions = native_functions! { "add_1" => Importee::add_1 };
    let importee = NativeModule::new("native_import_module", 0, || Ok(Importee), functions);
    let module = if is_translated { calls::module() } else { interpreted("vm/vm.vmfb") };
    let program = Program::link(vec![Arc::new(importee), module]).unwrap();
    let context = Context::new(program, Limits::default()).unwrap();
    let function = context.function(name).unwrap();
    let mut invocation = context.take_invocation();
    let mut buffer = CallBuffer::new();
    Box::new(move || {
        buffer.clear();
        if let Some(argument) = argument {
            buffer.push_word(u64::from(black_box(argument).cast_unsigned()));
        }
        invocation.call(function.bound(), &mut buffer).unwrap();
    })
}

/// Calls the empty function through a session.
pub(crate) fn empty_by_session() -> Operation {
    let modules = [interpreted("native_import_module/vm.vmfb"), interpreted("vm/vm.vmfb")];
    let builder = modules.into_iter().fold(Session::builder(), |builder, module| builder.module(module));
    let function = builder.build().unwrap().function("vm_benchmark.empty").unwrap();
    Box::new(move || function.call::<()>(()).unwrap())
}

/// Calls a function with a number by its typed method.
pub(crate) fn scalar_by_method() -> Operation {
    let module = native_import::Module::load(&Device::create("local-sync").unwrap()).unwrap();
    Box::new(move || _ = black_box(black_box(&module).add_1(black_box(41)).unwrap()))
}

fn session(device: Option<&str>, module: Arc<dyn Module>) -> Session {
    let builder = Session::builder().module(module);
    device.into_iter().fold(builder, |builder, device| builder.device(device)).build().unwrap()
}

/// Calls `@simple_mul` through a session, with tensors on its device.
pub(crate) fn mul_by_session(device: Option<&'static str>, file: &'static str) -> Operation {
    by_session(device, interpreted(file))
}

/// The same, translated.
pub(crate) fn translated_mul_by_session(device: &'static str) -> Operation {
    by_session(Some(device), simple_mul::module())
}

fn by_session(device: Option<&'static str>, module: Arc<dyn Module>) -> Operation {
    let session = session(device, module);
    let function = session.function("simple_mul").unwrap();
    let [a, b] = INPUTS.map(|input| Tensor::new(&session, &[4], &input).unwrap());
    let product: Tensor<f32> = function.call((&a, &b)).unwrap();
    assert_eq!(product.to_vec().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    Box::new(move || _ = function.call::<Tensor<f32>>((&a, &b)).unwrap())
}

/// The same with a packed call of the virtual machine.
pub(crate) fn mul_packed(device: Option<&'static str>, file: &'static str) -> Operation {
    let session = session(device, interpreted(file));
    let function = session.function("simple_mul").unwrap();
    let views = INPUTS.map(|input| Tensor::new(&session, &[4], &input).unwrap().view().clone());
    let mut invocation = session.context().take_invocation();
    let mut buffer = CallBuffer::new();
    Box::new(move || {
        buffer.clear();
        views.iter().for_each(|view| buffer.push(Value::Ref(view.clone().into())));
        invocation.call(function.vm_function().bound(), &mut buffer).unwrap();
    })
}

/// Calls the typed method of the translated module, with tensors or with arrays of the program.
pub(crate) fn mul_by_method(device: &str, is_of_tensors: bool) -> Operation {
    let module = simple_mul::Module::load(&Device::create(device).unwrap()).unwrap();
    let [a, b] = INPUTS.map(|input| Tensor::new(module.session(), &[4], &input).unwrap());
    match is_of_tensors {
        true => Box::new(move || _ = module.simple_mul(&a, &b).unwrap()),
        false => Box::new(move || {
            let [a, b] = black_box(&INPUTS);
            black_box(module.simple_mul(a, b).and_then(|product| product.to_vec()).unwrap());
        }),
    }
}

/// Ten steps of a recurrent net, of which each records a command buffer.
pub(crate) fn scan(file: &'static str) -> Operation {
    ten_steps(interpreted(file))
}

/// The same, translated with its kernels.
pub(crate) fn translated_scan() -> Operation {
    ten_steps(lstm::module())
}

fn ten_steps(module: Arc<dyn Module>) -> Operation {
    let session = session(Some("local-sync"), module);
    let function = session.function("lstm").unwrap();
    let info = &function.inputs()[0];
    let shape: Vec<u64> = info.shape().unwrap_or_default().iter().map(|extent| extent.unwrap_or(1)).collect();
    let count: u64 = shape.iter().product();
    let x = Tensor::new(&session, &shape, &vec![0.5f32; count as usize]).unwrap();
    let length = Tensor::new(&session, &[], &[10i32]).unwrap();
    Box::new(move || _ = function.call::<(Tensor<f32>, Tensor<f32>)>((&x, &length)).unwrap())
}

/// Counts the steps of 27 to 1 on a device: a loop of the host around three kernels.
pub(crate) fn collatz(device: &'static str) -> Operation {
    let session = session(Some(device), interpreted("collatz/llvm-cpu.vmfb"));
    let function = session.function("steps_on_device").unwrap();
    let start = Tensor::new(&session, &[], &[27i32]).unwrap();
    Box::new(move || _ = function.call::<Tensor<i32>>((&start,)).unwrap())
}

/// Calls the perceptron, interpreted: contractions and loops of a whole model.
pub(crate) fn perceptron(device: &'static str) -> Operation {
    eight_rows(session(Some(device), interpreted("mlp/vmvx.vmfb")))
}

/// The same, translated with its kernels.
pub(crate) fn translated_perceptron(device: &'static str) -> Operation {
    eight_rows(session(Some(device), mlp::module()))
}

fn eight_rows(session: Session) -> Operation {
    let function = session.function("mlp").unwrap();
    let x = Tensor::new(&session, &[8, 32], &[0.5f32; 256]).unwrap();
    Box::new(move || _ = function.call::<Tensor<f32>>((&x,)).unwrap())
}

/// A translated language model with the weights of its file, and a function of it. Its conversations have 64 positions. Vectors may be rounded to
/// integers.
fn language_model(function: &str, are_integers: bool) -> (Session, Function) {
    let builder = Session::builder().device("local-sync");
    let builder = match are_integers {
        true => builder.module(language_model_integers::module()),
        false => builder.module(language_model::module()),
    };
    let builder = builder.parameter_file("model", path("language_model/model.gguf"), FileAccess::Map);
    let session = builder.build().unwrap();
    let function = session.function(function).unwrap();
    (session, function)
}

/// Reads a prompt of 60 tokens.
pub(crate) fn prompt_is_read() -> Operation {
    let (session, function) = language_model("prefill", false);
    let tokens = Tensor::new(&session, &[60], &[5i32; 60]).unwrap();
    Box::new(move || _ = function.call::<Tensor<f32>>((&tokens, 0i32, 0i32)).unwrap())
}

/// Computes the logits behind a token at the last position.
pub(crate) fn token_is_written(are_integers: bool) -> Operation {
    let (_, function) = language_model("decode", are_integers);
    Box::new(move || _ = function.call::<Tensor<f32>>((5i32, 63i32, 0i32)).unwrap())
}

/// The same of two conversations.
pub(crate) fn tokens_are_written() -> Operation {
    let (session, function) = language_model("decode_batch", false);
    let tokens = Tensor::new(&session, &[2], &[5i32; 2]).unwrap();
    Box::new(move || _ = function.call::<Tensor<f32>>((&tokens, 63i32, 63i32, 0i32, 1i32)).unwrap())
}

/// Reads and verifies a module.
pub(crate) fn load(file: &'static str) -> Operation {
    let contents = read(file);
    Box::new(move || _ = black_box(VerifiedModule::load(contents.clone()).unwrap()))
}

/// Loads a module into a session and calls a function for the first time, which lowers it.
pub(crate) fn first_call() -> Operation {
    let module = verified("simple_mul/vmvx.vmfb");
    Box::new(move || {
        let session = session(Some("local-sync"), BytecodeModule::new(module.clone()).unwrap());
        let function = session.function("simple_mul").unwrap();
        let [a, b] = INPUTS.map(|input| Tensor::new(&session, &[4], &input).unwrap());
        black_box(function.call::<Tensor<f32>>((&a, &b)).unwrap());
    })
}

/// Translates a module with its kernels to tokens, as the macro does.
pub(crate) fn translate(file: &'static str) -> Operation {
    let module = verified(file);
    Box::new(move || {
        let output = generate(&module, &Options::default()).unwrap();
        black_box(output);
    })
}
