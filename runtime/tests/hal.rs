//! Compiled models on the `hal` module and a device.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../tests/support/native.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod native;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_runtime::StatusCode;
use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::hal::{
    BufferParameters, BufferView, Deadline, Device, DeviceOptions, DriverRegistry, ElementType, EncodingType, Fence,
};
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::modules::hal::{HalOptions, module};
use incarnate_runtime::session::Session;
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Program, Ref, Value};

/// Returns the file of a test model.
fn model_file(model: &str) -> PathBuf {
    native::native_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"), model)
}

/// Creates a context of one of the repository's test models on local-sync.
fn load(model: &str) -> (Arc<Device>, Arc<Context>) {
    load_on("local-sync", model)
}

fn load_on(uri: &str, model: &str) -> (Arc<Device>, Arc<Context>) {
    let verified = VerifiedModule::load(Arc::new(MappedFile::contents(&model_file(model)).unwrap())).unwrap();
    let device = DriverRegistry::default().create_device(uri, DeviceOptions::default()).unwrap();
    let hal = module(HalOptions { devices: vec![Arc::clone(&device)], ..HalOptions::default() });
    let program = Program::link(vec![Arc::new(hal), BytecodeModule::new(verified).unwrap()]).unwrap();
    (device, Context::new(program, Limits::default()).unwrap())
}

fn view(device: &Device, shape: &[u64], values: &[f32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let buffer = device.allocator().allocate(BufferParameters::DEVICE, bytes.len() as u64).unwrap();
    buffer.write(0, &bytes).unwrap();
    let view = BufferView::new(buffer, shape, ElementType::FLOAT_32, EncodingType::DENSE_ROW_MAJOR).unwrap();
    Value::Ref(Arc::new(view).into())
}

fn floats(result: &Value) -> Vec<f32> {
    let Value::Ref(reference) = result else { return Vec::new() };
    let bytes = reference.get::<BufferView>().unwrap().buffer().to_vec().unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn a_warm_call_reuses_pooled_memory() {
    let (device, context) = load("simple_mul/llvm-cpu.vmfb");
    let function = context.function("module.simple_mul").unwrap();
    let arguments = [view(&device, &[4], &[1.0, 2.0, 3.0, 4.0]), view(&device, &[4], &[2.0; 4])];
    assert_eq!(floats(&function.call(&arguments).unwrap()[0]), [2.0, 4.0, 6.0, 8.0]);
    let warm = device.allocator().statistics();
    for _ in 0..100 {
        function.call(&arguments).unwrap();
    }
    let statistics = device.allocator().statistics();
    assert_eq!(statistics.system_allocations, warm.system_allocations);
    assert_eq!(statistics.live, warm.live);
}

#[test]
fn mismatched_arguments_are_rejected_by_name() {
    let (device, context) = load("simple_mul/llvm-cpu.vmfb");
    let function = context.function("module.simple_mul").unwrap();
    let error = function.call(&[view(&device, &[4], &[1.0; 4]), view(&device, &[3], &[2.0; 3])]).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    let text = error.to_string();
    assert!(text.contains("input1") && text.contains("shape is 3, expected 4"), "{text}");
    let null = function.call(&[view(&device, &[4], &[1.0; 4]), Value::Ref(Ref::Null)]).unwrap_err();
    assert!(null.to_string().contains("hal.buffer_view"), "{null}");
}

#[test]
fn an_asynchronous_function_runs_when_its_fence_is_signalled() {
    let (device, context) = load("simple_mul/async-external.vmfb");
    let function = context.function("module.simple_mul").unwrap();
    let inputs = [view(&device, &[4], &[0.0; 4]), view(&device, &[4], &[3.0; 4])];
    let fences = [Arc::new(Fence::new()), Arc::new(Fence::new())];
    let [wait, signal] = &fences;
    let arguments: Vec<Value> =
        inputs.iter().cloned().chain(fences.iter().map(|fence| Value::Ref(Arc::clone(fence).into()))).collect();
    let results = function.call(&arguments).unwrap();
    assert!(!signal.query().unwrap());
    // The function reads the contents as of the signal.
    let Value::Ref(input) = &inputs[0] else { return };
    let bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    input.get::<BufferView>().unwrap().buffer().write(0, &bytes).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| wait.signal().unwrap());
        signal.wait(Deadline::NEVER).unwrap();
    });
    assert_eq!(floats(&results[0]), [3.0, 6.0, 9.0, 12.0]);
}

