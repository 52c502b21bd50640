//! A layer: attention and a feed-forward network, each of which adds to the vectors of the tokens.

use incarnate_bytecode::Result;
use incarnate_mlir::{Builder, Extent, Value};

use super::activation::gated;
use super::attention::{Cache, Part, Place, attend};
use super::config::Config;
use super::norm::{add_scaled, add_to_rows, rms_norm};
use super::product::product;
use super::rotary::Angles;
use super::weight::{Vector, Weight};
use crate::GgufFile;

/// The weights of a layer.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    index: i64,
    attention_norm: Vector,
    query: Projection,
    key: Projection,
    value: Projection,
    query_norm: Option<Vector>,
    key_norm: Option<Vector>,
    output: Projection,
    feed_forward_norm: Vector,
    gate: Projection,
    up: Projection,
    down: Projection,
}

/// A product, and a vector that is added.
#[derive(Clone, Debug)]
struct Projection {
    weight: Weight,
    bias: Option<Vector>,
}

impl Projection {
    fn declare(b: &mut Builder, of: (&GgufFile, &Config), name: &str, shape: [i64; 2]) -> Result<Projection> {
        let weight = Weight::declare(b, of, &format!("{name}.weight"), shape)?;
        let bias = Vector::optional(b, of.0, &format!("{name}.bias"), shape[0])?;
        Ok(Projection { weight, bias })
    }

    fn apply(&self, b: &mut Builder, place: &Place, x: Value) -> Value {
        let product = product(b, place.rows, x, &self.weight, None);
        self.with_bias(b, product)
    }

    /// Adds the result of the projection to vectors.
    fn add_to(&self, b: &mut Builder, config: &Config, place: &Place, x: Value, vectors: Value) -> Value {
        if config.residual_scale == 1.0 {
            let sum = product(b, place.rows, x, &self.weight, Some(vectors));
            return self.with_bias(b, sum);
        }
        let result = self.apply(b, place, x);
        add_scaled(b, vectors, result, config.residual_scale)
    }

    fn with_bias(&self, b: &mut Builder, x: Value) -> Value {
        let Some(bias) = &self.bias else { return x };
        let bias = bias.load(b);
        add_to_rows(b, x, bias)
    }
}

impl Layer {
    /// Declares the weights.
    pub(super) fn declare(b: &mut Builder, file: &GgufFile, config: &Config, index: i64) -> Result<Layer> {
        let name = format!("blk.{index}");
        let part = |part: &str| format!("{name}.{part}");
        let width = config.width;
        let (queries, keys) = (config.heads * config.head_size, config.key_heads * config.head_size);
        Ok(Layer {
            attention_norm: Vector::declare(b, file, &part("attn_norm.weight"), width)?,
            query: Projection::declare(b, (file, config), &part("attn_q"), [queries, width])?,
            key: Projection::declare(b, (file, config), &part("attn_k"), [keys, width])?,
            value: Projection::declare(b, (file, config), &part("attn_v"), [keys, width])?,
            query_norm: Vector::optional(b, file, &part("attn_q_norm.weight"), config.head_size)?,
            key_norm: Vector::optional(b, file, &part("attn_k_norm.weight"), config.head_size)?,
            output: Projection::declare(b, (file, config), &part("attn_output"), [width, queries])?,
            feed_forward_norm: Vector::declare(b, file, &part("ffn_norm.weight"), width)?,
            gate: Projection::declare(b, (file, config), &part("ffn_gate"), [config.hidden, width])?,
            up: Projection::declare(b, (file, config), &part("ffn_up"), [config.hidden, width])?,
            down: Projection::declare(b, (file, config), &part("ffn_down"), [width, config.hidden])?,
            index,
        })
    }

    /// The layer with all matrices opened, see [`Weight::open`].
    pub(super) fn opened(&self, b: &mut Builder) -> Layer {
        let mut layer = self.clone();
        let Layer { query, key, value, output, gate, up, down, .. } = &mut layer;
        for projection in [query, key, value, output, gate, up, down] {
            projection.weight.open(b);
        }
        layer
    }

    /// Computes the next vectors of the tokens, `[rows, width]`, and the next cache.
    pub(super) fn apply(
        &self,
        b: &mut Builder,
        config: &Config,
        (place, angles): (&Place, &Angles),
        cache: (&Cache, &mut Value),
        x: Value,
    ) -> Value {
        b.set_location(Some(&format!("blk.{}", self.index)));
        let normalised = rms_norm(b, x, &self.attention_norm, config.width, config.norm_epsilon);
        let query = self.query.apply(b, place, normalised);
        let query = heads(b, config, place, query, (config.heads, config.head_size), self.query_norm.as_ref());
        let query = angles.rotate(b, query, config.heads, config.head_size);
        let key = self.key.apply(b, place, normalised);
        let key = heads(b, config, place, key, (config.key_heads, config.head_size), self.key_norm.as_ref());
        let key = angles.rotate(b, key, config.key_heads, config.head_size);
        let value = self.value.apply(b, place, normalised);
        let value = heads(b, config, place, value, (config.key_heads, config.head_size), None);
        let (cache, cached) = cache;
        *cached = cache.with(b, place, Part::Keys(self.index), *cached, key);
        *cached = cache.with(b, place, Part::Values(self.index), *cached, value);
        let attended = attend(b, config, place, query, (cache, self.index, *cached));
        let x = self.output.add_to(b, config, place, attended, x);
        let normalised = rms_norm(b, x, &self.feed_forward_norm, config.width, config.norm_epsilon);
        let gate = self.gate.apply(b, place, normalised);
        let up = self.up.apply(b, place, normalised);
        let hidden = gated(b, config.architecture.activation, gate, up);
        self.down.add_to(b, config, place, hidden, x)
    }
}

/// Splits vectors into heads, and normalises those.
fn heads(
    b: &mut Builder,
    config: &Config,
    place: &Place,
    x: Value,
    (heads, size): (i64, i64),
    norm: Option<&Vector>,
) -> Value {
    let extents = [place.rows.extent(), Extent::Constant(heads), Extent::Constant(size)];
    let x = b.expand_shape(x, &[vec![0], vec![1, 2]], &extents);
    norm.map_or(x, |norm| rms_norm(b, x, norm, size, config.norm_epsilon))
}
