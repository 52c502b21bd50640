//! Operators that scale, choose and join features.

use incarnate_bytecode::Result;
use incarnate_mlir::{Element, FloatPredicate, IntPredicate};

use super::super::Row;
use super::{length, ml};
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::ranges::Accepted;
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    ml("Scaler", 1, scaler),
    ml("Normalizer", 1, normalizer),
    ml("Imputer", 1, imputer),
    ml("Binarizer", 1, binarizer),
    ml("ArrayFeatureExtractor", 1, array_feature_extractor),
    ml("FeatureVectorizer", 1, feature_vectorizer),
    // The map from labels to probabilities becomes the tensor of the probabilities.
    ml("ZipMap", 1, |_, node| one(node.input(0)?.clone())),
];

/// A tensor of numbers that broadcasts along the last dimension.
fn numbers(values: &[f64], ty: DataType) -> Tensor {
    let scalar =
        |value: &f64| if ty.is_float() { Scalar::Float(*value) } else { Scalar::Int(Dim::constant(*value as i64)) };
    let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
    Tensor::of_elements(ty, vec![Dim::constant(count)], values.iter().map(scalar).collect())
}

fn scaler(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = cx.cast(node.input(0)?, DataType::F32)?;
    let list = |name: &str, default: f64| match node.floats(name) {
        Some(values) if !values.is_empty() => numbers(&super::doubles(values), DataType::F32),
        _ => numbers(&[default], DataType::F32),
    };
    let (offset, scale) = (list("offset", 0.0), list("scale", 1.0));
    one(cx.map_to(&[&x, &offset, &scale], DataType::F32, &x.shape, |b, x| {
        let difference = b.subf(x[0], x[1]);
        b.mulf(difference, x[2])
    })?)
}

fn normalizer(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = cx.cast(node.input(0)?, DataType::F32)?;
    let axis = match x.rank() {
        0 => return invalid("a scalar is normalised"),
        1 => 0,
        _ => 1,
    };
    let norm = node.text_or("norm", "MAX")?;
    let initial = Scalar::Float(if norm == "MAX" { f64::NEG_INFINITY } else { 0.0 });
    if !matches!(norm, "MAX" | "L1" | "L2") {
        return invalid(format!("the attribute `norm` is {norm}"));
    }
    let divisor = cx.reduce(&x, &[axis], DataType::F32, initial, |b, x, joined| match norm {
        "MAX" => b.maximumf(joined, x),
        "L1" => {
            let magnitude = b.absf(x);
            b.addf(joined, magnitude)
        }
        _ => {
            let square = b.mulf(x, x);
            b.addf(joined, square)
        }
    })?;
    let divisor = cx.unsqueeze(&divisor, &[axis])?;
    one(cx.map(&[&x, &divisor], DataType::F32, |b, x| {
        let (zero, one) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32));
        // Rows of zeros stay as they are.
        let is_zero = b.cmpf(FloatPredicate::OrderedEqual, x[1], zero);
        let mut divisor = b.select(is_zero, one, x[1]);
        if norm == "L2" {
            divisor = b.sqrt(divisor);
        }
        b.divf(x[0], divisor)
    })?)
}

fn imputer(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let ty = x.ty;
    if ty.is_float() {
        let values = super::doubles(node.floats("imputed_value_floats").unwrap_or_default());
        let replaced = node.float_or("replaced_value_float", 0.0);
        let values = checked(&values, ty)?;
        return one(cx.map_to(&[x, &values], ty, &x.shape, |b, x| {
            let replaced_value = b.float(replaced, b.element_of(x[0]));
            let is_replaced = if replaced.is_nan() {
                b.cmpf(FloatPredicate::Unordered, x[0], x[0])
            } else {
                b.cmpf(FloatPredicate::OrderedEqual, x[0], replaced_value)
            };
            b.select(is_replaced, x[1], x[0])
        })?);
    }
    let values: Vec<f64> =
        node.ints("imputed_value_int64s").unwrap_or_default().iter().map(|value| *value as f64).collect();
    let replaced = node.int_or("replaced_value_int64", 0);
    let values = checked(&values, ty)?;
    one(cx.map_to(&[x, &values], ty, &x.shape, |b, x| {
        let replaced = b.int(replaced, b.element_of(x[0]));
        let is_replaced = b.cmpi(IntPredicate::Equal, x[0], replaced);
        b.select(is_replaced, x[1], x[0])
    })?)
}

