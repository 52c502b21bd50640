//! Elementary functions and powers.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Value};

use super::elementwise::{legacy_operands, less_than_zero};
use super::{Row, known, onnx};
use crate::context::Context;
use crate::convert::{converted, extended, shortened};
use crate::data_type::{DataType, Kind};
use crate::functions;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Ceil", 1, |cx, node| folding(cx, node, |x| known::rounded_to_integer(x, f64::ceil, false), Builder::ceil)),
    onnx("Floor", 1, |cx, node| folding(cx, node, |x| known::rounded_to_integer(x, f64::floor, true), Builder::floor)),
    onnx("Round", 11, |cx, node| folding(cx, node, |x| of_float(x, f64::round_ties_even), Builder::roundeven)),
    onnx("Sqrt", 1, |cx, node| folding(cx, node, |x| of_float(x, f64::sqrt), Builder::sqrt)),
    onnx("Reciprocal", 1, |cx, node| {
        folding(cx, node, |x| of_float(x, |x| 1.0 / x), |b, x| functions::pow_constant(b, x, -1.0))
    }),
    onnx("Exp", 1, |cx, node| folding(cx, node, |x| of_float(x, f64::exp), Builder::exp)),
    onnx("Log", 1, |cx, node| folding(cx, node, |x| of_float(x, f64::ln), Builder::log)),
    onnx("Erf", 9, |cx, node| float(cx, node, functions::erf)),
    onnx("Sin", 7, |cx, node| float(cx, node, functions::sin)),
    onnx("Cos", 7, |cx, node| float(cx, node, functions::cos)),
    onnx("Tan", 7, |cx, node| float(cx, node, functions::tan)),
    onnx("Asin", 7, |cx, node| float(cx, node, functions::asin)),
    onnx("Acos", 7, |cx, node| float(cx, node, functions::acos)),
    onnx("Atan", 7, |cx, node| float(cx, node, functions::atan)),
    onnx("Sinh", 9, |cx, node| float(cx, node, functions::sinh)),
    onnx("Cosh", 9, |cx, node| float(cx, node, functions::cosh)),
    onnx("Tanh", 1, |cx, node| float(cx, node, functions::tanh)),
    onnx("Asinh", 9, |cx, node| float(cx, node, functions::asinh)),
    onnx("Acosh", 9, |cx, node| float(cx, node, functions::acosh)),
    onnx("Atanh", 9, |cx, node| float(cx, node, functions::atanh)),
    onnx("Pow", 1, |cx, node| {
        let (x, y) = legacy_operands(cx, node)?;
        one(power(cx, &x, &y)?)
    }),
    onnx("Pow", 7, |cx, node| one(power(cx, node.input(0)?, node.input(1)?)?)),
];

/// Computes a function of floats.
pub(super) fn float(cx: &mut Context, node: &Node<'_>, function: fn(&mut Builder, Value) -> Value) -> Result<Outputs> {
    folding(cx, node, |_| None, function)
}

/// Computes a function of floats, of which some are known.
fn folding(
    cx: &mut Context,
    node: &Node<'_>,
    fold: fn(&Scalar) -> Option<Scalar>,
    function: fn(&mut Builder, Value) -> Value,
) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    if let Some(folded) = cx.fold(&[x], x.ty, |elements| fold(elements.first()?))? {
        return one(folded);
    }
    one(cx.map(&[x], x.ty, |b, x| function(b, x[0]))?)
}

fn of_float(x: &Scalar, function: fn(f64) -> f64) -> Option<Scalar> {
    match x {
        Scalar::Float(value) => Some(Scalar::Float(function(*value))),
        Scalar::Int(_) => None,
    }
}

