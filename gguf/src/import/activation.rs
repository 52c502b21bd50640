//! Functions between the products of the feed-forward network.

use incarnate_mlir::{Builder, Element, Value};

use super::architecture::Activation;

/// Applies an activation to the gate, and multiplies it with the other product.
pub(super) fn gated(b: &mut Builder, activation: Activation, gate: Value, up: Value) -> Value {
    b.elementwise(&[gate, up], Element::F32, |b, x| gated_element(b, activation, x[0], x[1]))
}

/// An element of [`gated`].
pub(super) fn gated_element(b: &mut Builder, activation: Activation, gate: Value, up: Value) -> Value {
    let active = match activation {
        Activation::Silu => silu(b, gate),
        Activation::Gelu => gelu(b, gate),
    };
    b.mulf(active, up)
}

/// `1 / (1 + exp(-x))`.
pub(super) fn sigmoid(b: &mut Builder, x: Value) -> Value {
    let one = b.float(1.0, Element::F32);
    over_one_and_exponential(b, one, x)
}

fn silu(b: &mut Builder, x: Value) -> Value {
    over_one_and_exponential(b, x, x)
}

/// `numerator / (1 + exp(-x))`.
fn over_one_and_exponential(b: &mut Builder, numerator: Value, x: Value) -> Value {
    let (negative, one) = (b.negf(x), b.float(1.0, Element::F32));
    let power = b.exp(negative);
    let sum = b.addf(one, power);
    b.divf(numerator, sum)
}

fn gelu(b: &mut Builder, x: Value) -> Value {
    let [cubic, root, one, half] =
        [0.044715, (2.0 / core::f64::consts::PI).sqrt(), 1.0, 0.5].map(|number| b.float(number, Element::F32));
    let square = b.mulf(x, x);
    let scaled = b.mulf(cubic, square);
    let factor = b.addf(one, scaled);
    let scaled = b.mulf(root, x);
    let inner = b.mulf(scaled, factor);
    let tangent = b.tanh(inner);
    let sum = b.addf(one, tangent);
    let halved = b.mulf(half, x);
    b.mulf(halved, sum)
}
