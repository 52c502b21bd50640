//! `Det`.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[onnx("Det", 11, determinant)];

/// Matrices of up to this number of rows are expanded.
const EXPANDED: i64 = 3;

fn determinant(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let Some((outer, [rows, columns])) = x.shape.split_last_chunk::<2>() else {
        return invalid(format!("a tensor of rank {} is no matrix", x.rank()));
    };
    cx.require_equal(rows, columns, "the number of rows of a matrix")?;
    if let Some(count @ 0..=EXPANDED) = rows.as_constant() {
        let value = cx.value(x)?;
        let ty = x.ty;
        return one(cx.generate(outer, ty, |b, at| {
            let columns: Vec<i64> = (0..count).collect();
            expanded(b, value, ty, at, 0, &columns)
        })?);
    }
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let wide = cx.cast(x, work)?;
    let flat = cx.reshape(&wide, &[Dim::product(outer), rows.clone(), rows.clone()])?;
    let result = eliminated(cx, &flat, work)?;
    let shaped = cx.reshape(&result, outer)?;
    one(cx.cast(&shaped, x.ty)?)
}

/// The determinant of the rows from `row` on and some columns, by the elements of the first row.
fn expanded(b: &mut Builder, value: Value, ty: DataType, at: &[Value], row: i64, columns: &[i64]) -> Value {
    let mut sum = None;
    for (position, column) in columns.iter().enumerate() {
        let mut place = at.to_vec();
        place.extend([b.index(row), b.index(*column)]);
        let mut term = read(b, value, &place, ty);
        let others: Vec<i64> = columns.iter().copied().filter(|other| other != column).collect();
        if !others.is_empty() {
            let minor = expanded(b, value, ty, at, row + 1, &others);
            term = b.mulf(term, minor);
        }
        sum = Some(match sum {
            None => term,
            Some(sum) if position % 2 == 1 => b.subf(sum, term),
            Some(sum) => b.addf(sum, term),
        });
    }
    sum.unwrap_or_else(|| b.float(1.0, ty.computed().element()))
}

/// The determinants of matrices, of shape (count, rows, rows), by elimination with the greatest element of a column as pivot.
fn eliminated(cx: &mut Context, x: &Tensor, ty: DataType) -> Result<Tensor> {
    let (Some(count), Some(rows)) = (x.shape.first().cloned(), x.shape.get(1).cloned()) else {
        return invalid("a number is no matrix");
    };
    let matrices = cx.value(x)?;
    let one = cx.b.float(1.0, ty.element());
    let extents = cx.extents(std::slice::from_ref(&count));
    let products = cx.b.fill(one, &extents);
    let (low, high, step) = (cx.b.index(0), cx.index(&rows), cx.b.index(1));
    let induction = cx.b.argument(incarnate_mlir::Type::Scalar(Element::Index));
    let carried = [matrices, products].map(|value| cx.b.type_of(value).clone());
    let carried = carried.map(|ty| cx.b.argument(ty));
    cx.open_region();
    let pivots = pivots(cx, carried[0], induction, &count, &rows, ty)?;
    let products_next = multiplied(cx, carried, induction, pivots, ty);
    let next = reduced(cx, carried[0], induction, pivots, ty);
    let body = cx.close_region();
    let results =
        cx.b.scf_for((low, high, step), induction, &carried, &[matrices, products], (body, vec![next, products_next]));
    cx.tensor(results.get(1).copied().unwrap_or(products), ty, vec![count])
}

/// The rows from number `step` on whose element in that column has the greatest magnitude.
fn pivots(cx: &mut Context, matrices: Value, step: Value, count: &Dim, rows: &Dim, ty: DataType) -> Result<Value> {
    let space = cx.extents(std::slice::from_ref(rows));
    let space = cx.b.empty(&space, Element::I8);
    let extents = cx.extents(std::slice::from_ref(count));
    let (lowest, first) = (cx.b.float(-1.0, ty.element()), cx.b.int(0, Element::I64));
    let filled = [cx.b.fill(lowest, &extents), cx.b.fill(first, &extents)];
    let maps = [Map::of(2, &[1]), Map::of(2, &[0]), Map::of(2, &[0])];
    let iterators = [Iterator::Parallel, Iterator::Reduction];
    let results = cx.b.generic(&[space], &filled, &maps, &iterators, |b, x| {
        let (matrix, row) = (b.iteration(0), b.iteration(1));
        let element = b.extract(matrices, &[matrix, row, step]);
        let magnitude = b.absf(element);
        let is_greater = b.cmpf(FloatPredicate::OrderedGreater, magnitude, x[1]);
        let is_left = b.cmpi(IntPredicate::SignedGreaterEqual, row, step);
        let is_next = b.andi(is_greater, is_left);
        let row = b.index_cast(row, Element::I64);
        vec![b.select(is_next, magnitude, x[1]), b.select(is_next, row, x[2])]
    });
    match results.get(1) {
        Some(pivots) => Ok(*pivots),
        None => invalid("there are no rows"),
    }
}

/// Multiplies the products by the pivots, with the sign of the exchange of rows.
fn multiplied(cx: &mut Context, carried: [Value; 2], step: Value, pivots: Value, ty: DataType) -> Value {
    let [matrices, products] = carried;
    let extents = cx.b.extents(products);
    let empty = cx.b.empty(&extents, ty.element());
    let maps = [Map::identity(1), Map::identity(1), Map::identity(1)];
    cx.b.generic_single(&[products, pivots], empty, &maps, &[Iterator::Parallel], |b, x| {
        let matrix = b.iteration(0);
        let row = b.index_cast(x[1], Element::Index);
        let pivot = b.extract(matrices, &[matrix, row, step]);
        let product = b.mulf(x[0], pivot);
        let negated = b.negf(product);
        let stays = b.cmpi(IntPredicate::Equal, row, step);
        b.select(stays, product, negated)
    })
}

/// Exchanges rows, and subtracts multiples of the pivot's row from those below.
fn reduced(cx: &mut Context, matrices: Value, step: Value, pivots: Value, ty: DataType) -> Value {
    let extents = cx.b.extents(matrices);
    let empty = cx.b.empty(&extents, ty.element());
    let maps = [Map::of(3, &[0]), Map::identity(3)];
    cx.b.generic_single(&[pivots], empty, &maps, &[Iterator::Parallel; 3], |b, x| {
        let (matrix, row, column) = (b.iteration(0), b.iteration(1), b.iteration(2));
        let pivot_row = b.index_cast(x[0], Element::Index);
        let is_step = b.cmpi(IntPredicate::Equal, row, step);
        let is_pivot = b.cmpi(IntPredicate::Equal, row, pivot_row);
        let other = b.select(is_pivot, step, row);
        let source = b.select(is_step, pivot_row, other);
        let element = b.extract(matrices, &[matrix, source, column]);
        let first = b.extract(matrices, &[matrix, source, step]);
        let pivot = b.extract(matrices, &[matrix, pivot_row, step]);
        let above = b.extract(matrices, &[matrix, pivot_row, column]);
        let (zero, one) = (b.float(0.0, ty.element()), b.float(1.0, ty.element()));
        // A column of zeros makes the product 0, whatever is left.
        let is_zero = b.cmpf(FloatPredicate::OrderedEqual, pivot, zero);
        let divisor = b.select(is_zero, one, pivot);
        let factor = b.divf(first, divisor);
        let multiple = b.mulf(factor, above);
        let difference = b.subf(element, multiple);
        let is_below = b.cmpi(IntPredicate::SignedGreater, row, step);
        b.select(is_below, difference, element)
    })
}
