//! Windows and mel filters.

use core::f64::consts::PI;

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, Value};

use super::fourier::scalar;
use super::tables::table;
use super::{Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::Tensor;

pub(super) const ROWS: &[Row] = &[
    onnx("MelWeightMatrix", 17, mel_weights),
    // The sum of cosines of multiples of the position's angle.
    onnx("HannWindow", 17, |cx, node| window(cx, node, [0.5, -0.5, 0.0])),
    onnx("HammingWindow", 17, |cx, node| window(cx, node, [25.0 / 46.0, -21.0 / 46.0, 0.0])),
    onnx("BlackmanWindow", 17, |cx, node| window(cx, node, [0.42, -0.5, 0.08])),
];

/// The most elements of a table that is computed when the model is imported.
const TABLE: i64 = 1 << 23;

fn mel_weights(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let ty = node.data_type("output_datatype")?.unwrap_or(DataType::F32);
    let (bins, length) = (scalar(cx, node.input(0)?, "num_mel_bins")?, scalar(cx, node.input(1)?, "dft_length")?);
    let rows = length.floor_div(&Dim::constant(2)).plus(&Dim::constant(1));
    let mut numbers = Vec::new();
    for (index, name) in [(2, "sample_rate"), (3, "lower_edge_hertz"), (4, "upper_edge_hertz")] {
        let tensor = node.input(index)?;
        if !tensor.count().is(1) {
            return invalid(format!("`{name}` is no single number"));
        }
        numbers.push(cx.reshape(tensor, &[])?);
    }
    if let (Some(bins), Some(length), Some(rows)) = (bins.as_constant(), length.as_constant(), rows.as_constant())
        && let Some(known) = numbers.iter().map(|number| cx.floats(number)).collect::<Result<Option<Vec<_>>>>()?
        && let [rate, low, high] = known.concat()[..]
    {
        if bins < 1 || length < 1 || rate <= 0.0 || bins.saturating_mul(rows) > TABLE {
            return invalid(format!("{bins} bins of a transform of length {length} at a rate of {rate} Hz"));
        }
        let weights = mel_table([length as f64, rate, low, high], bins, rows);
        let table = table("mel", &weights, &[rows, bins], if ty == DataType::F64 { ty } else { DataType::F32 });
        return one(cx.cast(&table, ty)?);
    }
    one(computed_mel_weights(cx, &numbers, [rows, bins], &length, ty)?)
}

/// Mel filters whose settings are known when the module runs.
fn computed_mel_weights(
    cx: &mut Context,
    numbers: &[Tensor],
    shape: [Dim; 2],
    length: &Dim,
    ty: DataType,
) -> Result<Tensor> {
    let mut values = Vec::new();
    for number in numbers {
        let wide = cx.cast(number, DataType::F32)?;
        let value = cx.value(&wide)?;
        values.push(cx.b.extract(value, &[]));
    }
    let (bins, length) = (cx.index(&shape[1]), cx.index(length));
    let [rate, low, high] = values[..] else { return unsupported("settings that are no numbers") };
    let filters = Filters { rate, low, high, bins, length };
    let weights = cx.generate(&shape, DataType::F32, |b, at| filters.weight(b, at[0], at[1]))?;
    cx.cast(&weights, ty)
}

/// The settings of mel filters: numbers of type `f32`, and extents.
struct Filters {
    rate: Value,
    low: Value,
    high: Value,
    bins: Value,
    length: Value,
}

impl Filters {
    fn number(b: &mut Builder, index: Value, added: i64) -> Value {
        let (integer, added) = (b.index_cast(index, Element::I64), b.int(added, Element::I64));
        let sum = b.addi(integer, added);
        b.sitofp(sum, Element::F32)
    }

    /// The natural logarithm that the mel scale is a multiple of.
    fn mel(b: &mut Builder, hertz: Value) -> Value {
        let unit = b.float(700.0, Element::F32);
        let part = b.divf(hertz, unit);
        b.log1p(part)
    }

    /// The row of the edge number `bin + offset`.
    fn edge(&self, b: &mut Builder, bin: Value, offset: i64) -> Value {
        let (low, high) = (Filters::mel(b, self.low), Filters::mel(b, self.high));
        let range = b.subf(high, low);
        let count = Filters::number(b, self.bins, 2);
        let index = Filters::number(b, bin, offset);
        let step = b.divf(range, count);
        let distance = b.mulf(step, index);
        let mel = b.addf(low, distance);
        let unit = b.float(700.0, Element::F32);
        let part = b.expm1(mel);
        let hertz = b.mulf(part, unit);
        let length = Filters::number(b, self.length, 1);
        let product = b.mulf(hertz, length);
        let row = b.divf(product, self.rate);
        b.floor(row)
    }

    fn weight(&self, b: &mut Builder, row: Value, bin: Value) -> Value {
        let (left, centre, right) = (self.edge(b, bin, 0), self.edge(b, bin, 1), self.edge(b, bin, 2));
        let row = Filters::number(b, row, 0);
        let (zero, one) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32));
        let rises = b.subf(centre, left);
        let is_steep = b.cmpf(FloatPredicate::OrderedEqual, rises, zero);
        let divisor = b.select(is_steep, one, rises);
        let above = b.subf(row, left);
        let rising = b.divf(above, divisor);
        let rising = b.select(is_steep, one, rising);
        let is_behind = b.cmpf(FloatPredicate::OrderedGreaterEqual, row, left);
        let is_before = b.cmpf(FloatPredicate::OrderedLessEqual, row, centre);
        let is_rising = b.andi(is_behind, is_before);
        let falls = b.subf(right, centre);
        let is_flat = b.cmpf(FloatPredicate::OrderedEqual, falls, zero);
        let divisor = b.select(is_flat, one, falls);
        let below = b.subf(right, row);
        let falling = b.divf(below, divisor);
        let is_behind = b.cmpf(FloatPredicate::OrderedGreaterEqual, row, centre);
        let is_before = b.cmpf(FloatPredicate::OrderedLess, row, right);
        let is_falling = b.andi(is_behind, is_before);
        let first = b.select(is_rising, rising, zero);
        b.select(is_falling, falling, first)
    }
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
    if let Some(count) = size.as_constant().filter(|count| (0..=TABLE).contains(count)) {
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
    // Not every target has cosines of `f64`.
    let element = Element::F32;
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
        converted(b, sum, DataType::F32, ty)
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
