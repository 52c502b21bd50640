//! Compares results with those of a case, like iree-run-module: floats within a tolerance, other types exactly.

use incarnate_runtime::hal::ElementType;
use incarnate_runtime::vm;

use super::cases::Call;
use super::value::{Number, Tensor, Value};

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Output {
    Scalar(vm::Value),
    Tensor(Tensor),
}

/// The default absolute tolerances, those of iree-run-module, by name and type.
const DEFAULT_TOLERANCES: [(&str, ElementType, f64); 4] = [
    ("f16", ElementType::FLOAT_16, 1e-3),
    ("bf16", ElementType::BFLOAT_16, 1e-2),
    ("f32", ElementType::FLOAT_32, 1e-4),
    ("f64", ElementType::FLOAT_64, 1e-4),
];
const DEFAULT_RELATIVE_TOLERANCE: f64 = 1e-5;

/// Describes the error in the results of a call, if there is one.
pub(crate) fn mismatch(call: &Call, outputs: &[Output]) -> Option<String> {
    if outputs.len() != call.expected.len() {
        return Some(format!("{} results, {} expected", outputs.len(), call.expected.len()));
    }
    let pairs = outputs.iter().zip(&call.expected).enumerate();
    let mut faults = pairs.filter_map(|(index, (output, expected))| {
        let fault = match (output, expected) {
            (Output::Scalar(actual), Value::Scalar(number)) => scalar_fault(call, actual, *number),
            (Output::Tensor(actual), Value::Tensor(tensor)) => tensor_fault(call, actual, tensor),
            _ => Some("a number where an array is expected, or the other way round".to_owned()),
        };
        Some(format!("result {index}: {}", fault?))
    });
    faults.next()
}

fn scalar_fault(call: &Call, actual: &vm::Value, expected: Number) -> Option<String> {
    let equal = match *actual {
        vm::Value::I32(value) => i64::from(value) == expected.to_i64(),
        vm::Value::I64(value) => value == expected.to_i64(),
        vm::Value::F32(value) => close(call, ElementType::FLOAT_32, value.into(), expected.to_f64()),
        vm::Value::F64(value) => close(call, ElementType::FLOAT_64, value, expected.to_f64()),
        _ => false,
    };
    (!equal).then(|| format!("{actual:?}, {expected:?} expected"))
}

fn tensor_fault(call: &Call, actual: &Tensor, expected: &Tensor) -> Option<String> {
    if actual.shape != expected.shape {
        return Some(format!("shape {:?}, {:?} expected", actual.shape, expected.shape));
    }
    // NumPy has signed and unsigned integers, the compiler mostly signless ones.
    let same_kind = actual.element == expected.element
        || (actual.element.is_integer() && expected.element.is_integer())
        || (actual.element.is_boolean() && expected.element.is_boolean());
    if !same_kind || actual.element.dense_byte_count() != expected.element.dense_byte_count() {
        return Some(format!("elements {:?}, {:?} expected", actual.element, expected.element));
    }
    match (actual.floats(), expected.floats()) {
        (Some(actual_floats), Some(expected_floats)) => {
            let pairs = actual_floats.iter().zip(&expected_floats).enumerate();
            let wrong: Vec<usize> = pairs
                .filter(|(_, (actual_float, float))| !close(call, actual.element, **actual_float, **float))
                .map(|(index, _)| index)
                .collect();
            let (at, last) = (*wrong.first()?, *wrong.last()?);
            let (count, all) = (wrong.len(), actual_floats.len());
            let (found, float) = (actual_floats[at], expected_floats[at]);
            Some(format!("element {at}: {found}, {float} expected; {count} of {all} elements, the last at {last}"))
        }
        _ if actual.bytes == expected.bytes => None,
        _ => Some(format!("{:?}, {:?} expected", actual.bytes, expected.bytes)),
    }
}

fn close(call: &Call, element: ElementType, actual: f64, expected: f64) -> bool {
    let (name, _, default) =
        DEFAULT_TOLERANCES.iter().find(|row| row.1 == element).expect("a type of floating-point numbers");
    let absolute = call.tolerances.get(*name).unwrap_or(default);
    let relative = call.tolerances.get("rtol").unwrap_or(&DEFAULT_RELATIVE_TOLERANCE);
    // Equality covers infinities, whose difference is NaN.
    actual == expected
        || (actual.is_nan() && expected.is_nan())
        || (actual - expected).abs() <= absolute + relative * expected.abs()
}
