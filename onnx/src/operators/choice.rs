//! Operators whose results are as long as data say.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::gather::gather_valid;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::{narrowed, widened};
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::node::{Node, Outputs, axis, invalid, one};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("NonZero", 9, |cx, node| one(non_zero(cx, node.input(0)?)?)),
    onnx("Compress", 9, compress),
    onnx("Unique", 11, unique),
];

/// Combines, for each position of the dimensions `kept` of a loop nest, the elements of inputs, whose dimensions are some of the nest's.
/// The body gets elements of the types that arithmetic has, and the combination of those before, whose first value is `initial`.
fn nest(
    cx: &mut Context,
    inputs: &[(&Tensor, &[usize])],
    loops: &[Dim],
    kept: &[usize],
    (ty, initial): (DataType, i64),
    body: impl FnOnce(&mut Builder, &[Value], Value) -> Value,
) -> Result<Tensor> {
    let (mut values, mut maps) = (Vec::new(), Vec::new());
    for (tensor, dimensions) in inputs {
        values.push(cx.value(tensor)?);
        maps.push(Map::of(loops.len(), dimensions));
    }
    maps.push(Map::of(loops.len(), kept));
    let shape: Vec<Dim> = kept.iter().filter_map(|index| loops.get(*index).cloned()).collect();
    cx.check_shape(ty, &shape)?;
    let extents = cx.extents(&shape);
    let first = cx.b.int(initial, ty.element());
    let filled = cx.b.fill(first, &extents);
    let iterators: Vec<Iterator> = (0..loops.len())
        .map(|index| if kept.contains(&index) { Iterator::Parallel } else { Iterator::Reduction })
        .collect();
    let result = cx.b.generic_single(&values, filled, &maps, &iterators, |b, arguments| {
        let Some((before, elements)) = arguments.split_last() else { return b.index(0) };
        let elements: Vec<Value> =
            elements.iter().zip(inputs).map(|(element, (tensor, _))| widened(b, *element, tensor.ty)).collect();
        let result = body(b, &elements, *before);
        narrowed(b, result, ty)
    });
    cx.tensor(result, ty, shape)
}

/// Returns the element of a tensor without dimensions as an extent.
fn total(cx: &mut Context, tensor: &Tensor) -> Result<Dim> {
    let value = cx.value(tensor)?;
    let element = cx.b.extract(value, &[]);
    let index = cx.b.index_cast(element, Element::Index);
    Ok(cx.symbol("?", index))
}

/// Returns the positions of true elements of a tensor of one dimension.
fn positions(cx: &mut Context, flags: &Tensor) -> Result<Tensor> {
    let Some(length) = flags.shape.first().cloned() else { return invalid("flags without dimensions") };
    if let Some(elements) = cx.elements(flags)? {
        let constants: Option<Vec<i64>> =
            elements.iter().map(|element| element.as_int().and_then(Dim::as_constant)).collect();
        if let Some(constants) = constants {
            let chosen = (0_i64..).zip(constants).filter(|(_, flag)| *flag != 0);
            return Ok(Tensor::of_integers(&chosen.map(|(index, _)| Dim::constant(index)).collect::<Vec<_>>()));
        }
    }
    if length.is(0) {
        return Ok(Tensor::of_integers(&[]));
    }
    let loops = [length.clone()];
    let numbers = cx.cast(flags, DataType::I64)?;
    let numbers = cx.value(&numbers)?;
    let zero = cx.b.int(0, Element::I64);
    let initial = cx.b.fill(zero, &[]);
    let (through, all) = cx.b.inclusive_scan(numbers, initial, |b, x, y| b.addi(x, y));
    let through = cx.tensor(through, DataType::I64, loops.to_vec())?;
    let all = cx.tensor(all, DataType::I64, Vec::new())?;
    let count = total(cx, &all)?;
    // Positions that are not chosen go behind those that are.
    let slots =
        nest(cx, &[(flags, &[0]), (&through, &[0]), (&all, &[])], &loops, &[0], (DataType::I64, 0), |b, x, _| {
            let one = b.int(1, Element::I64);
            let before = b.subi(x[1], one);
            b.select(x[0], before, x[2])
        })?;
    let own = cx.generate(&loops, DataType::I64, |b, positions| b.index_cast(positions[0], Element::I64))?;
    let slots = cx.unsqueeze(&slots, &[1])?;
    let (own, slots) = (cx.value(&own)?, cx.value(&slots)?);
    let longer = count.plus(&Dim::constant(1));
    let extents = cx.extents(std::slice::from_ref(&longer));
    let into = cx.b.fill(zero, &extents);
    let written = cx.b.scatter(own, slots, into, |_, update, _| update);
    let written = cx.tensor(written, DataType::I64, vec![longer])?;
    cx.slice_axis(&written, 0, &Dim::constant(0), &count)
}

