//! Fourier transforms, windows and mel filters.

use core::f64::consts::PI;

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, Expression, IntPredicate, Iterator, Kernel, Map, Value};

use super::tables::table;
use super::{Row, onnx};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::kit::{converted, read, wrong_type};
use crate::node::{Node, Outputs, axis, invalid, one, unsupported};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("DFT", 17, |cx, node| {
        let axis = node.axis("axis", 1, node.input(0)?.rank())?;
        dft(cx, node, axis)
    }),
    onnx("DFT", 20, |cx, node| {
        let chosen = match node.optional(2)? {
            None => -2,
            Some(tensor) => match cx.constant_integers(tensor, "axis")?[..] {
                [chosen] => chosen,
                _ => return invalid("`axis` is no single number"),
            },
        };
        let axis = axis(chosen, node.input(0)?.rank())?;
        dft(cx, node, axis)
    }),
    onnx("STFT", 17, stft),
    onnx("MelWeightMatrix", 17, mel_weights),
    // The sum of cosines of multiples of the position's angle.
    onnx("HannWindow", 17, |cx, node| window(cx, node, [0.5, -0.5, 0.0])),
    onnx("HammingWindow", 17, |cx, node| window(cx, node, [25.0 / 46.0, -21.0 / 46.0, 0.0])),
    onnx("BlackmanWindow", 17, |cx, node| window(cx, node, [0.42, -0.5, 0.08])),
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
        let turns = (i128::from(n) * i128::from(k)).rem_euclid(i128::from(length.max(1)));
        let angle = 2.0 * PI * turns as f64 / length as f64;
        let (cosine, mut sine) = (angle.cos(), angle.sin());
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

fn scalar(cx: &mut Context, tensor: &Tensor, name: &str) -> Result<Dim> {
    match &cx.integers(tensor)?[..] {
        [only] => Ok(only.clone()),
        _ => invalid(format!("`{name}` is no single number")),
    }
}

fn dft(cx: &mut Context, node: &Node<'_>, axis: usize) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    let parts = match x.shape.last().and_then(Dim::as_constant) {
        Some(parts @ (1 | 2)) => parts,
        _ => return unsupported("the last extent is not known to be 1 or 2"),
    };
    let rank = x.rank();
    let Some(extent) = x.shape.get(axis).filter(|_| axis + 1 < rank).cloned() else {
        return invalid("the axis is that of the parts of a number");
    };
    let (is_inverse, is_half) = (node.flag("inverse"), node.flag("onesided"));
    let one_more = |dim: &Dim| dim.floor_div(&Dim::constant(2)).plus(&Dim::constant(1));
    let length = match node.optional(1)? {
        Some(length) => scalar(cx, length, "dft_length")?,
        None if is_inverse && is_half => extent.minus(&Dim::constant(1)).times(&Dim::constant(2)),
        None => extent.clone(),
    };
    let transform = Transform { is_inverse, is_real: is_inverse && is_half, parts };
    let used = if transform.is_real { one_more(&length) } else { length.clone() };
    let rows = used.at_most(&extent);
    let results = if is_half && !is_inverse { one_more(&length) } else { length.clone() };
    let used = cx.slice_axis(x, axis, &Dim::constant(0), &rows)?;
    let mut order: Vec<usize> = (0..rank).filter(|index| *index != axis && index + 1 < rank).collect();
    order.extend([axis, rank - 1]);
    let moved = cx.transpose(&used, &order)?;
    let result = along_rows(cx, &moved, &length, &results, transform)?;
    let mut back = vec![0; rank];
    for (to, from) in order.iter().enumerate() {
        if let Some(slot) = back.get_mut(*from) {
            *slot = to;
        }
    }
    one(cx.transpose(&result, &back)?)
}

