//! Encoders of labels and categories that are numbers.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Element, FloatPredicate, IntPredicate, Iterator, Map, Value};

use super::super::Row;
use super::{length, ml};
use crate::context::Context;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::node::{Node, Outputs, invalid, one, unsupported};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    ml("LabelEncoder", 1, |_, _| {
        unsupported("strings are not supported: --inputs= and --outputs= cut the graph behind them")
    }),
    ml("LabelEncoder", 2, |cx, node| label_encoder(cx, node, false)),
    ml("LabelEncoder", 4, |cx, node| label_encoder(cx, node, true)),
    ml("OneHotEncoder", 1, one_hot_encoder),
    ml("CategoryMapper", 1, |_, _| {
        unsupported("strings are not supported: --inputs= and --outputs= cut the graph behind them")
    }),
];

fn integers(list: &[i64]) -> Tensor {
    let elements = list.iter().map(|value| Scalar::Int(Dim::constant(*value))).collect();
    Tensor::of_elements(DataType::I64, vec![Dim::constant(length(list))], elements)
}

fn floats(list: &[f32]) -> Tensor {
    let elements = list.iter().map(|value| Scalar::Float(f64::from(*value))).collect();
    Tensor::of_elements(DataType::F32, vec![Dim::constant(length(list))], elements)
}

/// Reads a list from one of the attributes `PREFIX_int64s`, `PREFIX_floats` and `PREFIX_tensor`.
fn list(cx: &mut Context, node: &Node<'_>, prefix: &str) -> Result<Tensor> {
    if let Some(list) = node.ints(&format!("{prefix}_int64s")).filter(|list| !list.is_empty()) {
        return Ok(integers(list));
    }
    if let Some(list) = node.floats(&format!("{prefix}_floats")).filter(|list| !list.is_empty()) {
        return Ok(floats(list));
    }
    if let Some(proto) = node.attribute(&format!("{prefix}_tensor")).and_then(|attribute| attribute.t.as_ref()) {
        let tensor = crate::model::embedded(proto, &node.name)?;
        return cx.reshape(&tensor, &[tensor.count()]);
    }
    if node.attribute(&format!("{prefix}_strings")).is_some() {
        return unsupported("strings are not supported: --inputs= and --outputs= cut the graph behind them");
    }
    invalid(format!("there is no attribute `{prefix}_int64s`, `{prefix}_floats` or `{prefix}_tensor`"))
}

/// Returns what stands for keys that are not in the list.
fn default(cx: &Context, node: &Node<'_>, ty: DataType) -> Result<Scalar> {
    if let Some(proto) = node.attribute("default_tensor").and_then(|attribute| attribute.t.as_ref()) {
        let tensor = crate::model::embedded(proto, &node.name)?;
        if let Some(scalar) = cx.elements(&tensor)?.and_then(|elements| elements.first().cloned()) {
            return Ok(scalar);
        }
    }
    Ok(if ty.is_float() {
        Scalar::Float(node.float_or("default_float", -0.0))
    } else {
        Scalar::Int(Dim::constant(node.int_or("default_int64", -1)))
    })
}

/// Compares an element with a key. NaN may be equal to NaN.
fn is_equal(b: &mut Builder, x: Value, key: Value, kind: Kind, finds_nan: bool) -> Value {
    if kind != Kind::Float {
        return b.cmpi(IntPredicate::Equal, x, key);
    }
    let is_same = b.cmpf(FloatPredicate::OrderedEqual, x, key);
    if !finds_nan {
        return is_same;
    }
    let (x_missing, key_missing) =
        (b.cmpf(FloatPredicate::Unordered, x, x), b.cmpf(FloatPredicate::Unordered, key, key));
    let both_missing = b.andi(x_missing, key_missing);
    b.ori(is_same, both_missing)
}

/// Replaces keys by values. Of equal keys, the first counts. From version 4 on, a key may be NaN.
fn label_encoder(cx: &mut Context, node: &Node<'_>, finds_nan: bool) -> Result<Outputs> {
    let x = node.input(0)?;
    let (keys, values) = (list(cx, node, "keys")?, list(cx, node, "values")?);
    if x.ty != keys.ty || keys.shape != values.shape {
        return invalid(format!(
            "elements of type {} for keys of type {}, or as many values as keys are expected",
            x.ty.name(),
            keys.ty.name()
        ));
    }
    let ty = values.ty;
    if ty.computed() != ty || keys.ty.computed() != keys.ty {
        return crate::kit::wrong_type(ty);
    }
    let default = default(cx, node, ty)?;
    let rank = x.rank();
    let initial = cx.scalar(&default, ty)?;
    let extents = cx.extents(&x.shape);
    let filled = cx.b.fill(initial, &extents);
    // Keys from the last to the first, so that the first of equal ones is the last that is compared.
    let elements: Vec<usize> = (0..rank).collect();
    let maps = [
        Map::of(rank + 1, &elements),
        Map::of(rank + 1, &[rank]),
        Map::of(rank + 1, &[rank]),
        Map::of(rank + 1, &elements),
    ];
    let mut iterators = vec![Iterator::Parallel; rank];
    iterators.push(Iterator::Reduction);
    let kind = keys.ty.kind();
    let (keys, values) = (cx.reverse(&keys, &[0])?, cx.reverse(&values, &[0])?);
    let operands = [cx.value(x)?, cx.value(&keys)?, cx.value(&values)?];
    let result = cx.b.generic_single(&operands, filled, &maps, &iterators, |b, x| {
        let is_equal = is_equal(b, x[0], x[1], kind, finds_nan);
        b.select(is_equal, x[2], x[3])
    });
    one(cx.tensor(result, ty, x.shape.clone())?)
}

/// Adds a dimension: 1 at the position of the category, 0 elsewhere, and everywhere for a category that is not in the list.
fn one_hot_encoder(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let Some(categories) = node.ints("cats_int64s").filter(|list| !list.is_empty()) else {
        return unsupported("categories that are strings: --inputs= and --outputs= cut the graph behind them");
    };
    let x = cx.cast(x, DataType::I64)?;
    let spread = cx.unsqueeze(&x, &[x.rank()])?;
    let categories = integers(categories);
    one(cx.map(&[&spread, &categories], DataType::F32, |b, x| {
        let is_equal = b.cmpi(IntPredicate::Equal, x[0], x[1]);
        let (zero, one) = (b.float(0.0, Element::F32), b.float(1.0, Element::F32));
        b.select(is_equal, one, zero)
    })?)
}
