//! From scores to probabilities and labels.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, Map, Value};

use super::super::nests::Reduction;
use super::length;
use crate::context::Context;
use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{Node, invalid, unsupported};
use crate::tensor::{Item, Scalar, Tensor};

/// What becomes of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    /// Reads the attribute `post_transform`, which is a text.
    pub(super) fn of(node: &Node<'_>) -> Result<Transform> {
        Ok(match node.text_or("post_transform", "NONE")? {
            "NONE" => Transform::None,
            "SOFTMAX" => Transform::Softmax,
            "LOGISTIC" => Transform::Logistic,
            "SOFTMAX_ZERO" => Transform::SoftmaxZero,
            "PROBIT" => Transform::Probit,
            other => return invalid(format!("the attribute `post_transform` is {other}")),
        })
    }

    /// Finds a transform by the number that `TreeEnsemble` has for it.
    pub(super) fn of_number(number: i64) -> Result<Transform> {
        Ok(match number {
            0 => Transform::None,
            1 => Transform::Softmax,
            2 => Transform::Logistic,
            3 => Transform::SoftmaxZero,
            4 => Transform::Probit,
            _ => return invalid(format!("the attribute `post_transform` is {number}")),
        })
    }

    /// Transforms scores of `[rows, classes]`.
    pub(super) fn apply(self, cx: &mut Context, scores: &Tensor) -> Result<Tensor> {
        let ty = scores.ty;
        match self {
            Transform::None => Ok(scores.clone()),
            Transform::Logistic => cx.map(&[scores], ty, |b, x| logistic(b, x[0])),
            Transform::Probit => cx.map(&[scores], ty, |b, x| probit(b, x[0])),
            Transform::Softmax | Transform::SoftmaxZero => softmax(cx, scores, self == Transform::SoftmaxZero),
        }
    }

    /// Transforms the score of one regressed target as ONNX Runtime does: by the quantile function alone.
    pub(super) fn apply_to_targets(self, cx: &mut Context, scores: &Tensor) -> Result<Tensor> {
        let is_single = scores.shape.get(1).is_some_and(|dim| dim.is(1));
        if is_single && self != Transform::Probit { Ok(scores.clone()) } else { self.apply(cx, scores) }
    }

    /// Returns the scores of both classes, of that of the second: `[rows, 1]`. If scores are probabilities, that of the first is the rest.
    pub(super) fn both(self, cx: &mut Context, score: &Tensor, is_probability: bool) -> Result<Tensor> {
        let ty = score.ty;
        let first = cx.map(&[score], ty, |b, x| {
            let one = b.float(1.0, b.element_of(x[0]));
            match self {
                Transform::Logistic => {
                    let negative = b.negf(x[0]);
                    logistic(b, negative)
                }
                Transform::Probit => {
                    let rest = b.subf(one, x[0]);
                    probit(b, rest)
                }
                _ if is_probability => b.subf(one, x[0]),
                _ => b.negf(x[0]),
            }
        })?;
        let second = match self {
            Transform::Logistic | Transform::Probit => self.apply(cx, score)?,
            _ => score.clone(),
        };
        cx.concat(&[&first, &second], 1)
    }
}

fn softmax(cx: &mut Context, scores: &Tensor, keeps_zeros: bool) -> Result<Tensor> {
    let ty = scores.ty;
    let least = Scalar::Float(f64::NEG_INFINITY);
    let greatest = cx.reduce(scores, &[1], ty, least, |b, x, most| b.maximumf(most, x))?;
    let greatest = cx.unsqueeze(&greatest, &[1])?;
    let powers = cx.map(&[scores, &greatest], ty, |b, x| {
        let difference = b.subf(x[0], x[1]);
        let power = b.exp(difference);
        if !keeps_zeros {
            return power;
        }
        let negative = b.negf(x[1]);
        let factor = b.exp(negative);
        let scaled = b.mulf(x[0], factor);
        let is_zero = is_near_zero(b, x[0]);
        b.select(is_zero, scaled, power)
    })?;
    let operands = [(&powers, Map::identity(2)), (scores, Map::identity(2))];
    let reduction = Reduction::along(&scores.shape, &[1]);
    // Zeros count nothing.
    let sum = reduction.sum(cx, &operands, ty, |b, x| {
        if !keeps_zeros {
            return x[0];
        }
        let zero = b.float(0.0, ty.element());
        let is_zero = is_near_zero(b, x[1]);
        b.select(is_zero, zero, x[0])
    })?;
    let sum = cx.unsqueeze(&sum, &[1])?;
    cx.map(&[&powers, &sum], ty, |b, x| b.divf(x[0], x[1]))
}

fn is_near_zero(b: &mut Builder, x: Value) -> Value {
    let limit = b.float(f64::from(0.000_000_1_f32), b.element_of(x));
    let magnitude = b.absf(x);
    b.cmpf(FloatPredicate::OrderedLessEqual, magnitude, limit)
}

