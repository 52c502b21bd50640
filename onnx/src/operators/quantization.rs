//! Conversions between floats and integers with scales and zero points.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Value};

use super::products::contrib;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{Rounding, converted};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, axis, invalid, one};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("QuantizeLinear", 10, quantize_linear),
    onnx("DequantizeLinear", 10, dequantize_linear),
    onnx("DynamicQuantizeLinear", 11, |cx, node| {
        let [y, scale, zero] = dynamically_quantized(cx, node.input(0)?)?;
        Ok(vec![Item::Tensor(y), Item::Tensor(scale), Item::Tensor(zero)])
    }),
    contrib("QuantizeLinear", quantize_linear),
    contrib("DequantizeLinear", dequantize_linear),
];

/// A scale and a zero point, whose default is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters<'a> {
    pub(super) scale: &'a Tensor,
    pub(super) zero: Option<&'a Tensor>,
}

impl<'a> Parameters<'a> {
    /// Returns the parameters that two inputs of a node are.
    pub(super) fn of(node: &'a Node<'_>, scale: usize, zero: usize) -> Result<Parameters<'a>> {
        Ok(Parameters { scale: node.input(scale)?, zero: node.optional(zero)? })
    }
}

/// Rounds a float to the nearest even integer, adds a zero point and saturates.
pub(super) fn saturated(b: &mut Builder, x: Value, zero: Option<Value>, ty: DataType) -> Value {
    let element = b.element_of(x);
    let rounded = b.roundeven(x);
    let moved = zero.map_or(rounded, |zero| b.addf(rounded, zero));
    let (least, most) = ty.range().unwrap_or((0, 255));
    let (least, most) = (b.float(least as f64, element), b.float(most as f64, element));
    let raised = b.maximumf(moved, least);
    let bounded = b.minimumf(raised, most);
    let wide = b.fptosi(bounded, Element::I32);
    b.trunci(wide, ty.element())
}

/// Returns true for the types that tensors are quantised to.
fn is_quantised(ty: DataType) -> bool {
    ty.bits() <= 16 && ty.is_int() || ty.bits() <= 8 && ty.is_float()
}

/// A tensor and its parameters, which broadcast.
struct Aligned {
    x: Tensor,
    scale: Tensor,
    zero: Option<Tensor>,
}

impl Aligned {
    /// Returns the tensor, the scale, and the zero point unless it is known to be 0.
    fn operands(&self, cx: &Context) -> Result<Vec<&Tensor>> {
        let mut operands = vec![&self.x, &self.scale];
        match &self.zero {
            Some(zero) if is_zero(cx, zero)? => {}
            zero => operands.extend(zero),
        }
        Ok(operands)
    }
}

/// Reshapes parameters of a tensor, of an axis, or of blocks along an axis, so that they broadcast to the tensor.
fn aligned(cx: &mut Context, node: &Node<'_>, x: &Tensor, parameters: Parameters<'_>) -> Result<Aligned> {
    let Parameters { scale, zero } = parameters;
    let block = node.int_or("block_size", 0);
    let reshaped = |cx: &mut Context, shape: &[Dim], x: Tensor| -> Result<Aligned> {
        Ok(Aligned { x, scale: cx.reshape(scale, shape)?, zero: zero.map(|zero| cx.reshape(zero, shape)).transpose()? })
    };
    if scale.count().is(1) && (scale.rank() <= 1 || block <= 0) {
        return reshaped(cx, &[], x.clone());
    }
    let at = axis(node.int_or("axis", 1), x.rank())?;
    if scale.rank() == 1 && block <= 0 {
        cx.require_equal(&x.shape[at], &scale.shape[0], "the number of scales along the axis")?;
        let mut shape = vec![scale.shape[0].clone()];
        shape.extend(vec![Dim::constant(1); x.rank() - at - 1]);
        return reshaped(cx, &shape, x.clone());
    }
    if scale.rank() != x.rank() || block <= 0 {
        return invalid(format!(
            "scales of rank {} for a tensor of rank {} in blocks of {block}",
            scale.rank(),
            x.rank()
        ));
    }
    let (size, blocks) = (Dim::constant(block), scale.shape[at].clone());
    cx.require_equal(&x.shape[at].ceil_div(&size), &blocks, "the number of blocks along the axis")?;
    if blocks.times(&size) == x.shape[at] {
        let mut split = x.shape.clone();
        split.splice(at..=at, [blocks, size]);
        let mut shape = scale.shape.clone();
        shape.insert(at + 1, Dim::constant(1));
        let x = cx.reshape(x, &split)?;
        return reshaped(cx, &shape, x);
    }
    let zero = zero.map(|zero| repeated(cx, zero, at, block, &x.shape)).transpose()?;
    Ok(Aligned { x: x.clone(), scale: repeated(cx, scale, at, block, &x.shape)?, zero })
}

