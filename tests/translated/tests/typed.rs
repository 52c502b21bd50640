//! The typed methods of translated modules: types, shapes, results, errors, names.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![allow(clippy::needless_borrows_for_generic_args, reason = "programs may pass references")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../../support/native.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod native;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use incarnate::runtime::bytecode::VerifiedModule;
use incarnate::runtime::hal::{self, DeviceOptions, DriverRegistry};
use incarnate::runtime::mapping::MappedFile;
use incarnate::runtime::session::{BF16, F16, Input};
use incarnate::runtime::vm::{Buffer, BytecodeModule, List, Module, Ref, Value, ValueType};
use incarnate::{Device, Session, StatusCode, Tensor};
use incarnate_translated_tests as models;
use incarnate_translated_tests::hostile;

fn device() -> Arc<Device> {
    Device::create("local-sync").unwrap()
}

#[test]
fn tensors_go_in_as_slices_arrays_and_tensors() {
    let module = models::simple_mul_llvm_cpu::Module::load(&device()).unwrap();
    let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], vec![2.0f32; 4]);
    let product = module.simple_mul(&a, &b).unwrap();
    assert_eq!((product.shape(), product.to_vec().unwrap()), (&[4][..], vec![2.0, 4.0, 6.0, 8.0]));
    let tensor = Tensor::new(module.session(), &[4], &a).unwrap();
    assert_eq!(module.simple_mul(&tensor, product).unwrap().to_vec().unwrap(), [2.0, 8.0, 18.0, 32.0]);
    for error in [module.simple_mul(&a[..3], &b), module.simple_mul(Input::new(&[2, 2], &a), &b)] {
        let error = error.unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("argument `input0`") && text.contains("sync func @simple_mul(%input0"), "{text}");
    }
}

#[test]
fn open_dimensions_are_those_of_the_call() {
    let module = models::dynamic_llvm_cpu::Module::load(&device()).unwrap();
    let scaled = module.scale_rows(vec![1.0f32; 12], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(scaled.shape(), [3, 4]);
    let product = module.matmul(&[[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]], &[[1.0], [1.0]]).unwrap();
    assert_eq!((product.shape(), product.to_vec().unwrap()), (&[3, 1][..], vec![3.0, 7.0, 11.0]));
    let error = module.matmul(vec![1.0f32; 4], &[[1.0], [1.0]]).unwrap_err().to_string();
    assert!(error.contains("fit several shapes"), "{error}");
    let (_, rows): (Tensor<f32>, i64) = module.normalise(&[[1.0f32, 2.0, 3.0, 4.0]; 5]).unwrap();
    assert_eq!(rows, 5);
}

#[test]
fn several_results_are_a_tuple() {
    let module = models::several_results_llvm_cpu::Module::load(&device()).unwrap();
    let (sum, most, at, count, negated) = module.statistics(&[[1.0f32, 2.0, 3.0, 4.0, 5.0]; 6]).unwrap();
    assert_eq!((sum.to_vec().unwrap(), sum.shape()), (vec![90.0], &[][..]));
    assert_eq!((most.to_vec().unwrap(), at.to_vec().unwrap(), count), (vec![5.0; 6], vec![4; 6], 30));
    assert_eq!(negated.shape(), [6, 5]);
    module.nothing().unwrap();
}

#[test]
fn numbers_are_numbers() {
    let module = models::scalars_llvm_cpu::Module::load(&device()).unwrap();
    assert_eq!(module.echo(1, 2, 3.0, 4.0, 5).unwrap(), (1, 2, 3.0, 4.0, 5));
}

#[test]
fn elements_are_of_the_declared_type() {
    let module = models::mixed_types_llvm_cpu::Module::load(&device()).unwrap();
    let (half, brain) = ([F16::from_f32(1.5); 8], [BF16::from_f32(2.0); 8]);
    let wide: Tensor<f64> = module.widen(&half, &brain).unwrap();
    assert_eq!(wide.len(), 8);
    let (half, brain): (Tensor<F16>, Tensor<BF16>) = module.narrow(&[1.0f32; 8]).unwrap();
    assert_eq!((half.len(), brain.len()), (8, 8));
    let module = models::integers_llvm_cpu::Module::load(&device()).unwrap();
    let condition: Vec<bool> = (0..9).map(|index| index % 2 == 0).collect();
    let (chosen, _): (Tensor<i16>, Tensor<bool>) = module.select(&condition, &[1; 9], &[2; 9]).unwrap();
    assert_eq!(chosen.to_vec().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2, 1]);
}

