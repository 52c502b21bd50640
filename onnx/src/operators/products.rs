//! Matrix products.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Iterator, Map, Value};

use super::activation::Activation;
use super::contraction::accumulator;
use super::{Lowering, Row, onnx};
use crate::context::Context;
use crate::convert::{converted, narrowed, widened};
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("MatMul", 1, |cx, node| {
        let (a, b) = same_types(node)?;
        let product = cx.matmul(a, b, accumulator(a.ty))?;
        one(settled(cx, &product, a.ty)?)
    }),
    onnx("Gemm", 1, |cx, node| one(gemm(cx, node, Activation::Identity)?)),
    contrib("FusedGemm", |cx, node| {
        let parameters = ["activation_alpha", "activation_beta"].map(|name| node.attribute(name).map(|found| found.f));
        let parameters: Vec<f32> = parameters.into_iter().map_while(|parameter| parameter).collect();
        let activation = Activation::of(node.text_or("activation", "")?, &parameters)?;
        one(gemm(cx, node, activation)?)
    }),
    contrib("FusedMatMul", fused_matmul),
    contrib("TransposeMatMul", fused_matmul),
    contrib("MatMulNBits", matmul_bits),
];

/// A row of ONNX Runtime's domain.
pub(super) const fn contrib(name: &'static str, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "com.microsoft", name, since: 1, lower: Lowering::Plain(lower) }
}

/// Returns the first two inputs, which have one type.
fn same_types<'n>(node: &'n Node<'_>) -> Result<(&'n Tensor, &'n Tensor)> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    if a.ty != b.ty || !(a.ty.is_float() || a.ty.is_int()) {
        return wrong_type(b.ty);
    }
    Ok((a, b))
}

/// Converts sums to the type of a result.
pub(super) fn settled(cx: &mut Context, y: &Tensor, ty: DataType) -> Result<Tensor> {
    if y.ty == ty {
        return Ok(y.clone());
    }
    let from = y.ty;
    cx.map(&[y], ty, |b, x| converted(b, x[0], from, ty.computed()))
}

/// Swaps the last two dimensions.
fn swapped(cx: &mut Context, x: &Tensor) -> Result<Tensor> {
    let mut permutation: Vec<usize> = (0..x.rank()).collect();
    if let [.., row, column] = permutation.as_mut_slice() {
        core::mem::swap(row, column);
    }
    cx.transpose(x, &permutation)
}

/// A factor of the type that arithmetic has.
fn factor(b: &mut Builder, value: f64, ty: DataType) -> Value {
    b.float(value, ty.computed().element())
}

fn scaled(b: &mut Builder, x: Value, value: f64, ty: DataType) -> Value {
    if (value - 1.0).abs() < f64::EPSILON {
        return x;
    }
    let factor = factor(b, value, ty);
    if ty.is_float() { b.mulf(x, factor) } else { b.muli(x, factor) }
}

/// `alpha * A' * B' + beta * C`.
fn gemm(cx: &mut Context, node: &Node<'_>, activation: Activation) -> Result<Tensor> {
    let (a, b) = same_types(node)?;
    if a.rank() != 2 || b.rank() != 2 {
        return invalid(format!("the operands have ranks {} and {}, not 2", a.rank(), b.rank()));
    }
    let ty = a.ty;
    let (alpha, beta) = (node.float_or("alpha", 1.0), node.float_or("beta", 1.0));
    if !ty.is_float() && (alpha.fract() != 0.0 || beta.fract() != 0.0) {
        return unsupported("integers with a factor that is none");
    }
    let left = if node.flag("transA") { swapped(cx, a)? } else { a.clone() };
    let right = if node.flag("transB") { swapped(cx, b)? } else { b.clone() };
    let product = cx.matmul(&left, &right, accumulator(ty))?;
    match node.optional(2)?.filter(|_| beta != 0.0) {
        None if alpha == 1.0 && activation == Activation::Identity => settled(cx, &product, ty),
        None => cx.map(&[&product], ty, |b, x| {
            let x = scaled(b, x[0], alpha, ty);
            activation.apply(b, x)
        }),
        Some(c) => {
            if c.ty != ty {
                return wrong_type(c.ty);
            }
            cx.map(&[&product, c], ty, |b, x| {
                let (product, c) = (scaled(b, x[0], alpha, ty), scaled(b, x[1], beta, ty));
                let sum = if ty.is_float() { b.addf(product, c) } else { b.addi(product, c) };
                activation.apply(b, sum)
            })
        }
    }
}