fn checked(values: &[f64], ty: DataType) -> Result<Tensor> {
    if values.is_empty() {
        return invalid(format!("there are no values of type {} to put in place of missing ones", ty.name()));
    }
    Ok(numbers(values, ty))
}

fn binarizer(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let ty = x.ty;
    let threshold = node.float_or("threshold", 0.0);
    let wide = if ty.is_float() { x.clone() } else { cx.cast(x, DataType::F32)? };
    let result = cx.map(&[&wide], wide.ty, |b, x| {
        let element = b.element_of(x[0]);
        let (threshold, zero, one) = (b.float(threshold, element), b.float(0.0, element), b.float(1.0, element));
        let is_above = b.cmpf(FloatPredicate::OrderedGreater, x[0], threshold);
        b.select(is_above, one, zero)
    })?;
    one(cx.cast(&result, ty)?)
}

/// Chooses elements of the last dimension.
fn array_feature_extractor(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let Some(last) = x.shape.last().cloned() else { return invalid("a scalar has no features") };
    let mut shape = x.shape.clone();
    if let Some(slot) = shape.last_mut() {
        *slot = indices.count();
    }
    cx.require_positions(indices, &last, Accepted::Start, "the positions")?;
    cx.require_elements(&last, &indices.count(), "the dimension of features")?;
    let flat = cx.reshape(indices, &[indices.count()])?;
    let (table, positions) = (cx.value(x)?, cx.value(&flat)?);
    let end = cx.index(&last.minus(&Dim::constant(1)));
    let (ty, index_ty) = (x.ty, flat.ty);
    let result = cx.generate(&shape, ty, |b, at| {
        let mut at = at.to_vec();
        if let Some(slot) = at.last_mut() {
            let position = crate::kit::read(b, positions, &[*slot], index_ty);
            let (position, zero) = (b.index_cast(position, Element::Index), b.index(0));
            let position = b.maxsi(position, zero);
            *slot = b.minsi(position, end);
        }
        crate::kit::read(b, table, &at, ty)
    })?;
    one(if x.rank() == 1 { cx.unsqueeze(&result, &[0])? } else { result })
}

/// Joins features of inputs, each cut to a number of columns or filled with zeros.
fn feature_vectorizer(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let inputs = node.all_inputs()?;
    let widths = node.ints("inputdimensions").unwrap_or_default();
    if widths.len() != inputs.len() {
        return invalid(format!("`inputdimensions` has {} elements for {} inputs", length(widths), inputs.len()));
    }
    let mut parts = Vec::new();
    for (input, width) in inputs.into_iter().zip(widths) {
        let rows = match &*input.shape {
            [_] => super::rows(cx, input)?,
            [first, rest @ ..] => cx.reshape(input, &[first.clone(), Dim::product(rest)])?,
            [] => return unsupported("a scalar among features"),
        };
        let rows = cx.cast(&rows, DataType::F32)?;
        let added =
            rows.shape.get(1).map(|columns| Dim::constant(*width).minus(columns)).unwrap_or_else(|| Dim::constant(0));
        let none = Dim::constant(0);
        let zero = cx.b.float(0.0, Element::F32);
        parts.push(cx.pad(&rows, &[none.clone(), none.clone()], &[none, added], zero)?);
    }
    let references: Vec<&Tensor> = parts.iter().collect();
    one(cx.concat(&references, 1)?)
}
