//! The greatest and the least elements along an axis.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::nests::{Loops, Output, Reduction, first, map_nest, nest, only_integer};
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::kit::{others, read, wrong_type};
use crate::node::{Node, Outputs, axis, invalid};
use crate::tensor::{Item, Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("TopK", 1, |cx, node| {
        let Some(count) = node.int("k") else { return invalid("there is no attribute `k`") };
        top_k(cx, node, &Dim::constant(count), true)
    }),
    onnx("TopK", 10, |cx, node| {
        let count = count(cx, node)?;
        top_k(cx, node, &count, true)
    }),
    onnx("TopK", 11, |cx, node| {
        let count = count(cx, node)?;
        top_k(cx, node, &count, node.int_or("largest", 1) != 0)
    }),
];

/// Lists of up to this number of elements are kept in order while elements are visited, where the length of the axis is not known.
const SHORT: i64 = 64;

fn count(cx: &mut Context, node: &Node<'_>) -> Result<Dim> {
    only_integer(cx, node.input(1)?, "`K`")
}

/// The elements, and their positions. The order is that of all elements, also where `sorted` is 0.
fn top_k(cx: &mut Context, node: &Node<'_>, count: &Dim, is_largest: bool) -> Result<Outputs> {
    let x = node.input(0)?;
    let axis = axis(node.int_or("axis", -1), x.rank())?;
    let Some(length) = x.shape.get(axis).cloned() else { return invalid("there is no such axis") };
    check(cx, count, &length)?;
    let mut shape = x.shape.clone();
    if let Some(slot) = shape.get_mut(axis) {
        *slot = count.clone();
    }
    if Dim::product(&shape).is(0) {
        let none = |ty| Item::Tensor(Tensor::of_elements(ty, shape.clone(), Vec::new()));
        return Ok(vec![none(x.ty), none(DataType::I64)]);
    }
    let keys = keys(cx, x, is_largest)?;
    let positions =
        if inserts(count, &length) { inserted(cx, &keys, axis, &shape)? } else { counted(cx, &keys, axis, &shape)? };
    let value = cx.value(x)?;
    let (ty, last) = (x.ty, cx.index(&length.minus(&Dim::constant(1))));
    let elements = map_nest(cx, &[(&positions, Map::identity(shape.len()))], &shape, ty, |b, position| {
        let chosen = b.index_cast(position[0], Element::Index);
        let chosen = b.minui(chosen, last);
        let at: Vec<Value> =
            (0..shape.len()).map(|dimension| if dimension == axis { chosen } else { b.iteration(dimension) }).collect();
        read(b, value, &at, ty)
    })?;
    Ok(vec![Item::Tensor(elements), Item::Tensor(positions)])
}

/// Requires that there are as many elements.
fn check(cx: &mut Context, count: &Dim, length: &Dim) -> Result<()> {
    let text = format!("{} elements of {} along the axis", cx.text(count), cx.text(length));
    match (count.as_constant(), length.minus(count).as_constant()) {
        (Some(count), _) if count < 0 => invalid(text),
        (_, Some(left)) if left < 0 => invalid(text),
        (Some(_), Some(_)) => Ok(()),
        _ => {
            let (count, length) = (cx.index(count), cx.index(length));
            let fits = cx.b.cmpi(IntPredicate::UnsignedLessEqual, count, length);
            cx.assert(fits, &text);
            Ok(())
        }
    }
}

/// Returns true if each element should be inserted into a list of the best, rather than compared with all others: the lists are short.
fn inserts(count: &Dim, length: &Dim) -> bool {
    match (count.as_constant(), length.as_constant()) {
        // Insertions are steps one by one; comparisons of integers are done eight at a time.
        (Some(count), Some(length)) => count.saturating_mul(8) <= length || count == 1,
        (Some(count), None) => count <= SHORT,
        (None, _) => false,
    }
}

/// Integers with the order of the elements, the greatest of which come first in the result. NaN is greater than all numbers, and zeros
/// are equal.
fn keys(cx: &mut Context, x: &Tensor, is_largest: bool) -> Result<Tensor> {
    let from = x.ty;
    let ty = if from.computed().bits() == 64 { DataType::I64 } else { DataType::I32 };
    if from == DataType::Bool {
        return wrong_type(from);
    }
    map_nest(cx, &[(x, Map::identity(x.rank()))], &x.shape, ty, |b, x| {
        let key = match from.kind() {
            Kind::Float => float_key(b, x[0], ty.element()),
            _ if from.bits() < 32 => converted(b, x[0], from, ty),
            Kind::Signed => x[0],
            _ => {
                let sign = b.int(if ty == DataType::I64 { i64::MIN } else { i64::from(i32::MIN) }, ty.element());
                b.xori(x[0], sign)
            }
        };
        if is_largest {
            return key;
        }
        let ones = b.int(-1, ty.element());
        b.xori(key, ones)
    })
}

/// The bits of a float, in the order of signed integers.
fn float_key(b: &mut Builder, x: Value, ty: Element) -> Value {
    let float = b.element_of(x);
    let bits_less_one = i64::from(ty.bits()) - 1;
    let greatest = if ty == Element::I64 { i64::MAX } else { i64::from(i32::MAX) };
    let zero = b.float(0.0, float);
    let is_zero = b.cmpf(FloatPredicate::OrderedEqual, x, zero);
    let is_nan = b.cmpf(FloatPredicate::Unordered, x, x);
    let bits = b.bitcast(x, ty);
    let distance = b.int(bits_less_one, ty);
    let sign = b.shrsi(bits, distance);
    let greatest = b.int(greatest, ty);
    let flipped = b.andi(sign, greatest);
    let key = b.xori(bits, flipped);
    let none = b.int(0, ty);
    let key = b.select(is_zero, none, key);
    b.select(is_nan, greatest, key)
}