/// Returns which elements are not 0.
fn flags(cx: &mut Context, x: &Tensor) -> Result<Tensor> {
    if let Some(elements) = cx.elements(x)? {
        let known: Option<Vec<Scalar>> = elements
            .iter()
            .map(|element| {
                let is_on = match element {
                    Scalar::Int(dim) => dim.as_constant()? != 0,
                    Scalar::Float(value) => *value != 0.0,
                };
                Some(Scalar::Int(Dim::constant(i64::from(is_on))))
            })
            .collect();
        if let Some(known) = known {
            return Ok(Tensor::of_elements(DataType::Bool, x.shape.clone(), known));
        }
    }
    cx.cast(x, DataType::Bool)
}

fn non_zero(cx: &mut Context, x: &Tensor) -> Result<Tensor> {
    let shape = if x.rank() == 0 { vec![Dim::constant(1)] } else { x.shape.clone() };
    let flags = flags(cx, x)?;
    let flags = cx.reshape(&flags, &[Dim::product(&shape)])?;
    let chosen = positions(cx, &flags)?;
    let rank = i64::try_from(shape.len()).unwrap_or(0);
    let Some(count) = chosen.shape.first().cloned() else { return invalid("positions without dimensions") };
    let result = [Dim::constant(rank), count];
    if shape.len() == 1 {
        return cx.reshape(&chosen, &result);
    }
    if let (Some(elements), Some(extents)) = (cx.elements(&chosen)?, x.static_shape()) {
        let mut rows = Vec::new();
        for dimension in 0..extents.len() {
            let inner: i64 = extents.iter().skip(dimension + 1).product();
            let extent = extents.get(dimension).copied().unwrap_or(1).max(1);
            let position = |element: &Scalar| Some(element.as_int()?.as_constant()? / inner.max(1) % extent);
            rows.extend(elements.iter().filter_map(position).map(|at| Scalar::Int(Dim::constant(at))));
        }
        return Ok(Tensor::of_elements(DataType::I64, result.to_vec(), rows));
    }
    let value = cx.value(&chosen)?;
    let mut factors = Vec::new();
    for dimension in 0..shape.len() {
        let inner = Dim::product(shape.iter().skip(dimension + 1));
        let Some(extent) = shape.get(dimension) else { continue };
        factors.push((cx.index(&inner), cx.index(extent)));
    }
    cx.generate(&result, DataType::I64, |b, at| {
        let flat = b.extract(value, &[at[1]]);
        let flat = b.index_cast(flat, Element::Index);
        let one = b.index(1);
        let mut position = flat;
        for (dimension, (inner, extent)) in (0_i64..).zip(&factors) {
            let (inner, extent) = (b.maxsi(*inner, one), b.maxsi(*extent, one));
            let rows = b.divsi(flat, inner);
            let own = b.remsi(rows, extent);
            let dimension = b.index(dimension);
            let is_here = b.cmpi(IntPredicate::Equal, at[0], dimension);
            position = b.select(is_here, own, position);
        }
        b.index_cast(position, Element::I64)
    })
}

