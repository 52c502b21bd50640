//! Activations that fused operators name.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Value};

use crate::node::unsupported;

/// A function of one element, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Identity,
    Relu,
    Tanh,
    Sigmoid,
    LeakyRelu(f64),
    Clip(f64, f64),
    HardSigmoid(f64, f64),
}

impl Activation {
    /// Finds an activation by its name; parameters that are left out have ONNX's defaults.
    pub(super) fn of(name: &str, parameters: &[f32]) -> Result<Activation> {
        let parameter = |index: usize, default: f64| parameters.get(index).copied().map_or(default, f64::from);
        Ok(match name {
            "" => Activation::Identity,
            "Relu" => Activation::Relu,
            "Tanh" => Activation::Tanh,
            "Sigmoid" => Activation::Sigmoid,
            "LeakyRelu" => Activation::LeakyRelu(parameter(0, f64::from(0.01_f32))),
            "Clip" => Activation::Clip(parameter(0, f64::from(f32::MIN)), parameter(1, f64::from(f32::MAX))),
            "HardSigmoid" => Activation::HardSigmoid(parameter(0, f64::from(0.2_f32)), parameter(1, 0.5)),
            _ => return unsupported(format!("the activation `{name}`")),
        })
    }

    /// Computes the function of a float.
    pub(super) fn apply(self, b: &mut Builder, x: Value) -> Value {
        let element = b.element_of(x);
        match self {
            Activation::Identity => x,
            Activation::Relu => {
                let zero = b.float(0.0, element);
                b.maximumf(x, zero)
            }
            Activation::Tanh => b.tanh(x),
            Activation::Sigmoid => sigmoid(b, x),
            Activation::LeakyRelu(slope) => {
                let (zero, slope) = (b.float(0.0, element), b.float(slope, element));
                let (up, down) = (b.maximumf(x, zero), b.minimumf(x, zero));
                let scaled = b.mulf(down, slope);
                b.addf(up, scaled)
            }
            Activation::Clip(low, high) => {
                let (low, high) = (b.float(low, element), b.float(high, element));
                let raised = b.maximumf(x, low);
                b.minimumf(raised, high)
            }
            Activation::HardSigmoid(slope, offset) => {
                let (slope, offset) = (b.float(slope, element), b.float(offset, element));
                let (zero, one) = (b.float(0.0, element), b.float(1.0, element));
                let scaled = b.mulf(x, slope);
                let line = b.addf(scaled, offset);
                let raised = b.maximumf(line, zero);
                b.minimumf(raised, one)
            }
        }
    }
}

/// `1 / (1 + exp(-x))`.
pub(super) fn sigmoid(b: &mut Builder, x: Value) -> Value {
    let one = b.float(1.0, b.element_of(x));
    let negated = b.negf(x);
    let power = b.exp(negated);
    let sum = b.addf(one, power);
    b.divf(one, sum)
}