#[test]
fn state_belongs_to_the_instance() {
    let (one, other) = (models::accumulator_llvm_cpu::Module::load(&device()), device());
    let (one, other) = (one.unwrap(), models::accumulator_llvm_cpu::Module::load(&other).unwrap());
    one.accumulate(&[1.0f32; 4]).unwrap();
    let same = one.clone();
    same.accumulate(&[1.0f32; 4]).unwrap();
    assert_eq!((one.count().unwrap(), other.count().unwrap()), (2, 0));
    one.reset().unwrap();
    assert_eq!(same.count().unwrap(), 0);
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread on a future.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn functions_with_fences_are_futures() {
    let module = models::mlp_async_external::Module::load(&device()).unwrap();
    let sync = models::mlp_llvm_cpu::Module::load(&device()).unwrap();
    let input = vec![0.5f32; 8 * 32];
    let output: Tensor<f32> = wait(module.mlp(&input)).unwrap();
    assert_eq!(output.to_vec().unwrap(), sync.mlp(&input).unwrap().to_vec().unwrap());
    let error = wait(module.mlp(&[1.0f32])).unwrap_err().to_string();
    assert!(error.contains("async func @mlp"), "{error}");
}

#[test]
fn errors_name_the_call_and_the_location() {
    let module = models::failures_vm::Module::load_with(Session::builder()).unwrap();
    let error = module.fail(5).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.to_string().contains("as told") && error.to_string().contains("calling @fail"), "{error}");
    let location = error.locations().first().unwrap();
    assert_eq!((location.module.as_deref(), location.function.as_deref()), (Some("failures"), Some("fail")));
    assert_eq!(module.load_2(2).unwrap(), 3);
    assert_eq!(module.load_2(4).unwrap_err().code(), StatusCode::OutOfRange);
}

#[test]
fn names_are_safe_and_distinct() {
    let module = hostile::Module::load_with(Session::builder()).unwrap();
    assert_eq!(module.foo_bar().unwrap(), 2);
    let numbers = [module.foo_bar_2(), module.foo_bar_3(), module.type_(), module.self_(), module.load_2()];
    assert_eq!(numbers.map(Result::unwrap), [1, 3, 4, 5, 6]);
    let numbers = [module.fn_main(), module.function(), module.drawkcab()];
    assert_eq!(numbers.map(Result::unwrap), [7, 8, 9]);
    assert_eq!((module.v0(21).unwrap(), module.state(4).unwrap(), module.call(8).unwrap()), (42, 8, 16));
    assert_eq!(module.declared_otherwise(11).unwrap(), 11);
    assert!(module.text(0).is_err());
    assert!(module.text(3).unwrap_err().to_string().contains("\"; } */ \\n {"));
    // The original names stay available at run time.
    let name = "\") } */ fn main() {} /* \n\r\t";
    assert_eq!(module.session().function(name).unwrap().call::<i32>(()).unwrap(), 7);
    assert_eq!(module.session().context().program().modules()[0].attribute(0), Some(("key\" */", "value\n\\")));
}

/// The signatures of the public functions of a session.
fn signatures(session: &Session) -> Vec<String> {
    let functions = session.functions().unwrap();
    functions.iter().map(|function| format!("{}{}", function.name(), function.signature())).collect()
}