fn compress(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, condition) = (node.input(0)?, node.input(1)?);
    let (x, axis) = match node.int("axis") {
        Some(index) => (x.clone(), axis(index, x.rank())?),
        None => (cx.reshape(x, &[x.count()])?, 0),
    };
    let (Some(extent), Some(length)) = (x.shape.get(axis), condition.shape.first()) else {
        return invalid("the tensor, or the condition, has no dimensions");
    };
    let condition = cx.slice_axis(condition, 0, &Dim::constant(0), &length.at_most(extent))?;
    let chosen = positions(cx, &condition)?;
    one(gather_valid(cx, &x, &chosen, axis)?)
}

/// Compares two elements: -1, 0 or 1. NaN is equal to NaN, and greater than the others.
fn order(b: &mut Builder, x: Value, y: Value, kind: Kind) -> Value {
    let less = |b: &mut Builder, x: Value, y: Value| match kind {
        Kind::Float => {
            let is_less = b.cmpf(FloatPredicate::OrderedLess, x, y);
            let (is_number, is_nan) = (b.cmpf(FloatPredicate::Ordered, x, x), b.cmpf(FloatPredicate::Unordered, y, y));
            let is_before = b.andi(is_number, is_nan);
            b.ori(is_less, is_before)
        }
        Kind::Signed => b.cmpi(IntPredicate::SignedLess, x, y),
        Kind::Unsigned | Kind::Bool => b.cmpi(IntPredicate::UnsignedLess, x, y),
    };
    let (is_less, is_greater) = (less(b, x, y), less(b, y, x));
    let [below, same, above] = [-1, 0, 1].map(|value| b.int(value, Element::I32));
    let rest = b.select(is_greater, above, same);
    b.select(is_less, below, rest)
}

/// Adds 1 where a condition is true.
fn add_if(b: &mut Builder, sum: Value, condition: Value) -> Value {
    let (zero, one) = (b.int(0, Element::I64), b.int(1, Element::I64));
    let term = b.select(condition, one, zero);
    b.addi(sum, term)
}

fn unique(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let is_sorted = node.int_or("sorted", 1) != 0;
    let (x, axis) = match node.int("axis") {
        Some(index) => (x.clone(), axis(index, x.rank())?),
        None => (cx.reshape(x, &[x.count()])?, 0),
    };
    let Some(length) = x.shape.get(axis).cloned() else { return invalid("there is no such axis") };
    if x.count().is(0) {
        let empty = Item::Tensor(Tensor::of_integers(&[]));
        return Ok(vec![Item::Tensor(x), empty.clone(), empty.clone(), empty]);
    }
    let compared = comparisons(cx, &x, axis, &length)?;
    let square = [length.clone(), length.clone()];
    let index = |b: &mut Builder, dimension: usize| {
        let position = b.iteration(dimension);
        b.index_cast(position, Element::I64)
    };
    // The first position of each element, and which elements stand there.
    let firsts = nest(cx, &compared.inputs(&[0, 1]), &square, &[0], (DataType::I64, i64::MAX), |b, x, before| {
        let (order, _) = compared.order(b, x);
        let same = b.int(0, Element::I32);
        let is_same = b.cmpi(IntPredicate::Equal, order, same);
        let here = index(b, 1);
        let here = b.select(is_same, here, before);
        b.minsi(before, here)
    })?;
    let is_first = nest(cx, &[(&firsts, &[0])], &square[..1], &[0], (DataType::Bool, 0), |b, x, _| {
        let here = index(b, 0);
        b.cmpi(IntPredicate::Equal, x[0], here)
    })?;
    let inverse = if is_sorted {
        let mut inputs = compared.inputs(&[1, 0]);
        inputs.push((&is_first, &[1]));
        nest(cx, &inputs, &square, &[0], (DataType::I64, 0), |b, x, sum| {
            let (order, rest) = compared.order(b, x);
            let below = b.int(-1, Element::I32);
            let is_below = b.cmpi(IntPredicate::Equal, order, below);
            let is_counted = b.andi(is_below, rest[0]);
            add_if(b, sum, is_counted)
        })?
    } else {
        nest(cx, &[(&firsts, &[0]), (&is_first, &[1])], &square, &[0], (DataType::I64, 0), |b, x, sum| {
            let here = index(b, 1);
            let is_before = b.cmpi(IntPredicate::SignedLess, here, x[0]);
            let is_counted = b.andi(is_before, x[1]);
            add_if(b, sum, is_counted)
        })?
    };
    let sum = nest(cx, &[(&is_first, &[0])], &square[..1], &[], (DataType::I64, 0), |b, x, sum| add_if(b, sum, x[0]))?;
    let count = total(cx, &sum)?;
    let pairs = [count, length];
    let inputs: [(&Tensor, &[usize]); 2] = [(&inverse, &[1]), (&is_first, &[1])];
    let indices = nest(cx, &inputs, &pairs, &[0], (DataType::I64, 0), |b, x, before| {
        let own = index(b, 0);
        let is_own = b.cmpi(IntPredicate::Equal, x[0], own);
        let is_chosen = b.andi(is_own, x[1]);
        let here = index(b, 1);
        b.select(is_chosen, here, before)
    })?;
    let counts = if node.has_output(3) {
        Item::Tensor(nest(cx, &[(&inverse, &[1])], &pairs, &[0], (DataType::I64, 0), |b, x, sum| {
            let own = index(b, 0);
            let is_own = b.cmpi(IntPredicate::Equal, x[0], own);
            add_if(b, sum, is_own)
        })?)
    } else {
        Item::Nothing
    };
    let chosen = gather_valid(cx, &x, &indices, axis)?;
    Ok(vec![Item::Tensor(chosen), Item::Tensor(indices), Item::Tensor(inverse), counts])
}

