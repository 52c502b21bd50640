//! Activations, and limits of values.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, Value};

use super::elementwise::{Arithmetic, computed, less_than_zero};
use super::math::float;
use super::{Lowering, Row, onnx};
use crate::context::Context;
use crate::convert::converted;
use crate::data_type::{DataType, Kind};
use crate::dim::Dim;
use crate::functions;
use crate::kit::wrong_type;
use crate::node::{Node, Outputs, invalid, one};
use crate::tensor::{Scalar, Tensor};

pub(super) const ROWS: &[Row] = &[
    onnx("Relu", 1, |cx, node| {
        let x = node.input(0)?;
        let ty = x.ty;
        match ty.kind() {
            Kind::Bool => wrong_type(ty),
            Kind::Unsigned => one(x.clone()),
            Kind::Float => one(cx.map(&[x], ty, |b, x| {
                let zero = constant(b, x[0], 0.0);
                b.maximumf(x[0], zero)
            })?),
            Kind::Signed => one(cx.map(&[x], ty, |b, x| {
                let zero = b.int(0, ty.element());
                computed(b, x[0], zero, Arithmetic::Max, ty)
            })?),
        }
    }),
    onnx("LeakyRelu", 1, |cx, node| {
        let alpha = node.float_or("alpha", 0.01);
        with_parameters(cx, node, [alpha, 0.0], |b, x, [alpha, _]| {
            let scaled = times(b, x, alpha);
            where_negative(b, x, scaled, x)
        })
    }),
    onnx("PRelu", 1, |cx, node| {
        // A slope of several elements has one for each channel.
        let (x, slope) = (node.input(0)?, node.input(1)?);
        let mut shape = slope.shape.clone();
        if slope.rank() == 1 && x.rank() > 2 && !slope.count().is(1) {
            shape.extend((2..x.rank()).map(|_| Dim::constant(1)));
        }
        let slope = cx.reshape(slope, &shape)?;
        prelu(cx, x, &slope)
    }),
    onnx("PRelu", 7, |cx, node| prelu(cx, node.input(0)?, node.input(1)?)),
    onnx("ThresholdedRelu", 1, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 1.0), 0.0], |b, x, [alpha, _]| {
            let (alpha, zero) = (constant(b, x, alpha), constant(b, x, 0.0));
            let is_above = b.cmpf(FloatPredicate::OrderedGreater, x, alpha);
            b.select(is_above, x, zero)
        })
    }),
    onnx("Elu", 1, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 1.0), 0.0], |b, x, [alpha, _]| {
            let e = functions::expm1(b, x);
            let scaled = times(b, e, alpha);
            where_negative(b, x, scaled, x)
        })
    }),
    onnx("Selu", 1, |cx, node| selu(cx, node, 1.6732, 1.0507)),
    onnx("Selu", 6, |cx, node| selu(cx, node, 1.673_263_2, 1.050_701)),
    onnx("Celu", 12, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 1.0), 0.0], |b, x, [alpha, _]| {
            let (zero, alpha) = (constant(b, x, 0.0), constant(b, x, alpha));
            let quotient = b.divf(x, alpha);
            let e = functions::expm1(b, quotient);
            let scaled = b.mulf(e, alpha);
            let (positive, negative) = (b.maximumf(x, zero), b.minimumf(scaled, zero));
            b.addf(positive, negative)
        })
    }),
    onnx("Gelu", 20, |cx, node| match node.text_or("approximate", "none")? {
        "none" => float(cx, node, gelu),
        "tanh" => float(cx, node, gelu_tanh),
        other => invalid(format!("the attribute `approximate` is `{other}`, which is neither none nor tanh")),
    }),
    onnx("HardSigmoid", 1, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 0.2), node.float_or("beta", 0.5)], hard_sigmoid)
    }),
    onnx("HardSwish", 14, |cx, node| {
        float(cx, node, |b, x| {
            let gate = hard_sigmoid(b, x, [1.0 / 6.0, 0.5]);
            b.mulf(x, gate)
        })
    }),
    onnx("Mish", 18, |cx, node| float(cx, node, mish)),
    onnx("Sigmoid", 1, |cx, node| float(cx, node, functions::sigmoid)),
    onnx("Softplus", 1, |cx, node| float(cx, node, functions::softplus)),
    onnx("Softsign", 1, |cx, node| {
        float(cx, node, |b, x| {
            let (one, absolute) = (constant(b, x, 1.0), b.absf(x));
            let divisor = b.addf(one, absolute);
            b.divf(x, divisor)
        })
    }),
    onnx("Swish", 24, |cx, node| with_parameters(cx, node, [node.float_or("alpha", 1.0), 0.0], swish)),
    onnx("SwiGLU", 28, |cx, node| {
        let (gate, linear) = (node.input(0)?, node.input(1)?);
        if !gate.ty.is_float() || linear.ty != gate.ty {
            return wrong_type(linear.ty);
        }
        let alpha = node.float_or("alpha", 1.0);
        one(cx.map(&[gate, linear], gate.ty, |b, x| {
            let gate = swish(b, x[0], [alpha, 0.0]);
            b.mulf(gate, x[1])
        })?)
    }),
    onnx("Shrink", 9, shrink),
    onnx("Clip", 1, |cx, node| {
        let x = node.input(0)?;
        let bound = |value: f64| Tensor::of_elements(x.ty, Vec::new(), vec![Scalar::Float(value)]);
        let (low, high) = (node.float("min").map(bound), node.float("max").map(bound));
        clip(cx, x, low, high)
    }),
    onnx("Clip", 11, |cx, node| {
        let low = node.optional(1)?.map(|low| cx.reshape(low, &[])).transpose()?;
        let high = node.optional(2)?.map(|high| cx.reshape(high, &[])).transpose()?;
        clip(cx, node.input(0)?, low, high)
    }),
    // Operators of the first version that later ones do not have.
    onnx("Affine", 1, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 1.0), node.float_or("beta", 0.0)], |b, x, [alpha, beta]| {
            let (scaled, beta) = (times(b, x, alpha), constant(b, x, beta));
            b.addf(scaled, beta)
        })
    }),
    onnx("ParametricSoftplus", 1, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 1.0), node.float_or("beta", 1.0)], |b, x, [alpha, beta]| {
            let scaled = times(b, x, beta);
            let softplus = functions::softplus(b, scaled);
            times(b, softplus, alpha)
        })
    }),
    onnx("ScaledTanh", 1, |cx, node| {
        with_parameters(cx, node, [node.float_or("alpha", 1.0), node.float_or("beta", 1.0)], |b, x, [alpha, beta]| {
            let scaled = times(b, x, beta);
            let tanh = functions::tanh(b, scaled);
            times(b, tanh, alpha)
        })
    }),
    microsoft("Gelu", |cx, node| float(cx, node, gelu)),
    microsoft("BiasGelu", |cx, node| biased(cx, node, gelu)),
    microsoft("FastGelu", |cx, node| biased(cx, node, gelu_tanh)),
    microsoft("QuickGelu", |cx, node| with_parameters(cx, node, [node.float_or("alpha", 1.702), 0.0], swish)),
];