/// The logistic function, of the negative magnitude, so that the power does not overflow.
pub(super) fn logistic(b: &mut Builder, x: Value) -> Value {
    let element = b.element_of(x);
    let (zero, one) = (b.float(0.0, element), b.float(1.0, element));
    let magnitude = b.absf(x);
    let negative = b.negf(magnitude);
    let power = b.exp(negative);
    let sum = b.addf(one, power);
    let value = b.divf(one, sum);
    let mirrored = b.subf(one, value);
    let is_negative = b.cmpf(FloatPredicate::OrderedLess, x, zero);
    b.select(is_negative, mirrored, value)
}

/// The quantile function of the normal distribution, by the approximation of the inverse error function that ONNX Runtime has.
fn probit(b: &mut Builder, x: Value) -> Value {
    let element = b.element_of(x);
    let number = |b: &mut Builder, value: f64| b.float(value, element);
    let (zero, one, two) = (number(b, 0.0), number(b, 1.0), number(b, 2.0));
    let doubled = b.mulf(x, two);
    let centred = b.subf(doubled, one);
    let (below, above) = (b.subf(one, centred), b.addf(one, centred));
    let product = b.mulf(below, above);
    let log = b.log(product);
    let (half, first, second) = (number(b, 0.5), number(b, 2.0 / (3.14159 * 0.147)), number(b, 1.0 / 0.147));
    let halved = b.mulf(log, half);
    let v = b.addf(first, halved);
    let scaled = b.mulf(second, log);
    let square = b.mulf(v, v);
    let difference = b.subf(square, scaled);
    let root = b.sqrt(difference);
    let rest = b.subf(root, v);
    let magnitude = b.sqrt(rest);
    let negative = b.negf(magnitude);
    let is_negative = b.cmpf(FloatPredicate::OrderedLess, centred, zero);
    let value = b.select(is_negative, negative, magnitude);
    let factor = number(b, f64::from(core::f32::consts::SQRT_2));
    b.mulf(value, factor)
}

/// The labels of the classes.
#[derive(Debug)]
pub(super) enum Labels<'m> {
    Ints(&'m [i64]),
    /// A number of texts, which no tensor holds.
    Texts(usize),
}

impl<'m> Labels<'m> {
    /// Reads one of two attributes.
    pub(super) fn of(node: &Node<'m>, ints: &str) -> Labels<'m> {
        match node.ints(ints).filter(|list| !list.is_empty()) {
            Some(list) => Labels::Ints(list),
            None => Labels::Texts(node.attribute("classlabels_strings").map_or(0, |attribute| attribute.strings.len())),
        }
    }

    pub(super) fn count(&self) -> i64 {
        match self {
            Labels::Ints(list) => length(list),
            Labels::Texts(count) => i64::try_from(*count).unwrap_or(i64::MAX),
        }
    }

    /// Returns the labels of classes, given as `i32`. Texts are no tensor: graphs that need them are cut.
    pub(super) fn at(&self, cx: &mut Context, classes: &Tensor) -> Result<Item> {
        let Labels::Ints(list) = self else { return Ok(Item::Nothing) };
        let elements = list.iter().map(|label| Scalar::Int(Dim::constant(*label))).collect();
        let table = Tensor::of_elements(DataType::I64, vec![Dim::constant(length(list))], elements);
        if (0..).zip(*list).all(|(index, label)| index == *label) {
            return Ok(Item::Tensor(cx.cast(classes, DataType::I64)?));
        }
        let table = cx.value(&table)?;
        Ok(Item::Tensor(cx.map(&[classes], DataType::I64, |b, x| {
            let index = b.index_cast(x[0], incarnate_mlir::Element::Index);
            b.extract(table, &[index])
        })?))
    }
}

/// Returns the class of the greatest score of each row, the first of several, as `i32`.
pub(super) fn greatest_class(cx: &mut Context, scores: &Tensor) -> Result<Tensor> {
    let reduction = Reduction::along(&scores.shape, &[1]);
    let accumulators = [
        (scores.ty.computed(), Scalar::Float(f64::NEG_INFINITY)),
        (DataType::I32, Scalar::Int(Dim::constant(0))),
    ];
    let operands = [(scores, Map::identity(2))];
    let results = reduction.reduce(cx, &operands, &accumulators, |b, x, best| {
        let index = b.iteration(1);
        let index = b.index_cast(index, incarnate_mlir::Element::I32);
        let is_greater = b.cmpf(FloatPredicate::OrderedGreater, x[0], best[0]);
        vec![b.select(is_greater, x[0], best[0]), b.select(is_greater, index, best[1])]
    })?;
    match <[Tensor; 2]>::try_from(results) {
        Ok([_, classes]) => Ok(classes),
        Err(_) => unsupported("a reduction without two results"),
    }
}

/// Returns 1 for the rows whose score is above a limit, else 0, as `i32`: `[rows]` of `[rows, 1]`.
pub(super) fn class_above(cx: &mut Context, score: &Tensor, limit: f64) -> Result<Tensor> {
    let score = cx.squeeze(score, &[1])?;
    let element = score.ty.computed().element();
    cx.map(&[&score], DataType::I32, |b, x| {
        let limit = b.float(limit, element);
        let is_above = b.cmpf(FloatPredicate::OrderedGreater, x[0], limit);
        let (one, zero) = (b.int(1, incarnate_mlir::Element::I32), b.int(0, incarnate_mlir::Element::I32));
        b.select(is_above, one, zero)
    })
}
