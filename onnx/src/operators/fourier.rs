//! Fourier transforms.

use core::f64::consts::PI;

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, IntPredicate, Iterator, Kernel, Map, Value};

use super::tables::table;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{read, wrong_type};
use crate::node::{Node, Outputs, axis, invalid, one, unsupported};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("DFT", 17, |cx, node| {
        let axis = node.axis("axis", 1, node.input(0)?.rank())?;
        dft(cx, node, Axis::Known(axis))
    }),
    onnx("DFT", 20, |cx, node| {
        let chosen = match node.optional(2)? {
            None => Dim::constant(-2),
            Some(tensor) => scalar(cx, tensor, "axis")?,
        };
        let axis = match chosen.as_constant() {
            Some(chosen) => Axis::Known(axis(chosen, node.input(0)?.rank())?),
            None => Axis::Computed(cx.index(&chosen)),
        };
        dft(cx, node, axis)
    }),
    onnx("STFT", 17, stft),
];

/// The most elements of a matrix of a transform that is a constant.
const MATRIX: i64 = 1 << 23;

/// A transform along the rows of a matrix whose columns are numbers of one or two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transform {
    is_inverse: bool,
    /// The result of the inverse of a spectrum's half is real.
    is_real: bool,
    /// The number of parts of an input: 1 for real ones, 2 for complex ones.
    parts: i64,
}

impl Transform {
    fn result_parts(self) -> i64 {
        if self.is_real { 1 } else { 2 }
    }

    /// The factor of part `part` of input `n` in part `to` of result `k`, for a length.
    fn factor(self, length: i64, n: i64, part: i64, k: i64, to: i64) -> f64 {
        let turns = (i128::from(n) * i128::from(k)) % i128::from(length.max(1));
        let (cosine, mut sine) = root(i64::try_from(turns).unwrap_or(0), length.max(1));
        if self.is_inverse {
            sine = -sine;
        }
        // (re + i im) (cos - i sin)
        let factor = match (part, to) {
            (0, 0) | (1, 1) => cosine,
            (1, 0) => sine,
            _ => -sine,
        };
        let scale = if self.is_inverse { 1.0 / length as f64 } else { 1.0 };
        // The inputs other than the first and the middle one stand for two.
        let is_pair = self.is_real && n != 0 && 2 * n != length;
        factor * scale * if is_pair { 2.0 } else { 1.0 }
    }
}

/// Returns the only element of a tensor of integers.
pub(super) fn scalar(cx: &mut Context, tensor: &Tensor, name: &str) -> Result<Dim> {
    match &cx.integers(tensor)?[..] {
        [only] => Ok(only.clone()),
        _ => invalid(format!("`{name}` is no single number")),
    }
}

/// The axis of a transform; a negative one that is computed counts from the end.
#[derive(Clone, Copy, Debug)]
enum Axis {
    Known(usize),
    Computed(Value),
}

fn dft(cx: &mut Context, node: &Node<'_>, axis: Axis) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let parts = match x.shape.last().and_then(Dim::as_constant) {
        Some(parts @ (1 | 2)) => parts,
        _ => return unsupported("the last extent is not known to be 1 or 2"),
    };
    let (is_inverse, is_half) = (node.flag("inverse"), node.flag("onesided"));
    let transform = Transform { is_inverse, is_real: is_inverse && is_half, parts };
    let signal = x.rank() - 1;
    let (axis, extent) = match axis {
        Axis::Known(axis) => match x.shape.get(axis).filter(|_| axis < signal) {
            Some(extent) => (axis, extent.clone()),
            None => return invalid("the axis is that of the parts of a number"),
        },
        Axis::Computed(chosen) => {
            let chosen = counted(cx, chosen, x.rank());
            let extent = extent_of(cx, x, chosen)?;
            let lengths = lengths(cx, node, &extent, transform, is_half)?;
            return one(along_computed(cx, x, chosen, &lengths, transform)?);
        }
    };
    let lengths = lengths(cx, node, &extent, transform, is_half)?;
    let rank = x.rank();
    let used = cx.slice_axis(x, axis, &Dim::constant(0), &lengths.rows)?;
    let mut order: Vec<usize> = (0..signal).filter(|index| *index != axis).collect();
    order.extend([axis, signal]);
    let moved = cx.transpose(&used, &order)?;
    let result = along_rows(cx, &moved, &lengths, transform)?;
    let mut back = vec![0; rank];
    for (to, from) in order.iter().enumerate() {
        if let Some(slot) = back.get_mut(*from) {
            *slot = to;
        }
    }
    one(cx.transpose(&result, &back)?)
}

