//! Operators that compute elements of positions.

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::positions::{counted, index_of, integer};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{converted, narrowed, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, axis, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("ConstantOfShape", 9, constant_of_shape),
    onnx("Range", 11, range_node),
    Row { domain: "com.microsoft", ..onnx("Range", 1, range_node) },
    onnx("EyeLike", 9, eye_like),
    onnx("Trilu", 14, trilu),
    Row { domain: "com.microsoft", ..onnx("Trilu", 1, trilu) },
    onnx("OneHot", 9, one_hot),
];

fn constant_of_shape(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let mut shape = Vec::new();
    for dim in cx.integers(node.input(0)?)? {
        shape.push(cx.nonnegative(&dim, "an extent")?);
    }
    let (ty, scalar) = match node.attribute("value").and_then(|value| value.t.as_ref()) {
        None => (DataType::F32, Scalar::Float(0.0)),
        Some(proto) => {
            let tensor = crate::model::embedded(proto, &node.name)?;
            match cx.elements(&tensor)?.as_deref().map(Vec::as_slice) {
                Some([only]) => (tensor.ty, only.clone()),
                _ => return invalid("the attribute `value` has not one element"),
            }
        }
    };
    one(cx.splat(&scalar, ty, &shape)?)
}

/// Ranges of up to this number of elements are known one by one.
const KNOWN: i64 = 4096;

fn range_node(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (start, limit) = (node.input(0)?, node.input(1)?);
    let delta = match node.optional(2)? {
        Some(delta) => delta.clone(),
        None => Tensor::of_elements(start.ty, Vec::new(), vec![Scalar::Int(Dim::constant(1))]),
    };
    if [limit, &delta].iter().any(|tensor| tensor.ty != start.ty) || start.ty.kind() == Kind::Bool {
        return wrong_type(start.ty);
    }
    one(range(cx, start, limit, &delta)?)
}

