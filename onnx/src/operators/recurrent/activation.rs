//! The activations that recurrent operators name.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, FloatPredicate, Value};

use crate::node::{Node, invalid, unsupported};

/// A function of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Relu,
    Tanh,
    Sigmoid,
    Softsign,
    Softplus,
    /// `alpha * x + beta`.
    Affine(f64, f64),
    /// `alpha * x` below 0.
    LeakyRelu(f64),
    /// 0 up to a threshold.
    ThresholdedRelu(f64),
    /// `alpha * tanh(beta * x)`.
    ScaledTanh(f64, f64),
    /// `alpha * x + beta` within 0 and 1.
    HardSigmoid(f64, f64),
    /// `alpha * (exp(x) - 1)` below 0.
    Elu(f64),
}

/// Reads the activations of a node: `default` has those of one direction. Functions take the factors of their lists in order.
pub(super) fn activations(node: &Node<'_>, default: &[&str], direction: usize) -> Result<Vec<Activation>> {
    let names = node.texts("activations")?.unwrap_or_default();
    let names = if names.is_empty() { default.repeat(direction + 1) } else { names };
    let mut alphas = node.floats("activation_alpha").unwrap_or_default().iter().map(|value| f64::from(*value));
    let mut betas = node.floats("activation_beta").unwrap_or_default().iter().map(|value| f64::from(*value));
    let mut list = Vec::new();
    for name in names {
        let mut alpha = |default: f64| alphas.next().unwrap_or(default);
        let mut beta = |default: f64| betas.next().unwrap_or(default);
        list.push(match &*name.to_ascii_lowercase() {
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            "affine" => Activation::Affine(alpha(1.0), beta(0.0)),
            "leakyrelu" => Activation::LeakyRelu(alpha(f64::from(0.01_f32))),
            "thresholdedrelu" => Activation::ThresholdedRelu(alpha(1.0)),
            "scaledtanh" => Activation::ScaledTanh(alpha(1.0), beta(1.0)),
            "hardsigmoid" => Activation::HardSigmoid(alpha(f64::from(0.2_f32)), beta(0.5)),
            "elu" => Activation::Elu(alpha(1.0)),
            _ => return unsupported(format!("the activation `{name}` is not supported")),
        });
    }
    let first = direction * default.len();
    match list.get(first..first + default.len()) {
        Some(own) => Ok(own.to_vec()),
        None => invalid(format!("there are {} activations, and {} are expected", list.len(), first + default.len())),
    }
}

impl Activation {
    /// Computes the function of a scalar.
    pub(super) fn emit(self, b: &mut Builder, x: Value) -> Value {
        let element = b.element_of(x);
        let (zero, one) = (b.float(0.0, element), b.float(1.0, element));
        match self {
            Activation::Relu => b.maximumf(x, zero),
            Activation::Tanh => b.tanh(x),
            Activation::Sigmoid => {
                let negative = b.negf(x);
                let power = b.exp(negative);
                let sum = b.addf(power, one);
                b.divf(one, sum)
            }
            Activation::Softsign => {
                let magnitude = b.absf(x);
                let sum = b.addf(magnitude, one);
                b.divf(x, sum)
            }
            // With the greater of x and 0 outside of the logarithm, the power does not overflow.
            Activation::Softplus => {
                let magnitude = b.absf(x);
                let negative = b.negf(magnitude);
                let power = b.exp(negative);
                let sum = b.addf(power, one);
                let logarithm = b.log(sum);
                let greater = b.maximumf(x, zero);
                b.addf(greater, logarithm)
            }
            Activation::Affine(alpha, beta) => affine(b, x, alpha, beta),
            Activation::LeakyRelu(alpha) => {
                let scaled = affine(b, x, alpha, 0.0);
                let is_negative = b.cmpf(FloatPredicate::OrderedLess, x, zero);
                b.select(is_negative, scaled, x)
            }
            Activation::ThresholdedRelu(alpha) => {
                let threshold = b.float(alpha, element);
                let is_greater = b.cmpf(FloatPredicate::OrderedGreater, x, threshold);
                b.select(is_greater, x, zero)
            }
            Activation::ScaledTanh(alpha, beta) => {
                let inner = affine(b, x, beta, 0.0);
                let tanh = b.tanh(inner);
                affine(b, tanh, alpha, 0.0)
            }
            Activation::HardSigmoid(alpha, beta) => {
                let line = affine(b, x, alpha, beta);
                let low = b.maximumf(line, zero);
                b.minimumf(low, one)
            }
            Activation::Elu(alpha) => {
                let power = b.exp(x);
                let difference = b.subf(power, one);
                let scaled = affine(b, difference, alpha, 0.0);
                let is_negative = b.cmpf(FloatPredicate::OrderedLess, x, zero);
                b.select(is_negative, scaled, x)
            }
        }
    }
}

fn affine(b: &mut Builder, x: Value, alpha: f64, beta: f64) -> Value {
    let element = b.element_of(x);
    let factor = b.float(alpha, element);
    let product = b.mulf(x, factor);
    if beta == 0.0 {
        return product;
    }
    let summand = b.float(beta, element);
    b.addf(product, summand)
}