/// Numbers of elements along the axis of a transform.
struct Lengths {
    /// That of the transform.
    total: Dim,
    /// The elements of the input that are read.
    rows: Dim,
    results: Dim,
}

fn lengths(cx: &mut Context, node: &Node<'_>, extent: &Dim, transform: Transform, is_half: bool) -> Result<Lengths> {
    let total = match node.optional(1)? {
        Some(length) => scalar(cx, length, "dft_length")?,
        None if transform.is_real => extent.minus(&Dim::constant(1)).times(&Dim::constant(2)),
        None => extent.clone(),
    };
    if total.as_constant().is_some_and(|total| total < 1) {
        return invalid("the length of the transform is not positive");
    }
    let used = if transform.is_real { half(&total) } else { total.clone() };
    let results = if is_half && !transform.is_inverse { half(&total) } else { total.clone() };
    Ok(Lengths { rows: used.at_most(extent), total, results })
}

/// The number of elements of a spectrum that the others are the conjugates of.
fn half(total: &Dim) -> Dim {
    total.floor_div(&Dim::constant(2)).plus(&Dim::constant(1))
}

/// Counts a negative axis from the end, and keeps it below that of the parts.
fn counted(cx: &mut Context, axis: Value, rank: usize) -> Value {
    let rank = i64::try_from(rank).unwrap_or(i64::MAX);
    let (zero, rank, last) = (cx.b.index(0), cx.b.index(rank), cx.b.index(rank - 2));
    let is_negative = cx.b.cmpi(IntPredicate::SignedLess, axis, zero);
    let sum = cx.b.addi(axis, rank);
    let counted = cx.b.select(is_negative, sum, axis);
    let lesser = cx.b.minsi(counted, last);
    cx.b.maxsi(lesser, zero)
}

/// Returns `then` where the axis is number `dimension`.
fn if_axis(b: &mut Builder, axis: Value, dimension: usize, then: Value, otherwise: Value) -> Value {
    let dimension = b.index(i64::try_from(dimension).unwrap_or(i64::MAX));
    let is_axis = b.cmpi(IntPredicate::Equal, axis, dimension);
    b.select(is_axis, then, otherwise)
}

/// The extent along an axis that is computed.
fn extent_of(cx: &mut Context, x: &Tensor, axis: Value) -> Result<Dim> {
    let mut extent = cx.b.index(1);
    for (dimension, dim) in x.shape.iter().enumerate() {
        let own = cx.index(dim);
        extent = if_axis(&mut cx.b, axis, dimension, own, extent);
    }
    Ok(cx.symbol("extent", extent))
}

/// Transforms along an axis that is computed.
fn along_computed(
    cx: &mut Context,
    x: &Tensor,
    axis: Value,
    lengths: &Lengths,
    transform: Transform,
) -> Result<Tensor> {
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let signal = x.rank() - 1;
    let results = cx.index(&lengths.results);
    let mut shape = Vec::new();
    for (dimension, dim) in x.shape.iter().take(signal).enumerate() {
        let own = cx.index(dim);
        let extent = if_axis(&mut cx.b, axis, dimension, results, own);
        shape.push(cx.symbol("extent", extent));
    }
    let sums = Sums::new(cx, lengths, transform, work)?;
    let value = cx.value(x)?;
    let (filled, space) = (sums.filled(cx, &shape)?, cx.extents(std::slice::from_ref(&lengths.rows)));
    let space = cx.b.empty(&space, Element::I8);
    let kept: Vec<usize> = (0..signal).collect();
    let mut maps = vec![Map::of(signal + 1, &[signal])];
    maps.extend(filled.iter().map(|_| Map::of(signal + 1, &kept)));
    let mut iterators = vec![Iterator::Parallel; signal];
    iterators.push(Iterator::Reduction);
    let ty = x.ty;
    let outputs = cx.b.generic(&[space], &filled, &maps, &iterators, |b, arguments| {
        let (mut k, n) = (b.index(0), b.iteration(signal));
        let mut at = Vec::new();
        for dimension in 0..signal {
            let position = b.iteration(dimension);
            k = if_axis(b, axis, dimension, position, k);
            at.push(if_axis(b, axis, dimension, n, position));
        }
        let mut inputs = Vec::new();
        for part in 0..transform.parts {
            let mut place = at.clone();
            place.push(b.index(part));
            let element = read(b, value, &place, ty);
            inputs.push(converted(b, element, ty.computed(), work));
        }
        sums.next(b, [k, n], &inputs, arguments.get(1..).unwrap_or_default())
    });
    let joined = joined(cx, outputs, &shape, work)?;
    cx.cast(&joined, x.ty)
}

