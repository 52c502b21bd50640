//! Comparisons, logic and choices of elements.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, IntPredicate, Value};

use super::elementwise::legacy_operands;
use super::known::{Comparison, compare};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::extended;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Equal", 1, |cx, node| legacy(cx, node, Comparison::Equal)),
    onnx("Equal", 7, |cx, node| comparison(cx, node.input(0)?, node.input(1)?, Comparison::Equal)),
    onnx("Less", 1, |cx, node| legacy(cx, node, Comparison::Less)),
    onnx("Less", 7, |cx, node| comparison(cx, node.input(0)?, node.input(1)?, Comparison::Less)),
    onnx("LessOrEqual", 12, |cx, node| comparison(cx, node.input(0)?, node.input(1)?, Comparison::LessOrEqual)),
    onnx("Greater", 1, |cx, node| legacy(cx, node, Comparison::Greater)),
    onnx("Greater", 7, |cx, node| comparison(cx, node.input(0)?, node.input(1)?, Comparison::Greater)),
    onnx("GreaterOrEqual", 12, |cx, node| comparison(cx, node.input(0)?, node.input(1)?, Comparison::GreaterOrEqual)),
    onnx("And", 1, |cx, node| legacy_logic(cx, node, Logic::And)),
    onnx("And", 7, |cx, node| logic(cx, node.input(0)?, node.input(1)?, Logic::And)),
    onnx("Or", 1, |cx, node| legacy_logic(cx, node, Logic::Or)),
    onnx("Or", 7, |cx, node| logic(cx, node.input(0)?, node.input(1)?, Logic::Or)),
    onnx("Xor", 1, |cx, node| legacy_logic(cx, node, Logic::Xor)),
    onnx("Xor", 7, |cx, node| logic(cx, node.input(0)?, node.input(1)?, Logic::Xor)),
    onnx("Not", 1, |cx, node| {
        let x = node.input(0)?;
        let truth = Tensor::of_elements(DataType::Bool, Vec::new(), vec![Scalar::Int(Dim::constant(1))]);
        logic(cx, x, &truth, Logic::Xor)
    }),
    onnx("Where", 9, choose),
    onnx("IsNaN", 9, |cx, node| {
        let x = node.input(0)?;
        if !x.ty.is_float() {
            return wrong_type(x.ty);
        }
        one(cx.map(&[x], DataType::Bool, |b, x| b.cmpf(FloatPredicate::Unordered, x[0], x[0]))?)
    }),
    onnx("IsInf", 10, |cx, node| {
        let x = node.input(0)?;
        if !x.ty.is_float() {
            return wrong_type(x.ty);
        }
        let (negative, positive) = (node.int_or("detect_negative", 1) != 0, node.int_or("detect_positive", 1) != 0);
        one(cx.map(&[x], DataType::Bool, |b, x| infinite(b, x[0], negative, positive))?)
    }),
];

fn legacy(cx: &mut Context, node: &Node<'_>, comparison: Comparison) -> Result<Outputs> {
    let (x, y) = legacy_operands(cx, node)?;
    self::comparison(cx, &x, &y, comparison)
}

fn legacy_logic(cx: &mut Context, node: &Node<'_>, operation: Logic) -> Result<Outputs> {
    let (x, y) = legacy_operands(cx, node)?;
    logic(cx, &x, &y, operation)
}

fn comparison(cx: &mut Context, x: &Tensor, y: &Tensor, comparison: Comparison) -> Result<Outputs> {
    let ty = x.ty;
    if y.ty != ty {
        return invalid(format!("elements of type {} and {}", ty.name(), y.ty.name()));
    }
    let folded = cx.fold(&[x, y], DataType::Bool, |elements| match elements {
        [x, y] => Some(Scalar::Int(Dim::constant(i64::from(compare(comparison, x, y, ty)?)))),
        _ => None,
    })?;
    match folded {
        Some(folded) => one(folded),
        None => one(cx.map(&[x, y], DataType::Bool, |b, x| compared(b, x[0], x[1], comparison, ty))?),
    }
}

