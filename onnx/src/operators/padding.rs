//! Operators that add elements around a tensor, or repeat it.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Iterator, Map, Value};

use super::positions::{element, integer};
use super::slices::is_axis;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, axes, axis, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Pad", 1, |cx, node| pad_by_attributes(cx, node, "paddings")),
    onnx("Pad", 2, |cx, node| pad_by_attributes(cx, node, "pads")),
    onnx("Pad", 11, pad),
    Row { domain: "com.microsoft", ..onnx("Pad", 1, pad) },
    onnx("CenterCropPad", 18, center_crop_pad),
    onnx("Tile", 1, |cx, node| {
        let x = node.input(0)?;
        // Both numbers have the type of the tensor.
        let (tiles, along) = (cx.cast(node.input(1)?, DataType::I64)?, cx.cast(node.input(2)?, DataType::I64)?);
        let (count, along) = (integer(cx, &tiles, "tiles")?, integer(cx, &along, "axis")?);
        let Some(along) = along.as_constant() else { return unsupported("the axis is not a constant") };
        let mut repeats = vec![Dim::constant(1); x.rank()];
        if let Some(slot) = repeats.get_mut(axis(along, x.rank())?) {
            *slot = count;
        }
        one(tile(cx, x, &repeats)?)
    }),
    onnx("Tile", 6, |cx, node| {
        let repeats = cx.integers(node.input(1)?)?;
        one(tile(cx, node.input(0)?, &repeats)?)
    }),
];

/// What is added around a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

impl Mode {
    fn of(node: &Node<'_>) -> Result<Mode> {
        match node.text_or("mode", "constant")? {
            "constant" => Ok(Mode::Constant),
            "reflect" => Ok(Mode::Reflect),
            "edge" => Ok(Mode::Edge),
            "wrap" => Ok(Mode::Wrap),
            other => unsupported(format!("the mode `{other}` is not known")),
        }
    }
}

fn pad_by_attributes(cx: &mut Context, node: &Node<'_>, name: &str) -> Result<Outputs> {
    let x = node.input(0)?;
    let Some(pads) = node.ints(name) else { return invalid(format!("there is no attribute `{name}`")) };
    let pads: Vec<Dim> = pads.iter().copied().map(Dim::constant).collect();
    let (low, high) = halves(&pads, x.rank())?;
    let scalar = if x.ty.is_float() {
        Scalar::Float(node.float_or("value", 0.0))
    } else {
        Scalar::Int(Dim::constant(node.float_or("value", 0.0) as i64))
    };
    let value = cx.scalar(&scalar, x.ty)?;
    one(padded(cx, x, &low, &high, Mode::of(node)?, value)?)
}

fn halves(pads: &[Dim], count: usize) -> Result<(Vec<Dim>, Vec<Dim>)> {
    if pads.len() != count * 2 {
        return invalid(format!("there are {} pads for {count} dimensions", pads.len()));
    }
    let (low, high) = pads.split_at(count);
    Ok((low.to_vec(), high.to_vec()))
}

fn pad(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let pads = cx.integers(node.input(1)?)?;
    let value = match node.optional(2)? {
        Some(value) if value.ty != x.ty => return invalid("the value that is added has another type"),
        Some(value) => element(cx, value, "constant_value")?,
        None => {
            let zero = if x.ty.is_float() { Scalar::Float(0.0) } else { Scalar::Int(Dim::constant(0)) };
            cx.scalar(&zero, x.ty)?
        }
    };
    let (low, high) = match node.optional(3)? {
        None => halves(&pads, x.rank())?,
        Some(list) => {
            let list = cx.integers(list)?;
            let (low, high) = halves(&pads, list.len())?;
            (spread(cx, &low, &list, x.rank(), 0)?, spread(cx, &high, &list, x.rank(), 0)?)
        }
    };
    one(padded(cx, x, &low, &high, Mode::of(node)?, value)?)
}

/// Returns a number for each dimension: that of its axis, or another.
fn spread(cx: &mut Context, numbers: &[Dim], list: &[Dim], rank: usize, other: i64) -> Result<Vec<Dim>> {
    let mut all = vec![Dim::constant(other); rank];
    let constants: Option<Vec<i64>> = list.iter().map(Dim::as_constant).collect();
    if let Some(constants) = constants {
        for (index, number) in axes(&constants, rank)?.into_iter().zip(numbers) {
            if let Some(slot) = all.get_mut(index) {
                *slot = number.clone();
            }
        }
        return Ok(all);
    }
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    for (dimension, slot) in (0_i64..).zip(&mut all) {
        let mut value = cx.b.index(other);
        for (axis, number) in list.iter().zip(numbers) {
            let is_here = is_axis(cx, axis, dimension, signed);
            let number = cx.index(number);
            value = cx.b.select(is_here, number, value);
        }
        *slot = cx.integer("?", value);
    }
    Ok(all)
}