/// Transforms along the last dimension but one; the last has the parts of a number.
fn along_rows(cx: &mut Context, x: &Tensor, lengths: &Lengths, transform: Transform) -> Result<Tensor> {
    let rank = x.rank();
    let (Some(outer), Some(rows)) = (x.shape.get(..rank.saturating_sub(2)), x.shape.get(rank.saturating_sub(2))) else {
        return invalid("a transform of a number");
    };
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let wide = cx.cast(x, work)?;
    let (count, parts) = (Dim::product(outer), Dim::constant(transform.parts));
    let mut shape = outer.to_vec();
    shape.extend([lengths.results.clone(), Dim::constant(transform.result_parts())]);
    let known = match (lengths.total.as_constant(), rows.as_constant(), lengths.results.as_constant()) {
        (Some(length), Some(rows), Some(results)) => {
            let size = [rows, transform.parts, results, transform.result_parts()];
            let elements = size.iter().try_fold(1_i64, |product, extent| product.checked_mul(*extent));
            elements.filter(|elements| *elements <= MATRIX).map(|_| (length, rows, results))
        }
        _ => None,
    };
    let result = match known {
        Some((length, rows, results)) => {
            let matrix = matrix(length, rows, results, transform, work);
            let flat = cx.reshape(&wide, &[count, Dim::constant(rows * transform.parts)])?;
            product(cx, &flat, &matrix, work)?
        }
        None => {
            let split = cx.reshape(&wide, &[count, rows.clone(), parts])?;
            summed(cx, &split, lengths, transform, work)?
        }
    };
    let shaped = cx.reshape(&result, &shape)?;
    cx.cast(&shaped, x.ty)
}

/// The matrix of shape (rows * parts, results * parts) that transforms rows.
fn matrix(length: i64, rows: i64, results: i64, transform: Transform, work: DataType) -> Tensor {
    let mut numbers = Vec::new();
    for n in 0..rows {
        for part in 0..transform.parts {
            for k in 0..results {
                for to in 0..transform.result_parts() {
                    numbers.push(transform.factor(length, n, part, k, to));
                }
            }
        }
    }
    table("fourier", &numbers, &[rows * transform.parts, results * transform.result_parts()], work)
}

/// The product of two matrices.
fn product(cx: &mut Context, a: &Tensor, b: &Tensor, ty: DataType) -> Result<Tensor> {
    let (Some(rows), Some(columns)) = (a.shape.first().cloned(), b.shape.last().cloned()) else {
        return invalid("the product of numbers");
    };
    let shape = vec![rows, columns];
    cx.check_shape(ty, &shape)?;
    let (x, y) = (cx.value(a)?, cx.value(b)?);
    let zero = cx.b.float(0.0, ty.element());
    let extents = cx.extents(&shape);
    let filled = cx.b.fill(zero, &extents);
    let value = cx.b.kernel(Kernel::Matmul, &[x, y], filled, None);
    cx.tensor(value, ty, shape)
}