#[test]
fn functions_without_declarations_are_typed() {
    let device = device();
    for variant in ["llvm-cpu", "vmvx"] {
        let models_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
        let file = native::native_file(&models_folder, &format!("imported/{variant}.vmfb"));
        let session = Session::builder().shared_device(device.clone()).module_file(file).build().unwrap();
        let module = models::imported_llvm_cpu::Module::load(&device).unwrap();
        let expected = [
            "classify(input0: tensor<?x4xf32>, input1: tensor<4x3xf32>) -> (output0: tensor<?x3xf32>, output1: \
             tensor<?x3xi1>)",
            "advance(input0: tensor<2xi64>, input1: !hal.buffer_view) -> (output0: tensor<2xi64>)",
        ];
        assert_eq!(signatures(&session), expected);
        assert_eq!(signatures(module.session()), expected);
    }
    let module = models::imported_vmvx::Module::load(&device).unwrap();
    let (scores, positive): (Tensor<f32>, Tensor<bool>) =
        module.classify(&[[1.0f32, 0.0, 0.0, 0.0]], &[[1.0, -2.0, 3.0], [0.0; 3], [0.0; 3], [0.0; 3]]).unwrap();
    assert_eq!(scores.to_vec().unwrap(), [1.0, -2.0, 3.0]);
    assert_eq!((positive.shape(), positive.to_vec().unwrap()), (&[1, 3][..], [true, false, true].into()));
    // Nothing reads the second argument, so that its type is unknown.
    let any = Tensor::new(module.session(), &[1], &[0.0f32]).unwrap();
    let next: Tensor<i64> = module.advance(&[40, -1], any.view()).unwrap();
    assert_eq!(next.to_vec().unwrap(), [41, 0]);
    let error = module.advance(&[1i64], any.view()).unwrap_err();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
}

#[test]
fn both_modes_have_the_same_signatures() {
    let mut functions = 0;
    for (file, module) in models::MODULES {
        let path = format!("{}/../models/{file}", env!("CARGO_MANIFEST_DIR"));
        let interpreted = VerifiedModule::load(MappedFile::contents(path.as_ref()).unwrap().into()).unwrap();
        let (interpreted, translated) = (BytecodeModule::new(interpreted).unwrap(), module());
        for export in 0..translated.signature().export_count as u32 {
            assert_eq!(interpreted.declaration(export), translated.declaration(export), "{file}");
            functions += usize::from(translated.declaration(export).is_some());
        }
    }
    assert!(functions > 300, "{functions}");
}

#[test]
fn named_results_are_a_struct_with_the_attributes_that_are_asked_for() {
    let module = hostile::Module::load_with(Session::builder()).unwrap();
    let results = module.named(7, 3).unwrap();
    assert_eq!((results.fn_, results.fn_2, results.a_b), (7, 3, 4));
    assert!(results == results.clone());
}

#[test]
fn executables_of_either_format_can_be_preferred() {
    let device = device();
    let native = models::formats_native::Module::load(&device).unwrap();
    let portable = models::formats_portable::Module::load(&device).unwrap();
    let (a, b) = ([1.0f32, -2.0, 3.0, 4.0], [0.5f32; 4]);
    assert_eq!(native.simple_mul(&a, &b).unwrap().to_vec().unwrap(), [0.5, -1.0, 1.5, 2.0]);
    assert_eq!(portable.simple_mul(&a, &b).unwrap().to_vec().unwrap(), [0.5, -1.0, 1.5, 2.0]);
}

#[test]
fn devices_with_their_own_loaders_run_embedded_executables() {
    let options = DeviceOptions { loaders: Some(Vec::new()), ..DeviceOptions::default() };
    let device = DriverRegistry::default().create_device("local-sync", options).unwrap();
    assert!(models::formats_portable::Module::load(&device).is_ok());
    assert!(models::simple_mul_vmvx::Module::load(&device).is_ok());
    assert!(models::simple_mul_llvm_cpu::Module::load(&device).is_err());
}