/// Adds elements around a tensor; negative numbers remove elements.
fn padded(cx: &mut Context, x: &Tensor, low: &[Dim], high: &[Dim], mode: Mode, value: Value) -> Result<Tensor> {
    let mut shape = Vec::new();
    for (dim, (low, high)) in x.shape.iter().zip(low.iter().zip(high)) {
        let zero = Dim::constant(0);
        let left = dim.plus(&low.at_most(&zero)).plus(&high.at_most(&zero));
        cx.nonnegative(&left, "an extent without what pads remove")?;
        shape.push(cx.nonnegative(&dim.plus(low).plus(high), "an extent of a padded tensor")?);
    }
    if mode == Mode::Constant {
        let padded = cx.pad(x, low, high, value)?;
        return Ok(Tensor { shape, ..padded });
    }
    let zero = Dim::constant(0);
    let removed = |pads: &[Dim]| -> Vec<Dim> { pads.iter().map(|pad| pad.at_most(&zero)).collect() };
    let (cut_low, cut_high) = (removed(low), removed(high));
    let fill = x.shape.iter().zip(cut_low.iter().zip(&cut_high));
    let left: Vec<Dim> = fill.map(|(dim, (low, high))| dim.plus(low).plus(high)).collect();
    let offsets: Vec<Dim> = cut_low.iter().map(|pad| zero.minus(pad)).collect();
    let kept = if left == x.shape { x.clone() } else { cx.slice(x, &offsets, &left, &vec![1; x.rank()])? };
    let low: Vec<Dim> = low.iter().map(|pad| pad.at_least(&zero)).collect();
    let high: Vec<Dim> = high.iter().map(|pad| pad.at_least(&zero)).collect();
    for (dim, added) in kept.shape.iter().zip(low.iter().zip(&high)).map(|(dim, (low, high))| (dim, low.plus(high))) {
        cx.require_elements(dim, &added, "a dimension that is padded")?;
    }
    let mut rules = Vec::new();
    for (index, extent) in kept.shape.iter().enumerate() {
        let (Some(low), Some(high)) = (low.get(index), high.get(index)) else { continue };
        if low.is(0) && high.is(0) {
            rules.push(None);
            continue;
        }
        let last = extent.minus(&Dim::constant(1));
        let is_once = match mode {
            Mode::Wrap => {
                last.minus(low).plus(&Dim::constant(1)).is_nonnegative() && extent.minus(high).is_nonnegative()
            }
            _ => last.minus(low).is_nonnegative() && last.minus(high).is_nonnegative(),
        };
        rules.push(Some((cx.index(low), cx.index(extent), is_once)));
    }
    let operand = cx.value(&kept)?;
    cx.generate(&shape, x.ty, |b, positions| {
        let mut at = Vec::new();
        for (position, rule) in positions.iter().zip(&rules) {
            at.push(match rule {
                None => *position,
                Some((low, extent, is_once)) => {
                    let from_first = b.subi(*position, *low);
                    source(b, from_first, *extent, mode, *is_once)
                }
            });
        }
        b.extract(operand, &at)
    })
}

/// Returns where the element is that stands at a position before, within or behind a dimension. `is_once` says that the position is no
/// further outside than the dimension is long.
fn source(b: &mut Builder, position: Value, extent: Value, mode: Mode, is_once: bool) -> Value {
    let (zero, one) = (b.index(0), b.index(1));
    let last = b.subi(extent, one);
    let remainder = |b: &mut Builder, position: Value, period: Value| {
        let rest = b.remsi(position, period);
        let is_negative = b.cmpi(incarnate_mlir::IntPredicate::SignedLess, rest, zero);
        let raised = b.addi(rest, period);
        b.select(is_negative, raised, rest)
    };
    match mode {
        Mode::Edge | Mode::Constant => {
            let low = b.maxsi(position, zero);
            b.minsi(low, last)
        }
        Mode::Reflect => {
            let position = if is_once {
                position
            } else {
                let doubled = b.addi(last, last);
                let period = b.maxsi(doubled, one);
                remainder(b, position, period)
            };
            // The distance from the last element, and that from the first.
            let negated = b.subi(zero, position);
            let from_first = b.maxsi(position, negated);
            let beyond = b.subi(last, from_first);
            let opposite = b.subi(from_first, last);
            let distance = b.maxsi(beyond, opposite);
            b.subi(last, distance)
        }
        Mode::Wrap if is_once => {
            let raised = b.addi(position, extent);
            let lowered = b.subi(position, extent);
            let is_before = b.cmpi(incarnate_mlir::IntPredicate::SignedLess, position, zero);
            let is_behind = b.cmpi(incarnate_mlir::IntPredicate::SignedGreaterEqual, position, extent);
            let inner = b.select(is_behind, lowered, position);
            b.select(is_before, raised, inner)
        }
        Mode::Wrap => {
            let period = b.maxsi(extent, one);
            remainder(b, position, period)
        }
    }
}