/// Repeats the elements along an axis, the last one as often as the shape needs.
fn repeated(cx: &mut Context, x: &Tensor, axis: usize, count: i64, shape: &[Dim]) -> Result<Tensor> {
    let (value, ty) = (cx.value(x)?, x.ty);
    cx.generate(shape, ty, |b, at| {
        let mut at = at.to_vec();
        let count = b.index(count);
        at[axis] = b.divui(at[axis], count);
        crate::kit::read(b, value, &at, ty)
    })
}

fn quantize_linear(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, parameters) = (node.input(0)?, Parameters::of(node, 1, 2)?);
    let named = node.data_type("output_dtype")?.filter(|_| node.int_or("output_dtype", 0) != 0);
    let ty = parameters.zero.map(|zero| zero.ty).or(named).unwrap_or(DataType::U8);
    if !is_quantised(ty) {
        return wrong_type(ty);
    }
    let saturates = node.int_or("saturate", 1) != 0;
    let aligned = aligned(cx, node, x, parameters)?;
    let y = quantised(cx, &aligned, ty, saturates)?;
    one(cx.reshape(&y, &x.shape)?)
}

/// Divides by the scale, rounds, adds the zero point and saturates.
fn quantised(cx: &mut Context, aligned: &Aligned, ty: DataType, saturates: bool) -> Result<Tensor> {
    let x = &aligned.x;
    let operands = aligned.operands(cx)?;
    let types: Vec<DataType> = operands.iter().map(|operand| operand.ty.computed()).collect();
    let wide = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let shape = x.shape.clone();
    let result = if ty.is_float() { wide } else { ty };
    let y = cx.map_to(&operands, result, &shape, |b, x| {
        let number = |b: &mut Builder, (x, ty): (&Value, DataType)| match ty.bits() {
            4 => {
                let wide = integer(b, *x, ty);
                b.sitofp(wide, Element::F32)
            }
            _ => converted(b, *x, ty, wide),
        };
        let floats: Vec<Value> = x.iter().zip(types).map(|each| number(b, each)).collect();
        let quotient = b.divf(floats[0], floats[1]);
        match (ty.is_float(), floats.get(2)) {
            (false, zero) => saturated(b, quotient, zero.copied(), ty),
            (true, Some(zero)) => b.addf(quotient, *zero),
            (true, None) => quotient,
        }
    })?;
    cx.cast_as(&y, ty, Rounding { saturates, ..Rounding::default() })
}

/// Quantises a tensor with one scale and one zero point.
pub(super) fn quantise(cx: &mut Context, x: &Tensor, parameters: Parameters<'_>, ty: DataType) -> Result<Tensor> {
    let scale = cx.reshape(parameters.scale, &[])?;
    let zero = parameters.zero.map(|zero| cx.reshape(zero, &[])).transpose()?;
    quantised(cx, &Aligned { x: x.clone(), scale, zero }, ty, true)
}

/// Returns true for zero points that are known to be 0.
pub(super) fn is_zero(cx: &Context, zero: &Tensor) -> Result<bool> {
    Ok(cx.floats(zero)?.is_some_and(|elements| elements.iter().all(|element| *element == 0.0)))
}

fn dequantize_linear(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, parameters) = (node.input(0)?, Parameters::of(node, 1, 2)?);
    let named = node.data_type("output_dtype")?.filter(|_| node.int_or("output_dtype", 0) != 0);
    let ty = named.unwrap_or(parameters.scale.ty);
    if !(is_quantised(x.ty) || x.ty == DataType::I32) || !ty.is_float() {
        return wrong_type(x.ty);
    }
    let aligned = aligned(cx, node, x, parameters)?;
    let y = dequantised(cx, &aligned, ty)?;
    one(cx.reshape(&y, &x.shape)?)
}