fn fused_matmul(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (a, b) = same_types(node)?;
    let mut operands = [a.clone(), b.clone()];
    for (operand, (batch, matrix)) in operands.iter_mut().zip([("transBatchA", "transA"), ("transBatchB", "transB")]) {
        let rank = operand.rank();
        if node.flag(batch) && rank > 2 {
            let permutation: Vec<usize> = (1..rank - 1).chain([0, rank - 1]).collect();
            *operand = cx.transpose(operand, &permutation)?;
        }
        if node.flag(matrix) && rank > 1 {
            *operand = swapped(cx, operand)?;
        }
    }
    let product = cx.matmul(&operands[0], &operands[1], accumulator(a.ty))?;
    let (alpha, ty) = (node.float_or("alpha", 1.0), a.ty);
    if alpha == 1.0 {
        return one(settled(cx, &product, ty)?);
    }
    one(cx.map(&[&product], ty, |b, x| scaled(b, x[0], alpha, ty))?)
}

/// The weights of a product whose elements of a few bits have a scale and a zero point for each block.
struct Blocks {
    /// `[N, blocks, bytes]`.
    bytes: Tensor,
    /// `[N, blocks]`.
    scales: Tensor,
    /// `[N, blocks]`, of the type of the sums.
    zeros: Option<Tensor>,
    bits: i64,
    /// The zero point where there are no others.
    zero: f64,
}

/// A product with weights of 2, 4 or 8 bits: `[.., K]` by `[N, K]`.
fn matmul_bits(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let a = node.input(0)?;
    let (depth, columns) = (node.int_or("K", 0), node.int_or("N", 0));
    let (bits, size) = (node.int_or("bits", 4), node.int_or("block_size", 32));
    if ![2, 4, 8].contains(&bits) || size <= 0 || size % (8 / bits) != 0 || depth <= 0 || columns <= 0 || a.rank() == 0
    {
        return unsupported(format!("weights of {bits} bits in blocks of {size}, [{columns},{depth}]"));
    }
    if node.optional(4)?.is_some() {
        return unsupported("`g_idx`");
    }
    let constant = Dim::constant;
    let (count, per) = (quotient(depth, size), 8 / bits);
    let bytes = cx.reshape(node.input(1)?, &[constant(columns), constant(count), constant(size / per)])?;
    let scales = cx.reshape(node.input(2)?, &[constant(columns), constant(count)])?;
    if bytes.ty != DataType::U8 || !a.ty.is_float() || a.ty == DataType::F64 {
        return wrong_type(bytes.ty);
    }
    let zeros = match node.optional(3)? {
        None => None,
        Some(zeros) => Some(unpacked(cx, zeros, columns, count, bits)?),
    };
    let blocks = Blocks { bytes, scales, zeros, bits, zero: (1_i64 << (bits - 1)) as f64 };
    let what = "the extent that a matrix product sums over";
    let last = a.rank() - 1;
    let a = cx.refined(a, last, &constant(depth), what)?;
    let outer = &a.shape[..last];
    let rows = Dim::product(outer);
    let flat = cx.reshape(&a, &[rows.clone(), constant(depth)])?;
    let zero = cx.b.float(0.0, a.ty.element());
    let none = [constant(0), constant(0)];
    let flat = cx.pad(&flat, &none, &[constant(0), constant(count * size - depth)], zero)?;
    let split = cx.reshape(&flat, &[rows.clone(), constant(count), constant(size / per), constant(per)])?;
    let product = block_product(cx, &split, &blocks, &[rows, constant(columns)])?;
    let mut shape = outer.to_vec();
    shape.push(constant(columns));
    let product = cx.reshape(&product, &shape)?;
    one(match node.optional(5)? {
        Some(bias) => cx.map(&[&product, bias], a.ty, |b, x| b.addf(x[0], x[1]))?,
        None => settled(cx, &product, a.ty)?,
    })
}