/// A row of the domain of ONNX Runtime.
const fn microsoft(name: &'static str, lower: fn(&mut Context, &Node<'_>) -> Result<Outputs>) -> Row {
    Row { domain: "com.microsoft", name, since: 1, lower: Lowering::Plain(lower) }
}

/// A float of the type of a value.
fn constant(b: &mut Builder, like: Value, value: f64) -> Value {
    let element = b.element_of(like);
    b.float(value, element)
}

fn times(b: &mut Builder, x: Value, value: f64) -> Value {
    let factor = constant(b, x, value);
    b.mulf(x, factor)
}

/// `below` where `x` is negative, else `otherwise`, also for NaN.
fn where_negative(b: &mut Builder, x: Value, below: Value, otherwise: Value) -> Value {
    let zero = constant(b, x, 0.0);
    let is_negative = b.cmpf(FloatPredicate::OrderedLess, x, zero);
    b.select(is_negative, below, otherwise)
}

/// Computes a function of floats that has parameters.
fn with_parameters(
    cx: &mut Context,
    node: &Node<'_>,
    parameters: [f64; 2],
    function: fn(&mut Builder, Value, [f64; 2]) -> Value,
) -> Result<Outputs> {
    let x = node.input(0)?;
    if !x.ty.is_float() {
        return wrong_type(x.ty);
    }
    one(cx.map(&[x], x.ty, |b, x| function(b, x[0], parameters))?)
}