fn dequantised(cx: &mut Context, aligned: &Aligned, ty: DataType) -> Result<Tensor> {
    let Aligned { x, scale, .. } = aligned;
    let operands = aligned.operands(cx)?;
    let (from, scaled, wide) = (x.ty, scale.ty, ty.computed());
    cx.map_to(&operands, ty, &x.shape, |b, x| {
        let scale = converted(b, x[1], scaled.computed(), wide);
        let centred = centred(b, x[0], x.get(2).copied(), from, wide);
        b.mulf(centred, scale)
    })
}

/// Subtracts a zero point of the same type, and converts the difference to a float.
pub(super) fn centred(b: &mut Builder, x: Value, zero: Option<Value>, ty: DataType, wide: DataType) -> Value {
    if ty.is_float() {
        let x = converted(b, x, ty.computed(), wide);
        return zero.map_or(x, |zero| {
            let zero = converted(b, zero, ty.computed(), wide);
            b.subf(x, zero)
        });
    }
    let x = integer(b, x, ty);
    let difference = zero.map_or(x, |zero| {
        let zero = integer(b, zero, ty);
        b.subi(x, zero)
    });
    b.sitofp(difference, wide.element())
}

/// Extends an integer to 32 bits. The upper bits of arguments of 4 bits are not known.
pub(super) fn integer(b: &mut Builder, x: Value, ty: DataType) -> Value {
    let wide = converted(b, x, ty, DataType::I32);
    if ty.bits() != 4 {
        return wide;
    }
    let mask = b.int(15, Element::I32);
    let low = b.andi(wide, mask);
    if ty == DataType::U4 {
        return low;
    }
    let sign = b.int(8, Element::I32);
    let flipped = b.xori(low, sign);
    b.subi(flipped, sign)
}

/// Dequantises a tensor with one scale and one zero point to `f32`.
pub(super) fn dequantise(cx: &mut Context, x: &Tensor, parameters: Parameters<'_>) -> Result<Tensor> {
    let scale = cx.reshape(parameters.scale, &[])?;
    let zero = parameters.zero.map(|zero| cx.reshape(zero, &[])).transpose()?;
    dequantised(cx, &Aligned { x: x.clone(), scale, zero }, DataType::F32)
}

/// Quantises to `u8` with the scale and the zero point of the range of the elements, which includes 0.
pub(super) fn dynamically_quantized(cx: &mut Context, x: &Tensor) -> Result<[Tensor; 3]> {
    if x.ty != DataType::F32 {
        return wrong_type(x.ty);
    }
    let [least, most] = range(cx, x)?;
    let scale = cx.map(&[&least, &most], DataType::F32, |b, x| scale_of(b, x[0], x[1]))?;
    let zero = cx.map(&[&least, &scale], DataType::U8, |b, x| {
        let quotient = b.divf(x[0], x[1]);
        let negated = b.negf(quotient);
        saturated(b, negated, None, DataType::U8)
    })?;
    let y = quantise(cx, x, Parameters { scale: &scale, zero: Some(&zero) }, DataType::U8)?;
    Ok([y, scale, zero])
}

/// The least constant length of a row of a matrix whose rows are combined as vectors.
const LEAST_ROW: i64 = 16;

/// The least and the greatest of 0 and the elements of a tensor: of its rows first, element by element, as vectors.
pub(super) fn range(cx: &mut Context, x: &Tensor) -> Result<[Tensor; 2]> {
    let is_long = |from: &usize| Dim::product(&x.shape[*from..]).as_constant().is_none_or(|length| length >= LEAST_ROW);
    let (outer, inner) = x.shape.split_at((0..x.rank()).rev().find(is_long).unwrap_or(0));
    let rows = cx.reshape(x, &[Dim::product(outer), Dim::product(inner)])?;
    let mut combined = |combine: fn(&mut Builder, Value, Value) -> Value| {
        let zero = Scalar::Float(0.0);
        let row = cx.reduce(&rows, &[0], x.ty, zero.clone(), combine)?;
        cx.reduce(&row, &[0], x.ty, zero, combine)
    };
    Ok([combined(Builder::minimumf)?, combined(Builder::maximumf)?])
}

/// The scale of a range; 1 for one that has no extent.
pub(super) fn scale_of(b: &mut Builder, least: Value, most: Value) -> Value {
    let element = b.element_of(least);
    let (zero, one, steps) = (b.float(0.0, element), b.float(1.0, element), b.float(255.0, element));
    let range = b.subf(most, least);
    let scale = b.divf(range, steps);
    let is_empty = b.cmpf(incarnate_mlir::FloatPredicate::OrderedEqual, range, zero);
    b.select(is_empty, one, scale)
}