/// Transforms rows of a tensor of shape (count, rows, parts) by a sum for each result.
fn summed(cx: &mut Context, x: &Tensor, lengths: &Lengths, transform: Transform, work: DataType) -> Result<Tensor> {
    let Some(count) = x.shape.first().cloned() else { return invalid("a transform of a number") };
    let sums = Sums::new(cx, lengths, transform, work)?;
    let value = cx.value(x)?;
    let shape = [count, lengths.results.clone()];
    let filled = sums.filled(cx, &shape)?;
    let part =
        |part: i64| Map::new(3, vec![Expression::dimension(0), Expression::dimension(2), Expression::constant(part)]);
    let mut maps: Vec<Map> = (0..transform.parts).map(part).collect();
    maps.extend(filled.iter().map(|_| Map::of(3, &[0, 1])));
    let operands: Vec<Value> = (0..transform.parts).map(|_| value).collect();
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let outputs = cx.b.generic(&operands, &filled, &maps, &iterators, |b, arguments| {
        let at = [b.iteration(1), b.iteration(2)];
        let (inputs, accumulators) = arguments.split_at(operands.len());
        sums.next(b, at, inputs, accumulators)
    });
    joined(cx, outputs, &shape, work)
}

/// Joins the parts of numbers as the last dimension.
fn joined(cx: &mut Context, parts: Vec<Value>, shape: &[Dim], work: DataType) -> Result<Tensor> {
    let mut planes = Vec::new();
    for part in parts {
        let plane = cx.tensor(part, work, shape.to_vec())?;
        planes.push(cx.unsqueeze(&plane, &[shape.len()])?);
    }
    cx.concat(&planes.iter().collect::<Vec<_>>(), shape.len())
}

/// A loop over the inputs of a transform with a table of roots of unity.
struct Sums {
    transform: Transform,
    work: DataType,
    total: Value,
    cosines: Value,
    sines: Value,
}

impl Sums {
    fn new(cx: &mut Context, lengths: &Lengths, transform: Transform, work: DataType) -> Result<Sums> {
        let total = cx.index(&lengths.total);
        let cosines = roots(cx, &lengths.total, work, false)?;
        let sines = roots(cx, &lengths.total, work, true)?;
        Ok(Sums { transform, work, total, cosines: cx.value(&cosines)?, sines: cx.value(&sines)? })
    }

    /// A tensor of zeros for each part of a result.
    fn filled(&self, cx: &mut Context, shape: &[Dim]) -> Result<Vec<Value>> {
        cx.check_shape(self.work, shape)?;
        let zero = cx.b.float(0.0, self.work.element());
        let extents = cx.extents(shape);
        Ok((0..self.transform.result_parts()).map(|_| cx.b.fill(zero, &extents)).collect())
    }

    /// Adds input number `n` to result number `k`.
    fn next(&self, b: &mut Builder, [k, n]: [Value; 2], inputs: &[Value], accumulators: &[Value]) -> Vec<Value> {
        let product = b.muli(k, n);
        let at = b.remui(product, self.total);
        let (mut cosine, mut sine) = (b.extract(self.cosines, &[at]), b.extract(self.sines, &[at]));
        if self.transform.is_inverse {
            let scale = scale(b, self.total, n, self.transform.is_real, self.work.element());
            (cosine, sine) = (b.mulf(cosine, scale), b.mulf(sine, scale));
            sine = b.negf(sine);
        }
        let mut next = Vec::new();
        for (to, sum) in accumulators.iter().enumerate() {
            let mut sum = *sum;
            for (from, input) in inputs.iter().enumerate() {
                let factor = if from == to { cosine } else { sine };
                let term = b.mulf(*input, factor);
                sum = if from == 0 && to == 1 { b.subf(sum, term) } else { b.addf(sum, term) };
            }
            next.push(sum);
        }
        next
    }
}

/// The factor of an inverse transform, which is doubled for the inputs that stand for two.
fn scale(b: &mut Builder, total: Value, n: Value, is_real: bool, element: Element) -> Value {
    let (length, n) = (b.index_cast(total, Element::I64), b.index_cast(n, Element::I64));
    let divisor = b.sitofp(length, element);
    let one = b.float(1.0, element);
    let scale = b.divf(one, divisor);
    if !is_real {
        return scale;
    }
    let zero = b.int(0, Element::I64);
    let doubled = b.addi(n, n);
    let is_first = b.cmpi(IntPredicate::Equal, n, zero);
    let is_middle = b.cmpi(IntPredicate::Equal, doubled, length);
    let is_single = b.ori(is_first, is_middle);
    let twice = b.addf(scale, scale);
    b.select(is_single, scale, twice)
}