/// Computes a function of the sum with a bias, if there is one.
fn biased(cx: &mut Context, node: &Node<'_>, function: fn(&mut Builder, Value) -> Value) -> Result<Outputs> {
    let x = node.input(0)?;
    let Some(bias) = node.optional(1)? else { return float(cx, node, function) };
    if !x.ty.is_float() || bias.ty != x.ty {
        return wrong_type(bias.ty);
    }
    one(cx.map(&[x, bias], x.ty, |b, x| {
        let sum = b.addf(x[0], x[1]);
        function(b, sum)
    })?)
}

fn selu(cx: &mut Context, node: &Node<'_>, alpha: f32, gamma: f32) -> Result<Outputs> {
    with_parameters(cx, node, [node.float_or("alpha", alpha), node.float_or("gamma", gamma)], |b, x, [alpha, gamma]| {
        let e = functions::expm1(b, x);
        let below = times(b, e, alpha);
        let value = where_negative(b, x, below, x);
        times(b, value, gamma)
    })
}

/// `x * sigmoid(alpha * x)`.
fn swish(b: &mut Builder, x: Value, [alpha, _]: [f64; 2]) -> Value {
    let scaled = if alpha == 1.0 { x } else { times(b, x, alpha) };
    let gate = functions::sigmoid(b, scaled);
    b.mulf(x, gate)
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`.
pub(super) fn gelu(b: &mut Builder, x: Value) -> Value {
    let scaled = times(b, x, core::f64::consts::FRAC_1_SQRT_2);
    let erf = functions::erf(b, scaled);
    let one = constant(b, x, 1.0);
    let sum = b.addf(erf, one);
    let half = times(b, x, 0.5);
    b.mulf(half, sum)
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))`.
pub(super) fn gelu_tanh(b: &mut Builder, x: Value) -> Value {
    let square = b.mulf(x, x);
    let cube = b.mulf(square, x);
    let small = times(b, cube, 0.044715);
    let sum = b.addf(x, small);
    let scaled = times(b, sum, core::f64::consts::FRAC_2_SQRT_PI * core::f64::consts::FRAC_1_SQRT_2);
    let tanh = functions::tanh(b, scaled);
    let one = constant(b, x, 1.0);
    let sum = b.addf(tanh, one);
    let half = times(b, x, 0.5);
    b.mulf(half, sum)
}

fn hard_sigmoid(b: &mut Builder, x: Value, [alpha, beta]: [f64; 2]) -> Value {
    let (scaled, beta) = (times(b, x, alpha), constant(b, x, beta));
    let sum = b.addf(scaled, beta);
    let (zero, one) = (constant(b, x, 0.0), constant(b, x, 1.0));
    let limited = b.minimumf(sum, one);
    b.maximumf(limited, zero)
}

/// `x * tanh(log(1 + exp(x)))`, which is `x * n / (n + 2)` for `n = e * (e + 2)` and `e = exp(x)`.
fn mish(b: &mut Builder, x: Value) -> Value {
    let most = constant(b, x, 20.0);
    let limited = b.minimumf(x, most);
    let e = b.exp(limited);
    let two = constant(b, x, 2.0);
    let sum = b.addf(e, two);
    let n = b.mulf(e, sum);
    let divisor = b.addf(n, two);
    let gate = b.divf(n, divisor);
    b.mulf(x, gate)
}

fn prelu(cx: &mut Context, x: &Tensor, slope: &Tensor) -> Result<Outputs> {
    let ty = x.ty;
    if slope.ty != ty || ty == DataType::Bool {
        return wrong_type(slope.ty);
    }
    let shape = x.shape.clone();
    let joined = cx.broadcast(&[&shape, &slope.shape])?;
    if joined.len() != shape.len() {
        return invalid("the slope has more dimensions than the input");
    }
    for (extent, joined) in shape.iter().zip(&joined) {
        cx.require_equal(extent, joined, "an extent of the slope")?;
    }
    one(cx.map_to(&[x, slope], ty, &shape, |b, x| match ty.kind() {
        Kind::Float => {
            let scaled = b.mulf(x[0], x[1]);
            where_negative(b, x[0], scaled, x[0])
        }
        Kind::Signed => {
            let scaled = b.muli(x[0], x[1]);
            let is_negative = less_than_zero(b, x[0], ty);
            b.select(is_negative, scaled, x[0])
        }
        _ => x[0],
    })?)
}

/// `Shrink`: integers are computed as floats, and cut.
fn shrink(cx: &mut Context, node: &Node<'_>) -> Result<Outputs> {
    let x = node.input(0)?;
    let ty = x.ty;
    if ty == DataType::Bool {
        return wrong_type(ty);
    }
    let (bias, threshold) = (node.float_or("bias", 0.0), node.float_or("lambd", 0.5));
    let wide = if ty.is_float() { ty } else { DataType::F64 };
    one(cx.map(&[x], ty, |b, x| {
        let value = converted(b, x[0], ty, wide);
        let (zero, bias) = (constant(b, value, 0.0), constant(b, value, bias));
        let (low, high) = (constant(b, value, -threshold), constant(b, value, threshold));
        let (raised, lowered) = (b.addf(value, bias), b.subf(value, bias));
        let is_low = b.cmpf(FloatPredicate::OrderedLess, value, low);
        let is_high = b.cmpf(FloatPredicate::OrderedGreater, value, high);
        let outer = b.select(is_high, lowered, zero);
        let result = b.select(is_low, raised, outer);
        converted(b, result, wide, ty)
    })?)
}

/// Limits elements, first from below: where the bounds are in the wrong order, the upper one is the result. NaN stays.
fn clip(cx: &mut Context, x: &Tensor, low: Option<Tensor>, high: Option<Tensor>) -> Result<Outputs> {
    let ty = x.ty;
    let bounds: Vec<(&Tensor, Arithmetic)> =
        low.iter().map(|low| (low, Arithmetic::Max)).chain(high.iter().map(|high| (high, Arithmetic::Min))).collect();
    if ty == DataType::Bool || bounds.iter().any(|(bound, _)| bound.ty != ty) {
        return wrong_type(ty);
    }
    if bounds.is_empty() {
        return one(x.clone());
    }
    let operands: Vec<&Tensor> = core::iter::once(x).chain(bounds.iter().map(|(bound, _)| *bound)).collect();
    let folded = cx.fold(&operands, ty, |elements| {
        let (first, others) = elements.split_first()?;
        let mut limits = others.iter().zip(&bounds);
        limits.try_fold(first.clone(), |x, (bound, (_, operation))| super::known::binary(*operation, &x, bound, ty))
    })?;
    if let Some(folded) = folded {
        return one(folded);
    }
    let shape = x.shape.clone();
    one(cx.map_to(&operands, ty, &shape, |b, elements| {
        let (first, others) = (elements[0], elements.get(1..).unwrap_or_default());
        others.iter().zip(&bounds).fold(first, |x, (bound, (_, operation))| match ty.is_float() {
            true => {
                let predicate = match operation {
                    Arithmetic::Max => FloatPredicate::OrderedLess,
                    _ => FloatPredicate::OrderedGreater,
                };
                let is_beyond = b.cmpf(predicate, x, *bound);
                b.select(is_beyond, *bound, x)
            }
            false => computed(b, x, *bound, *operation, ty),
        })
    })?)
}