/// Divides positive numbers, rounding up.
fn quotient(number: i64, divisor: i64) -> i64 {
    number / divisor + i64::from(number % divisor != 0)
}

/// Returns zero points as floats `[N, blocks]`: integers are packed as the weights are, in whole bytes for each row.
fn unpacked(cx: &mut Context, zeros: &Tensor, columns: i64, count: i64, bits: i64) -> Result<Tensor> {
    let shape = [Dim::constant(columns), Dim::constant(count)];
    if zeros.ty.is_float() {
        let zeros = cx.reshape(zeros, &shape)?;
        return cx.cast(&zeros, DataType::F32);
    }
    if zeros.ty != DataType::U8 {
        return wrong_type(zeros.ty);
    }
    let per = 8 / bits;
    let packed = cx.reshape(zeros, &[shape[0].clone(), Dim::constant(quotient(count, per))])?;
    let value = cx.value(&packed)?;
    cx.generate(&shape, DataType::F32, |b, at| {
        let per = b.index(per);
        let (byte, part) = (b.divui(at[1], per), b.remui(at[1], per));
        let byte = b.extract(value, &[at[0], byte]);
        let part = b.index_cast(part, Element::I32);
        let field = field(b, byte, part, bits);
        b.sitofp(field, Element::F32)
    })
}

/// Returns some bits of a byte as `i32`.
fn field(b: &mut Builder, byte: Value, part: Value, bits: i64) -> Value {
    let wide = b.extui(byte, Element::I32);
    if bits == 8 {
        return wide;
    }
    let width = b.int(bits, Element::I32);
    let amount = b.muli(part, width);
    let shifted = b.shrui(wide, amount);
    let mask = b.int((1 << bits) - 1, Element::I32);
    b.andi(shifted, mask)
}

/// Sums `a[m,block,byte,part] * (w[n,block,byte,part] - zero[n,block]) * scale[n,block]` as one loop nest.
fn block_product(cx: &mut Context, a: &Tensor, blocks: &Blocks, shape: &[Dim]) -> Result<Tensor> {
    let types = [a.ty, blocks.scales.ty];
    let mut values = vec![cx.value(a)?, cx.value(&blocks.bytes)?, cx.value(&blocks.scales)?];
    let mut maps = vec![Map::of(5, &[0, 2, 3, 4]), Map::of(5, &[1, 2, 3]), Map::of(5, &[1, 2])];
    if let Some(zeros) = &blocks.zeros {
        values.push(cx.value(zeros)?);
        maps.push(Map::of(5, &[1, 2]));
    }
    maps.push(Map::of(5, &[0, 1]));
    let initial = cx.scalar(&Scalar::Float(0.0), DataType::F32)?;
    let extents = cx.extents(shape);
    let filled = cx.b.fill(initial, &extents);
    let (parallel, reduction) = (Iterator::Parallel, Iterator::Reduction);
    let iterators = [parallel, parallel, reduction, reduction, reduction];
    let (bits, zero, has_zeros) = (blocks.bits, blocks.zero, blocks.zeros.is_some());
    let result = cx.b.generic_single(&values, filled, &maps, &iterators, |b, x| {
        let part = b.iteration(4);
        let part = b.index_cast(part, Element::I32);
        let weight = field(b, x[1], part, bits);
        let weight = b.sitofp(weight, Element::F32);
        let zero = if has_zeros { x[3] } else { b.float(zero, Element::F32) };
        let centred = b.subf(weight, zero);
        let (a, scale) = (widened(b, x[0], types[0]), widened(b, x[2], types[1]));
        let weight = b.mulf(centred, scale);
        let product = b.mulf(a, weight);
        let sum = x.last().copied().unwrap_or(product);
        let sum = b.addf(sum, product);
        narrowed(b, sum, DataType::F32)
    });
    cx.tensor(result, DataType::F32, shape.to_vec())
}