/// Returns whether an element comes before another: its key is greater, or equal and its position lower.
fn precedes(b: &mut Builder, x: (Value, Value), y: (Value, Value)) -> Value {
    let is_greater = b.cmpi(IntPredicate::SignedGreater, x.0, y.0);
    let is_equal = b.cmpi(IntPredicate::Equal, x.0, y.0);
    let is_before = b.cmpi(IntPredicate::SignedLess, x.1, y.1);
    let wins = b.andi(is_equal, is_before);
    b.ori(is_greater, wins)
}

/// Counts for each element those that come before it, and finds the elements by these numbers.
fn counted(cx: &mut Context, keys: &Tensor, axis: usize, shape: &[Dim]) -> Result<Tensor> {
    let rank = keys.rank();
    let mut iterators = vec![Iterator::Parallel; rank];
    iterators.push(Iterator::Reduction);
    let outer: Vec<usize> = (0..rank).collect();
    let inner: Vec<usize> = outer.iter().map(|index| if *index == axis { rank } else { *index }).collect();
    let (element, other) = (Map::of(rank + 1, &outer), Map::of(rank + 1, &inner));
    let length = keys.shape.get(axis).cloned().unwrap_or_else(|| Dim::constant(0));
    let reduction = |shape: Vec<Dim>| Reduction {
        loops: Loops { iterators: iterators.clone(), window: None },
        output: element.clone(),
        shape,
        count: length.clone(),
    };
    let none = Scalar::Int(Dim::constant(0));
    let operands = [(keys, element.clone()), (keys, other.clone())];
    let ranks = first(reduction(keys.shape.clone()).reduce(
        cx,
        &operands,
        &[(DataType::I32, none.clone())],
        |b, x, counts| {
            let (index, other) = (b.iteration(axis), b.iteration(rank));
            let precedes = precedes(b, (x[1], other), (x[0], index));
            let term = converted(b, precedes, DataType::Bool, DataType::I32);
            vec![b.addi(counts[0], term)]
        },
    )?)?;
    first(reduction(shape.to_vec()).reduce(cx, &[(&ranks, other)], &[(DataType::I64, none)], |b, rank_of, found| {
        let (wanted, index) = (b.iteration(axis), b.iteration(rank));
        let wanted = b.index_cast(wanted, Element::I32);
        let is_here = b.cmpi(IntPredicate::Equal, rank_of[0], wanted);
        let position = b.index_cast(index, Element::I64);
        vec![b.select(is_here, position, found[0])]
    })?)
}

/// Inserts each element into the list of the best before it: what an element displaces is carried to the next place.
fn inserted(cx: &mut Context, keys: &Tensor, axis: usize, shape: &[Dim]) -> Result<Tensor> {
    let rank = keys.rank();
    let kept = others(&[axis], rank);
    // The rows, the elements of a row, and the places of the list.
    let loops = rank + 1;
    let map_with = |last: usize| {
        let of = |dimension: usize| kept.iter().position(|other| *other == dimension).unwrap_or(last);
        Map::of(loops, &(0..rank).map(of).collect::<Vec<_>>())
    };
    let (elements, places) = (map_with(rank - 1), map_with(rank));
    let rows: Vec<Dim> = kept.iter().filter_map(|index| keys.shape.get(*index).cloned()).collect();
    let row = Map::of(loops, &(0..rank - 1).collect::<Vec<_>>());
    let least = Scalar::Int(Dim::constant(if keys.ty == DataType::I64 { i64::MIN } else { i64::from(i32::MIN) }));
    let far = Scalar::Int(Dim::constant(i64::MAX));
    let output = |ty, shape: &[Dim], map: &Map, initial: &Scalar| Output {
        ty,
        shape: shape.to_vec(),
        map: map.clone(),
        initial: Some(initial.clone()),
    };
    let outputs = [
        output(DataType::I64, shape, &places, &far),
        output(keys.ty, shape, &places, &least),
        output(DataType::I64, &rows, &row, &far),
        output(keys.ty, &rows, &row, &least),
    ];
    let mut iterators = vec![Iterator::Parallel; rank - 1];
    iterators.extend([Iterator::Reduction; 2]);
    let loops = Loops { iterators, window: None };
    first(nest(cx, &[(keys, elements)], &loops, &outputs, |b, key, state| {
        let (index, place, start) = (b.iteration(rank - 1), b.iteration(rank), b.index(0));
        let index = b.index_cast(index, Element::I64);
        let is_new = b.cmpi(IntPredicate::Equal, place, start);
        let carried = (b.select(is_new, key[0], state[3]), b.select(is_new, index, state[2]));
        let listed = (state[1], state[0]);
        let displaces = precedes(b, carried, listed);
        vec![
            b.select(displaces, carried.1, listed.1),
            b.select(displaces, carried.0, listed.0),
            b.select(displaces, listed.1, carried.1),
            b.select(displaces, listed.0, carried.0),
        ]
    })?)
}