/// Transforms along the last dimension but one; the last has the parts of a number.
fn along_rows(cx: &mut Context, x: &Tensor, length: &Dim, results: &Dim, transform: Transform) -> Result<Tensor> {
    let rank = x.rank();
    let (Some(outer), Some(rows)) = (x.shape.get(..rank.saturating_sub(2)), x.shape.get(rank.saturating_sub(2))) else {
        return invalid("a transform of a number");
    };
    let work = if x.ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let wide = cx.cast(x, work)?;
    let (count, parts) = (Dim::product(outer), Dim::constant(transform.parts));
    let mut shape = outer.to_vec();
    shape.extend([results.clone(), Dim::constant(transform.result_parts())]);
    let known = match (length.as_constant(), rows.as_constant(), results.as_constant()) {
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
            summed(cx, &split, length, results, transform, work)?
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

/// Transforms rows of a tensor of shape (count, rows, parts) by a sum for each result, with a table of roots of unity.
fn summed(
    cx: &mut Context,
    x: &Tensor,
    length: &Dim,
    results: &Dim,
    transform: Transform,
    work: DataType,
) -> Result<Tensor> {
    let Some(count) = x.shape.first().cloned() else { return invalid("a transform of a number") };
    let element = work.element();
    let cosines = roots(cx, length, work, false)?;
    let sines = roots(cx, length, work, true)?;
    let (cosines, sines, value) = (cx.value(&cosines)?, cx.value(&sines)?, cx.value(x)?);
    let total = cx.index(length);
    let shape = [count, results.clone()];
    cx.check_shape(work, &shape)?;
    let zero = cx.b.float(0.0, element);
    let extents = cx.extents(&shape);
    let filled: Vec<Value> = (0..transform.result_parts()).map(|_| cx.b.fill(zero, &extents)).collect();
    let part = |part: i64| {
        Map::new(3, vec![Expression::dimension(0), Expression::dimension(2), Expression::constant(part)])
    };
    let mut maps: Vec<Map> = (0..transform.parts).map(part).collect();
    maps.extend(filled.iter().map(|_| Map::of(3, &[0, 1])));
    let operands: Vec<Value> = (0..transform.parts).map(|_| value).collect();
    let iterators = [Iterator::Parallel, Iterator::Parallel, Iterator::Reduction];
    let outputs = cx.b.generic(&operands, &filled, &maps, &iterators, |b, arguments| {
        let (k, n) = (b.iteration(1), b.iteration(2));
        let product = b.muli(k, n);
        let at = b.remui(product, total);
        let (mut cosine, mut sine) = (b.extract(cosines, &[at]), b.extract(sines, &[at]));
        if transform.is_inverse {
            let scale = scale(b, total, n, transform.is_real, element);
            (cosine, sine) = (b.mulf(cosine, scale), b.mulf(sine, scale));
            sine = b.negf(sine);
        }
        let (inputs, sums) = arguments.split_at(operands.len());
        let mut next = Vec::new();
        for (to, sum) in sums.iter().enumerate() {
            let mut sum = *sum;
            for (from, input) in inputs.iter().enumerate() {
                let factor = if from == to { cosine } else { sine };
                let term = b.mulf(*input, factor);
                sum = if from == 0 && to == 1 { b.subf(sum, term) } else { b.addf(sum, term) };
            }
            next.push(sum);
        }
        next
    });
    let mut planes = Vec::new();
    for output in outputs {
        let plane = cx.tensor(output, work, shape.to_vec())?;
        planes.push(cx.unsqueeze(&plane, &[2])?);
    }
    cx.concat(&planes.iter().collect::<Vec<_>>(), 2)
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

/// The cosines or sines of the multiples of a circle's part.
fn roots(cx: &mut Context, length: &Dim, work: DataType, is_sine: bool) -> Result<Tensor> {
    if let Some(count) = length.as_constant().filter(|count| *count <= MATRIX) {
        let angles = (0..count).map(|index| 2.0 * PI * index as f64 / count as f64);
        let numbers: Vec<f64> = angles.map(|angle| if is_sine { angle.sin() } else { angle.cos() }).collect();
        return Ok(table("roots", &numbers, &[count], work));
    }
    let total = cx.index(length);
    let element = work.element();
    cx.generate(&[length.clone()], work, |b, at| {
        let (index, total) = (b.index_cast(at[0], Element::I64), b.index_cast(total, Element::I64));
        let (index, total) = (b.sitofp(index, element), b.sitofp(total, element));
        let turn = b.divf(index, total);
        let circle = b.float(2.0 * PI, element);
        let angle = b.mulf(turn, circle);
        if is_sine { b.sin(angle) } else { b.cos(angle) }
    })
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
    let results =
        if is_half { length.floor_div(&Dim::constant(2)).plus(&Dim::constant(1)) } else { length.clone() };
    let transform = Transform { is_inverse: false, is_real: false, parts };
    one(along_rows(cx, &cut, &length, &results, transform)?)
}

/// Reads frames of a signal, each `step` behind the one before, and multiplies them by a window.
fn cut_frames(
    cx: &mut Context,
    signal: &Tensor,
    shape: &[Dim],
    step: &Dim,
    window: Option<&Tensor>,
) -> Result<Tensor> {
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
    let results = cx.b.generic(&operands, &[empty], &maps, &[Iterator::Parallel; 4], |b, arguments| {
        match (arguments, window) {
            ([element, factor, _], Some(_)) => {
                let (element, factor) = (crate::kit::widened(b, *element, ty), crate::kit::widened(b, *factor, ty));
                let weighted = b.mulf(element, factor);
                vec![crate::kit::narrowed(b, weighted, ty)]
            }
            _ => vec![arguments[0]],
        }
    });
    cx.tensor(results.first().copied().unwrap_or(empty), ty, shape.to_vec())
}

fn mel_weights(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let mut numbers = Vec::new();
    for (index, name) in ["num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"].iter().enumerate() {
        match cx.floats(node.input(index)?)?.as_deref() {
            Some([number]) => numbers.push(*number),
            _ => return unsupported(format!("`{name}` is no constant")),
        }
    }
    let [bins, length, rate, low, high] = numbers[..] else { return invalid("there are too few inputs") };
    let (bins, rows) = (bins as i64, length as i64 / 2 + 1);
    if bins < 1 || length < 1.0 || rate <= 0.0 || bins.saturating_mul(rows) > MATRIX {
        return invalid(format!("{bins} bins of a transform of length {length} at a rate of {rate} Hz"));
    }
    let weights = mel_table([length, rate, low, high], bins, rows);
    let ty = node.data_type("output_datatype")?.unwrap_or(DataType::F32);
    let table = table("mel", &weights, &[rows, bins], if ty == DataType::F64 { ty } else { DataType::F32 });
    one(cx.cast(&table, ty)?)
}

/// The triangles of mel filters, by rows of a spectrum.
fn mel_table([length, rate, low, high]: [f64; 4], bins: i64, rows: i64) -> Vec<f64> {
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bins + 2) as f64;
    let edges: Vec<i64> = (0..bins + 2)
        .map(|index| {
            let hertz = 700.0 * (10_f64.powf((mel(low) + index as f64 * step) / 2595.0) - 1.0);
            ((length + 1.0) * hertz / rate).floor() as i64
        })
        .collect();
    let mut weights = vec![0.0; usize::try_from(bins * rows).unwrap_or(0)];
    for (bin, edges) in edges.windows(3).enumerate() {
        let &[left, centre, right] = edges else { continue };
        let mut set = |row: i64, weight: f64| {
            let place = row.checked_mul(bins).and_then(|start| usize::try_from(start).ok());
            if let Some(slot) = place.and_then(|start| weights.get_mut(start + bin)) {
                *slot = weight;
            }
        };
        if left == centre {
            set(centre, 1.0);
        } else {
            (left..=centre).for_each(|row| set(row, (row - left) as f64 / (centre - left) as f64));
        }
        (centre..right).for_each(|row| set(row, (right - row) as f64 / (right - centre) as f64));
    }
    weights
}

/// A window: the sum of a constant and cosines of once and twice the angle.
fn window(cx: &mut Context, node: &Node<'_>, coefficients: [f64; 3]) -> Result<Outputs> {
    let size = scalar(cx, node.input(0)?, "size")?;
    let is_periodic = node.int_or("periodic", 1) != 0;
    let ty = node.data_type("output_datatype")?.unwrap_or(DataType::F32);
    let work = if ty == DataType::F64 { DataType::F64 } else { DataType::F32 };
    if let Some(count) = size.as_constant().filter(|count| (0..=MATRIX).contains(count)) {
        let period = if is_periodic { count } else { count - 1 } as f64;
        let numbers: Vec<f64> = (0..count)
            .map(|index| {
                let angle = 2.0 * PI * index as f64 / period;
                coefficients[0] + coefficients[1] * angle.cos() + coefficients[2] * (2.0 * angle).cos()
            })
            .collect();
        return one(cx.cast(&table("window", &numbers, &[count], work), ty)?);
    }
    let total = cx.index(&size);
    let element = work.element();
    one(cx.generate(&[size], ty, |b, at| {
        let (index, total) = (b.index_cast(at[0], Element::I64), b.index_cast(total, Element::I64));
        let one = b.int(1, Element::I64);
        let period = if is_periodic { total } else { b.subi(total, one) };
        let (index, period) = (b.sitofp(index, element), b.sitofp(period, element));
        let turn = b.divf(index, period);
        let mut sum = b.float(coefficients[0], element);
        for (multiple, coefficient) in [(2.0, coefficients[1]), (4.0, coefficients[2])] {
            if coefficient != 0.0 {
                let (factor, coefficient) = (b.float(multiple * PI, element), b.float(coefficient, element));
                let angle = b.mulf(turn, factor);
                let cosine = b.cos(angle);
                let term = b.mulf(cosine, coefficient);
                sum = b.addf(sum, term);
            }
        }
        if ty.is_float() { sum } else { converted(b, sum, work, ty) }
    })?)
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

    #[test]
    fn mel_filters_have_a_peak_of_one() {
        let (bins, rows) = (8, 9);
        let weights = mel_table([16.0, 8192.0, 0.0, 4096.0], bins, rows);
        for bin in 0..8 {
            let peak = (0..9).map(|row| weights[row * 8 + bin]).fold(0.0, f64::max);
            assert_eq!(peak, 1.0, "bin {bin}");
        }
    }
}