#[test]
fn asynchronous_calls_overlap() {
    for uri in ["local-sync", "local-task?workers=1", "local-task?workers=2", "local-task?workers=4"] {
        let (device, context) = load_on(uri, "simple_mul/async-external.vmfb");
        let function = context.function("module.simple_mul").unwrap();
        let call = |inputs: [Value; 2], wait: &Arc<Fence>, signal: &Arc<Fence>| {
            let fences = [wait, signal].map(|fence| Value::Ref(Arc::clone(fence).into()));
            function.call(&inputs.into_iter().chain(fences).collect::<Vec<Value>>()).unwrap().remove(0)
        };
        let factor = |value| view(&device, &[4], &[value; 4]);
        let fence = || Arc::new(Fence::new());
        // Three concurrent calls: two that are unordered, and one that takes the first one's result.
        let [begin_first, first_done, begin_second, second_done, third_done] = [(); 5].map(|()| fence());
        let first = call([factor(2.0), factor(3.0)], &begin_first, &first_done);
        let second = call([factor(5.0), factor(7.0)], &begin_second, &second_done);
        let third = call([first.clone(), factor(10.0)], &first_done, &third_done);
        assert!([&first_done, &second_done, &third_done].iter().all(|fence| !fence.query().unwrap()), "{uri}");
        std::thread::scope(|scope| {
            scope.spawn(|| begin_second.signal().unwrap());
            second_done.wait(Deadline::NEVER).unwrap();
        });
        assert_eq!(floats(&second), [35.0; 4], "{uri}");
        assert!(!first_done.query().unwrap() && !third_done.query().unwrap(), "{uri}");
        std::thread::scope(|scope| {
            scope.spawn(|| begin_first.signal().unwrap());
            third_done.wait(Deadline::NEVER).unwrap();
        });
        assert_eq!((floats(&first), floats(&third)), (vec![6.0; 4], vec![60.0; 4]), "{uri}");
    }
}

#[test]
fn an_asynchronous_function_fails_with_its_wait_fence() {
    let (device, context) = load("simple_mul/async-external.vmfb");
    let function = context.function("module.simple_mul").unwrap();
    let [wait, signal] = [Arc::new(Fence::new()), Arc::new(Fence::new())];
    let mut arguments = vec![view(&device, &[4], &[1.0; 4]), view(&device, &[4], &[3.0; 4])];
    arguments.extend([&wait, &signal].map(|fence| Value::Ref(Arc::clone(fence).into())));
    function.call(&arguments).unwrap();
    wait.fail(&incarnate_runtime::Error::unavailable("the sensor is gone"));
    assert_eq!(signal.query().unwrap_err().message(), "the sensor is gone");
}

#[test]
fn threads_call_one_model_at_once() {
    let (device, context) = load("mlp/llvm-cpu.vmfb");
    let function = context.function(&format!("{}.mlp", context.program().modules()[1].name())).unwrap();
    let input: Vec<f32> = (0..8 * 32).map(|index| (index % 7) as f32 * 0.25 - 0.5).collect();
    let expected = floats(&function.call(&[view(&device, &[8, 32], &input)]).unwrap()[0]);
    assert_eq!(expected.len(), 8 * 10);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let results = function.call(&[view(&device, &[8, 32], &input)]).unwrap();
                    assert_eq!(floats(&results[0]), expected);
                }
            });
        }
    });
}

#[test]
fn mapped_constants_are_used_in_place() {
    for model in ["digits/llvm-cpu.vmfb", "convolution/llvm-cpu.vmfb"] {
        let (device, _context) = load(model);
        // The initialisers allocate memory only for computed values, not for the weights.
        let statistics = device.allocator().statistics();
        assert!(statistics.allocated < 4096, "{model}: {statistics:?}");
    }
}

/// Returns a model's bytes with other target features in the text that records them, which keeps its length.
fn with_features(model: &str, features: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(model_file(model)).unwrap();
    let find =
        |from: usize, text: &[u8]| from + bytes[from..].windows(text.len()).position(|window| window == text).unwrap();
    let (start, next) = (find(0, b"cpu_features = \""), b"data_layout = ");
    let end = find(start, next) + next.len();
    let text = format!("{:width$}", format!("cpu_features = \"{features}\""), width = end - start);
    bytes[start..end].copy_from_slice(text.as_bytes());
    bytes
}

/// Features that no processor has together, and some that it has.
#[cfg(target_arch = "x86_64")]
const FEATURES: [&str; 2] = ["+fma4,+egpr", "+sse2,-fma4"];
#[cfg(target_arch = "aarch64")]
const FEATURES: [&str; 2] = ["+lse128,+sme2p1", "+neon,-lse128"];

#[test]
fn machine_code_is_refused_if_the_processor_lacks_a_feature() {
    let load = |features: &str| {
        let bytes = with_features("simple_mul/llvm-cpu.vmfb", features);
        Session::builder().device("local-sync").module_bytes(bytes).build()
    };
    let [absent, present] = FEATURES;
    assert!(load(present).is_ok() && load("").is_ok());
    let error = load(absent).unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible);
    let text = error.to_string();
    let (format, cpu) = match cfg!(target_arch = "aarch64") {
        true => ("arm_64", "cortex-a72"),
        false => ("x86_64", "generic"),
    };
    let needs = format!("(embedded-elf-{format}, {cpu}); machine code for {cpu} needs features that");
    assert!(text.contains(&needs), "{text}");
    assert!(absent.split(',').any(|feature| text.contains(&feature[1..])), "{text}");
}

#[test]
fn a_module_with_bytecode_needs_no_features() {
    let session = |features: &str| {
        let bytes = with_features("several_formats/vmvx-and-llvm-cpu.vmfb", features);
        Session::builder().device("local-sync").module_bytes(bytes).build().unwrap()
    };
    assert_eq!(session(FEATURES[0]).devices().len(), session("").devices().len());
}
