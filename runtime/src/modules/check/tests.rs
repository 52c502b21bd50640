//! Tests of the expectations and their messages.
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::sync::Arc;
use alloc::vec;

use super::*;
use crate::StatusCode;
use crate::hal::format::{TensorType, parse_elements};
use crate::hal::{Allocator, BufferParameters, EncodingType};
use crate::vm::{Context, Limits, Module, Program, Value};

fn view(spec: &str) -> Value {
    let (tensor, elements) = spec.split_once('=').unwrap();
    let tensor: TensorType = tensor.parse().unwrap();
    let mut bytes = vec![0; tensor.byte_length().unwrap() as usize];
    parse_elements(elements, tensor.element, &mut bytes).unwrap();
    let buffer = Allocator::new().allocate(BufferParameters::DEVICE, bytes.len() as u64).unwrap();
    buffer.write(0, &bytes).unwrap();
    let view = BufferView::new(buffer, &tensor.shape, tensor.element, EncodingType::DENSE_ROW_MAJOR).unwrap();
    Value::Ref(Ref::from(Arc::new(view)))
}

/// Calls a function, with a null device first if it takes views; returns the message of its failure.
fn check(name: &str, arguments: &[Value]) -> Option<String> {
    let modules: Vec<Arc<dyn Module>> = vec![Arc::new(module())];
    let context = Context::new(Program::link(modules).unwrap(), Limits::default()).unwrap();
    let device = matches!(arguments[0], Value::Ref(_)).then_some(Value::Ref(Ref::Null));
    let arguments: Vec<Value> = device.into_iter().chain(arguments.iter().cloned()).collect();
    let error = context.function(&format!("{NAME}.{name}")).unwrap().call(&arguments).err()?;
    let expected = if name == "unsupported" { StatusCode::InvalidArgument } else { StatusCode::FailedPrecondition };
    assert!(error.code() == expected || error.message().starts_with("unsupported"), "{error}");
    Some(error.message().into())
}

#[test]
fn unmet_expectations_are_recorded_and_the_program_continues() {
    let unmet = Unmet::default();
    let modules: Vec<Arc<dyn Module>> = vec![Arc::new(module_recording(&unmet))];
    let context = Context::new(Program::link(modules).unwrap(), Limits::default()).unwrap();
    let function = context.function("check.expect_false").unwrap();
    for operand in [0, 7, 0, -1] {
        assert!(function.call(&[Value::I32(operand)]).unwrap().is_empty());
    }
    let lines = |messages: Vec<String>| -> Vec<String> {
        messages.iter().map(|message| message.lines().last().unwrap().into()).collect()
    };
    assert_eq!(lines(unmet.take()), ["Expected 7 to be zero.", "Expected -1 to be zero."]);
    assert!(unmet.take().is_empty());
    // The number of messages is bounded. Types that cannot be compared are errors even while recording.
    for _ in 0..KEPT_MESSAGES + 3 {
        function.call(&[Value::I32(1)]).unwrap();
    }
    let messages = lines(unmet.take());
    assert_eq!((messages.len(), &*messages[KEPT_MESSAGES]), (KEPT_MESSAGES + 1, "3 more expectations are not met."));
    let function = context.function("check.expect_all_true").unwrap();
    let error = function.call(&[Value::Ref(Ref::Null), view("1xf16=0")]).unwrap_err();
    assert_eq!(error.message(), "unsupported element type f16");
}

#[test]
fn truth_is_anything_but_zero() {
    assert_eq!(check("expect_true", &[Value::I32(-1)]), None);
    assert_eq!(
        check("expect_true", &[Value::I32(0)]).unwrap(),
        "Value of: operand\n  Actual: false\nExpected: true\nExpected 0 to be nonzero."
    );
    assert_eq!(check("expect_false", &[Value::I32(0)]), None);
    assert_eq!(
        check("expect_false", &[Value::I32(2)]).unwrap(),
        "Value of: operand\n  Actual: true\nExpected: false\nExpected 2 to be zero."
    );
    for tensor in ["3xi32=1 2 -3", "2xi8=1 1", "2xf64=0.5 nan", "4xi64=256 1 1 1", "0xi32="] {
        assert_eq!(check("expect_all_true", &[view(tensor)]), None, "{tensor}");
    }
    for (tensor, index) in [("3xi32=1 0 -3", 1), ("2xi8=0 1", 0), ("2xf32=1 -0.0", 1), ("2xi16=256 0", 1)] {
        let message = check("expect_all_true", &[view(tensor)]).unwrap();
        assert!(message.ends_with(&format!(", whose element #{index} doesn't match")), "{message}");
    }
    assert_eq!(check("expect_all_true", &[view("1xf16=1")]).unwrap(), "unsupported element type f16");
}

#[test]
fn equality_is_of_bytes_types_and_shapes() {
    let check = |lhs, rhs| check("expect_eq", &[view(lhs), view(rhs)]);
    assert_eq!(check("2x2xf32=1 2 3 4", "2x2xf32=1 2 3 4"), None);
    assert_eq!(
        check("4xf32=1 2 3 4", "4xf32=1 2 3 5").unwrap(),
        "Expected equality of these values. Contents does not match.\n  lhs:\n    4xf32=1 2 3 4\n  rhs:\n    4xf32=1 2 3 5"
    );
    assert!(check("4xi32=1 2 3 4", "2x2xi32=1 2 3 4").unwrap().contains("values. Shapes do not match.\n"));
    assert!(check("1xi32=1", "1xf32=1").unwrap().contains(" Element types do not match. Contents does not match.\n"));
}

#[test]
fn near_equality_has_two_tolerances() {
    let check =
        |lhs, rhs, atol, rtol| check("expect_almost_eq", &[view(lhs), view(rhs), Value::F32(atol), Value::F32(rtol)]);
    for (lhs, rhs) in [("2xf32=1 nan", "2xf32=1.0001 nan"), ("1xf64=inf", "1xf64=inf"), ("1xf16=1", "1xf16=1.001")] {
        assert_eq!(check(lhs, rhs, 0.01, 0.0), None, "{lhs} {rhs}");
    }
    assert_eq!(check("1xf32=100", "1xf32=101", 0.0, 0.01), None);
    assert_eq!(check("1xbf16=100", "1xbf16=101", 0.5, 0.005), None);
    let message = check("3xf32=1 2 3", "3xf32=1 2 3.5", 0.25, 0.0).unwrap();
    assert_eq!(
        message,
        "Expected near equality of these values. Contents does not match to tolerance parameters atol=0.25, rtol=0. The \
         first failure occurs at index 2 as the lhs value 3 differs from the rhs value 3.5 by 5.000e-01.\n  lhs:\n    \
         3xf32=1 2 3\n  rhs:\n    3xf32=1 2 3.5"
    );
    assert!(check("1xf32=1", "1xf32=inf", 1e9, 1e9).is_some());
    assert!(check("1xf32=1", "1xf32=nan", 1e9, 1e9).is_some());
    assert_eq!(check("1xi32=1", "1xi32=1", 1.0, 0.0).unwrap(), "unsupported element type i32");
    assert_eq!(scientific(-1234.5), "-1.234e+03");
}