/// The cosine and the sine of an angle that is `turns / length` of a circle, which are exact for quarters.
fn root(turns: i64, length: i64) -> (f64, f64) {
    let quadrupled = i128::from(turns) * 4;
    let (quarter, rest) = (quadrupled / i128::from(length), quadrupled % i128::from(length));
    let (sine, cosine) = (PI / 2.0 * (rest as f64 / length as f64)).sin_cos();
    match quarter {
        0 => (cosine, sine),
        1 => (-sine, cosine),
        2 => (-cosine, -sine),
        _ => (sine, -cosine),
    }
}

/// The cosines or sines of the multiples of a circle's part.
fn roots(cx: &mut Context, length: &Dim, work: DataType, is_sine: bool) -> Result<Tensor> {
    if let Some(count) = length.as_constant().filter(|count| *count <= MATRIX) {
        let numbers = (0..count).map(|turns| root(turns, count));
        let numbers: Vec<f64> = numbers.map(|(cosine, sine)| if is_sine { sine } else { cosine }).collect();
        return Ok(table("roots", &numbers, &[count], work));
    }
    let total = cx.index(length);
    let element = work.element();
    cx.generate(std::slice::from_ref(length), work, |b, at| {
        // The quarter of the circle, and the angle within it.
        let (turns, total) = (b.index_cast(at[0], Element::I64), b.index_cast(total, Element::I64));
        let (one, two) = (b.int(1, Element::I64), b.int(2, Element::I64));
        let quadrupled = b.shli(turns, two);
        let (quarter, rest) = (b.divui(quadrupled, total), b.remui(quadrupled, total));
        let (rest, total) = (b.sitofp(rest, element), b.sitofp(total, element));
        let part = b.divf(rest, total);
        let right = b.float(PI / 2.0, element);
        let angle = b.mulf(part, right);
        let (sine, cosine) = sine_cosine(b, angle);
        let zero = b.int(0, Element::I64);
        let odd = b.andi(quarter, one);
        let is_odd = b.cmpi(IntPredicate::NotEqual, odd, zero);
        let shifted = if is_sine { quarter } else { b.addi(quarter, one) };
        let upper = b.andi(shifted, two);
        let is_negative = b.cmpi(IntPredicate::NotEqual, upper, zero);
        let magnitude = if is_sine { b.select(is_odd, cosine, sine) } else { b.select(is_odd, sine, cosine) };
        let negated = b.negf(magnitude);
        b.select(is_negative, negated, magnitude)
    })
}

/// The sine and the cosine of an angle within the first quarter. Those of `f64` are polynomials: not every target has the functions.
fn sine_cosine(b: &mut Builder, angle: Value) -> (Value, Value) {
    if b.element_of(angle) == Element::F32 {
        return (b.sin(angle), b.cos(angle));
    }
    let square = b.mulf(angle, angle);
    let series = |b: &mut Builder, first: i32| {
        // The sum of (-square)^k / (2 k + first)!, from the last term on.
        let one = b.float(1.0, Element::F64);
        let mut sum = one;
        for k in (1..=12).rev() {
            let divisor = b.float(-f64::from((2 * k + first) * (2 * k + first - 1)), Element::F64);
            let product = b.mulf(sum, square);
            let quotient = b.divf(product, divisor);
            sum = b.addf(quotient, one);
        }
        sum
    };
    let (odd, even) = (series(b, 1), series(b, 0));
    (b.mulf(odd, angle), even)
}