fn range(cx: &mut Context, start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<Tensor> {
    let ty = start.ty;
    if ty.is_float() {
        let known: Vec<Option<f64>> = [start, limit, delta]
            .into_iter()
            .map(|tensor| Ok(cx.floats(tensor)?.and_then(|elements| elements.first().copied())))
            .collect::<Result<_>>()?;
        if let [Some(first), Some(last), Some(step)] = known[..] {
            return known_floats(cx, first, last, step, ty);
        }
        let count = count_of_floats(cx, start, limit, delta)?;
        return floats(cx, start, delta, &count);
    }
    let [first, last, step] = [start, limit, delta].map(|tensor| integer(cx, tensor, "a bound of a range"));
    let (first, last, step) = (first?, last?, step?);
    let zero = Dim::constant(0);
    let count = match step.as_constant() {
        Some(0) => return invalid("the step of a range is 0"),
        Some(value) => {
            let length = if value > 0 { last.minus(&first) } else { first.minus(&last) };
            length.at_least(&zero).ceil_div(&Dim::constant(value.saturating_abs()))
        }
        None => {
            let [first, last, step] = [&first, &last, &step].map(|dim| cx.index(dim));
            let zero = cx.b.index(0);
            let is_valid = cx.b.cmpi(IntPredicate::NotEqual, step, zero);
            cx.assert(is_valid, "the step of a range is 0");
            let b = &mut cx.b;
            let one = b.index(1);
            let is_up = b.cmpi(IntPredicate::SignedGreater, step, zero);
            let (up, down, negated) = (b.subi(last, first), b.subi(first, last), b.subi(zero, step));
            let length = b.select(is_up, up, down);
            let stride = b.maxsi(step, negated);
            let stride = b.maxsi(stride, one);
            let length = b.maxsi(length, zero);
            let before = b.subi(stride, one);
            let sum = b.addi(length, before);
            let count = b.divsi(sum, stride);
            cx.symbol("?", count)
        }
    };
    if let Some(count) = count.as_constant().filter(|count| *count <= KNOWN) {
        let elements = (0..count).map(|index| Scalar::Int(first.plus(&step.times(&Dim::constant(index)))));
        return Ok(Tensor::of_elements(ty, vec![Dim::constant(count)], elements.collect()));
    }
    let (first, step) = (cx.index(&first), cx.index(&step));
    cx.generate(&[count], ty, |b, positions| {
        let distance = b.muli(positions[0], step);
        let index = b.addi(first, distance);
        b.index_cast(index, ty.element())
    })
}

fn known_floats(cx: &mut Context, first: f64, last: f64, step: f64, ty: DataType) -> Result<Tensor> {
    let count = ((last - first) / step).ceil().max(0.0);
    if !count.is_finite() || count > 1e12 {
        return invalid(format!("a range from {first} to {last} by {step}"));
    }
    let count = count as i64;
    if count <= KNOWN {
        let elements: Option<Vec<Scalar>> =
            (0..count).map(|index| crate::fold::rounded(first + index as f64 * step, ty).map(Scalar::Float)).collect();
        if let Some(elements) = elements {
            return Ok(Tensor::of_elements(ty, vec![Dim::constant(count)], elements));
        }
    }
    let scalar = |value: f64| Tensor::of_elements(ty, Vec::new(), vec![Scalar::Float(value)]);
    floats(cx, &scalar(first), &scalar(step), &Dim::constant(count))
}

/// Computes the number of elements of a range with bounds that are data.
fn count_of_floats(cx: &mut Context, start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<Dim> {
    let ty = start.ty;
    let mut values = Vec::new();
    for tensor in [start, limit, delta] {
        let flat = cx.reshape(tensor, &[Dim::constant(1)])?;
        values.push(cx.value(&flat)?);
    }
    let empty = cx.b.empty(&[1.into()], Element::I64);
    let maps = vec![Map::identity(1); 4];
    let result = cx.b.generic_single(&values, empty, &maps, &[Iterator::Parallel], |b, elements| {
        let mut wide = Vec::new();
        for element in elements.iter().take(3) {
            let element = widened(b, *element, ty);
            wide.push(converted(b, element, ty.computed(), DataType::F64));
        }
        let length = b.subf(wide[1], wide[0]);
        let steps = b.divf(length, wide[2]);
        let count = b.ceil(steps);
        let (zero, most) = (b.float(0.0, Element::F64), b.float(1e15, Element::F64));
        let is_some = b.cmpf(FloatPredicate::OrderedGreater, count, zero);
        let is_sane = b.cmpf(FloatPredicate::OrderedLess, count, most);
        let fits = b.andi(is_some, is_sane);
        let count = b.select(fits, count, zero);
        // Behind 2^52, the last bits of a double are those of a whole number: not every target converts doubles to integers.
        let offset = b.float(4_503_599_627_370_496.0, Element::F64);
        let raised = b.addf(count, offset);
        let bits = b.bitcast(raised, Element::I64);
        let mask = b.int((1 << 52) - 1, Element::I64);
        b.andi(bits, mask)
    });
    let zero = cx.b.index(0);
    let count = cx.b.extract(result, &[zero]);
    let count = cx.b.index_cast(count, Element::Index);
    Ok(cx.symbol("?", count))
}

fn floats(cx: &mut Context, start: &Tensor, delta: &Tensor, count: &Dim) -> Result<Tensor> {
    let ty = start.ty;
    let scalar = Dim::constant(1);
    let (start, delta) = (cx.reshape(start, std::slice::from_ref(&scalar))?, cx.reshape(delta, &[scalar])?);
    cx.map_to(&[&start, &delta], ty, std::slice::from_ref(count), |b, elements| {
        let position = b.iteration(0);
        let element = b.element_of(elements[0]);
        let position = b.index_cast(position, Element::I64);
        let position = b.sitofp(position, element);
        let distance = b.mulf(position, elements[1]);
        b.addf(elements[0], distance)
    })
}

fn eye_like(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    if x.rank() != 2 {
        return invalid(format!("a tensor of rank {}, and 2 is expected", x.rank()));
    }
    let ty = node.data_type("dtype")?.unwrap_or(x.ty);
    let offset = cx.b.index(node.int_or("k", 0));
    let shape = x.shape.clone();
    one(cx.generate(&shape, ty, |b, positions| {
        let diagonal = b.addi(positions[0], offset);
        let is_on = b.cmpi(IntPredicate::Equal, positions[1], diagonal);
        let element = ty.computed().element();
        if element == Element::I1 {
            return is_on;
        }
        let (one, zero) = (b.int(1, element), b.int(0, element));
        b.select(is_on, one, zero)
    })?)
}

/// Keeps the elements above or below a diagonal.
fn trilu(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let rank = x.rank();
    if rank < 2 {
        return invalid(format!("a tensor of rank {rank}, and at least 2 are expected"));
    }
    let is_upper = node.int_or("upper", 1) != 0;
    let offset = match node.optional(1)? {
        Some(offset) => integer(cx, offset, "k")?,
        None => Dim::constant(0),
    };
    if let (Some(offset), Some(own)) = (offset.as_constant(), x.static_shape()) {
        let zero = if x.ty.is_float() { Scalar::Float(0.0) } else { Scalar::Int(Dim::constant(0)) };
        if let Some(elements) = cx.elements(x)? {
            let (rows, columns) = (own[rank - 2].max(1), own[rank - 1].max(1));
            let kept = (0_i64..).zip(elements.iter()).map(|(index, element)| {
                let distance = index % columns - index / columns % rows;
                let is_kept = if is_upper { distance >= offset } else { distance <= offset };
                if is_kept { element.clone() } else { zero.clone() }
            });
            return one(Tensor::of_elements(x.ty, x.shape.clone(), kept.collect()));
        }
    }
    let offset = cx.index(&offset);
    one(cx.map(&[x], x.ty, |b, elements| {
        let (row, column) = (b.iteration(rank - 2), b.iteration(rank - 1));
        let diagonal = b.addi(row, offset);
        let predicate = if is_upper { IntPredicate::SignedGreaterEqual } else { IntPredicate::SignedLessEqual };
        let is_kept = b.cmpi(predicate, column, diagonal);
        let zero = b.int(0, b.element_of(elements[0]));
        b.select(is_kept, elements[0], zero)
    })?)
}

fn one_hot(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (indices, depth, values) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if !values.count().is(2) {
        return invalid(format!("the values have the shape {}, and two are expected", cx.shape_text(&values.shape)));
    }
    let depth = cx.cast(depth, DataType::I64)?;
    let depth = integer(cx, &depth, "depth")?;
    let depth = cx.nonnegative(&depth, "the depth")?;
    let axis = axis(node.int_or("axis", -1), indices.rank() + 1)?;
    let shape: Vec<Dim> =
        indices.shape.iter().take(axis).chain([&depth]).chain(indices.shape.iter().skip(axis)).cloned().collect();
    let ty = values.ty;
    if indices.ty.kind() == Kind::Bool {
        return unsupported("positions are Booleans");
    }
    let (index_type, is_unsigned) = (indices.ty, indices.ty.is_unsigned());
    let (operand, table) = (cx.value(indices)?, cx.reshape(values, &[Dim::constant(2)])?);
    let parts = (
        cx.slice_axis(&table, 0, &Dim::constant(0), &Dim::constant(1))?,
        cx.slice_axis(&table, 0, &Dim::constant(1), &Dim::constant(1))?,
    );
    let (off, on) = (cx.value(&parts.0)?, cx.value(&parts.1)?);
    let depth = cx.index(&depth);
    cx.check_shape(ty, &shape)?;
    let extents = cx.extents(&shape);
    let empty = cx.b.empty(&extents, ty.element());
    let rank = shape.len();
    let others: Vec<usize> = (0..rank).filter(|dimension| *dimension != axis).collect();
    let first = Map::new(rank, vec![incarnate_mlir::Expression::constant(0)]);
    let maps = [Map::of(rank, &others), first.clone(), first, Map::identity(rank)];
    let iterators = vec![Iterator::Parallel; rank];
    let result = cx.b.generic_single(&[operand, off, on], empty, &maps, &iterators, |b, elements| {
        let position = if index_type.is_float() {
            let wide = widened(b, elements[0], index_type);
            let whole = converted(b, wide, index_type.computed(), DataType::I64);
            b.index_cast(whole, Element::Index)
        } else {
            index_of(b, elements[0], is_unsigned)
        };
        let position: Value = counted(b, position, depth);
        let here = b.iteration(axis);
        let is_on = b.cmpi(IntPredicate::Equal, here, position);
        let (off, on) = (widened(b, elements[1], ty), widened(b, elements[2], ty));
        let chosen = b.select(is_on, on, off);
        narrowed(b, chosen, ty)
    });
    one(cx.tensor(result, ty, shape)?)
}
