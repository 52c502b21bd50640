//! Tests of the module's functions as programs call them: a buffer and its storage are two views of one memory.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::StatusCode;
use crate::hal::{Buffer, BufferView, ElementType, EncodingType};
use crate::vm::{CallBuffer, Context, Function, Limits, Module, Program, Ref, Value};

fn context() -> Arc<Context> {
    let modules: alloc::vec::Vec<Arc<dyn Module>> = alloc::vec![Arc::new(module(HalInlineOptions::default()))];
    Context::new(Program::link(modules).unwrap(), Limits::default()).unwrap()
}

fn function(context: &Arc<Context>, name: &str) -> Function {
    context.function(&alloc::format!("{NAME}.{name}")).unwrap()
}

/// Calls a function whose arguments have no spans.
fn call(context: &Arc<Context>, name: &str, arguments: &[Value]) -> Result<alloc::vec::Vec<Value>> {
    function(context, name).call(arguments)
}

fn reference(value: &Value) -> Ref {
    match value {
        Value::Ref(reference) => reference.clone(),
        other => unreachable!("{other:?} is no reference"),
    }
}

/// Returns the integers among results.
fn numbers(results: &[Value]) -> alloc::vec::Vec<i64> {
    let number = |value: &Value| match value {
        Value::I32(number) => i64::from(*number),
        Value::I64(number) => *number,
        other => unreachable!("{other:?} is no integer"),
    };
    results.iter().map(number).collect()
}

#[test]
fn storage_and_buffer_are_the_same_memory() {
    let context = context();
    let results = call(&context, "buffer.allocate", &[Value::I32(64), Value::I64(16)]).unwrap();
    let buffer = reference(&results[0]).to::<Buffer>().unwrap();
    let storage = reference(&results[1]);
    storage.buffer().unwrap().store::<u32>(3, 0x0403_0201).unwrap();
    let mut bytes = [0; 4];
    buffer.read(12, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4]);
    // The storage of a subspan covers only the subspan.
    let part = [results[0].clone(), Value::I64(8), Value::I64(8)];
    let part = call(&context, "buffer.subspan", &part).unwrap();
    let part = reference(&call(&context, "buffer.storage", &part).unwrap()[0]);
    assert_eq!(part.buffer().unwrap().length(), 8);
    assert_eq!(part.buffer().unwrap().load::<u32>(1).unwrap(), 0x0403_0201);
    assert_eq!(part.buffer().unwrap().load::<u32>(2).unwrap_err().code(), StatusCode::OutOfRange);
    // The storage keeps the memory alive.
    drop((buffer, results, storage));
    part.buffer().unwrap().store::<u32>(1, 7).unwrap();
    assert_eq!(part.buffer().unwrap().load::<u32>(1).unwrap(), 7);
}

#[test]
fn initial_contents_are_checked_and_copied() {
    let context = context();
    let source = Value::Ref(Ref::from(crate::vm::Buffer::copy_of(&[1, 2, 3, 4, 5]).unwrap()));
    let from = |offset, length| {
        let arguments = [Value::I32(16), source.clone(), Value::I64(offset), Value::I64(length)];
        call(&context, "buffer.allocate.initialized", &arguments)
    };
    let results = from(1, 3).unwrap();
    assert_eq!(reference(&results[0]).to::<Buffer>().unwrap().to_vec().unwrap(), [2, 3, 4]);
    assert_eq!(reference(&results[1]).buffer().unwrap().to_vec().unwrap(), [2, 3, 4]);
    for (offset, length) in [(1, 5), (-1, 2), (6, 0), (0, i64::MAX)] {
        assert_eq!(from(offset, length).unwrap_err().code(), StatusCode::OutOfRange, "{offset} {length}");
    }
    let odd = call(&context, "buffer.allocate", &[Value::I32(3), Value::I64(8)]).unwrap_err();
    assert_eq!(odd.code(), StatusCode::InvalidArgument);
}

#[test]
fn read_only_memory_stays_so() {
    let context = context();
    // Longer than the constants that are copied.
    let length = crate::hal::COPIED_CONSTANTS + 64;
    let contents = Arc::new(crate::bytecode::Contents::from_vec(alloc::vec![7; length]));
    let source = crate::vm::Buffer::of_contents(contents, 0..length).unwrap();
    let arguments = [Value::Ref(Ref::from(source.clone())), Value::I64(0), Value::I64(length as i64)];
    let wrapped = call(&context, "buffer.wrap", &arguments).unwrap();
    assert!(reference(&wrapped[0]).to::<Buffer>().unwrap().write(0, &[1]).is_err());
    let storage = reference(&call(&context, "buffer.storage", &wrapped).unwrap()[0]);
    assert_eq!(storage.buffer().unwrap().store::<u8>(0, 1).unwrap_err().code(), StatusCode::PermissionDenied);
    // The storage of a wrapped buffer is the original.
    assert!(storage.same(&Ref::from(source)));
}

#[test]
fn views_are_created_and_checked() {
    let context = context();
    let results = call(&context, "buffer.allocate", &[Value::I32(64), Value::I64(24)]).unwrap();
    let (element, encoding) = (ElementType::FLOAT_32.raw(), EncodingType::DENSE_ROW_MAJOR.raw());
    let create = function(&context, "buffer_view.create");
    let mut buffer = CallBuffer::new();
    buffer.push(results[0].clone());
    for word in [0, 24, u64::from(element), u64::from(encoding), 2, 2, 3] {
        buffer.push_word(word);
    }
    context.take_invocation().call(create.bound(), &mut buffer).unwrap();
    let view = Value::Ref(buffer.refs()[0].clone());
    let object = reference(&view).to::<BufferView>().unwrap();
    assert_eq!((object.shape(), object.element_type()), (&[2, 3][..], ElementType::FLOAT_32));
    let view = [view];
    assert_eq!(numbers(&call(&context, "buffer_view.rank", &view).unwrap()), [2]);
    assert_eq!(numbers(&call(&context, "buffer_view.element_type", &view).unwrap()), [i64::from(element)]);
    assert_eq!(numbers(&call(&context, "buffer_view.encoding_type", &view).unwrap()), [i64::from(encoding)]);
    let [view] = view;
    assert_eq!(numbers(&call(&context, "buffer_view.dim", &[view.clone(), Value::I32(1)]).unwrap()), [3]);
    assert!(call(&context, "buffer_view.dim", &[view, Value::I32(2)]).is_err());
}

#[test]
fn unknown_host_properties_are_reported() {
    let context = context();
    let text = |text: &str| Value::Ref(Ref::from(crate::vm::Buffer::copy_of(text.as_bytes()).unwrap()));
    let query = |category, key| numbers(&call(&context, "device.query.i64", &[text(category), text(key)]).unwrap());
    assert_eq!(query("hal.gpu", "warps"), [0, 0]);
    assert_eq!(query("hal.cpu", "no such feature"), [0, 0]);
    assert!(context.fork().is_ok());
}