fn stft(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let signal = node.input(0)?;
    if !signal.ty.is_float() {
        return wrong_type(signal.ty);
    }
    let [batch, extent, parts] = &*signal.shape else {
        return invalid(format!("the signal has rank {}, not 3", signal.rank()));
    };
    let parts = match parts.as_constant() {
        Some(parts @ (1 | 2)) => parts,
        _ => return unsupported("the last extent of the signal is not known to be 1 or 2"),
    };
    let step = scalar(cx, node.input(1)?, "frame_step")?;
    let window = node.optional(2)?.filter(|window| !window.count().is(0));
    let length = match (node.optional(3)?, window) {
        (Some(length), _) => scalar(cx, length, "frame_length")?,
        (None, Some(window)) => window.count(),
        (None, None) => extent.clone(),
    };
    if let Some(window) = window {
        if window.rank() != 1 || window.ty != signal.ty {
            return invalid("the window is no list of numbers of the signal's type");
        }
        cx.require_equal(&window.count(), &length, "the length of the window")?;
    }
    if step.as_constant().is_some_and(|step| step <= 0) {
        return invalid("`frame_step` is not positive");
    }
    let rest = extent.minus(&length);
    if rest.as_constant().is_some_and(|rest| rest < 0) {
        return invalid("a frame is longer than the signal");
    }
    let frames = rest.floor_div(&step).plus(&Dim::constant(1)).at_least(&Dim::constant(0));
    let shape = [batch.clone(), frames, length.clone(), Dim::constant(parts)];
    let cut = cut_frames(cx, signal, &shape, &step, window)?;
    let is_half = node.int_or("onesided", 1) != 0;
    let results = if is_half { half(&length) } else { length.clone() };
    let lengths = Lengths { rows: length.clone(), total: length, results };
    one(along_rows(cx, &cut, &lengths, Transform { is_inverse: false, is_real: false, parts })?)
}

/// Reads frames of a signal, each `step` behind the one before, and multiplies them by a window.
fn cut_frames(cx: &mut Context, signal: &Tensor, shape: &[Dim], step: &Dim, window: Option<&Tensor>) -> Result<Tensor> {
    let ty = signal.ty;
    cx.check_shape(ty, shape)?;
    let value = cx.value(signal)?;
    let window = window.map(|window| cx.value(window)).transpose()?;
    let Some(known) = step.as_constant() else {
        let step = cx.index(step);
        return cx.generate(shape, ty, |b, at| {
            let first = b.muli(at[1], step);
            let position = b.addi(first, at[2]);
            let element = read(b, value, &[at[0], position, at[3]], ty);
            match window {
                None => element,
                Some(window) => {
                    let factor = read(b, window, &[at[2]], ty);
                    b.mulf(element, factor)
                }
            }
        });
    };
    let position = Expression::dimension(2).plus(1, known);
    let mut maps = vec![Map::new(4, vec![Expression::dimension(0), position, Expression::dimension(3)])];
    let mut operands = vec![value];
    if let Some(window) = window {
        operands.push(window);
        maps.push(Map::of(4, &[2]));
    }
    maps.push(Map::identity(4));
    let extents = cx.extents(shape);
    let empty = cx.b.empty(&extents, ty.element());
    let result = cx.b.generic_single(&operands, empty, &maps, &[Iterator::Parallel; 4], |b, arguments| {
        match (arguments, window) {
            ([element, factor, _], Some(_)) => {
                let (element, factor) =
                    (crate::convert::widened(b, *element, ty), crate::convert::widened(b, *factor, ty));
                let weighted = b.mulf(element, factor);
                crate::convert::narrowed(b, weighted, ty)
            }
            _ => arguments[0],
        }
    });
    cx.tensor(result, ty, shape.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_the_transform() {
        let forward = Transform { is_inverse: false, is_real: false, parts: 2 };
        // e^(-i pi / 2) = -i
        assert!((forward.factor(4, 1, 0, 1, 1) + 1.0).abs() < 1e-12);
        assert!((forward.factor(4, 1, 1, 1, 0) - 1.0).abs() < 1e-12);
        let inverse = Transform { is_inverse: true, is_real: true, parts: 2 };
        assert_eq!(inverse.factor(4, 0, 0, 3, 0), 0.25);
        assert_eq!(inverse.factor(4, 1, 0, 0, 0), 0.5);
        assert_eq!(inverse.factor(4, 2, 0, 0, 0), 0.25);
    }
}
