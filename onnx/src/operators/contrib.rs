//! `GatherBlockQuantized` and `CDist` of com.microsoft.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, Iterator, Map, Value};

use super::positions;
use super::{Lowering, Row};
use crate::context::Context;
use crate::convert::widened;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, axis, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    Row { domain: "com.microsoft", name: "GatherBlockQuantized", since: 1, lower: Lowering::Plain(gather_quantized) },
    Row { domain: "com.microsoft", name: "CDist", since: 1, lower: Lowering::Plain(distances) },
];

/// A tensor of integers of which several may stand in a byte along the last dimension, the first in the lowest bits.
#[derive(Clone)]
struct Packed {
    value: Value,
    ty: DataType,
    /// The integers in an element of the tensor.
    count: i64,
    bits: i64,
}

impl Packed {
    fn new(cx: &mut Context, tensor: &Tensor, bits: i64) -> Result<Packed> {
        let count = if tensor.ty == DataType::U8 { 8 / bits } else { 1 };
        Ok(Packed { value: cx.value(tensor)?, ty: tensor.ty, count, bits })
    }

    /// Reads the integer at a position as `i32`.
    fn read(&self, b: &mut Builder, at: &[Value]) -> Value {
        let mut at = at.to_vec();
        let mut shift = None;
        if self.count > 1
            && let Some(last) = at.last_mut()
        {
            let (count, bits) = (b.index(self.count), b.index(self.bits));
            let rest = b.remui(*last, count);
            *last = b.divui(*last, count);
            shift = Some(b.muli(rest, bits));
        }
        let raw = read(b, self.value, &at, self.ty);
        let wide = match self.ty.kind() {
            Kind::Unsigned => b.extui(raw, Element::I32),
            _ => b.extsi(raw, Element::I32),
        };
        let Some(shift) = shift else { return wide };
        let (shift, mask) = (b.index_cast(shift, Element::I32), b.int((1 << self.bits) - 1, Element::I32));
        let shifted = b.shrui(wide, shift);
        b.andi(shifted, mask)
    }
}

/// Gathers along an axis and multiplies by the scale of each block, which is a range of another axis.
fn gather_quantized(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (data, indices, scales) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if !matches!(data.ty, DataType::U8 | DataType::U4 | DataType::I4) {
        return wrong_type(data.ty);
    }
    let bits = node.int_or("bits", 4);
    if !matches!(bits, 2 | 4 | 8) {
        return invalid(format!("the attribute `bits` is {bits}"));
    }
    let gathered = axis(node.int_or("gather_axis", 0), data.rank())?;
    let quantised = axis(node.int_or("quantize_axis", 1), data.rank())?;
    let block = node.int_or("block_size", 128);
    if block <= 0 || scales.rank() != data.rank() {
        return invalid("the attribute `block_size` is not positive, or the scales have another rank than the data");
    }
    let packed = Packed::new(cx, data, bits)?;
    let zero_points = node.optional(3)?.map(|zeros| Packed::new(cx, zeros, bits)).transpose()?;
    let default = if data.ty == DataType::U8 { 1 << (bits - 1) } else { 0 };
    let mut shape = data.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = last.times(&Dim::constant(packed.count));
    }
    let Some(extent) = shape.get(gathered).cloned() else { return invalid("there is no such axis") };
    cx.require_positions(indices, &extent, Accepted::BothEnds, "`indices`")?;
    cx.require_elements(&extent, &indices.count(), "the dimension of a gather")?;
    shape.splice(gathered..=gathered, indices.shape.iter().cloned());
    let rank = indices.rank();
    let (positions, extent, factors) = (cx.value(indices)?, cx.index(&extent), cx.value(scales)?);
    let (index_ty, ty) = (indices.ty, scales.ty);
    let output = cx.generate(&shape, ty, |b, at| {
        let behind = gathered + rank;
        let index = read(b, positions, at.get(gathered..behind).unwrap_or_default(), index_ty);
        let index = b.index_cast(index, Element::Index);
        let index = positions::within(b, index, extent);
        let mut source: Vec<Value> = at.get(..gathered).unwrap_or_default().to_vec();
        source.push(index);
        source.extend(at.get(behind..).unwrap_or_default());
        let mut group = source.clone();
        if let Some(slot) = group.get_mut(quantised) {
            let block = b.index(block);
            *slot = b.divui(*slot, block);
        }
        let mut number = packed.read(b, &source);
        let zero = match &zero_points {
            Some(zeros) => zeros.read(b, &group),
            None => b.int(default, Element::I32),
        };
        number = b.subi(number, zero);
        let factor = read(b, factors, &group, ty);
        let number = b.sitofp(number, ty.computed().element());
        b.mulf(number, factor)
    })?;
    one(output)
}

/// The distances of the rows of two matrices.
fn distances(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, y) = (node.input(0)?, node.input(1)?);
    let has_root = match node.text_or("metric", "sqeuclidean")? {
        "euclidean" => true,
        "sqeuclidean" => false,
        metric => return unsupported(format!("the metric `{metric}`")),
    };
    let ([rows, size], [columns, other]) = (&*x.shape, &*y.shape) else {
        return invalid("the distances of tensors that are no matrices");
    };
    cx.require_equal(size, other, "the size of rows")?;
    let ty = x.ty.computed();
    let shape = [rows.clone(), columns.clone()];
    let operands = [cx.value(x)?, cx.value(y)?];
    let zero = cx.b.float(0.0, ty.element());
    let extents = cx.extents(&shape);
    let filled = cx.b.fill(zero, &extents);
    let map = |row: usize| Map::new(3, vec![Expression::dimension(row), Expression::dimension(2)]);
    let maps = [map(0), map(1), Map::of(3, &[0, 1])];
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let types = (x.ty, y.ty);
    let sums = cx.b.generic_single(&operands, filled, &maps, &iterators, |b, x| {
        let (x0, x1) = (widened(b, x[0], types.0), widened(b, x[1], types.1));
        let difference = b.subf(x0, x1);
        let square = b.mulf(difference, difference);
        b.addf(x[2], square)
    });
    let sums = cx.tensor(sums, ty, shape.to_vec())?;
    one(cx.map(&[&sums], x.ty, |b, x| if has_root { b.sqrt(x[0]) } else { x[0] })?)
}