/// The order of all pairs of slices along an axis.
enum Compared {
    /// Of elements, which are compared where the order is wanted.
    Elements(Tensor, Kind),
    /// Of slices, as a matrix: -1, 0 or 1, as the first elements that differ are ordered.
    Slices(Tensor),
}

impl Compared {
    /// Returns the inputs of a loop nest in whose body [`Compared::order`] compares the slices at two of its dimensions.
    fn inputs<'t>(&'t self, dimensions: &'t [usize; 2]) -> Vec<(&'t Tensor, &'t [usize])> {
        match self {
            Compared::Elements(tensor, _) => vec![(tensor, &dimensions[..1]), (tensor, &dimensions[1..])],
            Compared::Slices(tensor) => vec![(tensor, &dimensions[..])],
        }
    }

    /// Returns the order of the elements that come first, and the elements behind them.
    fn order<'x>(&self, b: &mut Builder, elements: &'x [Value]) -> (Value, &'x [Value]) {
        match (self, elements) {
            (Compared::Elements(_, kind), [x, y, rest @ ..]) => (order(b, *x, *y, *kind), rest),
            (_, [order, rest @ ..]) => (*order, rest),
            (_, []) => (b.int(0, Element::I32), elements),
        }
    }
}

fn comparisons(cx: &mut Context, x: &Tensor, axis: usize, length: &Dim) -> Result<Compared> {
    let mut permutation: Vec<usize> = (0..x.rank()).filter(|index| *index != axis).collect();
    permutation.insert(0, axis);
    let rows = cx.transpose(x, &permutation)?;
    let columns = Dim::product(rows.shape.iter().skip(1));
    let kind = x.ty.kind();
    if columns.is(1) {
        return Ok(Compared::Elements(cx.reshape(&rows, std::slice::from_ref(length))?, kind));
    }
    let rows = cx.reshape(&rows, &[length.clone(), columns.clone()])?;
    let loops = [length.clone(), length.clone(), columns];
    let matrix =
        nest(cx, &[(&rows, &[0, 2]), (&rows, &[1, 2])], &loops, &[0, 1], (DataType::I32, 0), |b, x, before| {
            let own = order(b, x[0], x[1], kind);
            let same = b.int(0, Element::I32);
            let is_same = b.cmpi(IntPredicate::Equal, before, same);
            b.select(is_same, own, before)
        })?;
    Ok(Compared::Slices(matrix))
}
