//! Tests of valid and invalid requests.
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::sync::Arc;
use alloc::vec;

use super::*;
use crate::StatusCode;
use crate::hal::{Buffer, BufferParameters, Device};
use crate::parameters::{ParameterEntry, ParameterIndex, ScopedIndex, Splat};
use crate::vm::{Buffer as VmBuffer, Context, Limits, Module, Program, Ref, Value};

fn bytes(bytes: &[u8]) -> Value {
    Value::Ref(Ref::Buffer(VmBuffer::copy_of(bytes).unwrap()))
}

/// Calls a function of the module for one scope: `a`, 8 bytes of ones.
fn call(function: &str, arguments: impl FnOnce(Value) -> Vec<Value>) -> Result<Vec<Value>> {
    let mut index = ParameterIndex::new();
    index.add(ParameterEntry::splat("a", Splat::new(&[1], 8)?))?;
    let providers: Vec<Arc<dyn ParameterProvider>> = vec![Arc::new(ScopedIndex::new("s", index))];
    let modules: Vec<Arc<dyn Module>> = vec![Arc::new(module(IoParametersOptions { providers, ..Default::default() }))];
    let context = Context::new(Program::link(modules)?, Limits::default())?;
    let device = Value::Ref(Ref::from(Device::create("local-sync")?));
    context.function(&alloc::format!("{NAME}.{function}"))?.call(&arguments(device))
}

fn load(scope: Value, key_table: &[u8], keys: &[u8], spans: &[u8]) -> Result<Vec<Value>> {
    let null = || Value::Ref(Ref::Null);
    call("load", |device| {
        let flags = [Value::I64(0), Value::I32(48), Value::I32(3)];
        let head = [device, Value::I64(-1), null(), null(), scope];
        let tables = [bytes(key_table), bytes(keys), bytes(spans)];
        head.into_iter().chain(flags).chain(tables).collect()
    })
}

fn span(parameter_offset: u64, buffer_offset: u64, length: u64) -> Vec<u8> {
    [parameter_offset, buffer_offset, length].map(u64::to_le_bytes).concat()
}

const KEY: [u8; 8] = [0, 0, 0, 0, 1, 0, 0, 0];

#[test]
fn tables_name_parameters() {
    let results = load(bytes(b"s"), &[KEY, KEY].concat(), b"a", &[span(0, 0, 8), span(4, 0, 2)].concat()).unwrap();
    let [Value::Ref(list)] = results.as_slice() else { unreachable!("one list") };
    let list = list.list().unwrap();
    for (index, length) in [(0, 8), (1, 2)] {
        let Value::Ref(buffer) = list.get(index).unwrap() else { unreachable!("a buffer") };
        assert_eq!(buffer.get::<Buffer>().unwrap().to_vec().unwrap(), vec![1; length]);
    }
    assert_eq!(list.len(), 2);
}

#[test]
fn malformed_tables_are_errors() {
    let one = span(0, 0, 8);
    for (scope, key_table, keys, spans, code) in [
        (bytes(b"t"), &KEY[..], &b"a"[..], &one[..], StatusCode::NotFound),
        (Value::Ref(Ref::Null), &KEY, b"a", &one, StatusCode::NotFound),
        (bytes(&[0xFF]), &KEY, b"a", &one, StatusCode::InvalidArgument),
        (bytes(b"s"), &KEY, b"b", &one, StatusCode::NotFound),
        (bytes(b"s"), &KEY, b"", &one, StatusCode::OutOfRange),
        (bytes(b"s"), &[0xFF; 8], b"a", &one, StatusCode::OutOfRange),
        (bytes(b"s"), &KEY, &[0xFF], &one, StatusCode::InvalidArgument),
        (bytes(b"s"), &KEY[..7], b"a", &one, StatusCode::InvalidArgument),
        (bytes(b"s"), &KEY, b"a", &one[..23], StatusCode::InvalidArgument),
        (bytes(b"s"), &KEY, b"a", &span(1, 0, 8), StatusCode::OutOfRange),
        (bytes(b"s"), &KEY, b"a", &span(0, 0, u64::MAX), StatusCode::OutOfRange),
    ] {
        let error = load(scope, key_table, keys, spans).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
}

#[test]
fn buffers_are_gathered_into() {
    let buffer = Device::create("local-sync").unwrap().allocator().allocate(BufferParameters::DEVICE, 8).unwrap();
    buffer.fill(0, 8, 0, 1).unwrap();
    let gather = |length| {
        call("gather", |device| {
            let null = || Value::Ref(Ref::Null);
            let target = Value::Ref(Ref::from(buffer.clone()));
            let head = [device, Value::I64(-1), null(), null(), bytes(b"s"), target];
            head.into_iter().chain([bytes(&KEY), bytes(b"a"), bytes(&span(0, 4, length))]).collect()
        })
    };
    gather(4).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(gather(5).unwrap_err().code(), StatusCode::OutOfRange);
}