/// Crops or pads dimensions to extents, the same on both sides.
fn center_crop_pad(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let targets = cx.integers(node.input(1)?)?;
    let all: Vec<i64> = (0..).take(x.rank()).collect();
    let list = axes(node.ints("axes").unwrap_or(&all), x.rank())?;
    if targets.len() != list.len() {
        return invalid(format!("{} extents for {} axes", targets.len(), list.len()));
    }
    let zero = Dim::constant(0);
    let (mut low, mut high) = (vec![zero.clone(); x.rank()], vec![zero.clone(); x.rank()]);
    for (index, target) in list.iter().zip(&targets) {
        let target = cx.nonnegative(target, "an extent")?;
        let Some(dim) = x.shape.get(*index) else { continue };
        let (difference, two) = (target.minus(dim), Dim::constant(2));
        let added = difference.at_least(&zero).floor_div(&two);
        let removed = zero.minus(&difference).at_least(&zero).floor_div(&two);
        let before = added.minus(&removed);
        if let (Some(low), Some(high)) = (low.get_mut(*index), high.get_mut(*index)) {
            *high = difference.minus(&before);
            *low = before;
        }
    }
    let fill = if x.ty.is_float() { Scalar::Float(0.0) } else { Scalar::Int(zero) };
    let value = cx.scalar(&fill, x.ty)?;
    one(padded(cx, x, &low, &high, Mode::Constant, value)?)
}

/// Repeats a tensor along each dimension.
fn tile(cx: &mut Context, x: &Tensor, repeats: &[Dim]) -> Result<Tensor> {
    if repeats.len() != x.rank() {
        return invalid(format!("{} numbers of repeats for a rank of {}", repeats.len(), x.rank()));
    }
    let mut counts = Vec::new();
    for repeat in repeats {
        counts.push(cx.nonnegative(repeat, "a number of repeats")?);
    }
    let shape: Vec<Dim> = x.shape.iter().zip(&counts).map(|(dim, count)| dim.times(count)).collect();
    if counts.iter().all(|count| count.is(1)) {
        return Ok(x.clone());
    }
    let own = x.static_shape();
    let source = |position: &[i64]| {
        let own = own.as_ref()?;
        position.iter().zip(own).map(|(index, extent)| index.checked_rem(*extent)).collect()
    };
    if let Some(known) = cx.rearranged(x, &shape, source)? {
        return Ok(known);
    }
    // A dimension of repeats before each that is repeated.
    let (mut split, mut inner) = (Vec::new(), Vec::new());
    for (dim, count) in x.shape.iter().zip(&counts) {
        if !count.is(1) {
            split.push(count.clone());
        }
        inner.push(split.len());
        split.push(dim.clone());
    }
    let repeated = spread_over(cx, x, &split, &inner, x.ty)?;
    cx.reshape(&repeated, &shape)
}

/// Copies a tensor, whose dimensions are some of the result's, along the others.
pub(super) fn spread_over(
    cx: &mut Context,
    x: &Tensor,
    shape: &[Dim],
    dimensions: &[usize],
    ty: DataType,
) -> Result<Tensor> {
    cx.check_shape(ty, shape)?;
    let value = cx.value(x)?;
    let extents = cx.extents(shape);
    let empty = cx.b.empty(&extents, ty.element());
    let maps = [Map::of(shape.len(), dimensions), Map::identity(shape.len())];
    let iterators = vec![Iterator::Parallel; shape.len()];
    let result = cx.b.generic_single(&[value], empty, &maps, &iterators, |_, x| x[0]);
    cx.tensor(result, ty, shape.to_vec())
}