#[test]
fn references_have_the_types_of_their_objects() {
    let module = models::references::Module::load(&device()).unwrap();
    let tensor = Tensor::new(module.session(), &[4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let memory: &Arc<hal::Buffer> = tensor.view().buffer();
    assert!(Arc::ptr_eq(memory, &module.echo_buffer(memory).unwrap()));
    assert_eq!(module.scale(memory, &[2.0; 4]).unwrap().to_vec().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    let fence = Arc::new(hal::Fence::new());
    assert!(Arc::ptr_eq(&fence, &module.echo_fence(&fence).unwrap()));
    let list = List::new(ValueType::I32, 1, None).unwrap();
    assert!(module.first(&list).is_err());
    list.push(Value::I32(7)).unwrap();
    let (first, same): (i32, Arc<List>) = module.first(&list).unwrap();
    assert!(first == 7 && Arc::ptr_eq(&list, &same));
    let (size, _): (i64, Arc<Buffer>) = module.size(&Buffer::zeroed(24, 0, None).unwrap()).unwrap();
    assert_eq!(size, 24);
}

#[test]
fn references_are_counted_where_they_are_kept() {
    let module = models::keeping::Module::load_with(Session::builder()).unwrap();
    let buffer = Buffer::zeroed(24, 0, None).unwrap();
    assert_eq!(module.look(&buffer).unwrap(), 24);
    assert_eq!(module.look_by_another(&buffer, &buffer).unwrap(), 48);
    assert_eq!(module.look_and_wait(&buffer).unwrap(), 24);
    assert_eq!(module.wait_and_look(&buffer).unwrap(), 24);
    let error = module.fail(&buffer).unwrap_err();
    assert!(error.to_string().contains("as told"), "{error}");
    assert_eq!(Arc::strong_count(&buffer), 1);
    let (one, other) = module.same(Ref::from(buffer.clone())).unwrap();
    assert!(Arc::strong_count(&buffer) == 3 && one.same(&other));
    drop((one, other));
    module.keep(&buffer).unwrap();
    assert_eq!(Arc::strong_count(&buffer), 2);
    assert_eq!(module.keep_by_another(&buffer).unwrap(), 24);
    assert_eq!(Arc::strong_count(&buffer), 2);
    drop(buffer);
    let kept = module.kept().unwrap();
    assert_eq!((Arc::strong_count(&kept), kept.length()), (2, 24));
    // The same through the packed interface, which has its own references.
    let call = |name: &str, argument: Ref| {
        let results = module.session().context().function(name).unwrap().call(&[Value::Ref(argument)]);
        results.map(|results| results.len())
    };
    for (name, results) in [("look", 1), ("wait_and_look", 1), ("same", 2)] {
        assert_eq!(call(name, Ref::from(kept.clone())).unwrap(), results, "{name}");
    }
    assert!(call("fail", Ref::from(kept.clone())).is_err());
    assert!(call("look", Ref::Null).is_err());
    assert_eq!(Arc::strong_count(&kept), 2);
    drop(module);
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn passed_tensors_are_unshared_after_the_call() {
    let device = device();
    let mut x = Tensor::on_device(&device, &[4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let inline = models::simple_mul_inline_static::Module::load(&device).unwrap();
    let dynamic = models::simple_mul_inline_dynamic::Module::load(&device).unwrap();
    let on_device = models::simple_mul_llvm_cpu::Module::load(&device).unwrap();
    for _ in 0..3 {
        for product in [inline.simple_mul(&x, &x), dynamic.simple_mul(&x, &x), on_device.simple_mul(&x, x.clone())] {
            let mut product = product.unwrap();
            assert_eq!(product.as_slice().unwrap(), [1.0, 4.0, 9.0, 16.0]);
            assert!(x.as_slice().is_some(), "a call kept its argument");
        }
    }
    assert!(inline.simple_mul(&x, &[1.0; 3]).is_err() && x.as_slice().is_some());
    // A view of the argument outlives it.
    let reshape = models::reshape_llvm_cpu::Module::load(&device).unwrap();
    let square = reshape.reshape(&x).unwrap();
    drop(x);
    assert_eq!(square.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}