/// Raises elements to a power, whose elements may have another type.
fn power(cx: &mut Context, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (ty, exponent) = (x.ty, y.ty);
    if ty == DataType::Bool || exponent == DataType::Bool {
        return wrong_type(DataType::Bool);
    }
    if let Some(folded) = cx.fold(&[x, y], ty, |elements| match elements {
        [Scalar::Float(x), y] => Some(Scalar::Float(x.powf(constant(y, exponent)?))),
        _ => None,
    })? {
        return Ok(folded);
    }
    let values = cx.floats(y)?.filter(|values| values.iter().all(|value| Some(value) == values.first()));
    // Constants of `u64` and `i64` may be no `f64`.
    let value = values.and_then(|values| values.first().copied()).filter(|value| value.abs() < 1e15);
    let shape = cx.broadcast(&[&x.shape, &y.shape])?;
    match value {
        Some(value) if ty.is_float() => cx.map_to(&[x], ty, &shape, |b, x| functions::pow_constant(b, x[0], value)),
        Some(value) if value >= 0.0 && value.fract() == 0.0 => cx.map_to(&[x], ty, &shape, |b, x| {
            // The product of the squares that the bits of the exponent name.
            let (mut left, mut square, mut result) = (value as u64, x[0], None);
            while left > 0 {
                if left % 2 == 1 {
                    result = Some(result.map_or(square, |result| b.muli(result, square)));
                }
                left /= 2;
                if left > 0 {
                    square = b.muli(square, square);
                }
            }
            match result {
                Some(result) => result,
                None => b.int(1, ty.element()),
            }
        }),
        _ if ty.is_float() => cx.map_to(&[x, y], ty, &shape, |b, x| {
            let exponent = converted(b, x[1], exponent, ty);
            functions::pow(b, x[0], exponent)
        }),
        _ => cx.map_to(&[x, y], ty, &shape, |b, x| integer_power(b, x[0], x[1], ty, exponent)),
    }
}

/// Returns a known number as a float.
fn constant(x: &Scalar, ty: DataType) -> Option<f64> {
    match x {
        Scalar::Float(value) => Some(*value),
        Scalar::Int(dim) => {
            dim.as_constant().map(|value| if ty == DataType::U64 { value.cast_unsigned() as f64 } else { value as f64 })
        }
    }
}

/// A power of an integer, which is cut if the exponent is a float that is no integer.
fn integer_power(b: &mut Builder, x: Value, y: Value, ty: DataType, exponent: DataType) -> Value {
    let count = converted(b, y, exponent, DataType::I64);
    let exact = power_by_squares(b, x, count, ty);
    if !exponent.is_float() {
        return exact;
    }
    let (base, wide) = (converted(b, x, ty, DataType::F64), converted(b, y, exponent, DataType::F64));
    let power = functions::pow(b, base, wide);
    let cut = converted(b, power, DataType::F64, ty);
    let whole = b.floor(wide);
    let is_whole = b.cmpf(FloatPredicate::OrderedEqual, whole, wide);
    b.select(is_whole, exact, cut)
}

/// A power of an integer by an `i64`. Exponents beyond 63 count as 62 or 63: the numbers whose powers do not overflow are 0, 1 and -1.
fn power_by_squares(b: &mut Builder, x: Value, count: Value, ty: DataType) -> Value {
    let (zero, one, most) = (b.int(0, Element::I64), b.int(1, Element::I64), b.int(62, Element::I64));
    let odd = b.andi(count, one);
    let far = b.ori(most, odd);
    let is_far = b.cmpi(IntPredicate::SignedGreater, count, far);
    let near = b.select(is_far, far, count);
    let base = extended(b, x, ty);
    let element = b.element_of(base);
    let unit = b.int(1, element);
    let (mut result, mut square, mut left) = (unit, base, near);
    for step in 0..6 {
        let bit = b.andi(left, one);
        let is_set = b.cmpi(IntPredicate::NotEqual, bit, zero);
        let product = b.muli(result, square);
        result = b.select(is_set, product, result);
        if step < 5 {
            square = b.muli(square, square);
            left = b.shrui(left, one);
        }
    }
    // One divided by a power is cut to 0, unless the number is 1 or -1.
    let none = b.int(0, element);
    let is_unit = b.cmpi(IntPredicate::Equal, base, unit);
    let mut inverse = b.select(is_unit, unit, none);
    if ty.kind() == Kind::Signed {
        let minus_one = b.int(-1, element);
        let is_minus_one = b.cmpi(IntPredicate::Equal, base, minus_one);
        let is_odd = b.cmpi(IntPredicate::NotEqual, odd, zero);
        let alternating = b.select(is_odd, minus_one, unit);
        inverse = b.select(is_minus_one, alternating, inverse);
    }
    let is_inverse = less_than_zero(b, count, DataType::I64);
    let result = b.select(is_inverse, inverse, result);
    shortened(b, result, ty)
}
