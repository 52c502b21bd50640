//! The functions of a module.

use std::borrow::Cow;

use incarnate_bytecode::{DECLARATION, Result};
use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Type, Value};

use super::attention::{Cache, Local, Place};
use super::checkpoint::Checkpoint;
use super::config::Config;
use super::layer::{Call, Layer};
use super::norm::{rms_norm, scaled, soft_capped};
use super::product::{Rows, embedding, product_of_one};
use super::rotary::Angles;
use super::weight::{Parameters, Vector, Weight};

/// A model whose parameters are declared.
struct Model<'a> {
    config: &'a Config,
    embedding: Weight,
    rotary_divisors: Option<Vector>,
    cache: Cache,
    layers: Vec<Layer>,
    norm: Vector,
    /// The weight of the logits, unless it is the embedding.
    output: Option<Weight>,
}

/// Builds the module of a model.
pub(super) fn import(checkpoint: &Checkpoint, config: &Config) -> Result<Builder> {
    let mut b = Builder::new();
    let shape = [config.vocabulary, config.width];
    let mut parameters = Parameters::new(checkpoint, config);
    let of = &mut parameters;
    let output = of.has("output.weight").then(|| Weight::declare(&mut b, of, "output.weight", shape));
    let model = Model {
        config,
        embedding: Weight::declare(&mut b, of, "token_embd.weight", shape)?,
        rotary_divisors: rotary_divisors(&mut b, of)?,
        cache: Cache::declare(&mut b, config),
        layers: (0..config.layers).map(|index| Layer::declare(&mut b, of, index)).collect::<Result<_>>()?,
        norm: Vector::declare(&mut b, of, "output_norm.weight", config.width)?,
        output: output.transpose()?,
    };
    parameters.check()?;
    let scalar = Type::Scalar(Element::I32);
    for (name, tokens) in [("prefill", Type::tensor(&[None], Element::I32)), ("decode", scalar.clone())] {
        let function = b.function(name, &[tokens, scalar.clone(), scalar.clone()]);
        let [tokens, position, slot] = [0, 1, 2].map(|index| function.arguments[index]);
        let logits = model.logits(&mut b, tokens, position, slot);
        let attributes = [
            (DECLARATION, declaration(name, config)),
            ("incarnate.context", config.context.to_string()),
            ("incarnate.slots", config.slots.to_string()),
        ];
        b.end_function(function, &[logits], &[], &attributes);
    }
    Ok(b)
}

/// Declares what frequencies are divided by. Files of LongRoPE have two such vectors: one for the positions that a model was trained with
/// first, one for more.
fn rotary_divisors(b: &mut Builder, of: &mut Parameters<'_>) -> Result<Option<Vector>> {
    const NAMES: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];
    let (config, pairs) = (of.config, of.config.frequencies.rotated / 2);
    let name = match NAMES.iter().any(|name| of.has(name)) {
        false => "rope_freqs.weight",
        true => {
            let [short, long] = NAMES;
            let (used, other) = if config.context > config.original_context { (long, short) } else { (short, long) };
            of.require(used)?;
            of.ignore(other);
            used
        }
    };
    Vector::optional(b, of, name, pairs)
}

/// The names and types of a function's arguments and results.
fn declaration(name: &str, config: &Config) -> String {
    let tokens = if name == "decode" { "%token: i32" } else { "%tokens: tensor<?xi32>" };
    let logits = config.vocabulary;
    format!("sync func @{name}({tokens}, %position: i32, %slot: i32) -> (%logits: tensor<{logits}xf32>)")
}

impl Model<'_> {
    /// Computes the logits of the token behind the last one.
    fn logits(&self, b: &mut Builder, tokens: Value, position: Value, slot: Value) -> Value {
        let (tokens, rows) = match b.rank(tokens) {
            0 => (b.from_elements(&[tokens], &[1]), Rows::One),
            _ => (tokens, Rows::Many(b.dim(tokens, 0))),
        };
        let place = self.place(b, rows, position, slot);
        let config = self.config;
        b.set_location(Some("embedding"));
        let mut x = embedding(b, rows, tokens, &self.embedding, config.embedding_scale);
        let call = self.call(b, place);
        let mut cached = self.cache.load(b);
        let layers: Vec<Cow<'_, Layer>> = match rows {
            Rows::One => self.layers.iter().map(Cow::Borrowed).collect(),
            Rows::Many(_) => self.layers.iter().map(|layer| Cow::Owned(layer.opened(b))).collect(),
        };
        for layer in &layers {
            x = layer.apply(b, &call, (&self.cache, &mut cached), x);
        }
        self.cache.store(b, cached);
        b.set_location(Some("output"));
        let last = match rows {
            Rows::One => x,
            Rows::Many(count) => {
                let one = b.index(1);
                let last = b.subi(count, one);
                let [zero, one, width] = [0, 1, config.width].map(Extent::Constant);
                b.extract_slice(x, &[last.into(), zero], &[one, width], &[one, one], &[])
            }
        };
        let normalised = rms_norm(b, last, &self.norm, config.width, config.norm_epsilon);
        let normalised = b.collapse_shape(normalised, &[vec![0, 1]]);
        let logits = product_of_one(b, normalised, self.output.as_ref().unwrap_or(&self.embedding), None);
        let logits = scaled(b, logits, 1.0 / config.logit_divisor);
        if config.logit_cap == 0.0 {
            return logits;
        }
        b.elementwise(&[logits], Element::F32, |b, x| soft_capped(b, x[0], config.logit_cap))
    }

    /// Computes what all layers share.
    fn call(&self, b: &mut Builder, place: Place) -> Call<'_> {
        let config = self.config;
        let mut angles = |frequencies| {
            let pairs = config.architecture.pairs;
            Angles::new(b, (frequencies, pairs), (place.rows, place.first), self.rotary_divisors.as_ref())
        };
        let all = angles(&config.frequencies);
        let differ = config.window.is_some() && config.local_frequencies != config.frequencies;
        let local = if differ { angles(&config.local_frequencies) } else { all };
        Call { config, place, angles: all, local_angles: local }
    }

    /// Checks that the rows of a call are in the cache.
    fn place(&self, b: &mut Builder, rows: Rows, position: Value, slot: Value) -> Place {
        let config = self.config;
        let (position, slot) = (b.index_cast(position, Element::Index), b.index_cast(slot, Element::Index));
        let count = match rows {
            Rows::One => b.index(1),
            Rows::Many(count) => count,
        };
        let [zero, context, slots] = [0, config.context, config.slots].map(|number| b.index(number));
        let is_slot = b.cmpi(IntPredicate::UnsignedLess, slot, slots);
        b.assert(is_slot, &format!("the slot is not below {}", config.slots));
        let is_position = b.cmpi(IntPredicate::UnsignedLessEqual, position, context);
        b.assert(is_position, &format!("the position is not one of {}", config.context));
        let left = b.subi(context, position);
        let fits = b.cmpi(IntPredicate::UnsignedLessEqual, count, left);
        b.assert(fits, &format!("the tokens do not fit into the context of {} positions", config.context));
        let is_some = b.cmpi(IntPredicate::SignedLess, zero, count);
        b.assert(is_some, "there are no tokens");
        let end = b.addi(position, count);
        let window = config.window.as_ref().map(|window| window.size).filter(|window| *window < config.context);
        let local = window.map(|window| Local::new(b, window, [position, end]));
        Place { rows, slot, first: position, end, local }
    }
}
