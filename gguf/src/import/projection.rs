//! Products with the weights of layers, with biases.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Extent, Value};

use super::config::Config;
use super::norm::{add_scaled, add_to_rows, rms_norm};
use super::product::{Rows, product};
use super::weight::{Parameters, Vector, Weight};

/// A product, and a vector that is added.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    weight: Weight,
    bias: Option<Vector>,
}

impl Projection {
    /// Declares the weight `[rows, columns]`, and the bias if there is one.
    pub(super) fn declare(b: &mut Builder, of: &mut Parameters<'_>, name: &str, shape: [i64; 2]) -> Result<Projection> {
        let weight = Weight::declare(b, of, &format!("{name}.weight"), shape)?;
        let bias = Vector::optional(b, of, &format!("{name}.bias"), shape[0])?;
        Ok(Projection { weight, bias })
    }

    /// See [`Weight::open`].
    pub(super) fn open(&mut self, b: &mut Builder) {
        self.weight.open(b);
    }

    pub(super) fn apply(&self, b: &mut Builder, rows: Rows, x: Value) -> Value {
        let product = product(b, rows, x, &self.weight, None);
        self.with_bias(b, product)
    }

    /// Adds the result of the projection to vectors, normalised by `norm` if there is one.
    pub(super) fn add_to(
        &self,
        b: &mut Builder,
        config: &Config,
        (rows, norm): (Rows, Option<&Vector>),
        x: Value,
        vectors: Value,
    ) -> Value {
        if config.residual_scale == 1.0 && norm.is_none() {
            let sum = product(b, rows, x, &self.weight, Some(vectors));
            return self.with_bias(b, sum);
        }
        let result = self.apply(b, rows, x);
        add_result(b, config, norm, result, vectors)
    }

    fn with_bias(&self, b: &mut Builder, x: Value) -> Value {
        let Some(bias) = &self.bias else { return x };
        let bias = bias.load(b);
        add_to_rows(b, x, bias)
    }
}

/// Adds a result to vectors, normalised by `norm` if there is one.
pub(super) fn add_result(b: &mut Builder, config: &Config, norm: Option<&Vector>, result: Value, x: Value) -> Value {
    let result = norm.map_or(result, |norm| rms_norm(b, config, result, norm, config.width));
    add_scaled(b, x, result, config.residual_scale)
}

/// The elements from `first` on of each row `[rows, columns]`, `count` of them.
pub(super) fn columns(b: &mut Builder, rows: Rows, x: Value, first: i64, count: i64) -> Value {
    let [zero, one, first, count] = [0, 1, first, count].map(Extent::Constant);
    b.extract_slice(x, &[zero, first], &[rows.extent(), count], &[one, one], &[])
}
