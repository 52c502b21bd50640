//! Arithmetic of tensors, element by element.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, IntPredicate, Value};

pub(super) use super::known::Arithmetic;
use super::{Row, known, onnx};
use crate::context::Context;
use crate::convert::{extended, shortened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::functions;
use crate::kit::{maximum, minimum, wrong_type};
use crate::node::{Node, Outputs, axis, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Add", 1, |cx, node| legacy(cx, node, Arithmetic::Add)),
    onnx("Add", 7, |cx, node| arithmetic(cx, node, Arithmetic::Add)),
    onnx("Sub", 1, |cx, node| legacy(cx, node, Arithmetic::Sub)),
    onnx("Sub", 7, |cx, node| arithmetic(cx, node, Arithmetic::Sub)),
    onnx("Mul", 1, |cx, node| legacy(cx, node, Arithmetic::Mul)),
    onnx("Mul", 7, |cx, node| arithmetic(cx, node, Arithmetic::Mul)),
    onnx("Div", 1, |cx, node| legacy(cx, node, Arithmetic::Div)),
    onnx("Div", 7, |cx, node| arithmetic(cx, node, Arithmetic::Div)),
    onnx("Mod", 10, |cx, node| {
        arithmetic(cx, node, if node.flag("fmod") { Arithmetic::Fmod } else { Arithmetic::Mod })
    }),
    onnx("Max", 1, |cx, node| variadic(cx, node, Arithmetic::Max)),
    onnx("Min", 1, |cx, node| variadic(cx, node, Arithmetic::Min)),
    onnx("Sum", 1, |cx, node| variadic(cx, node, Arithmetic::Add)),
    onnx("Mean", 1, |cx, node| {
        let inputs = node.all_inputs()?;
        let sum = combined(cx, &inputs, Arithmetic::Add)?;
        let count = Tensor::of_elements(sum.ty, Vec::new(), vec![Scalar::Float(inputs.len() as f64)]);
        if !sum.ty.is_float() {
            return wrong_type(sum.ty);
        }
        one(apply(cx, &sum, &count, Arithmetic::Div)?)
    }),
    onnx("Neg", 1, |cx, node| {
        let x = node.input(0)?;
        unary(cx, x, known::negated, |b, x, ty| match ty.kind() {
            Kind::Float => b.negf(x),
            _ => {
                let zero = b.int(0, ty.element());
                b.subi(zero, x)
            }
        })
    }),
    onnx("Abs", 1, |cx, node| {
        let x = node.input(0)?;
        let ty = x.ty;
        unary(
            cx,
            x,
            |x| known::absolute(x, ty),
            |b, x, ty| match ty.kind() {
                Kind::Float => b.absf(x),
                Kind::Signed => {
                    let zero = b.int(0, ty.element());
                    let negative = b.subi(zero, x);
                    let is_negative = less_than_zero(b, x, ty);
                    b.select(is_negative, negative, x)
                }
                _ => x,
            },
        )
    }),
    onnx("Sign", 9, |cx, node| {
        let x = node.input(0)?;
        let none = |_: &Scalar| None;
        unary(cx, x, none, sign)
    }),
    onnx("BitShift", 11, |cx, node| {
        let direction = node.text_or("direction", "")?;
        let (x, y) = (node.input(0)?, node.input(1)?);
        let is_left = match direction {
            "LEFT" => true,
            "RIGHT" => false,
            _ => return invalid(format!("the direction `{direction}` is neither LEFT nor RIGHT")),
        };
        integers(cx, x, y, |b, x, y, ty| shifted(b, x, y, ty, is_left))
    }),
    onnx("BitwiseAnd", 18, |cx, node| integers(cx, node.input(0)?, node.input(1)?, |b, x, y, _| b.andi(x, y))),
    onnx("BitwiseOr", 18, |cx, node| integers(cx, node.input(0)?, node.input(1)?, |b, x, y, _| b.ori(x, y))),
    onnx("BitwiseXor", 18, |cx, node| integers(cx, node.input(0)?, node.input(1)?, |b, x, y, _| b.xori(x, y))),
    onnx("BitwiseNot", 18, |cx, node| {
        let x = node.input(0)?;
        if !x.ty.is_int() {
            return wrong_type(x.ty);
        }
        let ty = x.ty;
        one(cx.map(&[x], ty, |b, x| {
            let ones = b.int(-1, ty.element());
            b.xori(x[0], ones)
        })?)
    }),
];

fn arithmetic(cx: &mut Context, node: &Node<'_>, operation: Arithmetic) -> Result<Outputs> {
    one(apply(cx, node.input(0)?, node.input(1)?, operation)?)
}

/// Arithmetic of the forms before version 7.
fn legacy(cx: &mut Context, node: &Node<'_>, operation: Arithmetic) -> Result<Outputs> {
    let (x, y) = legacy_operands(cx, node)?;
    one(apply(cx, &x, &y, operation)?)
}

/// Returns the operands of a binary operator before version 7: with `broadcast`, the dimensions of the second are those of the first
/// from `axis` on.
pub(super) fn legacy_operands(cx: &mut Context, node: &Node<'_>) -> Result<(Tensor, Tensor)> {
    let (x, y) = (node.input(0)?, node.input(1)?);
    let missing = x.rank().saturating_sub(y.rank());
    let Some(first) = node.int("axis").filter(|_| node.flag("broadcast") && missing > 0) else {
        return Ok((x.clone(), y.clone()));
    };
    let behind = x.rank().saturating_sub(axis(first, x.rank())? + y.rank());
    let mut shape = y.shape.clone();
    shape.extend((0..behind).map(|_| Dim::constant(1)));
    Ok((x.clone(), cx.reshape(y, &shape)?))
}

/// Computes an operation of two tensors, which broadcast.
pub(super) fn apply(cx: &mut Context, x: &Tensor, y: &Tensor, operation: Arithmetic) -> Result<Tensor> {
    combined(cx, &[x, y], operation)
}

fn variadic(cx: &mut Context, node: &Node<'_>, operation: Arithmetic) -> Result<Outputs> {
    one(combined(cx, &node.all_inputs()?, operation)?)
}

/// Computes an operation of several tensors, which broadcast, from the first to the last.
fn combined(cx: &mut Context, inputs: &[&Tensor], operation: Arithmetic) -> Result<Tensor> {
    /// The most tensors that one loop nest reads.
    const OPERANDS: usize = 8;
    let Some((first, others)) = inputs.split_first() else { return invalid("there are no inputs") };
    let ty = first.ty;
    if ty == DataType::Bool {
        return wrong_type(ty);
    }
    if let Some(other) = others.iter().find(|other| other.ty != ty) {
        return invalid(format!("elements of type {} and {}", ty.name(), other.ty.name()));
    }
    let folded = cx.fold(inputs, ty, |elements| {
        let (first, others) = elements.split_first()?;
        others.iter().try_fold(first.clone(), |x, y| known::binary(operation, &x, y, ty))
    })?;
    if let Some(folded) = folded {
        return Ok(folded);
    }
    let mut result = Tensor::clone(first);
    for chunk in others.chunks(OPERANDS - 1) {
        let mut operands = vec![&result];
        operands.extend(chunk);
        result = cx.map(&operands, ty, |b, elements| {
            let (first, others) = (elements[0], elements.get(1..).unwrap_or_default());
            others.iter().fold(first, |x, y| computed(b, x, *y, operation, ty))
        })?;
    }
    Ok(result)
}

/// Computes an operation of two elements of the type that arithmetic has.
pub(super) fn computed(b: &mut Builder, x: Value, y: Value, operation: Arithmetic, ty: DataType) -> Value {
    if ty.is_float() {
        return match operation {
            Arithmetic::Add => b.addf(x, y),
            Arithmetic::Sub => b.subf(x, y),
            Arithmetic::Mul => b.mulf(x, y),
            Arithmetic::Div => b.divf(x, y),
            Arithmetic::Mod => functions::modulo(b, x, y),
            Arithmetic::Fmod => functions::fmod(b, x, y),
            Arithmetic::Max => b.maximumf(x, y),
            Arithmetic::Min => b.minimumf(x, y),
        };
    }
    match operation {
        Arithmetic::Add => return b.addi(x, y),
        Arithmetic::Sub => return b.subi(x, y),
        Arithmetic::Mul => return b.muli(x, y),
        _ => {}
    }
    let (x, y) = (extended(b, x, ty), extended(b, y, ty));
    let is_signed = ty.kind() == Kind::Signed;
    let result = match (operation, is_signed) {
        (Arithmetic::Max, _) => maximum(b, x, y, ty.kind()),
        (Arithmetic::Min, _) => minimum(b, x, y, ty.kind()),
        (Arithmetic::Mod, true) => {
            let rest = divided(b, x, y, true).1;
            let element = b.element_of(rest);
            let zero = b.int(0, element);
            let signs = b.xori(rest, y);
            let is_other = b.cmpi(IntPredicate::SignedLess, signs, zero);
            let has_rest = b.cmpi(IntPredicate::NotEqual, rest, zero);
            let is_below = b.andi(is_other, has_rest);
            let raised = b.addi(rest, y);
            b.select(is_below, raised, rest)
        }
        (Arithmetic::Mod | Arithmetic::Fmod, _) => divided(b, x, y, is_signed).1,
        _ => divided(b, x, y, is_signed).0,
    };
    shortened(b, result, ty)
}

/// The quotient and the rest of integers, both 0 for a divisor of 0. No division overflows.
fn divided(b: &mut Builder, x: Value, y: Value, is_signed: bool) -> (Value, Value) {
    let element = b.element_of(x);
    let (zero, unit) = (b.int(0, element), b.int(1, element));
    let is_zero = b.cmpi(IntPredicate::Equal, y, zero);
    if !is_signed {
        let divisor = b.select(is_zero, unit, y);
        let (quotient, rest) = (b.divui(x, divisor), b.remui(x, divisor));
        return (b.select(is_zero, zero, quotient), rest);
    }
    let minus_one = b.int(-1, element);
    let is_minus_one = b.cmpi(IntPredicate::Equal, y, minus_one);
    let is_special = b.ori(is_zero, is_minus_one);
    let divisor = b.select(is_special, unit, y);
    let (quotient, rest) = (b.divsi(x, divisor), b.remsi(x, divisor));
    let negative = b.subi(zero, x);
    let quotient = b.select(is_minus_one, negative, quotient);
    (b.select(is_zero, zero, quotient), rest)
}

/// Returns whether a signed integer is negative.
pub(super) fn less_than_zero(b: &mut Builder, x: Value, ty: DataType) -> Value {
    let wide = extended(b, x, ty);
    let element = b.element_of(wide);
    let zero = b.int(0, element);
    b.cmpi(IntPredicate::SignedLess, wide, zero)
}

/// Computes a function of numbers of any type.
fn unary(
    cx: &mut Context,
    x: &Tensor,
    fold: impl Fn(&Scalar) -> Option<Scalar>,
    compute: impl FnOnce(&mut Builder, Value, DataType) -> Value,
) -> Result<Outputs> {
    if x.ty == DataType::Bool {
        return wrong_type(x.ty);
    }
    if let Some(folded) = cx.fold(&[x], x.ty, |elements| fold(elements.first()?))? {
        return one(folded);
    }
    let ty = x.ty;
    one(cx.map(&[x], ty, |b, x| compute(b, x[0], ty))?)
}

fn sign(b: &mut Builder, x: Value, ty: DataType) -> Value {
    use incarnate_mlir::FloatPredicate::{OrderedGreater, OrderedLess};
    if ty.is_float() {
        let element = b.element_of(x);
        let (zero, plus, minus) = (b.float(0.0, element), b.float(1.0, element), b.float(-1.0, element));
        let (is_positive, is_negative) = (b.cmpf(OrderedGreater, x, zero), b.cmpf(OrderedLess, x, zero));
        // Zeros and NaN stay.
        let below = b.select(is_negative, minus, x);
        return b.select(is_positive, plus, below);
    }
    let (zero, plus, minus) = (b.int(0, ty.element()), b.int(1, ty.element()), b.int(-1, ty.element()));
    let is_zero = b.cmpi(IntPredicate::Equal, x, zero);
    let size = if ty.kind() == Kind::Signed {
        let is_negative = less_than_zero(b, x, ty);
        b.select(is_negative, minus, plus)
    } else {
        plus
    };
    b.select(is_zero, zero, size)
}

/// Computes a function of the bits of two tensors of integers.
fn integers(
    cx: &mut Context,
    x: &Tensor,
    y: &Tensor,
    compute: impl FnOnce(&mut Builder, Value, Value, DataType) -> Value,
) -> Result<Outputs> {
    let ty = x.ty;
    if !ty.is_int() || y.ty != ty {
        return wrong_type(if ty.is_int() { y.ty } else { ty });
    }
    one(cx.map(&[x, y], ty, |b, elements| compute(b, elements[0], elements[1], ty))?)
}

/// Shifts an integer. By as many bits as it has, or more, or by a negative number, the sign alone is left.
fn shifted(b: &mut Builder, x: Value, y: Value, ty: DataType, is_left: bool) -> Value {
    let (x, y) = (extended(b, x, ty), extended(b, y, ty));
    let element = b.element_of(x);
    let (zero, width, last) =
        (b.int(0, element), b.int(i64::from(ty.bits()), element), b.int(i64::from(ty.bits()) - 1, element));
    let fits = b.cmpi(IntPredicate::UnsignedLess, y, width);
    let count = b.select(fits, y, last);
    let result = if is_left {
        let shifted = b.shli(x, count);
        b.select(fits, shifted, zero)
    } else if ty.kind() == Kind::Signed {
        b.shrsi(x, count)
    } else {
        let shifted = b.shrui(x, count);
        b.select(fits, shifted, zero)
    };
    shortened(b, result, ty)
}