/// Compares elements of the type that arithmetic has.
fn compared(b: &mut Builder, x: Value, y: Value, comparison: Comparison, ty: DataType) -> Value {
    if ty.is_float() {
        let predicate = match comparison {
            Comparison::Equal => FloatPredicate::OrderedEqual,
            Comparison::Less => FloatPredicate::OrderedLess,
            Comparison::LessOrEqual => FloatPredicate::OrderedLessEqual,
            Comparison::Greater => FloatPredicate::OrderedGreater,
            Comparison::GreaterOrEqual => FloatPredicate::OrderedGreaterEqual,
        };
        return b.cmpf(predicate, x, y);
    }
    let (x, y) = (extended(b, x, ty), extended(b, y, ty));
    let predicate = match (comparison, ty.kind() == Kind::Signed) {
        (Comparison::Equal, _) => IntPredicate::Equal,
        (Comparison::Less, true) => IntPredicate::SignedLess,
        (Comparison::LessOrEqual, true) => IntPredicate::SignedLessEqual,
        (Comparison::Greater, true) => IntPredicate::SignedGreater,
        (Comparison::GreaterOrEqual, true) => IntPredicate::SignedGreaterEqual,
        (Comparison::Less, false) => IntPredicate::UnsignedLess,
        (Comparison::LessOrEqual, false) => IntPredicate::UnsignedLessEqual,
        (Comparison::Greater, false) => IntPredicate::UnsignedGreater,
        (Comparison::GreaterOrEqual, false) => IntPredicate::UnsignedGreaterEqual,
    };
    b.cmpi(predicate, x, y)
}

/// An operation of two Booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logic {
    And,
    Or,
    Xor,
}

fn logic(cx: &mut Context, x: &Tensor, y: &Tensor, operation: Logic) -> Result<Outputs> {
    if x.ty != DataType::Bool || y.ty != DataType::Bool {
        return wrong_type(if x.ty == DataType::Bool { y.ty } else { x.ty });
    }
    let folded = cx.fold(&[x, y], DataType::Bool, |elements| match elements {
        [Scalar::Int(x), Scalar::Int(y)] => {
            let (x, y) = (x.as_constant()?, y.as_constant()?);
            Some(Scalar::Int(Dim::constant(match operation {
                Logic::And => x & y,
                Logic::Or => x | y,
                Logic::Xor => x ^ y,
            })))
        }
        _ => None,
    })?;
    if let Some(folded) = folded {
        return one(folded);
    }
    one(cx.map(&[x, y], DataType::Bool, |b, x| match operation {
        Logic::And => b.andi(x[0], x[1]),
        Logic::Or => b.ori(x[0], x[1]),
        Logic::Xor => b.xori(x[0], x[1]),
    })?)
}

/// `Where`: elements of the second tensor where the first is true, else of the third.
fn choose(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (condition, x, y) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if condition.ty != DataType::Bool || x.ty != y.ty {
        return invalid(format!("elements of type {}, {} and {}", condition.ty.name(), x.ty.name(), y.ty.name()));
    }
    let ty = x.ty;
    let truth = |element: &Scalar| element.as_int().and_then(Dim::as_constant).map(|value| value != 0);
    let folded = cx.fold(&[condition, x, y], ty, |elements| match elements {
        [condition, x, y] => Some(if truth(condition)? { x.clone() } else { y.clone() }),
        _ => None,
    })?;
    if let Some(folded) = folded {
        return one(folded);
    }
    let shape = cx.broadcast(&[&condition.shape, &x.shape, &y.shape])?;
    if let Some(elements) = cx.elements(condition)?
        && let Some(first) = elements.first().and_then(truth)
        && elements.iter().all(|element| truth(element) == Some(first))
    {
        return one(cx.broadcast_to(if first { x } else { y }, &shape)?);
    }
    one(cx.choose_to(&[condition, x, y], ty, &shape, |b, x| b.select(x[0], x[1], x[2]))?)
}

fn infinite(b: &mut Builder, x: Value, negative: bool, positive: bool) -> Value {
    let element = b.element_of(x);
    let compared = if negative && positive { b.absf(x) } else { x };
    let infinity = match (negative, positive) {
        (false, false) => f64::NAN,
        (true, false) => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    };
    let infinity = b.float(infinity, element);
    b.cmpf(FloatPredicate::OrderedEqual, compared, infinity)
}
